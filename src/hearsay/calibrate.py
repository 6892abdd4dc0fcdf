"""Measures what a run's pieces cost on this machine, for some seconds, so that `plan` can predict a run (forecast.py).

    found = calibrate(config)                  # `hearsay doctor CONFIG --calibrate`

Every piece is the product's own, at the shapes that the config gives a run: one launch of teachers that train or
answer, one of units that move a student, a batch of completions, a step of the student. It works on the model's own
sentences, made from public prefixes; no private file is opened, and what is kept are seconds.
"""

import dataclasses
import itertools
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from hearsay import lm as models
from hearsay import stages
from hearsay.accounting.bounds import UNIT_BALL, Bound
from hearsay.config import Config
from hearsay.errors import BadInput
from hearsay.forecast import Calibration
from hearsay.lm import end_id, start_id
from hearsay.private.moves import frame_of, moves
from hearsay.private.packing import pack
from hearsay.private.partition import partition
from hearsay.private.stack import ANSWER_TOKENS, Stack
from hearsay.private.teaching import partition_settings, training_shape, update_shape
from hearsay.private.training import advance, gradient
from hearsay.private.units import KINDS
from hearsay.public.basis import whitened
from hearsay.public.prefixes import complete, read_prefixes
from hearsay.public.questions import Choice, Questions, pose
from hearsay.public.server import Server, ServerSettings
from hearsay.public.student import Answered, Lesson, distil, warm_up
from hearsay.public.weights import weights
from hearsay.reading import Columns, read_rows
from hearsay.release import aggregate
from hearsay.release.grid import BoundedSum
from hearsay.release.noise import rounded_normal
from hearsay.stacked import Adapted
from hearsay.work import BLOCKS, precision

COMPLETIONS = {"cpu": 96, "cuda": 2048}  # sentences at most: enough to fill a batch
ENOUGH = 1.0  # seconds a piece, or two calls if one takes longer
STEPS = 4  # of a student
Result = TypeVar("Result")


def calibrate(config: Config) -> Calibration:
    return Probe(config).calibration()


class Probe:
    def __init__(self, config: Config) -> None:
        self.config, self.seconds, self.once = config, dict[str, float](), dict[str, float]()
        self.device = stages.pick_device(config.compute.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        dtype, data = precision(config.compute.precision, self.device), config.data
        began = time.perf_counter()
        self.lm = models.load(config.model, device=self.device, dtype=dtype)
        prefixes = read_prefixes(self.lm, data.public, data.public_column, data.prefix_tokens)
        self.seconds["load"] = time.perf_counter() - began
        block = config.compute.block or BLOCKS.get(self.device.type, 16)
        shape = dataclasses.replace(training_shape(config), steps=2)
        self.stack = Stack(self.lm, shape, block=block, device=self.device, compile=config.compute.compile)
        count = min(COMPLETIONS.get(self.device.type, 96), max(config.student.pseudo, config.ask.sentences))
        began = time.perf_counter()
        self.sentences = complete(
            self.lm, prefixes, count, min_tokens=data.min_tokens, max_tokens=data.max_tokens, seed=0
        )
        self.seconds["completion"] = time.perf_counter() - began
        self.rows = [np.array(row, np.int32) for row in self.sentences]

    def time(self, kind: str, action: Callable[[], Result], units: float = 1.0) -> Result:
        """The median call's seconds, divided by the units it did. What the first call takes beyond that (kernels to
        load or compile, libraries to open) a run pays once, too.
        """
        result, first = self._timed(action)
        spent = list[float]()
        while len(spent) < 2 or sum(spent) < ENOUGH:
            result, took = self._timed(action)
            spent.append(took)
        usual = statistics.median(spent)
        self.seconds[kind], self.once[kind] = usual / units, max(0.0, first - usual)
        return result

    def _timed(self, action: Callable[[], Result]) -> tuple[Result, float]:
        began = time.perf_counter()
        result = action()
        self._wait()
        return result, time.perf_counter() - began

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def calibration(self) -> Calibration:
        self.shards()
        student, questions = self.student()
        update_block = self.updates(student) if self.config.share_of_updates else 1
        width = 1.0
        if self.config.rounds_of_answers:
            self.training()
            width = self.asking(questions)
        return Calibration(
            device=str(self.device),
            block=self.stack.block,
            update_block=update_block,
            launch_tokens=ANSWER_TOKENS.get(self.device.type, 2**13),
            width=width,
            completions=len(self.sentences),
            questions=len(questions),
            peak_gib=self._peak(),
            seconds=self.seconds,
            once=self.once,
        )

    def _peak(self) -> float:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / 2**30
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    def shards(self) -> None:
        """A file of the model's own sentences, read, tokenised and dealt into a folder that is thrown away."""
        texts, data = models.decode(self.lm, self.sentences) * 8, self.config.data
        settings = partition_settings(self.config, self.lm)
        with tempfile.TemporaryDirectory() as name:
            file, tries = Path(name) / "rows.jsonl", itertools.count()
            lines = [json.dumps({"text": text, "user": f"user {number}"}) for number, text in enumerate(texts)]
            file.write_text("\n".join(lines) + "\n")

            def make() -> None:
                rows = read_rows([file], Columns(text="text", user="user"))
                partition(rows, settings, key=bytes(32), folder=Path(name) / str(next(tries)),
                          tokenise=lambda some: models.encode(self.lm, some, data.max_tokens))  # fmt: skip

            self.time("row", make, len(texts))

    def student(self) -> tuple[Tensor, Questions]:
        """Public work: the basis, the warm-up, posing questions, learning from answers."""
        config, lm, top = self.config, self.lm, self.stack.top
        start, end = start_id(lm), end_id(lm)
        first = self.time(
            "basis", lambda: whitened(top, top.layout.initial(), self.sentences, start, end), len(self.sentences)
        )
        learner = Adapted(lm.model, self.stack.shape.adapter, first)
        lesson = Lesson(STEPS, config.student.batch, config.student.learning_rate, 0, "hellinger")
        self.time("warm-up step", lambda: warm_up(learner, self.sentences, start, end, lesson), STEPS)
        asked, ask = self.sentences[: config.ask.sentences], config.ask
        threshold = ask.rank_threshold if ask.selection == "rank" else None
        count = max(1, round(ask.questions * len(asked) / ask.sentences))
        choice = Choice(count, ask.candidates, ask.top_p, ask.tail, config.data.prefix_tokens, threshold, 0.0, 0)
        questions = self.time("question", lambda: pose(learner, asked, start, end, choice), count)
        if not len(questions):
            raise BadInput("got no position to ask about, need some to measure: lower ask.rank_threshold")
        answered = Answered(questions, torch.rand(len(questions), questions.width))
        self.time("student step", lambda: distil(learner, answered, end, lesson), STEPS)
        return learner.flat.detach()[0], questions

    def updates(self, student: Tensor) -> int:
        """One launch of units; a round's noise and the server's step; packing a unit once; weighing coordinates."""
        config, shape = self.config, update_shape(self.config)
        public, some = Adapted(self.lm.model, self.stack.shape.adapter, student), self.sentences[: 2 * config.parcel]
        parcels = -(-len(some) // config.parcel)
        self.time("parcel", lambda: weights(public, some, start_id(self.lm), end_id(self.lm), config.parcel), parcels)
        movers = moves(self.stack, shape, self.stack.block)
        frame, first = frame_of(self.lm, shape), student.to(self.device, torch.float32)[None]
        own = max(1, round(config.data.sentences / config.data.units))
        packed = self.time(
            "unit", lambda: pack(self.rows[:own], frame, np.random.default_rng(0)), 1 / config.update_pages
        )
        block: Any = tuple(np.stack([getattr(packed, kind)] * movers.block) for kind in KINDS)
        places = self.stack.top.layout.outputs()
        total = BoundedSum(UNIT_BALL, 1, len(places), self.device)
        self.time("update", lambda: total.add((movers.of(block, first) / config.updates.clip)[:, None]))
        server = Server(student, places, ServerSettings(config.updates.rounds, config.updates.learning_rate))

        def finish() -> None:
            noisy = total.total.cpu().numpy() + rounded_normal(Fraction(10**9), len(places))
            server.step(torch.from_numpy(noisy.astype(np.float64))[0])

        self.time("round", finish)
        return movers.block

    def training(self) -> None:
        stack, shape = self.stack, self.stack.shape
        state = stack.state(stack.packed(lambda m: self.rows, stack.block, 0, 0), stack.top.layout.initial())
        self.time("training", lambda: advance(state, gradient(stack.top, state, 0), 0, shape))

    def asking(self, questions: Questions) -> float:
        """One block asked about the sample, bounded and summed; returns the rows' width on average."""
        stack, tokens = self.stack, aggregate.asked_tokens(questions)
        chunks = stack.chunks(questions.contexts)
        flat = stack.top.layout.initial().to(self.device).repeat(stack.block, 1)
        total = BoundedSum(Bound("root"), len(questions), questions.width, self.device)

        def ask() -> None:
            logits = stack.ask([flat], chunks, tokens, False)[0]
            total.add(aggregate.vectors(logits, questions, "root"))

        self.time("asking", ask, len(chunks))
        rows = sum(len(trunk) for trunk, _, _ in chunks)
        return float(sum(trunk.shape[0] * trunk.shape[1] for trunk, _, _ in chunks) / rows)
