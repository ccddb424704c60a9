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


@pytest.mark.parametrize(("wrap", "outcome"), [("spectral_norm", "conditional"), ("turned", "holds"), ("weight_norm", "holds")])
def test_a_parametrised_branch_is_bounded_and_says_on_what_it_rests(tmp_path: Path, wrap: str, outcome: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL.replace("WRAP", wrap), encoding="utf-8")
    report = report_of(f"{path}::Model")
    for code in ("R201", "R301"):
        found = next(f for f in report.findings if f.code == code)
        assert found.outcome == outcome and ("converged" in found.message) is (outcome == "conditional")
    assert any(c.id == "converged-iteration" for c in report.conditions) is (outcome == "conditional")
    assert "inf" not in str(report.streams[0].kinds[0].sublayers[0].growth.expression)
