"""A factor in front of every block is of the loop, the first one too: the gain of the model is that of all of them, and was taken on a run."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import ClaimPart

WIDTH, DEPTH = 16, 5


class Unit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for norm, layer in zip(self.norms, self.maps, strict=True):
            x = x + layer(norm(x)).relu()
        return x


class Model(nn.Module):
    """`before`: in front of each block; `first`: of the embedding; `behind`: behind each block but the last."""

    def __init__(self, before: float = 1.0, first: float = 1.0, behind: float = 1.0) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm = nn.Embedding(50, WIDTH), nn.ModuleList(Unit() for _ in range(DEPTH)), nn.LayerNorm(WIDTH)
        self.before, self.first, self.behind = before, first, behind

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = self.first * x if self.first != 1.0 else x
        for place, block in enumerate(self.blocks):
            x = block(self.before * x if self.before != 1.0 else x)
            x = self.behind * x if self.behind != 1.0 and place < DEPTH - 1 else x
        out: Tensor = self.norm(x)
        return out


def _of_model(model: nn.Module) -> ClaimPart | None:
    report = screen.check(model, example_inputs=(torch.randint(0, 50, (2, 6)),))
    return next((c for c in report.claims if c.claim == "identity_gain" and c.stream is None), None)


@pytest.mark.parametrize("factor", [1.5, 0.7])
def test_in_front_of_each(factor: float) -> None:
    told = _of_model(Model(before=factor))
    assert told is not None and isinstance(told.value, float) and math.isclose(told.value, factor**DEPTH, rel_tol=1e-5)
    assert told.measured is not None and told.measured.agrees


def test_scales_of_embeddings_are_none() -> None:
    """The same number once, and beside another one between the blocks."""
    assert _of_model(Model(first=1.5)) is None
    assert _of_model(Model(first=1.5, behind=0.8)) is None
