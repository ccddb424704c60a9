"""From facts to what the spot check looks at: the states of each stream, what each branch adds, and which weights are free."""

from __future__ import annotations

from dataclasses import replace

from screen.facts.claims.claim import Claim, ClaimKind
from screen.facts.operator import StreamOperator, Whole, goes_on
from screen.facts.operator.polynomial import Range
from screen.facts.queries import free_weight, reader_of
from screen.facts.record import Facts
from screen.graph import Graph, Node, Ref, numel, ops_digest
from screen.probe.plan.spot_types import SpotBranch, SpotCone, SpotGain, SpotPlan, SpotStream, SpotWhole, first_of_each
from screen.structure.branches.branch import Branch
from screen.structure.dataflow import Flow, strip
from screen.structure.softmaxes import CALLS, shifted
from screen.structure.streams.reader import Reader
from screen.structure.types import Stream, Unknown

LEAST, MOST = 3, 8
"""Blocks of a stream from which on some of them are repeated, and how many of them at most."""
FEWEST = 12
"""States of a stream below which no law of growth is read off them."""
START: tuple[ClaimKind, ...] = ("rms_ratio", "gradient_ratio", "one_minus_cos")
"""Numbers at the start of a stream."""
FACTORED = frozenset({"mul", "div", "addcmul", "addcdiv", "complex"})
"""Products and quotients entry by entry."""
VOCABULARY = 32
"""Entries of an output from which it may be one over a vocabulary (convention)."""


def spot_plan(facts: Facts, seed: int = 0) -> SpotPlan:
    """What is to be looked at in one model. Streams without branches, and inner ones, are left out."""
    streams = []
    for stream, reader, operator in zip(facts.streams, facts.readers, facts.operators, strict=False):
        if isinstance(operator, StreamOperator) and stream.role != "inner" and reader.branches and operator.states:
            streams.append(_stream(facts, stream, reader, operator))
        elif stream.cuts and stream.role != "inner":
            streams.append(_cut_stream(facts, stream, reader))
    w = facts.whole
    whole = SpotWhole(w.begin, w.end, w.held) if isinstance(w, Whole) and isinstance(w.gain, Range) and w.measured else None
    asked = facts.is_loop and sum(s.role != "inner" for s in facts.streams) == 1 and any(_is_asked(c) for c in facts.claims)
    digest, outputs = ops_digest(facts.graph), _vocabulary(facts.graph)
    own, traced = _own(facts)
    return SpotPlan(len(facts.graph.nodes), digest, tuple(streams), seed, outputs, facts.is_loop, whole, asked, own, traced)


def _own(facts: Facts) -> tuple[int, int]:
    """Blocks of a loop that is to be run as deep as it is, and how many of them were traced: where not all were, and a number at the start is asked
    for that nothing derived."""
    outer = [s for s in facts.streams if s.role != "inner"]
    if not facts.is_loop or len(outer) != 1 or max(facts.graph.times.values(), default=1) == 1:
        return 0, 1
    unknown = any(facts.claims.of(name, "start", outer[0].name).status == "unknown" for name in START)
    return (outer[0].depth, max(len(outer[0].traced), 1)) if unknown else (0, 1)


def _is_asked(claim: Claim) -> bool:
    """Whether it is a law of depth that two depths may show."""
    return claim.status == "unknown" and (claim.claim == "gradient_law" or (claim.claim == "growth" and claim.weights == "fixed"))


def _stream(facts: Facts, stream: Stream, reader: Reader, operator: StreamOperator) -> SpotStream:
    branches = _branches(facts, stream, [reader])
    begin = operator.begin if operator.lost is None else stream.states[0]
    whole = sorted(facts.graph.nodes[begin].shape or ()) == sorted(facts.graph.nodes[operator.states[-1].node].shape or ())
    carrying = frozenset(b.output for b in branches if b.output in operator.through and not b.parameters)
    branches = [replace(b, carries=b.output in carrying) for b in branches]
    summed = operator.clean is True or operator.lost is not None
    gated = _is_gated(reader, operator)
    linear = not operator.breaks and carrying.issuperset(operator.through) and summed and whole and not gated and not _is_mixed(operator)
    return SpotStream(
        stream.name,
        (begin, *(s.node for s in operator.states)),
        _axis(facts, stream, operator.begin),
        tuple(branches),
        *_sizes(stream),
        linear=linear,
        mixed=None if linear or gated else _gain_of(facts, stream, reader, operator),
        cone=_cone(facts, stream, reader, operator),
        part=_part(facts, stream, [reader], (begin, *(s.node for s in operator.states))),
    )


def _cut_stream(facts: Facts, stream: Stream, reader: Reader) -> SpotStream:
    """One that passes matrices: sizes, tokens, gradients and branches are looked at, and nothing is linear in a first state."""
    parts = _parts_of(stream, reader)
    branches = tuple(_branches(facts, stream, parts))
    part = _part(facts, stream, parts, _sums(parts))
    return SpotStream(stream.name, _sums(parts), _axis(facts, stream, stream.states[0]), branches, *_sizes(stream), linear=False, part=part)


def _parts_of(stream: Stream, reader: Reader) -> list[Reader]:
    """What reads the parts of a stream between its matrices."""
    return [Reader(reader.chains, chain) for chain in reader.chains.streams if set(chain.nodes) <= set(stream.states)]


def _sums(parts: list[Reader]) -> tuple[int, ...]:
    """The first state of a cut stream, and what each sum on it gives."""
    return (parts[0].chain.nodes[0], *(add for part in parts for add in part.chain.adds))


def _branches(facts: Facts, stream: Stream, parts: list[Reader]) -> list[SpotBranch]:
    """What the parts of a stream add."""
    names = {(s.add, s.output): (k.id, s.name) for k in stream.kinds for s in k.sublayers}
    single = stream.kinds[0] if len(stream.kinds) == 1 else None
    branches = []
    held: dict[tuple[str, str], tuple[frozenset[int], bool, int | None]] = {}
    for place, branch in enumerate(branch for part in parts for _, branch in part.branches):
        key = branch.add, branch.output
        if key not in names and single is not None and single.sublayers:
            sub = single.sublayers[place % len(single.sublayers)]
            names[key] = single.id, sub.name
        kind, sublayer = names.get(key, ("", ""))
        if (kind, sublayer) not in held:
            held[kind, sublayer] = _held(facts, stream, kind, sublayer, branch)
        branches.append(_branch(facts, branch, kind, sublayer, *held[kind, sublayer]))
    return branches


def _sizes(stream: Stream) -> tuple[int, int]:
    """How many branches the first block has, and the last one."""
    ends = sorted((first, last, k) for k in stream.kinds for first, last in k.layers)
    return (len(ends[0][2].sublayers), len(max(ends, key=lambda e: e[1])[2].sublayers)) if ends else (1, 1)


def _axis(facts: Facts, stream: Stream, state: int) -> int:
    """Where the features of a state stand, from behind."""
    shape = facts.graph.nodes[state].shape or ()
    if shape and stream.width is not None and shape[-1] != stream.width and stream.width in shape:
        return shape.index(stream.width) - len(shape)
    return -1


def _is_gated(reader: Reader, operator: StreamOperator) -> bool:
    """Whether what multiplies the stream is made of what branches add: where that is nothing, it is not the multiplier of any run."""
    atoms = operator.atoms
    made = {a.key[1] if a.key[0] == "mask" else a.node for a in atoms}
    gates = [n for n in made if isinstance(n, int) and n >= 0 and reader.flow.data[n]]
    return any(reader.flow.depends(gate, b.output) for gate in gates for _, b in reader.branches)


def _is_mixed(operator: StreamOperator) -> bool:
    """Whether copies of the stream are mixed by a matrix of which nothing is known: what one draw of it does is no other's."""
    return any(a.key[0] == "mixing" for a in operator.atoms)


LINEAR = frozenset({"add", "sub", "neg", "mean", "sum"})
"""Ops that are linear in all that they read."""
ONE_SIDED = frozenset({"mul", "div", "true_divide", "lerp"})
"""Ops that are linear in what they read beside constants and weights."""


def _cone(facts: Facts, stream: Stream, reader: Reader, operator: StreamOperator) -> SpotCone | None:
    """Where growth at fixed weights is not derived: the end of a stream, two states in between, and what they are linear in."""
    claim = facts.claims.of("growth", "fixed", stream.name)
    states = [s.node for s in operator.states]
    if claim.status != "unknown" or stream.name in facts.growing or len(states) < FEWEST or max(facts.graph.times.values(), default=1) > 1:
        return None
    nodes, middle = facts.graph.nodes, states[len(states) // 2 - 1]
    made = nodes[middle].op, nodes[middle].file, nodes[middle].line, nodes[middle].shape
    late = max(n for n in states if (nodes[n].op, nodes[n].file, nodes[n].line, nodes[n].shape) == made)
    begin = _begun(reader, operator.begin)
    added = _added(reader, {middle, late, states[-1]}, begin)
    if any(not reader.flow.is_float(nodes[n]) or nodes[n].shape is None for n in added):
        return None
    blocks = len(stream.traced)
    return SpotCone(begin, middle, late, states[-1], added, len(added) // blocks if blocks and len(added) % blocks == 0 else 1)


def _part(facts: Facts, stream: Stream, parts: list[Reader], states: tuple[int, ...]) -> tuple[int, ...]:
    """The states behind some blocks of a stream whose growth at fixed weights is not derived, from the second block on, the last made as the first of
    them. Kinds of blocks follow each other in them as they do in the whole stream, so that it is a deeper one where they are repeated."""
    blocks, kinds = len(stream.traced), [block.kind for block in stream.traced]
    if facts.claims.of("growth", "fixed", stream.name).status != "unknown" or blocks < LEAST:
        return ()
    adds = [max((add for add, _ in block.branches), default=states[-1]) for block in stream.traced]
    ends = [next((n for n in states if n >= add), states[-1]) for add in adds]
    turn = next((n for n in range(1, blocks) if kinds[n:] == kinds[:-n]), blocks)
    count = min(MOST, blocks - 2) // turn * turn
    found = tuple(ends[1 : 2 + count])
    made = {(n.op, n.file, n.line, n.shape, n.dtype) for n in (facts.graph.nodes[i] for i in found[::turn])}
    whole = len(set(found)) == count + 1 > 1 and len(made) == 1 and not _reads_before(facts, found, {b.output for p in parts for _, b in p.branches})
    return found if whole else ()


def _reads_before(facts: Facts, states: tuple[int, ...], outputs: set[int]) -> bool:
    """Whether the last of some states holds what branches gave before the first of them otherwise than by that one."""
    nodes, (begin, *_, end) = facts.graph.nodes, states
    before = {n for n in outputs if n < begin}
    for index in range(min(before, default=end), end):
        if index != begin and before.intersection(nodes[index].inputs):
            before.add(index)
    stack, seen = [end], {begin}
    while stack:
        if (index := stack.pop()) not in seen:
            seen.add(index)
            stack.extend(nodes[index].inputs)
    return bool(before & seen - {begin})


def _begun(reader: Reader, node: int) -> int:
    """The value that one is made of, by what no weight maps and no function bends."""
    flow, norms = reader.flow, reader.chains.edges.norms.by_node
    while node not in norms and not flow.weighted[node] and flow.classes[node] not in ("activation", "weighted"):
        data = {i for i in flow.graph.nodes[node].inputs if flow.data[i]}
        if len(data) != 1:
            break
        node = data.pop()
    return node


def _added(reader: Reader, ends: set[int], begin: int) -> tuple[int, ...]:
    """What some values are linear in beside a first one: behind it sums, numbers, views, and weights that mix copies."""
    flow, norms, added = reader.flow, reader.chains.edges.norms.by_node, set[int]()
    stack, seen = list(ends), {begin}
    while stack:
        node = stack.pop()
        if node in seen or not flow.data[node]:
            continue
        seen.add(node)
        here = flow.graph.nodes[node]
        data = [i for i in here.inputs if flow.data[i]]
        passes = flow.classes[node] in ("view", "part", "join") or here.op in LINEAR or (here.op in ONE_SIDED and _is_one_sided(here, data))
        if node in norms or not here.inputs or not (passes or _mixes(reader, node)):
            added.add(node)
        else:
            stack.extend(data)
    return tuple(sorted(added))


def _is_one_sided(node: Node, data: list[int]) -> bool:
    """Whether what multiplies, divides or weighs holds no data."""
    if node.op == "mul":
        return len(data) == 1 and sum(i == data[0] for i in node.inputs) == 1
    factor = node.args[-1] if node.args else None
    return not (isinstance(factor, Ref) and factor.node in data)


def _mixes(reader: Reader, node: int) -> bool:
    """Whether a node mixes copies or states of a stream by trained weights, and no features."""
    flow, here = reader.flow, reader.flow.graph.nodes[node]
    return any(flow.trained[i] for i in here.inputs) and flow.mixes_copies(here) and not flow.weighted[node]


def _gain_of(facts: Facts, stream: Stream, reader: Reader, operator: StreamOperator) -> SpotGain | None:
    """From where to where, and past what, a gain is measured that is not derived; None where not all blocks ran, or a value that the first state is
    made of is added again."""
    claim, absent = facts.claims.of("identity_gain", "start", stream.name), max(facts.graph.times.values(), default=1) > 1
    if claim.status != "unknown" or operator.beside is not None or absent:
        return None
    begin, end = _begun(reader, operator.begin), operator.states[-1].node
    inside = set(_added(reader, set(operator.through), begin))
    if not all(reader.flow.weighted[n] for n in inside):
        return None  # a gate may stand in it
    held = tuple(sorted(inside | {b.output for _, b in reader.branches if b.output not in operator.through}))
    added = set(_added(reader, {end}, begin))
    for output in facts.graph.outputs:
        if added.issuperset(_added(reader, {output}, begin)) and reader.flow.depends(output, end):
            return SpotGain(begin, output, held)
    size = numel(facts.graph.nodes[begin].shape or ())
    for node in reversed(facts.graph.nodes[end:]):  # the mean of lanes behind the last block is the model's end
        if numel(node.shape or ()) == size and (node.index == end or reader.flow.depends(node.index, end)):
            if node.index == end and goes_on(facts.readers, operator):
                return None
            if added.issuperset(_added(reader, {node.index}, begin)):
                return SpotGain(begin, node.index, held)
    return None


def _held(facts: Facts, stream: Stream, kind: str, sublayer: str, branch: Branch) -> tuple[frozenset[int], bool, int | None]:
    """Which of the parameters of a branch, in order, "over all weights" leaves as they are, whether that is derived, and which of them scales the
    output by itself; all branches of a kind have them at the same places."""
    graph = branch.flow.graph
    names = [graph.nodes[i].name for i in sorted(parameters_of(branch))]
    sub = next((s for k in stream.kinds for s in k.sublayers if (k.id, s.name) == (kind, sublayer)), None)
    analysis = None if sub is None or (sub.add, sub.output) != (branch.add, branch.output) else facts.analysis(sub)
    sure = not (analysis is None or isinstance(analysis, Unknown))
    held = frozenset(graph.frozen) if analysis is None or isinstance(analysis, Unknown) else analysis.bounds.held
    lifting = free_weight(facts, sub) if sure and sub is not None else None
    return frozenset(place for place, name in enumerate(names) if name in held), sure, names.index(lifting) if lifting in names else None


def _branch(facts: Facts, branch: Branch, kind: str, sublayer: str, held: frozenset[int], sure: bool, lifting: int | None) -> SpotBranch:
    graph, flow = branch.flow.graph, branch.flow
    read = parameters_of(branch)
    names = tuple(graph.nodes[i].name for i in sorted(read))
    moving = [i for place, i in enumerate(sorted(read)) if place not in held and numel(graph.nodes[i].shape or ()) > 1]
    free = tuple(graph.nodes[i].name for i in moving if any(_is_free(branch, *site, sure) for site in read[i]))
    softmaxes = tuple(i for i in branch.region if flow.classes[i] == "softmax" or graph.nodes[i].op == "scaled_dot_product_attention")
    asked = [c for c in facts.claims if (c.kind, c.sublayer) == (kind, sublayer) and c.claim in ("output_bounded", "logits_bounded")]
    under = [(i, strip(flow, graph.nodes[i].inputs[0])) for i in softmaxes if graph.nodes[i].op in CALLS]
    shifts = tuple((i, u) for i, logits in under if (u := shifted(flow, logits)) != logits)
    unsure = any(c.status == "unknown" for c in asked)
    alone = names[lifting] if lifting is not None and lifting < len(names) else free[-1] if free else None
    return SpotBranch(kind, sublayer, branch.output, names, free, alone, softmaxes, shifts, unsure, bool(softmaxes) and _is_driven(branch))


def _is_driven(branch: Branch) -> bool:
    """Whether a factor in a branch is made of arguments of forward alone, and of no angles: a table of cosines that the caller makes."""
    graph = branch.flow.graph
    products = (graph.nodes[i] for i in branch.region)
    return any(_is_given(branch, operand) for node in products if node.op.rstrip("_") in FACTORED and len(node.inputs) > 1 for operand in node.inputs)


def _is_given(branch: Branch, operand: int) -> bool:
    graph, waiting, seen, given = branch.flow.graph, [operand], {operand}, False
    while waiting:
        node = graph.nodes[waiting.pop()]
        if node.index in branch.states or node.op == "parameter":
            return False
        given |= node.op == "input"
        more = [i for i in node.inputs if i not in seen] if node.op not in ("cos", "sin") else []
        seen.update(more)
        waiting += more
    return given


def parameters_of(branch: Branch) -> dict[int, set[tuple[int, int]]]:
    """Parameters that a branch reads, through functions of weights -> (node of the branch, what it reads there)."""
    flow, graph = branch.flow, branch.flow.graph
    found: dict[int, set[tuple[int, int]]] = {}
    for node in branch.region:
        for source in flow.counting[node]:
            if flow.data[source] or not flow.trained[source]:
                continue
            stack, seen = [source], {source}
            while stack:
                here = stack.pop()
                if graph.nodes[here].op == "parameter":
                    found.setdefault(here, set()).add((node, source))
                fresh = [i for i in flow.counting[here] if i not in seen]
                seen.update(fresh)
                stack.extend(fresh)
    return found


def _is_free(branch: Branch, node: int, source: int, sure: bool) -> bool:
    """Whether a weight is a map, a bias of one, a slope, a filter, or a table that is read or added where a node of the branch reads it: no gain, no
    temperature. A vector that is added may be the bias of a norm, unless it is `sure` which weights are held."""
    flow = branch.flow
    if flow.weighted[node] or flow.classes[node] in ("product", "weighted", "mixing") or flow.graph.nodes[node].op == "prelu":
        return True
    axes = [n for n in flow.graph.nodes[source].shape or () if n > 1]
    if flow.graph.nodes[node].op == "mul":
        return sure and len(axes) > 1 and _is_as_stored(flow, source)  # a filter: a number for each entry of two axes or more
    return flow.graph.nodes[node].op in ("add", "cat", "sub") and (sure or len(flow.graph.nodes[source].shape or ()) > 1)


def _is_as_stored(flow: Flow, index: int) -> bool:
    """Whether a value is linear in parameters: views and parts of them, parts of complex numbers, spectra; no decay of one, exp(w)."""
    node = flow.graph.nodes[index]
    if node.op == "parameter":
        return True
    linear = flow.classes[index] in ("view", "part") or node.op in ("complex", "view_as_complex", "clone") or node.op.startswith("fft_")
    return linear and bool(node.inputs) and all(_is_as_stored(flow, i) for i in node.inputs)


def _vocabulary(graph: Graph) -> int | None:
    """The output of a model that reads integers and gives one number for each entry of a vocabulary."""
    reads = any(n.op == "input" and (n.dtype or "").startswith("int") for n in graph.nodes)
    for index in graph.outputs[:1]:
        shape = graph.nodes[index].shape or ()
        if reads and len(shape) >= 2 and shape[-1] >= VOCABULARY:
            return index
    return None


def weights_of_each(facts: Facts, plan: SpotPlan) -> int:
    """Entries of the weights that one block of each kind reads."""
    read = {name for s in plan.streams for b in first_of_each(s) for name in b.parameters}
    return sum(numel(n.shape) for n in facts.graph.nodes if n.op == "parameter" and n.name in read)


def after_first(facts: Facts, stream: Stream) -> int:
    """Position among the states of the one behind the first block."""
    operator = facts.operator(stream)
    reader = reader_of(facts, stream)
    ends = sorted((first, len(k.sublayers)) for k in stream.kinds for first, _ in k.layers)
    if reader is None or not ends or not (stream.cuts or isinstance(operator, StreamOperator)):
        return 0
    parts = _parts_of(stream, reader) if stream.cuts else [reader]
    branches = [b for part in parts for _, b in part.branches]
    if len(branches) < ends[0][1]:
        return 0
    add = branches[ends[0][1] - 1].add
    nodes = (operator.begin, *(s.node for s in operator.states)) if isinstance(operator, StreamOperator) else _sums(parts)
    found = next((i for i, n in enumerate(nodes) if i and n >= add), 0)
    return 0 if found == len(nodes) - 1 else found  # all is one block


__all__ = ["after_first", "parameters_of", "spot_plan", "weights_of_each"]
