"""Writes the tables of docs/audits.md from the JSON files that studies/audit.py left.

python scripts/write_audits.py          # rewrites the page; a test checks that it is up to date
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs" / "audits.md", ROOT / "studies" / "results"
MARK = re.compile(r"(<!-- audits -->\n).*?(<!-- /audits -->)", re.DOTALL)
MEMBERSHIP = ("loss", "calibrated", "zlib", "min-k++", "neighbourhood", "shadow")
Body = dict[str, Any]


def main() -> None:
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit("docs/audits.md is out of date; type: python scripts/write_audits.py")


def page() -> str:
    parts = [_demo(json.loads((RESULTS / "audit-demo.json").read_text()))]
    if (RESULTS / "audit-sgd.json").exists():
        parts.append(_sgd(json.loads((RESULTS / "audit-sgd.json").read_text())))
    return MARK.sub(lambda match: match[1] + "\n\n".join(parts) + "\n" + match[2], PAGE.read_text())


def _demo(study: Body) -> str:
    cells = study["cells"]
    names = [name for name in cells if "attacks" in cells[name]]
    lines = _table(cells, names)
    twins = [name for name in names if "canaries" in cells[name]]
    if twins:
        lines += ["", "Canaries, in twins of the same runs:", "", *_canaries(cells, twins)]
    return "\n".join([*lines, "", _widths(cells, names), "", _times(cells[names[0]]["attacks"]["seconds"])])


def _times(seconds: dict[str, float]) -> str:
    """Shares of one audit: what shared the machine with it changes seconds, and hardly shares."""
    total: dict[str, float] = {}
    for stage, spent in seconds.items():
        if stage != "total":
            total[stage.partition(",")[0]] = total.get(stage.partition(",")[0], 0.0) + spent
    whole = sum(total.values())
    parts = sorted(total.items(), key=lambda part: -part[1])
    return "Where the time goes: " + ", ".join(f"{name} {spent / whole:.0%}" for name, spent in parts) + "."


def _sgd(study: Body) -> str:
    cells, device = study["cells"], study["machine"]["device"]
    names = list(cells)
    times = "; ".join(f"{name}: {cells[name]['attacks']['seconds']['total']:.0f} s" for name in names)
    about = (
        "Service dialogues (`studies/audit-sgd.yaml`; unit = dialogue, 2000 teachers for hellinger, base model of "
        f"20.7M parameters, epsilon 3) on one {device}. A whole audit took {times}."
    )
    return "\n".join([about, "", *_table(cells, names), "", _widths(cells, names)])


def _table(cells: Body, names: list[str]) -> list[str]:
    """One column a run, and the reference that is not private beside the first (it is the same for all)."""
    found = {name: cells[name]["attacks"]["attacks"] for name in names}
    first = found[names[0]]
    lines = [f"| attack | {' | '.join(names)} | not private |", "|---" * (len(names) + 2) + "|"]

    def row(label: str, attack: str, shown: Callable[[Body], str]) -> None:
        own = [shown(found[name][attack]) if "score" in found[name].get(attack, {}) else "-" for name in names]
        broken = first.get(attack, {}).get("not_private")
        if broken or any(value != "-" for value in own):
            lines.append(f"| {label} | {' | '.join(own)} | {shown(broken) if broken else '-'} |")

    row("mechanism: epsilon proved (nothing assumed)", "mechanism", lambda f: f"{f['score']:.2f} ({f['low']:.2f})")
    for name in MEMBERSHIP:
        row(f"{name}, AUC", f"membership.{name}", _auc)
    row("texts finished word for word", "extraction.verbatim", _share)
    row("... nearly so", "extraction.near-verbatim", _share)
    row("sampled texts that hold a secret", "extraction.secrets", _share)
    row("... likeliest texts, after all that was said before it", "extraction.secrets", _likeliest)
    row("records close to members, AUC", "linkage.closeness", _auc)
    row("anonymised original tied to its author", "linkage.anonymised", _share)
    most = [*(_most(found[name]) for name in names), _most(first, broken=True)]
    lines.append(f"| most epsilon that an attack on the model proves | {' | '.join(most)} |")
    return lines


def _likeliest(found: Body) -> str:
    return f"{found['details']['beam']:.1%}; {found['details']['distinct']} different ones"


def _canaries(cells: Body, names: list[str]) -> list[str]:
    found = {name: cells[name]["canaries"]["attacks"] for name in names}
    exposed = [found[name]["canary.exposure"] for name in names]
    guessed = [found[name]["canary.one-run"] for name in names]
    counts = [count for count in ("1", "5", "20", "100") if count in exposed[0]["details"]["by_repetitions"]]
    title = f"exposure, {' / '.join(counts)} times in the text (most: {exposed[0]['details']['most']:.1f}; guessing: 1)"

    def bits(one: Body) -> str:
        return " / ".join(f"{one['details']['by_repetitions'][count]:.1f}" for count in counts)

    def right(one: Body) -> str:
        return f"{one['details']['right']} of {one['details']['guessed']}; {one['epsilon_lower']:.2f}"

    return [
        f"| attack | {' | '.join(names)} | not private |", "|---" * (len(names) + 2) + "|",
        f"| {title} | {' | '.join(map(bits, exposed))} | {bits(exposed[0]['not_private'])} |",
        f"| one run: right guesses; epsilon proved | {' | '.join(map(right, guessed))} | "
        f"{right(guessed[0]['not_private'])} |",
    ]  # fmt: skip


def _widths(cells: Body, names: list[str]) -> str:
    bodies = [cells[name]["attacks"] for name in names]
    widest = max(_half(body["attacks"][f"membership.{score}"]) for body in bodies for score in MEMBERSHIP[:5])
    lowest = max(body["attacks"][f"membership.{score}"]["low"] for body in bodies for score in MEMBERSHIP[:5])
    look = [f"{name} ({', '.join(body['look'])})" for name, body in zip(names, bodies, strict=True) if body["look"]]
    return (
        f"Of the AUCs on all units (all but shadow) the largest half-width is {widest:.4f} and the largest lower end "
        f"{lowest:.3f}; the promise allows {bodies[0]['auc_allowed']:.3f}. No promise was broken"
        f"{'' if all(body['ok'] for body in bodies) else ' EXCEPT AS SHOWN'}"
        + (f"; a bug hunt was asked for in {'; '.join(look)}." if look else "; nothing asked for a bug hunt.")
    )


def _half(one: Body) -> float:
    return float(one["high"] - one["low"]) / 2


def _auc(one: Body) -> str:
    return f"{_point(one['score'])} [{_point(one['low'])}, {_point(one['high'])}]"


def _point(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def _share(one: Body) -> str:
    return f"{one['score']:.1%} (at most {one['high']:.1%})"


def _most(found: Body, broken: bool = False) -> str:
    bodies = [body.get("not_private", {}) if broken else body for name, body in found.items() if name != "mechanism"]
    return f"{max((body.get('epsilon_lower') or 0.0 for body in bodies), default=0.0):.2f}"


if __name__ == "__main__":
    main()
