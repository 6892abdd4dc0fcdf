"""Text from a model, many rows at once: sampling with a key-value cache, and beams.

Sampling is our own loop because the library's takes no random generator: a run must be able to repeat its pseudo text.
Rows are padded on the left, with positions that count real tokens only, so a row's text does not depend on its batch.
"""

from typing import Any

import torch
from torch import Tensor

_FEW = (
    1024  # likeliest tokens looked at first: they usually hold the whole nucleus, and sorting all is the slowest step
)


@torch.no_grad()
def sample(
    model: Any,
    tokens: Tensor,
    lengths: Tensor,
    end: int,
    *,
    max_tokens: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator | None,
) -> list[list[int]]:
    """[rows][max_tokens] new tokens, filled up with the end token."""
    device, drawn = model.device, torch.full((len(tokens), max_tokens), end)
    mask = _mask(tokens, lengths).to(device)
    positions, step, cache = (mask.cumsum(1) - 1).clamp(min=0), tokens.to(device), None
    rows = torch.arange(len(tokens))  # those still being written
    for place in range(max_tokens):
        # fmt: off
        out = model(
            step, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        # fmt: on
        cache, chosen = out.past_key_values, draw(out.logits[:, -1], temperature, top_p, generator).cpu()
        drawn[rows, place] = torch.where((drawn[rows, place - 1] == end) & (place > 0), end, chosen)
        going = drawn[rows, place] != end
        if not going.any():
            break
        mask, positions = torch.cat([mask, torch.ones_like(mask[:, :1])], 1), positions[:, -1:] + 1
        if 2 * int(going.sum()) < len(rows):  # most have ended: go on with the others alone
            kept = going.nonzero()[:, 0].to(device)
            cache.batch_select_indices(kept)
            rows, chosen, mask, positions = rows[going], chosen[going], mask[kept], positions[kept]
        step = chosen[:, None].to(device)
    return drawn.tolist()


def draw(logits: Tensor, temperature: float, top_p: float, generator: torch.Generator | None) -> Tensor:
    """One token for each row, by inverting the cumulative distribution: one random number a row, drawn on the CPU."""
    if temperature <= 0:
        return logits.argmax(-1)
    odds = torch.softmax(logits.float() / temperature, -1)
    if top_p < 1:
        odds = nucleus(odds, top_p)
    heap = odds.double().cumsum(-1)
    point = torch.rand(len(odds), 1, dtype=torch.float64, generator=generator).to(odds.device) * heap[:, -1:]
    return torch.searchsorted(heap, point, right=True).clamp(max=odds.shape[1] - 1)[:, 0]


def nucleus(odds: Tensor, top_p: float) -> Tensor:
    """The odds with all but the likeliest tokens that together reach `top_p` set to zero."""
    ordered = odds.topk(min(_FEW, odds.shape[1])).values
    least, short = _least(ordered, top_p), ordered.sum(-1) < top_p
    if short.any():
        least[short] = _least(odds[short].sort(descending=True).values, top_p)
    return odds.masked_fill(odds < least, 0.0)


def _least(ordered: Tensor, top_p: float) -> Tensor:
    """[rows, 1]: the smallest probability in the nucleus, which includes the token that crosses the line."""
    count = (ordered.cumsum(-1) - ordered < top_p).sum(-1, keepdim=True)
    return ordered.gather(-1, (count - 1).clamp(min=0))


def beam(model: Any, tokens: Tensor, lengths: Tensor, end: int, *, max_tokens: int, beams: int) -> list[list[int]]:
    out = model.generate(
        tokens.to(model.device),
        attention_mask=_mask(tokens, lengths).to(model.device),
        max_new_tokens=max_tokens,
        num_beams=beams,
        do_sample=False,
        pad_token_id=end,
        eos_token_id=end,
    )
    return out[:, tokens.shape[1] :].tolist()  # type: ignore[no-any-return]


def _mask(tokens: Tensor, lengths: Tensor) -> Tensor:
    width = tokens.shape[1]
    return (torch.arange(width) >= width - lengths[:, None]).long()
