"""A sum that is written twice is one value; sums that something writes to are two."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.capture.trace.tracer import trace
from tests.capture.replay import same

WIDTH = 32
Inner = Callable[[Tensor], Tensor]


def twice(x: Tensor, a: Tensor, f: Inner) -> Tensor:
    return x + a + f(x + a)


def turned(x: Tensor, a: Tensor, f: Inner) -> Tensor:
    return f(torch.add(a, x)) + (x + a)


def written(x: Tensor, a: Tensor, f: Inner) -> Tensor:
    first, second = x + a, x + a
    first += f(second)
    return first + 2 * second


def written_by_a_view(x: Tensor, a: Tensor, f: Inner) -> Tensor:
    first = x + a
    first[..., : WIDTH // 2].mul_(3)
    return first + f(x + a)


def read_behind_a_write(x: Tensor, a: Tensor, f: Inner) -> Tensor:
    x = x * 1.0
    first = x + a
    x.mul_(2)
    return f(first) + (x + a)


def scaled(x: Tensor, a: Tensor, f: Inner) -> Tensor:
    return f(torch.add(x, a, alpha=2)) + (x + a)


def both_given(x: Tensor, a: Tensor, f: Inner) -> tuple[Tensor, Tensor]:
    return x + a, a + x


class Block(nn.Module):
    def __init__(self, end: Callable[..., Tensor]) -> None:
        super().__init__()
        self.end = end
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.mix, self.up, self.down = nn.Linear(9, 9), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.mix(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return self.end(x, tokens, lambda h: self.down(self.up(self.norms[1](h)).relu()))


def model(end: Callable[..., Tensor], depth: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(end) for _ in range(depth)), nn.LayerNorm(WIDTH))


@pytest.mark.parametrize("end", [twice, turned])
def test_blocks_that_write_a_sum_twice_are_no_parallel_ones(end: Callable[..., Tensor]) -> None:
    report = screen.check(model(end), example_inputs=torch.zeros(2, 9, WIDTH), spot_check=False)
    (kind,) = report.streams[0].kinds
    assert [(s.role, s.placement) for s in kind.sublayers] == [("other", "pre"), ("ffn", "pre")]
    assert not any(s.parallel_group is not None for s in kind.sublayers)
    assert not [f for f in report.findings if f.code.startswith("G1") and f.outcome == "violated"]  # nothing is left that nobody reads


@pytest.mark.parametrize("end", [twice, turned, written, written_by_a_view, read_behind_a_write, scaled])
def test_the_program_computes_the_same(end: Callable[..., Tensor]) -> None:
    x = torch.randn(2, 9, WIDTH, generator=torch.Generator().manual_seed(1))
    assert same(model(end), model(end).to("meta"), (x,), {}) == ""


@pytest.mark.parametrize(("end", "sums"), [(twice, 2), (turned, 2), (written, 4), (written_by_a_view, 3), (read_behind_a_write, 3), (scaled, 3)])
def test_only_sums_of_the_same_values_are_one(end: Callable[..., Tensor], sums: int) -> None:
    graph = trace(model(end, depth=1).to("meta"), (torch.zeros(2, 9, WIDTH, device="meta"),), {})
    assert sum(n.op == "add" for n in graph.nodes) == sums


def test_two_outputs_stay_two() -> None:
    block = Block(both_given)
    x = torch.randn(2, 9, WIDTH)
    assert same(block, Block(both_given).to("meta"), (x,), {}) == ""


class Guessing(Block):
    """A guess behind a sum that is left out."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return (y * 2 if y.sum() > 0 else y).tanh()


def test_a_guess_keeps_its_place() -> None:
    graph = trace(Guessing(twice).to("meta"), (torch.zeros(2, 9, WIDTH, device="meta"),), {})
    (guess,) = (g for g in graph.guesses if g.decides)
    assert guess.node is not None and graph.nodes[guess.node].op == "tanh"


class TwoStreams(nn.Module):
    """Normed, and as they are, from one value on (ResiDual): the sums of the first block alone are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.norms, self.maps = (nn.ModuleList(make() for _ in range(5)) for make in (lambda: nn.LayerNorm(WIDTH), lambda: nn.Linear(WIDTH, WIDTH)))

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for norm, inner in zip(self.norms, self.maps, strict=True):
            f = inner(x).relu()
            x = norm(x + f)
            y = y + f
        return x + self.norms[0](y)


def test_two_streams_that_begin_at_one_value_stay_two() -> None:
    graph = trace(TwoStreams().to("meta"), (torch.zeros(2, 9, WIDTH, device="meta"),), {})
    assert sum(n.op == "add" for n in graph.nodes) == 11
