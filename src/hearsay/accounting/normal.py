"""The normal distribution's tails from the standard library alone, accurate to about 1e-14 relative.

scipy.special has them too, but takes longer to import than `plan` takes to answer. Checked against 50 digits in tests.
"""

import math
from statistics import NormalDist

ROOT = math.sqrt(2)


def erfcx(x: float) -> float:
    """exp(x^2) erfc(x), which neither underflows nor overflows for a large x."""
    if x < 4:
        return math.exp(x * x) * math.erfc(x)
    tail = 0.0
    for n in range(20, 0, -1):  # Laplace's continued fraction: at x = 4 its error is below e^-50
        tail = n / 2 / (x + tail)
    return 1 / (math.sqrt(math.pi) * (x + tail))


def below(z: float) -> float:
    """Phi(z)."""
    return 0.5 * math.erfc(-z / ROOT)


def log_below(z: float) -> float:
    """ln Phi(z)."""
    if z > -1:
        return math.log1p(-0.5 * math.erfc(z / ROOT))
    return math.log(0.5 * erfcx(-z / ROOT)) - z * z / 2


def quantile(p: float) -> float:
    """Phi^-1(p), for p strictly between 0 and 1."""
    return NormalDist().inv_cdf(p)
