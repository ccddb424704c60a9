"""Branches that read nothing of the stream but what stood before the first block, branches that no weight scales, and logits that differ by layer."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import Report

D, DEPTH = 32, 10


def example_inputs() -> tuple[Tensor]:
    return (torch.randn(1, 8, D),)


def line() -> nn.Linear:
    made = nn.Linear(D, D, bias=False)
    nn.init.normal_(made.weight, std=D**-0.5)
    return made


class Attention(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale, self.norm = scale, nn.LayerNorm(D)
        self.q, self.k, self.v, self.out = (line() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x) * self.scale
        return self.out(F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h)))


class Softer(nn.Module):
    """Each layer reads half as much as the one before it: its logits are a quarter as large."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention(0.5**n) for n in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class Again(nn.Module):
    """A net of what came in is added behind every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), line(), nn.GELU(), line()) for _ in range(DEPTH))
        self.maps = nn.ModuleList(nn.Sequential(line(), nn.ReLU(), line()) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        first = x
        for net, again in zip(self.nets, self.maps, strict=True):
            x = x + net(x)
            x = x + again(first)
        return x


class Beside(nn.Module):
    """Each net reads a norm of the stream, beside it what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(DEPTH))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(2 * D, D), nn.ReLU(), line()) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> Tensor:
        first = x
        for norm, net in zip(self.norms, self.nets, strict=True):
            x = x + net(torch.cat([norm(x), first], -1))
        return x


class Turned(nn.Module):
    """A part of the stream in the direction that a map points to is added: no weight makes it larger."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.way = nn.LayerNorm(D), line()

    def forward(self, x: Tensor) -> Tensor:
        way = F.normalize(self.way(self.norm(x)), dim=-1)
        return x + 0.5 * way * (way * x).sum(-1, keepdim=True)


class Forecasts(nn.Module):
    """Each net reads what is left of the past, takes a part off it and adds another one to a forecast: both are sums of what grows."""

    normed = False

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.start = nn.LayerNorm(D), nn.Parameter(torch.zeros(8))
        self.first = nn.ModuleList(nn.Linear(D, 48) for _ in range(6))
        self.last = nn.ModuleList(nn.Linear(48, D + 8, bias=False) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        ahead = self.start.expand(*x.shape[:-1], -1)
        for first, last in zip(self.first, self.last, strict=True):
            both = last(F.relu(first(self.norm(x) if self.normed else x)))
            x, ahead = x - both[..., :D], ahead + both[..., D:]
        return ahead


class ForecastsNormed(Forecasts):
    normed = True


def report(name: str, depth: int | None = None) -> Report:
    return screen.check(f"{__file__}::{name}", depth=depth, isolate=False)


def messages(found: Report, code: str) -> list[str]:
    return [f.message for f in found.findings if f.code == code]


def test_logits_are_those_of_their_own_layer() -> None:
    sizes = [c.value for c in report("Softer").claims if c.claim == "logit_rms"]
    assert [math.log2(s) for s in sizes if isinstance(s, float)] == pytest.approx([0.0, -2.0, -4.0, -6.0], abs=0.05)


def test_what_is_made_of_the_first_state_does_not_grow_with_the_stream() -> None:
    found = report("Again")
    assert next(c.value for c in found.claims if c.claim == "growth" and c.weights == "fixed") == "linear"
    assert not any("grows with the stream" in m for m in messages(found, "R201"))


@pytest.mark.parametrize("name", ["Again", "Beside"])
def test_more_of_a_larger_input_refutes_no_law_of_depth(name: str) -> None:
    """It was measured as a growth of the stream: 7,000 times more at 10,000 times the input."""
    [law] = [c for c in report(name).claims if c.claim == "growth" and c.weights == "fixed"]
    assert law.value == "linear" and law.measured is not None and law.measured.agrees is not False


@pytest.mark.parametrize(("name", "law"), [("Forecasts", None), ("ForecastsNormed", "linear")])
def test_a_sum_of_what_another_stream_makes_is_no_larger_than_that_allows(name: str, law: str | None) -> None:
    """Its branches read none of its own states: told to be linear, and measured to be 29 times as large behind 24 blocks as behind six."""
    found = {c.stream: c.value for c in report(name).claims if c.claim == "growth" and c.weights == "fixed" and c.status != "unknown"}
    assert len(report(name).streams) == 2 and all(v == law or (law is None and v == "exponential") for v in found.values())


def test_no_power_of_the_depth_comes_back_to_a_sum_by_branches_that_do_not_read_it() -> None:
    told = {c.stream: c.value for c in report("ForecastsNormed").claims if c.claim == "gradient_law" and c.status != "unknown"}
    assert "stream2" not in told


def test_a_branch_that_no_weight_scales_is_not_unbounded_in_its_weights() -> None:
    found = report("Turned", 12)
    assert messages(found, "R201") and not any("in its weights" in m for m in messages(found, "R201"))
    assert not any("its weights scale" in c.reason for c in found.claims if c.claim == "growth")
