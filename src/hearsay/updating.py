"""Rounds of updates: every unit says how it would move the student, the door adds up, the server moves it.

What crosses from the private side to the public one is `ask_update` (release/updates.py) and nothing else.
"""

from dataclasses import replace

from torch import Tensor

from hearsay import charging, stages
from hearsay.lm import end_id, start_id
from hearsay.private.moves import moves
from hearsay.private.teaching import update_shape
from hearsay.public.server import Server, ServerSettings
from hearsay.public.shortlist import Vocabulary, shares
from hearsay.public.weights import weights
from hearsay.release.updates import CrowdPlan, ask_update, place_on_grid_matters
from hearsay.stacked import Adapted
from hearsay.work import Work, engine_for, pseudo_sentences

SHARES_FROM = 300  # pseudo sentences that tell which tokens are likely


def moved(work: Work, student: Tensor) -> Tensor:
    """The student after all rounds of updates: every unit says how it would move it, the door adds up (updates.py)."""
    settings, shape = work.config.updates, update_shape(work.config)
    rate = work.config.update_rate

    def compute(progress: stages.Progress) -> Tensor:
        scale = charging.update_scale(work.config, work.ledger, len(work.stack.top.layout.outputs()))
        words = vocabulary(work)
        listed = words.listed(0) if words else None
        block = moves(work.stack, shape, work.stack.block, listed, place_on_grid_matters).block
        plan = CrowdPlan(
            work.workshop_plan, shape, block, work.config.update_pages, work.run.private / "units",
            work.config.data.units, settings.clip, rate, work.run.id,
        )  # fmt: skip
        weighed = coordinate_weights(work, student)
        crowd = replace(plan.gather(work.workshop), vocabulary=words, weights=weighed)
        crowd = replace(crowd, engine=engine_for(work, crowd, plan))
        rule = ServerSettings(settings.rounds, settings.learning_rate, settings.optimiser, settings.average)
        server = Server(student, work.stack.top.layout.outputs(), rule, weighed)
        for number in range(settings.rounds):
            server.step(ask_update(work.door, crowd, server.student, number, scale))
            progress(number + 1, settings.rounds)
        return server.result

    return work.stages.tensor("updates", work.file("updates"), compute)


def vocabulary(work: Work) -> Vocabulary | None:
    """What units' losses are compared with in rounds of updates; none: all tokens (public/shortlist.py)."""
    size, lm = work.config.updates.vocabulary, work.lm
    if size is None or size >= lm.model.get_output_embeddings().weight.shape[0]:
        return None

    def compute(_: stages.Progress) -> Tensor:
        return shares(lm, pseudo_sentences(work)[:SHARES_FROM], start_id(lm), end_id(lm))

    found = work.stages.tensor("vocabulary", work.file("vocabulary"), compute)
    return Vocabulary(found, size, work.config.compute.seed)


def coordinate_weights(work: Work, student: Tensor) -> Tensor | None:
    """How much each coordinate of an update counts; none: all alike (public/weights.py)."""
    config, lm = work.config, work.lm
    if config.update_weights == "equal":
        return None

    def compute(_: stages.Progress) -> Tensor:
        public = Adapted(lm.model, work.stack.shape.adapter, student)
        return weights(public, pseudo_sentences(work), start_id(lm), end_id(lm), config.parcel)

    return work.stages.tensor("weights", work.file("weights"), compute)
