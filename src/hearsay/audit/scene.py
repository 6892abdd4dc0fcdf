"""Who is attacked, with what, and how hard: what all attacks share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hearsay.audit import shadows
from hearsay.audit.findings import Finding
from hearsay.audit.statistics import Promise
from hearsay.audit.subjects import Subject
from hearsay.errors import BadInput
from hearsay.lm import LanguageModel
from hearsay.private.training import TrainingShape
from hearsay.stages import Progress, Stages, Watch


@dataclass(frozen=True)
class Effort:
    """How much is looked at. 1,700 units a side make an AUC's interval .02 wide each way."""

    units: int = 1700
    rows: int = 2
    neighbours: int = 2
    remembered: int = 64  # units of the reference that is not private
    epochs: float = 16  # of that reference: it is to remember its rows word for word
    shadows: int = 16
    shadow_epochs: float = 4
    texts: int = 150
    beams: int = 24
    finished: int = 300  # texts to finish, a side
    released: int = 600  # records made for the linkage attack
    known: int = 400  # people of the auxiliary table against the anonymised original
    draws: int = 100_000
    through: int = 1_000


class Quiet:
    """Stages of work that belongs to no run directory: shown, and noted nowhere."""

    def __init__(self, watch: Callable[[str], Watch]) -> None:
        self._watch = watch

    @contextmanager
    def start(self, name: str) -> Iterator[Progress]:
        view = self._watch(name)
        try:
            yield view.progress
        except BaseException:
            view.close(failed=True)
            raise
        view.close(failed=False)


@dataclass
class Scene:
    """Who is attacked with what. `private` is the reference that is not, `promise` what the target is held against."""

    target: LanguageModel
    public: LanguageModel
    private: LanguageModel | None
    members: list[Subject]
    others: list[Subject]
    remembered: list[Subject]
    known: list[Subject]  # some members with all their rows, for linkage
    promise: Promise | None
    shape: TrainingShape | None
    effort: Effort
    seed: int
    flow: Stages | Quiet
    secrets: list[str]
    max_tokens: int
    mean_tokens: int  # of a row, as declared

    def models(self) -> list[tuple[str, LanguageModel, list[Subject], Promise | None]]:
        """(role, model, its members, its promise)."""
        found: list[tuple[str, LanguageModel, list[Subject], Promise | None]] = [
            ("target", self.target, self.members, self.promise)
        ]
        if self.private is not None:
            found.append(("not_private", self.private, self.remembered, None))
        return found


Result = dict[str, dict[str, Finding]]  # attack -> role -> what it found


def overfit(scene: Scene, epochs: float) -> TrainingShape:
    """Of the reference and its shadows. From declared numbers, as everywhere: steps are shown and name a file."""
    if scene.shape is None:
        raise BadInput("shadow models need a base model to start from; name it with --base")
    tokens = scene.effort.remembered * scene.effort.rows * (scene.mean_tokens + 1)
    return shadows.overfit_shape(scene.shape, tokens, epochs)
