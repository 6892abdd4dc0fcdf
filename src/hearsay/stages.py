"""Stages hand over through files: what is finished is loaded, what is not is computed, a killed one leaves nothing.

Everything a stage computes follows from public settings, private shards and stored answers, never from the clock or
from a global random state, so a resumed run ends where an uninterrupted one would have.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hearsay.disk import drafting, write_text
from hearsay.run import Run, forget_time

Progress = Callable[[int, int], None]
NOTE_EVERY = 2.0  # seconds


class Stages:
    """Runs stages in order, tells the person watching, and notes public facts in progress.jsonl."""

    def __init__(self, run: Run, watch: Callable[[str], "Watch"], label: str = "") -> None:
        self.run, self.watch, self.label = run, watch, label
        self.seconds: dict[str, float] = {}

    def named(self, label: str) -> "Stages":
        """The same run and watcher for a side job, whose stages carry its name."""
        return Stages(self.run, self.watch, f" ({label})")

    def start(self, name: str) -> "Running":
        return Running(self, name + self.label)

    def tensor(self, name: str, path: Path, compute: Callable[[Progress], Tensor]) -> Tensor:
        """A stage whose result is one tensor in a file."""
        if path.exists():
            return load_tensor(path)
        with self.start(name) as progress:
            value = compute(progress).detach().cpu().contiguous()
            save_tensor(path, value)
            forget_time(path)
        return value

    def tokens(self, name: str, path: Path, compute: Callable[[Progress], list[list[int]]]) -> list[list[int]]:
        """A stage whose result is public sentences."""
        if path.exists():
            found: list[list[int]] = json.loads(path.read_text())
            return found
        with self.start(name) as progress:
            found = compute(progress)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(found))
            forget_time(path)
        return found


class Running:
    def __init__(self, stages: Stages, name: str) -> None:
        self.stages, self.name = stages, name
        self.began = self.noted = 0.0

    def __enter__(self) -> Progress:
        self.began = self.noted = time.monotonic()
        self.stages.run.note(self.name, event="begin")
        self.view = self.stages.watch(self.name)
        return self._progress

    def _progress(self, done: int, total: int) -> None:
        """To the person watching; and now and then to progress.jsonl, for those who look from elsewhere."""
        self.view.progress(done, total)
        if time.monotonic() - self.noted > NOTE_EVERY:
            self.noted = time.monotonic()
            self.stages.run.note(self.name, event="progress", done=done, total=total)

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.view.close(failed=kind is not None)
        spent = time.monotonic() - self.began
        self.stages.seconds[self.name] = self.stages.seconds.get(self.name, 0.0) + spent
        if kind is None:
            self.stages.run.note(self.name, event="end", seconds=round(spent, 2))


class Watch:
    """How a stage is shown. This one shows nothing: for tests and for code."""

    def __init__(self, name: str) -> None:
        self.name = name

    def progress(self, done: int, total: int) -> None:
        pass

    def close(self, *, failed: bool) -> None:
        pass


def load_tensor(path: Path) -> Tensor:
    return load_file(path)["value"]


def save_tensor(path: Path, value: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with drafting(path) as draft:
        save_file({"value": value}, draft)


def pick_device(name: str) -> torch.device:
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
