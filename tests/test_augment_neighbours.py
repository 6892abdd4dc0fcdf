"""The second method on corpora that differ in one unit, and what stays behind when it refuses: nothing is told."""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hearsay import augmenting
from hearsay import config as configs
from hearsay import run as runs
from hearsay.config_augment import AugmentConfig
from hearsay.errors import DataError
from hearsay.private.labelled import collect
from hearsay.public import space as spaces
from hearsay.public.encoder import Encoder, Vectors
from hearsay.reading import Row
from hearsay.release import labelled as asking
from test_augment import ENCODER, LABELS, corpus, played, write
from test_neighbouring_runs import _Seen


def _told(folder: Path, body: dict[str, Any], caplog: pytest.LogCaptureFixture) -> tuple[object, ...]:
    home = folder / "home"
    home.mkdir()
    (home / "secret").write_bytes(b"s" * 32)
    config = AugmentConfig.model_validate(body)
    here = runs.begin(folder / "run", configs.to_yaml(config), home / "ledger.sqlite", home)
    _Seen.seen.clear()
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        work = augmenting.augment(config, here, _Seen, encoder=ENCODER)
    lines = [json.loads(line) for line in (here.folder / "progress.jsonl").read_text().splitlines()]
    noted = [{k: v for k, v in line.items() if k not in ("time", "seconds")} for line in lines]
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("hearsay")]
    names = sorted(p.name for p in here.folder.rglob("*") if p.is_file() and len(p.stem) < 60)
    asked = [(charge.purpose, charge.event) for charge in work.ledger.charges()]
    return noted, list(_Seen.seen), logged, names, asked


@pytest.mark.parametrize("method", ["means", "votes"])
def test_what_is_noted_shown_and_charged_does_not_depend_on_a_unit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], method: str
) -> None:
    """The record that is missing from the second corpus is long, has labels of its own and a listed one nobody has."""
    told, printed = [], []
    for side in ("with", "without"):
        body = corpus(tmp_path / side, units=40, discriminator={"method": method, "dimensions": 6, "teachers": 3})
        body["data"] |= {"labels": [*LABELS, "plague"], "separator": "|"}
        body["selection"] |= {"relabel": method != "votes"}
        if side == "with":
            row = {"text": "beat rash hip " * 400, "label": "plague|leprosy|heart"}
            with Path(body["data"]["private"]).open("a") as file:
                file.write(json.dumps(row) + "\n")
        told.append(_told(tmp_path / side, body, caplog))
        printed.append(capfd.readouterr())
    assert told[0] == told[1]
    assert printed[0] == printed[1]
    assert len(told[0][0]) > 8 and len(told[0][4]) == 2  # type: ignore[arg-type]


def test_a_refused_file_of_candidates_leaves_nothing_to_share(tmp_path: Path) -> None:
    """The owner's file holds a private text: refused before any of it stands in release/."""
    body = corpus(tmp_path, units=60)
    private = json.loads(Path(body["data"]["private"]).read_text().splitlines()[7])
    body["generator"]["files"].append(str(write(tmp_path / "more.jsonl", [private])))
    with pytest.raises(DataError, match=r"stands in data\.private too"):
        played(tmp_path, body)
    left = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert left and not any(private["text"] in path.read_text(errors="replace") for path in left)
    assert not any((tmp_path / "run" / "release").rglob("*"))


def test_a_vector_that_is_not_finite_warns_nobody_and_stays_within_its_bound(tmp_path: Path) -> None:
    def broken(texts: list[str]) -> Vectors:
        found = ENCODER.batch(texts)
        found[[i for i, text in enumerate(texts) if "itch" in text]] = np.inf
        return found

    rows = [Row(1, "beat pulse", None, ("heart",)), Row(2, "itch", None, ("skin",))]
    vectors = ENCODER.batch(["beat pulse", "joint cast", "rash mole", "beat valve", "hip knee", "spot rash"])
    space = spaces.fit(vectors, np.array([0, 1, 2] * 2), 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        units = collect(
            rows, LABELS, unit="record", cap=1, key=b"k" * 32, sketch_key=b"s" * 32,
            encode=Encoder("broken", broken).alone, folder=tmp_path,
        )  # fmt: skip
        found = [asking._shared(unit, lambda note: space.place(note.vector), 4, 3) for unit in units.each()]
    assert len(found) == 2
    assert all(np.isfinite(one).all() and np.linalg.norm(one) <= 1 + 1e-12 for one in found)
