"""The same tasks on Ray workers: several processes, GPUs or machines. Nothing here knows what a task computes.

    cluster = join(None, workers=4, gpus=False)        # starts a local Ray, or connects to a cluster
    engine = OnRay(cluster, plan, expected=bench.signature)

What travels to a worker is a plan, a task (public settings, the student, questions) and numbers of blocks or units;
what travels back is a task's result, or the type of an exception, never its text. A share whose
worker or machine is lost is computed again by another worker, from the same arguments.

Ray itself is kept quiet: no usage statistics, no dashboard, no log lines in our output, no objects spilled to disk, a
token that only this process and its workers know, and a folder for sockets and logs that only the owner may enter and
that is removed at the end. (A cluster that is named by an address has settings of its own: docs/scaling.md.)
"""

import atexit
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic

import numpy as np
import torch

from hearsay import errors
from hearsay.errors import ConfigError, HearsayError
from hearsay.private.engine import Bench, Items, Plan, Progress, Result, Task, built, silent

RETRIES = 5  # of a share whose worker is lost; an exception is told at once
SHARES = 4  # per worker: what one lost worker costs, and how evenly they finish
STORE = 2**30  # bytes of shared memory for what travels
SHARED = Path("/dev/shm")


@dataclass(frozen=True)
class Cluster:
    ray: Any
    workers: int
    gpus: bool
    folder: Path | None = None  # sockets and logs of a Ray that we started
    guest: bool = False  # this process was connected before, by somebody else, and stays so


def join(address: str | None, workers: int | None, *, gpus: bool) -> Cluster:
    """A cluster to work on: the one at `address` ("auto": this machine's), or for none a local Ray of our own.

    `workers` at once; for none one a GPU, or as many as the cores have room for with this process's threads each.
    A Ray that this process is connected to already is used as it is.
    """
    ray, folder = import_ray(address), None
    guest = ray.is_initialized()
    if not guest:
        folder = _own_folder() if address is None else None
        _init(ray, _own(folder, workers, gpus) if folder else {"address": address})
    cluster = Cluster(ray, workers or 0, gpus, folder, guest)
    atexit.register(leave, cluster)
    most = int(ray.cluster_resources().get("GPU" if gpus else "CPU", 0))
    if most < 1:
        leave(cluster)
        raise ConfigError(f"got a Ray cluster without a {'GPU' if gpus else 'core'}; start one that has some")
    return replace(cluster, workers=workers or (most if gpus else max(1, most // torch.get_num_threads())))


def leave(cluster: Cluster) -> None:
    """Stops a Ray that is ours and removes its folder, or lets go of a cluster. May be done twice."""
    if not cluster.guest:
        cluster.ray.shutdown()
    if cluster.folder is not None:
        shutil.rmtree(cluster.folder, ignore_errors=True)


def import_ray(address: str | None) -> Any:
    """Ray reads these when it is imported: no telemetry; and for a Ray of our own a token that no file holds."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address is None and "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "got compute.engine ray, but Ray is not installed; type: pip install hearsay[ray], or set "
            "compute.engine: local"
        ) from None
    ray._private.worker._worker_logs_enabled = False  # the only switch for what Ray prints on stdout of lost workers
    return ray


def _own_folder() -> Path:
    """For sockets and logs, 0700: Ray itself opens what is inside to everyone."""
    if SHARED.exists() and shutil.disk_usage(SHARED).free < STORE:
        raise ConfigError(
            f"got less than {STORE // 2**30} GiB free in {SHARED}, need it for Ray: else sums would lie on a disk; "
            "give the container more (docker run --shm-size=2g), or set compute.engine: local"
        )
    return Path(tempfile.mkdtemp(prefix="hearsay-ray-"))


def _own(folder: Path, workers: int | None, gpus: bool) -> dict[str, Any]:
    cards = torch.cuda.device_count() if gpus else 0
    return {
        "address": "local",
        "num_cpus": workers or (cards if gpus else os.cpu_count() or 1),
        "num_gpus": cards,
        "include_dashboard": False,
        "object_store_memory": STORE,
        "_temp_dir": str(folder / "r"),
        "_node_ip_address": "127.0.0.1",
        "_system_config": {
            "automatic_object_spilling_enabled": False,
            "worker_niceness": 0,  # they do the run's work, so they have its priority
            "task_oom_retries": RETRIES,  # else a block that does not fit would be tried for ever
        },
    }


def _init(ray: Any, options: dict[str, Any]) -> None:
    try:
        with _our_code():
            ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except Exception as error:  # Ray raises many kinds; none of them has seen anything of ours
        raise ConfigError(
            f"got {type(error).__name__} from Ray at compute.address {options['address']}; start a cluster with "
            "`ray start --head`, or set compute.address: null for a Ray on this machine"
        ) from error


@contextmanager
def _our_code() -> Iterator[None]:
    """A local Ray's workers import what this process imports."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@dataclass(frozen=True)
class Outcome:
    """What a worker sends back."""

    value: Any = None
    failed: str = ""  # the type of the exception
    stranger: bool = False  # its signature is not ours, so it did nothing


@dataclass(frozen=True)
class OnRay(Generic[Bench]):
    cluster: Cluster
    plan: Plan[Bench]
    expected: str  # the signature of the run's own bench

    def map(self, task: Task[Bench, Result], items: Items, progress: Progress) -> Iterator[Result]:
        """After a failure, shares that are under way end with our connection to Ray; those of a guest are waited for.
        None is cancelled: where that meets a share just handed to a worker, Ray ends this whole process (a race that
        its own tracker knows, ray-project/ray 54798), and the exception would be told to nobody.
        """
        ray, running, done = self.cluster.ray, dict[Any, int](), 0
        told = ray.put((self.plan, self.expected, task))
        shares = np.array_split(items, min(SHARES * self.cluster.workers, max(1, len(items))))
        try:
            while shares or running:
                while shares and len(running) < self.cluster.workers:
                    share = shares.pop()
                    running[self._remote().remote(told, share)] = len(share)
                (ready, *_), _ = ray.wait(list(running), num_returns=1)
                yield self._opened(ready)
                done += running.pop(ready)
                progress(done, len(items))
        finally:
            if running and self.cluster.guest:  # which outlives the run: nobody may read shards that it has let go of
                ray.wait(list(running), num_returns=len(running))

    def _remote(self) -> Any:
        gpus = 1 if self.cluster.gpus else 0
        options = {"num_cpus": 1, "num_gpus": gpus, "max_retries": RETRIES, "max_calls": 0}
        return self.cluster.ray.remote(scheduling_strategy="SPREAD", **options)(_work)

    def _opened(self, ready: Any) -> Any:
        try:
            outcome: Outcome = self.cluster.ray.get(ready)
        except self.cluster.ray.exceptions.RayError as error:
            raise HearsayError(
                f"got {type(error).__name__} from Ray, need workers that stay alive (a share is tried {RETRIES + 1} "
                "times) and have this hearsay installed; the same command goes on from here"
            ) from None
        if outcome.failed:
            raise _kind(outcome.failed)(
                f"got {outcome.failed} in a Ray worker; its text may quote what is private and stays there. The same "
                "command with compute.engine: local goes on from here and tells it on this machine"
            )
        if outcome.stranger:
            raise ConfigError(
                "got a Ray worker that computes other numbers than this process, need the same hearsay, torch, model "
                "files and kind of device on every machine (docs/scaling.md)"
            )
        return outcome.value


def _kind(name: str) -> type[HearsayError]:
    """Our own exceptions keep their kind, and with it the exit code."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, HearsayError) else HearsayError


def _work(told: tuple[Plan[Bench], str, Task[Bench, Any]], share: Items) -> Outcome:
    """In a worker. Whatever is raised stays here: Ray would write it to its logs and send it with its text."""
    try:
        plan, expected, task = told
        torch.set_num_threads(plan.threads)
        bench = built(plan)
        if bench.signature != expected:
            return Outcome(stranger=True)
        return Outcome(task(bench, share, silent))
    except BaseException as error:  # an exit with a text, too, would be written to a dozen logs
        return Outcome(failed=type(error).__name__)
