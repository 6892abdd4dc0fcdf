"""The noise's law, tested against exact probabilities at a stated false-alarm rate, and its exact path."""

import math
import os
import time
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from hearsay.errors import ConfigError
from hearsay.release import noise
from hearsay.release.noise import Ints, discrete_laplace, rounded_normal

FALSE_ALARM = 1e-6  # each test below rejects a correct sampler this often


def _bins(values: Ints, centre_mass: list[float], edges: np.ndarray) -> float:
    """Chi-square p-value of counts in the cells between `edges` against exact masses; rare end cells are merged."""
    counts = list(np.histogram(values, bins=edges)[0])
    expected = [mass * values.size for mass in centre_mass]
    for end in (0, -1):
        while expected[end] < 25:
            for cells in (expected, counts):
                rare = cells.pop(end)
                cells[end] += rare  # its neighbour, now at the end
    distances = (np.array(counts) - np.array(expected)) ** 2 / np.array(expected)
    return float(chi2.sf(distances.sum(), len(expected) - 1))


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


def test_threads_decide_exactly_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """mpmath's precision is the process's: a thread that restores it under another would break the proof."""
    seen: set[int] = set()

    def exponent(k: Any, x: Any) -> Any:
        if isinstance(x, mpmath.mpf):
            seen.add(mpmath.mp.prec)
            time.sleep(1e-5)  # let the others come in
            seen.add(mpmath.mp.prec)
        return x * (k + x / 2)

    for name, value in {"MARGIN": 2.0, "SHARE": 300, "_cores": lambda: 4}.items():
        monkeypatch.setattr(noise, name, value)
    law = noise._Law(weight=lambda k: mpmath.exp(-mpmath.mpf(k * k) / 2), exponent=exponent)
    assert noise._draw(law, Fraction(5, 2), Fraction(1, 2), 1200, os.urandom).shape == (1200,)
    assert seen == {noise.BITS + 64}


def test_threads_share_a_draw_and_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many values as asked, whatever the remainder; at this scale two equal ones would be a wonder."""
    monkeypatch.setattr(noise, "SHARE", 1000)
    monkeypatch.setattr(noise, "_cores", lambda: 3)
    for size in (999, 1001, 3000, 10_001):
        values = rounded_normal(Fraction(2**40), size)
        assert values.shape == (size,) and len(np.unique(values)) == size
    assert discrete_laplace(Fraction(2**30), 4000).shape == (4000,)


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
    """docs/noise.md line by line: at most 2^-200 per coordinate for scales up to 2^40, which the ledger charges."""
    from hearsay.accounting.budget import SAMPLER_ERROR

    word = Fraction(1, 2**noise.BITS)
    k = 200 * 2 * word + Fraction(1, 2**288)  # step 1: rounded thresholds, each off by at most 2; k above 199
    x = (noise.MAX_SCALE + 1) * word + 201 * word  # step 2: cells cut by a boundary; keep moves by at most (k + 1) dx
    v = 2 * Fraction(1, 2 ** (noise.BITS - 1))  # step 3: 255 bits of v, and keep's own rounding
    per_candidate = k + x + v
    accepted = Fraction(63, 100)  # normal .714, exponential .632
    assert 2 * per_candidate / accepted <= SAMPLER_ERROR
    assert mpmath.exp(-200) / (1 - mpmath.exp(-1)) < mpmath.mpf(2) ** -287  # and more so exp(-200^2 / 2)
    assert (
        1 - mpmath.exp(-1) > 0.63
        and mpmath.sqrt(mpmath.pi / 2) / mpmath.nsum(lambda j: mpmath.exp(-(j**2) / 2), [0, mpmath.inf]) > 0.71
    )


def test_the_margins_are_wider_than_the_float_errors_of_the_proof() -> None:
    """docs/noise.md, "the fast path decides as the exact one would": the constants of _candidates."""
    half_ulp = 2.0**-53
    x_error = 2.0**-54 + 2.0**-64  # 64 bits rounded to 53, and the bits not yet drawn
    exponent = 200 * x_error + 200 * 4 * half_ulp
    keep = exponent + 2.0**-42  # exp is accurate to 2^-42, assumed; numpy's is far better
    v_error = 2.0**-54 + 2.0**-63
    assert (keep + v_error) * (1 + 4 * half_ulp) < noise.MARGIN
    # position = scale (k + x) + offset: three roundings and the offset's, relative; undrawn bits of x, absolute
    assert 5 * half_ulp * (1 + 8 * half_ulp) < 2.0**-50
    assert 2.0**-64 * (1 + 8 * half_ulp) < 2.0**-60
    worst = np.exp(-np.linspace(0, 200, 20_001))
    with mpmath.workdps(30):
        for e, found in list(zip(np.linspace(0, 200, 20_001), worst, strict=True))[::40]:
            true = mpmath.exp(-mpmath.mpf(float(e)))
            assert abs(mpmath.mpf(float(found)) - true) <= true * mpmath.mpf(2) ** -42


@pytest.mark.parametrize("scale", [0, -1, 2**41])
def test_impossible_scales_are_refused(scale: int) -> None:
    with pytest.raises(ConfigError, match="grid steps"):
        rounded_normal(Fraction(scale), 10)


def test_two_forks_of_one_process_draw_different_noise() -> None:
    """A generator inside the process, however seeded, would go on alike in both; the operating system does not."""
    drawn = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            for sample in (rounded_normal, discrete_laplace):
                os.write(writer, sample(Fraction(10**6), 8).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        drawn.append(np.frombuffer(os.read(reader, 128), dtype=np.int64))
        os.close(reader)
        os.close(writer)
    assert drawn[0].size == 16
    assert not any(np.array_equal(drawn[0][part], drawn[1][part]) for part in (slice(8), slice(8, 16)))
