"""The paper's quantities and ours, each against an example computed by hand: from teachers' logits to the loss."""

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from hearsay.accounting.bounds import STEPS, Bound
from hearsay.lm import LanguageModel
from hearsay.public import student as students
from hearsay.public.questions import Choice, Questions, pose
from hearsay.public.student import Answered, Lesson, _Prepared, distil, gained, roots, target, warm_up
from hearsay.release import aggregate
from hearsay.release.grid import BoundedSum
from hearsay.stacked import Adapted, AdapterShape


def hand(valid: list[list[bool]] | None = None) -> Questions:
    """Two questions, two candidates each, one tail token with weight 1 (log 0)."""
    return Questions(
        rows=torch.zeros(1, 4, dtype=torch.long),
        lengths=torch.tensor([4]),
        asked=torch.tensor([[0, 1], [0, 2]]),
        labels=torch.tensor([0, 0]),
        candidates=torch.tensor([[1, 2], [3, 4]]),
        valid=torch.tensor(valid or [[True, True], [True, True]]),
        tail=torch.tensor([[9], [9]]),
        tail_weight=torch.zeros(2, 1),
        held_out=torch.tensor([False, False]),
    )


def logits(*odds: list[list[float]]) -> Tensor:
    return torch.tensor(odds).log()


def test_distribution_over_candidates_and_rest() -> None:
    found = aggregate.distributions(logits([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]]) + 7.0, hand())
    assert torch.allclose(found[0], torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]]), atol=1e-6)
    cut = aggregate.distributions(logits([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]]), hand([[True, False], [True, True]]))
    assert cut[0, 0].tolist() == pytest.approx([0.5 / 0.8, 0.0, 0.3 / 0.8], abs=1e-6)


def test_mean_vote_and_root_by_hand() -> None:
    """Two teachers: (.5 .2 .3) and (.1 .6 .3) give the mean (.3 .4 .3), one vote each for the first two, and roots."""
    both = logits([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]], [[0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])

    def total(shape: aggregate.Shape, bound: Bound) -> list[float]:
        found = aggregate.total(lambda: iter([(0, both)]), hand(), shape, bound, None).total[0]
        return [value / STEPS / 2 for value in found.tolist()]

    assert total("probability", Bound("probability")) == pytest.approx([0.3, 0.4, 0.3], abs=2e-6)
    assert total("vote", Bound("probability")) == pytest.approx([0.5, 0.5, 0.0])
    expected = [(math.sqrt(a) + math.sqrt(b)) / 2 for a, b in ((0.5, 0.1), (0.2, 0.6), (0.3, 0.3))]
    assert total("root", Bound("root")) == pytest.approx(expected, abs=2e-6)


def test_replacing_a_teacher_moves_the_sum_by_at_most_the_stated_sensitivity() -> None:
    """The extreme case reaches sqrt 2 a question: all mass on one candidate, then all on another."""
    sure = [[[1.0, 1e-30, 1e-30]] * 2, [[1e-30, 1.0, 1e-30]] * 2]
    for shape, bound in (("probability", Bound("probability")), ("root", Bound("root"))):
        sums = [
            aggregate.total(lambda o=odds: iter([(0, logits(o))]), hand(), shape, bound, None).total for odds in sure
        ]
        moved = float((sums[0] - sums[1]).double().norm()) / STEPS
        assert moved <= math.sqrt(bound.sensitivity_squared(2)) / STEPS
        assert moved == pytest.approx(math.sqrt(2 * 2), rel=1e-5)


def test_residuals_of_an_untrained_teacher_are_exactly_zero_and_clipping_is_joint() -> None:
    before = logits([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]]).repeat(2, 1, 1)
    assert not aggregate.residuals(before, before, hand()).any()
    far = logits([[1.0, 1e-30, 1e-30], [1.0, 1e-30, 1e-30]])
    bound = Bound("residual", clip=Fraction(1, 4))
    found = BoundedSum(bound, 2, 3)
    found.add(aggregate.residuals(far, before, hand()))
    norm = float(found.total.double().norm()) / STEPS
    assert norm == pytest.approx(0.25 * math.sqrt(2), rel=1e-4)  # one norm over both questions together


def test_the_clip_is_a_quantile_of_the_noisy_votes() -> None:
    votes = torch.zeros(len(aggregate.CLIP_EDGES) + 1)
    votes[5], votes[9] = 80 * STEPS, 20 * STEPS
    assert aggregate.clip_from_votes(votes, 0.8) == aggregate.CLIP_EDGES[5]
    assert aggregate.clip_from_votes(votes, 0.9) == aggregate.CLIP_EDGES[9]
    assert aggregate.clip_from_votes(-votes, 0.9) == aggregate.CLIP_EDGES[-1]  # only noise: clip as little as possible


def test_clamp_and_renormalise_by_hand() -> None:
    """The paper's clean-up: (.3 -.1 .1 | rest .7) over three candidates becomes (.75 0 .25)."""
    noisy = torch.tensor([[0.3, -0.1, 0.1, 0.7], [-0.2, -0.1, 0.5, 0.0]])
    valid = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    assert target(noisy, valid)[0].tolist() == pytest.approx([0.75, 0.0, 0.25])
    assert target(noisy, valid)[1].tolist() == pytest.approx([0.5, 0.5, 0.0])  # nothing left: even


@pytest.fixture()
def learner(tiny_gpt2: LanguageModel) -> Adapted:
    return Adapted(tiny_gpt2.model, AdapterShape(rank=4, top_blocks=2))


@pytest.fixture(scope="module")
def posed(tiny_gpt2: LanguageModel) -> Questions:
    stream = torch.Generator().manual_seed(5)
    sentences = [torch.randint(3, 300, (9,), generator=stream).tolist() for _ in range(24)]
    choice = Choice(
        count=500, candidates=8, top_p=None, tail=4, prefix_tokens=3, rank_threshold=None, holdout=0.2, seed=1
    )
    return pose(Adapted(tiny_gpt2.model, AdapterShape(rank=4, top_blocks=2)), sentences, 0, 0, choice)


def _each(learner: Adapted, posed: Questions, answers: Tensor, kind: str) -> Tensor:
    prepared = _Prepared(learner, Answered(posed, answers), 0, Lesson(1, 4, 1e-3, 0, kind))
    everything = torch.arange(len(posed))
    hidden = learner.hidden(posed.rows)[posed.asked[:, 0], posed.asked[:, 1]]
    return prepared.each(learner, hidden, everything)


def test_losses_by_hand(learner: Adapted, posed: Questions) -> None:
    hidden = learner.hidden(posed.rows)[posed.asked[:, 0], posed.asked[:, 1]]
    odds = learner.logits(hidden).softmax(-1).gather(1, posed.candidates)
    noisy = torch.rand(len(posed), 9, generator=torch.Generator().manual_seed(0)) - 0.2
    clean, inside = target(noisy, torch.ones(len(posed), 8)), odds / odds.sum(1, keepdim=True)
    kl = torch.nn.functional.kl_div(inside.log(), clean, reduction="none").sum(1)
    assert torch.allclose(_each(learner, posed, noisy, "kl"), kl, atol=1e-5)
    hard = -inside.log().gather(1, clean.argmax(1, keepdim=True))[:, 0]
    assert torch.allclose(_each(learner, posed, noisy, "ce"), hard, atol=1e-5)
    all_roots = torch.cat([odds, 1 - odds.sum(1, keepdim=True)], 1).sqrt()
    assert torch.allclose(_each(learner, posed, noisy, "hellinger"), -2 * (all_roots * noisy).sum(1), atol=1e-4)


def test_the_hellinger_loss_is_unbiased_and_the_clean_up_is_not(learner: Adapted, posed: Questions) -> None:
    """Averaged over noise, the linear loss is the noise-free loss; clamping first is off by far more than its error."""
    truth = torch.full((len(posed), 9), 1 / 9)
    stream, draws, spread = torch.Generator().manual_seed(2), 60, 0.3
    for kind, answer, unbiased in (("hellinger", truth.sqrt(), True), ("kl", truth, False)):
        noise = [spread * torch.randn(answer.shape, generator=stream) for _ in range(draws)]
        losses = torch.stack([_each(learner, posed, answer + z, kind).mean().detach() for z in noise])
        off = float((losses.mean() - _each(learner, posed, answer, kind).mean()).detach())
        error = float(losses.std()) / math.sqrt(draws)
        assert (abs(off) < 4.5 * error) == unbiased


def taught_by_another(posed: Questions, model: LanguageModel) -> Tensor:
    """[Q, K + 1] what a teacher with other weights would answer."""
    other = Adapted(model.model, AdapterShape(rank=4, top_blocks=2))
    other.flat.data += 0.2 * torch.randn(other.flat.shape, generator=torch.Generator().manual_seed(9))
    return _roots(other, posed)


def noised(answers: Tensor, spread: float) -> Tensor:
    return answers + spread * torch.randn(answers.shape, generator=torch.Generator().manual_seed(4))


def test_distillation_learns_a_teacher_through_noise_and_stops_in_time(
    learner: Adapted, posed: Questions, tiny_gpt2: LanguageModel
) -> None:
    truth = taught_by_another(posed, tiny_gpt2)
    before = float((_roots(learner, posed) - truth).pow(2).sum(1).mean())
    gains = distil(learner, Answered(posed, noised(truth, 0.05)), 0, Lesson(150, 8, 5e-3, 0, "hellinger"))
    after = float((_roots(learner, posed) - truth).pow(2).sum(1).mean())
    assert after < 0.6 * before
    assert max(gains) > 0


@pytest.mark.parametrize(("caution", "moves"), [(0.0, True), (1.0, True), (1000.0, False)])
def test_a_student_moves_only_where_held_out_answers_favour_it_clearly(
    learner: Adapted, posed: Questions, tiny_gpt2: LanguageModel, caution: float, moves: bool
) -> None:
    """The same gain is taken if it exceeds as many of its standard errors as are asked for."""
    answers, before = noised(taught_by_another(posed, tiny_gpt2), 0.05), learner.flat.detach().clone()
    gains = distil(learner, Answered(posed, answers), 0, Lesson(150, 8, 5e-3, 0, "hellinger", caution=caution))
    assert max(gains) > 0
    assert (not torch.equal(learner.flat, before)) == moves


def test_the_last_step_counts_like_every_other(learner: Adapted, posed: Questions, tiny_gpt2: LanguageModel) -> None:
    before = learner.flat.detach().clone()
    gains = distil(learner, Answered(posed, taught_by_another(posed, tiny_gpt2)), 0, Lesson(1, 8, 5e-3, 0, "hellinger"))
    assert len(gains) == 2 and gains[1] > 0 and not torch.equal(learner.flat, before)


def test_of_several_steps_that_count_the_best_is_kept(
    learner: Adapted, posed: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, steps = iter([3.0, 5.0, *[4.0] * 10]), []
    monkeypatch.setattr(students, "gained", lambda _: (next(said), 1.0))

    def seen(_: int, __: int) -> None:
        steps.append(learner.flat.detach().clone())

    distil(learner, Answered(posed, _roots(learner, posed)), 0, Lesson(12, 8, 5e-3, 0, "hellinger", caution=2), seen)
    assert torch.equal(learner.flat, steps[1]) and not torch.equal(steps[1], steps[-1])


def test_a_step_is_judged_question_by_question(
    learner: Adapted, posed: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the start on the same noisy answers: of a student that stands still, exactly nothing was gained."""
    pairs: list[torch.Tensor] = []
    monkeypatch.setattr(students, "gained", lambda less: (pairs.append(less), (0.0, 1.0))[1])
    noisy = noised(_roots(learner, posed), 1.0)
    distil(learner, Answered(posed, noisy), 0, Lesson(3, 8, 0.0, 0, "hellinger"))
    assert pairs and all(less.shape == (int(posed.held_out.sum()),) and not less.any() for less in pairs)


def test_pure_noise_teaches_nothing(learner: Adapted, posed: Questions) -> None:
    """Answers that hold no information: the held-out block must keep the student close to where it started."""
    start = _roots(learner, posed)
    noisy = start + 2.0 * torch.randn(start.shape, generator=torch.Generator().manual_seed(8))
    distil(learner, Answered(posed, noisy), 0, Lesson(100, 8, 5e-3, 0, "hellinger"))
    assert float((_roots(learner, posed) - start).pow(2).sum(1).mean()) < 0.3


def test_a_gain_is_judged_by_its_own_standard_error() -> None:
    assert gained(torch.tensor([1.0, 3.0] * 20)) == (2.0, pytest.approx(math.sqrt(1 / 39)))
    assert gained(torch.arange(19.0)) == (9.0, math.inf)  # too few to know their error
    assert gained(torch.arange(20.0)) == (9.5, pytest.approx(math.sqrt(35 / 20)))
    assert gained(torch.zeros(0)) == (0.0, math.inf)


@pytest.mark.parametrize(("gain", "moves"), [(1.9, False), (2.1, True)])
def test_caution_is_told_in_standard_errors(
    learner: Adapted, posed: Questions, monkeypatch: pytest.MonkeyPatch, gain: float, moves: bool
) -> None:
    monkeypatch.setattr(students, "gained", lambda _: (gain, 1.0))
    before = learner.flat.detach().clone()
    distil(learner, Answered(posed, _roots(learner, posed)), 0, Lesson(12, 8, 5e-3, 0, "hellinger", caution=2))
    assert (not torch.equal(learner.flat, before)) == moves


def test_a_student_is_judged_by_answers_that_it_does_not_learn_from(
    learner: Adapted, posed: Questions, tiny_gpt2: LanguageModel
) -> None:
    """Turning the held-out answers round turns the judgement round, and nothing of what is learnt."""
    lesson, said = Lesson(12, 8, 5e-3, 0, "hellinger"), taught_by_another(posed, tiny_gpt2)
    turned = torch.where(posed.held_out[:, None], -said, said)
    plain, other = (_Prepared(learner, Answered(posed, one), 0, lesson) for one in (said, turned))
    rows = torch.arange(len(posed.rows))
    assert torch.equal(plain.loss(learner, rows, lesson), other.loss(learner, rows, lesson))
    assert posed.held_out.any()
    assert torch.equal(plain.held_out_losses(learner), -other.held_out_losses(learner))


def test_warm_up_lowers_the_loss_of_its_sentences(learner: Adapted) -> None:
    sentences = [[5, 6, 7, 8, 9, 10]] * 8
    rows = torch.tensor([[0, 5, 6, 7, 8, 9]])
    wanted = torch.tensor([5, 6, 7, 8, 9, 10])
    before = float(learner.losses(learner.hidden(rows)[0], wanted).mean())
    warm_up(learner, sentences, 0, 0, Lesson(40, 4, 1e-2, 0, "kl"))
    assert float(learner.losses(learner.hidden(rows)[0], wanted).mean()) < 0.7 * before


@torch.no_grad()
def _roots(learner: Adapted, posed: Questions) -> Tensor:
    hidden = learner.hidden(posed.rows)[posed.asked[:, 0], posed.asked[:, 1]]
    return roots(learner, hidden, posed.candidates, posed.valid)
