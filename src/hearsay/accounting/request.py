"""The question `plan` answers, in public numbers only, and what makes it a bad question."""

from dataclasses import dataclass
from typing import Literal

from hearsay.accounting import gaussian
from hearsay.accounting.budget import check_sampler
from hearsay.errors import ConfigError

Recipe = Literal["seqpate", "hellinger", "updates", "mixed"]
RECIPES: tuple[Recipe, ...] = ("seqpate", "hellinger", "updates", "mixed")
MOST = 10**12  # of anything that is counted


@dataclass(frozen=True)
class Request:
    epsilon: float = 3.0
    delta: float = 1e-6
    unit: str = "user"
    recipe: Recipe = "hellinger"
    teachers: int = 2000
    queries: int = 10_000
    units: int | None = None  # declared by the owner
    sentences: int | None = None  # declared by the owner
    one_unit_per_teacher: bool = False
    clip: float | None = None  # hellinger only: joint clip of the residuals
    candidates: int = 50
    noise: Literal["gaussian", "laplace"] = "gaussian"
    rounds: int = 60  # of updates
    sample: float = 1.0  # the chance of a unit to take part in one
    share: float = 0.8  # mixed: of the budget, for updates
    spend: float = 1.0  # of the budget, by this run
    dimensions: int = 50_000  # numbers that updates move: they decide how large the noise is as a whole

    @property
    def share_of_updates(self) -> float:
        return {"updates": 1.0, "mixed": self.share}.get(self.recipe, 0.0)


def check(request: Request) -> None:
    gaussian.check_epsilon(request.epsilon)
    gaussian.check_delta(request.delta)
    check_sampler(request.epsilon, request.delta)
    if request.recipe not in RECIPES:
        raise ConfigError(f"ask.recipe is {request.recipe!r}; need one of {', '.join(RECIPES)}")
    for name, known in (("noise", ("gaussian", "laplace")), ("unit", ("user", "record"))):
        if getattr(request, name) not in known:
            raise ConfigError(f"{name} is {getattr(request, name)!r}; need one of {', '.join(known)}")
    if request.clip is not None and not 0 < request.clip <= 2:
        raise ConfigError(f"ask.clip is {request.clip}; need more than 0 and at most 2")
    if request.recipe == "seqpate" and request.clip is not None:
        raise ConfigError("ask.clip belongs to recipe hellinger; leave it out for seqpate")
    for name, least in (("teachers", 1), ("queries", 1), ("candidates", 2), ("units", 1), ("sentences", 1),
                        ("rounds", 1), ("dimensions", 1)):  # fmt: skip
        value = getattr(request, name)
        if value is not None and not least <= value <= MOST:
            raise ConfigError(f"{name} is {value}; need at least {least} and at most {MOST:,}")
    if request.noise == "laplace" and request.recipe != "seqpate":
        raise ConfigError("Laplace noise needs ask.recipe: seqpate (square roots have no useful L1 bound)")
    for name in ("share", "sample"):
        if not 0 < getattr(request, name) <= 1:
            raise ConfigError(f"updates.{name} is {getattr(request, name)}; need more than 0 and at most 1")
    if request.share_of_updates and request.units is None:
        raise ConfigError("updates come from units: declare how many there are (data.units, or --units)")
    by_teachers = request.share_of_updates < 1
    if by_teachers and request.units is not None and request.teachers > request.units:
        raise ConfigError(
            f"teachers.count is {request.teachers:,} but data.units declares {request.units:,}; "
            "a teacher without a unit knows nothing: need at most one teacher per unit"
        )
