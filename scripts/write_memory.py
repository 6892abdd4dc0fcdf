"""Fills the memory table of docs/scaling.md from benchmarks/results/corpus_memory.json. No number is typed by hand.

python scripts/write_memory.py
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE, RESULT = ROOT / "docs" / "scaling.md", ROOT / "benchmarks" / "results" / "corpus_memory.json"
MARK = re.compile(r"(<!-- memory-table -->\n).*?(<!-- /memory-table -->)", re.DOTALL)


def table(found: dict[str, Any]) -> str:
    size = found["size"]
    lines = [
        "| stage, in a process of its own | peak memory, GiB | after each quarter | core seconds |",
        "|---|---|---|---|",
    ]
    for stage, one in found["stages"].items():
        quarters = ", ".join(f"{value:.2f}" for value in one["after_each_quarter"])
        lines.append(f"| {stage} | {one['peak_rss_gib']:.2f} | {quarters} | {one['core_seconds']} |")
    verdict = "under" if found["ok"] else "NOT under"
    return "\n".join(lines) + (
        f"\n\n{size['rows']:,} rows of {size['users']:,} users, {size['teachers']:,} teachers in blocks of "
        f"{found['block']}, the embedded model: {verdict} the bound of {found['limit_gib']} GiB, on a machine of "
        f"{found['machine_gib']} GiB. Memory is that of one block at a time and does not grow with their number: "
        f"{size['blocks']} of {-(-size['teachers'] // found['block'])} blocks were trained and asked here, two were "
        f"packed for 3 epochs, and two asked all {size['questions']:,} questions (`{found['command']}`; core "
        f"seconds are those of a busy machine). Commit {found['commit'][:7]}.\n"
    )


def main() -> None:
    made = table(json.loads(RESULT.read_text()))
    PAGE.write_text(MARK.sub(lambda match: match[1] + made + match[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
