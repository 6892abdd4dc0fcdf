"""`hearsay plan`: what a budget buys, before anything private is read."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hearsay.cli.main import Json, app, print_json, warn

Flag = typer.Option


@app.command()
def plan(
    config: Annotated[Path | None, typer.Argument(help="A config; flags override it.")] = None,
    epsilon: Annotated[float | None, Flag(help="The budget. [default: 3]")] = None,
    delta: Annotated[float | None, Flag(help="[default: 1e-6]")] = None,
    teachers: Annotated[int | None, Flag(help="Number of shards. [default: 2000, or --units if fewer]")] = None,
    queries: Annotated[int | None, Flag(help="Questions over all rounds. [default: 10000]")] = None,
    recipe: Annotated[str | None, Flag(help="seqpate, hellinger, updates or mixed. [default: hellinger]")] = None,
    unit: Annotated[str | None, Flag(help="user or record. [default: user]")] = None,
    units: Annotated[int | None, Flag(help="How many units there are, as declared by you.")] = None,
    sentences: Annotated[int | None, Flag(help="How many private sentences there are, as declared by you.")] = None,
    one_unit_per_teacher: Annotated[
        bool | None,
        Flag("--one-unit-per-teacher", help="As if no shard could hold two units (a run's can): less noise."),
    ] = None,
    clip: Annotated[float | None, Flag(help="hellinger: joint clip C of a teacher's residuals.")] = None,
    candidates: Annotated[int | None, Flag(help="Candidate tokens per question. [default: 50]")] = None,
    noise: Annotated[str | None, Flag(help="gaussian, or laplace (seqpate only). [default: gaussian]")] = None,
    rounds: Annotated[int | None, Flag(help="Rounds of updates. [default: 60]")] = None,
    sample: Annotated[float | None, Flag(help="Chance of a unit to take part in a round. [default: 1]")] = None,
    share: Annotated[float | None, Flag(help="mixed: share of the budget for updates. [default: .8]")] = None,
    dimensions: Annotated[int | None, Flag(help="Numbers that updates move. [default: 50000]")] = None,
    as_json: Json = False,
) -> None:
    """Noise, effective tokens, feasible or not and why. Counts nothing: numbers are declared."""
    flags = {name: value for name, value in locals().items() if name not in ("config", "as_json") and value is not None}
    import dataclasses

    from hearsay import admission
    from hearsay.accounting import plan as plans

    if config is not None and _labelled(config, flags):
        _plan_corpus(config, as_json)
        return
    base, settings = plans.Request(), None
    base = dataclasses.replace(base, teachers=min(base.teachers, units or base.teachers))
    if config is not None:
        from hearsay.config import load

        settings = load(config)
        base = settings.plan_request()
    made = plans.make(dataclasses.replace(base, **flags))
    baseline = settings.baseline if settings else None
    if baseline is not None and not baseline.noisy:
        warn(f"baseline {baseline.method} costs nothing of the budget; the plan is that of {made.recipe} without it")
    for warning in made.warnings:
        warn(warning)
    cost = _cost(settings, config, flags)
    left, refused = admission.left(settings) if settings else (None, None)
    if as_json:
        told = {key: value for key, value in cost.items() if key != "said"}
        own = {"baseline": baseline.method if baseline else None}
        print_json(made.to_json() | told | own | {"budget_left": left, "refused": refused})
    else:
        _show(made, f"steps of {baseline.method}" if baseline is not None and baseline.noisy else "rounds of updates")
        print(f"{'time':>17}  {cost['said']}")
        _show_left(left, refused)


def _cost(settings: Any, config: Path | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Seconds and memory of a run of this config, if this machine was calibrated for it."""
    unknown: dict[str, Any] = {"seconds": None, "memory_gib": None, "stages": None}
    if settings is None or flags or settings.baseline is not None:
        return unknown | {"said": "not told: it is measured for the recipes of a config, as it stands there"}
    from hearsay import forecast

    found = forecast.kept(settings)
    if found is None:
        return unknown | {"said": f"not measured on this machine; type: hearsay doctor {config} --calibrate"}
    told = forecast.predict(settings, found)
    parts = ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in told.stages.items() if seconds >= 0.5)
    said = f"about {told.seconds:,.0f} s on {found.device} ({parts}), {told.memory_gib:.1f} GiB"
    stages = {stage: round(seconds, 2) for stage, seconds in told.stages.items()}
    return {"seconds": round(told.seconds, 1), "memory_gib": round(told.memory_gib, 2), "stages": stages, "said": said}


def _show_left(left: float | None, refused: str | None) -> None:
    if left is not None:
        said = f"{left:.1%} of this corpus's budget is left, neither spent nor committed"
        print(f"{'ledger':>17}  {said}{f'; a new run will be refused: {refused}' if refused else ''}")
    if refused:
        print(f"{'':>17}  a run that was stopped on its way goes on with the command that began it")


def _labelled(config: Path, flags: dict[str, Any]) -> bool:
    """Whether the config is for a labelled corpus, whose plan follows from the config alone."""
    from hearsay.config import task_of
    from hearsay.errors import BadInput

    found = task_of(config) == "augment"
    if found and flags:
        raise BadInput(f"--{sorted(flags)[0]} does not go with task: augment; set it in {config}")
    return found


def _plan_corpus(config: Path, as_json: bool) -> None:
    from hearsay import admission
    from hearsay.cli import augment
    from hearsay.config import load_as
    from hearsay.config_augment import AugmentConfig

    made = augment.plan(config)
    left, refused = admission.left(load_as(AugmentConfig, config))
    for warning in made.warnings:
        warn(warning)
    if as_json:
        print_json(made.to_json() | {"budget_left": left, "refused": refused})
    else:
        augment.show_plan(made)
        _show_left(left, refused)


def _show(made: Any, rounds: str) -> None:
    from hearsay.accounting import gaussian
    from hearsay.accounting.advice import told_odds

    rows = [
        (
            "guarantee",
            f"epsilon {made.epsilon:g}, delta {made.delta:g} (mu {made.mu:.4f}), unit {made.unit}"
            + (f"; this run spends {made.spend:.1%} of it" if made.spend < 1 else ""),
        ),
        ("odds", told_odds(gaussian.guess_rate(made.mu), made.unit)),
        ("neighbours", made.adjacency),
        ("questions", _asked(made, rounds)),
        ("sensitivity", f"{made.sensitivity:.4g} per question"),
        ("noise", f"{made.noise_std_sum:.4g} on the sum, {made.noise_std_mean:.4g} on the mean"),
        ("effective tokens", f"{made.effective_tokens:,.0f}"),
        *([] if made.recipe == "updates" else [("sentences", _per_teacher(made))]),
        *([("noise over clip", f"{made.noise_over_clip:.3f} over all {rounds}")] if made.noise_over_clip else []),
        ("feasible", f"{'yes' if made.feasible else 'NO'}: {made.why}"),
        ("suits", made.suits),
    ]
    for name, text in rows:
        print(f"{name:>17}  {text}")


def _asked(made: Any, rounds: str) -> str:
    if made.recipe == "updates":
        return f"{made.queries:,} {rounds} from {made.units:,} units, {made.noise} noise"
    return f"{made.queries:,} to {made.teachers:,} teachers, recipe {made.recipe}, {made.noise} noise"


def _per_teacher(made: Any) -> str:
    return f"{made.sentences_per_teacher:.0f} per teacher" if made.sentences_per_teacher else "not declared"
