"""NOT PRIVATE, both: the model trained on the text itself, and its output with known secrets replaced.

They show what there is to gain, and what a list of secrets does not protect. Their files carry NOT-PRIVATE in their
names and lie in internal/; nothing of them goes to release/, and nothing is charged, because nothing leaves.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from torch import Tensor

from hearsay.evaluate.references import train_private
from hearsay.lm import LanguageModel
from hearsay.private.shards import Partition
from hearsay.private.training import TrainingShape
from hearsay.run import Run
from hearsay.stages import Progress, Stages

FILE = "private-NOT-PRIVATE.safetensors"
BLANK = "someone"  # what a secret is replaced by


@dataclass(frozen=True)
class Training:
    """Of the private reference: enough for one adapter, whatever the corpus holds."""

    sentences: int = 20_000
    rows: int = 8
    steps: int = 400
    learning_rate: float = 4e-3


def private_adapter(
    run: Run,
    flow: Stages,
    lm: LanguageModel,
    partition: Callable[[], Partition],
    shape: TrainingShape,
    training: Training,
    start: Tensor | None = None,
) -> Tensor:
    """NOT PRIVATE. One adapter [D] on the private sentences, kept in internal/; the same for method and reference."""

    def compute(progress: Progress) -> Tensor:
        return train_private(
            lm, partition(), shape, steps=training.steps, rows=training.rows, learning_rate=training.learning_rate,
            most=training.sentences, progress=progress, start=start,
        )  # fmt: skip

    return flow.tensor("private reference", run.internal / FILE, compute)


def known_secrets(secrets: list[str], share: float) -> list[str]:
    """What the list knows: nobody's list is complete."""
    return secrets[: ceil(share * len(secrets))]


def blacklist(secrets: list[str]) -> Callable[[str], str]:
    """A text with every listed secret, letter for letter, replaced; longer ones first, since they may hold others."""
    if not secrets:
        return lambda text: text
    listed = re.compile("|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True)))
    return lambda text: listed.sub(BLANK, text)
