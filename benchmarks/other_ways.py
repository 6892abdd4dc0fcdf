"""Teachers without a stack: one at a time with transformers and PEFT, as published, and all at once by torch.func.vmap.

Both train adapters of the same rank on the same top blocks, from the same kind of sentences. What they are measured
for is tokens a second; `throughput.py` puts them beside the stack.
"""

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import sdpa_kernel

import workload
from hearsay.lm import LanguageModel
from hearsay.private.training import BlockState, TrainingShape, advance
from hearsay.split import KERNELS
from hearsay.stacked import StackedTop

BATCH = 8  # sentences, as published
BATCHES = 64  # different ones, over and over
Step = Callable[[], int]  # trains once and says how many tokens


def one_at_a_time(lm: LanguageModel, shape: TrainingShape, device: torch.device) -> Step:
    """PEFT, Adam and a global norm per teacher; sentences of a batch padded to the longest."""
    from peft import LoraConfig, get_peft_model

    layers = len(lm.model.transformer.h)
    wanted = LoraConfig(
        r=shape.rank, lora_alpha=shape.alpha, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True,
        layers_to_transform=list(range(layers - shape.top_blocks, layers)),
    )  # fmt: skip
    adapted = get_peft_model(copy.deepcopy(lm.model), wanted)
    weights = [p for p in adapted.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(weights, shape.learning_rate)
    text, turn = workload.sentences(0, BATCH * BATCHES, workload.vocabulary(lm)), 0

    def step() -> int:
        nonlocal turn
        batch = [[0, *text[(turn * BATCH + i) % len(text)].tolist(), 0] for i in range(BATCH)]
        turn += 1
        width = max(map(len, batch))
        rows = torch.tensor([row + [0] * (width - len(row)) for row in batch]).to(device)
        mask = (torch.arange(width) < torch.tensor([len(row) for row in batch])[:, None]).to(device)
        labels = rows.masked_fill(~mask, -100)
        with sdpa_kernel(KERNELS):  # the stack's own choice: another one plans anew for every width
            adapted(input_ids=rows, attention_mask=mask.long(), labels=labels, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, shape.clip_norm)
        optimiser.step()
        optimiser.zero_grad()
        return sum(len(row) - 1 for row in batch)

    return step


def by_vmap(top: StackedTop, state: BlockState, shape: TrainingShape) -> Step:
    """torch.func: the gradient of one teacher's loss, mapped over all of a block; the trunk runs before, once for all,
    as in the stack. The loss is the plain one, over all logits: a map needs functions it can see through.
    """
    count, rows = len(state.flat), shape.rows_per_step
    turn = 0

    def loss(flat: Tensor, trunk: Tensor, positions: Tensor, targets: Tensor) -> Tensor:
        top.wear(top.layout.views(flat[None]))
        hidden = top.hidden(trunk, positions)
        logits = hidden.flatten(0, 1) @ top.split.head.T
        valid = (targets >= 0).flatten().float()
        odds = torch.log_softmax(logits.float(), -1)
        losses = -odds.gather(1, targets.clamp(min=0).flatten()[:, None])[:, 0]
        return (losses * valid).sum() / valid.sum().clamp(min=1)

    mapped = torch.func.vmap(torch.func.grad(loss))

    def step() -> int:
        nonlocal turn
        now, turn = turn % shape.steps, turn + 1
        tokens, targets, positions = (t[now].long() for t in (state.tokens, state.targets, state.positions))
        trunk = top.trunk(tokens, positions)
        each = [t.view(count, rows, *t.shape[1:]) for t in (trunk, positions, targets)]
        with sdpa_kernel(KERNELS):
            grad = mapped(state.flat, *each)
        advance(state, grad, now, shape)
        return count * rows * shape.row_tokens

    return step


def filled(state: BlockState) -> float:
    """Share of the places that hold a token to learn."""
    return float(np.mean((state.targets >= 0).cpu().numpy()))
