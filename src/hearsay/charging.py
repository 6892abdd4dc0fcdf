"""What a run may spend: the ledger it is charged to, whether enough is left, and how much each round gets.

Decided before anything private is asked: the charge itself is checked again, exactly, by the ledger.
"""

from fractions import Fraction
from pathlib import Path

from hearsay.accounting import budget, identity, plan, sampled
from hearsay.accounting.costs import UNIT
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import Ledger
from hearsay.baselines import methods as baselines
from hearsay.config import Budgeted, Config
from hearsay.errors import BadInput, BudgetError, LedgerError
from hearsay.release.updates import full_scale, sampled_scale
from hearsay.run import Run, run_around

NO_SAMPLES = (
    "the ledger of {corpus!r} has no committed rounds of sampled updates for this run: they are committed once, before "
    "the first answer, and a sample cannot be paid for later; set updates.sample to 1 (every unit in every round)"
)
CRUMB = 0.01  # of a budget: less than this, left over by rounding, teaches nothing


def check_feasible(config: Config, *, anyway: bool) -> plan.Plan:
    made = plan.make(config.plan_request())
    if not made.feasible and not anyway and config.baseline is None:  # the plan speaks of teachers
        raise BudgetError(f"this budget cannot work: {made.why}. To run all the same, type --anyway")
    return made


def open_ledger(
    config: Budgeted, path: Path, *, research: bool = False, schedule: tuple[SubsampledGaussian, ...] = ()
) -> Ledger:
    corpus = identity.corpus_id(config.privacy.corpus)
    if path.exists():
        ledger = Ledger.open(path, corpus=corpus)
        if (ledger.budget.epsilon, ledger.budget.delta) != (config.privacy.epsilon, config.privacy.delta):
            raise BudgetError(
                f"the ledger of {config.privacy.corpus!r} was begun with epsilon {ledger.budget.epsilon}, delta "
                f"{ledger.budget.delta}; a corpus has one budget: set privacy.epsilon and delta to these"
            )
        if ledger.unit != config.privacy.unit:  # answers bounded for a record, told as a promise to a user
            raise BudgetError(
                f"the ledger of {config.privacy.corpus!r} protects each {ledger.unit}, but privacy.unit is "
                f"{config.privacy.unit}; a corpus has one unit: set privacy.unit to {ledger.unit}"
            )
        if ledger.column and ledger.column != unit_column(config):  # other people, or several units of one
            raise BudgetError(
                f"the ledger of {config.privacy.corpus!r} tells one {ledger.unit} from another by column "
                f"{ledger.column!r}, this config by {unit_column(config)!r}; a corpus has one kind of unit: name "
                "the same column"
            )
        return ledger
    allowed = budget.make(config.privacy.epsilon, config.privacy.delta, schedule=schedule)
    privacy = config.privacy
    return Ledger.create(
        path, allowed, corpus=corpus, corpus_name=privacy.corpus, unit=privacy.unit, column=unit_column(config),
        research=research,
    )  # fmt: skip


def unit_column(config: Budgeted) -> str:
    """By which column units are told apart: a record is known by its text."""
    data = config.data
    return str(data.user if config.privacy.unit == "user" else data.text)


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
    except LedgerError:
        unused = not begun and not ledger.charges()  # another process may have charged it meanwhile
        ledger.close()
        if unused:  # it must not stay beside the one that counts
            run.ledger.unlink()
        raise
    if check:
        check_left(config, ledger, run.id, all_committed=all_committed)
    ledger.register(run.id, run.folder)
    return ledger


def check_origin(model: str, run: Run) -> None:
    """A model that a run made carries that run's cost: both must stand in one ledger, or the cost hides."""
    maker = None if model == "embedded" else run_around(Path(model))
    if maker is None:
        return
    if maker.ledger != run.ledger:
        raise BadInput(
            f"the student of {maker.folder} is charged to {maker.ledger}, this run to {run.ledger}; both must be "
            f"charged to one ledger: type --ledger {maker.ledger}"
        )
    if not Path(model).resolve().is_relative_to(maker.release):
        raise BadInput(f"{model} lies in a run directory but not in its release/: no guarantee covers it; name another")


def refuse_early(config: Config, run: Run, *, all_committed: bool) -> None:
    """What the ledger will refuse, it refuses before any private text is read and shards lie about."""
    if not run.ledger.exists():
        return
    ledger = open_ledger(config, run.ledger)
    try:
        if config.baseline is None:  # what is charged whole is looked at there
            check_left(config, ledger, run.id, all_committed=all_committed)
            check_samples(config, ledger, run.id)
    finally:
        ledger.close()


def check_left(config: Budgeted, ledger: Ledger, run_id: str, *, all_committed: bool = False) -> None:
    """Refuses before anything is trained in vain; the charge itself is checked, exactly, by the ledger.

    A schedule that stands in the first row is this run's own unless another one has drawn on it; then `all_committed`
    (nothing is asked beside it) needs nothing more, and others need what is left beside it.
    """
    allowed, charges = ledger.budget, ledger.charges()
    mine = [charge.event for charge in charges if charge.run == run_id]
    ours = bool(allowed.schedule) and (bool(mine) or not charges)
    if ours and all_committed:
        return
    own = sum(allowed.cost(event) for event in mine if event not in allowed.schedule)
    rest, whole = allowed.capacity - ledger.account().spent + own, allowed.capacity if ours else allowed.whole
    left = float(rest / whole) if whole else 0.0
    if left < config.privacy.spend * (1 - 1e-6):
        most = int(left * 1e4) / 1e4  # rounded down: what is advised must fit
        way_out = (
            f"set privacy.spend to at most {most}" if most >= CRUMB else "no further run can ask about this corpus"
        )
        raise BudgetError(
            f"corpus {ledger.corpus_name!r} has {left:.1%} of its budget left, but privacy.spend asks for "
            f"{config.privacy.spend:.1%}; nothing is refunded: {way_out}"
        )


def check_samples(config: Config, ledger: Ledger, run_id: str) -> None:
    """A committed schedule is drawn on by one run: another one's samples have nothing that pays for them."""
    taken = any(c.run != run_id and c.event in ledger.budget.schedule for c in ledger.charges())
    if config.share_of_updates and config.update_rate < 1 and (taken or not ledger.budget.schedule):
        raise BudgetError(NO_SAMPLES.format(corpus=ledger.corpus_name))


def committed(config: Config, width: int) -> tuple[SubsampledGaussian, ...]:
    """What must stand in a new ledger's first row: Poisson samples, which no filter takes later."""
    if config.baseline is not None:
        return baselines.schedule(config)
    settings, privacy = config.updates, config.privacy
    if not config.share_of_updates or config.update_rate == 1:
        return ()
    epsilon = sampled.part_of(privacy.epsilon, privacy.delta, privacy.spend * config.share_of_updates)
    rate = config.update_rate
    whole = sampled.schedule_for(epsilon, privacy.delta, rate, settings.rounds)
    return (SubsampledGaussian(rate, whole.noise_multiplier, 1, width),) * settings.rounds


def update_scale(config: Config, ledger: Ledger, width: int) -> Fraction:
    """Of the noise of a round of updates: in closed form if all take part, else as the ledger's first row committed."""
    settings = config.updates
    if config.update_rate == 1:
        return full_scale(part_of_budget(config, ledger, config.share_of_updates) / settings.rounds - UNIT)
    wanted = committed(config, width)
    if not set(wanted) <= set(ledger.budget.schedule):
        raise BudgetError(NO_SAMPLES.format(corpus=ledger.corpus_name))
    return sampled_scale(wanted[0])


def part_of_budget(config: Budgeted, ledger: Ledger, part: float) -> Fraction:
    """mu^2 for a part of what this run may spend."""
    return ledger.budget.capacity * Fraction(config.privacy.spend) * Fraction(part)


def share_of_a_round(config: Config, ledger: Ledger) -> Fraction:
    """mu^2 for one round of answers: an equal part of what updates leave; a committed schedule has taken its own."""
    part = 1.0 if ledger.budget.schedule else 1 - config.share_of_updates
    return part_of_budget(config, ledger, part) / config.ask.rounds - 4 * UNIT
