"""A panel: teachers trained once and asked once, for many cells of a study. Research code, not the product's path.

Ablations, filters, budgets and recipes ask the SAME teachers about the SAME sentences. So a panel (one for each corpus,
seed, number of teachers and unit) is seated once, asked about one pool of questions with many candidates, and keeps the
un-noised integer sums in its private/ folder. A cell folds them to the candidates that it wants, draws its noise
through a door and a research ledger of its own, and trains a student: seconds instead of a minute.

Why folding is exact. On the pool a teacher's vector is non-negative integers whose sum is at most 2^20. Adding the
coordinates that a filter drops to the rest bucket gives a vector of the same kind. So the folded sum is the sum of
vectors that obey the bound: what teachers asked about fewer candidates would have contributed.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hearsay import pipeline, run
from hearsay.accounting import identity
from hearsay.accounting.bounds import Bound
from hearsay.adapter_files import merged
from hearsay.config import Config
from hearsay.disk import drafting
from hearsay.errors import ConfigError
from hearsay.lm import end_id, start_id
from hearsay.public.prefixes import complete
from hearsay.public.questions import Choice, Questions, pose
from hearsay.release import aggregate
from hearsay.release.grid import BoundedSum
from hearsay.release.histogram import teacher_votes
from hearsay.stacked import Adapted
from hearsay.stages import Watch
from hearsay.work import Work, prepare

AT_ONCE = 64  # teachers whose vectors are held as doubles
POOL = {"rank": 3000, "all": 6000, "sentences": 1000, "candidates": 200, "tail": 64}


@dataclass(frozen=True)
class Wanted:
    """What a cell asks of a panel. `clip` is for residuals, which are bounded over the whole pool together."""

    selection: str
    shape: aggregate.Shape
    candidates: int
    top_p: float | None
    clip: float | None = None

    @property
    def bound(self) -> Bound:
        if self.clip is not None:
            return Bound("residual", clip=Fraction(self.clip).limit_denominator(10**6))
        return Bound("root" if self.shape == "root" else "probability")

    @property
    def folds(self) -> bool:
        """Probabilities are kept for the whole pool, and serve every filter; other shapes are not additive."""
        return self.shape == "probability"

    @property
    def file(self) -> str:
        if self.folds:
            return f"{self.selection}-probability.npy"
        return f"{self.selection}-{self.shape}-{self.candidates}-{self.top_p}-{self.clip}.npy"


@dataclass
class Panel:
    """`warm` is public; what lies in private/ is not, the sums least of all."""

    work: Work
    warm: Tensor
    pool: dict[str, int]

    @property
    def folder(self) -> Path:
        return self.work.run.folder

    def questions(self, selection: str) -> Questions:
        """One pool: positions in sentences that the warmed-up student wrote, with many candidates and no top-p."""
        path = self.work.file(f"pool-{selection}")
        if not path.exists():
            self._pose(selection).save(path)
        return Questions.load(path)

    def _pose(self, selection: str) -> Questions:
        work, data = self.work, self.work.config.data
        seed = work.config.compute.seed + 1000
        sentences = complete(
            merged(work.lm, work.stack.top, self.warm), work.prefixes, self.pool["sentences"],
            min_tokens=data.min_tokens, max_tokens=data.max_tokens, seed=seed,
        )  # fmt: skip
        choice = Choice(
            count=self.pool[selection],
            candidates=self.pool["candidates"],
            top_p=None,
            tail=self.pool["tail"],
            prefix_tokens=data.prefix_tokens,
            rank_threshold=work.config.ask.rank_threshold if selection == "rank" else None,
            holdout=work.config.ask.holdout,
            seed=seed,
        )
        return pose(self.student(), sentences, start_id(work.lm), end_id(work.lm), choice)

    def student(self) -> Adapted:
        return Adapted(self.work.lm.model, self.work.stack.shape.adapter, self.warm)

    def kept(self, wanted: Wanted) -> Tensor:
        """[Q, K] which candidates of the pool pass the filter: the student's likeliest k, of these a mass of top_p."""
        pool = self.questions(wanted.selection)
        keep = (torch.arange(pool.candidates.shape[1]) < wanted.candidates).expand(pool.candidates.shape).clone()
        if wanted.top_p is not None:
            odds = likelihoods(self.student(), pool)
            keep &= odds.cumsum(1) - odds < wanted.top_p
        return keep

    def ask(self, wanted: Iterable[Wanted]) -> None:
        """One pass over the teachers for all that is not there yet."""
        place = self.work.run.private / "sums"
        place.mkdir(mode=0o700, exist_ok=True)
        missing = {one.file: one for one in wanted if not (place / one.file).exists()}
        for selection in sorted({one.selection for one in missing.values()}):
            mine = [one for one in missing.values() if one.selection == selection]
            for one, total in zip(mine, self._totals(mine, selection), strict=True):
                _store(place / one.file, total)

    def _totals(self, wanted: list[Wanted], selection: str) -> list[BoundedSum]:
        pool, stack = self.questions(selection), self.work.stack
        masks = [None if one.folds else self.kept(one).to(stack.device) for one in wanted]
        teachers = pipeline.train_teachers(self.work, self.warm, 0)
        sums = [BoundedSum(one.bound, len(pool), _width(one, pool), stack.device) for one in wanted]
        before = self._before(pool) if any(one.clip is not None for one in wanted) else None
        for _, logits in stack.answers(teachers, pool.contexts, aggregate.asked_tokens(pool)):
            for first in range(0, len(logits), AT_ONCE):
                part = slice(first, first + AT_ONCE)
                odds = aggregate.distributions(logits[part], pool)
                for one, mask, total in zip(wanted, masks, sums, strict=True):
                    vectors = _vectors(odds, one, mask)
                    if one.clip is not None and before is not None:
                        vectors = vectors - _vectors(before[part], one, mask)[: len(vectors)]
                    total.add(vectors)
        return sums

    def _before(self, pool: Questions) -> Tensor:
        """[G, Q, K + 1]: what the slots of a block say before they have seen their shards. Public."""
        logits = self.work.stack.public_answers(pool.contexts, aggregate.asked_tokens(pool), start=self.warm)
        return aggregate.distributions(logits, pool)

    def before(self, wanted: Wanted) -> Tensor:
        """[Q, candidates + 1]: the roots that residuals are measured from, on the whole pool."""
        found = self._before(self.questions(wanted.selection))[:1]
        return _vectors(found, wanted, self.kept(wanted).to(found.device))[0].cpu().double()

    def answerable(self, wanted: Wanted, count: int) -> tuple[Questions, BoundedSum]:
        """The pool's questions as a cell poses them, and the un-noised sum. Private: for a door, and nothing else."""
        self.ask([wanted])
        pool, keep = self.questions(wanted.selection), self.kept(wanted)
        values = torch.from_numpy(np.load(self.work.run.private / "sums" / wanted.file))
        if wanted.folds:
            values = fold(values, keep, wanted.candidates)
        chosen = self._subset(len(pool), count)
        if wanted.clip is not None and len(chosen) < len(pool):
            raise ConfigError(f"a clip holds over the pool's {len(pool)} questions together; ask all, not {count}")
        total = BoundedSum(wanted.bound, len(chosen), values.shape[1])
        total.total = values[chosen]
        narrow = {"candidates": pool.candidates[:, : wanted.candidates], "valid": keep[:, : wanted.candidates]}
        posed = {field.name: getattr(pool, field.name) for field in fields(pool)} | narrow
        whole = {"rows", "lengths"}
        return Questions(**{k: v if k in whole else v[chosen] for k, v in posed.items()}), total

    def _subset(self, there: int, count: int) -> Tensor:
        stream = torch.Generator().manual_seed(self.work.config.compute.seed)
        return torch.randperm(there, generator=stream)[:count].sort().values


def _width(wanted: Wanted, pool: Questions) -> int:
    return pool.width if wanted.folds else wanted.candidates + 1


def _vectors(odds: Tensor, wanted: Wanted, mask: Tensor | None) -> Tensor:
    if mask is None:
        return odds
    folded = fold(odds, mask, wanted.candidates)
    if wanted.shape == "vote":
        return teacher_votes(folded)
    return folded.clamp_min(0).sqrt() if wanted.shape == "root" else folded


def fold(values: Tensor, keep: Tensor, candidates: int) -> Tensor:
    """[..., Q, K + 1] to [..., Q, candidates + 1]: what the filter drops goes to the rest bucket."""
    mine = values[..., :-1] * keep
    rest = values.sum(-1, keepdim=True) - mine.sum(-1, keepdim=True)
    return torch.cat([mine[..., :candidates], rest], dim=-1)


@torch.no_grad()
def likelihoods(student: Adapted, pool: Questions) -> Tensor:
    """[Q, K] the student's probabilities of the pool's candidates."""
    device, found = student.flat.device, []
    for part in torch.arange(len(pool)).split(512):
        used, inverse = pool.asked[part, 0].unique(return_inverse=True)
        hidden = student.hidden(pool.rows[used].to(device))
        at = hidden[inverse.to(device), pool.asked[part, 1].to(device)]
        odds = torch.softmax(student.logits(at).float(), -1)
        found.append(odds.gather(1, pool.candidates[part].to(device)).cpu())
    return torch.cat(found)


def _store(path: Path, total: BoundedSum) -> None:
    with drafting(path, mode=0o600) as draft, draft.open("wb") as file:
        np.save(file, total.total.cpu().numpy())


def seat(settings: dict[str, Any], pool: dict[str, int], root: Path, seed: int) -> Panel:
    """Prepares a panel or takes it up. Its home has a secret of its own, so each seed partitions by another key."""
    settings = {**settings, "compute": {**settings.get("compute", {}), "seed": seed}}
    text = json.dumps({**settings, "pool": pool}, sort_keys=True, default=str)
    folder = root / hashlib.sha256(text.encode()).hexdigest()[:12]
    config = Config.model_validate(settings)
    here = run.begin(folder, text, folder / "home" / "ledger.sqlite", folder / "home")
    with identity.at(here.home):
        work = prepare(config, here, Watch, research=True)
    return Panel(work, pipeline.warmed_up(work), {**POOL, **pool})


def at_desk(panel: Panel, config: Config, here: run.Run, **other: Any) -> Work:
    """The panel's model, shards and prefixes for another run directory, with a door and ledger of its own."""
    return replace(panel.work, config=config, run=here, **other)
