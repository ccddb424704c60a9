"""Kinds of blocks that read alike, shown once, and names that do, whatever signs stand in them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report import groups

WIDTH = 16


class Slopes(nn.Module):
    """Six blocks, each with a slope of its own; the fourth has no norm before its map."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(6))
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))
        self.end = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for layer, (norm, linear) in enumerate(zip(self.norms, self.maps, strict=True)):
            y = x if layer == 3 else norm(x)
            x = x + F.leaky_relu(linear(y), 0.1 * (layer + 1))
        return self.end(x)


def test_kinds_that_differ_in_numbers_alone_are_shown_once() -> None:
    report = screen.check(Slopes(), example_inputs=torch.zeros(2, 5, WIDTH), spot_check=False)
    [stream] = report.streams
    assert [k.layers for k in stream.kinds] == [[(n, n)] for n in range(6)]
    shown = [line.strip() for line in report.to_text().splitlines() if "× layer" in line]
    assert shown == ["5× layers 0–2, 4–5 · (root) · 5 kinds that read alike", "1× layer 3 · (root)"]
    assert groups.joined(stream.kinds).layers == [(0, 5)]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["h.0.proj", "h.1.proj", "h.2.proj"], ["h.0–2.proj"]),
        (["h.0.proj#2", "h.1.proj#2", "h.3.proj#2"], ["h.0–1,3.proj#2"]),
        (["0#", "1#"], ["0–1#"]),
        (["proj#", "proj2"], ["proj#", "proj2"]),
        (["a1b1", "a2b2"], ["a1b1, a2b2"]),
        (["h.0.x", "h.0.x"], ["h.0.x, h.0.x"]),
    ],
)
def test_names_that_differ_in_numbers_are_ranges(names: list[str], said: list[str]) -> None:
    assert groups.folded(names) == said
