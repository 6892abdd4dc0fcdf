"""A rehearsal: every method tried on public text that plays the private one, the same number of times, all recorded.

    python studies/rehearse.py studies/rehearse-airline.yaml --data DATA --model MODEL --out DIR [--minutes 9]

Settings chosen on private text would have to be paid for; chosen here they are free and the same for all methods. A
method's grid names settings by dotted path; `trials` of its combinations are drawn (by a fixed seed), run as cells of
the product, and judged by perplexity on held-out public text. A finished trial is not redone; processes with different
--only may share DIR.

The public corpus is smaller, so everything shrinks with it, by r = its units over the private ones': teachers and
batches (as much text a teacher, the same sampling rate), and the budget so that noise keeps its size beside the signal:
mu / r for Gaussians; for Poisson samples the epsilon at which the noise multiplier is r times the real one (of sampled
updates that leave a part to answers too, whose own noise is then nearly to scale).
"""

import argparse
import itertools
import json
import random
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from hearsay import charging
from hearsay.accounting import gaussian, sampled
from hearsay.accounting.budget import main_delta
from hearsay.accounting.events import SubsampledGaussian
from hearsay.config import Config
from hearsay.disk import write_text
from hearsay.errors import ConfigError

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import agenda, corpora
from studies.run import arguments, cell, device, merge


def main() -> None:
    given = arguments(__doc__)
    rehearse(yaml.safe_load(given.study.read_text()), given)


def rehearse(study: dict[str, Any], given: argparse.Namespace) -> dict[str, Any]:
    files = agenda.laid_out(corpora.REHEARSE[study["corpus"]], given.data, given.out / "corpus")
    kept = given.out / f"{given.study.stem}-trials"
    kept.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + 60 * given.minutes
    for number, (name, method) in itertools.product(range(study["trials"]), study["methods"].items()):  # in turn
        place = kept / f"{name}-{number}.json"
        if place.exists() or (given.only and name not in given.only) or time.monotonic() > ends:
            continue
        trial = drawn(method.get("grid", {}), study["trials"])[number]
        real = merge(merge(study["base"], method.get("settings", {})), nested(trial))
        measured = cell(f"{name}-{number}", shrunk(real, study["units"], files), files, given)
        told = {"settings": trial, "ppl": measured["ppl"], "seconds": measured["seconds"]["total"], "device": device()}
        write_text(place, json.dumps(told))
        print(name, json.dumps(told), flush=True)
    return collected(study, given.out / f"{given.study.stem}.json", kept)


def collected(study: dict[str, Any], path: Path, kept: Path) -> dict[str, Any]:
    """Every method's trials so far, in their order, and the best of them."""
    found: dict[str, Any] = {"trials_per_method": study["trials"], "methods": {}}
    for name in study["methods"]:
        places = [kept / f"{name}-{number}.json" for number in range(study["trials"])]
        if trials := [json.loads(place.read_text()) for place in places if place.exists()]:
            best = min(trials, key=lambda one: float(one["ppl"]["student"]))
            found["methods"][name] = {"trials": trials, "chosen": best["settings"]}
    write_text(path, json.dumps(found, indent=1))
    return found


def drawn(grid: dict[str, list[Any]], trials: int) -> list[dict[str, Any]]:
    """Combinations of the grid in a fixed random order. Every method gets as many as every other, no fewer."""
    every = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if len(every) < trials:
        raise ConfigError(f"got a grid of {len(every)} combinations for {trials} trials; need at least as many")
    return random.Random(0).sample(every, trials)


def nested(trial: dict[str, Any]) -> dict[str, Any]:
    """{"ask.clip": 1} to {"ask": {"clip": 1}}."""
    found: dict[str, Any] = {}
    for dotted, value in trial.items():
        for part in reversed(dotted.split(".")):
            value = {part: value}
        found = merge(found, value)
    return found


def shrunk(settings: dict[str, Any], units: int, files: dict[str, Any]) -> dict[str, Any]:
    """Settings for `units` private units, for the rehearsal's fewer ones."""
    ratio = Fraction(files["units"], units)
    real = Config.model_validate(merge(settings, {"data": {**files, "units": units}, "privacy": {"corpus": "real"}}))
    less: dict[str, Any] = {"teachers": {"count": max(1, round(real.teachers.count * ratio))}}
    if real.baseline is not None:
        less["baseline"] = {"batch": max(1, round(real.baseline.batch * ratio))}
    less["privacy"] = {"epsilon": _epsilon(real, ratio)}
    return merge(settings, less)


def _epsilon(real: Config, ratio: Fraction) -> float:
    delta = real.privacy.delta
    samples = charging.committed(real, 1)
    if not samples:
        mu = gaussian.mu_of(real.privacy.epsilon, main_delta(delta))
        return gaussian.epsilon_of(mu / float(ratio), main_delta(delta))
    first, steps = samples[0], sum(event.steps for event in samples)
    found = sampled.epsilon_of(SubsampledGaussian(first.rate, first.noise_multiplier * ratio, steps), delta)
    part = 1.0 if real.baseline else real.share_of_updates  # the schedule has this part of mu^2
    return sampled.part_of(found, delta, 1 / part)


if __name__ == "__main__":
    main()
