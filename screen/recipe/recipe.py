"""The training recipe that a user may state: every field optional, each with its unit.

What is not stated is not guessed: what needs it is "depends on …" and names it. Where the record of a published run has a cell for a field, `CELLS`
says which.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

LARGEST = 10**18
"""No number of a recipe is larger: beyond it stands a slip of the pen, and products of two of them are still finite."""
PRECISIONS = {
    "fp32": "float32", "float": "float32", "tfloat32": "tf32", "bf16": "bfloat16", "fp16": "float16", "half": "float16", "float8": "fp8",
}  # fmt: skip
"""Other words for the names of types."""
SCHEDULES = {"warmup_stable_decay": "wsd", "trapezoidal": "wsd", "noam": "inverse_sqrt", "invsqrt": "inverse_sqrt", "rsqrt": "inverse_sqrt"}
"""Other words for the kinds of schedules."""
DECOUPLED = ("adamw", "lion")
"""Optimisers whose published form decays weights apart from the gradient (Loshchilov and Hutter 2019; Chen et al. 2023)."""


def _number(value: Any) -> Any:
    """A number may be text (YAML reads `1e-4` so); what is true or false is none."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError("must be a number") from None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _word(value: Any) -> Any:
    return value.strip().lower().removeprefix("torch.") if isinstance(value, str) else value


def _precision(value: Any) -> Any:
    word = _word(value)
    return PRECISIONS.get(word, word) if isinstance(word, str) else word


def _schedule(value: Any) -> Any:
    word = _word(value)
    return SCHEDULES.get(word, word) if isinstance(word, str) else word


Precision = Annotated[Literal["float32", "tf32", "bfloat16", "float16", "fp8"], BeforeValidator(_precision)]
Schedule = Annotated[
    Literal["cosine", "linear", "inverse_sqrt", "constant", "constant_then_inverse_sqrt", "exponential", "wsd"], BeforeValidator(_schedule)
]
Positive = Annotated[float, BeforeValidator(_number), Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NonNegative = Annotated[float, BeforeValidator(_number), Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]
Beta = Annotated[float, BeforeValidator(_number), Field(ge=0, lt=1, allow_inf_nan=False)]
Count = Annotated[int, BeforeValidator(_number), Field(gt=0, le=LARGEST)]
Steps = Annotated[int, BeforeValidator(_number), Field(ge=0, le=LARGEST)]
Word = Annotated[str, BeforeValidator(_word), Field(min_length=1, max_length=60)]
Words = Annotated[str, Field(min_length=1, max_length=200)]


class Recipe(BaseModel):
    """How the model will be trained."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    optimizer: Word | None = Field(default=None, description="name, e.g. adamw, sgd, muon")
    lr: Positive | None = Field(default=None, description="peak learning rate, per step")
    betas: tuple[Beta, Beta] | None = Field(default=None, description="decay rates of Adam's two averages, each below 1")
    eps: NonNegative | None = Field(default=None, description="ε of Adam's denominator")
    weight_decay: NonNegative | None = Field(default=None, description="decoupled weight decay λ, per unit of learning rate")
    weight_decay_on: bool | None = Field(default=None, description="whether weights decay, where it is not said by how much")
    decoupled: bool | None = Field(default=None, description="whether weights decay apart from the gradient (AdamW) or as a part of it (L2)")
    decay_times_lr: bool | None = Field(default=None, description="whether a step takes off λ·lr (true, as in torch) or λ times the schedule alone")
    lr_times_rms: bool | None = Field(default=None, description="whether a step of Adafactor is the rate times the rms of the weight, or the rate")
    grad_clip: Positive | None = Field(default=None, description="largest global 2-norm of the gradient")
    schedule: Schedule | None = Field(default=None, description="how the learning rate goes after warm-up")
    warmup_steps: Steps | None = Field(default=None, description="optimiser steps of learning-rate warm-up")
    warmup_fraction: Share | None = Field(default=None, description="warm-up as a share of all steps")
    warmup_tokens: Steps | None = Field(default=None, description="warm-up in tokens; steps follow where the batch does not grow")
    total_steps: Count | None = Field(default=None, description="optimiser steps")
    min_lr: NonNegative | None = Field(default=None, description="learning rate at the end of the schedule, per step")
    batch_size: Count | None = Field(default=None, description="tokens per optimiser step (sequences where there are no tokens)")
    batch_grows: bool | None = Field(default=None, description="whether steps have fewer tokens at first")
    precision: Precision | None = Field(default=None, description="dtype of activations in training")
    params_precision: Precision | None = Field(default=None, description="dtype of the model's own weights, whatever copy the optimiser keeps")
    attention_output_precision: Precision | None = Field(default=None, description="dtype in which the attention's output is accumulated")
    reductions_precision: Precision | None = Field(default=None, description="dtype of softmaxes, norms and sums over devices")
    optimizer_state_precision: Precision | None = Field(default=None, description="dtype of the optimiser's averages")
    autocast: bool | None = Field(default=None, description="whether torch.autocast is on")
    fp8: bool | None = Field(default=None, description="whether matrix products run in FP8")
    fp8_per_channel: bool | None = Field(default=None, description="whether FP8 inputs are scaled channel by channel (Smooth-SwiGLU)")
    z_loss: NonNegative | None = Field(default=None, description="weight of the squared log-partition of the head's softmax")
    logit_cap: Positive | None = Field(default=None, description="cap of the head's logits, as in c·tanh(u/c)")
    qk_clip: Positive | None = Field(default=None, description="largest attention logit before Q and K are scaled down (QK-clip)")
    pb_relax: bool | None = Field(default=None, description="whether attention logits are lowered by their largest before the softmax (PB-relax)")
    dropout: Share | None = Field(default=None, description="probability with which entries are dropped")
    init: Words | None = Field(default=None, description="name of the initialisation, e.g. normal(0.02)")
    embedding_lr: Positive | None = Field(default=None, description="learning rate of the embedding over that of the rest, a ratio")
    embedding_gradient_shrink: Share | None = Field(default=None, description="factor on the embedding's gradient")
    lr_per_layer: Words | None = Field(default=None, description="rule by which learning rates differ between layers, in words")
    depth: Count | None = Field(default=None, description="how many times a block target is stacked")

    @model_validator(mode="after")
    def _agrees(self) -> Recipe:
        """Refuses what contradicts itself."""
        if self.warmup_steps is not None and self.warmup_fraction is not None and self.total_steps is not None:
            wanted = self.warmup_fraction * self.total_steps
            if abs(self.warmup_steps - wanted) > max(1.0, 0.05 * wanted):
                raise ValueError(f"`warmup_steps` {self.warmup_steps} and `warmup_fraction` (of `total_steps`: {wanted:g}) contradict each other")
        if self.weight_decay_on is not None and self.weight_decay is not None and self.weight_decay_on != (self.weight_decay > 0):
            raise ValueError(f"`weight_decay` {self.weight_decay:g} and `weight_decay_on` contradict each other")
        if self.min_lr is not None and self.lr is not None and self.min_lr > self.lr:
            raise ValueError(f"`min_lr` {self.min_lr:g} must not be above `lr` {self.lr:g}")
        return self

    @property
    def stated(self) -> dict[str, Any]:
        """Field -> value of what is stated, in the order of the fields."""
        return self.model_dump(exclude_none=True)

    @property
    def warmup(self) -> int | None:
        """Steps of warm-up, 0 where it is stated that there is none; None where they do not follow from what is stated."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        if self.warmup_fraction == 0 or self.warmup_tokens == 0:
            return 0
        if self.warmup_fraction is not None and self.total_steps is not None:
            return round(self.warmup_fraction * self.total_steps)
        return None if self.warmup_tokens is None or self.batch_size is None or self.batch_grows else self.warmup_tokens // self.batch_size

    @property
    def warms_up(self) -> bool | None:
        """Whether there is more than one step of warm-up."""
        return self.warmup > 1 if self.warmup is not None else True if self.warmup_fraction or self.warmup_tokens else None

    @property
    def decays(self) -> bool | None:
        """Whether weights decay, however strongly."""
        return self.weight_decay > 0 if self.weight_decay is not None else self.weight_decay_on

    @property
    def is_decoupled(self) -> bool | None:
        """Whether weights decay apart from the gradient: as stated, or because the optimiser is defined so."""
        return True if self.decoupled is None and self.optimizer in DECOUPLED else self.decoupled

    @property
    def decay_per_step(self) -> float | None:
        """Share of a weight that one step at the peak takes off: λ·lr, or λ under a decay that knows no learning rate; None where L2 or not known."""
        if self.weight_decay is None or not (self.is_decoupled or self.weight_decay == 0):
            return None
        if self.weight_decay == 0 or self.decay_times_lr is False:
            return self.weight_decay
        return None if self.lr is None else self.weight_decay * self.lr

    @property
    def first_lr(self) -> float | None:
        """Learning rate of the first step, warm-up being linear from 0."""
        return None if self.lr is None or self.warmup is None else self.lr / max(self.warmup, 1)

    @property
    def tokens(self) -> int | None:
        """Tokens of the whole training."""
        return None if self.batch_size is None or self.total_steps is None else self.batch_size * self.total_steps

    @property
    def computes_in(self) -> str | None:
        """Type of the matrix products: FP8 where that is on, else that of the activations."""
        return "fp8" if self.fp8 else self.precision


CELLS = {
    "optimizer.name": "optimizer",
    "optimizer.lr": "lr",
    "optimizer.betas": "betas",
    "optimizer.eps": "eps",
    "optimizer.weight_decay": "weight_decay",
    "optimizer.weight_decay_on": "weight_decay_on",
    "optimizer.decoupled": "decoupled",
    "optimizer.decay_times_lr": "decay_times_lr",
    "optimizer.clip": "grad_clip",
    "schedule.warmup_steps": "warmup_steps",
    "schedule.warmup_fraction": "warmup_fraction",
    "schedule.kind": "schedule",
    "schedule.total_steps": "total_steps",
    "schedule.min_lr": "min_lr",
    "batch_tokens": "batch_size",
    "precision.params": "params_precision",
    "precision.compute": "precision",
    "precision.reductions": "reductions_precision",
    "precision.attention_output": "attention_output_precision",
    "precision.optimizer_state": "optimizer_state_precision",
    "z_loss": "z_loss",
    "tricks.dropout": "dropout",
    "tricks.embedding_gradient_shrink": "embedding_gradient_shrink",
    "tricks.qk_clip": "qk_clip",
    "tricks.pb_relax": "pb_relax",
    "tricks.lr_per_layer": "lr_per_layer",
}
"""Cell of a published outcome -> field."""


def of_cells(row: dict[str, Any], *, assumed: bool = False) -> Recipe:
    """The recipe of a published outcome. `assumed`: also what stands under its `assumed`, where the cell is empty.

    Raises `pydantic.ValidationError`.
    """
    values: dict[str, Any] = {}
    for cell, field in CELLS.items():
        value: Any = row
        for key in cell.split("."):
            value = (value or {}).get(key)
        if value is None and assumed:
            value = row.get("assumed", {}).get(cell, {}).get("value")
        if value is not None:
            values[field] = value
    return Recipe(**values)


__all__ = ["CELLS", "DECOUPLED", "LARGEST", "Precision", "Recipe", "Schedule", "of_cells"]
