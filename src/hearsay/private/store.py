"""Trained teachers on disk: one file for each block, inside the run's private/ folder.

A file appears whole or not at all (written beside and renamed), so a killed training goes on at the first missing
block. Its header holds public facts only: generation, base model, block size, the training settings. A store
refuses files of another header.
"""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hearsay.adapter_files import merged, write_peft
from hearsay.errors import ModelError
from hearsay.lm import LanguageModel
from hearsay.private.training import TrainingShape
from hearsay.stacked import StackedTop


@dataclass(frozen=True)
class AdapterStore:
    folder: Path
    shape: TrainingShape
    block: int  # teachers a block
    count: int  # teachers in all
    generation: int  # another order of the data, or another public adapter to start from, is another generation
    base: str = ""  # fingerprint of the model the adapters belong to

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.chmod(0o700)  # mkdir's mode is cut by the umask and ignored for a folder that was there

    @property
    def blocks(self) -> int:
        return -(-self.count // self.block)

    def expect(self, other: "AdapterStore") -> None:
        """Refuses to be used for other teachers than those it was opened for."""
        self._check("a stack", other._header())

    def path(self, block: int) -> Path:
        return self.folder / f"block-{block:05d}.safetensors"

    def has(self, block: int) -> bool:
        """Whether this block is trained; a file of other settings is refused, not taken for it."""
        return self.path(block).exists() and self._checked(block)

    def missing(self, blocks: list[int] | None = None) -> list[int]:
        """Those of the blocks (all of them, if none are named) that are still to be trained."""
        return [block for block in (range(self.blocks) if blocks is None else blocks) if not self.has(block)]

    def put(self, block: int, flat: Tensor) -> None:
        """Two workers may bring the same block, where one was thought lost; each writes its own file, then renames."""
        part = self.path(block).with_suffix(f".{platform.node()}-{os.getpid()}.part")
        metadata = {"hearsay": json.dumps(self._header())}  # one key: several come in any order, and files would differ
        save_file({"adapters": flat.detach().cpu().contiguous()}, part, metadata=metadata)
        part.chmod(0o600)
        part.replace(self.path(block))

    def sweep(self) -> None:
        """Removes what killed workers left half-written: before training begins, while nobody writes."""
        for path in self.folder.glob("*.part"):
            path.unlink()

    def get(self, block: int, device: Any = "cpu") -> Tensor:
        """[G, D] float32."""
        if not self.path(block).exists():
            raise ModelError(f"got no block {block} in {self.folder}, need every block trained; run the training again")
        return self._read(block, str(device))

    def _checked(self, block: int) -> bool:
        """Reads the header alone: a run that goes on looks at every block."""
        with self._open(block, "cpu"):
            return True

    def _read(self, block: int, device: str) -> Tensor:
        with self._open(block, device) as file:
            # A copy of our own: a mapped file lies at any address, and products can round by alignment.
            flat: Tensor = file.get_tensor("adapters").clone()
        return flat

    @contextmanager
    def _open(self, block: int, device: str) -> Iterator[Any]:
        path = self.path(block)
        try:
            with safe_open(path, framework="pt", device=device) as file:
                self._check(path.name, json.loads((file.metadata() or {}).get("hearsay", "{}")))
                yield file
        except SafetensorError as error:
            raise ModelError(f"got a damaged file {path}; delete it and run the training again") from error

    def teacher(self, index: int) -> Tensor:
        """[D], one teacher's adapter."""
        return self.get(index // self.block)[index % self.block].clone()

    def _header(self) -> dict[str, str]:
        return {
            "generation": str(self.generation),
            "base": self.base,
            "block": str(self.block),
            "count": str(self.count),
            "shape": self.shape.to_json(),
            "fingerprint": self.shape.fingerprint(),
        }

    def _check(self, what: str, found: dict[str, str]) -> None:
        for name, need in self._header().items():
            if found.get(name) != need:
                raise ModelError(
                    f"got {what} with {name} {found.get(name)}, need {need}; "
                    f"use the settings it was trained with, or another folder than {self.folder}"
                )


def export_peft(store: AdapterStore, teacher: int, folder: Path, lm: LanguageModel) -> None:
    """One teacher as a PEFT adapter. Private: such a file is for the owner's eyes, not for release."""
    write_peft(lm, StackedTop(lm.model, store.shape.adapter), store.teacher(teacher), folder)


def merge(lm: LanguageModel, adapter: Tensor, shape: TrainingShape) -> LanguageModel:
    """A copy of the base with one adapter [D] merged into its weights."""
    return merged(lm, StackedTop(lm.model, shape.adapter), adapter)
