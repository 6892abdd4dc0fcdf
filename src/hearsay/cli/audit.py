"""`audit`: attacks on a run's student, on another model, or on a classifier."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hearsay.audit import ATTACKS
from hearsay.cli.main import Json, app, print_json, warn
from hearsay.errors import BadInput

NAMES = ", ".join(ATTACKS)


@app.command()
def audit(
    where: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run directory with a finished student.")
    ] = None,
    attack: Annotated[list[str] | None, typer.Option(help=f"Only these: {NAMES}. [default: all]")] = None,
    canaries: Annotated[
        bool, typer.Option("--canaries", help="Also repeat the run with canaries in it (slow).")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="Attack this model (folder or hub id) instead of a student.")
    ] = None,
    base: Annotated[str | None, typer.Option(help="With --model: the public model that it was trained from.")] = None,
    classifier: Annotated[str | None, typer.Option(help="Invert this text classifier (folder or hub id).")] = None,
    members: Annotated[Path | None, typer.Option(help="File of rows that the model was trained on.")] = None,
    non_members: Annotated[Path | None, typer.Option(help="File of like rows that it was not trained on.")] = None,
    text: Annotated[str, typer.Option(help="Column of those files that holds the text.")] = "text",
    user: Annotated[str | None, typer.Option(help="Column that says whose row it is. [default: by record]")] = None,
    epsilon: Annotated[float | None, typer.Option(help="What the model promises; nothing if left out.")] = None,
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-6,
    as_json: Json = False,
) -> None:
    """Attack what is promised: membership, extraction, linkage, the noise itself. Reads private text: for your eyes."""
    names = _names(attack)
    if where is None and (not (model or classifier) or members is None or non_members is None):
        raise BadInput("nothing to attack: name a run directory, or --model with --members and --non-members")
    from hearsay.audit.anymodel import Files, audit_classifier, audit_model
    from hearsay.audit.statistics import Promise
    from hearsay.audit.whole import audit_run
    from hearsay.cli.watch import watch_for
    from hearsay.report import page
    from hearsay.run import open_run

    promise = None if epsilon is None else Promise(epsilon, delta)
    if where is not None:
        here = open_run(where)
        with here.alone():
            watch = watch_for(as_json)
            found = audit_run(here, watch, attacks=names, canaries=canaries, model=model, promise=promise)
        page.write(here)
    elif members is not None and non_members is not None:
        files = Files([members], [non_members], text, user)
        if classifier is not None:
            found = audit_classifier(classifier, files)
        else:
            found = audit_model(str(model), base, files, promise, watch_for(as_json), attacks=names)
    print_json(found) if as_json else _show(found)
    for name in found["look"]:
        warn(f"{name}: {found['attacks'][name]['sentence']}")
    if not found["ok"]:
        raise typer.Exit(1)


def _names(wanted: list[str] | None) -> tuple[str, ...]:
    for name in wanted or ():
        if name not in ATTACKS:
            raise BadInput(f"--attack is {name!r}; need one of {NAMES}")
    return tuple(wanted) if wanted else ATTACKS


def _show(found: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from hearsay.accounting.statement import rounded_up

    table = Table("attack", found["target"], "95%", "eps ≥", "not private", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    for name, body in found["attacks"].items():
        own = [_number(body.get("score")), "", _number(body.get("epsilon_lower"))]
        if "score" in body and name != "mechanism":
            own[1] = f"{body['low']:.2f}-{body['high']:.2f}"
        table.add_row(name, *own, _number(body.get("not_private", {}).get("score")))
    Console().print(table)
    for name, body in found["attacks"].items():
        if body.get("sentence") and "." not in name.partition(".")[2]:
            print(f"{name}: {body['sentence']}")
    claimed = found["epsilon_claimed"]
    if claimed is not None:
        print(f"promise    epsilon {rounded_up(claimed)}: AUC at most {found['auc_allowed']:.3f}; "
              f"{'no attack exceeds it' if found['ok'] else 'BROKEN'}")  # fmt: skip


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
