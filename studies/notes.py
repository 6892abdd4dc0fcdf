"""The study of real notes from nothing, by one command: the pool of candidates, their features, every cell.

    python studies/notes.py studies/augment.yaml --data DATA --model MODEL --encoder ENCODER --out DIR [--minutes 9]

DATA holds mtsamples_unique.csv.xz (private notes) and medquad.jsonl.xz (public questions and answers), ENCODER is a
sentence-transformers folder. What an earlier call left in DIR is taken up. Writing the pool wants a GPU.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
Command = list[str | Path]


def main() -> None:
    given = arguments()
    for made, command in commands(given):
        if made is None or not made.exists():
            done = subprocess.run([sys.executable, HERE / command[0], *command[1:]])
            if done.returncode:
                sys.exit(done.returncode)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--model", type=Path, required=True, help="folder of the public base model")
    parser.add_argument("--encoder", type=Path, required=True, help="sentence-transformers folder (make: ENCODER=)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", default="1e9", help="begin no cell after this")
    return parser.parse_args(words)


def commands(given: argparse.Namespace) -> list[tuple[Path | None, Command]]:
    """(what shows that a step was done, the step); the last one goes on by itself, cell by cell."""
    pool, features = given.out / "notes-pool", given.out / "notes-features"
    texts = pool / "pool.jsonl.xz"
    write: Command = ["augment_pool.py", "--model", given.model, "--medquad", given.data / "medquad.jsonl.xz"]
    encode: Command = ["augment_features.py", "--pool", texts, "--data", given.data, "--encoder", given.encoder]
    compare: Command = ["augment.py", given.study, "--pool", texts, "--features", features, "--data", given.data]
    return [
        (pool / "pool.json", [*write, "--out", pool]),
        (features / "features.json", [*encode, "--out", features]),
        (None, [*compare, "--out", given.out, "--minutes", given.minutes]),
    ]


if __name__ == "__main__":
    main()
