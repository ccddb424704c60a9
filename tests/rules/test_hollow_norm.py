"""What G105 takes for a hollow norm: a bare gain and bias where a norm would stand, and no map of numbers to features."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen


class _Block(nn.Module):
    """`x + f(norm(x))`."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


class _Model(nn.Module):
    """Blocks on `gain * x + bias`: of numbers over time, each mapped to features by one vector for all, or of a mapped state as it is."""

    def __init__(self, numbers: bool) -> None:
        super().__init__()
        self.numbers, self.gain, self.bias = numbers, nn.Parameter(torch.randn(32)), nn.Parameter(torch.zeros(32))
        self.start, self.blocks = nn.Linear(16, 32), nn.Sequential(*(_Block() for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, :, :1] if self.numbers else self.start(x)
        out: Tensor = self.blocks(self.gain * x + self.bias)
        return out


@pytest.mark.parametrize(("numbers", "outcome"), [(True, "holds"), (False, "violated")])
def test_a_vector_for_each_number_is_no_hollow_norm(numbers: bool, outcome: str) -> None:
    found = [f for f in screen.check(_Model(numbers), example_inputs=torch.randn(2, 12, 16)).findings if f.code == "G105"]
    assert {f.outcome for f in found} == {outcome}, found


class _By(_Block):
    """`x + f(norm(x))`, or `norm(x + f(x))`, or half of the way to it behind two nets, by a quotient of one's own."""

    def __init__(self, quotient: str, place: str) -> None:
        super().__init__()
        self.bias, self.quotient, self.place = nn.Parameter(torch.zeros(32)), quotient, place

    def normed(self, x: Tensor) -> Tensor:
        if self.quotient == "less a bias":
            return x * torch.mean((x - self.bias) ** 2, -1, keepdim=True) ** -0.5
        if self.quotient == "times a root, with a bias":
            return 32**0.5 * x / (x + self.bias).norm(dim=-1, keepdim=True)
        if self.quotient == "rms":
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        if self.quotient == "of a part":
            return x * torch.rsqrt(x[..., :8].square().mean(-1, keepdim=True) + 1e-6)
        if self.quotient == "less the token before":
            return x * torch.rsqrt((x - x.roll(1, 1)).square().mean(-1, keepdim=True) + 1e-6)
        return x * torch.rsqrt((self.bias - 1).square().mean(-1, keepdim=True))

    def net(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(torch.relu(self.up(x)))
        return out

    def forward(self, x: Tensor) -> Tensor:
        if self.place == "before":
            return x + self.net(self.normed(x))
        y = x + self.net(x)
        if self.place == "behind":
            return self.normed(y)
        return x + 0.5 * (self.normed(y + self.net(y)) - x) + (0.1 * y if self.place == "half, and past it" else 0)


def _told(block: nn.Module) -> dict[str, set[str]]:
    report = screen.check(block, example_inputs=torch.randn(2, 12, 32), depth=12)
    return {code: {f.outcome for f in report.findings if f.code == code} for code in ("G105", "R201")}


@pytest.mark.by_the_day
@pytest.mark.parametrize("quotient", ["less a bias", "times a root, with a bias"])
@pytest.mark.parametrize("place", ["before", "behind", "half"])
def test_the_size_of_a_value_less_a_bias_is_no_hollow_norm(quotient: str, place: str) -> None:
    """Zipformer's BiasNorm: it takes any large size away, and has a pole where the value meets the bias."""
    assert _told(_By(quotient, place)) == {"G105": {"holds"}, "R201": {"conditional"}}


@pytest.mark.parametrize("quotient", ["of a part", "less the token before", "of the bias alone"])
def test_the_size_of_another_value_is_one(quotient: str) -> None:
    assert _told(_By(quotient, "before"))["G105"] == {"violated"}


@pytest.mark.parametrize(("place", "outcome"), [("half", "holds"), ("half, and past it", "violated")])
def test_what_leaves_its_block_through_a_norm_alone_does_not_grow_with_the_stream(place: str, outcome: str) -> None:
    assert outcome in _told(_By("rms", place))["R201"]


class _Scaled(nn.Module):
    """Numbers over time less their mean and over their deviation, of those that a mask says were observed: all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.blocks = nn.Linear(16, 32), nn.Sequential(*(_Block() for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.ones_like(x)
        count = seen.sum(1, keepdim=True).clamp_min(1.0)
        mean = (x * seen).sum(1, keepdim=True) / count
        variance = (((x - mean) * seen) ** 2).sum(1, keepdim=True) / count
        out: Tensor = self.blocks(self.start((x - mean) / torch.sqrt(variance + 1e-5)))
        return out


def test_a_mask_of_ones_is_no_part() -> None:
    """The deviation is that of all of x: it was said to be none that bounds it."""
    found = [f for f in screen.check(_Scaled(), example_inputs=torch.randn(2, 12, 16)).findings if f.code == "G105"]
    assert {f.outcome for f in found} == {"holds"}, found


class _Brought(nn.Module):
    """A copy of the stream, mapped and brought to the size of the first one (AltUp), or of another value's features one by one."""

    def __init__(self, one_by_one: bool) -> None:
        super().__init__()
        self.one_by_one, self.map, self.blocks = one_by_one, nn.Linear(32, 32), nn.Sequential(*(_Block() for _ in range(3)))

    def forward(self, x: Tensor) -> Tensor:
        copy = self.map(x)
        size = x.abs() if self.one_by_one else (x**2).mean(-1, keepdim=True) ** 0.5
        out: Tensor = self.blocks(x + copy * size / torch.sqrt((copy**2).mean(-1, keepdim=True).clamp(min=1e-5)))
        return out


@pytest.mark.parametrize(("one_by_one", "outcome"), [(False, "holds"), (True, "violated")])
def test_what_is_brought_to_a_size_is_normalised(one_by_one: bool, outcome: str) -> None:
    """`x * s / ρ(x)`, s one number for each token, was said to be divided by a statistic that does not bound it."""
    found = [f for f in screen.check(_Brought(one_by_one), example_inputs=torch.randn(2, 12, 32)).findings if f.code == "G105"]
    assert {f.outcome for f in found} == {outcome}, found


class _ByKnownRows(_Scaled):
    """Numbers less the mean and over the deviation of the rows that are known (TabPFN): of the data, or of what a map has made of them."""

    def __init__(self, of_data: bool) -> None:
        super().__init__()
        self.of_data, self.last = of_data, nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.of_data else self.start(x)
        known = x[:, :7]
        x = torch.clip((x - known.mean(1, keepdim=True)) / (known.std(1, keepdim=True) + 1e-20), -100, 100)
        out: Tensor = self.blocks(self.start(x) if self.of_data else self.last(x))
        return out


@pytest.mark.parametrize(("of_data", "outcome"), [(True, "holds"), (False, "violated")])
def test_numbers_are_put_on_a_scale_before_any_weight(of_data: bool, outcome: str) -> None:
    """No norm of a layer would stand there: the data of all rows are put on the scale of those that are known (exit 1)."""
    found = [f for f in screen.check(_ByKnownRows(of_data), example_inputs=torch.randn(2, 12, 16)).findings if f.code == "G105"]
    assert {f.outcome for f in found} == {outcome}, found


class _Halved(nn.Module):
    """Images that are halved four times, with a norm of each channel behind each, and behind a mean over what is left."""

    def __init__(self, pooled: bool) -> None:
        super().__init__()
        self.steps = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), *(m for _ in range(3) for m in (nn.GroupNorm(8, 8), nn.GELU(), nn.Conv2d(8, 8, 3, 2, 1))), nn.GroupNorm(8, 8)
        )
        self.pool, self.last = nn.AdaptiveAvgPool2d(1) if pooled else nn.Identity(), nn.GroupNorm(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.pool(self.steps(x)))
        return out


@pytest.mark.parametrize(("pooled", "side", "outcome"), [(False, 16, "cannot_tell"), (False, 64, "holds"), (True, 64, "violated")])
def test_a_norm_over_the_one_place_that_a_small_input_leaves_is_not_judged(pooled: bool, side: int, outcome: str) -> None:
    found = [f for f in screen.check(_Halved(pooled), example_inputs=torch.randn(2, 3, side, side)).findings if f.code == "G105"]
    assert {f.outcome for f in found} == {outcome}, found
    assert outcome != "cannot_tell" or "this input has one there" in found[0].message


class _Scored(nn.Module):
    """Tokens weighed by how far they reach along a learned direction (top-k pooling of graphs), or divided by the size of another value."""

    def __init__(self, by_weight: bool) -> None:
        super().__init__()
        self.by_weight, self.start, self.blocks = by_weight, nn.Linear(16, 32), nn.Sequential(*(_Block() for _ in range(3)))
        self.direction, self.other = nn.Parameter(torch.randn(1, 32)), nn.Linear(16, 32)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(self.start(x))
        if not self.by_weight:
            y = y / self.other(x).norm(dim=-1, keepdim=True)
            return y
        score = torch.tanh((y * self.direction).sum(-1) / self.direction.norm(p=2, dim=-1))
        out: Tensor = y * score.unsqueeze(-1)
        return out


@pytest.mark.parametrize(("by_weight", "outcome"), [(True, "holds"), (False, "violated")])
def test_a_projection_that_is_divided_by_the_size_of_its_weight_is_no_hollow_norm(by_weight: bool, outcome: str) -> None:
    found = [f for f in screen.check(_Scored(by_weight), example_inputs=torch.randn(2, 12, 16)).findings if f.code == "G105"]
    assert {f.outcome for f in found} == {outcome}, found
