"""From private files to shards, and from public settings to the shape of the teachers' training."""

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from hearsay import lm as models
from hearsay.accounting import identity
from hearsay.config import Config
from hearsay.errors import DataError
from hearsay.forecast import training_steps
from hearsay.lm import LanguageModel
from hearsay.private.corpus import strangers
from hearsay.private.partition import partition
from hearsay.private.shards import Partition, PartitionSettings, is_finished, open_partition
from hearsay.private.training import TrainingShape
from hearsay.reading import Columns, Row, has_columns, read_rows

IN_PUBLIC = (  # public prefixes of a private unit would publish its words
    "some rows of data.public belong to users who are in data.private; public prefixes must come from other users: "
    "remove theirs from data.public"
)
IN_HOLDOUT = (
    "some rows of data.holdout belong to users who are in data.private; what is measured on them would flatter the "
    "student: remove theirs from data.holdout"
)


def partition_settings(config: Config, lm: LanguageModel) -> PartitionSettings:
    data = config.data
    return PartitionSettings(
        shards=config.teachers.count,
        unit=config.privacy.unit,
        cap=data.cap,
        min_tokens=data.min_tokens,
        max_tokens=data.max_tokens,
        vocabulary=len(lm.tokenizer),
        tokeniser=config.model,
    )


def make_partition(config: Config, lm: LanguageModel, folder: Path) -> Partition:
    data, privacy = config.data, config.privacy
    settings = partition_settings(config, lm)
    key = identity.derived_key("partition", privacy.corpus)
    if is_finished(folder):
        return open_partition(folder, settings, key)
    columns = Columns(text=data.text, user=data.user if privacy.unit == "user" else None)
    others = strangers(read_rows(data.private, columns), _public_texts(config), key, "data.public")
    return partition(
        _refusing(_refusing(others, _public_users(config), IN_PUBLIC), _held_out_users(config), IN_HOLDOUT),
        settings,
        key=key,
        tokenise=lambda texts: models.encode(lm, texts, data.max_tokens),
        folder=folder,
        sketch_key=identity.sketch_key(),
    )


def refuse_held_out(config: Config) -> None:
    """Of a hold-out that is named after the run: nobody in it may have been trained on."""
    columns = Columns(text=config.data.text, user=config.data.user if config.privacy.unit == "user" else None)
    deque(_refusing(read_rows(config.data.private, columns), _held_out_users(config), IN_HOLDOUT), maxlen=0)


def _public_users(config: Config) -> set[str]:
    """Whose words the public prefixes are; empty if the owner declared that there is nobody to check."""
    data = config.data
    if config.privacy.unit != "user" or data.public_user is None:
        return set()
    return {row.user or "" for row in read_rows(data.public, Columns(text=data.public_column, user=data.public_user))}


def _held_out_users(config: Config) -> set[str]:
    """Who is to be nobody that was trained on; a hold-out file that does not say whose its rows are is not checked."""
    data = config.data
    if config.privacy.unit != "user":
        return set()
    named = Columns(text=data.text, user=data.user)
    found: set[str] = set()
    for path in data.holdout:
        if has_columns([path], named):
            found |= {row.user or "" for row in read_rows([path], named)}
    return found


def _public_texts(config: Config) -> Iterator[str]:
    """Where a text is the unit, its public copy is the unit itself; two users may well write the same."""
    data = config.data
    if config.privacy.unit == "record":
        yield from (row.text for row in read_rows(data.public, Columns(text=data.public_column)))


def _refusing(rows: Iterable[Row], others: set[str], why: str) -> Iterator[Row]:
    """Says that it is so, never who."""
    for row in rows:
        if row.user in others:
            raise DataError(why)
        yield row


def training_shape(config: Config) -> TrainingShape:
    """Steps from declared numbers: what a shard really holds must not change what is done."""
    teachers, steps = config.teachers, training_steps(config)
    return TrainingShape(
        rank=config.adapter.rank,
        alpha=2.0 * config.adapter.rank,
        top_blocks=config.adapter.blocks,
        seed=config.compute.seed,
        row_tokens=teachers.row_tokens,
        rows_per_step=teachers.rows,
        steps=steps,
        learning_rate=teachers.learning_rate,
        warm_up=min(5, max(1, steps // 4)),
        precision=_precision(config.compute.precision),
    )


def update_shape(config: Config) -> TrainingShape:
    """The same adapter, trained by one unit for one round of updates."""
    own = config.updates
    return dataclasses.replace(
        training_shape(config), rows_per_step=own.rows, steps=own.local_steps, learning_rate=own.local_rate,
        warm_up=0, schedule="constant",
    )  # fmt: skip


def _precision(wanted: str) -> str:
    """bfloat16 where it is fast: a GPU's model is loaded in it anyway, and recent processors multiply it."""
    if wanted == "auto":
        fast = torch.cuda.is_available() or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        return "bfloat16" if fast else "model"
    return "bfloat16" if wanted == "bfloat16" else "model"
