"""Maps whose weights are divided by their spectral norms (`torch.nn.utils.parametrizations.spectral_norm`): what is free are their biases."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm

import screen
from screen.report.schema import FindingPart

WIDTH = 32


class Block(nn.Module):
    """x + o(attention(q, k, v)) of a norm of x, every map with a spectral norm or none."""

    def __init__(self, bias: bool, divided: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        maps = (nn.Linear(WIDTH, WIDTH, bias=bias) for _ in range(4))
        self.q, self.k, self.v, self.o = (spectral_norm(m) if divided else m for m in maps)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (m(y).unflatten(-1, (4, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        out: Tensor = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return out


def told(bias: bool, divided: bool = True) -> dict[str, FindingPart]:
    torch.manual_seed(0)
    report = screen.check(Block(bias, divided), example_inputs=torch.randn(2, 10, WIDTH), depth=6)
    return {f.code: f for f in report.findings}


def test_biases_are_named_and_not_the_maps() -> None:
    """It said that the logits grow with W_Q and W_K, and that `o` breaks what the branch adds."""
    found = told(bias=True)
    assert "still scale with `q.bias` and `k.bias`;" in (found["L201"].message or ""), found["L201"].message
    assert "(`o.bias` scales it)" in (found["R201"].message or ""), found["R201"].message


def test_without_biases_logits_are_bounded() -> None:
    assert told(bias=False)["L201"].outcome == "holds"


@pytest.mark.parametrize("bias", [False, True])
def test_maps_as_they_are_are_named(bias: bool) -> None:
    found = told(bias, divided=False)
    assert "still scale with W_Q and W_K;" in (found["L201"].message or ""), found["L201"].message
    assert "(`o.weight` scales it)" in (found["R201"].message or ""), found["R201"].message
