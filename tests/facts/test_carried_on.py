"""What a stream keeps of itself where it is not only added to: paths around a sum, means that are taken away, lanes, inner stacks, velocities."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH = 32


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(torch.relu(self.up(self.norm(x))))
        return out


class Layer(Branch):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class Stack(nn.Module):
    """[batch, tokens, WIDTH] through `run`, which gets the input and the members."""

    def __init__(self, run: Callable[..., Tensor], member: type[nn.Module] = Branch, depth: int = 6) -> None:
        super().__init__()
        self.members, self.norm, self.run = nn.ModuleList(member() for _ in range(depth)), nn.LayerNorm(WIDTH), run
        self.mix = nn.ParameterList(nn.Parameter(torch.full((3, 3), 0.5)) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.run(x, self.members, self.mix))
        return out


def _report(run: Callable[..., Tensor], member: type[nn.Module] = Branch, depth: int = 6) -> Any:
    torch.manual_seed(0)
    return screen.check(Stack(run, member, depth), example_inputs=torch.randn(2, 8, WIDTH))


def _gain(report: Any) -> tuple[float | None, str]:
    """Of the last claim about the identity path: the model's, where there is one."""
    found = [c for c in report.claims if c.claim == "identity_gain"]
    claim = next((c for c in found if c.stream is None), found[0])
    return claim.value, claim.status


def around(x: Tensor, members: Any, mix: Any) -> Tensor:
    for f in members:
        x = x + 0.1 * (x - torch.tanh(f(x)))
    return x


def twice(x: Tensor, members: Any, mix: Any) -> Tensor:
    for f in members:
        y = x + f(x)
        x = y.add(x)
    return x


@pytest.mark.parametrize(("run", "alpha", "gain"), [(around, 1.1, 1.1**6), (twice, 2.0, 64.0)])
def test_identity_paths_around_a_sum_are_its_scale(run: Callable[..., Tensor], alpha: float, gain: float) -> None:
    report = _report(run)
    [stream] = report.streams
    assert not stream.long_skips
    assert [s.residual.alpha for k in stream.kinds for s in k.sublayers] == [pytest.approx(alpha)]
    assert _gain(report) == (pytest.approx(gain, rel=1e-5), "proved")


def less_its_mean(x: Tensor, members: Any, mix: Any) -> Tensor:
    for f in members:
        x = x - x.mean(1, keepdim=True) + f(x)
    return x


def and_its_mean(x: Tensor, members: Any, mix: Any) -> Tensor:
    for f in members:
        x = x + x.mean(1, keepdim=True) + f(x)
    return x


def less_half_of_its_mean(x: Tensor, members: Any, mix: Any) -> Tensor:
    for f in members:
        x = x - 1.5 * x.mean(1, keepdim=True) + f(x)
    return x


@pytest.mark.parametrize(("run", "gain"), [(less_its_mean, 1.0), (and_its_mean, 64.0), (less_half_of_its_mean, 1.0)])
def test_what_a_mean_takes_away_or_adds(run: Callable[..., Tensor], gain: float) -> None:
    value, status = _gain(_report(run))
    assert (value, status) == (pytest.approx(gain), "proved")
    x = torch.randn(1, 8, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    one = run(x, [lambda _: 0.0], None)
    assert float(one.norm() / x.norm()) <= gain ** (1 / 6) + 1e-12


def hourglass(x: Tensor, members: Any, mix: Any) -> Tensor:
    for f in members[:2]:
        x = f(x)
    h = torch.nn.functional.avg_pool1d(x.transpose(1, 2), 2).transpose(1, 2)
    for f in members[2:4]:
        h = f(h)
    x = x + h.repeat_interleave(2, dim=1)
    for f in members[4:]:
        x = f(x)
    return x


def test_what_an_inner_stack_carries_of_the_stream_comes_back() -> None:
    """Its gain is 2 (a constant along the tokens is pooled, kept, repeated and added): it is not said to be 1."""
    claims = [c for c in _report(hourglass, Layer).claims if c.claim == "identity_gain"]
    outer = next(c for c in claims if c.stream in ("stream", None))
    assert outer.status != "proved" or outer.value == pytest.approx(2.0)


def velocity(x: Tensor, members: Any, mix: Any) -> Tensor:
    v = torch.zeros_like(x)
    for f in members:
        v = 0.9 * v + 0.1 * f(x)
        x = x + v
    return x


def test_the_last_velocity_is_added() -> None:
    x, v = 1.0, 0.0
    for _ in range(12):
        v = 0.9 * v + 0.1 * x
        x = x + v
    [claim] = [c for c in _report(velocity, Layer, 12).claims if (c.claim, c.stream) == ("identity_gain", "stream")]
    assert (claim.value, claim.status) == (pytest.approx(x, rel=1e-5), "proved")


def lanes(x: Tensor, members: Any, mix: Any) -> Tensor:
    every = x.expand(3, *x.shape)
    for f, m in zip(members, mix, strict=True):
        every = torch.einsum("kl,lbtd->kbtd", m, every) + f(every.mean(0))
    return every.sum(0)


def test_lanes_that_a_trained_matrix_mixes_have_a_gain_that_is_measured() -> None:
    report = _report(lanes)
    assert _gain(report) == (pytest.approx(3 * 1.5**6, rel=1e-3), "measured")
    [found] = [f for f in report.findings if f.code == "D101"]
    assert "trained matrices that mix its copies" in found.message


def first_again(x: Tensor, members: Any, mix: Any) -> Tensor:
    first = x
    for f in members:
        x = f(x + first)
    return x


def test_a_first_state_that_is_added_again_makes_no_gradient_of_blocks() -> None:
    [found] = [f for f in _report(first_again, Layer, 24).findings if f.code == "D202"]
    assert "reaches its end 25 times over" in found.message and "what branches add is carried on as it is" in found.message


@cache
def _two_outputs() -> Any:
    class Two(Stack):
        def __init__(self) -> None:
            super().__init__(around, Layer, 8)
            self.join = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Any:
            for f in self.members[:4]:
                x = f(x)
            ahead = self.join(self.norm(x))
            for f in self.members[4:]:
                ahead = f(ahead)
            return self.norm(x), self.norm(ahead)

    torch.manual_seed(0)
    return screen.check(Two(), example_inputs=torch.randn(2, 8, WIDTH))


def test_a_stream_that_is_returned_is_not_lost_in_the_one_behind_it() -> None:
    claims = [c for c in _two_outputs().claims if c.claim == "identity_gain"]
    assert len(claims) == 2 and all(c.value == 1.0 for c in claims), [(c.stream, c.value) for c in claims]


def weighed(x: Tensor, members: Any, mix: Any) -> Tensor:
    for f, m in zip(members, mix, strict=True):
        x = x + m[0, 1] * f(x)
    return x


def test_learned_scales_that_start_unlike_have_no_start() -> None:
    unlike, alike = Stack(weighed), Stack(weighed)
    for place, m in enumerate(unlike.mix):
        nn.init.constant_(m, 1.0 / (place + 1))
    texts = [screen.check(m, example_inputs=torch.randn(2, 8, WIDTH)).to_text() for m in (unlike, alike)]
    assert ["starts at" in t for t in texts] == [False, True]
