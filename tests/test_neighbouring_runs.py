"""Two runs on corpora that differ in one unit: everything that is noted, shown or logged must be the same."""

import json
import logging
import re
from pathlib import Path

import pytest
import yaml

from hearsay import config as configs
from hearsay import lm as models
from hearsay import pipeline
from hearsay import run as runs
from hearsay.demo.airline import Airline, write_corpus
from hearsay.lm import LanguageModel
from hearsay.stages import Watch

SETTINGS = {
    "data": {
        "private": "private.jsonl", "public": "public.jsonl", "units": 30, "sentences": 90, "mean_tokens": 24,
        "cap": 40, "max_tokens": 24,
    },
    "privacy": {"corpus": "neighbours"},
    "model": "model",
    "adapter": {"rank": 2, "blocks": 1},
    "teachers": {"count": 3, "epochs": 0.3, "row_tokens": 32, "rows": 2},
    "ask": {"recipe": "hellinger", "sentences": 12, "questions": 60, "candidates": 8, "tail": 4, "clip": 0.5},
    "student": {"pseudo": 12, "warm_up": 2, "steps": 4, "batch": 4, "caution": 0},
    "compute": {"device": "cpu", "block": 2},
}  # fmt: skip


RECIPES = {
    "hellinger": {},
    "updates": {"ask": {"recipe": "updates"}, "updates": {"rounds": 2, "vocabulary": 96}},
}
PUBLIC = ("pseudo.json", *(f"{stage}.safetensors" for stage in ("warm-up", "vocabulary", "weights", "questions-0")))


class _Seen(Watch):
    """Everything that a person would see, but for the time."""

    seen: list[object] = []  # noqa: RUF012

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.seen.append(name)

    def progress(self, done: int, total: int) -> None:
        self.seen.append((self.name, done, total))


def _told(folder: Path, caplog: pytest.LogCaptureFixture) -> tuple[object, ...]:
    home = folder / "home"
    home.mkdir()
    (home / "secret").write_bytes(b"s" * 32)
    config = configs.load(folder / "hearsay.yaml")
    here = runs.begin(folder / "run", configs.to_yaml(config), home / "ledger.sqlite", home)
    _Seen.seen.clear()
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        pipeline.generate(config, here, _Seen, anyway=True)
    lines = [json.loads(line) for line in (here.folder / "progress.jsonl").read_text().splitlines()]
    noted = [{k: v for k, v in line.items() if k not in ("time", "seconds")} for line in lines]
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("hearsay")]
    files = [p for p in here.folder.rglob("*") if p.is_file() and "private" not in p.parts and len(p.stem) < 60]
    names = sorted(
        re.sub("[0-9a-f]{40}", "*", p.name) for p in files
    )  # answers are named by the run and what they follow
    stages = here.release / "stages"
    public = {name: (stages / name).read_bytes() for name in PUBLIC if (stages / name).exists()}
    return noted, list(_Seen.seen), logged, names, public


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_noted_shown_and_logged_does_not_depend_on_a_unit(
    tmp_path: Path,
    tiny_gpt2: LanguageModel,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    recipe: str,
) -> None:
    """The unit that is missing from the second corpus writes more than all others together. What is called public must
    be the same, too, byte for byte: it costs nothing, so it may know nothing.
    """
    told, printed = [], []
    models.save(tiny_gpt2, tmp_path / "model", "tiny")
    capfd.readouterr()
    busy = [turn.text for turn in Airline(40, seed=9).turns()][:40]
    for side in ("with", "without"):
        folder = tmp_path / side
        write_corpus(folder, private_customers=12, public_customers=6, holdout_customers=1, seed=4)
        rows = [{"user": "busy", "text": text} for text in busy] if side == "with" else []
        with (folder / "private.jsonl").open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        body = SETTINGS | RECIPES[recipe] | {"model": str(tmp_path / "model")}
        (folder / "hearsay.yaml").write_text(yaml.safe_dump(body))
        told.append(_told(folder, caplog))
        printed.append(capfd.readouterr())
    assert told[0] == told[1]
    assert printed[0] == printed[1]
    assert len(told[0][0]) > 8 and len(told[0][1]) > 8
    assert set(told[0][4]) == set(PUBLIC) - ({"questions-0.safetensors"} if recipe == "updates" else set(PUBLIC[2:4]))
