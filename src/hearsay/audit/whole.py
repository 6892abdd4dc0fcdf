"""`hearsay audit`: every attack on a run's student, beside the same attack on a model that is not private.

The reference is trained here to remember: one adapter, several epochs on the rows of a few dozen members, in internal/
and stamped NOT-PRIVATE. (The one that `evaluate` trains sees its rows less than once, so there is little to find.) The
public base model is attacked as well: if it tells members from others, the two differ by more than having been used.

All figures read private text: internal/ only, for the owner's eyes.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hearsay import config as configs
from hearsay import lm as models
from hearsay import measure, stages
from hearsay.accounting import identity, statement
from hearsay.accounting.ledger import Ledger
from hearsay.adapter_files import merged
from hearsay.audit import ATTACKS, shadows, twin
from hearsay.audit import canaries as birds
from hearsay.audit.attacks import attack
from hearsay.audit.results import FILE, to_json, together
from hearsay.audit.scene import Effort, Result, Scene, overfit
from hearsay.audit.statistics import Promise
from hearsay.audit.subjects import Cut, read_subjects
from hearsay.config import Config
from hearsay.disk import write_text
from hearsay.errors import BadInput
from hearsay.lm import LanguageModel
from hearsay.private.teaching import training_shape
from hearsay.reading import Columns
from hearsay.run import RECEIPT, Run
from hearsay.stacked import StackedTop
from hearsay.stages import Stages

KNOWN_ROWS = 40  # of a person in the auxiliary table and in the anonymised original, together


def audit_run(
    run: Run, watch: Any = stages.Watch, *, attacks: tuple[str, ...] = ATTACKS, canaries: bool = False,
    model: str | None = None, promise: Promise | None = None, effort: Effort | None = None, digits: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Attacks the run's student and writes internal/audit.json; or another model trained on its rows, with what that
    promises.
    """
    if configs.task_of(run.folder / "config.yaml") == "augment":
        raise BadInput(
            f"{run.folder} made a labelled corpus, no language model; invert a classifier that was trained on it with "
            "--classifier, --members and --non-members"
        )
    config = configs.parse((run.folder / "config.yaml").read_text(), run.folder)
    _check(run, config)
    flow = Stages(run, watch)
    with identity.at(run.home):
        scene = _scene(run, config, flow, effort or Effort(), model, promise)
        # Nothing of another model came through the door, nor of DP-SGD, whose noise is Opacus's.
        ours = model is None and config.baseline is None
        own = tuple(name for name in attacks if name != "mechanism" or ours)
        found = attack(scene, own, config)
        body = _kept(run, found, scene, model)
        if canaries:
            made = twin.make(run, config, watch, digits=digits or birds.DIGITS)
            body = _kept(run, found | _in_the_twin(made, scene), scene, model)
    return body


def _kept(run: Run, found: Result, scene: Scene, model: str | None) -> dict[str, Any]:
    """As JSON; what concerns the run's own student is written down, before a twin that takes long is begun."""
    if model is not None:
        return to_json(found, scene.promise, "model")
    body = together(run.internal / FILE, to_json(found, scene.promise, "student"))
    write_text(run.internal / FILE, json.dumps(body, indent=1))
    return body


def _in_the_twin(made: twin.Twin, scene: Scene) -> Result:
    found: Result = {}
    with scene.flow.start("canaries"):
        for role, lm, promise in (("target", made.student, scene.promise), ("not_private", made.private, None)):
            for name, finding in twin.found(made, lm, promise).items():
                found.setdefault(name, {})[role] = finding
    return found


def _check(run: Run, config: Config) -> None:
    if measure.unprotected(config, run):
        raise BadInput(
            f"the model of {run.folder} is NOT PRIVATE: it promises nothing that could be broken; audit a run that "
            "does, where a model like this one is attacked as well, to show what the attacks see"
        )
    if not (run.release / "student").is_dir():
        raise BadInput(f"{run.folder} has no finished student; type `hearsay run CONFIG --out {run.folder}` first")
    if (run.folder / RECEIPT).exists():  # a reference trained now would make the receipt a lie
        raise BadInput(
            f"the private part of {run.folder} was destroyed; audit before `hearsay forget`, or attack the student "
            "with --model, --members and --non-members"
        )
    if not config.data.holdout:
        raise BadInput("nobody to compare members with: name files of units that were not used in data.holdout")


def _scene(
    run: Run, config: Config, flow: Stages, effort: Effort, model: str | None = None, promise: Promise | None = None
) -> Scene:
    device = stages.pick_device(config.compute.device)
    data, seed = config.data, config.compute.seed
    said = statement.make(Ledger.open(run.ledger))
    with flow.start("who is attacked"):
        public = models.load(config.model, device=device)
        target = models.load(model or str(run.release / "student"), device=device)
        cut = Cut(config.privacy.unit, data.cap, data.min_tokens, data.max_tokens)
        columns = Columns(text=data.text, user=data.user if config.privacy.unit == "user" else None)
        members = read_subjects(data.private, columns, public, cut, most=effort.units, seed=seed)
        others = read_subjects(data.holdout, columns, public, cut, most=effort.units, seed=seed, besides=data.private)
        whole_texts = replace(cut, cap=KNOWN_ROWS, max_tokens=10_000)  # what is anonymised is not cut
        known = read_subjects(data.private, columns, public, whole_texts, most=effort.known, seed=seed)
    short, others = ([one.some(effort.rows) for one in side] for side in (members, others))
    scene = Scene(
        target, public, None, short, others, short[: effort.remembered], known,
        promise if model else Promise(said.epsilon, said.delta), training_shape(config), effort, seed, flow,
        measure.secrets(config), data.max_tokens, data.mean_tokens,
    )  # fmt: skip
    scene.private = _reference(scene, run.internal, flow)
    return scene


def _reference(scene: Scene, folder: Path, flow: Stages) -> LanguageModel:
    shape, lm = overfit(scene, scene.effort.epochs), scene.public
    path = folder / f"audit-{scene.effort.remembered}x{shape.steps}-NOT-PRIVATE.safetensors"

    def compute(progress: stages.Progress) -> Any:
        return shadows.train_on(lm, [scene.remembered], shape, progress=progress)[0]

    flat = flow.tensor("reference to break", path, compute)
    return merged(lm, StackedTop(lm.model, shape.adapter), flat)
