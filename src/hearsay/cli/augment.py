"""What the verbs do where a config says `task: augment`."""

from pathlib import Path
from typing import Any

from hearsay.cli.main import guarantee, print_json, warn
from hearsay.errors import BudgetError


def plan(config: Path) -> Any:
    from hearsay.accounting import plan_augment
    from hearsay.config import load_as
    from hearsay.config_augment import AugmentConfig

    return plan_augment.make(load_as(AugmentConfig, config).plan_request())


def show_plan(made: Any) -> None:
    from hearsay.accounting import gaussian
    from hearsay.accounting.advice import told_odds

    rows = [
        ("guarantee", f"epsilon {made.epsilon:g}, delta {made.delta:g} (mu {made.mu:.4f}), unit {made.unit}"),
        ("odds", told_odds(gaussian.guess_rate(made.mu), made.unit)),
        ("neighbours", made.adjacency),
        ("discriminator", f"{made.method}, {made.queries} charged, sensitivity {made.sensitivity:.4g} each"),
        ("noise", f"{made.noise_std_sum:.4g} on a sum, {made.noise_std_mean:.4g} on its mean"),
        ("tutor", f"noise {made.tutor_noise_std:.4g} on each label's count" if made.tutor_noise_std else "none"),
        ("feasible", f"{'yes' if made.feasible else 'NO'}: {made.why}"),
    ]
    for name, text in rows:
        print(f"{name:>17}  {text}")


def run(config: Path, out: Path, ledger: Path | None, anyway: bool, watch: Any) -> Any:
    """Runs or resumes; returns the run."""
    from hearsay import augmenting
    from hearsay import config as configs
    from hearsay import run as runs
    from hearsay.accounting import identity
    from hearsay.cli.setup import labelled_inputs
    from hearsay.config_augment import AugmentConfig
    from hearsay.reading import check_schema

    settings = configs.load_as(AugmentConfig, config)
    made = plan(config)
    for warning in made.warnings:
        warn(warning)
    if not made.feasible and not anyway:
        raise BudgetError(f"this budget cannot work: {made.why}. To run all the same, type --anyway")
    if not (out / "run.json").exists():
        for _, paths, columns in labelled_inputs(settings):
            check_schema(paths, columns)
    here = runs.begin(out, configs.to_yaml(settings), ledger or identity.ledger_path(settings.privacy.corpus))
    with here.working():
        augmenting.augment(settings, here, watch)
    return here


def table(found: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    heads = ("held-out notes", "texts", "prec.", "recall", "F1", "accuracy")
    shown = Table(*heads, box=box.SIMPLE_HEAD)
    for column in shown.columns:
        column.no_wrap = True
    for name, body in found["models"].items():
        label = f"{name} (NOT PRIVATE)" if name == "private" else name
        if "accuracy" not in body:
            shown.add_row(label, str(body.get("texts", "-")), *"----")
            continue
        low, high = body["interval"]["accuracy"]
        figures = [f"{body[key]:.3f}" for key in ("precision_macro", "recall_macro", "f1_macro")]
        shown.add_row(label, str(body.get("texts", "-")), *figures, f"{body['accuracy']:.3f} ({low:.2f}-{high:.2f})")
    Console().print(shown)
    if found.get("tutor"):
        print(f"tutor's shares differ from the true ones by {found['tutor']['total_variation']:.3f} (total variation)")
    if found.get("leaks"):
        print(f"secrets found in the corpus: {found['leaks']['found']} of {found['leaks']['secrets']}")


def summary(here: Any, as_json: bool, found: dict[str, Any]) -> None:
    import json

    from hearsay.report import page

    report = page.write(here)
    said = json.loads((here.release / "statement.json").read_text())
    if as_json:
        print_json({"corpus": str(here.release / "synthetic"), "report": str(report), "statement": said, **found})
        return
    if found:
        table(found)
    print(f"\ncorpus     {here.release / 'synthetic'}")
    print(guarantee(said))
    print(f"report     {report}")
