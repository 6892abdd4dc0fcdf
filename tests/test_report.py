"""The report: complete and offline, honest about what is missing; and a shareable edition that gives nothing away."""

import dataclasses
import html as entities
import json
import re
import shutil
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import TinyDemo
from hearsay.accounting import plan, sampled
from hearsay.accounting.bounds import UNIT_BALL
from hearsay.accounting.events import Event, Gaussian
from hearsay.accounting.ledger import Ledger
from hearsay.errors import BadInput
from hearsay.report import figures, look, owner, page, released
from hearsay.run import Run, open_run

pytestmark = pytest.mark.xdist_group("demo")
WORDS = 8  # of a private sentence in a row: the student's own text does not come by these by chance


@pytest.fixture()
def run(tiny_demo: TinyDemo) -> Run:
    return open_run(tiny_demo.run)


@pytest.fixture()
def copy(tiny_demo: TinyDemo, tmp_path: Path) -> Run:
    """A run whose files a test may change; its ledger is the copy's own."""
    shutil.copytree(tiny_demo.folder, tmp_path / "demo")
    folder = tmp_path / "demo" / "run"
    body = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(body | {"ledger": str(tmp_path / "demo" / "home" / "ledger.sqlite")}))
    return open_run(folder)


class Text(HTMLParser):
    """What a reader sees, in words and numbers; style and scripts are counted apart."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []
        self.inside = ""
        self.tags: set[str] = set()
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        self.words += [value or "" for name, value in attrs if name in ("aria-label", "title", "alt")]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def leaks(document: str, corpus: Path, counts: dict[str, str]) -> list[str]:
    """Private n-grams, secrets and counts that stand in a document. Read from the whole file, its markup included."""
    whole = " ".join(entities.unescape(document).split()).lower()
    found = [f"secret: {secret}" for secret in _lines(corpus / "secrets.txt") if secret.lower() in whole]
    found = [line for line in found if _alone(whole, line.removeprefix("secret: ").lower())]
    private, public = ({gram for name in names for row in _rows(corpus / name) for gram in _grams(row["text"])}
                       for names in (("private.jsonl", "holdout.jsonl"), ("public.jsonl",)))  # fmt: skip
    found += [f"n-gram: {gram}" for gram in (_grams(whole) & private) - public]
    said = re.sub(r"\b(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", " ", Text(document).text)  # hashes hold any number by chance
    numbers = re.findall(r"\d[\d,]*\.?\d*", said)
    told = {number.replace(",", "").rstrip(".") for number in numbers}
    return found + [f"count: {name} {value}" for name, value in counts.items() if value in told]


def _alone(whole: str, secret: str) -> bool:
    """Not as a part of another word."""
    return re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", whole) is not None


def _grams(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1)}


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip()]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _counts(demo: TinyDemo) -> dict[str, str]:
    """What only somebody who read the private files can know, as a page would write it."""
    rows, held_out = _rows(demo.corpus / "private.jsonl"), _rows(demo.corpus / "holdout.jsonl")
    counts = {
        "private rows": len(rows),
        "private words": sum(len(row["text"].split()) for row in rows),
        "held-out rows": len(held_out),
        "held-out people": len({row["user"] for row in held_out}),
        "phrases": demo.found["phrases"]["phrases"],
        "phrases found": demo.found["phrases"]["found"],
        "tokens": demo.found["student"]["tokens"],
    }
    shown = {name: f"{value}" for name, value in counts.items()}
    return shown | {"perplexity": f"{demo.found['student']['ppl']:.1f}"}


def test_on_whose_text_is_told_to_the_owner_alone(copy: Run) -> None:
    path = copy.internal / "evaluation.json"
    found = json.loads(path.read_text())
    assert f"{found['held_out_people']} people; intervals are over people" in page.html(copy)
    path.write_text(json.dumps(found | {"held_out_people": None}))
    assert "intervals are over rows, as if those were independent" in page.html(copy)
    path.write_text(json.dumps({name: body for name, body in found.items() if not name.startswith("held_out")}))
    assert "intervals are over" not in page.html(copy)  # an older version's, which does not say
    for body in (one for one in found.values() if isinstance(one, dict) and "ppl" in one):
        body |= {"ppl_low": None, "ppl_high": None}  # of very few people
    path.write_text(json.dumps(found))
    assert "None" not in Text(page.html(copy)).text and "intervals" not in page.html(copy, shareable=True)


def test_a_phrase_is_told_for_whom_it_holds(copy: Run) -> None:
    """By teachers whatever its writers might have said instead; by units only as if they had not been there."""
    path, absent = copy.internal / "evaluation.json", "as if they had never been there"
    found = json.loads(path.read_text())
    assert found["phrases"]["counted"] == "teachers" and absent not in page.html(copy)
    found["phrases"]["counted"] = "units"
    path.write_text(json.dumps(found))
    assert absent in page.html(copy)


# --- the owner's edition --------------------------------------------------------------------------------------------


def test_it_is_one_small_file_that_needs_nothing_else(run: Run) -> None:
    document = page.html(run)
    seen = Text(document)
    assert len(document.encode()) < 1_000_000
    assert not seen.tags & {"script", "iframe", "object", "embed", "img"}
    assert all(link.startswith(("#", "data:")) for link in seen.links)
    assert "url(http" not in document and "@import" not in document


def test_it_shows_promise_budget_worth_words_and_how_to_check(run: Run, tiny_demo: TinyDemo) -> None:
    seen = Text(page.html(run)).text
    for needed in (
        "62.7", "What was spent", "answers", f"{tiny_demo.found['student']['ppl']:.1f}", "NOT PRIVATE",
        "public prefix", "128 teachers", "noise on the sum", "effective tokens", "from_pretrained", "SHA-256",
        "hearsay ledger verify", "corpus: tiny-air", "torch",
    ):  # fmt: skip
        assert needed in seen, needed


def test_noise_and_tokens_are_the_ledgers(run: Run) -> None:
    """The figures beside the answers follow from the charge: mu^2 = sensitivity^2 / variance, over the whole budget."""
    ledger = Ledger.open(run.ledger)
    (charge,) = ledger.charges(run.id)
    (told,) = released.answers(ledger, run.id, released.read(run.release / "made.json"))
    assert told["on_mean"] == pytest.approx(told["on_sum"] / 128)
    assert told["tokens"] == pytest.approx(charge.event.queries / (4 * told["on_mean"] ** 2))
    assert sum(released.by_run(ledger).values()) == pytest.approx(1, abs=1e-6)
    assert released.epsilon_of_run(ledger, run.id) == pytest.approx(3)


@pytest.mark.parametrize("sample", [1.0, 0.25])
def test_the_noise_of_updates_is_the_plans_told_from_the_ledger(sample: float) -> None:
    asked = plan.Request(recipe="updates", units=2000, rounds=25, sample=sample, dimensions=4096)
    scale = plan.scale_for(UNIT_BALL, 1, Fraction(plan.make(asked).mu) ** 2 / 25)
    event: Event = Gaussian(UNIT_BALL.sensitivity_squared(1), scale**2, 4096)
    if sample < 1:
        committed = sampled.schedule_for(3.0, 1e-6, Fraction(sample), 25)
        event = dataclasses.replace(committed, steps=1, coordinates=4096)
    rounds = [SimpleNamespace(purpose=f"update, round {n + 1}", event=event) for n in range(25)]
    answers = SimpleNamespace(purpose="answers, round 1", event=Gaussian(Fraction(1), Fraction(1), 10**6))
    ledger: Any = SimpleNamespace(charges=lambda run: [*rounds, answers])
    assert released.noise_of_updates(ledger, "this", 2000) == pytest.approx(plan.make(asked).noise_over_clip, rel=1e-2)
    ledger.charges = lambda run: [answers]
    assert released.noise_of_updates(ledger, "this", 2000) is None


def test_text_from_a_model_stays_text(copy: Run) -> None:
    rows = [{"prefix": "<script>alert(1)</script>", "public": '"><img src=x onerror=alert(1)>', "student": "&amp;"}]
    (copy.release / "completions.json").write_text(json.dumps({"rows": rows}))
    document = page.html(copy)
    assert not Text(document).tags & {"script", "img"} and "&amp;amp;" in document


def test_audits_are_shown_when_there_are_some(copy: Run) -> None:
    assert "beside the promise" not in page.html(copy)
    attack = {"score": 0.51, "low": 0.49, "high": 0.53, "epsilon_lower": 0.2, "epsilon_claimed": 3.0, "ok": True}
    broken = attack | {"epsilon_lower": 4.2, "ok": False, "sentence": "the noise is missing"}
    (copy.internal / "audit.json").write_text(json.dumps({"attacks": {"membership": attack, "mechanism": broken}}))
    seen = Text(page.html(copy)).text
    assert "beside the promise" in seen and "the noise is missing" in seen
    assert "promise broken" in seen and "4.20" in seen


def test_synthetic_text_and_classifiers_are_shown_when_there_are_some(copy: Run) -> None:
    (copy.release / "synthetic").mkdir()
    (copy.release / "synthetic" / "notes.jsonl").write_text("{}\n")
    measured = json.loads((copy.internal / "evaluation.json").read_text())
    body = {"accuracy": 0.61, "f1_macro": 0.587, "interval": {"f1_macro": [0.55, 0.62]}}
    measured |= {"models": {"synthetic": body, "private": body | {"f1_macro": 0.8}}}
    measured["tutor"] = {"used": True, "labels": [{"label": "surgery", "true": 0.31, "noisy": 0.3}]}
    (copy.internal / "evaluation.json").write_text(json.dumps(measured))
    row = {"text": "a note that nobody wrote", "label": "surgery"}
    (copy.release / "synthetic" / "corpus.jsonl").write_text(json.dumps(row) + "\n")
    seen = Text(page.html(copy)).text
    assert "notes.jsonl" in seen and "0.587" in seen and "diamond, noisy" in seen
    shared = Text(page.html(copy, shareable=True)).text
    assert "a note that nobody wrote" in shared and "0.587" not in shared and "diamond" not in shared


def test_a_run_that_stopped_still_shows_what_it_paid(copy: Run) -> None:
    for name in ("statement.json", "made.json", "completions.json"):
        (copy.release / name).unlink()
    (copy.internal / "evaluation.json").unlink()
    shutil.rmtree(copy.release / "student")
    seen = Text(page.html(copy)).text
    assert "62.7" in seen and "answers" in seen
    assert f"config.yaml --out {copy.folder}" in seen and "NEW-FOLDER" not in seen


def test_another_run_makes_a_curve(run: Run, copy: Run) -> None:
    """Runs of another ledger enter by name; one run alone makes no curve."""
    silent = Run(copy.folder, "asked nothing", copy.ledger, copy.home)
    assert owner.curve([run]) == owner.curve([run, silent]) == ""
    assert "Privacy against utility" in Text(page.html(run, others=[copy])).text


# --- the shareable edition ------------------------------------------------------------------------------------------


def test_the_shareable_edition_gives_nothing_away(run: Run, tiny_demo: TinyDemo, tmp_path: Path) -> None:
    path = page.write(run, shareable=True, out=tmp_path / "share.html")
    document = path.read_text()
    assert "62.7" in document and "128 teachers" in document
    assert str(tiny_demo.folder) not in document and "config.yaml" not in document
    assert leaks(document, tiny_demo.corpus, _counts(tiny_demo)) == []


def test_the_search_finds_what_the_owners_edition_tells(run: Run, tiny_demo: TinyDemo) -> None:
    """The same search on the edition that may not be shared: it must not come back empty."""
    found = leaks(page.html(run), tiny_demo.corpus, _counts(tiny_demo))
    assert any(line.startswith("count: perplexity") for line in found)


@pytest.mark.parametrize("plant", ["n-gram", "secret", "count"])
def test_a_planted_leak_is_found(copy: Run, tiny_demo: TinyDemo, plant: str) -> None:
    """A leak that came in through a released file, as a careless change would let it."""
    counts = _counts(tiny_demo)
    long = next(r["text"] for r in _rows(tiny_demo.corpus / "private.jsonl") if len(r["text"].split()) > WORDS)
    secret = _lines(tiny_demo.corpus / "secrets.txt")[0]
    text = {"n-gram": long, "secret": f"ask {secret} about it", "count": f"{counts['private rows']} rows"}[plant]
    rows = [{"prefix": "hello", "public": "there", "student": text}]
    (copy.release / "completions.json").write_text(json.dumps({"rows": rows}))
    found = leaks(page.html(copy, shareable=True), tiny_demo.corpus, counts)
    assert any(line.startswith(plant) for line in found)


def test_nothing_of_an_unfinished_run_is_shareable(copy: Run) -> None:
    (copy.release / "statement.json").unlink()
    for ask in (page.write, page.html):  # to a file, and through the local page
        with pytest.raises(BadInput, match="not finished"):
            ask(copy, shareable=True)
    assert not (copy.release / page.SHAREABLE).exists() and page.write(copy).exists()
    shutil.rmtree(copy.release / "student")
    (copy.internal / "private-NOT-PRIVATE.safetensors").touch()
    with pytest.raises(BadInput, match="never to be handed on"):
        page.html(copy, shareable=True)


def test_the_noise_of_updates_is_shown_beside_what_was_measured(copy: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "noise of all updates" not in Text(page.html(copy)).text  # its answers are another matter
    monkeypatch.setattr(released, "noise_of_updates", lambda ledger, run, units: 0.18)
    assert "over the run 0.18 of the clip" in Text(page.html(copy)).text


def test_the_shareable_edition_reads_nothing_but_release_and_ledger(copy: Run) -> None:
    before = page.html(copy, shareable=True)
    shutil.rmtree(copy.internal)
    shutil.rmtree(copy.private)
    for name in ("config.yaml", "environment.json", "progress.jsonl"):
        (copy.folder / name).unlink()
    assert page.html(copy, shareable=True) == before


# --- figures --------------------------------------------------------------------------------------------------------


def test_ticks_read_as_people_write_numbers() -> None:
    drawn = figures.utility({"public": {"ppl": 231.0}, "student": {"ppl": 160.0}, "private": {"ppl": 67.0}}, 0.26)
    seen = Text(drawn).text
    assert "200" in seen and "10^" not in drawn and "×" not in seen
    assert [look.plain(value) for value in (0.05, 8, 200, 1500, 3e6)] == ["0.05", "8", "200", "1,500", "3 million"]
    assert look.round_values(60, 300) == [60, 80, 100, 150, 200, 300]


def test_every_figure_says_its_units_and_draws_intervals() -> None:
    body = {"ppl": 160.0, "ppl_low": 150.0, "ppl_high": 171.0}
    plain, drawn = (figures.utility({"student": one}, None) for one in ({"ppl": 160.0}, body))
    assert drawn.count("<path") > plain.count("<path")
    curve = figures.curve([figures.Point("a", 1, 60), figures.Point("b", 3, 50)], {"public": 90})
    for figure, unit in ((drawn, "perplexity per token"), (curve, "epsilon"), (figures.budget(3, []), "share of the")):
        assert unit in figure


def test_figures_follow_dark_mode_and_share_a_page() -> None:
    """Colours are variables, and no id is used by two figures on one page."""
    drawn = [figures.budget(3, [figures.Share("a", 0.5, finished=False)]), figures.odds(0.627)]
    assert all(colour not in figure for figure in drawn for colour in look.NAMES)
    ids = [set(re.findall(r' id="([^"]+)"', figure)) for figure in drawn]
    assert ids[0] and not ids[0] & ids[1]
    used = set(re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", drawn[0]))
    assert {one or other for one, other in used} <= ids[0]
    assert "prefers-color-scheme: dark" in look.standalone(drawn[0])
