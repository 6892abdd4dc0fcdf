"""A few public prefixes, completed by the public model and by the student: what the report shows side by side.

Both models and the prefixes are public or released, so this costs nothing and may be shared.
"""

import json

import torch

from hearsay import lm as models
from hearsay.disk import write_text
from hearsay.lm import LanguageModel
from hearsay.run import Run, forget_time

FILE = "completions.json"
SHOWN = 6


def write(run: Run, public: LanguageModel, prefixes: list[list[int]], seed: int) -> None:
    student = models.load(str(run.release / "student"), device=public.device)
    shown = prefixes[:: max(1, len(prefixes) // SHOWN)][:SHOWN]
    sides = zip(models.decode(public, shown), _said(public, shown, seed), _said(student, shown, seed), strict=True)
    rows = [{"prefix": prefix, "public": one, "student": other} for prefix, one, other in sides]
    write_text(run.release / FILE, json.dumps({"rows": rows}, indent=1))
    forget_time(run.release / FILE)


def _said(lm: LanguageModel, prefixes: list[list[int]], seed: int) -> list[str]:
    stream = torch.Generator().manual_seed(seed)
    made = models.generate(lm, prefixes, max_tokens=24, temperature=0.7, top_p=0.9, generator=stream)
    return models.decode(lm, made)
