"""Peak memory and speed of reading and partitioning 2 million rows of 200,000 users.

    python benchmarks/partition_memory.py            prints the result and keeps it in benchmarks/results/

The file is made up of random words. Each case runs in a process of its own, so that its peak is its own; the tokeniser
is a trivial one, so that the figures are those of the reader and the partition. `record` is the worst case for memory:
nearly every row is a unit.
"""

import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from revision import commit

ROWS, USERS, LIMIT_MIB = 2_000_000, 200_000, 1024
RESULT = Path(__file__).parent / "results" / "partition_memory.json"
CASES = ("user", "record")


def write_corpus(path: Path, rows: int = ROWS, users: int = USERS) -> None:
    chosen = random.Random(1)
    words = ["".join(chosen.choices("etaoinshrdlu", k=chosen.randint(2, 9))) for _ in range(5000)]
    with path.open("w") as file:
        for _ in range(rows):
            text = " ".join(chosen.choices(words, k=chosen.randint(6, 16)))
            file.write(f'{{"text": "{text}", "user": "user-{chosen.randrange(users)}"}}\n')


def tokenise(texts: list[str]) -> list[list[int]]:
    return [[len(word) for word in text.split()] for text in texts]


def one_case(corpus: Path, folder: Path, case: str) -> None:
    from hearsay.private.corpus import UnitKind
    from hearsay.private.partition import partition
    from hearsay.private.shards import PartitionSettings
    from hearsay.reading import Columns, read_rows

    unit: UnitKind = "user" if case == "user" else "record"
    settings = PartitionSettings(shards=2000, unit=unit, cap=100, min_tokens=8, max_tokens=40, vocabulary=50_257)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    rows = read_rows([corpus], Columns("text", "user"))
    made = partition(rows, settings, key=os.urandom(32), tokenise=tokenise, folder=folder)
    middle = time.perf_counter()
    for m in range(settings.shards):
        made.shard(m)
    print(
        json.dumps(
            {
                "peak_rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
                "of_which_imports_mib": round(before / 1024, 1),
                "rows_per_second": round(ROWS / (middle - start)),
                "all_shards_listed_seconds": round(time.perf_counter() - middle, 2),
            }
        )
    )


def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        corpus = Path(name) / "corpus.jsonl"
        write_corpus(corpus)
        results = {}
        for i, case in enumerate(CASES):
            command = [sys.executable, __file__, str(corpus), str(Path(name) / f"partition-{i}"), case]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results[case] = json.loads(done.stdout)
        size = corpus.stat().st_size
    return {"rows": ROWS, "users": USERS, "file_mib": round(size / 2**20), "shards": 2000, "cases": results}


def main() -> int:
    if len(sys.argv) == 4:
        one_case(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
        return 0
    result = measure()
    result["limit_mib"] = LIMIT_MIB
    result["ok"] = all(case["peak_rss_mib"] < LIMIT_MIB for case in result["cases"].values())
    result |= {"command": "python benchmarks/partition_memory.py", "python": platform.python_version()}
    result |= {"cpu_count": os.cpu_count(), "commit": commit()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
