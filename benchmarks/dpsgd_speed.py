"""Units a second through one gradient pass, the same work three ways: our stack, Opacus flat, Opacus ghost.

    python benchmarks/dpsgd_speed.py --model MODEL [--units 4096] [--tokens 256] [--rank 4] [--blocks 8] [--out FILE]

Work: simulated units, one full row each, the same adapter; each unit's gradient of its mean loss, clipped as a whole,
summed. No noise and no optimiser: they cost the same for all. Per method the best of three passes after a warm-up, the
largest part of a batch that is faster (parts are tried), and the peak of the GPU's memory.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import workload
from hearsay import lm as models
from hearsay.baselines import dpsgd
from hearsay.baselines.learner import Learner
from hearsay.baselines.units import Batch, Units
from hearsay.private.training import BlockState, gradient
from hearsay.stacked import AdapterShape, StackedTop
from hearsay.stages import pick_device

CLIP = 0.1


def main() -> None:
    given = _arguments()
    device = pick_device(given.device)
    lm = workload.model(given.model, device)
    top = StackedTop(lm.model, AdapterShape(rank=given.rank, top_blocks=given.blocks))
    batch = _simulated(lm, given.units, given.tokens, device)
    start = top.layout.initial().to(device)
    learner = Learner(lm, top, start)
    ways: dict[str, Callable[[int], Tensor]] = {
        "stack": lambda part: stack_sum(top, start, batch, part),
        "opacus_flat": lambda part: dpsgd.clipped_sum(learner, batch, CLIP, physical=part),
        "opacus_ghost": lambda part: dpsgd.clipped_sum(learner, batch, CLIP, physical=part, ghost=True),
    }
    found: dict[str, Any] = {name: measured(way, given) for name, way in ways.items()}
    sums = {name: body.pop("sum") for name, body in found.items()}
    for name, body in found.items():
        body["differs_from_stack"] = float((sums[name] - sums["stack"]).norm() / sums["stack"].norm())
    found |= {"work": {name: getattr(given, name) for name in ("units", "tokens", "rank", "blocks")},
              "weights": top.layout.size, "machine": workload.machine(device)}  # fmt: skip
    workload.keep(given.out, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded", help="base model: folder, hub id or embedded")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--units", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=256, help="of a unit's row")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--parts", type=int, nargs="*", default=[64, 256, 1024], help="units at once, to try")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _simulated(lm: models.LanguageModel, units: int, tokens: int, device: torch.device) -> Batch:
    """Units of sentences of 15 random tokens: speed does not depend on what they say."""
    stream = np.random.default_rng(0)
    people = {name: list(stream.integers(1, 300, (tokens // 16, 15))) for name in range(units)}
    return Units(people, lm, tokens).batch(list(range(units)), stream, device)


def stack_sum(top: StackedTop, start: Tensor, batch: Batch, part: int) -> Tensor:
    """The stack's own gradient pass, a unit a slot."""
    total = torch.zeros_like(start)
    for at in range(0, len(batch.tokens), part):
        rows = [value[at : at + part] for value in (batch.tokens, batch.targets, batch.positions)]
        flat = start.expand(len(rows[0]), -1).contiguous()
        grads = gradient(top, BlockState(flat, flat, flat, *(value[None] for value in rows)), 0)
        norms = torch.linalg.vector_norm(grads, dim=1, keepdim=True)
        total += (grads * (CLIP / norms.clamp(min=CLIP))).sum(0)
    return total


def measured(way: Callable[[int], Tensor], given: argparse.Namespace) -> dict[str, Any]:
    best: dict[str, Any] = {"units_per_second": 0.0}
    for part in (part for part in given.parts if part <= given.units):
        try:
            seconds, total, peak = _timed(way, part)
        except torch.OutOfMemoryError:
            break
        if given.units / seconds > best["units_per_second"]:
            best = {"units_per_second": round(given.units / seconds, 1), "part": part, "peak_gib": peak, "sum": total}
    if "sum" not in best:
        raise SystemExit(f"none of --parts {given.parts} is at most --units {given.units} and fits into memory")
    return best


def _timed(way: Callable[[int], Tensor], part: int) -> tuple[float, Tensor, float]:
    on_gpu = torch.cuda.is_available()
    total, times = way(part).float().cpu(), []
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        began = time.perf_counter()
        way(part)
        if on_gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return min(times), total, round(torch.cuda.max_memory_allocated() / 2**30, 2) if on_gpu else 0.0


if __name__ == "__main__":
    main()
