"""Public corpora laid out for a study: which units are private, which lend prefixes, which are held out."""

import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HELD_OUT = 500  # dialogues of the training split that nobody trains on: test services mostly do not occur in train


def sgd(data: Path, out: Path) -> dict[str, Any]:
    """Schema-Guided Dialogue: train dialogues are private, dev lends prefixes, 500 train dialogues are held out."""
    train = list(_jsonl(data / "sgd-train.jsonl.xz"))
    users = sorted({row["user"] for row in train})
    held = set(users[:: max(2, len(users) // HELD_OUT)][:HELD_OUT])
    out.mkdir(parents=True, exist_ok=True)
    _write(out / "private.jsonl", (row for row in train if row["user"] not in held))
    _write(out / "holdout.jsonl", (row for row in train if row["user"] in held))
    _write(out / "public.jsonl", _jsonl(data / "sgd-dev.jsonl.xz"))
    return {name: [str(out / f"{name}.jsonl")] for name in ("private", "public", "holdout")} | {
        "units": len(users) - len(held),
        "sentences": 146_000,  # rows of at least 8 tokens, as the owner declares
        "mean_tokens": 16,
        "cap": 50,
    }


def _jsonl(path: Path) -> Iterable[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({"user": row["user"], "text": row["text"]}) + "\n")


PREPARE = {"sgd": sgd}
