"""What noisy updates added up to, cleaned: the noise is known to the last digit, so what stands out of it can be told.

The noise of a layer's B [rank, outputs] is the same in every direction, what the units agree on is not: it lies along a
few. So of the matrix travelled so far, singular values that noise alone would give are set to zero and the others are
shortened by what noise adds to them (Gavish and Donoho, 2017, for the squared error). Post-processing, hence free.
"""

import math

import torch
from torch import Tensor


def cleaned(travelled: Tensor, noise: float) -> Tensor:
    """[rank, outputs] with independent noise of standard deviation `noise` in every entry."""
    if noise == 0:
        return travelled
    left, values, right = torch.linalg.svd(travelled.double(), full_matrices=False)
    short, long = sorted(travelled.shape)
    unit, aspect = noise * math.sqrt(long), short / long
    seen = (values / unit).clamp_min(1 + math.sqrt(aspect))  # where noise ends, the kept length below is zero
    kept = ((seen**2 - aspect - 1) ** 2 - 4 * aspect).clamp_min(0).sqrt() / seen
    return ((left * (kept * unit)) @ right).float()


def cleaned_rows(travelled: Tensor, noise: float) -> Tensor:
    energy = (travelled**2).sum(1, keepdim=True)
    return travelled * (1 - travelled.shape[1] * noise**2 / energy.clamp_min(1e-30)).clamp_min(0)
