"""A recurrence that is written as a scan in parallel, `s[1::2] + a * s[0::2]` over and over, carries a state: it is no feed-forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, INNER, TOKENS = 16, 24, 11


def scan(keep: Tensor, come: Tensor) -> Tensor:
    """All states s ← keep · s + come, in log₂(tokens) steps: pairs, then every other state of them."""
    if come.shape[1] < 2:
        return come
    pairs = come[:, 1::2] + keep[:, 1::2] * come[:, : come.shape[1] // 2 * 2 : 2]
    odd = scan(keep[:, 1::2] * keep[:, : come.shape[1] // 2 * 2 : 2], pairs)
    even = come[:, 2::2] + keep[:, 2::2] * odd[:, : come[:, 2::2].shape[1]]
    even = torch.cat([come[:, :1], even], 1)
    both = torch.stack([even[:, : odd.shape[1]], odd], 2).flatten(1, 2)
    return torch.cat([both, even[:, odd.shape[1] :]], 1)


class Block(nn.Module):
    """x + W(gelu(scan)), with one decay for all tokens, with a decay made of each, or with none: the same ops without a state."""

    def __init__(self, decay: str) -> None:
        super().__init__()
        self.decay, self.norm, self.into, self.out = decay, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * INNER), nn.Linear(INNER, WIDTH)
        self.rate = nn.Parameter(torch.rand(INNER))

    def forward(self, x: Tensor) -> Tensor:
        come, gate = self.into(self.norm(x)).chunk(2, -1)
        if self.decay == "none":
            return x + self.out(nn.functional.gelu(come + gate))
        keep = torch.exp(-self.rate.exp()).expand_as(come) if self.decay == "fixed" else torch.sigmoid(gate)
        return x + self.out(nn.functional.gelu(scan(keep, come)))


@pytest.mark.parametrize(("decay", "role"), [("fixed", "ssm"), ("of the data", "rnn"), ("none", "ffn")])
def test_what_a_scan_in_parallel_is(decay: str, role: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(decay) for _ in range(3)), nn.LayerNorm(WIDTH))
    (stream,) = screen.check(model, example_inputs=(torch.randn(2, TOKENS, WIDTH),)).streams
    assert [one.role for kind in stream.kinds for one in kind.sublayers] == [role]
