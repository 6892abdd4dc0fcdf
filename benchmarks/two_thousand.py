"""The whole job of thousands of teachers: train them on all text, ask all of them, on one device.

    python benchmarks/two_thousand.py [--teachers 2000 20000] [--shape gpt2-small] [--compile] [--profile] [--out FILE]

By default: models of GPT-2 small's shape, 0.95 million simulated sentences of about 20 tokens dealt to the teachers by
chance, 3 epochs, then 1000 pseudo sentences with 10 questions each answered by all, through the product's own stack,
store and bounded integer sums, and the noise. Prints and keeps seconds by stage (compiling included), memory, tokens a
second, and the share of what the device could do. `--shape tiny --sentences 400 --teachers 6` tries it on a laptop.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import workload
from hearsay.accounting.bounds import Bound
from hearsay.lm import LanguageModel
from hearsay.private.stack import Stack
from hearsay.private.store import AdapterStore
from hearsay.private.training import TrainingShape, advance, gradient
from hearsay.public.questions import Questions, lay_out
from hearsay.release import aggregate
from hearsay.release.grid import BoundedSum
from hearsay.release.noise import rounded_normal
from workload import Sentences

LIMITS = {2000: 180.0, 20_000: 360.0}  # seconds
LIMIT_GIB = 100
PLACES_USED = 0.95  # of a row of 64 by sentences of about 20 tokens: enough steps for whole epochs


def main() -> None:
    given = _arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    lm, peak = workload.model(given.shape, device), workload.peak(device)
    text = workload.sentences(1, given.sentences, workload.vocabulary(lm))
    found: dict[str, Any] = {"machine": workload.machine(device), "jobs": {}}
    for teachers in given.teachers:
        found["jobs"][str(teachers)] = Job(lm, text, teachers, given, device).done(peak)
        workload.keep(given.out, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="gpt2-small", help=f"{', '.join(workload.SHAPES)}, or a model's folder")
    parser.add_argument("--teachers", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--sentences", type=int, default=950_000)
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--asked", type=int, default=1000, help="pseudo sentences")
    parser.add_argument("--questions", type=int, default=10, help="a pseudo sentence")
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--tail", type=int, default=32)
    parser.add_argument("--block", type=int, default=250)
    parser.add_argument("--rows", type=int, default=4, help="rows of 64 tokens a teacher and step")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--top-blocks", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print the longest kernels of one step and one asking")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


class Job:
    """One number of teachers on the same text; `seconds` by stage, as they happen."""

    def __init__(
        self, lm: LanguageModel, text: Sentences, teachers: int, given: argparse.Namespace, device: torch.device
    ) -> None:
        self.lm, self.text, self.teachers, self.given, self.device = lm, text, teachers, given, device
        self.seconds: dict[str, float] = {}
        self.shape = self._shape()
        dealt = np.random.default_rng(2).integers(0, teachers, len(text))
        self.order, self.ends = np.argsort(dealt, kind="stable"), np.cumsum(np.bincount(dealt, minlength=teachers))

    def _shape(self) -> TrainingShape:
        given = self.given
        tokens = sum(map(len, self.text)) + len(self.text)  # the start token, or the end's target
        steps = given.epochs * tokens / self.teachers / (PLACES_USED * given.rows * 64)
        return TrainingShape(
            rank=given.rank, top_blocks=given.top_blocks, rows_per_step=given.rows, steps=math.ceil(steps),
            precision="bfloat16" if self.device.type == "cuda" else "model",
        )  # fmt: skip

    def shard(self, m: int) -> Sentences:
        return [self.text[i] for i in self.order[self.ends[m - 1] if m else 0 : self.ends[m]].tolist()]

    def timed(self, stage: str, action: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = action()
        workload.synchronise(self.device)
        self.seconds[stage] = time.perf_counter() - began
        print(f"{self.teachers} teachers: {stage} {self.seconds[stage]:.2f} s", flush=True)
        return result

    def done(self, peak: dict[str, float]) -> dict[str, Any]:
        workload.reset_memory(self.device)
        block = min(self.given.block, self.teachers)
        stack = self.timed(
            "set-up", lambda: Stack(self.lm, self.shape, block=block, device=self.device, compile=self.given.compile)
        )
        self.timed("first step", lambda: self._first_step(stack))
        if self.given.profile:
            print(workload.profile(lambda: self._first_step(stack), self.device))
        with tempfile.TemporaryDirectory() as folder:
            store = stack.store(Path(folder), count=self.teachers, generation=0)
            self.timed("teachers", lambda: stack.train(self.shard, self.teachers, generation=0, store=store))
            questions = self.posed()
            if self.given.profile:
                print(workload.profile(lambda: _asked(stack, store, questions, blocks=1), self.device))
            total = self.timed("answers", lambda: _asked(stack, store, questions))
        self.timed("noise", lambda: rounded_normal(Fraction(10**9), total.total.numel()))
        return self.told(stack, questions, peak)

    def _first_step(self, stack: Stack) -> None:
        """Compiling, and loading of kernels, on empty shards: counted, but apart."""
        state = stack.state(stack.packed(lambda m: [], self.teachers, 0, 0), stack.top.layout.initial())
        advance(state, gradient(stack.top, state, 0), 0, self.shape)

    def posed(self) -> Questions:
        """Random places and candidates; all valid, the tail unweighted: the arithmetic is that of a student's."""
        given, tokens = self.given, workload.vocabulary(self.lm)
        spoken = [row.tolist() for row in workload.sentences(3, given.asked, tokens)]
        rows, lengths, _ = lay_out(spoken, 0, 0)
        source = torch.Generator().manual_seed(4)
        places = [torch.randperm(int(n), generator=source)[: given.questions].sort().values for n in lengths]
        row = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(p) for p in places]))
        count = len(row)
        return Questions(
            rows=rows,
            lengths=lengths,
            asked=torch.stack([row, torch.cat(places)], 1),
            labels=torch.zeros(count, dtype=torch.long),
            candidates=torch.randint(0, tokens, (count, given.candidates), generator=source),
            valid=torch.ones(count, given.candidates, dtype=torch.bool),
            tail=torch.randint(0, tokens, (count, given.tail), generator=source),
            tail_weight=torch.zeros(count, given.tail),
            held_out=torch.zeros(count, dtype=torch.bool),
        )

    def told(self, stack: Stack, questions: Questions, peak: dict[str, float]) -> dict[str, Any]:
        shape, cost = self.shape, workload.cost(stack.top, self.shape.row_tokens)
        blocks = -(-self.teachers // stack.block)
        places = blocks * stack.block * shape.steps * shape.rows_per_step * shape.row_tokens
        text = sum(map(len, self.text)) + len(self.text)
        asked = self.teachers * int(questions.lengths.sum())
        total, training = sum(self.seconds.values()), self.seconds["teachers"]
        memory = workload.peak_memory(self.device)
        return {
            "teachers": self.teachers,
            "peak": peak,
            "sentences": len(self.text),
            "seconds": {stage: round(value, 3) for stage, value in self.seconds.items()} | {"total": round(total, 2)},
            "peak_gib": round(memory, 2),
            "trained_tokens": round(self.given.epochs * text),
            "trained_places": places,
            "trained_tokens_per_second": round(self.given.epochs * text / training),
            "asked_tokens": asked,
            "asked_tokens_per_second": round(asked / self.seconds["answers"]),
            "questions": len(questions),
            "gflop_a_trained_token": round(cost.trained / 1e9, 4),
            "bytes_a_trained_token": round(workload.traffic(stack.top, shape)),
            "share_of_arithmetic": {
                "teachers": round(places * cost.trained / peak["flops"] / training, 3),
                "answers": round(asked * cost.asked / peak["flops"] / self.seconds["answers"], 3),
            },
            "share_of_memory_traffic": {
                "teachers": round(places * workload.traffic(stack.top, shape) / peak["bytes"] / training, 3)
            },
            "settings": workload.settings(shape) | {"block": stack.block, "compile": self.given.compile,
                                                    "shape": self.given.shape, "candidates": self.given.candidates,
                                                    "tail": self.given.tail},
            "limits": {"seconds": LIMITS.get(self.teachers), "gib": LIMIT_GIB},
            "ok": total <= LIMITS.get(self.teachers, math.inf) and memory <= LIMIT_GIB,
        }  # fmt: skip


def _asked(stack: Stack, store: AdapterStore, questions: Questions, blocks: int | None = None) -> BoundedSum:
    """The bounded integer sum over all teachers, as the door would take it."""

    def each() -> Any:
        for block, logits in stack.answers(store, questions.contexts, aggregate.asked_tokens(questions)):
            yield block, logits
            if blocks is not None and block + 1 >= blocks:
                return

    return aggregate.total(each, questions, "root", Bound("root"), None)


if __name__ == "__main__":
    main()
