"""What each calculus says of a call of `tests/rows`."""

from __future__ import annotations

from screen.calculi.analysis import analyse
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.mixed_norms import query
from screen.structure.types import Unknown
from screen.calculi.meanfield.moments import Gradient
from screen.calculi.meanfield.transfer import Fourier
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
    return found


__all__ = ["said"]
