"""The report of a run, as one offline HTML file: what is promised, what was spent, what it is worth.

Two editions. The owner's shows internal figures and stays in internal/. The shareable one is made from release/ and
the ledger only.
"""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from hearsay.accounting.ledger import Ledger
from hearsay.disk import write_text
from hearsay.errors import BadInput
from hearsay.public.cards import render
from hearsay.report import owner, released
from hearsay.run import Run, forget_time

FILE, SHAREABLE = "report.html", "report-shareable.html"
STYLES = ("colours.css", "document.css", "report.css")


def write(run: Run, *, shareable: bool = False, others: Sequence[Run] = (), out: Path | None = None) -> Path:
    """The owner's edition goes to internal/, the shareable one to release/, unless `out` names a file."""
    target = out or (run.release / SHAREABLE if shareable else run.internal / FILE)
    try:
        write_text(target, html(run, shareable=shareable, others=others))
        if shareable:
            forget_time(target)
    except OSError as error:
        raise BadInput(f"cannot write {target}: {error.strerror}; name another with --out") from error
    return target


def html(run: Run, *, shareable: bool = False, others: Sequence[Run] = ()) -> str:
    if shareable and not owner.is_finished(run.folder):
        why = (
            "protects nobody and is never to be handed on"
            if owner.unprotected(run)
            else ("is not finished: nothing of it may be handed on yet")
        )
        raise BadInput(f"{run.folder} {why}; its owner's edition can be had without --shareable")
    ledger = Ledger.open(run.ledger)
    try:
        values = released.facts(run.release, ledger, run.id)
        if not shareable:
            values |= owner.facts(run, ledger, others)
    finally:
        ledger.close()
    return render("report.html.j2", {**values, "shareable": shareable, "style": style()}, html=True, room="report")


def style() -> str:
    return "\n".join(static(name) for name in STYLES)


def static(name: str) -> str:
    return (resources.files("hearsay") / "report" / "static" / name).read_text(encoding="utf-8")
