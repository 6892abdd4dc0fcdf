"""Tiny random language models, one of each family, with a tokenizer trained on the spot: no download, no data file."""

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    set_seed,
)

import tiny_hearsay
from hearsay.lm import LanguageModel

# A shell's background jobs are told to ignore Ctrl-C, and so would be all processes that tests start and stop by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TEXT = "the flight to oslo leaves at nine and your seat is near a window please bring one bag only thank you"
VOCABULARY = 320


def tiny_tokenizer(start: bool) -> PreTrainedTokenizerFast:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([TEXT] * 4, vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"])
    names = {"eos_token": "<|endoftext|>"} | ({"bos_token": "<|endoftext|>"} if start else {})
    return PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, **names)


def tiny_model(family: str) -> LanguageModel:
    tokenizer = tiny_tokenizer(start=family != "qwen2")
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 128}
    common = {"vocab_size": len(tokenizer), "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.2}
    grouped = sizes | common | {"intermediate_size": 48, "num_key_value_heads": 2}
    config = {
        "gpt2": lambda: GPT2Config(n_embd=32, n_layer=3, n_head=4, n_positions=128, **common),
        "llama": lambda: LlamaConfig(**grouped),
        "qwen2": lambda: Qwen2Config(**grouped),
    }[family]()
    set_seed(7)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval().requires_grad_(False)
    return LanguageModel(model, tokenizer, source=f"tiny-{family}")


@pytest.fixture(scope="session", params=["gpt2", "llama", "qwen2"])
def tiny(request: pytest.FixtureRequest) -> LanguageModel:
    return tiny_model(request.param)


@pytest.fixture(scope="session")
def tiny_gpt2() -> LanguageModel:
    return tiny_model("gpt2")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Tests run beside each other: two threads a process on two cores wait for each other more than they compute."""
    torch.set_num_threads(1)


def public_of_no_record(folder: Path) -> Path:
    """The airline's public rows, none of which is a private text: simulated customers of both kinds say the same."""
    rows = [json.loads(line) for line in (folder / "public.jsonl").read_text().splitlines()]
    apart = [json.dumps(row | {"text": f"{row['text']} as said in public"}) for row in rows]
    (folder / "apart.jsonl").write_text("\n".join(apart) + "\n")
    return folder / "apart.jsonl"


class TinyDemo:
    """The demo at tiny size, run with every socket blocked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = self.play()

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def corpus(self) -> Path:
        return self.folder / "corpus"

    def play(self) -> dict[str, Any]:
        from hearsay.demo import show

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("the demo opened a socket")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "socket", refuse)
            patch.setattr(socket, "create_connection", refuse)
            for name, value in tiny_hearsay.SIZES.items():
                patch.setattr(show, name, value)
            return show.play(self.folder, 0, settings=tiny_hearsay.settings(), compare=True)[1]


@pytest.fixture(scope="session")
def tiny_demo(tmp_path_factory: pytest.TempPathFactory) -> TinyDemo:
    """One for all: tests that use it carry xdist_group("demo"), so that one worker makes it once."""
    return TinyDemo(tmp_path_factory.mktemp("tiny") / "demo")
