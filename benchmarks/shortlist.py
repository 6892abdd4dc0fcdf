"""What a shortlist of tokens changes in a round of updates, and what it saves.

    python benchmarks/shortlist.py [--customers 256] [--sizes 768 1536 2560] [--out FILE]

Work: simulated customers of the demo, the embedded model, the demo's adapter at its public start. For each size, over
three rounds' lists: how far the mean of the clipped updates lies from the one over the whole vocabulary, in its own
lengths, and the processor's seconds beside it. One round's noise is given in the same lengths.
"""

import argparse
import copy
import json
import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hearsay import charging, run
from hearsay import lm as models
from hearsay.config import Config
from hearsay.demo import show
from hearsay.demo.airline import write_corpus
from hearsay.lm import end_id, start_id
from hearsay.private.moves import Moves, frame_of
from hearsay.private.packing import pack
from hearsay.private.teaching import update_shape
from hearsay.private.units import KINDS, Units
from hearsay.public.prefixes import complete, read_prefixes
from hearsay.public.shortlist import Vocabulary, shares
from hearsay.reading import Columns, read_rows
from hearsay.stacked import StackedTop
from hearsay.vocabulary import Shortlist

ROUNDS, BLOCK = 3, 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--customers", type=int, default=256)
    parser.add_argument("--sizes", type=int, nargs="*", default=[768, 1536, 2560])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lm = models.load("embedded", device="cpu", dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        files = write_corpus(
            Path(folder), private_customers=given.customers, public_customers=100, holdout_customers=0, seed=1000
        )
        config = Config.model_validate(show.demo_settings(files, 0))
        units, likely = _units(config, lm), _shares(config, lm)
    shape = update_shape(config)
    top = StackedTop(copy.deepcopy(lm.model).to(torch.bfloat16), shape.adapter)
    movers = Moves(top, shape, torch.device("cpu"), BLOCK)
    clip = config.updates.clip

    def mean(listed: Shortlist | None) -> Tensor:
        every: Tensor = torch.cat(list(movers(units, top.layout.initial(), 0, None, listed)))[: len(units)]
        short: Tensor = every * (clip / every.norm(dim=1, keepdim=True).clamp(min=clip))
        return short.mean(0) / clip

    whole, seconds = _timed(partial(mean, None))
    found: dict[str, Any] = {"mean_update_in_clips": float(whole.norm()), "sizes": {}}
    found["noise_of_a_round_in_clips"] = _noise(config, len(whole))
    for size in given.sizes:
        lists = [Vocabulary(likely, size, seed=0).listed(number) for number in range(ROUNDS)]
        away, took = zip(*(_timed(partial(mean, one)) for one in lists), strict=True)
        found["sizes"][size] = {
            "away": [round(float((one - whole).norm() / whole.norm()), 4) for one in away],
            "away_on_average": round(float((sum(away) / ROUNDS - whole).norm() / whole.norm()), 4),
            "times_faster": round(seconds / min(took), 2),
        }
    found |= {"tokens": len(likely), "customers": given.customers, "machine": run.environment()}
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


def _units(config: Config, lm: models.LanguageModel) -> Units:
    people: dict[str, list[str]] = {}
    for row in read_rows(config.data.private, Columns(text=config.data.text, user=config.data.user)):
        people.setdefault(str(row.user), []).append(row.text)
    frame = frame_of(lm, update_shape(config))
    rows = [
        pack([np.array(one) for one in models.encode(lm, texts[: config.data.cap], config.data.max_tokens)], frame,
             np.random.default_rng(0))
        for texts in people.values()
    ]  # fmt: skip
    arrays = tuple(np.stack([getattr(row, kind) for row in rows])[:, None] for kind in KINDS)
    return Units(arrays, pack([], frame, np.random.default_rng(0)))


def _shares(config: Config, lm: models.LanguageModel) -> Tensor:
    data = config.data
    prefixes = read_prefixes(lm, data.public, data.text, data.prefix_tokens)
    sentences = complete(lm, prefixes, 300, min_tokens=data.min_tokens, max_tokens=data.max_tokens, seed=0)
    return shares(lm, sentences, start_id(lm), end_id(lm))


def _noise(config: Config, width: int) -> float:
    """Its length on the mean over the expected units of a round, in clips."""
    event = charging.committed(config, width)[0]
    return float(event.noise_multiplier) * math.sqrt(width) / float(event.rate * config.data.units)


def _timed(work: Callable[[], Tensor]) -> tuple[Tensor, float]:
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


if __name__ == "__main__":
    main()
