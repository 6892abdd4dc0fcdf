"""The script that trains the base model, at the smallest size, on text made here; what it saves is read offline."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

SCRIPT = Path(__file__).parents[1] / "scripts" / "train_base.py"
pytestmark = pytest.mark.xdist_group("train_base")  # one training for all of them
TINY = ("--layers=1", "--width=32", "--vocab=400", "--positions=32", "--batch=4", "--steps=60", "--lr=0.01")


def made_up_text() -> Iterator[str]:
    """Dialogues, medical questions and prose, enough of each that a hundredth of them is more than a block."""
    things = ("taxi", "table", "flight", "room", "doctor", "ticket")
    for i in range(180):
        thing, day = things[i % 6], f"{i % 28 + 1} May"
        turns = [f"Can you book a {thing} for {day}?", f"I have found you a {thing}.", "Is it for me?", "Yes, it is."]
        yield "\n".join(turns * 3)
        yield f"What is (are) the {thing} fever {i} ?\n" + f"The {thing} fever is a fever that lasts {day}. " * 4
        yield f"The {thing} of {day} was seen by nobody, and nobody spoke of it again. " * 6


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    text = folder / "text.txt"
    text.write_text("".join(document.strip() + "\n<|end|>\n" for document in made_up_text()))
    paths = ["--text", text, "--out", folder / "model", "--cache", folder / "cache"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, SCRIPT, *paths, *TINY], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def load(folder: Path, **settings: Any) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder / "model", local_files_only=True, **settings).eval()


def report_of(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "model" / "training.json").read_text())
    return report


def test_the_tokenizer_read_back_is_the_one_that_made_the_tokens(trained: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(trained / "model", local_files_only=True)
    tokens = np.load(trained / "cache" / "train.npy")
    first = tokens[1 : 1 + int(np.flatnonzero(tokens[1:] == 0)[0])].tolist()
    assert tokenizer.encode(tokenizer.decode(first), add_special_tokens=False) == first
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == tokenizer.pad_token_id == 0
    assert len(tokenizer) == report_of(trained)["vocab"] == load(trained).config.vocab_size <= 400
    strange = "naïve 27 °C\n\t“zażółć” 🙂"
    assert tokenizer.decode(tokenizer.encode(strange)) == strange


def test_weights_are_stored_in_half_precision_and_tied(trained: Path) -> None:
    with safe_open(trained / "model" / "model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118
    assert sum(path.stat().st_size for path in (trained / "model").iterdir()) < 8_000_000


def test_half_and_single_precision_give_the_same_logits(trained: Path) -> None:
    ids = torch.from_numpy(np.load(trained / "cache" / "held_out.npy")[None, :32].astype(np.int64))
    with torch.no_grad():
        half, single = (load(trained, dtype=dtype)(ids).logits.float() for dtype in (torch.float16, torch.float32))
    assert torch.allclose(half, single, atol=2e-2)
    assert single.std() > 0.1  # a model that answers the same to everything would pass the line above


def test_the_perplexity_on_the_card_is_that_of_the_files(trained: Path) -> None:
    report, model = report_of(trained), load(trained, dtype=torch.float32)
    stream, begin = np.load(trained / "cache" / "held_out.npy").astype(np.int64), 0
    for kind, length in report["tokens"]["held_out"].items():
        part = torch.from_numpy(stream[begin : begin + length // 33 * 33]).view(-1, 33)
        begin += length
        with torch.no_grad():
            scores = model(part[:, :-1]).logits.log_softmax(-1)
        loss = -scores.gather(-1, part[:, 1:, None]).mean().item()
        assert math.exp(loss) == pytest.approx(report["perplexity"][kind], rel=1e-3, abs=0.006)
    assert f"**{report['perplexity']['all']}**" in (trained / "model" / "README.md").read_text()
    assert report["perplexity"]["all"] < report["vocab"] / 2  # untrained, it is about the vocabulary


def test_kinds_are_told_apart_and_nothing_is_in_both_streams(trained: Path) -> None:
    tokens = report_of(trained)["tokens"]
    assert all(tokens[stream][kind] > 0 for stream in tokens for kind in ("other", "dialogue", "medical"))
    documents = {stream: int((np.load(trained / "cache" / f"{stream}.npy") == 0).sum()) for stream in tokens}
    assert documents == {"train": 3 * 178, "held_out": 3 * 2}


def test_it_generates(trained: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(trained / "model", local_files_only=True)
    prompt = tokenizer("<|endoftext|>Can you", return_tensors="pt")
    written = load(trained, dtype=torch.float32).generate(**prompt, max_new_tokens=8, do_sample=False)
    assert tokenizer.decode(written[0]).startswith("<|endoftext|>Can you")


def test_no_path_of_the_machine_is_written_down(trained: Path) -> None:
    for path in (trained / "model").glob("*.[jm][sd]*"):
        assert str(trained) not in path.read_text(), path.name
