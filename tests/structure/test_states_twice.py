"""Branches beside each other that each carry the state: the formulas of the table, one behind the other, are what the block computes."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH = 16
Sum = Callable[..., Tensor]


class Beside(nn.Module):
    """One norm, an attention and two nets, and some sum of them."""

    def __init__(self, made: Sum) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.net = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        self.made = made

    def attend(self, h: Tensor) -> Tensor:
        q, k, v = self.qkv(h).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return self.made(x, self.attend(h), self.net(h))


SUMS: dict[str, tuple[Sum, tuple[float, float, float]]] = {
    "the mean of both": (lambda x, a, f: 0.5 * ((x + a) + (x + f)), (1.0, 0.5, 0.5)),
    "the mean, turned": (lambda x, a, f: ((f + x) + (a + x)) / 2, (1.0, 0.5, 0.5)),
    "both": (lambda x, a, f: (x + a) + (x + f), (2.0, 1.0, 1.0)),
    "weighed": (lambda x, a, f: 0.3 * (x + a) + 0.7 * (x + f), (1.0, 0.3, 0.7)),
    "weighed otherwise": (lambda x, a, f: 0.25 * (x + 2 * a) + 0.25 * (x + f), (0.5, 0.5, 0.25)),
    "one sum": (lambda x, a, f: x + a + f, (1.0, 1.0, 1.0)),
    "half of one sum": (lambda x, a, f: 0.5 * (x + a + f), (0.5, 0.5, 0.5)),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", SUMS)
def test_formulas_one_behind_the_other_are_the_block(name: str) -> None:
    made, (gain, attention, net) = SUMS[name]
    torch.manual_seed(0)
    model = nn.Sequential(*(Beside(made) for _ in range(8)))
    report = screen.check(model, example_inputs=torch.randn(2, 5, WIDTH), spot_check=False)
    [kind] = report.streams[0].kinds
    subs = kind.sublayers
    assert len(subs) == 2
    assert math.prod(of(s.residual.alpha) for s in subs) == pytest.approx(gain)
    [claim] = [c for c in report.claims if c.claim == "identity_gain" and c.weights == "start"]
    assert claim.value == pytest.approx(gain**8)
    for place, s in enumerate(subs):
        later = math.prod(of(other.residual.alpha) for other in subs[place + 1 :])
        assert later * of(s.residual.branch) == pytest.approx(attention if s.role == "attention" else net), s.name
        assert s.m.min_degree is None or s.m.min_degree > 0  # no skip is a part of a branch


def of(value: object) -> float:
    assert isinstance(value, float)
    return value
