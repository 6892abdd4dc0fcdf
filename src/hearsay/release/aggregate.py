"""Teachers' logits to bounded vectors, summed: the last thing that happens to private numbers before the door.

Each teacher's vector for a question is a function of that teacher alone: its distribution over the candidates and the
rest bucket (`seqpate`), one vote (`-Merge_P`), its square root (`hellinger`), or the difference between that root and
the one the same teacher would have given before it saw its shard (residual). An empty shard's residual is exactly 0.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor

from hearsay.accounting.bounds import Bound
from hearsay.public.questions import Questions
from hearsay.release.grid import BoundedSum
from hearsay.release.histogram import teacher_votes

Shape = Literal["probability", "vote", "root"]
Blocks = Callable[[], Iterator[tuple[int, Tensor]]]  # (block, logits [G, Q, K + R]) as Stack.answers gives them

# Where the norm of a teacher's residuals may fall (per question, root mean square): what a quantile vote is cast on.
CLIP_EDGES = tuple(round(0.05 * 1.2**i, 4) for i in range(19))  # .05 to 1.33, each 20% above the last


def distributions(logits: Tensor, questions: Questions) -> Tensor:
    """[G, Q, K + R] logits -> [G, Q, K + 1] probabilities of the candidates and of everything else together."""
    device, k = logits.device, questions.candidates.shape[1]
    chosen = logits[..., :k].masked_fill(~questions.valid.to(device), -torch.inf)
    rest = torch.logsumexp(logits[..., k:] + questions.tail_weight.to(device), dim=-1, keepdim=True)
    return torch.softmax(torch.cat([chosen, rest], dim=-1), dim=-1)


def asked_tokens(questions: Questions) -> Tensor:
    """The tokens whose logits a teacher must compute: candidates, then tail."""
    return torch.cat([questions.candidates, questions.tail], dim=1)


def vectors(logits: Tensor, questions: Questions, shape: Shape) -> Tensor:
    odds = distributions(logits, questions)
    if shape == "root":
        return odds.sqrt()
    return teacher_votes(odds) if shape == "vote" else odds


def residuals(logits: Tensor, before: Tensor, questions: Questions) -> Tensor:
    """Roots after training minus roots before, slot by slot (the last bits of a batch depend on the slot)."""
    return vectors(logits, questions, "root") - vectors(before[: len(logits)], questions, "root")


def total(blocks: Blocks, questions: Questions, shape: Shape, bound: Bound, before: Tensor | None) -> BoundedSum:
    """The bounded sum over all teachers. With `before` [G, Q, K + R] (a public answer) the residuals are summed."""
    found: BoundedSum | None = None
    for _, logits in blocks():
        found = found or BoundedSum(bound, len(questions), questions.width, logits.device)
        found.add(vectors(logits, questions, shape) if before is None else residuals(logits, before, questions))
    if found is None:
        raise ValueError("no teachers to ask")
    return found


def norm_votes(blocks: Blocks, questions: Questions, before: Tensor) -> BoundedSum:
    """Each teacher votes for the cell its residuals' norm falls into: a private histogram of norms, for the clip."""
    found = BoundedSum(Bound("probability"), 1, len(CLIP_EDGES) + 1)
    edges = torch.tensor(CLIP_EDGES, dtype=torch.float64)
    for _, logits in blocks():
        norms = residuals(logits, before, questions).double().flatten(1).norm(dim=1).cpu() / len(questions) ** 0.5
        cells = torch.bucketize(norms.nan_to_num(nan=0.0), edges)
        found.add(torch.nn.functional.one_hot(cells, len(CLIP_EDGES) + 1).double()[:, None])
    return found


def clip_from_votes(noisy: Tensor, share: float) -> float:
    """The smallest edge that covers about `share` of the noisy votes (post-processing)."""
    counts = noisy.double().reshape(-1)
    # Isotonic enough for our purpose: negative cells are noise, and one cell cannot undo what lies below it.
    mass = counts.cumsum(0).clamp_min(0).cummax(0).values
    place = int((mass < share * mass[-1]).sum()) if mass[-1] > 0 else len(CLIP_EDGES)
    return CLIP_EDGES[min(place, len(CLIP_EDGES) - 1)]
