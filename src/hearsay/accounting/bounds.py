"""What a contribution obeys, and the sensitivity that follows: one table, used by plan, aggregation and the charge.

A release is a sum over *slots* (shards, or single units) of one vector per slot and question. Adding or removing one
unit changes one slot. All norms are in grid steps and checked there in integers (grid.py).

  root         non-negative, L2 norm at most 1 per question (square roots of probabilities)
  probability  non-negative, L1 (hence L2) norm at most 1 per question (probabilities, one-hot votes)
  residual     signed, ONE norm over all questions of the release together: at most C sqrt(questions)

A slot that can hold several units moves from one vector to any other: for non-negative vectors v, w of norm at most 1
the angle is at most a right one, so |v - w| <= sqrt 2; for signed ones |v - w| <= 2C. Where a slot can never hold two
units (`alone`), removing the unit leaves exactly zero, and the change is the vector itself: 1, or C.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hearsay.errors import ConfigError

STEPS = 2**20  # grid steps per unit: rounding moves a probability by at most a millionth
MAX_SCALE = 2**40  # of the noise, in grid steps: what the sampler's proof (docs/noise.md) and int64 sums allow

Kind = Literal["root", "probability", "residual"]


@dataclass(frozen=True)
class Bound:
    kind: Kind
    alone: bool = False
    clip: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.kind == "residual" and not 0 < self.clip <= 2:
            raise ConfigError(f"ask.clip is {float(self.clip)}; need more than 0 and at most 2")
        if self.kind != "residual" and self.clip != 1:
            raise ConfigError("ask.clip belongs to residual answers; the others are bounded by 1 as they are")

    def norm_squared(self, questions: int) -> int:
        """The largest squared L2 norm in grid steps: per question, or over all of them for a residual."""
        if self.kind != "residual":
            return STEPS**2
        exact = self.clip**2 * questions * STEPS**2
        return exact.numerator // exact.denominator

    def sensitivity_squared(self, questions: int) -> Fraction:
        """Squared L2 sensitivity of the whole release, in grid steps."""
        if self.kind == "residual":
            return Fraction(self.norm_squared(questions) * (1 if self.alone else 4))
        return Fraction(self.norm_squared(questions) * questions * (1 if self.alone else 2))

    def sensitivity_l1(self) -> Fraction:
        """L1 sensitivity of ONE question in grid steps; only probabilities have one that ignores the candidates."""
        if self.kind != "probability":
            raise ConfigError("Laplace noise needs probabilities (ask.recipe: seqpate); use Gaussian noise for others")
        return Fraction(STEPS * (1 if self.alone else 2))


UNIT_BALL = Bound("residual", alone=True)  # one unit a slot, norm at most 1 over the whole release: sensitivity 1
