"""One look for every picture: report, page, studies and README draw with these few functions.

Colours are named once, with a light and a dark value. A figure is drawn in the light ones; in SVG each becomes a CSS
variable, so that the same picture follows the reader's dark mode. Nothing is told by colour alone: marks, hatches and
labels say it again, so a grey print reads the same.
"""

import io
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

INK, MUTED, RULE, PAPER = "#1c1e22", "#5f636b", "#d8d4ca", "#fbfaf6"
ACCENT, WARN, SOFT = "#1d5c87", "#a8481a", "#a9b8c4"
NAMES = {INK: "ink", MUTED: "muted", RULE: "rule", PAPER: "paper", ACCENT: "accent", WARN: "warn", SOFT: "soft"}
WIDTH, HALF = 7.2, 4.6  # inches: one text column, or half of the page beside the sliders
FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none", "font.family": ["sans-serif"], "font.sans-serif": ["Liberation Sans", "DejaVu Sans"],
    "font.size": 9.5, "text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": MUTED, "axes.labelsize": 9,
    "xtick.color": MUTED, "ytick.color": MUTED, "axes.spines.top": False, "axes.spines.right": False,
    "axes.linewidth": 0.7, "xtick.major.width": 0.7, "ytick.major.width": 0.7, "hatch.linewidth": 0.7,
    "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.titlepad": 10,
}  # fmt: skip
_drawing = threading.Lock()  # matplotlib's settings belong to the process; the page draws in several threads


@contextmanager
def canvas(height: float, width: float = WIDTH) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in our look. Draw and save inside the block: settings are read when saving, too."""
    import logging

    import matplotlib
    from matplotlib.figure import Figure

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # a missing font has a substitute
    with _drawing, matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots()


def svg(figure: Any, name: str) -> str:
    """Inline SVG in the page's colours and letters. `name` keeps the ids of two figures on one page apart."""
    import matplotlib

    buffer = io.StringIO()
    plain = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=plain)
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    text = re.sub(r'(<svg [^>]*?)width="[^"]*" height="[^"]*"', r'\1class="figure"', text, count=1)
    for value, role in NAMES.items():
        text = text.replace(value, f"var(--{role})")
    # Names of groups would repeat on a page. Clips, marks and hatches are referred to, and are hashes with the salt.
    return re.sub(r' id="(?![pmh][0-9a-f]{10}")[^"]*"', "", text)


def standalone(text: str) -> str:
    """The same SVG as a file of its own: it brings its colours along, light and dark."""
    css = (resources.files("hearsay") / "report" / "static" / "colours.css").read_text(encoding="utf-8")
    style = f"<style>{css.replace(':root', 'svg')} svg {{ font-family: {FONT} }}</style>"
    return re.sub(r"(<svg [^>]*>)", lambda found: found[1] + style, text, count=1)


def write_svg(path: Path, text: str) -> None:
    path.write_text(standalone(text) + "\n", encoding="utf-8")


def plain_log_axis(axes: Any, low: float, high: float, *, which: str = "x") -> None:
    """A logarithmic axis whose ticks read 50, 100, 200 rather than powers of ten."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(low, high)
    axis.set_major_locator(FixedLocator(round_values(low, high)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def round_values(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones, at even steps on a logarithmic axis: as fine as fits."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)):
        found = [d * 10.0**p for p in powers for d in digits if low <= d * 10.0**p <= high]
        if len(found) >= 4:
            return found
    return found


def plain(value: float) -> str:
    """A number as people write it: 200, 1,500, 0.05, 3 million."""
    if value >= 1e6:
        return f"{value / 1e6:,.4g} million"
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"
