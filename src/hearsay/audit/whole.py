"""`hearsay audit`: every attack on a run's student, beside the same attack on a model that is not private.

The reference is trained here to remember: one adapter, several epochs on the rows of a few dozen members, in internal/
and stamped NOT-PRIVATE. (The one that `evaluate` trains sees its rows less than once, so there is little to find.) The
public base model is attacked as well: if it tells members from others, the two differ by more than having been used.

All figures read private text: internal/ only, for the owner's eyes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hearsay import config as configs
from hearsay import lm as models
from hearsay import measure, stages
from hearsay.accounting import identity, statement
from hearsay.accounting.ledger import Ledger
from hearsay.adapter_files import merged
from hearsay.audit import canaries as birds
from hearsay.audit import inversion, shadows, twin
from hearsay.audit.attacks import ATTACKS, attack
from hearsay.audit.scene import Effort, Quiet, Result, Scene, overfit
from hearsay.audit.statistics import Promise
from hearsay.audit.subjects import Cut, read_subjects
from hearsay.config import Config
from hearsay.errors import BadInput
from hearsay.lm import LanguageModel
from hearsay.private.teaching import training_shape
from hearsay.private.training import TrainingShape
from hearsay.reading import Columns, read_rows
from hearsay.run import Run, write_text
from hearsay.stacked import StackedTop
from hearsay.stages import Stages

FILE = "audit.json"
REFERENCE = (
    "not_private is one adapter that was trained for several epochs on the rows of a few of the members, to show that "
    "the attacks can see; control is the public base model"
)


def audit_run(
    run: Run, watch: Any = stages.Watch, *, attacks: tuple[str, ...] = ATTACKS, canaries: bool = False,
    model: str | None = None, effort: Effort | None = None, digits: int = birds.DIGITS,
) -> dict[str, Any]:  # fmt: skip
    """Attacks the run's student, or another model trained on its rows; writes internal/audit.json."""
    with identity.at(run.home):
        return _audit_run(run, watch, attacks, canaries, model, effort or Effort(), digits)


def _audit_run(
    run: Run, watch: Any, attacks: tuple[str, ...], canaries: bool, model: str | None, effort: Effort, digits: int
) -> dict[str, Any]:
    config = configs.parse((run.folder / "config.yaml").read_text(), run.folder)
    if not (run.release / "student").is_dir():
        raise BadInput(f"{run.folder} has no finished student; type `hearsay run CONFIG --out {run.folder}` first")
    if not config.data.holdout:
        raise BadInput("nobody to compare members with: name files of units that were not used in data.holdout")
    flow = Stages(run, watch)
    scene = _scene(run, config, flow, model, effort)
    found = attack(scene, attacks, config)
    if canaries:
        made = twin.make(run, config, watch, digits=digits)
        with flow.start("canaries"):
            for role, lm, promise in (("target", made.student, scene.promise), ("not_private", made.private, None)):
                for name, finding in twin.found(made, lm, promise).items():
                    found.setdefault(name, {})[role] = finding
    body = to_json(found, scene.promise, "student" if model is None else "model")
    if model is None:
        body = together(run.internal / FILE, body)
        write_text(run.internal / FILE, json.dumps(body, indent=1))
    return body


def _scene(run: Run, config: Config, flow: Stages, model: str | None, effort: Effort) -> Scene:
    device = stages.pick_device(config.compute.device)
    data, seed = config.data, config.compute.seed
    said = statement.make(Ledger.open(run.ledger))
    with flow.start("who is attacked"):
        public = models.load(config.model, device=device)
        target = models.load(model or str(run.release / "student"), device=device)
        cut = Cut(config.privacy.unit, data.cap, data.min_tokens, data.max_tokens)
        columns = Columns(text=data.text, user=data.user if config.privacy.unit == "user" else None)
        members = read_subjects(data.private, columns, public, cut, most=effort.units, seed=seed)
        others = read_subjects(data.holdout, columns, public, cut, most=effort.units, seed=seed)
    short, others = ([one.first(effort.rows) for one in side] for side in (members, others))
    scene = Scene(
        target, public, None, short, others, short[: effort.remembered], members[: effort.known],
        Promise(said.epsilon, said.delta) if model is None else None, training_shape(config), effort, seed, flow,
        measure.secrets(config), data.max_tokens,
    )  # fmt: skip
    scene.private = _reference(scene, run.internal, flow)
    return scene


def _reference(scene: Scene, folder: Path, flow: Stages) -> LanguageModel:
    shape, lm = overfit(scene, scene.remembered, scene.effort.epochs), scene.public
    path = folder / f"audit-{len(scene.remembered)}x{shape.steps}-NOT-PRIVATE.safetensors"

    def compute(progress: stages.Progress) -> Any:
        return shadows.train_on(lm, [scene.remembered], shape, progress=progress)[0]

    flat = flow.tensor("reference to break", path, compute)
    return merged(lm, StackedTop(lm.model, shape.adapter), flat)


def to_json(found: Result, promise: Promise | None, target: str) -> dict[str, Any]:
    """The target's figures stand at the top of each attack; the same attack's on other models beside them."""
    attacks = {}
    for name, roles in found.items():
        own = roles.get("target")
        rest = {role: finding.to_json() for role, finding in roles.items() if role != "target"}
        attacks[name] = {**(own.to_json() if own else {"ok": True, "look": False}), **rest}
    return verdict(
        {
            "target": target,
            "epsilon_claimed": promise.epsilon if promise else None,
            "delta": promise.delta if promise else None,
            "auc_allowed": promise.highest_auc if promise else None,
            "reference": REFERENCE,
            "attacks": attacks,
        }
    )


def together(path: Path, body: dict[str, Any]) -> dict[str, Any]:
    """With what other attacks found on the same promise before: the canary twin is not repeated with every audit."""
    old = json.loads(path.read_text()) if path.exists() else {}
    if old.get("epsilon_claimed") != body["epsilon_claimed"]:
        return body
    return verdict({**body, "attacks": {**old.get("attacks", {}), **body["attacks"]}})


def verdict(body: dict[str, Any]) -> dict[str, Any]:
    attacks = body["attacks"]
    look = [name for name, found in attacks.items() if found["look"]]
    return {**body, "look": look, "ok": all(found["ok"] for found in attacks.values())}


# --- any model, without a run -----------------------------------------------------------------------------------------


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
    model: str, base: str | None, files: Files, promised: tuple[float, float] | None, watch: Any = stages.Watch, *,
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
        read_subjects(paths, files.columns, target, cut, most=effort.units, seed=seed)
        for paths in (files.members, files.others)
    )
    promise = Promise(*promised) if promised else None
    shape = TrainingShape(row_tokens=cut.max_tokens + 1) if base else None
    scene = Scene(
        target, public, None, members, others, members[: effort.remembered], [], promise, shape, effort, seed,
        Quiet(watch), [], cut.max_tokens,
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
