"""The page in a real Chromium, as its user meets it: plan, start the demo, watch it finish, try it, verify, read.

The demo is a tiny one (tiny_hearsay.py), started through the page like the real one. Every request and every message
of the console is noted: none may leave this machine, none may be an error.
"""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hearsay.ui.server import Page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "scripts"))
from find_chromium import CHROMIUM  # noqa: E402

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the path"),
]
MINUTES = 5 * 60_000  # of patience with a busy machine, not an expectation


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    runs = tmp_path_factory.mktemp("page") / "runs"
    runs.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent / "src"), str(HERE)]))
        patch.setenv("OMP_NUM_THREADS", "1")
        made = Page(runs, port=0, command=[sys.executable, str(HERE / "tiny_hearsay.py")])
        thread = threading.Thread(target=made.serve, daemon=True)
        thread.start()
        yield made
        made.server.should_exit = True
        thread.join(timeout=10)


class Watched:
    """A tab, and all that it asked for and complained about."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.tab = browser.new_page(**options)
        self.asked: list[str] = []
        self.faults: list[str] = []
        self.tab.set_default_timeout(60_000)
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on("requestfailed", lambda request: self.faults.append(f"{request.url}: {request.failure}"))
        self.tab.on(
            "console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None
        )

    def close(self, page: Page) -> None:
        """What a tab breaks off when it is closed (its event stream, say) is no fault."""
        self.tab.close()
        own = (page.url, "blob:", "data:")
        assert [url for url in self.asked if not url.startswith(own)] == []
        assert [fault for fault in self.faults if "net::ERR_ABORTED" not in fault] == []


@pytest.fixture()
def seen(browser: Any, page: Page) -> Iterator[Watched]:
    watched = Watched(browser, viewport={"width": 1100, "height": 800})
    yield watched
    watched.close(page)


def test_the_whole_way_from_plan_to_report(seen: Watched, page: Page) -> None:
    tab = seen.tab
    tab.goto(page.url)
    tab.get_by_text("No run here yet").wait_for()
    _plans_with_sliders(tab)
    _starts_stops_and_continues_the_demo(tab)
    _completes(tab)
    _verifies(tab)
    _reads_the_report(tab)


def _plans_with_sliders(tab: Any) -> None:
    tab.get_by_role("link", name="Plan").click()
    tab.get_by_text("✓ This can work").wait_for()
    slider = tab.get_by_role("slider", name="Epsilon")
    slider.focus()
    slider.press("Home")  # by keyboard: the smallest epsilon
    tab.get_by_text("✗ This cannot work").wait_for()
    assert "0.1" in tab.locator("#plan-command").inner_text()
    assert "little is left" in tab.locator("#plan-why").inner_text()
    tab.get_by_label("Epsilon: the corpus's whole budget, as a number").fill("3")
    tab.get_by_text("✓ This can work").wait_for()
    tab.get_by_label("hellinger").check()
    tab.get_by_text("tokens of information").wait_for()
    before = tab.locator("#plan-figure img").get_attribute("src")
    tab.get_by_label("seqpate").check()
    tab.get_by_text("✗ This cannot work").wait_for()
    tab.locator(f"#plan-figure img:not([src='{before}'])").wait_for()


def _starts_stops_and_continues_the_demo(tab: Any) -> None:
    tab.get_by_role("link", name="Runs").click()
    tab.get_by_role("button", name="New run").click()
    tab.get_by_label("Name").fill("first")
    tab.get_by_role("button", name="Start").click()
    card = tab.locator("li[data-run='first/run']")
    card.get_by_text("running", exact=True).wait_for(timeout=MINUTES)
    assert card.get_by_role("progressbar").count() == 1
    card.get_by_role("button", name="Stop: first").click()
    card.get_by_text("stopped", exact=True).wait_for(timeout=MINUTES)
    card.get_by_role("button", name="Continue: first").click()
    card.get_by_text("finished", exact=True).wait_for(timeout=MINUTES)
    assert card.get_by_role("button").count() == 0


def _completes(tab: Any) -> None:
    tab.get_by_role("link", name="Try: first").click()
    tab.get_by_label("Beginning").fill("hello, I would like")
    tab.get_by_role("button", name="Complete").click()
    tab.get_by_text("Done in").wait_for(timeout=MINUTES)
    for side in ("public", "student"):
        said = tab.locator(f"#play-{side}").inner_text()
        assert said.startswith("hello, I would like") and len(said) > len("hello, I would like")


def _verifies(tab: Any) -> None:
    tab.get_by_role("link", name="Ledger", exact=True).click()
    tab.get_by_text("epsilon 3 of 3 spent").wait_for()
    tab.get_by_role("button", name="Verify").click()
    tab.get_by_text("✓ PASS").wait_for(timeout=MINUTES)
    assert tab.get_by_text("answers, round 1").count() == 1


def _reads_the_report(tab: Any) -> None:
    tab.get_by_role("link", name="Report", exact=True).click()
    frame = tab.frame_locator("#report-frame")
    frame.get_by_role("heading", name="What is promised").wait_for()
    assert frame.get_by_text("for the owner of the data").count() == 1
    tab.get_by_label("shareable edition").check()
    frame.get_by_text("may be shared").wait_for()


def test_on_a_phone_in_the_dark_nothing_is_cut_off(browser: Any, page: Page) -> None:
    watched = Watched(browser, viewport={"width": 375, "height": 700}, color_scheme="dark", reduced_motion="reduce")
    for view in ("runs", "plan", "play", "ledger", "report"):
        watched.tab.goto(f"{page.url}#{view}")
        watched.tab.locator(f"#view-{view} h1").wait_for()
        width = watched.tab.evaluate("document.documentElement.scrollWidth")
        assert width <= 375, f"{view} is {width} wide"
    assert watched.tab.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(20, 22, 26)"
    watched.close(page)


def test_every_control_has_a_name_and_the_keyboard_reaches_it(seen: Watched, page: Page) -> None:
    seen.tab.goto(page.url)
    seen.tab.keyboard.press("Tab")
    assert seen.tab.evaluate("document.activeElement.className") == "skip"
    seen.tab.keyboard.press("Enter")
    assert seen.tab.evaluate("document.activeElement.id") == "main"
    seen.tab.get_by_role("link", name="Plan").click()
    seen.tab.get_by_text("Recipe", exact=True).wait_for()
    unnamed = seen.tab.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, iframe, img, a')].filter((one) =>
            !(one.labels?.length || one.ariaLabel || one.title || one.textContent.trim() || one.hasAttribute('alt')))
            .map((one) => one.outerHTML)"""
    )
    assert unnamed == []
