"""Kestrel Air's help desk: a simulated corpus of customer-service chats, the same for everybody who has the seed.

    from hearsay.demo.airline import Airline
    for turn in Airline(customers=1000, seed=0).turns(): ...

Each customer has a random stream of their own, derived from the seed and their number alone, so customer 17 writes
the same words whether there are twenty customers or a million. What is secret - names and booking codes - is written
letter for letter in every row that holds it, so finding a leak is a search for a string. How hard the text is to model
is fixed here and documented in docs/airline.md; methods are tuned on it, it is not tuned for methods.
"""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from hearsay.demo.customers import ERRAND_ODDS, LANES, Customer, Habits, draw_customer, pareto
from hearsay.demo.errands import ERRANDS
from hearsay.demo.facts import CUSTOMER_FACTS, INVENTORS, KEEP_CASE, TRIP, customer_facts
from hearsay.demo.grammar import Dice, Grammar, Odds, Scene
from hearsay.demo.grievances import GRIEVANCES
from hearsay.demo.handwriting import add_sentence, capitalise, tidy, write_down
from hearsay.demo.phrases import PIECES, SHARED, TONES
from hearsay.demo.smalltalk import ASIDES, SYNONYMS
from hearsay.disk import drafting
from hearsay.errors import ConfigError

__all__ = ["Airline", "CorpusFiles", "Customer", "Habits", "MeasuredTurn", "Turn", "files_in", "write_corpus"]

CUSTOMER, AGENT = "customer", "agent"
GRAMMAR = Grammar(
    {**PIECES, **SHARED, **ERRANDS, **GRIEVANCES, **ASIDES},
    tones=TONES,
    facts=CUSTOMER_FACTS | INVENTORS.keys(),
    synonyms=SYNONYMS,
)
EXCHANGES = pareto(1.1, 24)
# How a long dialogue goes on once the errand itself has been discussed.
DETOURS = Odds(("side", "price", "errand", "grumble", "wait"), (4.0, 3.0, 3.0, 2.0, 1.0))
# How often somebody adds a sentence nobody asked for, unless the row is long already.
TALKATIVE = {"plain": 0.55, "terse": 0.35, "polite": 0.55, "chatty": 0.8, "upset": 0.7}
AGENT_TALKATIVE = 0.55
LONG_ROW = 18
PART = 1000  # customers a process writes at once


@dataclass(frozen=True, slots=True)
class Turn:
    user: str
    dialogue: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class MeasuredTurn:
    """A turn with the bits of choice behind it: given all that came before, and for a reader of this row alone."""

    turn: Turn
    rule: str
    bits: float
    bits_alone: float


@dataclass(frozen=True)
class CorpusFiles:
    private: Path
    public: Path
    holdout: Path
    secrets: Path


class Airline:
    """So many customers of one lane from number `first` on; lanes (customer, public, holdout) never share a person."""

    def __init__(self, customers: int, seed: int = 0, *, lane: str = LANES[0], first: int = 0) -> None:
        if customers < 0 or lane not in LANES:
            raise ConfigError(
                f"got {customers} customers in lane {lane!r}, need 0 or more in one of {', '.join(LANES)}"
            )
        self._numbers, self._seed, self._lane = range(first, first + customers), seed, lane

    def customers(self) -> list[Customer]:
        return [self._customer(index)[0] for index in self._numbers]

    def turns(self) -> Iterator[Turn]:
        return (measured.turn for measured in self.measured_turns())

    def measured_turns(self) -> Iterator[MeasuredTurn]:
        for index in self._numbers:
            yield from _customer_turns(*self._customer(index))

    def secrets(self) -> list[str]:
        return [secret for customer in self.customers() for secret in (customer.name, *customer.codes)]

    def _customer(self, index: int) -> tuple[Customer, Dice]:
        dice = Dice(f"airline/{self._seed}/{self._lane}/{index}")
        return draw_customer(index, self._lane, self._seed, dice), dice


def files_in(folder: Path) -> CorpusFiles:
    return CorpusFiles(*(folder / name for name in ("private.jsonl", "public.jsonl", "holdout.jsonl", "secrets.txt")))


def write_corpus(
    folder: Path, *, private_customers: int, public_customers: int, holdout_customers: int, seed: int = 0
) -> CorpusFiles:
    folder.mkdir(parents=True, exist_ok=True)
    files = files_in(folder)
    _write_lines(files.private, _many_rows(private_customers, seed))
    _write_lines(files.public, _rows(Airline(public_customers, seed, lane="public")))
    _write_lines(files.holdout, _rows(Airline(holdout_customers, seed, lane="holdout")))
    _write_lines(files.secrets, Airline(private_customers, seed).secrets())
    return files


def _many_rows(customers: int, seed: int) -> Iterator[str]:
    """By several processes where there are many: customers do not depend on one another."""
    if customers < 2 * PART:
        yield from _rows(Airline(customers, seed))
        return
    firsts = range(0, customers, PART)
    sizes = [min(PART, customers - first) for first in firsts]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for rows in pool.map(_part, sizes, [seed] * len(sizes), firsts):
            yield from rows


def _part(customers: int, seed: int, first: int) -> list[str]:
    return list(_rows(Airline(customers, seed, first=first)))


def _rows(airline: Airline) -> Iterator[str]:
    fields = ("user", "dialogue", "speaker", "text")
    return (
        json.dumps({field: getattr(turn, field) for field in fields}, ensure_ascii=False) for turn in airline.turns()
    )


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """In its place only when complete: an interrupted run leaves no file that looks like a corpus."""
    with drafting(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _customer_turns(customer: Customer, dice: Dice) -> Iterator[MeasuredTurn]:
    before = 0.0  # the first row pays for the person as well
    trips: dict[str, dict[str, tuple[str, float]]] = {code: {} for code in customer.codes}
    for number in range(customer.habits.dialogues):
        code = customer.codes[number % len(customer.codes)]
        known = {**customer_facts(customer, code), **trips[code]}
        scene = Scene(dice, INVENTORS, known, tone=customer.habits.tone, keep_case=KEEP_CASE)
        dialogue = f"{customer.user}/{number:02d}"
        for speaker, rule in _plan(customer.habits, dice):
            text, alone = _say(rule, speaker, customer.habits, scene)
            yield MeasuredTurn(Turn(customer.user, dialogue, speaker, text), rule, dice.bits - before, alone)
            before = dice.bits
        trips[code] = {fact: scene.known[fact] for fact in TRIP if fact in scene.known}


def _plan(habits: Habits, dice: Dice) -> list[tuple[str, str]]:
    """Who says what kind of thing, in order: one errand, with detours in the long dialogues."""
    errand = ERRAND_ODDS[habits.reason].draw(dice)
    plan = [(CUSTOMER, f"{errand}.open")]
    if dice.chance(0.85):
        plan += [(AGENT, "agent.identify"), (CUSTOMER, "customer.identify"), (AGENT, "agent.found")]
    if dice.chance(0.15):
        plan.append((AGENT, "agent.hold"))
    plan += [(AGENT, f"{errand}.ask"), (CUSTOMER, f"{errand}.tell")]
    for exchange in range(EXCHANGES.draw(dice) - 1):
        plan += _exchange(errand, "errand" if exchange == 0 else DETOURS.draw(dice))
    plan.append((AGENT, f"{errand}.done"))
    if dice.chance(0.8):
        bye = "customer.bye_upset" if habits.tone == "upset" and dice.chance(0.5) else "customer.bye"
        plan += [(CUSTOMER, bye), (AGENT, "agent.bye")]
    return plan


def _exchange(errand: str, topic: str) -> list[tuple[str, str]]:
    if topic == "errand":
        return [(AGENT, f"{errand}.offer"), (CUSTOMER, f"{errand}.react")]
    return [(CUSTOMER, f"customer.{topic}"), (AGENT, f"agent.{topic}")]


def _say(rule: str, speaker: str, habits: Habits, scene: Scene) -> tuple[str, float]:
    """The row's text, and the bits it takes somebody who has read nothing else."""
    start = scene.dice.bits
    scene.mentioned.clear()
    scene.recalled = habits.costs["tone"] + habits.costs["manner"] if speaker == CUSTOMER else 0.0
    scene.lowercase = speaker == CUSTOMER and habits.manner in ("lower", "sloppy")
    text = _words(rule, speaker, habits.tone, scene)
    text = write_down(text, habits.manner, scene.dice) if speaker == CUSTOMER else capitalise(text)
    return text, scene.dice.bits - start + scene.recalled


def _words(rule: str, speaker: str, tone: str, scene: Scene) -> str:
    text = tidy(GRAMMAR.expand(rule, scene))
    talkative, unasked = (TALKATIVE[tone], "customer.aside") if speaker == CUSTOMER else (AGENT_TALKATIVE, "agent.note")
    if text.count(" ") < LONG_ROW and scene.dice.chance(talkative):
        text = add_sentence(text, tidy(GRAMMAR.expand(unasked, scene)))
    return text
