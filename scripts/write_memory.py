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
    lines = ["| stage, in a process of its own | peak memory, GiB | core seconds |", "|---|---|---|"]
    for stage, one in found["stages"].items():
        lines.append(f"| {stage} | {one['peak_rss_gib']:.2f} | {one['core_seconds']} |")
    verdict = "under" if found["ok"] else "NOT under"
    return "\n".join(lines) + (
        f"\n\n{size['rows']:,} rows of {size['users']:,} users, {size['teachers']:,} teachers, {found['block']} a "
        f"block, the embedded model: {verdict} the bound of {found['limit_gib']} GiB, on a machine of "
        f"{found['machine_gib']} GiB (`{found['command']}`). "
        "Memory is that of one block at a time, so what is cut short (steps of all teachers, "
        "questions to all, units of a round) does not change the peak; the uncut work is done by two blocks. Commit "
        f"{found['commit'][:7]}.\n"
    )


def main() -> None:
    made = table(json.loads(RESULT.read_text()))
    PAGE.write_text(MARK.sub(lambda match: match[1] + made + match[2], PAGE.read_text()))


if __name__ == "__main__":
    main()
