"""Noise on an integer grid, from the operating system's entropy: a normal rounded to the grid, a discrete Laplace.

Why a rounded normal: round(N(0, s^2)) added to an integer IS the rounding of the Gaussian mechanism's output, so
Gaussian DP stays exact (a discrete Gaussian is not GDP). Why our own sampler: library normals are seeded floats with
known leaks (Mironov, 2012); OpenDP's exact sampler is right but far too slow for tens of millions of coordinates.

How. A half-normal is k + x with k = 0, 1, 2, ... drawn in proportion to exp(-k^2/2), and x uniform in [0, 1) kept with
probability exp(-k x - x^2/2); an exponential is the same with exp(-k) and exp(-x). Both are rounded after scaling.
Every random real is a 64-bit word that can be extended to 256 bits. Each comparison is made in ordinary floats with a
margin wider than the float error; where the margin is not kept (once in 2^38 candidates at small scales, once in 2^18
at 2^30 grid steps, once in 2^8 at the largest), the words are extended and the candidate is decided from scratch in
exact integers. The law of the output is then within 2^-200 of the ideal one in total variation, for scales up to
MAX_SCALE: the proof, with the error of every line below, is docs/noise.md.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from threading import Lock
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from hearsay.accounting.bounds import MAX_SCALE
from hearsay.errors import ConfigError

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Entropy = Callable[[int], bytes]

BITS = 256
MARGIN = 2.0**-40
CHUNK = 1 << 15  # candidates at a time: temporaries stay in cache
SHARE = 1 << 17  # values a thread draws at least
_EXACTLY = Lock()  # mpmath's precision is one for all threads, and the proof needs it to stay


@dataclass(frozen=True)
class _Law:
    """A positive law as k + x: weights of k, and the exponent of keeping x. Each formula once in floats, once exact."""

    weight: Callable[[int], Any]
    exponent: Callable[[Any, Any], Any]


_NORMAL = _Law(weight=lambda k: mpmath.exp(-mpmath.mpf(k * k) / 2), exponent=lambda k, x: x * (k + x / 2))
_EXPONENTIAL = _Law(weight=lambda k: mpmath.exp(-k), exponent=lambda k, x: x)


def rounded_normal(sigma: Fraction, size: int, entropy: Entropy = os.urandom) -> Ints:
    """`size` independent values of round(N(0, sigma^2)); sigma in grid steps."""
    _check_scale(sigma)
    return _draw(_NORMAL, sigma, Fraction(1, 2), size, entropy)


def discrete_laplace(scale: Fraction, size: int, entropy: Entropy = os.urandom) -> Ints:
    """`size` independent values with P(k) proportional to exp(-|k| / scale): the difference of two geometrics."""
    _check_scale(scale)
    both = _draw(_EXPONENTIAL, scale, Fraction(0), 2 * size, entropy, signed=False)
    return both[:size] - both[size:]


def _check_scale(scale: Fraction) -> None:
    if not 0 < scale <= MAX_SCALE:
        raise ConfigError(f"noise of {float(scale):.3g} grid steps; need more than 0 and at most 2^40: change the grid")


def _draw(law: _Law, scale: Fraction, offset: Fraction, size: int, entropy: Entropy, *, signed: bool = True) -> Ints:
    """floor(scale (k + x) + offset), with a random sign: rounding to nearest for offset 1/2. Large draws by several
    threads, each from words of its own.
    """
    _thresholds(law)  # by one thread: made once
    share = max(SHARE, -(-size // _cores()))
    parts = [min(share, size - first) for first in range(0, size, share)]
    if len(parts) < 2:
        return _filled(law, scale, offset, size, entropy, signed)
    with ThreadPoolExecutor(len(parts)) as crew:
        drawn = crew.map(lambda part: _filled(law, scale, offset, part, entropy, signed), parts)
        return np.concatenate(list(drawn))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _filled(law: _Law, scale: Fraction, offset: Fraction, size: int, entropy: Entropy, signed: bool) -> Ints:
    out, filled = np.empty(size, dtype=np.int64), 0
    while filled < size:
        part = _candidates(law, scale, offset, min(CHUNK, 2 * (size - filled) + 64), entropy, signed)
        part = part[: size - filled]
        out[filled : filled + part.size] = part
        filled += part.size
    return out


def _candidates(law: _Law, scale: Fraction, offset: Fraction, n: int, entropy: Entropy, signed: bool) -> Ints:
    words = np.frombuffer(entropy(24 * n), dtype=np.uint64).reshape(3, n)
    u, x_word, v_word = words
    thresholds = _thresholds(law)[0]
    k = np.searchsorted(thresholds, u, side="right")
    doubtful = u == thresholds[np.maximum(k - 1, 0)]

    x, v = x_word * 2.0**-64, (v_word >> np.uint64(1)) * 2.0**-63  # one bit of v is the sign
    keep = np.exp(-law.exponent(k, x))
    accepted = v < keep
    doubtful |= np.abs(v - keep) < MARGIN

    position = float(scale) * (k + x) + float(offset)
    value = np.floor(position)
    distance = position - value
    error = position * 2.0**-50 + (float(scale) + 1) * 2.0**-60  # float rounding; bits of x not yet drawn
    doubtful |= (distance < error) | (1 - distance < error)

    values = value.astype(np.int64)
    for i in np.flatnonzero(doubtful):
        exact = _decide(law, scale, offset, int(u[i]), int(x_word[i]), int(v_word[i]) >> 1, entropy)
        accepted[i], values[i] = exact is not None, exact or 0
    if signed:
        np.negative(values, out=values, where=(v_word & np.uint64(1)).astype(bool))
    kept: Ints = values[accepted]
    return kept


def _decide(law: _Law, scale: Fraction, offset: Fraction, u: int, x: int, v: int, entropy: Entropy) -> int | None:
    """One candidate from scratch with all words extended to BITS: its value, or None if it is rejected."""
    extra = [int.from_bytes(entropy((BITS - 64) // 8)) for _ in range(3)]
    u_long, x_long = (u << (BITS - 64)) | extra[0], (x << (BITS - 64)) | extra[1]
    v_long = (v << (BITS - 63)) | (extra[2] << 1)  # 63 known bits, then 192 fresh ones
    k = sum(u_long >= threshold for threshold in _thresholds(law)[1])
    with _EXACTLY, mpmath.workprec(BITS + 64):
        keep = mpmath.exp(-law.exponent(k, mpmath.mpf(x_long) / 2**BITS))
        if mpmath.mpf(v_long) / 2**BITS >= keep:
            return None
    exact = scale * (k + Fraction(x_long, 2**BITS)) + offset
    return exact.numerator // exact.denominator


@cache
def _thresholds(law: _Law) -> tuple[Words, tuple[int, ...]]:
    """Cumulative probabilities of k in units of 2^-64 (for the fast path) and 2^-BITS (exact)."""
    with mpmath.workprec(BITS + 64):
        weights = [law.weight(k) for k in range(200)]
        total = mpmath.fsum(weights)
        sums = [mpmath.fsum(weights[: k + 1]) / total for k in range(200)]
        exact = [int(mpmath.floor(value * 2**BITS)) for value in sums]
    words = [min(value, 2**BITS - 1) >> (BITS - 64) for value in exact]
    return np.array(words, dtype=np.uint64), tuple(exact)
