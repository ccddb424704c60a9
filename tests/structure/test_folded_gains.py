"""Gains that are multiplied into the inverse of a norm's statistic before the value is: the norm is one, and the gain stands behind it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.structure.folded_gains import folded_gains

WIDTH = 24

Rule = Callable[[Tensor, Tensor], Tensor]


class Net(nn.Module):
    def __init__(self, rule: Rule, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.rule, self.gain = rule, nn.Parameter(torch.ones(shape))
        self.up, self.down = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(F.silu(self.up(self.rule(x, self.gain))))
        return out


def times(x: Tensor, gain: Tensor) -> Tensor:
    return x * (gain * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def other_way(x: Tensor, gain: Tensor) -> Tensor:
    return (torch.rsqrt(1e-6 + (x * x).mean(2, True)) * gain) * x


def over(x: Tensor, gain: Tensor) -> Tensor:
    return x * (gain / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt())


def of_another(x: Tensor, gain: Tensor) -> Tensor:
    return x * (gain * torch.rsqrt(torch.sin(x).pow(2).mean(-1, keepdim=True) + 1e-6))


def read_again(x: Tensor, gain: Tensor) -> Tensor:
    share = gain * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return x * share + share


NORMS, NONE = (times, other_way, over), (of_another, read_again)


@pytest.mark.parametrize("shape", [(WIDTH,), (1, 1, WIDTH)])
@pytest.mark.parametrize("rule", NORMS)
def test_the_norm_is_found_and_measured(rule: Rule, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    blocks = nn.Sequential(nn.Linear(WIDTH, WIDTH), *(Net(rule, shape) for _ in range(3)))
    report = screen.check(blocks, example_inputs=torch.randn(2, 6, WIDTH))
    (stream,) = report.streams
    (branch,) = {(b.placement, b.norm_type) for kind in stream.kinds for b in kind.sublayers}
    assert branch == ("pre", "rmsnorm")
    assert report.spot_check.ran and not report.spot_check.refuted


@pytest.mark.parametrize("rule", [*NORMS, *NONE])
def test_what_is_unfolded(rule: Rule) -> None:
    graph = trace(Net(rule, (WIDTH,)).to("meta"), (torch.empty(2, 6, WIDTH, device="meta"),), {})
    assert len(folded_gains(graph)) == (rule in NORMS)
    assert any(norm.type == "rmsnorm" for norm in derive(graph).norms) == (rule in NORMS)
