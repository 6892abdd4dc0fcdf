"""The study of real notes from nothing, by one command: the pool of candidates, their features, every cell.

    python studies/notes.py studies/augment.yaml --data DATA --model MODEL --encoder ENCODER --out DIR [--minutes 9]

DATA holds mtsamples_unique.csv.xz (private notes) and medquad.jsonl.xz (public questions and answers), ENCODER is a
sentence-transformers folder. What an earlier call left in DIR is taken up. Writing the pool wants a GPU.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
Command = list[str | Path]


def main() -> None:
    given = arguments()
    for path in (given.data / "medquad.jsonl.xz", given.data / "mtsamples_unique.csv.xz", given.model, given.encoder):
        if not path.exists():
            sys.exit(
                f"no {path}; name the corpora's folder with DATA=, the base model's with MODEL=, ENCODER= likewise"
            )
    _refuse_others(given)
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


def _refuse_others(given: argparse.Namespace) -> None:
    """What is there must be of this model and this encoder."""
    here = {"model": given.model.name, "encoder": given.encoder.parent.name}
    for (made, _), name in zip(commands(given), here, strict=False):
        was = json.loads(made.read_text())[name] if made and made.exists() else here[name]
        if was != here[name]:
            sys.exit(f"{made} is of {name} {was}, not {here[name]}; name another OUT=")


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
