"""How people type: capitals or none, a full stop or none, shorthand, dropped words, slips of the finger.

Nothing here touches a name, a booking code or an address: secrets stay searchable as plain strings.
"""

import re
from collections.abc import Callable

from hearsay.demo.grammar import Dice, Odds

SLIPS = {"careful": 0.03, "casual": 0.12, "lower": 0.15, "sloppy": 0.5}
# How readily a hurried writer takes the short form of a word; the short form of an article is to leave it out.
HURRY = {"lower": 0.2, "sloppy": 0.5}
SHORTHAND = {
    "you": "u",
    "your": "ur",
    "are": "r",
    "please": "pls",
    "thanks": "thx",
    "and": "&",
    "because": "bc",
    "to": "2",
    "for": "4",
    "tomorrow": "tmrw",
    "tonight": "2nite",
    "with": "w",
    "about": "abt",
    "hours": "hrs",
    "minutes": "min",
    "the": "",
    "a": "",
    "my": "",
    "is": "",
    "was": "",
    "our": "",
    "that": "",
    "before": "b4",
    "really": "rly",
    "okay": "k",
    "people": "ppl",
    "message": "msg",
    "passport": "pasport",
    "flight": "flt",
    "booking": "bkg",
}
_SPACED_SIGN = re.compile(r"\s+(?=[,.?!:])")
_BEFORE_VOWEL = re.compile(r"\ba(?= (?!one|uni|use|eu)[aeiou])")
_SENTENCE_START = re.compile(r"(?:^|(?<=[.?!] ))[a-z]")
_LONE_I = re.compile(r"\bi\b")
_SLIP_KINDS: Odds[Callable[[str, int], str]] = Odds(
    (
        lambda word, at: word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        lambda word, at: word[:at] + word[at + 1 :],
        lambda word, at: word[:at] + word[at] + word[at:],
    )
)


def tidy(text: str) -> str:
    """Choices leave double spaces, stray commas and an `a` before a vowel behind."""
    return _BEFORE_VOWEL.sub("an", _SPACED_SIGN.sub("", " ".join(text.split()))).lstrip(",.: ")


def add_sentence(text: str, sentence: str) -> str:
    return f"{text} {sentence}" if text[-1] in ".?!" else f"{text}. {sentence}"


def capitalise(text: str) -> str:
    return _SENTENCE_START.sub(lambda start: start[0].upper(), _LONE_I.sub("I", text))


def write_down(text: str, manner: str, dice: Dice) -> str:
    """The text as a customer of this manner types it."""
    if manner in HURRY:
        text = _hurry(text, HURRY[manner], dice)
    if dice.chance(SLIPS[manner]):
        text = _mistype(text, dice)
    if manner in HURRY:
        return text.replace("'", "") if manner == "sloppy" else text
    return capitalise(text) if manner == "casual" or text[-1] in ".?!" else f"{capitalise(text)}."


def _hurry(text: str, readiness: float, dice: Dice) -> str:
    words = [SHORTHAND[word] if word in SHORTHAND and dice.chance(readiness) else word for word in text.split(" ")]
    return " ".join(filter(None, words))


def _mistype(text: str, dice: Dice) -> str:
    words = text.split(" ")
    places = [place for place, word in enumerate(words) if len(word) > 3 and word.isalpha() and word.islower()]
    if places:
        place = places[dice.number(0, len(places) - 1)]
        at = dice.number(1, len(words[place]) - 2)
        words[place] = _SLIP_KINDS.draw(dice)(words[place], at)
    return " ".join(words)
