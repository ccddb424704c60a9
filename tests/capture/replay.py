"""The second opinion on the tracer: the graph traced on meta is run on a real model and must give its eager output bit for bit."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx
from torch import Tensor, nn

from screen.capture.trace.tracer import Trace, run
from screen.probe.measure.replay import attribute, real_value


def replay(trace: Trace, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Run the recorded graph on real tensors; returns the tensors of the recorded outputs."""
    inputs = iter([t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)])
    env: dict[torch.fx.Node, Any] = {}

    def value(argument: Any) -> Any:
        return torch.fx.node.map_aggregate(argument, lambda a: env[a] if isinstance(a, torch.fx.Node) else real_value(a))

    for node in trace.recorder.graph.nodes:
        if node.op == "placeholder":
            env[node] = next(inputs)
        elif node.op == "get_attr":
            env[node] = attribute(model, node.meta["label"])
        elif node.target is operator.getitem and isinstance(env.get(node.args[0]), tuple | list):
            env[node] = env[node.args[0]][node.args[1]]
        else:
            env[node] = node.target(*value(node.args), **value(node.kwargs))
    order = list(trace.recorder.graph.nodes)
    return [env[order[i]] for i in trace.graph.outputs]


def same(model: nn.Module, meta: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, rounded: bool = False) -> str:
    """Trace `meta`, replay on `model`, compare with eager (bit for bit, or up to rounding); returns what differs, or an empty string."""
    trace = run(meta, args, kwargs)
    if trace.graph.failure is not None:
        return f"the trace failed: {trace.graph.failure.message}"
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            copies = torch.utils._pytree.tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, (args, kwargs))
            eager = _tensors(model(*copies[0], **copies[1]))
            copies = torch.utils._pytree.tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, (args, kwargs))
            again = replay(trace, model, *copies)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    expected = list({id(t): t for t in eager}.values())
    if len(expected) != len(again):
        return f"{len(again)} outputs where eager gives {len(expected)}"
    wrong = [i for i, (a, b) in enumerate(zip(expected, again, strict=True)) if a.shape != b.shape or not _equal(a, b, rounded)]
    return f"outputs {wrong} differ" if wrong else ""


def _equal(a: Tensor, b: Tensor, rounded: bool) -> bool:
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5) if rounded else torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, tuple | list):
        return [t for v in value for t in _tensors(v)]
    if hasattr(value, "__dataclass_fields__"):
        return [t for name in value.__dataclass_fields__ for t in _tensors(getattr(value, name, None))]
    return []
