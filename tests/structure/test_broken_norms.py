"""Norms that are broken on purpose, or written in an odd way: what is called a norm bounds every token, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS = 32, 9
Body = Callable[[Tensor], Tensor]


class Block(nn.Module):
    def __init__(self, before: Body, after: Body, on_sum: Body) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 80), nn.Linear(80, WIDTH)
        self.before, self.after, self.on_sum = before, after, on_sum

    def forward(self, x: Tensor) -> Tensor:
        return self.on_sum(x + self.after(self.down(torch.relu(self.up(self.before(x))))))


def same(x: Tensor) -> Tensor:
    return x


def report_of(body: Body, position: str, depth: int = 3, final: Body | None = None) -> Report:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            bodies = [body if p == position else same for p in "ABC"]
            self.blocks, self.norm = nn.ModuleList(Block(*bodies) for _ in range(depth)), nn.LayerNorm(WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            for block in self.blocks:
                x = block(x)
            return self.norm(x) if final is None else final(x)

    return screen.check(Model(), example_inputs=torch.zeros(2, TOKENS, WIDTH))


def negative_epsilon(x: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + (-1.0))


def harmonic(x: Tensor) -> Tensor:
    return x * x.abs().pow(-1).mean(-1, keepdim=True)


def smallest(x: Tensor) -> Tensor:
    return x * x.abs().pow(-1).amax(-1, keepdim=True)


def other_centring(x: Tensor) -> Tensor:
    """Centred over features, divided by what is left after centring over tokens: zero for equal tokens."""
    beside = x - x.mean(1, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) / beside.pow(2).mean(-1, keepdim=True).sqrt()


def squares_less_cubes(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / ((x * x).mean(-1, keepdim=True) - mean**3 + 1e-5).sqrt()


def zero_statistic(x: Tensor) -> Tensor:
    return x / (x.norm(dim=-1, keepdim=True) * 0.0)


def quantised(x: Tensor) -> Tensor:
    """The size is multiplied back, and past it the gradient goes on as it is."""
    scale = 127.0 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
    return x + ((x * scale).round().clamp(-128, 127) / scale - x).detach()


def multiplied_back(x: Tensor) -> Tensor:
    size = x.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()
    return torch.tanh(x / size) * size


@pytest.mark.parametrize("body", [quantised, multiplied_back])
def test_a_size_that_is_multiplied_back_is_not_normed(body: Body) -> None:
    for position in "AB":
        sub = report_of(body, position).streams[0].kinds[0].sublayers[0]
        assert (sub.placement, sub.norm_type) == ("none", None)


def test_a_size_that_is_multiplied_back_in_one_of_two_uses_is_normed() -> None:
    def one_of_two(x: Tensor) -> Tensor:
        size = x.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()
        unit = x / size
        return unit + 0.0 * (unit * size)

    assert [n.position for n in report_of(one_of_two, "B").streams[0].kinds[0].sublayers[0].norms] == ["S"]


@pytest.mark.parametrize("body", [negative_epsilon, harmonic, smallest, other_centring, squares_less_cubes, zero_statistic])
@pytest.mark.parametrize("position", ["A", "B"])
def test_a_quotient_that_bounds_nothing_is_no_norm(body: Body, position: str) -> None:
    report = report_of(body, position)
    assert report.streams[0].kinds[0].sublayers[0].placement == "none" and report.verdict in ("unknown", "unstable")


def over_tokens(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)


def over_tokens_fused(x: Tensor) -> Tensor:
    return F.layer_norm(x.transpose(1, 2), (TOKENS,)).transpose(1, 2)


def over_both(x: Tensor) -> Tensor:
    return F.layer_norm(x, (TOKENS, WIDTH))


def over_samples(x: Tensor) -> Tensor:
    return x / x.norm(dim=0, keepdim=True)


@pytest.mark.parametrize("body", [over_tokens, over_tokens_fused, over_both, over_samples])
@pytest.mark.parametrize("position", ["A", "B", "C"])
def test_a_norm_over_tokens_is_no_norm_of_a_token(body: Body, position: str) -> None:
    """It bounds a token by √n times the gain, so that no line of numbers may count on the gain alone (review, item 7). On outputs that is a bound."""
    report = report_of(body, position)
    sub = report.streams[0].kinds[0].sublayers[0]
    assert sub.placement == ("unknown" if position == "C" else "none") and sub.norm_type is None
    assert report.verdict in (("stable",) if position == "B" else ("unknown", "conditional"))
    assert not [f for f in report.findings if "forward bound" in f.numbers]


def by_sum(x: Tensor) -> Tensor:
    centred = x - x.sum(-1, keepdim=True) / WIDTH
    return centred * torch.rsqrt(centred.square().sum(-1, keepdim=True) / WIDTH + 1e-5)


def after_token_mean(x: Tensor) -> Tensor:
    centred = x - x.mean(1, keepdim=True)
    return centred / centred.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()


def channels_first(x: Tensor) -> Tensor:
    turned = x.transpose(1, 2)
    return (turned * torch.rsqrt(turned.pow(2).mean(1, keepdim=True) + 1e-6)).transpose(1, 2)


def heads(x: Tensor) -> Tensor:
    return F.rms_norm(x.unflatten(-1, (4, 8)), (8,)).flatten(-2)


@pytest.mark.parametrize(("body", "kind"), [(by_sum, "layernorm"), (after_token_mean, "rmsnorm"), (channels_first, "rmsnorm"), (heads, "rmsnorm")])
def test_norms_written_in_an_odd_way(body: Body, kind: str) -> None:
    for position, placement in (("A", "pre"), ("B", "output_only")):
        sub = report_of(body, position).streams[0].kinds[0].sublayers[0]
        assert (sub.placement, sub.norm_type) == (placement, kind)


def small_divisor(x: Tensor) -> Tensor:
    return x / (0.01 * x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-9)


def root_mean_square(x: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-9).sqrt()


def test_numbers_of_the_gain_alone_need_a_norm_of_unit_size() -> None:
    """x/(0.01·rms) is a norm, and 100 times as large."""

    def numbers(report: Report, name: str) -> list[object]:
        return [f.numbers[name] for f in report.findings if name in f.numbers]

    assert numbers(report_of(root_mean_square, "B"), "forward bound") and not numbers(report_of(small_divisor, "B"), "forward bound")
    said = [f.message for f in report_of(root_mean_square, "B", final=small_divisor).findings if f.code == "R401"]
    assert said and "max|γ|" not in said[0]


@pytest.mark.parametrize("body", [small_divisor, root_mean_square, by_sum])
def test_what_the_report_bounds_is_not_exceeded(body: Body) -> None:
    """The bound of the output holds on data that grows: a token of size t, t from 1e-6 to 1e6."""
    bound = report_of(body, "B").streams[0].kinds[0].sublayers[0].output_set.bound
    assert bound is not None
    import sympy

    draws = torch.randn(64, TOKENS, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sizes = torch.logspace(-6, 6, 64, dtype=torch.float64)[:, None, None]
    largest = body(draws * sizes).norm(dim=-1).max()
    assert 0.5 < float(largest) / float(sympy.sympify(bound)) <= 1 + 1e-9
