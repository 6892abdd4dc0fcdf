"""The runs folder as the page sees it: which runs there are, and how far each one is, told from their files alone.

A run's state needs no message from the process that works on it: a lock that is held says running, a statement in
release/ says finished, neither says stopped, however it came to an end.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from hearsay.errors import BadInput
from hearsay.run import Run, open_run, worker

State = Literal["starting", "running", "finished", "stopped", "failed"]
SETTINGS = ("corpus", "epsilon", "recipe")
TAIL = 4096  # bytes of progress.jsonl that hold its last lines


@dataclass(frozen=True)
class Shown:
    """One line of the list."""

    path: str  # below the runs folder: the run's name for the page
    name: str
    state: State
    corpus: str = ""
    epsilon: str = ""
    recipe: str = ""
    stage: str = ""
    done: int = 0
    total: int = 0
    began: float = 0.0
    changed: float = 0.0
    gap: float | None = None
    student: bool = False
    fault: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Shelf:
    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._settings: dict[Path, dict[str, str]] = {}

    def inside(self, path: str) -> Path:
        """The place a request names, or a refusal: nothing outside the runs folder is looked at, links included."""
        place = self.folder if "\0" in path else (self.folder / path).resolve()
        if place == self.folder or not place.is_relative_to(self.folder):
            raise BadInput(f"{path!r} is not in the runs folder")
        return place

    def run(self, path: str) -> Run:
        return open_run(self.inside(path))

    def runs(self) -> list[Shown]:
        """The newest first."""
        return sorted((self.show(folder) for folder in self.folders()), key=lambda one: -one.changed)

    def folders(self) -> list[Path]:
        """A run lies directly in the folder, or one deeper: the demo's does, and a study's cells."""
        found = []
        for place in self.folder.iterdir() if self.folder.is_dir() else []:
            if place.name.startswith(".") or not place.is_dir() or place.is_symlink():
                continue
            inner = [place] if (place / "run.json").is_file() else [p for p in place.iterdir() if p.is_dir()]
            found += [run for run in inner if (run / "run.json").is_file() and not run.is_symlink()]
        return found

    def show(self, folder: Path) -> Shown:
        finished = (folder / "release" / "statement.json").is_file()
        state: State = "running" if worker(folder) is not None else "finished" if finished else "stopped"
        path = str(folder.relative_to(self.folder))
        last = last_note(folder / "progress.jsonl")
        return Shown(
            path=path, name=path.removesuffix("/run"), state=state, **self._told(folder),
            stage="" if state == "finished" else str(last.get("stage", "")),
            done=int(last.get("done", 0)), total=int(last.get("total", 0)),
            began=_time(folder / "run.json"), changed=float(last.get("time", 0)) or _time(folder / "run.json"),
            gap=_gap(folder / "internal" / "evaluation.json"), student=(folder / "release" / "student").is_dir(),
        )  # fmt: skip

    def _told(self, folder: Path) -> dict[str, str]:
        """A few settings, by their line: a run's config.yaml is written by hearsay, and 200 YAML documents are slow."""
        if folder not in self._settings:
            found = dict.fromkeys(SETTINGS, "")
            for line in _text(folder / "config.yaml").splitlines():
                key, _, value = line.strip().partition(": ")
                if key in found and not found[key]:
                    found[key] = value.strip("'\"")
            self._settings[folder] = found
        return self._settings[folder]


def last_note(path: Path) -> dict[str, Any]:
    """The newest whole line; a line that is being written is not taken."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL))
            lines = file.read().split(b"\n")
        body = json.loads(lines[-2])
        return body if isinstance(body, dict) else {}
    except (OSError, ValueError, IndexError):
        return {}


def stages(folder: Path) -> list[dict[str, Any]]:
    """Every stage begun so far, with its seconds once it ended, in order."""
    found: dict[str, dict[str, Any]] = {}
    for line in _text(folder / "progress.jsonl").splitlines():
        try:
            note = json.loads(line)
        except ValueError:
            continue
        one = found.setdefault(note["stage"], {"stage": note["stage"], "seconds": None})
        if note.get("event") == "end":
            one["seconds"] = (one["seconds"] or 0.0) + note["seconds"]
    return list(found.values())


def _gap(path: Path) -> float | None:
    try:
        found = json.loads(_text(path) or "{}").get("gap_closed")
    except ValueError:
        return None
    return float(found) if isinstance(found, int | float) else None


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
