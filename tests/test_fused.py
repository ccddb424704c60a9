"""A product that is added to the stream in one call is found as a product and a sum; one that is added to a bias stays a map."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import run, trace
from screen.probe.measure.replay import Tape


class Wide(nn.Module):
    """Some function of x, a matrix and a bias. x: [6, 4] or [2, 6, 4]."""

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weight, self.bias = nn.Parameter(torch.randn(4, 4)), nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight, self.bias)


def _in_place(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    out = x.clone()
    out.addmm_(x, w, beta=0.5, alpha=2.0)
    return out


TWO, THREE = (6, 4), (2, 6, 4)
CALLS = {
    "addmm": (lambda x, w, b: torch.addmm(x, x, w, beta=0.5, alpha=2.0), TWO, ["mm", "mul", "mul", "add"]),
    "addmm of a plain sum": (lambda x, w, b: torch.addmm(x, x, w), TWO, ["mm", "add"]),
    "beta of zero": (lambda x, w, b: torch.addmm(x, x, w, beta=0), TWO, ["mm", "clone"]),
    "in place": (_in_place, TWO, ["clone", "mm", "mul", "mul", "add"]),
    "baddbmm": (lambda x, w, b: x.baddbmm(x, w.expand(2, 4, 4)), THREE, ["expand", "bmm", "add"]),
    "addcmul": (lambda x, w, b: torch.addcmul(x, x, b, value=3), TWO, ["mul", "mul", "add"]),
    "addcdiv": (lambda x, w, b: torch.addcdiv(x, x, 1.0 + b * b), TWO, ["mul", "add", "div", "add"]),
    "a bias": (lambda x, w, b: torch.addmm(b, x, w), TWO, ["addmm"]),
    "a bias that is computed": (lambda x, w, b: torch.addmm(2 * b, x, w), TWO, ["mul", "addmm"]),
    "a table": (lambda x, w, b: torch.addmm(w, w, w) + x[:4], TWO, ["addmm", "getitem", "add"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_which_ops_a_fused_call_becomes(name: str) -> None:
    function, shape, expected = CALLS[name]
    with torch.device("meta"):
        graph = trace(Wide(function), (torch.empty(shape),), {})
    assert [n.op for n in graph.nodes if n.op not in ("input", "parameter")] == expected


@pytest.mark.parametrize("name", CALLS)
def test_the_parts_give_what_the_call_gives(name: str) -> None:
    torch.manual_seed(0)
    function, shape, _ = CALLS[name]
    model, x = Wide(function).double(), torch.randn(shape, dtype=torch.float64)
    found = run(model, (x,), {})
    tape = Tape(found, torch.float64)
    output = found.graph.outputs[0]
    calls, leaves, _ = tape.steps([output], [])
    values = {i: x if found.graph.nodes[i].op == "input" else getattr(model, found.graph.nodes[i].name).detach() for i in leaves}
    assert torch.allclose(tape.run(calls, values)[output], model(x))
