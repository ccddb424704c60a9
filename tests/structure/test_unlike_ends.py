"""Blocks at the ends that run the program of the others on other constants, or train where the others do not: they are of a kind of their own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

LAYERS = 8
example_inputs = (torch.randn(2, 8, 32),)


class Block(nn.Module):
    """x: [2, 8, 32]."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(self.norm(x))))
        return self.scale * x + out


class Model(nn.Module):
    """All alike."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(map(self.block, range(LAYERS))), nn.LayerNorm(32)

    def block(self, layer: int) -> nn.Module:
        return Block()

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x)
        return out


class FadesLast(Model):
    """The last one keeps a twentieth of the stream."""

    def block(self, layer: int) -> nn.Module:
        return Block(0.05 if layer == LAYERS - 1 else 1.0)


class FadesFirst(Model):
    def block(self, layer: int) -> nn.Module:
        return Block(0.05 if layer == 0 else 1.0)


class TrainsFourth(Model):
    """Each fourth one is trained, and the last is one of these."""

    def block(self, layer: int) -> nn.Module:
        return Block().requires_grad_(layer % 4 == 3)


class TrainsFirst(Model):
    def block(self, layer: int) -> nn.Module:
        return Block().requires_grad_(layer == 0)


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("Model", [[[0, 7]]]),
        ("FadesLast", [[[0, 6]], [[7, 7]]]),
        ("FadesFirst", [[[0, 0]], [[1, 7]]]),
        ("TrainsFourth", [[[0, 2], [4, 6]], [[3, 3], [7, 7]]]),
        ("TrainsFirst", [[[0, 0]], [[1, 7]]]),
    ],
)
def test_kinds(model: str, layers: list[list[list[int]]]) -> None:
    report = screen.check(f"{__file__}::{model}", isolate=False, spot_check=False)
    [stream] = report.streams
    assert [[list(part) for part in kind.layers] for kind in stream.kinds] == layers
    bounded = {c.kind: c.value for c in report.claims if c.claim == "output_bounded"}
    if model.startswith("Trains"):
        assert sorted(map(str, bounded.values())) == ["False", "True"]  # frozen weights are constants


class Attends(nn.Module):
    """Frozen attention, beside whose net an adapter trains. x: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.requires_grad_(False)
        self.adapter = Block()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        out: Tensor = self.adapter(x + self.out(F.scaled_dot_product_attention(q, k, v)))
        return out


def test_logits_of_frozen_weights_rest_on_nothing_that_trains() -> None:
    report = screen.check(f"{__file__}::Attends", depth=LAYERS, isolate=False, spot_check=False)
    [said] = [f for f in report.findings if f.code == "L201"]
    assert said.outcome == "holds" and "does not train" in said.message and not said.assumptions
