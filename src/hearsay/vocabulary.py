"""What the LM head is needed for, without ever holding [tokens, vocabulary] in memory.

With a small model the head is most of the arithmetic: at width 192 and 8192 tokens it costs as much as seven blocks.
So the loss and its gradient are computed together, a few positions at a time, while the logits are still in the
cache; and questions about candidates multiply with the candidates' rows of the head only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK_CELLS = {"cpu": 2**21, "cuda": 2**28}  # logits held at once: a core's cache, or a small share of a GPU's memory
ALIGNED = {"cuda": 64}  # tokens: rows of logits that start on odd addresses keep a GPU off its fast products
_ROW_CELLS = 2**27  # half a GiB of head rows


def chunk_rows(head: Tensor) -> int:
    """Positions a chunk: a constant of the model and the kind of device, never of what the rows hold."""
    return max(16, CHUNK_CELLS.get(head.device.type, 2**24) // head.shape[0])


def aligned(head: Tensor) -> Tensor:
    """The head with rows of zeros up to a round number of tokens (GPT-2: 50,257 to 50,304), where the device needs it.

    Made anew at every call: a copy of the head costs a thousandth of the products it speeds up, and nobody has to
    keep it.
    """
    missing = -head.shape[0] % ALIGNED.get(head.device.type, 1)
    return torch.nn.functional.pad(head, (0, 0, 0, missing)) if missing else head


def even_chunks(hidden: Tensor, targets: Tensor, most: int) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Parts of one size, the last one filled up: a product of another shape may round otherwise, and then what a unit
    gets would depend on its place.
    """
    count = max(1, -(-len(hidden) // most))
    size = -(-len(hidden) // (16 * count)) * 16
    for start in range(0, len(hidden), size):
        where = slice(start, start + size)
        missing = size - len(hidden[where])
        fill = torch.nn.functional.pad
        yield where, fill(hidden[where], (0, 0, 0, missing)), fill(targets[where], (0, missing))


def _odds(hidden: Tensor, wide: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Logits and probabilities [n, padded vocabulary]; what was added to the vocabulary has none."""
    logits = hidden.to(wide.dtype) @ wide.T
    logits[:, tokens:] = -torch.inf
    return logits, torch.softmax(logits, -1)


def loss_slopes(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """[N, d]: the gradient, in `hidden` [N, d], of each target's negative log-likelihood; that itself is not computed.

    What training needs: p @ head - head[target], in the pass that computes p. The logits are written and read once.
    """
    wide, slope = aligned(head), torch.empty_like(hidden)
    for where, part, wanted in even_chunks(hidden, targets, chunk_rows(head)):
        _, odds = _odds(part, wide, len(head))
        slope[where] = (odds @ wide - head[wanted])[: len(slope[where])]
    return slope


@dataclass(frozen=True)
class Shortlist:
    """Tokens that stand for the whole vocabulary: the likely ones as themselves, drawn ones for all others.

    `tokens` [K]; `log_weights` [K], for how many tokens each stands; `likely` [V], which are always listed. Public, and
    the same for everybody in a round: a gradient must not depend on who shares a launch.
    """

    tokens: Tensor
    log_weights: Tensor
    likely: Tensor

    def to(self, device: torch.device) -> "Shortlist":
        return Shortlist(*(part.to(device) for part in (self.tokens, self.log_weights, self.likely)))


def short_slopes(hidden: Tensor, head: Tensor, targets: Tensor, listed: Shortlist) -> Tensor:
    """`loss_slopes` at the price of a shortlist; a target that is not among the likely gets a column of its own."""
    rows, slope = head[listed.tokens], torch.empty_like(hidden)
    weights = listed.log_weights.to(hidden.dtype)
    for where, part, wanted in even_chunks(hidden, targets, chunk_rows(rows)):
        own = head[wanted]
        column = (part * own).sum(-1, keepdim=True).masked_fill(listed.likely[wanted, None], -torch.inf)
        odds = torch.softmax(torch.cat([torch.addmm(weights, part, rows.T), column], 1), -1)
        slope[where] = (odds[:, :-1] @ rows + (odds[:, -1:] - 1) * own)[: len(slope[where])]
    return slope


class _TokenLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        rows, wanted, wide = chunk_rows(head), ctx.needs_input_grad[0], aligned(head)
        losses = torch.empty(hidden.shape[0], dtype=torch.float32, device=hidden.device)
        slope = torch.empty_like(hidden) if wanted else None
        for start in range(0, hidden.shape[0], rows):
            part = slice(start, start + rows)
            logits, odds = _odds(hidden[part], wide, len(head))
            # log-sum-exp from the largest logit and its probability: two reads instead of another pass of exponentials
            normaliser = logits.amax(-1).float() - odds.amax(-1).float().log()
            losses[part] = normaliser - logits.gather(1, targets[part, None])[:, 0].float()
            if slope is not None:
                slope[part] = odds @ wide - head[targets[part]]
        ctx.save_for_backward(slope)
        return losses

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * grads[0][:, None].to(slope.dtype), None, None


def token_losses(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of each target, float32 [N], differentiable in `hidden` [N, d] but not in the head [V,
    d].

    A head in bfloat16 makes the products about three times faster where the processor has them. A target must be a
    valid token even where its loss is to be ignored: multiply by a weight of 0 instead.
    """
    return _TokenLosses.apply(hidden, head, targets)  # type: ignore[no-any-return, no-untyped-call]


def candidate_logits(hidden: Tensor, head: Tensor, bias: Tensor | None, candidates: Tensor) -> Tensor:
    """float32 [G, Q, K]: logits of candidates [Q, K] for hidden states [G, Q, d]; the products are taken in float32."""
    each = max(1, _ROW_CELLS // (candidates.shape[1] * head.shape[1]))  # questions whose rows are gathered at once
    parts = []
    for asked, state in zip(torch.split(candidates, each), torch.split(hidden, each, dim=1), strict=True):
        rows = head[asked].float()
        parts.append(torch.bmm(state.transpose(0, 1).float(), rows.transpose(1, 2)).transpose(0, 1))
    logits = torch.cat(parts, 1)
    return logits if bias is None else logits + bias[candidates].float()


def log_normalisers(hidden: Tensor, head: Tensor, bias: Tensor | None) -> Tensor:
    """float32 [N]: exact log-sum-exp over the whole vocabulary for hidden states [N, d]."""
    parts = []
    for part in torch.split(hidden, chunk_rows(head)):
        logits = part @ head.T if bias is None else torch.addmm(bias, part, head.T)
        odds = torch.softmax(logits, -1, dtype=torch.float32)
        parts.append(logits.amax(-1).float() - odds.amax(-1).log())
    return torch.cat(parts) if parts else hidden.new_zeros(0, dtype=torch.float32)
