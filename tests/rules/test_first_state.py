"""A branch that reads the first state alone, and how deep one block is that holds several branches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import FindingPart, Report

WIDTH = 16


class Net(nn.Module):
    """Two maps of what is divided by a number of the layer, perhaps divided by their own norms, so that only what they read decides how much they
    give."""

    def __init__(self, divided: bool, expected: float) -> None:
        super().__init__()
        self.expected = expected
        self.up, self.down, self.divided = nn.Parameter(torch.randn(WIDTH, WIDTH)), nn.Parameter(torch.randn(WIDTH, WIDTH)), divided

    def forward(self, x: Tensor) -> Tensor:
        up, down = (F.normalize(self.up, dim=1), F.normalize(self.down, dim=1)) if self.divided else (self.up, self.down)
        return x + F.relu(x / self.expected @ up.t()) @ down.t()


class Branches(nn.Module):
    """One block of branches that are all unlike."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        for linear in self.maps:
            nn.init.normal_(linear.weight, std=2 * WIDTH**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        a, b, c, d = self.maps
        x = x + a(x)
        x = x + b(F.relu(c(x)))
        return x + d(F.gelu(x) * torch.sigmoid(x))


def report_on(model: nn.Module) -> Report:
    torch.manual_seed(0)
    return screen.check(model, example_inputs=torch.randn(2, 5, WIDTH), spot_check=False)


def of(report: Report, code: str) -> list[FindingPart]:
    return [f for f in report.findings if f.code == code]


@pytest.mark.parametrize("divided", [True, False])
def test_what_no_weight_scales_is_not_said_to_hang_on_weights(divided: bool) -> None:
    found = of(report_on(nn.Sequential(*(Net(divided, 1.0 + i / 10) for i in range(6)))), "R201")
    [first] = [f for f in found if f.outcome == "conditional"]
    assert ("only where training keeps the weights so" in first.said) is not divided
    assert ("nothing bounds what the branch adds but the first state" in first.said) is divided
    assert any(f.outcome == "violated" and ("one size whatever its weights are" in f.said) is divided for f in found)


def test_one_block_is_no_depth() -> None:
    [found] = of(report_on(nn.Sequential(nn.Linear(WIDTH, WIDTH), Branches(), nn.Linear(WIDTH, 3))), "R101")
    assert found.outcome == "violated" and "exponentially with its 3 branches" in found.said


class Again(nn.Module):
    """A net of what a norm gives, beside a part of an earlier state of the stream, which the block is handed."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x)))) + 0.3 * before


class Stack(nn.Module):
    """The first state is added again in every block."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Again() for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        first = x
        for block in self.blocks:
            x = block(x, first)
        return x


def test_a_part_of_the_stream_that_is_handed_on_is_no_growth_of_a_branch() -> None:
    found = of(report_on(Stack()), "R201")
    assert found and not any("grows with the stream" in f.said for f in found)
    assert not any(".norm` breaks it" in f.said for f in found)


class Reading(nn.Module):
    """Attention in each block whose queries are normed, and which reads the first state as it is: for keys and values, in a factor, in a sum."""

    def __init__(self, how: str, grown: bool) -> None:
        super().__init__()
        self.how, self.grown = how, grown
        self.norms, self.ends = (nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4)) for _ in range(2))
        self.maps = nn.ModuleList(nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(5)) for _ in range(4))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)) for _ in range(4))
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = read = self.first(x)
        for norm, end, (q, k, v, o, g), net in zip(self.norms, self.ends, self.maps, self.nets, strict=True):
            read = x if self.grown else read
            y = norm(x)
            z = read if self.how == "keys" else y + read if self.how == "sum" else y * (1 + g(F.silu(read.mean(1, keepdim=True))))
            x = x + o(F.scaled_dot_product_attention(q(y if self.how == "keys" else z), k(z), v(z)))
            x = x + net(end(x))
        return self.last(x)


@pytest.mark.parametrize("how", ["keys", "sum", "factor"])
@pytest.mark.parametrize("grown", [False, True])
def test_logits_of_the_first_state_do_not_grow_over_depth(how: str, grown: bool) -> None:
    """They do where each block reads the state as it is then."""
    [found] = of(report_on(Reading(how, grown)), "L201")
    assert found.outcome == ("violated" if grown else "conditional"), found.message
