"""A mask that logits are multiplied by, as in GPT-1: u·b − 1e4·(1 − b)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

import screen

WIDTH, TOKENS = 32, 8


class Block(nn.Module):
    def __init__(self, masked: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.norm, self.masked = nn.LayerNorm(WIDTH), masked
        self.register_buffer("kept", torch.tril(torch.ones(TOKENS, TOKENS)))

    def forward(self, x: Tensor) -> Tensor:
        u = self.q(x) @ self.k(x).transpose(-1, -2) / WIDTH**0.5
        out: Tensor = self.norm(x + self.o(self.masked(u, self.kept).softmax(-1) @ self.v(x)))
        return out


def apart(masked: Callable[[Tensor, Tensor], Tensor]) -> object:
    """1 − cos at the start, as it is derived."""
    torch.manual_seed(0)
    report = screen.check(Block(masked), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4, spot_check=False)
    return next(c.value for c in report.claims if c.claim == "one_minus_cos")


def test_a_mask_that_logits_are_multiplied_by() -> None:
    filled = apart(lambda u, b: u.masked_fill(b == 0, -1e4))
    assert isinstance(filled, float) and apart(lambda u, b: u * b + -1e4 * (1 - b)) == filled
    for other in (lambda u, b: u * b + -1e4 * (2 - b), lambda u, b: u * b + -1.0 * (1 - b), lambda u, b: u * b + b):
        assert apart(other) is None, "what is left is not known to be as it was, or to be out"
