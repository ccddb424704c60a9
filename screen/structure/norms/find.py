"""Norms by what they compute: y = ℓ(x)/ρ(ℓ(x)), with ρ homogeneous of degree 1 and ρ(z) ≥ c‖z‖ over exactly the features of y.

A norm is a product of x with a statistic of degree −1, or a quotient by one of degree 1, **of that same x** (theory, section 1; review, item 6). A
statistic of part of x (partial RMSNorm), of another tensor, or the plain mean, has degree −1 too and bounds nothing: such a quotient is
*scale-free*, not a norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from screen.graph import Graph, Node, Ref
from screen.ops.scalars import SCALARS
from screen.structure.axes import Features
from screen.structure.dataflow import Flow, axes_of, number, strip
from screen.structure.initial.values import start_of
from screen.structure.norms.statistics import READ, Mean, Reading, Stat, reading_of, subject_of
from screen.structure.types import Norm, NormType, Place


@dataclass(frozen=True)
class Norms:
    """All norms of a graph."""

    flow: Flow

    @cached_property
    def features(self) -> Features:
        """Which axes hold features."""
        return Features(self.flow)

    def _placed(self, norm: Norm) -> Norm:
        """The norm with what its axes are: features, or tokens and samples."""
        by_name = norm.type in ("batchnorm", "groupnorm") or self.flow.graph.nodes[norm.node].op == "instance_norm"
        if by_name or not self.features.spans_others(norm.source, norm.axes):
            return norm
        layout, node = self.features.layouts[norm.source], self.flow.graph.nodes[norm.node]
        if layout is not None and not layout.sure and len(norm.axes) == 1 and any(self.flow.trained[i] for i in node.inputs[1:]):
            return norm  # a gain for each entry of the axis says more than the form of the input
        with_features = layout is not None and any(layout.any(a) for a in norm.axes)
        return replace(norm, across=True, with_features=with_features, radius=None)

    @cached_property
    def _result(self) -> tuple[dict[int, Norm], dict[int, int], tuple[Reading, ...], dict[int, Norm]]:
        readings: list[Reading] = []
        norms: dict[int, Norm] = {}
        weights: dict[int, Norm] = {}
        free: dict[int, int] = {}
        for node in self.flow.graph.nodes:
            found = _fused(self.flow, node) if node.op in _FUSED or node.op == "getitem" else None
            reading: Reading = None
            if found is None and node.inputs and node.op in READ:
                reading = READ[node.op](self.flow, node, readings)
                found = _quotient(self.flow, node, readings, free, self.flow.data) if node.op in ("mul", "div") else None
                if node.op in ("mul", "div") and self.flow.trained[node.index]:
                    made = _quotient(self.flow, node, readings, {}, self.flow.trained)
                    weights.update({} if made is None else {node.index: made})
            readings.append(reading)
            if found is not None:
                norms[node.index] = self._placed(found)
        for index, norm in norms.items():
            by_hand = self.flow.graph.nodes[index].op in ("mul", "div")
            if by_hand and (_is_put_back(self.flow, readings, norm) or _is_given_back(self.flow, readings, norm)):
                norms[index] = norm = replace(norm, put_back=True)
            if norm.type == "l2" and _is_brought_to_rms(self.flow, norm):
                norms[index] = replace(norm, to_rms=True)
        return norms, free, tuple(readings), weights

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What each node is as a power, a mean or a statistic."""
        return self._result[2]

    @cached_property
    def by_node(self) -> dict[int, Norm]:
        """Node of the normalised value -> norm."""
        return self._result[0]

    @property
    def of_weights(self) -> dict[int, Norm]:
        """Quotients that are a norm of weights alone: keys that a trained memory has, behind a norm by hand. They are no norms of the model."""
        return self._result[3]

    def changed(self, norms: Mapping[int, Norm | None]) -> Norms:
        """The same with some norms replaced, or left out."""
        found = {n: norm for n, norm in {**self.by_node, **norms}.items() if norm is not None}
        made = Norms(self.flow)
        made.__dict__["features"] = self.features
        made.__dict__["by_node"] = found
        made.__dict__["_result"] = (found, *self._result[1:])
        return made

    @property
    def scale_free(self) -> dict[int, int]:
        """Quotients of degree 0 that are no norms: node -> numerator."""
        return self._result[1]

    def is_share(self, node: int) -> bool:
        """Whether a scale-free quotient is φ(x)/ρ(x) with |φ(t)| ≤ c·|t| entry by entry: bounded, and no norm of x (relu(x)/Σ|x|)."""
        flow, numerator = self.flow, self.scale_free[node]
        below = [i for i in flow.graph.nodes[node].inputs if i != numerator]
        stats = [(i, s) for i in below if isinstance(s := reading_of(list(self.readings), flow, i), Stat) and s.centred is None]
        source = _behind_shrinking(flow, numerator)
        return any(s.source == source and _is_along(flow, numerator, i, s.axes) for i, s in stats)


def _is_put_back(flow: Flow, readings: list[Reading], norm: Norm) -> bool:
    """Whether all that is made of a quotient, entry by entry, is multiplied by the size of the same value again: f(x/ρ(x))·ρ(x)."""
    stack, seen, closed = [norm.node], {norm.node}, False
    while stack:
        here = stack.pop()
        for user in flow.graph.users[here]:
            node = flow.graph.nodes[user]
            sizes = [s for i in node.inputs if i != here and isinstance(s := reading_of(readings, flow, i), Stat)]
            wanted = 1.0 if node.op == "mul" else -1.0
            if node.op == "mul" or (node.op == "div" and node.args[0] == Ref(here)):
                if any((s.source, s.axes, s.degree) == (norm.source, norm.axes, wanted) for s in sizes):
                    closed = True
                    continue
                if len(node.inputs) > 1:
                    return False
            elif flow.classes[user] not in ("activation", "view"):
                return False
            if user not in seen:
                seen.add(user)
                stack.append(user)
    return closed


def _is_given_back(flow: Flow, readings: list[Reading], norm: Norm) -> bool:
    """Whether something that is made of a value without its size over tokens or samples is multiplied by that size: RevIN (Kim et al. 2022).

    Where the mean that was taken off is added before it, the size multiplies the mean too: what was taken off is not given back.
    """
    if not norm.across:
        return False
    stack, seen = [norm.node], {norm.node}
    while stack:
        here = stack.pop()
        for user in flow.graph.users[here]:
            node = flow.graph.nodes[user]
            sizes = [s for i in node.inputs if i != here and isinstance(s := reading_of(readings, flow, i), Stat)]
            if node.op == "mul" and any((s.source, s.axes, s.degree) == (norm.source, norm.axes, 1.0) for s in sizes):
                return True
            means = [m for i in node.inputs if i != here and isinstance(m := reading_of(readings, flow, i), Mean)]
            if user not in seen and not (node.op == "add" and any((m.source, m.axes) == (norm.source, norm.axes) for m in means)):
                seen.add(user)
                stack.append(user)
    return False


def _is_brought_to_rms(flow: Flow, norm: Norm) -> bool:
    """Whether the value of an L2 norm goes on times √size, perhaps times a gain."""
    stack, seen = [(norm.node, 1.0)], {norm.node}
    while stack:
        here, factor = stack.pop()
        if abs(factor / math.sqrt(max(norm.size, 1)) - 1.0) < 1e-3 and norm.size > 1:
            return True
        for user in flow.graph.users[here]:
            node = flow.graph.nodes[user]
            if user in seen or (node.op not in ("mul", "div") and (flow.classes[user] != "view" or node.op == "detach")):
                continue
            times = 1.0 if node.op not in ("mul", "div") else constant_factor(flow, node, here)
            if times is not None:
                seen.add(user)
                stack.append((user, factor * times))
    return False


def constant_factor(flow: Flow, node: Node, of: int) -> float | None:
    """c of a product value · c, value · (gain · c) or value / c; 1 for a gain alone, None for any other op."""
    numbers = [v for a in node.args if (v := number(a)) is not None]
    others = [i for i in node.inputs if i != of]
    if node.op == "div":
        return 1.0 / numbers[0] if not others and isinstance(node.args[0], Ref) and numbers and numbers[0] else None
    if node.op != "mul" or not others:
        return numbers[0] if node.op == "mul" and numbers and node.inputs.count(of) == 1 else None
    if flow.data[others[0]]:
        return None
    if not flow.trained[others[0]]:
        return start_of(flow.graph, others[0])
    gain = flow.graph.nodes[strip(flow, others[0])]
    below = [v for a in gain.args if (v := number(a)) is not None]
    return below[0] if gain.op == "mul" and below else 1.0


def place_of(graph: Graph, node: int) -> Place:
    """Where a node stands in the user's code."""
    here = graph.nodes[node]
    return Place(node, graph.scope(node).path, here.file, here.line)


# -- fused norms --------------------------------------------------------------------------------------------------------------------------

_EXPANSIONS = frozenset({"expand", "expand_as", "broadcast_to"})
_FUSED: dict[str, NormType] = {
    "layer_norm": "layernorm", "rms_norm": "rmsnorm", "group_norm": "groupnorm", "batch_norm": "batchnorm",
    "instance_norm": "other", "normalize": "l2",
}


def _fused(flow: Flow, node: Node) -> Norm | None:
    graph = flow.graph
    if node.op == "getitem" and node.args[1:] == (0,) and node.inputs:
        above = graph.nodes[node.inputs[0]]
        if above.op in _FUSED and above.shape is None:
            return _make_fused(flow, above, node.index)
        return None
    if node.op in _FUSED and node.shape is not None:
        return _make_fused(flow, node, node.index)
    return None


def _make_fused(flow: Flow, call: Node, value: int) -> Norm | None:
    graph = flow.graph
    source = flow.ref(call, 0, "input")
    if source is None:
        return None
    shape = graph.nodes[source].shape or ()
    kind = _FUSED[call.op]
    if kind == "l2" and number(flow.operand(call, 1, "p")) not in (None, 2.0):
        kind = "other"
    axes, eps = _fused_axes(flow, call, shape)
    size = 1
    for axis in axes:
        size *= shape[axis] if -len(shape) <= axis < 0 else 1
    if call.op == "group_norm":
        groups = next((g for g in (number(flow.operand(call, p, "num_groups")) for p in (1, 6)) if g), 1.0)
        size = int(size / max(groups, 1.0))
    centred = kind in ("layernorm", "batchnorm", "groupnorm", "other")
    radius = {"layernorm": 1.0, "rmsnorm": 1.0, "l2": max(size, 1) ** -0.5}.get(kind)
    return Norm(value, source, kind, centred, axes, size, eps, place_of(graph, value), radius)


def _fused_axes(flow: Flow, call: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], float | None]:
    rank = len(shape)
    if call.op in ("layer_norm", "rms_norm"):
        given = flow.operand(call, 1, "normalized_shape")
        count = len(given) if isinstance(given, tuple) else 1
        position = 4 if call.op == "layer_norm" else 3
        return tuple(range(-count, 0)), number(flow.operand(call, position, "eps"))
    if call.op == "normalize":
        axis = flow.operand(call, 2, "dim")
        return axes_of(1 if axis is None else axis, rank), number(flow.operand(call, 3, "eps"))
    if call.op == "batch_norm":
        return tuple(a for a in range(-rank, 0) if a != 1 - rank), number(flow.operand(call, 7, "eps"))
    return tuple(range((2 if call.op == "instance_norm" else 1) - rank, 0)), number(flow.operand(call, 4 if call.op == "group_norm" else 7, "eps"))


# -- decomposed norms ---------------------------------------------------------------------------------------------------------------------


def _quotient(flow: Flow, node: Node, readings: list[Reading], free: dict[int, int], of: Sequence[bool]) -> Norm | None:
    """x · Stat⁻¹(x) or x / Stat(x), `of` data or of weights; a quotient of degree 0 that is none of these is noted as scale-free."""
    if not node.args:
        return None
    left, right = flow.ref(node, 0, "input"), flow.ref(node, 1, "other")
    if left is None or right is None:
        return None
    pairs = [(left, right)] if node.op == "div" else [(left, right), (right, left)]
    wanted = 1.0 if node.op == "div" else -1.0
    pairs += [(inner, d) for n, d in pairs if (inner := _without_gain(flow, n, reading_of(readings, flow, d))) != n]
    for numerator, divisor in pairs:
        stat = reading_of(readings, flow, divisor)
        if isinstance(stat, Mean) and stat.factor == 1 and node.op == "div" and strip(flow, numerator) == stat.source:
            free[node.index] = numerator
        if not isinstance(stat, Stat) or abs(stat.degree - wanted) > 1e-9 or not of[numerator]:
            continue
        source, centred = subject_of(readings, flow, numerator)
        if _is_shifted(flow, source, stat) and _is_along(flow, numerator, divisor, stat.axes):
            free.pop(node.index, None)
            return replace(_norm(flow, node, source, stat, False), type="other", radius=None, shifted=True)
        if source != stat.source or not _covers(stat, centred):
            by_weight = not of[stat.source] and flow.depends(numerator, stat.source)  # `(x·w) / ‖w‖`: along a direction
            if not by_weight and not is_image(flow, _without_size(flow, numerator, stat), stat.source):
                free[node.index] = numerator
            continue
        if not _is_along(flow, numerator, divisor, stat.axes):  # feature j over the size of token j, where there are as many of both
            free[node.index] = numerator
            continue
        free.pop(node.index, None)
        if centred not in (None, stat.axes):  # what was centred over other axes is a value like any other
            return _norm(flow, node, strip(flow, numerator), stat, False)
        return _norm(flow, node, source, stat, centred is not None)
    return None


def is_image(flow: Flow, node: int, source: int, depth: int = 12) -> bool:
    """Whether a value is made of another one, token by token, by linear maps alone: W(x)/ρ(x) is W(x/ρ(x))."""
    node = strip(flow, node)
    if node == source:
        return True
    here = flow.graph.nodes[node]
    data = [i for i in here.inputs if flow.data[i]]
    linear = here.op in ("linear", "neg") or (here.op in ("mul", "div") and (not here.args or data[:1] == list(here.inputs[:1])))
    linear = linear or (here.op in ("matmul", "mm") and data == list(here.inputs[:1]))
    return depth > 0 and len(data) == 1 and linear and is_image(flow, data[0], source, depth - 1)


def _behind_shrinking(flow: Flow, node: int) -> int:
    """The x of φ(x), φ entry by entry and at most c·|t|, or the value itself."""
    while True:
        node = strip(flow, node)
        here = flow.graph.nodes[node]
        row = SCALARS.get(here.op)
        if row is None or row.shape.at_zero != 0.0 or not math.isfinite(row.shape.slope) or not here.inputs:
            return node
        node = here.inputs[0]


def _is_along(flow: Flow, numerator: int, divisor: int, axes: tuple[int, ...]) -> bool:
    """Whether a statistic over axes of a value stands along the value's other axes, as `keepdim` leaves it, where the value is divided by it."""
    graph, divisor = flow.graph, strip(flow, divisor)
    while graph.nodes[divisor].op in _EXPANSIONS:
        divisor = strip(flow, graph.nodes[divisor].inputs[0])
    shape, below = graph.nodes[numerator].shape, graph.nodes[divisor].shape
    if shape is None or below is None:
        return True
    places = [a if a < 0 else a - len(shape) for a in axes]
    return all(below[a] == 1 for a in places if -a <= len(below))


def _covers(stat: Stat, centred: tuple[int, ...] | None) -> bool:
    """Whether ρ(ℓ(x)) ≥ c‖ℓ(x)‖ for the ℓ(x) of the numerator: the same centring, or none under a statistic without centring."""
    if stat.centred == centred:
        return True
    return stat.centred is None and centred == stat.axes and stat.family == "square"  # ‖x − mean(x)‖ ≤ ‖x‖


def _is_shifted(flow: Flow, source: int, stat: Stat) -> bool:
    """Whether a statistic is of x plus or minus what holds no data: its root mean square goes with that of x from some size on, and x/ρ(x − b) is a
    norm but for a pole at b (Zipformer's BiasNorm; Yao et al. 2024, equation 4)."""
    shifted = flow.graph.nodes[stat.source]
    apart = shifted.op in ("add", "sub") and len(shifted.inputs) == 2 and shifted.kwarg("alpha") is None
    data = [strip(flow, i) for i in shifted.inputs if flow.data[i]] if apart else []
    return stat.family == "square" and stat.centred is None and data == [source]


def _without_gain(flow: Flow, node: int, stat: Reading) -> int:
    """g·x in `g * x / ρ(x)`: the gain may be applied before the quotient."""
    here = flow.graph.nodes[node]
    if not isinstance(stat, Stat) or here.op != "mul":
        return node
    data = [i for i in here.inputs if flow.data[i]]
    return data[0] if len(data) == 1 and (len(here.inputs) == 1 or any(flow.trained[i] for i in here.inputs)) else node


def _without_size(flow: Flow, node: int, stat: Stat) -> int:
    """x in `x * s / ρ(x)`, s one number along the axes of the statistic: x is brought to another value's size, and s·(x/ρ(x)) is no quotient of s."""
    here = flow.graph.nodes[node]
    if here.op != "mul" or len(here.inputs) != 2:
        return node
    for one, other in (here.inputs, here.inputs[::-1]):
        shape = flow.graph.nodes[other].shape or ()
        if flow.data[one] and all(-len(shape) <= a and shape[a] == 1 for a in stat.axes) and flow.graph.nodes[one].shape == here.shape:
            return one
    return node


def _norm(flow: Flow, node: Node, source: int, stat: Stat, centred: bool) -> Norm:
    shape = flow.graph.nodes[source].shape or ()
    size = 1
    for axis in stat.axes:
        size *= shape[axis] if -len(shape) <= axis < 0 else 1
    kind: NormType = "other"
    if stat.family == "square":
        kind = ("layernorm" if stat.centred else "other") if centred else ("rmsnorm" if stat.average else "l2")
    return Norm(node.index, source, kind, centred, stat.axes, size, stat.eps, place_of(flow.graph, node.index), _radius(stat, size))


def _radius(stat: Stat, size: int) -> float | None:
    """Largest rms of x/ρ: 1 over the factor for the root of the mean square and for the largest |x|, √n times that for the mean of |x|."""
    if stat.scale is None or stat.scale <= 0 or stat.family == "power":
        return None
    unit = 1.0 if stat.family != "abs" else math.sqrt(size)
    if not stat.average:
        unit = stat.room * max(size, 1) ** -0.5  # ‖x‖₂ <= Σ|x|
    return unit * stat.scale if stat.degree < 0 else unit / stat.scale
