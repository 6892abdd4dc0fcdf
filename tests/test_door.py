"""The door: bounds in integers, one answer per question for ever, and kill -9 at every step."""

import errno
import math
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hearsay.accounting import budget
from hearsay.accounting.bounds import STEPS, Bound
from hearsay.accounting.ledger import Ledger
from hearsay.accounting.verify import verify
from hearsay.errors import BadInput, BudgetError, ConfigError, HearsayError, LedgerError
from hearsay.release import door as doors
from hearsay.release import grid
from hearsay.release.door import Door, Question, check_answers
from hearsay.release.grid import BoundBroken, BoundedSum, on_grid
from hearsay.release.histogram import shares, teacher_votes

BOUNDS = [
    Bound("root"), Bound("probability"), Bound("root", alone=True), Bound("probability", alone=True),
    Bound("residual", clip=Fraction(2, 5)), Bound("residual", alone=True, clip=Fraction(1, 3)),
]  # fmt: skip
STEP_NAMES = ("before sum", "before store", "stored", "committed", "moved")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEARSAY_HOME", str(tmp_path / "home"))


# --- the grid -------------------------------------------------------------------------------------------------------

ODD = st.one_of(
    st.floats(-2, 2), st.sampled_from([0.0, 1.0, -1.0, 1e308, -1e308, 1e-320, math.nan, math.inf, -math.inf, 1 + 1e-15])
)


def _vectors(slots: int, questions: int, width: int) -> st.SearchStrategy[Tensor]:
    size = slots * questions * width
    values = st.lists(ODD, min_size=size, max_size=size) | st.lists(st.floats(0, 1), min_size=size, max_size=size)
    kinds = st.sampled_from([torch.float64, torch.float32, torch.bfloat16])
    return st.builds(
        lambda v, kind: torch.tensor(v, dtype=torch.float64).reshape(slots, questions, width).to(kind), values, kinds
    )


def _norms(steps: Tensor) -> tuple[list[list[int]], list[list[int]]]:
    """L1 and squared L2 norms per slot and question, in Python's integers."""
    rows = steps.tolist()
    return (
        [[sum(abs(v) for v in question) for question in slot] for slot in rows],
        [[sum(v * v for v in question) for question in slot] for slot in rows],
    )


@settings(max_examples=150, deadline=None)
@given(_vectors(3, 2, 4), st.sampled_from(BOUNDS))
def test_whatever_comes_in_the_integers_obey_the_bound(vectors: Tensor, bound: Bound) -> None:
    steps = on_grid(vectors, bound)
    absolute, squared = _norms(steps)
    for one, two in zip(absolute, squared, strict=True):
        if bound.kind == "residual":
            assert sum(two) <= bound.clip**2 * 2 * STEPS**2
        else:
            assert max(two) <= STEPS**2
        if bound.kind == "probability":
            assert max(one) <= STEPS
    if bound.kind != "residual":
        assert int(steps.min()) >= 0


@settings(max_examples=150, deadline=None)
@given(_vectors(4, 2, 3), _vectors(1, 2, 3), st.integers(0, 3), st.sampled_from(BOUNDS))
def test_one_slot_moves_the_sum_by_at_most_the_sensitivity(
    vectors: Tensor, other: Tensor, slot: int, bound: Bound
) -> None:
    """Dropped for `alone` (what is left is exactly zero), else replaced by anything."""
    changed = vectors.double().clone()
    changed[slot] = 0 if bound.alone else other[0].double()
    sums = []
    for side in (vectors.double(), changed):
        total = BoundedSum(bound, 2, 3)
        total.add(side)
        sums.append(total.total)
    difference = (sums[0] - sums[1]).flatten().tolist()
    assert sum(v * v for v in difference) <= bound.sensitivity_squared(2)
    if bound.kind == "probability":
        per_question = (sums[0] - sums[1]).abs().sum(dim=1)
        assert int(per_question.max()) <= bound.sensitivity_l1()


def test_the_sensitivities_are_reached() -> None:
    """Not wider than needed: opposite residuals, and two different votes."""
    ones = torch.zeros(2, 1, 2, dtype=torch.float64)
    ones[0, 0, 0] = ones[1, 0, 1] = 1
    steps = on_grid(ones, Bound("probability"))
    assert int(((steps[0] - steps[1]) ** 2).sum()) / Bound("probability").sensitivity_squared(1) > 1 - 1e-5
    both = on_grid(torch.stack([ones[0], -ones[0]]), Bound("residual"))
    assert int(((both[0] - both[1]) ** 2).sum()) / Bound("residual").sensitivity_squared(1) > 1 - 1e-5


def test_a_slot_that_diverged_counts_as_zero_and_stops_nobody() -> None:
    vectors = torch.rand(3, 2, 4, dtype=torch.float64)
    broken = vectors.clone()
    broken[1, 0, 2] = math.nan
    for bound in BOUNDS:
        good, bad = on_grid(vectors, bound), on_grid(broken, bound)
        assert torch.equal(good[[0, 2]], bad[[0, 2]]) and not bad[1].any()


@pytest.mark.parametrize("width", [300, 40_000])
def test_a_vote_does_not_depend_on_who_else_votes(width: int) -> None:
    """A share of one k-th, whose grid value would be whole if the bound were a whole number of steps less one."""
    stream = torch.Generator().manual_seed(0)
    for parts in (3, 5, 11, 33, 41, 205):
        votes = torch.zeros(2, 1, width, dtype=torch.float64)
        for vote in votes:
            vote[0, torch.randperm(width, generator=stream)[:parts]] = 1 / parts
        both, bound = on_grid(votes, Bound("probability", alone=True)), Bound("probability", alone=True)
        assert all(torch.equal(both[i : i + 1], on_grid(votes[i : i + 1].clone(), bound)) for i in range(2))
        assert len(both.unique()) == 2  # nothing, and one value for every share


def test_nothing_at_all_is_a_sum_of_nothing() -> None:
    assert on_grid(torch.zeros(2, 0, 4), Bound("residual")).shape == (2, 0, 4)
    assert on_grid(torch.zeros(2, 3, 0), Bound("root")).shape == (2, 3, 0)


def test_the_check_in_integers_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the scaling before it broken, each bound stops the release, and says nothing about the vector."""
    monkeypatch.setattr(grid, "_scale", lambda vectors, bound: STEPS)
    for bound, values in (
        (Bound("root"), [0.9, 0.9]), (Bound("probability"), [0.6, 0.6]), (Bound("residual"), [-1.2, 0.1]),
    ):  # fmt: skip
        with pytest.raises(BoundBroken, match=r"^a contribution exceeds its bound; nothing was released$"):
            on_grid(torch.tensor([[values]]), bound)
    with pytest.raises(BoundBroken):
        grid.check(torch.tensor([[[-1, 5]]]), Bound("root"))


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_sum_does_not_depend_on_order_or_waves(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = torch.randn(64, 3, 5)
    whole, parts = BoundedSum(bound, 3, 5), BoundedSum(bound, 3, 5)
    whole.add(vectors)
    monkeypatch.setitem(grid.AT_ONCE, "cpu", 3 * 5 * 7)
    for part in vectors[torch.randperm(64)].split([1, 30, 5, 28]):
        parts.add(part)
    assert torch.equal(whole.total, parts.total)
    with pytest.raises(BoundBroken, match="shape"):
        whole.add(vectors[:, :2])
    with pytest.raises(BoundBroken, match="shape"):
        whole.add(vectors[0])


@pytest.mark.parametrize(("slots", "sizes"), [(12, [4, 4, 4]), (10, [5, 5]), (7, [1] * 7), (3, [3]), (0, [0])])
def test_parts_of_a_launch_have_one_shape(slots: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who stands in the smaller last one, whose norms may round otherwise, would depend on who else is there."""
    monkeypatch.setitem(grid.AT_ONCE, "cpu", 5 * 6)
    assert [len(part) for part in grid.alike(torch.zeros(slots, 2, 3))] == sizes


def test_rounding_by_place_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    same = torch.randn(1, 1, 50).expand(6, 1, 50) * 100
    assert not grid.place_matters(same, Bound("root"))
    healthy = grid.on_grid
    monkeypatch.setattr(
        grid, "on_grid", lambda part, bound: healthy(part, bound) + (torch.arange(6) == 5)[:, None, None]
    )
    assert grid.place_matters(same, Bound("root"))


def test_votes_and_shares() -> None:
    assert shares(np.array([3 * STEPS, -5, STEPS])) == [0.75, 0.0, 0.25] and shares(np.array([-1, -1])) == [0.5, 0.5]
    assert teacher_votes(torch.tensor([[[0.1, 0.7, 0.2]]])).tolist() == [[[0.0, 1.0, 0.0]]]


# --- asking ---------------------------------------------------------------------------------------------------------

SCALE = Fraction(STEPS * 4)


def _question(name: str = "q", **change: object) -> Question:
    given = {"name": name, "purpose": "test", "bound": Bound("root"), "questions": 2, "width": 3, "scale": SCALE}
    return Question(**{**given, **change})  # type: ignore[arg-type]


def _sum() -> BoundedSum:
    total = BoundedSum(Bound("root"), 2, 3)
    total.add(torch.full((5, 2, 3), 0.5))
    return total


def _never() -> BoundedSum:
    raise AssertionError("an answered question must not look at private text again")


def _ledger(tmp_path: Path, given: budget.Budget | None = None) -> Ledger:
    path = tmp_path / "ledger.sqlite"
    if path.exists():
        return Ledger.open(path)
    given = given or budget.make(8, 1e-6)
    return Ledger.create(path, given, corpus="c", corpus_name="chats", unit="user", research=True)


def _door(tmp_path: Path, given: budget.Budget | None = None) -> Door:
    return Door(_ledger(tmp_path, given), "run", tmp_path / "run")


def test_asked_twice_is_answered_once(tmp_path: Path) -> None:
    door = _door(tmp_path)
    first = door.ask(_question(), _sum)
    spent = door.ledger.account()
    assert door.ledger.find("run", "q") and first.shape == (2, 3) and first.dtype == np.int64
    for again in (door, _door(tmp_path)):  # the same process, and one after a restart
        assert np.array_equal(again.ask(_question(), _never), first)
    assert door.ledger.account() == spent
    assert not np.array_equal(door.ask(_question("another"), _sum), first)
    assert (door.folder / "private").stat().st_mode & 0o777 == 0o700
    assert not list(door.draws.iterdir()) and check_answers(door.ledger, "run", door.folder) == []


def _ask_in_child(tmp_path: Path, who: int) -> None:
    answer = _door(tmp_path).ask(_question(), _sum)
    np.save(tmp_path / f"seen{who}.npy", answer)


def test_processes_that_ask_at_once_get_one_answer(tmp_path: Path) -> None:
    _ledger(tmp_path).close()
    processes = multiprocessing.get_context("fork")
    workers = [processes.Process(target=_ask_in_child, args=(tmp_path, who)) for who in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seen = [np.load(path) for path in tmp_path.glob("seen*.npy")]
    assert len(seen) == 6 and all(np.array_equal(seen[0], other) for other in seen)
    assert len(_ledger(tmp_path).charges()) == 1


def test_a_refused_question_leaves_nothing(tmp_path: Path) -> None:
    door = _door(tmp_path, budget.make(0.1, 1e-6))
    with pytest.raises(BudgetError, match="budget left"):
        door.ask(_question(), _sum)
    assert not list(door.draws.iterdir()) and not list(door.answers.iterdir()) and not door.ledger.charges()


def test_what_is_summed_is_what_is_charged(tmp_path: Path) -> None:
    door = _door(tmp_path)
    wrong = [
        BoundedSum(Bound("root", alone=True), 2, 3),
        BoundedSum(Bound("root"), 3, 3),
        BoundedSum(Bound("residual"), 2, 3),
    ]
    for total in wrong:
        with pytest.raises(LedgerError, match="sensitivity would be charged"):
            door.ask(_question(), lambda total=total: total)
    door.ask(_question(), _sum)
    with pytest.raises(LedgerError, match="charged as another release"):
        door.ask(_question(scale=SCALE * 2), _never)
    assert len(door.ledger.charges()) == 1


@pytest.mark.parametrize("name", ["", "../q", "a/b", ".hidden", "q" * 300, "a\0b"])
def test_a_name_that_is_no_file_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="names a file"):
        _question(name)


def test_events_say_what_was_drawn() -> None:
    gaussian = _question().event
    assert (gaussian.sensitivity_squared, gaussian.variance) == (4 * STEPS**2, SCALE**2)
    assert (gaussian.coordinates, gaussian.queries) == (6, 2)
    laplace = _question(bound=Bound("probability"), noise="laplace").event
    assert (laplace.sensitivity_l1, laplace.scale, laplace.coordinates, laplace.queries) == (2 * STEPS, SCALE, 12, 2)


def test_a_changed_answer_is_noticed(tmp_path: Path) -> None:
    door = _door(tmp_path)
    answer = door.ask(_question(), _sum)
    path = door.answers / "q.npy"
    np.save(path, answer + 1)
    with pytest.raises(LedgerError, match=r"q\.npy was changed after it was charged"):
        door.ask(_question(), _never)
    (door.answers / "stray.npy").write_bytes(b"x")
    problems = check_answers(door.ledger, "run", door.folder)
    assert ["row 3" in problems[0], "stray.npy has no committed charge" in problems[1]] == [True, True]
    path.unlink()
    with pytest.raises(LedgerError, match=r"paid for .* but its file is gone"):
        door.ask(_question(), _never)


def test_a_draw_changed_after_its_charge_stays_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between charge and hand-over: what lies in private/ by then may be anything, an un-noised sum too."""

    def stop(step: str) -> None:
        if step == "committed":
            raise KeyboardInterrupt

    door = _door(tmp_path)
    with monkeypatch.context() as held, pytest.raises(KeyboardInterrupt):
        held.setattr("hearsay.release.door.reached", stop)
        door.ask(_question(), _sum)
    np.save(door.draws / "q.npy", np.zeros((2, 3), np.int64))
    with pytest.raises(LedgerError, match="not the one that was charged"):
        door.ask(_question(), _never)
    assert not list(door.answers.iterdir())


def test_a_restored_ledger_is_refused_before_anything_leaves(tmp_path: Path) -> None:
    door = _door(tmp_path)
    door.ledger.register("run", door.folder)
    door.ledger.close()
    shutil.copy(door.ledger.path, tmp_path / "backup")
    later = _door(tmp_path)
    later.ask(_question(), _sum)
    later.ledger.close()
    shutil.copy(tmp_path / "backup", door.ledger.path)
    (door.answers / "q.npy").unlink()
    with pytest.raises(LedgerError, match="old copy restored"):
        _door(tmp_path).ask(_question(), _sum)
    assert not list(door.draws.iterdir()) and not list(door.answers.iterdir())


# --- disks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_refuses_the_answer_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    door = _door(tmp_path)

    def refuse(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(doors.os, "fsync", refuse)
        with pytest.raises(BadInput, match="nothing was charged"):
            door.ask(_question(), _sum)
    assert not list(door.draws.iterdir()) and not door.ledger.charges()
    door.ask(_question(), _sum)


def test_a_head_that_cannot_be_written_does_not_lose_the_paid_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = _door(tmp_path)

    def refuse(folder: Path, head: object, name: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("hearsay.accounting.chain.write_head", refuse)
        with pytest.raises(BadInput, match="pays nothing twice"):
            door.ask(_question(), _sum)
    assert len(door.ledger.charges()) == 1 and not list(door.answers.iterdir())
    assert door.ask(_question(), _never).shape == (2, 3)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a small disk here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_full_disk_leaves_nothing_half_written(small_disk: Path, tmp_path: Path) -> None:
    door = Door(_ledger(tmp_path), "run", small_disk / "run")
    door.ask(_question("small"), _sum)
    large = _question("large", questions=1, width=40_000, scale=SCALE * 100)

    def big() -> BoundedSum:
        return BoundedSum(Bound("root"), 1, 40_000)

    with pytest.raises(BadInput, match="No space left on device; nothing was charged"):
        door.ask(large, big)
    assert not list(door.draws.iterdir()) and door.ledger.find("run", "large") is None and verify(door.ledger).ok
    assert np.array_equal(door.ask(_question("small"), _never), door.ask(_question("small"), _never))


def test_a_read_only_run_directory_is_named(small_disk: Path, tmp_path: Path) -> None:
    Door(_ledger(tmp_path), "run", small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(BadInput, match=r"cannot write the run directory .*Read-only file system"):
        Door(_ledger(tmp_path), "run", small_disk / "other")
    with pytest.raises(BadInput, match="Read-only file system"):
        Door(_ledger(tmp_path), "run", small_disk / "run").ask(_question(), _sum)
    assert not _ledger(tmp_path).charges()


# --- kill -9 --------------------------------------------------------------------------------------------------------

TRIALS = 200
QUESTIONS = 3


def _die_at(step: str, after: int) -> Callable[[str], None]:
    left = [after]

    def reached(here: str) -> None:
        if here == step:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reached


def _session(tmp_path: Path, witness: Path, reached: Callable[[str], None] | None) -> None:
    """What a run does: sweep, then ask. Every answer that it gets to see is noted outside, as a user would."""
    if reached is not None:
        doors.reached = reached  # type: ignore[assignment]
    door = _door(tmp_path)
    door.sweep()
    for i in range(QUESTIONS):
        answer = door.ask(_question(f"q{i}"), _sum)
        with witness.open("a") as file:
            file.write(f"q{i} {answer.tolist()}\n")


def _in_child(action: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            action()
            os._exit(0)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
    return child


def _one_trial(tmp_path: Path, witness: Path, draw: random.Random, by_parent: bool) -> int:
    if by_parent:
        child = _in_child(lambda: _session(tmp_path, witness, None))
        time.sleep(draw.random() * 0.02)
        os.kill(child, signal.SIGKILL)
    else:
        deadly = _die_at(draw.choice(STEP_NAMES), draw.randrange(QUESTIONS))
        child = _in_child(lambda: _session(tmp_path, witness, deadly))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _check(tmp_path: Path, witness: Path) -> dict[str, set[str]]:
    ledger = _ledger(tmp_path)
    folder = tmp_path / "run"
    charged = {charge.question for charge in ledger.charges()}
    if (folder / "release").exists():
        assert check_answers(ledger, "run", folder) == []  # nothing outside without its committed charge
    for question in charged:  # nothing paid for is lost: outside already, or inside and handed over on the next call
        places = [folder / "release" / "answers" / f"{question}.npy", folder / "private" / "draws" / f"{question}.npy"]
        assert any(place.exists() for place in places)
    seen: dict[str, set[str]] = {}
    for line in witness.read_text().splitlines() if witness.exists() else []:
        name, _, answer = line.partition(" ")
        if answer.endswith("]]"):
            seen.setdefault(name, set()).add(answer)
    assert set(seen) <= charged and all(len(answers) == 1 for answers in seen.values())
    assert ledger.account().spent <= ledger.budget.capacity
    ledger.close()
    return seen


def test_killed_anywhere_the_rules_hold(tmp_path: Path) -> None:
    """200 trials, in half of which the child kills itself at a step of the door, in the other half at any moment."""
    draw = random.Random()
    outcomes = {"killed": 0, "finished": 0}
    for trial in range(TRIALS):
        place = tmp_path / f"corpus{trial // 4}"  # four attempts at one run, the last of which is left to finish
        place.mkdir(exist_ok=True)
        if trial % 4 == 0:
            _ledger(place).close()
        witness = place / "witness"
        status = _one_trial(place, witness, draw, by_parent=trial % 2 == 0)
        assert status in (0, -signal.SIGKILL)
        outcomes["finished" if status == 0 else "killed"] += 1
        _check(place, witness)
        if trial % 4 == 3:
            child = _in_child(lambda place=place, witness=witness: _session(place, witness, None))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert len(_check(place, witness)) == QUESTIONS
            ledger = _ledger(place)
            assert verify(ledger).ok and len(ledger.charges()) == QUESTIONS  # each question paid for exactly once
            assert not list((place / "run" / "private" / "draws").iterdir())
            ledger.close()
    assert outcomes["killed"] > TRIALS // 3


@pytest.mark.parametrize("step", STEP_NAMES)
def test_each_step_of_the_door(tmp_path: Path, step: str) -> None:
    """What exactly is there when it dies at this step, and what the next call makes of it."""
    _ledger(tmp_path).close()
    child = _in_child(lambda: _session(tmp_path, tmp_path / "witness", _die_at(step, 0)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    inside = (tmp_path / "run" / "private" / "draws" / "q0.npy").exists()
    outside = (tmp_path / "run" / "release" / "answers" / "q0.npy").exists()
    paid = len(_ledger(tmp_path).charges())
    expected = {"stored": (True, False, 0), "committed": (True, False, 1), "moved": (False, True, 1)}
    assert (inside, outside, paid) == expected.get(step, (False, False, 0))
    door = _door(tmp_path)
    door.sweep()
    assert not list(door.draws.iterdir())
    door.ask(_question("q0"), _never if paid else _sum)
    assert len(door.ledger.charges()) == 1


def test_errors_while_summing_leave_the_door_open_for_others(tmp_path: Path) -> None:
    door = _door(tmp_path)

    def broken() -> BoundedSum:
        raise HearsayError("out of memory")

    with pytest.raises(HearsayError, match="out of memory"):
        door.ask(_question(), broken)
    assert not door.ledger.charges()
    door.ask(_question(), _sum)
