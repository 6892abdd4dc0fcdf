"""The second method end to end, on texts whose vectors are word counts: what crosses the door; bad input."""

import json
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hearsay import augmenting, candidates, measure_augment
from hearsay import config as configs
from hearsay import run as runs
from hearsay.accounting import gaussian, plan_augment, verify
from hearsay.accounting.bounds import Bound
from hearsay.config_augment import AugmentConfig
from hearsay.demo.endpoint import Server
from hearsay.errors import BadInput, BudgetError, ConfigError, DataError, ModelError
from hearsay.evaluate import classify
from hearsay.lm import LanguageModel, save
from hearsay.private.discriminators import Opinions
from hearsay.private.labelled import Labelled, Note, collect
from hearsay.public import generator, scoring, selection
from hearsay.public import space as spaces
from hearsay.public.encoder import Encoder
from hearsay.reading import Row
from hearsay.release import labelled as asking
from hearsay.release.grid import on_grid
from hearsay.stages import Stages, Watch

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies import noisy_sgd

LABELS = ["heart", "bone", "skin"]
WORDS = {
    "heart": ["beat", "pulse", "valve", "chest", "murmur", "rhythm", "artery"],
    "bone": ["joint", "fracture", "cast", "knee", "hip", "screw", "plate"],
    "skin": ["rash", "itch", "mole", "cream", "flake", "spot", "plaque"],
}
FILL = ["the", "patient", "was", "seen", "today", "and", "came", "back", "with", "some"]
VOCABULARY = {word: i for i, word in enumerate([*FILL, *(word for words in WORDS.values() for word in words)])}


def _counts(texts: list[str]) -> Any:
    found = np.zeros((len(texts), len(VOCABULARY)), np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            if word in VOCABULARY:
                found[row, VOCABULARY[word]] += 1
    return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1)


ENCODER = Encoder("word counts", _counts)


def text_of(label: str, chance: np.random.Generator, filler: int = 5) -> str:
    words = [*chance.choice(WORDS[label], 4), *chance.choice(FILL, filler)]
    return " ".join(chance.permutation(words))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def corpus(folder: Path, units: int = 300, seed: int = 0, **change: Any) -> dict[str, Any]:
    """Private notes (half of them heart), hold-out notes, and candidates of which a third carry a wrong label."""
    chance = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)

    def notes(count: int) -> list[dict[str, Any]]:
        labels = chance.choice(LABELS, count, p=[0.5, 0.3, 0.2])
        return [{"text": text_of(label, chance), "label": str(label)} for label in labels]

    pool = []
    for i in range(600):
        told = LABELS[i % 3]
        true = told if chance.random() < 0.66 else str(chance.choice(LABELS))
        pool.append({"label": told, "text": text_of(true, chance, filler=6)})
    body: dict[str, Any] = {
        "data": {
            "private": str(write(folder / "private.jsonl", notes(units))),
            "holdout": str(write(folder / "holdout.jsonl", notes(200))),
            "labels": LABELS,
            "units": units,
        },
        "privacy": {"epsilon": 2.0, "unit": "record", "corpus": "notes"},
        "generator": {"backend": "file", "files": [str(write(folder / "pool.jsonl", pool))], "least_words": 4},
        "discriminator": {"dimensions": 6},
        "selection": {"texts": 200, "near_copy": 1.0},
    }
    for section, values in change.items():
        body[section] |= values
    return body


def played(folder: Path, body: dict[str, Any]) -> tuple[augmenting.Work, runs.Run]:
    config = AugmentConfig.model_validate(body)
    here = runs.begin(folder / "run", configs.to_yaml(config), folder / "home" / "ledger.sqlite", folder / "home")
    return augmenting.augment(config, here, encoder=ENCODER), here


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[augmenting.Work, runs.Run, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("augment")
    work, here = played(folder, corpus(folder))
    return work, here, measure_augment.evaluate(here, encoder=ENCODER)


def test_private_scores_mend_the_labels(finished: tuple[augmenting.Work, runs.Run, dict[str, Any]]) -> None:
    _, here, found = finished
    rows = [json.loads(line) for line in (here.release / "synthetic" / "corpus.jsonl").read_text().splitlines()]
    true = [max(LABELS, key=lambda label: sum(word in WORDS[label] for word in row["text"].split())) for row in rows]
    pairs = list(zip(rows, true, strict=True))
    mended, told = (np.mean([row[key] == label for row, label in pairs]) for key in ("label", "asked_for"))
    assert mended > told + 0.1, "a third of the prompts' labels were changed at random"
    models = found["models"]
    assert models["synthetic"]["accuracy"] >= models["public"]["accuracy"]
    assert models["private"]["stamp"] == "NOT-PRIVATE"
    low, high = models["synthetic"]["interval"]["accuracy"]
    assert low <= models["synthetic"]["accuracy"] <= high
    assert (here.internal / "evaluation.json").exists()


def test_everything_released_stands_in_one_ledger(finished: tuple[augmenting.Work, runs.Run, dict[str, Any]]) -> None:
    work, here, _ = finished
    purposes = [charge.purpose for charge in work.ledger.charges()]
    assert purposes == ["tutor: histogram of labels", "discriminator: sums by label"]
    spent = work.ledger.account().spent
    assert spent <= work.ledger.budget.capacity
    assert float(spent / work.ledger.budget.capacity) > 0.999, "exact composition leaves nothing unused"
    assert verify.verify(work.ledger).ok
    assert {path.name for path in (here.release / "synthetic").iterdir()} == {
        "README.md", "corpus.jsonl", "corpus.parquet", "facts.json",
    }  # fmt: skip
    card = (here.release / "synthetic" / "README.md").read_text()
    assert f"epsilon: {json.loads((here.release / 'statement.json').read_text())['epsilon']}" in card


def test_nothing_outside_private_holds_private_text(
    finished: tuple[augmenting.Work, runs.Run, dict[str, Any]], tmp_path: Path
) -> None:
    work, here, _ = finished
    texts = [json.loads(line)["text"] for line in Path(work.config.data.private[0]).read_text().splitlines()]
    for path in [*here.release.rglob("*"), here.folder / "progress.jsonl"]:
        if path.is_file():
            content = path.read_bytes()
            assert not any(text.encode() in content for text in texts), path.name


def test_a_resumed_run_pays_nothing_and_ends_the_same(tmp_path: Path) -> None:
    body = corpus(tmp_path, units=60)
    first, here = played(tmp_path, body)
    corpus_then = (here.release / "synthetic" / "corpus.jsonl").read_text()
    again, _ = played(tmp_path, body)
    assert len(again.ledger.charges()) == len(first.ledger.charges()) == 2
    assert (here.release / "synthetic" / "corpus.jsonl").read_text() == corpus_then


@pytest.mark.parametrize("method", ["means", "clusters", "gradients"])
def test_a_run_resumed_where_sums_round_otherwise_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Another number of threads moves the last bits of the public space: what was paid for keeps its own."""
    body = corpus(tmp_path, units=60, discriminator={"method": method, "steps": 3, "clusters": 5})
    first, here = played(tmp_path, body)
    kept = {path.name: path.read_bytes() for path in (here.release / "stages").glob("*.npz")}
    healthy = spaces.Space.places
    monkeypatch.setattr(spaces.Space, "places", lambda self, vectors: healthy(self, vectors) * (1 + 2**-50))
    monkeypatch.setattr(spaces, "fit", lambda *_: pytest.fail("fitted again"))
    again, _ = played(tmp_path, body)
    assert len(again.ledger.charges()) == len(first.ledger.charges())
    assert (here.release / "stages" / "space.npz").read_bytes() == kept["space.npz"]


@pytest.mark.parametrize(("method", "charges", "queries"), [("votes", 1, 12), ("clusters", 1, 1), ("gradients", 4, 1)])
def test_every_method_counts_every_query(tmp_path: Path, method: str, charges: int, queries: int) -> None:
    body = corpus(tmp_path, units=60, discriminator={"method": method, "steps": 4, "clusters": 5, "teachers": 3})
    body["selection"] |= {"relabel": method != "votes"}
    work, _ = played(tmp_path, body)
    paid = [charge for charge in work.ledger.charges() if charge.purpose.startswith("discriminator")]
    assert len(paid) == charges
    assert all(charge.event.queries == queries for charge in paid)  # type: ignore[union-attr]


def test_one_unit_moves_a_sum_by_at_most_its_bound() -> None:
    """Drop a unit: histogram, sums, gradients and cells move by a vector of norm at most 1, on the grid."""
    chance = np.random.default_rng(3)
    vectors = _counts([text_of(label, chance) for label in LABELS * 4])
    space = spaces.fit(vectors, np.array([0, 1, 2] * 4), 4)
    several = [Note(vectors[0] * 50, (0, 1)), Note(vectors[1], (2,)), Note(vectors[2], (0, 3))]
    for unit in (several, [Note(vectors[0] * 50, (0, 1, 2))], [Note(vectors[3] * 50, (1,))]):
        for bound, row in _contributions(unit, space, chance.normal(size=(3, 5))):
            assert np.linalg.norm(row) <= 1 + 1e-12
            steps = on_grid(torch.from_numpy(row)[None, None], bound)
            assert int((steps * steps).sum()) <= bound.norm_squared(1) == bound.sensitivity_squared(1)


def _contributions(unit: list[Note], space: spaces.Space, weights: Any) -> list[tuple[Bound, Any]]:
    """As they come to the grid: a bound that only holds because the grid shrinks would hide a vote too many."""
    return [
        (asking.ONE_UNIT, asking._shared(unit, lambda note: np.ones(1), 1, 4)),
        (asking.UNIT_BALL, asking._shared(unit, lambda note: space.place(note.vector), 4, 3)),
        (asking.UNIT_BALL, asking._gradient(unit, space, weights)),
        (asking.ONE_UNIT, asking._shared(unit, lambda note: asking._nearest(space, note, weights[:, :4]), 3, 3)),
    ]


@pytest.mark.parametrize("units", [1, 4, 5, 9])
def test_units_are_summed_in_parts_of_one_shape(monkeypatch: pytest.MonkeyPatch, units: int) -> None:
    """A last part as small as the units that are left would let rounding depend on how many there are."""
    monkeypatch.setattr(asking, "CHUNK", 4)
    parts = list(asking._chunks(iter([[]] * units), lambda unit: np.ones(3)))
    assert {part.shape for part in parts} == {(4, 1, 3)} and sum(part.sum() for part in parts) == 3 * units


def test_other_units_keep_their_vectors_bit_for_bit(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    rows = [Row(i, text_of(LABELS[i % 3], chance), None, (LABELS[i % 3],)) for i in range(20)]
    kinds: dict[str, Any] = {"unit": "record", "cap": 3, "key": b"k" * 32, "sketch_key": b"s" * 32}
    whole = collect(rows, LABELS, **kinds, encode=ENCODER.alone, folder=tmp_path / "a")
    less = collect(rows[1:], LABELS, **kinds, encode=ENCODER.alone, folder=tmp_path / "b")
    gone = set(whole.units) - set(less.units)
    assert len(gone) == 1
    for name in less.units:
        assert all(
            (a.vector == b.vector).all() and a.labels == b.labels
            for a, b in zip(whole.units[name], less.units[name], strict=True)
        )


def test_copies_of_a_record_are_one_unit_with_all_its_labels(tmp_path: Path) -> None:
    rows = [Row(1, "beat pulse", None, ("heart",)), Row(2, "beat pulse", None, ("bone",)), Row(3, "rash", None, ())]
    found = collect(
        rows, LABELS, unit="record", cap=1, key=b"k" * 32, sketch_key=b"s" * 32, encode=ENCODER.alone, folder=tmp_path
    )
    assert sorted(note.labels for unit in found.each() for note in unit) == [(0, 1), (3,)]
    again = collect(
        [], LABELS, unit="record", cap=1, key=b"k" * 32, sketch_key=b"s" * 32, encode=ENCODER.alone, folder=tmp_path
    )
    assert sorted(again.units) == sorted(found.units), "what is on disk is loaded"
    assert again.sketch == found.sketch


def test_an_empty_shard_is_undecided_and_touches_nobody() -> None:
    chance = np.random.default_rng(0)
    vectors = _counts([text_of(LABELS[i % 3], chance) for i in range(30)])
    units = {i * 3: [Note(vectors[i], (0,))] for i in range(10)}  # names divisible by 3: shards 1 and 2 are empty
    odds = Opinions(Labelled(units, 3, ()), 3, 10, vectors[10:20], vectors[20:]).odds()
    assert (odds[1:] == 0.5).all()
    more = {**units, 100: [Note(vectors[5] * 9, (1,))]}  # into shard 1
    changed = Opinions(Labelled(more, 3, ()), 3, 10, vectors[10:20], vectors[20:]).odds()
    assert (changed[0] == odds[0]).all()
    assert (changed[2] == odds[2]).all()
    assert not (changed[1] == odds[1]).all()
    crowded = {**units, **{100 + 3 * i: [Note(vectors[5], (1,))] for i in range(30)}}
    shapes = [Opinions(Labelled(one, 3, ()), 3, 10, vectors[10:20], vectors[20:])._shards()[0].shape
              for one in (units, crowded)]  # fmt: skip
    assert shapes[0] == shapes[1], "a shape that tells how many units there are"


def test_the_paper_buys_twelve_queries_at_epsilon_4() -> None:
    assert gaussian.epsilon_of(12**0.5 * 2**0.5 / 6, 1e-6) < 4 < gaussian.epsilon_of(13**0.5 * 2**0.5 / 6, 1e-6)


def test_shrinking_trusts_common_labels_and_distrusts_rare_ones() -> None:
    chance = np.random.default_rng(0)
    places = chance.normal(size=(300, 4)) * 0.1
    asked = np.arange(300) % 3
    truth = np.array([[0.5, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0.5, 0]])
    shares = np.array([0.6, 0.399, 0.001])
    sums = truth * (shares * 10_000)[:, None] + chance.normal(size=(3, 4)) * 50
    scorer = scoring.from_means(sums, 50.0, shares, 10_000, places, asked)
    means = scorer.weights * scoring.by_label(places, asked, 3)[1]
    assert np.abs(means[0] - truth[0]).max() < 0.1
    assert np.abs(means[2]).max() < 2.0, "ten units under noise of 50 would be off by 5"


def test_two_runs_with_and_without_a_note_of_a_rare_label_release_alike(tmp_path: Path) -> None:
    """A class with a single note crashes nothing, is named nowhere, and its listed twin gets the same treatment."""
    for name, extra in (("with", [{"text": "beat rash hip", "label": "leprosy"}]), ("without", [])):
        body = corpus(tmp_path / name, units=40)
        path = Path(body["data"]["private"])
        path.write_text(path.read_text() + "".join(json.dumps(row) + "\n" for row in extra))
        body["data"]["labels"] = [*LABELS, "plague"]  # listed, and nobody has it
        work, here = played(tmp_path / name, body)
        for file in here.release.rglob("*"):
            assert not file.is_file() or b"leprosy" not in file.read_bytes()
        facts = json.loads((here.release / "synthetic" / "facts.json").read_text())
        assert [row["label"] for row in facts["labels"]] == work.config.data.labels
        assert len(work.ledger.charges()) == 2


def test_bad_settings_are_told_with_the_nearest_name(tmp_path: Path) -> None:
    body = corpus(tmp_path)
    for change, told in [
        ({"data": {**body["data"], "labels": ["heart"]}}, "at least 2"),
        ({"data": {**body["data"], "labels": ["heart", "other"]}}, "is kept for labels"),
        ({"data": {**body["data"], "label_column": "x"}}, "did you mean label"),
        ({"tutor": {"use": True, "shares": 0.2}}, "did you mean share"),
        ({"discriminator": {"method": "votes"}}, "relabel: false"),
        ({"generator": {"prompt": "write a note"}}, "every label would get the same texts"),
    ]:
        with pytest.raises(ConfigError, match=told):
            configs.parse_as(AugmentConfig, json.dumps({**body, **change}), tmp_path)


def test_a_missing_label_column_is_told_before_anything_is_made(tmp_path: Path) -> None:
    body = corpus(tmp_path, data={"private": str(write(tmp_path / "bare.jsonl", [{"text": "beat"}])), "units": 20})
    with pytest.raises(DataError, match="label"):
        played(tmp_path, body)
    assert not (tmp_path / "home" / "ledger.sqlite").exists()


def test_a_label_that_the_generator_never_writes(tmp_path: Path) -> None:
    body = corpus(tmp_path, units=200)
    body["data"]["labels"] = [*LABELS, "plague"]
    _, here = played(tmp_path, body)
    assert (here.release / "synthetic" / "corpus.jsonl").exists()
    with pytest.raises(DataError, match="1 of 3 labels"):
        generator.check([generator.Candidate("heart", "x")], LABELS)


def test_sentences_that_name_the_label_are_taken_out() -> None:
    settings = generator.Generator.model_validate({"least_words": 3})
    asked = [generator.Request("urology", "", ""), generator.Request("urology", "", "")]
    texts = ["Sure, a Urology note: He came with a stone. It passed.", "Urology."]
    found = generator.cleaned(asked, texts, settings)
    assert [one.text for one in found] == ["He came with a stone. It passed."]


def test_an_empty_selection_is_told() -> None:
    with pytest.raises(DataError, match="no candidate was selected"):
        selection.select(
            np.zeros((2, 2)), np.array([0, 0]), np.eye(2, dtype=np.float32), np.array([0.0, 1.0]),
            texts=5, relabel=False, near_copy=0.9,
        )  # fmt: skip


def test_selection_keeps_quotas_and_passes_over_copies() -> None:
    vectors = np.eye(6, dtype=np.float32)
    vectors[1] = vectors[0]
    scores = np.log(np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8], [0.1, 0.9], [0.6, 0.4]]))
    chosen = selection.select(
        scores, np.zeros(6, np.int64), vectors, np.array([0.5, 0.5]), texts=4, relabel=True, near_copy=0.95
    )
    assert chosen.places.tolist() == [0, 2, 4, 3]
    assert chosen.copies == 1
    assert selection.quotas(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]


def test_a_student_of_another_ledger_is_refused(tmp_path: Path) -> None:
    other = runs.begin(tmp_path / "other", "{}", tmp_path / "elsewhere.sqlite", tmp_path / "home2")
    body = corpus(tmp_path)
    body["generator"] = {"backend": "student", "model": str(other.folder), "texts": 10}
    with pytest.raises(BadInput, match="must be charged to one ledger"):
        played(tmp_path, body)


def test_labels_that_nobody_has_cost_nothing(tmp_path: Path) -> None:
    body = corpus(tmp_path)
    body["data"]["labels"] = [label.upper() for label in body["data"]["labels"]]
    with pytest.raises(BadInput, match="no hold-out row has a label"):
        played(tmp_path, body)
    assert not (tmp_path / "home" / "ledger.sqlite").exists()


def test_a_spent_budget_is_refused(tmp_path: Path) -> None:
    body = corpus(tmp_path, units=40)
    played(tmp_path, body)
    config = AugmentConfig.model_validate(body)
    second = runs.begin(
        tmp_path / "second", configs.to_yaml(config), tmp_path / "home" / "ledger.sqlite", tmp_path / "home"
    )
    with pytest.raises(BudgetError, match="of its budget left"):
        augmenting.augment(config, second, encoder=ENCODER)


def test_the_plan_knows_what_cannot_work() -> None:
    request = plan_augment.Request(epsilon=1.0, delta=1e-6, unit="record", units=1400, labels=12)
    made = plan_augment.make(request)
    assert made.feasible
    assert made.noise_std_sum == pytest.approx(1 / (0.23670 * 0.9**0.5), rel=1e-3)
    poor = plan_augment.Request(epsilon=0.1, delta=1e-6, unit="record", units=100, labels=20)
    assert not plan_augment.make(poor).feasible
    votes = plan_augment.Request(
        epsilon=1.0, delta=1e-6, unit="record", units=1400, labels=12, method="votes", queries=200
    )
    assert not plan_augment.make(votes).feasible
    assert Fraction(made.queries) == 1


def test_a_student_of_the_same_ledger_writes_candidates(tmp_path: Path, tiny_gpt2: LanguageModel) -> None:
    """Both systems in one ledger: its run is named, its student writes behind the control code."""
    ledger = tmp_path / "home" / "ledger.sqlite"
    other = runs.begin(tmp_path / "other", "{}", ledger, tmp_path / "home")
    body = corpus(tmp_path)
    body["generator"] = {"backend": "student", "model": str(other.folder), "texts": 6, "tokens": 8, "least_words": 1}
    config = AugmentConfig.model_validate(body)
    here = runs.begin(tmp_path / "run", configs.to_yaml(config), ledger, tmp_path / "home")
    with pytest.raises(BadInput, match="no finished student"):
        candidates.written(config, here, Stages(here, Watch))
    save(tiny_gpt2, other.release / "student", "card")
    found = candidates.written(config, here, Stages(here, Watch))
    assert {one.label for one in found} <= set(LABELS)
    assert candidates.written(config, here, Stages(here, Watch)) == found


def test_a_run_waits_for_its_endpoint_and_goes_on(tmp_path: Path, tiny_gpt2: LanguageModel) -> None:
    pytest.importorskip("openai")
    server = Server(tiny_gpt2, 0, lambda number: "503" if number >= 2 else None)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    body = corpus(tmp_path)
    body["generator"] = {"backend": "endpoint", "model": "tiny", "texts": 6, "tokens": 8, "least_words": 1}
    body["endpoint"] = {"base_url": server.url, "pause": 0.0, "retries": 1, "concurrency": 1}
    with pytest.raises(ModelError, match="2 of 6 texts are here"):
        played(tmp_path, body)
    assert not (tmp_path / "home" / "ledger.sqlite").exists(), "nothing private was read, nothing was charged"
    server.trouble = None
    asked = server.asked
    config = AugmentConfig.model_validate(body)
    here = runs.open_run(tmp_path / "run")
    assert candidates.written(config, here, Stages(here, Watch))
    assert server.asked == asked + 4
    server.shutdown()
    server.server_close()


def test_figures_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import f1_score, precision_score, recall_score

    chance = np.random.default_rng(0)
    truth, said = chance.integers(4, size=300), chance.integers(4, size=300)
    found = classify.figures(truth, said, 4)
    for kind in ("macro", "weighted"):
        assert getattr(found, f"f1_{kind}") == pytest.approx(f1_score(truth, said, average=kind))
        assert getattr(found, f"precision_{kind}") == pytest.approx(precision_score(truth, said, average=kind))
        assert getattr(found, f"recall_{kind}") == pytest.approx(recall_score(truth, said, average=kind))


@pytest.mark.parametrize("ghost", [False, True])
def test_noisy_sgd_learns_and_says_what_it_would_cost(ghost: bool) -> None:
    chance = np.random.default_rng(0)
    vectors = _counts([text_of(LABELS[i % 3], chance) for i in range(300)])
    ids = np.arange(300) % 3
    made = noisy_sgd.train(vectors, ids, 3, noisy_sgd.Recipe(8.0, 1e-5, ghost=ghost, epochs=10, batch=100), seed=0)
    assert (made.scores(vectors).argmax(1) == ids).mean() > 0.6
    assert made.event.steps == 30
    assert float(made.event.noise_multiplier) > 0.3
