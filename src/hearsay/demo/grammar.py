"""A small grammar for simulated talk, which knows how many bits each sentence took.

A rule is a block of lines, one alternative a line. Inside a line `(a|b|)` chooses, and may nest; `<name>` is another
rule, a rule in the speaker's tone (`name.polite`), or a fact of the scene such as a flight number. The first time
somebody mentions a fact it is invented; from then on everybody in the dialogue repeats it. A word or phrase that has
synonyms is exchanged for any of them wherever it stands.

Choices are somewhat skewed, not uniform, since people have favourite words. Every choice adds its -log2 probability to
the dice, so the entropy of the generator is measured rather than guessed.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

from hearsay.errors import ConfigError

T = TypeVar("T")
SKEW = 0.2  # a power law; 0 would be uniform, and words as a whole follow one near 1


class Dice:
    """A random stream that counts the bits of choice it has given away."""

    __slots__ = ("bits", "random")

    def __init__(self, seed: str) -> None:
        # A text seeds Python's generator through SHA-512: the same everywhere, whatever PYTHONHASHSEED says.
        self.random: Callable[[], float] = Random(seed).random
        self.bits = 0.0

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included, all equally likely."""
        self.bits += math.log2(high - low + 1)
        return low + int(self.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        hit = self.random() < probability
        self.bits -= math.log2(probability if hit else 1.0 - probability)
        return hit


class Odds(Generic[T]):
    """Options with fixed odds; by default each option is somewhat likelier than the next."""

    __slots__ = ("costs", "edges", "options")

    def __init__(self, options: Sequence[T], weights: Sequence[float] = ()) -> None:
        given = weights or [(rank + 2) ** -SKEW for rank in range(len(options))]
        total = math.fsum(given)
        self.options = tuple(options)
        self.costs = tuple(math.log2(total / weight) for weight in given)
        # The last edge is left out so that rounding can never point past the last option.
        self.edges = [edge / total for edge in accumulate(given)][:-1]

    def draw(self, dice: Dice) -> T:
        chosen = bisect_right(self.edges, dice.random())
        dice.bits += self.costs[chosen]
        return self.options[chosen]


@dataclass(slots=True)
class Scene:
    """What one dialogue has settled so far, and who is speaking."""

    dice: Dice
    inventors: Mapping[str, "Callable[[Scene], str]"]
    known: dict[str, tuple[str, float]]
    tone: str = ""
    lowercase: bool = False
    keep_case: frozenset[str] = frozenset()
    # Bits that a reader of this row alone lacks: facts settled in earlier rows and repeated here.
    recalled: float = 0.0
    mentioned: set[str] = field(default_factory=set)

    def fact(self, name: str) -> str:
        """The fact in the speaker's spelling."""
        value = self.settle(name)
        return value.lower() if self.lowercase and name not in self.keep_case else value

    def settle(self, name: str) -> str:
        """The fact itself, invented if nobody has mentioned it."""
        known = self.known.get(name)
        if known is None:
            before = self.dice.bits + self.recalled
            value = self.inventors[name](self)
            known = self.known[name] = (value, self.dice.bits + self.recalled - before)
        elif name not in self.mentioned:
            self.recalled += known[1]
        self.mentioned.add(name)
        return known[0]


Expand = Callable[[Scene], str]


class Grammar:
    """Rules compiled once to nested functions: expanding costs microseconds, and a misspelt name fails at import."""

    def __init__(
        self,
        rules: Mapping[str, str],
        *,
        tones: Sequence[str],
        facts: Collection[str],
        synonyms: Mapping[str, Sequence[str]],
    ) -> None:
        self._rules, self._tones, self._facts, self._synonyms = rules, tones, facts, synonyms
        longest_first = sorted(synonyms, key=len, reverse=True)
        self._swappable = re.compile(rf"(?<![\w'-])({'|'.join(map(re.escape, longest_first))})(?![\w'-])")
        self._compiled: dict[str, Expand] = {}
        for name in rules:
            self._rule(name)

    def expand(self, rule: str, scene: Scene) -> str:
        return self._compiled[rule](scene)

    def _rule(self, name: str) -> Expand:
        if name not in self._compiled:
            lines = [line.strip() for line in self._rules[name].strip().splitlines()]
            self._compiled[name] = _choice([self._line(line) for line in lines])
        return self._compiled[name]

    def _reference(self, name: str) -> Expand:
        if name in self._rules:
            return self._rule(name)
        if f"{name}.{self._tones[0]}" in self._rules:
            by_tone = {tone: self._rule(f"{name}.{tone}") for tone in self._tones}
            return lambda scene: by_tone[scene.tone](scene)
        if name in self._facts:
            return lambda scene: scene.fact(name)
        raise ConfigError(f"got <{name}> in a phrase, need a rule, a rule in every tone, or a fact of that name")

    def _line(self, line: str) -> Expand:
        expand, rest = self._sequence(line)
        if rest:
            raise ConfigError(f"got an unmatched bracket before {rest!r}, need balanced ( ) in {line!r}")
        return expand

    def _sequence(self, text: str) -> tuple[Expand, str]:
        """The parts of text up to the | or ) that ends them, and what is left from there on."""
        parts: list[Expand] = []
        while text and text[0] not in "|)":
            if text[0] == "(":
                part, text = self._brackets(text[1:])
            elif text[0] == "<":
                name, _, text = text[1:].partition(">")
                part = self._reference(name)
            else:
                length = next((i for i, sign in enumerate(text) if sign in "(<|)"), len(text))
                part, text = self._words(text[:length]), text[length:]
            parts.append(part)
        return _concatenation(parts), text

    def _words(self, text: str) -> Expand:
        parts: list[Expand] = []
        plain = ""
        for piece in self._swappable.split(text):
            if piece in self._synonyms:
                parts += [_literal(plain)] * bool(plain) + [_choice([_literal(word) for word in self._synonyms[piece]])]
                plain = ""
            else:
                plain += piece
        return _concatenation([*parts, _literal(plain)] if plain else parts)

    def _brackets(self, text: str) -> tuple[Expand, str]:
        options: list[Expand] = []
        while True:
            option, text = self._sequence(text)
            options.append(option)
            if not text:
                raise ConfigError("got a phrase with an open bracket, need balanced ( )")
            closing, text = text[0], text[1:]
            if closing == ")":
                return _choice(options), text


def _literal(text: str) -> Expand:
    return lambda scene: text


def _concatenation(parts: Sequence[Expand]) -> Expand:
    if len(parts) == 1:
        return parts[0]
    return lambda scene: "".join([part(scene) for part in parts])


def _choice(options: Sequence[Expand]) -> Expand:
    if len(options) == 1:
        return options[0]
    odds = Odds(options)
    return lambda scene: odds.draw(scene.dice)(scene)
