"""The stream at initialisation: token covariance, gradients and their laws of depth (review, T3 and T4), from the recorded initialisers.

`recursion_of(stream, graph)` reads every branch of the stream as a list of steps (`lower`), runs second moments forward and gradients
back through all blocks (`propagate`), and reads off what rules ask for (`result`). Derivations: `docs/theory/covariance.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from screen.calculi.meanfield.causal import is_causal
from screen.calculi.meanfield.head import start_of_words
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Stack, forward, value_gains
from screen.calculi.meanfield.result import Law, Recursion, read
from screen.calculi.meanfield.stack_of_stream import Builder
from screen.calculi.meanfield.start import Start
from screen.calculi.meanfield.values import Stop
from screen.graph import Graph
from screen.structure.types import Norm, Stream, Unknown

TOKENS = 64
"""Tokens n of the sequence that the recursion stands for; the trace's own few tokens say nothing of it."""

UNEVEN = 4.0
"""How many times the mean square of all tokens that of the first may be, under a causal mask, for them to count as exchangeable (convention)."""
LIVE = "training starts from the weights that the live model holds: draws around zero whose deviation was measured on them"


def recursion_of(
    stream: Stream,
    graph: Graph,
    depth: int | None = None,
    *,
    tokens: int = TOKENS,
    streams: tuple[Stream, ...] = (),
    norms: Mapping[int, Norm] = MappingProxyType({}),
) -> Recursion | Unknown:
    """The recursion of one stream over its own layers, or over `depth` of them (its layers again and again).

    `streams`, `norms`: all of the graph, for branches that read the last state of another stream."""
    others = tuple(s for s in streams if s is not stream and s.states)
    builder = Builder(stream, graph, tokens, others=others, norms=norms)
    try:
        stack = builder.stack(depth or stream.depth)
        if is_causal(stack) and not stack.tied:
            alone = Builder(stream, graph, 1, others=others, norms=norms)
            _compare_first(stream, stack, alone.stack(depth or stream.depth))
        found = read(stack, gains_of(stack), _assumptions(builder, tokens))
        words = Unknown("weights serve at several depths") if stack.tied else start_of_words(builder, stack, forward(stack))
    except Stop as stop:
        return stop.unknown
    found = replace(found, words=words)
    if isinstance(stream.final_norm, Unknown):
        found = replace(found, last_gradient_exponent=stream.final_norm)
    return found


def _compare_first(stream: Stream, stack: Stack, alone: Stack) -> None:
    """Raises `Stop` where tokens are not exchangeable: under a causal mask the first attends to itself alone, and where branches read the stream
    without a norm what it gains so multiplies. `alone`: the stack for that one token."""
    mine, first = forward(stack).sums[-1], forward(alone).sums[-1]
    inlets = [i for block in {id(b): b for b in stack.blocks}.values() for add in block for i in add.inlets]
    raw = [i for i in inlets if i.program.is_causal and _grows(i.program, mine)]
    if raw and first.power > UNEVEN * mine.power:
        times = (first.power / mine.power) ** 0.5
        raise Stop(f"`{raw[0].name}`: under a causal mask the first token, which attends to itself, becomes {times:.2g} times as large as others")


def _grows(program: Program, state: Moments) -> bool:
    small, large = (program.forward(state.scaled(c))[program.output].power for c in (1.0, UNEVEN))
    return bool(large > small * UNEVEN**0.5)


def gains_of(stack: Stack) -> dict[str, tuple[float, ...]]:
    """Sublayer -> gains along its value path, of its first kind."""
    table: dict[str, tuple[float, ...]] = {}
    for block in {id(b): b for b in stack.blocks}.values():
        for add in block:
            for inlet in add.inlets:
                if inlet.name not in table and not inlet.program.tokens:
                    table[inlet.name] = value_gains(inlet.program)
    return table


def _assumptions(builder: Builder, tokens: int) -> tuple[str, ...]:
    always = (
        f"{tokens} tokens, all different, exchangeable",
        "weights are independent between layers, with independent entries of mean zero, and the width is large",
        "the loss has one gradient per token, of equal size and independent between tokens",
        "the recorded initialisers stay as they are when the depth changes",
    )
    live = any(call.op == "sample_" for _, history in builder.graph.initialisers for call in history)
    return (*always, *((LIVE,) if live else ()), *sorted(builder.assumptions))


__all__ = ["Law", "Recursion", "Start", "recursion_of"]
