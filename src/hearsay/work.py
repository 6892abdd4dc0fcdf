"""What the stages of a run share: the model, the shards, the ledger and the door, prepared in one place."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from hearsay import charging, stages
from hearsay import lm as models
from hearsay.accounting import chain
from hearsay.accounting.ledger import Ledger
from hearsay.config import Config
from hearsay.errors import BudgetError
from hearsay.lm import LanguageModel
from hearsay.private import engines
from hearsay.private.engine import Bench, Engine, Plan
from hearsay.private.shards import Partition
from hearsay.private.stack import Stack
from hearsay.private.teaching import make_partition, training_shape
from hearsay.private.workshop import Workshop, WorkshopPlan
from hearsay.public.prefixes import complete, read_prefixes
from hearsay.release.door import Door
from hearsay.run import Run
from hearsay.stages import Stages

Watcher = Callable[[str], stages.Watch]
BLOCKS = {"cpu": 16, "cuda": 64}  # teachers per launch


@dataclass
class Work:
    """What the stages share. `student` is public; `partition` is not."""

    config: Config
    run: Run
    ledger: Ledger
    door: Door
    stages: Stages
    lm: LanguageModel
    stack: Stack
    partition: Partition
    prefixes: list[list[int]]

    def file(self, name: str) -> Path:
        return self.run.release / "stages" / f"{name}.safetensors"

    @cached_property
    def workshop(self) -> Workshop:
        """Where the private work is done, unless workers elsewhere build their own from the plan."""
        return Workshop(self.stack, self.partition)

    @property
    def workshop_plan(self) -> WorkshopPlan:
        return self.workshop.plan(compile=self.config.compute.compile)


def prepare(config: Config, run: Run, watch: Watcher, *, research: bool = False) -> Work:
    flow = Stages(run, watch)
    if config.compute.threads is not None:
        torch.set_num_threads(config.compute.threads)
    device = stages.pick_device(config.compute.device)
    charging.check_origin(config.model, run)
    for text in () if research else config.data.public:  # a research ledger promises nothing
        charging.check_origin(text, run)
    charging.refuse_early(config, run)
    with flow.start("model"):
        lm = models.load(config.model, device=device, dtype=precision(config.compute.precision, device))
        prefixes = read_prefixes(lm, config.data.public, config.data.public_column, config.data.prefix_tokens)
    with flow.start("shards"):
        partition = make_partition(config, lm, run.private / "shards")
    block = config.compute.block or BLOCKS.get(device.type, 16)
    stack = Stack(lm, training_shape(config), block=block, device=device, compile=config.compute.compile)
    schedule = () if run.ledger.exists() else charging.committed(config, len(stack.top.layout.outputs()))
    try:
        ledger = charging.answerable(
            config, run, partition.sketch, research=research, schedule=schedule,
            check=config.baseline is None,  # what is charged whole is looked at there
            all_committed=config.all_committed,
        )  # fmt: skip
    except BudgetError:
        if chain.read_head(run.folder) is None:  # nothing was ever asked: what was read must not lie about
            shutil.rmtree(run.private / "shards")
        raise
    if config.baseline is None and config.share_of_updates:
        charging.update_scale(config, ledger, len(stack.top.layout.outputs()))  # refuses now what it would refuse later
    door = Door(ledger, run.id, run.folder)
    door.sweep()
    return Work(config, run, ledger, door, flow, lm, stack, partition, prefixes)


def pseudo_sentences(work: Work) -> list[list[int]]:
    path = work.run.release / "stages" / "pseudo.json"
    count, seed = work.config.student.pseudo, work.config.compute.seed
    return work.stages.tokens("pseudo text", path, lambda _: completed(work, work.lm, count, seed))


def engine_for(work: Work, bench: Bench, plan: Plan[Bench]) -> Engine[Bench]:
    return engines.for_bench(work.config.compute, bench, plan, gpus=work.stack.device.type == "cuda")


def completed(work: Work, speaker: LanguageModel, count: int, seed: int) -> list[list[int]]:
    data = work.config.data
    return complete(speaker, work.prefixes, count, min_tokens=data.min_tokens, max_tokens=data.max_tokens, seed=seed)


def precision(name: str, device: torch.device) -> torch.dtype:
    """Of the base model and the student: bfloat16 on a GPU, unless told otherwise; always float32 on a processor."""
    return torch.bfloat16 if device.type == "cuda" and name != "float32" else torch.float32
