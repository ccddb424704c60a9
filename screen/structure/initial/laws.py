"""How large the weights start, from the initialisers that were recorded while the model was built.

The unit is the gain `g`, `g² = σ²·√(rows·columns)` of a matrix whose entries have standard deviation σ: 1 for Xavier on a square matrix,
and about 1/3 in its square for the default of `nn.Linear` (uniform in ±1/√fan_in, so σ² = 1/(3·fan_in)). The geometric mean of the two
sides is taken because a parameter's shape does not say which side is the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from screen.graph import Graph, Initialiser, Node
from screen.ops import CLASSES
from screen.structure.types import Unknown

CARRIES = frozenset({"view", "part", "source", "alias"})
"""Classes of ops that hand on entries of a parameter as they are."""
CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d"})
ADDED = frozenset({"addmm", "baddbmm"})
"""Products whose first operand is added."""
MATRIX = ADDED | {"matmul", "mm", "bmm", "mv", "grouped_mm"}
ZERO = {"zeros_", "zero_"}
SCALED = {"mul_": 1.0, "div_": -1.0}
STEPS: dict[str, Callable[[float, float], float]] = {
    "mul_": lambda a, b: a * b, "div_": lambda a, b: a / b if b else math.nan, "add_": lambda a, b: a + b, "sub_": lambda a, b: a - b,
}  # fmt: skip


def square_gains(graph: Graph, parameters: tuple[str, ...]) -> dict[str, float | Unknown]:
    """g² of each named matrix at its recorded initialisation; `Unknown` when nothing was recorded or its law is not known."""
    wanted = set(parameters)
    histories, nodes = graph.histories, {name: graph.parameters[name] for name in wanted if name in graph.parameters}
    return {name: _square_gain(graph, name, histories.get(name, ()), nodes.get(name)) for name in dict.fromkeys(parameters)}


def _square_gain(graph: Graph, name: str, history: tuple[Initialiser, ...], node: Node | None) -> float | Unknown:
    if not history or node is None or not node.shape or len(node.shape) < 2:
        return Unknown(f"no initialiser of `{name}` was recorded")
    law, sides = deviation(history, *fans(node.shape)), _sides(graph, node)
    if isinstance(law, Unknown) or isinstance(sides, Unknown):
        return law if isinstance(law, Unknown) else sides
    return law**2 * sides


def _sides(graph: Graph, node: Node) -> float | Unknown:
    """√(in·out) of a map; of a convolution its fan-in times √(out/in) channels; of experts in one tensor that of each of them."""
    found = _contraction(graph, node)
    if found is None:
        return Unknown(f"`{node.name}` is no matrix that a product or a convolution contracts", (node.index,))
    reader, operand = found
    shape, read = node.shape or (), graph.nodes[operand].shape or ()
    if reader.op in CONVOLUTIONS:
        channels = (graph.nodes[reader.inputs[0]].shape or (1, 1))[1]
        return math.prod(shape[1:]) * math.sqrt(shape[0] / channels)
    return math.sqrt(math.prod(read)) if _is_whole(read, shape) else math.sqrt(shape[-1] * shape[-2])


def _is_whole(read: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a tensor is contracted as one matrix: [in, heads, size] laid out as [in, out]."""
    return len(read) > 1 and math.prod(read) == math.prod(shape) and math.prod(read[:-2]) == 1


def is_side(graph: Graph, name: str, axis: int) -> bool:
    """Whether an axis of a parameter is one of the sides that its gain counts, and none along which maps stand one behind the other."""
    node = graph.parameters[name]
    found, shape = _contraction(graph, node), node.shape or ()
    if found is None or found[0].op in CONVOLUTIONS or axis >= len(shape) - 2:
        return True
    return _is_whole(graph.nodes[found[1]].shape or (), shape)


def _contraction(graph: Graph, node: Node) -> tuple[Node, int] | None:
    """The first op that contracts a parameter and its operand there, as it is or moved and cut; None where it is added or multiplied by entries."""
    same = {node.index}
    for reader in graph.nodes[node.index + 1 :]:
        places = [p for p, i in enumerate(reader.inputs) if i in same]
        if not places:
            continue
        if CLASSES.get(reader.op) in CARRIES or reader.op == "alias":
            same.add(reader.index)
        elif reader.op in CONVOLUTIONS or reader.op == "linear":
            return (reader, reader.inputs[1]) if 1 in places else None
        elif reader.op in MATRIX:
            return None if reader.op in ADDED and places == [0] else (reader, reader.inputs[places[-1]])
        else:
            return None
    return None


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan_out, fan_in) as `nn.init` counts them."""
    if len(shape) < 2:
        return (shape[0] if shape else 1), (shape[0] if shape else 1)
    return shape[0] * math.prod(shape[2:]), math.prod(shape[1:])


def starting_value(graph: Graph, parameters: tuple[str, ...]) -> float | None:
    """The number that a learned scale starts at: the product of its parameters where each is one constant throughout; else None."""
    values = [starting_value_of(graph.histories.get(name, ())) for name in parameters]
    return math.prod(v for v in values if v is not None) if values and None not in values else None


def starting_value_of(history: tuple[Initialiser, ...]) -> float | None:
    """The value of every entry after all calls; None when they are not all one known number."""
    if partly(history) is not None:
        return None
    value: float | None = None
    for call in history:
        number = _number(call.args, 0, math.nan)
        if call.op in ZERO:
            value = 0.0
        elif call.op in ("fill_", "constant_"):
            value = number
        elif call.op == "one_":
            value = 1.0
        elif value is not None and call.op in STEPS:
            value = STEPS[call.op](value, number)
        else:
            value = None
    return None if value is None or math.isnan(value) else value


def starting_values_of(history: tuple[Initialiser, ...], shape: tuple[int, ...] | None) -> tuple[float, ...] | None:
    """The numbers that a row of a program's numbers starts at: a list of them, or one for all, and others written in some places."""
    first, writes = history[:1], history[1:]
    if not first or shape is None or len(shape) != 1 or (not writes and first[0].op != "values_"):
        return None
    same = starting_value_of(first)
    row = [v for v in first[0].args if isinstance(v, float)] if first[0].op == "values_" else [same] * shape[0] if same is not None else []
    for call in writes:
        place, value = call.args if call.op == "setitem_" and len(call.args) == 2 else (None, None)
        if type(place) is not int or not isinstance(value, int | float) or not -len(row) <= place < len(row):
            return None
        row[place] = float(value)
    return tuple(row) if len(row) == shape[0] else None


def without_zeroed_rows(history: tuple[Initialiser, ...]) -> tuple[Initialiser, ...]:
    """What was done to the entries that no later call sets to zero: the padding row of a table is left out."""
    while len(history) > 1 and not history[-1].whole and (history[-1].op in ZERO or (history[-1].op == "fill_" and history[-1].args[:1] == (0.0,))):
        history = history[:-1]
    return history


def effective(history: tuple[Initialiser, ...]) -> tuple[Initialiser, ...]:
    """The calls that count: from the last one on that set every entry. What went before was overwritten; numbers of one stored table are one."""
    last = max((i for i, call in enumerate(history) if call.whole and call.op not in STEPS and call.op not in SCALED), default=0)
    while last and history[last].op == history[last - 1].op == "rows_":
        last -= 1
    return history[last:]


def numbers_of(history: tuple[Initialiser, ...]) -> tuple[object, ...]:
    """What the random numbers of a parameter are known by: two of one shape with the same are equal, entry by entry. Empty where which ones they are
    was not looked at, or where there are none."""
    calls = effective(history)
    return tuple(c.draw or (c.op, c.args) for c in calls) if any(c.draw for c in calls) else ()


def partly(history: tuple[Initialiser, ...]) -> str | None:
    """The call that changed some entries and not others, since the last one that set them all: `weight[2*d:].mul_(beta)`."""
    return next((call.op for call in effective(history) if not call.whole), None)


def deviations(graph: Graph, parameter: str) -> tuple[float, ...]:
    """σ of one parameter after each recorded call that names a width of its own, in order: torch's default (`uniform_`, by fan) is none, and
    neither is what was measured on a live model."""
    history, node = graph.histories.get(parameter, ()), graph.parameters.get(parameter)
    shape = node.shape if node is not None else None
    if not shape or len(shape) < 2:
        return ()
    found = (deviation(history[: i + 1], *fans(shape)) for i, call in enumerate(history) if call.op not in ("uniform_", "sample_"))
    return tuple(law for law in found if not isinstance(law, Unknown))


def deviation(history: tuple[Initialiser, ...], rows: int, columns: int) -> float | Unknown:
    """σ after all recorded calls, in order; rows = fan_out, columns = fan_in as `nn.init` counts them."""
    if (some := partly(history)) is not None:
        return Unknown(f"`{some}` changed some entries and not others")
    found: float | Unknown = Unknown("no call set the values")
    for call in history:
        if call.op in SCALED:
            factor = _number(call.args, 0, math.nan)
            found = Unknown(f"`{call.op}` by no number") if math.isnan(factor) else _times(found, abs(factor) ** SCALED[call.op])
        else:
            found = _law(call, rows, columns)
    return found


def _law(call: Initialiser, rows: int, columns: int) -> float | Unknown:
    """σ of one call that overwrites: the row of the table of `torch.nn.init` for it."""
    op, args = call.op, call.args
    if op in ZERO or (op in ("fill_", "constant_") and _number(args, 0, math.nan) == 0):
        return 0.0
    if op == "sample_":
        return _number(args, 0, math.nan)
    if op in ("normal_", "trunc_normal_", "uniform_"):
        return _drawn(op, args)
    if op in ("xavier_normal_", "xavier_uniform_"):
        return _number(args, 0, 1.0) * math.sqrt(2 / (rows + columns))
    if op == "orthogonal_":
        return _number(args, 0, 1.0) / math.sqrt(max(rows, columns))
    if op in ("kaiming_normal_", "kaiming_uniform_"):
        slope = _number(args, 0, 0.0)
        return math.sqrt(2 / (1 + slope**2) / columns)
    return Unknown(f"the law of `{op}` is not known")


def _drawn(op: str, args: tuple[object, ...]) -> float | Unknown:
    """σ of a draw around zero; a truncated normal is a little narrower than its parameter: σ²·(1 − 2t·φ(t)/(2Φ(t)−1)), t = cut/σ."""
    one, two = _number(args, 0, 0.0), _number(args, 1, 1.0)
    if (one + two if op == "uniform_" else one) != 0:
        return Unknown(f"`{op}{args}` is not centred at zero")
    if op == "uniform_":
        return abs(two - one) / math.sqrt(12)
    low, high = _number(args, 2, -math.inf), _number(args, 3, math.inf)
    if op == "normal_" or two <= 0 or -low != high or math.isinf(high):
        return two
    cut = high / two
    return two * math.sqrt(1 - 2 * cut * math.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi) / math.erf(cut / math.sqrt(2)))


def _number(args: tuple[object, ...], position: int, default: float) -> float:
    value = args[position] if position < len(args) else default
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def _times(value: float | Unknown, factor: float) -> float | Unknown:
    return value if isinstance(value, Unknown) else value * factor


__all__ = ["CARRIES", "deviation", "deviations", "effective", "fans", "is_side", "partly", "square_gains", "starting_value", "starting_value_of",
           "starting_values_of", "without_zeroed_rows"]  # fmt: skip
