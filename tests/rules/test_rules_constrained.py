"""Rules on weights whose bound rests on a condition."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.expected import report_of

MODEL = """
import torch
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), WRAP(nn.Linear(32, 32, bias=False)), WRAP(nn.Linear(32, 32, bias=False))

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(3)), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def example_inputs():
    return (torch.randn(2, 5, 32),)


def turned(linear):
    return orthogonal(linear, orthogonal_map="matrix_exp", use_trivialization=False)
"""


@pytest.mark.by_the_day
@pytest.mark.parametrize(("wrap", "outcome"), [("spectral_norm", "conditional"), ("turned", "holds"), ("weight_norm", "conditional")])
def test_a_parametrised_branch_is_bounded_and_says_on_what_it_rests(tmp_path: Path, wrap: str, outcome: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL.replace("WRAP", wrap), encoding="utf-8")
    report = report_of(f"{path}::Model")
    for code in ("R201", "R301"):
        found = next(f for f in report.findings if f.code == code)
        assert found.outcome == (outcome if code == "R201" or wrap != "weight_norm" else "holds")  # at fixed weights it grows linearly
        assert ("converged" in found.message) is (wrap == "spectral_norm")
    assert any(c.id == "converged-iteration" for c in report.conditions) is (wrap == "spectral_norm")
    assert "inf" not in str(report.streams[0].kinds[0].sublayers[0].growth.expression)


REPARAM = """
import torch, torch.nn.functional as F
from torch import nn

class Map(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight, self.gain = nn.Parameter(torch.randn(size, size) / size**0.5), nn.Parameter(torch.ones(()))
        self.register_buffer("u", F.normalize(torch.randn(size), dim=0))
        self.register_buffer("v", F.normalize(torch.randn(size), dim=0))

    def forward(self, x):
        return F.linear(x, self.gain * self.weight / torch.dot(self.u, self.weight @ self.v))

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v = nn.LayerNorm(32), Map(32), Map(32), Map(32)

    def forward(self, x):
        y = self.norm(x)
        return x + F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y))
"""


def test_logits_of_reparametrised_maps_scale_with_their_gains(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(REPARAM, encoding="utf-8")
    report = report_of(f"{path}::Block")
    (found,) = [f for f in report.findings if f.code == "L201"]
    assert found.outcome == "conditional" and "scale with `q.gain` and `k.gain`;" in found.message
