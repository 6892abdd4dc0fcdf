"""Encodes the study's texts once: the pool and the notes, by one public encoder, into one folder. Reports the rate.

    PYTHONPATH=src python studies/augment_features.py --pool pool.jsonl.xz --data DATA --encoder FOLDER --out DIR

Each note is encoded alone, as a run does it (see hearsay.public.encoder). The folder may be used by any number of
cells: features do not depend on split, seed or budget.
"""

import argparse
import csv
import hashlib
import io
import json
import lzma
import sys
import time
from pathlib import Path

import numpy as np
import torch

from hearsay.config_augment import Generator
from hearsay.public import encoder as encoders
from hearsay.public import generator
from hearsay.public.encoder import Encoder, Vectors
from hearsay.public.generator import Candidate

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.specialties import TERMS

TOKENS = 128
PART = 2048  # texts between two files: a stopped encoding goes on
SAMPLE = 256  # texts whose encoding is timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--encoder", required=True, help="sentence-transformers folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=10**6, help="first texts of the pool; labels take turns in it")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    encoder = encoders.load(given.encoder, max_tokens=TOKENS, device=torch.device("cpu"), fast=True)
    texts = [one.text for one in pool(given.pool, given.texts)]
    notes = [row["transcription"] for row in note_rows(given.data)]
    vectors = _parts(encoder, texts, given.out)
    alone = _alone(encoder, notes, given.out / "notes.npy")
    facts = {
        "encoder": Path(given.encoder).parent.name, "tokens": TOKENS, "precision": "bfloat16",
        "texts": len(texts), "texts_per_second": _rate(encoder, texts[:SAMPLE]),
        "notes": len(notes), "threads": torch.get_num_threads(),
    }  # fmt: skip
    np.savez(given.out / "features.npz", names=_names([*texts, *notes]), vectors=np.concatenate([vectors, alone]))
    (given.out / "features.json").write_text(json.dumps(facts, indent=1))
    print(json.dumps(facts))


def _parts(encoder: Encoder, texts: list[str], out: Path) -> Vectors:
    found = []
    for at in range(0, len(texts), PART):
        path = out / f"part-{at}.npy"
        if not path.exists():
            np.save(path, encoder(texts[at : at + PART]))
            print(f"{at + PART} of {len(texts)}", file=sys.stderr, flush=True)
        found.append(np.load(path))
    vectors: Vectors = np.concatenate(found)[: len(texts)]
    return vectors


def _alone(encoder: Encoder, notes: list[str], path: Path) -> Vectors:
    if not path.exists():
        np.save(path, np.stack([encoder.alone(text) for text in notes]))
    vectors: Vectors = np.load(path)
    return vectors


def _rate(encoder: Encoder, texts: list[str]) -> float:
    began = time.monotonic()
    encoder(texts)
    return round(len(texts) / (time.monotonic() - began), 1)


def pool(path: Path, texts: int = 10**6) -> list[Candidate]:
    """As a run reads it: cleaned, and in the file's order."""
    settings = Generator.model_validate({"backend": "file", "files": [path], "texts": texts})
    return generator.from_files([path], settings, sorted(TERMS))


def note_rows(data: Path) -> list[dict[str, str]]:
    csv.field_size_limit(10**8)
    with lzma.open(data / "mtsamples_unique.csv.xz") as file:
        return list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")))


def _names(texts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    return np.array([hashlib.sha256(text.encode()).digest()[:16] for text in texts], dtype="V16")


def cached(folder: Path) -> Encoder:
    """An encoder that looks up what was encoded, and knows nothing else."""
    with np.load(folder / "features.npz") as file:
        names, vectors = file["names"], file["vectors"]
    place = {bytes(name): i for i, name in enumerate(names)}
    facts = json.loads((folder / "features.json").read_text())

    def look_up(texts: list[str]) -> Vectors:
        rows = [place[hashlib.sha256(text.encode()).digest()[:16]] for text in texts]
        found: Vectors = vectors[rows]
        return found

    return Encoder(f"{facts['encoder']}-{facts['tokens']}-{facts['precision']}", look_up)


if __name__ == "__main__":
    main()
