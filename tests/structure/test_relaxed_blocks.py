"""Blocks with something around them: a step towards what they give, a Runge–Kutta step, a stack on fewer tokens, the first state taken off."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import Report

WIDTH, TOKENS = 32, 12


class Block(nn.Module):
    def __init__(self, attends: bool = True) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down, self.attends = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), attends

    def map(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(self.norms[1](x))))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.o(F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y)))
        return x + self.map(x)


class Model(nn.Module):
    """`depth` blocks between an embedding and a norm, run as `how` says."""

    def __init__(self, how: str, depth: int = 4) -> None:
        super().__init__()
        self.how, self.embed, self.norm = how, nn.Embedding(40, WIDTH), nn.LayerNorm(WIDTH)
        self.blocks, self.middle = (nn.ModuleList(Block() for _ in range(n)) for n in (depth, 3))
        self.steps = nn.Parameter(torch.linspace(1, 0.5, depth)) if how == "learned" else torch.linspace(1, 0.5, depth)

    def forward(self, ids: Tensor) -> Tensor:
        first = x = self.embed(ids)
        for number, block in enumerate(self.blocks):
            if self.how == "slopes":
                one = block.map(x)
                two = block.map(x + one / 2)
                three = block.map(x + two / 2)
                x = x + (one + 2 * two + 2 * three + block.map(x + three)) / 6
            elif self.how == "number":
                x = x + 0.8 * (block(x) - x)
            elif self.how in ("learned", "table"):
                x = x + self.steps[number] * (block(x) - x)
            else:
                x = block(x)
            if self.how == "pooled" and number == 1:
                few = x.unflatten(1, (-1, 4)).mean(2)
                for inner in self.middle:
                    few = inner(few)
                x = x + few.repeat_interleave(4, 1)
        return self.norm(x - first if self.how == "taken off" else x)  # type: ignore[no-any-return]


def report_on(how: str) -> Report:
    torch.manual_seed(0)
    return screen.check(Model(how), example_inputs=torch.full((2, TOKENS), 3), spot_check=False)


@pytest.mark.parametrize("how", ["number", "learned", "table", "taken off", "plain"])
def test_a_stream_of_gain_one(how: str) -> None:
    """D101 was violated with paths that "cross 0 norms", or D201 did not run."""
    report = report_on(how)
    [stream] = report.streams
    assert stream.depth == 4
    assert stream.identity_path.exists is True and stream.identity_path.gain == "1"
    assert [f.outcome for f in report.findings if f.code == "D101"] == ["holds"]


def test_slopes_of_a_step_are_one_branch_of_each_of_few_blocks() -> None:
    """The sum of the first block's slopes was the stream, which began behind an "embedding norm"."""
    [stream] = report_on("slopes").streams
    assert (stream.depth, stream.embed_norm) == (4, False)
    assert [len(k.sublayers) for k in stream.kinds] == [1] and stream.kinds[0].sublayers[0].role == "ffn"


def test_a_stack_on_fewer_tokens_is_inside_of_a_branch() -> None:
    """Its blocks were one attention of all their maps, and the blocks before it a stream once more."""
    outer, inner = report_on("pooled").streams
    assert (outer.role, outer.depth, inner.role, inner.depth) == ("stream", 4, "inner", 3)
    assert [s.role for k in inner.kinds for s in k.sublayers] == ["attention", "ffn"]
