"""An initialisation that depends on the layer: every block is read for itself, and what the recursion says is what a model has."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, TOKENS, DEPTH, WORDS = 64, 24, 10, 50


class Block(nn.Module):
    """Output maps of deviation 1/√(2·d·layer), as in OLMo's first recipe."""

    def __init__(self, layer: int, post: bool) -> None:
        super().__init__()
        self.post, self.norms = post, nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.q, self.k, self.v, self.o, self.up, self.down = (
            nn.Linear(i, o, bias=False) for i, o in ((WIDTH, WIDTH),) * 4 + ((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
        )
        for linear in (self.q, self.k, self.v, self.up):
            nn.init.normal_(linear.weight, std=WIDTH**-0.5)
        for linear in (self.o, self.down):
            nn.init.normal_(linear.weight, std=(2 * WIDTH * layer) ** -0.5)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (m(x).unflatten(-1, (2, -1)).transpose(1, 2) for m in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        one, two = self.norms
        if self.post:
            x = one(x + self.attend(x))
            return two(x + self.down(F.relu(self.up(x))))  # type: ignore[no-any-return]
        x = x + self.attend(one(x))
        return x + self.down(F.relu(self.up(two(x))))  # type: ignore[no-any-return]


class Model(nn.Module):
    def __init__(self, post: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(n, post) for n in range(1, DEPTH + 1))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return x  # type: ignore[no-any-return]


def pre() -> Model:
    return Model(False)


def post() -> Model:
    return Model(True)


@pytest.mark.parametrize("name", ["pre", "post"])
def test_each_layer_has_its_own_start(name: str) -> None:
    report = screen.check(f"{__file__}::{name}", example_inputs=f"ids=int64[1,{TOKENS}]", isolate=False, spot_check=False)
    claims = {c.claim: c.value for c in report.claims if c.stream == "stream" and c.weights == "start"}
    rms, apart = [], []
    for seed in range(4):
        torch.manual_seed(seed)
        with torch.no_grad():
            x = (pre if name == "pre" else post)()(torch.stack([torch.randperm(WORDS)[:TOKENS] for _ in range(4)]))
        rms.append(x.square().mean().item())
        unit = F.normalize(x, dim=-1)
        apart.append(1 - (unit @ unit.transpose(1, 2))[:, ~torch.eye(TOKENS, dtype=torch.bool)].mean().item())
    assert isinstance(claims["one_minus_cos"], float) and abs(claims["one_minus_cos"] - sum(apart) / 4) < 0.05
    assert isinstance(claims["gradient_ratio"], float) and isinstance(claims["rms_ratio"], float)
    assert math.sqrt(sum(rms) / 4) == pytest.approx(1.0 if name == "post" else 2.0, rel=0.15)
    assert next(c for c in report.channels if c.id == "D").state == ("closed" if name == "pre" else "conditional")


class Divided(nn.Module):
    """Pre-norm whose norms are divided by the root of the layer's number (LayerNorm scaling): logits start at 1 over it."""

    class One(Block):
        def forward(self, x: Tensor) -> Tensor:
            one, two = self.norms
            x = x + self.attend(one(x) * self.scale)
            return x + self.down(F.relu(self.up(two(x) * self.scale)))  # type: ignore[no-any-return]

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(self.One(1, False) for _ in range(DEPTH))
        for n, block in enumerate(self.blocks, 1):
            block.scale = n**-0.5

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_logits_of_blocks_that_differ_in_a_number_are_their_own() -> None:
    report = screen.check(Divided(), example_inputs=(torch.randn(2, TOKENS, WIDTH),), spot_check=False)
    found = [c.value for c in report.claims if c.claim == "logit_rms"]
    assert found == pytest.approx([1 / n for n in range(1, DEPTH + 1)], rel=1e-3)
    [said] = [f.message for f in report.findings if f.code == "I202" and f"of layer {DEPTH - 1}:" in f.message]
    assert "root mean square of 0.1." in said


class Mean(nn.Module):
    """x_l, the mean of the first state and what l maps make of normed ones, (l·x + f(x)) / (l + 1): behind each add stands a number of its own."""

    def __init__(self, depth: int = 6) -> None:
        super().__init__()
        self.embed, self.norm, self.out = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(depth))
        for linear in self.maps:
            nn.init.normal_(linear.weight, std=WIDTH**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for number, linear in enumerate(self.maps, 1):
            x = (number * x + F.relu(linear(self.norm(x)))) / (number + 1)
        return self.out(x)  # type: ignore[no-any-return]


def mean() -> Mean:
    return Mean()


def test_the_last_block_ends_with_its_own_number() -> None:
    """The sum before the last division was told as the last state: 2.2 times the first one, of states of which the last is 0.3 of it."""
    report = screen.check(f"{__file__}::mean", example_inputs=f"ids=int64[1,{TOKENS}]", isolate=False, spot_check=False)
    claims = {c.claim: c.value for c in report.claims if c.stream == "stream" and c.weights == "start"}
    torch.manual_seed(0)
    model, sizes = mean(), list[float]()
    ids = torch.randperm(WORDS)[:TOKENS][None]
    with torch.no_grad():
        x = model.embed(ids)
        for number, linear in enumerate(model.maps, 1):
            x = (number * x + F.relu(linear(model.norm(x)))) / (number + 1)
            sizes.append(x.square().mean().sqrt().item())
    assert claims["rms_ratio"] == pytest.approx(sizes[-1] / sizes[0], rel=0.1)
