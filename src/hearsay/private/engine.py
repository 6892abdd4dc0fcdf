"""Who does the private work: this process, or workers elsewhere. One method, so that there is one code path.

    for partial in engine.map(task, items, progress):      # items: numbers of blocks, or of units
        ...

A task is called at a bench (a workshop of teachers, a crowd of units) with its share of the items. It is a function of
these alone: no clock, no random state, no coin. So a share can be computed anywhere, and again after a worker was lost,
and gives the same integers. What it returns is a bounded sum, or nothing (trained teachers stay in private/). Coins,
noise and the ledger belong to the process that asks, never to a task.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Items = NDArray[np.int64]
Progress = Callable[[int, int], None]  # done, of how many: told to a person, so both must be public


class Signed(Protocol):
    """What tasks work at."""

    @property
    def signature(self) -> str:
        """Of the code and arithmetic at hand: benches that differ in it must not work on one sum (workshop.py)."""
        ...


Bench = TypeVar("Bench", bound=Signed)
Bench_in = TypeVar("Bench_in", bound=Signed, contravariant=True)
Bench_out = TypeVar("Bench_out", bound=Signed, covariant=True)
Result = TypeVar("Result")
Result_out = TypeVar("Result_out", covariant=True)


class Task(Protocol[Bench_in, Result_out]):
    def __call__(self, bench: Bench_in, items: Items, progress: Progress, /) -> Result_out: ...


class Engine(Protocol[Bench_out]):
    def map(self, task: Task[Bench_out, Result], items: Items, progress: Progress) -> Iterator[Result]:
        """The task's results for shares of the items that together are all of them, in any order."""
        ...


class Plan(Protocol[Bench_out]):
    """How a worker sets up its bench: public settings and names of folders. It travels; text does not."""

    @property
    def threads(self) -> int:
        """A processor's kernels round by how they cut their work between threads, so all have the same number."""
        ...

    def build(self) -> Bench_out: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Local(Generic[Bench]):
    """This process: one share, all of it."""

    bench: Bench

    def map(self, task: Task[Bench, Result], items: Items, progress: Progress) -> Iterator[Result]:
        yield task(self.bench, items, progress)


@lru_cache(maxsize=4)  # a run has one workshop and at most one crowd on it
def _kept(plan: Plan[Any]) -> Any:
    return plan.build()


def built(plan: Plan[Bench]) -> Bench:
    """The bench of a plan, set up once in a process."""
    bench: Bench = _kept(plan)
    return bench


def silent(done: int, total: int) -> None:
    """For where nobody watches."""
