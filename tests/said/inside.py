"""What the calculi know of every value inside of a model, and not of its ends alone: the bounds and the degrees of each node, what is read of it at
the start of training, and what each step makes. At the end a sum, a norm or the larger of two hides what became coarser on the way to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from screen.calculi import bounds, degrees
from screen.calculi.bounds.interpreter import Walk
from screen.calculi.bounds.value import Value
from screen.calculi.meanfield.activation_kernels import Kernel
from screen.calculi.meanfield.experts import Routing
from screen.calculi.meanfield.lower.lower import Reader
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.stack_of_stream import Builder
from screen.calculi.meanfield.stop import Stop
from screen.structure.types import Unknown
from tests.said.plain import plain

POINTS = np.array([-2.0, -0.5, 0.0, 0.4, 3.0])
STATE, BACK = Moments(1.5, 0.4), Gradient(1.0, 0.3)
NO_NUMBERS = (Stop, NotImplementedError, ZeroDivisionError, OverflowError, ValueError, KeyError)
Pieces = dict[str, str]


def told(value: Any) -> str:
    """As `plain`, with the values of a function at some points."""
    match value:
        case Kernel():
            return f"{value.name} {told(value.function)}"
        case Routing():
            return f"{value.experts} experts, {value.width}"
        case tuple() | list():
            return "[" + ", ".join(map(told, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{told(k)}: {told(v)}" for k, v in value.items()) + "}"
    if callable(value) and not isinstance(value, type):
        with np.errstate(all="ignore"):
            return plain([float(x) for x in np.asarray(value(POINTS)).ravel()])
    if is_dataclass(value) and not isinstance(value, type | Unknown | Program):
        held = {f.name: getattr(value, f.name) for f in fields(value)}
        return type(value).__name__ + "(" + ", ".join(f"{n}={told(v)}" for n, v in held.items() if v not in (None, False, "", ())) + ")"
    return plain(value)


def of_bounds(walk: Walk) -> str:
    """Bounds of the largest entry and of the last axis of every value, of it and of its slope, and what else is known of it."""
    found = []
    for node, held in sorted(walk.table.items()):
        for value in held if isinstance(held, tuple) else (held,):
            found.append(f"{node}: {of_value(value)}")
    return "; ".join([*found, plain((walk.floors, walk.thetas, walk.spreads, walk.given, walk.assumed))])


def of_value(value: Value) -> str:
    """Of one value."""
    last = (-1,) if value.shape else ()
    return plain((value.norm(), value.norm(*last), value.slope(), value.slope(*last), value.low, value.high, value.holes, value.after, value.jump,
                  value.gain, value.operator))  # fmt: skip


def of_degrees(walk: degrees.Walk) -> str:
    """The degrees of every value."""
    return "; ".join(f"{n}: {plain((v.size, v.slope, v.laws, v.unknown, v.under))}" for n, v in sorted(walk.values.items()))


def of_program(reader: Reader, program: Program | Unknown) -> str:
    """What was read of every node, the steps, and what each makes of a state and of a gradient."""
    found = [f"{node}: {told(read)}" for node, read in sorted(reader.table.items())]
    if isinstance(program, Unknown):
        return "; ".join([*found, plain(program)])
    found += [told(program.steps), plain((program.size, program.output, program.given, program.tokens))]
    for make in (lambda: program.forward(STATE), lambda: program.backward(program.forward(STATE), BACK)):
        try:
            with np.errstate(all="ignore"):
                found.append(plain(make()))
        except NO_NUMBERS as none:
            found.append(f"{type(none).__name__} {none}")
    return "; ".join(found)


def with_inside(make: Callable[[], Mapping[str, str]]) -> Pieces:
    """What a subject says, and what was known inside meanwhile."""
    with watched() as seen:
        found = make()
    return {**found, **seen()}


@contextmanager
def watched() -> Iterator[Callable[[], Pieces]]:
    """What is derived meanwhile; called at the end, one piece for each calculus."""
    walks: list[Walk] = []
    scaled: dict[int, degrees.Walk] = {}
    read: list[tuple[Reader, Program | Unknown]] = []
    stacks: list[Any] = []
    walked, program, stack = degrees._walked, Reader.program, Builder.stack

    def bounded(branch: Any) -> Walk:
        walks.append(Walk(branch))
        return walks[-1]

    def degreed(branch: Any, mixer: Any) -> degrees.Walk:
        return scaled.setdefault(branch.output, walked(branch, mixer))

    def written(self: Reader, output: int) -> Program | Unknown:
        read.append((self, program(self, output)))
        return read[-1][1]

    def stacked(self: Builder, depth: int) -> Any:
        stacks.append(stack(self, depth))
        return stacks[-1]

    def found() -> Pieces:
        made = [(s.start, s.final, s.tied, s.tokens, [(a.identity, a.close, [(i.name, i.square) for i in a.inlets]) for b in s.blocks for a in b])
                for s in stacks]  # fmt: skip
        whole = {
            "bounds": " | ".join(map(of_bounds, walks)), "degrees": " | ".join(map(of_degrees, scaled.values())),
            "steps": " | ".join(of_program(*pair) for pair in read), "stacks": plain(made) if made else "",
        }  # fmt: skip
        return {f"inside: {name}": text for name, text in whole.items() if text}

    with patch.object(bounds, "Walk", bounded), patch.object(degrees, "_walked", degreed), patch.object(Reader, "program", written), \
            patch.object(Builder, "stack", stacked):  # fmt: skip
        yield found


__all__ = ["watched", "with_inside"]
