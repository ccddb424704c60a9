"""Blocks of a live model that start as copies of one another (`copy.deepcopy` of one layer, as `nn.TransformerEncoder` makes them) are seen by their
values: the recursion follows what they have in common, and tells no gradients of independent weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import screen
from screen.report.schema import ClaimPart
from tests.gradients import first_over_last

WIDTH, DEPTH = 64, 24


def layer(norm_first: bool) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=norm_first)


def encoder(norm_first: bool, copied: bool) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    made = nn.TransformerEncoder(layer(norm_first), DEPTH, enable_nested_tensor=False)
    if not copied:
        made.layers = nn.ModuleList(layer(norm_first) for _ in range(DEPTH))
    return made


def told(model: nn.Module) -> tuple[dict[str, ClaimPart], str]:
    """Claims about the start, and what D202 says."""
    report = screen.check(model, example_inputs=torch.randn(2, 16, WIDTH))
    found = {c.claim: c for c in report.claims if c.sublayer is None and c.weights == "start"}
    return found, next(f.message for f in report.findings if f.code == "D202")


@pytest.mark.by_the_day
@pytest.mark.parametrize("norm_first", [True, False])
def test_what_is_derived_of_copies_is_measured(norm_first: bool) -> None:
    found, _ = told(encoder(norm_first, copied=True))
    for name in ("rms_ratio", "one_minus_cos"):
        assert found[name].status == "proved" and found[name].measured is not None and found[name].measured.agrees is True
    assert "start as copies of one another" in found["gradient_ratio"].reason


@pytest.mark.by_the_day
@pytest.mark.parametrize(("copied", "said"), [(True, "its blocks start as copies of one another"), (False, "in mean square over random weights")])
def test_a_law_of_random_weights_is_told_of_weights_that_are_drawn(copied: bool, said: str) -> None:
    assert said in told(encoder(True, copied))[1]


def measured(depth: int, copied: bool) -> float:
    """First over last gradient of all weights, float64."""
    torch.manual_seed(0)
    first = layer(True)
    layers = [(copy.deepcopy(first) if copied else layer(True)).double() for _ in range(depth)]
    return first_over_last(layers, torch.randn(2, 16, WIDTH, dtype=torch.float64))


def test_gradients_of_copies_differ_by_the_depth_and_those_of_others_by_its_root() -> None:
    copies, others = ([measured(n, copied) for n in (12, 48)] for copied in (True, False))
    assert copies[1] > 2.5 * copies[0] and others[1] < 2.5 * others[0]
