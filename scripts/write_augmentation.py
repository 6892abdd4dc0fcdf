"""Writes the results in docs/augmentation.md, and the tutor's plot, from the JSON that the study left.

python scripts/write_augmentation.py          # rewrites both; --check says whether the page is up to date
"""

import json
import math
import re
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.intervals import estimate, paired

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "studies" / "results" / "augment.json"
CODED = ROOT / "studies" / "results" / "augment-coded.json"
SCORING = ROOT / "benchmarks" / "results" / "augment_scoring.json"
PAGE = ROOT / "docs" / "augmentation.md"
FIGURE = ROOT / "docs" / "figures" / "tutor.svg"
COLUMNS = ("precision_macro", "recall_macro", "f1_macro", "f1_weighted", "accuracy")
HEADS = ("precision", "recall", "F1 macro", "F1 weighted", "accuracy")
JUDGED = ("f1_macro", "f1_weighted", "accuracy")
OURS, PAPER, PUBLIC = "sums by label", "paper", "public only"
PARTS = {
    PAPER: ("12 votes", "the paper's: best-scored, shares as they are"),
    "paper's discriminator, our shares": ("12 votes", "best-scored, our shares"),
    "our discriminator, paper's selection": ("sums by label", "the paper's"),
    OURS: ("sums by label", "ours: relabelled, any of a label, our shares"),
}

Cells = list[dict[str, Any]]


def main() -> None:
    study = json.loads(STUDY.read_text())
    text = PAGE.read_text()
    for mark, made in {"results": results(study), "coded": coded(json.loads(CODED.read_text()))}.items():
        place = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.DOTALL)
        text = place.sub(lambda match, made=made: match[1] + made + match[2], text)  # type: ignore[misc]
    if "--check" in sys.argv:
        if PAGE.read_text() != text:
            sys.exit("out of date: docs/augmentation.md; type: python scripts/write_augmentation.py")
        return
    PAGE.write_text(text)
    FIGURE.parent.mkdir(exist_ok=True)
    FIGURE.write_text(tutor(study))


def results(study: dict[str, Any]) -> str:
    cells: Cells = list(study["cells"].values())
    parts = [_setting(study)]
    for labels in sorted({cell["labels"] for cell in cells}):
        mine = [cell for cell in cells if cell["labels"] == labels]
        parts += [f"### The {labels} largest specialties" if labels < 39 else "### All 39 specialties", _table(mine)]
        if "unscaled" in study:  # the earlier ruler, kept beside; a study made anew has one
            parts += [_goal(mine, cells_of(list(study["unscaled"].values()), labels))]
        parts += [_each_part(mine)]
    parts += ["### The tutor", _tutor_text(cells), "### Speed", _speed(study)]
    return "\n\n".join(parts) + "\n"


def coded(found: dict[str, Any]) -> str:
    """A coded student's corpus beside the embedded model's, for one epsilon."""
    seeds = list(found["seeds"].values())

    def of(side: str, model: str, column: str) -> list[float]:
        return [seed[side]["models"][model][column] for seed in seeds]

    lines = [
        f"| {len(seeds)} seeds, {found['patients']:,} patients, epsilon 3 | F1 macro | accuracy |", "|---|---|---|",
    ]  # fmt: skip
    for name, side, model in (
        ("the student writes, sums choose and label", "coded", "synthetic"),
        ("the embedded model writes, sums choose and label", "public", "synthetic"),
        ("the student's texts by the label asked for", "coded", "public"),
        ("the embedded model's texts by the label asked for", "public", "public"),
        ("the private notes themselves (NOT PRIVATE)", "coded", "private"),
    ):
        told = [_half(*interval(of(side, model, column))) for column in ("f1_macro", "accuracy")]
        lines.append(f"| {name} | {told[0]} | {told[1]} |")
    gaps = [paired(of("coded", "synthetic", c), of("public", "synthetic", c)) for c in ("f1_macro", "accuracy")]
    said = [f"{gap.mean:+.3f} ± {gap.half:.3f} (p {gap.p:.2g})" for gap in gaps]
    leaks = sum(seed[side]["leaks"]["found"] for seed in seeds for side in ("coded", "public"))
    verified = all(all(seed["verified"].values()) for seed in seeds)
    return "\n".join(lines) + (
        f"\n\nThe student's corpus less the embedded model's, paired by seed: macro F1 {said[0]}, accuracy {said[1]}. "
        f"Names and numbers of patients found in any corpus: {leaks}. Ledgers verified: "
        f"{'all' if verified else 'NOT all'}.\n"
    )


def _half(mean: float, half: float) -> str:
    return f"{mean:.3f} ± {half:.3f}"


def _setting(study: dict[str, Any]) -> str:
    pool = study["pool"]
    seeds = len({cell["seed"] for cell in study["cells"].values()})
    return (
        f"{seeds} seeds (split of the notes, and noise), mean and half-width of the 95% interval over seeds; a row "
        f"with fewer says so. One pool of {pool['texts']:,} texts by {pool['model']} after "
        f"{pool['seconds_tuning']:.0f} s of tuning on {pool['passages']:,} public passages; a cell chooses "
        "from the texts written for its labels."
    )


def _table(cells: Cells) -> str:
    names = list(dict.fromkeys((cell["name"], cell["epsilon"]) for cell in cells))
    most = len({cell["seed"] for cell in cells})
    lines = [f"| trained on | epsilon | {' | '.join(HEADS)} |", "|---" * (2 + len(HEADS)) + "|"]
    for name, epsilon in names:
        mine = [cell for cell in cells if (cell["name"], cell["epsilon"]) == (name, epsilon)]
        told = {math.inf: "NOT PRIVATE", 0.0: "public"}.get(epsilon, f"{epsilon:g}")
        bold = "**" if name == OURS else ""
        told += f" ({len(mine)} of {most} seeds)" if len(mine) < most else ""
        lines.append(f"| {bold}{name}{bold} | {told} | {' | '.join(_mean(mine, column) for column in COLUMNS)} |")
    return "\n".join(lines)


def _mean(cells: Cells, column: str) -> str:
    mean, half = interval([cell[column] for cell in cells])
    return f"{mean:.3f}" if math.isnan(half) else f"{mean:.3f} ± {half:.3f}"


def interval(values: list[float]) -> tuple[float, float]:
    """Mean and half-width; of fewer than three values an interval would say nothing."""
    mean = statistics.mean(values) if values else math.nan
    return mean, estimate(values).half if len(values) > 2 else math.nan


def difference(cells: Cells, first: tuple[str, float], second: tuple[str, float], column: str) -> tuple[float, float]:
    """Paired by seed: both saw the same split."""
    of = {(cell["name"], cell["epsilon"], cell["seed"]): cell[column] for cell in cells}
    seeds = sorted({cell["seed"] for cell in cells})
    pairs = [(of.get((*first, seed)), of.get((*second, seed))) for seed in seeds]
    return interval([a - b for a, b in pairs if a is not None and b is not None])


def _goal(cells: Cells, unscaled: Cells) -> str:
    """Whether ours at epsilon 1 beats the paper's at 4, and public-only, by more than the interval; by both rulers."""
    head = "sums by label at epsilon 1, less …"
    lines = [f"| {head} | classifier | F1 macro | F1 weighted | accuracy |", "|---|---|---|---|---|"]
    for name, other in (("the paper's method at epsilon 4", (PAPER, 4.0)), ("public only", (PUBLIC, 0.0))):
        for ruler, mine in (("scaled", cells), ("as before, unscaled", unscaled)):
            told = [_told(*difference(mine, (OURS, 1.0), other, column)) for column in JUDGED]
            lines.append(f"| {name} | {ruler} | {' | '.join(told)} |")
    mixed = [cell for cell in cells if cell["name"] != PUBLIC] + [cell for cell in unscaled if cell["name"] == PUBLIC]
    told = [_told(*difference(mixed, (OURS, 1.0), (PUBLIC, 0.0), column)) for column in JUDGED]
    lines.append(f"| public only | ours scaled, public only unscaled | {' | '.join(told)} |")
    return "Differences paired by seed, with 95% intervals:\n\n" + "\n".join(lines)


def _told(mean: float, half: float) -> str:
    return f"{mean:+.3f} ± {half:.3f}{'' if abs(mean) > half else ' (within it)'}"


def _each_part(cells: Cells) -> str:
    """One's discriminator with the other's selection: macro F1 and accuracy."""
    lines = ["| discriminator | selection | epsilon | F1 macro | accuracy |", "|---|---|---|---|---|"]
    for name, (discriminator, selection) in PARTS.items():
        for epsilon in (4.0, 1.0, 0.5):
            mine = [cell for cell in cells if (cell["name"], cell["epsilon"]) == (name, epsilon)]
            if mine:
                told = f"{discriminator} | {selection} | {epsilon:g}"
                lines.append(f"| {told} | {_mean(mine, 'f1_macro')} | {_mean(mine, 'accuracy')} |")
    return "What each part gives:\n\n" + "\n".join(lines)


def _tutor_text(cells: Cells) -> str:
    lines = []
    for labels in sorted({cell["labels"] for cell in cells}):
        mine = [cell for cell in cells if cell["labels"] == labels and cell["name"] == "tutor alone at 0.4"]
        off, half = interval([cell["shares_off"] for cell in mine])
        public = difference(cells_of(cells, labels), ("tutor alone at 0.4", 0.4), (PUBLIC, 0.0), "accuracy")
        macro = difference(cells_of(cells, labels), ("tutor alone at 0.4", 0.4), (PUBLIC, 0.0), "f1_macro")
        lines.append(
            f"- {labels} labels: the histogram at epsilon 0.4 is off by {off:.3f} ± {half:.3f} (total variation); "
            f"against even shares its texts change accuracy by {public[0]:+.3f} ± {public[1]:.3f} and macro F1 by "
            f"{macro[0]:+.3f} ± {macro[1]:.3f}."
        )
    return "\n".join(lines) + "\n\n![Noisy and true shares of labels](figures/tutor.svg)"


def cells_of(cells: Cells, labels: int) -> Cells:
    return [cell for cell in cells if cell["labels"] == labels]


def _speed(study: dict[str, Any]) -> str:
    features, scoring = study["features"], json.loads(SCORING.read_text())
    return (
        f"Encoding: {features['texts_per_second']:.0f} texts a second, once ({features['encoder']}, "
        f"{features['tokens']} tokens, {features['precision']}, {features['threads']} thread of a busy machine). "
        f"Scoring and selecting from {scoring['candidates']:,} encoded candidates: {scoring['seconds_cpu']:.1f} s of "
        f"processor time, {scoring['seconds_total']:.1f} s by the clock on {scoring['threads']} thread of that machine "
        "(`python benchmarks/augment_scoring.py`)."
    )


def tutor(study: dict[str, Any]) -> str:
    from hearsay.report import figures, look

    cells = [cell for cell in study["cells"].values() if cell["name"] == "tutor alone at 0.4" and cell["labels"] == 39]
    true = study["true_shares"]["39"]
    noisy = min(cells, key=lambda cell: cell["seed"])["shares"]
    rows = [
        {"label": label, "true": share, "noisy": got} for (label, share), got in zip(true.items(), noisy, strict=True)
    ]
    return look.standalone(figures.shares(rows))


if __name__ == "__main__":
    main()
