"""Which engine a run's settings name. Ray is started when the first work comes, and stopped with the run."""

from collections.abc import Iterator
from contextlib import contextmanager

from hearsay.private import ray_engine
from hearsay.private.engine import Bench, Engine, Local, Plan
from hearsay.sections import Compute

_joined: list[ray_engine.Cluster] = []  # Ray knows one cluster a process, hence so do we


@contextmanager
def ready(compute: Compute) -> Iterator[None]:
    """For the length of a run. A missing Ray is told before anything private is read."""
    if compute.engine == "ray":
        ray_engine.import_ray(compute.address)
    try:
        yield
    finally:
        while _joined:
            ray_engine.leave(_joined.pop())


def for_bench(compute: Compute, bench: Bench, plan: Plan[Bench], *, gpus: bool) -> Engine[Bench]:
    """Local: work at this bench. Ray: workers build benches of their own from the plan, which must have its signature.

    With `gpus` every worker gets one to itself.
    """
    if compute.engine == "local":
        return Local(bench)
    if not _joined:
        _joined.append(ray_engine.join(compute.address, compute.workers, gpus=gpus))
    return ray_engine.OnRay(_joined[0], plan, bench.signature)
