"""Documents that can be wrong: what is written from JSON or help texts is up to date, what is named exists."""

import csv
import json
import math
import re
import statistics
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from statistics import NormalDist

import pytest
import yaml

from hearsay import config as configs
from hearsay import lm as models
from hearsay.accounting import advice, gaussian, plan
from hearsay.demo import show
from hearsay.demo.airline import write_corpus
from hearsay.lm import LanguageModel
from test_pipeline import hearsay

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from studies import agenda, study  # noqa: E402
from studies.run import merge  # noqa: E402

DOCS = ROOT / "docs"
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("script", ["write_commands", "write_claims", "write_studies"])
def test_written_pages_are_up_to_date(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0, done.stderr


def test_the_demo_that_was_measured_is_the_one_that_runs() -> None:
    measured = json.loads((ROOT / "benchmarks" / "results" / "demo.json").read_text())
    assert measured["settings"] == show.SETTINGS


def test_every_sharp_edge_names_code_and_checks_that_exist() -> None:
    rows = [line.split("|") for line in (DOCS / "sharp-edges.md").read_text().splitlines() if line.count("|") == 6]
    rows = [row for row in rows if "`" in row[5]]
    assert len(rows) >= 25
    for row in rows:
        (file,) = re.findall(r"`([^`]+)`", row[4])
        assert (ROOT / "src" / "hearsay" / file).exists(), file
        for name in re.findall(r"`([^`]+)`", row[5]):
            assert f"def {name}(" in TESTS, name


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_odds_and_groups_told_are_those_of_the_arithmetic() -> None:
    """Rounded up, as promises are."""
    mu = gaussian.mu_of(3, 1e-6)
    text = (DOCS / "limits.md").read_text()
    told = [f"{gaussian.epsilon_of(2 * mu, 1e-6):.2f}", f"{gaussian.epsilon_of(9 * mu, 1e-6):.0f}"]
    told += [f"that one is {NormalDist().cdf(mu / 2 - 3 / mu):.0e}".replace("e-0", "e-")]  # a larger loss than epsilon
    told += [f"{100 * gaussian.guess_rate(gaussian.mu_of(epsilon, 1e-6)) + 0.05:.1f}%" for epsilon in (3, 1, 10)]
    assert [one for one in told if one not in text] == []
    rows = [line.split("|")[2:-1] for line in (DOCS / "guarantee.md").read_text().splitlines() if line.count("|") == 8]
    for epsilon, _, percent, mu in zip(*rows[:4], strict=True):
        exact = gaussian.mu_of(float(epsilon), 1e-6)
        assert float(mu) == pytest.approx(exact, abs=1e-4)
        assert percent.strip() == f"{math.ceil(1000 * gaussian.guess_rate(exact)) / 10}%"


def _quickstart() -> tuple[str, str]:
    """The page and its config."""
    text = (DOCS / "quickstart.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return text, block


def test_the_quickstart_from_two_csv_files_to_a_student(tmp_path: Path, tiny_gpt2: LanguageModel,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """As written, but for the sizes: other column names than ours, a csv, a hold-out."""
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))
    write_corpus(tmp_path / "airline", private_customers=24, public_customers=6, holdout_customers=4, seed=3)
    for ours, theirs in (("private", "tickets"), ("public", "forum"), ("holdout", "later")):
        rows = [json.loads(line) for line in (tmp_path / "airline" / f"{ours}.jsonl").read_text().splitlines()]
        with (tmp_path / f"{theirs}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["customer_id", "created", "message"])
            table.writerows([row["user"], "2026-01-03", row["text"]] for row in rows[:120])
    models.save(tiny_gpt2, tmp_path / "model", "tiny")
    body = yaml.safe_load(_quickstart()[1])
    body["data"] |= {"units": 24, "sentences": 100, "cap": 4, "max_tokens": 24}
    body |= {
        "model": str(tmp_path / "model"),
        "teachers": {"count": 4, "row_tokens": 32},
        "adapter": {"rank": 2, "blocks": 1},
        "privacy": {"corpus": "tickets", "epsilon": 30.0},  # so few users make nothing feasible at 3
    }
    body |= {"updates": {"rounds": 2, "rows": 1, "sample": 0.5}, "student": {"pseudo": 8, "warm_up": 1}}
    (tmp_path / "my-run").mkdir()
    config = tmp_path / "my-run" / "hearsay.yaml"
    config.write_text(yaml.safe_dump(body))
    assert hearsay("doctor", config) == 0 and hearsay("plan", config) == 0
    assert hearsay("run", config, "--out", tmp_path / "mine") == 0
    assert hearsay("generate", tmp_path / "mine", "--prefix", "hello, I would like") == 0
    assert hearsay("ledger", "verify", tmp_path / "mine") == 0
    assert hearsay("report", tmp_path / "mine", "--shareable") == 0
    assert (tmp_path / "mine" / "release" / "student" / "config.json").exists()


def test_the_quickstarts_config_loads_and_its_commands_exist(tmp_path: Path) -> None:
    text, block = _quickstart()
    config = configs.parse(block, ROOT)
    assert config.data.text == "message" and config.privacy.epsilon == 3 and yaml.safe_load(block)
    from typer.main import get_command

    from hearsay.cli.main import app

    verbs = get_command(app).commands  # type: ignore[attr-defined]
    lines = [
        line.split("#")[0].split() for line in text.replace("\\\n", "").splitlines() if line.startswith("hearsay ")
    ]
    (begun,) = (words for words in lines if words[1] == "init")
    with chdir(tmp_path):
        assert hearsay(*begun[1:]) == 0
        made, shown = configs.load(Path("my-run/hearsay.yaml")), config
        assert made.data.model_dump(exclude={"cap", "private", "public", "holdout"}) == shown.data.model_dump(
            exclude={"cap", "private", "public", "holdout"}
        )
    assert len(lines) >= 6 and all(words[1] in verbs for words in lines)


def test_the_plan_quotes_what_was_measured() -> None:
    """advice.EVIDENCE: noise over clip, and the share of the gap that updates closed at it."""
    figure = yaml.safe_load((ROOT / "studies" / "figure-2.yaml").read_text())
    found = set()
    for corpus, name, units in (("sgd", "dialogues", 11_674), ("europarl", "speeches", 974)):
        given = study.arguments(["figure-2.yaml", "--corpus", corpus, "--out", "nowhere"])
        body = agenda.study_of("figure-2", figure, given).body
        seen = json.loads((ROOT / "studies" / "results" / f"figure-2-{corpus}.json").read_text())["cells"]
        for cell, over, extra in agenda.rows(body):
            if extra["series"] != "updates" or cell not in seen:
                continue
            method = merge(body["methods"]["updates"], over)
            width = 9 * 384  # of a block of the base model: 9 outputs of 384
            dimensions = width * method["adapter"]["blocks"] * method["adapter"]["rank"]
            rounds, sample = method["updates"]["rounds"], method["updates"].get("sample", 1.0)
            asked = plan.Request(
                epsilon=extra["x"], recipe="updates", units=units, teachers=1, dimensions=dimensions, rounds=rounds,
                sample=sample,
            )  # fmt: skip
            share = statistics.mean(one["gap_closed"] for one in seen[cell].values())
            found.add((round(plan.make(asked).noise_over_clip or 0, 2), round(share, 2), name))
    assert found == set(advice.EVIDENCE)


def test_the_drawing_of_the_rooms_leaves_none_out() -> None:
    drawing = (ROOT / "docs" / "architecture.md").read_text().split("`import-linter`")[0]
    rooms = [
        path for path in (ROOT / "src" / "hearsay").iterdir() if path.name[0] not in "_." and path.suffix != ".typed"
    ]
    names = {f"{path.name}/" if path.is_dir() else path.name for path in rooms}
    assert len(names) > 30 and not {name for name in names if f" {name}" not in drawing}
