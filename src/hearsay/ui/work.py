"""Starting and stopping runs. The page's own process never reads private text: it starts the command line for that.

A run that was started here goes on when the page is closed, like one that was started in a terminal.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from hearsay import config as configs
from hearsay.config_augment import AugmentConfig
from hearsay.disk import write_text
from hearsay.errors import BadInput
from hearsay.run import worker
from hearsay.ui.shelf import Shelf, Shown

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
COMMAND = (sys.executable, "-m", "hearsay")
TASKS: dict[str, type[configs.Config | AugmentConfig]] = {"generate": configs.Config, "augment": AugmentConfig}


@dataclass
class Job:
    """A process started from the page. What it says goes to an unnamed file that vanishes with it: an error about
    private rows names their place, and that belongs on the owner's screen, not on disk."""

    path: str
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    began: float = field(default_factory=time.time)
    stopping: bool = False

    def fault(self) -> str:
        """Why it failed, in its own words; nothing while it runs, or if it was stopped or went well."""
        code = self.process.poll()
        if code in (None, 0, 130, -signal.SIGINT):
            return ""
        self.said.seek(0)
        lines = self.said.read().decode("utf-8", "replace").splitlines()
        begin = next((n for n, line in enumerate(lines) if line.startswith("error: ")), None)
        return "\n".join(lines[begin:])[:4000] if begin is not None else f"ended with code {code}"


class Workshop:
    """`command` is how the command line is called; `allowed`, which folders a config may name besides the runs'."""

    def __init__(self, shelf: Shelf, allowed: Sequence[Path] = (), command: Sequence[str] = COMMAND) -> None:
        self.shelf, self.command = shelf, list(command)
        self.allowed = [shelf.folder, *(folder.resolve() for folder in allowed)]
        self.jobs: dict[str, Job] = {}

    def demo(self, name: str, seed: int) -> str:
        place = self._new(name)
        return self._start(f"{name}/run", "demo", "--out", str(place), "--seed", str(seed))

    def from_config(self, name: str, text: str, *, anyway: bool) -> str:
        """Checks the settings and every path in them, keeps the file beside the run, and starts it."""
        place = self._new(name)
        config = configs.parse_as(
            TASKS.get(configs.task_in(text), configs.Config), text, self.shelf.folder
        ).model_dump()
        for path in [*named_paths(config, self.shelf.folder), *model_places(config)]:
            if not any(path.resolve().is_relative_to(folder) for folder in self.allowed):
                raise BadInput(
                    f"the config names {path}, which is outside the runs folder; move it there, or begin with "
                    "`hearsay ui --data FOLDER`"
                )
        self.shelf.folder.mkdir(parents=True, exist_ok=True)
        file = place.with_name(f"{name}.yaml")
        write_text(file, text)
        return self._start(name, "run", str(file), "--out", str(place), *(["--anyway"] if anyway else []))

    def resume(self, path: str) -> str:
        """The command that began it, again: what is finished is loaded, what was paid for is not paid twice."""
        run = self.shelf.run(path)
        if worker(run.folder) is not None:
            raise BadInput(f"{path} is running")
        file = run.folder / "config.yaml"
        if run.home == run.folder.parent / "home":  # the demo's own home
            task = configs.task_of(file)
            seed = configs.load_as(TASKS.get(task, configs.Config), file).compute.seed
            return self._start(path, "demo", "--task", task, "--out", str(run.folder.parent), "--seed", str(seed))
        return self._start(path, "run", str(file), "--out", str(run.folder), "--ledger", str(run.ledger))

    def stop(self, path: str) -> None:
        """As Ctrl-C does: the run ends between two files and can be taken up."""
        place = self.shelf.inside(path)
        job = self.jobs.get(path)
        number = job.process.pid if job and job.process.poll() is None else worker(place)
        if number is None:
            raise BadInput(f"{path} is not running")
        if job:
            job.stopping = True
        os.kill(number, signal.SIGINT)

    def runs(self) -> list[Shown]:
        """The shelf's list, with what only this process knows: what is about to begin, and why something failed."""
        found = {one.path: one for one in self.shelf.runs()}
        for path, job in self.jobs.items():
            known = found.get(path) or Shown(path, path.removesuffix("/run"), "stopped", changed=job.began)
            if job.process.poll() is None:
                found[path] = _at_work(known, job)
            elif (fault := job.fault()) and known.state == "stopped":
                found[path] = replace(known, state="failed", fault=fault)
        return sorted(found.values(), key=lambda one: -one.changed)

    def _new(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise BadInput(f"{name!r} is no name for a run; use letters, digits, dot, dash and underscore")
        place = self.shelf.inside(name)
        uploaded = name in self.jobs  # and failed before it made a directory: its config may be replaced
        if place.exists() or (place.with_name(f"{name}.yaml").exists() and not uploaded):
            raise BadInput(f"{name} exists already; take another name")
        return place

    def _start(self, path: str, *words: str) -> str:
        running = self.jobs.get(path)
        if running and running.process.poll() is None:
            raise BadInput(f"{path} is running")
        said = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the job)
        process = subprocess.Popen(
            [*self.command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        self.jobs[path] = Job(path, process, said)
        return path


def _at_work(known: Shown, job: Job) -> Shown:
    """A process of ours that holds no lock is about to take it, or has let it go and is not gone yet."""
    if known.state == "running":
        return replace(known, stage="stopping", total=0) if job.stopping else known
    stage = "stopping" if job.stopping else "report" if known.state == "finished" else ""
    return replace(known, state="running" if stage else "starting", stage=stage, total=0)


def named_paths(body: Any, folder: Path) -> list[Path]:
    """Every place that settings name, whatever the setting is called: paths, and text that reads as one."""
    if isinstance(body, dict):
        return [path for value in body.values() for path in named_paths(value, folder)]
    if isinstance(body, list | tuple):
        return [path for value in body for path in named_paths(value, folder)]
    if isinstance(body, Path):
        return [folder / body]
    if isinstance(body, str) and (body.startswith(("/", "./", "../", "~")) or os.path.exists(folder / body)):  # noqa: PTH110
        return [folder / Path(body).expanduser()]
    return []


def model_places(config: dict[str, Any]) -> list[Path]:
    """Folders of models that are no path beside the config: the process that is started looks where it stands, too."""
    writer, judge = config.get("generator", {}), config.get("discriminator", {})
    named = [config.get("model"), writer.get("model"), judge.get("encoder")]
    return [Path.cwd() / name for name in named if name and name != "embedded" and Path(name).exists()]
