"""Products with matrices that nobody trains, behind a norm: a branch as any other, where it stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import screen

TOKENS, WIDTH = 16, 32


class Block(nn.Module):
    """A mixing of tokens, or of features, by a frozen matrix, then an MLP."""

    def __init__(self, mixed: Callable[[Block, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("places", torch.softmax(torch.rand(TOKENS, TOKENS), -1))
        self.register_buffer("features", torch.randn(WIDTH, WIDTH) / WIDTH**0.5)
        self.norm, self.mixed = nn.LayerNorm(WIDTH), mixed
        self.net = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = self.mixed(self, x)
        out: Tensor = x + self.net(x)
        return out


MIXED: dict[str, Callable[[Block, Tensor], Tensor]] = {
    "matmul": lambda m, x: x + m.places @ m.norm(x),
    "einsum": lambda m, x: x + torch.einsum("mn,bnc->bmc", m.places, m.norm(x)),
    "turned": lambda m, x: (m.norm(x).mT @ m.places).mT + x,
    "features": lambda m, x: x + m.norm(x) @ m.features,
    "bounded": lambda m, x: x + m.places @ torch.tanh(x),
}


@pytest.mark.parametrize("mixed", list(MIXED.values()), ids=list(MIXED))
def test_it_is_a_branch_of_its_own(mixed: Callable[[Block, Tensor], Tensor]) -> None:
    report = screen.check(Block(mixed), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4, spot_check=False)
    told = [(c.sublayer, c.value) for c in report.claims if c.claim == "output_bounded"]
    assert told == [("other", True), ("ffn", False)]


def test_on_the_stream_itself_it_is_none() -> None:
    """x + A x has the eigenvalue 2: what stands there is a part of the stream, whatever A does."""
    report = screen.check(Block(lambda m, x: x + m.places @ x), example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4)
    gain = next(c for c in report.claims if c.claim == "identity_gain")
    assert [b.name for s in report.streams for k in s.kinds for b in k.sublayers] == ["ffn"]
    assert gain.value is None or gain.value > 2
