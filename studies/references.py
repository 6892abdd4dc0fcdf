"""What students are measured by and compared with: public, warmed up, and trained on the text itself (NOT PRIVATE).

Everything here reads held-out private text, so it stays in a panel's internal/ folder and in the study's own figures.
"""

import hashlib
import json
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import torch
from studies.panel import Panel

from hearsay import lm as models
from hearsay import measure, pipeline
from hearsay.adapter_files import merged
from hearsay.baselines.unprotected import blacklist, known_secrets
from hearsay.config import Config
from hearsay.disk import write_text
from hearsay.evaluate.references import ensemble_perplexity, train_private
from hearsay.evaluate.text import score
from hearsay.lm import LanguageModel
from hearsay.reading import Columns, read_rows

MEASURE: dict[str, Any] = {
    "rows": None,  # of held-out text: everybody's, and then by person too; a number: so many of the first
    "completions": 500,
    "texts": 0,  # completions to show
    "ensemble": 0,  # rows for the teachers without noise
    "private": {"steps": 800, "rows": 64, "learning_rate": 2.0e-3},  # null: none is trained
}
METHODS = ("public", "public_pseudo", "private", "blacklist")


def scored(
    panel: Panel, lm: LanguageModel, wish: dict[str, Any], rewrite: Callable[[str], str] = lambda text: text
) -> dict[str, Any]:
    work, data = panel.work, panel.work.config.data
    read = held_out(work.config, work.lm, wish["rows"])
    rows, who = list(read.values()), [writer or "" for writer in writers(work.config)]
    found = score(
        lm, rows, prefix=data.prefix_tokens, max_tokens=data.max_tokens, completions=wish["completions"],
        secrets=measure.secrets(work.config), seed=work.config.compute.seed, rewrite=rewrite,
        people=None if wish["rows"] else [who[place] for place in read],
    ).to_json()  # fmt: skip
    found |= {} if wish["rows"] else {"by_person": _by_person(lm, work.config, read)}
    return found | ({"texts": _texts(panel, lm, rows[: wish["texts"]], rewrite)} if wish["texts"] else {})


def _by_person(lm: LanguageModel, config: Config, read: dict[int, list[int]]) -> dict[str, list[float]]:
    """Negative log-likelihood and tokens of everybody held out, in the order of the file."""
    who = writers(config)
    found: dict[str | None, tuple[float, int]] = dict.fromkeys(who, (0.0, 0))
    losses, counts = models.row_nll(lm, list(read.values()), config.data.prefix_tokens)
    for place, loss, count in zip(read, losses.tolist(), counts.tolist(), strict=True):
        before = found[who[place]]
        found[who[place]] = (before[0] + loss, before[1] + count)
    some = [(round(loss, 2), count) for loss, count in found.values() if count]
    return {"nll": [loss for loss, _ in some], "tokens": [count for _, count in some]}


def writers(config: Config) -> list[str | None]:
    """Who wrote each of the held-out rows."""
    return [row.user for row in read_rows(config.data.holdout, Columns(text=config.data.text, user=config.data.user))]


def held_out(config: Config, lm: LanguageModel, most: int | None) -> dict[int, list[int]]:
    """The held-out rows of a figure, by place: all that are long enough, shuffled once for all, so that those which are
    completed are from all over. Or of the file's first `most`, in its order: where it is grouped by people, those are
    few people's (held_out.py counts them).
    """
    data = config.data
    texts = [row.text for row in islice(read_rows(data.holdout, Columns(text=data.text)), most)]
    order = range(len(texts)) if most else np.random.default_rng(0).permutation(len(texts)).tolist()
    encoded = models.encode(lm, texts, data.max_tokens)
    return {place: encoded[place] for place in order if len(encoded[place]) >= data.min_tokens}


def _texts(panel: Panel, lm: LanguageModel, rows: list[list[int]], rewrite: Callable[[str], str]) -> list[list[str]]:
    """[beginning, what the model makes of it] for a page of cases."""
    begun = [row[: panel.work.config.data.prefix_tokens] for row in rows]
    stream = torch.Generator().manual_seed(panel.work.config.compute.seed)
    made = models.generate(lm, begun, max_tokens=24, generator=stream, temperature=0.7, top_p=0.95)
    pairs = zip(models.decode(panel.work.lm, begun), models.decode(panel.work.lm, made), strict=True)
    return [[first, rewrite(rest)] for first, rest in pairs]


def measured(panel: Panel, wish: dict[str, Any]) -> dict[str, Any]:
    """The references' own figures, once for each panel and wish."""
    label = hashlib.sha256(json.dumps(wish, sort_keys=True).encode()).hexdigest()[:8]
    path, work = panel.work.run.internal / f"references-{label}.json", panel.work
    if not path.exists():
        names = ("public", "public_pseudo", *(["private"] if wish["private"] else []))
        found = {name: scored(panel, _model(panel, name, wish), wish) for name in names}
        if wish["ensemble"]:
            read = held_out(work.config, work.lm, wish["rows"] and wish["ensemble"])
            rows = list(read.values())[: wish["ensemble"]]
            teachers = pipeline.train_teachers(work, panel.warm, 0)
            found["ensemble"] = {"ppl": ensemble_perplexity(work.stack, teachers, rows, work.config.data.prefix_tokens)}
        write_text(path, json.dumps(found))
    body: dict[str, Any] = json.loads(path.read_text())
    return body


def _model(panel: Panel, name: str, wish: dict[str, Any]) -> LanguageModel:
    work = panel.work
    if name == "public":
        return work.lm
    if name == "public_pseudo":
        return merged(work.lm, work.stack.top, panel.warm)
    label = "-".join(f"{value:g}" for value in wish["private"].values())
    flat = work.stages.tensor(
        "private reference",
        work.run.internal / f"private-{label}-NOT-PRIVATE.safetensors",
        lambda _: train_private(work.lm, work.partition, work.stack.shape, **wish["private"]),
    )
    return merged(work.lm, work.stack.top, flat)


def reference(panel: Panel, baseline: dict[str, Any], wish: dict[str, Any]) -> dict[str, Any]:
    """A cell that is one of the references."""
    method = baseline["method"]
    if method != "blacklist":
        found: dict[str, Any] = measured(panel, wish)[method]
        return {**found, **({"NOT PRIVATE": True} if method == "private" else {"epsilon": 0.0})}
    listed = known_secrets(measure.secrets(panel.work.config), baseline.get("known", 1.0))
    return {**scored(panel, _model(panel, "private", wish), wish, blacklist(listed)), "NOT PRIVATE": True}
