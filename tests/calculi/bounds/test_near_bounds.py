"""Near misses: what is said of branches that look bounded or unbounded, against mathematics and against numbers in float64."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from screen.calculi.bounds import BranchBounds, bounds_of, values_of
from screen.calculi.bounds.expr import Expr
from screen.capture.trace.tracer import trace
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edges
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.streams.reader import Reader
from tests.calculi.bounds import near_bounds as table

ALL = {**table.BOUNDED, **table.UNBOUNDED, **table.UNDECIDED, **{f"logits: {k}": v for k, v in (table.BOUNDED_LOGITS | table.FREE_LOGITS).items()}}


class Two(nn.Module):
    """Two blocks between two maps."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(table.WIDTH, table.WIDTH), nn.Linear(table.WIDTH, table.WIDTH)
        self.blocks = nn.ModuleList(table.Parts(ALL[name]) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)  # type: ignore[no-any-return]


@cache
def bounds(name: str) -> BranchBounds:
    model = Two(name)
    flow = Flow(trace(model.to("meta").eval(), (torch.zeros(2, table.TOKENS, table.WIDTH, device="meta"),), {}))
    chains = Chains(flow, Edges(flow, Norms(flow)))
    return bounds_of(Reader(chains, chains.streams[0]).branches[0][1])


def sizes(name: str, weights: float, stream: float) -> tuple[float, float, dict[str, Tensor]]:
    """(largest token of the branch's output, largest logit, parameters by their names in the model)."""
    block = Two(name).double().blocks[0]
    assert isinstance(block, table.Parts)
    torch.manual_seed(1)
    x = torch.randn(2, table.TOKENS, table.WIDTH, dtype=torch.float64) * stream
    with torch.no_grad():
        for p in block.parameters():
            p.mul_(weights)
        y = block.rule(block, x)
    logits = 0.0 if block.logits is None else float(block.logits.abs().max())
    return float(y.norm(dim=-1).max()), logits, {f"blocks.0.{k}": v.detach() for k, v in block.named_parameters()}


SCALES = ((1.0, 1.0), (1e4, 1.0), (1e-2, 1.0), (1.0, 1e4), (1e4, 1e4))


@pytest.mark.parametrize("name", ALL)
def test_no_bound_is_broken(name: str) -> None:
    found = bounds(name)
    for weights, stream in SCALES:
        size, logit, held = sizes(name, weights, stream)
        values = values_of(found.quantities, {k: v.numpy() for k, v in held.items()})
        torch.manual_seed(1)
        x = torch.randn(2, table.TOKENS, table.WIDTH, dtype=torch.float64) * stream
        values["B"] = float(x.norm(dim=-1).max())
        claims = [(found.magnitude, size), *((s.logits, logit) for s in found.softmaxes[:1] if name.startswith("logits"))]
        for claim, measured in claims:
            if isinstance(claim, Expr):
                assert measured <= claim.evaluate(values) * (1 + 1e-9) + 1e-9, (name, weights, stream, str(claim))


@pytest.mark.parametrize("name", table.BOUNDED)
def test_bounded(name: str) -> None:
    assert bounds(name).bounded is True, bounds(name).bounded
    assert max(sizes(name, *s)[0] for s in SCALES) < 1e3


@pytest.mark.parametrize("name", table.UNBOUNDED)
def test_unbounded(name: str) -> None:
    found = bounds(name).bounded
    assert found is False, found
    assert sizes(name, 1e4, 1.0)[0] > 50 * sizes(name, 1.0, 1.0)[0] or sizes(name, 1.0, 1e4)[0] > 50 * sizes(name, 1.0, 1.0)[0]


@pytest.mark.parametrize("name", table.UNDECIDED)
def test_what_cancels_is_no_witness(name: str) -> None:
    assert bounds(name).bounded is not False
    assert max(sizes(name, *s)[0] for s in SCALES) < 1e3


@pytest.mark.parametrize("name", table.BOUNDED_LOGITS)
def test_bounded_logits(name: str) -> None:
    found = bounds(f"logits: {name}")
    assert found.logits_bounded is True, (found.logits_bounded, found.softmaxes)
    assert max(sizes(f"logits: {name}", *s)[1] for s in SCALES) < 200


@pytest.mark.parametrize("name", table.FREE_LOGITS)
def test_free_logits(name: str) -> None:
    found = bounds(f"logits: {name}")
    assert found.logits_bounded is False and found.softmaxes, (found.logits_bounded, found.softmaxes)
    assert sizes(f"logits: {name}", 1e4, 1.0)[1] > 50 * sizes(f"logits: {name}", 1.0, 1.0)[1]


@pytest.mark.parametrize("name", ["unit rows", "1 + square of the norm", "clamped inverse", "eps of a softplus, inside"])
def test_no_bound_divides_by_zero(name: str) -> None:
    magnitude = bounds(name).magnitude
    assert isinstance(magnitude, Expr) and "1/0" not in str(magnitude)
    assert math.isfinite(magnitude.evaluate(dict.fromkeys(magnitude.symbols(), 1e6)))
