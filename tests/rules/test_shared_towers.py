"""Two towers of the same weights, and values that are put in another's place for the loss alone (a straight-through estimate)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH = 24


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 96), nn.Linear(96, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Towers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm = nn.Embedding(30, WIDTH), nn.ModuleList(Block() for _ in range(3)), nn.LayerNorm(WIDTH)

    def tower(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.norm(x).mean(1)  # type: ignore[no-any-return]

    def forward(self, one: Tensor, two: Tensor) -> Tensor:
        return self.tower(one) @ self.tower(two).T


class Quantised(nn.Module):
    """Blocks, the nearest row of a codebook put in the place of what they made, and blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.book, self.norm = nn.Linear(8, WIDTH), nn.Parameter(torch.randn(40, WIDTH)), nn.LayerNorm(WIDTH)
        self.before, self.behind = (nn.ModuleList(Block() for _ in range(3)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.before:
            x = block(x)
        nearest = self.book[(x[:, :, None] - self.book).square().sum(-1).argmin(-1)]
        x = x + (nearest - x).detach()
        for block in self.behind:
            x = block(x)
        return self.norm(x)  # type: ignore[no-any-return]


def test_the_second_tower_has_the_matrices_of_the_first() -> None:
    """I203 said of it that it has no matrix."""
    ids = torch.full((2, 9), 4)
    report = screen.check(Towers(), example_inputs=(ids, ids), spot_check=False)
    assert [s.depth for s in report.streams] == [3, 3]
    assert {f.outcome for f in report.findings if f.code == "I203"} == {"holds"}


def test_gradients_pass_a_straight_through_estimate() -> None:
    """D202 said that the identity path is multiplied by 0, beside "gain 1 for gradients"."""
    report = screen.check(Quantised(), example_inputs=torch.randn(2, 9, 8), spot_check=False)
    assert report.streams[0].identity_path.gain == "1 for gradients"
    assert all("multiplied by 0" not in (f.message or "") for f in report.findings if f.code == "D202")
