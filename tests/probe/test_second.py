"""The plain graph as a program of its own: what it gives is what the module gives, and what it does not say is no opinion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from screen.capture.trace.loop import as_loop
from screen.capture.trace.tracer import run as trace
from screen.graph import Call, Graph, Module, Node, Ref
from screen.graph.io import dumps
from screen.probe import sizes
from screen.probe.plan.spot_types import Plain, Sample
from screen.probe.second import plain
from screen.probe.second.again import again
from screen.probe.second.interpreter import Absent, Unread, run
from screen.probe.second.values import MOST, apart, packed, sample, unpacked, weight

X = (2, 3, 8)
"""[sequences, tokens, features]"""
PROGRAMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "reflected": lambda x, w: 1 - x + 2**w / 3 + 4 / (x * x + 1),
    "in place": lambda x, w: x.clone().add_(w).mul_(2).clamp_(min=-1),
    "slices": lambda x, w: x[..., 1:5:2] * w[None, :, -4:-2] + x[0, 1, 2],
    "a write to a slice": lambda x, w: _put(x.clone(), w),
    "heads": lambda x, w: x.view(2, 3, 2, 4).transpose(1, 2).flatten(2).chunk(2, -1)[1].softmax(-1),
    "attention": lambda x, w: nn.functional.scaled_dot_product_attention(x, x @ x.mT @ x, x, is_causal=True),
    "einsum": lambda x, w: torch.einsum("btd,td->bt", x, w),
    "norms": lambda x, w: nn.functional.layer_norm(x, (8,), w[0], w[1]) + nn.functional.rms_norm(x, (8,)) + x.norm(dim=-1, keepdim=True),
    "types": lambda x, w: (x.float() * w.to(torch.float64)).to(x.dtype).type_as(w),
    "masks": lambda x, w: (x @ w.T).masked_fill(torch.ones(3, 3, dtype=torch.bool).tril() == 0, -1e4).softmax(-1),
    "positions": lambda x, w: x + torch.arange(3, device=x.device)[:, None].cos() + torch.zeros_like(x),
    "several results": lambda x, w: x.max(-1).values + torch.var_mean(x, -1)[1] + torch.where(x > 0, x, w).sum(-1),
    "gates": lambda x, w: nn.functional.silu(x) * nn.functional.gelu(w, approximate="tanh") + nn.functional.dropout(x, 0.5, False),
}


def _put(x: Tensor, w: Tensor) -> Tensor:
    x[:, 0] = w[0]
    return x


class Program(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], device: str) -> None:
        super().__init__()
        self.function, self.w = function, nn.Parameter(torch.ones(3, 8, device=device))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.w)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_gives_what_its_module_gives(name: str) -> None:
    graph = trace(Program(PROGRAMS[name], "meta"), (torch.empty(X, device="meta"),), {}).graph
    x, w = weight("x", X, 0), weight("w", (3, 8), 0)
    leaves = {n.index: {"input": x, "parameter": w}[n.op] for n in graph.nodes if n.name}
    assert torch.equal(run(graph, graph.outputs[0], leaves), PROGRAMS[name](x, w))


def _graph(*rows: tuple[str, tuple[object, ...]], shape: tuple[int, ...] | None = (2,), dtype: str = "float32") -> Graph:
    nodes = [Node(0, "input", (), (), (2,), "float32", 0, "", 0, "x")]
    nodes += [Node(i + 1, op, args, (), shape, dtype, 0, "m.py", 1) for i, (op, args) in enumerate(rows)]
    return Graph(tuple(nodes), (Call(0, None, 0, 0),), (Module(0, None, "", "M", ""),), (len(nodes) - 1,))


@pytest.mark.parametrize("op", ["load", "compile", "save", "alias", "rand_like", "empty_like", "no_such_op", "__class__", "hub"])
def test_what_is_no_row_or_says_nothing_is_never_called(op: str) -> None:
    with pytest.raises(Unread, match="does not follow"):
        run(_graph((op, (Ref(0),))), 1, {0: torch.ones(2)})


def test_another_shape_or_type_than_was_recorded_is_no_opinion() -> None:
    for wrong in (_graph(("add", (Ref(0), 1)), shape=(3,)), _graph(("add", (Ref(0), 1)), dtype="float16"), _graph(("sort", (Ref(0),)))):
        with pytest.raises(Unread, match=r"at m\.py:1 gives no value"):
            run(wrong, 1, {0: torch.ones(2)})


def test_a_leaf_that_the_module_has_not_is_none() -> None:
    for leaves in ({}, {0: torch.ones(3)}):
        with pytest.raises(Absent, match="x"):
            run(_graph(("add", (Ref(0), 1))), 1, leaves)


def test_values_cross_as_they_are_and_no_larger_than_they_may() -> None:
    for value in (torch.randn(3, 0, 2), torch.arange(5), torch.tensor(True), torch.randn(2, 3).bfloat16(), torch.randn(4, 4).T):
        assert torch.equal(unpacked(packed(0, value)), value)
    bomb = packed(0, torch.zeros(MOST // 4 + 1))
    for wrong, said in ((bomb, "bytes"), (packed(0, torch.zeros(3)), "12 bytes for 16")):
        wrong = wrong if wrong is bomb else type(wrong)(0, "float32", (4,), wrong.data)
        with pytest.raises(ValueError, match=said):
            unpacked(wrong)


def test_outputs_are_compared_by_entries_and_size() -> None:
    one = torch.randn(5, 7)
    a, b, c = sample(one), sample(one + 0.01), sample(one[:, :6])
    assert apart(a, a) == 0 and 1e-3 < apart(a, b) < 0.1 and apart(a, c) == float("inf")


def test_what_is_finite_on_one_side_alone_is_a_difference_and_on_neither_there_is_no_opinion() -> None:
    wild = sample(torch.tensor([1.0, float("nan")]))
    assert wild.top is None and apart(wild, wild) == 0 and apart(wild, sample(torch.ones(2))) == apart(sample(torch.ones(2)), wild) == float("inf")
    for op, told, agrees in (("log", sample(torch.ones(2)), False), ("relu", wild, False), ("log", wild, None)):
        leaf = packed(0, torch.tensor([-1.0, 2.0]))
        assert again(dumps(_graph((op, (Ref(0),)))).decode(), asdict(Plain("", told, (), (leaf,))), 0).agrees is agrees
    assert sizes.apart(torch.ones(2), torch.tensor([1.0, float("inf")])) == float("inf")
    assert sizes.apart(torch.tensor([float("nan"), 1.0]), torch.tensor([1.0, float("inf")])) is None


class Looks(nn.Module):
    """Asks whether anything of ours is imported, or stands on its stack."""

    def forward(self, x: Tensor) -> Tensor:
        frame, files = sys._getframe(), set()
        while frame := frame.f_back:  # type: ignore[assignment]
            files.add(frame.f_code.co_filename)
        seen = [name for name in sys.modules if name.partition(".")[0] == "screen"] + [f for f in files if "/screen/" in f]
        return x * len(seen) + float(torch.is_grad_enabled())


def test_the_plain_run_is_out_of_sight_and_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    x, before = torch.ones(2, 3), dict(sys.modules)
    for model in (Looks(), as_loop(Looks(), (0,), 3)):
        assert torch.equal(plain._unseen(model, (x,), {}), torch.zeros(2, 3)) and dict(sys.modules) == before
        built = SimpleNamespace(args=(x,), kwargs={})
        for alone in (False, True):
            monkeypatch.setattr(plain, "ALONE", alone)
            found = plain.ran((), 0, built, lambda seed, model=model: model)  # type: ignore[arg-type, misc]
            assert found.output is not None and (found.output.top == 0) is alone
    with pytest.raises(ZeroDivisionError):
        plain._unseen(Raises(), (x,), {})
    assert dict(sys.modules) == before


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x / (1 // 0)


def test_what_has_no_output_has_no_opinion() -> None:
    text = dumps(_graph(("relu", (Ref(0),)))).decode()
    assert again(text, {"reason": "why"}, 0).reason == "why"
    leaf = packed(0, torch.tensor([-1.0, 2.0]))
    for told, agrees in ((sample(torch.tensor([0.0, 2.0])), True), (Sample((2,), 2.0, (1.0,) * 256), False)):
        assert again(text, asdict(Plain("", told, (), (leaf,))), 0).agrees is agrees
