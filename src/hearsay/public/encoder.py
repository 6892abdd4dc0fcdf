"""Texts to vectors by a public model: the same for candidates, which anyone may see, and for private text, inside.

By default the pooled states of the embedded language model; a sentence-transformers folder or hub id where one is at
hand. Vectors have length 1. Encoding is the slow step, so it is done once for a list of texts and kept beside it.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hearsay import lm as models
from hearsay.disk import drafting
from hearsay.errors import ModelError
from hearsay.lm import LanguageModel

Vectors = npt.NDArray[np.float32]
Progress = Callable[[int, int], None]
BATCH = 64


@dataclass(frozen=True)
class Encoder:
    name: str  # of model and cut: vectors of another encoder are not taken for these
    batch: Callable[[list[str]], Vectors]

    def __call__(self, texts: Sequence[str], progress: Progress = lambda done, total: None) -> Vectors:
        """[texts, width]. Batches hold texts of like length, to pad little."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: Vectors | None = None
        for at in range(0, len(order), BATCH):
            places = order[at : at + BATCH]
            vectors = self.batch([texts[i] for i in places])
            if found is None:
                found = np.zeros((len(texts), vectors.shape[1]), np.float32)
            found[places] = vectors
            progress(min(at + BATCH, len(texts)), len(texts))
        if found is None:
            raise ModelError("got no texts to encode, need at least one")
        return found

    def alone(self, text: str) -> Vectors:
        """[width], a function of this text only. In a batch the last bits of a vector depend on its neighbours: a
        private text encoded beside others would move theirs, and one unit would change many contributions.
        """
        found: Vectors = self.batch([text])[0]
        return found


def load(source: str, *, max_tokens: int, device: torch.device, fast: bool = False) -> Encoder:
    """`fast` computes in bfloat16: half the time on recent processors, cosines within .003."""
    name = f"{source}-{max_tokens}-{'bfloat16' if fast else 'float32'}"
    folder = Path(source)
    if source == "embedded" or (folder.is_dir() and not (folder / "modules.json").exists()):
        lm = models.load(source, device=device, dtype=torch.bfloat16 if fast else torch.float32)
        return Encoder(name, lambda texts: pooled(lm, texts, max_tokens))
    model = _sentence_model(source, device)
    model.max_seq_length = max_tokens
    if fast:
        model = model.to(torch.bfloat16)

    def batch(texts: list[str]) -> Vectors:
        vectors = model.encode(texts, batch_size=BATCH, convert_to_numpy=False, show_progress_bar=False)
        return _normal(torch.stack(list(vectors)))

    return Encoder(name, batch)


def _sentence_model(source: str, device: torch.device) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise ModelError(
            f"discriminator.encoder {source} needs sentence-transformers; type: pip install 'hearsay[encoder]'"
        ) from None
    try:
        return SentenceTransformer(source, device=str(device), trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"got discriminator.encoder {source}, which is no folder here and could not be loaded from the hub; "
            "need a sentence-transformers model, or embedded"
        ) from error


@torch.no_grad()
def pooled(lm: LanguageModel, texts: list[str], max_tokens: int) -> Vectors:
    """The mean of a language model's last states over the tokens of each text."""
    rows = [row or [models.end_id(lm)] for row in models.encode(lm, texts, max_tokens)]
    width = max(map(len, rows))
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.tensor([row + [models.pad_id(lm)] * (width - len(row)) for row in rows], device=lm.device)
    # Padding is on the right and attention causal: no state that counts sees it.
    states = lm.model.base_model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False)[0]
    counts = (torch.arange(width)[None] < lengths[:, None]).to(lm.device)
    return _normal((states.float() * counts[:, :, None]).sum(1) / lengths[:, None].to(lm.device))


def _normal(vectors: torch.Tensor) -> Vectors:
    found: Vectors = torch.nn.functional.normalize(vectors.float(), dim=1).cpu().numpy()
    return found


def kept(encoder: Encoder, texts: Sequence[str], path: Path, progress: Progress) -> Vectors:
    """Encodes once: the file's name covers the encoder and every text. For public texts only."""
    seen = hashlib.sha256(encoder.name.encode())
    for text in texts:
        seen.update(hashlib.sha256(text.encode()).digest())
    target = path.with_name(f"{path.name}-{seen.hexdigest()[:16]}.npy")
    if target.exists():
        found: Vectors = np.load(target, allow_pickle=False)
        return found
    vectors = encoder(texts, progress)
    target.parent.mkdir(parents=True, exist_ok=True)
    with drafting(target) as draft, draft.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    return vectors
