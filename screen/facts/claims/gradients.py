"""How the gradient of the first blocks over that of the last ones goes with depth: by the recursion at the start, or where it has no row for what
stands in a branch, by what the branches read and how their maps start."""

from __future__ import annotations

import math
from collections.abc import Sequence

from screen.calculi.meanfield import Recursion
from screen.calculi.meanfield.far import Far
from screen.facts.claims.slopes import is_renormalised, keeps_slope
from screen.facts.claims.states_read import reads_grown_state
from screen.facts.operator import StreamOperator
from screen.facts.operator.polynomial import Range
from screen.facts.record import Facts
from screen.facts.weight_gains import start_product
from screen.structure.initial.laws import deviation, deviations, fans
from screen.structure.initial.zeros import Zeros
from screen.structure.softmaxes import softmaxes_of, uses_of
from screen.structure.types import Stream, Sublayer, Unknown

FEWEST = 8
"""Blocks from which a rise is looked for."""
FLAT = 3.0
"""First-over-last gradient ratio, or its inverse, up to which the law of depth is called flat (review, T3)."""
LEVEL, SLOPING = 0.1, 0.3
"""Exponents of the gradient ratio over depth up to which it is flat, and from which it is a power; what lies between is not told (convention)."""
HORIZON = 1000
"""Blocks up to which a flat law has to stay one, as far as the last quarter of the blocks shows: the deepest that are trained (convention)."""
GROWN = 30.0
"""Growth of a stream over its depth from which branches that grow with it make gradients exponential sooner or later (convention)."""
MODERATE, EVEN = 4.2, 1e-6
"""Logarithm of what the multipliers of a stream come to over its depth, up to which they may be made for it: 1 + 2/N on both sums of a block gives 4;
and down to which they are nothing."""
ORDINARY = 1e3
"""First-over-last gradient ratio beyond which, or below whose inverse, the law is no power whatever its fit says."""
FELT = 0.15
"""Product of the gains of a branch at the start from which on it moves its stream enough for a power of the depth to be seen (maps by torch's
default: 1/3 of a net, 0.2 of a gated one; normal of 0.02 and 64 features: 0.03)."""
NEAR = 0.03
"""Relative difference up to which a deviation is that of a law, as it is measured of a live module."""
DOUBLING = 0.4
"""Logarithm of a factor in each block from which on it is not made for the depth: 1.5 (1 + 2/N of six blocks and more is less)."""


def law_of_gradients(facts: Facts, stream: Stream, found: Recursion | Unknown, growth: str | Unknown) -> str | Unknown:
    """The law of one stream: of branches that grow with it a large growth is no law of a few blocks yet. `growth`: of its size, at fixed weights."""
    if isinstance(found, Unknown):
        return _by_structure(facts, stream, growth) or found
    subs = [s for k in stream.kinds for s in k.sublayers]
    free = [a for s in subs if not isinstance(a := facts.analysis(s), Unknown) and a.degrees.stream == 0.0]
    law = gradient_law(found)
    if law in ("flat", "power") and len(free) < len(subs) and found.predicted_ratio > GROWN:
        return Unknown(f"the stream grows {found.predicted_ratio:.3g} times, and not every branch moves less as it does")
    if law in ("flat", "power") and (product := next((s for s in subs if s.multiplies_norm), None)) is not None:
        why = f"`{product.name}` multiplies a norm of the stream by what it makes of it: a mean over random weights is no law of one draw"
        return Unknown(why, (product.output,))
    operator = facts.operator(stream)
    if law in ("flat", "power") and isinstance(operator, StreamOperator) and operator.carried == "exponential" and not _is_chain_of_one(operator):
        return Unknown("what blocks carry on is multiplied in every block: at few blocks an exponential looks like a power")
    if isinstance(found.gradient_ratio, Unknown):
        return law
    if not isinstance(found.far, Unknown) and found.far.law != "power":
        return _by_settled(facts, stream, found, found.far, law)
    if law == "exponential" and not isinstance(found.far, Unknown):
        return Unknown("gradients change fast over the first blocks, and like a power of the depth far behind them")
    if found.ratio_law != "polynomial":
        return law
    kept = isinstance(operator, StreamOperator) and (bool(operator.breaks) or operator.carried == "decaying")
    if isinstance(law, str) and isinstance(found.far, Unknown) and kept:
        return Unknown(f"what a block does to gradients far behind the last one is not told: {found.far.reason}")
    if _is_for_depth(facts, subs, found.depth):  # the ratio is the same at every depth
        return "flat" if law == "power" and isinstance(found.gradient_ratio, float) and 1 / FLAT <= found.gradient_ratio <= FLAT else law
    if law == "power":
        return law
    later = size_later(found.rms, found.depth)
    slope = 0.0 if isinstance(found.ratio_exponent, Unknown) else abs(found.ratio_exponent)
    if later <= FLAT or slope < LEVEL / 10:  # or no gradient comes by way of the branches
        return law
    if all(_is_by_width(facts, s) and _is_independent(facts, s) for s in subs):
        return "power"
    return Unknown(f"its {found.depth} blocks show little, the stream goes on growing, and its weights may be made for this depth")


def _by_structure(facts: Facts, stream: Stream, growth: str | Unknown) -> str | None:
    """What holds whatever stands between the norms that branches read and their last matrices: what they read is of one size however large the
    stream is, and what they add comes out of random matrices.

    With gain 1 each block adds to the square of the stream, and of gradients on their way back a part in proportion to its share of it:
    E‖g_l‖² = (1 + c/‖x_l‖²)·E‖g_(l+1)‖², ‖x_l‖² = ‖x_0‖² + s·l, a power of the depth, c/s. A stream that is multiplied in each block multiplies
    gradients as often."""
    operator, subs = facts.operator(stream), [s for k in stream.kinds for s in k.sublayers]
    if not isinstance(operator, StreamOperator) or operator.breaks or operator.clean is not True or not isinstance(operator.start, Range):
        return None
    gain, depth = operator.start.number, facts.depth(stream)
    reads = any(reads_grown_state(facts, stream, k, s) for k in stream.kinds for s in k.sublayers)  # else nothing comes back by way of its branches
    if gain is None or gain <= 0 or not reads or not all(_is_independent(facts, s) for s in subs):
        return None
    if growth == "exponential" and operator.carried == "exponential" and operator.grows:
        return "exponential" if math.log(gain) > min(MODERATE, DOUBLING * depth) else None
    as_it_is = growth == "linear" and operator.carried == "constant" and _starts_at_one(operator)
    return "power" if as_it_is and all(_is_by_width(facts, s) for s in subs) and not _is_for_depth(facts, subs, depth) else None


def _is_independent(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether a branch moves less as the stream grows, and its matrices start as draws that make what it adds neither small nor of one direction. A
    norm at its end gives that a size of its own."""
    scale = sublayer.branch
    if sublayer.multiplies_norm or is_renormalised(sublayer) or keeps_slope(facts, sublayer) or not sublayer.m.maps:
        return False
    if sublayer.alpha.kind not in ("none", "constant"):
        return False
    times = {"none": 1.0, "constant": abs(scale.value or 0.0), "data": 1.0}.get(scale.kind, 0.0)
    product = 1.0 if "B" in sublayer.positions and not Zeros(facts.graph).at_start(sublayer.output) else start_product(facts, sublayer)
    return isinstance(product, float) and math.sqrt(product) * times * _share(facts, sublayer) >= FELT


def _share(facts: Facts, sublayer: Sublayer) -> float:
    """What softmaxes leave of entries that they weigh one by one and do not add up: shares of n sum to 1. A norm behind them gives its own size."""
    analysis, found = facts.analysis(sublayer), 1.0
    if isinstance(analysis, Unknown) or not facts.readers or "B" in sublayer.positions:
        return found
    flow = facts.readers[0].flow
    gates = [s.node for s in analysis.bounds.softmaxes if s.role not in ("attention", "pooling")]
    for softmax in softmaxes_of(flow, gates):
        if any(use.value is not None and not use.sums for use in uses_of(flow, softmax.node)):
            found /= (flow.graph.nodes[softmax.node].shape or (1,))[softmax.axis]
    return found


def _by_settled(facts: Facts, stream: Stream, found: Recursion, far: Far, law: str | Unknown) -> str | Unknown:
    """The law of a stack whose blocks come to do the same to gradients however many there are: exponential, unless that is nothing."""
    if far.law == "untold":
        why = Unknown("what a block does to gradients goes on changing over 200 blocks and more, by no law that is told")
        return law if law == "exponential" or isinstance(law, Unknown) else why
    whole, ratio = abs(math.log(far.factor)) * found.depth, found.gradient_ratio
    within = isinstance(ratio, float) and 1 / FLAT <= ratio <= FLAT
    subs = [s for k in stream.kinds for s in k.sublayers]
    operator = facts.operator(stream)
    if not far.multiplies and isinstance(operator, StreamOperator) and (operator.breaks or operator.carried == "decaying"):
        return Unknown("in mean square over random weights blocks leave gradients as they are, which is no law of one draw: its logarithm may fall")
    if not far.multiplies:
        return "flat" if within else Unknown("gradients differ between the first blocks and the others, and not between those")
    if _is_for_depth(facts, subs, found.depth) and within and whole <= math.log(FLAT):
        return "flat"
    if whole <= math.log(FLAT) or (whole <= MODERATE and _may_be_made(facts, stream, subs, found.depth)):
        return Unknown(f"a block multiplies gradients by {far.factor:.4g} on their way back, and its numbers may be made for this depth")
    return "exponential"


def _may_be_made(facts: Facts, stream: Stream, subs: Sequence[Sublayer], depth: int) -> bool:
    """Whether a number of the code may come from the depth: all multipliers of the stream together give a moderate number (1 + c/N in each block), or
    one is a root of the depth; or weights start smaller by one."""
    operator = facts.operator(stream)
    start = operator.start if isinstance(operator, StreamOperator) else Unknown("")
    gain = start.number if isinstance(start, Range) else None
    if gain is not None and EVEN < abs(math.log(max(gain, 1e-300))) <= MODERATE:
        return True
    numbers = [s.value for sub in subs for s in (sub.alpha, sub.branch) if s.kind == "constant" and s.value]
    return any(_is_root(abs(n), depth) for n in numbers) or any(_starts_smaller(facts, s, depth) for s in subs)


def _is_root(value: float, depth: int) -> bool:
    """Whether a number is the depth, or a small multiple of it, to the power of ±1/4, ±1/2 or ±1."""
    roots = ((times * depth) ** power for times in (0.5, 1, 2, 3, 4, 8) for power in (0.25, 0.5, 1.0))
    return any(math.isclose(value, size, rel_tol=1e-3) or math.isclose(value * size, 1.0, rel_tol=1e-3) for size in roots)


def _is_chain_of_one(operator: StreamOperator) -> bool:
    """Whether a chain whose multipliers are learned starts with gain 1."""
    return operator.is_chain and _starts_at_one(operator)


def _starts_at_one(operator: StreamOperator) -> bool:
    number = operator.start.number if isinstance(operator.start, Range) else None
    return number is not None and abs(number - 1.0) < EVEN


def size_later(rms: Sequence[float], blocks: int) -> float:
    """rms behind `HORIZON` blocks over that behind the first, if each adds to its square what those of the last quarter do: as independent branches
    of a size of their own."""
    squares, n = [size * size for size in rms], len(rms)
    if n < FEWEST or squares[0] <= 0 or not math.isfinite(squares[-1]):
        return math.inf
    late = squares[-1] - squares[-1 - n // 4]
    rise = max(late, 0.0) / (n // 4) * max(HORIZON / blocks - 1, 0) * n
    return math.sqrt((squares[-1] + rise) / squares[0])


def _is_for_depth(facts: Facts, subs: Sequence[Sublayer], depth: int) -> bool:
    """Whether every branch has a factor that is this depth to the power of −1/2 or −1, or starts as if it had: another depth has another."""
    return bool(subs) and all(_has_factor(s, depth) or _starts_smaller(facts, s, depth) for s in subs)


def _is_by_width(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether the matrices of a branch's smallest product start by their own width alone, as torch has it, or a norm stands behind them; another
    number may be made for a depth."""
    analysis, graph = facts.analysis(sublayer), facts.graph
    path = () if isinstance(analysis, Unknown) else analysis.degrees.orders.smallest_path
    names = [p.partition("[")[0] for p in path]
    sides = {name: fans(node.shape or ()) for name in names if (node := graph.parameters.get(name)) is not None}
    starts = (_of_width(deviation(graph.histories.get(name, ()), *two), *two) for name, two in sides.items())
    return all(starts) and len(sides) == len(set(names)) if names else "B" in sublayer.positions


def _of_width(start: float | Unknown, rows: int, columns: int) -> bool:
    """Whether a deviation is that of torch's own layers, of Xavier, Kaiming or LeCun."""
    laws = (1 / (3 * columns), 2 / (rows + columns), 2 / columns, 1 / columns)
    return isinstance(start, float) and any(math.isclose(start, law**0.5, rel_tol=NEAR) for law in laws)


def _has_factor(sublayer: Sublayer, depth: int) -> bool:
    scales = (depth**-0.5, 1.0 / depth, (2 * depth) ** -0.5, 0.5 / depth)
    value = sublayer.branch.value if sublayer.branch.kind == "constant" else None
    return value is not None and any(math.isclose(abs(value), scale, rel_tol=1e-6) for scale in scales)


def _starts_smaller(facts: Facts, sublayer: Sublayer, depth: int) -> bool:
    """Whether the last map of its smallest product starts smaller than the first one by the root of the depth, or of twice as much (GPT-2), and not
    because it reads more."""
    analysis = facts.analysis(sublayer)
    path = () if isinstance(analysis, Unknown) else analysis.degrees.orders.smallest_path
    names = [p.partition("[")[0] for p in (*path[:1], *path[-1:])]
    laws = [deviations(facts.graph, name)[-1:] for name in names]
    if len(path) < 2 or not all(laws) or not laws[0][0]:
        return False
    factor = laws[1][0] / laws[0][0]
    first, last = (fans(facts.graph.parameters[name].shape or ())[1] for name in names)
    by_fan = math.sqrt(first / last)
    return not math.isclose(factor, by_fan, rel_tol=0.1) and any(math.isclose(factor, (k * depth) ** -0.5, rel_tol=0.02) for k in (1, 2))


def gradient_law(found: Recursion | Unknown) -> str | Unknown:
    """How the gradient of the first block over the last goes with depth, by the recursion."""
    if isinstance(found, Unknown):
        return found
    if isinstance(found.gradient_ratio, Unknown):
        return found.gradient_ratio
    if found.depth < 2:
        return Unknown("one block has no law of depth")
    ratio = found.gradient_ratio
    if isinstance(found.ratio_law, Unknown) or isinstance(found.ratio_exponent, Unknown):
        return found.ratio_law
    if found.ratio_law == "exponential" or not 1 / ORDINARY <= ratio <= ORDINARY:
        return "exponential"
    exponent = abs(found.ratio_exponent)
    if exponent <= LEVEL and 1 / FLAT <= ratio <= FLAT:
        return "flat"
    return "power" if exponent >= SLOPING else Unknown(f"between flat and a power: exponent {found.ratio_exponent:.2f} at {found.depth} blocks")


__all__ = ["FEWEST", "FLAT", "HORIZON", "gradient_law", "law_of_gradients", "size_later"]
