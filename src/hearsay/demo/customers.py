"""One simulated customer: secrets that nobody shares, and habits that colour everything they write.

Names and booking codes are permutations of the customer's number, not draws: two customers can never share one, however
many there are, and a secret found in a model's output has exactly one owner.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from hearsay.demo.grammar import Dice, Odds
from hearsay.demo.grievances import FREQUENCY
from hearsay.demo.people import CITIES, COMPANIONS, FIRST_NAMES, LAST_NAMES, MEALS, REASONS, SEATS
from hearsay.demo.phrases import TONES
from hearsay.errors import ConfigError

# Private, public and hold-out customers are numbered in turn, so a split never moves another split's customers.
LANES = ("customer", "public", "holdout")
CODE_SIGNS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # 32 signs without I, O, 0 and 1, which people misread
CODES_EACH = 64
NAMES = len(FIRST_NAMES) * len(LAST_NAMES)
INITIALS = ("", *"ABCDEFGHJKLMNPRSTUVWYZ")
MAX_NUMBER = min(NAMES * len(INITIALS), len(CODE_SIGNS) ** 6 // CODES_EACH)
CODE_BITS = 6 * math.log2(len(CODE_SIGNS))


def pareto(alpha: float, cap: int) -> Odds[int]:
    """Counts with P(N >= n) = n^-alpha up to a cap: most people write once, a few write all the time."""
    tail = [float(n) ** -alpha for n in range(1, cap + 1)]
    return Odds(range(1, cap + 1), [here - after for here, after in zip(tail, [*tail[1:], 0.0], strict=True)])


DIALOGUES = pareto(1.25, 60)
TIERS = Odds(("blue", "silver", "gold", "platinum"), (6.0, 3.0, 2.0, 1.0))
MANNERS = Odds(("careful", "casual", "lower", "sloppy"), (5.0, 4.0, 4.0, 2.0))
VOICES = Odds(TONES, (5.0, 4.0, 3.0, 3.0, 3.0))
MAILS = Odds(
    ("{first}.{last}", "{first}{last}{year}", "{last}.{first}", "{first}_{last}", "{last}{year}", "{first}{year}")
)
HOSTS = Odds(("mail.example", "inbox.example", "post.example", "example.com", "example.org", "example.net"))
PLACES = Odds(CITIES)
ERRAND_ODDS = {
    reason: Odds(list(FREQUENCY), [weight * likelier.get(errand, 1.0) for errand, weight in FREQUENCY.items()])
    for reason, (_, likelier) in REASONS.items()
}
OCCASIONS = {reason: Odds(occasions) for reason, (occasions, _) in REASONS.items()}
_REASONS, _SEATS, _MEALS, _COMPANIONS = Odds(list(REASONS)), Odds(SEATS), Odds(MEALS), Odds(COMPANIONS)


@dataclass(frozen=True)
class Habits:
    """What stays the same over a customer's dialogues; `costs` are the bits each took to draw."""

    home: str
    destination: str
    seat: str
    meal: str
    companion: str
    reason: str
    tier: str
    tone: str
    manner: str
    card: str
    dialogues: int
    costs: Mapping[str, float]


@dataclass(frozen=True)
class Customer:
    user: str
    name: str
    email: str
    codes: tuple[str, ...]
    habits: Habits

    @property
    def first_name(self) -> str:
        return self.name.split()[0]


def draw_customer(index: int, lane: str, seed: int, dice: Dice) -> Customer:
    number = index * len(LANES) + LANES.index(lane)
    if number >= MAX_NUMBER:
        raise ConfigError(f"got {lane} number {index}, need at most {MAX_NUMBER // len(LANES) - 1}: names would repeat")
    habits = _habits(dice)
    name = _name(number, seed)
    before = dice.bits
    email = _email(name, dice)
    costs = {**habits.costs, "name": math.log2(NAMES), "email": dice.bits - before, "code": CODE_BITS}
    codes = tuple(_code(number, turn, seed) for turn in range(1 + habits.dialogues // 3))
    # A name and codes are as hard to guess as draws, though they cost this stream nothing.
    dice.bits += costs["name"] + CODE_BITS * len(codes)
    return Customer(f"{lane}-{index:06d}", name, email, codes, Habits(**{**vars(habits), "costs": costs}))


def _habits(dice: Dice) -> Habits:
    drawn: dict[str, str] = {}
    costs: dict[str, float] = {}
    odds = {"home": PLACES, "destination": PLACES, "seat": _SEATS, "meal": _MEALS, "companion": _COMPANIONS}
    for habit, table in {**odds, "reason": _REASONS, "tier": TIERS, "tone": VOICES, "manner": MANNERS}.items():
        before = dice.bits
        drawn[habit] = table.draw(dice)
        costs[habit] = dice.bits - before
    before = dice.bits
    card = f"{dice.number(100, 999)} {dice.number(100, 999)} {dice.number(10, 99)}"
    costs["card"] = dice.bits - before
    return Habits(**drawn, card=card, dialogues=DIALOGUES.draw(dice), costs=costs)


def _email(name: str, dice: Dice) -> str:
    first, *_, last = name.lower().split()
    local = MAILS.draw(dice)
    year = f"{dice.number(50, 99)}" if "year" in local else ""
    return f"{local.format(first=first, last=last, year=year)}@{HOSTS.draw(dice)}"


def _name(number: int, seed: int) -> str:
    lap, place = divmod(number, NAMES)
    place = _permute(place, 8, f"{seed}/name")
    while place >= NAMES:  # walk the cycle until it is back among the names: still a permutation
        place = _permute(place, 8, f"{seed}/name")
    first, last = divmod(place, len(LAST_NAMES))
    # The second lap through all pairs adds a middle initial, so a large simulation has no namesakes either.
    middle = f" {INITIALS[lap]}." if lap else ""
    return f"{FIRST_NAMES[first]}{middle} {LAST_NAMES[last]}"


def _code(number: int, turn: int, seed: int) -> str:
    place = number * CODES_EACH + turn
    while True:
        place = _permute(place, 15, f"{seed}/code")
        code = "".join(CODE_SIGNS[place >> shift & 31] for shift in range(0, 30, 5))
        if code[0].isalpha():  # a code of digits alone could be part of a price or a file number
            return code


def _permute(place: int, half: int, key: str) -> int:
    """A keyed Feistel permutation of the numbers of 2 * half bits."""
    left, right = place >> half, place & ((1 << half) - 1)
    for lap in range(4):
        digest = hashlib.blake2b(f"{key}/{lap}/{right}".encode(), digest_size=4).digest()
        left, right = right, left ^ (int.from_bytes(digest) & ((1 << half) - 1))
    return left << half | right
