"""`run`, `generate`, `evaluate`, `demo`, `forget`: the verbs that do the work."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hearsay.cli.main import Json, app, guarantee, print_json, warn
from hearsay.errors import BadInput

Out = Annotated[Path, typer.Option(help="Run directory; the same command continues a stopped run.")]


@app.command()
def run(
    config: Annotated[Path, typer.Argument(help="A config as `hearsay init` writes it.")],
    out: Out = Path("runs/latest"),
    ledger: Annotated[
        Path | None,
        typer.Option(help="Ledger file. [default: one per corpus in ~/.local/share/hearsay, or in HEARSAY_HOME]"),
    ] = None,
    anyway: Annotated[bool, typer.Option(help="Run even if the plan says that the budget cannot work.")] = False,
    as_json: Json = False,
) -> None:
    """Run or resume: private text and public prefixes in, a student with its guarantee out."""
    from hearsay import config as configs
    from hearsay.accounting import identity, plan

    if configs.task_of(config) == "augment":
        from hearsay.cli import augment
        from hearsay.cli.watch import watch_for

        augment.summary(augment.run(config, out, ledger, anyway, watch_for(as_json)), as_json, {})
        return
    settings = configs.load(config)
    for warning in plan.make(settings.plan_request()).warnings:
        warn(warning)
    from hearsay import charging, pipeline
    from hearsay import run as runs
    from hearsay.cli.setup import inputs
    from hearsay.cli.watch import watch_for
    from hearsay.public import samples
    from hearsay.reading import check_schema

    text = configs.to_yaml(settings)
    charging.check_feasible(settings, anyway=anyway)
    if not (out / "run.json").exists():  # a wrong path or column is told before the directory fixes the settings
        for _, paths, columns in inputs(settings):
            check_schema(paths, columns)
    here = runs.begin(out, text, ledger or identity.ledger_path(settings.privacy.corpus))
    finished = (here.release / "statement.json").exists()
    with here.working():
        work = pipeline.generate(settings, here, watch_for(as_json), anyway=anyway)
        if settings.baseline is None or settings.baseline.protects:  # else there is no student to show
            samples.write(here, work.lm, work.prefixes, settings.compute.seed)
    _summary(here, as_json, {})
    if finished and not as_json:
        print("finished   before: nothing was asked or charged this time")


@app.command()
def demo(
    out: Out = Path("runs/demo"),
    task: Annotated[str, typer.Option(help="generate: a language model; augment: a labelled corpus.")] = "generate",
    seed: Annotated[int, typer.Option(help="Another seed: other simulated customers or patients.")] = 0,
    compare: Annotated[
        bool, typer.Option("--compare", help="generate: also students by answers; takes longer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The whole method on the embedded model and a simulated airline or clinic, on a CPU, in minutes."""
    if task not in ("generate", "augment"):
        raise BadInput(f"--task is {task!r}; need generate or augment")
    from hearsay import run as runs
    from hearsay.cli.watch import watch_for

    if task == "augment":
        from hearsay.cli import augment
        from hearsay.demo import clinic_show

        there, measured = clinic_show.play(out, seed, watch_for(as_json))
        augment.summary(runs.open_run(there), as_json, measured)
        return
    from hearsay.demo import show

    here, found = show.play(out, seed, watch_for(as_json), compare=compare)
    _summary(runs.open_run(here), as_json, found)


@app.command()
def generate(
    where: Annotated[Path, typer.Argument(help="A run directory with a finished student.")],
    prefix: Annotated[list[str], typer.Option(help="Text to go on from; may be given several times.")],
    tokens: Annotated[int, typer.Option(help="Most tokens to add.")] = 40,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token each time.")] = 0.8,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    as_json: Json = False,
) -> None:
    """Complete prefixes with the student."""
    import torch

    from hearsay import lm as models
    from hearsay.run import open_run

    here = open_run(where)
    if not (here.release / "student").is_dir():
        if any(here.internal.glob("*NOT-PRIVATE*")):
            raise BadInput(
                f"the model of {where} is NOT PRIVATE and not to be used; `hearsay evaluate {where}` measures it"
            )
        raise BadInput(f"{where} has no finished student; type `hearsay run CONFIG --out {where}` first")
    if tokens < 1 or temperature < 0:
        raise BadInput(f"--tokens is {tokens}, --temperature {temperature}; need at least 1 token and 0 or more")
    student = models.load(str(here.release / "student"), device="cpu")
    rows = models.encode(student, prefix, 10_000)
    reads, longest = models.context(student), max(len(row) for row in rows)
    if longest + tokens > reads:
        raise BadInput(
            f"the longest prefix has {longest} tokens and --tokens is {tokens}, but the student reads at most {reads} "
            "in all; shorten one of them"
        )
    stream = torch.Generator().manual_seed(seed)
    made = models.generate(student, rows, max_tokens=tokens, temperature=temperature, top_p=0.95, generator=stream)
    texts = models.decode(student, made)
    if as_json:
        print_json([{"prefix": a, "completion": b} for a, b in zip(prefix, texts, strict=True)])
    else:
        for a, b in zip(prefix, texts, strict=True):
            print(f"{a}│{b}")


@app.command()
def evaluate(
    where: Annotated[Path, typer.Argument(help="A run directory with a finished student.")],
    completions: Annotated[int, typer.Option(help="Completions for BLEU and leaks.")] = 200,
    holdout: Annotated[
        list[Path] | None, typer.Option(help="Text of people whom nobody trained on; repeatable. [default: the run's]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Perplexity, BLEU and leaks of the student beside its references. Reads private hold-out: for your eyes only."""
    from hearsay import measure
    from hearsay.cli.watch import watch_for
    from hearsay.config import task_of
    from hearsay.report import page
    from hearsay.run import open_run

    here = open_run(where)
    if task_of(here.folder / "config.yaml") == "augment":
        from hearsay import measure_augment
        from hearsay.cli import augment

        with here.alone():
            found = measure_augment.evaluate(here, watch_for(as_json), holdout=holdout)
        augment.summary(here, as_json, found)
        return
    with here.alone():
        found = measure.evaluate(here, watch_for(as_json), completions=completions, holdout=holdout)
    page.write(here)
    if as_json:
        print_json(found)
    else:
        _table(found)


@app.command()
def forget(
    where: Annotated[Path, typer.Argument(help="A run directory.")],
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Also a run that is not finished, which then never is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Destroy the private part of a run (shards, teachers, draws) and leave a receipt. The ledger stays."""
    from hearsay.run import RECEIPT, open_run
    from hearsay.run import forget as destroy

    here = open_run(where)
    if (here.folder / RECEIPT).exists() and not here.private.exists():  # the first receipt keeps its time
        raise BadInput(f"{where} was forgotten before; the receipt is {where / RECEIPT}")
    receipt = destroy(here, anyway=anyway)
    if as_json:
        print_json(receipt)
    else:
        print(f"destroyed {where / 'private'}; the receipt is {where / RECEIPT}")
        if receipt["stays"]:
            print(f"stays      {where / 'internal'}: your own measurements, not covered by the guarantee")


def _table(found: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table("held-out text", "ppl", *(f"BLEU-{n}" for n in (1, 2, 3, 4)), "leaked", box=box.SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    for name, scores in found.items():
        if isinstance(scores, dict) and "bleu1" in scores:
            label = f"{name} (NOT PRIVATE)" if name in ("private", "blacklist") else name
            bleu = [f"{scores[f'bleu{n}']:.2f}" for n in (1, 2, 3, 4)]
            leaked = f"{scores['name_leak_rate']:.1%}" if "phrases" in found else "-"  # no secrets named: not measured
            table.add_row(label, f"{scores['ppl']:.1f}", *bleu, leaked)
        elif isinstance(scores, dict) and "ppl" in scores:
            table.add_row(f"student by {name}", f"{scores['ppl']:.1f}", *"-----")
    Console().print(table)
    if "private" in found and found.get("gap_closed") is None:
        print("share of the gap: not told, as the private model is no better than the public ones on this text")
    if found.get("gap_closed") is not None:
        gap = round(found["gap_closed"], 2) + 0.0  # no minus before a nought
        print(f"share of the gap closed from the better public model to the private one: {gap:.2f}")


def _summary(here: Any, as_json: bool, found: dict[str, Any]) -> None:
    import json
    import shutil
    import sys

    from hearsay.report import page

    report = page.write(here)
    if not (here.release / "statement.json").exists():  # a baseline that protects nobody
        _unprotected(here, as_json, report)
        return
    said = json.loads((here.release / "statement.json").read_text())
    stayed = json.loads((here.release / "made.json").read_text()).get("stayed", "")
    if as_json:
        told = {"student": str(here.release / "student"), "report": str(report), "statement": said, "stayed": stayed}
        print_json(told | found)
        return
    if found:
        _table(found)
    print(f"\nstudent    {here.release / 'student'}")
    print(guarantee(said))
    if stayed:
        print(f"beware     {stayed}")
    if said["research_noise"]:
        print("noise      RESEARCH NOISE, drawn by Opacus: not for production")
    print(f"report     {report}")
    command = "hearsay" if shutil.which("hearsay") else sys.argv[0]  # a .venv that is not activated
    print(f'next       {command} generate {here.folder} --prefix "hello, I would like"')


def _unprotected(here: Any, as_json: bool, report: Path) -> None:
    model = next(here.internal.glob("*NOT-PRIVATE*"))
    if as_json:
        print_json({"model": str(model), "private": False, "report": str(report)})
        return
    print(f"\nmodel      {model}: NOT PRIVATE, for your eyes only; nothing was released or charged")
    print(f"report     {report}")
    print(f"next       hearsay evaluate {here.folder}")
