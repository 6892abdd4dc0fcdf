"""What is asked: positions, ranks, candidates and the rest bucket, against numbers computed by hand."""

import math
from dataclasses import replace

import pytest
import torch

from hearsay.lm import LanguageModel
from hearsay.public import questions as q
from hearsay.public.questions import Choice, Questions, pose
from hearsay.stacked import Adapted, AdapterShape

CHOICE = Choice(
    count=40, candidates=6, top_p=0.9, tail=5, prefix_tokens=3, rank_threshold=None, holdout=0.25, seed=3
)  # fmt: skip
SENTENCES = [[5, 9, 7, 11, 30, 8, 4], [6, 6, 12, 40, 41], [9, 8, 7, 6, 5, 4, 3, 2]]


@pytest.fixture(scope="module")
def student(tiny_gpt2: LanguageModel) -> Adapted:
    return Adapted(tiny_gpt2.model, AdapterShape(rank=2, top_blocks=1))


@pytest.fixture(scope="module")
def posed(student: Adapted) -> Questions:
    return pose(student, SENTENCES, 0, 0, CHOICE)


def test_rows_carry_start_token_padding_and_what_comes_next() -> None:
    rows, lengths, targets = q.lay_out([[5, 9], [7]], start=1, end=2)
    assert rows.tolist() == [[1, 5, 9], [1, 7, 2]]
    assert lengths.tolist() == [3, 2]
    assert targets.tolist() == [[5, 9, 2], [7, 2, 2]]


def test_every_position_after_the_prefix_is_asked_once_the_end_of_a_sentence_included(posed: Questions) -> None:
    """A sentence of n tokens behind a start token has n + 1 places; the first three predict the prefix."""
    expected = {(row, place) for row, sentence in enumerate(SENTENCES) for place in range(3, len(sentence) + 1)}
    assert {tuple(place) for place in posed.asked.tolist()} == expected
    labels = dict(zip(map(tuple, posed.asked.tolist()), posed.labels.tolist(), strict=True))
    assert labels[0, 3] == 11 and labels[1, 5] == 0


def test_as_many_answers_are_held_out_as_are_to_be(posed: Questions) -> None:
    assert posed.held_out.sum() == round(CHOICE.holdout * len(posed)) > 0


def test_where_no_position_is_hard_enough_nothing_is_asked(student: Adapted, posed: Questions) -> None:
    none = pose(student, SENTENCES, 0, 0, replace(CHOICE, rank_threshold=10**6))
    assert len(none) == 0 and none.width == posed.width and none.tail.shape == (0, CHOICE.tail)


def test_ranks_count_likelier_tokens() -> None:
    odds = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]])
    assert q._ranks(odds, torch.tensor([2, 3])).tolist() == [2, 0]


def test_rank_selection_asks_only_where_the_label_is_ranked_badly(student: Adapted, posed: Questions) -> None:
    hard = pose(student, SENTENCES, 0, 0, replace(CHOICE, rank_threshold=10))
    ranks = {}
    for part, odds in q._probabilities(student, posed.rows, posed.asked):
        for place, rank in zip(posed.asked[part].tolist(), q._ranks(odds, posed.labels[part]).tolist(), strict=True):
            ranks[tuple(place)] = rank
    assert {tuple(p) for p in hard.asked.tolist()} == {place for place, rank in ranks.items() if rank >= 10}


def test_candidates_are_the_nucleus_and_tail_weights_are_one_over_the_chance() -> None:
    odds = torch.tensor([[0.4, 0.3, 0.2, 0.06, 0.04]])
    choice = replace(CHOICE, candidates=4, top_p=0.6, tail=2000)
    candidates, valid, tail, weight = q._candidates(odds, choice, torch.Generator().manual_seed(0))
    assert candidates.tolist() == [[0, 1, 2, 3]]
    assert valid.tolist() == [[True, True, False, False]]  # .4 + .3 crosses .6: the crossing token is kept
    assert set(tail[0].tolist()) <= {2, 3, 4}
    for token, log_weight in zip(tail[0].tolist()[:50], weight[0].tolist(), strict=False):
        chance = {2: 0.2, 3: 0.06, 4: 0.04}[token] / 0.3
        assert log_weight == pytest.approx(-math.log(2000 * chance), abs=1e-4)


def test_the_tail_estimates_the_rest_of_another_distribution_without_bias() -> None:
    """Tail tokens come from the student's rest; a teacher's rest mass is their weighted mean."""
    torch.manual_seed(0)
    student, teacher = torch.randn(1, 60).softmax(-1), torch.randn(1, 60)
    choice = replace(CHOICE, candidates=10, top_p=None, tail=20_000)
    candidates, _, tail, weight = q._candidates(student, choice, torch.Generator().manual_seed(1))
    estimate = torch.logsumexp(teacher.gather(1, tail) + weight, 1).exp()
    exact = teacher.exp().sum() - teacher.gather(1, candidates).exp().sum()
    assert float(estimate) == pytest.approx(float(exact), rel=0.05)


def test_a_name_covers_every_input_and_the_plan(posed: Questions) -> None:
    names = {posed.name("plan", 1), posed.name("plan", 2)}
    for field, change in (("rows", 1), ("candidates", 1), ("tail", 1), ("tail_weight", 0.5), ("asked", 0)):
        value = getattr(posed, field).clone()
        value.view(-1)[0] += change
        names.add(replace(posed, **{field: value}).name("plan", 1))
    assert len(names) == 2 + 4  # asked was not changed
    assert posed.name("plan", 1) == posed.name("plan", 1)


def test_the_same_bytes_in_another_shape_are_another_question(posed: Questions) -> None:
    wide, tall = torch.arange(12).view(2, 6), torch.arange(12).view(4, 3)
    assert replace(posed, candidates=wide).name() != replace(posed, candidates=tall).name()


def test_questions_survive_their_file(posed: Questions, tmp_path) -> None:  # type: ignore[no-untyped-def]
    posed.save(tmp_path / "questions.safetensors")
    assert Questions.load(tmp_path / "questions.safetensors").name("x") == posed.name("x")
