"""Kim et al., proposition 3.1, is said of models whose head is linear, as it assumes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from screen.facts.output_map import last_map
from screen.rule import Example
from screen.testing import facts_of

SOURCE = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return {block}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.norm, self.mid, self.head = nn.LayerNorm(32), nn.Linear(32, 32), nn.Linear(32, 100)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return {end}
"""
PRE, POST = "x + self.down(F.gelu(self.up(self.norm(x))))", "self.norm(x + self.down(F.gelu(self.up(x))))"
LINEAR = {
    "a head": (PRE, "self.head(x)", ()),
    "a head of the mean": (PRE, "self.head(x.mean(1))", ()),
    "a final norm": (PRE, "self.head(self.norm(x))", ("final",)),
    "post": (POST, "self.head(x)", ("sum",)),
}
OTHER = {
    "a norm of the mean": (PRE, "self.head(self.norm(x.mean(1)))"),
    "a norm in the head": (POST, "self.head(self.norm(F.gelu(self.mid(x))))"),
    "a norm of the mean that is written out": (PRE, "self.head((y := x.mean(1)) * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6))"),
}


def norms_of(block: str, end: str) -> tuple[str, ...] | None:
    facts = facts_of(Example("model", SOURCE.replace("{block}", block).replace("{end}", end)))
    found = last_map(facts, facts.streams[0])
    return None if found is None else found.norms


@pytest.mark.parametrize("name", LINEAR)
def test_the_last_map_before_a_linear_head(name: str) -> None:
    block, end, norms = LINEAR[name]
    assert norms_of(block, end) == norms


@pytest.mark.parametrize("name", OTHER)
def test_nothing_is_said_of_the_last_map_where_the_head_holds_a_norm(name: str) -> None:
    assert norms_of(*OTHER[name]) is None


def test_without_its_divisor_the_bound_breaks_at_a_norm_of_the_mean() -> None:
    """‖∂L/∂W‖ of a = h W behind a norm of a mean over two tokens that nearly cancel, against √2·‖E‖·‖h‖."""
    torch.manual_seed(0)
    h, x, w = (torch.randn(2, n, dtype=torch.float64) for n in (8, 16, 1))
    w = torch.zeros(8, 16, dtype=torch.float64, requires_grad=True)
    head = torch.randn(5, 16, dtype=torch.float64)
    stream = torch.stack([x[0], -x[0] + 1e-3 * x[1]]) + h @ w
    torch.nn.functional.cross_entropy(nn.functional.layer_norm(stream.mean(0), (16,)) @ head.T, torch.tensor(0)).backward()
    assert w.grad is not None
    assert w.grad.norm() > math.sqrt(2) * torch.linalg.matrix_norm(head, 2) * h.norm(dim=1).max()
