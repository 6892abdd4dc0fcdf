"""The noise's law, tested against exact probabilities at a stated false-alarm rate, and its exact path."""

import math
import os
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from hearsay.errors import ConfigError
from hearsay.release import noise
from hearsay.release.noise import Ints, discrete_laplace, rounded_normal

FALSE_ALARM = 1e-6  # each test below rejects a correct sampler this often


def _bins(values: Ints, centre_mass: list[float], edges: np.ndarray) -> float:
    """Chi-square p-value of counts in the cells between `edges` against exact masses."""
    counts = np.histogram(values, bins=edges)[0]
    expected = np.array(centre_mass) * values.size
    assert expected.min() > 5
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(expected) - 1))


def _normal_mass(sigma: float, low: float, high: float) -> float:
    with mpmath.workdps(40):
        return float(mpmath.ncdf(mpmath.mpf(high) / sigma) - mpmath.ncdf(mpmath.mpf(low) / sigma))


def _normal_edges(sigma: float) -> np.ndarray:
    inner = np.unique(np.floor(np.linspace(-4 * sigma, 4 * sigma, 80))) - 0.5
    return np.array([-np.inf, *inner, np.inf])


@pytest.mark.parametrize("sigma", [1.0, 2.7, 50.0, 1e4, 1e9, 2.0**40])
def test_rounded_normal_fits_its_exact_probabilities(sigma: float) -> None:
    edges = _normal_edges(sigma)
    mass = [_normal_mass(sigma, low, high) for low, high in pairwise(edges)]
    assert _bins(rounded_normal(Fraction(sigma), 400_000), mass, edges) > FALSE_ALARM


@pytest.mark.parametrize("wrong", [0.95, 1.02])
def test_the_fit_can_fail(wrong: float) -> None:
    edges = _normal_edges(50.0)
    mass = [_normal_mass(50.0, low, high) for low, high in pairwise(edges)]
    assert _bins(rounded_normal(Fraction(50 * wrong), 400_000), mass, edges) < FALSE_ALARM


@pytest.mark.parametrize("scale", [0.7, 3.0, 40.0])
def test_discrete_laplace_fits_its_exact_probabilities(scale: float) -> None:
    ratio = math.exp(-1 / scale)
    reach = max(2, int(5 * scale))
    values = discrete_laplace(Fraction(scale), 400_000)
    mass = [(1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-reach, reach + 1)]
    tail = (1 - sum(mass)) / 2
    edges = np.array([-np.inf, *(np.arange(-reach, reach + 2) - 0.5), np.inf])
    assert _bins(values, [tail, *mass, tail], edges) > FALSE_ALARM


def test_neighbouring_draws_are_uncorrelated() -> None:
    values = rounded_normal(Fraction(1000), 500_000).astype(float) / 1000
    for lag in (1, 2, 3, noise.CHUNK):
        assert abs(float((values[lag:] * values[:-lag]).mean())) < 5.2 / math.sqrt(values.size)


class _Tape:
    """Entropy that is remembered, so that the same words can be decided twice."""

    def __init__(self) -> None:
        self.first = b""

    def __call__(self, size: int) -> bytes:
        words = os.urandom(size)
        self.first = self.first or words
        return words


@pytest.mark.parametrize("sigma", [Fraction(3, 2), Fraction(10**6), Fraction(10**9)])
def test_fast_path_agrees_with_the_exact_one_on_the_same_words(sigma: Fraction) -> None:
    """Whatever bits come later, a candidate that the margins let through is decided as exact arithmetic would."""
    tape, n = _Tape(), 3000
    fast = noise._candidates(noise._NORMAL, sigma, Fraction(1, 2), n, tape, True)
    u, x, v = np.frombuffer(tape.first, dtype=np.uint64).reshape(3, n)
    exact = []
    for i in range(n):
        value = noise._decide(noise._NORMAL, sigma, Fraction(1, 2), int(u[i]), int(x[i]), int(v[i]) >> 1, os.urandom)
        if value is not None:
            exact.append(-value if int(v[i]) & 1 else value)
    assert list(fast) == exact


def test_the_exact_path_alone_has_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "MARGIN", 2.0)  # nothing passes the margin: every candidate is decided exactly
    values = rounded_normal(Fraction(5, 2), 6000)
    edges = np.array([-np.inf, *(np.arange(-5, 7) - 0.5), np.inf])
    mass = [_normal_mass(2.5, low, high) for low, high in pairwise(edges)]
    assert _bins(values, mass, edges) > FALSE_ALARM


def test_words_that_leave_k_open_are_decided_exactly() -> None:
    """The words at the thresholds are the only ones whose k depends on bits not yet drawn."""
    words, exact = noise._thresholds(noise._NORMAL)
    tape = iter([np.array([words[0], words[0] - 1, words[0] + 1] + [0] * 6, dtype=np.uint64).tobytes()])
    calls = []

    def entropy(size: int) -> bytes:
        calls.append(size)
        return next(tape, b"\0" * size)

    noise._candidates(noise._NORMAL, Fraction(1), Fraction(1, 2), 3, entropy, True)
    assert len(calls) == 1 + 3  # one candidate extended: three more words
    assert exact[0] >> (noise.BITS - 64) == int(words[0])


def test_the_claimed_error_is_the_proved_one() -> None:
    """docs/noise.md adds up to at most 2^-200 per coordinate for scales up to 2^40; the ledger charges that."""
    from hearsay.accounting.budget import SAMPLER_ERROR

    discretised_x = Fraction(2 * noise.MAX_SCALE + 400, 2**noise.BITS)
    thresholds, v_bits, arithmetic = (
        Fraction(400, 2**noise.BITS),
        Fraction(1, 2 ** (noise.BITS - 1)),
        Fraction(1, 2**300),
    )
    per_candidate = discretised_x + thresholds + v_bits + arithmetic
    assert 2 * per_candidate / Fraction(6, 10) * 2 <= SAMPLER_ERROR  # acceptance at least .63; two draws for Laplace


@pytest.mark.parametrize("scale", [0, -1, 2**41])
def test_impossible_scales_are_refused(scale: int) -> None:
    with pytest.raises(ConfigError, match="grid steps"):
        rounded_normal(Fraction(scale), 10)
