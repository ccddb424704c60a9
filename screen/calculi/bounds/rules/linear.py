"""Maps by weights, and products of values.

For out = W·x over the atoms K of x (J: rows): with K inside of a fact's I and O, ‖out‖ over J (and what else the fact speaks of) is at most
‖W‖₂ times it, and |out| at most the largest row; a fact that does not speak of K passes with the largest row ℓ1 (Minkowski).
"""

from __future__ import annotations

import math
from dataclasses import replace

from screen.calculi.bounds.arrays import matrix_of, vector_of
from screen.calculi.bounds.axes import Layout, atoms, plain, sizes
from screen.calculi.bounds.broadcast import Aligned, align
from screen.calculi.bounds.expr import Expr, mul, num, sym
from screen.calculi.bounds.head_products import logit_facts, through
from screen.calculi.bounds.interpreter import NotUnderstood, Spread, Walk, row
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, Facts, is_zero, plus, query, relabel, tidy, zero
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.pointwise import added
from screen.calculi.bounds.products import product
from screen.calculi.bounds.value import Projection, Value, permuted, recut, renamed, reshaped, scaled, spread_of, with_projection
from screen.graph import Node
from screen.structure.types import Unknown


@row("linear")
def linear(walk: Walk, node: Node) -> Value:
    """x Wᵀ + b, W: [out, in]."""
    x, w, b = walk.first(node), walk.operand(node, 1, "weight"), walk.operand(node, 2, "bias")
    if not isinstance(w, Value) or len(w.shape) != 2:
        raise NotUnderstood("a weight that is no matrix")
    return mapped(walk, x, w, b if isinstance(b, Value) else None)


def mapped(walk: Walk, x: Value, w: Value, bias: Value | None, jump: int | None = None) -> Value:
    """x Wᵀ + b over the last axis; W: [out, in]."""
    if x.holes:
        raise NotUnderstood("a map of a masked value")
    if w.part is None and w.operator is not None:
        made = _constrained(walk, x, w)
        return added(walk, made, bias) if bias is not None else made
    if w.part is None or w.part.shift:
        made = multiplied_matrices(walk, x, permuted(w, (1, 0)))
        return added(walk, made, bias) if bias is not None else made
    size = w.shape[0]
    layout: Layout = (*x.layout[:-1], (size,) if size != 1 else ())
    shape = (*x.shape[:-1], size)
    flat = sizes(layout)
    made = Value(shape, layout, _through(walk, x, x.mag, w.part, layout), _through(walk, x, x.der, w.part, layout), jump=x.jump)
    part = bias.part if bias is not None and bias.part is not None and bias.shape == (size,) and not bias.part.shift else None
    rows = atoms(layout, -1)
    if part is not None and bias is not None:  # the facts of W·x alone plus those of b
        made = replace(made, mag=plus(made.mag, _as_last(bias, layout), flat))
    if rows:
        made = with_projection(made, _projected(walk, x, w.part, part, rows), walk.names)
    sharp = _through_heads(walk, x, w.part, part, rows) if part is not None or bias is None else None
    if sharp is not None and not isinstance(made.mag, Unknown):
        made = replace(made, mag=instead(made.mag, sharp, flat))
    if bias is not None and part is None:
        made = added(walk, made, bias)
    return made


def _projected(walk: Walk, x: Value, weight: Part, bias: Part | None, rows: tuple[int, ...]) -> Projection:
    """W x + b; of a norm's output with the gain and the bias of the norm folded in (T5)."""
    known, columns = x.normed, weight.sizes[1]
    plain_gain = known is None or (known.gain is None and not known.centred)
    small = columns < 2 or weight.sizes[0] < 2
    fixed = weight.fold is not None or weight.parameter in walk.names.buffers  # more is known of it than of a map of trained weights
    if known is None or isinstance(known.slope, Unknown) or fixed or small or (plain_gain and known.bias is None):
        return Projection(weight, bias, rows, x.norm(-1), x.slope(-1))
    map_ = weight if plain_gain else matrix_of(weight, known.gain, known.centred)
    constant = bias if known.bias is None else vector_of(weight, known.bias, bias)
    return Projection(map_, constant, rows, num(known.radius), known.slope)


def _through_heads(walk: Walk, x: Value, weight: Part, bias: Part | None, rows: tuple[int, ...]) -> Facts | None:
    """W (A z + a) + b of what an attention mixed, head by head (`head_products`)."""
    want = atoms(x.layout, -1)
    if x.mixture is None or not rows or not want:
        return None
    return through(weight, bias, x.mixture, want, tuple(x.flat[a] for a in want), rows, walk.names)


def instead(facts: Facts, sharp: Facts, flat: tuple[int, ...]) -> Facts:
    """Facts with some in the place of those that speak of the same norm."""
    keys = {f.key for f in sharp}
    return tidy([*sharp, *(f for f in facts if f.key not in keys)], flat)


def _constrained(walk: Walk, x: Value, w: Value) -> Value:
    """x Wᵀ for a W that is computed from weights, by its spectral norm, its largest row and its largest row ℓ1."""
    assert w.operator is not None
    size = w.shape[0]
    layout: Layout = (*x.layout[:-1], (size,) if size != 1 else ())
    plain_w = recut(w, plain(w.shape), w.shape, walk.names)
    columns = plain_w.axis(-1)
    if isinstance(plain_w.mag, Unknown):
        return Value((*x.shape[:-1], size), layout, plain_w.mag, plain_w.mag, jump=x.jump)
    norms = (w.operator, query(plain_w.mag, plain_w.flat, columns), query(plain_w.mag, plain_w.flat, columns, NONE, 1))
    return Value((*x.shape[:-1], size), layout, _mapped(x, x.mag, norms, layout), _mapped(x, x.der, norms, layout), jump=x.jump)


def _as_last(bias: Value, layout: Layout) -> Bound:
    last = atoms(layout, -1)
    return relabel(bias.mag, {i: last[i] for i in range(min(len(bias.flat), len(last)))})


def _through(walk: Walk, x: Value, bound: Bound, part: Part, layout: Layout) -> Bound:
    if isinstance(bound, Unknown):
        return bound
    if is_zero(bound):
        return zero(len(sizes(layout)))
    experts = "s" * (len(part.sizes) - 2)
    spectral, largest_row, row_sum = (sym(walk.names.symbol(part, experts + roles)) for roles in ("rc", "sc", "sa"))
    return _mapped(x, bound, (spectral, largest_row, row_sum), layout)


def _mapped(x: Value, bound: Bound, norms: tuple[Expr, Expr, Expr], layout: Layout) -> Bound:
    """x Wᵀ, from (spectral norm, largest row, largest row ℓ1) of W."""
    if isinstance(bound, Unknown):
        return bound
    if is_zero(bound):
        return zero(len(sizes(layout)))
    spectral, largest_row, row_sum = norms
    columns, rows = x.axis(-1), frozenset(atoms(layout, -1))
    size = query(bound, x.flat, columns)
    found = [Fact(mul(spectral, size), rows), Fact(mul(largest_row, size))]
    for f in bound:
        reach = f.inner | f.outer
        if columns <= reach and f.p == 2 and reach != columns:
            found.append(Fact(mul(spectral, f.bound), (f.inner - columns) | rows, f.outer - columns))
        elif not columns & reach and reach:
            found.append(Fact(mul(row_sum, f.bound), f.inner, f.outer, f.p))
    return tidy(found, sizes(layout))


@row("addmm")
def addmm(walk: Walk, node: Node) -> Value:
    """b + x W, W: [in, out]."""
    b, x, w = walk.first(node), walk.operand(node, 1, "mat1"), walk.operand(node, 2, "mat2")
    if not isinstance(x, Value) or not isinstance(w, Value) or node.kwarg("beta") not in (None, 1) or node.kwarg("alpha") not in (None, 1):
        raise NotUnderstood("factors that are not 1")
    if w.part is not None and len(w.shape) == 2 and is_zero(w.der):
        return mapped(walk, x, permuted_part(walk, w), b)
    return added(walk, multiplied_matrices(walk, x, w), b)


def permuted_part(walk: Walk, w: Value) -> Value:
    """Wᵀ as a part of the parameter."""
    return permuted(w, (1, 0))


@row("matmul bmm mm")
def matmul(walk: Walk, node: Node) -> Value:
    """a b over the last axis of a and the last but one of b."""
    a, b = walk.first(node), walk.operand(node, 1, "other", "mat2")
    if not isinstance(b, Value):
        raise NotUnderstood("its second operand is no tensor")
    if b.part is not None and len(b.shape) == 2 and len(a.shape) >= 2:
        both = composed(walk, a, b) if a.operator is not None else None
        if both is not None:
            return both
        return mapped(walk, a, permuted_part(walk, b), None)
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise NotUnderstood("a product with a vector")
    if b.operator is not None and len(b.shape) == 2:
        return composed(walk, a, b) or mapped(walk, a, permuted(b, (1, 0)), None)
    return multiplied_matrices(walk, a, b, weighed(walk, a, b, walk.flow.ref(node, 1, "other", "mat2")))


@row("grouped_mm")
def grouped(walk: Walk, node: Node) -> Value:
    """Each row of x by one of the matrices W[e]: [in, out]; the largest of their norms, whichever it is."""
    x, w = walk.first(node), walk.operand(node, 1, "mat2")
    if not isinstance(w, Value) or w.part is None or w.part.shift or len(w.shape) != 3 or len(x.shape) != 2 or node.kwarg("bias") is not None:
        raise NotUnderstood("a form that is not covered")
    layout: Layout = (x.layout[0], (w.shape[2],) if w.shape[2] != 1 else ())
    part = w.part.permuted((0, 2, 1))
    return Value((x.shape[0], w.shape[2]), layout, _through(walk, x, x.mag, part, layout), _through(walk, x, x.der, part, layout), jump=x.jump)


@row("baddbmm")
def baddbmm(walk: Walk, node: Node) -> Value:
    """beta·c + alpha·a b."""
    c, a, b = walk.first(node), walk.operand(node, 1, "batch1"), walk.operand(node, 2, "batch2")
    beta, alpha = walk.operand(node, 3, "beta"), walk.operand(node, 4, "alpha")
    if not isinstance(a, Value) or not isinstance(b, Value) or isinstance(beta, Value) or isinstance(alpha, Value):
        raise NotUnderstood("operands that are not known")
    made = multiplied_matrices(walk, a, b)
    made = scaled(made, alpha) if alpha is not None and alpha != 1.0 else made
    return made if beta == 0.0 else added(walk, made, c if beta in (None, 1.0) else scaled(c, beta))


def weighed(walk: Walk, a: Value, v: Value, node: int | None) -> Value | None:
    """The vectors that rows of a weigh, up to a constant, where each row sums to 1 (T10): δa v = δa (v − c), and at a point ‖δa v‖ is at most
    ‖δa‖₁ · ½diam(v). A symbol `spread_i` stands for ½diam, with the norms of v over heads and features as its bound."""
    if is_zero(a.der) or not a.balanced or a.balanced != a.axis(-1) or isinstance(v.mag, Unknown) or len(v.shape) < 3 or node is None:
        return None
    facts = spread_of(v, walk.names)
    assert not isinstance(facts, Unknown)
    heads = frozenset(x for axis in range(1, len(v.shape) - 2) for x in atoms(v.layout, axis))
    symbol = f"spread_{len(walk.spreads)}"
    walk.spreads.append(Spread(symbol, node, query(facts, v.flat, v.axis(-1), heads)))
    sharp = Fact(sym(symbol), v.axis(-1), heads)
    return replace(v, mag=tidy([sharp, *(f for f in facts if f.key != sharp.key)], v.flat), projection=None)


def multiplied_matrices(walk: Walk, a: Value, b: Value, spread: Value | None = None) -> Value:
    """Σ_k a[…, i, k] b[…, k, j], batch axes broadcast; `spread`: b as `weighed` has it."""
    if a.holes or b.holes:
        raise NotUnderstood("a product with a masked value")
    wide_a = reshaped(a, (*a.shape, 1), walk.names)  # […, i, k, 1]
    wide_b = reshaped(b, (*b.shape[:-2], 1, *b.shape[-2:]), walk.names)  # […, 1, k, j]
    found = align(wide_a, wide_b, walk.names)
    if found is None or a.shape[-1] != b.shape[-2]:
        raise NotUnderstood("shapes that do not fit")
    rank = len(found.layout)
    contracted = frozenset(atoms(found.layout, rank - 2))
    out = tuple(i for i in range(len(found.flat)) if i not in contracted)
    layout = (*found.layout[: rank - 2], found.layout[rank - 1])
    shape = (*_broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    flats = (found.left.flat, found.right.flat)

    def times_(x: Bound, y: Bound) -> Bound:
        return product(x, y, found.labels[0], found.labels[1], flats, contracted, out, sizes(layout))

    left, right = found.left, found.right
    moved = right.mag if spread is None else _aligned_like(walk, wide_a, spread, b.shape).mag
    der = plus(times_(left.der, moved), times_(left.mag, right.der), sizes(layout))
    low = 0.0 if a.low >= 0 and b.low >= 0 else float("-inf")
    jump = a.jump if a.jump is not None else b.jump
    after = "biased" if a.after and b.after else ""  # a factor of the logits of normed queries and keys is a gain of theirs
    made = Value(shape, layout, times_(left.mag, right.mag), der, low, jump=jump, after=after)
    if a.balanced and a.balanced == a.axis(-1) and a.low >= 0:
        return replace(made, mixture=renamed(right.projection, {i: out.index(at) for i, at in enumerate(found.labels[1]) if at in out}))
    return _paired(walk, made, found, contracted)


def _paired(walk: Walk, made: Value, found: Aligned, contracted: frozenset[int]) -> Value:
    """Entries of q·k, where both are maps of the same heads (`head_products`)."""
    q, k = found.left.projection, found.right.projection
    if q is None or k is None or isinstance(made.mag, Unknown) or isinstance(made.der, Unknown):
        return made
    labels = [[names[a] for a in p.atoms] for p, names in zip((q, k), found.labels, strict=True)]
    sharp = logit_facts(q, k, (labels[0], labels[1]), contracted, walk.names)
    if sharp is None:
        return made
    mag, der = sharp
    moved = made.der if isinstance(der, Unknown) or is_zero(made.der) else instead(made.der, der, made.flat)
    return replace(made, mag=instead(made.mag, mag, made.flat), der=moved)


def _aligned_like(walk: Walk, wide_a: Value, spread: Value, shape: tuple[int, ...]) -> Value:
    """The spread on the atoms of the product."""
    found = align(wide_a, reshaped(spread, (*shape[:-2], 1, *shape[-2:]), walk.names), walk.names)
    assert found is not None
    return found.right


def composed(walk: Walk, a: Value, b: Value) -> Value | None:
    """A product of two matrices that are made of weights alone: spectral norms multiply."""
    sides = [sym(walk.names.symbol(v.part, "rc")) if v.part is not None and not v.part.shift else v.operator for v in (a, b)]
    if len(a.shape) != 2 or len(b.shape) != 2 or sides[0] is None or sides[1] is None or not (is_zero(a.der) and is_zero(b.der)):
        return None
    return constrained((a.shape[0], b.shape[1]), mul(sides[0], sides[1]))


def constrained(shape: tuple[int, ...], operator: Expr) -> Value:
    """A matrix made of weights, known by its spectral norm: no row, no column and no entry is larger, all of it at most √rank times that."""
    layout = plain(shape)
    count = len(sizes(layout))
    facts = [Fact(operator, frozenset(atoms(layout, 0))), Fact(operator, frozenset(atoms(layout, 1))), Fact(operator)]
    facts.append(Fact(mul(num(math.sqrt(min(shape))), operator), frozenset(range(count))))
    return Value(shape, layout, tidy(facts, sizes(layout)), zero(count), operator=operator)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    wide = [(1,) * (rank - len(s)) + s for s in (a, b)]
    return tuple(max(m, n) if 0 not in (m, n) else 0 for m, n in zip(*wide, strict=True))
