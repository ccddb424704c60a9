"""Two multiples of one state that are added, `0.9 * x + 0.1 * x.detach()`, are one multiple of it: what a table prints is what the code computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report import words

WIDTH, DEPTH, S = 32, 12, 0.2


def _shrunk(x: Tensor, s: Tensor) -> Tensor:
    return 0.9 * x + (1 - 0.9) * x.detach()


def _shrunk_by_a_wrong_sign(x: Tensor, s: Tensor) -> Tensor:
    return x * 0.9 - 0.1 * x.detach()


def _a_quarter_off(x: Tensor, s: Tensor) -> Tensor:
    return torch.sub(1.5 * x, x / 4)


def _taken_off(x: Tensor, s: Tensor) -> Tensor:
    return x - torch.tanh(s) * x.detach()


def _a_multiple_and_a_norm(x: Tensor, s: Tensor) -> Tensor:
    return 0.5 * x + nn.functional.layer_norm(x, (WIDTH,))


class Block(nn.Module):
    """x ← skip(x + f(norm(x)))."""

    def __init__(self, skip: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.skip, self.s = skip, nn.Parameter(torch.tensor(S))

    def forward(self, x: Tensor) -> Tensor:
        return self.skip(x + self.down(torch.relu(self.up(self.norm(x)))), self.s)


@pytest.mark.parametrize(
    ("skip", "formula", "start"),
    [
        (_shrunk, "x ← x + ffn(A(x))", 1.0),
        (_shrunk_by_a_wrong_sign, "x ← 0.8·x + 0.8·ffn(A(x))", 0.8),
        (_a_quarter_off, "x ← 1.25·x + 1.25·ffn(A(x))", 1.25),
        (_taken_off, "x ← α·x + γ·ffn(A(x))", 1 - float(torch.tanh(torch.tensor(S)))),
    ],
)
def test_the_update_is_that_of_the_code(skip: Callable[[Tensor, Tensor], Tensor], formula: str, start: float) -> None:
    report = screen.check(Block(skip), example_inputs=torch.randn(2, 8, WIDTH), depth=DEPTH)
    [sublayer] = report.streams[0].kinds[0].sublayers
    assert words.formula(sublayer) == formula
    gains = [c.value for c in report.claims if c.claim == "identity_gain"]
    assert gains == [pytest.approx(start**DEPTH, rel=1e-5)]
    if sublayer.residual.alpha_kind == "learned":
        assert f"stream × learned, starts at {words.number(start)}" in words.residual(sublayer.residual)


def test_a_norm_beside_a_multiple_is_none() -> None:
    report = screen.check(Block(_a_multiple_and_a_norm), example_inputs=torch.randn(2, 8, WIDTH), depth=DEPTH)
    assert "1.5" not in words.formula(report.streams[0].kinds[0].sublayers[0])
