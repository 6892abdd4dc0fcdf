"""One cell of a study: a method at a budget, and what was measured of its student on held-out text.

Cells share a panel's model, shards and warm-up, and those by answers its teachers; their noise, ledger and student are
their own. The references are the panel's. What restarts teachers or has a trainer of its own (several rounds, mixed,
DP-SGD by Opacus) is the product's own way from the warm-up on. Figures are the study's, not a release.
"""

import hashlib
import json
import math
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from studies import references
from studies.panel import Panel, Wanted, at_desk
from torch import Tensor

from hearsay import charging, measure, pipeline, run, updating
from hearsay import lm as models
from hearsay.accounting import identity, plan
from hearsay.accounting.bounds import STEPS
from hearsay.accounting.ledger import Ledger
from hearsay.accounting.verify import verify
from hearsay.adapter_files import merged
from hearsay.config import Config
from hearsay.evaluate.text import gap_closed
from hearsay.lm import LanguageModel
from hearsay.public.questions import Questions
from hearsay.public.student import Answered
from hearsay.release import aggregate
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum
from hearsay.stages import Stages, Watch


def kind(settings: dict[str, Any]) -> str:
    ask = settings.get("ask", {})
    if settings.get("baseline"):
        return "reference" if settings["baseline"]["method"] in references.METHODS else "product"
    if ask.get("recipe") == "updates":
        return "updates"
    return "product" if ask.get("recipe") == "mixed" or ask.get("rounds", 1) > 1 else "answers"


def wanted(settings: dict[str, Any]) -> Wanted:
    """What an answers cell asks of the panel."""
    ask = settings["ask"]
    shape: aggregate.Shape = "root"
    if ask["recipe"] == "seqpate":
        shape = "vote" if ask.get("aggregate") == "vote" else "probability"
    return Wanted(ask.get("selection", "all"), shape, ask["candidates"], ask.get("top_p"), ask.get("clip"))


def checked(settings: dict[str, Any]) -> Config:
    """A filter that keeps one token is the one setting whose range a study exceeds: the paper's k = 1."""
    ask = settings.get("ask", {})
    return Config.model_validate({**settings, "ask": {**ask, "candidates": max(2, ask.get("candidates", 2))}})


def answers(panel: Panel, settings: dict[str, Any], here: run.Run, *, noiseless: bool) -> tuple[Tensor, dict[str, Any]]:
    """The student [D], and public facts of the noise. `noiseless` shows what noise costs; such a one is NOT PRIVATE."""
    config, asked = checked(settings), wanted(settings)
    questions, total = panel.answerable(asked, config.ask.questions)
    noisy, deviation = total.total.double(), 0.0
    if not noiseless:
        noisy, deviation = _through_the_door(panel, config, here, asked, questions, total)
    mean = noisy / STEPS / config.teachers.count
    if asked.clip is not None:
        mean = panel.before(asked) + config.ask.stride * mean
    facts = {
        "questions": len(questions),
        "candidates": float(questions.valid.sum(1).double().mean()),
        "noise_std_mean": deviation / config.teachers.count,
        "negative": float((mean[:, :-1] < 0)[questions.valid].double().mean()),
    }
    work = at_desk(panel, config, here, stages=Stages(here, Watch))
    return pipeline.taught(work, panel.warm, Answered(questions, mean), 0), facts


def _through_the_door(
    panel: Panel, config: Config, here: run.Run, asked: Wanted, questions: Questions, total: BoundedSum
) -> tuple[Tensor, float]:
    """The noisy sum, charged to the cell's own ledger, and the standard deviation of its noise."""
    door = _door(panel, config, here)
    share, kind_of_noise = charging.share_of_a_round(config, door.ledger), config.ask.noise
    scale = plan.scale_for(asked.bound, len(questions), share, kind_of_noise)
    question = Question(
        name=questions.name(here.id, asked, scale), purpose="a cell of a study", bound=asked.bound,
        questions=len(questions), width=questions.width, scale=scale, noise=kind_of_noise,
    )  # fmt: skip
    noisy = torch.from_numpy(door.ask(question, lambda: total)).double()
    return noisy, float(scale) / STEPS * (math.sqrt(2) if kind_of_noise == "laplace" else 1)


def updates(panel: Panel, settings: dict[str, Any], here: run.Run) -> tuple[Tensor, dict[str, Any]]:
    """Rounds of updates on the panel's shards. Units are packed once for all cells that pack them alike."""
    config = checked(settings)
    alike = [config.updates.rows, config.update_pages, config.updates.local_steps, config.teachers.row_tokens]
    packed = panel.work.run.private / f"units-{hashlib.sha256(repr(alike).encode()).hexdigest()[:8]}"
    own = here.private / "units"
    if packed.exists():
        own.symlink_to(packed)
    door = _door(panel, config, here, charging.committed(config, len(panel.work.stack.top.layout.outputs())))
    work = at_desk(panel, config, here, ledger=door.ledger, door=door, stages=Stages(here, Watch))
    student = updating.moved(work, panel.warm)
    if own.exists() and not own.is_symlink():
        own.rename(packed)
    return student, {"questions": config.updates.rounds}


def _door(panel: Panel, config: Config, here: run.Run, schedule: Any = ()) -> Door:
    with identity.at(panel.work.run.home):
        ledger = charging.open_ledger(config, here.ledger, research=True, schedule=schedule)
    ledger.register(here.id, here.folder)
    return Door(ledger, here.id, here.folder)


def result(panel: Panel, settings: dict[str, Any], folder: Path, wish: dict[str, Any]) -> dict[str, Any]:
    """Runs the cell and measures it; only its ledger stays."""
    began, how, config = (
        time.monotonic(),
        kind(settings),
        checked({k: v for k, v in settings.items() if k != "noiseless"}),
    )
    wish = {**references.MEASURE, **wish}
    beside = references.measured(panel, wish)
    if how == "reference":
        found = references.reference(panel, settings["baseline"], wish)
    elif how == "product":
        found = _carried_out(panel, settings, folder, wish)
    else:
        found = _asked(panel, dict(settings), folder, wish)
    found |= {"ensemble": beside["ensemble"]["ppl"]} if "ensemble" in beside else {}
    found["per_teacher"] = config.data.sentences / config.teachers.count
    ppl = {one: body["ppl"] for one, body in beside.items()} | {"student": found["ppl"]}
    plain = {one: {k: v for k, v in body.items() if k not in ("texts", "by_person")} for one, body in beside.items()}
    return {**found, "gap_closed": gap_closed(ppl), "references": plain, "seconds": round(time.monotonic() - began, 1)}


def _asked(panel: Panel, settings: dict[str, Any], folder: Path, wish: dict[str, Any]) -> dict[str, Any]:
    noiseless = bool(settings.pop("noiseless", False))
    shutil.rmtree(folder, ignore_errors=True)
    here = run.begin(folder, json.dumps(settings, default=str), folder / "ledger.sqlite", folder / "home")
    if kind(settings) == "updates":
        student, facts = updates(panel, settings, here)
    else:
        student, facts = answers(panel, settings, here, noiseless=noiseless)
    found = facts | references.scored(panel, merged(panel.work.lm, panel.work.stack.top, student), wish)
    found |= {"NOT PRIVATE": True} if noiseless else _account(here.ledger)
    for left in ("private", "release", "internal"):
        shutil.rmtree(folder / left)
    return found


def _account(path: Path) -> dict[str, Any]:
    """From the ledger, verified by the second accountant: what the cell spent."""
    ledger = Ledger.open(path)
    verdict = verify(ledger)
    ledger.close()
    return {"epsilon": verdict.epsilon, "ledger": "intact" if verdict.ok else "BROKEN"}


def _carried_out(panel: Panel, settings: dict[str, Any], folder: Path, wish: dict[str, Any]) -> dict[str, Any]:
    """As the product does it, at the panel's desk; what it released is measured like every other student."""
    config = checked(settings)
    shutil.rmtree(folder, ignore_errors=True)
    here = run.begin(folder, json.dumps(settings, default=str), folder / "ledger.sqlite", folder / "home")
    door = _door(panel, config, here, charging.committed(config, len(panel.work.stack.top.layout.outputs())))
    work = at_desk(panel, config, here, ledger=door.ledger, door=door, stages=Stages(here, Watch))
    pipeline.carry_out(work, panel.warm)
    base = panel.work.lm
    student = models.load(str(here.release / "student"), device=base.device, dtype=base.model.dtype)
    found = references.scored(panel, student, wish) | _account(here.ledger)
    if config.share_of_updates:
        moved = merged(base, work.stack.top, load_file(work.file("updates"))["value"])
        found["by_stage"] = {"updates": _perplexity(panel, moved), "student": _perplexity(panel, student)}
    shutil.rmtree(folder)
    return found | {"stage_seconds": {name: round(spent, 1) for name, spent in work.stages.seconds.items()}}


def _perplexity(panel: Panel, speaker: LanguageModel) -> float:
    """On all held-out rows."""
    config = panel.work.config
    rows = measure.read_held_out(config, panel.work.lm, sys.maxsize).rows
    nll, tokens = models.token_nll(speaker, rows, config.data.prefix_tokens)
    return math.exp(nll / tokens)
