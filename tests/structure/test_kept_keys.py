"""Keys that another stream made and hands on: a norm that stands on them there is one of the attention that reads them here."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report

WIDTH = 32


class Layer(nn.Module):
    """Attention to itself and to what is kept, behind norms of queries and, perhaps, of keys; it hands its keys and values on."""

    def __init__(self, keys: bool) -> None:
        super().__init__()
        self.norm, self.after, self.of_q = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.of_k = nn.RMSNorm(WIDTH) if keys else nn.Identity()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)

    def forward(self, x: Tensor, kept: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h = self.norm(x)
        q, k, v = self.of_q(self.q(h)), self.of_k(self.k(h)), self.v(h)
        if kept is not None:
            k, v = torch.cat([kept[0], k], 1), torch.cat([kept[1], v], 1)
        x = x + self.o((q @ k.mT * WIDTH**-0.5).softmax(-1) @ v)
        return x + self.down(torch.relu(self.up(self.after(x)))), (k, v)


class Both(nn.Module):
    """A prompt, and a canvas whose layers read the keys of the prompt's beside their own."""

    def __init__(self, prompt: bool, canvas: bool) -> None:
        super().__init__()
        self.embed, self.norm, self.end = nn.Embedding(20, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.prompt, self.canvas = nn.ModuleList(Layer(prompt) for _ in range(3)), nn.ModuleList(Layer(canvas) for _ in range(3))

    def forward(self, prompt: Tensor, canvas: Tensor) -> tuple[Tensor, Tensor]:
        x, y, kept = self.embed(prompt), self.embed(canvas), []
        for layer in self.prompt:
            x, pair = layer(x)
            kept.append(pair)
        for layer, pair in zip(self.canvas, kept, strict=True):
            y, _ = layer(y, pair)
        return self.end(x), self.norm(y)


class Bare(nn.Module):
    """Keys that are a normed state of the other stream itself: that norm is none of keys."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.end = nn.Embedding(20, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.prompt = nn.ModuleList(Layer(True) for _ in range(3))
        self.norms, self.of_q = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3)), nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3))
        self.q, self.o = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3)), nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, prompt: Tensor, canvas: Tensor) -> Tensor:
        x, y = self.embed(prompt), self.embed(canvas)
        for layer in self.prompt:
            x, _ = layer(x)
        x = self.end(x)
        for norm, of_q, q, o in zip(self.norms, self.of_q, self.q, self.o, strict=True):
            y = y + o((of_q(q(norm(y))) @ x.mT * WIDTH**-0.5).softmax(-1) @ x)
        return self.norm(y)


def read(model: nn.Module) -> Report:
    torch.manual_seed(0)
    return screen.check(model, example_inputs=(torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 7, dtype=torch.long)), spot_check=False)


@pytest.mark.parametrize(("prompt", "canvas", "kind"), [(True, True, "per_head"), (False, True, "none"), (True, False, "none")])
def test_keys_are_normed_where_those_that_are_kept_and_its_own_are(prompt: bool, canvas: bool, kind: str) -> None:
    report = read(Both(prompt, canvas))
    found = [s for stream in report.streams for k in stream.kinds for s in k.sublayers if s.role == "attention"]
    read_by = [s for s in found if s.source.module.startswith("canvas")]
    assert {(s.q_norm, s.k_norm) for s in read_by} == {("per_head", kind)}
    assert any(f.code == "L101" and f.outcome == "violated" for f in report.findings) is (kind == "none")


def test_the_norm_of_a_state_is_none_of_keys() -> None:
    report = read(Bare())
    found = {s.k_norm for stream in report.streams for k in stream.kinds for s in k.sublayers if s.role == "cross_attention"}
    assert found == {"none"}
