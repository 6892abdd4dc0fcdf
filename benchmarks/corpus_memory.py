"""Peak memory of a whole corpus: 2 million rows of 200,000 users and 8000 teachers, stage by stage.

    python benchmarks/corpus_memory.py                    about 20 minutes of one core; keeps benchmarks/results/
    python benchmarks/corpus_memory.py --folder FOLDER    the same, going on with the stages that FOLDER lacks

The rows are made up (as in partition_memory.py), the model is the embedded one with its own tokeniser. Each stage is a
process of its own, so that its peak is its own. What takes long is cut where that cannot change the peak, which is that
of one block of teachers at a time: teachers are trained for one step each, and answer few questions. Two blocks are
packed for 3 epochs, as a run packs one ahead, and trained for some steps (a step frees what it used); two answer all
6000 questions. A round of updates goes to a sample of the units. `--size '{"blocks": 20}'` lets fewer than all 500
blocks take part; that peaks do not grow with their number shows in the peaks after each quarter.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import partition_memory
from revision import commit

LIMIT_GIB = 4
RESULT = Path(__file__).parent / "results" / "corpus_memory.json"
FULL = {
    "rows": 2_000_000,
    "users": 200_000,
    "teachers": 8000,
    "epoch_steps": 176,
    "questions": 6000,
    "sentences": 1000,
    "blocks": 500,
}
BLOCK, SHORT, LONG, SAMPLE = 16, 1, 20, Fraction(1, 100)


class Enough(Exception):
    """Says no more than that."""


class Desk:
    """One stage's process: the product's own workshop on the folder of the earlier stages."""

    def __init__(self, folder: Path, size: dict[str, int]) -> None:
        self.folder, self.size = folder, size

    def workshop(self, steps: int) -> Any:
        import torch

        from hearsay.private.workshop import WorkshopPlan

        torch.set_num_threads(1)
        shape = self._shape(steps)
        shards, settings = self.folder / "shards", self._settings()
        return WorkshopPlan("embedded", torch.float32, "cpu", shape, BLOCK, False, 1, shards, settings)

    def _shape(self, steps: int) -> Any:
        from hearsay.private.training import TrainingShape

        return TrainingShape(rank=4, top_blocks=1, rows_per_step=2, steps=steps)

    def _settings(self) -> Any:
        from hearsay import lm as models
        from hearsay.private.shards import PartitionSettings

        words = len(models.load("embedded", device="cpu").tokenizer)
        return PartitionSettings(self.size["teachers"], "user", 200, 8, 40, words, tokeniser="embedded")

    def partition(self) -> list[float]:
        from hearsay import lm as models
        from hearsay.private.partition import partition
        from hearsay.reading import Columns, read_rows

        lm = models.load("embedded", device="cpu")
        partition(
            read_rows([self.folder / "corpus.jsonl"], Columns("text", "user")), self._settings(), key=b"k" * 32,
            tokenise=lambda texts: models.encode(lm, texts, 40), folder=self.folder / "shards",
        )  # fmt: skip
        return [peak()]

    def teach(self, steps: int, name: str, blocks: int) -> list[float]:
        shop = self.workshop(steps).build()
        return in_quarters(self._teaching(shop, name), shop, blocks)

    def teach_long(self) -> list[float]:
        """Packed for all epochs; stopped when the first block has trained for a while and the second is packed."""
        import numpy as np

        shop = self.workshop(self.size["epoch_steps"]).build()

        def enough(done: int, total: int) -> None:
            if done >= LONG:
                raise Enough

        with suppress(Enough):
            self._teaching(shop, "long")(shop, np.arange(2), enough)
        return [peak()]

    def _teaching(self, shop: Any, name: str) -> Any:
        from hearsay.private.workshop import Teaching

        store = shop.stack.store(self.folder / name, count=self.size["teachers"], generation=0)
        return Teaching(store, shop.stack.top.layout.initial())

    def answer(self, questions: int, sentences: int, blocks: int) -> list[float]:
        from hearsay.accounting.bounds import Bound
        from hearsay.release.asking import BlockAnswers, Sum

        shop = self.workshop(SHORT).build()
        teaching = self._teaching(shop, "teachers")
        asked = Sum(Bound("residual", clip=Fraction(1, 2)))
        task = BlockAnswers(teaching, _questions(questions, sentences), asked)
        return in_quarters(task, shop, blocks)

    def update(self) -> list[float]:
        from hearsay.release.updates import CrowdPlan

        plan = self.workshop(1)
        size, folder = self.size["users"], self.folder / "units"
        crowd = CrowdPlan(plan, self._shape(1), BLOCK, 1, folder, size, 0.5, SAMPLE, "benchmark").build()
        crowd.total(crowd.moves.top.layout.initial(), 0)
        return [peak()]


def in_quarters(task: Any, shop: Any, blocks: int) -> list[float]:
    """The peak so far after each quarter of the blocks."""
    import numpy as np

    from hearsay.private.engine import silent

    found = []
    for share in np.array_split(np.arange(blocks), min(4, blocks)):
        task(shop, share, silent)
        found.append(peak())
    return found


def peak() -> float:
    """GiB of this process."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def _questions(count: int, sentences: int) -> Any:
    """Random public ones, of the default shape: 64 candidates and 32 tail tokens."""
    import torch

    from hearsay.public.questions import Questions

    def tokens(*shape: int) -> Any:
        return torch.randint(1, 1000, shape)

    asked = torch.stack([torch.arange(count) % sentences, torch.randint(4, 40, (count,))], 1)
    return Questions(
        tokens(sentences, 41), torch.full((sentences,), 41), asked, tokens(count), tokens(count, 64),
        torch.ones(count, 64, dtype=torch.bool), tokens(count, 32), torch.zeros(count, 32),
        torch.zeros(count, dtype=torch.bool),
    )  # fmt: skip


def stages(desk: Desk) -> dict[str, Callable[[], list[float]]]:
    size = desk.size
    return {
        "partition": desk.partition,
        "train, 1 step": lambda: desk.teach(SHORT, "teachers", size["blocks"]),
        "train, packed for 3 epochs": desk.teach_long,
        "answer 60 questions": lambda: desk.answer(60, 10, size["blocks"]),
        "2 blocks answer all questions": lambda: desk.answer(size["questions"], size["sentences"], 2),
        "pack units, update by 1 in 100": desk.update,
    }


def one_stage(desk: Desk, stage: str) -> None:
    start = time.process_time()
    peaks = stages(desk)[stage]()
    found = {"peak_rss_gib": peak(), "after_each_quarter": peaks, "core_seconds": round(time.process_time() - start)}
    _kept(desk.folder, stage).write_text(json.dumps(found))


def _kept(folder: Path, stage: str) -> Path:
    return folder / f"{stage.replace(' ', '-')}.json"


def measure(size: dict[str, int], folder: Path) -> dict[str, Any]:
    corpus, found = folder / "corpus.jsonl", {}
    if not corpus.exists():
        partition_memory.write_corpus(corpus, size["rows"], size["users"])
    for stage in stages(Desk(folder, size)):
        if not _kept(folder, stage).exists():
            command = [sys.executable, __file__, "--stage", stage, "--folder", str(folder), "--size", json.dumps(size)]
            subprocess.run(command, check=True)
        found[stage] = json.loads(_kept(folder, stage).read_text())
    return {"size": size, "block": BLOCK, "stages": found}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--stage")
    options.add_argument("--folder", type=Path)
    options.add_argument("--size", type=json.loads, default={}, help="JSON: other sizes than the full ones")
    options.add_argument("--out", type=Path, default=RESULT)
    chosen = options.parse_args()
    size = FULL | chosen.size
    if chosen.stage:
        one_stage(Desk(chosen.folder, size), chosen.stage)
        return 0
    with tempfile.TemporaryDirectory() as own:
        result = measure(size, chosen.folder or Path(own)) | {"limit_gib": LIMIT_GIB}
    result["ok"] = all(stage["peak_rss_gib"] < LIMIT_GIB for stage in result["stages"].values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    sizes = f" --size '{json.dumps(chosen.size)}'" if chosen.size else ""
    result |= {"command": f"python benchmarks/corpus_memory.py{sizes}", "python": platform.python_version()}
    result |= {"cpu_count": os.cpu_count(), "machine_gib": round(memory), "commit": commit()}
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
