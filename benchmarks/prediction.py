"""Does a run take as long as `plan` said? Calibrates, predicts and runs, and compares.

    python benchmarks/prediction.py [--configs demo teachers] [--model embedded] [--out FILE]

`demo` is the demo's own run (updates); `teachers` trains and asks teachers on the same simulated customers
(hellinger). Each is calibrated and then run in processes of their own. A prediction must be within a factor of 1.5 of
the run's stages together. On a machine with other work both sides waver.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml

import workload
from hearsay import config as configs
from hearsay import forecast
from hearsay import run as runs
from hearsay.demo import show
from hearsay.forecast import Calibration

FACTOR = 1.5
TEACHERS: dict[str, Any] = {
    "ask": {"recipe": "hellinger", "rounds": 1, "sentences": 80, "questions": 2000, "candidates": 96, "tail": 32,
            "clip": 0.3, "stride": 1.7},
}  # fmt: skip


def main() -> None:
    given = _arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found: dict[str, Any] = {"machine": workload.machine(device), "model": Path(given.model).name, "factor": FACTOR}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = show.corpus(folder / "corpus", 0, None)
        for which in given.configs:
            body = show.demo_settings(files, 0) | ({} if which == "demo" else TEACHERS)
            body |= {"model": given.model, "compute": {"device": device.type, "seed": 0}}
            config = folder / f"{which}.yaml"
            config.write_text(yaml.safe_dump(body))
            found[which] = compared(config, folder / which)
            workload.keep(given.out, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", nargs="+", default=["demo", "teachers"], choices=["demo", "teachers"])
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def compared(config: Path, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    alone("calibrated", config, folder)
    gib = alone("run", config, folder)
    plan = forecast.predict(configs.load(config), Calibration(**json.loads((folder / "rates.json").read_text())))
    truth = stages(folder / "run" / "progress.jsonl")
    ratio = plan.seconds / sum(truth.values())
    told = {stage: round(seconds, 2) for stage, seconds in plan.stages.items()}
    return {
        "predicted": {"seconds": round(plan.seconds, 1), "memory_gib": round(plan.memory_gib, 2), "stages": told},
        "measured": {"seconds": round(sum(truth.values()), 1), "memory_gib": round(gib, 2), "stages": truth},
        "predicted_over_measured": round(ratio, 3),
        "ok": 1 / FACTOR <= ratio <= FACTOR,
    }


def alone(part: str, config: Path, folder: Path) -> float:
    """Does one part in a process of its own; returns the GiB of memory it had at most: a GPU's, if it ran on one."""
    child = subprocess.Popen([sys.executable, __file__, "--part", part, str(config), str(folder)])
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{part} ended with {child.returncode}")
    device = folder / "device-gib"
    return float(device.read_text()) if device.exists() else used.ru_maxrss / 2**20


def calibrated(config: Path, folder: Path) -> None:
    from hearsay.calibrate import calibrate

    (folder / "rates.json").write_text(json.dumps(dataclasses.asdict(calibrate(configs.load(config)))))


def run(config: Path, folder: Path) -> None:
    from hearsay import pipeline

    settings, home = configs.load(config), folder / "home"
    here = runs.begin(folder / "run", configs.to_yaml(settings), home / "ledger.sqlite", home)
    with here.alone():
        pipeline.generate(settings, here)
    if torch.cuda.is_available():
        (folder / "device-gib").write_text(str(torch.cuda.max_memory_allocated() / 2**30))


def stages(progress: Path) -> dict[str, float]:
    """Seconds by stage, rounds of one kind together."""
    found: dict[str, float] = {}
    for line in progress.read_text().splitlines():
        note = json.loads(line)
        if note["event"] == "end":
            name = note["stage"].rstrip("0123456789 ")
            found[name] = round(found.get(name, 0.0) + note["seconds"], 2)
    return found


PARTS = {"calibrated": calibrated, "run": run}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        PARTS[sys.argv[2]](Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
