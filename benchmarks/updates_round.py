"""Seconds of a round of updates over many units, by part: their bounded sum, and the door (noise, storing, charging).

    python benchmarks/updates_round.py --model MODEL [--units 11674] [--rows 2] [--rank 16] [--blocks 4] [--out FILE]

Work: simulated units whose rows of 64 tokens are full, the product's own rounds (`release/updates.py`), a research
ledger in a temporary folder. The first round is left out: kernels are chosen in it. The best and the median of the
others; their share of the arithmetic that the device reaches in one large product of matrices.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import workload
from hearsay import lm as models
from hearsay.accounting import budget
from hearsay.accounting.ledger import Ledger
from hearsay.private.moves import frame_of, moves
from hearsay.private.packing import pack
from hearsay.private.stack import Stack
from hearsay.private.training import TrainingShape
from hearsay.private.units import KINDS, Units
from hearsay.release.door import Door
from hearsay.release.updates import Crowd, ask_update, full_scale, place_on_grid_matters
from hearsay.stages import pick_device

ROUNDS = 5


def main() -> None:
    given = _arguments()
    device = pick_device(given.device)
    lm = workload.model(given.model, device)
    shape = TrainingShape(
        rank=given.rank, top_blocks=given.blocks, rows_per_step=given.rows, steps=1, warm_up=0, schedule="constant"
    )
    stack = Stack(lm, shape, block=given.block, device=device, compile=given.compile)
    movers = moves(stack, shape, given.block, later=place_on_grid_matters)
    crowd = Crowd(_units(lm, shape, given.units), movers, given.units, 0.5, Fraction(1), "benchmark")
    student = stack.top.layout.initial()
    found: dict[str, Any] = {
        "units_a_launch": movers.block,
        "dimensions": crowd.width,
        "sum": _timed(lambda number: crowd.total(student, number), device),
        "round": _timed(_asking(crowd, student), device),
        "peak_gib": workload.peak_memory(device),
    }
    work = operations(stack, given.units * given.rows * shape.row_tokens)
    found |= {
        "operations": work,
        "share_of_peak": round(work / found["sum"]["best"] / workload.peak(device)["flops"], 3),
    }
    found |= {
        "settings": {name: value for name, value in vars(given).items() if name not in ("out", "model")},
        "machine": workload.machine(device),
    }
    workload.keep(given.out, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded", help="base model: folder, hub id or embedded")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--units", type=int, default=11_674)
    parser.add_argument("--rows", type=int, default=2, help="of 64 tokens, a unit")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--block", type=int, default=256, help="units a launch")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _units(lm: models.LanguageModel, shape: TrainingShape, count: int) -> Units:
    """Sentences of 15 random tokens: speed does not depend on what they say."""
    stream, frame = np.random.default_rng(0), frame_of(lm, shape)
    some = [pack(list(stream.integers(1, 300, (16, 15))), frame, stream) for _ in range(64)]
    arrays = tuple(
        np.stack([getattr(some[number % len(some)], kind) for number in range(count)])[:, None] for kind in KINDS
    )
    return Units(arrays, pack([], frame, stream))


def _asking(crowd: Crowd, student: torch.Tensor) -> Callable[[int], object]:
    folder = Path(tempfile.mkdtemp())
    ledger = Ledger.create(
        folder / "ledger.sqlite", budget.make(3.0, 1e-6), corpus="0" * 64, corpus_name="benchmark", unit="user",
        research=True,
    )  # fmt: skip
    ledger.register("benchmark", folder)
    door, scale = Door(ledger, "benchmark", folder), full_scale(ledger.budget.capacity / 100)
    return lambda number: ask_update(door, crowd, student, number, scale)


def _timed(work: Callable[[int], Any], device: torch.device) -> dict[str, float]:
    times = []
    for number in range(ROUNDS + 1):
        began = time.perf_counter()
        work(number)
        workload.synchronise(device)
        times.append(time.perf_counter() - began)
    return {"best": round(min(times[1:]), 4), "median": round(statistics.median(times[1:]), 4)}


def operations(stack: Stack, tokens: int) -> float:
    """Of the products: blocks below once, blocks above and the head twice (forward, and back to their input)."""
    split = stack.top.split
    per_block = sum(weight.numel() for weight in split.above[0].parameters() if weight.dim() == 2)
    weights = per_block * (len(split.below) + 2 * len(split.above)) + 2 * split.head.numel()
    return 2.0 * weights * tokens


if __name__ == "__main__":
    main()
