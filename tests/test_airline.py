"""The simulated airline: the same text for everybody, heavy-tailed, and with secrets that have one owner each."""

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

import pytest

from hearsay.demo import airline
from hearsay.demo.airline import Airline, CorpusFiles, Turn, write_corpus
from hearsay.demo.grammar import Dice, Grammar, Odds, Scene
from hearsay.errors import ConfigError

CUSTOMERS = 1500
FIELDS = ["user", "dialogue", "speaker", "text"]


@pytest.fixture(scope="module")
def turns() -> list[Turn]:
    return list(Airline(CUSTOMERS, seed=5).turns())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> CorpusFiles:
    folder = tmp_path_factory.mktemp("airline")
    return write_corpus(folder, private_customers=400, public_customers=200, holdout_customers=200, seed=5)


def fingerprint(customers: int, rows: int) -> str:
    digest = hashlib.sha256()
    for turn in islice(Airline(customers, seed=5).turns(), rows):
        digest.update(repr(turn).encode())
    return digest.hexdigest()


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_two_instances_write_the_same() -> None:
    assert fingerprint(200, 3000) == fingerprint(200, 3000)


def test_another_process_with_another_hash_seed_writes_the_same() -> None:
    program = "from tests.test_airline import fingerprint; print(fingerprint(200, 3000))"
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == fingerprint(200, 3000)


def test_another_seed_writes_something_else() -> None:
    first, second = (next(Airline(1, seed=seed).turns()).text for seed in (0, 1))
    assert first != second


def test_a_customer_does_not_depend_on_how_many_there_are() -> None:
    few = list(Airline(20, seed=5).turns())
    many = list(islice(Airline(300, seed=5).turns(), len(few)))
    assert few == many
    assert Airline(20, seed=5).customers() == Airline(300, seed=5).customers()[:20]


def test_rows_come_grouped_by_customer_and_dialogue(turns: list[Turn]) -> None:
    for field in ("user", "dialogue"):
        order = [getattr(turn, field) for turn in turns]
        changes = sum(here != before for here, before in zip(order[1:], order, strict=False))
        assert changes == len(set(order)) - 1


def test_rows_have_the_length_of_a_chat_message(turns: list[Turn]) -> None:
    lengths = sorted(len(turn.text.split()) for turn in turns)
    assert lengths[0] >= 2
    assert lengths[-1] <= 48
    assert lengths[len(lengths) // 20] >= 6
    assert lengths[len(lengths) * 95 // 100] <= 30
    assert {turn.speaker for turn in turns} == {"customer", "agent"}


def test_rows_are_clean(turns: list[Turn]) -> None:
    leftovers = re.compile(r"[<>|()]|  |\s[,.?!]|^\W*$|,,|\{")
    assert not [turn.text for turn in turns if leftovers.search(turn.text)]


def test_a_few_customers_write_most(turns: list[Turn]) -> None:
    counts = sorted(Counter(turn.user for turn in turns).values())
    median, high = counts[len(counts) // 2], counts[len(counts) * 99 // 100]
    assert high >= 15 * median
    assert sum(counts[-len(counts) // 10 :]) >= 0.4 * sum(counts)


def test_customers_hardly_repeat_each_other(turns: list[Turn]) -> None:
    first = turns[:20_000]
    heard = Counter(turn.text for turn in first)
    customers = [turn.text for turn in first if turn.speaker == "customer"]
    agents_again = sum(turn.speaker == "agent" and heard[turn.text] > 1 for turn in first)
    assert len(set(customers)) >= 0.95 * len(customers)
    assert agents_again <= 0.15 * len(first)


def test_secrets_are_in_the_text_of_their_owner_alone(turns: list[Turn]) -> None:
    owners = {secret: person.user for person in Airline(CUSTOMERS, seed=5).customers() for secret in person.codes}
    names = {person.user: person.name for person in Airline(CUSTOMERS, seed=5).customers()}
    seen: set[str] = set()
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for turn in turns:
        texts[turn.user].append(turn.text)
        for code in re.findall(r"[A-Z][A-Z2-9]{5}", turn.text):
            assert owners.get(code, turn.user) == turn.user
            seen.add(code)
    assert len(seen & owners.keys()) >= 0.9 * len(owners)
    named = sum(any(name in text for text in texts[user]) for user, name in names.items())
    assert named >= 0.8 * CUSTOMERS


def test_no_two_people_share_a_name_or_a_code() -> None:
    people = [person for lane in ("customer", "public", "holdout") for person in Airline(3000, lane=lane).customers()]
    codes = [code for person in people for code in person.codes]
    assert len({person.name for person in people}) == len(people)
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[A-Z][A-Z2-9]{5}", code) for code in codes)


def test_secrets_list_names_and_codes() -> None:
    people = Airline(30, seed=5).customers()
    assert Airline(30, seed=5).secrets() == [secret for person in people for secret in (person.name, *person.codes)]


def test_corpus_files_share_no_customer_and_no_secret(corpus: CorpusFiles) -> None:
    private, public, holdout = (read(path) for path in (corpus.private, corpus.public, corpus.holdout))
    assert all(list(row) == FIELDS for row in (*private, *public, *holdout))
    users = [{row["user"] for row in rows} for rows in (private, public, holdout)]
    assert [len(group) for group in users] == [400, 200, 200]
    assert len(set.union(*users)) == 800
    secrets = corpus.secrets.read_text(encoding="utf-8").splitlines()
    assert secrets == Airline(400, seed=5).secrets()
    elsewhere = "\n".join(row["text"] for row in (*public, *holdout))
    assert not [secret for secret in secrets if secret in elsewhere]


def test_corpus_leaves_nothing_half_written(corpus: CorpusFiles) -> None:
    names = sorted(path.name for path in corpus.private.parent.iterdir())
    assert names == ["holdout.jsonl", "private.jsonl", "public.jsonl", "secrets.txt"]


def test_bits_are_those_of_the_choices() -> None:
    dice = Dice("coin")
    grammar = Grammar({"say": "(a|b|c) <n>"}, tones=("plain",), facts=("n",), synonyms={"b": ("b", "d")})
    scene = Scene(dice, {"n": lambda scene: str(scene.dice.number(1, 8))}, {}, tone="plain")
    three = Odds("abc").costs
    letter, number = grammar.expand("say", scene).split()
    expected = three["abc".index(letter.replace("d", "b"))] + 3
    expected += Odds("bd").costs["bd".index(letter)] if letter in "bd" else 0
    assert dice.bits == pytest.approx(expected)
    assert math.fsum(2**-cost for cost in three) == pytest.approx(1)
    before = dice.bits
    scene.mentioned.clear()
    assert grammar.expand("say", scene).endswith(number)
    assert scene.recalled == pytest.approx(3)
    assert dice.bits - before < expected


def test_the_entropy_of_the_text_stays_as_documented() -> None:
    rows = list(Airline(600).measured_turns())
    alone = sum(row.bits_alone for row in rows) / len(rows)
    assert 50 <= alone <= 62
    assert alone > sum(row.bits for row in rows) / len(rows)


@pytest.mark.parametrize("phrase", ["<nobody>", "(a|b", "a|b)"])
def test_a_misspelt_phrase_is_refused(phrase: str) -> None:
    with pytest.raises(ConfigError):
        Grammar({"say": phrase}, tones=("plain",), facts=(), synonyms={"x": ("x", "y")})


def test_a_wrong_lane_is_refused() -> None:
    with pytest.raises(ConfigError, match="lane"):
        Airline(3, lane="secret")
    with pytest.raises(ConfigError):
        Airline(-1)


def test_several_processes_write_what_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"private_customers": 7, "public_customers": 1, "holdout_customers": 1, "seed": 3}
    alone = write_corpus(tmp_path / "alone", **sizes)
    monkeypatch.setattr(airline, "PART", 3)
    together = write_corpus(tmp_path / "together", **sizes)
    assert alone.private.read_bytes() == together.private.read_bytes()
