"""`hearsay ledger show|verify`: what was spent, by which run, for what; and whether the ledger can be believed."""

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from hearsay.cli.main import Json, app, print_json
from hearsay.errors import BadInput

verbs = typer.Typer(
    help="What was spent, by which run, for what; verified by a second accountant.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(verbs, name="ledger")
Where = Annotated[Path | None, typer.Argument(help="A run directory or a ledger file. [default: the only ledger here]")]


@verbs.command()
def show(where: Where = None, as_json: Json = False) -> None:
    """Every charge (rounds of equal noise together; --json has each), and what is left."""
    from hearsay.accounting import events

    ledger, _ = _open(where)
    account, budget = ledger.account(), ledger.budget
    charges = [
        {"row": c.row, "run": c.run, "purpose": c.purpose, "noise": c.noise, **events.to_json(c.event),
         "share": budget.share_of(c.event), "committed": c.event in budget.schedule}
        for c in ledger.charges()
    ]  # fmt: skip
    body = {
        "ledger": str(ledger.path), "corpus": ledger.corpus_name, "epsilon": budget.epsilon, "delta": budget.delta,
        "spent_epsilon": budget.epsilon_spent(account.spent, account.scheduled),
        "left": budget.left(account.spent), "charges": charges,
    }  # fmt: skip
    if as_json:
        print_json(body)
    else:
        _table(body)


def _table(body: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from hearsay.accounting.statement import rounded_up

    spent = f"epsilon {rounded_up(body['spent_epsilon'])} of {body['epsilon']:g} spent at delta {body['delta']:g}"
    print(f"corpus {body['corpus']!r}: {spent}; {body['left']:.1%} of the budget is left")
    table = Table("rows", "run", "purpose", "noise", "queries", "of the budget")
    for _, alike in groupby(body["charges"], key=_kind):
        several = list(alike)
        first, last = several[0], several[-1]
        rows = str(first["row"]) if first is last else f"{first['row']}-{last['row']}"
        purpose = first["purpose"]
        if first is not last:
            purpose = f"{purpose.replace('round', 'rounds')} to {last['purpose'].rpartition(' ')[2]}"
        queries = sum(charge.get("queries", charge.get("steps", 1)) for charge in several)
        share = sum(charge["share"] for charge in several)
        noise = first["event"].replace("_", " ")
        table.add_row(rows, first["run"][:8], purpose, noise, f"{queries:,}", f"{share:.2%}")
    Console().print(table)
    if any(charge["committed"] for charge in body["charges"]):
        print("What was sampled was committed whole, in the ledger's first row; shares are even parts of that.")


def _kind(charge: dict[str, Any]) -> tuple[object, ...]:
    """What rounds that are told in one line have in common: all but their rows and numbers."""
    aim, numbered, number = charge["purpose"].rpartition(", round ")
    own = {name: value for name, value in charge.items() if name not in ("row", "purpose")}
    return (aim if numbered and number.isdigit() else charge["row"], json.dumps(own, sort_keys=True))


@verbs.command()
def verify(where: Where = None, as_json: Json = False) -> None:
    """Recompute everything with a second accountant, check the chain and the heads; PASS, or the first bad row."""
    from hearsay.accounting import verify as checks

    ledger, run = _open(where)
    verdict = checks.verify(ledger)
    if run is not None:
        from hearsay.release.door import check_answers
        from hearsay.release.results import check_results

        verdict.problems += [p for p in checks.check_run_head(ledger, run.folder) if p not in verdict.problems]
        verdict.problems += check_answers(ledger, run.id, run.folder) + check_results(ledger, run.id, run.folder)
    if as_json:
        print_json(verdict.to_json())
    else:
        _print_verdict(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def _print_verdict(verdict: Any) -> None:
    from hearsay.accounting.statement import rounded_up

    second = verdict.second_opinion
    print(f"epsilon {rounded_up(verdict.epsilon)} of {verdict.budget_epsilon:g} at delta {verdict.delta:g}; "
          f"second accountant ({second['accountant']}): {second['epsilon']:.6g}")  # fmt: skip
    runs = "1 run" if verdict.runs == 1 else f"{verdict.runs} runs"
    print(f"{verdict.charges} charges, {verdict.answers} answers, {runs}, chain {verdict.chain}")
    for folder in verdict.unchecked:
        print(f"note: the run directory {folder} is not at hand, so its head was not compared")
    print("PASS" if verdict.ok else "FAIL: " + "; ".join(verdict.problems))


def _open(where: Path | None) -> tuple[Any, Any]:
    """The ledger named, or the one of the run named; with the run, if that was named. A run's is opened at the run's
    home, which has seen its newest row.
    """
    from hearsay.accounting.identity import at, home
    from hearsay.accounting.ledger import Ledger

    if where is None:
        found = sorted(home().glob("ledger-*.sqlite"))
        if len(found) != 1:
            names = ", ".join(str(path) for path in found) or "none"
            raise BadInput(f"name a run directory or a ledger file; ledgers in {home()}: {names}")
        return Ledger.open(found[0]), None
    if where.is_dir():
        from hearsay.run import open_run

        run = open_run(where)
        with at(run.home):
            return Ledger.open(run.ledger), run
    return Ledger.open(where), None
