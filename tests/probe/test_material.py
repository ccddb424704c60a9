"""Weights as the program makes them: values that it copies, laws that it draws from, and notes where it cannot be told."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from screen.capture.initial.recorder import Recorder
from screen.graph import Initialiser
from screen.probe.measure.leaves import Watch
from screen.probe.measure.weights import drawn


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_values_that_are_copied_and_shared_are_known() -> None:
    with Watch() as watch, torch.device("meta"):
        weight = nn.Parameter(torch.ones(3, 4))
        with torch.no_grad():
            weight.copy_(torch.log(torch.arange(1.0, 5.0))[None, :])
        shared = nn.Parameter(torch.arange(6.0))
        unknown = nn.Parameter(torch.empty(3))
    found = watch.value(weight)
    assert watch.is_copy(weight) and found is not None and torch.equal(found, torch.log(torch.arange(1.0, 5.0)).expand(3, 4))
    assert torch.equal(watch.value(shared), torch.arange(6.0)) and not watch.is_copy(shared)  # type: ignore[arg-type]
    assert watch.value(unknown) is None


def test_values_are_known_while_a_constructor_is_recorded() -> None:
    """The record of initialisers passes over tensors of ones, zeros and nothing; a watch around it does not."""
    with Watch() as watch, torch.device("meta"), Recorder():
        mask, kinds, empty = torch.ones(4, 4).tril(), torch.zeros(1, 8, dtype=torch.long), torch.empty(3)
    assert torch.equal(watch.value(mask), torch.ones(4, 4).tril())  # type: ignore[arg-type]
    assert torch.equal(watch.value(kinds), torch.zeros(1, 8, dtype=torch.long))  # type: ignore[arg-type]
    assert watch.value(empty) is None


@pytest.mark.parametrize(
    ("history", "deviation"),
    [
        ((Initialiser("normal_", (0.0, 0.02)),), 0.02),
        ((Initialiser("uniform_", (-1.0, 1.0)), Initialiser("normal_", (0.0, 0.5))), 0.5),
        ((Initialiser("uniform_", (-1.0, 1.0)), Initialiser("mul_", (0.1,))), 0.1 / math.sqrt(3)),
        ((Initialiser("fill_", (2.0,)),), 0.0),
        ((), 1 / math.sqrt(200)),
    ],
)
def test_laws(history: tuple[Initialiser, ...], deviation: float) -> None:
    value, note = drawn((300, 200), history, generator())
    assert float(value.std()) == pytest.approx(deviation, rel=0.02, abs=1e-6)
    assert bool(note) == (not history)


@pytest.mark.parametrize(
    "history",
    [
        (Initialiser("magic_", ()),),
        (Initialiser("normal_", ("<Tensor>",)),),
        (Initialiser("zero_", ()), Initialiser("copy_", ()), Initialiser("mul_", (2.0,))),  # Mamba's bias of its time steps
    ],
)
def test_what_cannot_be_replayed_is_noted(history: tuple[Initialiser, ...]) -> None:
    value, note = drawn((4, 4), history, generator())
    assert "N(0, 1/fan_in)" in note and bool(torch.isfinite(value).all()) and bool(value.any())


def test_the_global_random_state_is_not_touched() -> None:
    before = torch.random.get_rng_state()
    for op, args in (("trunc_normal_", (0.0, 1.0, -2.0, 2.0)), ("orthogonal_", (1.0,)), ("exponential_", (1.0,)), ("sparse_", (0.5, 1.0))):
        assert not drawn((8, 8), (Initialiser(op, args),), generator())[1]
    assert torch.equal(before, torch.random.get_rng_state())
