"""Settings of `task: augment`: a labelled synthetic corpus. Privacy and compute settings are those of every task.

The list of labels is a setting, hence public: a label that stands only in the private rows counts as "other" and is
never named. Prompts are made of labels and public terms; there is no place in them for private text.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from hearsay.accounting import plan_augment
from hearsay.sections import Compute, Positive, Privacy, Section, Share, check_apart

OTHER = "other"
PROMPT = "Please write a short note from the field of {label}: "


class LabelledData(Section):
    private: list[Path] = Field(min_length=1, description="private files: jsonl, csv, parquet (.gz .xz .bz2), datasets")
    holdout: list[Path] = Field([], description="private files of units that nobody trains on: only to measure with")
    text: str = Field("text", description="column that holds the text")
    label: str = Field("label", description="column that holds the label, or a list of labels")
    separator: str | None = Field(None, description="what separates several labels in one value, such as |")
    user: str | None = Field(None, description="column that says whose row it is; needed for unit: user")
    labels: list[str] = Field(description="every label there may be: public; others count as `other`")
    units: Positive = Field(description="how many units the private files hold, as declared by you (never counted)")
    cap: Positive = Field(20, description="rows one unit may contribute; further ones are ignored")

    @field_validator("private", "holdout", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | Path) else value

    @field_validator("labels")
    @classmethod
    def _labels(cls, value: list[str]) -> list[str]:
        if len(value) < 2:
            raise ValueError("need at least 2 labels: with one there is nothing to tell apart")
        if len(set(value)) != len(value) or any(not name.strip() or name != name.strip() for name in value):
            raise ValueError("need each label once, none of them empty or with space around it")
        if OTHER in value:
            raise ValueError("`other` is kept for labels that are not listed; call yours something else")
        return value


class Endpoint(Section):
    """An OpenAI-compatible server: vLLM, Ollama, a vendor. It sees prompts, and prompts hold no private text."""

    base_url: str = Field("http://127.0.0.1:8000/v1", description="for backend endpoint: address of the server")
    key_variable: str = Field("OPENAI_API_KEY", description="environment variable that holds the key, if one is needed")
    concurrency: Positive = Field(4, description="requests under way at a time")
    timeout: float = Field(60.0, gt=0, description="seconds to wait for one answer")
    retries: int = Field(5, ge=0, description="further tries after a time-out, a 429 or a 5xx, with growing pauses")
    pause: float = Field(1.0, ge=0, description="seconds before the first further try; doubled each time")
    per_minute: Positive | None = Field(None, description="most requests a minute; null: no limit")
    most_cost: float | None = Field(None, gt=0, description="stop before spending more than this; null: no limit")
    price_in: float = Field(0.0, ge=0, description="price of a million prompt tokens")
    price_out: float = Field(0.0, ge=0, description="price of a million answer tokens")


class Generator(Section):
    backend: Literal["local", "endpoint", "student", "file"] = Field(
        "local", description="local model, OpenAI-compatible endpoint, private student of a run, file of texts"
    )
    model: str = Field("embedded", description="embedded, folder or hub id; the endpoint's model; the student's run")
    files: list[Path] = Field([], description="backend file: texts with labels that were made elsewhere, of no unit")
    prompt: str = Field(PROMPT, description="what is asked; {label} and {term} are filled in")
    openings: list[str] = Field([], description="first words of a text (part of it); {label} and {term} are filled in")
    terms: dict[str, list[str]] = Field({}, description="public words of a label, one of which fills {term}")
    texts: Positive = Field(2000, description="candidates to write, evenly over the labels")
    tokens: Positive = Field(96, description="most tokens of a text")
    least_words: Positive = Field(8, description="shorter texts are thrown away")
    temperature: float = Field(0.9, ge=0, description="0 takes the likeliest token each time")
    top_p: Share = Field(0.95, description="sample from the likeliest tokens up to this mass")

    @model_validator(mode="after")
    def _backend(self) -> "Generator":
        if (self.backend == "file") != bool(self.files):
            raise ValueError("backend file needs files, and files belong to backend file")
        if self.backend != "file" and not any("{label}" in text or "{term}" in text for text in self._templates()):
            raise ValueError("neither prompt nor openings hold {label} or {term}: every label would get the same texts")
        return self

    def _templates(self) -> list[str]:
        return [self.prompt, *self.openings]


class Discriminator(Section):
    method: Literal["means", "gradients", "clusters", "votes"] = Field(
        "means", description="means, gradients or clusters: few vectors released; votes: the paper's teachers"
    )
    encoder: str = Field("embedded", description="embedded (pooled states), or a sentence-transformers folder or id")
    max_tokens: Positive = Field(128, description="tokens of a text that the encoder reads")
    dimensions: Positive = Field(48, description="directions kept, found on the candidates alone")
    steps: Positive = Field(20, description="gradients: noisy steps, each of which is charged")
    clusters: Positive = Field(100, description="clusters: cells of the histogram, found on the candidates alone")
    teachers: Positive = Field(15, description="votes: number of shards")
    queries: Positive = Field(12, description="votes: candidates asked about, each of which is charged")
    answer: Literal["argmax", "margin"] = Field("argmax", description="votes: hard label (the paper) or noisy margin")
    noise: Literal["gaussian", "laplace"] = Field("gaussian", description="votes: laplace for comparison only")


class Tutor(Section):
    use: bool = Field(True, description="false: labels in even shares, and nothing is spent on their histogram")
    share: Share = Field(0.1, description="share of this run's budget for the noisy label histogram", lt=1)
    floor: float = Field(1.0, ge=0, description="least count of a label, in standard deviations of the noise: a label "
                         "lost in it is not proved absent; 0: as the paper")  # fmt: skip


class Selection(Section):
    texts: Positive = Field(1000, description="texts of the synthetic corpus, by the tutor's shares")
    relabel: bool = Field(True, description="let the private scores name a candidate's label; false: the prompt's")
    order: Literal["spread", "best"] = Field(
        "spread", description="spread: any of the texts that the scores give a label; best: the highest scores (paper)"
    )
    temper: float = Field(0.5, ge=0, le=1, description="power of the tutor's shares: 1 as they are, 0 even")
    near_copy: float = Field(0.98, gt=0, le=1, description="candidates more alike than this (cosine) count as copies")


class AugmentConfig(Section):
    task: Literal["augment"] = Field("augment", description="what to make: a labelled synthetic corpus")
    data: LabelledData
    privacy: Privacy
    generator: Generator = Field(default_factory=lambda: Generator.model_validate({}))
    endpoint: Endpoint = Field(default_factory=lambda: Endpoint.model_validate({}))
    discriminator: Discriminator = Field(default_factory=lambda: Discriminator.model_validate({}))
    tutor: Tutor = Field(default_factory=lambda: Tutor.model_validate({}))
    selection: Selection = Field(default_factory=lambda: Selection.model_validate({}))
    compute: Compute = Field(default_factory=lambda: Compute.model_validate({}))

    @model_validator(mode="after")
    def _together(self) -> "AugmentConfig":
        if self.privacy.unit == "user" and self.data.user is None:
            raise ValueError("privacy.unit is user but data.user names no column; name one, or set unit: record")
        check_apart([*self.data.private, *self.data.holdout], self.generator.files, "generator.files")
        if self.discriminator.method == "votes" and self.selection.relabel:
            raise ValueError("votes say private or generated, not which label; set selection.relabel: false")
        if unknown := sorted(set(self.generator.terms) - set(self.data.labels)):
            raise ValueError(f"generator.terms names {unknown[0]!r}, which data.labels does not list")
        if self.compute.engine != "local":
            raise ValueError("a labelled corpus is made in one process; set compute.engine: local")
        return self

    def plan_request(self) -> plan_augment.Request:
        method, tutor = self.discriminator, self.tutor
        return plan_augment.Request(
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            unit=self.privacy.unit,
            units=self.data.units,
            labels=len(self.data.labels),
            method=method.method,
            steps=method.steps,
            teachers=method.teachers,
            queries=method.queries,
            spend=self.privacy.spend,
            tutor=tutor.share if tutor.use else None,
            noise=method.noise,
        )
