"""The ledger as the page shows it, and its verification, which the command line does (it also checks the answers)."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from hearsay.accounting import statement
from hearsay.accounting.ledger import Ledger
from hearsay.errors import BadInput
from hearsay.report import figures, look, owner, released
from hearsay.run import Run

PATIENCE = 600  # seconds; a ledger of many thousand rows takes a while


def show(run: Run) -> dict[str, Any]:
    if not run.ledger.is_file():
        return {"none": "This run has not been charged yet.", "charges": []}
    ledger = Ledger.open(run.ledger)
    try:
        said = statement.make(ledger)
        charges = [
            {"row": charge.row, "run": charge.run[:8], "mine": charge.run == run.id, "purpose": charge.purpose,
             "questions": released.queries(charge.event), "share": released.share(ledger, charge)}
            for charge in ledger.charges()
        ]  # fmt: skip
        return {"corpus": ledger.corpus_name, "budget": ledger.budget.epsilon, "delta": ledger.budget.delta,
                "epsilon": said.epsilon, "odds": said.guess_percent, "sentences": said.sentences(), "charges": charges,
                "research": ledger.research}  # fmt: skip
    finally:
        ledger.close()


def picture(run: Run) -> str:
    ledger = Ledger.open(run.ledger)
    try:
        return look.standalone(figures.budget(ledger.budget.epsilon, owner.pieces(run, ledger)))
    finally:
        ledger.close()


def verify(run: Run, command: Sequence[str]) -> dict[str, Any]:
    words = [*command, "ledger", "verify", str(run.folder), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    try:
        verdict: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise BadInput(done.stderr.strip()[-2000:] or f"verify ended with code {done.returncode}") from None
    return verdict
