"""Completes a prefix with the public model and with the student, side by side. Both are public or released.

The two models of one run are kept in memory; another run's take their place.
"""

import threading
import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hearsay import config as configs
from hearsay.errors import BadInput
from hearsay.run import Run


class Prompt(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    prefix: str = Field(min_length=1, max_length=2000)
    tokens: int = Field(30, ge=1, le=200)
    temperature: float = Field(0.7, ge=0, le=5)
    seed: int = Field(0, ge=0, le=2**31)


class Playground:
    def __init__(self) -> None:
        self._alone = threading.Lock()  # one pair of models, one completion at a time
        self._loaded: tuple[str, Any, Any] | None = None

    def complete(self, run: Run, prompt: Prompt) -> dict[str, Any]:
        with self._alone:
            public, student = self._models(run)
            began = time.monotonic()
            return {
                "public": _completed(public, prompt),
                "student": _completed(student, prompt),
                "seconds": round(time.monotonic() - began, 2),
            }

    def _models(self, run: Run) -> tuple[Any, Any]:
        from hearsay import lm  # here, since it brings torch: the list of runs needs none

        if not (run.release / "student").is_dir():
            raise BadInput("this run has no finished student yet")
        if self._loaded is None or self._loaded[0] != run.id:
            source = configs.load(run.folder / "config.yaml").model
            student = lm.load(str(run.release / "student"), device="cpu")
            self._loaded = (run.id, lm.load(source, device="cpu"), student)
        return self._loaded[1], self._loaded[2]


def _completed(model: Any, prompt: Prompt) -> str:
    import torch

    from hearsay import lm

    stream = torch.Generator().manual_seed(prompt.seed)
    made = lm.generate(model, lm.encode(model, [prompt.prefix], 1000), max_tokens=prompt.tokens,
                       temperature=prompt.temperature, top_p=0.95, generator=stream)  # fmt: skip
    return lm.decode(model, made)[0]
