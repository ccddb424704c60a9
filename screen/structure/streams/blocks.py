"""Blocks: which residual branches belong together, by the tree of calls, else by the period of their signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from screen.graph import Graph

Signature = tuple[object, ...]
FEWEST = 3
"""Members of a list from which on each is a block, where branches do not repeat (convention)."""
MANY = 6
"""Members of one branch each from which on they are blocks, however unlike: no block has as many parts (convention)."""


@dataclass(frozen=True)
class Block:
    """Consecutive residual branches; `call` is the module call that holds them, None when no single one does."""

    members: tuple[int, ...]
    call: int | None


@dataclass(frozen=True)
class Placed:
    """A residual branch: the add, and the innermost call that holds it together with some weight of its branch."""

    add: int
    call: int
    member: tuple[int, int, int] | None = None
    """(list, member, how often it had been called before) that its last weights or mixing stand in."""
    maps: int | None = None
    """The module that its last weights or mixing stand in."""


def blocks(graph: Graph, adds: Sequence[Placed], signatures: Sequence[Signature]) -> list[Block]:
    """Group residual branches (in order) into blocks. An add in a call of its own, `Residual.forward(x, y)`, stands where that is called."""
    if not adds:
        return []
    return _refine(graph, list(range(len(adds))), adds, signatures)


def _refine(graph: Graph, members: list[int], adds: Sequence[Placed], signatures: Sequence[Signature]) -> list[Block]:
    top = _common(graph, [adds[m].call for m in members])
    holds = any(asked(graph, top, members, adds, signatures) for asked in (_is_stage, _repeats, _holds_blocks, _listed))
    if _is_member(graph, top) and not holds:
        return [Block(tuple(members), top)]
    periodic = _period([signatures[m] for m in members]) < len(members)
    apart = [m for m in members if adds[m].call == top]
    if periodic and 0 < len(apart) < len(members):  # the layers of one block stand in several lists
        return _by_period(members, signatures, None, _lines(graph, members, adds), adds, [])
    groups = _children(graph, top, members, adds)
    if groups is None:
        call = top if len(members) == 1 or not periodic else None
        return _by_period(members, signatures, call, _lines(graph, members, adds), adds, _listed(graph, top, members, adds, signatures))
    kinds = [tuple(signatures[m] for m in group) for _, group in groups]
    real = [call for call, _ in groups if call != top]
    single = all(_period(kind) == len(kind) for kind in kinds)
    stacks = {call for call, group in groups if call != top and _is_stack(graph, call, _inside(graph, call, group, adds), adds, signatures)}
    if single and not stacks and not all(_is_member(graph, call) for call in real) and len(set(kinds)) == len(kinds) and len(real) > 1:
        return [Block(tuple(members), top)]
    found: list[Block] = []
    for call, group in groups:
        if call == top:
            found.append(Block(tuple(group), None))
        elif _is_rest(graph, call, group, groups, adds, signatures):
            found.append(Block(tuple(group), call))
        elif (len(groups) == 2 and groups[-1][0] == top) or _repeats(graph, call, group, adds, signatures):
            found.extend(_refine(graph, group, adds, signatures))
        elif call in stacks:
            inside = _inside(graph, call, group, adds)
            before = tuple(m for m in group if m not in inside)
            found.extend([Block(before, None)] * bool(before) + _refine(graph, inside, adds, signatures))
        elif _is_stage(graph, call, group, adds, signatures):
            found.extend(_refine(graph, group, adds, signatures))
        else:
            found.append(Block(tuple(group), call))
    return _in_turns(graph, _joined(graph, found, signatures))


def _inside(graph: Graph, call: int, group: list[int], adds: Sequence[Placed]) -> list[int]:
    """Those of a group that a call holds; the others were added before it."""
    return [m for m in group if call in graph.call_path(adds[m].call)]


def _is_stack(graph: Graph, call: int, members: list[int], adds: Sequence[Placed], signatures: Sequence[Signature]) -> bool:
    """Whether a call that is no member of a list holds a list of blocks, whatever is unlike in these: two stacks that one stream passes."""
    return not _is_member(graph, call) and len(members) > 1 and _holds_blocks(graph, call, members, adds, signatures)


def _in_turns(graph: Graph, found: list[Block]) -> list[Block]:
    """The blocks, where members of several lists take turns (`for a, b in zip(cross, layers)`): one of each is a block, if one has more branches."""
    lists = [graph.modules[graph.calls[b.call].module].parent if b.call is not None and _is_member(graph, b.call) else None for b in found]
    begins = (n for n, held in enumerate(lists) if held is not None and (n == 0 or lists[n - 1] != held))
    for first in begins:  # blocks of another list may stand in front
        held = lists[first:]
        period = next((n for n in range(1, len(held)) if held[n] == held[0]), len(held))
        turns = 1 < period <= len(held) // 2 and len(held) % period == 0 and len(set(held[:period])) == period and None not in held
        if turns and held == held[:period] * (len(held) // period) and any(len(b.members) > 1 for b in found[first:]):
            runs = [found[n : n + period] for n in range(first, len(found), period)]
            return [*found[:first], *(Block(tuple(m for b in run for m in b.members), None) for run in runs)]
    return found


def _joined(graph: Graph, found: list[Block], signatures: Sequence[Signature]) -> list[Block]:
    """The blocks, where those that one member of a list holds, a list of modules of unlike kinds that is called itself never, are one:
    `ModuleList([self_attention, cross_attention])` in a `ModuleList`."""
    held = [_holder(graph, block.call) for block in found]
    runs = [(holder, [n for n, h in enumerate(held) if h == holder]) for holder in dict.fromkeys(held) if holder is not None]
    kinds = {holder: [tuple(signatures[m] for m in found[n].members) for n in places] for holder, places in runs}
    whole = len({tuple(k) for k in kinds.values()}) == 1 and all(
        len(places) > 1 and len(set(kinds[holder])) == len(places) and places == list(range(places[0], places[0] + len(places)))
        for holder, places in runs
    )
    if len(runs) < 2 or not whole:
        return found
    joined = {places[0]: Block(tuple(m for n in places for m in found[n].members), None) for _, places in runs}
    return [joined.get(n, block) for n, block in enumerate(found) if held[n] is None or n in joined]


def _holder(graph: Graph, call: int | None) -> int | None:
    """The list of modules, a member of another list of several, that holds the module of a call."""
    parents = [m.parent for m in graph.modules]
    holder = parents[graph.calls[call].module] if call is not None else None
    above = parents[holder] if holder is not None else None
    lists = above is not None and all(graph.modules[m].container == "list" for m in (holder, above) if m is not None)
    return holder if lists and parents.count(above) > 1 and not any(c.module == holder for c in graph.calls) else None


def _repeats(graph: Graph, call: int, members: list[int], adds: Sequence[Placed], signatures: Sequence[Signature]) -> bool:
    """Whether a call holds several blocks: its branches repeat; in a member of a list their roles and the lines of code that add them (the last block
    of a stack may have the stack's own norm). In a stack beside another one it is enough that several roles, and these lines, take turns."""
    if _is_member(graph, call):
        whole = [(signatures[m], line) for m, line in zip(members, _lines(graph, members, adds), strict=True)]
        period = _period([(signature[:1], line) for signature, line in whole])
        compared = range(len(whole) - period - 1)  # all but the very last branch
        return _period(whole) < len(whole) or (len(compared) > 0 and all(whole[i] == whole[i + period] for i in compared))
    turns = _period([(signatures[m][:1], line) for m, line in zip(members, _lines(graph, members, adds), strict=True)])
    return _period([signatures[m] for m in members]) < len(members) or 1 < turns < len(members)


def _holds_blocks(graph: Graph, top: int, members: list[int], adds: Sequence[Placed], signatures: Sequence[Signature]) -> bool:
    """Whether a member of a list holds a list of blocks itself (the stages of a pyramid): some of several of its members has several branches, or
    their roles take turns at least twice, whole or not, or they are many of one list."""
    groups = _children(graph, top, members, adds) or []
    roles = [[signatures[m][:1] for m in group] for _, group in groups]
    turns = any(roles[:-p] == roles[p:] for p in range(2, (len(roles) - 1) // 2 + 1))
    turns = turns or (len(groups) >= MANY and len({graph.modules[graph.calls[call].module].parent for call, _ in groups}) == 1)
    return all(_is_member(graph, call) for call, _ in groups) and (turns or any(len(group) > 1 for _, group in groups))


def _is_stage(graph: Graph, top: int, members: list[int], adds: Sequence[Placed], signatures: Sequence[Signature]) -> bool:
    """Whether a call holds, somewhere inside, a list of which two members in a row have the same several roles: blocks, whatever stands beside it."""
    held: dict[int, list[tuple[int, list[object]]]] = {}
    for m in members:
        path = graph.call_path(adds[m].call)
        for call in path[path.index(top) + 1 :] if top in path else ():
            above = graph.modules[graph.calls[call].module].parent
            if above is None or graph.modules[above].container != "list":
                continue
            listed = held.setdefault(above, [])
            if not listed or listed[-1][0] != call:
                listed.append((call, []))
            listed[-1][1].append(signatures[m][0])
    return any(len(one) > 1 and one == two for listed in held.values() for (_, one), (_, two) in pairwise(listed))


def _is_rest(
    graph: Graph, call: int, members: list[int], groups: Sequence[tuple[int, list[int]]], adds: Sequence[Placed], signatures: Sequence[Signature]
) -> bool:
    """Whether a call is a block whose first branches begin the stream: a brother in its list has branches like its own, and others before them."""
    own = [signatures[m][:2] for m in members]
    for other, held in groups:
        brothers = graph.modules[graph.calls[other].module].parent == graph.modules[graph.calls[call].module].parent and _is_member(graph, call)
        if brothers and len(held) > len(own) and [signatures[m][:2] for m in held[-len(own) :]] == own:
            return not any(asked(graph, other, held, adds, signatures) for asked in (_repeats, _is_stage))
    return False


def _common(graph: Graph, calls: list[int]) -> int:
    """The innermost call that holds all."""
    paths = [graph.call_path(c) for c in calls]
    common = 0
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        common = level[0]
    return common


def _is_member(graph: Graph, call: int) -> bool:
    """Whether the call is one of a member of a list of modules, or of several such calls."""
    return call in graph.members


def _children(graph: Graph, top: int, members: list[int], adds: Sequence[Placed]) -> list[tuple[int, list[int]]] | None:
    """Members by the child call of `top` that holds them; those that stand in `top` itself go with the next, but for those of a layer whose parts
    `top` calls one by one.

    None when most of them stand in `top` itself."""
    groups: list[tuple[int, list[int]]] = []
    lone: list[int] = []
    if sum(adds[m].call == top for m in members) * 2 > len(members):
        return None
    for member in members:
        path = graph.call_path(adds[member].call)
        depth = path.index(top) + 1
        if depth >= len(path):
            lone.append(member)
        elif groups and groups[-1][0] == path[depth] and not lone:
            groups[-1][1].append(member)
        else:
            groups.append((path[depth], [*lone, member]))
            lone = []
    called = [graph.calls[call].module for call, _ in groups]
    apart: list[tuple[int, list[int]]] = []
    for call, group in [*groups, *([(top, lone)] if lone else [])]:
        layers = {m: _layer(graph, top, adds[m], called) for m in group if adds[m].call == top}
        layers = {m: layer for m, layer in layers.items() if layer is not None}
        apart += [(top, [m for m in group if layers.get(m) == layer]) for layer in dict.fromkeys(layers.values())]
        rest = [m for m in group if m not in layers]
        apart += [(call, rest)] * bool(rest)
    return apart if len(apart) > 1 else None


def _layer(graph: Graph, top: int, placed: Placed, called: list[int]) -> int | None:
    """The module, a brother of modules that `top` calls, whose parts make a branch that is added in `top` itself: another member of their list, or
    a module beside them that holds the like."""
    brothers = {_kin(graph, module) for module in called} if placed.maps is not None else set()
    here = placed.maps
    while here is not None and here not in called and _kin(graph, here) not in brothers:
        here = graph.modules[here].parent
    return here if here not in called else None


def _kin(graph: Graph, module: int) -> tuple[object, ...]:
    """What brothers have in common: the list that they are members of, or the module that holds them and what they hold, if anything."""
    above, tree = graph.modules[module].parent, graph.trees[module]
    if above is not None and graph.modules[above].container == "list":
        return (above,)
    return (above, tree) if tree[1:] else (module,)


def _period(items: Sequence[object]) -> int:
    """The smallest p that divides the length with items[i] = items[i mod p]."""
    count = len(items)
    for period in range(1, count):
        if count % period == 0 and all(items[i] == items[i % period] for i in range(period, count)):
            return period
    return count


def _lines(graph: Graph, members: list[int], adds: Sequence[Placed]) -> list[tuple[str, int]]:
    """The line of code of each add."""
    return [(graph.nodes[adds[m].add].file, graph.nodes[adds[m].add].line) for m in members]


def _listed(graph: Graph, top: int, members: list[int], adds: Sequence[Placed], signatures: Sequence[Signature]) -> list[Block]:
    """A block for each member of one list inside of a call that adds their branches itself, where two in a row have the same several roles: the
    first member of a stage may have a filter more. Nothing where that is not how they stand."""
    found: list[tuple[tuple[int, int] | None, list[int]]] = []
    for m in members:
        here = _member_below(graph, graph.calls[top].module, adds[m].maps)
        if not found or found[-1][0] != here:
            found.append((here, []))
        found[-1][1].append(m)
    held, roles = [here for here, _ in found], [[signatures[m][0] for m in group] for _, group in found]
    whole = len(set(held)) == len(held) and len({here[0] if here else None for here in held}) == 1 and None not in held
    return [Block(tuple(g), None) for _, g in found] if whole and any(len(a) > 1 and a == b for a, b in pairwise(roles)) else []


def _member_below(graph: Graph, top: int, module: int | None) -> tuple[int, int] | None:
    """(list, member) around a module, of the outermost list inside of `top`; None where there is none."""
    found: tuple[int, int] | None = None
    while module is not None and module != top:
        above = graph.modules[module].parent
        if above is not None and graph.modules[above].container == "list":
            found = above, module
        module = above
    return found if module == top else None


def _by_member(members: list[int], signatures: Sequence[Signature], adds: Sequence[Placed]) -> list[Block]:
    """A block for each member of one list that branches end in, one after the other; what ends in none goes with the one before. Nothing where that
    is not how they stand, or where a member holds branches that repeat (a stage of several blocks)."""
    found: list[list[int]] = []
    order: list[tuple[int, int, int]] = []
    for m in members:
        here = adds[m].member
        if here is not None and order[-1:] != [here]:
            order.append(here)
            if len(order) > 1 or not found:
                found.append([])
        elif not found:
            found.append([])
        found[-1].append(m)
    if len(order) < FEWEST or len(set(order)) < len(order) or len({container for container, _, _ in order}) > 1:
        return []
    known = [[signatures[m] for m in group if signatures[m][0] != "other"] for group in found]
    return [] if any(_period(items) < len(items) for items in known) else [Block(tuple(group), None) for group in found]


def _by_period(
    members: list[int], signatures: Sequence[Signature], call: int | None, lines: Sequence[object], adds: Sequence[Placed], inside: list[Block]
) -> list[Block]:
    """Without calls: the shortest period, of branches or of the lines in a loop that add them; where there is none, the members of the list that
    branches end in (`inside` of the call, or outermost); else a new block begins where mixing follows a feed-forward."""
    items = [signatures[m] for m in members]
    period = _period(items)
    if period == len(items):  # a loop whose blocks differ in a number
        period = _period([(item[:1], line) for item, line in zip(items, lines, strict=True)])
    if period == len(items):  # blocks that are equal but for details (the first one has no earlier values)
        period = _period([item[:1] for item in items])
        period = period if any(_mixes(item) for item in items) else len(items)
        period = 1 if period == len(items) > 2 and _period(items[1:]) == 1 else period
    if period < len(items):
        return [Block(tuple(members[i : i + period]), None) for i in range(0, len(members), period)]
    rest = _period(items[1:])
    if 1 < rest < len(items) - 1 and items[0] not in items[1:]:  # something is added in front of the first block
        return [Block(tuple(members[: rest + 1]), None), *(Block(tuple(members[i : i + rest]), None) for i in range(rest + 1, len(members), rest))]
    if listed := inside or _by_member(members, signatures, adds):
        return listed
    found: list[list[int]] = []
    for position, member in enumerate(members):
        starts = position == 0 or (_mixes(items[position]) and not _mixes(items[position - 1]))
        if starts:
            found.append([])
        found[-1].append(member)
    return [Block(tuple(group), call if len(found) == 1 else None) for group in found]


def _mixes(signature: Signature) -> bool:
    return signature[0] not in ("ffn", "gated_ffn", "moe", "other")
