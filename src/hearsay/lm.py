"""One language model: load, score, generate, save. Any Hugging Face causal model of the GPT-2 or Llama/Qwen families.

    lm = load("embedded", device="cpu")               # or a folder, or a hub id
    nll, tokens = token_nll(lm, encode(lm, texts, 40), prefix_length=4)
    more = generate(lm, prefixes, max_tokens=36, top_p=0.95, generator=torch.Generator().manual_seed(1))

Rows of tokens never carry the start or end token: everything that feeds the model puts the start token in front where
the tokenizer has one, in training, scoring and generation alike, and generation stops at the end token without
returning it.
"""

import shutil
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as quiet

from hearsay import decoding
from hearsay.dimensions import missing_folder
from hearsay.errors import ModelError
from hearsay.split import fuse_activations
from hearsay.vocabulary import token_losses

BATCH_TOKENS = {"cpu": 2**13, "cuda": 2**17}  # tokens a pass when scoring, rows times length when generating


@dataclass(frozen=True)
class LanguageModel:
    model: Any
    tokenizer: Any
    source: str

    @property
    def device(self) -> torch.device:
        return self.model.device  # type: ignore[no-any-return]


def load(source: str, *, device: torch.device | str, dtype: torch.dtype = torch.float32) -> LanguageModel:
    path, local = _locate(source)
    quiet.disable_progress_bar()  # a bar for a second's work, in the midst of ours
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=local, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            path, local_files_only=local, trust_remote_code=False, dtype=dtype, attn_implementation="sdpa"
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(_why_not(source, local)) from error
    lm = LanguageModel(model.to(device).eval().requires_grad_(False), tokenizer, source)
    _check(lm)
    fuse_activations(lm.model)
    return lm


def _locate(source: str) -> tuple[str, bool]:
    """Where to load from, and whether that is a folder on this machine."""
    if source == "embedded":
        folder = resources.files("hearsay") / "demo" / "base"
        if not (folder / "config.json").is_file():
            raise ModelError(
                "got model embedded, but this installation has no hearsay/demo/base; install the full package"
            )
        return str(folder), True
    if Path(source).is_dir():
        return source, True
    if fault := missing_folder(source):
        raise ModelError(fault)
    return source, False


def _why_not(source: str, local: bool) -> str:
    if local:
        return f"got {source}, need a save_pretrained folder that holds a causal language model and its tokenizer"
    return (
        f"got model {source}, which is no folder here and could not be loaded from the hub or its cache "
        "(offline, or no such model); need a causal language model: "
        "give a local folder, download it first, or set model: embedded"
    )


def _check(lm: LanguageModel) -> None:
    rows, words = lm.model.get_input_embeddings().num_embeddings, len(lm.tokenizer)
    if words > rows or 2 * words < rows:
        raise ModelError(
            f"got a tokenizer of {words} tokens with a model of {rows}: they do not belong together; "
            f"need the tokenizer the model was trained with, in {lm.source}"
        )
    if lm.tokenizer.eos_token_id is None:
        raise ModelError(f"got a tokenizer without an end-of-sentence token in {lm.source}; set eos_token in its files")


def end_id(lm: LanguageModel) -> int:
    return int(lm.tokenizer.eos_token_id)


def context(lm: LanguageModel) -> int:
    """How many tokens the model reads at most; a model that sets no limit reads any number."""
    return int(getattr(lm.model.config, "max_position_embeddings", None) or sys.maxsize)


def start_id(lm: LanguageModel) -> int | None:
    """The token in front of every row, where the tokenizer has one (GPT-2: <|endoftext|>; Qwen: none)."""
    found = lm.tokenizer.bos_token_id
    return None if found is None else int(found)


def _lead(lm: LanguageModel) -> list[int]:
    start = start_id(lm)
    return [] if start is None else [start]


def pad_id(lm: LanguageModel) -> int:
    found = lm.tokenizer.pad_token_id
    return end_id(lm) if found is None else int(found)


def encode(lm: LanguageModel, texts: list[str], max_tokens: int) -> list[list[int]]:
    """Tokens of each text, cut to `max_tokens`, without start and end token.

    Not verbose: the tokenizer would log how long a text is that exceeds the model, and that text may be private.
    """
    if not texts:
        return []
    rows: list[list[int]] = lm.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return [row[:max_tokens] for row in rows]


def decode(lm: LanguageModel, rows: list[list[int]]) -> list[str]:
    return [lm.tokenizer.decode(row, skip_special_tokens=True) for row in rows]


def row_nll(lm: LanguageModel, rows: list[list[int]], prefix_length: int) -> tuple[Tensor, Tensor]:
    """For each row: the summed negative log-likelihood (float64) and number of its tokens after the prefix."""
    lead = _lead(lm)
    first = max(
        prefix_length + len(lead), 1
    )  # place of the first scored token; without a start token, never the very first
    sums, counts = torch.zeros(len(rows), dtype=torch.float64), torch.zeros(len(rows), dtype=torch.long)
    for batch in _batches([len(row) + len(lead) for row in rows], BATCH_TOKENS.get(lm.device.type, 2**13)):
        tokens, lengths = _padded([lead + rows[i] for i in batch], pad_id(lm), left=False)
        scored = torch.arange(tokens.shape[1]) < lengths[:, None]
        scored[:, :first] = False
        counts[batch] = scored.sum(1)
        if scored.any():
            sums[batch] = _sums(lm, tokens, scored)
    return sums, counts


def token_nll(lm: LanguageModel, rows: list[list[int]], prefix_length: int) -> tuple[float, int]:
    """Summed over rows; exp(first / second) is the corpus perplexity after the prefix, end of sentence not counted."""
    sums, counts = row_nll(lm, rows, prefix_length)
    return float(sums.sum()), int(counts.sum())


@torch.no_grad()
def _sums(lm: LanguageModel, tokens: Tensor, scored: Tensor) -> Tensor:
    # Rows are padded on the right and attention is causal, so no scored place sees padding and no mask is needed.
    inputs = tokens[:, :-1].to(lm.device)
    hidden = lm.model.base_model(input_ids=inputs, attention_mask=torch.ones_like(inputs), use_cache=False)[0]
    row, place = scored.nonzero(as_tuple=True)
    head = lm.model.get_output_embeddings()
    targets = tokens[row, place].to(lm.device)
    if getattr(head, "bias", None) is not None:
        losses = torch.nn.functional.cross_entropy(head(hidden[row, place - 1]).float(), targets, reduction="none")
    else:
        losses = token_losses(hidden[row, place - 1], head.weight, targets)
    return torch.zeros(len(tokens), dtype=torch.float64).index_add_(0, row, losses.double().cpu())


def _batches(lengths: list[int], limit: int) -> list[list[int]]:
    """Row numbers, rows of like length together, about `limit` tokens a batch."""
    found: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not found or (len(found[-1]) + 1) * lengths[found[-1][0]] > limit:
            found.append([])
        found[-1].append(index)
    return found


def _padded(rows: list[list[int]], pad: int, *, left: bool) -> tuple[Tensor, Tensor]:
    width = max(1, max(map(len, rows)))
    filled = [[pad] * (width - len(row)) + row if left else row + [pad] * (width - len(row)) for row in rows]
    return torch.tensor(filled), torch.tensor([len(row) for row in rows])


def generate(
    lm: LanguageModel,
    prefixes: list[list[int]],
    *,
    max_tokens: int,
    temperature: float = 1.0,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
    beams: int = 1,
) -> list[list[int]]:
    """What follows each prefix: at most `max_tokens` new tokens, without the end token.

    Temperature 0 takes the likeliest token. `generator` lives on the CPU, whatever the device.
    """
    lead = _lead(lm)
    full = [lead + prefix for prefix in prefixes]
    if any(not row for row in full):
        raise ModelError("got an empty prefix for a model without a start token; need at least one token")
    found: list[list[int]] = [[] for _ in full]
    for batch in _batches([len(row) + max_tokens for row in full], BATCH_TOKENS.get(lm.device.type, 2**13)):
        tokens, lengths = _padded([full[i] for i in batch], pad_id(lm), left=True)
        if beams > 1:
            rows = decoding.beam(lm.model, tokens, lengths, end_id(lm), max_tokens=max_tokens, beams=beams)
        else:
            rows = decoding.sample(
                lm.model,
                tokens,
                lengths,
                end_id(lm),
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                generator=generator,
            )
        for index, row in zip(batch, rows, strict=True):
            found[index] = row[: row.index(end_id(lm))] if end_id(lm) in row else row
    return found


def save(lm: LanguageModel, folder: Path, card: str) -> None:
    """A folder that `from_pretrained` loads, with the tokenizer and the card; it appears whole or not at all."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    lm.model.save_pretrained(part)
    lm.tokenizer.save_pretrained(part)
    for weights in part.glob("*.safetensors"):  # its library keeps them to the owner; a student is for others too
        weights.chmod((part / "config.json").stat().st_mode)
    (part / "README.md").write_text(card, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
