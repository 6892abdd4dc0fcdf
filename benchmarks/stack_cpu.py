"""Speed of stacked teachers at the embedded model's size, on this machine's processor.

    python benchmarks/stack_cpu.py [--teachers 64] [--seconds 8]

Prints one JSON object: tokens a second when M teachers train as one stack, when one adapter trains on the same tokens,
and when PEFT trains one adapter at a time at batch 8; and teacher-tokens a second when the stack answers.
The weights are random.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config

from hearsay.lm import LanguageModel
from hearsay.private.stack import Stack
from hearsay.private.training import TrainingShape, advance, gradient
from hearsay.stacked import Contexts

VOCABULARY, WIDTH, LAYERS, SENTENCE = 8192, 192, 4, 20


class NoText:
    """Speed needs the ids of the start and end tokens and no text."""

    bos_token_id = eos_token_id = pad_token_id = 0


def model() -> LanguageModel:
    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=6, n_positions=256, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    return LanguageModel(AutoModelForCausalLM.from_config(config).eval().requires_grad_(False), NoText(), "benchmark")


def sentences(seed: int, count: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    stream = np.random.default_rng(seed)
    return [stream.integers(1, VOCABULARY, max(8, size)) for size in stream.poisson(SENTENCE, count)]


def rate(step: Callable[[], int], seconds: float) -> float:
    """Of the fastest step: the others tell what else the machine was doing."""
    step()
    best, end = 0.0, time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        tokens = step()
        best = max(best, tokens / (time.perf_counter() - start))
    return best


def stacked(lm: LanguageModel, teachers: int, rows: int, shape: dict[str, Any], seconds: float) -> float:
    """Trained tokens a second: places with a target, padding not counted."""
    settings = TrainingShape(steps=8, rows_per_step=rows, **shape)
    stack = Stack(lm, settings, block=teachers, device="cpu")
    shards = [sentences(m, 8 * rows * 4) for m in range(teachers)]
    state = stack._state(stack._packed(lambda m: shards[m], teachers, 0, 0), stack.top.layout.initial())
    turn = 0

    def step() -> int:
        nonlocal turn
        now, turn = turn % settings.steps, turn + 1
        advance(state, gradient(stack.top, state, now), now, settings)
        return int((state.targets[now] >= 0).sum())

    return rate(step, seconds)


def one_at_a_time(lm: LanguageModel, rank: int, seconds: float) -> float:
    """transformers + PEFT, batch 8, sentences padded to the longest: how teachers are trained without a stack."""
    from peft import LoraConfig, get_peft_model

    adapted = get_peft_model(
        model().model,
        LoraConfig(
            r=rank, target_modules=["c_attn", "c_proj", "c_fc"], layers_to_transform=[2, 3], fan_in_fan_out=True
        ),
    )
    optimiser = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], 1e-3)
    text = sentences(0, 512)
    turn = 0

    def step() -> int:
        nonlocal turn
        batch = [[0, *text[(turn * 8 + i) % 512].tolist(), 0] for i in range(8)]
        turn += 1
        width = max(map(len, batch))
        rows = torch.tensor([row + [0] * (width - len(row)) for row in batch])
        mask = torch.arange(width) < torch.tensor([len(row) for row in batch])[:, None]
        adapted(input_ids=rows, attention_mask=mask.long(), labels=rows.masked_fill(~mask, -100)).loss.backward()
        torch.nn.utils.clip_grad_norm_(adapted.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return sum(len(row) - 1 for row in batch)

    return rate(step, seconds)


def answering(lm: LanguageModel, teachers: int, shape: dict[str, Any], normalise: bool, seconds: float) -> float:
    """Teacher-tokens a second over contexts of 40 tokens, a quarter of the places asked about, 50 candidates each."""
    stack = Stack(lm, TrainingShape(steps=1, **shape), block=teachers, device="cpu")
    rows = torch.randint(1, VOCABULARY, (64, 40))
    asked = torch.cartesian_prod(torch.arange(64), torch.arange(3, 40, 4))
    candidates = torch.randint(0, VOCABULARY, (len(asked), 50))
    chunks = stack._chunks(Contexts(rows, torch.full((64,), 40), asked))
    adapters = stack.top.layout.initial().repeat(teachers, 1)

    def step() -> int:
        stack._ask([adapters], chunks, candidates, normalise)
        return teachers * rows.numel()

    return rate(step, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teachers", type=int, default=64)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rows", type=int, default=2, help="rows of 64 tokens a teacher and step")
    parser.add_argument("--seconds", type=float, default=8)
    asked = parser.parse_args()
    lm, shape = model(), {"rank": asked.rank, "top_blocks": 2}
    half = shape | {"precision": "bfloat16"}
    found = {
        "stacked": stacked(lm, asked.teachers, asked.rows, shape, asked.seconds),
        "stacked_bfloat16": stacked(lm, asked.teachers, asked.rows, half, asked.seconds),
        "one_adapter_same_tokens": stacked(lm, 1, asked.teachers * asked.rows, shape, asked.seconds),
        "one_at_a_time_peft_batch_8": one_at_a_time(lm, asked.rank, asked.seconds),
        "answers": answering(lm, asked.teachers, shape, normalise=False, seconds=asked.seconds),
        "answers_normalised": answering(lm, asked.teachers, shape, normalise=True, seconds=asked.seconds),
    }
    machine = {"processor": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
    settings = {"teachers": asked.teachers, "rank": asked.rank, "rows": asked.rows, "torch": torch.__version__}
    print(json.dumps({"tokens_per_second": {k: round(v) for k, v in found.items()}, **settings, **machine}, indent=2))


if __name__ == "__main__":
    main()
