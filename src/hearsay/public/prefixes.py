"""Public prefixes and the sentences that a public model makes of them.

Only the first few tokens of a public text are used: whole public sentences of other people are rarely to be had, their
first words are. What completes them is the public model or a student, so everything here is public or already released.
"""

from pathlib import Path

import torch

from hearsay import lm as models
from hearsay.errors import DataError
from hearsay.lm import LanguageModel
from hearsay.reading import Columns, read_rows

Tokens = list[int]
ENOUGH = 100_000  # prefixes; more add nothing to a few thousand pseudo sentences


def read_prefixes(lm: LanguageModel, files: list[Path], column: str, length: int) -> list[Tokens]:
    """The first `length` tokens of each public text that is longer than that."""
    found: list[Tokens] = []
    texts: list[str] = []
    for row in read_rows(files, Columns(text=column)):
        texts.append(row.text)
        if len(texts) >= ENOUGH:
            break
    for tokens in models.encode(lm, texts, length + 1):
        if len(tokens) > length:
            found.append(tokens[:length])
    if not found:
        raise DataError(
            f"{files[0]}: no public text is longer than data.prefix_tokens ({length}); lower it, or use longer texts"
        )
    return found


def complete(
    lm: LanguageModel, prefixes: list[Tokens], count: int, *, min_tokens: int, max_tokens: int, seed: int
) -> list[Tokens]:
    """`count` sentences, each a random prefix with its continuation; too short ones are drawn again."""
    stream = torch.Generator().manual_seed(seed)
    found: list[Tokens] = []
    for _ in range(20):
        chosen = [prefixes[i] for i in torch.randint(len(prefixes), (count - len(found),), generator=stream).tolist()]
        rest = models.generate(lm, chosen, max_tokens=max_tokens - len(prefixes[0]), generator=stream)
        found += [a + b for a, b in zip(chosen, rest, strict=True) if len(a) + len(b) >= min_tokens]
        if len(found) == count:
            return found
    raise DataError(f"the model hardly ever completes a prefix to {min_tokens} tokens; lower data.min_tokens")
