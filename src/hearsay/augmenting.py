"""The second method on one page: private labelled text in, a labelled synthetic corpus with its guarantee out.

    labels, public terms ─► generator ─► candidates ─► encoder ─► a few public directions
                                                                        │
    rows ─► units (keyed hash) ─► vectors and labels ───────────────────┤
                                                                        ▼
                      the door: histogram of labels (tutor), sums of places by label (discriminator)
                                                                        ▼
                   scores for every candidate and label ─► selection ─► release/synthetic

What crosses is named here: `Asker` and its answers. After the door everything is post-processing.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hearsay import charging, stages
from hearsay.accounting import identity
from hearsay.accounting.costs import UNIT
from hearsay.accounting.ledger import Ledger
from hearsay.candidates import private_rows, written
from hearsay.config_augment import AugmentConfig
from hearsay.errors import BadInput
from hearsay.private.discriminators import Opinions
from hearsay.private.labelled import Labelled, collect
from hearsay.public import encoder as encoders
from hearsay.public import scoring
from hearsay.public import space as spaces
from hearsay.public.corpus_card import release_corpus
from hearsay.public.encoder import Encoder, Vectors
from hearsay.public.generator import Candidate
from hearsay.public.selection import Chosen, select, tempered
from hearsay.public.space import Floats, Ids, Space
from hearsay.reading import Columns, read_rows
from hearsay.release.door import Door
from hearsay.release.histogram import shares as normalised
from hearsay.release.labelled import Asker, noise_of
from hearsay.run import Run
from hearsay.stages import Stages
from hearsay.work import Watcher

GENERATED = 512  # candidates that stand for the public side in the paper's teachers
RATE = 4.0  # of a noisy gradient step


@dataclass
class Work:
    """What the stages share. `asker` holds the private side; the rest is public."""

    config: AugmentConfig
    run: Run
    ledger: Ledger
    stages: Stages
    encoder: Encoder
    candidates: list[Candidate]
    vectors: Vectors
    asker: Asker

    @property
    def asked(self) -> Ids:
        index = {label: i for i, label in enumerate(self.config.data.labels)}
        return np.array([index[one.label] for one in self.candidates])

    def budget(self, *, tutor: bool) -> Fraction:
        """The tutor's part of what this run may spend (mu squared), or the rest of it."""
        slack = (4 + self.config.discriminator.steps) * UNIT  # each charge is rounded up by less than one
        whole = self.ledger.budget.capacity * Fraction(self.config.privacy.spend) - slack
        share = Fraction(self.config.tutor.share) if self.config.tutor.use else Fraction(0)
        return whole * (share if tutor else 1 - share)


def augment(
    config: AugmentConfig,
    run: Run,
    watch: Watcher = stages.Watch,
    *,
    encoder: Encoder | None = None,
    research: bool = False,
) -> Work:
    """Runs or resumes; the corpus ends in release/synthetic. `encoder` saves loading one that is at hand."""
    with identity.at(run.home):
        work = prepare(config, run, watch, encoder, research=research)
    shares = tutored(work)
    scores = discriminated(work, shares)
    chosen = selected(work, scores, shares)
    release_corpus(run, work.ledger, config, work.candidates, chosen, shares)
    return work


def prepare(
    config: AugmentConfig, run: Run, watch: Watcher, encoder: Encoder | None, *, research: bool = False
) -> Work:
    """Candidates first: a generator that fails must not have cost the reading of private text."""
    flow = Stages(run, watch)
    charging.check_origin(config.discriminator.encoder, run)
    if config.data.holdout:
        check_labels(config)
    candidates = written(config, run, flow)
    encoder = encoder or load_encoder(config)
    with flow.start("encode candidates") as progress:
        texts = [one.text for one in candidates]
        vectors = encoders.kept(encoder, texts, run.release / "stages" / "candidates", progress)
    with flow.start("encode private text"):
        units = private_units(config, run, encoder)
    ledger = charging.answerable(config, run, units.sketch, research=research)
    door = Door(ledger, run.id, run.folder)
    door.sweep()
    return Work(config, run, ledger, flow, encoder, candidates, vectors, Asker(door, units, run.id, encoder.name))


def check_labels(config: AugmentConfig) -> None:
    """Labels that nobody has (misspelt ones) would spend the budget on nothing; the hold-out can tell before."""
    data = config.data
    held_out = read_rows(data.holdout, Columns(text=data.text, label=data.label), label_separator=data.separator)
    if not any(label in data.labels for row in held_out for label in row.labels):
        raise BadInput("no hold-out row has a label that data.labels lists: is the case the same, and the separator?")


def load_encoder(config: AugmentConfig) -> Encoder:
    settings, device = config.discriminator, stages.pick_device(config.compute.device)
    fast = config.compute.precision == "bfloat16"
    return encoders.load(settings.encoder, max_tokens=settings.max_tokens, device=device, fast=fast)


def private_units(config: AugmentConfig, run: Run, encoder: Encoder) -> Labelled:
    data, privacy = config.data, config.privacy
    return collect(
        private_rows(config),
        data.labels,
        unit=privacy.unit,
        cap=data.cap,
        key=identity.derived_key("partition", privacy.corpus),
        sketch_key=identity.sketch_key(),
        encode=encoder.alone,
        folder=run.private / "labelled",
    )


def tutored(work: Work) -> Floats:
    """Shares of the listed labels: noisy, clipped from below, normalised; even ones where no tutor is wanted."""
    labels, settings = len(work.config.data.labels), work.config.tutor
    if not settings.use:
        return np.full(labels, 1 / labels)
    with work.stages.start("tutor"):
        noisy = work.asker.histogram(work.budget(tutor=True))
    least = settings.floor * noise_of(work.budget(tutor=True))
    return np.array(normalised(np.maximum(noisy[:labels], least)))


def discriminated(work: Work, shares: Floats) -> Floats:
    """[candidates, labels] log-probabilities, from the noisy answers of the method that the settings name."""
    settings = work.config.discriminator
    with work.stages.start("discriminator") as progress:
        if settings.method == "votes":
            return _by_votes(work)
        space = _space(work)
        places = space.places(work.vectors)
        if settings.method == "clusters":
            return _by_cells(work, space, places, shares)
        scorer = (
            _by_means(work, space, places, shares)
            if settings.method == "means"
            else _by_gradients(work, space, places, shares, progress)
        )
    scorer.save(work.run.release / "stages" / "scorer.npz")
    return scorer.scores(places)


def _space(work: Work) -> Space:
    """Fitted once. Another number of threads would fit it otherwise, and what is paid for was asked in this one."""
    path = work.run.release / "stages" / "space.npz"
    if not path.exists():
        spaces.fit(work.vectors, work.asked, work.config.discriminator.dimensions).save(path)
    return spaces.load(path)


def _by_means(work: Work, space: Space, places: Floats, shares: Floats) -> scoring.Scorer:
    budget = work.budget(tutor=False)
    sums = work.asker.means(space, budget)
    return scoring.from_means(sums, noise_of(budget), shares, work.config.data.units, places, work.asked)


def _by_gradients(
    work: Work, space: Space, places: Floats, shares: Floats, progress: stages.Progress
) -> scoring.Scorer:
    """Noisy steps from the public discriminant; each is charged, and the mean of the second half counts."""
    steps = work.config.discriminator.steps
    path = work.run.release / "stages" / "start.npz"
    if not path.exists():  # once, like the space
        scoring.from_public(places, work.asked, shares).save(path)
    scorer = scoring.load(path)
    late: list[scoring.Scorer] = []
    for step in range(steps):
        weights = np.concatenate([scorer.weights, scorer.bias[:, None]], axis=1)
        gradient = work.asker.gradient(space, weights, step, work.budget(tutor=False) / steps)
        scorer = scoring.stepped(scorer, gradient, work.config.data.units, RATE)
        late += [scorer] if step >= steps // 2 else []
        progress(step + 1, steps)
    return scoring.Scorer(np.mean([one.weights for one in late], axis=0), np.mean([one.bias for one in late], axis=0))


def _by_cells(work: Work, space: Space, places: Floats, shares: Floats) -> Floats:
    path = work.run.release / "stages" / "cells.npz"
    if not path.exists():  # once, like the space
        found = spaces.cells(places, work.config.discriminator.clusters, work.config.compute.seed)
        spaces.save_cells(path, *found)
    centres, cells = spaces.load_cells(path)
    noisy = work.asker.cells(space, centres, work.budget(tutor=False))
    return scoring.from_cells(noisy, shares)[:, cells].T


def _by_votes(work: Work) -> Floats:
    """The paper's way, every query counted. All labels of a candidate get the score of its being private."""
    settings, config = work.config.discriminator, work.config
    chance = np.random.default_rng(config.compute.seed)
    order = chance.permutation(len(work.vectors))
    asked = work.vectors[order[: settings.queries]]
    generated = work.vectors[order[settings.queries :][:GENERATED]]
    opinions = Opinions(work.asker.units, settings.teachers, config.data.units, generated, asked)
    noisy = work.asker.votes(opinions, work.budget(tutor=False), settings.noise)
    scorer = scoring.from_votes(noisy, asked, settings.answer)
    scorer.save(work.run.release / "stages" / "scorer.npz")
    return np.repeat(scorer.scores(work.vectors.astype(np.float64)), len(config.data.labels), axis=1)


def selected(work: Work, scores: Floats, shares: Floats) -> Chosen:
    settings = work.config.selection
    with work.stages.start("selection"):
        return select(
            scores,
            work.asked,
            work.vectors,
            tempered(shares, settings.temper),
            texts=settings.texts,
            relabel=settings.relabel,
            seed=work.config.compute.seed if settings.order == "spread" else None,
            near_copy=settings.near_copy,
        )
