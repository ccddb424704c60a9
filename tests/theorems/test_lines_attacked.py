"""Numbers that a report prints of streams whose branches end in norms, attacked by gradient ascent on weights and inputs of the model itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from screen.capture.build import python_file as files
from screen.graph.target import parse
from screen.theorems.in_words import downwards, upwards
from tests.expected import report_of

pytestmark = pytest.mark.by_the_day

TOKENS, STEPS = 3, 80
SOURCE = '''
import torch.nn.functional as F
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.up2, self.down2 = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 32), nn.Linear(32, 16)
        self.one, self.two, self.before = nn.RMSNorm(16), nn.LayerNorm(16), nn.RMSNorm(16)

    def f(self, x):
        return self.one(self.down(F.gelu(self.up(self.before(x)))))

    def g(self, x):
        return self.two(self.down2(F.gelu(self.up2(x))))

    def forward(self, x):
        y = self.f(x)
        return EXPRESSION

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Block() for _ in range(4)), nn.LayerNorm(16)

    def stream(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        return self.last(self.stream(x))
'''


@pytest.fixture
def model(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[str, nn.Module]:
    """A target and the same model with weights."""
    path = tmp_path / "design.py"
    path.write_text(SOURCE.replace("EXPRESSION", request.param), encoding="utf-8")
    torch.manual_seed(0)
    return f"{path}::Model", files.load(parse(f"{path}::Model")).Model().double()


def numbers(target: str) -> dict[str, float]:
    """What the report says, by what it is of."""
    text = {k: v for f in report_of(target).findings for k, v in f.numbers.items() if isinstance(v, str)}
    patterns = {
        "rms": ("forward bound", r"at most ([\d.]+)"),
        "apart": ("Wasserstein", r"by at most ([\d.]+)"), "end": ("Wasserstein", r"it is at most ([\d.]+)"),
        "mean": ("Kan et al., theorem 4", r"at most ([\d.]+) \(11"), "variance": ("Kan et al., theorem 4", r"at most ([\d.]+) \(12"),
    }  # fmt: skip
    return {name: float(m[1]) for name, (key, pattern) in patterns.items() if key in text and (m := re.search(pattern, text[key]))}


def attacked(model: nn.Module, gain: Callable[[Tensor, Tensor], Tensor]) -> float:
    """The largest value over ascent on all maps and on two inputs whose tokens have rms 1."""
    inputs = [torch.randn(1, TOKENS, 16, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    maps = [w for w in model.parameters() if w.dim() == 2]
    optimizer, best = torch.optim.Adam([*inputs, *maps], lr=0.05), -math.inf
    for _ in range(STEPS):
        value = gain(*(x / x.square().mean(-1, keepdim=True).sqrt() for x in inputs))
        best = max(best, float(value.detach()))
        optimizer.zero_grad()
        (-value).backward()
        optimizer.step()
    return best


def quantities(model: nn.Module) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """What the numbers are said of; distances per √tokens."""
    root = math.sqrt(TOKENS)
    return {
        "rms": lambda x, y: model.stream(x).square().mean(-1).sqrt().max(),
        "apart": lambda x, y: ((model.stream(x) - model.stream(y)).norm() - (x - y).norm()) / root,
        "end": lambda x, y: (model(x) - model(y)).norm() / root,
        "mean": lambda x, y: model.stream(x).abs().mean(),
        "variance": lambda x, y: model.stream(x[:, :1]).var(),
    }


@pytest.mark.parametrize(("model", "total"), [("x + y", 4.0), ("x + 2.5 * y", 10.0), ("x - y + self.g(x)", 8.0)], indirect=["model"])
def test_no_attack_passes_a_printed_number(model: tuple[str, nn.Module], total: float) -> None:
    said = numbers(model[0])
    assert said["rms"] == 1 + total and said["apart"] == pytest.approx(8 * total) and len(said) == 5
    for name, quantity in quantities(model[1]).items():
        found = attacked(model[1], quantity)
        assert 0.7 * said[name] < found <= said[name] * (1 + 1e-9), name


@pytest.mark.parametrize("model", ["x + (y + self.g(x))", "x + y + y", "x + y.cumsum(1)", "x + y + 0.1 * x.roll(1, 1)"], indirect=True)
def test_no_number_where_more_is_added_than_one_norm_for_each_branch(model: tuple[str, nn.Module]) -> None:
    """Two norms before one add, one output added twice, a sum over tokens, a shifted stream."""
    assert not {"rms", "apart", "mean", "variance"} & set(numbers(model[0]))
    assert not numbers(model[0].replace("Model", "Block"))


@pytest.mark.parametrize("model", ["x + y"], indirect=True)
def test_a_block_is_counted_as_often_as_it_is_stacked(model: tuple[str, nn.Module]) -> None:
    assert numbers(model[0].replace("Model", "Block"))["rms"] == 1 + 24


@pytest.mark.parametrize("value", [235.151, 12.0, 19.5959, 0.375, 1e-3, 3e7 / 7])
def test_bounds_are_rounded_upwards_and_factors_downwards(value: float) -> None:
    assert value * (1 - 1e-11) <= float(upwards(value)) <= value * 1.001
    assert value * 0.9 <= float(downwards(value)) <= value * (1 + 1e-11)
