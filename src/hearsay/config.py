"""Every setting, once: its type is the check, its description the help text and the comment in `hearsay init`.

Privacy settings and compute settings are different types, so that no speed knob can change a guarantee. Numbers of
units and sentences are *declared*: hearsay never counts private rows for you, because a count is a release.
"""

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hearsay import dimensions
from hearsay.accounting import plan
from hearsay.baselines.settings import Baseline
from hearsay.errors import ConfigError

FILES = ("private", "public", "holdout", "files")  # settings that name files
Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Data(_Section):
    private: list[Path] = Field(min_length=1, description="private files: jsonl, csv, parquet (.gz .xz .bz2), datasets")
    public: list[Path] = Field(min_length=1, description="public files of OTHER units; only their prefixes are used")
    holdout: list[Path] = Field([], description="private files of units that nobody trains on: only to measure with")
    text: str = Field("text", description="column that holds the text")
    user: str | None = Field("user", description="column that says whose row it is; needed for unit: user")
    public_user: str | None = Field("user", description="the same in public files, to check that they are OTHER users; "
                                    "null declares that they are")  # fmt: skip
    units: Positive = Field(description="how many units the private files hold, as declared by you (never counted)")
    sentences: Positive = Field(description="how many private rows there are, as declared by you (never counted)")
    mean_tokens: Positive = Field(20, description="average tokens of a private row, roughly, as declared by you")
    cap: Positive = Field(200, description="rows one unit may contribute; further ones are ignored")
    prefix_tokens: Positive = Field(4, description="tokens of a public text that are used as a prefix")
    min_tokens: Positive = Field(8, description="shorter sentences are left out")
    max_tokens: Positive = Field(40, description="longer sentences are cut")

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


class Privacy(_Section):
    """What is promised. Nothing here changes speed."""

    epsilon: float = Field(3.0, gt=0, description="the budget of the whole corpus, over all runs")
    delta: float = Field(1e-6, gt=0, lt=1, description="chance of a worse loss; well below 1 / units")
    spend: Share = Field(1.0, description="share of that budget which this run may use")
    unit: Literal["user", "record"] = Field("user", description="who is protected: a user with all rows, or one record")
    corpus: str = Field(min_length=1, description="a name of your choice; its ledger counts every run on it")
    secrets: Path | None = Field(None, description="file of phrases to report on (one per line), for your eyes only")


class Adapter(_Section):
    """What teachers and student train: the same few numbers over a frozen model."""

    rank: Positive = Field(8, description="rank of an adapter")
    blocks: Positive = Field(2, description="how many top blocks of the model carry adapters")
    basis: Literal["public", "random"] = Field(
        "public", description="where adapters read their input: along the public model's main directions, or anywhere"
    )


class Teachers(_Section):
    count: Positive = Field(description="number of shards; public. About sentences / 300 (see hearsay plan)")
    epochs: float = Field(3.0, gt=0, description="passes over a shard of the declared average size")
    learning_rate: float = Field(3e-3, gt=0, description="teachers' learning rate")
    row_tokens: Positive = Field(64, description="tokens of a row; sentences are packed into rows")
    rows: Positive = Field(2, description="rows a teacher sees per step")


class Ask(_Section):
    recipe: Literal["seqpate", "hellinger", "updates", "mixed"] = Field(
        "hellinger",
        description="seqpate (the paper), hellinger (better answers), updates, mixed (updates, then answers)",
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


class Updates(_Section):
    """Rounds in which every unit says how it would move the student: recipes updates and mixed."""

    rounds: Positive = Field(60, description="how often; the noise of each grows with the root of it")
    share: Share = Field(0.8, description="mixed: share of the budget for updates; answers get the rest")
    sample: Share = Field(
        1.0, description="chance of a unit to take part in a round; below 1: faster, a little noisier"
    )
    rows: Positive = Field(2, description="rows of teachers.row_tokens tokens a unit learns from, per step of its own")
    pages: Positive = Field(1, description="such sets of rows a unit is packed into, taken in turn by the rounds")
    local_steps: Positive = Field(1, description="1: a unit's gradient (DP-SGD); more: its own steps (DP-FedAvg)")
    local_rate: float = Field(1e-3, gt=0, description="learning rate of these steps, where there are several")
    clip: float = Field(1.0, gt=0, description="norm that a unit's update is cut to")
    optimiser: Literal["adam", "momentum"] = Field("adam", description="what turns noisy updates into the student")
    learning_rate: float = Field(1e-2, gt=0, description="of that")
    average: Share = Field(0.25, description="the student is the mean over this last part of the rounds")


class Student(_Section):
    loss: Literal["kl", "ce"] = Field("kl", description="seqpate: kl, or ce on the likeliest answer (hard label)")
    pseudo_loss: bool = Field(True, description="seqpate: also learn the pseudo sentences themselves")
    weight: float = Field(20.0, ge=0, description="seqpate: weight of the teachers' loss beside the pseudo loss")
    pseudo: Positive = Field(2000, description="pseudo sentences for the warm-up, completed by the public model")
    warm_up: int = Field(100, ge=0, description="steps on pseudo sentences before the first question")
    steps: Positive = Field(300, description="most steps on the answers, per round")
    batch: Positive = Field(32, description="sentences per step")
    learning_rate: float = Field(2e-3, gt=0, description="student's learning rate")


class Compute(_Section):
    """How fast, where. Nothing here may change what is promised."""

    device: str = Field("auto", description="auto, cpu, cuda, cuda:1 ...")
    precision: Literal["auto", "float32", "bfloat16"] = Field("auto", description="of teachers; auto: bfloat16 if fast")
    block: Positive | None = Field(None, description="teachers per launch; null: chosen for the device")
    compile: bool = Field(False, description="torch.compile; pays on a GPU for long runs")
    seed: int = Field(0, description="seed of everything public (never of the noise)")


class Config(_Section):
    task: Literal["generate"] = Field("generate", description="what to make: a language model")
    data: Data
    privacy: Privacy
    model: str = Field("embedded", description="embedded, a local folder, or a hub id")
    adapter: Adapter = Field(default_factory=lambda: Adapter.model_validate({}))
    teachers: Teachers
    ask: Ask = Field(default_factory=lambda: Ask.model_validate({}))
    updates: Updates = Field(default_factory=lambda: Updates.model_validate({}))
    student: Student = Field(default_factory=lambda: Student.model_validate({}))
    compute: Compute = Field(default_factory=lambda: Compute.model_validate({}))
    baseline: Baseline | None = Field(None, description="a baseline instead of teachers (docs/baselines.md)")

    @model_validator(mode="after")
    def _together(self) -> "Config":
        if self.privacy.unit == "user" and self.data.user is None:
            raise ValueError("privacy.unit is user but data.user names no column; name one, or set unit: record")
        if self.data.max_tokens + 1 > self.teachers.row_tokens:
            raise ValueError(
                f"data.max_tokens {self.data.max_tokens} does not fit rows of {self.teachers.row_tokens} tokens with "
                "the start token; raise teachers.row_tokens or lower data.max_tokens"
            )
        if self.baseline is not None:
            self._fits(self.baseline)
        return self

    @property
    def share_of_updates(self) -> float:
        """Of what this run may spend."""
        return {"updates": 1.0, "mixed": self.updates.share}.get(self.ask.recipe, 0.0)

    @property
    def rounds_of_answers(self) -> int:
        return 0 if self.ask.recipe == "updates" else self.ask.rounds

    def _fits(self, baseline: Baseline) -> None:
        if baseline.noisy and baseline.batch > self.data.units:
            raise ValueError(
                f"baseline.batch {baseline.batch} is more than data.units {self.data.units}; lower it (data.units "
                "itself puts every unit into every step)"
            )
        if baseline.noisy and baseline.tokens < self.data.max_tokens + 1:
            raise ValueError(
                f"data.max_tokens {self.data.max_tokens} does not fit a row of {baseline.tokens} tokens with the start "
                "token; raise baseline.tokens or lower data.max_tokens"
            )
        if baseline.method == "blacklist" and self.privacy.secrets is None:
            raise ValueError("baseline.method blacklist replaces secrets; name a file of them in privacy.secrets")

    def plan_request(self) -> plan.Request:
        """The plan's question, in public settings only. A clip still to be rehearsed is planned at its ceiling."""
        return plan.Request(
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            unit=self.privacy.unit,
            recipe=self.ask.recipe,
            teachers=self.teachers.count,
            queries=self.ask.questions * self.ask.rounds,
            units=self.data.units,
            sentences=self.data.sentences,
            clip=self.ask.clip if isinstance(self.ask.clip, float) else None,
            candidates=self.ask.candidates,
            noise=self.ask.noise,
            rounds=self.updates.rounds,
            share=self.updates.share,
            dimensions=dimensions.of_outputs(self.model, self.adapter.rank, self.adapter.blocks),
        )


class Budgeted(Protocol):
    """Settings of any task: what a ledger is opened for."""

    @property
    def privacy(self) -> Privacy: ...


Kind = TypeVar("Kind", bound=BaseModel)


def load(path: Path) -> Config:
    """Reads and checks a YAML file; relative data paths are relative to that file."""
    return parse(_read(path), path.parent, str(path))


def load_as(kind: type[Kind], path: Path) -> Kind:
    """The same for the settings of another task."""
    return parse_as(kind, _read(path), path.parent, str(path))


def task_of(path: Path) -> str:
    """Which task a config is for; what is wrong with the rest of it is told by `load` or `load_as`."""
    return str(_mapping(_read(path), str(path)).get("task", "generate"))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        fault = f"no config at {path}; type `hearsay init DIR` to write one"
    except OSError as error:
        fault = f"{path} cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        fault = f"{path} cannot be read: it is not text in UTF-8"
    raise ConfigError(fault)


def parse(text: str, folder: Path, name: str = "config") -> Config:
    return parse_as(Config, text, folder, name)


def parse_as(kind: type[Kind], text: str, folder: Path, name: str = "config") -> Kind:
    body = _mapping(text, name)
    try:
        config = kind.model_validate(body)
    except ValidationError as error:
        raise ConfigError(f"{name}:\n" + "\n".join(_explain(item, kind) for item in error.errors())) from None
    return _resolved(config, folder)


def _mapping(text: str, name: str) -> dict[str, Any]:
    """A file of private rows may be named by mistake. Parsers quote what they cannot read: not passed on."""
    where = ""
    try:
        body = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else " in its characters"
    if where:
        raise ConfigError(f"{name} is not readable YAML{where}; type `hearsay init DIR` for a commented example")
    if not isinstance(body, dict):
        raise ConfigError(f"{name} holds no settings; type `hearsay init DIR` for a commented example")
    return body


def to_yaml(config: BaseModel) -> str:
    """Every setting as it is used, defaults and full paths included: what a run directory keeps."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def _resolved(config: Kind, folder: Path) -> Kind:
    def absolute(section: Any) -> dict[str, Any]:
        """Lists of paths in a section, relative to the config's folder."""
        lists = {name: value for name, value in section if isinstance(value, list) and name in FILES}
        return {name: [(folder / path).resolve() for path in paths] for name, paths in lists.items()}

    found = {name: value for name, value in config if isinstance(value, BaseModel)}
    update: dict[str, Any] = {name: value.model_copy(update=absolute(value)) for name, value in found.items()}
    privacy = found["privacy"]
    if isinstance(privacy, Privacy) and privacy.secrets and not privacy.secrets.is_absolute():
        update["privacy"] = privacy.model_copy(update={"secrets": (folder / privacy.secrets).resolve()})
    return config.model_copy(update=update)


def _explain(item: Any, kind: type[BaseModel]) -> str:
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        near = difflib.get_close_matches(where.split(".")[-1], _keys(item["loc"][:-1], kind), n=1, cutoff=0.4)
        return f"  {where}: unknown setting" + (f"; did you mean {near[0]}?" if near else "")
    got = "" if item["type"] == "missing" else f" (got {item['input']!r})"
    return f"  {where or 'settings'}: {item['msg'].removeprefix('Value error, ')}{got if where else ''}"


def _keys(path: tuple[Any, ...], kind: type[BaseModel]) -> list[str]:
    section: Any = kind
    for part in path:
        section = _section(section.model_fields[part].annotation)
    return list(section.model_fields)


def _section(kind: Any) -> type[BaseModel] | None:
    """The section that a field holds, an optional one too; none for a plain value."""
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, BaseModel):
            return one
    return None


def commented_yaml(values: dict[str, Any], task: type[BaseModel] = Config) -> str:
    """A config file with every setting, its default and its meaning; `values` fills what has no default.

    A section that is off unless it is there (baseline) is written as comments.
    """
    lines = []
    for name, info in task.model_fields.items():
        kind = _section(info.annotation)
        if kind is None:
            lines.append(_setting(f"{name}: {_scalar(values.get(name, info.default))}", info.description))
            continue
        off = "# " if info.default is None and name not in values else ""
        lines += ["", _setting(f"{off}{name}:", info.description) if off else f"{name}:"]
        for key, field in kind.model_fields.items():
            given = values.get(name, {}).get(key, None if field.is_required() else field.default)
            lines.append(_setting(f"{off}  {key}: {_scalar(given)}", field.description))
    return "\n".join(lines).lstrip() + "\n"


def _setting(text: str, description: str | None) -> str:
    return f"{text:<34} # {description}"


def _scalar(value: Any) -> str:
    if isinstance(value, float) and 0 < value < 1e-3:
        return f"{value:.1e}"  # YAML 1.1 reads 1e-06 as a string, 1.0e-06 as a number
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("\n").removesuffix("\n...")
