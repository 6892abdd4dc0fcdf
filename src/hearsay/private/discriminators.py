"""The paper's teachers: M logistic models, private against generated, each on one shard, trained as one batch.

Shapes and steps follow from declared numbers; each teacher sees its own shard and public candidates and nothing of
another's. An empty shard's teacher is the model it started from, which holds private and generated equally likely.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hearsay.private.labelled import Labelled

STEPS = 200
RATE = 2.0
DECAY = 1e-3
ROOM = 3  # times the declared average: what a shard may hold; its further notes are left out


@dataclass(frozen=True)
class Opinions:
    """Private: what the teachers think of some candidates. It goes into a bounded sum and nowhere else."""

    units: Labelled
    teachers: int
    declared: int  # units, for the public shape
    generated: npt.NDArray[np.float32]  # [n, width] vectors of candidates: the public side
    asked: npt.NDArray[np.float32]  # [queries, width] vectors of the candidates asked about

    def public(self) -> tuple[object, ...]:
        """Everything but the private side, for the question's name."""
        return self.teachers, self.declared, self.generated, self.asked

    def odds(self) -> Tensor:
        """[teachers, queries, 2]: private first."""
        weights = self._trained()
        asked = torch.from_numpy(self.asked)
        logits = _with_one(asked.expand(self.teachers, *asked.shape)) @ weights[:, :, None]
        private = torch.sigmoid(logits.double())
        return torch.cat([private, 1 - private], dim=2)

    def _trained(self) -> Tensor:
        places, real = self._shards()
        negatives = torch.from_numpy(self.generated).expand(self.teachers, *self.generated.shape)
        inputs = _with_one(torch.cat([places, negatives], dim=1))
        wanted = torch.cat([torch.ones(places.shape[:2]), torch.zeros(negatives.shape[:2])], dim=1)
        # Both sides weigh the same in each teacher, and a teacher without notes learns nothing at all.
        some = (real.sum(1, keepdim=True) > 0).float()
        mine = real / real.sum(1, keepdim=True).clamp_min(1)
        theirs = some.expand(-1, negatives.shape[1]) / negatives.shape[1]
        mass = torch.cat([mine, theirs], dim=1)
        weights = torch.zeros(self.teachers, inputs.shape[2])
        for _ in range(STEPS):
            off = (torch.sigmoid((inputs @ weights[:, :, None])[:, :, 0]) - wanted) * mass
            weights = weights - RATE * ((off[:, None] @ inputs)[:, 0] + DECAY * weights)
        return weights

    def _shards(self) -> tuple[Tensor, Tensor]:
        """[teachers, room, width] vectors and [teachers, room] whether there is one."""
        room = ROOM * -(-self.declared // self.teachers) + 8
        places = torch.zeros(self.teachers, room, self.generated.shape[1])
        real = torch.zeros(self.teachers, room)
        for m in range(self.teachers):
            notes = self.units.shard(m, self.teachers)[:room]
            if notes:
                places[m, : len(notes)] = torch.from_numpy(np.stack([note.vector for note in notes]))
                real[m, : len(notes)] = 1.0
        return places, real


def _with_one(vectors: Tensor) -> Tensor:
    return torch.cat([vectors, torch.ones(*vectors.shape[:-1], 1)], dim=-1)
