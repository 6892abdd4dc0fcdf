"""Whether a plan can work, in words, and which method suits a declared corpus.

Answers teach little below ENOUGH_TOKENS of information, and cannot know more than their teachers do. For updates what
counts is the noise of a whole run against the clip, sqrt(dimensions) / (mu units). EVIDENCE is what was measured of it
(docs/studies.md, figure 2; a test compares). UPDATES_DROWN is where we would no longer try: a judgement, not a
measurement.
"""

import math

from hearsay.accounting import gaussian, odds
from hearsay.accounting.budget import main_delta
from hearsay.accounting.request import Request

ENOUGH_TOKENS = 1e4  # fewer teach little
ENOUGH_SENTENCES = 25  # by 12 each students were worse (study `teachers`, simulated customers, epsilon 3)
GOOD_SENTENCES = 50  # best there were 25 to 50, on dialogues 73, the fewest that were tried
FEWEST_ASKED = 2000  # by hellinger, where it was measured to teach
UPDATES_DROWN = 1.4
SURE = 0.9  # an attacker who may be right so often is promised to hardly anybody
EVIDENCE = (  # noise over clip, share of the gap closed, and on what; all with a base model of 20.7M parameters
    (0.02, 1.04, "dialogues"), (0.07, 0.87, "dialogues"), (0.18, 0.66, "dialogues"), (0.35, 0.45, "dialogues"),
    (0.47, 0.32, "dialogues"), (0.74, 0.10, "dialogues"),
    (0.05, 0.71, "speeches"), (0.18, 0.60, "speeches"), (0.53, 0.50, "speeches"), (1.02, 0.40, "speeches"),
    (1.38, 0.24, "speeches"), (3.1, 0.02, "speeches"),
)  # fmt: skip


def noise_over_clip(request: Request, mu: float) -> float:
    """Of a whole run of updates: the length of its noise, in clips of the mean update."""
    part = mu * math.sqrt(request.share_of_updates)
    return math.sqrt(request.dimensions) / (part * request.units) if request.units and part else math.inf


def judge_updates(request: Request, worth: float, tokens: float) -> tuple[bool, str]:
    """`tokens` are those of the answers that `mixed` asks beside them."""
    found = noise_over_clip(request, worth)
    text = f"over the run the noise is {found:.2f} of the clip in {request.dimensions:,} dimensions"
    if found <= UPDATES_DROWN:
        beside = ""
        if request.share_of_updates < 1 and tokens < ENOUGH_TOKENS:
            beside = f"; but its answers carry about {tokens:,.0f} tokens, too few to teach: recipe updates wastes none"
        return True, f"{text}; {measured_near(found)}{beside}"
    fewer = int((UPDATES_DROWN / found) ** 2 * request.dimensions)
    share = int(100 * fewer / request.dimensions) / 100
    less = [f"at most {fewer:,} dimensions (adapter.rank or adapter.blocks times {share})"] if share else []
    more = ["updates.sample 1 (less noise, more work)"] if request.sample < 1 else []
    ways = [*less, *more, "more units", "a larger epsilon"]
    return False, (
        f"{text}; above {UPDATES_DROWN} little is left of them: {measured_near(found)}. Need "
        f"{', '.join(ways[:-1])}, or {ways[-1]}"
    )


def measured_near(noise: float) -> str:
    """What updates did where their noise was most like this."""
    near: dict[str, tuple[float, float, str]] = {}
    for seen in sorted(EVIDENCE, key=lambda seen: abs(math.log(seen[0] / min(max(noise, 1e-9), 1e9)))):
        near.setdefault(seen[2], seen)  # the nearest of each corpus
    told = [f"{share:.2f} at {at:g} ({text})" for at, share, text in sorted(near.values())]
    return f"where measured (base model of 20.7M parameters), updates closed of the gap {' and '.join(told)}"


def judge_answers(request: Request, tokens: float, mean: float, per_teacher: float | None) -> tuple[bool, str]:
    if tokens < ENOUGH_TOKENS:
        return False, (
            f"the answers carry about {tokens:,.0f} tokens of information; below {ENOUGH_TOKENS:,.0f} they teach "
            f"little. {_remedy(request, tokens)}"
        )
    if request.recipe == "seqpate" and mean > 1 / request.candidates:
        return False, (
            f"the noise on the mean ({mean:.3f}) is larger than an even share of {request.candidates} candidates "
            f"({1 / request.candidates:.3f}): a third or more of the noisy values will be negative. Use recipe "
            "hellinger, more teachers or fewer queries"
        )
    if per_teacher is not None and per_teacher < ENOUGH_SENTENCES:
        return True, (
            f"the answers carry about {tokens:,.0f} tokens of information, but {per_teacher:.0f} sentences per teacher "
            f"cap what the teachers know (aim at {GOOD_SENTENCES} or more)"
        )
    return True, f"the answers carry about {tokens:,.0f} tokens of information, enough to teach"


def _remedy(request: Request, tokens: float) -> str:
    """The smallest change that would do, in the terms of the setting."""
    need = math.ceil(request.teachers * math.sqrt(ENOUGH_TOKENS / tokens))
    if request.units is None or need <= request.units:
        advice = f"Need {need:,} teachers at this budget"
        return advice + (", or recipe hellinger" if request.recipe == "seqpate" else "")
    return f"Even {request.units:,} teachers (one per unit) are too few: need a larger epsilon or more units"


def suits(request: Request, mu: float, worth: float) -> str:
    """Which method suits the declared corpus: updates where the noise leaves them room, answers elsewhere. `worth` is
    the mu of updates as sampled; `mu` is that of all units in every round, which no recipe forbids.
    """
    all_units = math.sqrt(request.dimensions) / (mu * request.units) if request.units else math.inf
    if all_units <= UPDATES_DROWN:
        found, how = all_units * mu / worth, ""
        if request.sample < 1 and not (request.share_of_updates and found <= UPDATES_DROWN):
            found, how = all_units, " with all units in every round, updates.sample: 1"
        if request.recipe == "updates" and not how:
            return "updates, as planned"
        return f"updates{how} (over the run their noise is {found:.2f} of the clip; {measured_near(found)})"
    if not request.sentences:
        return "hellinger; declare data.units and data.sentences to learn whether updates suit, and how many teachers"
    least = math.ceil(math.sqrt(ENOUGH_TOKENS * 8) / mu)
    if least > (request.units or math.inf) or request.sentences < ENOUGH_SENTENCES * least:
        return (
            f"none as it is: answers need {least:,} units and teachers of {ENOUGH_SENTENCES} sentences or more; "
            "updates need fewer dimensions (adapter.rank or adapter.blocks); both gain by a larger epsilon"
        )
    count = max(min(round(request.sentences / GOOD_SENTENCES), request.units or request.sentences), least)
    return f"hellinger with about {count:,} teachers ({request.sentences / count:.0f} sentences each)"


def warnings(request: Request) -> list[str]:
    return [
        *of_epsilon(request.epsilon, request.delta, request.unit),
        *of_delta(request.delta, request.units),
        *_of_questions(request),
    ]


def of_epsilon(epsilon: float, delta: float, unit: str) -> list[str]:
    right = gaussian.guess_rate(gaussian.mu_of(epsilon, main_delta(delta)))
    return [f"epsilon {epsilon:g} promises little: {told_odds(right, unit)}"] if right > SURE else []


def told_odds(right: float, unit: str) -> str:
    """In odds, what a guarantee leaves to an attacker who is right at most so often."""
    protected = "record" if unit == "record" else "person"
    return (
        f"who guesses, at 50:50, whether a given {protected} is in the corpus is right at most {odds.percent(right)}%"
    )


def _of_questions(request: Request) -> list[str]:
    if request.recipe in ("hellinger", "mixed") and request.queries < FEWEST_ASKED:
        return [
            f"{request.queries:,} questions look at few places, however little noise is on each: fewer than "
            f"{FEWEST_ASKED:,} were not measured to teach"
        ]
    return []


def of_delta(delta: float, units: int | None) -> list[str]:
    if units and delta > 0.1 / units:
        return [
            f"delta {delta:g} is above a tenth of 1/{units:,}: a mechanism that publishes one person "
            f"in {units:,} outright would pass; take at most {0.1 / units:.1g}"
        ]
    return []
