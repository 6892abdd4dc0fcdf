"""How fast the spine answers: the command line, the noise on one core and on all, and the door's charges.

    python benchmarks/spine.py            prints the result and keeps it in benchmarks/results/

Best of several for each, since other work on the machine only ever adds. The command line is timed from outside, as
its user sees it; charges include their syncs to disk.
"""

import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

from revision import commit

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "spine.json"
SIGMAS = (1, 10**3, 10**6, 10**9)
COORDINATES = 2_000_000
CHARGES = 500
LIMITS = {"help_seconds": 0.5, "plan_seconds": 1.0, "noise_coordinates_per_second": 1e6}


def best_of(count: int, action: Callable[[], None]) -> float:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def command_line(*words: str) -> float:
    program = [sys.executable, "-c", "from hearsay.cli.main import main; main()", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}

    def call() -> None:
        subprocess.run(program, env=environment, capture_output=True, check=True)

    return round(best_of(7, call), 3)


def noise(sigma: int) -> int:
    from hearsay.release.noise import rounded_normal

    rounded_normal(Fraction(sigma), 1000)  # thresholds are computed once
    seconds = best_of(5, lambda: void(rounded_normal(Fraction(sigma), COORDINATES)))
    return round(COORDINATES / seconds)


def void(_: object) -> None:
    pass


def charges() -> int:
    from hearsay.accounting import budget
    from hearsay.accounting.events import Gaussian
    from hearsay.accounting.ledger import Ledger

    event = Gaussian(Fraction(1), Fraction(10**9), 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = Ledger.create(folder / "l.sqlite", budget.make(3, 1e-6), corpus="c", corpus_name="c", unit="user")
        ledger.register("r", folder)
        batches = itertools.count()

        def charge_all() -> None:
            batch = next(batches)
            for i in range(CHARGES):
                ledger.charge("r", f"{batch}-{i}", event, answer="a", purpose="p", folder=folder)

        return round(CHARGES / best_of(3, charge_all))


def measure() -> dict[str, Any]:
    return {
        "help_seconds": command_line("--help"),
        "plan_seconds": command_line("plan", "--queries", "1000000"),
        "noise_coordinates_per_second": {f"{sigma:.0e}": noise(sigma) for sigma in SIGMAS},
        "charges_per_second": charges(),
    }


def main() -> int:
    every_core = noise(10**6)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core, for everything else
    result = measure()
    result["noise_coordinates_per_second"]["1e+06, all cores"] = every_core
    result["limits"] = LIMITS
    result["ok"] = (
        result["help_seconds"] < LIMITS["help_seconds"]
        and result["plan_seconds"] < LIMITS["plan_seconds"]
        and min(result["noise_coordinates_per_second"].values()) >= LIMITS["noise_coordinates_per_second"]
    )
    packages = ("numpy", "scipy", "mpmath", "typer")
    result |= {"command": "python benchmarks/spine.py", "python": platform.python_version()}
    result |= {"packages": {name: metadata.version(name) for name in packages}, "cpu_count": os.cpu_count()}
    result["commit"] = commit()
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
