"""On whose text the tables are measured: of the people held out, how many are in the rows that each figure reads.

    python studies/held_out.py --data DATA --model MODEL --out studies/results/held-out.json

The tables read the first rows of the held-out file, which is grouped by people, so those of long-winded ones are few.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from hearsay import lm as models
from hearsay.config import Config
from hearsay.disk import write_text

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import agenda, corpora, references

CORPORA = ("sgd", "europarl", "airline")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(), help="folder of the corpora")
    parser.add_argument("--model", default="embedded", help="base model of the corpora that are not simulated")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpora", nargs="*", choices=CORPORA, default=CORPORA)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = {name: people(name, given.data, given.model, Path(place)) for name in given.corpora}
    write_text(given.out, json.dumps(found, indent=1))


def people(corpus: str, data: Path, model: str, place: Path) -> dict[str, Any]:
    """By figure: its rows, and how many people wrote them."""
    base = yaml.safe_load(agenda.BASES.read_text())[corpus]
    files = agenda.laid_out(corpora.PREPARE[corpus], data, place / corpus)
    source = "embedded" if corpus == "airline" else model
    config = Config.model_validate({"model": source, "data": files, "privacy": {"corpus": corpus}})
    lm = models.load(config.model, device=torch.device("cpu"))
    writers = references.writers(config)
    places = list(references.held_out(config, lm, base["first_rows"]))
    tables = {
        "perplexity": places,
        "BLEU": places[: base["measure"]["completions"]],
        "leaks": places[: _wish("table-11", "completions")],
        "ensemble": list(references.held_out(config, lm, _wish("teachers", "ensemble"))),
    }
    return {"people": len(set(writers)), **{name: _counted(places, writers) for name, places in tables.items()}}


def _counted(places: Sequence[int], writers: list[str | None]) -> dict[str, int]:
    return {"rows": len(places), "people": len({writers[place] for place in places})}


def _wish(study: str, name: str) -> int:
    found: int = yaml.safe_load(agenda.BASES.with_name(f"{study}.yaml").read_text())["measure"][name]
    return found


if __name__ == "__main__":
    main()
