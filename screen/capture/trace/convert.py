"""From the recorded `torch.fx.Graph` to the plain `Graph`: canonical names, plain arguments, dead nodes kept."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from screen import ops
from screen.capture.trace import equal_sums
from screen.ops.foreign import same
from screen.capture.trace.recorder import alias, set_item, tensors
from screen.capture.trace.slice_writes import joined
from screen.capture.trace.source_lines import no_modes
from screen.graph import Failure, Graph, Guess, Initialiser, Node, Ref, Repeat

_SPECIAL = {alias: "alias", set_item: "setitem", operator.getitem: "getitem"}


def graph_of(
    session: Any,
    outputs: Any,
    failure: Failure | None,
    repeats: tuple[Repeat, ...],
    initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...],
    frozen: tuple[str, ...] = (),
) -> Graph:
    """The plain graph of a finished run."""
    recorder, scopes = session.recorder, session.scopes
    returned = [t for t in tensors(plain(outputs)) if id(t) in recorder.values]
    found = [recorder.read(t, recorder.origins[recorder.values[id(t)]]) for t in returned]  # with what was written to it by another name
    order = [*recorder.graph.nodes]
    found = equal_sums.merge(recorder, found)
    index: dict[torch.fx.Node, int] = {}
    nodes: list[Node] = []
    for fx_node in recorder.graph.nodes:
        index[fx_node] = len(nodes)
        nodes.append(_node(fx_node, len(nodes), index, recorder))
    outs = tuple(dict.fromkeys(index[n] for n in found))
    stamped = {member for repeat in repeats for member, representative in repeat.members if member != representative}
    return Graph(
        nodes=tuple(joined(nodes)),
        calls=tuple(scopes.calls),
        modules=scopes.table(),
        outputs=outs,
        repeats=repeats,
        guesses=tuple(Guess(file, line, assumed, _first(order[start:], index)) for file, line, assumed, start in session.guesses)
        + tuple(Guess(file, line, "floats are finite and not zero", None, decides=False) for file, line in sorted(session.assumptions)),
        failure=replace(failure, node=len(nodes) - 1) if failure is not None and nodes else failure,
        uncalled=scopes.uncalled(stamped, recorder.values.keys()) if failure is None else (),
        initialisers=initialisers,
        ranges=tuple(sorted(_ranges(session, index))),
        loop=scopes.loop(),
        frozen=frozen,
    )


def _first(order: list[torch.fx.Node], index: dict[torch.fx.Node, int]) -> int | None:
    """The place of the first of some nodes that is in the graph."""
    return next((index[node] for node in order if node in index), None)


def _ranges(session: Any, index: dict[torch.fx.Node, int]) -> Iterator[tuple[int, float, float]]:
    """Smallest and largest entry of every float value that is known without the model's weights."""
    of_leaves = _of_leaves(session.recorder.graph) if session.oracle.drawn is not None else frozenset()
    for tensor in session.recorder.keep:
        real, node = session.oracle.known.get(id(tensor)), session.recorder.values.get(id(tensor))
        if real is None or node is None or real.is_meta or not real.is_floating_point() or not real.numel() or id(tensor) in session.oracle.assumed:
            continue
        if node in of_leaves:
            continue
        with no_modes():
            low, high = (float(end) for end in real.to(torch.float64).aminmax())
        if math.isfinite(low) and math.isfinite(high):
            yield index[node], low, high


def _of_leaves(program: torch.fx.Graph) -> frozenset[torch.fx.Node]:
    """The arguments, weights and buffers of a program, and what depends on them."""
    found: set[torch.fx.Node] = set()
    for node in program.nodes:
        if node.op in ("placeholder", "get_attr") or not found.isdisjoint(node.all_input_nodes):
            found.add(node)
    return frozenset(found)


def plain(value: Any) -> Any:
    """Outputs of `transformers` are dicts with attributes; dataclasses of users are read as well."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if hasattr(value, "__dataclass_fields__"):
        return [plain(getattr(value, name, None)) for name in value.__dataclass_fields__]
    return None


def _node(fx_node: torch.fx.Node, position: int, index: dict[torch.fx.Node, int], recorder: Any) -> Node:
    origin = recorder.origins[fx_node]
    shape, dtype = fx_node.meta.get("val", (None, None))
    name = fx_node.meta.get("label", "")
    if fx_node.op == "placeholder":
        return Node(position, "input", (), (), shape, dtype, origin.call, origin.file, origin.line, name)
    if fx_node.op == "get_attr":
        return Node(position, fx_node.meta["kind"], (), (), shape, dtype, origin.call, origin.file, origin.line, name)
    op, swapped = _name(fx_node.target)
    args = tuple(_arg(a, index) for a in fx_node.args)
    kwargs = tuple((k, _arg(v, index)) for k, v in fx_node.kwargs.items())
    if swapped and len(args) >= 2:
        args = (args[1], args[0], *args[2:])
    if op == "where" and len(args) == 3 and _is_truth(fx_node.args[1]) and not _is_truth(fx_node.args[0]):  # x.where(condition, other)
        args = (args[1], args[0], args[2])
    return Node(position, op, args, kwargs, shape, dtype, origin.call, origin.file, origin.line)


def _is_truth(argument: Any) -> bool:
    return isinstance(argument, torch.fx.Node) and argument.meta.get("val", (None, None))[1] == "bool"


def _name(target: Any) -> tuple[str, bool]:
    if target in _SPECIAL:
        return _SPECIAL[target], False
    if isinstance(target, torch._ops.OpOverload):
        return _aten_name(target)
    name = getattr(target, "__name__", type(target).__name__)
    if name == "__get__":
        name = target.__self__.__name__
    if getattr(target, "__module__", "") == "torch.fft" or getattr(target, "__name__", "").startswith("fft_"):
        name = f"fft_{name.removeprefix('fft_')}"
    return ops.canonical(name)


def _aten_name(target: torch._ops.OpOverload) -> tuple[str, bool]:
    namespace, _, name = target._schema.name.partition("::")
    if namespace not in ("aten", "prims"):
        return same()[0].get(f"{namespace}::{name}", f"{namespace}::{name}"), False
    return ops.canonical(name)


def _arg(value: Any, index: dict[torch.fx.Node, int]) -> Any:
    if isinstance(value, torch.fx.Node):
        return Ref(index[value])
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, slice):
        return ("slice", _arg(value.start, index), _arg(value.stop, index), _arg(value.step, index))
    if value is Ellipsis:
        return "..."
    if isinstance(value, tuple | list):
        return tuple(_arg(v, index) for v in value)
    if isinstance(value, dict):
        return tuple((str(k), _arg(v, index)) for k, v in value.items())
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.Tensor):  # a tensor inside an object that the recorder does not open
        return "tensor"
    return str(value) if isinstance(value, torch.device | torch.layout | torch.memory_format | complex) else type(value).__name__


def shape_of(graph: Graph) -> tuple[object, ...]:
    """Which ops ran on which values: equal for two runs of the same program (sizes may differ: a guess may be one)."""
    return tuple((n.op, n.inputs, n.call) for n in graph.nodes)


SIZED = {"zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty"}
"""Ops that read nothing but sizes."""


def floats_of(graph: Graph) -> tuple[object, ...]:
    """Which ops ran on which floats: equal for two runs that differ only in integers that are places and counts (`x[places]`, `zeros(count)`,
    `repeat_interleave(x, counts)`). What truth values are made of counts in full, since they may be masks, and so do integers in arithmetic."""
    made: list[object] = []
    floats: list[object] = []
    for node in graph.nodes:
        beside = any(isinstance(made[i], int) for i in node.inputs)
        places = node.op in SIZED or (beside and (node.op == "embedding" or ops.CLASSES.get(node.op) in ("view", "part", "write")))
        sources = [made[i] for i in node.inputs]
        floating = node.dtype.startswith(("float", "bfloat", "complex")) if node.dtype is not None else beside  # several results are as what is read
        if floating:
            counted = ["places" if places and _counts(graph, i) else made[i] for i in node.inputs]
            floats.append((node.op, tuple(counted), node.call))
            made.append(len(floats))
        else:
            made.append((node.op, hash(tuple(sources)), node.call))
    return tuple(floats)


def _counts(graph: Graph, node: int) -> bool:
    """Whether a node holds integers."""
    while (kind := graph.nodes[node].dtype) is None and graph.nodes[node].inputs:
        node = graph.nodes[node].inputs[0]
    return kind is not None and kind.startswith(("int", "uint"))


def mark_harmless(graph: Graph, sites: set[tuple[str, int, str]]) -> Graph:
    """Guesses whose other answer gave the same program, or none, are said to decide nothing."""
    guesses = tuple(replace(g, decides=False) if (g.file, g.line, g.assumed.rpartition(" = ")[0]) in sites else g for g in graph.guesses)
    return replace(graph, guesses=guesses)
