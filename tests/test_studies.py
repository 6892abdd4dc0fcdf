"""Studies at small size: every one runs, is resumed without doing anything twice, and leaves its table and picture.

At this size nothing is learnt, so nothing is said about quality: exact epsilons, orders of noise, and the sums that
cells share are checked, and that a folded sum is what the product itself would have summed.
"""

import argparse
import dataclasses
import json
import math
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from hearsay import lm as models
from hearsay import pipeline
from hearsay.accounting import gaussian
from hearsay.errors import ConfigError, HearsayError
from hearsay.lm import LanguageModel
from hearsay.private.engine import Local
from hearsay.private.workshop import Teaching
from hearsay.public.questions import Questions
from hearsay.release import aggregate
from hearsay.release.asking import Ensemble, Sum

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from studies import (  # noqa: E402
    again,
    agenda,
    audit,
    cells,
    clinic,
    corpora,
    crew,
    intervals,
    notes,
    panel,
    phrases,
    references,
    rehearse,
    study,
    writing,
)  # fmt: skip
from studies import run as whole  # noqa: E402

BODIES = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((ROOT / "studies").glob("*.yaml"))}
ABOUT = {name: body for name, body in BODIES.items() if "about" in body}
LABELS = [name for name, body in ABOUT.items() if body.get("kind") == "labels"]
NAMES = [name for name in ABOUT if name not in LABELS]
SMALL = {name: "clinic-small" if name in LABELS else "airline-small" for name in ABOUT}
pytestmark = pytest.mark.xdist_group("studies")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, tiny_gpt2: LanguageModel) -> Path:
    """All studies, once, on one seed."""
    folder = tmp_path_factory.mktemp("studies")
    models.save(tiny_gpt2, folder / "model", "tiny")
    for names in (NAMES, LABELS):
        perform(folder, names)
    return folder


def perform(folder: Path, names: list[str], *words: str) -> None:
    study.perform({name: ABOUT[name] for name in names}, _given(folder, names[0], *words))


def _given(folder: Path, name: str, *words: str) -> argparse.Namespace:
    return study.arguments(
        [name, "--corpus", SMALL[name], "--model", str(folder / "model"), "--out", str(folder / "out"), *words]
    )


def results(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / f"{name}-{SMALL[name]}.json").read_text())
    return found


def figures(folder: Path, name: str, figure: str) -> dict[str, Any]:
    return {cell: body["0"][figure] for cell, body in results(folder, name)["cells"].items() if figure in body["0"]}


@pytest.mark.parametrize("name", ABOUT)
def test_every_study_leaves_raw_figures_a_table_and_a_picture(out: Path, name: str) -> None:
    body = agenda.study_of(name, ABOUT[name], _given(out, name)).body
    assert list(results(out, name)["cells"]) == [row for row, _, _ in agenda.rows(body)]
    place = out / "out" / f"{name}-{SMALL[name]}"
    page = place.with_suffix(".md").read_text()
    assert body["about"] in page and page.count("|") > 8
    assert place.with_suffix(".svg").exists() == (body.get("kind") != "phrases")


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_spends_what_it_may_or_says_that_it_is_not_private(out: Path, name: str) -> None:
    for cell, seeds in results(out, name)["cells"].items():
        for one in seeds.values():
            if "ppl" not in one:
                continue
            assert math.isfinite(one["ppl"]) and ("NOT PRIVATE" in one) != ("epsilon" in one), cell
            assert one.get("ledger", "intact") == "intact"
            if name != "figure-2":
                allowed = 5 if "at 5" in cell else 1 if "at 1" in cell else 3
                assert one.get("epsilon", 0) <= allowed
    if name == "figure-2":
        for cell, epsilon in figures(out, name, "epsilon").items():
            assert epsilon <= float(cell.rpartition(", ")[2] if ", " in cell else 0) * (1 + 1e-9)


OTHERS = {
    "rehearse-airline": rehearse, "rehearse-airline-dpsgd": rehearse, "rehearse-sgd": rehearse, "audit-demo": audit,
    "audit-sgd": audit, "augment": notes, "sgd": whole, "sgd-levers": whole, "airline-levers": whole,
    "airline-text": whole,
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in BODIES if name not in ABOUT and name != "bases"])
def test_make_study_carries_out_what_is_no_table_of_cells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the words that make gives it, which its own carrier must understand."""
    taken: list[argparse.Namespace] = []
    monkeypatch.setattr(OTHERS[name], "main", lambda: taken.append(OTHERS[name].arguments(*asked)))
    asked = ("",) if OTHERS[name] is not notes else ()
    make = f"studies/study.py {ROOT}/studies/{name}.yaml --data . --model embedded --out out"
    monkeypatch.setattr(sys, "argv", (make + (" --encoder folder" if name == "augment" else "")).split())
    study.main()
    assert [Path(one.study).stem for one in taken] == [name]


def test_notes_are_written_encoded_and_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data/medquad.jsonl.xz", "data/mtsamples_unique.csv.xz", "base/weights", "mini/encoder/weights"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    words = ["augment.yaml", "--data", "data", "--model", "base", "--encoder", "mini/encoder", "--out", "out"]
    done: list[str] = []

    def run(command: list[Any]) -> argparse.Namespace:
        done.append(command[1].name)
        return argparse.Namespace(returncode=0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["notes.py", *words])
    monkeypatch.setattr("subprocess.run", run)
    notes.main()
    assert done == ["augment_pool.py", "augment_features.py", "augment.py"]
    kept = tmp_path / "out" / "notes-pool" / "pool.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps({"model": "base"}))
    notes.main()
    assert done[3:] == ["augment_features.py", "augment.py"]  # the pool was there
    kept.write_text(json.dumps({"model": "another"}))
    with pytest.raises(SystemExit, match="is of model another, not base"):
        notes.main()
    (tmp_path / "data" / "medquad.jsonl.xz").unlink()
    with pytest.raises(SystemExit, match="no data/medquad"):
        notes.main()


def test_a_study_that_is_done_is_not_done_again(out: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (out / "out").rglob("cells/*.json")}
    for names in (NAMES, LABELS):
        perform(out, names)
    assert before == {path: path.stat().st_mtime_ns for path in (out / "out").rglob("cells/*.json")}


def test_a_cell_that_is_lost_is_made_again_from_the_same_panel(out: Path) -> None:
    (lost,) = (out / "out" / "table-4-airline-small" / "cells").glob("top-k-10-0.json")
    before, panels = json.loads(lost.read_text()), len(list((out / "out" / "panels").iterdir()))
    lost.unlink()
    perform(out, ["table-4"])
    assert json.loads(lost.read_text()) == before and len(list((out / "out" / "panels").iterdir())) == panels


def test_a_panel_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    todo = [(str(tmp_path / "one"),), (str(tmp_path),), (str(tmp_path / "other"),)]
    with pytest.raises(HearsayError, match="1 of 3 panels failed"):
        crew.carry_out(os.mkdir, todo, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


def test_a_grid_may_change_other_settings_along_the_way() -> None:
    cell = {"method": "updates", "at": {0.5: {"updates": {"rounds": 7}}}}
    body = {"grid": {"privacy.epsilon": [3, 0.5]}, "cells": {"updates": cell}}
    found = {name: settings for name, settings, _ in agenda.rows(body)}
    assert found["updates, 3"] == {"method": "updates", "privacy": {"epsilon": 3}}
    assert found["updates, 0.5"] == found["updates, 3"] | {"privacy": {"epsilon": 0.5}, "updates": {"rounds": 7}}
    with pytest.raises(ConfigError, match=r"settings at \{0\.5\}"):
        list(agenda.rows(body | {"grid": {"privacy.epsilon": [3, 1]}}))


def test_noise_stands_in_the_order_that_arithmetic_says(out: Path) -> None:
    """Laplace for the same budget is wider; more questions are noisier each; more teachers thin the noise out."""
    noise = figures(out, "table-3", "noise_std_mean")
    assert noise["-Gaussian"] > 2 * noise["seqpate"] == 2 * noise["-Merge_P"]
    assert noise["-Effi KD"] == pytest.approx(noise["seqpate"] * math.sqrt(40 / 24), rel=1e-4)
    assert noise["no noise"] == 0
    by_teachers = figures(out, "table-7", "noise_std_mean")
    assert by_teachers["1 teacher"] == pytest.approx(10 * by_teachers["10 teachers"], rel=1e-6)
    assert by_teachers["1 teacher"] == pytest.approx(60 * by_teachers["2000 teachers"], rel=1e-6)
    curve = figures(out, "figure-2", "noise_std_mean")
    assert curve["seqpate, 0.1"] > curve["seqpate, 3"] > curve["seqpate, 50"]


def test_answers_cost_a_user_as_much_as_a_record(out: Path) -> None:
    """A teacher's answer is bounded whatever its shard holds: for answers the stronger promise is free."""
    noise = figures(out, "units", "noise_std_mean")
    assert noise["hellinger, user"] == noise["hellinger, record"]


def test_what_noise_leaves_below_zero_is_not_rare(out: Path) -> None:
    assert figures(out, "table-3", "negative")["seqpate"] > 0.25
    assert figures(out, "table-3", "negative")["no noise"] == 0


def test_a_user_is_in_one_shard_and_phrases_are_counted(out: Path) -> None:
    (found,) = (body["0"] for body in results(out, "table-6")["cells"].values())
    assert found["shards_of_a_user"] == 1 and sum(found["reached"].values()) == found["phrases"] > 10
    for one in (*found["by_teachers"].values(), *found["by_times"].values()):
        assert one["least"] <= one["average"] * (1 + 1e-9) and one["most"] >= one["linear_most"] * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "said"),
    [("Anna MÜLLER-MAY", "Müller-May"), ("Ann McNALLY", "McNally"), ("Bea POLI BORTONE", "Poli Bortone"), ("Cy", "Cy")],
)
def test_speakers_are_looked_for_by_the_names_that_speeches_say(name: str, said: str) -> None:
    assert corpora.surname(name) == said


def test_the_papers_largest_phrase_epsilon() -> None:
    """Table 6: least 2.85, most 25.64 = 9 times that. Nine teachers exactly: 41.2."""
    mu = gaussian.mu_of(2.85, 1e-6)
    assert gaussian.epsilon_of(gaussian.group(mu, 9), 1e-6) == pytest.approx(41.2, abs=0.1)
    found = phrases.spread(Counter({1: 954, 2: 40, 9: 6}), 3.0, 1e-6)
    assert found["average"] == pytest.approx(3, rel=1e-6) and found["most"] > 1.3 * found["linear_most"]


def test_what_is_recorded_was_measured_as_things_are_now(tmp_path: Path) -> None:
    """Settings, simulated people and the embedded model: figures of earlier ones would be nobody's to make again."""
    for path in sorted((ROOT / "studies" / "results").glob("*.json")):
        body = json.loads(path.read_text())
        corpus = body.get("corpus")
        if "study" not in body or corpus not in ("airline", "clinic"):
            continue
        words = [f"{body['study']}.yaml", "--corpus", corpus, "--out", str(tmp_path)]
        one = agenda.study_of(body["study"], ABOUT[body["study"]], study.arguments(words))
        if corpus == "clinic":
            now = {name: clinic.fingerprint(one, cell, 0, "embedded") for name, cell, _ in agenda.rows(one.body)}
        else:
            now = {cell.name: study.fingerprint(cell, 0) for cell in agenda.cells_of(one, study.arguments(words))}
        recorded = {name: cell["0"]["made"] for name, cell in body["cells"].items() if "0" in cell}
        assert recorded.items() <= now.items(), path.name


def test_earlier_results_are_taken_over(out: Path, tmp_path: Path) -> None:
    shutil.copytree(out / "model", tmp_path / "model")  # the same content elsewhere
    given = _given(tmp_path, "table-3")
    given.known = out / "out"
    (given.known / "list.json").write_text(json.dumps({"cells": []}))  # somebody else's file
    study.perform({"table-3": ABOUT["table-3"]}, given)
    assert results(tmp_path, "table-3")["cells"] == results(out, "table-3")["cells"]
    assert not (given.out / "panels").exists()  # nothing was made anew


def test_what_decides_a_cell_tells_it_from_others(out: Path, tmp_path: Path) -> None:
    """Its settings, its panel's, the model and the corpus: earlier results of others must not be taken for it."""
    given = _given(out, "table-3")
    cell = next(iter(agenda.cells_of(agenda.study_of("table-3", ABOUT["table-3"], given), given)))
    other = {**cell.settings, "student": {**cell.settings["student"], "steps": 3}}
    panel_of_others = {**cell.panel, "student": {**cell.panel["student"], "learning_rate": 0.5}}
    changed = [{"settings": other}, {"panel": panel_of_others}, {"origin": "another model"}, {"pool": {}}]
    names = {study.fingerprint(dataclasses.replace(cell, **change), 0) for change in ({}, *changed)}
    assert len(names | {study.fingerprint(cell, 1)}) == len(changed) + 2
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "w.safetensors").write_text(name)
        (tmp_path / name / "rows").write_text("same")
    origins = {agenda.origin(str(tmp_path / model), tmp_path / rows / "rows") for model in "ab" for rows in "ab"}
    assert len(origins) == 2  # by content, wherever it lies


@pytest.fixture(scope="module")
def seated(out: Path) -> panel.Panel:
    given = _given(out, "table-3")
    first = next(agenda.cells_of(agenda.study_of("table-3", ABOUT["table-3"], given), given))
    return panel.seat(first.panel, first.pool, given.out / "panels", 0)


def _by_the_product(seated: panel.Panel, questions: Questions, shape: aggregate.Shape) -> torch.Tensor:
    work = seated.work
    teachers = pipeline.train_teachers(work, seated.warm, 0)
    everybody = Ensemble(
        Local(work.workshop), work.stack, Teaching(teachers, seated.warm), work.run.id, lambda *_: None
    )
    wanted = panel.Wanted("rank", shape, questions.candidates.shape[1], None)
    return everybody.total(questions, Sum(wanted.bound, shape)).total


@pytest.mark.parametrize("shape", ["probability", "vote", "root"])
def test_a_panel_sums_what_the_product_sums(seated: panel.Panel, shape: aggregate.Shape) -> None:
    """Without a filter: the same integers as aggregate.total on the same questions (roots: to a step a teacher, since
    the rest bucket comes by subtraction here and by a sum there)."""
    pool = seated.questions("rank")
    wanted = panel.Wanted("rank", shape, pool.candidates.shape[1], None)
    posed, total = seated.answerable(wanted, len(pool))
    assert torch.equal(posed.candidates, pool.candidates)
    apart = (total.total - _by_the_product(seated, pool, shape)).abs().max()
    assert int(apart) <= (seated.work.config.teachers.count if shape == "root" else 0)


def test_folding_keeps_every_teachers_mass(seated: panel.Panel) -> None:
    whole = seated.answerable(panel.Wanted("rank", "probability", 24, None), 24)[1].total
    questions, total = seated.answerable(panel.Wanted("rank", "probability", 5, None), 24)
    assert total.total.shape == (24, 6) and torch.equal(total.total.sum(1), whole.sum(1))
    assert torch.equal(total.total[:, :5], whole[:, :5]) and questions.candidates.shape == (24, 5)


def test_residuals_are_measured_from_what_the_student_says(seated: panel.Panel) -> None:
    """Roots before training plus the mean residual is the mean of roots, where no clip bites."""
    wide = panel.Wanted("all", "root", 16, 0.95, 2.0)
    questions, moved = seated.answerable(wide, 40)
    _, roots = seated.answerable(panel.Wanted("all", "root", 16, 0.95), 40)
    count, steps = seated.work.config.teachers.count, 2.0**20
    there = seated.before(wide) + moved.total.double() / steps / count
    assert torch.allclose(there, roots.total.double() / steps / count, atol=1e-4)
    assert (seated.before(wide) ** 2).sum(1).allclose(torch.ones(len(questions), dtype=torch.float64), atol=1e-3)


def test_sums_are_kept_from_others(seated: panel.Panel) -> None:
    place = seated.work.run.private
    assert place.stat().st_mode & 0o077 == 0 and list((place / "sums").iterdir())
    assert all(file.stat().st_mode & 0o077 == 0 for file in (place / "sums").iterdir())


def test_each_seed_has_another_partition_key(out: Path) -> None:
    perform(out, ["table-4"], "--seeds", "0", "1", "--only", "top-p", "top-k 1")
    homes = [(folder / "home" / "secret").read_bytes() for folder in (out / "out" / "panels").iterdir()]
    assert len(set(homes)) == len(homes)
    found = results(out, "table-4")["cells"]
    assert set(found["top-k 1"]) == {"0", "1"}
    gap = writing.compared(found, "top-k 1", "top-p")
    assert gap is not None and gap.trials == 2 and 0 <= gap.p <= 1


def test_the_paper_pays_for_its_twelve_questions_and_true_shares_are_not_private(out: Path) -> None:
    found = results(out, "clinic")["cells"]
    assert 3.9 < found["paper"]["0"]["epsilon"] <= 4 and found["sums by label at 1"]["0"]["epsilon"] <= 1
    assert found["DP-SGD discriminator"]["0"]["epsilon"] > 4  # Opacus's own beside the tutor's: generous to it
    assert found["paper, true shares"]["0"]["NOT PRIVATE"] and found["private"]["0"]["NOT PRIVATE"]


def test_intervals_by_students_t() -> None:
    """Of 1, 2, 3: standard error 1 / sqrt 3, quantile 4.303."""
    one = intervals.estimate([1, 2, 3])
    assert (one.mean, one.trials) == (2, 3) and one.half == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    gap = intervals.paired([2.0, 3.1, 4.2], [1.0, 2.0, 3.0])
    assert gap.mean == pytest.approx(1.1) and gap.clear and not intervals.paired([1, 2, 3], [3, 1, 2]).clear
    assert math.isinf(intervals.estimate([1.0]).half)


def test_differences_over_people_are_those_of_their_texts() -> None:
    """ln perplexity of all their text less the other's; wide where people differ, however alike the seeds are."""
    tokens = [10, 30, 20, 10, 10]
    alike, unlike = [one / 10 for one in tokens], [8.0, 0.0, 0.0, 0.0, 0.0]
    nll = [20.0, 90.0, 50.0, 20.0, 30.0]

    def cell(*more: list[float]) -> dict[str, Any]:
        """A seed for each list."""
        found = [[a + b for a, b in zip(nll, one, strict=True)] for one in more]
        return {str(seed): {"by_person": {"nll": one, "tokens": tokens}} for seed, one in enumerate(found)}

    none, twice = [0.0] * 5, [2 * one for one in alike]
    cells = {"first": cell(none, none), "alike": cell(alike, alike), "unlike": cell(unlike, unlike),
             "by seeds": cell(none, twice), "partly": {"0": {}, **cell(none, none)}, "without": {"0": {}}}  # fmt: skip
    cells["partly"]["0"] = {}
    assert str(writing.over_people(cells, "alike", "first")) == "+0.100 (+0.100 to +0.100)"
    assert str(writing.over_people(cells, "by seeds", "first")) == "+0.100 (+0.100 to +0.100)"  # the seeds' mean
    wide = writing.over_people(cells, "unlike", "first")
    assert wide is not None and (wide.people, wide.clear) == (5, False) and str(wide).startswith("+0.100 (-")
    assert writing.over_people(cells, "first", "first") is None
    assert writing.over_people({"first": {"0": {}}, "without": {"0": {}}}, "without", "first") is None
    with pytest.raises(ValueError, match="some of their cells read everybody"):
        writing.over_people(cells, "partly", "first")


def test_a_difference_is_clear_over_seeds_and_over_people() -> None:
    """Seeds that agree do not make up for people who do not."""

    def cell(*ppl: float, nll: list[float]) -> dict[str, Any]:
        by_person = {"nll": nll, "tokens": [10] * 5}
        return {str(seed): {"ppl": one, "by_person": by_person} for seed, one in enumerate(ppl)}

    cells = {
        "first": cell(10, 10.1, 10.2, nll=[10] * 5), "higher": cell(11, 11.1, 11.2, nll=[11, 11.1, 10.9, 11, 11]),
        "of one": cell(11, 11.1, 11.2, nll=[15, 10, 10, 10, 10]),
        "now and then": cell(10, 14, 11, nll=[11, 11.1, 10.9, 11, 11]),
    }  # fmt: skip
    assert writing.clear(cells, "higher", "first")
    assert not writing.clear(cells, "of one", "first") and not writing.clear(cells, "now and then", "first")
    plain = {name: {seed: {"ppl": one["ppl"]} for seed, one in found.items()} for name, found in cells.items()}
    assert writing.clear(plain, "of one", "first")  # where nobody asked people
    assert not writing.clear({name: {"0": found["0"]} for name, found in cells.items()}, "higher", "first")


def test_everybody_held_out_is_read_and_completed(out: Path) -> None:
    """By default; a study that says `rows: first` reads the first rows, which are few people's."""
    given = _given(out, "people")
    cell = next(iter(agenda.cells_of(agenda.study_of("people", ABOUT["people"], given), given)))
    config, lm = cells.checked(cell.settings), models.load(str(out / "model"), device="cpu")
    everybody, first = (references.held_out(config, lm, most) for most in (cell.wish["rows"], 16))
    writers = references.writers(config)
    assert everybody == references.held_out(config, lm, 10**6)  # whatever the order
    assert {writers[place] for place in everybody} == set(writers) and len({writers[place] for place in first}) < 5
    assert len({writers[place] for place in list(everybody)[:8]}) > 4  # who are completed
    assert all(first[place] == everybody[place] for place in first) and list(first) == sorted(first)
    (found,) = (body["0"] for name, body in results(out, "people")["cells"].items() if name == "updates")
    assert len(found["by_person"]["nll"]) == len(set(writers)) and sum(found["by_person"]["tokens"]) == found["tokens"]
    assert math.exp(sum(found["by_person"]["nll"]) / found["tokens"]) == pytest.approx(found["ppl"], rel=1e-4)
    (public,) = (body["0"]["by_person"] for name, body in results(out, "people")["cells"].items() if name == "public")
    for place, who in enumerate(dict.fromkeys(writers)):  # everybody's own rows, in the order of the file
        own = [row for at, row in everybody.items() if writers[at] == who]
        nll, tokens = models.token_nll(lm, own, config.data.prefix_tokens)
        assert public["nll"][place] == pytest.approx(nll, abs=0.02) and public["tokens"][place] == tokens
    assert f"text of all {len(set(writers))} held out" in (out / "out" / "people-airline-small.md").read_text()
    assert "by_person" not in results(out, "table-1")["cells"]["updates"]["0"]


def test_lists_of_numbers_take_one_line() -> None:
    body = {"nll": [1.5, -2.0, 3e-05], "names": ["a [1 2]", 'b" [3, 4]'], "of": [[1, 2], []]}
    text = study.dense(json.dumps(body, indent=1))
    assert json.loads(text) == body and '"nll": [1.5,-2.0,3e-05]' in text and text.count("\n") < 14


def test_leaks_of_all_seeds_count_together() -> None:
    """None of many is not certainly none: a t-interval over seeds that saw none would have no width."""
    cell = {str(seed): {"name_leak_rate": rate, "completions": 796} for seed, rate in enumerate((0.0, 1 / 796, 0.0))}
    found = writing.leaked(cell)
    assert (found.hits, found.trials) == (1, 2388)
    none = intervals.Share(0, 2388)
    assert none.ends == pytest.approx((0.0, 1 - 0.025 ** (1 / 2388)))  # the chance of none at that rate is 2.5%
    assert writing.share(none) == "0.00% (0.00% to 0.15%; 0 of 2,388)"


def test_a_cell_that_the_product_carries_out_is_told_from_one_that_asks_a_panel() -> None:
    kinds = {"seqpate": {"ask": {"recipe": "seqpate"}}, "rounds": {"ask": {"recipe": "hellinger", "rounds": 3}},
             "updates": {"ask": {"recipe": "updates"}}, "ghost": {"baseline": {"method": "ghost"}},
             "private": {"baseline": {"method": "private"}}}  # fmt: skip
    assert {name: cells.kind(body) for name, body in kinds.items()} == {
        "seqpate": "answers", "rounds": "product", "updates": "updates", "ghost": "product", "private": "reference",
    }  # fmt: skip


def test_a_study_made_again_is_told_from_one_that_comes_out_otherwise() -> None:
    def made(ppl: list[float], start: float = 90.0) -> dict[str, Any]:
        cells = {name: {str(at): {"ppl": one} for at, one in enumerate(found)}
                 for name, found in {"student": ppl, "public": [start] * 3, "once": ppl[:1]}.items()}  # fmt: skip
        return {"study": "table-1", "corpus": "airline", "body": {}, "cells": cells}

    recorded = made([50.0, 51.0, 49.5])
    found = again.beside(recorded, made([49.8, 50.9, 50.4]))
    assert [one["cell"] for one in found] == ["student", "public"] and not again.surprising(found)
    assert again.said(found).startswith("2 of 2 cells came back") and "again 50.4" in again.told(found[0])
    worse = again.beside(recorded, made([60.0, 61.0, 59.5], start=90.2))
    assert all(one["p"] < again.CHANCE for one in worse) and again.surprising(worse)
