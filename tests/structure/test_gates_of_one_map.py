"""Stream and branch, each times a gate of its own that one map makes of both; and values that are read at places that are computed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 32


class FFN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Gateway(nn.Module):
    """N(g ⊙ x + h ⊙ F(x)), with g and h from a map of x and F(x); or x and F(x) mixed by that map alone."""

    def __init__(self, mapped: bool) -> None:
        super().__init__()
        self.mapped, self.ffn, self.norm = mapped, FFN(), nn.LayerNorm(WIDTH)
        self.gate, self.mix = nn.Linear(2 * WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        f = self.ffn(x)
        both = torch.cat([x, f], -1)
        if self.mapped:
            return self.norm(self.mix(both))
        g, h = torch.sigmoid(self.gate(both)).chunk(2, -1)
        return self.norm(g * x + h * f)


class Sampled(nn.Module):
    """Post-norm attention to an image at places that the stream names."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.shares = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 4)
        self.norm, self.ffn, self.after = nn.LayerNorm(WIDTH), FFN(), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, image: Tensor) -> Tensor:
        b, n, _ = x.shape
        found = F.grid_sample(image, self.places(x).view(b, n, 4, 2), align_corners=False)  # [b, features, n, 4]
        x = self.norm(x + (found * self.shares(x).softmax(-1)[:, None]).sum(-1).mT)
        return self.after(x + self.ffn(x))


class Routed(nn.Module):
    """Post-norm experts, each of which has every token."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts, self.norm = nn.Linear(WIDTH, 4), nn.ModuleList(FFN() for _ in range(4)), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        shares = self.router(x).softmax(-1)
        return self.norm(x + (torch.stack([e(x) for e in self.experts], -1) * shares[..., None, :]).sum(-1))


class Stack(nn.Module):
    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(20, WIDTH), nn.ModuleList(blocks)

    def forward(self, ids: Tensor, *given: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, *given)
        return x


def read(model: nn.Module, *given: Tensor) -> Report:
    return screen.check(model, example_inputs=(torch.zeros(2, 7, dtype=torch.long), *given), spot_check=False)


def test_what_gates_of_one_map_weigh_is_a_branch() -> None:
    (stream,) = read(Stack(*(Gateway(False) for _ in range(3)))).streams
    assert stream.depth == 3
    assert [(s.role, s.placement, s.residual.alpha_kind) for k in stream.kinds for s in k.sublayers] == [("ffn", "post", "data")]


def test_what_a_map_mixes_is_no_sum() -> None:
    assert not read(Stack(*(Gateway(True) for _ in range(3)))).streams


@pytest.mark.parametrize(("block", "given", "word"), [(Sampled, (torch.randn(2, WIDTH, 5, 5),), False), (Routed, (), True)])
def test_values_at_places_that_are_computed_are_no_experts(block: type[nn.Module], given: tuple[Tensor, ...], word: bool) -> None:
    report = read(Stack(*(block() for _ in range(3))), *given)
    said = " ".join(f.message for f in report.findings if f.code == "L201" and f.outcome == "conditional")
    assert said
    assert ("router" in said) is word
