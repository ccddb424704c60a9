"""An α on a stream that is normed after each sum does not make up for what tokens lose, where it is small for the weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report

pytestmark = pytest.mark.by_the_day

WIDTH, DEPTH = 48, 32


class Block(nn.Module):
    """Post-norm, one head, weights of variance gain²/fan_in."""

    def __init__(self, alpha: float, gain: float = 1.0) -> None:
        super().__init__()
        self.alpha, self.norms = alpha, nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 96, bias=False), nn.Linear(96, WIDTH, bias=False)
        for m in (self.q, self.k, self.v, self.o, self.up, self.down):
            nn.init.normal_(m.weight, std=gain * m.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.o(F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))
        x = self.norms[0](self.alpha * x + y)
        return self.norms[1](self.alpha * x + self.down(F.relu(self.up(x))))  # type: ignore[no-any-return]


def report_on(block: Block) -> Report:
    return screen.check(block, example_inputs=torch.zeros(2, 16, WIDTH), depth=DEPTH)


@pytest.mark.parametrize("alpha", (0.5, 1.1))
def test_tokens_grow_alike_under_a_small_factor(alpha: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 16, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        for _ in range(DEPTH):
            x = Block(alpha).double()(x)
    apart = 1 - F.cosine_similarity(x[:, :1], x[:, 1:], dim=-1).mean().item()
    assert apart < 4e-4
    report = report_on(Block(alpha))
    assert next(c.state for c in report.channels if c.id == "D") == "open"
    assert report.verdict == "unstable"


def test_beta_alone_is_not_asked_for_where_it_does_not_do() -> None:
    """With an α of 1.6 β = (8·32)^(-1/4) leaves 41.7/16 = 2.6 of what is to be about 1."""
    report = report_on(Block(1.6, 0.9))
    found = next(f for f in report.findings if f.code == "D201")
    assert found.outcome == "conditional"
    assert found.remedy.startswith("α = (2·32)^(1/4) = 2.83")
    report = report_on(Block(2.8, 0.9))
    found = next(f for f in report.findings if f.code == "D201")
    assert found.outcome == "conditional"
    assert found.remedy.startswith("scale V and O")


class OnSphere(Block):
    """A tenth of the way to what each branch says, all of length one (nGPT): no weight is on the way from its size to the stream."""

    def forward(self, x: Tensor) -> Tensor:
        for branch in (lambda h: self.o(F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h))), lambda h: self.down(F.relu(self.up(h)))):
            x = F.normalize(x + 0.1 * (F.normalize(branch(x), dim=-1) - x), dim=-1)
        return x


def test_a_branch_behind_a_norm_is_judged_by_how_its_tokens_start() -> None:
    torch.manual_seed(0)
    report = report_on(OnSphere(1.0))
    said = next(f for f in report.findings if f.code == "D201")
    assert said.outcome == "conditional" and 0.1 < dict(said.numbers)["one_minus_cos"] < 1.1
