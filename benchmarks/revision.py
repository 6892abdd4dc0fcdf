"""Which commit was measured. Not in workload.py: that loads torch, whose memory would be measured along."""

import os
import subprocess
from pathlib import Path


def commit() -> str:
    """From the environment, on a machine that has the files without their history; else from git."""
    if given := os.environ.get("COMMIT"):
        return given
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
