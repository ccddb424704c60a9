"""The table's word on hand-written norms, checked by numbers: a norm is blind to scale and bounded, a non-norm fails one of the two."""

from __future__ import annotations

import pytest
import torch

from tests.awkward import norms
from tests.awkward.parts import D
from tests.awkward.table import NORMS

BODIES = [
    (case.make.args[0].args[0], case.streams[0][0] == "attention:pre")  # type: ignore[attr-defined]  # a partial of a partial
    for case in NORMS
    if case.name.startswith("norm ") and case.name != "norm by name only"
]


@pytest.mark.parametrize(("body", "is_norm"), BODIES, ids=[body.__name__ for body, _ in BODIES])
def test_scale_and_bound(body: norms.Body, is_norm: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, D, dtype=torch.float64)
    x[:32, : D // 4] *= 1e-3  # what a statistic of a part, or a mean, misses
    x[32:] -= x[32:].mean(-1, keepdim=True) * (1 - 1e-4)
    gain = torch.zeros(D, dtype=torch.float64) if body is norms.rms_one_plus else torch.ones(D, dtype=torch.float64)
    y, scaled = body(x, gain), body(3 * x, gain)
    blind = torch.allclose(y, scaled, rtol=1e-3, atol=1e-3)
    bounded = bool(y.norm(dim=-1).max() <= 1.01 * D**0.5)
    assert (blind and bounded) == is_norm, (blind, bounded)
