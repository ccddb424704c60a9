"""Batch and instance norms: n entries of a channel have squares that sum to no more than n, with the statistics of a batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.calculi.bounds import bounds_of, values_of
from screen.calculi.bounds.expr import Expr
from screen.capture.trace.tracer import trace
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edges
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.streams.reader import Reader

WIDTH, TOKENS = 32, 16


class Block(nn.Module):
    """A filter and a norm of its channels, as nodes [rows, channels] or as [samples, channels, places]."""

    def __init__(self, norm: nn.Module, end: Callable[[Block, Tensor], Tensor]) -> None:
        super().__init__()
        self.map, self.norm, self.end = nn.Linear(WIDTH, WIDTH), norm, end

    def forward(self, x: Tensor) -> Tensor:
        return self.end(self, x)


ROWS: dict[str, tuple[nn.Module, Callable[[Block, Tensor], Tensor]]] = {
    "nodes": (nn.BatchNorm1d(WIDTH), lambda m, x: F.relu(m.norm(m.map(x).flatten(0, 1))).view_as(x)),
    "places": (nn.BatchNorm1d(WIDTH), lambda m, x: m.norm(m.map(x).mT).mT),
    "no gain": (nn.BatchNorm1d(WIDTH, affine=False), lambda m, x: m.norm(m.map(x).mT).mT),
    "instance": (nn.InstanceNorm1d(WIDTH, affine=True), lambda m, x: m.norm(m.map(x).mT).mT),
}


@pytest.mark.parametrize(("norm", "branch"), list(ROWS.values()), ids=list(ROWS))
def test_behind_one_a_branch_is_bounded(norm: nn.Module, branch: Callable[[Block, Tensor], Tensor]) -> None:
    block = Block(norm, lambda m, x: x + branch(m, x))
    x = torch.randn(2, TOKENS, WIDTH)
    x[0, 0] *= 1e4
    assert branch(block.train(), x).detach().abs().max() <= (2 * TOKENS) ** 0.5
    report = screen.check(block, example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4)
    assert next(c.value for c in report.claims if c.claim == "output_bounded") is True
    assert next(c.value for c in report.claims if c.claim == "growth" and c.weights == "all") == "linear"


def test_a_map_behind_it_is_not() -> None:
    block = Block(nn.BatchNorm1d(WIDTH), lambda m, x: x + m.map(m.norm(x.mT).mT))
    report = screen.check(block, example_inputs=torch.zeros(2, TOKENS, WIDTH), depth=4)
    assert next(c.value for c in report.claims if c.claim == "output_bounded") is False


class Channels(nn.Module):
    """A stream [samples, channels, places]: a token is one place of all channels."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.first, self.last, self.branch = nn.Linear(TOKENS, TOKENS), nn.Linear(TOKENS, TOKENS), branch

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x + self.branch(x)
        x = x + self.branch(x)
        return self.last(x)  # type: ignore[no-any-return]


CHANNELS: dict[str, Callable[[], nn.Module]] = {
    "a map alone": lambda: nn.Conv1d(WIDTH, WIDTH, 1),
    "behind a function": lambda: nn.Sequential(nn.ReLU(), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)),
    "a norm of channels at its end": lambda: nn.Sequential(nn.Conv1d(WIDTH, WIDTH, 1), nn.BatchNorm1d(WIDTH)),
    "a norm of all at its start": lambda: nn.Sequential(nn.GroupNorm(1, WIDTH), nn.Conv1d(WIDTH, 64, 1), nn.GELU(), nn.Conv1d(64, WIDTH, 1)),
    "instances": lambda: nn.Sequential(nn.InstanceNorm1d(WIDTH, affine=True), nn.Tanh(), nn.Conv1d(WIDTH, WIDTH, 1)),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("weights", (0.0, 1.0, 30.0))
def test_a_token_of_channels_keeps_to_its_bound(name: str, weights: float) -> None:
    """With weights of 0 biases are all that is added: √32 of them at each place, and √16 along a channel."""
    torch.manual_seed(0)
    model = Channels(CHANNELS[name]())
    flow = Flow(trace(model.to("meta").train(), (torch.zeros(2, WIDTH, TOKENS, device="meta"),), {}))
    chains = Chains(flow, Edges(flow, Norms(flow)))
    found = bounds_of(Reader(chains, chains.streams[0]).branches[0][1])
    assert isinstance(found.magnitude, Expr) and found.axis == -2
    branch = CHANNELS[name]().double().train()
    x = torch.randn(2, WIDTH, TOKENS, dtype=torch.float64) * 1e-2
    x[0, :, 3] = 50.0
    with torch.no_grad():
        for key, p in branch.named_parameters():
            p.mul_(weights) if key.endswith("weight") and p.dim() > 1 else p.fill_(1.0)
        size = float(branch(x).norm(dim=1).max())
    values = values_of(found.quantities, {f"branch.{k}": v.detach().numpy() for k, v in branch.named_parameters()})
    values["B"] = float(x.norm(dim=1).max())
    assert size <= found.magnitude.evaluate(values) * (1 + 1e-9)
