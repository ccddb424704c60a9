"""From facts to claims: every statement about a model is made here, once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from screen.calculi.bounds import BranchBounds
from screen.calculi.bounds.boundedness import INPUTS, survives
from screen.calculi.bounds.expr import Expr
from screen.calculi.bounds.interpreter import TABLE
from screen.calculi.bounds.quantities import at_start
from screen.calculi.bounds.softmax import SoftmaxBound
from screen.calculi.meanfield import Recursion
from screen.facts.beyond import WRITTEN
from screen.facts.claims.claim import Claim, ClaimKind, Claims, Weights, linked, numbered
from screen.facts.claims.gradients import FEWEST, law_of_gradients
from screen.facts.claims.states_read import moving_inputs, reads_grown_state
from screen.facts.claims.totals import growth_with_totals
from screen.facts.operator import StreamOperator
from screen.facts.operator.polynomial import Range
from screen.facts.operator.steps import StateBound
from screen.facts.record import Facts
from screen.structure.norms.find import place_of
from screen.structure.types import Kind, Stream, Sublayer, Tri, Unknown

SEVERAL = 6
"""Blocks of a stream from which one at an end that is like no other is taken to stand there once, and not at every so many blocks (convention)."""
STRAIGHT = 1.3
"""How much more than twice as much all blocks may add as the first half does."""
USEFUL = 1e3
"""Bound of a branch, in rms, from which on it is none to rely on (convention; peri-normed branches have 1)."""
SIZES, SLACK = (1e3, 1e5, 1e7), 1e-3
"""Sizes of the stream between which a bound that has a limit gains no more than this part of itself: the hundredth root of the size gains a tenth."""


def claims_of(facts: Facts) -> Claims:
    """All claims about one model, in data-flow order."""
    found: list[Claim] = []
    for number, stream in enumerate(facts.streams):
        operator = facts.operator(stream)
        found += _of_stream(facts, stream, operator, number)
        for kind in stream.kinds:
            for sublayer in kind.sublayers:
                found += _of_sublayer(facts, stream, kind, sublayer)
    found += [*_of_model(facts), *growth_with_totals(facts, found)]
    return Claims(linked(numbered(found)))


def _of_stream(facts: Facts, stream: Stream, operator: StreamOperator | Unknown, number: int) -> Iterator[Claim]:
    gain = operator if isinstance(operator, Unknown) else operator.start
    yield _gain(facts, stream.name, gain)
    fixed = growth(facts, stream, operator, all_weights=False)
    yield _of_law(facts, stream, "fixed", fixed)
    yield _of_law(facts, stream, "all", growth(facts, stream, operator, all_weights=True))
    yield from _at_start(facts, stream, fixed)


def _gain(facts: Facts, stream: str | None, gain: Range | Unknown) -> Claim:
    """Of a stream over its depth, or of the model: of all streams that begin as one, up to their sum."""
    claim = Claim("identity_gain", "start", "proved", stream=stream)
    if isinstance(gain, Unknown):
        return _unknown(facts, claim, gain)
    if gain.number is not None:
        return replace(claim, value=gain.number, low=gain.number, high=gain.number)
    if not math.isfinite(gain.high):
        return _unknown(facts, claim, Unknown("the stream is multiplied by what has no bound"))
    return replace(
        claim, value=None, low=gain.low, high=gain.high, status="unknown", reason="it depends on gates or on how parts of the stream overlap"
    )


def _of_law(facts: Facts, stream: Stream, weights: str, law: str | Unknown) -> Claim:
    claim = Claim("growth", weights, "proved", stream=stream.name)  # type: ignore[arg-type]
    return (
        _unknown(facts, claim, law)
        if isinstance(law, Unknown)
        else replace(claim, value=law, high=_reach(facts, stream) if law == "bounded" else None)
    )


def _reach(facts: Facts, stream: Stream) -> float | None:
    """The largest size of a bounded state at weights of one, in rms, where states have bounds of their own."""
    found = [facts.state_bounds.get((s.add, s.output)) for k in stream.kinds for s in k.sublayers]
    sizes = [b.size / math.sqrt(stream.width or 1) for b in found if b is not None and b.size is not None]
    return max(sizes, default=None)


def growth(facts: Facts, stream: Stream, operator: StreamOperator | Unknown, *, all_weights: bool) -> str | Unknown:
    """Size against depth: `bounded`, `linear`, `polynomial`, `exponential`, as an upper law; `exponential` where the identity path alone is."""
    if isinstance(operator, Unknown):
        ends = [facts.state_bounds.get((s.add, s.output)) for k in stream.kinds for s in k.sublayers[-1:]]
        last = facts.state_bounds.get((stream.states[-1],))
        normed = (ends and all(b and b.always is True for b in ends)) or (last is not None and last.always is True)
        return "bounded" if stream.cuts and normed else operator
    if isinstance(operator.clean, Unknown) or operator.breaks:
        return _by_states(facts, stream, operator, all_weights)
    if all_weights and operator.grows and growth(facts, stream, operator, all_weights=False) == "exponential":
        return "exponential"
    if operator.trained and all_weights:
        return Unknown("weights are added to the stream itself: a bias, or a table")
    if (lost := _lost_branch(facts, stream, all_weights)) is not None:
        return lost
    carried = operator.carried
    if isinstance(carried, Unknown):
        if all_weights or operator.carried_at_start not in ("decaying", "constant", "polynomial"):
            return carried
        carried = operator.carried_at_start
    if carried == "exponential":
        return "exponential" if operator.grows else Unknown("what carries the stream on may make it grow exponentially, and need not")
    if operator.convex or carried == "decaying":
        return "bounded"
    if len(stream.kinds) > 1 and (larger := rising(facts, stream)) is not None:
        return larger
    return "linear" if carried == "constant" else "polynomial"


def rising(facts: Facts, stream: Stream) -> Unknown | None:
    """Whether what later blocks add is larger and larger: blocks that differ in a number. Their bounds at weights of one are added up."""
    layers = sorted(((layer, kind) for kind in stream.kinds for first, last in kind.layers for layer in range(first, last + 1)), key=lambda at: at[0])
    if len(layers) < FEWEST:
        return None
    sizes = {k.id: math.fsum(_added(facts, s) for s in k.sublayers) for k in stream.kinds}
    total, sums = 0.0, list[float]()
    for _, kind in layers:
        total += sizes[kind.id]
        sums.append(total)
    if sums[-1] <= STRAIGHT * 2 * max(sums[len(sums) // 2 - 1], 1e-300):
        return None
    return Unknown("blocks differ in a number, and what later ones add is larger", (stream.kinds[-1].sublayers[-1].output,))


def _added(facts: Facts, sublayer: Sublayer) -> float:
    bounds = _bounds(facts, sublayer)
    if isinstance(bounds, Unknown) or isinstance(bounds.magnitude, Unknown):
        return 0.0
    log = bounds.magnitude.log(dict.fromkeys(bounds.magnitude.symbols(), 1.0))
    return math.exp(min(log, 700.0))


def _lost_branch(facts: Facts, stream: Stream, all_weights: bool) -> Unknown | None:
    """The first branch whose output is not known to be bounded: over all weights, or however large the stream is at fixed ones."""
    for kind in stream.kinds:
        for sublayer in kind.sublayers:
            answer = output_bounded(facts, sublayer) if all_weights else is_held(facts, stream, sublayer)
            if answer is not True and not all_weights and (_is_held_beside(facts, stream, sublayer) or _adds_no_more(facts, stream, kind, sublayer)):
                continue
            if isinstance(answer, Unknown):
                return Unknown(
                    f"whether the output of `{sublayer.name}` is bounded is not known: {answer.reason}", answer.nodes or (sublayer.output,)
                )
            if not answer:
                scaled = all_weights and not has_no_scale(facts, sublayer)
                why = "its weights scale what `{}` adds" if scaled else "what `{}` adds grows with the stream"
                return Unknown(why.format(sublayer.name), (sublayer.output,))
    return None


def has_no_scale(facts: Facts, sublayer: Sublayer) -> bool:
    """Whether no weight scales what a branch adds: it has none, or all of them are divided out."""
    analysis = facts.analysis(sublayer)
    return not isinstance(analysis, Unknown) and all(d.output == 0.0 for d in analysis.degrees.groups)


def stands_once(stream: Stream, kind: Kind) -> bool:
    """Whether a kind of blocks is the first block alone, or the last one alone, and more than a few others stand beside it: at any depth it is met
    once."""
    return stream.depth >= SEVERAL and kind.layers in (((0, 0),), ((stream.depth - 1, stream.depth - 1),))


def _adds_no_more(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> bool:
    """Whether a branch adds something of finite size, once, or made of the first state alone: how large that is does not depend on the depth, unless
    it reads another stream, which may grow."""
    bounds = _bounds(facts, sublayer)
    finite = not isinstance(bounds, Unknown) and isinstance(bounds.magnitude, Expr)
    return finite and stream.name not in facts.growing and (stands_once(stream, kind) or not reads_grown_state(facts, stream, kind, sublayer))


def rests_on_once(facts: Facts, stream: Stream) -> bool:
    """Whether a branch that stands once grows with what it reads: the law against depth holds, and a larger input still gives more."""
    return any(stands_once(stream, k) and is_held(facts, stream, s) is not True for k in stream.kinds for s in k.sublayers)


def _is_held_beside(facts: Facts, stream: Stream, sublayer: Sublayer) -> bool:
    """Whether what a branch adds beside a number times the stream stays bounded at fixed weights. Its bound is at least that number times the size of
    the stream: where it is no more than that and a constant, the rest does not grow."""
    operator, bounds = facts.operator(stream), _bounds(facts, sublayer)
    share = operator.shares.get(sublayer.output) if isinstance(operator, StreamOperator) else None
    bound = Unknown("") if isinstance(bounds, Unknown) else bounds.magnitude
    if share is None or isinstance(bound, Unknown) or (INPUTS - {"B"}).intersection(bound.symbols()):
        return False
    held = dict.fromkeys(bound.symbols(), 1.0)
    few, some, many = (bound.evaluate(held | {"B": size}) - share * size for size in SIZES)
    return many <= few * (1 + SLACK) and some <= few * (1 + SLACK)


def _by_states(facts: Facts, stream: Stream, operator: StreamOperator, all_weights: bool) -> str | Unknown:
    """Where norms, gates or other functions stand on the stream: by the bound of each state from the one before it."""
    last = facts.state_bounds.get((operator.states[-1].node,)) if operator.states else None
    if last is None or (last.held is not True and last.slope is None):
        return Unknown("what stands on the stream is not shown to bound its end, or earlier states reach that past it", operator.breaks)
    slopes, skips, largest = list[float](), False, 0.0
    for kind in stream.kinds:
        bounds = [(s, facts.state_bounds.get((s.add, s.output))) for s in kind.sublayers]
        known = [(s, b) for s, b in bounds if b is not None]
        if len(known) < len(bounds):
            return Unknown("how large a state gets is not derived", (kind.sublayers[0].add,))
        answers = [b.always if all_weights else b.held for _, b in known]
        ends = all(a is True for a in answers) and (last.always is True or last.any_weights)
        if all_weights and any(s.normed_skip for s, _ in known) and not ends:
            return Unknown("what a branch adds behind the norm on the stream is free", (known[0][0].add,))
        every = not all_weights or all(a is True or b.any_weights for a, (_, b) in zip(answers, known, strict=True))
        past = any(b.past for _, b in known)
        whole = answers[-1] is True and all(b.held is True or b.slope is not None for _, b in known)  # whatever stands inside
        if all(a is True for a in answers) or (every and not past and _resets(known, all_weights)) or (whole and (past or all_weights)):
            slopes.append(0.0)
            continue
        if not all_weights and stands_once(stream, kind) and all(a is True or b.slope is not None for a, (_, b) in zip(answers, known, strict=True)):
            continue
        lost = next((a for a in answers if isinstance(a, Unknown)), None)
        if lost is not None:
            return lost
        if not every or past or any(b.slope is None for _, b in known):
            return Unknown(
                "no bound of the stream holds over all weights" if all_weights else "what stands on the stream has no bound", operator.breaks
            )
        if any(b.weighed for _, b in known):
            return Unknown("what stands on the stream decides how much a state grows from the one before it", operator.breaks)
        each = [b.slope for _, b in known if b.slope is not None]
        skips, largest = skips or any(b.skips for _, b in known), max(largest, *each)
        slopes.append(math.prod(each))
    if skips and largest > 1 - 1e-6:  # what each state is made of may be any of several before it: none is larger than the largest of them
        slopes = [largest]
    if all(slope < 1 - 1e-6 for slope in slopes):
        return "bounded"
    if all(slope <= 1 + 1e-6 for slope in slopes):
        return "linear"
    return Unknown("the bound of each state grows with the one before it", operator.breaks)


def _resets(known: list[tuple[Sublayer, StateBound]], all_weights: bool) -> bool:
    """Whether some state of the block is bounded whatever came before, and the others are finite for a finite one."""
    sure = [b.always if all_weights else b.held for _, b in known]
    return any(a is True for a in sure) and all(a is True or b.slope is not None for a, (_, b) in zip(sure, known, strict=True))


# -- what a branch adds ---------------------------------------------------------------------------------------------------------------


def output_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the branch's output set is bounded over all its weights, gains of norms fixed, for any input: what the calculus of bounds proves. A
    bound that is far beyond every value that a stream has is none to rely on: y / (mean(y²) + 1e-12) is below 3e6."""
    bounds = _bounds(facts, sublayer)
    if isinstance(bounds, Unknown):
        return bounds
    if bounds.bounded is not True or bounds.bound is None:
        return bounds.bounded
    width = next((s.width for s in facts.streams for k in s.kinds if sublayer in k.sublayers), None)
    size = _size(bounds, bounds.bound, width or 1, plain=untrained(facts, bounds))
    if size is not None and size <= USEFUL:
        return True
    return Unknown(f"its bound is {'1e300' if size is None else format(size, '.2g')} in rms, which bounds nothing in practice", (sublayer.output,))


def is_held(facts: Facts, stream: Stream, sublayer: Sublayer) -> Tri:
    """Whether what the branch adds stays bounded at fixed weights however large the stream, other streams and earlier states are: True by a
    bound, or by ops that keep bounded values bounded, False by a witness."""
    bounds = _bounds(facts, sublayer)
    if isinstance(bounds, Unknown):
        return bounds
    if bounds.bounded is True or bounds.kept:
        return True
    if isinstance(bounds.magnitude, Unknown):
        return False if bounds.bounded_in_stream is False else bounds.magnitude
    if survives(bounds.magnitude, moving_inputs(facts, stream, sublayer)):
        return True
    return False if bounds.bounded_in_stream is False else Unknown("the bound grows with the stream, and the branch need not", (sublayer.output,))


def _bounds(facts: Facts, sublayer: Sublayer) -> BranchBounds | Unknown:
    analysis = facts.analysis(sublayer)
    return analysis if isinstance(analysis, Unknown) else analysis.bounds


def _of_sublayer(facts: Facts, stream: Stream, kind: Kind, sublayer: Sublayer) -> Iterator[Claim]:
    def claim(name: ClaimKind, weights: Weights = "all") -> Claim:
        return Claim(name, weights, "proved", stream=stream.name, kind=kind.id, sublayer=sublayer.name)

    bounds = _bounds(facts, sublayer)
    output = _tri(facts, claim("output_bounded"), output_bounded(facts, sublayer))
    high = None if output.value is not True or isinstance(bounds, Unknown) else _high(facts, bounds, bounds.bound, stream.width or 1)
    yield output if high is None else replace(output, high=high)
    softmax = softmax_in(facts, sublayer)
    yield _tri(facts, claim("softmax"), softmax)
    if softmax is not False:
        logits = _tri(facts, claim("logits_bounded"), logits_bounded(facts, sublayer))
        found = [] if isinstance(bounds, Unknown) or logits.value is not True else weighing(bounds)
        sizes = [_high(facts, bounds, f.logits, 1, f.held) for f in found if isinstance(f.logits, Expr) and not isinstance(bounds, Unknown)]
        yield replace(logits, high=None if None in sizes else max((size for size in sizes if size is not None), default=None))
    yield _step(facts, stream, sublayer, claim("step_bound", "start"))
    recursion = facts.recursion(stream)
    if softmax is True:
        yield _logit_rms(facts, recursion, kind, sublayer, claim("logit_rms", "start"))
    analysis = facts.analysis(sublayer)
    for degree in () if isinstance(analysis, Unknown) else analysis.degrees.groups:
        yield replace(claim("degree"), value=degree.predicted, group=degree.group, reason=degree.status)


def _size(
    bounds: BranchBounds, bound: Expr | None, width: int, held: frozenset[str] = frozenset(), plain: frozenset[str] = frozenset()
) -> float | None:
    """A bound over all weights, with the entries of what is held (gains, buffers, and the parameters `held`) at one, and the norms of `plain` ones
    themselves, in rms; None where it leaves the range of floats."""
    if bound is None:
        return None
    log = bound.log(_all_weights(bounds, bound, held, plain))
    return math.exp(log) / math.sqrt(width) if log < 700 else None


def untrained(facts: Facts, bounds: BranchBounds) -> frozenset[str]:
    """Tensors that training does not change."""
    return frozenset(q.parameter for q in bounds.quantities) - (facts.graph.parameters.keys() - set(facts.graph.frozen))


def _all_weights(bounds: BranchBounds, bound: Expr, held: frozenset[str], plain: frozenset[str] = frozenset()) -> dict[str, float]:
    kept = {q.symbol for q in bounds.quantities if q.parameter in held}
    at = {q.symbol: 1.0 if q.parameter in plain else q.at_one for q in bounds.quantities}
    return {name: math.inf if name in bounds.free - kept else at.get(name, 1.0) for name in bound.symbols()}


def _high(facts: Facts, bounds: BranchBounds, bound: Expr | None, width: int, held: frozenset[str] = frozenset()) -> float | None:
    """The same; None too where it depends on the entries of a tensor that training does not change, or that forward is given: one stands for a gain,
    and not for those."""
    if bound is None:
        return None
    values = _all_weights(bounds, bound, held)
    fixed = untrained(facts, bounds)
    stored = [q.symbol for q in bounds.quantities if q.parameter in fixed and math.isfinite(values.get(q.symbol, math.inf))]
    stored += [name for name in bound.symbols() if name == TABLE]
    if stored and bound.log(values | {name: 2.0 * values[name] for name in stored}) != bound.log(values):
        return None
    return _size(bounds, bound, width, held)


def softmax_in(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether the branch weighs values, or chooses them, by a softmax."""
    bounds = _bounds(facts, sublayer)
    if isinstance(bounds, Unknown):
        return bounds
    if weighing(bounds):
        return True
    if bounds.opaque:
        return Unknown("an op without a row may hold a softmax", bounds.opaque)
    written = facts.written_softmaxes.get((sublayer.add, sublayer.output), ())
    return Unknown(WRITTEN, written) if written else False


def weighing(bounds: BranchBounds) -> list[SoftmaxBound]:
    """Its softmaxes whose shares weigh or choose something."""
    return [s for s in bounds.softmaxes if s.role != "other"]


def logits_bounded(facts: Facts, sublayer: Sublayer) -> Tri:
    """Whether all logits under its softmaxes are bounded over all weights, gains and temperatures of norms fixed."""
    bounds = _bounds(facts, sublayer)
    if isinstance(bounds, Unknown):
        return bounds
    answers = [s.bounded for s in weighing(bounds)]
    if any(a is False for a in answers):
        return False
    if bounds.opaque:
        return Unknown("an op without a row may hold a softmax", bounds.opaque)
    lost = next((a for a in answers if isinstance(a, Unknown)), None)
    return lost if lost is not None else True if answers else Unknown("it holds no softmax that is known", (sublayer.output,))


def _step(facts: Facts, stream: Stream, sublayer: Sublayer, claim: Claim) -> Claim:
    """The largest size of what the branch adds, in rms per token, with norms at the gains that they start with."""
    bounds = _bounds(facts, sublayer)
    if isinstance(bounds, Unknown) or bounds.bounded is not True or bounds.bound is None or stream.width is None:
        why = bounds if isinstance(bounds, Unknown) else Unknown("the branch is not bounded over its weights", (sublayer.output,))
        return _unknown(facts, claim, why)
    values = start_values(facts, bounds)
    if isinstance(values, Unknown):
        return _unknown(facts, claim, values)
    size = bounds.bound.evaluate(values) / math.sqrt(stream.width)
    return replace(claim, value=size) if math.isfinite(size) else _unknown(facts, claim, Unknown("the bound is not finite"))


def start_values(facts: Facts, bounds: BranchBounds) -> dict[str, float] | Unknown:
    """The symbols of a bound at the recorded start, where each is a norm of a parameter that starts as one number."""
    assert bounds.bound is not None
    quantities = {q.symbol: q for q in bounds.quantities}
    values: dict[str, float] = {}
    for symbol in bounds.bound.symbols():
        quantity = quantities.get(symbol)
        size = None if quantity is None else at_start(quantity, facts.graph)
        if size is None:
            return Unknown("it holds a weight whose start is no one number, or a norm of a matrix")
        values[symbol] = size
    return values


def _logit_rms(facts: Facts, recursion: Recursion | Unknown, kind: Kind, sublayer: Sublayer, claim: Claim) -> Claim:
    if isinstance(recursion, Unknown):
        return _unknown(facts, claim, recursion)
    found = recursion.logits_in(sublayer.name, kind.layers)
    if found is None:
        return _unknown(facts, claim, Unknown("the recursion does not cover its logits", (sublayer.output,)))
    return replace(claim, value=float(found[0]), high=float(max(found)))


# -- at the start ---------------------------------------------------------------------------------------------------------------------


def _at_start(facts: Facts, stream: Stream, fixed: str | Unknown) -> Iterator[Claim]:
    found = facts.recursion(stream)
    for name, value in (
        ("gradient_law", law_of_gradients(facts, stream, found, fixed)),
        ("rms_ratio", found if isinstance(found, Unknown) else found.predicted_ratio),
        ("one_minus_cos", found if isinstance(found, Unknown) else found.one_minus_cos),
        ("gradient_ratio", found if isinstance(found, Unknown) else found.ratio_of_output),
    ):
        claim = Claim(name, "start", "proved", stream=stream.name)  # type: ignore[arg-type]
        if isinstance(value, float) and not math.isfinite(value):
            value = Unknown("it leaves the range of floats")
        yield _unknown(facts, claim, value) if isinstance(value, Unknown) else replace(claim, value=value)


def _of_model(facts: Facts) -> Iterator[Claim]:
    if facts.whole is not None:
        yield _gain(facts, None, facts.whole if isinstance(facts.whole, Unknown) else facts.whole.gain)
    yield _tri(facts, Claim("softmax", "all", "proved"), facts.softmax)
    found = [r.words for r in map(facts.recursion, facts.streams) if not isinstance(r, Unknown)]
    words = next((w for w in found if not isinstance(w, Unknown)), None)
    if words is not None and math.isfinite(words.value):
        yield Claim("loss_at_start", "start", "proved", words.value, high=words.uniform)


# -- one claim ------------------------------------------------------------------------------------------------------------------------


def _tri(facts: Facts, claim: Claim, answer: Tri) -> Claim:
    return _unknown(facts, claim, answer) if isinstance(answer, Unknown) else replace(claim, value=answer)


def _unknown(facts: Facts, claim: Claim, why: Unknown) -> Claim:
    place = place_of(facts.graph, why.nodes[0]) if why.nodes and why.nodes[0] < len(facts.graph.nodes) else None
    return replace(claim, status="unknown", value=None, reason=why.reason, node=place, nodes=why.nodes)


__all__ = [
    "claims_of", "growth", "has_no_scale", "is_held",
    "logits_bounded", "output_bounded", "rests_on_once", "rising", "softmax_in", "stands_once", "untrained",
]  # fmt: skip
