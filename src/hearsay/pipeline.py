"""The whole method on one page: private text and public prefixes in, a student with its guarantee out.

    rows ─► shards (keyed hash of the unit) ─► one teacher per shard ─┐
                                                                      ├─ the door ─► noisy answers ─► student
    public prefixes ─► pseudo sentences ─► questions ─────────────────┘

Left of the door may see private text (private/), right of it may not (public/). Only this file and release/ touch
both sides, and what crosses is named here: `door.ask`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hearsay import charging, stages
from hearsay import lm as models
from hearsay.accounting import identity
from hearsay.accounting.ledger import Ledger
from hearsay.adapter_files import merged
from hearsay.baselines import methods as baselines
from hearsay.config import Config
from hearsay.lm import LanguageModel, end_id, start_id
from hearsay.private import engines
from hearsay.private.engine import Bench, Engine, Plan
from hearsay.private.moves import moves
from hearsay.private.shards import Partition
from hearsay.private.stack import Stack
from hearsay.private.store import AdapterStore
from hearsay.private.teaching import make_partition, training_shape, update_shape
from hearsay.private.workshop import Teaching, Workshop, WorkshopPlan
from hearsay.public.basis import whitened
from hearsay.public.cards import release_student
from hearsay.public.prefixes import complete, read_prefixes
from hearsay.public.questions import Choice, Questions, pose
from hearsay.public.server import Server, ServerSettings
from hearsay.public.shortlist import Vocabulary, shares
from hearsay.public.student import Answered, Lesson, distil, warm_up
from hearsay.release.asking import Ensemble, ask
from hearsay.release.door import Door
from hearsay.release.updates import CrowdPlan, ask_update
from hearsay.run import Run
from hearsay.stacked import Adapted
from hearsay.stages import Stages

Watcher = Callable[[str], stages.Watch]
SHARES_FROM = 300  # pseudo sentences that tell which tokens are likely
BLOCKS = {"cpu": 16, "cuda": 64}  # teachers per launch


@dataclass
class Work:
    """What the stages share. `student` is public; `partition` is not."""

    config: Config
    run: Run
    ledger: Ledger
    door: Door
    stages: Stages
    lm: LanguageModel
    stack: Stack
    partition: Partition
    prefixes: list[list[int]]

    def file(self, name: str) -> Path:
        return self.run.release / "stages" / f"{name}.safetensors"

    @cached_property
    def workshop(self) -> Workshop:
        """Where the private work is done, unless workers elsewhere build their own from the plan."""
        return Workshop(self.stack, self.partition)

    @property
    def workshop_plan(self) -> WorkshopPlan:
        return self.workshop.plan(compile=self.config.compute.compile)


def generate(
    config: Config, run: Run, watch: Watcher = stages.Watch, *, anyway: bool = False, research: bool = False
) -> Work:
    """Runs or resumes; the student ends in release/student. `research` stamps the ledger: not for production."""
    charging.check_feasible(config, anyway=anyway)
    with engines.ready(config.compute):
        return _generate(config, run, watch, research=research)


def _generate(config: Config, run: Run, watch: Watcher, *, research: bool) -> Work:
    with identity.at(run.home):
        work = prepare(config, run, watch, research=research)
    student = warmed_up(work)
    if config.baseline is not None:
        baselines.run(work, student)
        return work
    if config.share_of_updates:
        student = moved(work, student)
    for number in range(config.rounds_of_answers):
        questions = ask_about(work, student, number)
        teachers = train_teachers(work, student, number)
        answered = answers(work, questions, teachers, student, number)
        student = taught(work, student, answered, number)
    release_student(work.run, merged(work.lm, work.stack.top, student), work.ledger, config)
    return work


def prepare(config: Config, run: Run, watch: Watcher, *, research: bool = False) -> Work:
    flow = Stages(run, watch)
    if config.compute.threads is not None:
        torch.set_num_threads(config.compute.threads)
    device = stages.pick_device(config.compute.device)
    charging.check_origin(config.model, run)
    with flow.start("model"):
        lm = models.load(config.model, device=device, dtype=_precision(config.compute.precision, device))
        prefixes = read_prefixes(lm, config.data.public, config.data.text, config.data.prefix_tokens)
    with flow.start("shards"):
        partition = make_partition(config, lm, run.private / "shards")
    block = config.compute.block or BLOCKS.get(device.type, 16)
    stack = Stack(lm, training_shape(config), block=block, device=device, compile=config.compute.compile)
    schedule = () if run.ledger.exists() else charging.committed(config, len(stack.top.layout.outputs()))
    # What is charged whole, or was committed in the first row, is looked at there and not beforehand.
    sampled_only = config.share_of_updates == 1 and config.update_rate < 1
    check = config.baseline is None and not sampled_only
    ledger = charging.answerable(config, run, partition.sketch, research=research, schedule=schedule, check=check)
    door = Door(ledger, run.id, run.folder)
    door.sweep()
    return Work(config, run, ledger, door, flow, lm, stack, partition, prefixes)


def warmed_up(work: Work) -> Tensor:
    """The student before any question: the public model, warmed up on its own pseudo sentences."""
    config, lm = work.config, work.lm

    def compute(progress: stages.Progress) -> Tensor:
        sentences = pseudo_sentences(work)
        student = Adapted(lm.model, work.stack.shape.adapter, starting_point(work, sentences))
        lesson = _lesson(config, "kl", steps=config.student.warm_up, seed=config.compute.seed)
        warm_up(student, sentences, start_id(lm), end_id(lm), lesson, progress)
        return student.flat[0]

    return work.stages.tensor("warm-up", work.file("warm-up"), compute)


def starting_point(work: Work, sentences: list[list[int]]) -> Tensor:
    """The adapter before any training: the base model itself, with inner halves from its own text (public/basis.py)."""
    initial = work.stack.top.layout.initial()
    if work.config.adapter.basis == "random":
        return initial
    return whitened(work.stack.top, initial, sentences, start_id(work.lm), end_id(work.lm))


def pseudo_sentences(work: Work) -> list[list[int]]:
    path = work.run.release / "stages" / "pseudo.json"
    count, seed = work.config.student.pseudo, work.config.compute.seed
    return work.stages.tokens("pseudo text", path, lambda _: _completed(work, work.lm, count, seed))


def moved(work: Work, student: Tensor) -> Tensor:
    """The student after all rounds of updates: every unit says how it would move it, the door adds up (updates.py)."""
    settings, shape = work.config.updates, update_shape(work.config)
    rate = work.config.update_rate

    def compute(progress: stages.Progress) -> Tensor:
        scale = charging.update_scale(work.config, work.ledger, len(work.stack.top.layout.outputs()))
        words = vocabulary(work)
        block = moves(work.stack, shape, work.stack.block, words.listed(0) if words else None).block
        plan = CrowdPlan(
            work.workshop_plan, shape, block, work.config.update_pages, work.run.private / "units",
            work.config.data.units, settings.clip, rate, work.run.id,
        )  # fmt: skip
        crowd = replace(plan.gather(work.workshop), vocabulary=words)
        crowd = replace(crowd, engine=_engine(work, crowd, plan))
        rule = ServerSettings(settings.rounds, settings.learning_rate, settings.optimiser, settings.average)
        server = Server(student, work.stack.top.layout.outputs(), rule)
        for number in range(settings.rounds):
            server.step(ask_update(work.door, crowd, server.student, number, scale))
            progress(number + 1, settings.rounds)
        return server.result

    return work.stages.tensor("updates", work.file("updates"), compute)


def vocabulary(work: Work) -> Vocabulary | None:
    """What units' losses are compared with in rounds of updates; none: all tokens (public/shortlist.py)."""
    size, lm = work.config.updates.vocabulary, work.lm
    if size is None or size >= lm.model.get_output_embeddings().weight.shape[0]:
        return None

    def compute(_: stages.Progress) -> Tensor:
        return shares(lm, pseudo_sentences(work)[:SHARES_FROM], start_id(lm), end_id(lm))

    found = work.stages.tensor("vocabulary", work.file("vocabulary"), compute)
    return Vocabulary(found, size, work.config.compute.seed)


def ask_about(work: Work, student: Tensor, number: int) -> Questions:
    """A round's questions: positions in sentences that the student itself completes from public prefixes."""
    path = work.file(f"questions-{number}")
    if path.exists():
        return Questions.load(path)
    config = work.config
    with work.stages.start(f"questions {number + 1}"):
        speaker = merged(work.lm, work.stack.top, student)
        seed = config.compute.seed + 1000 * (number + 1)
        sentences = _completed(work, speaker, config.ask.sentences, seed)
        choice = Choice(
            count=config.ask.questions,
            candidates=config.ask.candidates,
            top_p=config.ask.top_p,
            tail=config.ask.tail,
            prefix_tokens=config.data.prefix_tokens,
            rank_threshold=config.ask.rank_threshold if config.ask.selection == "rank" else None,
            holdout=config.ask.holdout,
            seed=seed,
        )
        asker = Adapted(work.lm.model, work.stack.shape.adapter, student)
        questions = pose(asker, sentences, start_id(work.lm), end_id(work.lm), choice)
        questions.save(path)
    return questions


def train_teachers(work: Work, student: Tensor, number: int) -> AdapterStore:
    """Private: one teacher per shard, restarted from the current (public) student."""
    count = work.config.teachers.count
    store = work.stack.store(work.run.private / "teachers" / f"round-{number}", count=count, generation=number)
    if missing := store.missing():
        with work.stages.start(f"teachers {number + 1}") as progress:
            store.sweep()
            engine = _engine(work, work.workshop, work.workshop_plan)
            for _ in engine.map(Teaching(store, student), np.array(missing), progress):
                pass  # trained teachers come back as files in private/, never as values
    return store


def answers(work: Work, questions: Questions, teachers: AdapterStore, student: Tensor, number: int) -> Answered:
    """Through the door (release/asking.py): a round may cost its equal share of what this run may spend."""
    config = work.config
    share = charging.share_of_a_round(config, work.ledger)
    with work.stages.start(f"answers {number + 1}") as progress:
        engine = _engine(work, work.workshop, work.workshop_plan)
        ensemble = Ensemble(engine, work.stack, Teaching(teachers, student), work.run.id, progress)
        return Answered(questions, ask(work.door, ensemble, questions, config.ask, share))


def _engine(work: Work, bench: Bench, plan: Plan[Bench]) -> Engine[Bench]:
    return engines.for_bench(work.config.compute, bench, plan, gpus=work.stack.device.type == "cuda")


def taught(work: Work, student: Tensor, answered: Answered, number: int) -> Tensor:
    """The student after a round. Post-processing: nothing here can cost privacy."""
    config = work.config
    kind = config.student.loss if config.ask.recipe == "seqpate" else "hellinger"

    def compute(progress: stages.Progress) -> Tensor:
        learner = Adapted(work.lm.model, work.stack.shape.adapter, student)
        lesson = _lesson(config, kind, steps=config.student.steps, seed=config.compute.seed + number)
        distil(learner, [answered], end_id(work.lm), lesson, progress)
        return learner.flat[0]

    return work.stages.tensor(f"student {number + 1}", work.file(f"student-{number}"), compute)


def _lesson(config: Config, kind: str, *, steps: int, seed: int) -> Lesson:
    settings, paper = config.student, config.ask.recipe == "seqpate"
    return Lesson(
        steps=steps,
        batch=settings.batch,
        learning_rate=settings.learning_rate,
        seed=seed,
        loss=kind,
        weight=settings.weight if paper else 1.0,
        pseudo_loss=paper and settings.pseudo_loss,
    )


def _completed(work: Work, speaker: LanguageModel, count: int, seed: int) -> list[list[int]]:
    data = work.config.data
    return complete(speaker, work.prefixes, count, min_tokens=data.min_tokens, max_tokens=data.max_tokens, seed=seed)


def _precision(name: str, device: torch.device) -> torch.dtype:
    """Of the base model and the student: bfloat16 on a GPU, unless told otherwise; always float32 on a processor."""
    return torch.bfloat16 if device.type == "cuda" and name != "float32" else torch.float32
