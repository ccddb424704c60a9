"""The stream at initialisation: token covariance, gradients and their laws of depth (review, T3 and T4), from the recorded initialisers.

`recursion_of(stream, graph)` reads every branch of the stream as a list of steps (`lower`), runs second moments forward and gradients
back through all blocks (`propagate`), and reads off what rules ask for (`result`). Derivations: `docs/theory/covariance.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from screen.calculi.meanfield.causal import is_causal
from screen.calculi.meanfield.first_update import FirstUpdate, Head, between_sequences, first_update
from screen.calculi.meanfield.head import start_of_words
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Forward, Stack, backward, forward, value_gains
from screen.calculi.meanfield.readout import above, begins_otherwise, read_out
from screen.calculi.meanfield.result import NOT_COMPUTED, Ends, Law, Recursion, ends, ratio_of, read, silent
from screen.calculi.meanfield.second_stream import Two, carried_by_two, first_update_of_two, second_of
from screen.calculi.meanfield.smaller import smaller
from screen.calculi.meanfield.stack_of_stream import DIFFERENT, Builder, layer_by_layer
from screen.calculi.meanfield.start import Start
from screen.calculi.meanfield.transfer import Attend, Begin, Stretch
from screen.calculi.meanfield.values import Stop
from screen.graph import Graph
from screen.structure.types import Norm, Stream, Unknown

TOKENS = 64
"""Tokens n of the sequence that the recursion stands for; the trace's own few tokens say nothing of it, but that there are no more than the model
has places for (`_places`)."""

UNEVEN = 4.0
"""How many times the mean square of all tokens that of the first may be, under a causal mask, for them to count as exchangeable (convention)."""
LIVE = "training starts from the weights that the live model holds: draws around zero whose deviation was measured on them"


@dataclass(frozen=True)
class Uneven(Unknown):
    """Of tokens that are not exchangeable nothing is told but κ."""

    first_update: FirstUpdate | Unknown = NOT_COMPUTED


def recursion_of(
    stream: Stream,
    graph: Graph,
    depth: int | None = None,
    *,
    tokens: int | None = None,
    streams: tuple[Stream, ...] = (),
    norms: Mapping[int, Norm] = MappingProxyType({}),
) -> Recursion | Unknown:
    """The recursion of one stream over its own layers, or over `depth` of them (its layers again and again).

    `streams`, `norms`: all of the graph, for branches that read the last state of another stream."""
    if 0 in (graph.nodes[stream.states[0]].shape or ()):
        return Unknown(f"`{stream.name}` has no entries: one of its sizes is 0")
    builder = _builder(stream, graph, tokens, streams, norms)
    tokens = builder.tokens
    two: Two | None = None
    try:
        stack = builder.stack(depth or stream.depth)
        if (window := _window(stack)) not in (0, tokens):
            return recursion_of(stream, graph, depth, tokens=window, streams=streams, norms=norms)
        run = None if stack.tied else forward(stack)
        if run is not None and is_causal(stack):
            alone = _builder(stream, graph, 1, streams, norms).stack(depth or stream.depth)
            if (why := _uneven(stack, run, alone)) is not None:
                return Uneven(why.reason, why.nodes, _uneven_update(builder, stack, run, alone))
        found = read(stack, gains_of(stack), _assumptions(builder, tokens), run)
        if run is None:
            found = replace(found, words=Unknown("blocks start as copies of one another" if stack.copies else "weights serve at several depths"))
        else:
            two = _with_second(builder, stack, run)
            words = start_of_words(builder, stack, run, None if two is None else two.sum)
            found = replace(found, words=words, first_update=_first_update(builder, stack, run, words, two))
    except Stop as stop:
        apart = layer_by_layer(stream) if stop.unknown.reason == DIFFERENT else None
        return stop.unknown if apart is None else recursion_of(apart, graph, depth, tokens=tokens, streams=(apart, *builder.others), norms=norms)
    if (beside := _read_beside(graph, stream, stream.states[-1])) is not None:
        found = replace(found.without_gradients(beside), first_update=beside if two is None else found.first_update)
    elif not isinstance(found.gradient_ratio, Unknown):
        found = replace(found, ratio_as_read=_as_read(graph, stream, norms, stack, streams))
    if isinstance(stream.final_norm, Unknown):
        found = replace(found, last_gradient_exponent=stream.final_norm)
    return found


def _builder(stream: Stream, graph: Graph, tokens: int | None, streams: tuple[Stream, ...], norms: Mapping[int, Norm]) -> Builder:
    """What makes the stack of a stream over so many tokens, or over as many as it has places for."""
    others = tuple(s for s in streams if s is not stream and s.states)
    places = tokens or min(TOKENS, _places(Builder(stream, graph, TOKENS, others=others, norms=norms)))
    return Builder(stream, graph, places, others=others, norms=norms)


def with_smaller_weights(
    stream: Stream, graph: Graph, depth: int, times: float, *, streams: tuple[Stream, ...], norms: Mapping[int, Norm]
) -> Ends | Unknown:
    """What the recursion says of the ends of a stream whose branches start with weights that are so many times as large, over as many tokens."""
    try:
        return ends(smaller(_builder(stream, graph, None, streams, norms).stack(depth), times))
    except Stop as stop:
        return stop.unknown


def _as_read(graph: Graph, stream: Stream, norms: Mapping[int, Norm], stack: Stack, streams: tuple[Stream, ...]) -> float | Unknown | None:
    """The gradient ratio where the output reads the mean of all tokens, one that begins otherwise than the others, or what another stream's branches
    make of them; None elsewhere."""
    if stack.tied or not graph.outputs:
        return None
    end = stream.states[-1]
    if any(end in above(graph, s.states[-1]) - above(graph, s.states[0]) for s in streams if s.states and s.role != "inner" and end != s.states[-1]):
        return Unknown("its end is read by the branches of another stream, which hand gradients back that tokens share", (end,))
    how, tokens = read_out(graph, stream, norms, above(graph, graph.outputs[0]))
    if how in ("each", "one", "mean") and (place := begins_otherwise(graph, stream)) is not None:
        one = "the output reads one token" if how == "one" else "the output reads all tokens"
        return Unknown(f"{one}, and some begin otherwise than those that follow from the inputs", (place,))
    if how.startswith("mean") and not is_causal(stack):
        try:
            stack = _builder(stream, graph, tokens, streams, norms).stack(len(stack.blocks))
        except Stop as stop:
            return stop.unknown
        return ratio_of(backward(stack, forward(stack), len(stack.blocks), from_end=Gradient(1.0, 1.0)))
    return None


def _read_beside(graph: Graph, stream: Stream, last: int) -> Unknown | None:
    """Where gradients come into the blocks otherwise than from the stream's end `last`: something that they make leads to the first output past it
    (what they add is added to another stream too, a state in the middle is read by a head of its own)."""
    if not graph.outputs:
        return None
    first = stream.states[0]
    inside, alive = above(graph, last), above(graph, graph.outputs[0])
    while _adds_again(graph, users := [u for u in graph.users[last] if u in alive], inside):
        last = users[0]  # what the last block adds is added to its sum again
        inside.add(last)
    below = {first}
    for node in graph.nodes[first + 1 : last + 1]:
        if below.isdisjoint(node.inputs):
            continue
        below.add(node.index)
        past = next((u for u in graph.users[node.index] if u in alive and u not in inside), None) if node.index in inside - {last} else None
        if past is not None:
            return Unknown("what its blocks make is read past the stream's end too, and gradients come back from there", (past,))
    return None


def _adds_again(graph: Graph, users: list[int], inside: set[int]) -> bool:
    """Whether the one reader of a state adds something to it that its blocks made."""
    return len(users) == 1 and graph.nodes[users[0]].op == "add" and inside.issuperset(graph.nodes[users[0]].inputs)


def _with_second(builder: Builder, stack: Stack, run: Forward) -> Two | None:
    """What a second stream carries beside this one, where gradients come through the sum of both alone."""
    second = second_of(builder)
    if second is None or _read_beside(builder.graph, builder.stream, second.end) is not None:
        return None
    return carried_by_two(stack, run, second, _between(builder))


def _first_update(builder: Builder, stack: Stack, run: Forward, words: Start | Unknown, two: Two | None = None) -> FirstUpdate | Unknown:
    reason = silent(stack, run)
    if reason is not None:
        return reason
    if builder.stream.width is None:
        return Unknown("the width of the stream is not known")
    if (learned := _other_weights(builder, stack)) is not None:
        return learned
    head = Head(words.spread, words.words) if isinstance(words, Start) else None
    if two is not None:
        return first_update_of_two(stack, run, builder.stream.width, two, entry=_entry(builder), head=head)
    return first_update(stack, run, builder.stream.width, entry=_entry(builder), head=head, between=_between(builder))


def _other_weights(builder: Builder, stack: Stack) -> Unknown | None:
    """A weight whose step is not followed and may be most of κ, if there is one: a scale on a branch that starts at zero and was not read (nothing
    else of the branch moves), a number that multiplies the stream itself. One that multiplies an activation is left out: what it multiplies moves by
    η of itself, where a matrix moves what it makes by √inputs times that and more."""
    followed = any(isinstance(s, Stretch) and s.entries for b in stack.blocks for a in b for i in a.inlets for s in i.program.steps)
    for sublayer in (s for kind in builder.stream.kinds for s in kind.sublayers):
        if sublayer.branch.kind == "learned" and sublayer.branch.init == 0.0 and not followed:
            return Unknown(f"the first step of `{sublayer.branch.parameters[0]}`, which starts at zero, is not followed", (sublayer.output,))
    if builder.walk.learned:
        return Unknown("the first step of a learned number that multiplies the stream is not followed", (min(builder.walk.learned),))
    return None


def _entry(builder: Builder) -> float:
    """Mean square of ∂x₀/∂(entry of a table), summed over the tables that the first state x₀ is made of; 1 where the way to it is not known."""
    begun = builder.begun
    if isinstance(begun, Unknown):
        return 1.0
    backs = begun.backward(begun.forward(Moments(1.0, 1.0)), Gradient(1.0, 0.0))
    tables = [s for s in begun.steps if isinstance(s, Begin) and builder.graph.nodes[s.node].op != "input"]
    return math.fsum(backs[s.target].power for s in tables)


def _between(builder: Builder) -> Moments | None:
    """What two sequences share of the first state: rows of a table that no input picks are the same in both."""
    begun, graph = builder.begun, builder.graph
    if isinstance(begun, Unknown):
        return None
    begins = [s for s in begun.steps if isinstance(s, Begin) and s.node >= 0]
    fixed = {s.target for s in begins if not any(graph.nodes[n].op == "input" for n in above(graph, s.node))}
    one = Moments(1.0, 1.0)
    return between_sequences(begun, begun.forward(one), one, builder.tokens, fixed)[begun.output]


def _places(builder: Builder) -> int:
    """How many tokens the stream has at most: rows of a learned table, one for each token, that no input picks from and that is added on the way into
    it; `TOKENS` without one."""
    graph, width, found = builder.graph, builder.stream.width, [TOKENS]
    try:
        way = above(graph, builder.cuts.entry(0))
    except Stop:
        return TOKENS
    for node in {i for n in way if graph.nodes[n].op == "add" for i in graph.nodes[n].inputs}:
        here, table = (graph.nodes[node].shape or ())[-2:], _table_of(graph, node)
        if len(table) > 1 and len(here) == 2 and table[-1] == here[-1] == width and table[-2] >= here[0] > 1:
            found.append(table[-2])
    return min(found)


def _table_of(graph: Graph, node: int) -> tuple[int, ...]:
    """The shape of the one parameter that a value is made of; none where it is made of several, or of an input: the walk ends there."""
    stack, seen, table = [node], {node}, None
    while stack:
        here = graph.nodes[stack.pop()]
        if here.op == "input" or (here.op == "parameter" and table is not None):
            return ()
        table = here.shape or () if here.op == "parameter" else table
        fresh = [i for i in here.inputs if i not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return table or ()


def _window(stack: Stack) -> int:
    """How many tokens one window of all its attentions holds, where they have windows of one size; else 0."""
    sizes = {step.window for block in stack.blocks for add in block for i in add.inlets for step in i.program.steps if isinstance(step, Attend)}
    return sizes.pop() if len(sizes) == 1 else 0


def _uneven(stack: Stack, run: Forward, alone: Stack) -> Unknown | None:
    """Why tokens are not exchangeable, if so: under a causal mask the first attends to itself alone, and where branches read the stream without a
    norm what it gains so multiplies. `alone`: the stack for that one token."""
    mine = run.sums[-1]
    inlets = [i for block in {id(b): b for b in stack.blocks}.values() for add in block for i in add.inlets]
    raw = [i for i in inlets if i.program.is_causal and _grows(i.program, mine)]
    if raw and (first := forward(alone).sums[-1]).power > UNEVEN * mine.power:
        times = (first.power / mine.power) ** 0.5
        return Unknown(f"`{raw[0].name}`: under a causal mask the first token, which attends to itself, becomes {times:.2g} times as large as others")
    return None


def _uneven_update(builder: Builder, stack: Stack, run: Forward, alone: Stack) -> FirstUpdate | Unknown:
    """κ over tokens of two kinds, the first one and the others: the mean of their squares, by the shares that the two have of all squares. Each moves
    as if its own gradient decided how; but the others, made of what they attend to, by no less of their size than the first one moves."""
    words, only = start_of_words(builder, stack, run), forward(alone)
    found = [_first_update(builder, s, r, words) for s, r in ((alone, only), (stack, run))]
    first, others = found
    if isinstance(first, Unknown) or isinstance(others, Unknown):
        return next(f for f in found if isinstance(f, Unknown))
    share = only.sums[-1].power / (only.sums[-1].power + (stack.tokens - 1) * run.sums[-1].power)
    return replace(others, kappa=math.sqrt(share * first.kappa**2 + (1 - share) * max(first.kappa, others.kappa) ** 2))


def first_update_of(found: Recursion | Unknown) -> FirstUpdate | Unknown:
    """κ, which is told of tokens that are not exchangeable too."""
    return found.first_update if isinstance(found, Recursion | Uneven) else found


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


__all__ = ["Ends", "FirstUpdate", "Law", "Recursion", "Start", "Uneven", "first_update_of", "recursion_of", "with_smaller_weights"]
