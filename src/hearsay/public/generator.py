"""Candidates: labelled texts from a public model, by prompts that hold labels and public terms and nothing else.

Every backend answers the same list of requests, which follows from public settings and a seed. What comes back is
cleaned: too short texts go, and so do sentences that name the label, because a classifier trained on them would learn
to read the name instead of the text.
"""

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from hearsay import lm as models
from hearsay.config_augment import Generator
from hearsay.disk import write_text
from hearsay.errors import DataError
from hearsay.lm import LanguageModel
from hearsay.reading import Columns, read_rows

Progress = Callable[[int, int], None]
BATCH = 256  # texts between two signs of life
PROMPT_TOKENS = 400
SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


@dataclass(frozen=True)
class Request:
    """One text to write: `prompt` is not part of it, `opening` is."""

    label: str
    prompt: str
    opening: str


@dataclass(frozen=True)
class Candidate:
    label: str  # the one it was asked for
    text: str


def requests(settings: Generator, labels: Sequence[str], seed: int) -> list[Request]:
    """The same number for every label, in turn: how often a label occurs privately is not known here."""
    chance = random.Random(seed)
    found = []
    for number in range(settings.texts):
        label = labels[number % len(labels)]
        term = chance.choice(settings.terms.get(label) or [label])
        opening = chance.choice(settings.openings) if settings.openings else ""
        found.append(Request(label, _filled(settings.prompt, label, term), _filled(opening, label, term)))
    return found


def _filled(template: str, label: str, term: str) -> str:
    """By replacement, not `format`: a prompt may hold braces of its own."""
    return template.replace("{label}", label).replace("{term}", term)


def written_by(
    lm: LanguageModel, asked: Sequence[Request], settings: Generator, seed: int, progress: Progress
) -> list[str]:
    """A local model goes on from prompt and opening. Used for public models and for a released private student."""
    stream = torch.Generator().manual_seed(seed)
    found: list[str] = []
    for at in range(0, len(asked), BATCH):
        part = asked[at : at + BATCH]
        rows = models.encode(lm, [(one.prompt + one.opening).rstrip(" ") for one in part], PROMPT_TOKENS)
        made = models.generate(
            lm,
            rows,
            max_tokens=settings.tokens,
            temperature=settings.temperature,
            top_p=settings.top_p,
            generator=stream,
        )
        texts = models.decode(lm, made)
        found += [f"{one.opening}{text}" if one.opening else text for one, text in zip(part, texts, strict=True)]
        progress(len(found), len(asked))
    return found


def cleaned(asked: Sequence[Request], texts: Sequence[str], settings: Generator) -> list[Candidate]:
    """What is long enough once the sentences that name the label are gone."""
    found = []
    for one, text in zip(asked, texts, strict=True):
        kept = without_label(text, one.label)
        if len(kept.split()) >= settings.least_words:
            found.append(Candidate(one.label, kept))
    return found


def without_label(text: str, label: str) -> str:
    sentences = [part.strip() for part in SENTENCE.split(text)]
    return " ".join(part for part in sentences if part and label.lower() not in part.lower())


def from_files(files: Sequence[Path], settings: Generator, labels: Sequence[str]) -> list[Candidate]:
    """Texts that were made elsewhere; those of labels that are not listed are left out."""
    known = set(labels)
    rows = read_rows(files, Columns(text="text", label="label"))
    pairs = [(Request(row.labels[0], "", ""), row.text) for row in rows if row.labels and row.labels[0] in known]
    return cleaned([one for one, _ in pairs][: settings.texts], [text for _, text in pairs][: settings.texts], settings)


def declared(settings: Generator) -> Iterator[str]:
    """Every text of the owner's files, as it stands there: of no unit, says the owner. What a model wrote is not among
    them: it comes from public or released things, and to refuse it for being in the corpus would tell that it is."""
    if settings.files:
        yield from (row.text for row in read_rows(settings.files, Columns(text="text")))


def check(candidates: Sequence[Candidate], labels: Sequence[str]) -> None:
    """Refuses a pool that cannot become a corpus."""
    found = {one.label for one in candidates}.intersection(labels)
    if len(found) < 2:
        raise DataError(
            f"the generator wrote usable texts for {len(found)} of {len(labels)} labels; need at least 2: change "
            "generator.prompt, or lower generator.least_words"
        )


def save(candidates: Iterable[Candidate], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in candidates))


def load(path: Path) -> list[Candidate]:
    with path.open(encoding="utf-8") as file:
        return [Candidate(**json.loads(line)) for line in file]
