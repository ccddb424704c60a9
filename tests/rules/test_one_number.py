"""What two rules tell of one thing at the start is one number."""

from __future__ import annotations

import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS = 32, 4


def linear(inputs: int, outputs: int) -> nn.Linear:
    made = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(made.weight, std=inputs**-0.5)
    return made


class Attends(nn.Module):
    """Pre-norm attention with a root of the head's width."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(WIDTH), linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        out: Tensor = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return out


class Raw(nn.Module):
    """A net of the stream as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.more = nn.RMSNorm(WIDTH), linear(WIDTH, 64), linear(64, WIDTH), linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.more(self.norm(x)) + 1.2 * self.down(F.relu(self.up(x)))
        return out


def messages(block: type[nn.Module]) -> dict[str, str]:
    torch.manual_seed(0)
    report = screen.check(block(), example_inputs=torch.randn(2, 16, WIDTH), depth=24)
    return {f.code: f"{f.message} {f.plain}" for f in report.findings}


def test_where_logits_start() -> None:
    said = messages(Attends)
    found = [re.findall(r"start (?:with a root mean square of|at) (\S+)", said[code]) for code in ("I202", "L201")]
    assert found[0][0] == found[1][0] and "measured" in said["I202"]


def test_how_much_a_stream_grows() -> None:
    said = messages(Raw)
    found = [re.findall(r"grows (\S+) times", said[code]) for code in ("R301", "D202")]
    assert found[0] and found[0][0] == found[1][0]
