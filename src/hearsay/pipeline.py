"""The whole method on one page: private text and public prefixes in, a student with its guarantee out.

    rows ─► shards (keyed hash of the unit) ─► one teacher per shard ─┐
                                                                      ├─ the door ─► noisy answers ─► student
    public prefixes ─► pseudo sentences ─► questions ─────────────────┘

Left of the door may see private text (private/), right of it may not (public/). Only release/, this file, updating.py
(where units are asked instead of teachers) and work.py (which prepares both) touch both sides, and what crosses goes
through `door.ask`.
"""

import numpy as np
from torch import Tensor

from hearsay import charging, stages
from hearsay.accounting import identity
from hearsay.adapter_files import merged
from hearsay.baselines import methods as baselines
from hearsay.config import Config
from hearsay.errors import BadInput
from hearsay.lm import end_id, start_id
from hearsay.private import engines
from hearsay.private.store import AdapterStore
from hearsay.private.workshop import Teaching
from hearsay.public.basis import whitened
from hearsay.public.cards import Round, release_student
from hearsay.public.questions import Choice, Questions, pose
from hearsay.public.student import Answered, Lesson, distil, warm_up
from hearsay.release.asking import Ensemble, ask
from hearsay.run import Run, forget_time
from hearsay.sections import JUDGES
from hearsay.stacked import Adapted
from hearsay.updating import moved
from hearsay.work import Watcher, Work, completed, engine_for, prepare, pseudo_sentences


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
    carry_out(work, warmed_up(work))
    return work


def carry_out(work: Work, student: Tensor) -> None:
    """The config's method, from the warmed-up student to what is released."""
    config = work.config
    if config.baseline is not None:
        baselines.run(work, student)
        return
    if config.share_of_updates:
        student = moved(work, student)
    rounds = []
    for number in range(config.rounds_of_answers):
        questions = ask_about(work, student, number)
        if needed := _missing(config, questions):
            _refuse_first(work, questions, needed)
            rounds.append(Round(asked=0))
            continue
        before, student = student, after_answers(work, student, questions, number)
        rounds.append(Round(len(questions), moved=not before.equal(student)))
    release_student(work.run, merged(work.lm, work.stack.top, student), work.ledger, config, rounds)


def _missing(config: Config, questions: Questions) -> str:
    """What a round lacks without which all of its budget would buy nothing."""
    if not len(questions):
        return "one to ask about"
    if config.student.caution and questions.held_out.sum() < JUDGES:
        return f"{JUDGES} held out to tell whether answers favour a step"
    return ""


def _refuse_first(work: Work, questions: Questions, needed: str) -> None:
    """Before anything was paid. Later, what a run has paid for is worth more than the rounds it goes without."""
    if not work.ledger.charges(work.run.id):
        raise BadInput(
            f"the student's sentences offer {len(questions)} positions to ask about and hold out "
            f"{questions.held_out.sum()} of them; need {needed}. Nothing was asked or charged. Raise ask.sentences or "
            "ask.holdout, lower ask.rank_threshold, or set student.caution: 0, and name another --out"
        )


def after_answers(work: Work, student: Tensor, questions: Questions, number: int) -> Tensor:
    """The student after a round of answers; one that was finished is neither taught nor asked again."""
    path = work.file(f"student-{number}")
    if path.exists():
        return stages.load_tensor(path)
    teachers = train_teachers(work, student, number)
    return taught(work, student, answers(work, questions, teachers, student, number), number)


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


def ask_about(work: Work, student: Tensor, number: int) -> Questions:
    """A round's questions: positions in sentences that the student itself completes from public prefixes."""
    path = work.file(f"questions-{number}")
    if path.exists():
        return Questions.load(path)
    config = work.config
    with work.stages.start(f"questions {number + 1}"):
        speaker = merged(work.lm, work.stack.top, student)
        seed = config.compute.seed + 1000 * (number + 1)
        sentences = completed(work, speaker, config.ask.sentences, seed)
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
        forget_time(path)
    return questions


def train_teachers(work: Work, student: Tensor, number: int) -> AdapterStore:
    """Private: one teacher per shard, restarted from the current (public) student."""
    count = work.config.teachers.count
    store = work.stack.store(work.run.private / "teachers" / f"round-{number}", count=count, generation=number)
    if missing := store.missing():
        with work.stages.start(f"teachers {number + 1}") as progress:
            store.sweep()
            engine = engine_for(work, work.workshop, work.workshop_plan)
            for _ in engine.map(Teaching(store, student), np.array(missing), progress):
                pass  # trained teachers come back as files in private/, never as values
    return store


def answers(work: Work, questions: Questions, teachers: AdapterStore, student: Tensor, number: int) -> Answered:
    """Through the door (release/asking.py): a round may cost its equal share of what this run may spend."""
    config = work.config
    share = charging.share_of_a_round(config, work.ledger)
    with work.stages.start(f"answers {number + 1}") as progress:
        engine = engine_for(work, work.workshop, work.workshop_plan)
        ensemble = Ensemble(engine, work.stack, Teaching(teachers, student), work.run.id, progress)
        return Answered(questions, ask(work.door, ensemble, questions, config.ask, share))


def taught(work: Work, student: Tensor, answered: Answered, number: int) -> Tensor:
    """The student after a round. Post-processing: nothing here can cost privacy."""
    config = work.config
    kind = config.student.loss if config.ask.recipe == "seqpate" else "hellinger"

    def compute(progress: stages.Progress) -> Tensor:
        learner = Adapted(work.lm.model, work.stack.shape.adapter, student)
        lesson = _lesson(config, kind, steps=config.student.steps, seed=config.compute.seed + number)
        distil(learner, answered, end_id(work.lm), lesson, progress)
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
        caution=settings.caution,
    )
