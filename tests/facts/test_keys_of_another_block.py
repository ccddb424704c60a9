"""Keys and values that an earlier block made: whether they are made of a norm decides whether logits grow with the stream."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

WIDTH, HEADS, DEPTH = 32, 4, 12


class Shared(nn.Module):
    """The second half attends with queries of its own to keys and values that stand in the middle."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.norms, self.norm, self.before = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(DEPTH)), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.out, self.kv = nn.ModuleList(self._map(WIDTH)), nn.ModuleList(self._map(WIDTH)), nn.ModuleList(self._map(2 * WIDTH))
        self.normed = normed

    @staticmethod
    def _map(out: int) -> list[nn.Linear]:
        made = [nn.Linear(WIDTH, out, bias=False) for _ in range(DEPTH)]
        for linear in made:
            nn.init.normal_(linear.weight, std=WIDTH**-0.5)
        return made

    @staticmethod
    def _heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.sizes, kept = [], None
        for place, norm in enumerate(self.norms):
            h = norm(x)
            if place < DEPTH // 2:
                k, v = self.kv[place](h).chunk(2, -1)
            elif kept is None:
                kept = self.kv[place](self.before(x) if self.normed else x).chunk(2, -1)
            k, v = (k, v) if kept is None else kept
            q, k, v = map(self._heads, (self.q[place](h), k, v))
            self.sizes.append(float((q @ k.mT).detach().square().mean().sqrt()))
            x = x + self.out[place](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        out: Tensor = self.norm(x)
        return out


def _grown(normed: bool) -> float:
    """How much larger the last logits are behind an input 1e4 times the size."""
    sizes = []
    for factor in (1.0, 1e4):
        torch.manual_seed(0)
        model = Shared(normed).double()
        model(factor * torch.randn(2, 16, WIDTH, dtype=torch.float64))
        sizes.append(model.sizes[-1])
    return sizes[1] / sizes[0]


@pytest.mark.parametrize("normed", [True, False])
def test_logits_grow_with_the_stream_where_no_norm_stands_before_the_keys(normed: bool) -> None:
    report = screen.check(Shared(normed), example_inputs=torch.randn(2, 16, WIDTH))
    found = [f for f in report.findings if f.code == "L201"]
    assert (_grown(normed) < 2.0) is normed
    assert any(f.outcome == "violated" for f in found) is not normed, [f.message for f in found]
    if not normed:
        assert all("grow with it over depth" in f.message for f in found if f.outcome == "violated")
        assert 1e2 < _grown(False) < 1e5  # queries are normed: not its square
