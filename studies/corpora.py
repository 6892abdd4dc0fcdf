"""Public corpora laid out for a study: which units are private, which lend prefixes, which are held out."""

import json
import lzma
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hearsay.errors import BadInput

HELD_OUT = 500  # dialogues of the training split that nobody trains on: test services mostly do not occur in train


def sgd(data: Path, out: Path, held_out: int = HELD_OUT) -> dict[str, Any]:
    """Schema-Guided Dialogue: train dialogues are private, dev lends prefixes, some train dialogues are held out."""
    train = list(_jsonl(data / "sgd-train.jsonl.xz"))
    users = sorted({row["user"] for row in train})
    held = set(users[:: max(2, len(users) // held_out)][:held_out])
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
    if not path.is_file():
        raise BadInput(
            f"no {path.name} in {path.parent.resolve()}; name the corpora's folder with DATA=, or take a simulated "
            "corpus with CORPUS=airline (or CORPUS=airline-small to see it work)"
        )
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({"user": row["user"], "text": row["text"]}) + "\n")


def sgd_rehearsal(data: Path, out: Path) -> dict[str, Any]:
    """The dev dialogues alone, split as the private ones will be: nobody of the training split is looked at."""
    rows = list(_jsonl(data / "sgd-dev.jsonl.xz"))
    parts = _tenths({row["user"] for row in rows})
    return _laid_out(rows, parts, out) | {"mean_tokens": 16, "cap": 50} | _per_unit(parts, 12.5)


def europarl(data: Path, out: Path) -> dict[str, Any]:
    """European Parliament, unit = speaker: a tenth is held out, a tenth lends prefixes, the others are private."""
    return _parliament(data, out, "private")


def europarl_rehearsal(data: Path, out: Path) -> dict[str, Any]:
    """The speakers that lend prefixes alone, split the same way: no private or held-out one is looked at."""
    return _parliament(data, out, "public")


def _parliament(data: Path, out: Path, part: str) -> dict[str, Any]:
    rows = list(_jsonl(data / "europarl.jsonl.xz"))
    parts = _tenths({row["user"] for row in rows})
    if part == "public":
        rows = [row for row in rows if parts[row["user"]] == "public"]
        parts = _tenths({row["user"] for row in rows})
    names = sorted({surname(row["name"]) for row in rows if parts[row["user"]] == "private" and row.get("name")})
    out.mkdir(parents=True, exist_ok=True)
    (out / "secrets.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
    return _laid_out(rows, parts, out) | {"mean_tokens": 29, "cap": 300} | _per_unit(parts, 241)


def surname(name: str) -> str:
    """As speeches say it: Anna MÜLLER-MAY is "Müller-May" there, Ann McNALLY "McNally"; first names hardly occur."""
    capitals = [word for word in name.split() if len(word) > 1 and word[-2:].isupper()]
    found = [re.sub(r"^(Ma?c)?(.*)", lambda part: (part[1] or "") + part[2].title(), word) for word in capitals]
    return " ".join(found) or name


def _tenths(users: set[str]) -> dict[str, str]:
    """The first of ten is held out, the second lends prefixes, the others are private."""
    names = {0: "holdout", 1: "public"}
    return {user: names.get(place % 10, "private") for place, user in enumerate(sorted(users))}


def _laid_out(rows: list[dict[str, Any]], parts: dict[str, str], out: Path) -> dict[str, Any]:
    out.mkdir(parents=True, exist_ok=True)
    for name in ("private", "public", "holdout"):
        _write(out / f"{name}.jsonl", (row for row in rows if parts[row["user"]] == name))
    return {name: [str(out / f"{name}.jsonl")] for name in ("private", "public", "holdout")}


def _per_unit(parts: dict[str, str], sentences: float) -> dict[str, Any]:
    """What the owner declares: the units, and their rows of at least 8 tokens by a public average."""
    units = sum(name == "private" for name in parts.values())
    return {"units": units, "sentences": round(units * sentences)}


def airline(data: Path, out: Path) -> dict[str, Any]:
    """The demo's simulated customers."""
    return _airline(out, seed=0, private=5000)


def airline_other(data: Path, out: Path) -> dict[str, Any]:
    """As many other simulated customers: what settings may be tried on, again and again."""
    return _airline(out, seed=1000, private=5000)


def airline_small(data: Path, out: Path) -> dict[str, Any]:
    """A few of them, for continuous integration."""
    return _airline(out, seed=2, private=60, others=12) | {"sentences": 240, "cap": 4, "max_tokens": 24}


def airline_rehearsal(data: Path, out: Path) -> dict[str, Any]:
    """Other simulated customers, a quarter of them."""
    return _airline(out, seed=1000, private=1250)


def _airline(out: Path, *, seed: int, private: int, others: int = 400) -> dict[str, Any]:
    from hearsay.demo.airline import write_corpus

    out.mkdir(parents=True, exist_ok=True)
    write_corpus(out, private_customers=private, public_customers=others, holdout_customers=min(60, others), seed=seed)
    return {name: [str(out / f"{name}.jsonl")] for name in ("private", "public", "holdout")} | {
        "units": private,
        "sentences": 5 * private,
        "mean_tokens": 26,
        "cap": 5,
        "max_tokens": 32,
    }


PREPARE = {
    "sgd": sgd, "europarl": europarl, "airline": airline, "airline-other": airline_other,
    "airline-small": airline_small,
}  # fmt: skip
# Public text that plays the private one.
REHEARSE = {"sgd": sgd_rehearsal, "europarl": europarl_rehearsal, "airline": airline_rehearsal}
