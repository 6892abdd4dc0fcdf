"""`hearsay evaluate`: the student beside its references, on private text that nobody trained on.

Everything here reads private hold-out text, so it goes to internal/ and is for the owner's eyes.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file

from hearsay import config as configs
from hearsay import lm as models
from hearsay import stages
from hearsay.accounting import identity
from hearsay.accounting.ledger import Ledger
from hearsay.adapter_files import merged
from hearsay.baselines.unprotected import FILE as PRIVATE_FILE
from hearsay.baselines.unprotected import Training, blacklist, known_secrets, private_adapter
from hearsay.config import Budgeted, Config
from hearsay.disk import write_text
from hearsay.errors import BadInput
from hearsay.evaluate.phrases import Counted, phrase_table, reach, shards
from hearsay.evaluate.text import Scores, gap_closed, score
from hearsay.lm import LanguageModel
from hearsay.private.shards import is_finished, open_partition
from hearsay.private.teaching import partition_settings, refuse_held_out, training_shape
from hearsay.private.units import by_unit
from hearsay.reading import Columns, has_columns, read_rows
from hearsay.run import Run
from hearsay.stacked import StackedTop
from hearsay.stages import Stages

PRIVATE_STEPS = Training().steps
FILE = "evaluation.json"
AT_ONCE = 1024  # held-out rows tokenised at once


def evaluate(
    run: Run,
    watch: Any = stages.Watch,
    *,
    completions: int = 200,
    rows: int = 2000,
    steps: int = PRIVATE_STEPS,
    holdout: list[Path] | None = None,
) -> dict[str, Any]:
    """Perplexity, BLEU and leak rate of public, public_pseudo, student and private; and the share of the gap closed."""
    with identity.at(run.home):
        return _evaluate(run, watch, completions, rows, steps, holdout)


def _evaluate(
    run: Run, watch: Any, completions: int, rows: int, steps: int, holdout: list[Path] | None
) -> dict[str, Any]:
    config = configs.parse((run.folder / "config.yaml").read_text(), run.folder)
    if not (run.release / "student").is_dir() and not unprotected(config, run):
        raise BadInput(f"{run.folder} has no finished student; type `hearsay run CONFIG --out {run.folder}` first")
    if holdout:
        config = config.model_copy(update={"data": config.data.model_copy(update={"holdout": holdout})})
        if run.private.exists():
            refuse_held_out(config)
    if not config.data.holdout:
        raise BadInput("nothing to measure on: name files of held-out units with --holdout")
    flow = Stages(run, watch)
    device = stages.pick_device(config.compute.device)
    base = models.load(config.model, device=device)
    held_out = read_held_out(config, base, rows)
    scores: dict[str, Scores] = {}
    for name, lm in _models(config, run, base, flow, steps):
        with flow.start(f"measure {name}"):
            scores[name] = score(
                lm, held_out.rows, prefix=config.data.prefix_tokens, max_tokens=config.data.max_tokens,
                secrets=secrets(config), completions=completions, seed=config.compute.seed,
                people=held_out.people, rewrite=_rewrite(config, name),
            )  # fmt: skip
    found: dict[str, Any] = {name: one.to_json() for name, one in scores.items()}
    found |= {} if "private" in found else _kept_reference(run, found)
    found["gap_closed"] = gap_closed({name: one["ppl"] for name, one in found.items()}, own_name(config))
    found["held_out_rows"] = len(held_out.rows)
    found["held_out_people"] = len(set(held_out.people)) if held_out.people else None
    if secrets(config):
        found["phrases"] = _phrases(config, run, base)
    write_text(run.internal / FILE, json.dumps(found, indent=1))
    return found


def _models(config: Config, run: Run, base: LanguageModel, flow: Stages, steps: int) -> Any:
    """(name, model) one at a time; the private one is trained here and kept in internal/, stamped."""
    top = StackedTop(base.model, training_shape(config).adapter)
    warm = load_file(run.release / "stages" / "warm-up.safetensors")["value"]
    yield "public", base
    yield "public_pseudo", merged(base, top, warm)
    own = own_name(config)
    if own not in ("public", "public_pseudo", "private", "blacklist"):
        yield own, models.load(str(run.release / "student"), device=base.device)
    if (run.internal / PRIVATE_FILE).exists() or is_finished(run.private / "shards"):
        flat = private_adapter(
            run, flow, base, lambda: _partition(config, run, base), training_shape(config), Training(steps=steps)
        )
        private = merged(base, top, flat)
        yield "private", private
        if own == "blacklist":
            yield own, private


def _kept_reference(run: Run, found: dict[str, Any]) -> dict[str, Any]:
    """The private reference as it was measured before it was forgotten, if on this very text."""
    path = run.internal / FILE
    before = json.loads(path.read_text()) if path.exists() else {}
    same = before.get("public", {}).get("tokens") == found["public"]["tokens"]
    alike = same and math.isclose(before["public"]["ppl"], found["public"]["ppl"], rel_tol=1e-4)
    return {"private": before["private"]} if alike and "private" in before else {}


def own_name(config: Config) -> str:
    """What this run's model is called in tables: a baseline by its method."""
    return config.baseline.method if config.baseline else "student"


def unprotected(config: Config, run: Run) -> bool:
    """Whether this run has made a model that is NOT PRIVATE, which lies in internal/."""
    return config.baseline is not None and not config.baseline.protects and (run.internal / PRIVATE_FILE).exists()


def _rewrite(config: Config, name: str) -> Callable[[str], str]:
    if config.baseline is None or name != "blacklist":
        return lambda text: text
    return blacklist(known_secrets(secrets(config), config.baseline.known))


def _partition(config: Config, run: Run, base: LanguageModel) -> Any:
    key = identity.derived_key("partition", config.privacy.corpus)
    return open_partition(run.private / "shards", partition_settings(config, base), key)


def _phrases(config: Config, run: Run, base: LanguageModel) -> dict[str, Any] | None:
    if not is_finished(run.private / "shards") or config.baseline is not None:  # phrases are counted in teachers
        return None
    ledger = Ledger.open(run.ledger)
    if ledger.budget.filter == "renyi":  # has no figure for several units together
        return None
    partition = _partition(config, run, base)
    # Other runs have other teachers, and updates none: there two units of one teacher here are two.
    counted: Counted = "units"
    if not config.share_of_updates and all(charge.run == run.id for charge in ledger.charges()):
        counted = "teachers"
    holders = shards(partition) if counted == "teachers" else (sentences for _, sentences in by_unit(partition))
    return phrase_table(reach(base, holders, secrets(config)), ledger, counted).to_json()


def secrets(config: Budgeted) -> list[str]:
    path = config.privacy.secrets
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()] if path else []


@dataclass(frozen=True)
class HeldOut:
    """Rows of tokens that nobody trained on, and who wrote each: none where the files do not say, or where a row is
    what is protected.
    """

    rows: list[list[int]]
    people: list[str] | None


def read_held_out(config: Config, lm: LanguageModel, most: int) -> HeldOut:
    """So many long enough rows from all over the files, the same ones each time: the first may all be one person's."""
    data = config.data
    named = config.privacy.unit == "user" and has_columns(data.holdout, Columns(text=data.text, user=data.user))
    held_out = list(read_rows(data.holdout, Columns(text=data.text, user=data.user if named else None)))
    order = np.random.default_rng(0).permutation(len(held_out))
    found: list[tuple[list[int], str]] = []
    for first in range(0, len(order), AT_ONCE):
        some = [held_out[place] for place in order[first : first + AT_ONCE]]
        encoded = models.encode(lm, [row.text for row in some], data.max_tokens)
        found += [(tokens, row.user or "") for tokens, row in zip(encoded, some, strict=True)
                  if len(tokens) >= data.min_tokens]  # fmt: skip
        if len(found) >= most:
            break
    people = [who for _, who in found[:most]]
    return HeldOut([tokens for tokens, _ in found[:most]], people if named else None)
