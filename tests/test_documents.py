"""Documents that can be wrong: what is written from JSON or help texts is up to date, what is named exists."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hearsay import config as configs
from hearsay.accounting import gaussian

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("script", ["write_commands", "write_claims", "write_studies"])
def test_written_pages_are_up_to_date(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / f"{script}.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0, done.stderr


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
    told += [f"{100 * gaussian.guess_rate(gaussian.mu_of(epsilon, 1e-6)) + 0.05:.1f}%" for epsilon in (3, 1, 10)]
    assert [one for one in told if one not in text] == []
    rows = [line.split("|")[2:-1] for line in (DOCS / "guarantee.md").read_text().splitlines() if line.count("|") == 8]
    for epsilon, _, percent, mu in zip(*rows[:4], strict=True):
        exact = gaussian.mu_of(float(epsilon), 1e-6)
        assert float(mu) == pytest.approx(exact, abs=1e-4)
        assert percent.strip() == f"{math.ceil(1000 * gaussian.guess_rate(exact)) / 10}%"


def test_the_quickstarts_config_loads_and_its_commands_exist() -> None:
    text = (DOCS / "quickstart.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    config = configs.parse(block, ROOT)
    assert config.data.text == "message" and config.privacy.epsilon == 3 and yaml.safe_load(block)
    from typer.main import get_command

    from hearsay.cli.main import app

    verbs = get_command(app).commands  # type: ignore[attr-defined]
    lines = [line.split("#")[0].split() for line in text.splitlines() if line.startswith("hearsay ")]
    assert len(lines) >= 6 and all(words[1] in verbs for words in lines)
