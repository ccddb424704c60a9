"""How a value grows with what it is made of: one rule per op, for `witness`.

A parameter p is scaled by c → ∞ and everything else is left as it is. What does not depend on p stays; p itself, views of it, maps by it of what is
not 0, sums with what stays, products with what stays, and functions that go on to infinity all grow, and so does what is made of them by maps of
other weights. What is made of p in two ways is left alone: the two may cancel, as y − mean(y) does with a bias, or saturate, as y/(1 + |y|) does.
Signs are kept: relu(−relu(y)) does not grow.

A norm of what is linear in p tends to a limit (`Settled`), as a function of it with finite ends does, and what maps and functions make of one such
value: what grows still grows beside it, and times it where that is not 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from screen.calculi.bounds.curves import curve_of
from screen.calculi.bounds.expr import ZERO
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.value import Value
from screen.graph import Node, Ref
from screen.ops.scalars import SCALARS
from screen.structure.dataflow import number
from screen.structure.initial.values import start_of
from screen.structure.sums import terms_of
from screen.structure.types import Norm


@dataclass(frozen=True)
class Growth:
    """How a value grows: with which signs for sure (`both`: as one likes, by the sign of p), and whether every part of it does."""

    plus: bool
    minus: bool
    free: bool = False
    """Linear in p: −p turns every sign."""
    whole: bool = True

    @property
    def turned(self) -> Growth:
        """With the other sign."""
        return replace(self, plus=self.minus, minus=self.plus)


@dataclass(frozen=True)
class Settled:
    """A value tends to a limit that is not 0: everywhere where it is `whole`, somewhere where it is not. `few`: to one of a few numbers, the ends of
    a function, which a sum may make 0."""

    whole: bool = True
    few: bool = False


FREE = Growth(True, True, True)
RISES, FALLS, SOMEHOW = Growth(True, False), Growth(False, True), Growth(False, False)
LOST = "lost"
State = Growth | Settled | str | None
"""None: it stays; `LOST`: it depends on p in a way that is not followed."""


def state_of(walk: Walk, node: Node, states: dict[int, State]) -> State:
    moved = [i for i in dict.fromkeys(walk.flow.counting[node.index]) if states.get(i) is not None]
    if not moved:
        return None
    if (norm := walk.branch.norms.by_node.get(node.index)) is not None:
        return _normed(walk, norm, states, moved)
    if node.shape is None and node.op not in _SEVERAL:
        return LOST
    terms = terms_of(walk.flow, node.index, walk.branch.members)
    if terms is not None:
        return _summed(walk, [(states.get(i), c, i) for i, c in terms.items()])
    if any(states[i] == LOST for i in moved):
        return _curved(walk, node, states)
    if any(isinstance(states[i], Settled) for i in moved):
        return _beside_settled(walk, node, states, moved)
    rule = _RULES.get(node.op) or _BY_CLASS.get(walk.flow.classes[node.index])
    found = LOST if rule is None else rule(walk, node, states, moved)
    found = _ended(walk, node, states[moved[0]]) if found == LOST and len(moved) == 1 else found
    return _curved(walk, node, states) if found == LOST else found


def _normed(walk: Walk, norm: Norm, states: dict[int, State], moved: list[int]) -> State:
    """A norm of what is linear in p, or has settled: of more than two entries, where nothing else of it moves (a gain)."""
    state = states.get(norm.source)
    linear = isinstance(state, Growth) and state.free and state.whole
    kept = norm.size > 2 and all(walk.flow.data[i] for i in moved)
    return Settled() if kept and (linear or state == Settled()) else LOST


def _ended(walk: Walk, node: Node, state: State) -> State:
    """A function with finite ends of what grows: at its upper one, where some of it does so; at both, where none of them is 0."""
    shape = SCALARS[node.op].shape if node.op in SCALARS else None
    if shape is None or not shape.is_bounded or not shape.rising or not isinstance(state, Growth) or not state.plus:
        return LOST
    return Settled(state.whole and shape.low != 0.0, few=True) if shape.high else LOST


def _beside_settled(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """What is made of a value that has settled, of several of them, or of one beside one that grows."""
    operands = [i for i in walk.flow.counting[node.index] if walk.flow.is_float(walk.graph.nodes[i])]
    if _is_nothing(walk, node.index) or any(_is_nothing(walk, i) for i in operands):
        return LOST
    settled, growing = [s for i in moved if isinstance(s := states[i], Settled)], [i for i in moved if isinstance(states[i], Growth)]
    if not growing:
        return _from_settled(walk, node, settled)
    if len(settled) > 1 or len(growing) > 1 or node.op not in ("add", "sub", "mul"):
        return LOST
    state, other = states[growing[0]], next(i for i in moved if i != growing[0])
    assert isinstance(state, Growth)
    if node.op != "mul":
        return _sum(walk, node, {**states, other: None}, growing)
    whole = state.whole and settled[0].whole
    if len(operands) != 2 or not (state.whole or settled[0].whole):
        return LOST
    sign = _sign(walk, other)
    if sign == 0 or not settled[0].whole:
        return replace(SOMEHOW, whole=whole)
    return replace(state if sign > 0 else state.turned, free=False, whole=whole)


def _from_settled(walk: Walk, node: Node, settled: list[Settled]) -> State:
    """Of values that settle alone: maps, views and functions of one, a sum of one with what stays, a product of several without a 0."""
    kind, one = walk.flow.classes[node.index], settled[0]
    if node.op == "mul" and all(s.whole and not s.few for s in settled):
        return Settled()
    if len(settled) > 1:
        return LOST
    if kind == "view" or (kind == "part" and one.whole):
        return one
    if kind == "weighted" or walk.flow.weighted[node.index]:
        return Settled()
    if one.few:
        return LOST
    if node.op in SCALARS:
        return Settled(one.whole and node.op not in _CUT)
    return Settled() if kind == "softmax" or node.op in ("add", "sub") else LOST


def _curved(walk: Walk, node: Node, states: dict[int, State]) -> State:
    """A function of one value that grows: by its ends."""
    curve = curve_of(walk, node.index) if node.shape is not None else None
    state = states.get(curve.root) if curve is not None else None
    if curve is None or not isinstance(state, Growth):
        return LOST
    low, high = curve.extent(walk).rises
    ends = {sign for there, sign in ((state.minus, low), (state.plus, high)) if there and sign}
    return Growth(1 in ends, -1 in ends, False, state.whole) if ends else LOST


# -- rules ----------------------------------------------------------------------------------------------------------------------------


def _is_nothing(walk: Walk, index: int) -> bool:
    """Whether a value is 0 everywhere, as far as is known: zeros, and buffers that are recorded as such."""
    found = walk.value(index)
    if isinstance(found, Value) and (found.norm() is ZERO or found.low == found.high == 0.0):
        return True
    flow = walk.flow
    return not flow.data[index] and not flow.of_weights[index] and start_of(walk.graph, index) == 0.0


def _sign(walk: Walk, index: int) -> int:
    found = walk.value(index)
    if not isinstance(found, Value):
        return 0
    return 1 if found.low >= 0 else -1 if found.high <= 0 else 0


def _first(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Views: what they are views of; indices that move are not followed."""
    state = states.get(node.inputs[0])
    return state if moved == [node.inputs[0]] and isinstance(state, Growth) else LOST


def _part(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Some entries: of what grows everywhere; or all of them, in other axes."""
    state, source = _first(walk, node, states, moved), walk.graph.nodes[node.inputs[0]].shape
    everything = source is not None and node.shape is not None and math.prod(source) == math.prod(node.shape)
    return state if isinstance(state, Growth) and (state.whole or everything) else LOST


def _joined(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Side by side: with all signs that one of them has."""
    found = [s for i in moved if isinstance(s := states[i], Growth)]
    whole = len(set(node.inputs)) == len(moved) and all(s.whole for s in found)
    return Growth(any(s.plus for s in found), any(s.minus for s in found), all(s.free for s in found), whole)


def _summed(walk: Walk, terms: list[tuple[State, float, int]]) -> State:
    """One term that grows beside others that stay, or several of one sign."""
    moved = [s if c > 0 else s.turned for s, c, _ in terms if isinstance(s, Growth)]
    if any(s == LOST for s, _, _ in terms) or not moved:  # what settles may cancel
        return LOST if any(s is not None for s, _, _ in terms) else None
    if len(moved) == 1:
        return moved[0]
    rises = all(s.plus and not s.minus for s in moved)
    falls = all(s.minus and not s.plus for s in moved)
    return RISES if rises else FALLS if falls else LOST


def _sum(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    alpha = number(walk.flow.operand(node, 2, "alpha")) if node.kwarg("alpha") is not None else 1.0
    if alpha is None or alpha == 0.0:
        return LOST
    factors = (1.0, -alpha if node.op == "sub" else alpha)
    sides = [(states.get(a.node), f, a.node) for a, f in zip(node.args[:2], factors, strict=False) if isinstance(a, Ref)]
    return _summed(walk, sides)


def _times(walk: Walk, state: Growth, other: int | None, value: float | None) -> State:
    """What grows times a number or times what stays."""
    if other is None:
        return LOST if not value else state if value > 0 else state.turned
    if _is_nothing(walk, other):
        return LOST
    sign = _sign(walk, other)
    if state.free or sign > 0:
        return state
    if sign < 0:
        return state.turned
    return replace(SOMEHOW, whole=state.whole) if not walk.flow.of_weights[other] else replace(FREE, free=False, whole=state.whole)


def _product(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Entry by entry, or contracted."""
    operands = [i for i in walk.flow.counting[node.index] if walk.flow.is_float(walk.graph.nodes[i])]
    if len(moved) == 1 and operands.count(moved[0]) == 1:
        state = states[moved[0]]
        assert isinstance(state, Growth)
        others = [i for i in operands if i != moved[0]]
        if len(others) > 1:
            return LOST
        value = next((v for a in node.args if (v := number(a)) is not None), None)
        return _times(walk, state, others[0] if others else None, value)
    if len(moved) == 1 and operands == moved * 2 and node.op == "mul":
        return RISES
    pair = [states[i] for i in moved]
    one_is_free = any(isinstance(s, Growth) and s.free and s.whole for s in pair)
    return SOMEHOW if len(pair) == 2 and node.op == "mul" and one_is_free and all(isinstance(s, Growth) for s in pair) else LOST


def _map(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """A map by weights: of what grows by what stays, of what stays by a weight that grows; a bias beside it."""
    place = {"addmm": 0, "baddbmm": 0, "embedding": None, "grouped_mm": None}.get(node.op, 2)
    bias = walk.flow.ref(node, place, "bias") if place is not None and node.op not in ("matmul", "mm", "bmm") else None
    operands = [i for i in walk.flow.counting[node.index] if walk.flow.is_float(walk.graph.nodes[i])]
    core = [i for i in operands if i != bias]
    growing = [i for i in core if states.get(i) is not None]
    if bias is not None and states.get(bias) is not None:
        return states[bias] if not growing else LOST
    if len(core) == len(growing) == 2 and walk.flow.classes[node.index] == "product":  # q·k, both linear in p
        return SOMEHOW if all(isinstance(s := states[i], Growth) and s.free and s.whole for i in growing) else LOST
    if len(growing) != 1 or any(_is_nothing(walk, i) for i in core if i not in growing):
        return LOST
    state = states[growing[0]]
    assert isinstance(state, Growth)
    others = [i for i in core if i not in growing]
    if not others:
        return state
    if any(walk.flow.of_weights[i] or walk.flow.is_chosen_weight(i) for i in others):
        return FREE if state.free else Growth(True, True)
    return state if state.free or all(_sign(walk, i) > 0 for i in others) else SOMEHOW


def _quotient(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Over a number or what stays."""
    above = node.args[0]
    if not isinstance(above, Ref) or moved != [above.node] or node.kwarg("rounding_mode") is not None:
        return LOST
    state, below = states[above.node], node.args[1] if len(node.args) > 1 else None
    assert isinstance(state, Growth)
    return _times(walk, state, below.node if isinstance(below, Ref) else None, number(below))


def _attention(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Rows of weights that are not negative and sum to 1, times the values."""
    value = walk.flow.ref(node, 2, "value")
    return states[value] if value is not None and moved == [value] else LOST


def _rising(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Functions that go to +∞ with their argument."""
    state = states[moved[0]]
    assert isinstance(state, Growth)
    return replace(RISES, whole=False) if len(moved) == 1 and state.plus else LOST


def _even(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    state = states[moved[0]]
    return replace(RISES, whole=isinstance(state, Growth) and state.whole) if len(moved) == 1 else LOST


def _odd(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    state = states[moved[0]]
    return replace(state, free=False) if isinstance(state, Growth) and len(moved) == 1 else LOST


def _power(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    k = number(walk.flow.operand(node, 1, "exponent"))
    if k is None or k <= 0 or len(moved) != 1:
        return LOST
    return (_odd if k % 2 else _even)(walk, node, states, moved) if k == int(k) else _rising(walk, node, states, moved)


def _reduced(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Sums, means: not of what was made to have none."""
    return _first(walk, node, states, moved)


def _largest(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    state = states[moved[0]]
    found = isinstance(state, Growth) and len(moved) == 1 and len(node.inputs) == 1 and (state.plus if node.op == "amax" else state.minus)
    return (RISES if node.op == "amax" else FALLS) if found else LOST


def _clamp(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Cut off at one end."""
    low = None if node.op == "clamp_max" else walk.flow.operand(node, 1, "min")
    high = None if node.op == "clamp_min" else walk.flow.operand(node, 2 if node.op == "clamp" else 1, "max")
    state = states[moved[0]]
    if moved != [node.inputs[0]] or not isinstance(state, Growth) or (low is not None and high is not None):
        return LOST
    return (RISES if state.plus else LOST) if high is None else (FALLS if state.minus else LOST)


def _extreme(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """The larger or smaller of what grows and what stays: cut off at one end."""
    state, others = states[moved[0]], [i for i in node.inputs if i != moved[0]]
    if len(node.args) != 2 or len(others) != 1 or len(moved) != 1 or not isinstance(state, Growth):
        return LOST
    upper = node.op in ("maximum", "max")
    return (RISES if state.plus else LOST) if upper else (FALLS if state.minus else LOST)


def _chosen(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    """Where a mask that stays says so."""
    floats = [i for i in moved if walk.flow.is_float(walk.graph.nodes[i])]
    state = states[moved[0]] if len(floats) == len(moved) == 1 else LOST
    return replace(state, whole=False) if isinstance(state, Growth) else LOST


def _written(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    floats = [i for i in moved if walk.flow.is_float(walk.graph.nodes[i])]
    found = [s for i in floats if isinstance(s := states[i], Growth)]
    if len(floats) != len(moved) or not found:
        return LOST
    return Growth(all(s.plus for s in found), all(s.minus for s in found), False, False) if len(found) == 1 else LOST


def _same(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    return states[moved[0]] if len(moved) == 1 else LOST


def _negated(walk: Walk, node: Node, states: dict[int, State], moved: list[int]) -> State:
    state = states[moved[0]]
    return state.turned if isinstance(state, Growth) else LOST


Rule = Callable[[Walk, Node, dict[int, State], list[int]], State]
_CUT = frozenset({"relu", "relu6", "hardsigmoid", "hardswish", "softshrink", "hardshrink"})
"""Functions that are 0 on a part of the line."""
_SEVERAL = frozenset({"split", "chunk", "unbind", "split_with_sizes", "tensor_split"})
_RULES: dict[str, Rule] = {
    "add": _sum,
    "sub": _sum,
    "mul": _product,
    "div": _quotient,
    "true_divide": _quotient,
    "neg": _negated,
    "square": _even,
    "abs": _even,
    "pow": _power,
    "scaled_dot_product_attention": _attention,
    "sum": _reduced,
    "mean": _reduced,
    "cumsum": _reduced,
    "amax": _largest,
    "amin": _largest,
    "norm": _even,
    "vector_norm": _even,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    **dict.fromkeys(("maximum", "minimum", "max", "min"), _extreme),
    "where": _chosen,
    "masked_fill": _chosen,
    "alias": _same,
    "reciprocal": lambda *_: LOST,
    "outer": _product,
    "cdist": _even,
    **dict.fromkeys(("relu", "gelu", "silu", "softplus", "elu", "selu", "celu", "mish", "hardswish", "sqrt", "exp", "exp2", "expm1"), _rising),
    **dict.fromkeys(("leaky_relu", "prelu", "tanhshrink", "softshrink", "hardshrink", "asinh"), _odd),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "linear", "embedding", "addmm", "baddbmm", "grouped_mm"), _map),
    **dict.fromkeys(("matmul", "mm", "bmm"), _map),
    **dict.fromkeys(("long", "int", "imag"), lambda *_: LOST),
    **dict.fromkeys(("tril", "triu"), _chosen),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"), _reduced),
}
_BY_CLASS: dict[str, Rule] = {"view": _first, "part": _part, "join": _joined, "write": _written}


__all__ = ["FREE", "LOST", "Growth", "Settled", "State", "state_of"]
