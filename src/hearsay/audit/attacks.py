"""The attacks, one function each: a scene in, what was found out on each model of it.

Every attack is made on the target and on a reference that is not private: an attack that does not see the reference
proves nothing by not seeing the student.
"""

from collections.abc import Callable

import numpy as np

from hearsay import lm as models
from hearsay.audit import extraction, linkage, membership, shadows
from hearsay.audit.findings import Finding, from_counts, from_scores
from hearsay.audit.mechanism import clopper_pearson
from hearsay.audit.neighbours import Neighbours, memory_folder
from hearsay.audit.scene import Result, Scene, overfit
from hearsay.audit.statistics import ERROR, Floats, Promise
from hearsay.audit.subjects import Subject, all_rows, all_texts
from hearsay.config import Config
from hearsay.errors import BadInput
from hearsay.public.prefixes import complete, read_prefixes

POWERS = {
    "loss": "who sees how likely the model finds a text",
    "calibrated": "who also has the public base model",
    "zlib": "who also compresses the text",
    "min-k++": "who sees the model's whole distributions",
    "neighbourhood": "who compares a text with near copies",
    "shadow": "who trains models of the same kind on candidates",
    "closeness": "who compares known people with the model's records",
}


def attack(scene: Scene, names: tuple[str, ...], config: Config | None = None) -> Result:
    found: Result = {}
    if "mechanism" in names and scene.promise is not None:
        found["mechanism"] = {"target": mechanism(scene)}
    if "membership" in names:
        found |= memberships(scene)
    if "neighbourhood" in names:
        found |= neighbourhoods(scene)
    if "shadow" in names and scene.shape is not None:
        found |= likelihood_ratios(scene)
    if "extraction" in names:
        found |= extractions(scene)
    if "linkage" in names and config is not None:
        found |= linkages(scene, config)
    return found


def mechanism(scene: Scene) -> Finding:
    """The noise that the run was charged for, at the run's own epsilon."""
    promise = scene.promise
    if promise is None:
        raise BadInput("a model without a promise has no mechanism to audit")
    pair = Neighbours(promise.epsilon, promise.delta)
    with scene.flow.start("mechanism"), memory_folder() as folder:
        got = pair.attack(folder, scene.effort.draws, scene.effort.through)
        ratio, p_value = pair.variance()
    sound = got.ok and p_value > 1e-6
    return Finding(
        score=got.epsilon_lower, low=got.epsilon_lower_plain, high=promise.epsilon, epsilon_lower=got.epsilon_lower,
        epsilon_claimed=promise.epsilon, ok=sound, look=not sound,
        sentence=f"an attacker who knows all contributions but one proves epsilon {got.epsilon_lower:.2f} (nothing "
        f"assumed: {got.epsilon_lower_plain:.2f}) of the {promise.epsilon:.2f} promised; the noise's variance is "
        f"{ratio:.4f} of what it must be",
        details={**got.to_json(), "variance_ratio": ratio, "variance_p_value": p_value},
    )  # fmt: skip


def memberships(scene: Scene) -> Result:
    """The one-pass attacks, by user and by record; with the public model as control."""
    found: Result = {}
    everyone = [*scene.members, *scene.others]
    texts, split = all_texts(everyone), len(all_rows(scene.members))
    with scene.flow.start("losses, public") as progress:
        base = membership.row_scores(scene.public, all_rows(everyone), progress)
    scores = {"control": membership.from_rows(base, base, texts)}
    for role, lm, members, _ in scene.models():
        with scene.flow.start(f"losses, {role.replace('_', ' ')}") as progress:
            ours = len(all_rows(members))
            rows = all_rows(members) + all_rows(scene.others)
            keep = np.r_[0:ours, split : len(texts)]  # the reference's members are the first of all members
            part = membership.RowScores(base.loss[keep], base.min_k_plus[keep])
            own = membership.row_scores(lm, rows, progress)
            scores[role] = membership.from_rows(own, part, [texts[i] for i in keep])
    people = {"control": scene.members, **{role: members for role, _, members, _ in scene.models()}}
    for role, by_attack in scores.items():
        for name, values in by_attack.items():
            if (role, name) != ("control", "calibrated"):  # the public model calibrated by itself says nothing
                _both_levels(found, scene, name, role, people[role], values)
    return found


def _both_levels(found: Result, scene: Scene, name: str, role: str, members: list[Subject], values: Floats) -> None:
    split = len(all_rows(members))
    promise = scene.promise if role == "target" else None
    levels: dict[str, Callable[[list[Subject], Floats], Floats]] = {"": membership.by_user}
    if any(len(subject.rows) > 1 for subject in members):
        levels[".record"] = membership.by_record
    for suffix, level in levels.items():
        ours, theirs = level(members, values[:split]), level(scene.others, values[split:])
        finding = from_scores(POWERS[name], ours, theirs, promise, level=suffix.removeprefix(".") or "unit")
        found.setdefault(f"membership.{name}{suffix}", {})[role] = finding


def neighbourhoods(scene: Scene) -> Result:
    """By record: one text of each unit, since every neighbour is scored as well."""
    found: dict[str, Finding] = {}
    for role, lm, members, promise in scene.models():
        with scene.flow.start(f"neighbours, {role.replace('_', ' ')}"):
            others = scene.others if role == "target" else scene.others[: 4 * len(members)]
            rows = [subject.rows[0] for subject in [*members, *others]]
            count = scene.effort.neighbours
            values = membership.neighbourhood(lm, scene.public, rows, neighbours=count, seed=scene.seed)
        split = len(members)
        found[role] = from_scores(
            POWERS["neighbourhood"], values[:split], values[split:], promise, level="record", neighbours=count
        )
    return {"membership.neighbourhood": found}


def likelihood_ratios(scene: Scene) -> Result:
    """On a pool of the reference's members and as many others, by unit."""
    half = min(len(scene.remembered), len(scene.others))
    pool = [*scene.remembered[:half], *scene.others[:half]]
    shape = overfit(scene, scene.effort.shadow_epochs)
    with scene.flow.start("shadow models") as progress:
        made = shadows.cast(
            scene.public, pool, shape, shadows=scene.effort.shadows, seed=scene.seed, block=scene.effort.shadows,
            progress=progress,
        )  # fmt: skip
    found: dict[str, Finding] = {}
    for role, lm, _, promise in scene.models():
        ratio = made.ratio(shadows.losses(lm, pool))
        found[role] = from_scores(
            POWERS["shadow"], ratio[:half], ratio[half:], promise, level="unit", shadows=scene.effort.shadows
        )
    return {"membership.shadow": found}


def extractions(scene: Scene) -> Result:
    found: Result = {}
    effort = scene.effort
    for role, lm, members, promise in scene.models():
        with scene.flow.start(f"extraction, {role.replace('_', ' ')}"):
            ours = extraction.finish(lm, members[: effort.finished])
            theirs = extraction.finish(lm, scene.others[: effort.finished])
            said = extraction.leaks(
                lm, members[: effort.finished], scene.secrets, texts=effort.texts, beams=effort.beams,
                max_tokens=scene.max_tokens, seed=scene.seed,
            )  # fmt: skip
        for name, hits, misses in (
            ("verbatim", ours.verbatim, theirs.verbatim), ("near-verbatim", ours.near, theirs.near),
        ):  # fmt: skip
            what = f"texts that the model finished {name.replace('-v', ' v')}"
            if ours.tried and theirs.tried:
                found.setdefault(f"extraction.{name}", {})[role] = from_counts(
                    what, hits, ours.tried, misses, theirs.tried, promise
                )
        if scene.secrets:
            found.setdefault("extraction.secrets", {})[role] = _secrets(said, promise)
    return found


def _secrets(said: extraction.Leaks, promise: Promise | None) -> Finding:
    """Not a test of one unit, so it proves no epsilon: a leak is counted for what it is."""
    hits = round(said.sampling * said.texts)
    low, high = clopper_pearson(hits, said.texts, ERROR)
    return Finding(
        score=said.sampling, low=low, high=high, epsilon_lower=None,
        epsilon_claimed=promise.epsilon if promise else None, ok=True, look=promise is not None and said.distinct > 0,
        sentence=f"{said.sampling:.1%} of the sampled texts and {said.beam:.1%} of the likeliest ones hold a secret; "
        f"{said.distinct} different ones were found",
        details={"texts": said.texts, "beam": said.beam, "distinct": said.distinct},
    )  # fmt: skip


def linkages(scene: Scene, config: Config) -> Result:
    """Records of the student against people, and the anonymised original for comparison."""
    effort, data = scene.effort, config.data
    prefixes = read_prefixes(scene.public, data.public, data.public_column, data.prefix_tokens)
    people = [" ".join(subject.texts) for subject in [*scene.members, *scene.others]]
    found: dict[str, Finding] = {}
    for role, lm, members, promise in scene.models():
        with scene.flow.start(f"linkage, {role.replace('_', ' ')}"):
            made = complete(lm, prefixes, effort.released, min_tokens=data.min_tokens, max_tokens=data.max_tokens,
                            seed=scene.seed)  # fmt: skip
            ours = [" ".join(subject.texts) for subject in members]
            near = linkage.closeness([*ours, *people[len(scene.members) :]], models.decode(lm, made))
        found[role] = from_scores(POWERS["closeness"], near[: len(ours)], near[len(ours) :], promise, level="unit")
    return {"linkage.closeness": found, "linkage.anonymised": {"not_private": anonymised(scene)}}


def anonymised(scene: Scene) -> Finding:
    """The example of failure: the original with its secrets blotted out, tied to what else is known of its authors."""
    known, released = linkage.two_parts(scene.known)
    right = linkage.identified(known, linkage.anonymised(released, scene.secrets)) if known else 0
    low, high = clopper_pearson(right, max(1, len(known)), ERROR)
    rate = right / max(1, len(known))
    return Finding(
        score=rate, low=low, high=high, epsilon_lower=None, epsilon_claimed=None, ok=True, look=False,
        sentence=f"of {len(known)} anonymised originals {right} were tied to their author ({rate:.0%}; guessing: "
        f"{1 / max(1, len(known)):.2%})",
        details={"people": len(known), "identified": right},
    )  # fmt: skip
