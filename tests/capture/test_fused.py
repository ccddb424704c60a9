"""A product that is added in one call is found as a product and a sum; one that is added to a bias stays a map."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

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


def _over_garbage(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.full_like(x, torch.nan).addmm_(x, w, beta=0)


def _into(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    whole = x.new_zeros(6, 8)
    torch.addmm(x, x, w, out=whole[:, 4:])
    return whole


def _into_what_is_left_out(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    whole = x.new_zeros(6, 8)
    torch.addmm(x, x, w, beta=0, out=whole[:, 4:])
    return whole


def _rows(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    whole = x.clone()
    whole[:3].addmm_(x[3:], w)
    return whole


TWO, THREE = (6, 4), (2, 6, 4)
Parts = list[str]
CALLS: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], tuple[int, ...], Parts]] = {
    "addmm": (lambda x, w, b: torch.addmm(x, x, w, beta=0.5, alpha=2.0), TWO, ["mm", "mul", "mul", "add"]),
    "addmm of a plain sum": (lambda x, w, b: torch.addmm(x, x, w), TWO, ["mm", "add"]),
    "by keywords": (lambda x, w, b: torch.addmm(input=x, mat2=w, mat1=x), TWO, ["mm", "add"]),
    "factors by place": (lambda x, w, b: x.addmm(0.5, 2.0, x, w), TWO, ["mm", "mul", "mul", "add"]),
    "a factor by place": (lambda x, w, b: torch.addmm(0.5, x, x, w), TWO, ["mm", "mul", "add"]),
    "by its aten name": (lambda x, w, b: torch.ops.aten.addmm(x, x, w), TWO, ["mm", "add"]),
    "beta of zero": (lambda x, w, b: torch.addmm(x, x, w, beta=0), TWO, ["mm", "clone"]),
    "in place": (_in_place, TWO, ["clone", "mm", "mul", "mul", "add"]),
    "in place, over what is left out": (_over_garbage, TWO, ["full_like", "mm", "zero", "add"]),
    "in place, into some rows": (_rows, TWO, ["clone", "getitem", "getitem", "mm", "add", "alias"]),
    "into a part": (_into, TWO, ["new_zeros", "getitem", "mm", "add", "alias"]),
    "into a part, the first left out": (_into_what_is_left_out, TWO, ["new_zeros", "getitem", "mm", "mul", "alias"]),
    "baddbmm": (lambda x, w, b: x.baddbmm(x, w.expand(2, 4, 4)), THREE, ["expand", "bmm", "add"]),
    "addbmm": (lambda x, w, b: torch.addbmm(x[0], x, w.expand(2, 4, 4), alpha=0.5), THREE, ["getitem", "expand", "bmm", "sum", "mul", "add"]),
    "addmv": (lambda x, w, b: x.addmv(w, b, beta=2, alpha=3), (4,), ["matmul", "mul", "mul", "add"]),
    "addmv of a bias": (lambda x, w, b: torch.addmv(b, w, x), (4,), ["matmul", "add"]),
    "addr": (lambda x, w, b: torch.addr(x, x[:, 0], b, alpha=2), TWO, ["getitem", "unsqueeze", "mul", "mul", "add"]),
    "addcmul": (lambda x, w, b: torch.addcmul(x, x, b, value=3), TWO, ["mul", "mul", "add"]),
    "addcmul, value by place": (lambda x, w, b: torch.addcmul(x, 3, x, b), TWO, ["mul", "mul", "add"]),
    "addcmul of a bias": (lambda x, w, b: torch.addcmul(b, x, b), TWO, ["mul", "add"]),
    "addcmul in place": (lambda x, w, b: x.clone().addcmul_(x, b, value=-1), TWO, ["clone", "mul", "mul", "add"]),
    "addcdiv": (lambda x, w, b: torch.addcdiv(x, x, 1.0 + b * b), TWO, ["mul", "add", "div", "add"]),
    "a sum, its factor by place": (lambda x, w, b: torch.add(x, 2, x @ w), TWO, ["matmul", "add"]),
    "a difference, its factor by place": (lambda x, w, b: x.clone().sub_(2, x @ w), TWO, ["clone", "matmul", "sub"]),
    "a bias": (lambda x, w, b: torch.addmm(b, x, w), TWO, ["addmm"]),
    "a bias with its factors": (lambda x, w, b: torch.addmm(0.5, b, 2.0, x, w), TWO, ["addmm"]),
    "a bias that is computed": (lambda x, w, b: torch.addmm(2 * b, x, w), TWO, ["mul", "addmm"]),
    "a bias that is data": (lambda x, w, b: torch.addmm(x[0], x, w), TWO, ["getitem", "mm", "add"]),
    "a table": (lambda x, w, b: torch.addmm(w, x[:4], b.diag()), TWO, ["getitem", "diag", "addmm"]),
    "latents": (lambda x, w, b: torch.addmm(w, x[:4] @ w, w), TWO, ["getitem", "matmul", "mm", "add"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_which_ops_a_fused_call_becomes(name: str) -> None:
    function, shape, expected = CALLS[name]
    with torch.device("meta"):
        graph = trace(Wide(function), (torch.empty(shape),), {})
    assert [n.op for n in graph.nodes if n.op not in ("input", "parameter")] == expected


def test_a_factor_by_place_is_named() -> None:
    with torch.device("meta"):
        graph = trace(Wide(lambda x, w, b: x.sub(3, torch.add(x, 2, x @ w))), (torch.empty(TWO),), {})
    assert [n.kwarg("alpha") for n in graph.nodes if n.op in ("add", "sub")] == [2, 3]


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
    with torch.no_grad():
        assert torch.allclose(tape.run(calls, values)[output], model(x))


def relu(x: Tensor) -> Tensor:
    """A library's own function, called like one of torch's."""
    return handle_torch_function(relu, (x,), x) if has_torch_function((x,)) else x * 3


def test_a_function_of_a_library_is_what_it_does_and_not_what_it_is_called() -> None:
    with torch.device("meta"):
        graph = trace(Wide(lambda x, w, b: relu(x)), (torch.empty(TWO),), {})
    assert [n.op for n in graph.nodes if n.op != "input"] == ["mul"]
