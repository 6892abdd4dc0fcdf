"""The settings of a baseline: `baseline:` in a config replaces the teachers; data, unit, budget and ledger stay."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Method = Literal["public", "public_pseudo", "private", "blacklist", "dpsgd", "ghost"]
NOT_PRIVATE: tuple[Method, ...] = ("private", "blacklist")
NOISY: tuple[Method, ...] = ("dpsgd", "ghost")
Positive = Annotated[int, Field(gt=0)]


class Baseline(BaseModel):
    """No default was chosen on private text. What a method does not use is ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    method: Method = Field(
        "dpsgd",
        description="dpsgd, ghost (Opacus), public, public_pseudo; private and blacklist are NOT PRIVATE",
    )
    trainable: Literal["adapter", "full"] = Field("adapter", description="dpsgd: an adapter, or all weights")
    warm_up: bool = Field(True, description="begin from the model warmed up on pseudo text (all but public)")
    batch: Positive = Field(256, description="dpsgd, ghost: units in a step, on average (Poisson); all: as data.units")
    steps: Positive = Field(60, description="dpsgd, ghost: steps, all charged before the first")
    clip: float = Field(0.1, gt=0, description="dpsgd, ghost: norm that a unit's whole gradient is clipped to")
    optimiser: Literal["adam", "momentum"] = Field("adam", description="dpsgd, ghost: after the noise")
    learning_rate: float = Field(5e-3, gt=0, description="dpsgd, ghost: at twice the best rate a student may fail")
    decay: Literal["constant", "linear"] = Field("linear", description="dpsgd, ghost: of the learning rate")
    average: float = Field(0.0, ge=0, lt=1, description="dpsgd, ghost: share of the last steps to average over")
    tokens: Positive = Field(256, description="dpsgd, ghost: a user's sentences, packed into one row of this many")
    physical: Positive | None = Field(None, description="dpsgd, ghost: units computed at once; null: as memory allows")
    known: float = Field(1.0, gt=0, le=1, description="blacklist: share of the secrets that the list knows")

    @model_validator(mode="after")
    def _possible(self) -> "Baseline":
        if self.method == "ghost" and self.trainable == "full":
            raise ValueError(
                "method ghost cannot train all weights (Opacus refuses weights that input and output share); "
                "set trainable: adapter, or method: dpsgd"
            )
        return self

    @property
    def noisy(self) -> bool:
        """Private by noise, and so charged."""
        return self.method in NOISY

    @property
    def protects(self) -> bool:
        return self.method not in NOT_PRIVATE
