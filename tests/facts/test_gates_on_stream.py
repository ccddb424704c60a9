"""Streams that gates multiply, in several spellings: what they keep, and what is said of gradients where no law is derived."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.structure.dataflow import Flow
from screen.structure.gated_means import gated_means

WIDTH, DEPTH = 24, 12


class Gated(nn.Module):
    """x, a gate's logits and a net's output of a norm of x through `run`."""

    def __init__(self, run: Callable[[Tensor, Tensor, Tensor], Tensor], logits: int = WIDTH) -> None:
        super().__init__()
        self.norm, self.gate, self.up, self.down = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, logits), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return self.run(x, self.gate(h), torch.sin(self.down(F.silu(self.up(h)))))


def step(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return x + (new - x) * torch.sigmoid(logits)


def back(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return x - (1 - torch.sigmoid(logits)) * (x - new)


def fused(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return torch.addcmul(x, F.hardsigmoid(logits), new - x)


def farther(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return x + 2 * torch.sigmoid(logits) * (new - x)


def signed(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return x + torch.tanh(logits) * (new - x)


def away(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return x - torch.sigmoid(logits) * (new - x)


def read_again(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    apart = new - x
    return x + torch.sigmoid(logits) * apart + 0.1 * torch.sin(apart)


MEANS, NONE = (step, back, fused), (farther, signed, away, read_again)


def _report(run: Callable[[Tensor, Tensor, Tensor], Tensor], logits: int = WIDTH) -> Any:
    torch.manual_seed(0)
    return screen.check(Gated(run, logits), example_inputs=torch.randn(2, 8, WIDTH), depth=DEPTH)


def _state(report: Any, channel: str) -> str:
    return str(next(c.state for c in report.channels if c.id == channel))


@pytest.mark.parametrize("run", [*MEANS, *NONE])
def test_steps_that_are_means(run: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """A step of a part between 0 and 1 of the way is one op, and what its spelling needed is gone; what goes farther, back or elsewhere is none."""
    graph = trace(Gated(run).to("meta"), (torch.empty(2, 8, WIDTH, device="meta"),), {})
    assert len(gated_means(Flow(graph))) == (run in MEANS)
    assert any(n.op == "lerp" for n in derive(graph).graph.nodes) == (run in MEANS)


@pytest.mark.parametrize("run", MEANS)
def test_a_stream_between_itself_and_a_bounded_net(run: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """It is bounded over all weights, whatever the spelling, and the ratio of its gradients was compared with the module's."""
    report = _report(run)
    growth = {c.weights: c.value for c in report.claims if c.claim == "growth"}
    assert growth == {"fixed": "bounded", "all": "bounded"} and _state(report, "R") == "closed"
    assert _state(report, "D") == "conditional"
    assert any(c.claim == "gradient_ratio" and c.status == "measured" for c in report.claims)


def test_a_bounded_net_without_the_gate_on_the_stream() -> None:
    assert {c.weights: c.value for c in _report(signed).claims if c.claim == "growth"}["all"] != "bounded"


def shares(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    kept, added = logits.softmax(-1).unbind(-1)
    return kept[..., None] * x + added[..., None] * new


def decay(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return torch.exp(-F.softplus(logits)) * x + new


def growing(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return torch.exp(F.softplus(logits)) * x + new


def three_halves(x: Tensor, logits: Tensor, new: Tensor) -> Tensor:
    return (torch.sigmoid(logits) + 0.5) * x + new


@pytest.mark.parametrize(
    ("run", "logits", "most"), [(shares, 2, 1.0), (decay, WIDTH, 1.0), (growing, WIDTH, None), (three_halves, WIDTH, 1.5**DEPTH)]
)
def test_what_gates_keep_at_most(run: Callable[[Tensor, Tensor, Tensor], Tensor], logits: int, most: float | None) -> None:
    """A share of a softmax and e to the power of what is not above 0 keep at most all; of what may keep more that is not said."""
    report = _report(run, logits)
    claim = next(c for c in report.claims if c.claim == "identity_gain")
    assert claim.high == (None if most is None else pytest.approx(most, rel=1e-4))
    assert ("which keep at most all of it" in str([c.reason for c in report.channels])) == (most == 1.0)
    assert _state(report, "D") == ("open" if run is growing else "conditional")
