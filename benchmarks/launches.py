"""What one launch costs, part by part: to choose how many teachers share a launch, and whether compiling pays.

    python benchmarks/launches.py [--shape gpt2-small] [--blocks 64 128 256] [--out FILE]

For each block, plain and compiled: milliseconds of the trunk, the top, the head's loss and its gradient, the whole
gradient, Adam, and one launch of asking; with the seconds that compiling took. Then the head for several chunk sizes.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import workload
from hearsay import vocabulary
from hearsay.lm import LanguageModel
from hearsay.private.stack import Stack
from hearsay.private.training import BlockState, TrainingShape, advance, gradient
from hearsay.stacked import Contexts
from hearsay.vocabulary import loss_slopes

CONTEXT = 24  # tokens


def main() -> None:
    given = _arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    lm = workload.model(given.shape, device)
    found: dict[str, Any] = {"machine": workload.machine(device), "shape": given.shape, "rows": given.rows}
    for block in given.blocks:
        for compiled in [False] if given.plain else [False, True]:
            name = f"{block} teachers{', compiled' if compiled else ''}"
            found[name] = launch(lm, block, given, device, compiled=compiled)
            print(name, found[name], flush=True)
    found["chunk_milliseconds"] = chunks(lm, device)
    workload.keep(given.out, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="gpt2-small", help=f"{', '.join(workload.SHAPES)}, or a model's folder")
    parser.add_argument("--blocks", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--top-blocks", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="do not compile")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def launch(
    lm: LanguageModel, block: int, given: argparse.Namespace, device: torch.device, *, compiled: bool
) -> dict[str, float]:
    """Milliseconds a part, and teacher-tokens a second of the whole step."""
    shape = TrainingShape(
        steps=2, rank=given.rank, top_blocks=given.top_blocks, rows_per_step=given.rows,
        precision="bfloat16" if device.type == "cuda" else "model",
    )  # fmt: skip
    stack = Stack(lm, shape, block=block, device=device, compile=compiled)
    tokens = workload.vocabulary(lm)
    shards = [workload.sentences(m, 8 * given.rows, tokens) for m in range(block)]
    state = stack.state(stack.packed(lambda m: shards[m], block, 0, 0), stack.top.layout.initial())
    workload.reset_memory(device)
    began = time.perf_counter()
    gradient(stack.top, state, 0)
    workload.synchronise(device)
    first = time.perf_counter() - began
    found = _parts(stack, state, shape, device)
    step = found["gradient"] + found["adam"]
    found["tokens_per_second"] = block * shape.rows_per_step * shape.row_tokens / step * 1e3
    found["peak_gib"] = workload.peak_memory(device)
    return {"first_seconds": round(first, 2)} | {name: round(value, 3) for name, value in found.items()}


def _parts(stack: Stack, state: BlockState, shape: TrainingShape, device: torch.device) -> dict[str, float]:
    top = stack.top
    tokens, targets, positions = (t[0].long() for t in (state.tokens, state.targets, state.positions))
    with torch.no_grad():
        trunk = top.trunk(tokens, positions)
        top.wear(top.layout.views(state.flat))
        hidden = top.hidden(trunk, positions).flatten(0, 1)
    grad, wanted = gradient(top, state, 0), targets.clamp(min=0).flatten()

    def forward() -> None:
        with torch.no_grad():
            top.wear(top.layout.views(state.flat))
            top.hidden(trunk, positions)

    parts = {
        "trunk": lambda: top.trunk(tokens, positions),
        "top": forward,
        "head": lambda: loss_slopes(hidden, top.split.head, wanted),
        "gradient": lambda: gradient(top, state, 0),
        "adam": lambda: advance(state, grad, 0, shape),
        "asking": _asking(stack, state),
    }
    return {name: 1e3 * workload.seconds_of(action, device, 5) for name, action in parts.items()}


def _asking(stack: Stack, state: BlockState) -> Any:
    """One launch of asking: as many contexts as fit, a question at every other place, 96 candidates."""
    size = max(1, 2**18 // (stack.block * CONTEXT)) if stack.device.type == "cuda" else 2
    rows = torch.randint(1, stack.top.split.head.shape[0], (size, CONTEXT))
    asked = torch.cartesian_prod(torch.arange(size), torch.arange(1, CONTEXT, 2))
    candidates = torch.randint(0, stack.top.split.head.shape[0], (len(asked), 96))
    chunks = stack.chunks(Contexts(rows, torch.full((size,), CONTEXT), asked))
    return lambda: stack.ask([state.flat], chunks, candidates, False)


def chunks(lm: LanguageModel, device: torch.device) -> dict[str, float]:
    """The head's part for 32768 positions (256 on a processor), by the number of logits held at once."""
    count, head = 32768 if device.type == "cuda" else 256, lm.model.get_output_embeddings().weight
    hidden = torch.randn(count, head.shape[1], device=device).to(head.dtype)
    wanted = torch.randint(0, head.shape[0], (count,), device=device)
    kept, found = dict(vocabulary.CHUNK_CELLS), {}
    for rows in (count // 16, count // 8, 5632, count // 4, count // 2, count):
        vocabulary.CHUNK_CELLS[device.type] = rows * head.shape[0]
        spent = workload.seconds_of(lambda: loss_slopes(hidden, head, wanted), device, 5)
        found[str(rows)] = round(1e3 * spent, 3)
    vocabulary.CHUNK_CELLS.update(kept)
    vocabulary.ALIGNED.pop("cuda", None)
    found["unaligned"] = round(1e3 * workload.seconds_of(lambda: loss_slopes(hidden, head, wanted), device, 5), 3)
    vocabulary.ALIGNED["cuda"] = 64
    return found


if __name__ == "__main__":
    main()
