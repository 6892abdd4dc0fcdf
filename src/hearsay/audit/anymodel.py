"""Attacks on any causal model or text classifier, given a file of members and one of others, without a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearsay import lm as models
from hearsay import stages
from hearsay.audit import ATTACKS, inversion
from hearsay.audit.attacks import attack
from hearsay.audit.results import to_json
from hearsay.audit.scene import Effort, Quiet, Scene
from hearsay.audit.statistics import Promise
from hearsay.audit.subjects import Cut, read_subjects
from hearsay.errors import BadInput
from hearsay.private.training import TrainingShape
from hearsay.reading import Columns, read_rows


@dataclass(frozen=True)
class Files:
    """Rows that a model was trained on, like rows that it was not, and their columns."""

    members: list[Path]
    others: list[Path]
    text: str
    user: str | None

    @property
    def columns(self) -> Columns:
        return Columns(text=self.text, user=self.user)

    def cut(self, rows: int) -> Cut:
        return Cut("user" if self.user else "record", cap=rows, min_tokens=8, max_tokens=128)


def audit_model(
    model: str, base: str | None, files: Files, promise: Promise | None, watch: Any = stages.Watch, *,
    attacks: tuple[str, ...] = ATTACKS, effort: Effort | None = None, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Any causal model of the Hub or a folder. Without a base model there is nothing to calibrate by or start from."""
    effort = effort or Effort()
    device = stages.pick_device("auto")
    target = models.load(model, device=device)
    public = models.load(base, device=device) if base else target
    if len(public.tokenizer) != len(target.tokenizer):
        raise BadInput(f"{base} has another vocabulary than {model}; name the model that it was trained from")
    cut = files.cut(effort.rows)
    members, others = (
        read_subjects(paths, files.columns, target, cut, most=effort.units, seed=seed, besides=besides)
        for paths, besides in ((files.members, None), (files.others, files.members))
    )
    shape = TrainingShape(row_tokens=cut.max_tokens + 1) if base else None
    scene = Scene(
        target, public, None, members, others, members[: effort.remembered], [], promise, shape, effort, seed,
        Quiet(watch), [], cut.max_tokens, cut.max_tokens // 4,
    )  # fmt: skip
    wanted = tuple(name for name in attacks if name not in ("mechanism", "linkage"))
    found = attack(scene, wanted)
    if base is None:
        found = {name: roles for name, roles in found.items() if "calibrated" not in name}
    return to_json(found, promise, "model")


def audit_classifier(folder: str, files: Files) -> dict[str, Any]:
    """White-box inversion of a sequence classifier."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    try:
        model = AutoModelForSequenceClassification.from_pretrained(folder, trust_remote_code=False).eval()
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"got {folder}, need a folder or hub id of a text classifier with its tokenizer") from error
    used, other = (
        [
            tokenizer(row.text, truncation=True, add_special_tokens=False)["input_ids"]
            for row in read_rows(paths, files.columns)
        ]
        for paths in (files.members, files.others)
    )
    size = min(len(used), len(other))  # as many texts on both sides, or the larger side has more words of its own
    finding = inversion.finding(inversion.invert(model, model.config.num_labels, used[:size], other[:size]))
    return to_json({"inversion": {"target": finding}}, None, "classifier")
