"""How long the page takes to list runs: the server's answer, and the browser's list, by the number of runs.

python benchmarks/page.py --runs 200          # prints seconds; --out FILE keeps them
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from hearsay.cli.setup import EXAMPLE
from hearsay.config import commented_yaml
from hearsay.run import begin
from hearsay.ui.server import Page

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from find_chromium import CHROMIUM

REPEATS = 5


def make(folder: Path, count: int) -> None:
    """Runs as they lie on disk: a long config, progress, and for all but every tenth a statement and a measurement."""
    for number in range(count):
        run = begin(folder / f"run-{number:03}", commented_yaml(EXAMPLE), folder / "ledger.sqlite", folder / "home")
        for step in range(40):
            run.note(f"stage {step // 2}", event=("begin", "end")[step % 2], seconds=1.0)
        if number % 10:
            (run.release / "student").mkdir()
            (run.release / "statement.json").write_text(json.dumps({"epsilon": 3.0}))
            (run.internal / "evaluation.json").write_text(json.dumps({"gap_closed": 0.26}))


def fetched(url: str) -> float:
    began = time.monotonic()
    with urllib.request.urlopen(f"{url}api/runs") as answer:
        answer.read()
    return time.monotonic() - began


def shown(url: str, count: int) -> float | None:
    """From opening the address to the last card on the screen, in Chromium; none without one."""
    if CHROMIUM is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto("about:blank")
        began = time.monotonic()
        tab.goto(url)
        tab.locator("#runs li").nth(count - 1).wait_for()
        spent = time.monotonic() - began
        browser.close()
    return spent


def measure(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), count)
        page = Page(Path(folder), port=0)
        threading.Thread(target=page.serve, daemon=True).start()
        first = fetched(page.url)
        again = statistics.median(fetched(page.url) for _ in range(REPEATS))
        seen = shown(page.url, count)
        page.server.should_exit = True
    return {
        "runs": count, "first_answer_s": round(first, 3), "later_answer_s": round(again, 3),
        "browser_list_s": seen and round(seen, 3), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = json.dumps(measure(given.runs), indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
