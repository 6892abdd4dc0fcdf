"""The demo at tiny size, with every socket blocked, and the documents that show its figures."""

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TinyDemo
from hearsay import config as configs
from hearsay.cli.setup import EXAMPLE
from hearsay.demo import show
from tiny_hearsay import TINY

ROOT = Path(__file__).parents[1]


@pytest.mark.xdist_group("demo")
def test_the_demo_runs_offline_and_leaves_student_statement_and_report(tiny_demo: TinyDemo) -> None:
    found = tiny_demo.found
    assert {"public", "public_pseudo", "student", "private", "seqpate", "gap_closed"} <= found.keys()
    assert found["student"]["ppl_low"] < found["student"]["ppl"] < found["student"]["ppl_high"]
    second = tiny_demo.play()  # finished: nothing is asked or paid twice
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
