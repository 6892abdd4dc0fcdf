"""`hearsay report` and `hearsay ui`: one view of a run, frozen to a file or served to this machine."""

from pathlib import Path
from typing import Annotated

import typer

from hearsay.cli.main import Json, app, print_json


@app.command()
def report(
    where: Annotated[Path, typer.Argument(help="A run directory.")],
    others: Annotated[list[Path] | None, typer.Argument(help="Further runs, for the privacy-utility curve.")] = None,
    shareable: Annotated[bool, typer.Option(help="From release/ and the ledger only: to hand on.")] = False,
    out: Annotated[Path | None, typer.Option(help="File to write. [default: in the run directory]")] = None,
    as_json: Json = False,
) -> None:
    """One offline HTML file: what is promised, what was spent, what it is worth."""
    from hearsay.report import page
    from hearsay.run import open_run

    here = open_run(where)
    path = page.write(here, shareable=shareable, others=[open_run(other) for other in others or []], out=out)
    if as_json:
        print_json({"report": str(path), "shareable": shareable, "bytes": path.stat().st_size})
    else:
        eyes = "may be shared" if shareable else "for the owner's eyes; --shareable makes one to hand on"
        print(f"wrote {path} ({eyes})")
