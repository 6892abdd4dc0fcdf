"""Tokens a second against the number of teachers, beside other ways to train them; seconds against text and questions.

    python benchmarks/throughput.py [--shape gpt2-small] [--seconds 1.5] [--out FILE]

At fixed text the stack trains and asks 1 to 8000 teachers; beside it (a) one adapter on the same tokens, (b) one
teacher at a time with transformers and PEFT at the published batch of 8 sentences, (c) torch.func's vmap. Each is
measured for a few seconds on a part of the work and given as a rate; `part` says how much of it that was. Then whole
stages: training on 1 to 8 times the text, on the same text for more teachers, and more questions. Figures are drawn
from the JSON by scripts/write_scaling.py. `--shape tiny --seconds .2` tries it on a laptop.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import other_ways
import workload
from hearsay.accounting.bounds import Bound
from hearsay.lm import LanguageModel
from hearsay.private.stack import Stack
from hearsay.private.training import BlockState, TrainingShape, advance, gradient
from hearsay.release import aggregate
from hearsay.release.grid import BoundedSum
from hearsay.stacked import Contexts

CONTEXT, SPACING, TOKENS_ASKED = 24, 2, 96  # tokens of a context, places from one question to the next, logits each
AT_LEAST = 2  # launches a measurement, whatever the time


class Bench:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.lm: LanguageModel = workload.model(given.shape, self.device)
        self.tokens = workload.vocabulary(self.lm)
        self.places_used = 1.0  # of the rows, by tokens to learn

    def shape(self, rows: int, steps: int) -> TrainingShape:
        given = self.given
        return TrainingShape(
            rank=given.rank, top_blocks=given.top_blocks, rows_per_step=rows, steps=max(1, steps),
            precision="bfloat16" if self.device.type == "cuda" else "model",
        )  # fmt: skip

    def stack(self, block: int, rows: int, steps: int) -> Stack:
        return Stack(self.lm, self.shape(rows, steps), block=block, device=self.device, compile=self.given.compile)

    def state(self, stack: Stack, sentences: int) -> BlockState:
        """One block on random sentences, a few for each step."""
        kept = [workload.sentences(m, sentences, self.tokens) for m in range(min(stack.block, 32))]
        rows = stack.packed(lambda m: kept[m % len(kept)], stack.block, 0, 0)
        return stack.state(rows, stack.top.layout.initial())

    def rate(self, step: Callable[[], int], whole: int, warm: int = 1) -> dict[str, float]:
        """Tokens a second over the budget of seconds, all launches counted; `part` of the whole work that was."""
        for _ in range(warm):
            step()  # compiles, chooses kernels
        workload.synchronise(self.device)
        workload.reset_memory(self.device)
        done, launches, began = 0, 0, time.perf_counter()
        while launches < AT_LEAST or (time.perf_counter() - began < self.given.seconds and done < whole):
            done, launches = done + step(), launches + 1
            if launches % 8 == 0:  # or the queue would run far ahead of the clock
                workload.synchronise(self.device)
        workload.synchronise(self.device)
        spent = time.perf_counter() - began
        return {
            "tokens_per_second": round(done / spent),
            "part": round(min(1.0, done / whole), 5),
            "peak_gib": round(workload.peak_memory(self.device), 2),
        }

    def training(self, block: int, rows: int, whole: int) -> dict[str, float]:
        """The stack's own steps, one launch after the other; only places that hold a token are counted."""
        stack = self.stack(block, rows, steps=8)
        state = self.state(stack, sentences=8 * rows * 4)
        share, turn = other_ways.filled(state), 0

        def step() -> int:
            nonlocal turn
            now, turn = turn % 8, turn + 1
            advance(state, gradient(stack.top, state, now), now, stack.shape)
            return round(share * block * rows * stack.shape.row_tokens)

        return self.rate(step, whole)

    def asking(self, block: int, whole: int, sentences: int = 0) -> dict[str, float]:
        """Teacher-tokens a second: blocks of adapters, one after the other, into one bounded integer sum."""
        stack = self.stack(block, 4, steps=1)
        contexts, tokens = self.contexts(sentences or self.given.asked)
        flat = stack.top.layout.initial().to(self.device).repeat(block, 1)
        chunks, total = stack.chunks(contexts), BoundedSum(Bound("root"), len(tokens), 65, self.device)
        questions = _Asked(tokens)

        def step() -> int:
            logits = stack.ask([flat], chunks, tokens, False)[0]
            total.add(aggregate.vectors(logits, questions, "root"))  # type: ignore[arg-type]
            return block * contexts.rows.numel()

        return self.rate(step, whole)

    def contexts(self, sentences: int) -> tuple[Contexts, torch.Tensor]:
        source = torch.Generator().manual_seed(0)
        rows = torch.randint(1, self.tokens, (sentences, CONTEXT), generator=source)
        asked = torch.cartesian_prod(torch.arange(sentences), torch.arange(SPACING - 1, CONTEXT, SPACING))
        tokens = torch.randint(0, self.tokens, (len(asked), TOKENS_ASKED), generator=source)
        return Contexts(rows, torch.full((sentences,), CONTEXT), asked), tokens

    def against_teachers(self) -> dict[str, Any]:
        """Below one block of teachers, a rate over a few seconds; from there on, the whole text through the stack."""
        found, given = {}, self.given
        self.whole_training(max(given.block, 1), given.stage_rows // 8)  # warms up
        for teachers in given.teachers:
            block = min(teachers, given.block)
            whole = teachers >= given.block
            training = self.whole_text(teachers) if whole else self.training(block, given.rows, given.text)
            asking = self.asking(block, teachers * given.asked * CONTEXT)
            found[str(teachers)] = {"block": block, "training": training, "asking": asking}
            print(teachers, found[str(teachers)], flush=True)
        return found

    def whole_text(self, teachers: int) -> dict[str, float]:
        workload.reset_memory(self.device)
        seconds = self.whole_training(teachers, self.given.stage_rows)
        rate = self.given.stage_rows * 64 * self.places_used / seconds
        return {"tokens_per_second": round(rate), "seconds": round(seconds, 3), "part": 1.0,
                "peak_gib": round(workload.peak_memory(self.device), 2)}  # fmt: skip

    def other_ways(self) -> dict[str, Any]:
        given = self.given
        single = self.training(1, given.block * given.rows, given.text)
        print("one adapter", single, flush=True)
        # Its batches come in some twenty widths: a GPU sets up kernels for each, and that is not its rate.
        peft = other_ways.one_at_a_time(self.lm, self.shape(given.rows, 8), self.device)
        alone = self.rate(peft, given.text, warm=other_ways.BATCHES)
        print("one at a time", alone, flush=True)
        return {"one_adapter": single, "one_at_a_time": alone, "vmap": self.vmap()}

    def vmap(self) -> dict[str, Any]:
        """For fewer teachers where all logits of a block would not fit."""
        block = min(self.given.block, self.given.vmap_block)
        stack = Stack(self.lm, self.shape(self.given.rows, 8), block=block, device=self.device)
        state = self.state(stack, sentences=8 * self.given.rows * 4)
        found: dict[str, Any] = self.rate(other_ways.by_vmap(stack.top, state, stack.shape), self.given.text)
        print("vmap", found, flush=True)
        return found | {"block": block}

    def stages(self) -> dict[str, Any]:
        """Whole stages, packing and set-up included: more text, more questions."""
        given = self.given
        sizes = [times * given.stage_rows // 8 for times in (1, 2, 4, 8)]
        rows = {str(n): round(self.whole_training(given.stage_teachers, n), 3) for n in sizes}
        asked = [times * max(1, given.asked // 8) for times in (1, 2, 4, 8)]
        questions = {str(n * CONTEXT // SPACING): round(self.asking_seconds(n), 3) for n in asked}
        print("stages", rows, questions, flush=True)
        return {"teachers": given.stage_teachers, "seconds_by_rows": rows, "seconds_by_questions": questions}

    def whole_training(self, teachers: int, rows: int) -> float:
        """Seconds for so many rows of 64 tokens, dealt to so many teachers: packing, set-up and every step."""
        given, each = self.given, rows // teachers
        stack = self.stack(min(given.block, teachers), given.rows, each // given.rows)
        kept = [workload.sentences(m, 4 * each, self.tokens) for m in range(min(32, teachers))]
        self.places_used = float((stack.rows(kept[0], 0, 0).targets >= 0).mean())
        workload.synchronise(self.device)
        began = time.perf_counter()
        for _ in stack.trained(lambda m: kept[m % len(kept)], teachers, generation=0):
            pass
        workload.synchronise(self.device)
        return time.perf_counter() - began

    def asking_seconds(self, sentences: int) -> float:
        """Of all of the stage's teachers, from the rate over its first blocks."""
        block = min(self.given.block, self.given.stage_teachers)
        whole = self.given.stage_teachers * sentences * CONTEXT
        return float(whole / self.asking(block, whole, sentences)["tokens_per_second"])


class _Asked:
    """As much of `Questions` as bounded vectors need: 64 candidates, all valid, and an unweighted tail."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.candidates, self.valid = tokens[:, :64], torch.ones(len(tokens), 64, dtype=torch.bool)
        self.tail_weight = torch.zeros(len(tokens), TOKENS_ASKED - 64)


def main() -> None:
    given = _arguments()
    bench = Bench(given)
    settings = {name: value for name, value in vars(given).items() if name != "out"}
    found: dict[str, Any] = {"machine": workload.machine(bench.device), "settings": settings}
    for name in ("against_teachers", "other_ways", "stages"):
        found[name] = getattr(bench, name)()
        workload.keep(given.out, found)  # what is measured is kept, should the rest be stopped
    workload.keep(given.out, found | {"ratios": ratios(found)})


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """What is claimed: the stack's cost beside one adapter's, and how many times faster than the other ways it is."""
    rates = {int(m): body["training"]["tokens_per_second"] for m, body in found["against_teachers"].items()}
    stacked = rates[max(m for m in rates if m <= 2000)]
    others = {name: body["tokens_per_second"] for name, body in found["other_ways"].items()}
    whole = [
        body["training"]["seconds"] for body in found["against_teachers"].values() if "seconds" in body["training"]
    ]
    rows = {int(n): spent for n, spent in found["stages"]["seconds_by_rows"].items()}
    return {
        "cost_over_one_adapter": round(others["one_adapter"] / stacked, 3),
        "times_faster_than_one_at_a_time": round(stacked / others["one_at_a_time"], 2),
        "times_faster_than_one_at_a_time_in_the_stack": round(stacked / rates[min(rates)], 2),
        "times_faster_than_vmap": round(stacked / others["vmap"], 2),
        "longest_over_shortest_at_the_same_text": round(max(whole) / min(whole), 3) if whole else 1.0,
        "seconds_a_row_of_8_times_the_text_over_1": round(rows[max(rows)] / rows[min(rows)] / 8, 3),
    }


def _arguments() -> argparse.Namespace:
    big = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="gpt2-small" if big else "embedded", help=", ".join(workload.SHAPES))
    parser.add_argument("--teachers", type=int, nargs="+", default=[1, 10, 100, 1000, 2000, 8000])
    parser.add_argument("--text", type=int, default=8_000_000, help="tokens of the fixed text")
    parser.add_argument("--asked", type=int, default=1000 if big else 16, help="pseudo sentences")
    parser.add_argument("--block", type=int, default=125 if big else 16)
    parser.add_argument("--vmap-block", type=int, default=64 if big else 16)
    parser.add_argument("--stage-teachers", type=int, default=1000 if big else 32)
    parser.add_argument("--stage-rows", type=int, default=64_000 if big else 512, help="the text of whole stages")
    parser.add_argument("--rows", type=int, default=4 if big else 2, help="rows of 64 tokens a teacher and step")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--top-blocks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
