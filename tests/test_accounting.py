"""The arithmetic against independent implementations: mpmath at 50 digits, dp-accounting's PLD, Opacus's PRV."""

import dataclasses
import math
import random
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as plds
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from hearsay.accounting import advice, budget, costs, events, gaussian, normal, odds, opinion, plan, sampled
from hearsay.accounting.bounds import STEPS, Bound
from hearsay.accounting.events import Gaussian, Laplace, NoisyMax, RandomizedResponse, SubsampledGaussian
from hearsay.errors import BudgetError, ConfigError, LedgerError

CASES = 1200


def _cases(n: int, least_delta: float = 1e-12) -> list[tuple[float, float, int]]:
    draw = random.Random(20)
    return [
        (
            10 ** draw.uniform(-2, math.log10(50)),
            10 ** draw.uniform(math.log10(least_delta), -3),
            draw.randint(1, 10**6),
        )
        for _ in range(n)
    ]


def test_mu_epsilon_delta_and_sigma_agree_with_50_digits_and_are_never_unsafe() -> None:
    with mpmath.workdps(50):
        for epsilon, delta, queries in _cases(CASES):
            mu = gaussian.mu_of(epsilon, delta)
            assert opinion.mpmath_delta(mpmath.mpf(mu), mpmath.mpf(epsilon)) <= delta
            assert opinion.mpmath_delta(mpmath.mpf(mu) * (1 + mpmath.mpf(10) ** -6), mpmath.mpf(epsilon)) > delta
            back = gaussian.epsilon_of(mu, delta)
            assert opinion.mpmath_delta(mpmath.mpf(mu), mpmath.mpf(back)) <= delta
            assert opinion.mpmath_delta(mpmath.mpf(mu), mpmath.mpf(back) * (1 - mpmath.mpf(10) ** -6)) > delta
            exact = opinion.mpmath_delta(mpmath.mpf(mu), mpmath.mpf(epsilon))
            assert gaussian.delta_of(mu, epsilon) == pytest.approx(float(exact), rel=1e-6)
            sigma = gaussian.sigma_for(epsilon, delta, math.sqrt(2), queries)
            spent = math.sqrt(2 * queries) / sigma
            assert mu * (1 - 1e-6) <= spent <= mu


def test_the_normals_tails_agree_with_50_digits() -> None:
    draw = random.Random(22)
    with mpmath.workdps(50):
        for z in [draw.uniform(-37, 37) for _ in range(300)] + [-1.0, 0.0, 1e-9]:
            exact, x = mpmath.ncdf(z), mpmath.mpf(abs(z))
            assert normal.below(z) == pytest.approx(float(exact), rel=1e-12)
            log = mpmath.log1p(-mpmath.ncdf(-z)) if z > 0 else mpmath.log(exact)
            assert normal.log_below(z) == pytest.approx(float(log), rel=1e-13)
            assert normal.erfcx(abs(z)) == pytest.approx(float(mpmath.exp(x * x) * mpmath.erfc(x)), rel=1e-14)
            if -37 < z < 5:
                assert normal.quantile(normal.below(z)) == pytest.approx(z, rel=1e-9, abs=1e-9)


def test_a_very_small_mu_is_never_on_the_unsafe_side() -> None:
    """Here a difference of two tails cancels: with 1e-10 left of a budget, floats must still round the right way."""
    draw = random.Random(21)
    with mpmath.workdps(60):
        for _ in range(200):
            epsilon, delta = 10 ** draw.uniform(-10, -2), 10 ** draw.uniform(-14, -9)
            mu = gaussian.mu_of(epsilon, delta)
            assert opinion.mpmath_delta(mpmath.mpf(mu), mpmath.mpf(epsilon)) <= delta
            assert opinion.mpmath_delta(mpmath.mpf(mu) * (1 + mpmath.mpf(10) ** -6), mpmath.mpf(epsilon)) > delta


def test_gaussians_agree_with_dp_accounting() -> None:
    """Between its optimistic and its pessimistic loss distribution, which lie within 1% of each other."""
    for epsilon, delta, _ in _cases(1000, least_delta=1e-9):
        mu, grid = gaussian.mu_of(epsilon, delta), epsilon / 100
        upper = plds.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
        lower = plds.from_gaussian_mechanism(
            1 / mu, value_discretization_interval=grid, pessimistic_estimate=False, use_connect_dots=False
        )
        low, high = lower.get_epsilon_for_delta(delta), upper.get_epsilon_for_delta(delta)
        assert 0.99 * high < low <= epsilon <= high * (1 + 1e-8)


def _random_mix(draw: random.Random) -> list[events.Event]:
    return [
        Gaussian(Fraction(2), Fraction(draw.uniform(3, 60)).limit_denominator(10**6) ** 2, 1),
        Laplace(Fraction(1), Fraction(draw.uniform(2, 40)).limit_denominator(10**6), 1),
        RandomizedResponse(draw.randint(2, 9), Fraction(draw.uniform(0.52, 0.9)).limit_denominator(10**4)),
        SubsampledGaussian(Fraction(draw.randint(1, 30), 100), Fraction(draw.randint(10, 40), 10), draw.randint(1, 60)),
    ]


def test_mixes_lie_between_the_optimistic_and_the_pessimistic_pld() -> None:
    draw = random.Random(7)
    for _ in range(40):
        mix, delta = _random_mix(draw), 10 ** draw.uniform(-9, -4)
        ours = costs.compose(mix, 1e-3).get_epsilon_for_delta(delta)
        assert costs.compose(mix, 5e-3, optimistic=True).get_epsilon_for_delta(delta) <= ours
        assert ours <= costs.compose(mix, 5e-3).get_epsilon_for_delta(delta) * (1 + 1e-9)
        # The filter's covering Gaussian for the pure ones must never claim less than their own loss distribution.
        pure = [event for event in mix if not isinstance(event, SubsampledGaussian)]
        mu = math.sqrt(sum(costs.mu_squared(event) for event in pure))
        assert gaussian.epsilon_of(mu, delta) >= costs.compose(pure, 2e-3, optimistic=True).get_epsilon_for_delta(delta)


@pytest.mark.filterwarnings("ignore:Optimal order:UserWarning")
def test_subsampled_gaussians_agree_with_opacus_prv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opacus adds its eps_error to be an upper bound; without that the two must agree closely."""
    from opacus.accountants import PRVAccountant, RDPAccountant

    monkeypatch.setattr(RDPAccountant, "DEFAULT_ALPHAS", [float(order) for order in range(2, 64)])  # sizes its grid

    draw = random.Random(11)
    for _ in range(50):
        rate, noise, steps = draw.uniform(0.01, 0.2), draw.uniform(1.2, 4), draw.randint(5, 60)
        accountant = PRVAccountant()
        accountant.history = [(noise, rate, steps)]
        theirs = accountant.get_epsilon(delta=1e-6, eps_error=0.1, delta_error=1e-8)
        ours = costs.pld(SubsampledGaussian(Fraction(rate), Fraction(noise), steps), 2e-3).get_epsilon_for_delta(1e-6)
        assert ours == pytest.approx(theirs - 0.1, abs=0.005) and ours <= theirs


def test_renyi_costs_agree_with_opacus_and_never_fall_below() -> None:
    from opacus.accountants.analysis.rdp import compute_rdp

    draw = random.Random(12)
    for _ in range(200):
        rate, noise, order = draw.uniform(1e-4, 1), draw.uniform(0.6, 20), draw.choice(budget.ORDERS)
        event = SubsampledGaussian(Fraction(rate), Fraction(noise), draw.randint(1, 1000))
        theirs = compute_rdp(q=rate, noise_multiplier=noise, steps=event.steps, orders=float(order))
        ours = float(costs.renyi(event, order))
        assert ours == pytest.approx(theirs, rel=1e-6, abs=event.steps * 1e-14)
        with mpmath.workdps(80):
            exact = mpmath.log(mpmath.fsum(
                mpmath.binomial(order, j) * mpmath.mpf(rate) ** j * (1 - mpmath.mpf(rate)) ** (order - j)
                * mpmath.exp(mpmath.mpf(j * (j - 1)) / (2 * mpmath.mpf(noise) ** 2)) for j in range(order + 1)
            )) / (order - 1)  # fmt: skip
            assert ours >= event.steps * exact


def test_the_renyi_cost_of_a_pure_mechanism_is_not_lost_in_rounding() -> None:
    for epsilon in (1e-7, 1e-4, 0.1, 3.0, 40.0):
        with mpmath.workdps(80):
            p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
            exact = mpmath.log(p**8 * (1 - p) ** -7 + (1 - p) ** 8 * p**-7) / 7
            exact_cost = costs.renyi(Laplace(Fraction(1), 1 / Fraction(epsilon), 1), 8)
            cost = mpmath.mpf(exact_cost.numerator) / exact_cost.denominator
        assert exact <= cost <= exact * (1 + mpmath.mpf(10) ** -6) + mpmath.mpf(2) ** -79


@given(st.floats(0.01, 20), st.integers(2, 40))
def test_the_covering_gaussian_covers_randomized_response(epsilon: float, answers: int) -> None:
    """For every epsilon, delta of the covering Gaussian is at least that of the worst epsilon-DP mechanism."""
    mu = gaussian.mu_of_pure(epsilon)
    keep = math.exp(epsilon) / (math.exp(epsilon) + answers - 1)
    assert costs.pure_epsilon(RandomizedResponse(answers, Fraction(keep))) == pytest.approx(epsilon, rel=1e-6)
    for other in (0.0, epsilon / 3, epsilon * 0.9):
        worst = (math.exp(epsilon) - math.exp(other)) / (1 + math.exp(epsilon))
        assert gaussian.delta_of(mu, other) >= worst * (1 - 1e-7)


def test_stated_figures() -> None:
    """The table every reader will check first (delta 1e-6), and the phrase whose epsilon was scaled linearly."""
    table = {0.4: 0.1007, 0.5: 0.1241, 1: 0.2367, 2: 0.4483, 3: 0.6477, 4: 0.8379, 5: 1.0204, 8: 1.5315}
    for epsilon, mu in table.items():
        assert gaussian.mu_of(epsilon, 1e-6) == pytest.approx(mu, abs=5e-5)
    mu = gaussian.mu_of(3, 1e-6)
    assert gaussian.guess_rate(mu) == pytest.approx(0.627, abs=5e-4)
    assert gaussian.epsilon_of(gaussian.group(mu, 2), 1e-6) == pytest.approx(6.58, abs=5e-3)
    sigma = gaussian.sigma_for(2.85, 1e-6, math.sqrt(2), 1000)
    assert gaussian.phrase_epsilon(sigma, math.sqrt(2), 1000, 9, 1e-6) == pytest.approx(41.2, abs=0.05)
    six = math.sqrt(2) / 6
    assert gaussian.epsilon_of(six, 1e-6) == pytest.approx(1.00, abs=0.01)
    assert gaussian.epsilon_of(six * math.sqrt(6000), 1e-6) == pytest.approx(253, abs=1)


def test_phrase_delta_matches_the_papers_formula() -> None:
    """delta(eps, n) = Phi(n/(sqrt 2 s) - eps s/(sqrt 2 n)) - e^eps Phi(-n/(sqrt 2 s) - eps s/(sqrt 2 n)), one query."""
    sigma, n, epsilon = 7.0, 3, 2.0
    with mpmath.workdps(30):
        a, b = mpmath.mpf(n) / (mpmath.sqrt(2) * sigma), epsilon * sigma / (mpmath.sqrt(2) * n)
        paper = mpmath.ncdf(a - b) - mpmath.exp(epsilon) * mpmath.ncdf(-a - b)
    assert gaussian.delta_of(gaussian.group(math.sqrt(2) / sigma, n), epsilon) == pytest.approx(float(paper), rel=1e-9)


def test_classic_bound_is_looser_and_limited() -> None:
    assert gaussian.classic_sigma(0.5, 1e-6, 1) > gaussian.sigma_for(0.5, 1e-6, 1)
    with pytest.raises(ConfigError, match="epsilon in"):
        gaussian.classic_sigma(3, 1e-6, 1)


def test_group_and_basic_composition() -> None:
    assert costs.basic([(1, 1e-6), (2, 1e-7)]) == (3, pytest.approx(1.1e-6))
    epsilon, delta = costs.group_privacy(1.0, 1e-6, 3)
    assert epsilon == 3 and delta == pytest.approx(1e-6 * (1 + math.e + math.e**2))


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_bad_epsilon(epsilon: float) -> None:
    with pytest.raises(ConfigError, match="epsilon"):
        gaussian.mu_of(epsilon, 1e-6)


def test_events_survive_json_and_unknown_ones_are_refused() -> None:
    for event in [*_random_mix(random.Random(1)), NoisyMax(Fraction(1), Fraction(9, 7), True)]:
        assert events.from_json(events.to_json(event)) == event
    good = events.to_json(NoisyMax(Fraction(1), Fraction(2)))
    for change in ({"event": "unheard"}, {"version": 9}, {"extra": 1}):
        with pytest.raises(LedgerError):
            events.from_json({**good, **change})


def test_impossible_events_are_not_charged() -> None:
    for event in (
        Gaussian(Fraction(0), Fraction(1), 1), Gaussian(Fraction(1), Fraction(1), 0),
        Laplace(Fraction(1), Fraction(0), 1),
        RandomizedResponse(3, Fraction(1, 4)), SubsampledGaussian(Fraction(2), Fraction(1)),
    ):  # fmt: skip
        with pytest.raises(ConfigError):
            costs.mu_squared(event)


def test_budgets() -> None:
    plain = budget.make(3, 1e-6)
    assert plain.epsilon_spent(plain.capacity, 0) <= 3
    assert plain.epsilon_spent(plain.capacity * 2, 0) > 3
    with pytest.raises(BudgetError, match="commit it"):
        plain.cost(SubsampledGaussian(Fraction(1, 10), Fraction(2), 10))
    renyi = budget.make(3, 1e-6, "renyi")
    mu = math.sqrt(2 * renyi.capacity / renyi.order)
    assert 0.9 * gaussian.mu_of(3, 1e-6) < mu < gaussian.mu_of(3, 1e-6)
    assert renyi.cost(SubsampledGaussian(Fraction(1, 10), Fraction(2), 10)) > 0


def test_a_group_under_committed_samples() -> None:
    """One unit is told as everywhere; two as the integral over a mixture of Gaussians says; nobody as nothing."""
    event = SubsampledGaussian(Fraction(1, 4), Fraction(2))
    sampled = budget.make(3, 1e-6, schedule=(event,))
    assert sampled.epsilon_of_group(Fraction(0), 1, 1) == sampled.epsilon_spent(Fraction(0), 1) > 0
    found = sampled.epsilon_of_group(Fraction(0), 1, 2)
    grid = np.linspace(-40, 60, 2_000_001)
    alone = norm.pdf(grid, 0, 2)
    several = sum(binom.pmf(k, 2, 0.25) * norm.pdf(grid, k, 2) for k in range(3))

    def delta(epsilon: float) -> float:
        over = (several - math.exp(epsilon) * alone, alone - math.exp(epsilon) * several)
        return max(float(np.clip(one, 0, None).sum()) for one in over) * (grid[1] - grid[0])

    assert delta(found) <= 1e-6 < delta(found * 0.998)
    assert found < sampled.epsilon_of_group(Fraction(1, 4), 1, 2) < sampled.epsilon_of_group(Fraction(1, 4), 1, 40)
    many = [sampled.epsilon_of_group(Fraction(0), 1, n) for n in (64, 65)]  # a bound in place of the seconds it takes
    assert many[0] < many[1]
    whole = budget.make(
        3, 1e-6, schedule=(SubsampledGaussian(Fraction(1), Fraction(4)),)
    )  # each takes part: a Gaussian
    assert whole.epsilon_of_group(Fraction(0), 1, 3) == pytest.approx(gaussian.epsilon_of(3 / 4, 1e-6), rel=1e-3)


def test_a_group_without_a_schedule() -> None:
    plain = budget.make(3, 1e-6)
    mu = gaussian.mu_of(3, 1e-6)
    nine = gaussian.epsilon_of(9 * mu, 1e-6)
    assert plain.epsilon_of_group(plain.capacity, 0, 9) == pytest.approx(nine, rel=1e-4)
    with pytest.raises(BudgetError, match="one unit"):
        budget.make(3, 1e-6, "renyi").epsilon_of_group(Fraction(1), 0, 2)
    laplace = budget.make(3, 1e-6, schedule=(Laplace(Fraction(1), Fraction(4), 1),))
    with pytest.raises(BudgetError, match="only samples"):
        laplace.epsilon_of_group(Fraction(0), 1, 2)


def test_the_samplers_part_of_delta_is_taken_from_what_is_promised() -> None:
    for delta in (1e-12, 1e-6, 1e-3):
        assert Fraction(budget.main_delta(delta)) + budget.sampler_share(delta) <= Fraction(delta)


def test_budgets_that_the_noise_could_never_carry_are_refused() -> None:
    """The sampler's error times e^epsilon must fit into delta: said at once, not at the first charge."""
    for epsilon in (150.0, 1e6):
        with pytest.raises(ConfigError, match=r"privacy\.epsilon"):
            budget.make(epsilon, 1e-6)
    assert budget.make(50, 1e-12).capacity > 0


def test_odds_hold_for_budgets_without_a_mu() -> None:
    """A Gaussian told through the other two currencies: the odds may be looser there, never better than the truth."""
    event = Gaussian(Fraction(1, 4), Fraction(1), 1)
    true = odds.of(budget.make(3, 1e-6), costs.mu_squared(event), 0)
    assert true.mu == pytest.approx(0.5) and true.guess_rate == pytest.approx(0.5987, abs=1e-4)
    assert true.replace_epsilon == pytest.approx(gaussian.epsilon_of(1, 1e-6), rel=1e-6)
    renyi = budget.make(3, 1e-6, "renyi")
    other = odds.of(renyi, renyi.cost(event), 0)
    assert true.guess_rate < other.guess_rate < 1 and true.replace_epsilon < other.replace_epsilon < 20
    steps = SubsampledGaussian(Fraction(1), Fraction(8), 16)  # rate 1: mu is exactly 1/2
    scheduled = odds.of(budget.Budget(3, 1e-6, Fraction(0), schedule=(steps,)), Fraction(0), 1)
    assert scheduled.guess_rate == pytest.approx(true.guess_rate, abs=1e-4)
    assert scheduled.mu == pytest.approx(0.5, rel=1e-3)
    drawn = budget.make(3, 1e-6, schedule=(SubsampledGaussian(Fraction(1, 50), Fraction(1), 200),))
    told = odds.of(drawn, Fraction(0), 1)  # whoever takes its mu for a Gaussian's must not find a stronger promise
    assert gaussian.epsilon_of(told.mu, 1e-6) >= drawn.epsilon_spent(Fraction(0), 1) * (1 - 1e-6)
    assert true.replace_epsilon < scheduled.replace_epsilon < 3 * true.replace_epsilon
    assert odds.of(renyi, Fraction(0), 0) == odds.Odds(0.0, 0.5, 0.0)


def test_a_committed_schedule_leaves_what_its_loss_distribution_leaves() -> None:
    schedule = (SubsampledGaussian(Fraction(1, 10), Fraction(4), 20),)
    beside = budget.make(1, 1e-6, schedule=schedule)
    assert 0.1 < math.sqrt(beside.capacity) < gaussian.mu_of(1, 1e-6)
    whole = costs.compose([*schedule, Gaussian(beside.capacity, Fraction(1), 1)])
    assert whole.get_delta_for_epsilon(1) <= 1e-6
    assert budget.from_json(budget.to_json(beside)) == beside
    with pytest.raises(BudgetError, match="schedule alone"):
        budget.make(0.05, 1e-6, schedule=schedule)


def test_sensitivities() -> None:
    """sqrt 2 for non-negative vectors, 2C for residuals, 1 and C where a slot holds at most one unit."""
    for bound, per_query in (
        (Bound("root"), math.sqrt(2)), (Bound("probability"), math.sqrt(2)), (Bound("root", alone=True), 1),
        (Bound("residual", clip=Fraction(2, 5)), 0.8), (Bound("residual", alone=True, clip=Fraction(2, 5)), 0.4),
    ):  # fmt: skip
        assert math.sqrt(bound.sensitivity_squared(100) / 100) / STEPS == pytest.approx(per_query, rel=1e-9)
    assert Bound("probability").sensitivity_l1() == 2 * STEPS
    with pytest.raises(ConfigError, match="Laplace"):
        Bound("root").sensitivity_l1()


@given(st.integers(1, 10**6), st.floats(1e-9, 60), st.sampled_from(["gaussian", "laplace"]))
def test_a_planned_scale_never_costs_more_than_it_may(queries: int, mu: float, noise: str) -> None:
    bound, allowed = Bound("probability"), Fraction(mu) ** 2
    try:
        scale = plan.scale_for(bound, queries, allowed, noise)
    except BudgetError as error:  # more noise than the grid holds: refused, not clipped
        assert "grid" in str(error) and mu < 0.005
        return
    event: events.Event = Gaussian(bound.sensitivity_squared(queries), scale**2, 1, queries)
    if noise == "laplace":
        event = Laplace(bound.sensitivity_l1(), scale, 1, queries)
    assert costs.mu_squared(event) <= allowed + costs.UNIT
    if mu > 0.01:
        # Not wasteful either; Laplace pays for a guard of 1e-12 on each question's own mu.
        assert costs.mu_squared(event) >= allowed * (1 - Fraction(1, 10**4))


def test_the_plan_of_sampled_rounds_tells_the_noise_that_is_committed() -> None:
    request = plan.Request(recipe="updates", units=2000, rounds=25, spend=0.8)
    some, everybody = plan.make(dataclasses.replace(request, sample=0.15)), plan.make(request)
    noise = float(sampled.schedule_for(3.0, 1e-6, Fraction(3, 20), 25, 0.8).noise_multiplier)
    assert some.noise_std_sum == pytest.approx(noise, rel=1e-2)
    assert (
        some.noise_std_mean == pytest.approx(noise / 300, rel=1e-2) and some.noise_std_mean > everybody.noise_std_mean
    )
    assert some.noise_over_clip > everybody.noise_over_clip  # type: ignore[operator]
    assert some.effective_tokens < everybody.effective_tokens


def test_plan_says_noise_tokens_and_why() -> None:
    made = plan.make(plan.Request(teachers=2000, queries=3000, recipe="seqpate"))
    assert made.noise_std_sum == pytest.approx(math.sqrt(2 * 3000) / gaussian.mu_of(3, 1e-6), rel=1e-5)
    assert made.noise_std_mean == pytest.approx(made.noise_std_sum / 2000)
    assert not made.feasible and "negative" in made.why
    hellinger = plan.make(plan.Request(teachers=437))
    assert hellinger.effective_tokens == pytest.approx(437**2 * hellinger.mu**2 / 8, rel=1e-6)
    assert hellinger.feasible and not plan.make(plan.Request(teachers=436)).feasible
    alone = plan.make(plan.Request(teachers=437, one_unit_per_teacher=True))
    assert alone.sensitivity == pytest.approx(1) and alone.effective_tokens > hellinger.effective_tokens
    assert plan.make(plan.Request(queries=10**6)).effective_tokens == pytest.approx(
        plan.make(plan.Request(queries=10)).effective_tokens, rel=1e-4
    )
    tenth = plan.make(plan.Request(teachers=437, spend=0.01))
    assert tenth.noise_std_sum == pytest.approx(10 * hellinger.noise_std_sum, rel=1e-4) and not tenth.feasible
    assert "declared" not in plan.make(plan.Request(units=9000, sentences=600_000)).suits
    few = plan.make(
        plan.Request(teachers=100, units=240, sentences=60_000)
    ).suits  # of 437: what it would name, it refuses
    assert few.startswith("none") and "437" in few
    enough = plan.make(plan.Request(teachers=100, units=500, sentences=60_000, dimensions=250_000)).suits
    assert enough.startswith("hellinger with about 500")
    assert "300 questions" in plan.make(plan.Request(queries=300)).warnings[0]
    assert plan.make(plan.Request(units=10**6)).warnings and not plan.make(plan.Request(units=10**4)).warnings
    with pytest.raises(ConfigError, match="one teacher per unit"):
        plan.make(plan.Request(units=100))


def test_what_a_plan_recommends_it_does_not_refuse() -> None:
    """Whatever recipe was asked about, and however it samples: taking the advice ends the search."""
    corpus = plan.Request(units=360, sentences=1500, dimensions=100_000, rounds=10, sample=0.15)
    for recipe in plan.RECIPES:
        asked = dataclasses.replace(corpus, recipe=recipe, teachers=20)
        assert not plan.make(asked).feasible
        assert plan.make(asked).suits.startswith("updates with all units in every round")
    assert plan.make(dataclasses.replace(corpus, recipe="updates", teachers=20, sample=1.0)).feasible
    good = dataclasses.replace(corpus, recipe="updates", teachers=20, units=36_000)
    assert plan.make(good).suits == "updates, as planned"  # why it says so already
    assert "where measured" in plan.make(dataclasses.replace(good, recipe="hellinger")).suits


@pytest.mark.parametrize(("noise", "said"), [(0.0, "0.71 at 0.05"), (math.inf, "0.02 at 3.1"), (1.2, "0.24 at 1.38")])
def test_what_was_measured_near_is_told_of_each_corpus(noise: float, said: str) -> None:
    told = advice.measured_near(noise)
    assert said in told and "dialogues" in told and "speeches" in told


def test_a_plan_recommends_no_teachers_who_know_nothing() -> None:
    """764 teachers of two sentences each would make quiet answers that say nothing."""
    thin = plan.make(plan.Request(recipe="updates", teachers=20, units=764, sentences=1500, dimensions=10**6))
    assert not thin.feasible and thin.suits.startswith("none as it is: answers need 437")


def test_a_plan_for_mixed_tells_of_answers_that_teach_little() -> None:
    corpus = plan.Request(recipe="mixed", units=11_674, sentences=146_000, dimensions=100_000, share=0.9)
    few, many = (plan.make(dataclasses.replace(corpus, teachers=count)) for count in (20, 3000))
    assert few.feasible and "too few to teach" in few.why
    assert many.feasible and "too few" not in many.why


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"noise": "uniform"}, "noise"), ({"unit": "house"}, "unit"), ({"recipe": "pie"}, "recipe"),
        ({"clip": math.nan}, "clip"), ({"clip": 3.0}, "clip"), ({"units": 0}, "units"),
        ({"sentences": -1}, "sentences"),
        ({"queries": 10**400}, "queries"), ({"teachers": 0}, "teachers"), ({"delta": math.nan}, "delta"),
    ],
)  # fmt: skip
def test_plan_refuses_by_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan.make(dataclasses.replace(plan.Request(), **change))
