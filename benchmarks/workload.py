"""What the speed benchmarks share: models of a shape, sentences without text, what a token costs, what the device can.

Weights are random and sentences are random tokens: neither changes how long a product takes. FLOPs are counted from
the shapes of the layers, the device's peak is measured with one large product and one large copy, and the share of the
bound is the time that the counted work would take at that peak, over the time it took.
"""

import json
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, GPT2Config

from hearsay import lm as models
from hearsay.lm import LanguageModel
from hearsay.private.training import TrainingShape
from hearsay.run import environment
from hearsay.split import fuse_activations
from hearsay.stacked import StackedTop
from revision import commit

SENTENCE, SHORTEST, LONGEST = 20, 8, 40  # tokens
# width, layers, heads, vocabulary
SHAPES = {
    "tiny": (32, 3, 4, 301),
    "embedded": (192, 4, 6, 8192),
    "base-s-like": (384, 8, 6, 16384),
    "gpt2-small": (768, 12, 12, 50257),
}
Sentences = list[NDArray[np.integer[Any]]]


class NoText:
    """Speed needs the ids of the start and end tokens and no text."""

    bos_token_id = eos_token_id = pad_token_id = 0


def model(shape: str, device: torch.device) -> LanguageModel:
    """Random weights of a named shape, or the model in a folder; bfloat16 on a GPU, as the product loads it."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    if shape not in SHAPES:
        return models.load(shape, device=device, dtype=dtype)
    width, layers, heads, vocabulary = SHAPES[shape]
    config = GPT2Config(
        vocab_size=vocabulary, n_embd=width, n_layer=layers, n_head=heads, n_positions=256, bos_token_id=0,
        eos_token_id=0, attn_implementation="sdpa",
    )  # fmt: skip
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    made = made.to(device, dtype).eval().requires_grad_(False)
    fuse_activations(made)
    return LanguageModel(made, NoText(), shape)


def vocabulary(lm: LanguageModel) -> int:
    return int(lm.model.get_output_embeddings().weight.shape[0])


def sentences(seed: int, count: int, tokens: int) -> Sentences:
    """`count` sentences of about 20 tokens: one draw for all, so that a million of them take a second."""
    stream = np.random.default_rng(seed)
    sizes = stream.poisson(SENTENCE, count).clip(SHORTEST, LONGEST)
    drawn = stream.integers(1, tokens, int(sizes.sum()), dtype=np.int32)
    ends = np.cumsum(sizes)
    return [drawn[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]


@dataclass(frozen=True)
class Cost:
    """Of one token, in FLOPs: what must be computed, from the shapes of the layers."""

    trunk: float
    top: float  # forward
    head: float  # forward
    adapters: float  # forward

    @property
    def trained(self) -> float:
        """Backward through frozen layers needs the inputs' gradient only: once the forward pass; adapters, twice."""
        return self.trunk + 2 * self.top + 2 * self.head + 3 * self.adapters

    @property
    def asked(self) -> float:
        """By one teacher: the trunk ran once for all, and the head is multiplied for candidates only."""
        return self.top + self.adapters


def cost(top: StackedTop, row_tokens: int) -> Cost:
    split = top.split
    width = split.head.shape[1]
    attention = 4 * row_tokens * width  # scores and their products, masked or not

    def blocks(parts: list[torch.nn.Module]) -> float:
        weights = sum(p.numel() for part in parts for p in part.parameters() if p.dim() == 2)
        return float(2 * weights + attention * len(parts))

    return Cost(blocks(split.below), blocks(split.above), 2.0 * split.head.numel(), 2.0 * top.layout.size)


def traffic(top: StackedTop, shape: TrainingShape) -> float:
    """Bytes a trained token moves through memory at least: inputs and outputs of products, logits, Adam's numbers.

    24 widths a block forward (15 into and out of the four products, 9 for norms, attention and sums), as much again
    backward; logits are written, read, written as probabilities and read.
    """
    split, cell = top.split, top.split.head.element_size()
    width, tokens = split.head.shape[1], shape.rows_per_step * shape.row_tokens
    blocks = 24 * width * (len(split.below) + 2 * len(split.above)) * cell
    return blocks + 4 * split.head.shape[0] * cell + 10 * 4 * top.layout.size / tokens


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(action: Callable[[], Any], device: torch.device, repeats: int = 10) -> float:
    """The median of several, after one to warm up."""
    action()
    found = []
    for _ in range(repeats):
        synchronise(device)
        began = time.perf_counter()
        action()
        synchronise(device)
        found.append(time.perf_counter() - began)
    return float(np.median(found))


def peak(device: torch.device) -> dict[str, float]:
    """FLOP/s of one large product of random numbers, and bytes/s of one large copy, read and written."""
    big = device.type == "cuda"
    size, dtype = (8192, torch.bfloat16) if big else (1024, torch.float32)
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    source = torch.randn(2**30 if big else 2**24, device=device)
    target = torch.empty_like(source)
    return {
        "flops": 2 * size**3 / seconds_of(lambda: a @ b, device),
        "bytes": 2 * source.numel() * 4 / seconds_of(lambda: target.copy_(source), device),
    }


def peak_memory(device: torch.device) -> float:
    """GiB: on a GPU since the last reset; of this whole process, since it began, on a processor."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def reset_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def machine(device: torch.device) -> dict[str, Any]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return environment() | {"device": name, "threads": torch.get_num_threads(), "commit": commit()}


def settings(shape: TrainingShape) -> dict[str, Any]:
    return asdict(shape)


def profile(action: Callable[[], Any], device: torch.device, rows: int = 22) -> str:
    """The kernels that take longest in one call, as a table."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    action()
    with record(activities=kinds) as found:
        action()
        synchronise(device)
    by = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    return str(found.key_averages().table(sort_by=by, row_limit=rows, max_name_column_width=70))


def keep(path: Path | None, found: dict[str, Any]) -> None:
    text = json.dumps(found, indent=1)
    print(text)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
