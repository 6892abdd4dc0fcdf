"""Whether a plan can work, in words, and which method suits a declared corpus.

Answers teach little below ENOUGH_TOKENS of information, and cannot know more than their teachers do. For updates what
counts is the noise of a whole run against the clip, sqrt(dimensions) / (mu units). EVIDENCE is what was measured of it
(docs/studies.md, table 1 at epsilon 3; a test compares). UPDATES_DROWN is where we would no longer try: a judgement,
not a measurement.
"""

import math

from hearsay.accounting.request import Request

ENOUGH_TOKENS = 1e4  # fewer teach little
ENOUGH_SENTENCES = 100  # fewer per teacher cap what the ensemble can know
GOOD_SENTENCES = 300
UPDATES_DROWN = 0.75
EVIDENCE = {0.18: 0.66, 0.53: 0.50}  # noise over clip: share of the gap closed, on dialogues and on speeches


def noise_over_clip(request: Request, mu: float) -> float:
    """Of a whole run of updates: the length of its noise, in clips of the mean update."""
    part = mu * math.sqrt(request.share_of_updates)
    return math.sqrt(request.dimensions) / (part * request.units) if request.units and part else math.inf


def judge_updates(request: Request, mu: float) -> tuple[bool, str]:
    found = noise_over_clip(request, mu)
    text = f"over the run the noise is {found:.2f} of the clip in {request.dimensions:,} dimensions"
    if found <= UPDATES_DROWN:
        return True, f"{text}; up to {UPDATES_DROWN} updates are worth trying"
    fewer = int((UPDATES_DROWN / found) ** 2 * request.dimensions)
    return False, (
        f"{text}; above {UPDATES_DROWN} nothing was measured. Need at most {fewer:,} dimensions (adapter.rank or "
        f"adapter.blocks times {int(100 * fewer / request.dimensions) / 100}), more units, or a larger epsilon; what "
        f"suits as it is: {suits(request, mu)}"
    )


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


def suits(request: Request, mu: float) -> str:
    """Which method suits the declared corpus: updates where the noise leaves them room, answers elsewhere."""
    if request.units and (found := math.sqrt(request.dimensions) / (mu * request.units)) <= UPDATES_DROWN:
        seen = ", ".join(f"at {noise:.2f} they closed {share:.2f}" for noise, share in EVIDENCE.items())
        return f"updates (over the run their noise is {found:.2f} of the clip; where measured, {seen} of the gap)"
    if not request.sentences:
        return "hellinger; declare data.units and data.sentences to learn whether updates suit, and how many teachers"
    best = max(1, round(request.sentences / GOOD_SENTENCES))
    least = math.ceil(math.sqrt(ENOUGH_TOKENS * 8) / mu)
    if request.units is not None and least > request.units:
        return (
            f"none: {request.units:,} units are too few at this budget; need {least:,} for answers, fewer dimensions "
            "for updates, or a larger epsilon"
        )
    count = max(best if request.units is None else min(best, request.units), least)
    return f"hellinger with about {count:,} teachers ({request.sentences / count:.0f} sentences each)"


def warnings(request: Request) -> list[str]:
    return of_delta(request.delta, request.units)


def of_delta(delta: float, units: int | None) -> list[str]:
    if units and delta > 0.1 / units:
        return [
            f"delta {delta:g} is above a tenth of 1/{units:,}: a mechanism that publishes one person "
            f"in {units:,} outright would pass; take at most {0.1 / units:.1g}"
        ]
    return []
