"""The demo at tiny size, with every socket blocked, and the documents that show its figures."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hearsay import config as configs
from hearsay.cli.setup import EXAMPLE
from hearsay.demo import show
from hearsay.report import page
from hearsay.run import open_run

ROOT = Path(__file__).parents[1]
TINY: dict[str, Any] = {
    "data": {"units": 80, "sentences": 240, "mean_tokens": 26, "cap": 3, "max_tokens": 24},
    "privacy": {"epsilon": 3.0, "delta": 1.0e-6, "corpus": "tiny-air"},
    "adapter": {"rank": 2, "blocks": 1},
    "teachers": {"count": 440, "epochs": 0.5, "rows": 1},
    "ask": {"sentences": 6, "questions": 40, "candidates": 16, "tail": 8, "clip": 0.3},
    "student": {"pseudo": 12, "warm_up": 2, "steps": 6, "batch": 4},
}


@pytest.fixture()
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the demo opened a socket")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def test_the_demo_runs_offline_and_leaves_student_statement_and_report(
    tmp_path: Path, no_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "HELD_OUT_ROWS", 30)
    monkeypatch.setattr(show, "COMPLETIONS", 6)
    monkeypatch.setattr(show, "PRIVATE_STEPS", 4)
    settings = json.loads(json.dumps(TINY))
    settings["data"]["units"] = 440
    folder, found = show.play(tmp_path / "demo", 0, settings=settings)
    assert {"public", "public_pseudo", "student", "private", "seqpate", "gap_closed"} <= found.keys()
    report = page.write(open_run(folder)).read_text()
    assert "62.7%" in report and "<svg" in report and len(report) < 1_000_000
    assert "http" not in report.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")
    _, second = show.play(tmp_path / "demo", 0, settings=settings)  # finished: nothing is asked or paid twice
    assert second["student"]["ppl"] == found["student"]["ppl"]


def test_the_demo_settings_hold_full_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative --out, as in `make demo`: evaluate reads the kept config from the run directory."""
    monkeypatch.chdir(tmp_path)
    names = ("private.jsonl", "public.jsonl", "holdout.jsonl", "secrets.txt")
    body = show.demo_settings(show.CorpusFiles(*(Path("out") / name for name in names)), 0, TINY)
    kept = [body["data"][name] for name in ("private", "public", "holdout")] + [body["privacy"]["secrets"]]
    assert kept == [str(tmp_path / "out" / name) for name in names]


def test_the_example_config_is_what_init_writes() -> None:
    text = (ROOT / "examples" / "generate.yaml").read_text()
    assert text == configs.commented_yaml(EXAMPLE)
    configs.load(ROOT / "examples" / "generate.yaml")


def test_the_documents_show_what_was_measured() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "write_results.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_readme_exists() -> None:
    """Each `hearsay VERB` line of the README parses: the verb and its options are there."""
    lines = [
        line.split("#")[0].split()
        for line in (ROOT / "README.md").read_text().splitlines()
        if line.startswith("hearsay ")
    ]
    assert len(lines) >= 8
    from typer.main import get_command

    from hearsay.cli.main import app

    verbs = get_command(app).commands  # type: ignore[attr-defined]
    for words in lines:
        command = verbs[words[1]]
        options = [word for word in words if word.startswith("--")]
        known = {name for parameter in getattr(command, "params", []) for name in parameter.opts}
        assert set(options) <= known, words
