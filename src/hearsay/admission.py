"""Whether a ledger takes one more run, told before any private text is read; `plan` asks the same.

Light to import: no model, no trainer. The charge itself is checked again, exactly, by the ledger.
"""

from fractions import Fraction

from hearsay.accounting import identity
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import Ledger
from hearsay.baselines.settings import Baseline
from hearsay.config import Budgeted, Config
from hearsay.errors import BudgetError

NO_SAMPLES = (
    "the ledger of {corpus!r} has no committed rounds of sampled updates for this run: they are committed once, before "
    "the first answer, and a sample cannot be paid for later; set updates.sample to 1 (every unit in every round)"
)
NO_STEPS = (
    "the ledger of {corpus!r} did not commit to {steps} steps of about {batch} units before its first answer, or has "
    "spent them, and a Poisson sample cannot be paid for later; {way_out}"
)
CRUMB = 0.01  # of a budget: less than this, left over by rounding, teaches nothing


def left(config: Budgeted) -> tuple[float | None, str | None]:
    """Of the corpus's whole budget, if its ledger was begun, and why it would refuse a new run of this config."""
    path = identity.ledger_path(config.privacy.corpus)
    if not path.exists():
        return None, None
    ledger = Ledger.open(path)
    try:
        share = ledger.budget.left(ledger.account().spent)
        check(config, ledger, run_id="")
    except BudgetError as refusal:
        return share, str(refusal)
    finally:
        ledger.close()
    return share, None


def check(config: Budgeted, ledger: Ledger, run_id: str) -> None:
    """All that can be told from public settings and the ledger."""
    check_promise(config, ledger)
    if not isinstance(config, Config):
        check_left(config, ledger, run_id)
    elif config.baseline is None:
        check_left(config, ledger, run_id, all_committed=config.all_committed)
        check_samples(config, ledger, run_id)
    elif config.baseline.noisy and not ledger.charges(run_id):  # what is charged is charged whole, and before
        if config.baseline.batch == config.data.units and ledger.budget.filter == "gaussian":
            check_left(config, ledger, run_id)
        elif ledger.budget.filter == "gaussian":
            committed_steps(config.baseline, config.data.units, ledger)


def committed_steps(baseline: Baseline, units: int, ledger: Ledger) -> SubsampledGaussian:
    """What the first row committed to for steps like these, if nobody has drawn on it yet."""
    rate = Fraction(baseline.batch, units)
    for event in ledger.budget.schedule[ledger.account().scheduled :]:
        if isinstance(event, SubsampledGaussian) and (event.rate, event.steps) == (rate, baseline.steps):
            return event
    left = ledger.budget.left(ledger.account().spent)
    way_out = (
        "set baseline.batch to data.units (every unit in every step), or keep the corpus's ledger for the method that "
        "began it"
        if left >= CRUMB
        else f"{left:.1%} of its budget is left: no further run can ask about this corpus"
    )
    raise BudgetError(
        NO_STEPS.format(corpus=ledger.corpus_name, steps=baseline.steps, batch=baseline.batch, way_out=way_out)
    )


def check_promise(config: Budgeted, ledger: Ledger) -> None:
    """A corpus has one budget, one unit and one way to tell units apart."""
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


def unit_column(config: Budgeted) -> str:
    """By which column units are told apart: a record is known by its text."""
    data = config.data
    return str(data.user if config.privacy.unit == "user" else data.text)


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
    share = float(rest / whole) if whole else 0.0
    if share < config.privacy.spend * (1 - 1e-6):
        most = int(share * 1e4) / 1e4  # rounded down: what is advised must fit
        way_out = (
            f"set privacy.spend to at most {most}" if most >= CRUMB else "no further run can ask about this corpus"
        )
        raise BudgetError(
            f"corpus {ledger.corpus_name!r} has {share:.1%} of its budget left, but privacy.spend asks for "
            f"{config.privacy.spend:.1%}; nothing is refunded: {way_out}"
        )


def check_samples(config: Config, ledger: Ledger, run_id: str) -> None:
    """A committed schedule is drawn on by one run: another one's samples have nothing that pays for them."""
    taken = any(c.run != run_id and c.event in ledger.budget.schedule for c in ledger.charges())
    if config.share_of_updates and config.update_rate < 1 and (taken or not ledger.budget.schedule):
        raise BudgetError(NO_SAMPLES.format(corpus=ledger.corpus_name))
