"""The training recipe that a user may state: every field optional, each with its unit.

What is not stated is not guessed: a rule that needs it answers `conditional` and names it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Precision = Literal["float32", "tf32", "bfloat16", "float16", "fp8"]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(gt=0)]


class Recipe(BaseModel):
    """How the model will be trained."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight_decay: NonNegative | None = Field(None, description="decoupled weight decay λ, per unit of learning rate")
    warmup_steps: Annotated[int, Field(ge=0)] | None = Field(None, description="optimiser steps of learning-rate warm-up")
    lr: Positive | None = Field(None, description="peak learning rate, per step")
    optimizer: str | None = Field(None, description="name, e.g. adamw, sgd, muon")
    precision: Precision | None = Field(None, description="dtype of activations in training")
    grad_clip: Positive | None = Field(None, description="largest global 2-norm of the gradient")
    depth: Count | None = Field(None, description="how many times a block target is stacked")
    total_steps: Count | None = Field(None, description="optimiser steps")
    batch_size: Count | None = Field(None, description="tokens per optimiser step (sequences where there are no tokens)")
    betas: tuple[NonNegative, NonNegative] | None = Field(None, description="decay rates of Adam's two averages, each below 1")
    eps: NonNegative | None = Field(None, description="ε of Adam's denominator")
    z_loss: NonNegative | None = Field(None, description="weight of the squared log-partition of the head's softmax")
    logit_cap: Positive | None = Field(None, description="cap of the head's logits, as in c·tanh(u/c)")
    embedding_lr: Positive | None = Field(None, description="learning rate of the embedding over that of the rest, a ratio")
    init: str | None = Field(None, description="name of the initialisation, e.g. normal(0.02)")
    attention_output_precision: Precision | None = Field(None, description="dtype in which the attention's output is accumulated")
    autocast: bool | None = Field(None, description="whether torch.autocast is on")
    fp8: bool | None = Field(None, description="whether matrix products run in FP8")


__all__ = ["Recipe"]
