"""What a library trains under one charge: one result for ever, and kill -9 at every step."""

import os
import signal
from fractions import Fraction
from pathlib import Path

import pytest

from hearsay.accounting import budget
from hearsay.accounting.events import SubsampledGaussian
from hearsay.accounting.ledger import PENDING, Charge, Ledger
from hearsay.accounting.verify import verify
from hearsay.errors import BadInput, LedgerError
from hearsay.release import door as doors
from hearsay.release.door import Door
from hearsay.release.results import check_results, release_once

PLACE = "release/stages/dpsgd.safetensors"
STEP_NAMES = ("before training", "written", "trained", "bound", "released")


def _door(tmp_path: Path) -> Door:
    path = tmp_path / "ledger.sqlite"
    if not path.exists():
        Ledger.create(path, budget.make(3, 1e-6), corpus="c", corpus_name="chats", unit="user").close()
    return Door(Ledger.open(path), "run", tmp_path / "run")


def _charge(door: Door, answer: str = PENDING + PLACE) -> Charge:
    event = SubsampledGaussian(Fraction(1), Fraction(4))
    found = door.ledger.find("run", "q")
    return found or door.ledger.charge("run", "q", event, answer=answer, purpose="t", folder=door.folder, noise="x")


def _train(path: Path) -> None:
    """Another one each time, as noise is."""
    path.write_bytes(os.urandom(32))
    doors.reached("written")


def _never(path: Path) -> None:
    raise AssertionError("trained again")


def _killed_at(tmp_path: Path, step: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            doors.reached = lambda here: os.kill(os.getpid(), signal.SIGKILL) if here == step else None
            door = _door(tmp_path)
            release_once(door, _charge(door), _train)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("step", STEP_NAMES)
def test_killed_at_each_step_there_is_one_result(tmp_path: Path, step: str) -> None:
    """What exactly is there when it dies, and what the next run, which sweeps first, makes of it."""
    _door(tmp_path).ledger.close()
    _killed_at(tmp_path, step)
    door, outside = _door(tmp_path), tmp_path / "run" / PLACE
    inside = tmp_path / "run" / "private" / "trained" / "q.safetensors"
    bound = door.ledger.result(_charge(door))
    there = {"written": (True, False, False), "trained": (True, False, False), "bound": (True, False, True),
             "released": (False, True, True)}  # fmt: skip
    assert (inside.exists(), outside.exists(), bound is not None) == there.get(step, (False, False, False))
    assert inside.parent.stat().st_mode & 0o777 == 0o700
    assert verify(door.ledger).ok and check_results(door.ledger, "run", door.folder) == []
    before = inside.read_bytes() if inside.exists() else b""
    door.sweep()
    content = release_once(door, _charge(door), _train if bound is None else _never)
    assert bound is None or content == (before or outside.read_bytes())
    assert bound is not None or content != before  # what was never bound is not released
    assert not inside.exists() and content == release_once(door, _charge(door), _never)
    verdict = verify(door.ledger)
    assert verdict.ok and (verdict.charges, verdict.answers) == (1, 1)


def _released(tmp_path: Path) -> tuple[Door, Path]:
    door = _door(tmp_path)
    release_once(door, _charge(door), _train)
    return door, door.folder / PLACE


def test_a_result_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    door, file = _released(tmp_path)
    kept = file.read_bytes()
    file.unlink()
    with pytest.raises(LedgerError, match="is gone; it was paid for once and is not made again"):
        release_once(door, _charge(door), _never)
    assert "is gone" in check_results(door.ledger, "run", door.folder)[0]
    file.write_bytes(kept)
    assert release_once(door, _charge(door), _never) == kept


def test_a_result_that_was_changed_is_refused(tmp_path: Path) -> None:
    door, file = _released(tmp_path)
    file.write_bytes(b"another")
    with pytest.raises(LedgerError, match="is not the result bound to row 3"):
        release_once(door, _charge(door), _never)
    assert "is not the result bound to row 3" in check_results(door.ledger, "run", door.folder)[0]


def test_a_result_changed_before_it_left_stays_inside(tmp_path: Path) -> None:
    _door(tmp_path).ledger.close()
    _killed_at(tmp_path, "bound")
    (tmp_path / "run" / "private" / "trained" / "q.safetensors").write_bytes(b"another")
    door = _door(tmp_path)
    with pytest.raises(LedgerError, match="not the one bound"):
        release_once(door, _charge(door), _never)
    assert not (door.folder / PLACE).exists()


def test_what_lies_outside_without_its_row_is_refused(tmp_path: Path) -> None:
    door = _door(tmp_path)
    charge, file = _charge(door), door.folder / PLACE
    file.parent.mkdir(parents=True)
    file.write_bytes(b"mine")
    assert "has no result row" in check_results(door.ledger, "run", door.folder)[0]
    with pytest.raises(LedgerError, match="the ledger has no result for row 3"):
        release_once(door, charge, _never)


def test_a_head_that_cannot_be_written_does_not_lose_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = _door(tmp_path)
    charge = _charge(door)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(BadInput, match="pays nothing twice"):
        patched.setattr("hearsay.accounting.chain.write_head", full)
        release_once(door, charge, _train)
    assert door.ledger.result(charge) is not None
    release_once(door, charge, _never)


def test_a_charge_that_has_its_answer_takes_no_result(tmp_path: Path) -> None:
    door = _door(tmp_path)
    with pytest.raises(LedgerError, match="without a result to come"):
        release_once(door, _charge(door, answer="none: an older version's"), _never)
