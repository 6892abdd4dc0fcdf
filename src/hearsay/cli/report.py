"""`hearsay report` and `hearsay ui`: one view of a run, frozen to a file or served to this machine."""

import contextlib
import sys
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


@app.command()
def ui(
    runs: Annotated[Path, typer.Option(help="Folder of run directories; made if missing.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; the next free one if taken.")] = 8765,
    data: Annotated[
        list[Path] | None, typer.Option(help="A folder whose files an uploaded config may name, besides --runs.")
    ] = None,
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """The same as a local page, with live progress, a planner and a playground. Only this machine can reach it."""
    from hearsay.ui.server import Page

    runs.mkdir(parents=True, exist_ok=True)
    served = Page(runs, port=port, data=data or [])
    if as_json:
        print_json({"url": served.url, "port": served.port, "runs": str(runs.resolve())})
    else:
        print(f"{served.url}\nshows {runs.resolve()}; Ctrl-C ends the page, not the runs")
    sys.stdout.flush()
    if browse:
        import webbrowser

        webbrowser.open(served.url)
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how a page ends
        served.serve()
