"""What each calculus says of a call of `tests/rows`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from screen.calculi.analysis import analyse
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.mixed_norms import query
from screen.calculi.meanfield.causal import slots_of
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.stop import Stop
from screen.calculi.meanfield.tied_weights import crossed
from screen.calculi.meanfield.transfer import Fourier
from screen.structure.types import Unknown
from tests.calculi.degrees.test_rows_degrees import walked
from tests.calculi.meanfield.test_rows_meanfield import START
from tests.calculi.meanfield.test_rows_meanfield import read as recursion
from tests.facts.test_rows_operator import read as forms
from tests.rows.block import Call, Tiny
from tests.said.blocks import numbers, weights_of
from tests.said.plain import plain


def said(call: Call) -> dict[str, str]:
    """Bounds of the largest entry and of the last axis, of values and of slopes; degrees; moments; what carries the stream."""
    walk, found = Walk(call.region.branch), {}
    walk.one(call.region.branch.output)
    for node in call.results:
        if node.index not in call.region.steps:
            continue
        value, where = walk.one(node.index), f"{node.index - call.results[0].index}"
        for what, bound in (("value", value.mag), ("slope", value.der)):
            for kind, along in (("entry", frozenset[int]()), ("row", value.axis(-1) if value.shape else frozenset[int]())):
                found[f"{kind} {what} {where}"] = plain(bound if isinstance(bound, Unknown) else query(bound, value.flat, along))
        found[f"range {where}"] = plain((value.low, value.high, value.holes, value.after, value.jump, value.gain))
        if node.index in walked(call).values:
            degrees = walked(call).values[node.index]
            found[f"degrees {where}"] = plain((degrees.size, degrees.slope, degrees.laws, degrees.unknown, degrees.under))
    analysis = analyse(call.region.branch)
    found["branch"], found["numbers"] = plain(analysis), numbers(analysis.bounds, weights_of(Tiny(call)))
    found |= {f"form {n - call.results[0].index}": plain(form) for n, form in forms(call).items()}
    for linked in (False, True):
        made = recursion(call, linked)
        if isinstance(made, Unknown):
            found[f"moments, {linked}"] = plain(made)
            continue
        program, layout = made
        slots = program.forward(START)
        back = None if any(isinstance(s, Fourier) for s in program.steps) else program.backward(slots, Gradient(1.0, 0.5))[0]
        found[f"moments, {linked}"] = plain((slots[program.output], back, layout))
    if not isinstance(made, Unknown):
        found["positions"], found["uses"] = by_position(program), by_use(program)
    return found


def by_position(program: Program) -> str:
    """Powers and gaps of three tokens that are not alike, as under a causal mask."""
    state = np.array([1.0, 1.5, 0.8]), np.array([[0.0, 0.4, 0.7], [0.4, 0.0, 0.2], [0.7, 0.2, 0.0]])
    return _told(lambda: slots_of(program, state)[program.output])


def by_use(program: Program) -> str:
    """What a second use of the same weights has in common with the first, of the same token and of another."""
    one, two = program.forward(START), program.forward(Moments(2.0, 0.5))
    return _told(lambda: crossed(program, one, [two], (np.array([0.9]), np.array([0.3]))))


def _told(make: Callable[[], tuple[np.ndarray, np.ndarray]]) -> str:
    try:
        return plain([part.tolist() for part in make()])
    except (NotImplementedError, Stop) as none:
        return f"{type(none).__name__} {none}"


__all__ = ["said"]
