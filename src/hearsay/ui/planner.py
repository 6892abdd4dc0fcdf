"""The planner: settings in, what they buy out, and the line that shows which number of teachers would do."""

import dataclasses
import math
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field

from hearsay.accounting import advice, gaussian, odds, plan
from hearsay.errors import HearsayError
from hearsay.report import figures, look
from hearsay.sections import Ask

POINTS = 33  # of the line


class Choice(BaseModel):
    """What the sliders say. The numbers of units and sentences are declared, never counted."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    epsilon: float = Field(3.0, gt=0, le=100)
    delta: float = Field(1e-6, gt=0, lt=1)
    recipe: str = "hellinger"
    teachers: int = Field(500, ge=1, le=10**7)
    rounds: int = Field(1, ge=1, le=1000)
    questions: int = Field(6000, ge=1, le=10**8)
    units: int = Field(5000, ge=1, le=10**9)
    sentences: int = Field(60_000, ge=1, le=10**10)

    def request(self) -> plan.Request:
        rounds = 1 if self.recipe == "seqpate" else self.rounds
        of_updates = {"rounds": self.rounds} if self.recipe == "updates" else {}
        given = {"epsilon": self.epsilon, "delta": self.delta, "recipe": self.recipe, "teachers": self.teachers,
                 "queries": self.questions * rounds, "units": self.units, "sentences": self.sentences,
                 "candidates": Ask.model_fields["candidates"].default, **of_updates}  # fmt: skip
        return plan.Request(**given)


def command(request: plan.Request) -> str:
    """What to type for this very plan: every setting that is not as `hearsay plan` has it."""
    usual = dataclasses.asdict(plan.Request())
    words = [f"--{name} {value}" for name, value in dataclasses.asdict(request).items() if value != usual[name]]
    return " ".join(["hearsay plan", *words])


def recipes() -> list[dict[str, str]]:
    """As the config knows them: a new recipe appears by itself."""
    return [{"name": name, "default": name == Ask.model_fields["recipe"].default}
            for name in get_args(Ask.model_fields["recipe"].annotation)]  # fmt: skip


def answer(choice: Choice) -> dict[str, Any]:
    """The plan, or why there is none: both are an answer to somebody who moves a slider."""
    request = choice.request()
    typed = {"command": command(request)}
    try:
        made = plan.make(request)
    except HearsayError as error:
        return {"feasible": False, "why": str(error), "warnings": [], **typed}
    # How many teachers there are says nothing about updates, which come from every unit.
    guess = {"odds": odds.percent(gaussian.guess_rate(made.mu)), "picture": choice.recipe != "updates"}
    return made.to_json() | typed | guess


def picture(choice: Choice) -> str:
    """Effective tokens against teachers at these settings, as an SVG of its own; empty where no plan exists."""
    request = choice.request()
    try:
        chosen = plan.make(request).effective_tokens
        line = [(n, plan.make(dataclasses.replace(request, teachers=n, units=None)).effective_tokens)
                for n in _counts(choice.teachers)]  # fmt: skip
    except HearsayError:
        return ""
    if not all(math.isfinite(tokens) and tokens > 0 for _, tokens in line):
        return ""
    return look.standalone(figures.teachers((choice.teachers, chosen), line, advice.ENOUGH_TOKENS))


def _counts(teachers: int) -> list[int]:
    low, high = min(50, teachers), max(10_000, teachers)
    step = (math.log(high) - math.log(low)) / (POINTS - 1)
    return [round(math.exp(math.log(low) + n * step)) for n in range(POINTS)]
