"""A study made again, beside its recorded figures: do they come back?

    python studies/study.py studies/table-1.yaml --corpus airline --out runs/again
    python studies/again.py runs/again [--write]

Cell by cell the perplexity (or the figure by which the study judges) of the recorded seeds and of the new ones: fresh
noise, fresh partition keys, the same public text. A cell *came back* where Welch's test does not tell the two apart
at 5%; so of twenty cells one is expected to differ by chance. Exits with 1 where more differ than chance would explain
(one time in a hundred). `--write` keeps the comparison in studies/results/again.json, from which the documents take it.
"""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.intervals import estimate
from studies.writing import DIGITS, plus_minus, values

from hearsay.disk import write_text

RESULTS = Path(__file__).with_name("results")
CHANCE = 0.05  # of calling two equal cells different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the study was made again")
    parser.add_argument("--write", action="store_true", help="keep the comparison in studies/results")
    given = parser.parse_args()
    recorded = {path.name: json.loads(path.read_text()) for path in RESULTS.glob("*-*.json")}
    pairs = [(recorded[path.name], json.loads(path.read_text())) for path in sorted(given.folder.glob("*-*.json"))
             if path.name in recorded]  # fmt: skip
    found = [cell for old, new in pairs for cell in beside(old, new)]
    if not found:
        sys.exit(
            f"nothing in {given.folder} was recorded with two seeds or more; recorded: {', '.join(sorted(recorded))}"
        )
    for one in found:
        print(f"{one['study']}: {one['cell']}: {told(one)}")
    print(said(found))
    if given.write:
        write_text(RESULTS / "again.json", json.dumps({"made_again": found}, indent=1))
    sys.exit(surprising(found))


def beside(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Every cell that both have on two seeds or more. Some are exact (a public model): those must be equal."""
    judge = old["body"].get("judge", "ppl")
    found = []
    for name, cell in new["cells"].items():
        mine, theirs = values(cell, judge), values(old["cells"].get(name, {}), judge)
        if min(len(mine), len(theirs)) > 1:
            found.append({"study": f"{old['study']}, {old['corpus']}", "cell": name, "judge": judge, "recorded": theirs,
                          "again": mine, "p": welch(theirs, mine, logarithmic=judge == "ppl")})  # fmt: skip
    return found


def welch(some: list[float], others: list[float], *, logarithmic: bool) -> float:
    """Perplexities are compared by their logarithms, as everywhere in the studies."""
    from scipy import stats

    both = [[math.log(one) for one in part] if logarithmic else part for part in (some, others)]
    if all(max(part) - min(part) < 1e-9 for part in both):
        return float(abs(both[0][0] - both[1][0]) < 1e-3)  # neither varies: the same, or not
    return float(stats.ttest_ind(*both, equal_var=False).pvalue)


def surprising(found: list[dict[str, Any]]) -> bool:
    from scipy import stats

    differ = sum(one["p"] < CHANCE for one in found)
    return bool(stats.binom.sf(differ - 1, len(found), CHANCE) < 0.01)


def told(one: dict[str, Any]) -> str:
    digits = DIGITS.get(one["judge"], 3)
    before, after = (plus_minus(estimate(one[key]), digits) for key in ("recorded", "again"))
    return f"{before}, again {after}: " + ("came back" if one["p"] >= CHANCE else f"differs (p {one['p']:.2g})")


def said(found: list[dict[str, Any]]) -> str:
    back = sum(one["p"] >= CHANCE for one in found)
    return f"{back} of {len(found)} cells came back; {CHANCE * len(found):.1f} are expected not to, by chance"


if __name__ == "__main__":
    main()
