"""The ledger: exact, safe under many processes, and honest about being tampered with."""

import json
import multiprocessing
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearsay.accounting import budget, chain, costs, identity, statement
from hearsay.accounting.events import Event, Gaussian, Laplace, NoisyMax, SubsampledGaussian
from hearsay.accounting.ledger import PENDING, Account, Charge, Ledger, charged
from hearsay.accounting.verify import check_run_head, verify
from hearsay.errors import BadInput, BudgetError, LedgerError

BUDGET = budget.make(3, 1e-6)
TINY = Gaussian(Fraction(1), Fraction(10**6), 1)  # costs a millionth


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))


def _new(folder: Path, given: budget.Budget = BUDGET, **more: bool) -> Ledger:
    return Ledger.create(folder / "ledger.sqlite", given, corpus="c", corpus_name="chats", unit="user", **more)


def _run(folder: Path, name: str = "run") -> Path:
    (folder / name).mkdir(exist_ok=True)
    return folder / name


def _charge(ledger: Ledger, folder: Path, question: str, event: Event = TINY, run: str = "r") -> None:
    ledger.charge(run, question, event, answer=f"hash of {question}", purpose="test", folder=folder)


def _costing(cost: Fraction) -> Gaussian:
    return Gaussian(cost, Fraction(1), 1)


# --- the account ----------------------------------------------------------------------------------------------------


def test_charges_are_found_again_and_add_up_exactly(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path), _run(tmp_path)
    ledger.register("r", run)
    mix: list[Event] = [TINY, Laplace(Fraction(1), Fraction(40), 2), NoisyMax(Fraction(1), Fraction(90)), TINY]
    for i, event in enumerate(mix):
        _charge(ledger, run, f"q{i}", event)
    again = Ledger.open(ledger.path, corpus="c")
    assert again.account().spent == sum((costs.mu_squared(event) for event in mix), Fraction(0))
    assert [charge.event for charge in again.charges()] == mix
    found = again.find("r", "q1")
    assert found is not None and found.event == mix[1] and found.answer == "hash of q1"
    assert again.find("r", "q9") is None and again.find("other", "q1") is None
    assert again.charges("other") == []
    with pytest.raises(LedgerError, match="already charged"):
        _charge(ledger, run, "q1")
    assert again.account().spent == ledger.account().spent


def test_the_budget_is_filled_to_the_brim_and_not_one_unit_more(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path), _run(tmp_path)
    part = costs.round_down(BUDGET.capacity / 3)
    for i, cost in enumerate((part, part, BUDGET.capacity - 2 * part)):
        _charge(ledger, run, f"q{i}", _costing(cost))
    assert ledger.account().spent == BUDGET.capacity
    with pytest.raises(BudgetError, match=r"0\.0% of its budget left"):
        _charge(ledger, run, "more", _costing(costs.UNIT))
    verdict = verify(ledger)
    assert verdict.ok and verdict.charges == 3 and verdict.epsilon <= 3 and verdict.second_opinion["epsilon"] <= 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 10**24), min_size=2, max_size=12))
def test_whatever_the_parts_the_sum_is_exact(parts: list[int]) -> None:
    """No float enters: the last unit fits or does not fit by whole numbers."""
    costs_of = [part * costs.UNIT for part in parts]
    exact = budget.Budget(3, 1e-6, sum(costs_of, Fraction(0)))
    account = Account(Fraction(0), 0, 0)
    for cost in costs_of:
        account = charged(exact, account, _costing(cost))
    assert account.spent == exact.capacity
    assert charged(exact, account, _costing(costs.UNIT / 10**9)).spent > exact.capacity


def test_one_unit_too_much_is_refused_whatever_came_before(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path), _run(tmp_path)
    _charge(ledger, run, "all but one", _costing(BUDGET.capacity - costs.UNIT))
    with pytest.raises(BudgetError):
        _charge(ledger, run, "two", _costing(2 * costs.UNIT))
    _charge(ledger, run, "one", _costing(costs.UNIT / 7))  # rounded up to one
    assert ledger.account().spent == BUDGET.capacity
    assert [charge.question for charge in ledger.charges()] == ["all but one", "one"]


def test_coordinates_count_towards_the_samplers_error(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path, budget.make(80, 1e-6)), _run(tmp_path)
    _charge(ledger, run, "many", Gaussian(Fraction(1), Fraction(10**9), 2**40))
    with pytest.raises(BudgetError, match="sampler"):
        _charge(ledger, run, "too many", Gaussian(Fraction(1), Fraction(10**9), 2**50))


def test_a_schedule_is_consumed_in_order_and_others_pay(tmp_path: Path) -> None:
    step = SubsampledGaussian(Fraction(1, 10), Fraction(4), 10)
    committed = budget.Budget(3, 1e-6, Fraction(1, 100), schedule=(step, step))
    ledger, run = _new(tmp_path, committed), _run(tmp_path)
    _charge(ledger, run, "s1", step)
    _charge(ledger, run, "free", TINY)
    _charge(ledger, run, "s2", step)
    assert ledger.account() == Account(costs.mu_squared(TINY), 2, 1)
    with pytest.raises(BudgetError, match="commit it"):
        _charge(ledger, run, "s3", step)
    verdict = verify(ledger)
    assert verdict.ok and verdict.second_opinion["accountant"] == "dp-accounting PLD"
    assert verdict.second_opinion["epsilon"] == pytest.approx(verdict.epsilon, rel=1e-3)


def test_a_renyi_filter_takes_everything_and_verifies(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path, budget.make(3, 1e-6, "renyi")), _run(tmp_path)
    for i, event in enumerate(
        (SubsampledGaussian(Fraction(1, 10), Fraction(4), 10), TINY, NoisyMax(Fraction(1), Fraction(20)))
    ):
        _charge(ledger, run, f"q{i}", event)
    verdict = verify(ledger)
    assert verdict.ok and verdict.second_opinion["accountant"] == "dp-accounting Renyi"
    assert 0.9 * verdict.epsilon < verdict.second_opinion["epsilon"] <= verdict.epsilon


def test_a_first_row_that_grants_too_much_is_found(tmp_path: Path) -> None:
    ledger = _new(tmp_path, budget.Budget(3, 1e-6, BUDGET.capacity * 2))
    assert "first row grants more" in verify(ledger).problems[0]


def test_a_second_accountant_that_finds_more_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, run = _new(tmp_path), _run(tmp_path)
    _charge(ledger, run, "q", _costing(BUDGET.capacity / 4))
    assert verify(ledger).ok
    monkeypatch.setattr("hearsay.accounting.opinion.mpmath_epsilon", lambda mu, delta: 2.9)
    assert "the second accountant finds epsilon 2.9" in verify(ledger).problems[0]


# --- many processes -------------------------------------------------------------------------------------------------


def _spend(path: Path, folder: Path, who: int, tries: int, event: Event, together: Barrier) -> None:
    ledger = Ledger.open(path)
    together.wait()
    for i in range(tries):
        try:
            _charge(ledger, folder, f"{who}-{i}", event, run=f"run{who}")
        except BudgetError:
            (folder / "refused").open("a").write("x")


def test_eight_processes_share_one_ledger(tmp_path: Path) -> None:
    """160 charges wanted, 100 fit: exactly 100 are there, none is lost, none too many, and each run's head fits."""
    ledger = _new(tmp_path)
    event = _costing(costs.round_down(BUDGET.capacity / 100))
    processes = multiprocessing.get_context("fork")
    together = processes.Barrier(8)
    ledger.close()
    workers = [
        processes.Process(target=_spend, args=(ledger.path, _run(tmp_path, f"run{who}"), who, 20, event, together))
        for who in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 8
    refused = sum(len(path.read_text()) for path in tmp_path.glob("run*/refused"))
    ledger = Ledger.open(ledger.path)
    verdict = verify(ledger)
    assert verdict.ok
    assert (verdict.charges, refused) == (100, 60)
    assert ledger.account().spent == 100 * costs.mu_squared(event) <= BUDGET.capacity


def _make(path: Path, results: Path, who: int) -> None:
    try:
        secret = identity.local_secret()
        Ledger.create(path, BUDGET, corpus="c", corpus_name="chats", unit="user")
        outcome = "made"
    except LedgerError as error:
        outcome = "exists" if "exists already" in str(error) else str(error)
    (results / str(who)).write_text(outcome + " " + secret.hex())


def test_of_eight_creators_one_wins_and_all_share_the_secret(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("fork")
    results = _run(tmp_path, "results")
    workers = [processes.Process(target=_make, args=(tmp_path / "l.sqlite", results, who)) for who in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    outcomes = [path.read_text().split() for path in results.iterdir()]
    assert sorted(outcome for outcome, _ in outcomes) == ["exists"] * 7 + ["made"]
    assert len({secret for _, secret in outcomes}) == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"l.sqlite", "l.sqlite-wal", "l.sqlite-shm", "results", "home"}


# --- tampering ------------------------------------------------------------------------------------------------------


def _filled(tmp_path: Path, charges: int = 5) -> tuple[Ledger, Path]:
    ledger, run = _new(tmp_path), _run(tmp_path)
    ledger.register("r", run)  # row 2; the charges are rows 3 to 7
    for i in range(charges):
        _charge(ledger, run, f"q{i}")
    assert verify(ledger).ok
    return ledger, run


def _tamper(ledger: Ledger, sql: str, *values: object) -> Ledger:
    ledger.close()
    with sqlite3.connect(ledger.path) as db:
        db.execute(sql, values)
    return Ledger.open(ledger.path)


def _body(ledger: Ledger, row: int) -> dict[str, object]:
    return json.loads(ledger.rows()[row - 1][1])


def test_a_flipped_byte_is_found_and_its_row_named(tmp_path: Path) -> None:
    ledger, _ = _filled(tmp_path)
    text = ledger.rows()[3][1]
    for place in range(0, len(text), 37):
        changed = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        ledger = _tamper(ledger, "UPDATE ledger SET body = ? WHERE row = 4", changed)
        verdict = verify(ledger)
        assert not verdict.ok and verdict.chain == "broken" and verdict.problems[0].startswith("row 4 was changed")
    assert verify(_tamper(ledger, "UPDATE ledger SET body = ? WHERE row = 4", text)).ok


def test_a_flipped_byte_in_the_file_itself_is_found(tmp_path: Path) -> None:
    ledger, _ = _filled(tmp_path)
    ledger.close()
    content = ledger.path.read_bytes()
    place = content.index(b"hash of q2")
    ledger.path.write_bytes(content[:place] + b"X" + content[place + 1 :])
    assert verify(Ledger.open(ledger.path)).problems[0] == "row 5 was changed: its hash does not fit"


@pytest.mark.parametrize(
    "change", [("chats", "chatz"), ('"epsilon":3', '"epsilon":9'), ('"ledger"', '"lodger"'), ("{", "[")]
)
def test_a_changed_first_row_is_not_believed(tmp_path: Path, change: tuple[str, str]) -> None:
    ledger, _ = _filled(tmp_path)
    text = ledger.rows()[0][1].replace(*change, 1)
    with pytest.raises(LedgerError, match="row 1"):
        _tamper(ledger, "UPDATE ledger SET body = ? WHERE row = 1", text)


def _lower_total(ledger: Ledger, row: int) -> tuple[str, str]:
    body = {**_body(ledger, row), "spent": "0"}
    text = chain.canonical(body)
    return text, chain.link(ledger.rows()[row - 2][2], text)


def test_a_changed_total_is_found_even_with_a_fitting_hash(tmp_path: Path) -> None:
    ledger, run = _filled(tmp_path)
    text, forged = _lower_total(ledger, 7)
    ledger = _tamper(ledger, "UPDATE ledger SET body = ?, hash = ? WHERE row = 7", text, forged)
    problems = verify(ledger).problems
    assert "row 7 states a total that its events do not add up to" in problems
    assert any("row 7, which" in problem for problem in problems)  # the run's head saw another hash
    with pytest.raises(LedgerError, match="lacks row 7"):
        _charge(ledger, run, "next")


def test_a_changed_total_is_refused_at_the_next_charge(tmp_path: Path) -> None:
    ledger, _ = _filled(tmp_path)
    text, _ = _lower_total(ledger, 7)
    ledger = _tamper(ledger, "UPDATE ledger SET body = ? WHERE row = 7", text)
    with pytest.raises(LedgerError, match=r"row 7 of .* was changed"):
        _charge(ledger, _run(tmp_path, "fresh"), "next", run="another")


@pytest.mark.parametrize("column", ["kind = 'note'", "run = 'x'", "question = 'y'"])
def test_a_charge_cannot_be_hidden_in_the_columns(tmp_path: Path, column: str) -> None:
    """They are outside the chain, and SQLite finds rows by them: a hidden charge would be budget regained."""
    ledger, _ = _filled(tmp_path)
    problems = verify(_tamper(ledger, f"UPDATE ledger SET {column} WHERE row = 7")).problems
    assert problems[0] == "row 7 was changed: its columns are not what its body says"


def test_a_deleted_row_in_the_middle_is_named(tmp_path: Path) -> None:
    ledger, _ = _filled(tmp_path)
    verdict = verify(_tamper(ledger, "DELETE FROM ledger WHERE row = 5"))
    assert verdict.problems[0] == "row 5 is missing" and verdict.chain == "broken"


@pytest.mark.parametrize("from_row", [7, 3, 2])
def test_a_deleted_tail_is_found_and_refused(tmp_path: Path, from_row: int) -> None:
    ledger, run = _filled(tmp_path)
    ledger = _tamper(ledger, "DELETE FROM ledger WHERE row >= ?", from_row)
    problems = verify(ledger).problems + check_run_head(ledger, run)
    assert any("row 7" in problem and "tail was deleted or an old copy restored" in problem for problem in problems)
    with pytest.raises(LedgerError, match="tail was deleted or an old copy restored"):
        _charge(ledger, run, "next")
    with pytest.raises(LedgerError, match="tail was deleted or an old copy restored"):
        ledger.register("r", run)  # what a resumed run does: it must not overwrite the evidence
    assert check_run_head(ledger, run)


def test_rows_tell_their_day_and_no_more(tmp_path: Path) -> None:
    """Seconds between charges would tell how many units took part in a round."""
    ledger, _ = _filled(tmp_path)
    for kind in ("budget", "run", "charge"):
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", body["time"]) for body in ledger.bodies(kind))


def test_of_two_copies_only_the_newest_goes_on(tmp_path: Path) -> None:
    """Each has rows of its own then, and both would verify: the budget would be spent twice."""
    ledger, _ = _filled(tmp_path)
    ledger.close()
    copied = tmp_path / "backup" / ledger.path.name
    _copy(ledger.path, copied.parent)
    original, copy = Ledger.open(ledger.path), Ledger.open(copied)
    assert verify(copy).ok
    first, second = _run(tmp_path, "first"), _run(tmp_path, "second")
    original.register("first", first)
    _charge(original, first, "q", run="first")
    with pytest.raises(LedgerError, match="which this machine has seen"):
        copy.register("second", second)
    with pytest.raises(LedgerError, match="which this machine has seen"):
        _charge(copy, second, "q", run="second")
    assert "which this machine has seen" in verify(copy).problems[0] and verify(original).ok


def test_a_removed_head_is_found(tmp_path: Path) -> None:
    ledger, run = _filled(tmp_path)
    (run / chain.HEAD_FILE).unlink()
    assert "ledger-head.json was removed" in verify(ledger).problems[0]


def _copy(ledger: Path, to: Path) -> None:
    to.mkdir(exist_ok=True)
    for path in ledger.parent.glob(ledger.name + "*"):
        shutil.copy(path, to / path.name)


def test_a_restored_backup_is_found_and_refused_to_old_and_new_runs(tmp_path: Path) -> None:
    place = _run(tmp_path, "place")
    ledger, run = _new(place), _run(tmp_path)
    ledger.register("r", run)
    _charge(ledger, run, "q0")
    _copy(ledger.path, tmp_path / "backup")  # with its log, as it lies
    _charge(ledger, run, "q1")
    ledger.close()
    for path in place.glob("ledger.sqlite*"):
        path.unlink()
    _copy(tmp_path / "backup" / "ledger.sqlite", place)

    restored = Ledger.open(ledger.path)
    assert [charge.question for charge in restored.charges()] == ["q0"]
    assert "row 4" in verify(restored).problems[0] and "old copy restored" in verify(restored).problems[0]
    with pytest.raises(LedgerError, match="lacks row 4"):
        _charge(restored, run, "q2")
    with pytest.raises(LedgerError, match="lacks row 4"):
        restored.register("new", _run(tmp_path, "new"))  # a new run has no head of its own: the old one's counts
    assert len(restored.charges()) == 1


def test_directories_that_are_gone_or_reused_are_noted_not_judged(tmp_path: Path) -> None:
    ledger, run = _filled(tmp_path)
    shutil.rmtree(run)
    assert verify(ledger).ok and verify(ledger).unchecked == [str(run)]
    _run(tmp_path)
    (run / "run.json").write_text(json.dumps({"id": "someone else"}))
    chain.write_head(run, chain.Head("another ledger", 9, "hash"))
    assert verify(ledger).ok and verify(ledger).unchecked == [str(run)]
    ledger.register("new", _run(tmp_path, "new"))


# --- which corpus ---------------------------------------------------------------------------------------------------


def _sketch(first: int, count: int) -> tuple[bytes, ...]:
    from hearsay.private.corpus import BottomSketch

    bottom = BottomSketch(identity.sketch_key())
    for i in range(first, first + count):
        bottom.add(f"user {i}")
    return bottom.value()


def test_a_ledger_of_another_corpus_is_refused(tmp_path: Path) -> None:
    ledger = _new(tmp_path)
    with pytest.raises(BadInput, match="another corpus"):
        Ledger.open(ledger.path, corpus="d")
    with pytest.raises(BadInput, match="no ledger at"):
        Ledger.open(tmp_path / "none.sqlite")
    run = _run(tmp_path)
    ledger.register("r", run)
    other = Ledger.create(tmp_path / "other.sqlite", BUDGET, corpus="c", corpus_name="chats", unit="user")
    with pytest.raises(LedgerError, match="charged to another ledger"):
        _charge(other, run, "q")


@pytest.mark.parametrize(("first", "count"), [(0, 1000), (0, 1001), (0, 8000), (-300, 1000), (0, 700)])
def test_the_same_people_are_known_under_another_name(tmp_path: Path, first: int, count: int) -> None:
    """Renamed, with rows appended (up to eightfold), with some replaced, with some left out."""
    identity.remember("one", tmp_path / "one.sqlite", _sketch(0, 1000))
    identity.remember("one", tmp_path / "one.sqlite", _sketch(0, 1200))
    with pytest.raises(BudgetError, match=r"already charged to the ledger .*one\.sqlite"):
        identity.remember("two", tmp_path / "two.sqlite", _sketch(first, count))


def test_a_small_part_of_a_corpus_is_known(tmp_path: Path) -> None:
    from hearsay.private import corpus

    assert identity.SKETCH_SIZE == corpus.SKETCH_SIZE
    identity.remember("one", tmp_path / "one.sqlite", _sketch(0, 4000))
    for first in range(0, 4000, 500):
        with pytest.raises(BudgetError, match="already charged"):
            identity.remember("two", tmp_path / "two.sqlite", _sketch(first, 25))


def test_growing_step_by_step_does_not_hide_the_beginning(tmp_path: Path) -> None:
    for count in (500, 4000, 32000):
        identity.remember("one", tmp_path / "one.sqlite", _sketch(0, count))
    with pytest.raises(BudgetError, match="already charged"):
        identity.remember("two", tmp_path / "two.sqlite", _sketch(0, 500))


@pytest.mark.parametrize("count", [1, 5, 63, 64, 5000])
def test_other_people_are_not_refused(tmp_path: Path, count: int) -> None:
    identity.remember("one", tmp_path / "one.sqlite", _sketch(0, count))
    identity.remember("two", tmp_path / "two.sqlite", _sketch(10_000, count))
    with pytest.raises(BudgetError):
        identity.remember("three", tmp_path / "three.sqlite", _sketch(0, count))


def test_the_identity_needs_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = identity.corpus_id("chats")
    assert identity.corpus_id("chats") == here != identity.corpus_id("mails")
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "elsewhere"))
    assert identity.corpus_id("chats") != here
    assert (tmp_path / "elsewhere" / "secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "elsewhere" / "secret").write_bytes(b"short")
    with pytest.raises(LedgerError, match="not a hearsay secret"):
        identity.local_secret()


def test_a_ledger_keeps_its_heads_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run works at its own home. Were its charges seen elsewhere, that home would take an old copy for the newest."""
    with identity.at(tmp_path / "of the run"):
        ledger, run, old = _new(tmp_path), _run(tmp_path), tmp_path / "backup.sqlite"
        _charge(ledger, run, "q0")
        ledger.close()
        shutil.copy(ledger.path, old)
        ledger = Ledger.open(ledger.path)
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "elsewhere"))
    _charge(ledger, run, "q1")
    ledger.close()
    shutil.copy(old, ledger.path)
    shutil.rmtree(run)  # which has seen the newest head, too
    with identity.at(tmp_path / "of the run"), pytest.raises(LedgerError, match="old copy restored"):
        _charge(Ledger.open(ledger.path), _run(tmp_path, "another"), "q2")


# --- what is said ---------------------------------------------------------------------------------------------------


def test_the_statement_comes_from_the_ledger_and_rounds_up(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path, research=True), _run(tmp_path)
    assert statement.make(ledger).guess_rate == 0.5 and statement.make(ledger).epsilon == 0
    _charge(ledger, run, "q", _costing(BUDGET.capacity))
    made = statement.make(ledger)
    assert made.epsilon <= 3 and made.mu == pytest.approx(0.6477, abs=1e-4)
    text = " ".join(made.sentences())
    assert "(3, 1e-06)-differential privacy" in text and "at most 62.7% of the time" in text
    assert "epsilon 6.5" in text and "RESEARCH LEDGER" in text
    assert made.to_json()["sentences"] == made.sentences()
    told = replace(made, guess_rate=0.62741, epsilon=2.71843).to_json()
    assert told["guess_percent"] == "62.8" and told["epsilon_told"] == "2.719"
    assert (
        statement.rounded_up(1.00004) == "1.001"
        and statement.rounded_up(2.9999999) == "3"
        and statement.rounded_up(0.0) == "0"
    )


def test_verify_says_what_other_tools_rely_on(tmp_path: Path) -> None:
    ledger, _ = _filled(tmp_path)
    body = verify(ledger).to_json()
    assert {"epsilon", "delta", "mu", "second_opinion", "charges", "answers", "chain", "ok"} <= set(body)
    assert (body["charges"], body["answers"], body["chain"], body["ok"]) == (5, 5, "intact", True)
    assert body["delta"] == 1e-6 and body["mu"] == pytest.approx(5e-6**0.5)
    assert body["second_opinion"]["epsilon"] == pytest.approx(body["epsilon"], rel=1e-6)
    json.dumps(body, allow_nan=False)


# --- results --------------------------------------------------------------------------------------------------------


def _pending(ledger: Ledger, run: Path, question: str = "trained", name: str = "r") -> Charge:
    return ledger.charge(name, question, TINY, answer=f"{PENDING}release/x", purpose="test", folder=run)


def test_a_result_is_bound_once_costs_nothing_and_moves_the_head(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path), _run(tmp_path)
    first, second = _pending(ledger, run), _pending(ledger, run, "other")
    before = ledger.account()
    assert first.pending == "release/x" and ledger.result(first) is None and verify(ledger).answers == 0
    ledger.bind(first, "its hash", folder=run)
    assert ledger.result(first) == "its hash" and ledger.result(second) is None and ledger.account() == before
    assert ledger.find("r", "trained-result") is None and len(ledger.charges()) == 2
    head = chain.read_head(run)
    assert head is not None and head.row == 5 and (verify(ledger).charges, verify(ledger).answers) == (2, 1)
    with pytest.raises(LedgerError, match="already charged"):
        ledger.bind(first, "another hash", folder=run)
    ledger.bind(second, "its hash", folder=run)  # two results that happen to be equal are two
    assert verify(ledger).ok and verify(ledger).answers == 2
    _charge(ledger, run, "answered")
    answered = ledger.find("r", "answered")
    assert answered is not None and answered.pending is None
    with pytest.raises(LedgerError, match="has its answer already"):
        ledger.bind(answered, "hash", folder=run)


def test_a_deleted_or_changed_result_is_found(tmp_path: Path) -> None:
    """Without its row the library could be run again under the same charge."""
    ledger, run = _new(tmp_path), _run(tmp_path)
    charge = _pending(ledger, run)
    ledger.bind(charge, "its hash", folder=run)
    ledger = _tamper(ledger, "UPDATE ledger SET body = replace(body, 'its hash', 'my hash') WHERE row = 4")
    assert verify(ledger).problems[0] == "row 4 was changed: its hash does not fit"
    ledger = _tamper(ledger, "DELETE FROM ledger WHERE row = 4")
    assert any("tail was deleted" in problem for problem in verify(ledger).problems)
    with pytest.raises(LedgerError, match="tail was deleted"):
        ledger.bind(charge, "another", folder=run)


@pytest.mark.parametrize("column", ["kind = 'note'", "run = 'x'", "question = 'y'"])
def test_a_result_cannot_be_hidden_in_the_columns(tmp_path: Path, column: str) -> None:
    ledger, run = _new(tmp_path), _run(tmp_path)
    ledger.bind(_pending(ledger, run), "its hash", folder=run)
    problems = verify(_tamper(ledger, f"UPDATE ledger SET {column} WHERE row = 4")).problems
    assert problems[0] == "row 4 was changed: its columns are not what its body says"


def test_a_result_that_no_charge_left_open_is_found(tmp_path: Path) -> None:
    ledger, run = _new(tmp_path), _run(tmp_path)
    ledger.bind(replace(_pending(ledger, run), question="never charged"), "hash", folder=run)
    assert verify(ledger).problems == ["row 4 is a result that no charge before it left open"]


# --- the file -------------------------------------------------------------------------------------------------------


def test_the_file_is_synced_in_full_and_private(tmp_path: Path) -> None:
    ledger = _new(tmp_path)
    assert ledger._query("PRAGMA journal_mode") == [("wal",)] and ledger._query("PRAGMA synchronous") == [(2,)]
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".*"))


def _as_nobody(action: Callable[[], None]) -> int:
    """Runs in a child without root's rights, to whom permission bits mean something."""
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            action()
            os._exit(0)
        except BaseException as error:
            print(repr(error))
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give up its rights")
@pytest.mark.parametrize("log_in_use", [False, True])
def test_a_ledger_that_cannot_be_written_can_be_read(tmp_path: Path, log_in_use: bool) -> None:
    ledger, run = _filled(tmp_path)
    if not log_in_use:
        ledger.close()
    for path in (tmp_path, run, *tmp_path.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    for parent in tmp_path.parents:
        if parent.stat().st_mode & 0o005 != 0o005:  # pytest keeps its folders to itself
            parent.chmod(0o755)

    def read() -> None:
        seen = Ledger.open(ledger.path)
        assert len(seen.charges()) == 5 and verify(seen).ok
        with pytest.raises(BadInput, match="cannot write"):
            seen.charge("r", "new", TINY, answer="x", purpose="test", folder=run)

    assert _as_nobody(read) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> object:
    disk = _run(tmp_path, "disk")
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("cannot mount a small disk here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def _fill(disk: Path, leave: int = 0) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
        if leave:
            file.truncate(max(0, file.tell() - leave))


def test_a_full_disk_charges_nothing(small_disk: Path, tmp_path: Path) -> None:
    ledger, run = _new(small_disk), _run(tmp_path)
    ledger.register("r", run)
    _charge(ledger, run, "q0")
    _fill(small_disk)
    refused = 0
    for i in range(40):
        try:
            _charge(ledger, run, f"more {i}")
        except BadInput as error:
            assert "cannot write the ledger" in str(error) and "free space" in str(error)
            refused += 1
    assert refused
    before = [charge.question for charge in ledger.charges()]
    assert len(before) == 41 - refused
    (small_disk / "filler").unlink()
    again = Ledger.open(ledger.path)
    assert [charge.question for charge in again.charges()] == before and verify(again).ok
    _charge(again, run, "goes on")
    assert verify(again).ok


def test_a_ledger_begun_on_a_full_disk_leaves_nothing(small_disk: Path) -> None:
    _fill(small_disk, leave=8192)
    with pytest.raises(BadInput, match="cannot write the ledger"):
        _new(small_disk / "new")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]
