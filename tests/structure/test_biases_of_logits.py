"""Attention with a bias of its logits that is made of the stream itself, while queries, keys and values read a norm of it. Truths by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, TOKENS = 32, 12


class Biased(nn.Module):
    """`of`: what the bias is made of, raw or normed; `raw`: what reads the raw stream too; `fused`: by one call."""

    def __init__(self, of: str, raw: str = "", fused: bool = False) -> None:
        super().__init__()
        self.of, self.raw, self.fused = of, raw, fused
        self.norm, self.bias, self.curves = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 6), nn.Linear(6, TOKENS)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        bias = self.curves(self.bias(x if self.of == "raw" else h))
        q, k, v = (m(x if name in self.raw else h) for m, name in ((self.q, "q"), (self.k, "k"), (self.v, "v")))
        if self.fused:
            return x + self.o(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias))
        logits = (q @ k.mT * WIDTH**-0.5 + bias).masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), -1e9)
        return x + self.o(torch.softmax(logits, -1) @ v)


class Plain(nn.Module):
    """A softmax of a map of the raw stream weighs a norm of it: no product of two values is biased."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.one, self.other = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS), nn.Linear(WIDTH, TOKENS)
        self.v, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.o(torch.softmax(self.one(x) + self.other(h), -1) @ self.v(h))


def placement(block: nn.Module) -> str:
    (stream,) = screen.check(block, example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=6).streams
    (sub,) = stream.kinds[0].sublayers
    return sub.placement


@pytest.mark.parametrize("fused", [False, True])
def test_a_bias_of_logits_that_reads_the_raw_stream_takes_no_norm_away(fused: bool) -> None:
    """Such an attention was told to read no norm."""
    assert placement(Biased("raw", fused=fused)) == "pre"
    assert placement(Biased("normed", fused=fused)) == "pre"


@pytest.mark.parametrize("raw", ["q", "k", "v", "qkv"])
def test_what_is_compared_or_weighed_raw_is_no_bias(raw: str) -> None:
    assert placement(Biased("raw", raw)) == placement(Biased("normed", raw)) == "none"


def test_a_sum_without_a_product_has_no_bias() -> None:
    assert placement(Plain()) == "none"
