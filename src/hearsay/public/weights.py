"""How much each coordinate of an update counts, before it is clipped and noised.

Noise is the same in every coordinate, but a unit's gradient is not: where the loss is steep for everybody, a little
noise does much harm, and these coordinates fill the clipped update as well. So a coordinate is weighed by the inverse
fourth root of its mean squared gradient, before the clip and again when the student moves: the step is then divided by
the square root of that mean, as Adam would, and noise is smallest where it hurts most. (Li et al. 2022, "Private
adaptive optimization with side information", weigh by public second moments, too.) The moments are those of the public
model's own text, in parcels as large as a unit's: all of it is public.
"""

import torch
from torch import Tensor

from hearsay.errors import ModelError
from hearsay.public.questions import lay_out
from hearsay.public.student import token_loss
from hearsay.stacked import Adapted

PARCELS = 128  # as many as are looked at
FLOOR = 1e-4  # of a layer's mean: what its own text hardly moves is not weighed up without end


def weights(student: Adapted, sentences: list[list[int]], first: int | None, end: int, parcel: int) -> Tensor:
    """float32 [D_B] in the order of `Layout.outputs`, with mean square 1 in every layer; `parcel` sentences at once."""
    moments = torch.zeros(1, student.top.layout.size, dtype=torch.float64)
    for start in range(0, min(len(sentences), PARCELS * parcel), parcel):
        rows, lengths, targets = lay_out(sentences[start : start + parcel], first, end)
        loss = token_loss(student, student.hidden(rows.to(student.flat.device)), lengths, targets)
        moments += torch.autograd.grad(loss, student.flat)[0].double().cpu() ** 2
    found = []
    for moment in student.top.layout.views(moments)[1::2]:
        relative = (moment / moment.mean().clamp_min(1e-300)).clamp_min(FLOOR)
        weight = relative.flatten() ** -0.25
        found.append(weight / weight.square().mean().sqrt())
    whole = torch.cat(found).float()
    if not torch.isfinite(whole).all():  # every round would be paid for noise alone
        raise ModelError("got gradients of pseudo text that are not finite, need a model that can learn: look at it")
    return whole
