"""How long a run will take and what memory it needs: counted work, times what this machine was measured to take for it.

The work follows from public settings alone: so many launches of so many teachers, so many sentences to complete. What
each costs is measured once by `hearsay doctor CONFIG --calibrate` (calibrate.py) and kept in the user's cache: public
numbers about a machine and a model's shape. Nothing here imports torch, so `hearsay plan` stays quick.
"""

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hearsay.config import Config
from hearsay.disk import write_text
from hearsay.errors import BadInput

# Three numbers of modules that import torch (a test compares).
CHECKS = 12  # how often a student looks at its held-out answers, as in public/student.py
BASIS = 600  # sentences that the adapters' inner halves are taken from, as in public/basis.py
PARCELS = 128  # of pseudo text that weigh an update's coordinates, as in public/weights.py
FORMAT = 2  # of what is kept of a calibration; others are measured anew
_GIB = 2**30


@dataclass(frozen=True)
class Calibration:
    """One machine, one model's shape: seconds for a unit of each kind of work, and what those units are."""

    device: str
    block: int  # teachers a launch
    update_block: int  # units a launch
    launch_tokens: int  # teacher-tokens a launch when asking
    width: float  # tokens of an asked row, on average
    completions: int  # sentences completed at once
    questions: int  # that were asked
    peak_gib: float
    seconds: dict[str, float]
    once: dict[str, float]  # more, for the first unit of a kind


@dataclass(frozen=True)
class Forecast:
    stages: dict[str, float]  # seconds, by the names that progress.jsonl uses, all rounds together
    memory_gib: float

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())


def training_steps(config: Config) -> int:
    """Of each teacher. From declared numbers: what a shard really holds must not change what is done."""
    teachers, data = config.teachers, config.data
    tokens = data.sentences / teachers.count * (data.mean_tokens + 1)
    return max(1, math.ceil(teachers.epochs * tokens / (teachers.rows * teachers.row_tokens)))


def training_launches(teachers: int, block: int, steps: int) -> int:
    return -(-teachers // block) * steps


def asking_launches(teachers: int, block: int, sentences: int, width: float, launch_tokens: int) -> int:
    """Rows of one width, as many a launch as fit; each block of teachers is asked about all of them."""
    rows = max(1, int(launch_tokens // (block * width)))
    return -(-teachers // block) * -(-sentences // rows)


def update_launches(units: int, rate: float, block: int) -> int:
    """Of one round, on average over who takes part."""
    return math.ceil(units * rate / block)


def work(config: Config, found: Calibration) -> dict[str, dict[str, float]]:
    """For each stage, how many units of which work."""
    ask, student, rounds = config.ask, config.student, config.rounds_of_answers
    basis = min(BASIS, student.pseudo) if config.adapter.basis == "public" else 0
    stages = {
        "model": {"load": 1.0},
        "shards": {"row": float(config.data.sentences)},
        "pseudo text": {"completion": _batches(student.pseudo, found)},
        "warm-up": {"warm-up step": float(student.warm_up), "basis": float(basis)},
    }
    if config.share_of_updates:
        launches = update_launches(config.data.units, float(config.update_rate), found.update_block)
        done = config.updates.rounds
        stages["updates"] = {
            "update": float(done * launches), "round": float(done), "unit": float(config.data.units),
            "parcel": float(min(PARCELS, -(-student.pseudo // config.parcel))) * (config.update_weights == "public"),
        }  # fmt: skip
    if rounds:
        stages["questions"] = {
            "completion": rounds * _batches(ask.sentences, found), "question": float(rounds * ask.questions),
        }  # fmt: skip
        launches = training_launches(config.teachers.count, found.block, training_steps(config))
        stages["teachers"] = {"training": float(rounds * launches)}
        stages["answers"] = {"asking": float(rounds * _asked(config, found))}
        held_out = CHECKS * ask.holdout * ask.questions
        stages["student"] = {"student step": float(rounds * student.steps), "question": rounds * held_out}
    return stages


def _batches(sentences: int, found: Calibration) -> float:
    return max(1.0, sentences / found.completions)


def _asked(config: Config, found: Calibration) -> int:
    """A quantile is one more pass over the teachers; with a clip a block of untrained ones is asked, too."""
    ask, block = config.ask, found.block
    passes = 2 if ask.clip == "quantile" else 1
    teachers = config.teachers.count * passes + (block if ask.clip is not None else 0)
    return asking_launches(teachers, block, ask.sentences, found.width, found.launch_tokens)


def predict(config: Config, found: Calibration) -> Forecast:
    stages, first = dict[str, float](), dict(found.once)
    for stage, parts in work(config, found).items():
        done = {kind: count for kind, count in parts.items() if count}
        stages[stage] = sum(count * found.seconds[kind] + first.pop(kind, 0.0) for kind, count in done.items())
    more = answer_bytes(config, found.block, config.ask.questions) - answer_bytes(config, found.block, found.questions)
    return Forecast(stages, found.peak_gib + max(0, more) * bool(config.rounds_of_answers) / _GIB)


def answer_bytes(config: Config, block: int, questions: int) -> int:
    """One block's logits and its vectors on the way to the grid (float64 and integers): what grows with questions."""
    ask = config.ask
    return block * questions * (8 * (ask.candidates + ask.tail) + 5 * 8 * (ask.candidates + 1))


# The cache


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearsay" / "rates.json"


def key(config: Config) -> str:
    """Of all that changes what a unit of work costs; how many units there are does not."""
    data, teachers, updates, ask = config.data, config.teachers, config.updates, config.ask
    shapes = (
        FORMAT, config.model, config.adapter.model_dump(), config.compute.model_dump(exclude={"seed"}),
        config.student.batch,
        data.prefix_tokens, data.min_tokens, data.max_tokens, teachers.rows, teachers.row_tokens, updates.rows,
        updates.local_steps, ask.candidates, ask.tail, ask.selection, config.share_of_updates > 0,
        config.rounds_of_answers > 0, config.parcel,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(shapes, default=str).encode()).hexdigest()[:16]


def kept(config: Config) -> Calibration | None:
    body = _known().get(key(config))
    return None if body is None else Calibration(**body)


def keep(config: Config, found: Calibration) -> Path:
    path = cache()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(_known() | {key(config): asdict(found)}, indent=1))
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}; name a writable folder in XDG_CACHE_HOME") from error
    return path


def _known() -> dict[str, Any]:
    """A cache that cannot be read is as good as none: it is written anew."""
    try:
        found = json.loads(cache().read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
