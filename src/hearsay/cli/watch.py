"""How long work looks to a person: a bar with the time left for every stage; or one JSON line per event."""

import json
import sys
import time
from typing import Any

from hearsay.stages import Watch


def watch_for(as_json: bool) -> type[Watch]:
    return JsonLines if as_json else Bar


class Bar(Watch):
    """One line per stage, rewritten while it runs, with what is left of it; plain lines where there is no terminal."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description:<21}"), BarColumn(32), TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        self._progress.start()
        self._task = self._progress.add_task(name, total=None)

    def progress(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)

    def close(self, *, failed: bool) -> None:
        if not failed:
            total = self._progress.tasks[0].total or 1
            self._progress.update(self._task, completed=total, total=total)
        self._progress.stop()


class JsonLines(Watch):
    """Progress for programs, on standard error so that the result on standard output stays one document."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._last = 0.0
        self._say(event="begin")

    def progress(self, done: int, total: int) -> None:
        if time.monotonic() - self._last > 1 or done == total:
            self._last = time.monotonic()
            self._say(event="progress", done=done, total=total)

    def close(self, *, failed: bool) -> None:
        self._say(event="failed" if failed else "end")

    def _say(self, **body: Any) -> None:
        print(json.dumps({"stage": self.name, **body}), file=sys.stderr, flush=True)
