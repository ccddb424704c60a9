"""Values divided by, or times a function of, a size of themselves: u · g(ρ(u)), where the size ρ is known to be no less than a norm of u.

Where ‖u‖ over some axes is at most c ρ^(1/k) (`Hold`), ‖u g(ρ)‖ is at most c sup ρ^(1/k)|g(ρ)|, and `ranges` proves the supremum: y/(|y| + ε),
x · min(1, r/|x|), y/(1 + |y|²), a projection on a ball, a norm whose ε is a softplus, the same by the largest token, by a matrix norm, or over the
rows of a weight. With |δσ| <= s ‖δu‖ for σ = ρ^(1/k), the derivative is at most (sup|g| + c s k sup ρ|g'(ρ)|) ‖δu‖.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from screen.calculi.bounds.expr import mul, num
from screen.calculi.bounds.holds import Hold, Subject, holds_of, subject_of
from screen.calculi.bounds.interpreter import ROWS, NotUnderstood, Walk
from screen.calculi.bounds.meet import met
from screen.calculi.bounds.mixed_norms import NONE, Bound, Fact, is_zero, query, tidy
from screen.calculi.bounds.pointwise import added, by_number, multiplied
from screen.calculi.bounds.ranges import ROOT, Scalar
from screen.calculi.bounds.rules.linear import mapped
from screen.calculi.bounds.scalars import extent
from screen.calculi.bounds.scalars import num as constant
from screen.calculi.bounds.terms import FUNCTIONS, RESHAPES, arguments, compared, others_move, term_of
from screen.calculi.bounds.value import Value
from screen.graph import Node, Ref
from screen.structure.dataflow import number
from screen.structure.norms.find import is_image
from screen.structure.types import Unknown

DEPTH, MOST = 10, 60


@dataclass(frozen=True)
class Ray:
    """u · g(ρ): the node of u as it stands, the term of g, and other factors."""

    node: int
    term: Scalar
    others: tuple[int, ...] = ()
    factors: tuple[int, ...] = ()
    """The nodes of g(ρ)."""
    moves: bool = False
    """Another value that depends on the stream stands in g."""
    image: int | None = None
    """The node is a linear map of u, token by token: W(u)·g(ρ) = W(u·g(ρ))."""


Memo = dict[tuple[int, int], Ray | None]
"""(node, depth) -> what `_ray` says of it, of one size and one subject."""


def radial(walk: Walk, node: Node) -> Value | None:
    """The value of a product, a quotient, a sum or a choice of such; None where it is none."""
    if node.op not in ("mul", "div", "true_divide", "multiply", "add", "sub", "where", "minimum", "maximum") or node.shape is None:
        return None
    found: Value | None = None
    for size, holds in _sizes(walk, node.index):
        subjects = dict.fromkeys(h.subject for h in holds)
        for subject in subjects:
            ray = _ray(walk, node.index, subject, size, DEPTH, {})
            if ray is None or ray.term == constant(1.0) or set(ray.others) & set(node.inputs):  # a product with what is known already
                continue
            shape = walk.graph.nodes[ray.node].shape or ()
            kept = [h for h in holds if h.subject == subject and all(_is_aligned(walk, f, size, h.frame(shape)) for f in ray.factors)]
            made = _value(walk, ray, kept, max(walk.one(size).low, 0.0), node)
            found = made if found is None else found if made is None else met(found, made, walk.names)
    return found


def _sizes(walk: Walk, index: int) -> list[tuple[int, tuple[Hold, ...]]]:
    """Sizes of values on the way to a node, the nearest first."""
    found: dict[int, tuple[Hold, ...]] = {}
    stack, seen = [(index, 0)], set[int]()
    while stack and len(seen) < MOST:
        here, depth = stack.pop(0)
        if here in seen or depth > DEPTH or (here not in walk.branch.members and not walk.flow.of_weights[here]):
            continue
        seen.add(here)
        holds = holds_of(walk, here)
        if holds and here != index:
            found[walk.behind(here)] = holds
        stack.extend((i, depth + 1) for i in walk.graph.nodes[here].inputs)
    return list(found.items())


def _ray(walk: Walk, index: int, subject: Subject, size: int, depth: int, memo: Memo) -> Ray | None:
    """A node as u · g(ρ)."""
    index = walk.behind(index)
    if (index, depth) not in memo:  # a product of a value with itself asks twice, and so does each below it
        memo[index, depth] = _made(walk, index, subject, size, depth, memo)
    return memo[index, depth]


def _made(walk: Walk, index: int, subject: Subject, size: int, depth: int, memo: Memo) -> Ray | None:
    if subject in (subject_of(walk, index), (index, None)):
        return Ray(index, constant(1.0))
    node = walk.graph.nodes[index]
    if subject[1] is None and walk.flow.data[index] and is_image(walk.flow, index, subject[0]):
        return Ray(subject[0], constant(1.0), image=index)
    given = arguments(node, walk) if depth and node.op in FUNCTIONS else None
    if given is None or not walk.flow.depends(index, size):
        return _scaled(walk, given, node, subject, size, depth, memo) if given is not None else None
    if node.op in ("add", "sub"):
        return _joined(walk, given, node.op, subject, size, depth, memo)
    if node.op == "where" and len(given) == 3:
        mask = _factor(walk, given[0], size)
        both = _joined(walk, given[1:], "where", subject, size, depth, memo)
        if mask is None or both is None or not isinstance(given[0], Ref):
            return None
        return replace(both, term=("where", mask, *both.term[1:]), factors=(*both.factors, given[0].node))
    return _scaled(walk, given, node, subject, size, depth, memo)


def _joined(walk: Walk, given: list[object], op: str, subject: Subject, size: int, depth: int, memo: Memo) -> Ray | None:
    rays = [_ray(walk, a.node, subject, size, depth - 1, memo) if isinstance(a, Ref) else None for a in given]
    if len(rays) != 2 or rays[0] is None or rays[1] is None or (rays[0].node, rays[0].others) != (rays[1].node, rays[1].others):
        return None
    return replace(rays[0], term=(op, rays[0].term, rays[1].term), factors=(*rays[0].factors, *rays[1].factors))


def _scaled(walk: Walk, given: list[object], node: Node, subject: Subject, size: int, depth: int, memo: Memo) -> Ray | None:
    """u · g times or over one more factor."""
    if node.op == "neg" and isinstance(given[0], Ref):
        inner = _ray(walk, given[0].node, subject, size, depth - 1, memo)
        return None if inner is None else replace(inner, term=("neg", inner.term))
    if node.op not in ("mul", "multiply", "div", "true_divide") or len(given) != 2:
        return None
    sides = [(given[0], given[1])] if node.op.endswith(("div", "divide")) else [(given[0], given[1]), (given[1], given[0])]
    for carried, factor in sides:
        ray = _ray(walk, carried.node, subject, size, depth - 1, memo) if isinstance(carried, Ref) else None
        if ray is None:
            continue
        term = _factor(walk, factor, size)
        if term is not None:
            moves = isinstance(factor, Ref) and walk.flow.depends(factor.node, size)
            factors = (*ray.factors, factor.node) if isinstance(factor, Ref) and moves else ray.factors
            other = isinstance(factor, Ref) and others_move(walk, factor.node, size)
            return replace(ray, term=("mul" if len(sides) == 2 else "div", ray.term, term), factors=factors, moves=ray.moves or other)
        if len(sides) == 2 and isinstance(factor, Ref):
            return replace(ray, others=(*ray.others, factor.node))
    return None


def _factor(walk: Walk, argument: object, size: int) -> Scalar | None:
    """A factor as a term in ρ: a number, or a function of ρ, or what has known ends of one sign."""
    if not isinstance(argument, Ref):
        value = number(argument)
        return None if value is None else constant(value)
    if not walk.flow.depends(argument.node, size):
        found = walk.value(argument.node)
        plain = isinstance(found, Value) and not found.holes and (found.low >= 0 or found.high <= 0) and not found.gain
        return ("num", found.low, found.high) if plain and isinstance(found, Value) else None
    return term_of(walk, argument.node, size, views=True)


def _is_aligned(walk: Walk, index: int, size: int, frame: tuple[int, ...], below: bool = False, depth: int = 2 * DEPTH) -> bool:
    """Whether every way from a node down to the size passes its frame: the shape in which each u finds its own size."""
    here = walk.behind(index)
    node, shape = walk.graph.nodes[here], walk.graph.nodes[here].shape
    if here == size:
        return below or shape == frame or shape == ()
    if not depth or not node.inputs or (below and shape != walk.graph.nodes[size].shape and node.op not in RESHAPES | {"getitem"}):
        return False
    if node.op in RESHAPES | {"getitem"} and not below:
        if shape == frame:
            below = True
        elif node.op not in ("expand", "expand_as", "broadcast_to"):
            return False
    ways = [i for i in node.inputs[: 1 if node.op in RESHAPES else None] if walk.flow.depends(i, size)]
    return all(_is_aligned(walk, i, size, frame, below, depth - 1) for i in ways)


def _value(walk: Walk, ray: Ray, holds: list[Hold], least: float, node: Node) -> Value | None:
    """Bounds of u · g(ρ), times the other factors."""
    u = walk.one(ray.node)
    facts = [] if u.holes else [f for h in holds if (f := _fact(u, h, ray.term, least)) is not None]
    if not facts:
        return None
    top = max((_top(h, ray.term, least) for h in holds if not h.axes), default=math.inf)
    made = replace(
        u.bare(),
        mag=tidy(facts, u.flat),
        der=_slope(u, ray, holds, least, node),
        low=-top,
        high=top,
        jump=node.index if compared(ray.term) and not is_zero(u.der) else u.jump,
    )
    if ray.image is not None:
        size = extent(ray.term, least).size
        made = replace(_image(walk, ray.image, ray.node, made, size), low=-math.inf, high=math.inf)
    for other in ray.others:
        made = multiplied(walk, made, walk.one(other))
    return made if made.shape == node.shape else None


def _image(walk: Walk, index: int, u: int, value: Value, size: float) -> Value:
    """W(u) + b times g, for the value of u·g and sup|g|."""
    index = walk.behind(index)
    if index == u:
        return value
    node = walk.graph.nodes[index]
    inner = next(i for i in node.inputs if walk.flow.data[i])
    below = _image(walk, inner, u, value, size)
    if node.op == "linear":
        w, bias = walk.operand(node, 1, "weight"), walk.operand(node, 2, "bias")
        if not isinstance(w, Value) or (isinstance(bias, Value) and not math.isfinite(size)):
            raise NotUnderstood("a map that is not known")
        made = mapped(walk, below, w, None)
        return added(walk, made, replace(by_number(bias, size), part=None)) if isinstance(bias, Value) else made
    before, walk.table[inner] = walk.table[inner], below
    try:
        found = ROWS[node.op](walk, node)
    finally:
        walk.table[inner] = before
    if not isinstance(found, Value):
        raise NotUnderstood("several results where one was expected")
    return found


def _top(hold: Hold, term: Scalar, least: float) -> float:
    """c sup ρ^(1/k)|g(ρ)|."""
    return hold.c * extent(("mul", ("pow", ROOT, 1.0 / hold.degree), term), least).size


def _fact(u: Value, hold: Hold, term: Scalar, least: float) -> Fact | None:
    top = _top(hold, term, least)
    along = frozenset().union(*(u.axis(a) for a in hold.axes)) if hold.axes else NONE
    return Fact(num(top), along) if math.isfinite(top) else None


def _slope(u: Value, ray: Ray, holds: list[Hold], least: float, node: Node) -> Bound:
    """(sup|g| + c · steep · k · sup ρ|g'(ρ)|) ‖δu‖, for ρ = σ^k and |δσ| <= steep · ‖δu‖."""
    if is_zero(u.der):
        return u.der
    lost = Unknown("the slope of a quotient by a size of the value itself", (node.index,))
    if isinstance(u.der, Unknown) or compared(ray.term) or ray.moves:
        return lost
    found = []
    for hold in (h for h in holds if h.axes and math.isfinite(h.steep)):
        own, turned = extent(ray.term, least).size, extent(("mul", ROOT, ("slope", ray.term)), least).size
        along = frozenset().union(*(u.axis(a) for a in hold.axes))
        if math.isfinite(own) and math.isfinite(turned):
            found.append(Fact(mul(num(own + hold.c * hold.steep * hold.degree * turned), query(u.der, u.flat, along)), along))
    return tidy(found, u.flat) if found else lost


__all__ = ["radial"]
