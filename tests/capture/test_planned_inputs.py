"""Inputs of models whose arguments have names that are known: what a shortened model refuses for its length, what goes through `**kwargs`, and what
wakes a part that would not run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.inputs.context import Lookup
from screen.capture.inputs.transformers import arguments

D = 24


class Block(nn.Module):
    """Pre-norm, with a gain made of a condition where one is given to it."""

    def __init__(self, conditioned: bool = False) -> None:
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(D), nn.Linear(D, D)
        self.gain = nn.Linear(D, D) if conditioned else None

    def forward(self, x: Tensor, style: Tensor | None = None) -> Tensor:
        h = self.proj(self.norm(x))
        return x + (h if self.gain is None else h * (1 + self.gain(style)))


class Pyramid(nn.Module):
    """An image model that reads features of three depths, which a model of two layers does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, D, 16, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(6))
        self.head = nn.Linear(3 * D, 10)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x, kept = self.patch(pixel_values).flatten(2).transpose(1, 2), []
        if x.shape[1] % 8:
            raise ValueError("the number of patches must be a multiple of 8")
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number % 2:
                kept.append(x)
        return self.head(torch.cat(kept, -1))


class Styled(nn.Module):
    """Hands the condition of its blocks on, without naming it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, D)
        self.blocks = nn.ModuleList(Block(conditioned=True) for _ in range(6))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor:
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x, **kwargs)
        return x


class Prompted(nn.Module):
    """Cross-attention that runs where a prompt is given."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, D, 16, 16)
        self.norm, self.attend = nn.LayerNorm(D), nn.MultiheadAttention(D, 4, batch_first=True)
        self.head = nn.Linear(D, 10)

    def forward(self, pixel_values: Tensor, hint: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        x = self.patch(pixel_values).flatten(2).transpose(1, 2)
        if hint is not None:
            x = x + self.attend(self.norm(x), hint, hint)[0]
        return self.head(x if weights is None else x * weights)


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    _, kwargs = arguments(Lookup(model.to("meta")))
    model(**{n: v.to("meta") for n, v in kwargs.items()})
    return {n: tuple(v.shape) for n, v in kwargs.items()}


def test_what_a_shortened_model_refuses_is_tried_on_the_whole_one() -> None:
    _, _, height, width = shapes(Pyramid())["pixel_values"]
    assert (height // 16) * (width // 16) % 8 == 0


def test_an_argument_of_a_part_goes_through_kwargs() -> None:
    assert shapes(Styled()) == {"input_ids": (2, 16), "style": (2, 1, D)}


def test_an_optional_argument_wakes_an_idle_part_and_others_are_left_out() -> None:
    found = shapes(Prompted())
    assert set(found) == {"pixel_values", "hint"} and found["hint"][-1] == D
