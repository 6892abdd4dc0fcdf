"""The canary twin: the same run once more, with canaries among its rows, under a research ledger of its own.

Never the production run: whatever is put into that is released with it. The twin lives in the run's private/ folder,
home, secret and ledger included, so that `forget` destroys it with the rest; what is found goes to internal/.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hearsay import config as configs
from hearsay import lm as models
from hearsay import pipeline
from hearsay import run as runs
from hearsay.accounting import identity
from hearsay.adapter_files import merged
from hearsay.audit import canaries as birds
from hearsay.audit.findings import DELTA, Finding
from hearsay.audit.mechanism import clopper_pearson
from hearsay.audit.shadows import overfit_shape, train_on
from hearsay.audit.statistics import ERROR, Promise
from hearsay.audit.subjects import Subject
from hearsay.config import Config
from hearsay.disk import drafting, write_text
from hearsay.lm import LanguageModel
from hearsay.private.stack import Stack
from hearsay.private.teaching import training_shape
from hearsay.reading import Columns, read_rows
from hearsay.run import Run
from hearsay.stages import Stages, Watch, pick_device

COINS = 200
EPOCHS = 4
ORDINARY = 200  # rows of the corpus among which the reference sees the canaries


@dataclass(frozen=True)
class Twin:
    """The twin's student, a reference that is not private, and what was put in."""

    student: LanguageModel
    private: LanguageModel
    public: LanguageModel
    canaries: list[birds.Canary]
    texts: list[str]
    coins: list[bool]
    cap: int
    digits: int


def make(run: Run, config: Config, watch: Callable[[str], Watch], *, digits: int = birds.DIGITS) -> Twin:
    """Runs or resumes the twin. Canaries and coins follow from the seed, so that a resumed twin is the same one."""
    folder = run.private / "canary-twin"
    folder.mkdir(mode=0o700, exist_ok=True)
    inserted = birds.draw(config.compute.seed, digits)
    texts, coins = birds.coin_canaries(COINS, config.compute.seed)
    cap = config.data.cap
    ours = birds.rows_of(inserted, cap)
    ours += [(f"coin-{i}", text) for i, text in enumerate(texts) if coins[i] for _ in range(cap)]
    public = models.load(config.model, device=pick_device(config.compute.device))
    settings = _settings(config, folder, _write(config, folder / "rows.jsonl", ours), ours, public)
    home = folder / "home"
    here = runs.begin(folder / "run", configs.to_yaml(settings), home / "ledger.sqlite", home)
    with here.working(), identity.at(home):
        work = pipeline.generate(settings, here, watch, anyway=True, research=True)
    student = models.load(str(here.release / "student"), device=work.lm.device)
    private = _reference(settings, work.lm, ours, folder / "rows.jsonl", Stages(run, watch))
    return Twin(student, private, work.lm, inserted, texts, coins, cap, digits)


def _write(config: Config, path: Path, ours: list[tuple[str, str]]) -> Path:
    if not path.exists():
        with drafting(path, mode=0o600) as draft, draft.open("w", encoding="utf-8") as file:
            for user, text in itertools.chain(_own_rows(config), ours):
                file.write(json.dumps({"user": user, "text": text}) + "\n")
    return path


def _own_rows(config: Config) -> Iterator[tuple[str, str]]:
    data = config.data
    for row in read_rows(data.private, Columns(text=data.text, user=data.user)):
        yield (row.text if row.user is None else row.user), row.text


def _settings(config: Config, folder: Path, rows: Path, ours: list[tuple[str, str]], lm: LanguageModel) -> Config:
    """The run's settings, on the rows with canaries; declared numbers grow by what was added, which is public.

    A canary that were cut or left out for its length would be looked for in vain.
    """
    lengths = {len(row) for row in models.encode(lm, [text for _, text in ours], 10_000)}
    longest = max(config.data.max_tokens, *lengths)
    users = len({user for user, _ in ours})
    body = config.model_dump()
    body["data"] |= {
        "private": [rows.resolve()], "user": "user", "text": "text", "public_text": None, "public_user": None,
        "units": config.data.units + users, "sentences": config.data.sentences + len(ours),
        "min_tokens": min(config.data.min_tokens, *lengths), "max_tokens": longest, "public": [_public(config, folder)],
    }  # fmt: skip
    body["teachers"] |= {"row_tokens": max(config.teachers.row_tokens, longest + 1)}
    body["student"] |= {"caution": 0}  # a student that stays where it was holds no canary, whatever its answers leak
    body["privacy"] |= {
        "corpus": f"canary twin of {config.privacy.corpus}",
        "secrets": None,
        "spend": 1.0,
        "unit": "user",
    }
    return Config.model_validate(body)


def _public(config: Config, folder: Path) -> Path:
    """Public rows under the twin's own column names."""
    path = folder / "public.jsonl"
    if not path.exists():
        rows = read_rows(config.data.public, Columns(text=config.data.public_column))
        write_text(path, "".join(json.dumps({"text": row.text}) + "\n" for row in rows))
    return path


def _reference(
    config: Config, lm: LanguageModel, ours: list[tuple[str, str]], rows: Path, flow: Stages
) -> LanguageModel:
    """NOT PRIVATE, and kept nowhere: one adapter on the canaries among ordinary rows."""
    some = [row.text for row in itertools.islice(read_rows([rows], Columns(text="text")), ORDINARY)]
    texts = some + [text for _, text in ours]
    encoded = models.encode(lm, texts, config.data.max_tokens)
    everything = Subject("all", tuple(row for row in encoded if row), tuple(texts))
    shape = overfit_shape(training_shape(config), len(texts) * (config.data.mean_tokens + 1), EPOCHS)
    with flow.start("twin's reference") as progress:
        flat = train_on(lm, [[everything]], shape, progress=progress)[0]
    return merged(lm, Stack(lm, shape, block=1, device=lm.device).top, flat)


def found(twin: Twin, lm: LanguageModel, promise: Promise | None) -> dict[str, Finding]:
    return {"canary.exposure": exposed(twin, lm, promise), "canary.one-run": guessed(twin, lm, promise)}


def exposed(twin: Twin, lm: LanguageModel, promise: Promise | None) -> Finding:
    """Judged by the canaries of one unit each, whom the promise covers; the others are for the eye."""
    ranks = birds.ranks(lm, twin.canaries, twin.digits)
    values = [birds.exposure(rank, twin.digits) for rank in ranks]
    covered = [i for i, canary in enumerate(twin.canaries) if canary.repetitions <= twin.cap]
    bound = birds.epsilon_from_ranks([ranks[i] for i in covered], promise.delta if promise else DELTA, twin.digits)
    most = birds.exposure(1, twin.digits)
    by_count = {}
    for count in dict.fromkeys(canary.repetitions for canary in twin.canaries):
        chosen = [v for v, canary in zip(values, twin.canaries, strict=True) if canary.repetitions == count]
        by_count[str(count)] = sum(chosen) / len(chosen)
    own = sorted(values[i] for i in covered)
    middle = own[len(own) // 2]
    return Finding(
        score=middle, low=own[0], high=own[-1], epsilon_lower=bound,
        epsilon_claimed=promise.epsilon if promise else None, ok=promise is None or bound <= promise.epsilon,
        look=promise is not None and bound > 0,
        sentence=f"of canaries that one unit holds, the median exposure is {middle:.1f} bits of {most:.1f} "
        f"(guessing: 1); repeated 100 times over several units {by_count.get('100', middle):.1f}",
        details={"by_repetitions": by_count, "candidates": 10**twin.digits, "most": most, "canaries": len(values)},
    )  # fmt: skip


def guessed(twin: Twin, lm: LanguageModel, promise: Promise | None) -> Finding:
    rows = models.encode(lm, twin.texts, 10_000)
    gain = models.row_nll(twin.public, rows, 0)[0] - models.row_nll(lm, rows, 0)[0]
    right, tried = birds.right_guesses(gain.numpy(), twin.coins)
    delta = promise.delta if promise else DELTA
    bound = birds.one_run_epsilon(right, tried, len(twin.coins), delta)
    low, high = clopper_pearson(right, tried, ERROR)
    return Finding(
        score=right / tried, low=low, high=high, epsilon_lower=bound,
        epsilon_claimed=promise.epsilon if promise else None, ok=promise is None or bound <= promise.epsilon,
        look=promise is not None and bound > 0,
        sentence=f"of {len(twin.coins)} canary units, in or out by a coin, the auditor guessed {tried} and was right "
        f"about {right}: epsilon at least {bound:.2f}",
        details={"right": right, "guessed": tried, "canaries": len(twin.coins)},
    )  # fmt: skip
