"""Makes the pictures in docs/pictures from a finished demo: its report and its page, light and dark.

hearsay demo --out runs/demo
python scripts/pictures.py --runs runs          # needs playwright and a Chromium; look at them before keeping them

The picture of the list shows a second run at work: it is started through the page, stopped again, and removed.
"""

import argparse
import io
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from find_chromium import CHROMIUM
from hearsay.report import figures, look
from hearsay.ui.server import Page

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 1040, "height": 700}
SCALE = 1.5
COLOURS = 160  # of a palette: flat pages need few, and the files stay small
SECOND = "second"  # the run that is at work in the list


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs", help="a folder with a finished demo in demo/")
    parser.add_argument("--only", default="", help="make only those whose name begins so")
    given = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    study()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        shown = Path(folder) / "runs"  # a copy: a picture must not change what it shows
        shutil.copytree(given.runs / "demo", shown / "demo")
        _rebase(shown / "demo")
        with served(shown) as url:
            for name, take in VIEWS.items():
                if name.startswith(given.only):
                    for scheme in ("light", "dark"):
                        photograph(browser, url, take, PICTURES / f"{name}-{scheme}.png", scheme)


def _rebase(demo: Path) -> None:
    path = demo / "run" / "run.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "ledger": str(demo / "home" / "ledger.sqlite"), "home": str(demo / "home")}))


def runs(tab: Any, url: str) -> None:
    tab.set_viewport_size({"width": 1040, "height": 430})
    tab.goto(url)
    tab.get_by_role("heading", name="demo").wait_for()
    if not tab.get_by_role("heading", name=SECOND).count():
        tab.get_by_role("button", name="New run").click()
        tab.get_by_label("Name").fill(SECOND)
        tab.locator("#start-seed").fill("1")
        tab.get_by_role("button", name="Start").click()
    tab.get_by_text("updates, ").wait_for(timeout=300_000)
    tab.wait_for_timeout(20_000)


def plan(tab: Any, url: str) -> None:
    tab.set_viewport_size({"width": 1040, "height": 770})
    tab.goto(url + "#plan")
    tab.get_by_label("hellinger").check()  # the recipe whose number of teachers is a picture
    tab.get_by_label("Teachers, as a number").fill("900")
    tab.get_by_label("Sentences in the corpus, as a number").fill("250000")
    tab.locator("#plan-figure img").wait_for(timeout=60_000)
    tab.wait_for_timeout(1500)
    tab.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


def playground(tab: Any, url: str) -> None:
    tab.goto(url + "#play/demo%2Frun")
    tab.get_by_label("Beginning").fill("hello, I would like to change my")
    tab.get_by_role("button", name="Complete").click()
    tab.get_by_text("Done in").wait_for(timeout=120_000)


def ledger(tab: Any, url: str) -> None:
    tab.goto(url + "#ledger/demo%2Frun")
    tab.locator("#ledger-figure img").wait_for(timeout=60_000)
    tab.get_by_role("button", name="Verify").click()
    tab.get_by_text("PASS").wait_for(timeout=60_000)


def report(tab: Any, url: str) -> None:
    tab.set_viewport_size({"width": 820, "height": 1640})
    tab.goto(url + "report?run=demo%2Frun")


VIEWS = {"report": report, "plan": plan, "playground": playground, "ledger": ledger, "runs": runs}


def photograph(browser: Browser, url: str, take: Any, path: Path, scheme: Any) -> None:
    tab = browser.new_page(viewport=SIZE, device_scale_factor=SCALE, color_scheme=scheme)  # type: ignore[arg-type]
    take(tab, url)
    picture = Image.open(io.BytesIO(tab.screenshot()))
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    if take is runs and scheme == "dark":  # the last look at the second run
        tab.get_by_role("button", name=f"Stop: {SECOND}").click()
        tab.get_by_text("stopped").wait_for(timeout=60_000)
    tab.close()
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


def study() -> None:
    """The study's runs on the plane of privacy and utility, by the same function that the report uses."""
    cells = json.loads((ROOT / "studies" / "results" / "sgd.json").read_text())["cells"]
    points = [figures.Point(name.rpartition("-epsilon-")[0], float(name.rpartition("-")[2]), cell["ppl"]["student"])
              for name, cell in cells.items() if "-epsilon-" in name]  # fmt: skip
    first = cells["seqpate-epsilon-3"]["ppl"]
    drawn = figures.curve(points, {name: first[name] for name in ("public", "private")})
    look.write_svg(PICTURES / "sgd.svg", drawn)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    page = Page(folder, port=0)
    thread = threading.Thread(target=page.serve, daemon=True)
    thread.start()
    yield page.url
    page.server.should_exit = True
    thread.join(timeout=10)


@contextmanager
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        raise SystemExit("no Chromium found; install one, e.g. apt install chromium")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


if __name__ == "__main__":
    main()
