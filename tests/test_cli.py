"""The command line as its user meets it: what is printed, the exit code, and that nothing is left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import tiny_hearsay
from hearsay import __version__, run
from hearsay.accounting import budget, identity
from hearsay.accounting.bounds import STEPS, Bound
from hearsay.accounting.events import Gaussian
from hearsay.accounting.ledger import Ledger
from hearsay.cli import main as cli
from hearsay.config import load
from hearsay.errors import BadInput, BudgetError, ConfigError
from hearsay.release.door import Door, Question
from hearsay.release.grid import BoundedSum

SRC = Path(__file__).parent.parent / "src"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")


class Called:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def hearsay(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*words: object) -> Called:
        code = tiny_hearsay.hearsay(*words)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return Called(code, printed.out, printed.err)

    return call


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _config(folder: Path, **sections: Any) -> Path:
    (folder / "private.jsonl").write_text('{"text": "a private sentence", "user": "u1"}\n')
    (folder / "public.jsonl").write_text('{"text": "a public sentence", "user": "u2"}\n')
    body: dict[str, Any] = {
        "data": {"private": "private.jsonl", "public": "public.jsonl", "units": 5000, "sentences": 60000},
        "privacy": {"corpus": "chats"},
        "teachers": {"count": 500},
    }
    for name, values in sections.items():
        body[name] = {**body.get(name, {}), **values} if isinstance(values, dict) else values
    path = folder / "hearsay.yaml"
    path.write_text(yaml.safe_dump(body))
    return path


# --- what works -----------------------------------------------------------------------------------------------------


def test_version(hearsay: Any) -> None:
    assert hearsay("--version").out == f"hearsay {__version__}\n"
    assert hearsay("--version", "--json").json == {"hearsay": __version__}
    assert hearsay("--json", "--version").json == {"hearsay": __version__}


def test_help_names_the_verbs_and_imports_nothing_heavy() -> None:
    """Told from sys.modules, not from a clock: a slow machine is not a slow program."""
    code = (
        "import sys; sys.argv = ['hearsay', '--help']\n"
        "from hearsay.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print([name for name in ('torch', 'pydantic', 'scipy', 'numpy', 'mpmath', 'transformers', 'pyarrow', "
        "'dp_accounting') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(SRC)}, capture_output=True, text=True
    )
    assert done.stderr.strip() == "[]"
    for verb in ("plan", "doctor", "init", "ledger", "audit"):
        assert verb in done.stdout


def test_plan_says_what_other_tools_rely_on(hearsay: Any) -> None:
    needed = {"mu", "epsilon", "delta", "unit", "adjacency", "sensitivity", "queries", "teachers", "noise_std_sum",
              "noise_std_mean", "effective_tokens", "feasible", "why"}  # fmt: skip
    body = hearsay("plan", "--queries", 1_000_000, "--json").json
    assert needed <= set(body) and body["queries"] == 1_000_000 and body["mu"] == pytest.approx(0.6477, abs=1e-4)
    for recipe, alone, sensitivity in (
        ("seqpate", False, 2**0.5), ("hellinger", False, 2**0.5), ("hellinger", True, 1.0), ("seqpate", True, 1.0),
    ):  # fmt: skip
        flags = ["--recipe", recipe, *(["--one-unit-per-teacher"] if alone else [])]
        assert hearsay("plan", *flags, "--json").json["sensitivity"] == pytest.approx(sensitivity)
    clipped = hearsay("plan", "--clip", 0.4, "--json").json
    assert clipped["sensitivity"] == pytest.approx(0.8, rel=1e-6)
    laplace = hearsay("plan", "--recipe", "seqpate", "--noise", "laplace", "--json").json
    assert laplace["sensitivity"] == 2
    text = hearsay("plan", "--teachers", 100).out
    assert "feasible" in text and "NO" in text and "teachers" in text
    assert hearsay("plan", "--units", 400, "--sentences", 2400, "--json").json["teachers"] == 400  # nobody named more


def test_plan_tells_odds_and_warns_of_a_promise_that_is_none(hearsay: Any) -> None:
    ordinary, large = (hearsay("plan", "--epsilon", epsilon) for epsilon in (3, 50))
    assert "right at most 62.7%" in ordinary.out and ordinary.err == ""
    assert "epsilon 50 promises little" in large.err and "100%" in large.err


def test_updates_need_no_unit_for_each_teacher(hearsay: Any, tmp_path: Path) -> None:
    """A small corpus under the settings that `init` writes: how many parts the units lie in is no one's concern."""
    few = _config(tmp_path, data={"units": 50, "sentences": 500})
    assert hearsay("plan", few, "--json").json["recipe"] == "updates"
    answers = hearsay("plan", few, "--recipe", "hellinger")
    assert answers.code == 2 and "teachers.count is 500 but data.units declares 50" in answers.err


def test_plan_reads_a_config_and_flags_override_it(hearsay: Any, tmp_path: Path) -> None:
    config = _config(tmp_path)
    assert hearsay("plan", config, "--json").json["teachers"] == 500
    assert hearsay("plan", config, "--teachers", 600, "--json").json["teachers"] == 600


def test_init_writes_a_config_that_loads_and_plans(hearsay: Any, tmp_path: Path) -> None:
    made = hearsay("init", tmp_path / "new", "--json").json["config"]
    assert load(Path(made)).teachers.count == 500
    assert hearsay("plan", made, "--json").json["feasible"] in (True, False)
    again = hearsay("init", tmp_path / "new")
    assert again.code == 2 and "exists already" in again.err
    assert "wrote" in hearsay("init", tmp_path / "other").out
    assert hearsay("init", tmp_path / "x", "--task", "paint").code == 2 and not (tmp_path / "x").exists()


def test_init_writes_what_it_is_told(hearsay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as named from where the command is typed, columns, declared counts: nothing is left to fill in."""
    monkeypatch.chdir(tmp_path)
    words = "--private a.csv --private b.csv --public forum.csv --text message --user customer --units 900"
    told = hearsay("init", "deep/new", *words.split(), "--sentences", 8000, "--corpus", "bank")
    assert told.code == 0 and "look it over" in told.out
    made = load(tmp_path / "deep" / "new" / "hearsay.yaml")
    assert [path.resolve() for path in made.data.private] == [tmp_path / "a.csv", tmp_path / "b.csv"]
    assert [path.resolve() for path in made.data.public] == [tmp_path / "forum.csv"] and not made.data.holdout
    assert (made.data.text, made.data.user, made.data.public_user) == ("message", "customer", "customer")
    assert (made.data.units, made.data.sentences, made.privacy.corpus) == (900, 8000, "bank")
    other = hearsay("init", "x", "--task", "augment", "--public", "forum.csv")
    assert other.code == 2 and "--public does not go with" in other.err and not (tmp_path / "x").exists()


def test_doctor_checks_the_machine_and_a_config(hearsay: Any, tmp_path: Path) -> None:
    found = hearsay("doctor", "--json").json
    assert {"what", "ok", "found"} == set(found["checks"][0])
    good = hearsay("doctor", _config(tmp_path))
    assert good.code == 0 and "✓ private data" in good.out and "a private sentence" not in good.out
    assert _files(tmp_path) == {"hearsay.yaml", "private.jsonl", "public.jsonl"}


@pytest.mark.parametrize(("model", "sign"), [("embedded", "✓"), ("./nosuch", "✗"), (".", "✗"), ("someone/model", "✓")])
def test_doctor_looks_for_the_model(hearsay: Any, tmp_path: Path, model: str, sign: str) -> None:
    config = _config(tmp_path)
    config.write_text(config.read_text() + f"\nmodel: {model}\n")
    assert f"{sign} model" in hearsay("doctor", config).out


# --- the ledger's verbs ---------------------------------------------------------------------------------------------


def _answered(tmp_path: Path) -> tuple[Path, Path]:
    """A run with one answer on a ledger of its own."""
    path = tmp_path / "l.sqlite"
    ledger = Ledger.create(path, budget.make(3, 1e-6), corpus="c", corpus_name="chats", unit="user")
    begun = run.begin(tmp_path / "run", "settings", path)
    ledger.register(begun.id, begun.folder)
    question = Question("q", "round 1", Bound("root"), 1, 2, Fraction(STEPS * 9))

    def contributions() -> BoundedSum:
        total = BoundedSum(Bound("root"), 1, 2)
        total.add(torch.ones(3, 1, 2) / 2)
        return total

    Door(ledger, begun.id, begun.folder).ask(question, contributions)
    ledger.close()
    return path, begun.folder


def test_ledger_show_and_verify(hearsay: Any, tmp_path: Path) -> None:
    path, folder = _answered(tmp_path)
    for where in (path, folder):
        shown = hearsay("ledger", "show", where, "--json").json
        assert shown["corpus"] == "chats" and [c["purpose"] for c in shown["charges"]] == ["round 1"]
        assert 0 < shown["charges"][0]["share"] < 1 and shown["left"] == pytest.approx(1 - shown["charges"][0]["share"])
        verified = hearsay("ledger", "verify", where, "--json")
        assert verified.code == 0 and verified.json["ok"] and verified.json["chain"] == "intact"
    assert "PASS" in hearsay("ledger", "verify", folder).out and "round 1" in hearsay("ledger", "show", path).out
    (folder / "release" / "answers" / "stray.npy").write_bytes(b"x")
    bad = hearsay("ledger", "verify", folder)
    assert bad.code == 1 and "FAIL" in bad.out and "stray.npy has no committed charge" in bad.out


def test_ledger_verify_names_a_bad_row_and_a_bad_file(hearsay: Any, tmp_path: Path) -> None:
    path, _ = _answered(tmp_path)
    content = path.read_bytes()
    place = content.rindex(b"round 1")
    path.write_bytes(content[:place] + b"R" + content[place + 1 :])
    bad = hearsay("ledger", "verify", path, "--json")
    assert bad.code == 1 and bad.json["problems"][0] == "row 3 was changed: its hash does not fit"
    (tmp_path / "text.sqlite").write_text("no ledger at all, but long enough to look at " * 50)
    for verb in ("show", "verify"):
        other = hearsay("ledger", verb, tmp_path / "text.sqlite")
        assert other.code == 1 and "text.sqlite" in other.err


def test_ledger_needs_to_be_told_which(hearsay: Any, tmp_path: Path) -> None:
    assert hearsay("ledger", "show").code == 2 and "none" in hearsay("ledger", "show").err
    missing = hearsay("ledger", "verify", tmp_path / "none.sqlite")
    assert missing.code == 2 and "no ledger at" in missing.err
    folder = hearsay("ledger", "verify", tmp_path)
    assert folder.code == 2 and "not a run directory" in folder.err
    path = identity.ledger_path("chats")
    Ledger.create(path, budget.make(3, 1e-6), corpus="c", corpus_name="chats", unit="user").close()
    assert hearsay("ledger", "show", "--json").json["corpus"] == "chats"


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--epsilon", "0"], "privacy.epsilon is 0"), (["--epsilon", "-1"], "privacy.epsilon is -1"),
        (["--epsilon", "nan"], "privacy.epsilon is nan"), (["--epsilon", "inf"], "privacy.epsilon is inf"),
        (["--epsilon", "three"], "epsilon"), (["--epsilon", "1000"], "privacy.epsilon 1000"),
        (["--delta", "0"], "privacy.delta is 0"),
        (["--delta", "1"], "privacy.delta is 1"), (["--delta", "nan"], "privacy.delta is nan"),
        (["--units", "100", "--teachers", "101"], "teachers.count is 101 but data.units declares 100"),
        (["--teachers", "0"], "teachers is 0"), (["--queries", "-5"], "queries is -5"), (["--clip", "nan"], "ask.clip"),
        (["--recipe", "pie"], "ask.recipe is 'pie'"), (["--noise", "white"], "noise is 'white'"),
        (["--noise", "laplace"], "Laplace noise needs ask.recipe: seqpate"), (["--unit", "house"], "unit is 'house'"),
    ],
)  # fmt: skip
def test_bad_flags(hearsay: Any, tmp_path: Path, flags: list[str], said: str) -> None:
    called = hearsay("plan", *flags)
    assert called.code == 2 and said in called.err and not called.out
    assert _files(tmp_path) == set()


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"privacy": {"epsilon": 0}}, "privacy.epsilon"), ({"privacy": {"epsilon": -3}}, "privacy.epsilon"),
        ({"privacy": {"epsilon": float("nan")}}, "privacy.epsilon"), ({"privacy": {"delta": 2}}, "privacy.delta"),
        ({"privacy": {"epsilom": 3}}, "privacy.epsilom: unknown setting; did you mean epsilon?"),
        ({"teechers": {"count": 3}}, "teechers: unknown setting; did you mean teachers?"),
        ({"teachers": {"count": 6000}, "ask": {"recipe": "hellinger"}}, "teachers.count is 6,000 but data.units"),
        ({"data": {"units": 0}}, "data.units"), ({"ask": {"recipe": "pie"}}, "ask.recipe"),
    ],
)  # fmt: skip
def test_bad_settings(hearsay: Any, tmp_path: Path, sections: dict[str, Any], said: str) -> None:
    config = _config(tmp_path, **sections)
    before = _files(tmp_path)
    for verb in ("plan", "doctor"):
        called = hearsay(verb, config)
        assert called.code == 2 and said in called.err + called.out
    assert _files(tmp_path) == before
    as_json = hearsay("plan", config, "--json")
    assert as_json.code == 2 and as_json.json["kind"] == "ConfigError" and said in as_json.json["error"]


def test_configs_that_are_no_configs(hearsay: Any, tmp_path: Path) -> None:
    for name, content, said in (
        ("none.yaml", None, "no config at"), ("list.yaml", "- 1\n", "holds no settings"),
        ("broken.yaml", "a: [1", "not readable YAML"),
    ):  # fmt: skip
        if content is not None:
            (tmp_path / name).write_text(content)
        called = hearsay("plan", tmp_path / name)
        assert called.code == 2 and said in called.err and name in called.err


def test_private_rows_named_as_a_config_are_not_quoted(hearsay: Any, tmp_path: Path) -> None:
    (tmp_path / "private.jsonl").write_text(
        '{"user": "ann", "text": "my secret"}\n{"user": "bob", "text": "another"}\n'
    )
    called = hearsay("plan", tmp_path / "private.jsonl")
    assert called.code == 2 and "line 2" in called.err
    assert not any(word in called.err for word in ("ann", "secret", "bob", "another"))
    (tmp_path / "latin.csv").write_bytes(b"user,text\nann,my caf\xe9\n")
    for name in ("private.jsonl", "latin.csv"):
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / name)
        assert caught.value.__context__ is None, "a chained exception holds the rows"


def test_a_large_delta_is_warned_about_and_goes_on(hearsay: Any, tmp_path: Path) -> None:
    called = hearsay("plan", "--units", 5000, "--delta", "3e-5")
    assert called.code == 0 and "warning: delta 3e-05 is above a tenth of 1/5,000" in called.err
    assert "feasible" in called.out
    assert hearsay("plan", "--units", 5000, "--delta", "1e-5").err == ""
    from_config = hearsay("plan", _config(tmp_path, privacy={"delta": 1e-4}), "--json")
    assert from_config.code == 0 and from_config.json["warnings"] and "above a tenth" in from_config.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"message": "no such column", "user": "u"}\n', ["private.jsonl", "text"]),
        (b"", ["private.jsonl"]),
        (b'{"text": "\xff\xfe", "user": "u"}\n', ["private.jsonl", "row 1"]),
        (b'{"text": null, "user": "u"}\n', ["private.jsonl", "without rows of text", "column 'text'"]),
        (b'{"text": "secret words"}\n', ["private.jsonl", "user"]),
    ],
)
def test_bad_data_is_named_by_file_row_and_column(
    hearsay: Any, tmp_path: Path, content: bytes, said: list[str]
) -> None:
    config = _config(tmp_path)
    (tmp_path / "private.jsonl").write_bytes(content)
    before = _files(tmp_path)
    called = hearsay("doctor", config)
    assert called.code == 2 and "✗ private data" in called.out
    line = next(line for line in called.out.splitlines() if "private data" in line)
    assert all(word in line for word in said) and "secret words" not in line
    assert _files(tmp_path) == before


def test_exit_codes_and_json_of_every_error(hearsay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, code in (
        (ConfigError("a setting"), 2), (BudgetError("nothing left"), 3), (BadInput("another corpus"), 2),
        (OSError(28, "No space left on device", "f"), 2),
    ):  # fmt: skip

        def fail(request: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("hearsay.accounting.plan.make", fail)
        called = hearsay("plan")
        assert called.code == code and called.err.startswith("error: ")
    monkeypatch.setattr("hearsay.accounting.plan.make", lambda request: (_ for _ in ()).throw(KeyboardInterrupt()))
    assert hearsay("plan").code == 130


def test_an_unexpected_error_names_its_place_and_quotes_nothing(hearsay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(request: object) -> None:
        try:
            {}["my secret row"]
        except KeyError as error:
            raise ValueError("cannot tokenise 'my secret row'") from error

    monkeypatch.setattr("hearsay.accounting.plan.make", fail)
    called = hearsay("plan")
    assert called.code == 1 and "secret" not in called.out + called.err
    assert "ValueError" in called.err and "in fail" in called.err
    assert hearsay("plan", "--json").json["kind"] == "ValueError"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("Tried to allocate 3.38 GiB"),
        MemoryError(),
        RuntimeError("X: can't allocate memory: you"),
    ],
)
def test_too_little_memory_is_told_in_words(hearsay: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(request: object) -> None:
        raise error

    monkeypatch.setattr("hearsay.accounting.plan.make", fail)
    called = hearsay("plan")
    assert called.code == 1 and "lower compute.block" in called.err and "the same command continues" in called.err
    assert "lower compute.block" in hearsay("plan", "--json").json["error"]


def test_a_budget_that_does_not_allow_it(tmp_path: Path) -> None:
    path, folder = _answered(tmp_path)
    ledger = Ledger.open(path)
    with pytest.raises(BudgetError, match="of its budget left") as refused:
        ledger.charge("r", "q2", Gaussian(Fraction(9), Fraction(1), 1), answer="a", purpose="p", folder=folder)
    assert refused.value.exit_code == 3


# --- disks ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a small disk here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            pass


def test_a_place_that_is_no_folder(hearsay: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    called = hearsay("init", tmp_path / "file" / "below")
    assert called.code == 2 and "cannot write" in called.err and "Not a directory" in called.err
    with pytest.raises(BadInput, match="Not a directory"):
        run.begin(tmp_path / "file" / "run", "settings", tmp_path / "l.sqlite")
    with pytest.raises(BadInput, match="cannot write the ledger"):
        Ledger.create(tmp_path / "file" / "l.sqlite", budget.make(3, 1e-6), corpus="c", corpus_name="c", unit="user")
    assert _files(tmp_path) == {"file"}


def test_a_full_disk(hearsay: Any, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(small_disk)
    called = hearsay("init", small_disk / "new")
    assert called.code == 2 and "No space left on device" in called.err
    with pytest.raises(BadInput, match="No space left on device"):
        run.begin(small_disk / "run", "settings " * 100, small_disk / "l.sqlite")
    monkeypatch.setenv("HEARSAY_HOME", str(small_disk / "home"))
    with pytest.raises(BadInput, match="No space left on device; name a writable folder in HEARSAY_HOME"):
        identity.local_secret()
    assert [path.name for path in small_disk.rglob("*") if path.is_file()] == ["filler"]
    assert not (small_disk / "run").exists() and not (small_disk / "new").exists()


def test_a_read_only_folder(hearsay: Any, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    called = hearsay("init", small_disk / "new")
    assert called.code == 2 and "Read-only file system" in called.err and str(small_disk) in called.err
    with pytest.raises(BadInput, match="Read-only file system"):
        run.begin(small_disk / "run", "settings", small_disk / "l.sqlite")
    with pytest.raises(BadInput, match=r"cannot write the ledger .*l\.sqlite"):
        Ledger.create(small_disk / "l.sqlite", budget.make(3, 1e-6), corpus="c", corpus_name="c", unit="user")
    monkeypatch.setenv("HEARSAY_HOME", str(small_disk / "home"))
    doctor = hearsay("doctor")
    assert doctor.code == 2 and "NOT writable" in doctor.out


def test_ledger_verbs_on_a_read_only_disk(hearsay: Any, small_disk: Path, tmp_path: Path) -> None:
    path, _ = _answered(tmp_path)
    shutil.copy(path, small_disk / "copy.sqlite")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert hearsay("ledger", "verify", small_disk / "copy.sqlite").code == 0
    assert hearsay("ledger", "show", small_disk / "copy.sqlite", "--json").json["corpus"] == "chats"


# --- the run directory ----------------------------------------------------------------------------------------------


def test_a_run_directory_is_begun_once_and_taken_up(tmp_path: Path) -> None:
    ledger = tmp_path / "l.sqlite"
    first = run.begin(tmp_path / "run", "settings", ledger)
    assert run.begin(tmp_path / "run", "settings", ledger) == first == run.open_run(tmp_path / "run")
    assert first.private.stat().st_mode & 0o777 == first.internal.stat().st_mode & 0o777 == 0o700
    (first.private / "shard").write_text("text")
    with pytest.raises(ConfigError, match="other settings"):
        run.begin(tmp_path / "run", "others", ledger)
    with pytest.raises(ConfigError, match="continue with that ledger"):
        run.begin(tmp_path / "run", "settings", tmp_path / "other.sqlite")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("x")
    with pytest.raises(BadInput, match="not empty and not a run directory"):
        run.begin(tmp_path / "full", "settings", ledger)
    with first.alone(), pytest.raises(BadInput, match="another process"), first.alone():
        pass


def test_a_begin_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    folder = run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite").folder
    (folder / "run.json").rename(folder / ".run.json.1.draft")  # as a kill before the last step leaves it
    assert run.begin(folder, "settings", tmp_path / "l.sqlite").id


def test_a_run_that_was_refused_before_it_read_anything_takes_other_settings(tmp_path: Path) -> None:
    """Someone corrects the config as they were told and types the same command again."""
    first = run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite")
    second = run.begin(tmp_path / "run", "corrected", tmp_path / "other.sqlite")
    assert second == run.open_run(tmp_path / "run") != first and second.ledger == tmp_path / "other.sqlite"
    assert (second.folder / "config.yaml").read_text() == "corrected"
    with pytest.raises(BadInput, match="begun anew"), first.alone():  # begun before, and late to take the lock
        pass
    with second.alone(), pytest.raises(BadInput, match="another process"):  # somebody is at work there,
        (second.folder / run.LOCK).write_text("1234567")  # perhaps where process numbers are others
        run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite")
    assert run.open_run(tmp_path / "run") == second
    run.forget(second, anyway=True)
    with pytest.raises(ConfigError, match="other settings"):
        run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite")


def test_a_run_that_is_begun_anew_and_killed_counts_as_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the settings of one beside the name and ledger of another."""
    run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite").note("model")
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(run, "environment", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        run.begin(tmp_path / "run", "corrected", tmp_path / "other.sqlite")
    with pytest.raises(BadInput, match="is not a run directory"):
        run.open_run(tmp_path / "run")
    assert run.begin(tmp_path / "run", "third", tmp_path / "third.sqlite").ledger == tmp_path / "third.sqlite"
    assert (tmp_path / "run" / "config.yaml").read_text() == "third"


@pytest.mark.parametrize("left", ["private/draw", "internal/measure", "release/stages/weights", "ledger-head.json"])
def test_a_run_that_left_anything_keeps_its_settings(tmp_path: Path, left: str) -> None:
    begun = run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite")
    (begun.folder / left).parent.mkdir(exist_ok=True)
    (begun.folder / left).write_text('{"ledger": "l", "row": 1, "hash": "h"}')
    with pytest.raises(ConfigError, match="other settings"):
        run.begin(tmp_path / "run", "others", tmp_path / "l.sqlite")


def test_a_forgotten_run_is_not_taken_up_and_a_failed_one_gets_no_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.sqlite"
    first = run.begin(tmp_path / "run", "settings", ledger)
    (first.private / "shard").write_text("text")
    (first.folder / "shard elsewhere").hardlink_to(first.private / "shard")

    def refuse(folder: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as held, pytest.raises(PermissionError):
        held.setattr("shutil.rmtree", refuse)
        run.forget(first, anyway=True)
    assert not (first.folder / run.RECEIPT).exists()
    assert (first.folder / "shard elsewhere").read_bytes() == bytes(4)  # the blocks themselves, not only their name
    assert run.begin(tmp_path / "run", "settings", ledger) == first
    run.forget(first, anyway=True)
    assert not first.private.exists() and (first.folder / run.RECEIPT).exists()
    with pytest.raises(BadInput, match="was destroyed"):
        run.begin(tmp_path / "run", "settings", ledger)
    with pytest.raises(BadInput, match="was destroyed"), first.working():  # begun before, and late to take the lock
        pass


@pytest.mark.parametrize("linked", ["private/shards", "private/rows.jsonl", "internal/model-NOT-PRIVATE.safetensors"])
def test_forget_neither_follows_a_link_nor_gives_a_receipt_for_one(tmp_path: Path, linked: str) -> None:
    """Shards that were moved to another disk would outlive the receipt; a file of the owner's would be overwritten."""
    begun = run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite")
    elsewhere = tmp_path / "elsewhere"
    if linked == "private/shards":
        elsewhere.mkdir()
        (elsewhere / "shard").write_text("text")
    else:
        elsewhere.write_text("text")
    (begun.folder / linked).symlink_to(elsewhere)
    (begun.private / "kept").write_text("text")
    with pytest.raises(BadInput, match="is a link"):
        run.forget(begun, anyway=True)
    assert not (begun.folder / run.RECEIPT).exists() and (begun.private / "kept").read_text() == "text"
    assert (elsewhere / "shard" if elsewhere.is_dir() else elsewhere).read_text() == "text"
    (begun.folder / linked).unlink()
    (begun.internal / "evaluation.json").write_text("{}")
    assert run.forget(begun, anyway=True)["stays"] == ["internal/evaluation.json"]


def test_verify_asks_the_home_that_the_run_worked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hearsay: Any
) -> None:
    """Wherever the environment points by now: an old copy restored for a run that saw no newer row fails as well."""
    path, old, home = tmp_path / "l.sqlite", tmp_path / "old.sqlite", tmp_path / "the run's"
    first, second = (run.begin(tmp_path / name, "settings", path, home) for name in ("first", "second"))
    with identity.at(home):
        ledger = Ledger.create(path, budget.make(3, 1e-6), corpus="c", corpus_name="chats", unit="user")
        ledger.register(first.id, first.folder)
        ledger.close()
        shutil.copy(path, old)
        ledger = Ledger.open(path)
        ledger.register(second.id, second.folder)
        ledger.close()
    assert hearsay("ledger", "verify", first.folder).code == 0
    shutil.copy(old, path)
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "another"))
    found = hearsay("ledger", "verify", first.folder)
    assert found.code == 1 and "old copy restored" in found.out


def test_how_long_private_work_took_is_for_the_owner_alone(tmp_path: Path) -> None:
    begun = run.begin(tmp_path / "run", "settings", tmp_path / "l.sqlite")
    begun.note("shards", event="end", seconds=1.0)
    assert (begun.folder / "progress.jsonl").stat().st_mode & 0o777 == 0o600


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from hearsay.cli import main as cli
    from hearsay.cli import setup

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "checks", interrupted)
    monkeypatch.setattr("sys.argv", ["hearsay", "doctor"])
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert done.value.code == 130 and capsys.readouterr().err == "stopped\n"  # a doctor has nothing to go on with

    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", stopped)
    for verb in ("run", "demo"):
        monkeypatch.setattr("sys.argv", ["hearsay", verb, "config.yaml"])
        with pytest.raises(SystemExit) as done:
            cli.main()
        assert done.value.code == 130 and "the same command continues" in capsys.readouterr().err


def test_a_polite_end_is_told_like_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`docker stop` sends SIGTERM: whoever reads the log must learn that nothing is lost."""
    before = signal.getsignal(signal.SIGTERM)
    put_away = []

    def app() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        finally:
            put_away.append(True)

    monkeypatch.setattr(cli, "app", app)
    monkeypatch.setattr("sys.argv", ["hearsay", "run", "config.yaml"])
    try:
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stopped.value.code == 143 and put_away
    assert "the same command continues" in capsys.readouterr().err
