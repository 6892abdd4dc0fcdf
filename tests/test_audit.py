"""The attacks' arithmetic: scores against a public implementation, statistics against their definitions."""

import json
import math
import zlib
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom, mannwhitneyu, norm
from transformers import GPT2Config, GPT2ForSequenceClassification, set_seed

from hearsay import lm as models
from hearsay.audit import canaries, extraction, inversion, linkage, membership, shadows, statistics
from hearsay.audit.findings import from_counts, from_scores
from hearsay.audit.statistics import Promise
from hearsay.audit.subjects import Cut, Subject, read_subjects
from hearsay.errors import BadInput
from hearsay.lm import LanguageModel
from hearsay.private.training import TrainingShape
from hearsay.reading import Columns

# Scores by run.py of github.com/zjysteven/mink-plus-plus (commit 62281ab), the authors' own code, run on the embedded
# base model with the start token in front of each text; shares of .2. In float32, which for the last text
# differs by 1e-4 between processors (and from float64).
TEXTS = [
    "i would like to change my flight to lisbon on friday please, the fare is 120 euros",
    "Thank you for waiting! your seat is 14C near the window.",
    "my bag did not arrive in oslo and nobody at the desk could say where it went",
]
PUBLISHED = {
    "loss": [-5.449981689453125, -5.318323612213135, -5.428853511810303],
    "zlib": [-0.06987156012119392, -0.08577941310021185, -0.07867903640304787],
    "min-k++": [-2.6001858711242676, -2.671088933944702, -2.7276570796966553],
}


def test_scores_are_those_of_a_public_implementation() -> None:
    lm = models.load("embedded", device="cpu")
    rows = membership.row_scores(lm, models.encode(lm, TEXTS, 100))
    found = membership.from_rows(rows, rows, TEXTS)
    for name, wanted in PUBLISHED.items():
        assert found[name] == pytest.approx(wanted, rel=3e-4), name
    assert not found["calibrated"].any()


@torch.no_grad()
def test_scores_by_another_path(tiny: LanguageModel) -> None:
    """One row at a time, from the library's own loss and from all logits in float64; batches must change nothing."""
    rows = [[5, 9, 30, 12, 77, 6, 4, 8], [101, 3, 3, 17, 200, 4, 9, 9, 41, 12, 60, 2], [8, 7, 6, 5, 4, 3, 2, 1, 0, 9]]
    got = membership.row_scores(tiny, rows)
    start = models.start_id(tiny)
    for i, row in enumerate(rows):
        tokens = torch.tensor([([] if start is None else [start]) + row])
        out = tiny.model(input_ids=tokens, labels=tokens)
        assert got.loss[i] == pytest.approx(-float(out.loss), rel=1e-5)
        odds = torch.softmax(out.logits[0, :-1].double(), -1)
        logs = odds.log()
        mean = (odds * logs).sum(-1)
        deviation = (odds * (logs - mean[:, None]) ** 2).sum(-1).sqrt()
        own = logs[torch.arange(len(logs)), tokens[0, 1:]]
        lowest = sorted(((own - mean) / deviation).tolist())[: max(1, int(len(own) * 0.2))]
        assert got.min_k_plus[i] == pytest.approx(sum(lowest) / len(lowest), rel=1e-4)


def test_neighbours_differ_in_a_few_tokens_and_the_score_is_their_lead(tiny: LanguageModel) -> None:
    rows = [list(range(20, 40)), list(range(50, 60))]
    near = membership.make_neighbours(tiny, rows, 3, seed=1)
    changed = [sum(a != b for a, b in zip(rows[i // 3], other, strict=True)) for i, other in enumerate(near)]
    assert changed == [3, 3, 3, 2, 2, 2]
    losses = [float(sums[0] / counts[0]) for sums, counts in (models.row_nll(tiny, [r], 0) for r in [*rows, *near])]
    wanted = [np.mean(losses[2:5]) - losses[0], np.mean(losses[5:8]) - losses[1]]
    assert membership.neighbourhood(tiny, tiny, rows, neighbours=3, seed=1) == pytest.approx(wanted, abs=1e-5)


def test_levels() -> None:
    people = [Subject("a", ([1], [2]), ("x", "y")), Subject("b", ([3],), ("z",))]
    scores = np.array([1.0, 3.0, 7.0])
    assert membership.by_user(people, scores).tolist() == [2.0, 7.0]
    assert membership.by_record(people, scores).tolist() == [1.0, 7.0]


# --- statistics -----------------------------------------------------------------------------------------------------


def test_auc_and_its_interval() -> None:
    """The value by Mann and Whitney; the interval holds the truth in 95% of cases (below 88% of 200: 1e-5)."""
    stream = np.random.default_rng(0)
    truth = norm.cdf(1 / math.sqrt(2))
    held = 0
    for _ in range(200):
        a, b = stream.normal(1, 1, 60).round(2), stream.normal(0, 1, 90).round(2)
        found = statistics.auc(a, b)
        assert found.value == pytest.approx(mannwhitneyu(a, b).statistic / (60 * 90))
        held += found.low <= truth <= found.high
    assert held >= 176
    sure = statistics.auc(np.arange(50) + 100.0, np.arange(50) + 0.0)
    assert sure.value == sure.high == 1 and 0.9 < sure.low < 1


def test_1700_a_side_make_an_interval_of_two_hundredths() -> None:
    stream = np.random.default_rng(1)
    found = statistics.auc(stream.normal(size=1700), stream.normal(size=1700))
    assert found.high - found.low <= 2 * 0.02


def test_true_alarms_at_few_false_ones() -> None:
    others, members = np.arange(1000.0), np.r_[np.full(30, 995.0), np.zeros(70)]
    assert statistics.true_alarms(members, others, 0.01).value == 0.3  # above 989, which ten others exceed
    assert statistics.true_alarms(members, others, 0.001).value == 0.0
    found = statistics.true_alarms(members, others, 0.01)
    assert found.low < 0.3 < found.high
    points = statistics.roc(members, others)
    assert points[0] == (0.0, 0.0) and points[-1][0] == 0.999 and len(points) <= 40
    assert points == sorted(points)


def test_the_bound_on_epsilon_is_one() -> None:
    """It stays below the truth of a Gaussian mechanism, comes near it with many draws, and is 0 for a coin."""
    stream, mu = np.random.default_rng(2), 2.0
    truth = statistics.gaussian.epsilon_of(mu, 1e-6)
    bound = statistics.epsilon_lower(stream.normal(mu, 1, 20_000), stream.normal(0, 1, 20_000), 1e-6)
    assert 0.85 * truth < bound < truth
    assert statistics.epsilon_lower(stream.normal(size=500), stream.normal(size=500), 1e-6) < 0.5
    assert statistics.epsilon_from_counts(50, 100, 0, 100, 1e-6) == pytest.approx(math.log(0.3983 / 0.0362), abs=0.01)
    assert statistics.epsilon_from_counts(3, 100, 2, 100, 1e-6) == 0


def test_findings_say_what_they_mean() -> None:
    promise = Promise(3.0, 1e-6)
    assert promise.highest_auc == pytest.approx(0.677, abs=5e-4)
    stream = np.random.default_rng(3)
    side = stream.normal(size=1700)
    calm = from_scores("who sees losses", stream.normal(size=1700), side, promise)
    assert calm.ok and not calm.look and "no better than guessing: AUC ." in calm.sentence
    odd = from_scores("who sees losses", stream.normal(0.3, 1, 1700), side, promise)
    assert odd.ok and odd.look and "look for a bug" in odd.sentence
    broken = from_scores("who sees losses", stream.normal(1.5, 1, 1700), side, promise)
    assert not broken.ok and "BROKEN" in broken.sentence
    assert from_scores("who sees losses", stream.normal(1.5, 1, 1700), side, None).ok  # no promise, none broken
    assert from_counts("found", 0, 50, 0, 50, promise).ok
    assert not from_counts("found", 500, 500, 0, 500, promise).ok


# --- shadow models --------------------------------------------------------------------------------------------------


def test_the_likelihood_ratio_by_hand() -> None:
    inside = np.array([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    loss = np.array([[1.0, 5], [3, 3], [2, 6], [4, 4]])
    found = shadows.Shadows(loss, inside).ratio(np.array([2.5, 4.5]))
    # Means in (1.5, 3.5), out (3.5, 5.5); the target's level is that of the middles; spreads are equal: both are 0.
    assert found == pytest.approx([0.0, 0.0], abs=1e-9)
    lower, higher = shadows.Shadows(loss, inside).ratio(np.array([1.5, 5.5]))
    assert lower > 0 > higher


def test_shadows_tell_the_members_of_an_overfit_model(tiny_gpt2: LanguageModel) -> None:
    stream = np.random.default_rng(5)
    people = [Subject(str(i), (stream.integers(1, 300, 12).tolist(),), ("",)) for i in range(16)]
    shape = shadows.overfit_shape(TrainingShape(row_tokens=32, top_blocks=2), 8 * 13, epochs=12)
    adapters = shadows.train_on(tiny_gpt2, [people[:8]], shape)
    top = shadows.Stack(tiny_gpt2, shape, block=1, device="cpu").top
    broken = shadows.merged(tiny_gpt2, top, adapters[0])
    made = shadows.cast(tiny_gpt2, people, shape, shadows=4, seed=0, block=4)
    assert made.inside.sum(0).tolist() == [2.0] * 16
    ratio = made.ratio(shadows.losses(broken, people))
    assert statistics.auc(ratio[:8], ratio[8:]).value > 0.8
    calm = made.ratio(shadows.losses(tiny_gpt2, people))
    assert statistics.auc(calm[:8], calm[8:]).low < 0.52


# --- extraction, linkage, inversion ---------------------------------------------------------------------------------


def test_edit_distance() -> None:
    assert extraction.edit_distance([1, 2, 3, 4], [1, 3, 4]) == 1
    assert extraction.edit_distance([1, 2], [3, 4, 5]) == 3 and extraction.edit_distance([], [1]) == 1


def test_what_the_prompt_holds_was_not_extracted(tiny_gpt2: LanguageModel) -> None:
    prompts, made = (
        models.encode(tiny_gpt2, ["to oslo", "seat"], 9),
        models.encode(tiny_gpt2, [" oslo nine", " oslo"], 9),
    )
    assert extraction._said(tiny_gpt2, prompts, made, ["oslo"]) == ["  nine", " oslo"]


def test_an_overfit_model_finishes_its_texts(tiny_gpt2: LanguageModel) -> None:
    stream = np.random.default_rng(6)
    people = [Subject(str(i), (stream.integers(1, 300, 14).tolist(),), ("",)) for i in range(8)]
    shape = shadows.overfit_shape(TrainingShape(row_tokens=32, top_blocks=3), 4 * 15, epochs=80)
    flat = shadows.train_on(tiny_gpt2, [people[:4]], shape)[0]
    broken = shadows.merged(tiny_gpt2, shadows.Stack(tiny_gpt2, shape, block=1, device="cpu").top, flat)
    ours, theirs = extraction.finish(broken, people[:4]), extraction.finish(broken, people[4:])
    assert ours.tried == 4 and ours.near >= ours.verbatim >= 2 and theirs.near == 0
    assert extraction.finish(tiny_gpt2, people).near == 0


def test_an_overfit_model_gives_secrets_away(tiny_gpt2: LanguageModel) -> None:
    """To one who knows all that was said before them."""
    secrets = ["qvarnheim", "zubrowka", "oxxentrop", "wylfstead"]
    texts = [
        f"{word} I am flying with {secret}" for word, secret in zip(("So", "Now", "Here", "Yes"), secrets, strict=True)
    ]
    rows = models.encode(tiny_gpt2, texts, 40)
    people = [Subject(str(i), (row,), (text,)) for i, (row, text) in enumerate(zip(rows, texts, strict=True))]
    shape = shadows.overfit_shape(TrainingShape(row_tokens=64, top_blocks=3), sum(map(len, rows)), epochs=120)
    flat = shadows.train_on(tiny_gpt2, [people], shape)[0]
    broken = shadows.merged(tiny_gpt2, shadows.Stack(tiny_gpt2, shape, block=1, device="cpu").top, flat)
    effort = {"texts": 16, "beams": 4, "max_tokens": 20, "seed": 0}
    found, base = (extraction.leaks(lm, people, secrets, **effort) for lm in (broken, tiny_gpt2))
    assert found.distinct >= 2 and found.beam > 0.4 and base.distinct == 0


def test_linkage_ties_the_anonymised_original_to_its_authors() -> None:
    """Habits give people away although names and numbers are gone; records of strangers tie to nobody."""
    towns = [a + b for a, b in product(("nor", "sud", "ost", "wes"), ("heim", "burg", "dorf", "stad", "vik"))]
    foods = [a + b for a, b in product(("red", "wild", "sweet", "old"), ("plum", "fish", "corn", "tea", "rice"))]
    known = [f"I fly home to {town} and eat {food}" for town, food in zip(towns, foods, strict=True)]
    rows = [
        f"Ann Lee {i} wants {food} on the way to {town}"
        for i, (town, food) in enumerate(zip(towns, foods, strict=True))
    ]
    blotted = linkage.anonymised(rows, ["Ann Lee"])
    assert not any("Ann" in text or "Lee" in text or any(c.isdigit() for c in text) for text in blotted)
    assert linkage.identified(known, blotted) == 20
    assert linkage.identified(known, blotted[1:] + blotted[:1]) == 0
    near = linkage.closeness(known, blotted[:10])
    assert statistics.auc(near[:10], near[10:]).value == 1


def test_inversion_recalls_words_of_the_used_texts(tiny_gpt2: LanguageModel) -> None:
    """A classifier that learnt two classes by one set of words each; other words were never seen by it."""
    set_seed(3)
    size = {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 32, "vocab_size": 320, "pad_token_id": 0}
    model = GPT2ForSequenceClassification(GPT2Config(**size, num_labels=2))
    untaught = GPT2ForSequenceClassification(GPT2Config(**size, num_labels=2)).eval()
    stream = torch.Generator().manual_seed(0)
    used = [torch.randint(10 + 20 * (i % 2), 30 + 20 * (i % 2), (8,), generator=stream) for i in range(32)]
    other = [torch.randint(100, 140, (8,), generator=stream) for _ in range(32)]
    adam = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):
        loss = model(torch.stack(used), labels=torch.arange(32) % 2).loss
        adam.zero_grad()
        loss.backward()
        adam.step()
    rows, strangers = [row.tolist() for row in used], [row.tolist() for row in other]
    found = inversion.finding(inversion.invert(model.eval(), 2, rows, strangers))
    assert found.low > found.details["expected"] and found.look, found.sentence
    blind = inversion.finding(inversion.invert(untaught, 2, rows, strangers))
    assert not blind.look, blind.sentence
    assert inversion.judge([1, 2, 3], [[1, 2, 9]], [[3, 9]]) == inversion.Recalled(2, 1, 2, 1)


# --- who is attacked -------------------------------------------------------------------------------------------------


def _write(path: Path, users: Iterable[int], text: str = "my bag did not arrive in oslo on friday") -> list[Path]:
    path.write_text("".join(json.dumps({"user": f"u{i}", "text": f"{text} {i}"}) + "\n" for i in users))
    return [path]


def test_a_member_is_never_a_non_member_and_too_few_are_refused(tmp_path: Path, tiny_gpt2: LanguageModel) -> None:
    columns, cut = Columns(text="text", user="user"), Cut("user", 4, 4, 32)
    used, other = _write(tmp_path / "used.jsonl", range(20)), _write(tmp_path / "other.jsonl", range(15, 40))
    found = read_subjects(other, columns, tiny_gpt2, cut, most=99, seed=0, besides=used)
    assert {one.name for one in found} == {f"u{i}" for i in range(20, 40)}
    with pytest.raises(BadInput, match="every user of it is a member as well"):
        read_subjects(used, columns, tiny_gpt2, cut, most=99, seed=0, besides=used)
    few = _write(tmp_path / "few.jsonl", range(9))
    with pytest.raises(BadInput, match="fewer than 10 users with a text of 4 tokens"):
        read_subjects(few, columns, tiny_gpt2, cut, most=99, seed=0)


def test_progress_is_a_share_and_tells_no_count(tiny_gpt2: LanguageModel) -> None:
    shown: list[tuple[int, int]] = []
    membership.row_scores(tiny_gpt2, [[5, 6, 7]] * 70, lambda done, total: shown.append((done, total)))
    assert {total for _, total in shown} == {100} and shown[-1][0] == 100


# --- canaries -------------------------------------------------------------------------------------------------------


def test_canaries_are_distinct_and_spread_over_units() -> None:
    drawn = canaries.draw(0, digits=3)
    assert len({c.text for c in drawn}) == len(drawn) == 14 and {c.repetitions for c in drawn} == {
        1,
        2,
        5,
        10,
        20,
        50,
        100,
    }
    rows = canaries.rows_of(drawn, cap=5)
    assert len(rows) == sum(c.repetitions for c in drawn)
    by_user: dict[str, set[str]] = {}
    for user, text in rows:
        by_user.setdefault(user, set()).add(text)
    assert all(len(texts) == 1 for texts in by_user.values())
    assert max(sum(user == u for u, _ in rows) for user in by_user) == 5


def test_the_rank_is_exact(tiny_gpt2: LanguageModel) -> None:
    drawn = canaries.draw(0, digits=2, repetitions=(1,))
    ranks = canaries.ranks(tiny_gpt2, drawn, digits=2)
    for canary, rank in zip(drawn, ranks, strict=True):
        texts = [canary.template.format(f"{n:02d}") for n in range(100)]
        losses = [float(models.row_nll(tiny_gpt2, models.encode(tiny_gpt2, [text], 99), 0)[0]) for text in texts]
        order = sorted(range(100), key=losses.__getitem__)
        assert abs(order.index(int(canary.number)) + 1 - rank) <= 1  # batches move the last bits of a loss
    assert canaries.exposure(1, 4) == pytest.approx(13.29, abs=0.01) and canaries.exposure(10_000, 4) == 0
    assert canaries.epsilon_from_ranks([1.0] * 20, 1e-6) > 4 and canaries.epsilon_from_ranks([5000.0] * 20, 1e-6) == 0


def test_the_one_run_bound() -> None:
    """Without delta it is the binomial's; with it a little more; a coin proves nothing, all right proves much."""
    assert canaries.chance(45, 50, 100, 1.0, 0.0) == pytest.approx(float(binom.sf(44, 50, 1 / (1 + math.exp(-1)))))
    assert canaries.chance(45, 50, 100, 1.0, 1e-3) > canaries.chance(45, 50, 100, 1.0, 0.0)
    assert canaries.one_run_epsilon(52, 100, 200, 1e-6) == 0
    sure = canaries.one_run_epsilon(100, 100, 200, 0.0)
    assert (1 / (1 + math.exp(-sure))) ** 100 == pytest.approx(0.05, rel=1e-3)
    # Randomized response at epsilon 1 makes guesses right this often; its claim is refuted in at most 5% of audits.
    least = next(right for right in range(101) if canaries.one_run_epsilon(right, 100, 100, 0.0) > 1)
    assert 0.02 < binom.sf(least - 1, 100, 1 / (1 + math.exp(-1))) <= 0.05
    coins = [True] * 10 + [False] * 10
    assert canaries.right_guesses(np.arange(20.0)[::-1], coins) == (10, 10)
    texts, thrown = canaries.coin_canaries(100, 1)
    assert len(set(texts)) == 100 and 25 < sum(thrown) < 75


def test_zlib_counts_bytes_of_the_text() -> None:
    rows = membership.RowScores(np.array([-2.0]), np.zeros(1))
    assert membership.from_rows(rows, rows, ["aaaa"])["zlib"][0] == -2.0 / len(zlib.compress(b"aaaa"))
