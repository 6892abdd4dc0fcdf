"""Ways by which text, costs or places could get out beside the door: each is closed, and says no more than that."""

import http.client
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hearsay import augmenting, work
from hearsay import config as configs
from hearsay import run as runs
from hearsay.accounting import identity, statement
from hearsay.config import Config
from hearsay.config_augment import AugmentConfig
from hearsay.errors import BadInput, ConfigError, DataError
from hearsay.lm import LanguageModel, save
from hearsay.origins import origins
from hearsay.private.labelled import collect
from hearsay.private.teaching import make_partition
from hearsay.public import cards, corpus_card
from hearsay.public.cards import Round
from hearsay.public.selection import Chosen
from hearsay.reading import Row
from hearsay.report import page
from hearsay.stages import Watch
from hearsay.ui.gate import Gate
from hearsay.ui.shelf import Shelf
from hearsay.ui.work import Workshop
from test_augment import LABELS, corpus, played, write
from test_ui import SRC, Client, _recorder, serve

Made = tuple[augmenting.Work, runs.Run, Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An augment run whose config names folders by their full paths, as a page lists it: demo/run, demo/home."""
    folder = tmp_path_factory.mktemp("hospital")
    (folder / "encoder").mkdir()
    body = corpus(folder / "corpus", units=60, discriminator={"dimensions": 6, "encoder": str(folder / "encoder")})
    return *played(folder / "runs" / "demo", body), folder


def generating(folder: Path, **change: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "data": {"private": str(folder / "private.jsonl"), "public": str(folder / "public.jsonl"), "units": 5000,
                 "sentences": 60000, "user": None, "public_user": None},
        "privacy": {"corpus": "chats", "unit": "record"},
        "teachers": {"count": 500},
    }  # fmt: skip
    return body | change


# --- what the card says of the texts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generator", "said", "unsaid"),
    [
        ({"backend": "local"}, "never what they say", "student"),
        ({"backend": "endpoint", "model": "served"}, "never what they say", "student"),
        ({"backend": "student", "model": "RUN"}, "what they say comes from the corpus too", "never"),
        ({"backend": "local", "model": "RUN/release/student"}, "what they say comes from the corpus too", "never"),
        ({"backend": "file", "files": ["/pool.jsonl"]}, "as declared by the owner", "never"),
    ],
)
def test_the_card_tells_who_wrote_the_texts(made: Made, generator: dict[str, Any], said: str, unsaid: str) -> None:
    work, here, _ = made
    named = {"model": generator["model"].replace("RUN", str(here.folder))} if "model" in generator else {}
    body = work.config.model_dump() | {"generator": generator | named}
    chosen = Chosen(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), 0, {})
    facts = corpus_card._facts(
        statement.make(work.ledger), AugmentConfig.model_validate(body), chosen, np.full(3, 1 / 3)
    )
    card = cards.render("corpus_card.md.j2", facts | {"run": here.id}).split("## The guarantee")[0]
    assert said in card and unsaid not in card


# --- a student's cost -----------------------------------------------------------------------------------------------


@pytest.fixture()
def student(tmp_path: Path) -> Path:
    """Of a run that is charged to another ledger than `played` runs are."""
    other = runs.begin(tmp_path / "other", "{}", tmp_path / "elsewhere.sqlite", tmp_path / "home2")
    (other.release / "student").mkdir()
    return other.release / "student"


@pytest.mark.parametrize(
    "way",
    [
        "local",
        "link",
        "linked files",
        "linked deeper",
        "linked in a run",
        "linked twice",
        "endpoint",
        "encoder",
        "file",
    ],
)
def test_a_student_of_another_ledger_is_refused_however_it_is_named(tmp_path: Path, student: Path, way: str) -> None:
    (tmp_path / "link").symlink_to(student)
    (student / "config.json").write_text("{}")
    own = runs.begin(tmp_path / "own", "{}", tmp_path / "home" / "ledger.sqlite", tmp_path / "home")
    (tmp_path / "linked in a run").symlink_to(own.release)
    (tmp_path / "linked twice").mkdir()
    (tmp_path / "linked twice" / "0_Transformer").symlink_to(tmp_path / "linked files")
    (tmp_path / "linked twice" / "loop").symlink_to("loop")
    (tmp_path / "linked twice" / "nowhere").symlink_to("gone/for/good")
    (student / "vocabulary.json").symlink_to(tmp_path / "corpus.jsonl")  # a link of its own hides nothing
    for folder in (tmp_path / "linked files", tmp_path / "linked deeper" / "0_Transformer", own.release / "student"):
        folder.mkdir(parents=True)
        (folder / "config.json").symlink_to(student / "config.json")
    body = corpus(tmp_path)
    if way == "encoder":
        body["discriminator"]["encoder"] = str(student)
    elif way == "file":  # what it wrote carries the same cost
        pool = Path(body["generator"]["files"][0]).rename(student / "pool.jsonl")
        body["generator"]["files"] = [str(pool)]
    else:
        named = tmp_path / way if way.startswith("link") else student
        body["generator"] = {"backend": "endpoint" if way == "endpoint" else "local", "model": str(named)}
    with pytest.raises(BadInput, match="must be charged to one ledger"):
        played(tmp_path, body)


def test_a_student_that_was_moved_to_another_disk_is_still_the_runs(tmp_path: Path, student: Path) -> None:
    (student / "config.json").write_text("{}")
    student.rename(tmp_path / "disk")
    student.symlink_to(tmp_path / "disk")
    (tmp_path / "alias").symlink_to(student.parent)
    for named in (student, tmp_path / "alias" / "student", tmp_path / "alias" / ".." / "release" / "student"):
        (found,) = {(origin.run.folder, origin.released) for origin in origins(named)}
        assert found == (student.parent.parent, True)
    assert [origin.released for origin in origins(student.parent / ".." / "internal")] == [False]
    assert not list(origins(tmp_path / "disk"))  # as for any copy, nobody can tell


def test_a_base_model_carries_the_cost_of_the_run_that_made_it(tmp_path: Path, student: Path) -> None:
    config = Config.model_validate(generating(tmp_path, model=str(student)))
    here = runs.begin(tmp_path / "run", configs.to_yaml(config), tmp_path / "ledger.sqlite", tmp_path / "home")
    with pytest.raises(BadInput, match="must be charged to one ledger"):
        work.prepare(config, here, Watch)


def test_public_text_carries_the_cost_of_the_run_that_wrote_it(tmp_path: Path, student: Path) -> None:
    body = generating(tmp_path)
    body["data"]["public"] = str(student / "said.jsonl")
    config = Config.model_validate(body)
    here = runs.begin(tmp_path / "run", configs.to_yaml(config), tmp_path / "ledger.sqlite", tmp_path / "home")
    with pytest.raises(BadInput, match="must be charged to one ledger"):
        work.prepare(config, here, Watch)


@pytest.mark.parametrize("linked", [False, True])
def test_a_model_that_no_guarantee_covers_is_no_base_model(tmp_path: Path, linked: bool) -> None:
    ledger, home = tmp_path / "ledger.sqlite", tmp_path / "home"
    other = runs.begin(tmp_path / "other", "{}", ledger, home)
    inside = other.internal / "private-NOT-PRIVATE"
    for folder in (inside, tmp_path / "links"):
        folder.mkdir()
    (inside / "model.safetensors").write_bytes(b"")
    (tmp_path / "links" / "model.safetensors").symlink_to(inside / "model.safetensors")
    config = Config.model_validate(generating(tmp_path, model=str(tmp_path / "links" if linked else inside)))
    here = runs.begin(tmp_path / "run", configs.to_yaml(config), ledger, home)
    with pytest.raises(BadInput, match="no guarantee covers it"):
        work.prepare(config, here, Watch)


def test_a_run_json_of_another_program_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "run.json").write_text('{"name": "sweep"}')
    assert not list(origins(tmp_path / "model"))


# --- private text that is named as public ---------------------------------------------------------------------------


def test_a_private_file_is_not_taken_for_a_public_one(tmp_path: Path) -> None:
    body = corpus(tmp_path)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "private.jsonl")
    for name in (
        "private.jsonl",
        "holdout.jsonl",
        "./x/../private.jsonl",
        "link.jsonl",
        str(tmp_path / "private.jsonl"),
    ):
        body["generator"] = {"backend": "file", "files": [name]}
        with pytest.raises(ConfigError, match=r"generator.files names a private file"):
            configs.parse_as(AugmentConfig, json.dumps(body), tmp_path)
    for change in (
        {"public": ["public.jsonl", "private.jsonl"]},
        {"public": "holdout.jsonl", "holdout": "holdout.jsonl"},
    ):
        other = generating(tmp_path)
        other["data"] |= change
        with pytest.raises(ConfigError, match=r"data.public names a private file"):
            configs.parse(json.dumps(other), tmp_path)


def test_declared_texts_that_are_private_ones_are_refused_and_none_is_named(tmp_path: Path) -> None:
    """One or many, spaced otherwise: the same words, and nothing of it stands in the run's progress."""
    told = set()
    for count in (1, 30):
        folder = tmp_path / str(count)
        body = corpus(folder, units=60)
        rows = [json.loads(line) for line in Path(body["data"]["private"]).read_text().splitlines()][:count]
        copies = [{"text": row["text"].replace(" ", "\n", 1), "label": row["label"]} for row in rows]
        body["generator"]["files"].append(str(write(folder / "more.jsonl", copies)))
        with pytest.raises(DataError) as refused:
            played(folder, body)
        told.add(str(refused.value))
        assert not (folder / "home" / "ledger.sqlite").exists()
        assert not list((folder / "run" / "private").rglob("*.npz"))
    (message,) = told
    assert "generator.files" in message and not any(char.isdigit() for char in message)


def test_what_a_model_wrote_is_not_refused_for_being_in_the_corpus(tmp_path: Path) -> None:
    """That would tell that it is there: two neighbouring corpora must both get their release."""
    body = corpus(tmp_path, units=60)
    text = json.loads(Path(body["data"]["private"]).read_text().splitlines()[0])["text"]
    body["generator"] = {"backend": "local", "least_words": 4}
    stages = tmp_path / "run" / "release" / "stages"
    config = AugmentConfig.model_validate(body)
    runs.begin(tmp_path / "run", configs.to_yaml(config), tmp_path / "home" / "ledger.sqlite", tmp_path / "home")
    stages.mkdir()
    pool = [json.loads(line) for line in (tmp_path / "pool.jsonl").read_text().splitlines()]
    write(stages / "candidates.jsonl", [*pool, {"label": "heart", "text": text}])
    work, _ = played(tmp_path, body)
    assert len(work.ledger.charges()) == 2


def test_a_public_copy_of_a_private_record_is_refused(tmp_path: Path, tiny_gpt2: LanguageModel) -> None:
    mine = "the flight to oslo leaves at nine and your seat is near a window"
    write(tmp_path / "private.jsonl", [{"text": mine}, {"text": "please bring one bag only thank you and your seat"}])
    config = Config.model_validate(generating(tmp_path))
    with identity.at(tmp_path / "home"):
        write(tmp_path / "public.jsonl", [{"text": "another text about a window"}])
        assert make_partition(config, tiny_gpt2, tmp_path / "good").sketch
        write(tmp_path / "public.jsonl", [{"text": f" {mine} "}, {"text": "another"}])
        with pytest.raises(DataError, match=r"some text of data.public stands in data.private too") as refused:
            make_partition(config, tiny_gpt2, tmp_path / "bad")
    assert "oslo" not in str(refused.value) and not any(char.isdigit() for char in str(refused.value))


def test_an_encoder_that_fails_quotes_nothing(tmp_path: Path) -> None:
    def encode(text: str) -> Any:
        raise ValueError(f"cannot encode {text!r}")

    with pytest.raises(DataError, match="got ValueError from the encoder") as failed:
        collect(
            [Row(1, "patient Jones", None, ("heart",))], LABELS, unit="record", cap=1, key=b"k" * 32,
            sketch_key=b"s" * 32, encode=encode, folder=tmp_path,
        )  # fmt: skip
    assert "Jones" not in str(failed.value)
    assert failed.value.__context__ is None and failed.value.__cause__ is None


# --- places on the owner's machine ----------------------------------------------------------------------------------


def test_no_released_file_tells_where_a_model_lies(made: Made) -> None:
    _, here, folder = made
    texts = [path for path in here.release.rglob("*") if path.suffix in (".json", ".md", ".html", ".jsonl")]
    assert len(texts) > 4
    assert not [path.name for path in texts if str(folder) in path.read_text()]
    assert "encoder encoder" in (here.release / "synthetic" / "README.md").read_text()
    assert str(folder) not in page.html(here, shareable=True)


def test_the_student_card_tells_a_folder_by_its_last_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ward" / "base").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    here = runs.begin(tmp_path / "run", "{}", tmp_path / "ledger.sqlite", tmp_path / "home")
    for model in (str(tmp_path / "ward" / "base"), "ward/base", "./ward/base", "~/ward/base"):
        told = cards.made(Config.model_validate(generating(tmp_path, model=model)), here)
        assert told["model"] == "base" and told["how"].endswith("base model base")
    for model in ("embedded", "openai-community/gpt2"):
        assert cards.told(model) == model


def test_a_card_tells_each_round_of_answers_as_it_was(tmp_path: Path) -> None:
    config = Config.model_validate(generating(tmp_path, ask={"recipe": "hellinger", "rounds": 3}))
    here = runs.begin(tmp_path / "run", "{}", tmp_path / "ledger.sqlite", tmp_path / "home")
    told = cards.made(config, here, [Round(60, moved=True), Round(0), Round(60)])
    assert (told["rounds"], told["questions"]) == (2, 120) and "120 questions" in told["how"]
    assert "the answers of round 3" in told["stayed"] and "Round 2 of answers asked nothing" in told["stayed"]
    assert told["stayed"].count("stayed where it was") == 2
    assert "stayed as its warm-up had left it" in cards.made(config, here, [Round(0), Round(60)])["stayed"]
    assert not cards.made(config, here, [Round(60, moved=True)])["stayed"]


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["models/../../../usr/share", "models/secret", "nowhere/../../x"])
@pytest.mark.parametrize("task", ["generate", "augment"])
def test_a_model_is_looked_for_where_the_run_will_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, task: str
) -> None:
    (tmp_path / "cwd" / "models" / "secret").mkdir(parents=True)
    shelf = Shelf(tmp_path / "runs")
    shelf.folder.mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    shop = Workshop(shelf, [], _recorder(tmp_path))
    body = generating(shelf.folder, model=model)
    if task == "augment":
        data = {"private": "private.jsonl", "labels": LABELS, "units": 5000}
        body = {"task": "augment", "data": data, "privacy": body["privacy"], "generator": {"model": model}}
    with pytest.raises(BadInput, match="outside the runs folder"):
        shop.from_config("mine", yaml.safe_dump(body), anyway=False)
    assert not shop.jobs


def test_a_model_beside_its_config_is_meant_wherever_one_stands(tmp_path: Path, tiny_gpt2: LanguageModel) -> None:
    save(tiny_gpt2, tmp_path / "base", "card")
    for model, meant in (("base", str(tmp_path / "base")), ("~/x", str(Path("~/x").expanduser())), ("a/b", "a/b")):
        assert configs.parse(json.dumps(generating(tmp_path, model=model)), tmp_path).model == meant


@pytest.mark.parametrize("length", ["²", "9" * 5000, "-1", "1048577", ""])
def test_a_length_that_is_no_length_is_refused(length: str) -> None:
    headers = [(b"host", b"127.0.0.1:1"), (b"content-length", length.encode("latin-1"))]
    assert Gate(None, "token", 1).refusal({"path": "/token/", "headers": headers}) == "more than a config"  # type: ignore[arg-type]


@pytest.fixture()
def client(made: Made, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    yield from serve(made[2] / "runs")


def test_a_body_in_chunks_is_refused(client: Client) -> None:
    call = http.client.HTTPConnection("127.0.0.1", client.page.port, timeout=60)
    body = iter([json.dumps({"run": "demo/run"}).encode()])
    call.request("POST", f"/{client.token}/api/verify", body, {"Content-Type": "application/json"}, encode_chunked=True)
    answer = call.getresponse()
    assert answer.status == 403 and b"without its length" in answer.read()
    call.close()


def test_an_augment_run_is_listed_verified_and_reported(client: Client, made: Made) -> None:
    (shown,) = client.ask("api/runs")[1]["runs"]
    assert (shown["path"], shown["state"], shown["corpus"]) == ("demo/run", "finished", "notes")
    assert client.ask("api/ledger?run=demo/run")[1]["charges"][0]["purpose"] == "tutor: histogram of labels"
    assert client.ask("api/verify", {"run": "demo/run"})[1]["ok"]
    owner, shared = (client.ask(f"report?run=demo/run{edition}")[1] for edition in ("", "&shareable=true"))
    assert "for the owner" in owner and "Synthetic text" in owner
    assert "may be shared" in shared and "corpus.parquet" in shared and str(made[2]) not in shared


def test_a_stopped_augment_demo_is_taken_up_as_one(made: Made, tmp_path: Path) -> None:
    shutil.copytree(made[2] / "runs", tmp_path / "runs")
    facts = tmp_path / "runs" / "demo" / "run" / "run.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"home": str(tmp_path / "runs" / "demo" / "home")}))
    shop = Workshop(Shelf(tmp_path / "runs"), [], _recorder(tmp_path))
    shop.resume("demo/run")
    shop.jobs["demo/run"].process.wait(timeout=30)
    expected = f"demo --task augment --out {tmp_path / 'runs' / 'demo'} --seed 0"
    assert (tmp_path / "words.txt").read_text() == expected
