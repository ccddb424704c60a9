"""From chains to streams: kinds of blocks with counts and ranges, embedding and final norm, identity path, roles."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from screen.facts.blocks import Block, blocks
from screen.facts.flow import Flow, nodes_of
from screen.facts.norms import place_of
from screen.facts.nouns import IdentityPath, Kind, LongSkip, Stream, Sublayer, Tri, Unknown
from screen.facts.placement import Reader
from screen.facts.scales import Scales
from screen.facts.streams import Chain, Chains
from screen.graph import Graph


def readers_of(chains: Chains) -> list[Reader]:
    """One reader for each stream of a graph."""
    return [Reader(chains, chain) for chain in chains.streams]


def streams_of(readers: list[Reader]) -> tuple[Stream, ...]:
    """All streams of a graph, named by what they do."""
    found = [_stream(reader) for reader in readers]
    return _merged(_named(found, readers))


def _merged(streams: tuple[Stream, ...]) -> tuple[Stream, ...]:
    """Inner streams of equal structure (one in every outer block) become one, with as many blocks."""
    kept: list[Stream] = []
    shapes: list[Any] = []
    for stream in streams:
        shape = None
        if stream.role == "inner":
            shape = (stream.width, stream.embed_norm, stream.final_norm, tuple((tuple(map(_signature, k.sublayers)), k.count) for k in stream.kinds))
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
    graph = flow.graph
    subs = reader.sublayers
    groups = blocks(graph, [s.add for s in subs], [_signature(s) for s in subs])
    kinds, depth = _kinds(graph, groups, subs, [b.constants for _, b in reader.branches])
    sink = graph.nodes[chain.nodes[-1]]
    return Stream(
        name="stream",
        role="inner" if chain.inner else "stream",
        width=sink.shape[_feature_axis(reader)] if sink.shape else None,
        depth=depth,
        dtype=sink.dtype or "",
        embed_norm=_embed_norm(reader),
        embed_scale=bool(Scales(reader).on_embedding()),
        embed_factor=Scales(reader).embedding_factor(),
        final_norm=_final_norm(reader),
        identity=_identity(reader),
        kinds=kinds,
        long_skips=_long_skips(reader),
        states=chain.nodes,
        end_norm=next(iter(reader.segments[-1].norms[::-1]), None),
    )


def _signature(sub: Sublayer) -> tuple[object, ...]:
    """What makes two sublayers equal: everything but names and places."""
    ports = tuple((p.name, str(p.normed)) for p in sub.ports)
    return (
        sub.role, sub.placement, sub.positions, sub.norm_type, str(sub.qk_norm), str(sub.q_norm), str(sub.k_norm), str(sub.v_norm),
        sub.alpha.kind, sub.alpha.value, sub.branch.kind, sub.branch.value, sub.gated_output, str(sub.m.maps), sub.normed_skip, ports,
        sub.parallel_group is not None, tuple(n.type for _, n in sub.norms),
    )


def _kinds(
    graph: Graph, groups: list[Block], subs: tuple[Sublayer, ...], constants: list[tuple[object, ...]]
) -> tuple[tuple[Kind, ...], int]:
    """Distinct kinds with the layers that they stand at; members of a repeat that did not run count as their representative."""
    signatures = [tuple((_signature(subs[m]), constants[m]) for m in g.members) for g in groups]
    layers: list[int] = []
    for position in _expanded(graph, groups):
        layers.append(position)
    order: dict[Any, int] = {}
    at: dict[int, list[int]] = {}
    for layer, position in enumerate(layers):
        kind = order.setdefault(signatures[position], len(order))
        at.setdefault(kind, []).append(layer)
    kinds = []
    for signature, number in order.items():
        first = groups[signatures.index(signature)]
        members = _unique_names([subs[m] for m in first.members])
        path = graph.modules[graph.calls[first.call].module].path if first.call is not None else ""
        kinds.append(Kind(f"k{number}", len(at[number]), _ranges(at[number]), path, members))
    return tuple(kinds), len(layers)


def _expanded(graph: Graph, groups: list[Block]) -> list[int]:
    """Positions of blocks in call order, with those that were stamped put back."""
    of_module = {graph.calls[g.call].module: n for n, g in enumerate(groups) if g.call is not None}
    order: list[int] = []
    done: set[int] = set()
    for number, group in enumerate(groups):
        module = graph.calls[group.call].module if group.call is not None else -1
        repeat = next((r for r in graph.repeats if any(rep == module for _, rep in r.members)), None)
        if repeat is None:
            order.append(number)
        elif repeat.container not in done:
            done.add(repeat.container)
            order.extend(of_module[rep] for _, rep in repeat.members if rep in of_module)
    return order


def _ranges(layers: list[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for layer in layers:
        if found and found[-1][1] == layer - 1:
            found[-1] = (found[-1][0], layer)
        else:
            found.append((layer, layer))
    return tuple(found)


def _unique_names(subs: list[Sublayer]) -> tuple[Sublayer, ...]:
    total = Counter(s.name for s in subs)
    seen: Counter[str] = Counter()
    groups = list(dict.fromkeys(s.parallel_group for s in subs if s.parallel_group is not None))
    named = []
    for sub in subs:
        seen[sub.name] += 1
        label = sub.name if total[sub.name] == 1 or seen[sub.name] == 1 else f"{sub.name}{seen[sub.name]}"
        group = groups.index(sub.parallel_group) if sub.parallel_group is not None else None
        named.append(replace(sub, name=label, parallel_group=group))
    return tuple(named)


def _feature_axis(reader: Reader) -> int:
    """Channels stand last, but first after the batch where the stream is an image (its first norm or weight says so)."""
    nodes = reader.flow.graph.nodes
    shape = nodes[reader.chain.nodes[-1]].shape or ()
    sources = [nodes[e.node] for _, b in reader.branches for e in b.entries]
    images = len(shape) >= 3 and bool(sources) and all(n.op.startswith(("conv", "avg_pool", "max_pool", "adaptive_")) for n in sources)
    turned = any((nodes[i].shape or ())[1:2] != shape[1:2] for n in sources for i in n.inputs[:1])  # tokens by features, transposed for it
    return 1 if images and not turned else -1


def _embed_norm(reader: Reader) -> Tri:
    """A norm between the embedding and the first block, before or after a projection."""
    segment = reader.segments[0]
    if any(n.type != "batchnorm" for n in segment.norms):
        return True
    if segment.opaque:
        return Unknown("an op without a row stands before the first block", segment.opaque)
    return bool(_norms_above(reader))


def _norms_above(reader: Reader) -> list[int]:
    """Norms before the stream's source that no mixing op and no other stream separates from it: LN, then a projection.

    The final norm of another stream, a map behind it (the stage before), is that one's."""
    flow, norms = reader.flow, reader.chains.edges.norms.by_node
    others = {n for c in reader.chains.streams if c is not reader.chain for n in c.nodes}
    found: list[int] = []
    seen: set[int] = set()
    stack = list(flow.graph.nodes[reader.chain.nodes[0]].inputs)
    while stack:
        node = stack.pop()
        if node in seen or node in others or flow.mixing[node] or not flow.data[node]:
            continue
        seen.add(node)
        between = flow.keys[reader.chain.nodes[0]] & ~flow.keys[node]
        if node in norms and flow.root(norms[node].source) in others and any(flow.weighted[i] for i in nodes_of(between)):
            continue
        if node in norms and norms[node].type != "batchnorm":
            found.append(node)
        stack.extend(flow.graph.nodes[node].inputs)
    return found


def _final_norm(reader: Reader) -> Tri:
    """A norm after the last add that is not its C, before anything else reads the stream's end."""
    segment = reader.segments[-1]
    failure = reader.flow.graph.failure
    if failure is not None:
        return Unknown(f"the forward failed: {failure.message}", (reader.chain.adds[-1],))
    norms = segment.norms[1:] if reader.stream_norms.is_last_on_sum else segment.norms
    if norms:
        return True
    if segment.opaque:
        return Unknown("an op without a row stands after the last block", segment.opaque)
    return False


def _identity(reader: Reader) -> IdentityPath:
    """Gain and breaks of the path through all adds (theory, section 5)."""
    graph = reader.flow.graph
    inner = [e for s in reader.segments[1:-1] for e in s.edges]
    last = [n for n in reader.segments[-1].norms[:1] if reader.stream_norms.is_last_on_sum]
    crossed = sum(e.kind == "norm" for e in inner) + len(last)
    cut = ("detach", "data")  # no gradient comes back through these
    breaks = tuple(place_of(graph, e.node) for e in inner if e.kind == "activation" or graph.nodes[e.node].op in cut)
    opaque = tuple(e.node for e in inner if e.kind == "opaque")
    breaks += tuple(s.place for s in reader.sublayers if s.alpha.value == 0.0 and s.alpha.kind == "constant")
    if crossed or breaks:
        return IdentityPath(False, None, crossed, breaks)
    if opaque:
        return IdentityPath(Unknown("an op without a row stands on the stream", opaque), None, 0, ())
    alphas = [s.alpha for s in reader.sublayers]
    return IdentityPath(True, _gain(alphas), 0, ())


def _gain(alphas: list[Any]) -> str:
    if all(a.kind == "none" or a.value == 1.0 for a in alphas):
        return "1"
    if any(a.kind == "data" for a in alphas):
        return "product of data-dependent gates"
    if any(a.value is None for a in alphas):
        return "product of learned scales" if any(a.kind == "learned" for a in alphas) else "product of constants that are not known"
    counts = Counter(a.value for a in alphas if a.value != 1.0)
    return "*".join(f"{value:g}**{count}" if count > 1 else f"{value:g}" for value, count in sorted(counts.items()))


def _long_skips(reader: Reader) -> tuple[LongSkip, ...]:
    """Adds on the stream of one of its own earlier states."""
    flow, chain = reader.flow, reader.chain
    position = {n: i for i, n in enumerate(chain.nodes)}
    adds = sorted(chain.adds)
    found = []
    for edge in chain.edges:
        if edge.kind != "add" or edge.node in chain.adds:
            continue
        for other in reader.chains.others(edge):
            root = _carried_from(reader, other, position)
            passed = [a for a in adds if root is not None and root < a <= edge.source]
            if root is not None and passed:
                found.append(LongSkip(edge.node, root, place_of(flow.graph, edge.node)))
    return tuple(found)


def _carried_from(reader: Reader, node: int, position: dict[int, int]) -> int | None:
    """The state of the stream that a value carries by identity edges, if any."""
    for _ in range(256):
        if node in position:
            return node
        edges = [e for e in reader.chains.into[node] if e.kind not in ("activation", "opaque")]
        if not edges:
            return None
        node = edges[0].source
    return None


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
