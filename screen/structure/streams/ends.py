"""The first and the last of several equal blocks, read as their neighbours are; and what of the stream's ends stands outside of all blocks.

A loop (a block target) has no ends: its blocks are grouped by copy, and all are read as the one in the middle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from screen.structure.branches.weights import weights_of
from screen.structure.chains.identity_edges import Edge
from screen.structure.streams.blocks import Block, Placed, blocks
from screen.structure.streams.equal_calls import Counterparts, EqualCalls
from screen.structure.streams.multipliers import Scales
from screen.structure.streams.reader import Reader
from screen.structure.types import Norm, Scale, Sublayer, Unknown


def signature(sub: Sublayer) -> tuple[object, ...]:
    """What makes two sublayers equal: everything but names and places."""
    ports = tuple((p.name, _word(p.normed)) for p in sub.ports)
    return (
        sub.role,
        sub.placement,
        sub.positions,
        sub.norm_type,
        *map(_word, (sub.qk_norm, sub.q_norm, sub.k_norm, sub.v_norm)),
        sub.alpha.kind,
        sub.alpha.value,
        sub.branch.kind,
        sub.branch.value,
        sub.gated_output,
        _word(sub.m.maps),
        sub.normed_skip,
        sub.norm_on_skip,
        sub.adds_norm,
        ports,
        sub.parallel_group is not None,
        tuple(n.type for _, n in sub.norms),
    )


def _places(subs: Sequence[Sublayer]) -> list[int]:
    """Of each sublayer its place among those that read the same state: parallel branches make no blocks of their own, however alike they are."""
    seen: Counter[int | None] = Counter()
    places = []
    for sub in subs:
        places.append(0 if sub.parallel_group is None else seen[sub.parallel_group])
        seen[sub.parallel_group] += 1
    return places


def _word(value: object) -> str:
    """A reason, without the nodes that it blames: every block has its own."""
    return value.reason if isinstance(value, Unknown) else str(value)


@dataclass(frozen=True)
class Ends:
    """The blocks of one stream."""

    reader: Reader

    @property
    def is_loop(self) -> bool:
        """The stream of a block target: its end is its start."""
        return self.reader.flow.graph.loop is not None and not self.reader.chain.inner

    @cached_property
    def groups(self) -> list[Block]:
        """Residual branches, by blocks."""
        graph, subs = self.reader.flow.graph, self.reader.sublayers
        if self.is_loop and graph.loop is not None:
            of_copy = {c: [i for i, s in enumerate(subs) if c in graph.call_path(graph.nodes[s.add].call)] for c in graph.loop.copies}
            return [Block(tuple(members), copy) for copy, members in of_copy.items() if members]
        own = [(*signature(s), place, over) for s, place, over in zip(subs, _places(subs), self._over_tokens, strict=True)]
        return blocks(graph, [Placed(b.add, b.home, b.member, b.maps_in) for _, b in self.reader.branches], own)

    @cached_property
    def _over_tokens(self) -> list[bool]:
        """Of each branch, whether some weight of it maps tokens: it is none of those that map features, however alike they are."""
        nodes = self.reader.flow.graph.nodes
        return [any(branch.norms.features.maps_others(nodes[i]) for i in weights_of(branch)) for _, branch in self.reader.branches]

    def positions(self, block: Block) -> list[int]:
        """Its adds, by their positions on the chain."""
        return [self.reader.branches[m][0] for m in block.members]

    @cached_property
    def _equal(self) -> EqualCalls:
        return EqualCalls(self.reader.flow.graph)

    def _is_equal(self, end: int) -> bool:
        """Whether the block at an end (0 or −1) and its next two neighbours run the same program."""
        near = self.groups[:3] if end == 0 else self.groups[-3:]
        return len(near) == 3 and self._equal.are_equal([g.call for g in near])

    @cached_property
    def sublayers(self) -> list[tuple[Sublayer, tuple[object, ...]]]:
        """Every sublayer with the constants of its branch; those of a block at an end as its neighbour has them."""
        read = [(s, b.constants) for s, (_, b) in zip(self.reader.sublayers, self.reader.branches, strict=True)]
        for end, neighbour in ((0, 1), (-1, -2)):
            if len(self.groups) < 3:
                break
            own, other = ([read[m] for m in self.groups[g].members] for g in (end, neighbour))
            if _signed(own) != _signed(other) and self._is_equal(end):
                moved = self._as_in_the_middle([s for s, _ in own], [s for s, _ in other], self.groups[end], self.groups[neighbour])
                for place, sub, (_, constants) in zip(self.groups[end].members, moved, other, strict=False):
                    read[place] = sub, constants
        return read

    def _as_in_the_middle(self, own: Sequence[Sublayer], other: Sequence[Sublayer], block: Block, middle: Block) -> list[Sublayer]:
        """The sublayers of a block as they would be in the place of its neighbour; none where they do not correspond."""
        if block.call is None or middle.call is None:
            return []
        parts = Counterparts(self._equal, middle.call, block.call)
        norms = self.reader.chains.edges.norms.by_node
        found: list[Sublayer] = []
        for mine, theirs in zip(own, other, strict=False):
            around: list[tuple[str, Norm]] = []
            for position, norm in theirs.norms:
                node = parts.node(norm.node)
                if node is None or node not in norms:
                    return []  # it stands between the blocks, and is of none
                around.append((position, norms[node]))
            if parts.node(theirs.add) != mine.add:
                return []
            found.append(_moved(mine, theirs, tuple(around), parts.names))
        return found if len(own) == len(other) else []

    # -- what stands outside of all blocks ----------------------------------------------------------------------------------------------

    def outside(self, nodes: Sequence[int], end: int) -> list[int]:
        """Those nodes before the first block (0), or behind the last one (−1), that do not stand in it: in a loop none."""
        if self.is_loop:
            return []
        graph, call = self.reader.flow.graph, self.groups[end].call if self.groups else None
        others = [n for n in nodes if call is None or call not in graph.call_path(graph.nodes[n].call)]
        return others if len(others) < len(nodes) and self._is_equal(end) else list(nodes)

    @cached_property
    def on_embedding(self) -> list[Edge]:
        """What the state that the first branch reads was multiplied by before the first block."""
        edges = Scales(self.reader, self.reader.stream_norms).on_embedding()
        kept = self.outside([e.node for e in edges], 0)
        return [e for e in edges if e.node in kept]

    @cached_property
    def embedding_factor(self) -> float | None:
        """Their product where it is a number."""
        found = [e.factor for e in self.on_embedding]
        return math.prod(f for f in found if f is not None) if found and None not in found else None


def _signed(block: Sequence[tuple[Sublayer, tuple[object, ...]]]) -> list[object]:
    return [(signature(s), constants) for s, constants in block]


def _moved(own: Sublayer, other: Sublayer, norms: tuple[tuple[str, Norm], ...], names: dict[str, str]) -> Sublayer:
    """A sublayer with what was read of it in the middle."""

    def scale(found: Scale, read: Scale) -> Scale:
        mine = replace(found, parameters=tuple(names.get(n, n) for n in found.parameters))
        return replace(mine, init=read.init) if read.parameters == mine.parameters else mine

    return replace(
        own, placement=other.placement, positions=other.positions, unknown=other.unknown, norms=norms, norm_type=other.norm_type, ports=other.ports,
        alpha=scale(other.alpha, own.alpha), branch=scale(other.branch, own.branch), gated_output=other.gated_output, normed_skip=other.normed_skip,
        norm_on_skip=other.norm_on_skip,
    )  # fmt: skip


__all__ = ["Ends", "signature"]
