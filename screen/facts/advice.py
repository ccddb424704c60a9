"""What to write, with the numbers of the model at hand: code for remedies of rules. A formula is used only where its assumptions apply; None, or the
general words, where a number is not known."""

from __future__ import annotations

import math
from typing import Literal

from screen.calculi.analysis import sure
from screen.calculi.bounds import Expr
from screen.calculi.meanfield import Ends, Recursion, with_smaller_weights
from screen.facts.queries import (
    MODEST, branches, claim_of, do_logits_stay, gain_of, has_softmax, is_input_bounded, only_beside_grows, reader_of,
    unbounded_softmax,
)  # fmt: skip
from screen.facts.record import Facts
from screen.facts.self_division import cone
from screen.graph import Graph
from screen.structure.logits import FUSED, PRODUCTS, added
from screen.structure.streams.build import feature_axis
from screen.structure.types import Stream, Sublayer, Unknown
from screen.theorems.depth_scale import deepnorm

ONE_KEY = 50.0
"""Root mean square of logits at which a softmax holds on one key, however many there are: Gaussian logits do so from √(2·ln n) on, 3.9 for 2,048 keys
and 6.4 for 10⁹ (random energy model, Derrida 1981). Our own choice, far beyond both."""
SMALLER, BETTER = (0.5, 0.25), 0.9
"""How much smaller weights are tried, and the share of a logarithm from which down they help (conventions)."""
ONCE = "skips that carry the stream on once, by a multiplier of 1"
LOGITS_STAY = {
    "attention": "bounded-logits", "router": "bounded-router", "pooling": "bounded-pooling", "memory": "bounded-memory", "table": "bounded-weights",
}  # fmt: skip
"""What logits are for -> the condition under which they do no harm."""
MADE_OF_STREAM = {
    "attention": "small-stream", "router": "small-stream-of-router", "pooling": "small-stream-of-pooling", "memory": "small-stream-of-memory",
    "table": "bounded-weights",
}  # fmt: skip
"""The same of logits that grow with a stream which nothing bounds for them."""
NORM_BESIDE = "a norm on what the part that is added to the logits is made of"
"""Advice where that part grows with the stream, and products of queries and keys do not."""
MODULES = {"layernorm": "nn.LayerNorm", "rmsnorm": "nn.RMSNorm"}


def condition_on_logits(facts: Facts, sublayer: Sublayer, *, grow: bool = False) -> str:
    """The condition under which logits do no harm that nothing bounds, or that `grow` with the stream (`screen.verdict.conditions`)."""
    return (MADE_OF_STREAM if grow else LOGITS_STAY)[unbounded_softmax(facts, sublayer)]


def unnormed(facts: Facts, stream: Stream) -> list[Sublayer]:
    """Branches that read the stream without a norm, and are not bounded however large it is."""
    return [s for k in stream.kinds for s in k.sublayers if "A" not in s.positions and is_input_bounded(facts, s) is not True]


def steadier(facts: Facts, stream: Stream) -> tuple[str, tuple[str, ...]]:
    """(what may bring the gradients of the first block and the last one nearer to each other, the changes that are one of it); empty where nothing
    of it is left to do. What skips multiply over the whole depth is left as it is by norms in branches, and by how weights start; a branch without
    weights that reads the stream itself is a part of that. Smaller weights make all gradients alike where nothing else multiplies the stream."""
    raw, gain = unnormed(facts, stream), gain_of(facts, stream)
    bare = [s for s in raw if s.m.maps == 0]
    if isinstance(gain, float) and not 1 / MODEST <= gain <= MODEST:
        return ("a norm on the input of a branch that has no weights", ("norms-before",)) if bare and gain > 1 else (ONCE, ())
    options = {"a norm on the branch's input": "norms-before"} if raw else {}
    if any(has_softmax(facts, s) is True and s.qk_norm == "none" and _helps(facts, s) for s in raw):
        options["on queries and keys"] = "qk-norm"
    said = [", or ".join(options)] if options else []
    subs = [s for k in stream.kinds for s in k.sublayers]
    scaled = any(s.m.maps != 0 and ("B" not in s.positions or has_softmax(facts, s) is True) for s in subs)
    if isinstance(gain, float) and not bare and scaled and smaller_helps(facts, stream):
        said.append("smaller initial weights")
    return "; or ".join(said), tuple(options.values())


def smaller_helps(facts: Facts, stream: Stream, of: Literal["gradients", "tokens"] = "gradients") -> bool:
    """Whether with a half or a quarter of the weights the first block and the last get gradients of sizes that are nearer to each other, or, where
    these are near as it is, the stream grows less; or tokens stay farther apart. By the recursion of each: what is not derived is not proposed."""
    found, reader = facts.recursion(stream), reader_of(facts, stream)
    if isinstance(found, Unknown) or reader is None:
        return False
    norms = reader.chains.edges.norms.by_node
    harm = _unlike if of == "gradients" else _alike
    before = harm(found)
    for times in SMALLER if before is not None else ():
        after = harm(sure(with_smaller_weights, stream, facts.graph, facts.depth(stream), times, streams=facts.streams, norms=norms))
        if after is not None and before is not None and after < BETTER * before:
            return True
    return False


def _unlike(found: Recursion | Ends | Unknown) -> float | None:
    """The larger logarithm of how much gradients of the first block and the last one differ, and of how much the stream grows."""
    if isinstance(found, Unknown) or found.predicted_ratio == math.inf:
        return None if isinstance(found, Unknown) else math.inf
    if isinstance(found.gradient_ratio, Unknown) or min(found.gradient_ratio, found.predicted_ratio) <= 0:
        return None
    return max(abs(math.log(found.gradient_ratio)), math.log(found.predicted_ratio))


def _alike(found: Recursion | Ends | Unknown) -> float | None:
    """How far tokens have come together, in logarithms of 1 − cos."""
    apart = found if isinstance(found, Unknown) else found.one_minus_cos
    return None if isinstance(apart, Unknown) else -math.log(max(apart, 1e-300))


def _helps(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether logits of the branch may grow with the stream, and not by what is added to products of queries and keys alone."""
    return do_logits_stay(facts, sublayer) is not True and not only_beside_grows(facts, sublayer)


def norm_of(facts: Facts, stream: Stream, node: int, value: str) -> tuple[str, str]:
    """(`norm(x)`, `nn.LayerNorm(96)`): how a value that is laid out as `node` is normed over the features of each of its places, by the norm that
    the stream has elsewhere; `norm(x.movedim(1, -1)).movedim(-1, 1)` where its features are not the last axis."""
    types = [norm.type for kind in stream.kinds for s in kind.sublayers for place, norm in s.norms if place in ("A", "B", "C")]
    name = next((MODULES[t] for t in types if t in MODULES), MODULES["layernorm"])
    axis = _feature_axis(facts, stream, node)
    width = "width" if axis is None else (facts.graph.nodes[node].shape or ())[axis]
    last = axis is None or axis == len(facts.graph.nodes[node].shape or ()) - 1
    return f"norm({value})" if last else f"norm({value}.movedim({axis}, -1)).movedim(-1, {axis})", f"{name}({width})"


def _feature_axis(facts: Facts, stream: Stream, node: int) -> int | None:
    """Which axis of a value, counted from 0, holds the stream's features: what is read of it, else what is of that size; None where none is."""
    shape, reader = facts.graph.nodes[node].shape or (), reader_of(facts, stream)
    found = [axis for axis, size in enumerate(shape) if size == stream.width]
    if len(found) < 2:
        return found[0] if found else None
    layout = None if reader is None else reader.chains.edges.norms.features.layouts[node]
    held = [axis for axis in found if layout is not None and layout.sure and layout.any(axis - len(shape))]
    if len(held) == 1:
        return held[0]
    if reader is not None and len(shape) == len(facts.graph.nodes[stream.states[-1]].shape or ()):
        return feature_axis(reader) % len(shape) if feature_axis(reader) % len(shape) in found else found[-1]
    return found[-1]


def head_width(facts: Facts, sublayer: Sublayer) -> int | None:
    """Features of a query that its logits are sums over; None where they are not one number."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown):
        return None
    cores = [s for s in analysis.bounds.softmaxes if s.role == "attention"]
    widths = {_summed(facts.graph, product) for s in cores for product in (s.product, *s.summed) if product is not None}
    return widths.pop() or None if len(widths) == 1 else None


def _summed(graph: Graph, product: int) -> int:
    """The size of the axis over which queries are compared with keys; 0 where that is not read."""
    node = graph.nodes[product]
    source = node.inputs[0] if node.op in FUSED else node.inputs[-2] if node.op in PRODUCTS else None
    return 0 if source is None else (graph.nodes[source].shape or (0,))[-1]


def added_to_logits(facts: Facts, sublayer: Sublayer) -> str:
    """Words for what stands beside queries and keys in the logits of an attention, which is no part of their size at the start; empty where nothing
    is added to them."""
    analysis = facts.analysis(sublayer)
    softmaxes = [] if isinstance(analysis, Unknown) else [s.node for s in analysis.bounds.softmaxes if s.role == "attention"]
    return ", before what is added to them (a mask, or a bias of positions)" if any(added(facts.graph, n) for n in softmaxes) else ""


def qk_norm_code(facts: Facts, sublayer: Sublayer) -> str:
    """`q, k = norm_q(q), norm_k(k)` with the norm over a head where that is known."""
    width = head_width(facts, sublayer)
    return f"norms on queries and keys, `q, k = norm_q(q), norm_k(k)`{f' with `nn.RMSNorm({width})` each' if width else ''}"


def is_divided_by_root(facts: Facts, stream: Stream, sublayer: Sublayer, head: int | None) -> bool:
    """Whether the root of the head's width divides the logits: by a fused call's own scale, or by a number in the branch."""

    def is_root(value: object) -> bool:
        known = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        return bool(head) and known and abs(abs(math.log(float(value))) - math.log(head or 1) / 2) < 0.01  # type: ignore[arg-type]

    for index in cone(facts, [sublayer.output], set(stream.states)):
        node = facts.graph.nodes[index]
        scale = node.kwarg("scale")
        if node.op in FUSED and (is_root(scale) if scale is not None else len(node.args) < 7):
            return True
        if node.op in ("mul", "div", "baddbmm") and any(map(is_root, (*node.args[:2], node.kwarg("alpha")))):
            return True
    return False


def logit_start(facts: Facts, sublayer: Sublayer) -> tuple[float, bool] | None:
    """(root mean square of the logits at the start in the block where they are largest, whether that was measured in one draw of the weights); None
    where it is not known."""
    claim = claim_of(facts, sublayer, "logit_rms", "start")
    if not isinstance(claim.known, float):
        return None
    return (claim.high, True) if claim.measured is not None and claim.high else (max(claim.known, claim.high or 0.0), claim.measured is not None)


def logit_growth(facts: Facts, sublayer: Sublayer) -> tuple[float, str, float] | None:
    """(root mean square of the logits at the start in the block where they are largest, whether that is `measured` in one draw of the weights or
    `derived` for random ones, the factor on W_Q and on W_K at which it is `ONE_KEY`). None where that start is not known, or where the logits are
    not made of two maps, of degree 1 in each."""
    analysis, size = facts.analysis(sublayer), logit_start(facts, sublayer)
    if isinstance(analysis, Unknown) or size is None or sublayer.qk_norm != "none":
        return None
    start, measured = size
    bounds = analysis.bounds
    under = set[str]().union(*(bounds.plain(e).symbols() for e in bounds.logits if isinstance(e, Expr)))
    read = {q.parameter for q in bounds.quantities if q.symbol in under}
    maps = [d for d in analysis.degrees.groups if d.status == "bound" and d.predicted > 0 and (d.parameters[0] in read or not read)]
    matrices = all(sum(size > 1 for size in facts.graph.parameters[d.parameters[0]].shape or ()) > 1 for d in maps)
    if len(maps) != 2 or not matrices or any(d.predicted != 1 for d in maps) or not 0 < start < ONE_KEY:
        return None
    return start, "measured" if measured else "derived", math.sqrt(ONE_KEY / start)


def deepnorm_code(facts: Facts, stream: Stream) -> tuple[str, str] | None:
    """(α, β) as `2.21` and `(8·6)^(-1/4) = 0.38`; None where the stream is not made of blocks of two sublayers with a norm on each sum, or another
    one is read beside it (an encoder and its decoder share other constants)."""
    plain = all(len(k.sublayers) == 2 and all("C" in s.positions and s.role != "cross_attention" for s in k.sublayers) for k in stream.kinds)
    plain = plain and not any(s.norm_on_skip for k in stream.kinds for s in k.sublayers)
    if not plain or len(facts.streams) > 1 or not stream.kinds:
        return None
    depth = facts.depth(stream)
    alpha, beta = deepnorm(depth)
    return f"(2·{depth})^(1/4) = {alpha:.3g}", f"(8·{depth})^(-1/4) = {beta:.3g}"


def depth_scaled(facts: Facts, stream: Stream, base: float) -> str | None:
    """`std=0.02/√(2·12) = 0.00408` for the last map of each branch. None where a norm divides it out, or where no map ends one."""
    subs = [s for k in stream.kinds for s in k.sublayers]
    if base <= 0 or any("B" in s.positions or "C" in s.positions for s in subs):
        return None
    names = [name for s in subs if (name := last_map(facts, s)) is not None]
    if len(names) != len(subs):
        return None
    count, depth = branches(facts, stream), facts.depth(stream)
    root = f"(2·{depth})" if count == 2 * depth else f"{count}"
    shown = ", ".join(f"`{n}`" for n in dict.fromkeys(_short(n) for n in names))
    return f"`std={base:.3g}/√{root} = {base / math.sqrt(count):.3g}` for {shown}"


def last_map(facts: Facts, sublayer: Sublayer) -> str | None:
    """The weight that ends the branch's smallest product."""
    analysis = facts.analysis(sublayer)
    if isinstance(analysis, Unknown) or not analysis.degrees.orders.smallest_path:
        return None
    return analysis.degrees.orders.smallest_path[-1].partition("[")[0]


def _short(parameter: str) -> str:
    """`c_proj` of `h.0.mlp.c_proj.weight`; a name that says nothing but a place keeps what stands before it."""
    words = parameter.removesuffix(".weight").split(".")
    return ".".join(words[-2:] if words[-1].isdigit() else words[-1:])


__all__ = [
    "NORM_BESIDE", "ONCE", "ONE_KEY", "added_to_logits", "condition_on_logits", "deepnorm_code", "depth_scaled", "head_width", "is_divided_by_root",
    "last_map", "logit_growth", "logit_start", "norm_of", "qk_norm_code", "smaller_helps", "steadier", "unnormed",
]  # fmt: skip
