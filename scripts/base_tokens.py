"""Public text to a tokenizer, two streams of tokens and blocks drawn from them, for scripts/train_base.py.

A text file is plain or .bz2, and each of its documents ends with a line <|end|>. The stages hand over through a folder
(tokenizer.json, train.npy, held_out.npy, tokens.json), which a second run on the same text finds and reuses.

Processes are forked before anything here or in torch has started a thread; the tokenizer is trained in one of them,
because its own threads would not survive the fork that follows.
"""

import bz2
import hashlib
import json
import multiprocessing
import os
import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor

END_OF_DOCUMENT = "\n<|end|>\n"
SPECIAL = "<|endoftext|>"  # the only special token, number 0: begins a text, ends it and pads it
KINDS = ("other", "dialogue", "medical")
SPOKEN = re.compile(r"\b(?:I|you|your|we|my|me)\b", re.IGNORECASE)
HELD_OUT = 100  # every hundredth document of each kind is kept for validation
FORK = multiprocessing.get_context("fork")

encoder: Any  # of a worker process: start_encoder sets it


@dataclass(frozen=True)
class Recipe:
    """All that decides the tokens, apart from the text."""

    vocab: int
    sample_mb: float
    weights: dict[str, float]


def say(began: float, stage: str, words: str) -> None:
    print(f"{time.monotonic() - began:7.1f} s  {stage:<10} {words}", flush=True)


def kind_of(document: str) -> str:
    """Tell dialogue and medical questions by their shape: the files do not say which source a document is from."""
    lines = document.split("\n")
    if len(lines) > 1 and lines[0].endswith(" ?"):  # only the medical collection puts a space there
        return "medical"
    turns = len(lines) >= 8 and len(document) < 160 * len(lines) and "" not in lines
    return "dialogue" if turns and sum(1 for line in lines if SPOKEN.search(line)) * 5 >= len(lines) else "other"


def read_documents(path: Path) -> dict[str, list[str]]:
    raw = path.read_bytes()
    text = (bz2.decompress(raw) if path.suffix == ".bz2" else raw).decode()
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for document in text.removesuffix(END_OF_DOCUMENT).split(END_OF_DOCUMENT):
        if document.strip():
            kinds[kind_of(document)].append(document.strip("\n"))
    return kinds


def sample_of(documents: dict[str, list[str]], recipe: Recipe) -> list[str]:
    """Documents at a stride, in the mixture that training will draw, so that dialogue earns its merges."""
    sizes = {kind: sum(map(len, documents[kind])) for kind in KINDS}
    mixture = sum(sizes[kind] * recipe.weights[kind] for kind in KINDS)
    strides = {kind: max(1, round(mixture / recipe.weights[kind] / (recipe.sample_mb * 1e6))) for kind in KINDS}
    return [document for kind in KINDS for document in documents[kind][:: strides[kind]]]


def train_tokenizer(sample: list[str], vocab: int) -> str:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()  # all 256 bytes: no text is out of vocabulary
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=[SPECIAL], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(sample, trainer)
    return str(tokenizer.to_str())


def start_encoder(definition: str) -> None:
    global encoder
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one process a core already: threads on top only wait
    encoder = tokenizers.Tokenizer.from_str(definition)


def encode(documents: list[str]) -> NDArray[np.uint16]:
    ids: list[int] = []
    for encoding in encoder.encode_batch_fast(documents):
        ids += [0, *encoding.ids]  # every document begins with the special token
    return np.array(ids, dtype=np.uint16)


def chunks(documents: list[str], held_out: bool, size: int = 100) -> list[list[str]]:
    kept = [document for i, document in enumerate(documents) if (i % HELD_OUT == 0) is held_out]
    return [kept[i : i + size] for i in range(0, len(kept), size)]


def write_streams(documents: dict[str, list[str]], definition: str, folder: Path) -> dict[str, dict[str, int]]:
    """Each stream holds its kinds one after the other; what comes back is how many tokens each kind has there."""
    lengths: dict[str, dict[str, int]] = {}
    with FORK.Pool(min(16, os.cpu_count() or 1), start_encoder, (definition,)) as pool:
        for name in ("train", "held_out"):
            parts = {kind: pool.map(encode, chunks(documents[kind], name == "held_out"), 1) for kind in KINDS}
            np.save(folder / f"{name}.npy", np.concatenate([part for kind in KINDS for part in parts[kind]]))
            lengths[name] = {kind: sum(map(len, parts[kind])) for kind in KINDS}
    return lengths


def write_tokens(text: list[Path], recipe: Recipe, folder: Path) -> dict[str, dict[str, int]]:
    began = time.monotonic()
    with FORK.Pool(len(text)) as pool:
        files = pool.map(read_documents, text)
    documents = {kind: [document for file in files for document in file[kind]] for kind in KINDS}
    say(began, "read", ", ".join(f"{len(documents[kind]):,} {kind} documents" for kind in KINDS))
    sample = sample_of(documents, recipe)
    with FORK.Pool(1) as pool:
        definition = pool.apply(train_tokenizer, (sample, recipe.vocab))
    (folder / "tokenizer.json").write_text(definition)
    say(began, "tokenizer", f"from {sum(map(len, sample)) / 1e6:.1f} million characters")
    lengths = write_streams(documents, definition, folder)
    say(began, "tokens", ", ".join(f"{name} {sum(lengths[name].values()):,}" for name in lengths))
    return lengths


def prepare(text: list[Path], recipe: Recipe, folder: Path) -> dict[str, Any]:
    """The record of the streams in the folder: made now, or found there from the same text and recipe."""
    files = [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in text
    ]
    wanted = {"text": files, "recipe": asdict(recipe)}
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "tokens.json"
    found: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    if any(found.get(name) != value for name, value in wanted.items()):
        found = wanted | write_tokens(text, recipe, folder)
        kept.write_text(json.dumps(found, indent=1))  # last: a run that was stopped before leaves no record to trust
    return found


class Blocks:
    """Random blocks of the training stream, on the device, each kind as often as its weight says.

    Half of them open where a paragraph or a turn does, behind the special token: that is how a record is read later,
    and a block cut at a random place would almost never show it.
    """

    def __init__(self, tokens: Tensor, sizes: list[int], weights: list[float], newline: int, length: int) -> None:
        self.tokens, self.length = tokens, length
        size = torch.tensor(sizes, device=tokens.device)
        self.begin, self.room = size.cumsum(0) - size, (size - length).clamp(min=1)
        self.shares = size * torch.tensor(weights, device=tokens.device)
        self.openings = ((tokens == 0) | (tokens == newline)).nonzero().flatten()
        self.reach = torch.arange(length + 1, device=tokens.device)

    def draw(self, count: int) -> Tensor:
        device = self.tokens.device
        kind = torch.multinomial(self.shares, count, replacement=True)
        start = self.begin[kind] + (torch.rand(count, device=device) * self.room[kind]).long()
        opens = torch.rand(count, device=device) < 0.5
        following = torch.searchsorted(self.openings, start).clamp(max=len(self.openings) - 1)
        start = torch.where(opens, self.openings[following], start).clamp(max=len(self.tokens) - self.length - 1)
        block = self.tokens[start[:, None] + self.reach].long()
        block[:, 0] = torch.where(opens, 0, block[:, 0])
        return block
