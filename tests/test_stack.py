"""Stacked teachers: they compute what single models compute, and none can see another's shard."""

import copy
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import PeftModel
from torch import Tensor

from conftest import VOCABULARY
from hearsay import vocabulary
from hearsay.adapter_files import write_peft
from hearsay.errors import DataError, ModelError
from hearsay.lm import LanguageModel, end_id, start_id
from hearsay.private import stack as stacks
from hearsay.private.packing import Frame, pack
from hearsay.private.stack import Stack
from hearsay.private.store import AdapterStore, export_peft, merge
from hearsay.private.training import BlockState, TrainingShape, advance
from hearsay.split import checked_split, plain_attention, sentence_mask
from hearsay.stacked import Adapted, AdapterShape, Contexts

SHAPE = TrainingShape(rank=2, alpha=4.0, row_tokens=24, rows_per_step=2, steps=4, learning_rate=1e-2, warm_up=2)
Shard = list[np.ndarray]


def shard(seed: int, count: int = 12) -> Shard:
    stream = np.random.default_rng(seed)
    low = VOCABULARY - 60  # random text, of a kind: each shard favours its own corner of the vocabulary
    return [1 + (stream.integers(0, low, n) + 7 * seed) % (low - 1) for n in stream.integers(3, 12, count)]


SHARDS = [shard(m) for m in range(5)]


def trained(
    lm: LanguageModel, shards: list[Shard], folder: Path, *, shape: TrainingShape = SHAPE, block: int = 2, wave: int = 1
) -> tuple[Stack, AdapterStore]:
    stack = Stack(lm, shape, block=block, device="cpu", wave=wave)
    store = stack.store(folder, count=len(shards), generation=3)
    stack.train(shards.__getitem__, len(shards), generation=3, store=store)
    return stack, store


@pytest.fixture(scope="module")
def five(tiny_gpt2: LanguageModel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Stack, AdapterStore]:
    return trained(tiny_gpt2, SHARDS, tmp_path_factory.mktemp("five"))


def questions() -> tuple[Contexts, Tensor]:
    source = torch.Generator().manual_seed(1)
    rows = torch.randint(1, VOCABULARY - 60, (5, 9), generator=source)
    asked = torch.tensor([[4, 8], [0, 0], [2, 3], [2, 4], [1, 7]])
    return Contexts(rows, torch.full((5,), 9), asked), torch.randint(0, VOCABULARY - 60, (5, 6), generator=source)


def asked_all(stack: Stack, store: AdapterStore, normalise: bool = False) -> Tensor:
    return torch.cat([logits for _, logits in stack.answers(store, *questions(), normalise=normalise)])


def on_grid(logits: Tensor) -> Tensor:
    return (torch.softmax(logits.double(), -1) * 2**20).floor().long()


# The same numbers as the plain model


@pytest.mark.parametrize("top_blocks", [1, 3])
def test_trunk_and_top_are_the_whole_model(tiny: LanguageModel, top_blocks: int) -> None:
    split = checked_split(tiny.model, top_blocks)
    tokens = torch.randint(0, VOCABULARY - 60, (3, 17))
    got = split.top(split.trunk(tokens)) @ split.head.T
    assert torch.allclose(got, tiny.model(tokens).logits, atol=1e-5)


def test_packed_sentences_are_separate_sentences(tiny: LanguageModel) -> None:
    split = checked_split(tiny.model, 2)
    sentences = [torch.randint(1, 200, (n,)) for n in (5, 9, 3)]
    packed = torch.cat(sentences)[None]
    positions = torch.cat([torch.arange(len(s)) for s in sentences])[None]
    got = (split.top(split.trunk(packed, positions), positions) @ split.head.T)[0]
    want = torch.cat([tiny.model(s[None]).logits[0] for s in sentences])
    assert torch.allclose(got, want, atol=1e-5)


def test_an_unknown_architecture_is_refused(tiny_gpt2: LanguageModel) -> None:
    twisted = copy.deepcopy(tiny_gpt2.model)
    twisted.lm_head.register_forward_hook(lambda module, given, out: out.tanh())  # as some models cap their logits
    with pytest.raises(ModelError, match="whole model"):
        checked_split(twisted, 1)
    with pytest.raises(ModelError, match="need a GPT-2"):
        checked_split(twisted.transformer, 1)
    with pytest.raises(ModelError, match="1 to 3"):
        checked_split(tiny_gpt2.model, 4)


def test_the_slope_of_the_loss_is_its_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the vocabulary rounded up as on a GPU, and in several chunks."""
    monkeypatch.setattr(vocabulary, "ALIGNED", {"cpu": 64})
    monkeypatch.setattr(vocabulary, "CHUNK_CELLS", {"cpu": 16 * 101})
    head, targets = torch.randn(101, 8), torch.randint(0, 101, (40,))
    hidden = torch.randn(40, 8, requires_grad=True)
    plain = torch.nn.functional.cross_entropy(hidden @ head.T, targets, reduction="none")
    (want,) = torch.autograd.grad(plain.sum(), hidden)
    assert torch.allclose(vocabulary.loss_slopes(hidden.detach(), head, targets), want, atol=1e-5)
    losses = vocabulary.token_losses(hidden, head, targets)
    assert torch.allclose(losses, plain, atol=1e-5)
    assert torch.allclose(torch.autograd.grad(losses.sum(), hidden)[0], want, atol=1e-5)


def reference(lm: LanguageModel, teacher: int, folder: Path) -> PeftModel:
    """The same rows, one adapter, PEFT and torch.optim, sentences unpacked: only the rows come from the stack."""
    stack = Stack(lm, SHAPE, block=1, device="cpu")
    write_peft(lm, stack.top, stack.top.layout.initial(), folder)
    model = PeftModel.from_pretrained(copy.deepcopy(lm.model), folder, is_trainable=True)
    weights = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.Adam(weights, betas=SHAPE.betas, eps=SHAPE.epsilon)
    rows = stack.rows(SHARDS[teacher], 3, teacher)
    for step in range(SHAPE.steps):
        part = slice(step * SHAPE.rows_per_step, (step + 1) * SHAPE.rows_per_step)
        tokens, targets, positions = (
            np.concatenate(list(a[part])) for a in (rows.tokens, rows.targets, rows.positions)
        )
        starts = [*np.flatnonzero(positions == 0), len(tokens)]
        losses = []
        for a, b in pairwise(starts):
            if targets[a] >= 0:
                logits = model(torch.tensor(tokens[None, a:b]).long()).logits[0]
                losses.append(
                    torch.nn.functional.cross_entropy(logits, torch.tensor(targets[a:b]).long(), reduction="none")
                )
        adam.zero_grad()
        torch.cat(losses).mean().backward()
        torch.nn.utils.clip_grad_norm_(weights, SHAPE.clip_norm)
        adam.param_groups[0]["lr"] = SHAPE.rate(step)
        adam.step()
    return model


def test_a_stack_is_peft_trained_one_at_a_time(tiny: LanguageModel, tmp_path: Path) -> None:
    stack, store = trained(tiny, SHARDS[:3], tmp_path / "store", block=4)
    contexts, candidates = questions()
    got = asked_all(stack, store)
    base = tiny.model(contexts.rows).logits
    for teacher in range(3):
        logits = reference(tiny, teacher, tmp_path / f"peft{teacher}")(contexts.rows).logits
        want = logits[contexts.asked[:, 0], contexts.asked[:, 1]].gather(1, candidates)
        assert torch.allclose(got[teacher], want, atol=2e-3)
        before = base[contexts.asked[:, 0], contexts.asked[:, 1]].gather(1, candidates)
        assert (want - before).abs().max() > 0.05  # the training did move something


def test_a_stack_is_as_many_single_trainings(five: tuple[Stack, AdapterStore], tmp_path: Path) -> None:
    stack, store = five
    for teacher in range(5):
        alone = Stack(stack.lm, SHAPE, block=1, device="cpu")
        (_, flat) = next(alone.trained(lambda m: SHARDS[m], 5, generation=3, blocks=[teacher]))
        assert torch.allclose(flat[0], store.teacher(teacher), atol=1e-5)


# No teacher sees another's shard


@pytest.mark.parametrize("other", ["larger", "empty", "loud"])
def test_changing_one_shard_changes_no_other_teacher(
    five: tuple[Stack, AdapterStore], tmp_path: Path, other: str
) -> None:
    """`loud`: one token over and over, with a gradient far above the clip. A global clip would shrink everyone's."""
    stack, store = five
    new = {"larger": shard(99, 1200), "empty": [], "loud": [np.full(11, 17)] * 12}[other]
    _, changed = trained(stack.lm, [*SHARDS[:2], new, *SHARDS[3:]], tmp_path, wave=2)
    before, after = asked_all(stack, store), asked_all(stack, changed)
    for teacher in (0, 1, 3, 4):
        assert torch.equal(store.teacher(teacher), changed.teacher(teacher))
        assert torch.equal(on_grid(before[teacher]), on_grid(after[teacher]))
    assert not torch.equal(on_grid(before[2]), on_grid(after[2]))


def test_a_huge_gradient_leaves_other_updates_alone() -> None:
    def after(neighbour: float) -> BlockState:
        grad = torch.stack([torch.full((6,), 0.1), torch.full((6,), neighbour)])
        state = BlockState(*(torch.zeros(2, 6) for _ in range(6)))
        advance(state, grad, 0, SHAPE)
        return state

    quiet, loud = after(0.0), after(1e6)
    assert torch.equal(quiet.flat[0], loud.flat[0]) and torch.equal(quiet.first[0], loud.first[0])
    assert torch.linalg.vector_norm(loud.first[1]) <= 1.0001 * SHAPE.clip_norm * (1 - SHAPE.betas[0])
    assert torch.equal(quiet.flat[1], torch.zeros(6))


def out_of_memory(largest: int) -> Callable[[int], None]:
    def launch(wave: int) -> None:
        if wave > largest:
            raise torch.OutOfMemoryError("injected")

    return launch


def test_falling_back_to_smaller_waves_changes_nothing(five: tuple[Stack, AdapterStore], tmp_path: Path) -> None:
    plain, store = five
    stack = Stack(plain.lm, SHAPE, block=2, device="cpu", wave=3)
    stack.on_launch = out_of_memory(1)
    again = stack.store(tmp_path, count=5, generation=3)
    seen: list[tuple[int, int]] = []
    stack.train(
        SHARDS.__getitem__, 5, generation=3, store=again, progress=lambda done, total: seen.append((done, total))
    )
    assert all(again.path(b).read_bytes() == store.path(b).read_bytes() for b in range(3))
    assert torch.equal(on_grid(asked_all(stack, again)), on_grid(asked_all(plain, store)))
    assert seen[-1] == (12, 12)


def test_one_block_that_does_not_fit_says_what_to_change(tiny_gpt2: LanguageModel, tmp_path: Path) -> None:
    stack = Stack(tiny_gpt2, SHAPE, block=2, device="cpu")
    stack.on_launch = out_of_memory(0)
    with pytest.raises(ModelError, match=r"GiB.*compute\.block"):
        stack.train(SHARDS.__getitem__, 5, generation=0, store=stack.store(tmp_path, count=5, generation=0))


def test_an_empty_shard_answers_with_the_base_model(tiny: LanguageModel, tmp_path: Path) -> None:
    stack, store = trained(tiny, [SHARDS[0], [], SHARDS[2]], tmp_path)
    assert torch.equal(store.teacher(1), stack.top.layout.initial())
    contexts, candidates = questions()
    assert torch.equal(asked_all(stack, store)[1], stack.public_answers(contexts, candidates)[1])
    logits = tiny.model(contexts.rows).logits[contexts.asked[:, 0], contexts.asked[:, 1]]
    assert torch.allclose(asked_all(stack, store)[1], logits.gather(1, candidates), atol=1e-5)


def test_an_empty_shard_moves_exactly_nothing_in_half_precision_too(tiny: LanguageModel, tmp_path: Path) -> None:
    """The last block's padding included: five teachers in blocks of two."""
    shards = [SHARDS[0], [], SHARDS[2], SHARDS[3], []]
    stack, store = trained(tiny, shards, tmp_path, shape=replace(SHAPE, precision="bfloat16"))
    before = stack.public_answers(*questions())
    for block, logits in stack.answers(store, *questions()):
        assert len(logits) == (2 if block < 2 else 1)
        for slot, answer in enumerate(logits):
            assert torch.equal(answer, before[slot]) == (not shards[2 * block + slot])


def test_teachers_may_begin_from_a_public_adapter(five: tuple[Stack, AdapterStore]) -> None:
    stack, store = five
    student = store.teacher(0)  # any adapter will do here
    (_, flat), *_ = stack.trained(lambda m: SHARDS[m] if m else [], 2, generation=0, start=student)
    assert torch.equal(flat[0], student) and not torch.equal(flat[1], student)
    contexts, candidates = questions()
    assert not torch.equal(
        stack.public_answers(contexts, candidates, start=student), stack.public_answers(*questions())
    )


def test_training_in_half_precision_stays_close(five: tuple[Stack, AdapterStore], tmp_path: Path) -> None:
    stack, store = five
    half, other = trained(stack.lm, SHARDS, tmp_path, shape=replace(SHAPE, precision="bfloat16"))
    full, rough = asked_all(stack, store), asked_all(half, other)
    base = stack.public_answers(*questions())[0]
    assert other.get(0).dtype == torch.float32
    assert (rough - full).abs().mean() < 0.2 * (full - base).abs().mean()


# Answers, files and the single variant


def test_answers_are_columns_of_all_logits(five: tuple[Stack, AdapterStore]) -> None:
    stack, store = five
    contexts, candidates = questions()
    got, exact = asked_all(stack, store), asked_all(stack, store, normalise=True)
    assert got.shape == (5, 5, 6)
    for teacher in range(5):
        model = merge(stack.lm, store.teacher(teacher), SHAPE).model
        logits = model(contexts.rows).logits[contexts.asked[:, 0], contexts.asked[:, 1]]
        assert torch.allclose(got[teacher], logits.gather(1, candidates), atol=1e-4)
        assert torch.allclose(exact[teacher], logits.log_softmax(-1).gather(1, candidates), atol=1e-4)


def test_contexts_of_any_length_get_the_same_answers(
    five: tuple[Stack, AdapterStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are asked longest first, cut after their last question, a few at a time: nobody's answer may notice."""
    monkeypatch.setattr(stacks, "ANSWER_TOKENS", {"cpu": 200})
    stack, store = five
    rows = torch.randint(1, 200, (40, 30))
    asked = torch.stack([torch.randint(0, 40, (60,)), torch.randint(0, 30, (60,))], 1)
    contexts, candidates = Contexts(rows, torch.full((40,), 30), asked), torch.randint(0, 200, (60, 4))
    (_, got), *_ = stack.answers(store, contexts, candidates)
    model = merge(stack.lm, store.teacher(1), SHAPE).model
    want = model(rows).logits[asked[:, 0], asked[:, 1]].gather(1, candidates)
    assert torch.allclose(got[1], want, atol=1e-4)
    assert len({trunk.shape[1] for trunk, _, _ in stack.chunks(contexts)}) > 1


def test_peft_loads_an_exported_teacher(tiny: LanguageModel, tmp_path: Path) -> None:
    _, store = trained(tiny, SHARDS[:2], tmp_path / "store", shape=replace(SHAPE, targets=("attention",)))
    export_peft(store, 1, tmp_path / "peft", tiny)
    tokens = torch.randint(0, 200, (2, 12))
    loaded = PeftModel.from_pretrained(copy.deepcopy(tiny.model), tmp_path / "peft")
    want = merge(tiny, store.teacher(1), store.shape).model(tokens).logits
    assert torch.allclose(loaded(tokens).logits, want, atol=1e-4)
    assert not torch.allclose(tiny.model(tokens).logits, want, atol=1e-2)


def test_a_killed_training_goes_on_where_it_was(five: tuple[Stack, AdapterStore], tmp_path: Path) -> None:
    stack, store = five
    again = stack.store(tmp_path, count=5, generation=3)

    def killed(m: int) -> Shard:
        if m >= 2:
            raise KeyboardInterrupt
        return SHARDS[m]

    with pytest.raises(KeyboardInterrupt):
        stack.train(killed, 5, generation=3, store=again)
    assert [again.has(b) for b in range(3)] == [True, False, False]
    read: list[int] = []
    stack.train(lambda m: read.append(m) or SHARDS[m], 5, generation=3, store=again)  # type: ignore[func-returns-value]
    assert read == [2, 3, 4]
    assert all(again.path(b).read_bytes() == store.path(b).read_bytes() for b in range(3))
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_store_refuses_teachers_of_other_settings(five: tuple[Stack, AdapterStore]) -> None:
    stack, store = five
    for other in (replace(store, generation=4), replace(store, count=6), replace(store, shape=replace(SHAPE, steps=5))):
        with pytest.raises(ModelError, match="need"):
            other.get(0)
        with pytest.raises(ModelError, match="need"):
            other.has(0)
    student = Stack(merge(stack.lm, store.teacher(0), SHAPE), SHAPE, block=2, device="cpu")
    with pytest.raises(ModelError, match="base"):
        next(student.answers(store, *questions()))
    with pytest.raises(ModelError, match="generation"):
        stack.train(SHARDS.__getitem__, 5, generation=4, store=store)


def test_rows_hold_whole_sentences_and_cycle() -> None:
    sentences, frame = shard(0, 40), Frame(row_tokens=24, rows=50, start=0, end=0)
    rows = pack(sentences, frame, np.random.default_rng(1))
    texts = {tuple(s) for s in sentences}
    found = []
    for tokens, targets, positions in zip(rows.tokens, rows.targets, rows.positions, strict=True):
        starts = [*np.flatnonzero((positions == 0) & (targets >= 0)), int((targets >= 0).sum())]
        found += [(tuple(tokens[a + 1 : b]), tuple(targets[a:b])) for a, b in pairwise(starts)]
    assert {inputs for inputs, _ in found} == texts
    assert all(targets == (*inputs, 0) for inputs, targets in found)
    assert (rows.targets >= 0).mean() > 0.85
    with pytest.raises(DataError, match="row_tokens") as told:
        pack([np.arange(37)], frame, np.random.default_rng(1))
    assert "37" not in str(told.value)  # how long someone's sentence is, is private


def test_the_single_variant_trains_with_any_loss(tiny: LanguageModel) -> None:
    student = Adapted(tiny.model, AdapterShape(rank=2, alpha=4.0))
    rows = torch.randint(1, 200, (4, 10))
    assert torch.allclose(student.logits(student.hidden(rows)), tiny.model(rows).logits, atol=1e-5)
    adam = torch.optim.Adam(student.parameters(), 1e-2)
    losses = []
    for _ in range(8):
        hidden = student.hidden(rows)[:, :-1].flatten(0, 1)
        loss = student.losses(hidden, rows[:, 1:].flatten()).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert start_id(tiny) in (None, end_id(tiny))


def test_each_teacher_and_generation_has_an_order_of_its_own(five: tuple[Stack, AdapterStore]) -> None:
    stack, _ = five
    orders = [
        stack.rows(SHARDS[0], generation, teacher).tokens.tobytes() for generation, teacher in [(3, 0), (3, 1), (4, 0)]
    ]
    assert len(set(orders)) == 3
    assert orders[0] == stack.rows(SHARDS[0], 3, 0).tokens.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_plain_attention_is_attention(packed: bool) -> None:
    stream = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(3, 2, 12, 8, generator=stream) for _ in range(3))
    positions = torch.arange(12).remainder(5).expand(3, -1)
    mask = sentence_mask(positions) if packed else None
    got, _ = plain_attention(torch.nn.Identity(), query, key, value, mask, scaling=0.3)
    want = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, scale=0.3
    )
    assert torch.allclose(got.transpose(1, 2), want, atol=1e-6)
