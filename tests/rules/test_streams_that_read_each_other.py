"""G103 of two streams whose branches read each other's states as they are: the last reader of a stream that the model gives is no head."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

D = 16


class Layer(nn.Module):
    """`x + norm(f(x, source))`, attention of x to a source (LoFTR)."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out, self.norm = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D), nn.LayerNorm(D)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        k, v = self.kv(source).chunk(2, -1)
        out: Tensor = x + self.norm(self.out((self.q(x) @ k.mT / D**0.5).softmax(-1) @ v))
        return out


class Pair(nn.Module):
    """Both read each other in each layer; or the second reads the first's last state alone, which is given beside it (an encoder and its decoder)."""

    def __init__(self, exchanged: bool) -> None:
        super().__init__()
        self.exchanged, self.own, self.cross = exchanged, nn.ModuleList(Layer() for _ in range(6)), nn.ModuleList(Layer() for _ in range(6))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if not self.exchanged:
            for own in self.own:
                x = own(x, x)
        for own, cross in zip(self.own, self.cross, strict=True):
            x, y = (own(x, x), own(y, y)) if self.exchanged else (x, own(y, y))
            x = cross(x, y) if self.exchanged else x
            y = cross(y, x)
        return x, y


@pytest.mark.parametrize(("exchanged", "outcomes"), [(True, {"conditional"}), (False, {"conditional", "violated"})])
def test_a_stream_that_another_one_reads_all_along_leaves_the_model(exchanged: bool, outcomes: set[str]) -> None:
    report = screen.check(Pair(exchanged), example_inputs=(torch.randn(2, 9, D), torch.randn(2, 7, D)))
    assert {f.outcome for f in report.findings if f.code == "G103"} == outcomes
