"""I202 asks of logits whose size is measured alone what a softmax feels of them: large products that are taken off are no choice of one key."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.probe.measure.attention import felt

WIDTH, HEADS, TOKENS = 32, 4, 16
SIZE = WIDTH // HEADS


def _less_of_the_rows_before(s: Tensor) -> Tensor:
    """What the first head made of all rows before is taken off a key."""
    return s - torch.relu(s[:, :1]).cumsum(-2)


def _less_much_of_each_row(s: Tensor) -> Tensor:
    return s - 9 * s.square().mean(-1, keepdim=True).cumsum(1)


def _signed_squares(s: Tensor) -> Tensor:
    return 4 * s * s.abs()


def _unscaled_less_little(s: Tensor) -> Tensor:
    return 8 * s - 0.1 * torch.relu(s[:, :1]).cumsum(-2)


class Block(nn.Module):
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.qkv, self.out, self.change = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH), change
        nn.init.normal_(self.qkv.weight, std=WIDTH**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        y = self.change(q @ k.mT / SIZE**0.5).softmax(-1) @ v
        out: Tensor = x + self.out(y.transpose(1, 2).flatten(2))
        return out


@pytest.mark.by_the_day
@pytest.mark.parametrize(
    ("change", "outcome"),
    [(_less_of_the_rows_before, "holds"), (_less_much_of_each_row, "holds"), (_signed_squares, "violated"), (_unscaled_less_little, "violated")],
)
def test_large_logits_are_a_slip_where_a_softmax_feels_them(change: Callable[[Tensor], Tensor], outcome: str) -> None:
    torch.manual_seed(0)
    report = screen.check(Block(change), example_inputs=torch.randn(2, TOKENS, WIDTH), depth=12)
    [told] = [f for f in report.findings if f.code == "I202"]
    assert told.outcome == outcome, told.message
    assert told.numbers["logit_rms"] > 3.91


@pytest.mark.parametrize("deviation", [0.7, 2.0, 6.0, 9.0])
def test_of_independent_logits_it_is_their_deviation(deviation: float) -> None:
    u = deviation * torch.randn(400, 1024, generator=torch.Generator().manual_seed(3))
    seen = felt(u)
    assert seen is not None and abs(seen / deviation - 1) < 0.1
    assert felt(u + 100 * torch.randn(400, 1)) == pytest.approx(seen)


def test_rows_that_see_one_key_say_nothing() -> None:
    assert felt(torch.zeros(3, 1)) is None
    hidden = torch.full((4, 8), -math.inf)
    hidden[:, 0] = 2.0
    assert felt(hidden) is None
