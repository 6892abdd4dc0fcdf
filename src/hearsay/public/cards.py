"""What goes out with the student: the model, its card with the guarantee in the metadata, and the statement."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment

from hearsay import __version__
from hearsay.accounting import statement
from hearsay.accounting.ledger import Ledger
from hearsay.config import Config
from hearsay.disk import write_text
from hearsay.run import Run, forget_time

if TYPE_CHECKING:  # the report renders with this module, and the page must not load torch for it
    from hearsay.lm import LanguageModel

MADE = "made.json"


@dataclass(frozen=True)
class Round:
    """A round of answers: to how many questions (none, where they could not be judged), and whether they moved it."""

    asked: int
    moved: bool = False


def release_student(
    run: Run, student: "LanguageModel", ledger: Ledger, config: Config, rounds: Sequence[Round] = ()
) -> None:
    from hearsay import lm as models

    said, how_made = statement.make(ledger), made(config, run, rounds)
    facts = {"statement": said.to_json(), **how_made}  # figures from the ledger, and what a card may hold beside them
    models.save(student, run.release / "student", render("student_card.md.j2", facts))
    plain = json.dumps(how_made, indent=1, default=lambda section: section.model_dump(mode="json"))
    write_text(run.release / MADE, plain)
    write_text(run.release / "statement.json", json.dumps(said.to_json(), indent=1))
    write_text(run.release / "statement.html", render("statement.html.j2", facts, html=True))
    for path in run.release.rglob("*"):
        forget_time(path)


def made(config: Config, run: Run, rounds: Sequence[Round] = ()) -> dict[str, Any]:
    """How it was made, from public settings and released answers: what the shareable report tells of it."""
    asked = [one.asked for one in rounds if one.asked]
    return {
        "version": __version__,
        "run": run.id,
        "model": told(config.model),
        "teachers": config.teachers.count,
        "recipe": config.ask.recipe,
        "rounds": len(asked),
        "questions": sum(asked),
        "baseline": config.baseline,
        "how": how(config, sum(asked)),
        "candidates": config.ask.candidates,
        "stayed": " ".join(_stayed(config, rounds)),
    }


def _stayed(config: Config, rounds: Sequence[Round]) -> Iterator[str]:
    """For people who paid for answers and would not see that nothing came of them."""
    stayed = [str(n) for n, one in enumerate(rounds, start=1) if one.asked and not one.moved]
    silent = [str(n) for n, one in enumerate(rounds, start=1) if not one.asked]
    after = "rounds of updates" if config.share_of_updates else "warm-up"
    start = "where it was" if any(one.moved for one in rounds) else f"as its {after} had left it"
    if stayed:
        which = "the answers" if len(rounds) == 1 else f"the answers of round {', '.join(stayed)}"
        yield (
            f"Nothing was learnt from {which}: those held out favour no step clearly (student.caution "
            f"{config.student.caution:g}), so the student stayed {start}. The noise may be too large, or the teachers "
            "too weak."
        )
    if silent:
        yield (
            f"Round {', '.join(silent)} of answers asked nothing and spent nothing, so the student stayed {start}: its "
            "sentences offered too few positions to ask about, or to judge the answers by."
        )


def how(config: Config, asked: int) -> str:
    """How the student was made, in public settings and the number of questions."""
    made_from, own = f"base model {told(config.model)}", config.baseline
    if own is not None:
        noise = f": {own.steps} steps of about {own.batch} units, research noise by Opacus" if own.noisy else ""
        return f"baseline {own.method}{noise}, {made_from}"
    parts = []
    if config.share_of_updates:
        who = "of all units" if config.update_rate == 1 else f"of a Poisson sample ({config.updates.sample:g})"
        parts.append(f"{config.updates.rounds} rounds of updates {who}")
    if asked:
        parts.append(f"{config.teachers.count} teachers, {asked:,} questions")
    return f"recipe {config.ask.recipe}: {', then '.join(parts)}, {made_from}"


def told(source: str) -> str:
    """A model by its name; a folder by its last name: where it lies on the owner's machine is nobody's business."""
    place = Path(source).expanduser()
    local = place.is_absolute() or source.startswith(("./", "../")) or place.is_dir()
    return place.resolve().name if local and source != "embedded" else source


def render(template: str, values: dict[str, Any], *, html: bool = False, room: str = "public") -> str:
    source = (resources.files("hearsay") / room / "templates" / template).read_text(encoding="utf-8")
    environment = Environment(autoescape=html, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source).render(**values)
