"""`hearsay doctor CONFIG --calibrate`: this machine's rates, measured on public text.

Apart from the other checks, since it loads what a run loads, which the page's process must not.
"""

from pathlib import Path

from hearsay import forecast
from hearsay.calibrate import calibrate
from hearsay.cli.setup import Check
from hearsay.config import load, task_of
from hearsay.errors import BadInput


def calibrated(config_path: Path | None) -> Check:
    """Measures for some seconds, on public text only, and keeps the rates in the user's cache."""
    if config_path is None or task_of(config_path) == "augment":
        raise BadInput("--calibrate needs a config for task: generate; type: hearsay doctor CONFIG --calibrate")
    config = load(config_path)
    path = forecast.keep(config, calibrate(config))
    return Check("calibration", True, f"kept in {path}; type: hearsay plan {config_path}")
