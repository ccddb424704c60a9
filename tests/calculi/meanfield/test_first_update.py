"""κ of the first step of Adam against networks that are moved by one."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from examples.table.designs import GPT, Design
from screen.calculi.meanfield import Recursion, first_update_of
from screen.calculi.meanfield.first_update import FirstUpdate
from screen.rule import Example
from screen.structure.types import Unknown
from screen.testing import facts_of

SEQUENCES, TOKENS, VOCAB, DIM = 16, 64, 512, 64
STEP = 1e-8
"""Small enough for the limit in float64: κ of post-norm at 24 blocks is 1e4."""
DESIGNS: dict[str, dict[str, Any]] = {
    "pre": {"norms": "A"},
    "peri_qk": {"norms": "AB", "qk_norm": True},
    "output_only_qk": {"norms": "B", "qk_norm": True},
    "post": {"norms": "C", "final_norm": False},
    "input_and_sum": {"norms": "AC", "final_norm": False},
    "layer_scale": {"norms": "A", "layer_scale": 0.1},
    "parallel": {"norms": "A", "parallel": True},
    "tanh": {"norms": "", "tanh": True},
    "scaled_output_norms": {"norms": "AB", "layer_scale": 0.01},
    "none": {"norms": "", "final_norm": False},
}

PARALLEL = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.f, self.g = (nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(2))

    def forward(self, x):
        n = self.norm(x)
        return SUM

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(12))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


def deepnorm(depth: int) -> dict[str, Any]:
    """α and β for `depth` blocks."""
    return {"norms": "C", "final_norm": False, "alpha": (2 * depth) ** 0.25, "beta": (8 * depth) ** -0.25}


def update(design: dict[str, Any]) -> FirstUpdate | Unknown:
    """κ from the code."""
    words = ", ".join(f"{key}={value!r}" for key, value in design.items())
    head = "from examples.table.designs import GPT, Design\n\nclass Model(GPT):\n    def __init__(self):\n"
    source = f"{head}        super().__init__(Design({words}))\n"
    return first_update_of(facts_of(Example("a design", source, inputs=("ids=int64[2,16]",))).recursions[0])


def derived(design: dict[str, Any]) -> FirstUpdate:
    """κ where it is known."""
    found = update(design)
    assert isinstance(found, FirstUpdate)
    return found


def measured(design: dict[str, Any]) -> float:
    """rms(δh)/rms(h)/η of one sign step in float64 on random words, of which nothing can be told."""
    torch.manual_seed(0)
    model = GPT(Design(**design)).double()
    words, answers = torch.randint(VOCAB, (2, SEQUENCES, TOKENS))
    seen: list[torch.Tensor] = []
    model.norm.register_forward_hook(lambda module, inputs, output: seen.append(output))
    loss = F.cross_entropy(model(words).flatten(0, 1), answers.flatten())
    weights = list(model.parameters())
    gradients = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= STEP * gradient.sign()
        model(words)
    before, after = seen[0].detach(), seen[1]
    return float((after - before).norm() / before.norm() / STEP)


@pytest.mark.parametrize("name", [*DESIGNS, "deepnorm"])
def test_kappa_is_within_a_factor_of_two_of_what_a_network_does(name: str) -> None:
    for depth in (4, 24) if name in ("post", "deepnorm") else (4,):
        design = {**DESIGNS.get(name, deepnorm(depth)), "depth": depth, "dim": DIM, "vocab": VOCAB}
        assert math.log2(derived(design).kappa / measured(design)) == pytest.approx(0, abs=1), depth


def test_a_block_that_is_read_as_a_whole_keeps_its_skip() -> None:
    """`x + (f(x) + g(x))` in place of `x + f(x) + g(x)`: what M gains from a block is as much as its branches have of the gradient."""
    sources = (PARALLEL.replace("SUM", text) for text in ("x + (self.f(n) + self.g(n))", "x + self.f(n) + self.g(n)"))
    one, other = (facts_of(Example("", source, inputs=("x=float32[2,16,64]",))).recursions[0] for source in sources)
    assert isinstance(one, Recursion) and isinstance(one.first_update, FirstUpdate)
    assert isinstance(other, Recursion) and isinstance(other.first_update, FirstUpdate)
    assert one.first_update.kappa == pytest.approx(other.first_update.kappa, rel=0.25)


@pytest.mark.parametrize("norms", ["A", "AB"])
def test_where_all_scales_start_at_zero_only_they_and_the_embedding_move(norms: str) -> None:
    design = {"norms": norms, "rezero": True, "depth": 4, "dim": DIM, "vocab": VOCAB}
    assert derived(design).kappa == pytest.approx(measured(design), rel=0.15)


def test_a_learned_number_on_the_stream_is_not_followed() -> None:
    source = PARALLEL.replace("SUM", "self.scale * x + self.f(n)")
    source = source.replace("        self.norm", "        self.scale = nn.Parameter(torch.ones(1))\n        self.norm")
    found = facts_of(Example("", source, inputs=("x=float32[2,16,64]",))).recursions[0]
    assert isinstance(found, Recursion) and isinstance(found.first_update, Unknown)
    assert "is not followed" in found.first_update.reason


def test_shares_are_of_the_moves_along_the_gradient() -> None:
    found = derived({"norms": "A", "depth": 4, "dim": DIM, "vocab": VOCAB})
    assert math.fsum(found.shares.values()) == pytest.approx(1)
    assert found.shares["ffn"] > found.shares["attention"] > found.shares["final norm"]
    assert found.rate == 1 / found.kappa
