"""The sections of a config: every setting once. Its type is the check, its description the help text.

Privacy settings and compute settings are different types, so that no speed knob can change a guarantee. Numbers of
units and sentences are *declared*: hearsay never counts private rows for you, because a count is a release.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]


JUDGES = 20  # held-out answers, at least: of fewer, pure noise passes for a clear gain too often


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def check_apart(private: list[Path], public: list[Path], name: str) -> None:
    """Before any file is read: a private file must not be named as a public one, nor lie in a folder that is."""
    for given in public:
        other = given.resolve()
        for one in (path.resolve() for path in private):
            if one == other or one in other.parents or other in one.parents:
                raise ValueError(f"{name} names a private file, {given}; what is public must come from others")


class Data(Section):
    private: list[Path] = Field(min_length=1, description="private files: jsonl, csv, parquet (.gz .xz .bz2), datasets")
    public: list[Path] = Field(min_length=1, description="public files of OTHER units; only their prefixes are used")
    holdout: list[Path] = Field([], description="private files of units that nobody trains on: only to measure with")
    text: str = Field("text", description="column that holds the text")
    user: str | None = Field("user", description="column that says whose row it is; needed for unit: user")
    public_text: str | None = Field(None, description="column that holds the text in public files; null: called alike")
    public_user: str | None = Field("user", description="whose row it is there, to check that they are OTHER users; "
                                    "null declares that they are")  # fmt: skip
    units: Positive = Field(description="how many units the private files hold, as declared by you (never counted)")
    sentences: Positive = Field(description="how many private rows there are, as declared by you (never counted)")
    mean_tokens: Positive = Field(20, description="average tokens of a private row, roughly, as declared by you")
    cap: Positive = Field(200, description="rows one unit may contribute; further ones are ignored")
    prefix_tokens: Positive = Field(4, description="tokens of a public text that are used as a prefix")
    min_tokens: Positive = Field(8, description="shorter sentences are left out")
    max_tokens: Positive = Field(40, description="longer sentences are cut")

    @property
    def public_column(self) -> str:
        return self.public_text or self.text

    @field_validator("private", "public", "holdout", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | Path) else value

    @model_validator(mode="after")
    def _prefix_fits(self) -> "Data":
        if not self.prefix_tokens < self.min_tokens <= self.max_tokens:
            raise ValueError(
                f"prefix_tokens {self.prefix_tokens}, min_tokens {self.min_tokens}, max_tokens {self.max_tokens}: "
                "need prefix < min <= max, or there is nothing after the prefix to learn"
            )
        return self


class Privacy(Section):
    """What is promised. Nothing here changes speed."""

    epsilon: float = Field(3.0, gt=0, description="the budget of the whole corpus, over all runs")
    delta: float = Field(1e-6, gt=0, lt=1, description="how far beyond e^epsilon a chance may grow; below 1 / units")
    spend: Share = Field(1.0, description="share of that budget which this run may use")
    unit: Literal["user", "record"] = Field("user", description="who is protected: a user with all rows, or one record")
    corpus: str = Field(min_length=1, description="a name of your choice; its ledger counts every run on it")
    secrets: Path | None = Field(None, description="file of phrases to report on (one per line), for your eyes only")


class Adapter(Section):
    """What teachers and student train: the same few numbers over a frozen model."""

    rank: Positive = Field(16, description="rank of an adapter")
    blocks: Positive = Field(4, description="how many top blocks of the model carry adapters")
    basis: Literal["public", "random"] = Field(
        "public", description="where adapters read their input: along the public model's main directions, or anywhere"
    )


class Teachers(Section):
    count: Positive = Field(description="number of shards; public. About sentences / 50 (see plan); updates: any")
    epochs: float = Field(3.0, gt=0, description="passes over a shard of the declared average size")
    learning_rate: float = Field(3e-3, gt=0, description="teachers' learning rate")
    row_tokens: Positive = Field(64, description="tokens of a row; sentences are packed into rows")
    rows: Positive = Field(2, description="rows a teacher sees per step")


class Ask(Section):
    recipe: Literal["seqpate", "hellinger", "updates", "mixed"] = Field(
        "updates", description="updates (strongest), hellinger (answers), mixed (both), seqpate (answers, as published)"
    )
    rounds: Positive = Field(1, description="rounds of answers, on the student's own text, teachers restarted from it")
    sentences: Positive = Field(1000, description="sentences per round, completed from public prefixes, to ask about")
    questions: Positive = Field(6000, description="positions asked per round, spread over those sentences")
    candidates: Annotated[int, Field(ge=2)] = Field(64, description="most candidate tokens per question (top-k)")
    top_p: Share | None = Field(0.95, description="of these, the likeliest up to this mass; null: all (plain top-k)")
    tail: Positive = Field(32, description="public samples that stand for all other tokens (the rest bucket)")
    selection: Literal["rank", "all"] = Field("all", description="rank: only where the student ranks the label badly")
    rank_threshold: Positive = Field(10, description="what `badly` means for selection: rank")
    aggregate: Literal["mean", "vote"] = Field("mean", description="seqpate: mean of probabilities, or one vote each")
    noise: Literal["gaussian", "laplace"] = Field("gaussian", description="laplace only with seqpate")
    clip: float | Literal["quantile"] | None = Field(
        None,
        description="hellinger: joint clip of a teacher's residuals; quantile: found privately, for 4% of the budget",
    )
    stride: float = Field(
        1.0, gt=0, description="with clip: how far to go along the teachers' mean move; above 1 for weak teachers"
    )
    holdout: float = Field(0.1, ge=0, lt=0.5, description="share of the questions kept to choose the stopping step")

    @model_validator(mode="after")
    def _recipes(self) -> "Ask":
        if self.recipe == "seqpate" and (self.clip is not None or self.rounds != 1):
            raise ValueError("recipe seqpate asks one round without clip; remove them or use recipe hellinger")
        if self.recipe != "seqpate" and (self.noise == "laplace" or self.aggregate == "vote"):
            raise ValueError("noise laplace and aggregate vote belong to recipe seqpate")
        return self


class Updates(Section):
    """Rounds in which every unit says how it would move the student: recipes updates and mixed."""

    rounds: Positive = Field(60, description="how often; the noise of each grows with the root of it")
    share: Share = Field(0.8, description="mixed: share of the budget for updates; answers get the rest")
    sample: Share = Field(1.0, description="chance of a unit to take part in a round; below 1: faster, noisier")
    rows: Positive = Field(2, description="rows of teachers.row_tokens tokens a unit learns from, per step of its own")
    pages: Positive | None = Field(
        None, description="such sets of rows a unit is packed into, taken in turn; null: as the declared text needs"
    )
    vocabulary: Annotated[int, Field(ge=64)] | None = Field(
        None, description="tokens a loss is compared with, likely ones and a draw; null: all. Faster for small models"
    )
    local_steps: Positive = Field(1, description="1: a unit's gradient (DP-SGD); more: its own steps (DP-FedAvg)")
    local_rate: float = Field(1e-3, gt=0, description="learning rate of these steps, where there are several")
    weights: Literal["public", "equal"] | None = Field(
        None, description="of its coordinates: by how much public text moves them, or equal; null: public if one step"
    )
    clip: float = Field(0.5, gt=0, description="norm that a unit's update is cut to")
    optimiser: Literal["adam", "momentum"] = Field("adam", description="what turns noisy updates into the student")
    learning_rate: float = Field(1.5e-2, gt=0, description="of that")
    average: Share = Field(0.1, description="the student is the mean over this last part of the rounds")

    @model_validator(mode="after")
    def _gradients_only(self) -> "Updates":
        if self.weights == "public" and self.local_steps > 1:
            raise ValueError("weights public are those of gradients; use local_steps 1, or weights: equal")
        return self


class Student(Section):
    loss: Literal["kl", "ce"] = Field("kl", description="seqpate: kl, or ce on the likeliest answer (hard label)")
    pseudo_loss: bool = Field(True, description="seqpate: also learn the pseudo sentences themselves")
    weight: float = Field(20.0, ge=0, description="seqpate: weight of the teachers' loss beside the pseudo loss")
    pseudo: Positive = Field(2000, description="pseudo sentences for the warm-up, completed by the public model")
    warm_up: int = Field(100, ge=0, description="steps on pseudo sentences before the first question")
    steps: Positive = Field(300, description="most steps on the answers, per round")
    caution: float = Field(
        2.0,
        ge=0,
        description="after answers the student moves only if held-out ones favour it by so many standard errors",
    )
    batch: Positive = Field(32, description="sentences per step")
    learning_rate: float = Field(2e-3, gt=0, description="student's learning rate")


class Compute(Section):
    """How fast, where. Nothing here may change what is promised."""

    device: str = Field("auto", description="auto, cpu, cuda, cuda:1 ...")
    precision: Literal["auto", "float32", "bfloat16"] = Field("auto", description="of teachers; auto: bfloat16 if fast")
    block: Positive | None = Field(None, description="teachers (updates: units) a launch; null: chosen for the device")
    compile: bool = Field(False, description="torch.compile; pays on a GPU for long runs")
    seed: int = Field(0, description="seed of everything public (never of the noise)")
    threads: Positive | None = Field(None, description="of each process; null: torch's choice. Changes last bits")
    engine: Literal["local", "ray"] = Field("local", description="who does the private work: this process, or Ray")
    address: str | None = Field(None, description="ray: HOST:PORT of a cluster, auto: this machine's; null: a new one")
    workers: Positive | None = Field(None, description="ray: workers at once; null: one a GPU, or cores / threads")

    @model_validator(mode="after")
    def _ray_only(self) -> "Compute":
        if self.engine == "local" and (self.address is not None or self.workers is not None):
            raise ValueError("address and workers belong to engine ray; set compute.engine: ray, or remove them")
        return self
