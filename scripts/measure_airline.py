"""How hard the simulated airline's text is: counts, heavy tail, entropy of the generator, and an n-gram reference.

    python scripts/measure_airline.py --private 3000 --holdout 600 [--tokenizer FOLDER/tokenizer.json]

The generator adds up -log2 of the probability of every choice it takes. That sum bounds the entropy of the text from
above (two ways of choosing may give the same words). The n-gram model is the reference from the other side: what a
model gets that only counts words.
"""

import argparse
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from hearsay.demo.airline import Airline, MeasuredTurn

WORD = re.compile(r"\w+(?:['-]\w+)*|[^\w\s]")
DISTINCT_ROWS = 20_000
START = "<s>"


class KneserNey:
    """An interpolated Kneser-Ney word model of order 3. Words never seen are spelled out letter by letter, so that
    every word has a probability and none is swept under an <unk>."""

    def __init__(self, rows: Iterable[Sequence[str]], discount: float = 0.75) -> None:
        self._discount = discount
        trigrams = Counter(gram for row in rows for gram in _grams(row))
        bigrams = Counter(gram[1:] for gram in trigrams)
        unigrams = Counter(gram[1:] for gram in bigrams)
        self._levels = [_Level(counts) for counts in (trigrams, bigrams, unigrams)]
        letters = Counter(letter for (word,) in unigrams for letter in f"{word}\n")
        self._letters, self._letter_total = letters, letters.total() + 256

    def bits(self, row: Sequence[str]) -> float:
        return -sum(math.log2(self._probability(gram, 0)) for gram in _grams(row))

    def _probability(self, gram: tuple[str, ...], level: int) -> float:
        if level == len(self._levels):
            return self._spelling(gram[-1] if gram else "")
        counts, context = self._levels[level], gram[:-1]
        lower = gram[1:] if len(gram) > 1 else gram
        total = counts.totals.get(context, 0)
        below = self._probability(lower, level + 1)
        if not total:
            return below
        kept = max(counts.grams.get(gram, 0) - self._discount, 0.0) / total
        return kept + self._discount * counts.followers[context] / total * below

    def _spelling(self, word: str) -> float:
        return math.prod((self._letters[letter] + 1) / self._letter_total for letter in f"{word}\n")


class _Level:
    def __init__(self, grams: Counter[tuple[str, ...]]) -> None:
        self.grams = dict(grams)
        self.totals: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self.followers: defaultdict[tuple[str, ...], int] = defaultdict(int)
        for gram, count in grams.items():
            self.totals[gram[:-1]] += count
            self.followers[gram[:-1]] += 1


def _grams(row: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip([START, START, *row], [START, *row], row, strict=False)


def quantiles(values: Iterable[int]) -> dict[str, int]:
    ordered = sorted(values)
    shares = {"5%": 0.05, "25%": 0.25, "50%": 0.5, "75%": 0.75, "90%": 0.9, "99%": 0.99, "max": 1.0}
    return {name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] for name, share in shares.items()}


def describe(rows: Sequence[MeasuredTurn]) -> dict[str, object]:
    texts = [row.turn.text for row in rows]
    words = [word for text in texts for word in WORD.findall(text)]
    return {
        "turns": len(rows),
        "dialogues": len({row.turn.dialogue for row in rows}),
        "turns_per_customer": quantiles(Counter(row.turn.user for row in rows).values()),
        "turns_per_dialogue": quantiles(Counter(row.turn.dialogue for row in rows).values()),
        "words_and_signs": len(words),
        "words_per_turn": quantiles(len(text.split()) for text in texts),
        "vocabulary": len(set(words)),
        "type_token_ratio": round(len(set(words)) / len(words), 4),
        **repetition(rows[:DISTINCT_ROWS]),
    }


def repetition(rows: Sequence[MeasuredTurn]) -> dict[str, object]:
    """Within the first rows only, since any text repeats itself if it is long enough."""
    heard = Counter(row.turn.text for row in rows)
    customer = [row.turn.text for row in rows if row.turn.speaker == "customer"]
    again = [row for row in rows if row.turn.speaker == "agent" and heard[row.turn.text] > 1]
    return {
        "rows_compared": len(rows),
        "distinct_share_customer": round(len(set(customer)) / len(customer), 4),
        "repeated_agent_share": round(len(again) / len(rows), 4),
    }


def entropy(rows: Sequence[MeasuredTurn]) -> dict[str, float]:
    """Bits of choice a turn: for a reader of everything before it, and for a reader of the row alone, who must also
    guess what kind of turn it is and every fact settled earlier."""
    words = sum(len(WORD.findall(row.turn.text)) for row in rows)
    kinds = Counter(row.rule for row in rows)
    kind_bits = -sum(count * math.log2(count / len(rows)) for count in kinds.values())
    known, alone = sum(row.bits for row in rows), sum(row.bits_alone for row in rows) + kind_bits
    return {
        "bits_per_turn": round(known / len(rows), 2),
        "bits_per_word": round(known / words, 3),
        "bits_per_turn_alone": round(alone / len(rows), 2),
        "bits_per_word_alone": round(alone / words, 3),
    }


def reference(train: Sequence[MeasuredTurn], test: Sequence[MeasuredTurn]) -> dict[str, float]:
    model = KneserNey(WORD.findall(row.turn.text) for row in train)
    rows = [WORD.findall(row.turn.text) for row in test]
    bits, words = sum(model.bits(row) for row in rows), sum(len(row) for row in rows)
    seen = {word for row in train for word in WORD.findall(row.turn.text)}
    unseen = sum(word not in seen for row in rows for word in row)
    return {
        "perplexity_per_word": round(2 ** (bits / words), 2),
        "bits_per_word": round(bits / words, 3),
        "bits_per_turn": round(bits / len(rows), 2),
        "unseen_words": round(unseen / words, 4),
    }


def tokens(rows: Sequence[MeasuredTurn], tokenizer: Path) -> dict[str, object]:
    # Imported here so that the other figures need the standard library alone.
    from tokenizers import Tokenizer

    encode = Tokenizer.from_file(str(tokenizer)).encode_batch
    lengths = [len(row.ids) for row in encode([row.turn.text for row in rows], add_special_tokens=False)]
    return {"tokens_per_turn": quantiles(lengths), "tokens_mean": round(sum(lengths) / len(lengths), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=int, default=3000, metavar="CUSTOMERS")
    parser.add_argument("--holdout", type=int, default=600, metavar="CUSTOMERS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json, to count byte-pair tokens as well")
    options = parser.parse_args()
    private = list(Airline(options.private, options.seed).measured_turns())
    holdout = list(Airline(options.holdout, options.seed, lane="holdout").measured_turns())
    report = {"private": describe(private), "entropy": entropy(private), "trigram": reference(private, holdout)}
    if options.tokenizer:
        report["tokens"] = tokens(holdout, options.tokenizer)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
