"""St Brendan's clinic: simulated notes by specialty with patient identifiers, the same for everybody with the seed.

    from hearsay.demo.clinic import notes
    for note in notes(patients=1000, seed=0): ...

Each patient has a random stream of their own, derived from the seed and their number alone, so patient 17 is the same
among twenty patients or a million. Names and record numbers are the secrets: they are written letter for letter, so
finding a leak is a search for a string. Nothing here is from a real note.
"""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hearsay.demo.clinic_words import CLOSE, COURSE, HEADS, ODDS, SPECIALTIES
from hearsay.demo.people import FIRST_NAMES, LAST_NAMES

LABELS = tuple(SPECIALTIES)
RARE = "tropical medicine"  # a label that is listed nowhere: one patient in a hundred has it
LANES = ("private", "holdout")
SECOND = 0.35  # chance of a further note
PLAIN = 0.7  # chance that a note also says in plain words what is the matter
MIXED = 0.12  # chance that a note belongs to two specialties


@dataclass(frozen=True)
class Note:
    patient: str
    labels: str  # joined by a bar, as in files where a note has several
    text: str
    coded: str  # the same behind its control code, for a student that shall write by label


@dataclass(frozen=True)
class ClinicFiles:
    private: Path
    holdout: Path
    secrets: Path
    public: Path  # first words behind control codes, of nobody: what a coded student is warmed up on


def notes(patients: int, seed: int = 0, lane: str = "private") -> Iterator[Note]:
    for number in range(patients):
        yield from _visits(random.Random(f"clinic {seed} {lane} {number}"), f"{lane}-{number}")


def secrets(patients: int, seed: int = 0, lane: str = "private") -> Iterator[str]:
    for number in range(patients):
        yield from _identity(random.Random(f"clinic {seed} {lane} {number}"))


def _identity(chance: random.Random) -> tuple[str, str]:
    """Drawn first from the patient's stream, so that it can be told without the notes."""
    name = f"{chance.choice(FIRST_NAMES)} {chance.choice(LAST_NAMES)}"
    return name, f"SB-{chance.randrange(10**6):06d}"


def _visits(chance: random.Random, patient: str) -> Iterator[Note]:
    name, number = _identity(chance)
    age = chance.randint(18, 92)
    while True:
        labels = _labels(chance)
        text = _text(chance, labels, name, number, age)
        yield Note(patient, "|".join(labels), text, f"[{labels[0]}] {text}")
        if chance.random() > SECOND:
            return


def _labels(chance: random.Random) -> list[str]:
    if chance.random() < 0.01:
        return [RARE]
    first = chance.choices(LABELS, ODDS)[0]
    second = chance.choices(LABELS, ODDS)[0]
    return [first, second] if second != first and chance.random() < MIXED else [first]


def _text(chance: random.Random, labels: list[str], name: str, number: str, age: int) -> str:
    known = [SPECIALTIES.get(label, SPECIALTIES["dermatology"]) for label in labels]
    main, other = known[0], known[-1]
    style = chance.choice(tuple(HEADS))
    head = HEADS[style]
    who = f"{name} ({number}), {age}." if chance.random() < 0.6 else f"Patient {number}, aged {age}."
    complaint = f"{head[0]}{chance.choice(main.complaints)} {chance.choice(COURSE)}"
    public = f"known {chance.choice(main.terms)}"
    found = f"{head[1]}{chance.choice(other.findings)}"
    done = f"{head[2]}{chance.choice(main.acts)}"
    first = chance.choice(main.drugs)
    drugs = f"{head[3]}{first}, {chance.choice([drug for drug in other.drugs if drug != first])}"
    middle = [f"{found}.", f"{done}.", f"{drugs}."]
    if style != "letter":
        chance.shuffle(middle)
    known_part = f", {public}" if chance.random() < PLAIN else ""
    return " ".join([who, f"{complaint}{known_part}.", *middle[: chance.randint(2, 3)], chance.choice(CLOSE)])


def openings() -> Iterator[str]:
    """How a note of each specialty may begin, from public words alone, behind its control code."""
    for label, known in SPECIALTIES.items():
        for term in known.terms:
            yield from (f"[{label}] Patient, aged 61. {head[0]}{term} {COURSE[0]}." for head in HEADS.values())


def files_in(folder: Path) -> ClinicFiles:
    return ClinicFiles(*(folder / name for name in ("private.jsonl", "holdout.jsonl", "secrets.txt", "public.jsonl")))


def write_corpus(folder: Path, *, patients: int, holdout: int, seed: int = 0) -> ClinicFiles:
    """Notes, notes of other patients, secrets and public openings: the same bytes for the same arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    files = files_in(folder)
    _write(files.private, notes(patients, seed))
    _write(files.holdout, notes(holdout, seed, "holdout"))
    files.public.write_text("".join(json.dumps({"coded": text}) + "\n" for text in openings()), encoding="utf-8")
    files.secrets.write_text("".join(f"{phrase}\n" for phrase in secrets(patients, seed)), encoding="utf-8")
    return files


def _write(path: Path, rows: Iterable[Note]) -> None:
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows), encoding="utf-8")
