"""`baseline:` in a config: the same data, unit, budget, ledger and evaluation, and another method.

public          the base model                               release/student, costs nothing
public_pseudo   ... warmed up on its own pseudo sentences    release/student, costs nothing
private         one adapter on the private text              internal/, NOT PRIVATE
blacklist       ... its secrets replaced after generation    internal/, NOT PRIVATE
dpsgd, ghost    DP-SGD by Opacus, a sample is a unit         release/student, charged whole before the first step
"""

import json
import warnings
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load
from torch import Tensor

from hearsay import admission
from hearsay.accounting import budget, sampled
from hearsay.accounting.costs import UNIT
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import PENDING, Charge, Ledger
from hearsay.adapter_files import merged
from hearsay.baselines.settings import Baseline
from hearsay.baselines.unprotected import Training, private_adapter
from hearsay.config import Config
from hearsay.disk import write_text
from hearsay.errors import LedgerError
from hearsay.public.cards import release_student
from hearsay.release.results import release_once
from hearsay.stages import Progress, save_tensor

if TYPE_CHECKING:
    from hearsay.work import Work

NOISE = "research (Opacus)"
OPACUS = "opacus.json"


def run(work: "Work", warm: Tensor) -> None:
    """`warm` is the public model's adapter after its pseudo sentences: the start of what is warmed up."""
    settings = chosen(work.config)
    start = warm if settings.warm_up else work.stack.top.layout.initial()
    if not settings.protects:
        private_adapter(
            work.run, work.stages, work.lm, lambda: work.partition, work.stack.shape, Training(), start=start
        )
    elif settings.noisy:
        _noisy(work, settings, start)
    else:
        student = work.lm if settings.method == "public" else merged(work.lm, work.stack.top, warm)
        release_student(work.run, student, work.ledger, work.config)


def chosen(config: Config) -> Baseline:
    if config.baseline is None:
        raise ValueError("no baseline in this config")
    return config.baseline


def schedule(config: Config) -> tuple[SubsampledGaussian, ...]:
    """What the ledger's first row must commit to. Full batches are plain Gaussians and need nothing."""
    settings = config.baseline
    if settings is None or not settings.noisy or settings.batch == config.data.units:
        return ()
    privacy = config.privacy
    return (sampled.schedule_for(privacy.epsilon, privacy.delta, _rate(config), settings.steps, privacy.spend),)


def _rate(config: Config) -> Fraction:
    """From the declared number of units: how many there are is private."""
    return Fraction(chosen(config).batch, config.data.units)


def _noisy(work: "Work", settings: Baseline, start: Tensor) -> None:
    paid = _charge(work, settings)
    event = paid.event
    if not isinstance(event, SubsampledGaussian):
        raise LedgerError(f"row {paid.row} of the ledger charged {paid.question} as another release than DP-SGD")

    def train(path: Path) -> None:
        with work.stages.start(settings.method) as progress:
            flat = _trained(work, settings, event, start, progress)
            save_tensor(path, flat.detach().cpu().contiguous())

    flat = load(release_once(work.door, paid, train))["value"]
    release_student(work.run, _learner(work, settings, start).student(flat), work.ledger, work.config)


def _charge(work: "Work", settings: Baseline) -> Charge:
    """All steps, before the first; once for a run. What they give is bound to the charge before it is released."""
    question = f"{settings.method}-{settings.steps}-{settings.batch}"
    paid = work.ledger.find(work.run.id, question)
    if paid is not None:
        return paid
    place = work.file(settings.method).relative_to(work.run.folder)
    return work.ledger.charge(
        work.run.id, question, _event(work.ledger, work.config), answer=f"{PENDING}{place}",
        purpose=f"{settings.method}: {settings.steps} steps of about {settings.batch} units",
        folder=work.run.folder, noise=NOISE,
    )  # fmt: skip


def _event(ledger: Ledger, config: Config) -> SubsampledGaussian:
    rate, steps, allowed = _rate(config), chosen(config).steps, ledger.budget
    if rate == 1 and allowed.filter == "gaussian":  # of the whole budget, whatever is left: the ledger refuses
        whole = budget.make(allowed.epsilon, allowed.delta).capacity
        return sampled.full_for(whole * Fraction(config.privacy.spend) - 4 * UNIT, steps)
    if allowed.filter == "renyi":
        return schedule(config)[0]
    return admission.committed_steps(chosen(config), config.data.units, ledger)


def _learner(work: "Work", settings: Baseline, start: Tensor) -> Any:
    from hearsay.baselines.learner import Learner

    return Learner(work.lm, work.stack.top, start, settings.trainable)


def _trained(work: "Work", settings: Baseline, event: SubsampledGaussian, start: Tensor, progress: Progress) -> Tensor:
    from hearsay.baselines import dpsgd
    from hearsay.baselines.units import Units

    learner = _learner(work, settings, start)
    ghost, data = settings.method == "ghost", work.config.data
    steps = dpsgd.Steps(
        event=event,
        batch=settings.batch,
        clip=settings.clip,
        learning_rate=settings.learning_rate,
        optimiser=settings.optimiser,
        decay=settings.decay,
        average=settings.average,
        ghost=ghost,
        physical=settings.physical or dpsgd.fitting(learner, ghost),
    )
    width = settings.tokens if work.config.privacy.unit == "user" else data.max_tokens + 1
    units = Units.of(work.partition, work.lm, width)
    found = dpsgd.train(learner, units, steps, progress)
    _second_accountant(work, event, found.history)
    return found.flat


def _second_accountant(work: "Work", event: SubsampledGaussian, history: list[tuple[float, float, int]]) -> None:
    """Opacus's own count of the steps it took, beside the ledger's: both follow from public settings alone."""
    from opacus.accountants import PRVAccountant

    accountant, delta = PRVAccountant(), work.config.privacy.delta
    accountant.history = history
    ours = sampled.epsilon_of(event, delta)
    with warnings.catch_warnings():  # it speaks of logarithms of 0 (full batches) and of the orders it starts from
        warnings.simplefilter("ignore")
        theirs = accountant.get_epsilon(delta, eps_error=ours / 500)
    body = {"history": history, "epsilon_opacus": theirs, "epsilon_ledger": ours, "delta": delta}
    write_text(work.run.release / OPACUS, json.dumps(body, indent=1))
