"""From chains to streams: kinds of blocks with counts and ranges, embedding and final norm, identity path, roles."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from dataclasses import replace
from typing import Any

from screen.structure.chains.chain import Chain
from screen.structure.chains.find import Chains
from screen.structure.dataflow import Flow, nodes_of, strip
from screen.structure.norms.find import place_of
from screen.structure.reach import onward
from screen.structure.streams.cut import joined
from screen.structure.streams.ends import Ends, signature
from screen.structure.streams.kinds import kinds_of
from screen.structure.streams.multipliers import Scales
from screen.structure.streams.pooled import is_pooled_and_normed
from screen.structure.streams.reader import Reader
from screen.structure.types import IdentityPath, LongSkip, Stream, Tri, Unknown

UNREAD = IdentityPath(Unknown("the identity path of an inner stream is not derived"), None, 0, ())


def readers_of(chains: Chains) -> list[Reader]:
    """One reader for each stream of a graph."""
    return [Reader(chains, chain) for chain in chains.streams]


def streams_of(readers: list[Reader]) -> tuple[Stream, ...]:
    """All streams of a graph, named by what they do."""
    found, read = joined([_stream(reader) for reader in readers], readers)
    return _merged(_named(found, read))


def _merged(streams: tuple[Stream, ...]) -> tuple[Stream, ...]:
    """Inner streams of equal structure (one in every outer block) become one, with as many blocks."""
    kept: list[Stream] = []
    shapes: list[Any] = []
    for stream in streams:
        shape = None
        if stream.role == "inner":
            ends = (stream.embed_norm, stream.final_norm, stream.pooled_norm)
            shape = (stream.width, *ends, tuple((tuple(map(signature, k.sublayers)), k.count) for k in stream.kinds))
        if shape is not None and shape in shapes:
            position = shapes.index(shape)
            old = kept[position]
            depth = old.depth + stream.depth
            first = replace(old.kinds[0], count=old.kinds[0].count + stream.kinds[0].count, layers=((0, depth - 1),))
            kinds = (first,) if len(old.kinds) == 1 else old.kinds
            kept[position] = replace(old, depth=depth, copies=old.copies + 1, kinds=kinds)
            continue
        kept.append(stream)
        shapes.append(shape)
    inner = [s for s in kept if s.role == "inner"]
    if len(inner) == 1:
        kept = [replace(s, name="inner") if s.role == "inner" else s for s in kept]
    return tuple(kept)


def _stream(reader: Reader) -> Stream:
    flow, chain = reader.flow, reader.chain
    ends = Ends(reader)
    sink = flow.graph.nodes[chain.nodes[-1]]
    kinds, depth, traced = kinds_of(ends)
    pooled = not ends.is_loop and is_pooled_and_normed(flow.graph, reader.chains.edges.norms.by_node.values(), chain.nodes[-1])
    return Stream(
        name="stream",
        role="inner" if chain.inner else "stream",
        width=_width(reader),
        depth=depth,
        dtype=sink.dtype or "",
        embed_norm=_embed_norm(ends),
        embed_scale=bool(ends.on_embedding),
        embed_factor=ends.embedding_factor,
        final_norm=_final_norm(ends, pooled),
        pooled_norm=pooled,
        identity=UNREAD,
        kinds=kinds,
        long_skips=_long_skips(reader),
        states=chain.nodes,
        end_norm=next(iter(reader.segments[-1].norms[::-1]), None),
        traced=traced,
    )


def _width(reader: Reader) -> int | None:
    """Features of a state. One whose samples, tokens and features are one axis (`x[mask] += f.view(-1)`) does not tell: it is what another state
    says, and None where none does."""
    nodes = reader.flow.graph.nodes
    shape, sink = nodes[reader.chain.nodes[-1]].shape, reader.chain.nodes[-1]
    layout = reader.chains.edges.norms.features.layouts[sink]
    if shape and len(shape) == 1 and layout is not None and not layout.holds(-1):
        return next((found[-1] for i in reversed(reader.chain.nodes) if len(found := nodes[i].shape or ()) > 1), None)
    return shape[feature_axis(reader)] if shape else None


def feature_axis(reader: Reader) -> int:
    """Channels stand last, but first after the batch in an image or a signal (its norms, its weights or a convolution before it say so)."""
    nodes = reader.flow.graph.nodes
    shape = nodes[reader.chain.nodes[-1]].shape or ()
    sources = [nodes[e.node] for _, b in reader.branches for e in b.entries]
    images = len(shape) >= 3 and bool(sources) and all(n.op.startswith(("conv", "avg_pool", "max_pool", "adaptive_")) for n in sources)
    turned = any((nodes[i].shape or ())[1:2] != shape[1:2] for n in sources for i in n.inputs[:1])  # tokens by features, transposed for it
    normed = {n.size for _, b in reader.branches for n in b.input_norms if len(n.axes) == 1}  # a norm over channels, which were moved last for it
    whole = len(shape) >= 4 or all(len(nodes[n.source].shape or ()) == len(shape) for _, b in reader.branches for n in b.input_norms)  # no groups
    over_channels = len(shape) >= 3 and whole and shape[1] in normed and shape[-1] not in normed
    if (images and not turned) or over_channels:
        return 1
    layout = reader.chains.edges.norms.features.layouts[reader.chain.nodes[-1]]
    held = [a for a in range(-len(shape), 0) if layout.any(a)] if layout is not None and layout.sure and len(shape) >= 3 else []
    held = [a for a in held if layout is not None and layout.holds(a)] or held  # places that hold features too are places: shuffled pixels
    return held[0] if len(held) == 1 else -1


def _embed_norm(ends: Ends) -> Tri:
    """A norm between the embedding and the first block, before or after a projection."""
    if ends.is_loop:
        return False
    segment = ends.reader.segments[0]
    if ends.outside([n.node for n in segment.norms if n.type != "batchnorm"], 0):
        return True
    if segment.opaque:
        return Unknown("an op without a row stands before the first block", segment.opaque)
    return bool(_norms_above(ends.reader))


def _norms_above(reader: Reader) -> list[int]:
    """Norms before the stream's source that no mixing op and no other stream separates from it: LN, then a projection.

    The final norm of another stream, a map behind it (the stage before), is that one's."""
    flow, norms = reader.flow, reader.chains.edges.norms.by_node
    others = {n for c in reader.chains.streams if c is not reader.chain for n in c.nodes}
    start, known = reader.chain.nodes[0], dict[int, list[int]]()
    for edge in reader.segments[0].edges:  # what is added before the first branch, and is made of nothing of the stream
        if edge.kind == "add" and not any(flow.depends(i, reader.chain.nodes[0]) for i in reader.chains.others(edge)):
            start = edge.node

    def above(node: int) -> list[int]:
        """Those at a value or before it; none where it is a sum of what is normed and of another map of data that is not."""
        if node in others or flow.mixing[node] or not flow.data[node]:
            return []
        between = flow.keys[start] & ~flow.keys[node]
        if node in norms and flow.root(norms[node].source) in others and any(flow.weighted[i] for i in nodes_of(between)):
            return []
        own = [node] if node in norms and norms[node].type != "batchnorm" and flow.learned[node] else []  # standardised data are not embedded yet
        return own + before(node)

    def before(node: int) -> list[int]:
        parts = [(i, known.get(i, [])) for i in flow.graph.nodes[node].inputs]
        bare = [i for i, found in parts if not found and flow.data[i] and flow.graph.nodes[node].op == "add" and is_mapped(i, node)]
        return [] if bare else [n for _, found in parts for n in found]

    def is_mapped(node: int, add: int) -> bool:
        """Whether a map that no other operand of a sum has passed, and no lookup, is behind a value."""
        rest = functools.reduce(operator.or_, (flow.keys[i] for i in flow.graph.nodes[add].inputs if i != node), 0)
        return any(flow.weighted[i] and flow.graph.nodes[i].op != "embedding" for i in nodes_of(flow.keys[node] & ~rest))

    for node in nodes_of(flow.ancestors[start]):  # in topological order
        known[node] = above(node) if node != start else before(node)
    return list(dict.fromkeys(known.get(start, [])))


def _final_norm(ends: Ends, pooled: bool) -> Tri:
    """A norm after the last add that is not its C, before anything else reads the stream's end; one of its mean over tokens is none."""
    reader = ends.reader
    segment = reader.segments[-1]
    failure = reader.flow.graph.failure
    if ends.is_loop:
        return False
    if failure is not None:
        return Unknown(f"the forward failed: {failure.message}", (reader.chain.adds[-1],))
    if (both := _norm_over_both(reader)) is not None:
        return both
    norms = segment.norms[1:] if reader.stream_norms.is_last_on_sum else segment.norms
    is_read = not norms or reader.chains.live >> norms[0].node & 1  # a norm whose result nothing reads is none
    if ends.outside([n.node for n in norms] if is_read else reader.stream_norms.of_end, -1):
        return norms != segment.norms or not reader.stream_norms.goes_on_bare
    if segment.opaque:
        return Unknown("an op without a row stands after the last block", segment.opaque)
    if not pooled and (between := _before_norms(reader)) is not None:
        return Unknown(f"a norm reads what `{reader.flow.graph.nodes[between].op}` makes of it, by a way that is not followed", (between,))
    return False


def _norm_over_both(reader: Reader) -> bool | None:
    """Whether a norm follows where the ends of several streams are laid side by side, as those of reversible blocks are; None where this one is not.
    The last branch of another of them may read this end as well, behind a norm of its own."""
    flow, end = reader.flow, reader.chain.nodes[-1]
    others = {c.nodes[-1] for c in reader.chains.streams if c is not reader.chain and not c.inner}
    sources = {strip(flow, n.source) for n in reader.chains.edges.norms.by_node.values() if not n.across}
    for user in _behind_copies(flow, end):
        if flow.classes[user] == "join" and any(strip(flow, i) in others for i in flow.graph.nodes[user].inputs):
            return not sources.isdisjoint({user, *_behind_copies(flow, user)})
    return None


def _behind_copies(flow: Flow, node: int) -> list[int]:
    """What reads a node, behind views and copies of it."""
    return sorted({user for user, _ in onward(flow.graph, node, lambda user: flow.classes[user] not in ("view", "alias"))})


def _before_norms(reader: Reader) -> int | None:
    """The first op behind the last add where all ways on lead to norms, before any weight, and past ops that no edge follows; none where these are
    the norms that are known to stand on it."""
    flow, norms, end = reader.flow, reader.chains.edges.norms.by_node, reader.chain.nodes[-1]
    known = {strip(flow, n.source) for n in reader.segments[-1].norms}
    sources = {strip(flow, n.source) for n in norms.values()}
    waiting, seen, met = [end], list[int](), False
    while waiting:
        here = waiting.pop(0)
        if flow.weighted[here] or flow.mixing[here] or len(seen) > 64:
            return None
        if here in sources and here != end:
            met |= here not in known
            continue
        if here in flow.graph.outputs:
            return None
        fresh = [u for u in flow.graph.users[here] if u not in seen and reader.chains.live >> u & 1]
        seen += fresh
        waiting += fresh
    return seen[0] if met and seen else None


def _long_skips(reader: Reader) -> tuple[LongSkip, ...]:
    """Adds on the stream of one of its own earlier states; one that a branch alone has been added to since is a part of the scale of that sum,
    and the norm of one adds a value of a size of its own."""
    scales = Scales(reader, reader.stream_norms)
    counted = {s for position in range(len(reader.chain.adds)) for s in scales.around(position)}
    bare = (s for s in reader.skips if s not in counted and all(e.kind != "norm" for e in s.path))
    return tuple(LongSkip(s.add, s.state, place_of(reader.flow.graph, s.add)) for s in bare)


def _named(found: list[Stream], readers: list[Reader]) -> tuple[Stream, ...]:
    """Roles by what reads what: a stream that cross-attends is a decoder, one that it reads is an encoder."""
    flow: Flow | None = readers[0].flow if readers else None
    roles = [s.role for s in found]
    for number, stream in enumerate(found):
        if flow is None or not any(s.role == "cross_attention" for k in stream.kinds for s in k.sublayers):
            continue
        for other, chain in enumerate(r.chain for r in readers):
            if other != number and roles[other] != "inner" and _feeds(flow, chain, readers[number].chain):
                roles[number] = "decoder" if roles[number] == "stream" else roles[number]
                roles[other] = "encoder" if roles[other] == "stream" else roles[other]
    total, seen = Counter(roles), Counter[str]()
    named = []
    for stream, role in zip(found, roles, strict=True):
        seen[role] += 1
        named.append(replace(stream, role=role, name=role if total[role] == 1 else f"{role}{seen[role]}"))
    return tuple(named)


def _feeds(flow: Flow, source: Chain, target: Chain) -> bool:
    return bool(flow.ancestors[target.nodes[-1]] >> source.nodes[-1] & 1)
