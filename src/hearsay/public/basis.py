"""Where adapters look: inner halves A along the main directions of each layer's input on the public model's own text.

Noise is the same in every direction, but a layer's input is not: a few directions carry most of its energy and would
fill a unit's clipped update, leaving the others to the noise. So A's columns are the input's leading eigenvectors on
pseudo text, each scaled to the same variance: the one a random direction would have had. All of it is public.
"""

import torch
from torch import Tensor

from hearsay.public.questions import lay_out
from hearsay.stacked import StackedTop

ROWS = 64  # sentences per pass
SENTENCES = 600  # as many as are looked at


@torch.no_grad()
def whitened(top: StackedTop, start: Tensor, sentences: list[list[int]], first: int | None, end: int) -> Tensor:
    """`start` [D] with every A replaced; B, and with it what the adapter computes, stays."""
    flat = start.detach().clone().float().reshape(1, -1)
    moments = _moments(top, sentences[:SENTENCES], first, end)
    for a, moment in zip(top.layout.views(flat)[::2], moments, strict=True):
        energy, directions = torch.linalg.eigh(moment)
        energy, directions = energy.flip(0).clamp_min(1e-12), directions.flip(1)
        usual = (moment.trace() / len(moment) / 3).sqrt()  # of a random column: see Layout.initial
        found = directions[:, : a.shape[2]] * (usual / energy[: a.shape[2]].sqrt())
        a[0, :, : found.shape[1]].copy_(found)
    return flat[0]


def _moments(top: StackedTop, sentences: list[list[int]], first: int | None, end: int) -> list[Tensor]:
    """Second moments [inputs, inputs] of every adapted layer's input, over the sentences' own places."""
    rows, lengths, _ = lay_out(sentences, first, end)
    device = top.split.head.device
    found = [torch.zeros(slot.inputs, slot.inputs, dtype=torch.float64) for slot in top.layout.slots]
    inside = torch.zeros(0, dtype=torch.bool)

    def watch(place: int) -> object:
        def see(_: object, given: tuple[Tensor, ...]) -> None:
            seen = given[0].reshape(inside.shape[0], -1)[inside].float()
            found[place] += (seen.T @ seen).double().cpu()

        return top.layers()[place].register_forward_pre_hook(see)

    hooks = [watch(place) for place in range(len(found))]
    top.bare()
    for start in range(0, len(rows), ROWS):
        part = rows[start : start + ROWS]
        inside = (torch.arange(part.shape[1])[None] < lengths[start : start + ROWS, None]).flatten().to(device)
        top.hidden(top.trunk(part.to(device)))
    for hook in hooks:
        hook.remove()  # type: ignore[attr-defined]
    return [moment / int(lengths.sum()) for moment in found]
