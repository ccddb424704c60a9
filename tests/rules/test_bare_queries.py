"""L201 of attention that compares no maps: tokens as they are, or a learned query. It named W_Q and W_K, which the code does not have."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen
from screen.report.schema import FindingPart

WIDTH = 32


class Block(nn.Module):
    """x + o(attention(q, k, v(x))), the norm before it left out where it is not `normed`."""

    def __init__(self, queries: str, keys: str, normed: bool = True, written: bool = False) -> None:
        super().__init__()
        self.norm, self.queries, self.keys, self.written = nn.LayerNorm(WIDTH) if normed else nn.Identity(), queries, keys, written
        self.query = nn.Parameter(torch.randn(1, WIDTH))
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        learned = self.query.expand(len(x), -1, -1)
        q = {"tokens": y, "learned": learned, "map": self.q(y), "map of learned": self.q(learned)}[self.queries]
        k = {"tokens": y, "map": self.k(y)}[self.keys]
        if self.written:
            out: Tensor = x + self.o((q @ k.mT / WIDTH**0.5).softmax(-1) @ self.v(y))
            return out
        return x + self.o(F.scaled_dot_product_attention(q, k, self.v(y)))


TOKENS = [("tokens", "map", "W_K"), ("map", "tokens", "W_Q"), ("map", "map", "W_Q and W_K")]


def told(model: nn.Module) -> FindingPart:
    report = screen.check(model, example_inputs=torch.randn(2, 10, WIDTH), depth=6)
    [finding] = [f for f in report.findings if f.code == "L201"]
    return finding


@pytest.mark.parametrize(
    ("queries", "keys", "written", "named"),
    [
        ("learned", "map", False, "`query` and W_K"),
        ("learned", "tokens", False, "`query`"),
        ("map of learned", "map", False, "W_Q and W_K"),
        *((q, k, written, named) for q, k, named in TOKENS for written in (False, True)),
    ],
)
def test_what_is_compared_is_named(queries: str, keys: str, written: bool, named: str) -> None:
    finding = told(Block(queries, keys, written=written))
    assert finding.outcome == "conditional" and f"still scale with {named};" in (finding.message or ""), finding.message
    assert bool(finding.theorem) is ("W_Q and W_K" in named)


@pytest.mark.parametrize("written", [False, True])
def test_tokens_that_are_compared_as_they_are_have_no_maps(written: bool) -> None:
    """The map of the values, which reads the tokens as the product does, was told to scale the logits."""
    finding = told(Block("tokens", "tokens", normed=False, written=written))
    assert finding.outcome == "violated" and (finding.message or "").endswith("they grow with its square over depth."), finding.message
    assert "a bound on" not in (finding.remedy or "")


class Weighed(nn.Module):
    """x + W·softmax(m(x)) over features: stored values, weighed by the tokens as they are or by a map of them."""

    def __init__(self, mapped: bool) -> None:
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH) if mapped else nn.Identity()
        self.stored = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.stored(self.map(x).softmax(-1))
        return out


@pytest.mark.parametrize("mapped", [False, True])
def test_logits_that_no_map_makes(mapped: bool) -> None:
    finding = told(Weighed(mapped))
    assert finding.outcome == "violated" and bool(finding.theorem) is mapped
    assert (finding.message or "").endswith(f"they grow with it over depth{', and with the map that makes them' if mapped else ''}."), finding.message
