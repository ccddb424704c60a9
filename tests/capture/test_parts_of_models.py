"""A part of a model, named alone, whose settings only the models of its file name."""

from __future__ import annotations

from typing import Any

import pytest

from screen.errors import UsageError
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

SIZES = """
class Common:
    slope = 0.5  # of all models, and no argument

class Sizes(Common):
    def __init__(self, width=24, hidden=48, {more}):
        self.width, self.hidden = width, hidden

class Sounds:
    def __init__(self, rate=16000):
        self.rate = rate
"""
PARTS = """
import torch
from torch import nn
from sizes_of_parts import Sizes, Sounds

class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.slope = config.slope
        self.norm, self.up, self.down = nn.LayerNorm(config.width), nn.Linear(config.width, config.hidden), nn.Linear(config.hidden, config.width)

    def forward(self, x):
        return x + self.slope * self.down(self.up(self.norm(x)).relu())

class Model(nn.Module):
    config_class = Sizes

    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList(Layer(config) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

class Ear(Model):
    config_class = Sounds

def mixed(x, y):
    return torch.cat((x, y), -1)

def large(config):
    return Model(config)
"""


def layer(write: Any, more: str) -> Any:
    write(SIZES.format(more=more), "sizes_of_parts.py", head="")
    return built(write(PARTS, head="") + "::Layer")


def test_it_has_those_that_have_all_that_it_reads(write: Any) -> None:
    (b,) = layer(write, "depth=2")
    assert runs(b) == "" and b.model.up.in_features == 24  # type: ignore[union-attr]


def test_a_function_of_tensors_is_not_named_as_one_that_makes_a_model(write: Any) -> None:
    with pytest.raises(UsageError) as caught:
        layer(write, "*, depth")
    assert "name a function that makes a model: `large`" in str(caught.value) and "mixed" not in str(caught.value)
