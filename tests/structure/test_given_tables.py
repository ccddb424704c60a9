"""Tables that forward is given to turn queries and keys by are no other stream, and stay as they are given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, HEADS, TOKENS = 32, 2, 7


def halves(x: Tensor, one: Tensor, two: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * one + torch.cat((-b, a), -1) * two


def pairs(x: Tensor, one: Tensor, two: Tensor) -> Tensor:
    one, two = one[..., ::2], two[..., ::2]
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * one - b * two, b * one + a * two), -1).flatten(-2)


def first_alone(x: Tensor, one: Tensor, two: Tensor) -> Tensor:
    return x * one


def shifted(x: Tensor, one: Tensor, two: Tensor) -> Tensor:
    return x * one + two


class Block(nn.Module):
    def __init__(self, turn: object, norm: bool = True) -> None:
        super().__init__()
        self.turn = turn
        self.norm, self.q, self.k, self.v, self.o = nn.RMSNorm(WIDTH), *(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.qn, self.kn = (nn.RMSNorm(WIDTH // HEADS) if norm else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor, one: Tensor, two: Tensor) -> Tensor:
        q, k, v = (m(self.norm(x)).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        q, k = (self.turn(n(y), one[:, None], two[:, None]) for n, y in ((self.qn, q), (self.kn, k)))
        return x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))


class Mapped(Block):
    """One of the tables is read by a map as well."""

    def forward(self, x: Tensor, one: Tensor, two: Tensor) -> Tensor:
        return super().forward(x, one, two) + self.o(one.repeat(1, 1, HEADS))


class Model(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.last = nn.RMSNorm(WIDTH)

    def forward(self, x: Tensor, one: Tensor, two: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, one, two)
        return self.last(x)


def logits(*blocks: nn.Module) -> tuple[object, object]:
    torch.manual_seed(0)
    table = torch.zeros(1, TOKENS, WIDTH // HEADS)
    report = screen.check(Model(*blocks), example_inputs=(torch.zeros(2, TOKENS, WIDTH), table, table.clone()))
    [claim] = [c for c in report.claims if c.claim == "logits_bounded"]
    return claim.value, claim.high


@pytest.mark.parametrize("turn", [halves, pairs])
def test_normed_queries_and_keys_that_are_turned_by_given_tables_give_bounded_logits(turn: object) -> None:
    assert logits(*(Block(turn) for _ in range(2))) == (True, None)  # how large they are depends on the tables


@pytest.mark.parametrize("block", [Block(first_alone), Block(shifted), Mapped(halves)])
def test_other_arguments_may_be_as_large_as_they_like(block: Block) -> None:
    assert logits(block, block)[0] is not True


def test_without_norms_the_maps_make_logits_grow() -> None:
    assert logits(*(Block(halves, norm=False) for _ in range(2)))[0] is False
