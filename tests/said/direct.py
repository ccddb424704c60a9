"""Functions of the calculi on bare numbers: steps of the recursion, ranges, laws and expressions at their ends, where no model comes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from screen.calculi.bounds import axes, ranges, scalars
from screen.calculi.bounds.arrays import matrix_of, rows_of, share_of, vector_of
from screen.calculi.bounds.expr import Expr, add, largest, mul, num, power, root, rss, smallest, sym
from screen.calculi.bounds.expr.order import at_most
from screen.calculi.bounds.mixed_norms import Fact, query, tidy
from screen.calculi.bounds.parts import Part as View
from screen.calculi.bounds.quantities import Names
from screen.calculi.bounds.rules import rotary
from screen.calculi.bounds.value import Value as Value_
from screen.calculi.bounds.value import constant, of_part, permuted, reshaped, scaled, summed
from screen.calculi.degrees import values as degrees
from screen.calculi.degrees import weight_rows
from screen.calculi.degrees.monomials import CONSTANT, NOTHING, STREAM, single
from screen.calculi.degrees.values import Value
from screen.calculi.meanfield import causal, causal_gradients, forms, tied_weights
from screen.calculi.meanfield.activation_kernels import kernel
from screen.calculi.meanfield.attention import Softmax
from screen.calculi.meanfield.cross_entropy import mean_cross_entropy
from screen.calculi.meanfield.experts import Routing
from screen.calculi.meanfield.far import Far
from screen.calculi.meanfield.first_update import FirstUpdate, Head
from screen.calculi.meanfield.linear_steps import Average, Begin, Join, Part, Shift, Stretch, Sum, Within
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.result import _blame, _root, _slope
from screen.calculi.meanfield.stop import Stop
from screen.calculi.meanfield.transfer import Attend, Entrywise, Fourier, Linear, Mix, Normalise, Product
from screen.graph import Node, Ref
from screen.rule import Site
from screen.rules import depth_scaled_init, output_set_bounded, softmax_over_summed_axis, stream_growth
from screen.structure.axis_order import axis_order
from screen.structure.types import Unknown
from tests import handmade as h
from tests.said.plain import plain

N = 3
STEPS: dict[str, Any] = {
    "linear": Linear(0, 3, 2.0, 3.0, 0.5, ("w",)), "linear, plain": Linear(1, 3, 0.5, 1.5, 0.0, ("w",)),
    "norm": Normalise(2, 3, True, 0.1, 1.5), "norm, not centred": Normalise(2, 3, False, 0.1, 1.5),
    "norm, without eps": Normalise(1, 3, False, 0.0, 2.0), "function": Entrywise(0, 3, kernel("gelu")),
    "product": Product(0, 1, 3, (1.0, 2.0)), "transform": Fourier(1, 3, 3.0), "scale": Stretch(2, 3, -0.5),
    "shift": Shift(2, 3, 0.7, 0.2, 0.3), "sum": Sum((0, 1, 2), 3), "average": Average(2, 3, N), "clamp": Within(0, 3, 20.0, 5),
    "near clamp": Within(0, 3, 2.0, 5), "part": Part(1, 3, 0.25), "join": Join((0, 1), (0.25, 0.75), 3), "begin": Begin(2, 3, 1.5, 7, 0.1),
    "attention": Attend(0, 1, 2, 3, Softmax(4, 0.5, False, N, 1), 9), "causal attention": Attend(0, 1, 2, 3, Softmax(4, 0.5, True, N, 1), 9),
    "attention, places": Attend(0, 1, 2, 3, Softmax(4, 0.5, False, N, 1), 9, ((2, 0.3),)),
    "causal attention, places": Attend(0, 1, 2, 3, Softmax(4, 0.5, True, N, 1), 9, ((2, 0.3),)),
    "experts": Mix(0, (1, 2), 3, Routing(4, 8, lambda u, choice: np.exp(u) / np.exp(u).sum(-1, keepdims=True))),
}  # fmt: skip
"""Each reads some of the slots 0, 1, 2 and writes 3."""
BACK = np.array([[[1.0, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.8]]])
"""Of each position with each other."""
SLOTS = {"some": (Moments(1.5, 0.5), Moments(0.8, 0.8), Moments(2.0, 0.3, 0.6)), "none": (Moments(0.0, 0.0),) * 3}


def step(name: str) -> dict[str, str]:
    """What a step makes of moments and of gradients, of those of each position, of those of an earlier block, and of forms."""
    one, found = STEPS[name], {}
    for of, given in SLOTS.items():
        slots, backs = [*given, Moments(0.0, 0.0)], [Gradient(0.0, 0.0)] * 3 + [Gradient(1.0, 0.4)]
        even = {n: causal.even(m, N) for n, m in enumerate(given)}
        even[1] = (np.linspace(0.5, 1.0, N) * even[1][0], even[1][1])
        earlier = [[*given, given[0]], [*given[1:], given[0], given[1]]]
        pairs = {n: (np.array([m.power, 0.6 * m.power]), np.array([0.3 * m.power, 0.2 * m.power])) for n, m in enumerate(given)}
        for way, made in {
            "forward": lambda s=slots: (one.forward(s), s[3])[1], "backward": lambda s=slots, b=backs: (one.backward(s, b), b[:3])[1],
            "by position": lambda e=even: causal._step(one, e),
            "back by position": lambda e=even: causal_gradients._step(one, e, BACK, np.array([True])),
            "back in silence": lambda e=even: causal_gradients._step(one, e, BACK, np.array([False])),
            "of two times": lambda p=pairs, s=slots, e=earlier: tied_weights._step(one, p, s, e),
            "form": lambda s=slots: forms.extended({0: {0: (1.0, 0.5)}, 2: {0: (0.3, 0.2), 2: (1.0, 1.0)}}, one, s),
        }.items():  # fmt: skip
            found[f"{way}, {of}"] = told(made)
    return found


ODD = (TypeError, IndexError, AttributeError)


def told(made: Callable[[], Any]) -> str:
    """What a call gives, arrays written out, or what it raises."""
    try:
        with np.errstate(all="ignore"):
            return plain(_listed(made()))
    except (Stop, NotImplementedError, ZeroDivisionError, FloatingPointError, ValueError, KeyError, OverflowError, *ODD) as error:
        return f"{type(error).__name__} {error}"


def _listed(found: Any) -> Any:
    if isinstance(found, np.ndarray):
        return [float(x) for x in found.ravel()]
    if isinstance(found, tuple | list) and not isinstance(found, Moments | Gradient):
        return [_listed(x) for x in found]
    return found


def _fars() -> Iterator[Any]:
    for law in ("steady", "power", "untold"):
        for factor in (1.0, 1.001, 1.02, 1.3, 0.97, 0.5):
            far = Far(factor, law, 4096)  # type: ignore[arg-type]
            yield law, factor, far.multiplies, far.is_untold, [far.reaches(ratio) for ratio in (1.5, 10.0, 1e6)]
    for features in (0, 32, 512, 4096):
        yield features, [Far(1.1, "steady", features).is_told_at(blocks) for blocks in (1, 2, 8, 24, 96, 1000)]


def _ends() -> Iterator[Any]:
    yield [_blame(x) for x in (0.0, 1.0, math.inf, math.nan)], [_root(x) for x in ([4.0, 1.0], [0.0, 1.0], [1.0, 0.0], [math.inf, 1.0])]
    for depth in (1, 4, 12):
        yield depth, [_slope([(depth, a), (2 * depth, b)], depth) for a, b in ((1.0, 2.0), (1.0, 0.0), (3.0, 3.0))]
    yield [FirstUpdate(kappa, {}).rate for kappa in (0.0, 2.0, 1e-9)]
    yield [Head(s, w).alike(c, b) for s, w in ((0.0, 1), (2.0, 8), (40.0, 100)) for c, b in ((0.0, 1.0), (0.5, 0.7), (1.0, 1.0))]
    routing = STEPS["experts"].core
    yield routing.at(Moments(0.0, 0.0)), routing.at(Moments(1.0, 0.3)), routing.at(Moments(1.0, 1.0))


ONE: ranges.Scalar = ("num", 1.0, 1.0)
LEFT: dict[str, ranges.Scalar] = {
    "t": ranges.ROOT, "number": ("num", -1.0, 2.0), "t - 1": ("sub", ranges.ROOT, ONE),
    "2 + t²": ("add", ("num", 2.0, 2.0), ("pow", ranges.ROOT, 2.0)),
}  # fmt: skip
RIGHT: dict[str, ranges.Scalar] = {"1/(1 + |t|)": ("div", ONE, ("add", ONE, ("abs", ranges.ROOT))), "-t": ("neg", ranges.ROOT)}
CELLS = [
    ranges.Cells(np.array([0.0, 2.0, 9.0, 0.0, 1e-4]), np.array([0.5, 60.0, math.inf, math.inf, 7e-4]), 1.0),
    ranges.Cells(np.array([0.5, 40.0]), np.array([2.0, math.inf]), -1.0),
]
"""What a term is taken on."""


def law(op: str) -> dict[str, str]:
    """Values and slopes of an op of terms on cells, of some operands."""
    of: dict[str, ranges.Scalar] = {name: (op, x) for name, x in LEFT.items()}
    if op == "where":
        of = {f"{n}, {m}": (op, ("gt", x, y), x, y) for n, x in LEFT.items() for m, y in RIGHT.items()}
    elif op in ("pow", "clamp"):
        more = (0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -2.5) if op == "pow" else ((-1.0, 1.0), (0.0, math.inf), (1.0, 30.0))
        of = {f"{n}, {k}": (op, x, *(k if isinstance(k, tuple) else (k,))) for n, x in LEFT.items() for k in more}
    elif op in PAIRS:
        of = {f"{n}, {m}": (op, x, y) for n, x in LEFT.items() for m, y in RIGHT.items()}
    return {name: plain([told(lambda c=c, t=term: [_written(c, s) for s in scalars.law_of(t)(c)]) for c in CELLS]) for name, term in of.items()}


PAIRS = ("add", "sub", "mul", "div", "maximum", "minimum", "gt")
TERMS = (*scalars.OPS, "pow", "clamp")


def _written(cells: ranges.Cells, span: ranges.Span) -> Any:
    return span.p, span.lo, span.hi, ranges.plain(cells, span).lo, ranges.plain(cells, span).hi


def _expressions() -> Iterator[Any]:
    a, b = sym("A"), sym("B")
    several: dict[str, Expr] = {
        "sum": add(a, mul(num(2.0), b), num(3.0)), "product": mul(num(0.5), a, a, root(b)), "largest": largest(a, b, num(1.0)),
        "smallest": smallest(a, b), "power": power(a, -1.5), "of a product": power(mul(num(4.0), a, b), 0.5),
        "too large": power(num(1e200), 2.0), "over nothing": power(num(0.0), -1.0),
        "too large in a product": power(mul(num(1e200), a), 3.0), "nothing": mul(num(0.0), a), "one": power(a, 0.0),
    }  # fmt: skip
    for name, e in several.items():
        asked = [{"A": x, "B": y} for x, y in ((2.0, 3.0), (0.0, 1.0), (1e250, 1e-250), (1e-250, 0.0), (math.inf, 1.0))]
        yield name, e, e.size, [told(lambda e=e, v=v: (e.lambdify()(v), e.log(v))) for v in asked]


def _orders() -> Iterator[Any]:
    a, b = sym("A"), sym("B")
    w = [sym(f"W0{kind}") for kind in ("_abs", "_row", "", "_rss", "_fro", "_l1")]
    several = [
        *w, a, num(2.0), add(a, num(1.0)), add(a, b, w[0]), add(a, b, w[2]), mul(a, w[1]), mul(a, w[2]), mul(num(2.0), a, w[2]), power(w[1], -1.0),
        power(w[2], -1.0), largest(a, w[1]), largest(a, w[2], b), smallest(w[1], b), smallest(w[2], b, num(3.0)),
        mul(a, power(w[2], -0.5)), num(math.inf),
    ]  # fmt: skip
    for x in several:
        yield x, "".join("01"[at_most(x, y)] for y in several), x.form.top, x.form.bottom
        yield [smallest(x, y) for y in several], [largest(x, y) for y in several], rss(x, a), [add(x, y) for y in several[:9]]


def _parts() -> Iterator[Any]:
    names = Names()
    names.gains.add("g")
    w, whole = View("w", (4, 6), 0, (4, 6), (6, 1)), View("v", (2, 3, 4), 0, (2, 3, 4), (12, 4, 1))
    g, b, long, u = (View(n, (k,), 0, (k,), (1,)) for n, k in (("g", 6), ("b", 4), ("beta", 6), ("u", 4)))
    one, right = View("s", (), 0, (), ()), View("r", (6,), 0, (6,), (1,))
    rng = np.random.default_rng(0)
    values = {p.parameter: rng.standard_normal(p.whole) for p in (w, whole, g, b, long, u, one, right)}
    several = [
        w, w.sliced(0, 1, 3), w.sliced(1, 0, 6, 2), w.permuted((1, 0)), w.sliced(0, 1, 3).sliced(1, 2, 5), w.split(1, (2, 3)),
        whole, whole.dropped(0), whole.inserted(1), g, replace(g, shift=1.0), one, matrix_of(w, g, True),
        matrix_of(w, replace(g, shift=1.0), False), matrix_of(w, None, True),
        vector_of(w, long, b), vector_of(w, long, None), rows_of(w, b), share_of(w, None, None), share_of(w, None, None, one), share_of(w, u, right),
        share_of(w, u, right, one), share_of(w, None, None, None, True), share_of(w, None, None, one, True), matrix_of(w, g, False).sliced(0, 1, 3),
    ]  # fmt: skip
    for part in several:
        count = len(part.sizes)
        roles = {"".join(word[k % 3] for k in range(count)) for word in ("rrr", "src", "sca", "thr", "rcc", "sss")}
        found = [names.symbol(part, r) for r in sorted(roles)]
        made = [names.quantities[n] for n in found]
        yield found, [told(lambda q=q: (q.kind, q.roles, q.heads, q.at_one, q.of(values), q.slices)) for q in made]
        yield part.fold or made[0].measure(values[part.parameter])
        yield [names.coarse.get(n) for n in found], part.read(values).sum(), part.last, part.viewed((8, 3)), part.viewed((24,))
        if part.fold is not None:
            yield part.fold.told, part.fold.fixed, part.fold.proven, [p.parameter for p in part.fold.parts], part.fold.unfolded(part)


def _axes() -> Iterator[Any]:
    several = ((24,), (2, 12), (4, 6), (6, 4), (2, 3, 4), (3, 8), (8, 3), (2, 2, 6))
    for old in several:
        first, last = frozenset({0}), frozenset({len(old) - 1})
        facts = (Fact(sym("A"), first), Fact(sym("B"), last, first - last), Fact(sym("C"), first, p=1))
        for new in several:
            fine = axes.refine(old, new)
            yield old, new, fine, axes.regroup(fine, new), axes.recast(facts, old, new)
    facts = (Fact(sym("A"), frozenset({1})), Fact(sym("B")))
    one = Value_((2, 3, 4), axes.plain((2, 3, 4)), facts, (Fact(sym("C"), frozenset({2})),), -1.0, 2.0)
    names = Names()
    weight = of_part(View("w", (2, 3, 4), 0, (2, 3, 4), (12, 4, 1)), names)
    for made in (one, weight, constant((2, 3, 4), -1.0, 3.0), constant((2, 3, 4), 0.0, math.inf)):
        yield made, [reshaped(made, shape, names) for shape in ((6, 4), (2, 12), (24,), (1, 2, 3, 4))]
        yield permuted(made, (2, 0, 1)), permuted(made, (0, 2, -2)), [scaled(made, k) for k in (-2.0, 0.0, 1.0)], made.length(1)
        yield [made.norm(*a) for a in ((), (-1,), (0, 1))], [made.slope(*a) for a in ((), (-1,))]
        yield summed(made, one), summed(scaled(made, 0.5), made), made.all, made.bare()


WHOLE = ("slice", None, None, None)
VIEWS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("view", ()), ("contiguous", ()), ("add", (1.0,)), ("transpose", (0, 1)), ("transpose", (-1, -2)), ("permute", ((1, 0),)), ("t", ()), ("mT", ()),
    ("movedim", (0, 1)), ("getitem", (0,)), ("getitem", (("slice", 1, 3, None),)),
    ("getitem", ((WHOLE, ("slice", 0, 4, 2)),)), ("getitem", (("...", 1),)),
    ("getitem", ((None, 1),)), ("getitem", ((WHOLE, None),)), ("getitem", (Ref(1),)), ("getitem", ((1, WHOLE),)), ("getitem", ("...",)),
    ("select", (0, 1)), ("select", (-1, 2)), ("narrow", (1, 1, 2)), ("unbind", ()), ("unbind", (1,)), ("split", (2,)), ("split", ((1, 3), 0)),
    ("split", (4, 1)), ("chunk", (2,)), ("chunk", (3, 1)), ("chunk", (4, -1)), ("split_with_sizes", ((2, 4), -1)), ("tensor_split", (2, 0)),
    ("softmax", (1,)), ("gelu", ()), ("glu", (-1,)), ("flip", ((0,),)),
)  # fmt: skip
"""Views of [4, 6]."""


TWO = [Node(3, op, (Ref(0), (4, 6)), (), (4, 6), "float32", 0, "", 0) for op in ("view", "gelu")]


def _views() -> Iterator[Any]:
    rows = np.arange(24).reshape(4, 6)
    for large in (False, True):
        with patch.object(weight_rows, "SMALL", 0 if large else 100):
            for op, more in VIEWS:
                node = Node(3, op, (Ref(0), *more), (), (24,) if op == "view" else (4, 6), "float32", 0, "", 0)
                yield op, more, told(lambda node=node: weight_rows._replay(node, rows)), axis_order(node, 2), rotary._keeps_last(node)
            for of in (rows.T, (rows, rows), rows.reshape(2, 12)):
                yield [told(lambda node=node, of=of: weight_rows._replay(node, of)) for node in TWO]
    yield [weight_rows.features_axis(Node(3, op, (), (), (1, 2, 3, 4), "", 0, "", 0)) for op in ("linear", "conv1d", "conv2d", "conv_transpose1d")]
    yield [weight_rows._text(np.array(x)) for x in ([0, 1, 2], [3], [0, 1, 4, 5, 8, 9], [0, 1, 4, 5, 8], [0, 2, 5], [2, 4, 6], [1, 2, 5, 6, 9, 11])]


def _scales() -> Iterator[Any]:
    """Of rules: what is wrong with the calls that filled a weight, of deviation 1 at first, in eight blocks."""
    laws = [(0.25,), (0.5,), (1.0,), (1.0, 0.25), (0.25, 1.0), (0.25, 0.0625), (0.25, 0.25), (1.0, 0.25, 0.0625), (0.7, 0.175), (0.0,)]
    starts = [(base, depth, acts, normed) for base, depth in ((1.0, 8), (0.0, 8), (1.0, 1), (2.0, 2)) for acts in (0, 1) for normed in (0, 1)]
    for law in (*laws, (0.25, 0.0), (0.3,)):
        yield law, [depth_scaled_init._fault("w", law, base, depth, bool(acts), bool(normed)) for base, depth, acts, normed in starts]
    for now in (1.0, 0.25, 0.125, 0.5, 0.0):
        yield [depth_scaled_init._is_scale_of_logits(now, base, head) for base in (1.0, 0.0) for head in (None, 16, 64)]
    for found in (True, False, Unknown("why")):
        yield output_set_bounded._descends("f", Site("x"), found)
    for shifted in ((False,), (True,), (False, True)):
        yield output_set_bounded._normed_in_block("f", Site("x"), tuple(replace(h.norm(4 + n), shifted=s) for n, s in enumerate(shifted)))
    yield [stream_growth._words(law) for law in ("bounded", "linear", "polynomial", "exponential")]


def _moved() -> Iterator[Any]:
    """Of rules: where the axis of a softmax stands behind an op."""
    before = Node(2, "softmax", (Ref(0), 1), (), (2, 4, 6), "float32", 0, "", 0)
    shapes: tuple[tuple[str, tuple[Any, ...], tuple[int, ...] | None], ...] = (
        ("to", (), (2, 4, 6)), ("to", (), (2, 4, 1)), ("transpose", (1, 2), (2, 6, 4)), ("permute", ((0, 2, 1),), (2, 6, 4)),
        ("permute", (Ref(1),), (2, 6, 4)), ("expand", (), (3, 2, 4, 6)), ("expand", (), (2, 4, 5)),
        ("view", (), (2, 4, 2, 3)), ("view", (), (8, 6)), ("view", (), (2, 2, 2, 6)),
        ("unsqueeze", (), (2, 1, 4, 6)), ("reshape", (), (48,)), ("cumsum", (), (2, 4, 6)), ("to", (), None), ("flatten", (), (2, 24)),
    )  # fmt: skip
    for op, more, shape in shapes:
        node = Node(3, op, (Ref(2), *more), (), shape, "float32", 0, "", 0)
        yield op, shape, [softmax_over_summed_axis._moved(before, node, axis) for axis in (-1, -2, -3)]
    for more in ((1,), (-1,), (2,), (Ref(1),), ()):
        for shape in ((2, 4, 6), None):
            yield softmax_over_summed_axis._axis(Node(3, "softmax", (Ref(0), *more), (("dim", 0),), shape, "float32", 0, "", 0))


def _losses() -> Iterator[Any]:
    for words, spread, own in ((2, 0.5, None), (1000, 3.0, 5.0), (1000, 40.0, None), (9, 0.0, -5.0)):
        yield mean_cross_entropy(words, spread, own)


def _facts() -> Iterator[Any]:
    sizes = (2, 3, 4)
    a, b = sym("A"), sym("B")
    keys = [(inner, outer, p) for inner, outer in (((), ()), ((2,), ()), ((1, 2), ()), ((2,), (1,)), ((2,), (0, 1)), ((0,), (2,))) for p in (1, 2)]
    made = [Fact(a, frozenset(inner), frozenset(outer), p) for inner, outer, p in keys]
    for fact in made:
        yield fact.key, [query((fact,), sizes, inner, outer, p) for inner, outer, p in keys]
        yield tidy((fact, Fact(b, frozenset({2}))), sizes), [tidy((fact, other), sizes) for other in made]


def _degrees() -> Iterator[Any]:
    one = Value(single(STREAM), CONSTANT, {STREAM: (1, True)})
    lost = Value(unknown=Unknown("why", (3,)))
    weighed = Value(single(0), CONSTANT, {0: (1, True), STREAM: None}, under=single(STREAM))
    several = (degrees.CONST, degrees.ZERO, one, weighed, lost, Value(single(0) | single(1), NOTHING, {0: (1, False), 1: (2, True)}))
    for first in several:
        yield degrees.settled(first), degrees.capped(first, 4)
        yield [degrees.powered(first, p, exact=e) for p in (1, 2, Fraction(1, 2)) for e in (True, False)]
        yield [degrees.joined([first, other]) for other in several], [degrees.multiplied(first, other) for other in several]
        yield [degrees.divided(first, other) for other in several], degrees.bounded(first), first.is_constant
    yield degrees.joined([]), degrees.doubt([one, lost, lost]), degrees.capped(Value(frozenset().union(*(single(n) for n in range(500)))), 9)


TOLD: dict[str, Callable[[], Iterator[Any]]] = {
    "far": _fars, "ends": _ends, "expressions": _expressions, "orders": _orders, "parts": _parts, "axes": _axes,
    "views": _views, "scales": _scales, "moved": _moved, "losses": _losses, "facts": _facts, "degrees": _degrees,
}  # fmt: skip


def each(name: str) -> dict[str, str]:
    """What a table of calls gives, line by line."""
    return {f"{n}": plain(_listed(row)) for n, row in enumerate(TOLD[name]())}


SUBJECTS: dict[str, Callable[[], dict[str, str]]] = {
    **{f"step: {name}": lambda name=name: step(name) for name in STEPS},  # type: ignore[misc]
    **{f"law: {op}": lambda op=op: law(op) for op in TERMS},  # type: ignore[misc]
    **{name: lambda name=name: each(name) for name in TOLD},  # type: ignore[misc]
}  # fmt: skip

__all__ = ["SUBJECTS"]
