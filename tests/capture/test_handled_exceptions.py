"""Code that runs while an exception is handled is traced as any other: a fallback behind `except ImportError`, and `screen` called in one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen


class Block(nn.Module):
    """x: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def body(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(self.norm(x))))
        return x + out

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Fallback(Block):
    def forward(self, x: Tensor) -> Tensor:
        try:
            raise ImportError("no fused kernel on this machine")
        except ImportError:
            return self.body(x)


class Failing(Block):
    """What a call has recorded before it raises is kept."""

    def forward(self, x: Tensor) -> Tensor:
        try:
            F.linear(x, torch.ones(3, 5, device=x.device))
        except RuntimeError:
            return self.body(x)
        return x


def _report(block: nn.Module) -> screen.Report:
    return screen.check(block, example_inputs=(torch.randn(2, 8, 32),), depth=12)


@pytest.mark.parametrize("block", [Fallback, Failing])
def test_fallbacks(block: type[Block]) -> None:
    plain, found = _report(Block()), _report(block())
    assert found.coverage.ops_modelled == found.coverage.ops
    assert block is Failing or found.coverage.ops == plain.coverage.ops
    assert found.verdict == plain.verdict and "second opinion" not in found.to_text()


def test_screen_called_while_an_exception_is_handled() -> None:
    plain = _report(Block())
    try:
        raise KeyError("no report yet")
    except KeyError:
        found = _report(Block())
    assert found.coverage.ops == plain.coverage.ops
