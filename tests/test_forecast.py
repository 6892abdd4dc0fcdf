"""What a run will take: counted work is the work that is done, and rates turn it into seconds. No test has a clock."""

import dataclasses
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hearsay import forecast
from hearsay.config import Config, parse
from hearsay.forecast import Calibration
from hearsay.lm import LanguageModel
from hearsay.private import stack as stacks
from hearsay.private.packing import Rows
from hearsay.private.stack import Stack
from hearsay.private.teaching import training_shape
from hearsay.private.training import TrainingShape
from hearsay.private.units import Units
from hearsay.public import basis, student, weights
from hearsay.stacked import Contexts
from tiny_hearsay import hearsay

KINDS = ("load", "row", "completion", "warm-up step", "basis", "update", "round", "unit", "parcel", "question",
         "training", "asking", "student step")  # fmt: skip
ONE = Calibration("cpu", block=16, update_block=4, launch_tokens=960, width=8.0, completions=50, questions=10,
                  peak_gib=1.0, seconds=dict.fromkeys(KINDS, 1.0), once={})  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def settings(folder: Path, **sections: Any) -> Config:
    (folder / "private.jsonl").write_text('{"text": "a private sentence", "user": "u1"}\n')
    public = [{"text": "hello, I would like to fly to Oslo tomorrow", "user": f"p{n}"} for n in range(4)]
    (folder / "public.jsonl").write_text("".join(json.dumps(row) + "\n" for row in public))
    body: dict[str, Any] = {
        "data": {"private": "private.jsonl", "public": "public.jsonl", "units": 100, "sentences": 1000},
        "privacy": {"corpus": "chats"},
        "adapter": {"rank": 2, "blocks": 1},
        "teachers": {"count": 40, "rows": 1},
        "ask": {"recipe": "mixed", "sentences": 8, "questions": 20, "candidates": 8, "tail": 4},
        "updates": {"rounds": 3, "sample": 0.5},
        "student": {"pseudo": 8, "batch": 4, "caution": 0},
        "compute": {"block": 4, "device": "cpu", "precision": "float32"},
    }
    for name, values in sections.items():
        body[name] = {**body.get(name, {}), **values}
    (folder / "hearsay.yaml").write_text(json.dumps(body))
    return parse(json.dumps(body), folder)


def test_what_a_first_call_takes_longer_is_counted_once(tmp_path: Path) -> None:
    config = settings(tmp_path)
    plain = forecast.predict(config, ONE)
    late = forecast.predict(config, dataclasses.replace(ONE, once={"completion": 5.0, "training": 7.0}))
    more = {stage: late.stages[stage] - plain.stages[stage] for stage in plain.stages}
    assert {stage: seconds for stage, seconds in more.items() if seconds} == {"pseudo text": 5.0, "teachers": 7.0}


@pytest.mark.parametrize(("count", "sentences"), [(5, 12), (4, 3)])
def test_predicted_launches_are_those_of_a_stack(
    tiny_gpt2: LanguageModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, sentences: int
) -> None:
    monkeypatch.setattr(stacks, "ANSWER_TOKENS", {"cpu": 80})
    stack = Stack(tiny_gpt2, TrainingShape(rank=2, row_tokens=24, rows_per_step=1, steps=3), block=2, device="cpu")
    seen: list[int] = []
    stack.on_launch = seen.append
    store = stack.store(tmp_path, count=count, generation=0)
    stack.train(lambda m: [np.arange(1, 9)], count, generation=0, store=store)
    assert len(seen) == forecast.training_launches(count, 2, 3)
    seen.clear()
    asked = torch.tensor([[row, 7] for row in range(sentences)])
    contexts = Contexts(torch.ones(sentences, 16, dtype=torch.long), torch.full((sentences,), 16), asked)
    list(stack.answers(store, contexts, torch.zeros(sentences, 2, dtype=torch.long)))
    assert len(seen) == forecast.asking_launches(count, 2, sentences, 8, 80)


def test_predicted_launches_of_updates_are_the_blocks_of_units() -> None:
    array = np.zeros((13, 1, 2, 8), np.int32)
    units = Units((array, array, array), Rows(*(np.zeros((2, 8), np.int32) for _ in range(3))))
    assert len(list(units.blocks(4, 0))) == forecast.update_launches(13, 1.0, 4)
    chosen = np.arange(13) % 2 == 1
    assert len(list(units.blocks(4, 0, chosen))) == forecast.update_launches(12, 0.5, 4)


def test_work_follows_the_settings(tmp_path: Path) -> None:
    config = settings(tmp_path)
    work = forecast.work(config, ONE)
    assert work["teachers"] == {"training": 3.0 * training_shape(config).steps}  # 40 teachers in blocks of 16
    # 100 units, every second, in fours; 8 pseudo sentences, in parcels of six, as much as a unit says in a step
    assert work["updates"] == {"update": 3.0 * 13, "round": 3.0, "unit": 100.0, "parcel": 2.0}
    assert work["answers"] == {"asking": 3.0 * 2}  # 7 rows of 8 tokens for 16 teachers a launch
    twice = forecast.work(settings(tmp_path, data={"sentences": 2000}), ONE)
    assert twice["shards"]["row"] == 2 * work["shards"]["row"]
    assert abs(twice["teachers"]["training"] - 2 * work["teachers"]["training"]) <= 3
    alone = forecast.work(settings(tmp_path, ask={"recipe": "updates"}), ONE)
    assert "teachers" not in alone and "answers" not in alone


def test_what_is_counted_is_what_the_stages_do() -> None:
    assert (forecast.CHECKS, forecast.BASIS, forecast.PARCELS) == (student.CHECKS, basis.SENTENCES, weights.PARCELS)


def test_seconds_are_work_times_rates(tmp_path: Path) -> None:
    config = settings(tmp_path)
    plain = forecast.predict(config, ONE)
    assert plain.seconds == sum(sum(parts.values()) for parts in forecast.work(config, ONE).values())
    slow = forecast.predict(config, replace(ONE, seconds=ONE.seconds | {"training": 3.0}))
    assert slow.stages["teachers"] == 3 * plain.stages["teachers"]
    assert {**slow.stages, "teachers": 0} == {**plain.stages, "teachers": 0}
    more = forecast.predict(settings(tmp_path, ask={"questions": 10**6}), ONE)
    assert more.memory_gib > plain.memory_gib > ONE.peak_gib


def test_rates_are_kept_for_a_shape_not_for_an_amount(tmp_path: Path) -> None:
    config = settings(tmp_path)
    assert forecast.kept(config) is None
    assert forecast.keep(config, ONE).is_relative_to(tmp_path / "cache")
    assert forecast.kept(settings(tmp_path, data={"units": 900, "sentences": 9000}, ask={"questions": 50})) == ONE
    assert forecast.kept(settings(tmp_path, adapter={"rank": 4})) is None
    forecast.cache().write_text("not JSON")
    assert forecast.kept(config) is None


def test_plan_tells_time_and_memory_after_a_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, path = settings(tmp_path), tmp_path / "hearsay.yaml"

    def plan(*flags: str) -> str:
        assert hearsay("plan", path, *flags) == 0
        return capsys.readouterr().out

    assert "doctor" in plan() and "--calibrate" in plan()
    assert json.loads(plan("--json"))["seconds"] is None
    forecast.keep(config, ONE)
    told = json.loads(plan("--json"))
    want = forecast.predict(config, ONE)
    assert (told["seconds"], told["memory_gib"]) == (round(want.seconds, 1), round(want.memory_gib, 2))
    assert "about" in plan()
    assert json.loads(plan("--json", "--teachers", "50"))["seconds"] is None  # not what was calibrated for


def test_a_calibration_measures_every_kind_of_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On public text alone: the private file is gone."""
    from hearsay import calibrate

    monkeypatch.setattr(calibrate, "ENOUGH", 0.0)
    config = settings(tmp_path)
    (tmp_path / "private.jsonl").unlink()
    found = calibrate.calibrate(config)
    assert set(found.seconds) == set(KINDS) and min(found.seconds.values()) > 0
    assert found.block == 4 and found.completions == 8 and 1 <= found.width <= config.data.max_tokens + 1
    assert forecast.predict(config, found).seconds > 0


def test_the_page_on_scaling_is_up_to_date() -> None:
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "scripts/write_scaling.py", "--check"], cwd=root, capture_output=True,
                          text=True, check=False, env={**os.environ, "PYTHONPATH": "src"})  # fmt: skip
    assert done.returncode == 0, done.stderr
