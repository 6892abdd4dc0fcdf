"""The command line: verbs only. Heavy imports happen inside the verbs, so that --help answers at once."""

import json
import signal
import sys
import threading
from pathlib import Path
from traceback import extract_tb
from typing import Annotated, Any, NoReturn

import typer

from hearsay import __version__
from hearsay.errors import BadInput, HearsayError, lacks_memory

app = typer.Typer(
    name="hearsay",
    help="Private text in, a language model out, with a differential-privacy guarantee that an auditor can check.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # boxes and colours cost a quarter of a second on every --help
    pretty_exceptions_enable=False,  # a traceback with local variables would print private text
)
TERMINATED = 128 + signal.SIGTERM
RESUMED = ("run", "demo")  # verbs that go on stage by stage
NO_MEMORY = (
    "ran out of memory. What was paid for is kept, and the same command continues once other programs leave more "
    "memory. A new run, which pays anew, needs less with a lower compute.block, student.batch, adapter.rank or "
    "adapter.blocks"
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(json.dumps({"hearsay": __version__}) if "--json" in sys.argv else f"hearsay {__version__}")
        raise typer.Exit


@app.callback()
def _hearsay(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --version: as JSON.")] = False,
) -> None:
    pass


def guarantee(said: dict[str, Any]) -> str:
    """The statement in one line, as every summary ends with it."""
    return (
        f"guarantee  epsilon {said['epsilon_told']}, delta {said['delta']:g}, for each {said['unit']}; a 50:50 guess "
        f"about one is right at most {said['guess_percent']}% of the time"
    )


def print_json(body: Any) -> None:
    print(json.dumps(body, indent=1, default=str))


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def main() -> None:
    """Runs the app; every known error becomes one message and its exit code, without a traceback."""
    if threading.current_thread() is threading.main_thread():  # elsewhere Python takes no signals
        signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except HearsayError as error:
        _fail(error)
    except BrokenPipeError:
        sys.exit(1)  # the reader of our output went away
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(BadInput.exit_code)
    except SystemExit as done:
        if done.code in (130, TERMINATED):  # 130: what typer makes of Ctrl-C, silently
            print(_stopped(), file=sys.stderr)
        raise
    except KeyboardInterrupt:  # before or after typer's turn
        print(_stopped(), file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if lacks_memory(error):
            _fail(HearsayError(NO_MEMORY))
        _print_place(error)
        sys.exit(HearsayError.exit_code)


def _stopped() -> str:
    """Other verbs keep a stage that is finished at most, or have nothing to keep."""
    return "stopped; the same command continues where it was" if sys.argv[1:2] and sys.argv[1] in RESUMED else "stopped"


def _fail(error: HearsayError) -> NoReturn:
    if "--json" in sys.argv:
        print_json({"error": str(error), "kind": type(error).__name__})
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)


def _terminated(*_: object) -> None:
    """What `docker stop` and systemd send: an end like Ctrl-C's, with locks and drafts put away."""
    raise SystemExit(TERMINATED)


def _print_place(error: Exception) -> None:
    """What kind of error, and where in the code. Not its message or its cause's: libraries quote what they read."""
    places = "".join(
        f"  {frame.filename}:{frame.lineno} in {frame.name}\n" for frame in extract_tb(error.__traceback__)
    )
    name = type(error).__name__
    if "--json" in sys.argv:
        print_json({"error": "unexpected; see standard error", "kind": name})
    print(
        f"{places}error: {name}, unexpected; its message is left out, as it could quote private text", file=sys.stderr
    )


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder for hearsay.yaml; made if missing.")],
    task: Annotated[str, typer.Option(help="generate (a language model) or augment (a labelled corpus).")] = "generate",
    private: Annotated[list[Path] | None, typer.Option(help="A private file; several by naming this again.")] = None,
    public: Annotated[list[Path] | None, typer.Option(help="A public file, likewise.")] = None,
    holdout: Annotated[list[Path] | None, typer.Option(help="A file to measure with, likewise.")] = None,
    text: Annotated[str | None, typer.Option(help="The column with the text.")] = None,
    user: Annotated[str | None, typer.Option(help="The column that says whose row it is, in all files.")] = None,
    units: Annotated[int | None, typer.Option(help="How many users there are, about: you declare it.")] = None,
    sentences: Annotated[int | None, typer.Option(help="How many rows, about: you declare it.")] = None,
    corpus: Annotated[str | None, typer.Option(help="A name for the corpus, whose ledger counts every run.")] = None,
    as_json: Json = False,
) -> None:
    """Write a commented config to start from; what you tell of your files stands in it."""
    from hearsay.cli.setup import write_config

    files = {"private": private, "public": public, "holdout": holdout}
    known = {"text": text, "user": user, "units": units, "sentences": sentences}
    path = write_config(folder, task, files | known, corpus)
    if as_json:
        print_json({"config": str(path)})
    else:
        todo = "look it over" if private and public and units else "fill in data and privacy"
        print(f"wrote {path}\nnext: {todo}, then type: hearsay doctor {path}")


@app.command()
def doctor(
    config: Annotated[Path | None, typer.Argument(help="A config whose files and model to check, too.")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine, so that plan tells times.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check machine, packages, model and data columns. Reads no private text beyond the schema."""
    from hearsay.cli.setup import checks

    found = checks(config)
    if calibrate and all(check.ok or check.what == "plan" for check in found):
        from hearsay.cli.calibration import calibrated  # seconds: it loads what a run loads

        found.append(calibrated(config))
    if as_json:
        print_json({"ok": all(check.ok for check in found), "checks": [check.to_json() for check in found]})
    else:
        for number, check in enumerate(found, start=1):
            print(f"{number:>2} {'✓' if check.ok else '✗'} {check.what}: {check.found}")
    if not all(check.ok for check in found):
        raise typer.Exit(2)


from hearsay.cli import audit, ledger, plan, report, run  # noqa: E402, F401  (the verbs register themselves)
