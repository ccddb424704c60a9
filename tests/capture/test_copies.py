"""Parameters that hold the same random numbers are seen while a model is built: copies of a layer do, what is drawn anew does not."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import screen
from screen.capture.initial.recorder import Recorder
from screen.structure.initial.laws import numbers_of

WIDTH = 8


def halved(layer: nn.Linear) -> nn.Linear:
    with torch.no_grad():
        layer.weight.mul_(0.5)
    return layer


def loaded(layer: nn.Linear) -> nn.Linear:
    made = nn.Linear(WIDTH, WIDTH)
    made.load_state_dict(layer.state_dict())
    return made


def drawn(layer: nn.Linear) -> nn.Linear:
    layer.reset_parameters()
    return layer


CASES = {
    "a copy": (copy.deepcopy, True),
    "a copy of a copy": (lambda one: copy.deepcopy(copy.deepcopy(one)), True),
    "its state": (loaded, True),
    "another layer": (lambda one: nn.Linear(WIDTH, WIDTH), False),
    "a copy that is drawn anew": (lambda one: drawn(copy.deepcopy(one)), False),
    "half of it": (lambda one: halved(copy.deepcopy(one)), False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_holds_the_same_numbers(name: str) -> None:
    make, same = CASES[name]
    with Recorder() as recorder, torch.device("meta"):
        one = nn.Linear(WIDTH, WIDTH)
        both = nn.ModuleList([one, make(one)])
    first, second = (numbers_of(dict(recorder.of(both))[f"{n}.weight"]) for n in (0, 1))
    assert first and second and (first == second) is same
    torch.manual_seed(0)
    one = nn.Linear(WIDTH, WIDTH)
    assert torch.equal(one.weight, make(one).weight) is same


MODEL = """
import copy

import torch
from torch import nn

example_inputs = (torch.randn(2, 16, 32),)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        layer = Layer()
        self.layers = nn.ModuleList(MAKE for _ in range(24))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""


@pytest.mark.by_the_day
@pytest.mark.parametrize(("make", "copied"), [("copy.deepcopy(layer)", True), ("Layer()", False)])
def test_what_is_derived_of_a_file_is_what_its_module_does(make: str, copied: bool, tmp_path: Path) -> None:
    """Growth over 24 blocks, which the spot check measures on weights of its own: copies of one draw in one case, 24 draws in the other."""
    path = tmp_path / "model.py"
    path.write_text(MODEL.replace("MAKE", make))
    claims = {c.claim: c for c in screen.check(f"{path}::Model").claims if c.sublayer is None and c.weights == "start"}
    ratio, grown = claims["gradient_ratio"], claims["rms_ratio"]
    assert ("start as copies of one another" in ratio.reason) is copied
    scope: dict[str, type[nn.Module]] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    torch.manual_seed(0)
    model, x = scope["Model"]().double(), torch.randn(2, 16, 32, dtype=torch.float64)
    sizes = []
    with torch.no_grad():
        for layer in model.layers:
            x = layer(x)
            sizes.append(float(x.square().mean().sqrt()))
    assert isinstance(grown.value, float) and grown.measured is not None and isinstance(grown.measured.value, float)
    for told in (grown.value, grown.measured.value):
        assert told == pytest.approx(sizes[-1] / sizes[0], rel=0.25)
