"""The demo as a person meets it: wall time, peak memory and what the student is worth, over several seeds.

    python benchmarks/demo.py [--compare]      # writes benchmarks/results/demo.json

With --compare the first seed's run is then continued with students by answers, which is not timed.

Run it on a quiet machine: two threads that wait for a third process are several times slower.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hearsay.demo.show import ANSWERS, SETTINGS
from hearsay.run import environment

SEEDS = (0, 1, 2)
RESULT = Path(__file__).parent / "results" / "demo.json"


def main() -> None:
    found = [one(seed) for seed in SEEDS]
    gaps = [run["gap_closed"] for run in found]
    body = {
        "command": "python benchmarks/demo.py",
        "environment": environment(),
        "settings": SETTINGS,
        "runs": found,
        "gap_closed_mean": statistics.mean(gaps),
        "gap_closed_standard_deviation": statistics.stdev(gaps),
        "seconds_longest": max(run["seconds"] for run in found),
        "peak_gib": max(run["peak_gib"] for run in found),
    }
    RESULT.write_text(json.dumps(body, indent=1) + "\n")
    print(json.dumps({key: body[key] for key in body if key not in ("runs", "environment", "settings")}, indent=1))


def one(seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).parent / "hearsay"), "demo", "--seed", str(seed), "--out", folder, "--json"]
        began = time.monotonic()
        # As Python is by default: compiled modules are kept, whatever the shell of this benchmark prefers.
        usual = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=usual)
        seconds = time.monotonic() - began
        compared = _compared([*command, "--compare"]) if seed == SEEDS[0] and "--compare" in sys.argv else {}
        stages = [json.loads(line) for line in (Path(folder) / "run" / "progress.jsonl").read_text().splitlines()]
    found = json.loads(done.stdout)
    models = ("public", "public_pseudo", "student", "private")
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 2),
        "gap_closed": found["gap_closed"],
        "ppl": {name: round(found[name]["ppl"], 2) for name in models},
        "by_answers": compared,
        "name_leak_rate": {name: found[name]["name_leak_rate"] for name in models},
        "epsilon": found["statement"]["epsilon"],
        "stages": {line["stage"]: line["seconds"] for line in stages if line["event"] == "end"},
    }


def _compared(command: list[str]) -> dict[str, float]:
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {recipe: round(found[recipe]["ppl"], 2) for recipe in ANSWERS}


if __name__ == "__main__":
    main()
