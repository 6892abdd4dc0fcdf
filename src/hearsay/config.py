"""A config as a whole: what its sections (sections.py) must be together, how it is read, explained and written."""

import difflib
import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from hearsay import dimensions
from hearsay.accounting import plan, sampled
from hearsay.baselines.settings import Baseline
from hearsay.errors import ConfigError
from hearsay.sections import (
    JUDGES,
    Adapter,
    Ask,
    Compute,
    Data,
    Privacy,
    Section,
    Student,
    Teachers,
    Updates,
    check_apart,
)

FILES = ("private", "public", "holdout", "files")  # settings that name files
MODELS = ("model", "encoder")  # settings that may name a folder
UPDATES = "updates"  # the recipe that asks no teacher, and the default
PARTS = 500  # of the text on the disk, where there are no teachers
MOST_PAGES = 16  # of a unit's text: more would lie unread for most of a run


class Config(Section):
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

    @model_validator(mode="before")
    @classmethod
    def _shards(cls, body: Any) -> Any:
        """Where no teacher is asked, their number only says in how many parts the text lies on the disk."""
        if not isinstance(body, dict) or not isinstance(teachers := body.get("teachers") or {}, dict):
            return body
        if "count" in teachers:
            return body
        ask, data = body.get("ask") or {}, body.get("data") or {}
        recipe = ask.get("recipe", UPDATES) if isinstance(ask, dict) else ask.recipe
        if recipe != UPDATES and not body.get("baseline"):
            raise ValueError(
                f"recipe {recipe} needs teachers.count: about data.sentences / 50; hearsay plan tells what it buys"
            )
        units = data.get("units") if isinstance(data, dict) else data.units
        count = min(PARTS, units) if isinstance(units, int) and units > 0 else PARTS
        return {**body, "teachers": {**teachers, "count": count}}

    @model_validator(mode="after")
    def _together(self) -> "Config":
        if self.privacy.unit == "user" and self.data.user is None:
            raise ValueError("privacy.unit is user but data.user names no column; name one, or set unit: record")
        check_apart([*self.data.private, *self.data.holdout], self.data.public, "data.public")
        if self.data.max_tokens + 1 > self.teachers.row_tokens:
            raise ValueError(
                f"data.max_tokens {self.data.max_tokens} does not fit rows of {self.teachers.row_tokens} tokens with "
                "the start token; raise teachers.row_tokens or lower data.max_tokens"
            )
        judges = round(self.ask.questions * self.ask.holdout)
        if self.baseline is None and self.rounds_of_answers and judges < JUDGES and self.student.caution:
            raise ValueError(
                f"ask.questions {self.ask.questions} and ask.holdout {self.ask.holdout:g} hold out {judges} answers; "
                f"need {JUDGES} to tell whether they favour a step. Raise {self._more_judges()}, or take steps as they "
                "come with student.caution: 0"
            )
        if self.baseline is not None:
            self._fits(self.baseline)
            if self.compute.engine != "local":
                raise ValueError("baselines run in one process; set compute.engine: local")
        return self

    @property
    def update_rate(self) -> Fraction:
        """The chance of a unit to take part in a round of updates."""
        return sampled.rate_of(self.updates.sample)

    @property
    def update_pages(self) -> int:
        """Sets of rows a unit's text is laid out on, one a round in turn: a round that sees new sentences teaches more
        than one that sees the same again. From declared numbers, so that all units have as many.
        """
        if self.updates.pages is not None:
            return self.updates.pages
        text = self.data.sentences / self.data.units * (self.data.mean_tokens + 1)
        page = self.updates.rows * self.updates.local_steps * self.teachers.row_tokens
        return min(MOST_PAGES, max(1, round(text / page)))

    @property
    def update_weights(self) -> str:
        """Public second moments are those of gradients: several local steps are something else."""
        return self.updates.weights or ("public" if self.updates.local_steps == 1 else "equal")

    @property
    def parcel(self) -> int:
        """Sentences of the declared average length that a unit learns from in one step."""
        return max(1, self.updates.rows * self.teachers.row_tokens // (self.data.mean_tokens + 1))

    @property
    def share_of_updates(self) -> float:
        """Of what this run may spend."""
        return {"updates": 1.0, "mixed": self.updates.share}.get(self.ask.recipe, 0.0)

    @property
    def all_committed(self) -> bool:
        """Whether nothing is asked beside a schedule of samples."""
        return self.share_of_updates == 1 and self.update_rate < 1

    @property
    def rounds_of_answers(self) -> int:
        return 0 if self.ask.recipe == "updates" else self.ask.rounds

    def _more_judges(self) -> str:
        """What to raise, and to what, for enough held-out answers: less than half of all may be held out."""
        ask, ways = self.ask, []
        if ask.holdout:
            ways.append(f"ask.questions to {math.ceil(JUDGES / ask.holdout):,}")
        if ask.questions > 2 * JUDGES:
            ways.append(f"ask.holdout to {math.ceil(100 * JUDGES / ask.questions) / 100:g}")
        return " or ".join(ways) or "both"

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
        """The plan's question, in public settings only. A clip still to be rehearsed is planned at its ceiling; steps
        of DP-SGD are updates like others, of both halves of an adapter.
        """
        noisy = self.baseline if self.baseline is not None and self.baseline.noisy else None
        width = dimensions.of_outputs if noisy is None else dimensions.of_adapters
        return plan.Request(
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            unit=self.privacy.unit,
            recipe="updates" if noisy else self.ask.recipe,
            teachers=self.teachers.count,
            queries=self.ask.questions * self.ask.rounds,
            units=self.data.units,
            sentences=self.data.sentences,
            clip=self.ask.clip if isinstance(self.ask.clip, float) else None,
            candidates=self.ask.candidates,
            noise=self.ask.noise,
            rounds=noisy.steps if noisy else self.updates.rounds,
            sample=noisy.batch / self.data.units if noisy else self.updates.sample,
            share=self.updates.share,
            spend=self.privacy.spend,
            dimensions=width(self.model, self.adapter.rank, self.adapter.blocks),
        )


class Budgeted(Protocol):
    """Settings of any task: what a ledger is opened for."""

    @property
    def privacy(self) -> Privacy: ...

    @property
    def data(self) -> Any: ...


Kind = TypeVar("Kind", bound=BaseModel)


def load(path: Path) -> Config:
    """Reads and checks a YAML file; relative data paths are relative to that file."""
    return parse(_read(path), path.parent, str(path))


def load_as(kind: type[Kind], path: Path) -> Kind:
    """The same for the settings of another task."""
    return parse_as(kind, _read(path), path.parent, str(path))


def task_of(path: Path) -> str:
    """Which task a config is for; what is wrong with the rest of it is told by `load` or `load_as`."""
    return task_in(_read(path), str(path))


def task_in(text: str, name: str = "config") -> str:
    return str(_mapping(text, name).get("task", "generate"))


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
        config = _resolved(kind.model_validate(body), folder)
        return kind.model_validate(config.model_dump())  # again: one file may be named in two ways
    except ValidationError as error:
        raise ConfigError(f"{name}:\n" + "\n".join(_explain(item, kind) for item in error.errors())) from None


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
        files = {name: [(folder / path).resolve() for path in paths] for name, paths in lists.items()}
        return files | models(section)

    def models(section: Any) -> dict[str, Any]:
        if getattr(section, "backend", "") == "endpoint":  # a name on a server
            return {}
        return {name: _model(value, folder) for name, value in section if name in MODELS and isinstance(value, str)}

    found = {name: value for name, value in config if isinstance(value, BaseModel)}
    update = {name: value.model_copy(update=absolute(value)) for name, value in found.items()} | models(config)
    privacy = found["privacy"]
    if isinstance(privacy, Privacy) and privacy.secrets and not privacy.secrets.is_absolute():
        update["privacy"] = privacy.model_copy(update={"secrets": (folder / privacy.secrets).resolve()})
    return config.model_copy(update=update)


def _model(source: str, folder: Path) -> str:
    """A model's folder, relative to the config's; what is no folder there and does not read as one is a hub id."""
    place = folder / Path(source).expanduser()
    reads_as_path = source.startswith(("/", "./", "../", "~")) or ".." in Path(source).parts
    return str(place.resolve()) if source != "embedded" and (reads_as_path or place.is_dir()) else source


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
