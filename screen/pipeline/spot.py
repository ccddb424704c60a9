"""The spot check between its two ends: a request out of facts, and claims beside what came back. Nothing is measured here."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice

from screen.calculi.bounds.boundedness import survives
from screen.child.protocol import Request
from screen.facts.claims.claim import AWAKE, FROM_LARGE_STATES, LARGEST, Claim, Claims, Measured, linked, numbered
from screen.facts.claims.derive import is_held, rests_on_once, rising
from screen.facts.claims.gradients import FLAT, size_later
from screen.facts.claims.multiplied import multiplied_by_weights
from screen.facts.claims.states_read import reads_first_state
from screen.facts.operator import StreamOperator, goes_on, law_of_carried
from screen.facts.queries import far_of, is_output_bounded, is_scale_free, keeps_slope, streams_in_sequence
from screen.facts.record import Facts
from screen.graph import numel
from screen.graph.io import dumps
from screen.pipeline import two_depths
from screen.pipeline.spot_branches import ALLOWED, of_branch
from screen.probe.plan.spot import after_first, spot_plan
from screen.probe.plan.spot_types import FACTORS, HEAVY, Found, FoundDepth, FoundStream, Plain, SpotPlan, to_json
from screen.structure.norms.find import place_of
from screen.structure.types import Stream, Unknown

NOISE = 1e-11
"""Rounding of a sum in float64, relative to the stream."""
NEAR_GAIN = 1e-3
"""Relative difference of two gains of one linear map."""
FACTOR, SHARE = 3.0, 0.35
"""Factor, or share of the logarithm where that is more, within which a mean over random weights agrees with one draw."""
STEADY = 0.6
"""Share of the growth of a stream that its second half has to have, at least, for a growth to be exponential (a power: much less)."""
LASTING = 0.9
"""Share of its first growth that a linear part keeps when it is repeated, from which on it is an exponential."""
RISING = 2.5
"""How many times as much the second half of the states may gain, in squares, as the first: branches of one size gain the same, sums of all of them
3 times (convention)."""
GROWN = 100.0
"""Growth over the depth from which a law is read off a measurement."""
EXPLODED, LEVEL = 1e3, 0.1
"""First-over-last gradient ratio, or its inverse, beyond which the law is exponential, measured; and the exponent of the ratio over depth up to
which it is flat, as for one that is derived."""
UNEQUAL, DOUBLED = 0.15, 2.2
"""Relative difference up to which two values are carried as far, as random directions show it; and how much farther something may be carried over
twice as many blocks to be carried on linearly."""
FEWEST = 8
"""Blocks below which no law of gradients is read off."""
BENT = 2.5
"""How many times more gradients fall, in logarithms, in the first half of the blocks than in the second where the law is a power and no exponential
(24 blocks: k^−p gives 3.6 from the first block on, exp(−ck) gives 1)."""
FALLEN, EVEN = 8.0, 0.5
"""First-over-last gradient ratio, and the share that the half of the blocks with the lesser fall has of the other one, from which on gradients
of a stream that grows exponentially follow an exponential too."""
NEAR_LOSS = 1.5
"""How many times the loss at the start of one draw may be its mean over random weights, or its inverse."""
WORK, VALUES = 2e10, 2e9
"""Multiplications and additions of one pass, and numbers that it computes, above which the module is not run plainly for a second opinion."""
GRACE = 20.0
"""Seconds of the wall clock after which a spot check is given up."""


def spot_request(request: Request, plans: Mapping[str, SpotPlan], beside: tuple[str, ...] = ()) -> Request:
    """The same target once more, to be looked at; `beside`: models that were traced with values of real weights beside meta.

    Measuring is given up after `GRACE`; a plain run alone has all the time that there is."""
    timeout = request.timeout if all(plan.only or plan.parts for plan in plans.values()) else min(request.timeout, GRACE)
    return replace(request, timeout=timeout, spot={name: to_json(plan) for name, plan in plans.items()}, beside=beside)


def with_weights(plan: SpotPlan, facts: Facts) -> SpotPlan:
    """The plan with the weights for a plain run of the module, where its graph tells all that the module does, and is small."""
    weights = {n.name: numel(n.shape) for n in facts.graph.nodes if n.op == "parameter"}
    return plan if unasked(facts) else replace(plan, weights=tuple(weights))


def unasked(facts: Facts) -> str:
    """Why a module is not run plainly for a second opinion; empty where it is."""
    graph = facts.graph
    weights = sum(numel(n.shape) for n in graph.nodes if n.op == "parameter")
    tokens = max((numel(graph.nodes[i].shape) // max((graph.nodes[i].shape or (1,))[-1], 1) for i in graph.outputs), default=0)
    if not graph.is_whole:
        return "a part of it was traced, which stands for the whole"
    if any(g.decides for g in graph.guesses):
        return "values of its data decide what it does"
    if not weights:
        return "it has no weights"
    if sum(numel(n.shape) for n in graph.nodes) > VALUES:
        return f"one run computes more than {VALUES:.0e} numbers"
    return f"one run takes more than {WORK:.0e} operations" if 2 * tokens * weights > WORK else ""


def unconfirmed(facts: Facts, why: str) -> Facts:
    """The same, with the word that no second opinion was had."""
    reason = f"not confirmed by a second opinion: {why}"
    return replace(facts, claims=replace(facts.claims, reason="; ".join(filter(None, (facts.claims.reason, reason)))))


def again_request(request: Request, facts: Mapping[str, Facts], plain: Mapping[str, Plain], seed: int = 0) -> Request:
    """Graphs to be run on the values that their modules had, by the names of their models."""
    sent = {name: asdict(replace(one, order=None)) for name, one in plain.items()}
    graphs = {n: {"graph": dumps(facts[n].graph).decode("utf-8", "surrogatepass"), "plain": p, "seed": seed} for n, p in sent.items()}
    return replace(request, again=graphs)


def with_spot(facts: Facts, found: Found) -> Facts:
    """The claims beside what was measured."""
    if not any(s.rms or s.branches for s in found.streams):
        claims = tuple(_of_depths(facts, c, found.depths) for c in facts.claims)
        return replace(facts, claims=Claims(claims, found.reason or "nothing was measured", False))
    streams = {s.stream: s for s in found.streams}
    compared = [_compared(facts, claim, streams, found.depths) for claim in facts.claims]
    if found.replayed is False:
        compared = [_of_another(claim, _is_backward(found)) for claim in compared]
    compared = [_of_whole(facts, c, found.gain) for c in compared]
    compared = _with_totals(compared)
    compared = [_of_loss(c, found.loss) if c.claim == "loss_at_start" else c for c in compared]
    compared += _of_program(found, any(c.claim == "loss_at_start" for c in compared))
    return replace(facts, claims=Claims(linked(numbered(compared)), found.reason, True))


def _with_totals(claims: list[Claim]) -> list[Claim]:
    """Everything that blocks hand on grows exponentially where one stream was seen to, whatever else there is."""
    largest = next((c for c in claims if c.claim == "growth" and c.weights == "fixed" and c.stream is not None and _is_exponential(c)), None)
    whole = next((n for n, c in enumerate(claims) if c.claim == "growth" and c.weights == "fixed" and c.stream is None), None)
    if largest is None or whole is None or claims[whole].status != "unknown":
        return claims
    told = replace(claims[whole], status="measured", value="exponential", measured=largest.measured)
    return [*claims[:whole], told, *claims[whole + 1 :]]


def _is_exponential(claim: Claim) -> bool:
    return claim.value == "exponential" and claim.status == "measured" and not claim.is_refuted


def _of_whole(facts: Facts, claim: Claim, gain: float | None) -> Claim:
    """The gain of all streams together, where all blocks ran."""
    if claim.claim != "identity_gain" or claim.stream is not None or claim.status == "unknown" or gain is None:
        return claim
    if max(facts.graph.times.values(), default=1) > 1:
        return claim
    low, high = (claim.low or 0.0, claim.high if claim.high is not None else math.inf)
    return replace(claim, measured=Measured(gain, low * (1 - NEAR_GAIN) - NOISE <= gain <= high * (1 + NEAR_GAIN) + NOISE))


def _of_loss(claim: Claim, loss: float | None) -> Claim:
    if loss is None or not isinstance(claim.value, float):
        return claim
    return replace(claim, measured=Measured(loss, 1 / NEAR_LOSS <= loss / max(claim.value, 1e-9) <= NEAR_LOSS))


def _of_program(found: Found, is_derived: bool) -> list[Claim]:
    """Whether the traced program is the module, and what its weights are."""
    claims = []
    if found.replayed is not None:
        measured = Measured(found.replayed, found.replayed)
        what = "its gradients are" if found.replayed is False and _is_backward(found) else "its values are"
        reason = "" if found.replayed else f"{what} not those of the module when it is run plainly (relative difference {_worst(found):.2g})"
        claims.append(Claim("replay", "start", "measured", True, reason=reason, measured=measured))
    if found.loss is not None and not is_derived:
        claims.append(Claim("loss_at_start", "start", "measured", found.loss))
    for name, what in found.weights:
        claims.append(Claim("replay", "start", "measured", what, group=name, reason=f"`{name}` starts as {what}"))
    return claims


def _is_backward(found: Found) -> bool:
    """Whether only gradients of the module differ from those of the traced program."""
    return (found.forward or 0.0) <= 1e-3


def _of_another(claim: Claim, backward: bool) -> Claim:
    """A claim about the traced program, which is not the module: of gradients, or all where values differ."""
    if backward and claim.claim not in ("gradient_law", "gradient_ratio"):
        return claim
    what = "gradients of the traced program are" if backward else "what the traced program gives is"
    return replace(claim, status="unknown", value=None, low=None, high=None, reason=f"{what} not the module's", nodes=(), measured=None)


def _worst(found: Found) -> float:
    return max(found.forward or 0.0, found.backward or 0.0)


def _compared(facts: Facts, claim: Claim, streams: Mapping[str, FoundStream], depths: tuple[FoundDepth, ...]) -> Claim:
    found = streams.get(claim.stream or "")
    if found is None:  # its linear part is not derived
        return _of_depths(facts, claim, depths)
    if claim.sublayer is not None:
        mine = [b for b in found.branches if (b.kind, b.sublayer) == (claim.kind, claim.sublayer)]
        return of_branch(claim, mine) if mine else claim
    if not found.rms:  # one block of each kind was run
        return _of_depths(facts, claim, depths)
    stream = next(s for s in facts.streams if s.name == claim.stream)
    operator = facts.operator(stream)
    every = max(facts.graph.times.values(), default=1) == 1
    whole = (isinstance(operator, StreamOperator) or bool(stream.cuts)) and every
    gradients = whole or (found.whole_gradients and (every or not facts.is_loop))  # a loop has no copies but those that were traced
    if claim.claim == "identity_gain":
        whole = whole and isinstance(operator, StreamOperator) and operator.beside is None and not goes_on(facts.readers, operator)
        return _of_gain(claim, found, whole, streams_in_sequence(facts) <= 1)
    if claim.claim == "growth":
        return _of_growth(facts, claim, found, two_depths.growth(depths))
    first = after_first(facts, stream)
    values = {
        "rms_ratio": _ratio(found.rms, first),
        "one_minus_cos": _end_of(found.apart),
        "gradient_ratio": _gradient_ratio(facts, claim, found),
    }
    if claim.claim in values:
        own = two_depths.numbers(depths, stream.depth) if claim.status == "unknown" and not every else {}
        if claim.claim in own:
            return _of_number(claim, own[claim.claim], True)
        return _of_number(claim, values[claim.claim], gradients if claim.claim == "gradient_ratio" else whole)
    if claim.claim == "gradient_law":
        ratio = values["gradient_ratio"] if gradients else None
        law = _gradient_law(stream.depth, ratio)
        if law is None and _law(found, first) == "exponential" and _keeps_on(_by_blocks(stream, found)):
            law = "exponential"  # of a stream that grows exponentially, at the same rate in both halves
        if law == "flat" and found.is_linear and not _is_steady(replace(claim, weights="fixed"), found):
            law = None  # it may be the beginning of an exponential: branches grow with the stream
        if law == "flat" and size_later([s or 0.0 for s in found.rms[first:]], stream.depth) > FLAT:
            law = None  # or of a power: the stream goes on growing
        is_product = any(s.multiplies_norm for k in stream.kinds for s in k.sublayers)
        carried = _is_carried(facts, stream, found) or _carried_law(stream, found) == "linear"
        if law is None and ratio is not None and not is_product and carried and _bends(_by_blocks(stream, found)):
            law = "power"
        law = None if stream.cuts and law != "exponential" else _at_any_depth(facts, stream, law)  # matrices on the stream are others at other depths
        shown = two_depths.gradients(depths, _slopes_fall(facts, stream)) if law is None and not stream.cuts and claim.status == "unknown" else None
        if shown is not None and (law := _at_any_depth(facts, stream, shown)) is not None:
            ratio = two_depths.ratio(depths) if ratio is None else ratio  # of a shorter stack than the one that is derived
        return _of_gradients(claim, ratio, law, facts.claims.of("gradient_ratio", "start", stream.name))
    return claim


def _of_depths(facts: Facts, claim: Claim, depths: tuple[FoundDepth, ...]) -> Claim:
    """A law of gradients that two depths show, of a model too large for everything else."""
    stream = next((s for s in facts.streams if s.name == claim.stream), None)
    if stream is None or claim.sublayer is not None or claim.status != "unknown":
        return claim
    if claim.claim in (own := two_depths.numbers(depths, stream.depth)):
        return _of_number(claim, own[claim.claim], True)
    if claim.claim != "gradient_law":
        return claim
    law = _at_any_depth(facts, stream, two_depths.gradients(depths, _slopes_fall(facts, stream)))
    return claim if law is None else replace(claim, status="measured", value=law, measured=Measured(two_depths.ratio(depths), None))


# -- the stream -----------------------------------------------------------------------------------------------------------------------


def _of_gain(claim: Claim, found: FoundStream, whole: bool, alone: bool) -> Claim:
    """`alone`: no other stream stands before or behind it, so that its gain is that of the model."""
    if claim.status == "unknown" and alone and (mixed := _even(found.mixed)) is not None:
        return replace(claim, status="measured", value=mixed, low=mixed, high=mixed, measured=Measured(mixed, None))
    if not whole or found.is_linear is None:
        return claim
    if found.gain is None:
        if claim.status == "unknown":
            return claim
        return replace(claim, measured=Measured("no linear map", False))
    if claim.status == "unknown" and claim.value is None:
        if not alone:
            return claim
        if claim.high is None or (found.is_linear and claim.low is not None and claim.low <= found.gain <= claim.high * (1 + NEAR_GAIN) + NOISE):
            return replace(claim, status="measured", value=found.gain, low=found.gain, high=None, measured=Measured(found.gain, None))
        agrees = found.gain <= claim.high * (1 + NEAR_GAIN) + NOISE
        return replace(claim, measured=Measured(found.gain, agrees))
    low, high = claim.low or 0.0, claim.high if claim.high is not None else math.inf
    agrees = found.gain <= high * (1 + NEAR_GAIN) + NOISE and found.gain >= low * (1 - NEAR_GAIN) - NOISE
    return replace(claim, measured=Measured(found.gain, agrees))


def _even(gains: tuple[float, ...]) -> float | None:
    """The gain that every draw of the weights has."""
    return gains[0] if gains and max(gains) - min(gains) <= NEAR_GAIN * max(gains) else None


CARRIED = {"decaying": "bounded", "constant": "linear", "polynomial": "polynomial", "exponential": "exponential"}
"""Growth by how far what branches add is carried, where that is bounded."""
LAWS = tuple(CARRIED.values())


def _carried_law(stream: Stream, found: FoundStream) -> str | None:
    """Growth of a stream at its recorded start, by how far what is added to it is carried, where that does not grow; each draw of the weights shows
    the same."""
    laws = {_law_of_reach(*sizes, len(stream.traced)) for sizes in found.carried}
    return laws.pop() if len(laws) == 1 else None


def _law_of_reach(middle: Sequence[float], late: Sequence[float], end: Sequence[float], blocks: int) -> str | None:
    """Of one draw. What is carried over so many blocks has to be the same behind the middle state and behind the late one: numbers that differ from
    block to block are no law. The end is made of such states, and holds no more of anything than the late one does. The first state and what the
    first block adds may be added again and again, and are looked at by themselves."""
    per = (len(end) - 1) // blocks if blocks and (len(end) - 1) % blocks == 0 else 1
    early, all_ = [m for m in middle[1:] if m > 0][::-1], [e for e in late[1:] if e > 0][::-1]
    if min(middle[1 : 1 + len(early)], default=0) <= 0 or min(late[1 : 1 + len(all_)], default=0) <= 0 or len(early) <= 3 * per:
        return None
    if len(all_) < 1.5 * len(early) or any(abs(a - b) > UNEQUAL * max(a, b) for a, b in zip(early[:-per], all_, strict=False)):
        return None
    if any(e > (1 + UNEQUAL) * one for e, one in zip(end, late, strict=True) if one > 0):
        return None
    law = law_of_carried(all_[:-per], (len(all_) - per) // per)
    if not isinstance(law, str):
        return None
    if law in ("polynomial", "exponential") and end[1 + per] < EVEN * late[1 + per]:
        return None  # the end may hold none of it
    again = max(e / m if m > UNEQUAL else 1.0 + e for m, e in zip(middle[: 1 + per], late[: 1 + per], strict=True))
    if law == "exponential" or again > DOUBLED:
        return law if law == "exponential" else None
    return max(CARRIED[law], "linear" if again > 1 + UNEQUAL else "bounded", key=LAWS.index)


def _of_growth(facts: Facts, claim: Claim, found: FoundStream, deeper: str | None) -> Claim:
    """`deeper`: the law that two depths show."""
    stream = next(s for s in facts.streams if s.name == claim.stream)
    law, ratio = _law(found, after_first(facts, stream)), _ratio(found.rms, after_first(facts, stream))
    if claim.status == "unknown":
        if law == "exponential":
            return replace(claim, status="measured", value=law, measured=Measured(law, None))
        if stream.name in facts.growing:
            return claim  # what its branches read is larger in a deeper model, and one depth is seen
        if claim.weights == "fixed" and deeper != "exponential" and (why := multiplied_by_weights(facts, stream)) is not None:
            return replace(claim, reason=why.reason, node=place_of(facts.graph, why.nodes[0]), nodes=why.nodes)
        if claim.weights == "fixed" and two_depths.multiplies(found.repeated, found.period):
            return replace(claim, status="measured", value="exponential", measured=Measured(FROM_LARGE_STATES, None))
        if claim.weights == "fixed" and two_depths.multiplies(found.awake, found.period, two_depths.DRAWN):
            return replace(claim, status="measured", value="exponential", measured=Measured(AWAKE, None))
        grows = _has_growing(facts, stream)  # where such a branch adds little at the start, or nothing, the stream does not show it there
        carried_law = _carried_law(stream, found)
        if claim.weights == "fixed" and carried_law is not None and not (grows and carried_law in ("bounded", "linear")):
            return replace(claim, status="measured", value=carried_law, measured=Measured(ratio, None))
        if claim.weights == "fixed" and deeper == "exponential":
            return replace(claim, status="measured", value=deeper, measured=Measured(ratio, None))
        kept = deeper == "linear" and found.gain is not None and found.gain <= 1 + NEAR_GAIN and not grows
        carried = kept or _is_carried(facts, stream, found)
        if claim.weights == "fixed" and carried and _is_steady(claim, found) and not _gathers(facts, stream, found):
            return replace(claim, status="measured", value="linear", measured=Measured(ratio, None))
        return claim
    value = claim.value
    if value == "exponential":
        return replace(claim, measured=Measured(ratio, None if ratio is None else True))
    if value == "polynomial":
        return replace(claim, measured=Measured(law or ratio, law != "exponential"))
    if law == "exponential":
        return replace(claim, measured=Measured("exponential", False))
    if not found.moved or found.moved[0] is None:
        return claim
    if claim.weights == "fixed" and (rests_on_once(facts, stream) or reads_first_state(facts, stream)):
        return replace(claim, measured=Measured(ratio, None))  # what one block adds grows with the input, and counts once
    operator = facts.operator(stream)
    kept = isinstance(operator, StreamOperator) and bool(operator.breaks) and claim.high is not None  # whatever came before
    if found.is_linear is not True and claim.weights == "fixed" and not kept:
        return claim  # what the stream carries of a larger input is not told from what it gains
    if (moved := _moves(claim, found)) is not None:
        what = "times the input" if claim.weights == "fixed" else "times the weights"
        return replace(claim, measured=Measured(f"{moved[0]:.3g} times more at {moved[1]:g} {what}", False))
    return replace(claim, measured=Measured(ratio, True))


def _is_carried(facts: Facts, stream: Stream, found: FoundStream) -> bool:
    """Whether what branches add is carried on as it is, by proof or as far as the linear part shows, and no branch is known to grow with it."""
    operator = facts.operator(stream)
    if isinstance(operator, Unknown) or _has_growing(facts, stream):
        return False
    if len(stream.kinds) > 1 and rising(facts, stream) is not None:
        return False
    if not isinstance(operator.clean, Unknown) and operator.carried in ("constant", "decaying"):
        return found.is_linear is True or (found.is_linear is None and _is_proved(facts, stream))
    alone = operator.is_chain or operator.lost is not None
    return len(stream.kinds) == 1 and alone and found.gain is not None and found.gain <= 1 + NEAR_GAIN


def _has_growing(facts: Facts, stream: Stream) -> bool:
    """Whether a branch is shown to grow with the stream."""
    return any(is_held(facts, stream, s) is False for k in stream.kinds for s in k.sublayers)


def _is_proved(facts: Facts, stream: Stream) -> bool:
    """Whether gain and growth of a stream are proved: of a program that is too large for the linear part to be run they are all that is known."""
    gain, law = facts.claims.of("identity_gain", "start", stream.name), facts.claims.of("growth", "fixed", stream.name)
    return gain.status == law.status == "proved" and law.value in ("bounded", "linear")


def _gathers(facts: Facts, stream: Stream, found: FoundStream) -> bool:
    """Whether branches read what earlier ones handed on past the stream, and the second half of the states gains more than the first: such branches
    may grow from block to block (a sum of all values so far), whatever the stream does."""
    bounds = [a.bounds.magnitude for k in stream.kinds for s in k.sublayers if not isinstance(a := facts.analysis(s), Unknown)]
    if all(isinstance(b, Unknown) or survives(b, frozenset({"B_earlier"})) for b in bounds):
        return False
    squares = [(s or 0.0) ** 2 for s in found.rms]
    middle = len(squares) // 2
    return squares[-1] - squares[middle] > RISING * (squares[middle] - squares[0])


def _is_steady(claim: Claim, found: FoundStream) -> bool:
    """Whether a stream was seen to gain no more from a larger input."""
    return bool(found.moved) and all(m is not None for m in found.moved) and _moves(claim, found) is None


def _moves(claim: Claim, found: FoundStream) -> tuple[float, float] | None:
    """How many times more a stream gains at multiplied inputs, or weights, than a bounded or linear law allows, and by what was multiplied."""
    begin = found.rms[0] or 0.0
    floor = max(found.moved[0] or 0.0, begin, 1.0, claim.high or 0.0)
    runs = list(zip(found.moved[1:], FACTORS, strict=False)) if claim.weights == "fixed" else [(found.heavy, HEAVY)]
    for moved, factor in runs:
        noise = NOISE * (factor if claim.weights == "fixed" else 1.0) * begin * max(found.gain or 1.0, 1.0)
        if moved is not None and moved > ALLOWED * floor + noise:
            return moved / floor, factor
    return None


def _law(found: FoundStream, first: int) -> str | None:
    """`exponential` where a stream grows much and as fast in the second half of its depth as in the first, or of what of it is in the range of
    floats."""
    sizes = found.rms[first:]
    sizes = sizes[:beyond] if (beyond := _beyond(sizes)) is not None else sizes
    if len(sizes) < 4 or any(s is None or s <= 0 for s in sizes):
        return None
    logs = [math.log(s) for s in sizes if s is not None]
    middle = len(logs) // 2
    early, late = logs[middle] - logs[0], logs[-1] - logs[middle]
    fading = found.lasts is not None and found.lasts < STEADY  # a power of a high degree looks like an exponential up to a depth
    carried = found.repeats and found.lasts is not None and found.lasts >= LASTING  # what is carried on grows by itself, however often it is repeated
    return "exponential" if carried or (early + late > math.log(GROWN) and late > STEADY * early and not fading) else None


def _ratio(sizes: tuple[float | None, ...], first: int) -> float | None:
    """Last over first; the largest that is told where a size has left the range of floats."""
    begin = sizes[first] if len(sizes) > first else None
    if not begin or begin >= sys.float_info.max:
        return None
    if _beyond(sizes) is not None:
        return LARGEST
    return None if sizes[-1] is None else sizes[-1] / begin


def _beyond(sizes: tuple[float | None, ...]) -> int | None:
    """The first of some sizes that has left the range of floats."""
    return next((n for n, size in enumerate(sizes) if size is not None and size >= sys.float_info.max), None)


def _end_of(values: tuple[float | None, ...]) -> float | None:
    """The last of some values, where tokens arrive apart."""
    return values[-1] if values and values[0] is not None and values[0] > 0.1 else None


def _gradient_ratio(facts: Facts, claim: Claim, found: FoundStream) -> float | None:
    """First block over last, over all parameters of each."""
    stream = next(s for s in facts.streams if s.name == claim.stream)
    ends = sorted((first, last, len(k.sublayers)) for k in stream.kinds for first, last in k.layers)
    if not ends or stream.depth < 2 or len(found.gradients) <= ends[0][2]:
        return None
    one, other = found.gradients[: ends[0][2]], found.gradients[-max(ends, key=lambda e: e[1])[2] :]
    sizes = [math.sqrt(math.fsum(g * g for g in part if g is not None)) for part in (one, other)]
    return sizes[0] / sizes[1] if sizes[0] > 0 and sizes[1] > 0 else None


def _by_blocks(stream: Stream, found: FoundStream) -> list[float]:
    """The gradient of each block, over all its parameters; nothing where not all of them ran."""
    parts = {layer: len(k.sublayers) for k in stream.kinds for first, last in k.layers for layer in range(first, last + 1)}
    if sum(parts.values()) != len(found.gradients):
        return []
    sizes, left = list[float](), iter(found.gradients)
    for layer in sorted(parts):
        sizes.append(math.sqrt(math.fsum((g or 0.0) ** 2 for g in islice(left, parts[layer]))))
    return sizes


def _falls(sizes: list[float]) -> tuple[float, float]:
    """How far gradients fall in the first half of the blocks, and in the second, as logarithms; nothing for fewer blocks than have a law."""
    if len(sizes) < FEWEST or min(sizes) <= 0:
        return 0.0, 0.0
    middle = sizes[len(sizes) // 2]
    return math.log(sizes[0] / middle), math.log(middle / sizes[-1])


def _bends(sizes: list[float]) -> bool:
    """Whether gradients fall in the first half of the blocks by much more than in the second, as a power of the depth does and no exponential."""
    early, late = _falls(sizes)
    return late >= 0 and early > BENT * late and math.log(2.0) < early + late < math.log(EXPLODED)


def _keeps_on(sizes: list[float]) -> bool:
    """Whether gradients fall about as much in the first half of the blocks as in the second, and by much in all."""
    early, late = _falls(sizes)
    return early + late > math.log(FALLEN) and min(early, late) > EVEN * max(early, late)


def _of_gradients(claim: Claim, ratio: float | None, law: str | None, derived: Claim) -> Claim:
    """`ratio`: measured over all blocks that the claim is about; `derived`: the claim on it, which it has to agree with where there is one."""
    if ratio is None:
        return claim
    if claim.status == "unknown":
        return claim if law is None else replace(claim, status="measured", value=law, measured=Measured(ratio, None))
    beside = _of_number(derived, ratio, True).measured
    near = derived.status == "proved" and beside is not None and beside.agrees is True
    exploded = not 1 / EXPLODED <= ratio <= EXPLODED
    if claim.value != "exponential":
        return replace(claim, measured=Measured(ratio, near or not exploded))
    if near or _is_steep(ratio):
        return replace(claim, measured=Measured(ratio, True))
    told = derived.status == "proved" and isinstance(derived.value, float) and 1 / EXPLODED <= derived.value <= EXPLODED
    return replace(claim, measured=Measured(ratio, None if told else False))  # one draw of few blocks does not show it


def _at_any_depth(facts: Facts, stream: Stream, law: str | None) -> str | None:
    """A law that a measurement shows, where it may be one: what is flat or a power at a few depths may be a slow exponential where each block begins
    anew (a norm stands on the stream, or it is scaled), and is one, or more than a power, where a block is derived to go on multiplying gradients."""
    operator, far = facts.operator(stream), far_of(facts, stream)
    scaled = isinstance(operator, StreamOperator) and (bool(operator.breaks) or operator.carried in ("decaying", "exponential"))
    multiplies = not isinstance(far, Unknown) and (far.multiplies or far.is_untold)
    told = not isinstance(far, Unknown) and far.law == "power"
    if law == "power" and not told and any(keeps_slope(facts, s) for k in stream.kinds for s in k.sublayers):
        return None  # a slope that saturates gives the exponential of a root of the depth, which no few depths tell from a power
    return None if law in ("flat", "power") and (scaled or multiplies) else law


def _slopes_fall(facts: Facts, stream: Stream) -> bool:
    """Whether every branch is bounded over its weights and moves less as the stream grows, and what it adds is carried on as it is, with gain 1."""
    operator, subs = facts.operator(stream), [s for k in stream.kinds for s in k.sublayers]
    if not isinstance(operator, StreamOperator) or operator.clean is not True or operator.carried != "constant" or operator.breaks:
        return False
    return all(is_output_bounded(facts, s) is True and is_scale_free(facts, s) and not keeps_slope(facts, s) for s in subs)


def _gradient_law(depth: int, ratio: float | None) -> str | None:
    """What one draw shows of the law of gradients over the blocks: `flat` within the depth to the power of 0.1, `exponential` beyond 1e3; between
    them it could be a power, or the beginning of an exponential."""
    if ratio is None or depth < FEWEST:
        return None
    if abs(math.log(ratio)) <= LEVEL * math.log(depth):
        return "flat"
    return "exponential" if abs(math.log(ratio)) > math.log(EXPLODED) else None


def _is_steep(ratio: float) -> bool:
    """A ratio that an exponential law may have at a small depth."""
    return ratio > 10.0 or ratio < 0.1


def _of_number(claim: Claim, value: float | None, whole: bool) -> Claim:
    """A mean over random weights against one draw."""
    if value is None or not whole:
        return claim
    if claim.status == "unknown" or not isinstance(claim.value, float):
        return replace(claim, status="measured", value=value, measured=Measured(value, None))
    if claim.value <= 0 or value <= 0:
        return replace(claim, measured=Measured(value, None))
    apart = abs(math.log(value / claim.value))
    return replace(claim, measured=Measured(value, apart <= max(math.log(FACTOR), SHARE * abs(math.log(claim.value)))))


# -- one branch -----------------------------------------------------------------------------------------------------------------------


__all__ = ["again_request", "spot_plan", "spot_request", "unasked", "unconfirmed", "with_spot", "with_weights"]
