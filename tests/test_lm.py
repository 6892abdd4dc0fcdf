"""Loading, scoring, generating and saving, each against the plain Hugging Face way of doing it."""

import json
import logging
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from conftest import TEXT, tiny_model
from hearsay import decoding
from hearsay import lm as lms
from hearsay.errors import ModelError
from hearsay.lm import LanguageModel

TEXTS = [TEXT[:60], "your seat is near a window", "oslo", TEXT]


@pytest.fixture
def folder(tiny_gpt2: LanguageModel, tmp_path: Path) -> Path:
    lms.save(tiny_gpt2, tmp_path / "model", "# A card\n")
    return tmp_path / "model"


def by_hand(lm: LanguageModel, row: list[int], prefix: int) -> tuple[float, int]:
    """One row at a time, full logits."""
    lead = [lm.tokenizer.bos_token_id] if lm.tokenizer.bos_token_id is not None else []
    full = lead + row
    with torch.no_grad():
        odds = torch.log_softmax(lm.model(torch.tensor([full])).logits[0].double(), -1)
    places = range(max(prefix + len(lead), 1), len(full))
    return -sum(odds[p - 1, full[p]].item() for p in places), len(places)


@pytest.mark.parametrize("prefix", [0, 4])
def test_scores_are_those_of_one_row_at_a_time(tiny: LanguageModel, prefix: int) -> None:
    rows = lms.encode(tiny, TEXTS, 40)
    wanted = [by_hand(tiny, row, prefix) for row in rows]
    total, tokens = lms.token_nll(tiny, rows, prefix)
    assert tokens == sum(count for _, count in wanted)
    assert math.isclose(total, sum(nll for nll, _ in wanted), rel_tol=1e-5)


def test_rows_without_anything_to_score_count_nothing(tiny: LanguageModel) -> None:
    assert lms.token_nll(tiny, [[5, 6]], prefix_length=4) == (0.0, 0)


def test_greedy_text_does_not_depend_on_the_batch(tiny: LanguageModel) -> None:
    prefixes = [[5], [7, 8, 9, 10, 11], [6, 5, 4]]
    together = lms.generate(tiny, prefixes, max_tokens=10, temperature=0)
    alone = [lms.generate(tiny, [prefix], max_tokens=10, temperature=0)[0] for prefix in prefixes]
    assert together == alone
    assert together == lms.generate(tiny, prefixes, max_tokens=10, beams=1, temperature=0, top_p=0.3)


def test_greedy_text_is_that_of_transformers(tiny: LanguageModel) -> None:
    start = lms.start_id(tiny)
    prefix = [9, 12, 7]
    given = torch.tensor([prefix if start is None else [start, *prefix]])
    want = tiny.model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=8, do_sample=False)
    want = want[0, given.shape[1] :].tolist()
    want = want[: want.index(lms.end_id(tiny))] if lms.end_id(tiny) in want else want
    assert lms.generate(tiny, [prefix], max_tokens=8, temperature=0) == [want]


def test_a_seed_repeats_and_top_p_keeps_to_the_likeliest(tiny_gpt2: LanguageModel) -> None:
    def once(seed: int, top_p: float) -> list[list[int]]:
        source = torch.Generator().manual_seed(seed)
        return lms.generate(tiny_gpt2, [[5]] * 8, max_tokens=6, top_p=top_p, generator=source)

    assert once(1, 0.95) == once(1, 0.95) != once(2, 0.95)
    assert once(1, 1e-6) == lms.generate(tiny_gpt2, [[5]] * 8, max_tokens=6, temperature=0)


def test_the_nucleus_is_the_smallest_set_that_reaches_top_p() -> None:
    odds = torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.97, 0.01, 0.01, 0.01]])
    kept = decoding.nucleus(odds, 0.6) > 0
    assert kept.tolist() == [[False, True, False, True], [True, False, False, False]]
    wide = torch.linspace(1, 2, 2000)[None] / 3000  # more than the few that are looked at first
    best = decoding.nucleus(wide, 0.8).sum()
    assert 0.8 <= best < 0.801


def test_draws_follow_the_odds() -> None:
    """Chi-square with 3 degrees of freedom, threshold at a false-alarm rate of 1e-4; the seed is fixed."""
    odds = torch.tensor([0.1, 0.2, 0.3, 0.4])
    logits = odds.log().expand(20000, 4)
    drawn = decoding.draw(logits, 1.0, 1.0, torch.Generator().manual_seed(0)).bincount(minlength=4)
    assert float(((drawn - 20000 * odds) ** 2 / (20000 * odds)).sum()) < 21.1


def test_beams_find_a_likelier_row_than_greed(tiny_gpt2: LanguageModel) -> None:
    prefixes = [[5, 6], [9]]
    rows = lms.generate(tiny_gpt2, prefixes, max_tokens=5, beams=4)
    assert len(rows) == 2 and all(len(row) <= 5 for row in rows)


def test_saved_and_reloaded_gives_the_same_logits(tiny_gpt2: LanguageModel, folder: Path) -> None:
    tokens = torch.tensor([[0, 5, 6, 7]])
    again = AutoModelForCausalLM.from_pretrained(folder)(tokens).logits
    assert torch.allclose(again, tiny_gpt2.model(tokens).logits, atol=1e-6)
    loaded = lms.load(str(folder), device="cpu")
    assert (folder / "README.md").read_text() == "# A card\n"
    assert lms.encode(loaded, TEXTS, 40) == lms.encode(tiny_gpt2, TEXTS, 40)
    assert lms.decode(loaded, lms.encode(loaded, TEXTS[1:2], 40)) == [TEXTS[1]]


def test_encode_cuts_and_adds_nothing(tiny: LanguageModel) -> None:
    rows = lms.encode(tiny, TEXTS, 5)
    assert [len(row) for row in rows] == [5, 5, len(rows[2]), 5]
    assert lms.encode(tiny, [], 5) == []
    assert all(lms.end_id(tiny) not in row for row in rows)


def test_encode_does_not_tell_how_long_a_text_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokenizer's warning about a text beyond the model's length holds that length, which is private."""
    lm = tiny_model("gpt2")
    lm.tokenizer.model_max_length = 4
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    lms.encode(lm, TEXTS, 40)
    assert not caplog.records
    lm.tokenizer(TEXTS)  # what it says if it is let
    assert "maximum sequence length" in caplog.text


@pytest.mark.parametrize("source", ["no/such-model-anywhere", "./no-such-folder"])
def test_a_model_that_is_not_there_says_what_to_type(source: str) -> None:
    with pytest.raises(ModelError, match="need"):
        lms.load(source, device="cpu")


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="save_pretrained"):
        lms.load(str(tmp_path), device="cpu")


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    lm = tiny_model("gpt2")
    lm.model.resize_token_embeddings(100)
    lms.save(lm, tmp_path / "small", "")
    with pytest.raises(ModelError, match="do not belong together"):
        lms.load(str(tmp_path / "small"), device="cpu")


def test_a_tokenizer_without_an_end_token_is_refused(folder: Path) -> None:
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({k: v for k, v in settings.items() if k != "eos_token"}))
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    with pytest.raises(ModelError, match="end-of-sentence"):
        lms.load(str(folder), device="cpu")
