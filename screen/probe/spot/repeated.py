"""Some blocks of a stream that follow each other again and again, from states that are much larger than what has a size of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from screen.probe.budget.budget import load_of, seconds_of
from screen.probe.measure.replay import Env, Tape
from screen.probe.sizes import plain_number, rms

FAR, LONG, SHORT = (1e6, 1e9), (36, 384), (12, 24)
"""Sizes of a state beside which what has a size of its own is nothing; how many blocks are run from the first of them, and from the second one, at
least and at most."""
Sizes = tuple[float | None, ...]


def repeated(
    tape: Tape, part: tuple[int, ...], states: Mapping[int, Any], leaves: Env, seconds: float, drawn: Callable[[int], Env] | None = None
) -> tuple[Sizes, ...]:
    """Sizes of the states of some blocks, from each of `FAR`; nothing where that takes more than `seconds` of counted work, or they do not run so.
    `part`: the state that enters them, and those behind each; `states`: their values as the program makes them; `drawn`: other leaves, of the n-th
    time that they are run."""
    if not part:
        return ()
    begin, *behind = part
    like, each = states[begin], seconds_of(load_of(tape.graph, behind[-1:], [begin])) / len(behind)
    all_ = int(seconds / each)
    short = min(SHORT[1], max(all_ // 4, SHORT[0]))
    long = min(LONG[1], all_ - short)
    if not isinstance(like, Tensor) or not (size := rms(like)) or long < LONG[0]:
        return ()
    once, again = tape.parted(tape.steps(behind[-1:], [begin])[0], [begin])
    try:
        same = tape.run(once, leaves) if drawn is None else {}
        still = (lambda time: tape.run(once, {**leaves, **drawn(time)})) if drawn is not None else (lambda _: same)
        return tuple(_sizes(tape, like * (far / size), part, again, still, blocks) for far, blocks in zip(FAR, (long, short), strict=True))
    except Exception:
        return ()


def _sizes(tape: Tape, state: Tensor, part: tuple[int, ...], calls: list[int], still: Callable[[int], Env], blocks: int) -> Sizes:
    """Sizes of a first state and of those behind so many blocks at least, as long as they are finite. Each repetition begins with copies of what it
    reads: a call in place may write to it."""
    begin, *behind = part
    sizes = [float(state.square().mean().sqrt())]
    while len(sizes) <= blocks and math.isfinite(sizes[-1]):
        env = tape.copies({**still(len(sizes) // len(behind)), begin: state})
        for index in calls:
            env[index] = tape.call(index, env)
            if index in behind:
                sizes.append(float(env[index].square().mean().sqrt()))
        state = env[behind[-1]]
    return tuple(map(plain_number, sizes))


__all__ = ["repeated"]
