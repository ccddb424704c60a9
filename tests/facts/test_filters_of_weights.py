"""Convolutions by filters that are computed from weights: of length one or standardised they are bounded over all weights, times a gain not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, EVERY = 16, (1, 2, 3)
Made = Callable[[Tensor], Tensor]


def forced(w: Tensor) -> Tensor:
    """Of length one, as filters that keep magnitudes have it."""
    return w / (torch.linalg.vector_norm(w, dim=EVERY, keepdim=True) + 1e-4)


def standardised(w: Tensor) -> Tensor:
    """Of mean zero and variance one over its length."""
    return (w - w.mean(EVERY, keepdim=True)) / (w.var(EVERY, keepdim=True) * w[0].numel() + 1e-4).sqrt()


def at_once(w: Tensor) -> Tensor:
    """The same from one call."""
    variance, mean = torch.var_mean(w, dim=EVERY, keepdim=True, unbiased=False)
    return (w - mean) / torch.sqrt(variance + 1e-10) * w[0].numel() ** -0.5


def flattened(w: Tensor) -> Tensor:
    return F.normalize(w.flatten(1), dim=1).view_as(w)


def squared(w: Tensor) -> Tensor:
    """As the weights are, twice over."""
    return w * w.abs()


class Block(nn.Module):
    """x: [2, 16, 6, 6], channels first, with a norm over them; `groups` of filters."""

    def __init__(self, made: Made, groups: int = 1, gained: bool = False) -> None:
        super().__init__()
        self.norm, self.made, self.groups = nn.GroupNorm(1, WIDTH, affine=False), made, groups
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH // groups, 3, 3) * 0.1)
        self.gain = nn.Parameter(torch.ones(WIDTH, 1, 1, 1)) if gained else 1.0

    def forward(self, x: Tensor) -> Tensor:
        return x + F.conv2d(F.silu(self.norm(x)), self.gain * self.made(self.weight), padding=1, groups=self.groups)


class Pooled(Block):
    """The stream itself is normed, and a mean of it and of what is added goes on."""

    def forward(self, x: Tensor) -> Tensor:
        x = x / (x.square().mean(1, keepdim=True).sqrt() + 1e-4)
        return x.lerp(F.conv2d(F.silu(x), self.made(self.weight), padding=1), 0.3) / 0.76


def told(block: nn.Module) -> dict[str, object]:
    claims = screen.check(block, example_inputs=torch.randn(2, WIDTH, 6, 6), depth=4).claims
    return {f"{c.claim} {c.weights}": c.value for c in claims if c.claim in ("growth", "output_bounded")}


@pytest.mark.parametrize("made", (forced, standardised, at_once, flattened), ids=lambda f: str(f.__name__))
@pytest.mark.parametrize("groups", (1, 4))
def test_filters_of_length_one_are_bounded_over_all_weights(made: Made, groups: int) -> None:
    assert told(Block(made, groups)) == {"growth fixed": "linear", "growth all": "linear", "output_bounded all": True}


@pytest.mark.parametrize(("made", "gained"), ((squared, False), (forced, True)), ids=("squared", "gained"))
def test_others_are_bounded_at_fixed_weights(made: Made, gained: bool) -> None:
    assert told(Block(made, gained=gained)) == {"growth fixed": "linear", "growth all": None, "output_bounded all": False}


def test_a_mean_of_a_normed_stream_and_of_such_a_filter_is_bounded() -> None:
    assert told(Pooled(forced))["growth all"] == "bounded"
