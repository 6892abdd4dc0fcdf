"""What packing gives: the same sentences to the same teachers, packed into rows, or one sentence a row as is usual.

    python benchmarks/packing.py --model MODEL [--teachers 500] [--sentences 73] [--out FILE]

Prints one JSON object: for both layouts the share of places that hold a token to learn, the seconds of one pass over
all sentences, and their ratio. Sentences are random tokens with the lengths of short text (mean 17, at most 40).
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hearsay import lm as models
from hearsay.private import packing
from hearsay.private.stack import Stack
from hearsay.private.training import TrainingShape
from hearsay.run import environment

LONGEST, MEAN = 40, 17


def main() -> None:
    given = _arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    lm = models.load(given.model, device=device, dtype=torch.bfloat16 if device.type == "cuda" else torch.float32)
    usual = packing._fill
    found: dict[str, Any] = {"packed": _measured(lm, given, row_tokens=64, device=device)}
    packing._fill = lambda order, lengths, row_tokens: [[int(index)] for index in order]
    found["one sentence a row"] = _measured(lm, given, row_tokens=LONGEST + 1, device=device)
    packing._fill = usual
    seconds = [each["seconds"] for each in found.values()]
    found["ratio"] = round(seconds[1] / seconds[0], 2)
    found |= {"settings": vars(given) | {"out": str(given.out)}, "machine": environment() | {"device": str(device)}}
    text = json.dumps(found, indent=1, default=str)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--teachers", type=int, default=500)
    parser.add_argument("--sentences", type=int, default=73)
    parser.add_argument("--block", type=int, default=250)
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _measured(lm: models.LanguageModel, given: argparse.Namespace, *, row_tokens: int, device: torch.device) -> Any:
    """One pass over every sentence: as many rows of two a step as the layout needs."""
    stream = np.random.default_rng(0)
    sizes = stream.poisson(MEAN, (given.teachers, given.sentences)).clip(8, LONGEST)
    shards = [[stream.integers(1, 5000, size) for size in row] for row in sizes]
    frame = packing.Frame(row_tokens, 1, 0, 0)
    order = np.arange(given.sentences)
    rows = max(len(packing._fill(order, row + 1, row_tokens)) for row in sizes[:50])
    shape = TrainingShape(rank=8, top_blocks=4, row_tokens=row_tokens, rows_per_step=2, steps=math.ceil(rows / 2))
    stack = Stack(lm, shape, block=given.block, device=device)
    for _ in stack.trained(lambda m: shards[m], given.block, generation=0):
        pass  # kernels are chosen in the first block
    began = time.perf_counter()
    for _ in stack.trained(lambda m: shards[m], given.teachers, generation=0):
        if device.type == "cuda":
            torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    used = float((sizes + 1).mean() * given.sentences / (shape.steps * 2 * frame.row_tokens))
    return {"seconds": round(seconds, 3), "row_tokens": row_tokens, "steps": shape.steps, "places_used": round(used, 3)}


if __name__ == "__main__":
    main()
