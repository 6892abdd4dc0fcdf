"""Studies: a baseline is a cell like any other, and the rehearsal gives every method the same chances."""

import argparse
import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearsay import charging
from hearsay import lm as models
from hearsay.accounting import gaussian
from hearsay.config import Config
from hearsay.demo.airline import write_corpus
from hearsay.errors import ConfigError
from hearsay.lm import LanguageModel
from test_pipeline import SETTINGS, hearsay

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from studies import agenda, corpora, rehearse  # noqa: E402


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("rehearsal")
    write_corpus(folder, private_customers=30, public_customers=20, holdout_customers=4, seed=2)
    models.save(tiny_gpt2, folder / "model", "tiny")
    paths = {name: [str(folder / f"{name}.jsonl")] for name in ("private", "public", "holdout")}
    return paths | {"units": 30, "sentences": 120, "cap": 4, "max_tokens": 24, "mean_tokens": 24}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))  # put back after a study has set it


def _given(tmp_path: Path, files: dict[str, Any]) -> argparse.Namespace:
    model = Path(files["private"][0]).with_name("model")
    study = tmp_path / "tiny.yaml"
    return argparse.Namespace(study=study, data=tmp_path, model=str(model), out=tmp_path, only=None, minutes=1e9)


def _study() -> dict[str, Any]:
    base = {name: SETTINGS[name] for name in ("adapter", "teachers", "student", "compute")}
    return {
        "corpus": "tiny", "units": 60, "trials": 2, "base": base,
        "methods": {
            "ghost": {
                "settings": {"baseline": {"method": "ghost", "batch": 60, "tokens": 64, "steps": 2}},
                "grid": {"baseline.learning_rate": [1e-2, 2e-2], "baseline.clip": [0.1]},
            },
            "public": {"settings": {"baseline": {"method": "public"}}, "grid": {"compute.seed": [0, 1]}},
        },
    }  # fmt: skip


def test_every_method_gets_the_same_trials_all_recorded_and_none_twice(
    tmp_path: Path, files: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(corpora.REHEARSE, "tiny", lambda data, out: files)
    given = _given(tmp_path, files)
    found = rehearse.rehearse(_study(), given)
    for method in found["methods"].values():
        assert len(method["trials"]) == 2 and method["trials"][0]["settings"] != method["trials"][1]["settings"]
        best = min(method["trials"], key=lambda one: one["ppl"]["student"])
        assert method["chosen"] == best["settings"]
    assert json.loads((tmp_path / "tiny.json").read_text()) == found
    capsys.readouterr()
    assert rehearse.rehearse(_study(), given) == found and not capsys.readouterr().out
    assert os.environ["HEARSAY_HOME"].startswith(str(tmp_path))


def test_the_same_combinations_are_drawn_each_time_and_a_small_grid_is_refused() -> None:
    grid = {"a.b": [1, 2, 3], "c": [4, 5]}
    assert rehearse.drawn(grid, 4) == rehearse.drawn(grid, 4)
    assert len({json.dumps(one) for one in rehearse.drawn(grid, 6)}) == 6
    assert rehearse.nested({"a.b": 1, "a.c": 2, "d": 3}) == {"a": {"b": 1, "c": 2}, "d": 3}
    with pytest.raises(ConfigError, match="need at least as many"):
        rehearse.drawn(grid, 7)


def test_noise_keeps_its_size_beside_the_signal(files: dict[str, Any]) -> None:
    """Half the units: half the batch, and half the noise on its sum."""
    base: dict[str, Any] = {"teachers": {"count": 12}}
    less = rehearse.shrunk(base, 60, files)
    assert less["teachers"]["count"] == 6
    assert gaussian.mu_of(less["privacy"]["epsilon"], 1e-6) == pytest.approx(2 * gaussian.mu_of(3.0, 1e-6), rel=1e-4)


@pytest.mark.parametrize(
    "method",
    [
        {"baseline": {"method": "dpsgd", "batch": 20, "steps": 10}},
        {"ask": {"recipe": "updates"}, "updates": {"rounds": 10, "sample": 1 / 3}},
        {"ask": {"recipe": "mixed"}, "updates": {"rounds": 10, "sample": 1 / 3, "share": 0.8}},
    ],
)
def test_noise_of_samples_keeps_its_size_too(files: dict[str, Any], method: dict[str, Any]) -> None:
    """Half the units: the same sampling rate, and half the noise on its sum."""
    noisy = method | {"teachers": {"count": 12}, "privacy": {"epsilon": 0.7}}
    events = []
    for settings, units in ((noisy, 60), (rehearse.shrunk(noisy, 60, files), 30)):
        body = {**settings, "data": {**files, "units": units}}
        body["privacy"] = {"corpus": "c", **settings["privacy"]}
        events.append(charging.committed(Config.model_validate(body), 1)[0])
    real, here = events
    assert float(here.rate) == pytest.approx(float(real.rate)) == pytest.approx(1 / 3, rel=1e-5)
    assert float(here.noise_multiplier) == pytest.approx(float(real.noise_multiplier) / 2, rel=0.01)


def test_the_studies_in_the_repository_are_well_formed(files: dict[str, Any]) -> None:
    """Every method of every rehearsal is a config that loads."""
    for path in sorted((ROOT / "studies").glob("rehearse-*.yaml")):
        study = yaml.safe_load(path.read_text())
        for method in study["methods"].values():
            for trial in rehearse.drawn(method["grid"], study["trials"]):
                _loads(
                    rehearse.merge(rehearse.merge(study["base"], method.get("settings", {})), rehearse.nested(trial))
                )


def _loads(settings: dict[str, Any]) -> None:
    data = {"private": ["a"], "public": ["b"], "units": 11674, "sentences": 146000}
    Config.model_validate(rehearse.merge(settings, {"data": data, "privacy": {"corpus": "c"}}))


def test_the_example_runs_at_tiny_size(tmp_path: Path, files: dict[str, Any]) -> None:
    """examples/dpsgd.yaml with fewer of everything; the method's settings are as they stand there."""
    body = yaml.safe_load((ROOT / "examples" / "dpsgd.yaml").read_text())
    body |= {name: SETTINGS[name] for name in ("adapter", "student", "compute")}
    body |= {"data": files, "model": str(Path(files["private"][0]).with_name("model"))}
    body["teachers"] = {"count": 4}
    body["baseline"] |= {"batch": 30, "steps": 2}
    (tmp_path / "dpsgd.yaml").write_text(yaml.safe_dump(body))
    assert hearsay("run", tmp_path / "dpsgd.yaml", "--out", tmp_path / "run", "--json") == 0
    assert (tmp_path / "run" / "release" / "student").is_dir()


READS = {  # sections of a config that decide what a method does
    "updates": ("adapter", "updates"), "dpsgd": ("adapter", "baseline"), "ghost": ("adapter", "baseline"),
    "hellinger": ("adapter", "teachers", "ask", "student"), "seqpate": ("adapter", "teachers", "ask", "student"),
    "mixed": ("adapter", "teachers", "ask", "student", "updates"),
}  # fmt: skip


def test_the_study_of_what_was_rehearsed_shows_what_was_chosen(files: dict[str, Any]) -> None:
    """Setting for setting the chosen trial, on the customers of the tables."""
    rehearsal = yaml.safe_load((ROOT / "studies" / "rehearse-airline.yaml").read_text())
    found = json.loads((ROOT / "studies" / "results" / "rehearse-airline.json").read_text())["methods"]
    shown = yaml.safe_load((ROOT / "studies" / "rehearsed.yaml").read_text())
    body = agenda.study_of("rehearsed", shown, argparse.Namespace(corpus=None, out=None)).body
    assert found.keys() == rehearsal["methods"].keys() == READS.keys()
    for method, one in found.items():
        assert len(one["trials"]) == rehearsal["trials"]
        cell = body["cells"]["DP-SGD" if method == "dpsgd" else method]
        parts = [
            [body["base"], body["methods"][method], cell],
            [rehearsal["base"], rehearsal["methods"][method]["settings"], rehearse.nested(one["chosen"])],
        ]
        here, there = (_sections(functools.reduce(rehearse.merge, settings), files) for settings in parts)
        for section in READS[method]:
            assert here[section] == there[section], (method, section)
        assert [here["student"][k] for k in ("pseudo", "warm_up")] == [
            there["student"][k] for k in ("pseudo", "warm_up")
        ]


def _sections(settings: dict[str, Any], files: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in settings.items() if name in Config.model_fields}
    return Config.model_validate(known | {"data": {**files, "units": 5000}, "privacy": {"corpus": "c"}}).model_dump()
