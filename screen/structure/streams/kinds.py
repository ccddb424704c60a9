"""Kinds of blocks: which are equal, how many there are of each, and in which layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from screen.graph.starts import Starts
from screen.structure.streams.blocks import Block
from screen.structure.streams.ends import Ends, signature
from screen.structure.types import Kind, Sublayer, TracedBlock

FEW_STARTS = 3
"""Ways to start up to which blocks that are equal but for that are of as many kinds (convention)."""
FEW_TURNS = 3
"""Turns that layers take from which on they are blocks, where others stand in front of them (convention)."""
FEED_FORWARD = frozenset({"ffn", "gated_ffn", "moe"})
"""Roles that mix no tokens."""


def kinds_of(ends: Ends) -> tuple[tuple[Kind, ...], int, tuple[TracedBlock, ...]]:
    """Distinct kinds with the layers that they stand at, how many layers there are, and the blocks that ran."""
    graph, groups, subs = ends.reader.flow.graph, ends.groups, ends.sublayers
    begun = _starts(ends)
    signatures = [tuple((signature(subs[m][0]), subs[m][1], begun[m]) for m in g.members) for g in groups]
    spans = _looped(ends, signatures) if ends.is_loop else [(p, 1) for p in _expanded(ends)]
    members = _blocks_of_layers([signatures[p] for p, _ in spans])
    order: dict[Any, int] = {}
    at: dict[int, list[tuple[int, int]]] = {}
    starts: list[slice] = []
    alike: list[list[Block]] = []
    depth = 0
    for place in members:
        part = spans[place]
        kind = order.setdefault(tuple(signatures[p] for p, _ in part), len(order))
        if kind == len(starts):
            starts.append(place)
            alike.append([])
        alike[kind] += [groups[p] for p, _ in part]
        at.setdefault(kind, []).append((depth, depth + part[0][1] - 1))
        depth += part[0][1]
    kinds = []
    for number, place in enumerate(starts):
        held = [groups[p] for p, _ in spans[place]]
        subs_of = unique_names(_of_all([subs[m][0] for g in held for m in g.members], [subs[m][0] for g in alike[number] for m in g.members]))
        path = graph.modules[graph.calls[held[0].call].module].path if held[0].call is not None else ""
        layers = ranges(at[number])
        kinds.append(Kind(f"k{number}", sum(last - first + 1 for first, last in layers), layers, path, subs_of))
    ran = []
    for place in _blocks_of_layers(signatures):
        number = order.get(tuple(signatures[place]), 0)
        branches = [(subs[m][0].add, subs[m][0].output) for g in groups[place] for m in g.members]
        ran.append(TracedBlock(f"k{number}", tuple(branches)))
    return tuple(kinds), depth, tuple(ran)


def _starts(ends: Ends) -> list[tuple[int, ...]]:
    """How the parameters of each branch start, where branches that are equal but for that start in few ways (new blocks at zero between old ones);
    where each starts in a way of its own, they are of one kind whose start depends on the layer."""
    ways = _ways(ends)
    count = Counter(alike for alike, _ in set(ways))
    return [start if count[alike] <= FEW_STARTS else () for alike, start in ways]


def start_by_layer(ends: Ends) -> bool:
    """Whether some blocks of one kind start otherwise than others."""
    return max(Counter(alike for alike, _ in set(_ways(ends))).values(), default=0) > FEW_STARTS


def _ways(ends: Ends) -> list[tuple[object, tuple[int, ...]]]:
    """Of each branch what it is but for its start, and how its parameters start."""
    flow, branches, numbers = ends.reader.flow, ends.reader.branches, Starts()
    graph, owner = flow.graph, dict[int, int]()
    for number, (_, branch) in enumerate(branches):
        owner.update(dict.fromkeys(branch.region, number))
    begun: list[list[int]] = [[] for _ in branches]
    for node in graph.parameters.values():
        readers, seen = [node.index], {node.index}
        while readers:
            users = [u for u in graph.users[readers.pop()] if u not in seen]
            seen.update(users)
            owners = [owner[u] for u in users if u in owner]
            for number in owners:
                begun[number].append(numbers.number(graph.histories.get(node.name, ())))
            readers += [] if owners else [u for u in users if not flow.data[u]]
    return [((signature(sub), constants), tuple(sorted(mine))) for (sub, constants), mine in zip(ends.sublayers, begun, strict=True)]


def _of_all(first: list[Sublayer], members: list[Sublayer]) -> list[Sublayer]:
    """The sublayers of a kind's first block; a learned scale that does not start at one number in all blocks has no start that can be named."""
    found = []
    for place, sub in enumerate(first):
        others = members[place :: len(first)]
        scales = {name: getattr(sub, name) for name in ("alpha", "branch")}
        unlike = {n: replace(s, init=None) for n, s in scales.items() if any(getattr(o, n).init != s.init for o in others)}
        found.append(replace(sub, **unlike) if unlike else sub)
    return found


def _blocks_of_layers(signatures: list[Any]) -> list[slice]:
    """Layers in a row, by blocks: attention and FFN may be members of one list. They are layers of one branch each, mix and do not, and take turns to
    the end; an FFN before the first attention, where the turns are not full, stands alone, and so does each of other layers in front of them."""
    roles, count = [tuple(s[0] for s, *_ in signature) for signature in signatures], len(signatures)
    plain = [len(r) == 1 and r[0] in FEED_FORWARD for r in roles]
    for items in (signatures, roles):  # a first or a last layer may differ in more than its role
        period = next((p for p in range(2, count // 2 + 1) if all(items[i] == items[i + p] for i in range(count - p))), 0)
        if period and all(len(r) == 1 for r in roles) and 0 < sum(plain[:period]) < period:
            alone = 0 if plain[count % period] else count % period
            return [slice(0, alone)] * (alone > 0) + [slice(i, i + period) for i in range(alone, count, period)]
    for start in range(1, count - 2 * FEW_TURNS + 1) if all(len(r) == 1 for r in roles) else ():
        rest = signatures[start:]
        period = next((p for p in range(2, len(rest) // FEW_TURNS + 1) if all(rest[i] == rest[i + p] for i in range(len(rest) - p))), 0)
        if period and len(rest) % period == 0 and not plain[start] and sum(plain[start : start + period]) > 0 and plain[-1]:
            return [*(slice(i, i + 1) for i in range(start)), *(slice(i, i + period) for i in range(start, count, period))]
    return [slice(i, i + 1) for i in range(count)]


def _looped(ends: Ends, signatures: list[Any]) -> list[tuple[int, int]]:
    """(copy, layers that it stands for): all are one block, and what still differs at the ends is said of the one in the middle. A stream that runs
    through some copies alone (all but one where it begins or ends within a block) has as many layers; copies that were stamped ran as their
    representative."""
    graph = ends.reader.flow.graph
    loop, middle = graph.loop, len(signatures) // 2
    if loop is None or not signatures:
        return []
    stands = {own: rep for repeat in graph.repeats for own, rep in repeat.members}
    ran = len({stands.get(module, module) for module in (graph.calls[c].module for c in loop.copies)})
    absent = len(loop.copies) - len(signatures)  # in the first copies a lane may read others that have read nothing of it yet
    late = [g.call for g in ends.groups] == list(loop.copies[absent:]) and absent < len(ends.reader.chains.streams)
    whole = late or len(signatures) >= ran - (len(signatures) > 1)
    return [(signatures.index(signatures[middle]), loop.count if whole else len(signatures))]


def _expanded(ends: Ends) -> list[int]:
    """Positions of blocks in call order, with those that were stamped put back: they count as their representative."""
    graph, order, done = ends.reader.flow.graph, list[int](), set[int]()
    modules = [_module(ends, group) for group in ends.groups]
    for number, module in enumerate(modules):
        repeat = next((r for r in graph.repeats if any(rep == module for _, rep in r.members)), None)
        if repeat is None:
            order.append(number)
        elif repeat.container not in done:
            done.add(repeat.container)
            order.extend(p for _, rep in repeat.members for p, own in enumerate(modules) if own == rep)
    return order


def _module(ends: Ends, group: Block) -> int | None:
    """The module that a block is: that of its call, or the member of a list that its branches end in, where its adds stand in other calls."""
    if group.call is not None:
        return ends.reader.flow.graph.calls[group.call].module
    held = {branch.member[1] for m in group.members if (branch := ends.reader.branches[m][1]).member is not None}
    return held.pop() if len(held) == 1 else None


def ranges(layers: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Inclusive ranges in order, neighbours joined."""
    found: list[tuple[int, int]] = []
    for first, last in layers:
        if found and found[-1][1] == first - 1:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def unique_names(subs: list[Sublayer]) -> tuple[Sublayer, ...]:
    """Sublayers of one block with names that differ, and parallel groups counted from 0."""
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


__all__ = ["kinds_of", "ranges", "unique_names"]
