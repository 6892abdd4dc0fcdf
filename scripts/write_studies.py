"""Writes docs/studies.md and its pictures from studies/results/: each study's table as its JSON gives it.

python scripts/write_studies.py               # rewrites them; --check says whether the page is up to date (a test does)
python scripts/write_studies.py --from DIR    # first takes the JSON that `make study` left in DIR
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import pictures, writing

from hearsay.report import look

ROOT = Path(__file__).parents[1]
RESULTS, PAGE, FIGURES = ROOT / "studies" / "results", ROOT / "docs" / "studies.md", ROOT / "docs" / "figures"
ORDER = ("table-1", "table-2", "table-3", "table-4", "table-6", "table-7", "table-9", "figure-2", "table-11",
         "table-14", "clinic", "clinic-curve", "recipes", "units", "teachers", "split")  # fmt: skip
DRAWN = ("figure-2", "clinic-curve", "table-3")  # where a picture says more than the table
HEAD = """# Studies

The papers' tables and our own, each by one command: `make study NAME=table-3 [CORPUS=airline] [DATA=… MODEL=…]`.
Corpora: `sgd` (service dialogues, unit = dialogue) and `europarl` (parliament, unit = speaker) with a base model of
20.7M parameters, which need the data and want a GPU; `airline` and `clinic` are simulated and need nothing. Raw
figures are in `studies/results/`; this page is written from them by `python scripts/write_studies.py`. What follows
for the papers is in [claims](claims.md).

Cells of one seed share their teachers (`studies/panel.py`): they differ by their noise, their ledger and their
student, so differences are paired by seed. A figure's interval is over seeds: another partition key, other pseudo
text, fresh noise. *gap* is the share of the way, in nats, from the better public reference to the private one; *below
zero* the share of noisy values that came out negative; *noise* its standard deviation on the mean of the teachers.
Epsilon is from each cell's ledger, verified by the second accountant. Perplexities and completions are measured on
people whom nobody trained on.
"""


def main() -> None:
    if "--from" in sys.argv:
        for path in Path(sys.argv[sys.argv.index("--from") + 1]).glob("*.json"):
            shutil.copy(path, RESULTS / path.name)
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != text:
            sys.exit("out of date: docs/studies.md; type: python scripts/write_studies.py")
        return
    PAGE.write_text(text)
    for results in _all():
        if results["study"] in DRAWN and (drawn := pictures.picture(results)):
            look.write_svg(FIGURES / f"{_label(results)}.svg", drawn)


def _all() -> list[dict[str, Any]]:
    found = [json.loads(path.read_text()) for name in ORDER for path in sorted(RESULTS.glob(f"{name}-*.json"))]
    return [one for one in found if "about" in one and one["study"] in ORDER]


def _label(results: dict[str, Any]) -> str:
    return f"{results['study']}-{results['corpus']}"


def page() -> str:
    parts, seen = [HEAD], ""
    for results in sorted(_all(), key=lambda one: ORDER.index(one["study"])):
        if results["study"] != seen:
            parts.append(f"## {results['study']}\n")
            seen = results["study"]
        parts.append(writing.page(results))
        if results["study"] in DRAWN:
            parts.append(f"![{_label(results)}](figures/{_label(results)}.svg)\n")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
