"""What a run may spend: the ledger it is charged to, whether enough is left, and how much each round gets.

Decided before anything private is asked: the charge itself is checked again, exactly, by the ledger.
"""

from fractions import Fraction
from pathlib import Path

from hearsay import admission
from hearsay.accounting import budget, identity, plan, sampled
from hearsay.accounting.costs import UNIT
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import Ledger
from hearsay.baselines import methods as baselines
from hearsay.config import Budgeted, Config
from hearsay.errors import BadInput, BudgetError, HearsayError
from hearsay.origins import origins
from hearsay.release.updates import full_scale, sampled_scale
from hearsay.run import Run


def check_feasible(config: Config, *, anyway: bool) -> plan.Plan:
    made = plan.make(config.plan_request())
    if not made.feasible and not anyway and config.baseline is None:  # the plan speaks of teachers
        raise BudgetError(
            f"this budget cannot work: {made.why}. What suits: {made.suits}. To run all the same, type --anyway"
        )
    return made


def open_ledger(
    config: Budgeted, path: Path, *, research: bool = False, schedule: tuple[SubsampledGaussian, ...] = ()
) -> Ledger:
    corpus = identity.corpus_id(config.privacy.corpus)
    if path.exists():
        ledger = Ledger.open(path, corpus=corpus)
        admission.check_promise(config, ledger)
        return ledger
    allowed = budget.make(config.privacy.epsilon, config.privacy.delta, schedule=schedule)
    privacy = config.privacy
    return Ledger.create(
        path, allowed, corpus=corpus, corpus_name=privacy.corpus, unit=privacy.unit,
        column=admission.unit_column(config), research=research,
    )  # fmt: skip


def answerable(
    config: Budgeted,
    run: Run,
    sketch: tuple[bytes, ...],
    *,
    research: bool = False,
    schedule: tuple[SubsampledGaussian, ...] = (),
    check: bool = True,
    all_committed: bool = False,
) -> Ledger:
    """The ledger that this run's answers are charged to, with budget left, after asking whether another one counts."""
    begun = run.ledger.exists()
    ledger = open_ledger(config, run.ledger, research=research, schedule=schedule)
    try:
        identity.remember(ledger.id, ledger.path, sketch)
    except HearsayError:
        unused = not begun and not ledger.charges()  # another process may have charged it meanwhile
        ledger.close()
        if unused:  # it must not stay beside the one that counts
            run.ledger.unlink()
        raise
    if check:
        admission.check_left(config, ledger, run.id, all_committed=all_committed)
    ledger.register(run.id, run.folder)
    return ledger


def check_origin(place: str | Path, run: Run) -> None:
    """A model or text that a run made carries that run's cost: both must stand in one ledger, or the cost hides."""
    for origin in origins(Path(place)) if place != "embedded" else ():
        maker = origin.run
        if maker.ledger != run.ledger:
            raise BadInput(
                f"what {maker.folder} released is charged to {maker.ledger}, this run to {run.ledger}; both must be "
                f"charged to one ledger: type --ledger {maker.ledger}"
            )
        if not origin.released:
            where = f"{place} lies" if origin.place == Path(place) else f"{place} leads to {origin.place}, which lies"
            raise BadInput(f"{where} in a run directory but not in its release/: no guarantee covers it; name another")


def refuse_early(config: Config, run: Run) -> None:
    """What the ledger will refuse, it refuses before any private text is read and shards lie about."""
    if run.ledger.exists():
        ledger = open_ledger(config, run.ledger)
        try:
            admission.check(config, ledger, run.id)
        finally:
            ledger.close()


def committed(config: Config, width: int) -> tuple[SubsampledGaussian, ...]:
    """What must stand in a new ledger's first row: Poisson samples, which no filter takes later."""
    if config.baseline is not None:
        return baselines.schedule(config)
    settings, privacy = config.updates, config.privacy
    if not config.share_of_updates or config.update_rate == 1:
        return ()
    rate, share = config.update_rate, privacy.spend * config.share_of_updates
    whole = sampled.schedule_for(privacy.epsilon, privacy.delta, rate, settings.rounds, share)
    return (SubsampledGaussian(rate, whole.noise_multiplier, 1, width),) * settings.rounds


def update_scale(config: Config, ledger: Ledger, width: int) -> Fraction:
    """Of the noise of a round of updates: in closed form if all take part, else as the ledger's first row committed."""
    settings = config.updates
    if config.update_rate == 1:
        return full_scale(part_of_budget(config, ledger, config.share_of_updates) / settings.rounds - UNIT)
    wanted = committed(config, width)
    if not set(wanted) <= set(ledger.budget.schedule):
        raise BudgetError(admission.NO_SAMPLES.format(corpus=ledger.corpus_name))
    return sampled_scale(wanted[0])


def part_of_budget(config: Budgeted, ledger: Ledger, part: float) -> Fraction:
    """mu^2 for a part of what this run may spend."""
    return ledger.budget.capacity * Fraction(config.privacy.spend) * Fraction(part)


def share_of_a_round(config: Config, ledger: Ledger) -> Fraction:
    """mu^2 for one round of answers: an equal part of what updates leave; sampled ones have taken theirs before."""
    part = 1.0 if config.update_rate < 1 else 1 - config.share_of_updates
    return part_of_budget(config, ledger, part) / config.ask.rounds - 4 * UNIT
