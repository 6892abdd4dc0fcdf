"""Rounds of updates: one unit moves the sum by at most its clip, nobody else's bits move, every round is paid."""

import dataclasses
import json
import math
import os
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from hearsay import lm as models
from hearsay import run as runs
from hearsay import updating, vocabulary
from hearsay.accounting import budget, costs, sampled, verify
from hearsay.accounting.bounds import STEPS, UNIT_BALL
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import Ledger
from hearsay.baselines import dpsgd
from hearsay.baselines.learner import Learner
from hearsay.baselines.units import Batch
from hearsay.config import Config, load
from hearsay.demo.airline import write_corpus
from hearsay.errors import BadInput, BudgetError, ConfigError
from hearsay.lm import LanguageModel, end_id, start_id
from hearsay.private import moves as moving
from hearsay.private import teaching
from hearsay.private.moves import Moves, frame_of, place_matters
from hearsay.private.packing import pack
from hearsay.private.training import TrainingShape
from hearsay.private.units import KINDS, Units
from hearsay.public.basis import _moments, whitened
from hearsay.public.server import Server, ServerSettings
from hearsay.public.shortlist import Vocabulary
from hearsay.public.weights import weights
from hearsay.release import door, updates
from hearsay.release.door import Question
from hearsay.release.grid import on_grid
from hearsay.release.updates import Crowd, Moving, ask_update, coins, full_scale, sampled_scale
from hearsay.sections import Updates
from hearsay.stacked import Adapted, StackedTop
from hearsay.stages import Watch
from hearsay.vocabulary import Shortlist, loss_slopes, short_slopes
from test_pipeline import SETTINGS, _calm_noise, _Counter, _generate, _in_child, _Killer, hearsay

SHAPE = TrainingShape(rank=2, top_blocks=2, row_tokens=32, rows_per_step=2, steps=1, warm_up=0, schedule="constant")
CPU = torch.device("cpu")


def _people(count: int, seed: int = 3) -> list[list[np.ndarray[Any, Any]]]:
    stream = np.random.default_rng(seed)
    return [
        [stream.integers(1, 300, stream.integers(3, 9)) for _ in range(stream.integers(0, 6))] for _ in range(count)
    ]


def _units(lm: LanguageModel, people: list[Any], shape: TrainingShape = SHAPE) -> Units:
    frame = frame_of(lm, shape)
    rows = [pack(mine, frame, np.random.default_rng(0)) for mine in people]
    arrays = tuple(np.stack([getattr(row, kind) for row in rows])[:, None] for kind in KINDS)
    return Units(arrays, pack([], frame, np.random.default_rng(0)))


def _crowd(
    lm: LanguageModel, people: list[Any], block: int = 4, clip: float = 0.3, steps: int = 1, words: int | None = None
) -> Crowd:
    shape = TrainingShape(**{**SHAPE.__dict__, "steps": steps})
    movers = Moves(StackedTop(lm.model, shape.adapter), shape, CPU, block)
    vocabulary = None if words is None else Vocabulary(_shares(movers.top.split.head.shape[0]), words, seed=1)
    return Crowd(_units(lm, people, shape), movers, len(people), clip, Fraction(1), "run", vocabulary)


def _shares(tokens: int) -> torch.Tensor:
    found = torch.rand(tokens, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 4
    return found / found.sum()


def _student(crowd: Crowd) -> torch.Tensor:
    return _start(crowd.moves)[0]


def _start(movers: Moves) -> torch.Tensor:
    start = movers.top.layout.initial()
    return (start + 0.05 * torch.randn(start.shape, generator=torch.Generator().manual_seed(5)))[None]


# What a round is


class _Scribe:
    """In the door's place: notes what a question is called, and answers nothing."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def ask(self, question: Question, _: Any) -> Any:
        self.names.append(question.name)
        return np.zeros((1, question.width), np.int64)


def test_a_round_is_named_by_all_that_decides_its_answer(tiny_gpt2: LanguageModel) -> None:
    """Two rounds under one name would be one answer: the second round would get the first one's noise again."""
    crowd, scribe = _crowd(tiny_gpt2, [[]]), _Scribe()
    student, scale = _student(crowd), Fraction(10**6)
    others = [{"run": "another"}, {"clip": 0.2}, {"declared": 7}, {"rate": Fraction(1, 2)}]
    rising = torch.linspace(0.5, 1.5, crowd.width)
    others += [{"weights": torch.ones(crowd.width)}, {"weights": rising}, {"weights": rising.flip(0)}]
    asked = [(crowd, student, 0, scale), (crowd, student, 1, scale), (crowd, student + 1e-3, 0, scale)]
    asked += [
        (crowd, student, 0, scale + 1),
        *((dataclasses.replace(crowd, **one), student, 0, scale) for one in others),
    ]
    for one in (*asked, asked[0]):
        ask_update(scribe, *one)  # type: ignore[arg-type]
    assert len(set(scribe.names)) == len(asked) and scribe.names[-1] == scribe.names[0]


def test_pages_follow_from_declared_numbers() -> None:
    body = {"data": {"private": ["a"], "public": ["b"], "units": 100, "mean_tokens": 19}, "privacy": {"corpus": "c"}}
    body |= {"teachers": {"count": 5, "row_tokens": 50}, "updates": {"rows": 2}}
    wanted = {300: 1, 1_500: 3, 100_000: 16}  # sentences: 60, 300 and 20,000 tokens a unit, 100 a page
    for sentences, pages in wanted.items():
        declared = {**body, "data": {**body["data"], "sentences": sentences}}
        assert Config.model_validate(declared).update_pages == pages
        own = Config.model_validate({**declared, "updates": {"rows": 2, "pages": 7}})
        assert own.update_pages == 7


def test_the_page_of_a_round_follows_from_its_number_alone(tiny_gpt2: LanguageModel) -> None:
    """If it depended on how many units there are, one more would turn the page for all."""
    shown: list[int] = []

    def note(units: Units, student: torch.Tensor, page: int, *_: Any) -> Any:
        shown.append(page)
        return iter(())

    for count in (3, 4):
        units = Units(tuple(np.zeros((count, 2, 1, 1), np.int32) for _ in KINDS), _units(tiny_gpt2, [[]]).empty)
        crowd = Crowd(units, note, 4, 0.3, Fraction(1), "run")  # type: ignore[arg-type]
        for number in range(3):
            assert not list(crowd.vectors(Moving(torch.zeros(1), number), np.arange(count)))
    assert shown == [0, 1, 0] * 2


# One unit, one vector


@pytest.mark.parametrize(
    ("steps", "words", "weighed"), [(1, None, False), (3, None, False), (1, 96, False), (1, None, True)]
)
def test_dropping_a_unit_removes_its_vector_and_moves_nobody_else(
    tiny: LanguageModel, steps: int, words: int | None, weighed: bool
) -> None:
    """On the grid, to the last step: the others shift to other places and blocks, and stay as they were."""
    people = _people(9)
    people[4] = [np.arange(1, 9)] * 200  # a very rich unit weighs no more than the others
    crowd = _crowd(tiny, people, steps=steps, words=words)
    weights = torch.rand(crowd.width, generator=torch.Generator().manual_seed(0)) * 3 + 0.05 if weighed else None

    def asked(others: list[Any], block: int = 4) -> Crowd:
        """As many units are declared, whoever is there."""
        made = _crowd(tiny, others, block, steps=steps, words=words)
        return dataclasses.replace(made, declared=9, weights=weights)

    student = _student(crowd)
    everyone = asked(people).total(student, 0).total
    for gone in (0, 4, 8):
        rest = asked(people[:gone] + people[gone + 1 :]).total(student, 0).total
        alone = asked([people[gone]], block=1)
        listed = alone.vocabulary.listed(0) if alone.vocabulary else None
        vector = on_grid(next(alone.vectors(Moving(student, 0, listed, weights), np.arange(1))), UNIT_BALL)
        assert torch.equal(everyone - rest, vector[0])
        assert int((vector.double() ** 2).sum()) <= STEPS**2
    assert int((everyone != 0).sum()) > 0


def test_a_unit_without_text_and_padding_count_as_exactly_zero(tiny_gpt2: LanguageModel) -> None:
    crowd = _crowd(tiny_gpt2, [[], [], []])
    assert not crowd.total(_student(crowd), 0).total.any()


def test_a_list_of_all_tokens_is_the_whole_vocabulary() -> None:
    stream = torch.Generator().manual_seed(0)
    hidden, head = (torch.randn(n, 8, generator=stream, dtype=torch.float64) for n in (20, 50))
    targets = torch.randint(0, 50, (20,), generator=stream)
    everything = Shortlist(torch.arange(50), torch.zeros(50), torch.ones(50, dtype=torch.bool))
    assert torch.allclose(short_slopes(hidden, head, targets, everything), loss_slopes(hidden, head, targets))
    # A target that is not listed still counts: once, in a column of its own.
    others = Shortlist(torch.arange(49), torch.zeros(49), torch.arange(50) < 49)
    only = torch.full((20,), 49)
    assert torch.allclose(short_slopes(hidden, head, only, others), loss_slopes(hidden, head, only))


def test_what_is_drawn_stands_for_all_that_is_not_listed() -> None:
    """Over many rounds the drawn tokens' weighted odds add up to those of all the others."""
    shares, odds = _shares(200), torch.rand(200, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    words = Vocabulary(shares, 60, seed=3)
    rounds = [words.listed(number) for number in range(400)]
    drawn = [(odds[one.tokens[40:]] * one.log_weights[40:].double().exp()).sum() for one in rounds]
    rest = odds[~rounds[0].likely].sum()
    spread = torch.stack(drawn).std() / 20
    assert abs(torch.stack(drawn).mean() - rest) < 5 * spread < 0.2 * rest
    assert torch.equal(rounds[0].tokens[:40], torch.argsort(shares, descending=True)[:40])  # the likeliest, always
    assert not torch.equal(rounds[0].tokens, rounds[1].tokens)
    assert torch.equal(rounds[7].tokens, Vocabulary(shares, 60, seed=3).listed(7).tokens)  # as a resumed run sees it


def test_another_vocabulary_is_another_question(tiny_gpt2: LanguageModel) -> None:
    plans = {_crowd(tiny_gpt2, _people(2), words=words).plan() for words in (None, 96, 128)}
    assert len(plans) == 3


def test_where_place_matters_units_go_one_at_a_time(tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = _crowd(tiny_gpt2, _people(3))
    frame = frame_of(tiny_gpt2, SHAPE)
    assert not place_matters(crowd.moves, frame, 300)
    healthy = Moves.of

    def leaky(self: Moves, rows: Any, first: torch.Tensor, listed: Any = None) -> torch.Tensor:
        found = healthy(self, rows, first, listed)
        return found + 1e-7 * torch.arange(len(found))[:, None]  # as a kernel that rounds by place

    monkeypatch.setattr(Moves, "of", leaky)
    assert place_matters(crowd.moves, frame, 300)
    assert moving.moves(_stack(crowd, tiny_gpt2), SHAPE, 4).block == 1
    monkeypatch.undo()
    assert moving.moves(_stack(crowd, tiny_gpt2), SHAPE, 4, later=updates.place_on_grid_matters).block == 4
    assert moving.moves(_stack(crowd, tiny_gpt2), SHAPE, 4, later=lambda _: True).block == 1


def _stack(crowd: Crowd, lm: LanguageModel) -> Any:
    return type("Stack", (), {"top": crowd.moves.top, "device": CPU, "lm": lm})


@pytest.mark.parametrize(("room", "block"), [(8, 8), (3, 2), (0, 1)])
def test_where_memory_is_short_fewer_units_share_a_launch(
    tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch, room: int, block: int
) -> None:
    crowd, healthy = _crowd(tiny_gpt2, _people(3)), Moves.of

    def short(self: Moves, *given: Any) -> torch.Tensor:
        if self.block > room:
            raise torch.OutOfMemoryError("injected")
        return healthy(self, *given)

    monkeypatch.setattr(Moves, "of", short)
    assert moving.moves(_stack(crowd, tiny_gpt2), SHAPE, 8).block == block


@pytest.mark.parametrize("words", [None, 96])
def test_the_last_part_of_a_launch_rounds_like_the_others(
    tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch, words: int | None
) -> None:
    """259 places in parts of at most 43 would leave one place over, whose product has another shape."""
    monkeypatch.setattr(vocabulary, "chunk_rows", lambda head: 43)
    shape = TrainingShape(**{**SHAPE.__dict__, "row_tokens": 37, "rows_per_step": 1})
    movers = Moves(StackedTop(tiny_gpt2.model, shape.adapter), shape, CPU, 7)
    tokens = movers.top.split.head.shape[0]
    listed = None if words is None else Vocabulary(_shares(tokens), words, seed=1).listed(0)
    frame = frame_of(tiny_gpt2, shape)
    assert not place_matters(movers, frame, tokens, listed)
    full = pack([np.arange(1, 37)] * 3, frame, np.random.default_rng(0))
    block: Any = tuple(np.stack([getattr(full, kind)] * 7) for kind in KINDS)
    moved = movers.of(block, _start(movers), listed)
    assert torch.equal(moved, moved[:1].expand_as(moved)) and moved.any()


def test_one_local_step_is_opacus_dp_sgd_before_noise(tiny: LanguageModel) -> None:
    """At B = 0 the A's have no gradient, so that Opacus on both halves clips and sums the very same vectors."""
    people = [person or [np.arange(1, 6)] for person in _people(7)]
    crowd = _crowd(tiny, people, clip=1.0)
    start, top = crowd.moves.top.layout.initial(), crowd.moves.top
    frame = frame_of(tiny, TrainingShape(**{**SHAPE.__dict__, "rows_per_step": 1, "row_tokens": 64}))
    rows = [pack(mine, frame, np.random.default_rng(0)) for mine in people]
    batch = Batch(*(torch.from_numpy(np.stack([getattr(row, kind)[0] for row in rows])).long() for kind in KINDS))
    shape = TrainingShape(**{**SHAPE.__dict__, "rows_per_step": 1, "row_tokens": 64})
    ours = Crowd(_units(tiny, people, shape), Moves(top, shape, CPU, 7), 7, 1.0, Fraction(1), "run")
    vectors = torch.cat(list(ours.moves(ours.units, start, 0)))
    clip = float(vectors.norm(dim=1).median())  # some are clipped, some are not
    ours = Crowd(ours.units, ours.moves, 7, clip, Fraction(1), "run")
    got = -ours.total(start, 0).total[0].double() / STEPS * clip
    want = dpsgd.clipped_sum(Learner(tiny, top, start), batch, clip)[top.layout.outputs()].double()
    assert torch.allclose(got, want, atol=2e-5 * float(want.abs().max()), rtol=0)


def test_coordinates_are_weighed_before_the_bound(tiny_gpt2: LanguageModel) -> None:
    """Weighed afterwards, a unit could reach as far as the largest weight; the noise is for a reach of one clip."""
    people = [person or [np.arange(1, 6)] for person in _people(6)]
    crowd = _crowd(tiny_gpt2, people)
    student, weighed = _student(crowd), torch.linspace(0.02, 0.6, crowd.width)
    vectors = torch.cat(list(crowd.moves(crowd.units, student, 0)))[: len(people)] * weighed
    crowd = dataclasses.replace(crowd, clip=float(vectors.norm(dim=1).median()))  # the bound bites for some
    vectors /= crowd.clip
    want = (vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1)).double().sum(0)
    got = dataclasses.replace(crowd, weights=weighed).total(student, 0).total[0].double() / STEPS
    assert torch.allclose(got, want, atol=1e-5)
    one = dataclasses.replace(crowd, weights=weighed * 100, units=_units(tiny_gpt2, people[:1]))
    assert one.total(student, 0).total.double().norm() / STEPS <= 1


def test_the_mean_divides_by_the_declared_number(tiny_gpt2: LanguageModel) -> None:
    """A divisor that counts units would tell their number, whatever the noise."""
    crowd = dataclasses.replace(_crowd(tiny_gpt2, _people(5)), declared=40, rate=Fraction(1, 2))

    class Plain:
        def ask(self, question: Question, contributions: object) -> np.ndarray[Any, Any]:
            assert question.rate == Fraction(1, 2)
            return np.full((1, crowd.width), 40 * STEPS)

    found = ask_update(Plain(), crowd, _student(crowd), 0, Fraction(STEPS))  # type: ignore[arg-type]
    assert torch.equal(found, torch.full((crowd.width,), 2.0, dtype=torch.float64))


def test_only_units_whose_coin_fell_take_part(tiny_gpt2: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round charged as a sample must be one: the sum is that of the chosen alone."""
    people = [person or [np.arange(1, 6)] for person in _people(9)]
    crowd = dataclasses.replace(_crowd(tiny_gpt2, people), rate=Fraction(1, 2))
    fell = np.array([True, False, True, True, False, False, False, True, False])
    monkeypatch.setattr(updates, "coins", lambda rate, count: fell)
    student = _student(crowd)
    chosen = _crowd(tiny_gpt2, [person for person, here in zip(people, fell, strict=True) if here])
    assert torch.equal(crowd.total(student, 0).total, chosen.total(student, 0).total)
    monkeypatch.setattr(updates, "coins", lambda rate, count: np.zeros(9, bool))
    assert not crowd.total(student, 0).total.any()


# Coins, scales, costs


def test_coins_fall_by_chance_at_their_rate() -> None:
    rate, count = Fraction(35, 100), 200_000
    heads = int(coins(rate, count).sum())
    assert abs(heads - 0.35 * count) < 5.5 * math.sqrt(0.35 * 0.65 * count)  # false alarm: 4e-8
    assert (coins(rate, 4000) != coins(rate, 4000)).any()
    assert not coins(Fraction(1, 2**80), 1000).any() and coins(Fraction(1), 1000).all()


def test_full_rounds_cost_exactly_their_share() -> None:
    allowed = budget.make(3.0, 1e-6)
    share = allowed.capacity / 60 - costs.UNIT
    question = Question("u", "update", UNIT_BALL, 1, 1000, full_scale(share))
    assert share * (1 - Fraction(1, 10**6)) < costs.mu_squared(question.event) <= share


def test_a_sampled_round_is_charged_as_what_was_committed() -> None:
    event = sampled.schedule_for(3.0, 1e-6, Fraction(1, 4), 20)
    question = Question("u", "update", UNIT_BALL, 1, 500, sampled_scale(event), rate=Fraction(1, 4))
    assert question.event == SubsampledGaussian(Fraction(1, 4), event.noise_multiplier, 1, 500)
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.pld import PLDAccountant

    theirs = PLDAccountant()
    one = PoissonSampledDpEvent(0.25, GaussianDpEvent(float(question.event.noise_multiplier)))
    theirs.compose(SelfComposedDpEvent(one, 20))
    ours = costs.compose([question.event] * 20).get_epsilon_for_delta(1e-6)
    assert ours == pytest.approx(theirs.get_epsilon(1e-6), rel=2e-3) and ours <= 3


def test_only_one_gaussian_sum_of_unit_vectors_can_be_sampled() -> None:
    with pytest.raises(ConfigError):
        Question("u", "update", UNIT_BALL, 2, 5, Fraction(1), rate=Fraction(1, 2))


# The public side


def test_the_server_is_adam_and_averages_its_last_rounds() -> None:
    settings = ServerSettings(rounds=8, learning_rate=0.1, average=0.25)
    start, places = torch.arange(5.0), torch.tensor([1, 3])
    server, stream = Server(start, places, settings), torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(start[places].clone())
    adam = torch.optim.Adam([weight], betas=(0.9, 0.99), eps=1e-12)
    seen = []
    for _ in range(8):
        update = torch.randn(2, generator=stream)
        server.step(update)
        adam.param_groups[0]["lr"] = server._rate()
        weight.grad = -update
        adam.step()
        assert torch.allclose(server.student[places], weight, atol=1e-6)
        seen.append(server.student.clone())
    assert torch.equal(server.student[[0, 2, 4]], start[[0, 2, 4]])  # what does not move stays
    assert torch.allclose(server.result, (seen[-1] + seen[-2]) / 2, atol=1e-6)


def test_a_server_with_momentum_goes_the_mean_of_what_it_heard() -> None:
    settings = ServerSettings(rounds=3, learning_rate=0.5, optimiser="momentum", average=0.0)
    server = Server(torch.zeros(2), torch.tensor([1]), settings)
    heard, place = [4.0, -2.0, 1.0], 0.0
    for turn, update in enumerate(heard, start=1):
        server.step(torch.tensor([update]))
        weights = [0.9 ** (turn - i) for i in range(1, turn + 1)]
        place += server._rate() * sum(w * h for w, h in zip(weights, heard, strict=False)) / sum(weights)
        assert server.student.tolist() == pytest.approx([0.0, place], abs=1e-6)


def test_the_server_weighs_the_way_back() -> None:
    settings, places, weighed = (
        ServerSettings(rounds=4, learning_rate=0.1),
        torch.tensor([1, 3]),
        torch.tensor([2.0, 0.5]),
    )
    plain, other = Server(torch.zeros(5), places, settings), Server(torch.zeros(5), places, settings, weighed)
    for update in torch.randn(4, 2, generator=torch.Generator().manual_seed(0)):
        plain.step(update)
        other.step(update)
    assert torch.allclose(other.result[places], plain.result[places] * weighed) and plain.result.any()


def test_weights_are_fourth_roots_of_public_second_moments(tiny: LanguageModel) -> None:
    stream = np.random.default_rng(0)
    sentences = [stream.integers(1, 300, 7).tolist() for _ in range(12)]
    student = Adapted(tiny.model, SHAPE.adapter, _start(Moves(StackedTop(tiny.model, SHAPE.adapter), SHAPE, CPU, 1)))
    first, end = start_id(tiny), end_id(tiny)
    found = weights(student, sentences, first, end, parcel=3)
    # The same gradients by the units' own code: four units of three sentences, each packed into rows.
    frame = frame_of(tiny, SHAPE)
    units = _units(tiny, [[np.array(one) for one in sentences[n : n + 3]] for n in range(0, 12, 3)])
    movers = Moves(student.top, SHAPE, CPU, 4)
    slopes = torch.cat(list(movers(units, student.flat.detach()[0], 0)))
    assert frame.rows * frame.row_tokens >= 3 * 9  # nothing was cut off
    places = student.top.layout.outputs()
    for slot in student.top.layout.slots:
        mine = (places >= slot.start) & (places < slot.start + (slot.inputs + slot.outputs) * SHAPE.rank)
        moment = slopes[:, mine].double().square().mean(0)
        want = (moment / moment.mean()).clamp_min(1e-4) ** -0.25
        assert torch.allclose(found[mine].double(), want / want.square().mean().sqrt(), rtol=1e-3)
        assert float(found[mine].square().mean()) == pytest.approx(1, rel=1e-5)


def test_weights_are_those_of_gradients() -> None:
    body = {"data": {"private": ["a"], "public": ["b"], "units": 9, "sentences": 9}, "privacy": {"corpus": "c"}}
    body |= {"teachers": {"count": 5}}
    for steps, resolved in {1: "public", 3: "equal"}.items():
        assert Config.model_validate({**body, "updates": {"local_steps": steps}}).update_weights == resolved
    assert Updates().weights is None and Updates(weights="equal", local_steps=3).weights == "equal"
    with pytest.raises(ValueError, match="local_steps 1, or weights: equal"):
        Updates(weights="public", local_steps=2)


def test_inner_halves_see_every_main_direction_equally(tiny: LanguageModel) -> None:
    top = StackedTop(tiny.model, SHAPE.adapter)
    stream = np.random.default_rng(0)
    sentences = [stream.integers(1, 300, stream.integers(4, 20)).tolist() for _ in range(80)]
    flat = whitened(top, top.layout.initial(), sentences, 0, 0)
    moments = _moments(top, sentences, 0, 0)
    for a, b, moment in zip(
        top.layout.views(flat[None])[::2], top.layout.views(flat[None])[1::2], moments, strict=True
    ):
        seen = a[0].double().T @ moment @ a[0].double()
        assert torch.allclose(seen, torch.eye(2, dtype=torch.float64) * seen[0, 0], atol=1e-4 * float(seen[0, 0]))
        assert not b.any()  # still the public model
    assert not any(layer._forward_pre_hooks for layer in top.layers())


# Through the command line


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> Path:
    folder = tmp_path_factory.mktemp("updates")
    write_corpus(folder, private_customers=60, public_customers=20, holdout_customers=8, seed=1)
    models.save(tiny_gpt2, folder / "model", "tiny")
    body = json.loads(json.dumps(SETTINGS))
    body["model"] = str(folder / "model")
    body["ask"] |= {"recipe": "mixed", "rounds": 1}
    body["updates"] = {"rounds": 3, "rows": 1, "clip": 0.5, "pages": 2, "share": 0.5}
    (folder / "hearsay.yaml").write_text(yaml.safe_dump(body))
    return folder


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))


def _variant(desk: Path, name: str, **changes: dict[str, Any]) -> Path:
    body = yaml.safe_load((desk / "hearsay.yaml").read_text())
    for section, values in changes.items():
        body[section] = {**body.get(section, {}), **values}
    (desk / f"{name}.yaml").write_text(yaml.safe_dump(body))
    return desk / f"{name}.yaml"


@pytest.mark.parametrize(
    ("recipe", "sample", "charges"), [("updates", 1.0, 3), ("updates", 0.5, 3), ("mixed", 1.0, 4), ("mixed", 0.5, 4)]
)
def test_every_mix_stays_within_one_budget(
    desk: Path, tmp_path: Path, recipe: str, sample: float, charges: int
) -> None:
    config = _variant(desk, f"{recipe}-{sample}", ask={"recipe": recipe}, updates={"sample": sample, "vocabulary": 96})
    assert hearsay("run", config, "--out", tmp_path / "run", "--anyway", "--json") == 0
    verdict = verify.verify(Ledger.open(runs.open_run(tmp_path / "run").ledger))
    assert verdict.ok, verdict.problems
    assert verdict.charges == charges and 2.9 < verdict.epsilon <= 3
    assert hearsay("evaluate", tmp_path / "run", "--completions", 4, "--json") == 0


def test_a_sample_that_was_not_committed_is_refused(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = _variant(desk, "first", ask={"recipe": "updates"}, privacy={"spend": 0.5})
    assert hearsay("run", first, "--out", tmp_path / "one", "--anyway", "--json") == 0
    second = _variant(desk, "second", ask={"recipe": "updates"}, updates={"sample": 0.5}, privacy={"spend": 0.5})
    assert hearsay("run", second, "--out", tmp_path / "two", "--anyway", "--json") == 3
    assert "set updates.sample to 1" in capsys.readouterr().err
    with pytest.raises(BudgetError):
        Ledger.open(runs.open_run(tmp_path / "two").ledger).budget.cost(SubsampledGaussian(Fraction(1, 2), Fraction(1)))


def test_a_schedule_pays_for_one_run_and_says_so_before_anything_is_read(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = _variant(desk, "half", ask={"recipe": "updates"}, updates={"sample": 0.5}, privacy={"spend": 0.5})
    assert hearsay("run", settings, "--out", tmp_path / "one", "--anyway", "--json") == 0
    assert hearsay("run", settings, "--out", tmp_path / "one", "--anyway", "--json") == 0  # its own: nothing is new
    capsys.readouterr()
    assert hearsay("run", settings, "--out", tmp_path / "two", "--anyway") == 3
    assert "set updates.sample to 1" in capsys.readouterr().err
    assert not (tmp_path / "two" / "private" / "shards").exists()
    assert hearsay("plan", settings) == 0 and "set updates.sample to 1" in capsys.readouterr().out


def test_beside_anothers_samples_a_mix_divides_what_is_left(desk: Path, tmp_path: Path) -> None:
    first = _variant(desk, "third", ask={"recipe": "updates"}, updates={"sample": 0.5}, privacy={"spend": 0.3})
    assert hearsay("run", first, "--out", tmp_path / "one", "--anyway", "--json") == 0
    second = _variant(desk, "rest", updates={"share": 0.9}, privacy={"spend": 0.65})
    assert hearsay("run", second, "--out", tmp_path / "two", "--anyway", "--json") == 0
    assert hearsay("ledger", "verify", tmp_path / "two") == 0


def test_after_a_committed_sample_nothing_is_left(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not 100% of a crumb: the next run is refused at once, whatever its rounds, instead of drowning in noise."""
    first = _variant(desk, "sampled", ask={"recipe": "updates"}, updates={"sample": 0.5})
    assert hearsay("run", first, "--out", tmp_path / "one", "--anyway", "--json") == 0
    capsys.readouterr()
    assert hearsay("ledger", "show", tmp_path / "one", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["left"] < 0.01 and sum(one["share"] for one in shown["charges"]) == pytest.approx(1, abs=0.01)
    assert hearsay("ledger", "show", tmp_path / "one") == 0
    told = capsys.readouterr().out
    assert "100.0%" not in told and told.count("gaussian") == 1 and "rounds" in told  # all in one line
    for name, rounds in {"all": {"rounds": 3}, "others": {"sample": 0.5, "rounds": 3}}.items():
        again = _variant(desk, name, ask={"recipe": "updates"}, updates=rounds)
        assert hearsay("run", again, "--out", tmp_path / name, "--anyway", "--json") == 3
        told = capsys.readouterr().err
        assert "of its budget left" in told and "no further run can ask" in told
        assert not (tmp_path / name / "release" / "stages" / "warm-up.safetensors").exists()
    assert hearsay("run", first, "--out", tmp_path / "one", "--anyway", "--json") == 0  # its own goes on


def test_a_runs_weights_are_stored_once_and_weigh_both_ways(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed again they might differ in a bit: rounds that were paid for would be asked again by another name."""
    seen: list[torch.Tensor | None] = []

    def another(student: Adapted, *_: Any) -> torch.Tensor:
        return torch.rand(len(student.top.layout.outputs())) + 0.5

    def server(*given: Any) -> Server:
        seen.append(given[3])
        return Server(*given)

    def ask(door: Any, crowd: Crowd, student: torch.Tensor, number: int, scale: Fraction) -> torch.Tensor:
        seen.append(crowd.weights)
        if len(seen) == 3:
            raise InterruptedError
        return ask_update(door, crowd, student, number, scale)

    for name, value in {"weights": another, "Server": server, "ask_update": ask}.items():
        monkeypatch.setattr(updating, name, value)
    with pytest.raises(InterruptedError):
        _generate(desk, tmp_path)
    _generate(desk, tmp_path)
    stored = load_file(tmp_path / "run" / "release" / "stages" / "weights.safetensors")["value"]
    assert len(seen) > 6 and all(one is not None and torch.equal(one, stored) for one in seen)
    assert verify.verify(Ledger.open(tmp_path / "home" / "ledger.sqlite")).charges == 4


def test_killed_between_rounds_and_resumed_gives_the_same_student(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "rounded_normal", _calm_noise)
    _Counter.seen = 0
    _generate(desk, tmp_path / "whole", _Counter)
    wanted = (tmp_path / "whole" / "run" / "release" / "student" / "model.safetensors").read_bytes()
    for moment in np.linspace(2, _Counter.seen - 1, 6).astype(int).tolist():
        out = tmp_path / f"killed-{moment}"
        _Killer.left = moment
        assert _in_child(lambda out=out: _generate(desk, out, _Killer)) == -signal.SIGKILL
        assert _in_child(lambda out=out: _generate(desk, out)) == 0
        assert (out / "run" / "release" / "student" / "model.safetensors").read_bytes() == wanted
        verdict = verify.verify(Ledger.open(out / "home" / "ledger.sqlite"))
        assert verdict.ok and verdict.charges == 4, verdict.problems


def test_a_machine_that_computes_otherwise_does_not_pay_again(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where `auto` is another precision, a round that was paid for has another name."""

    class Stopped(Watch):
        def progress(self, done: int, total: int) -> None:
            if self.name == "updates" and done == 2:
                raise InterruptedError

    def paid() -> int:
        return len(Ledger.open(tmp_path / "home" / "ledger.sqlite").charges())

    with pytest.raises(InterruptedError):
        _generate(desk, tmp_path, Stopped)
    assert paid() == 2
    here = teaching.training_shape(load(desk / "hearsay.yaml")).precision
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(teaching, "_precision", lambda _: "model" if here == "bfloat16" else "bfloat16")
        with pytest.raises(BadInput, match="update, round 1 was paid for"):
            _generate(desk, tmp_path)
    assert paid() == 2
    _generate(desk, tmp_path)
    assert paid() == 4


def test_how_many_units_there_are_shows_in_private_only(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes of everything outside private/ are the same when units are missing: shapes come from public settings."""
    divisors: set[int] = set()

    def crowd(units: Units, movers: Moves, declared: int, *rest: Any) -> Crowd:
        divisors.add(declared)
        return Crowd(units, movers, declared, *rest)

    monkeypatch.setattr(updates, "Crowd", crowd)

    def sizes(private: Path, out: Path) -> dict[str, int]:
        body = yaml.safe_load((desk / "hearsay.yaml").read_text())
        body["ask"]["recipe"] = "updates"
        body["data"]["private"] = str(private)
        (out.parent / f"{out.name}.yaml").write_text(yaml.safe_dump(body | {"data": _absolute(body["data"], desk)}))
        os.environ["HEARSAY_HOME"] = str(out / "home")
        assert hearsay("run", out.parent / f"{out.name}.yaml", "--out", out / "run", "--anyway", "--json") == 0
        release = out / "run" / "release" / "answers"
        return {str(i): path.stat().st_size for i, path in enumerate(sorted(release.iterdir()))}

    fewer = tmp_path / "fewer.jsonl"
    rows = (desk / "private.jsonl").read_text().splitlines()
    users = sorted({json.loads(row)["user"] for row in rows})[:20]
    fewer.write_text("\n".join(row for row in rows if json.loads(row)["user"] in users) + "\n")
    assert sizes(desk / "private.jsonl", tmp_path / "all") == sizes(fewer, tmp_path / "some")
    assert divisors == {SETTINGS["data"]["units"]}


def _absolute(data: dict[str, Any], desk: Path) -> dict[str, Any]:
    names = ("private", "public", "holdout")
    return {key: str(desk / value) if key in names else value for key, value in data.items()}
