"""Designs that look like another: a norm on half of the stream, a bounded output without a norm, norms on queries and keys that are transposed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH, TOKENS = 32, 8


class Half(nn.Module):
    """Normalises the first half of the features; `both` the second one too."""

    def __init__(self, both: bool = False) -> None:
        super().__init__()
        self.one, self.two = nn.LayerNorm(WIDTH // 2), nn.LayerNorm(WIDTH // 2) if both else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat([self.one(a), self.two(b)], -1)


class Block(nn.Module):
    def __init__(self, at_end: Callable[[], nn.Module], on_stream: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.up, self.down, self.at_end, self.on_stream = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH), at_end(), on_stream()

    def forward(self, x: Tensor) -> Tensor:
        return self.on_stream(x + self.at_end(self.down(torch.relu(self.up(x)))))


class Heads(nn.Module):
    """Attention of several heads, with a norm on each head's queries and keys or on all of them."""

    def __init__(self, per_head: bool, heads: int = 2) -> None:
        super().__init__()
        self.norm, self.heads, self.per_head = nn.LayerNorm(WIDTH), heads, per_head
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.qn, self.kn = (nn.RMSNorm(WIDTH // heads if per_head else WIDTH) for _ in range(2))

    def split(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = self.q(y), self.k(y), self.split(self.v(y))
        q, k = (self.qn(self.split(q)), self.kn(self.split(k))) if self.per_head else (self.split(self.qn(q)), self.split(self.kn(k)))
        mixed = torch.softmax(q @ k.transpose(-1, -2) * (WIDTH // self.heads) ** -0.5, -1) @ v
        return x + self.o(mixed.transpose(1, 2).flatten(2))


def report_of(block: Callable[[], nn.Module], depth: int = 4) -> Report:
    model = nn.Sequential(*(block() for _ in range(depth)), nn.LayerNorm(WIDTH))
    return screen.check(model, example_inputs=torch.zeros(2, TOKENS, WIDTH))


def states(report: Report) -> dict[str, str]:
    return {c.id: c.state for c in report.channels}


def test_a_norm_on_half_of_the_stream_bounds_nothing() -> None:
    """The other half reads the stream as it is, and grows by the same factor in every block once it is large."""
    report = report_of(lambda: Block(nn.Identity, Half))
    assert report.verdict == "unknown" and states(report)["R"] == "conditional" and "some entries" in report.summary


def test_norms_on_both_halves_are_a_norm() -> None:
    report = report_of(lambda: Block(nn.Identity, lambda: Half(both=True)))
    assert report.streams[0].kinds[0].sublayers[0].placement == "post" and states(report)["R"] == "closed"


def test_a_bounded_output_grows_linearly_without_a_norm() -> None:
    """The branch reads the stream itself, so that nothing is said of its gradients but at the start."""
    found = states(report_of(lambda: Block(nn.Tanh, nn.Identity)))
    assert found["R"] == "closed" and found["D"] != "closed"
    assert states(report_of(lambda: Block(nn.Identity, nn.Identity)))["R"] == "open"


@pytest.mark.parametrize("per_head", [True, False])
def test_norms_of_queries_and_keys_with_fewer_tokens_than_features(per_head: bool) -> None:
    """The keys stand transposed under the product: their last axis is that of the tokens."""
    sub = report_of(lambda: Heads(per_head)).streams[0].kinds[0].sublayers[0]
    assert sub.qk_norm == ("per_head" if per_head else "full")
