"""From a stream of the facts to a `Stack`: one program per branch, blocks in the order of their layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise

from screen.calculi.meanfield import tied_weights
from screen.calculi.meanfield.blocks import JOINS, Blocks
from screen.calculi.meanfield.context import Context
from screen.calculi.meanfield.cuts import Cuts
from screen.calculi.meanfield.lower.axes import of_state
from screen.calculi.meanfield.lower.lower import Reader
from screen.calculi.meanfield.lower.other_streams import Foreign, beside
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Block, Stack, forward
from screen.calculi.meanfield.transfer import Fourier, Mix, Normalise
from screen.calculi.meanfield.values import Stop
from screen.calculi.meanfield.walk import Walk
from screen.calculi.meanfield.weights import Weights, same_shapes
from screen.graph import Node, Ref
from screen.structure.types import Kind, Norm, NormType, Place, Stream, Unknown

DIFFERENT = "blocks of one kind start from different initialisers"
MOST_BEFORE = 6
"""Other streams behind each other up to which a stack that reads one is computed: each is computed again for every later one."""


@dataclass(repr=False)
class Builder(Context):
    """Builds the stack of one stream."""

    def __post_init__(self) -> None:
        self.weights = Weights(self.graph)
        inside = [n for kind in self.stream.kinds for sub in kind.sublayers for _, n in sub.norms]
        fused = [norm for n in self.graph.nodes if (norm := _fused_norm(n)) is not None]
        self.norms = {**{n.node: n for n in (*fused, *inside)}, **self.norms}
        self.layouts = {}
        outside = beside(self.graph, self.stream, self.others)
        ends = {other.states[-1]: cache(partial(self._end, other)) for other in outside}
        shapes = {o.states[-1]: (self.graph.nodes[o.states[-1]].shape or (), o.width) for o in outside}
        layouts = {node: of_state(shape, width) for node, (shape, width) in shapes.items() if shape}
        self.foreign = Foreign(ends, frozenset(n for other in outside for n in other.states[:-1]), layouts)
        normed = {n.size for n in inside if n.axes == (-1,)}
        for node in self.stream.states:
            shape = self.graph.nodes[node].shape
            if shape:
                self.layouts[node] = of_state(shape, self.stream.width, normed)
        self.copies = False
        self.begun: Program | Unknown = Unknown("the way into the stream was not read")
        self.walk = Walk(self.graph, self.weights, self.norms, self.assumptions)
        self.cuts = Cuts(self.stream, self.graph, self.weights, self.norms, self.walk, self.foreign)

    def stack(self, depth: int) -> Stack:
        """The stack; raises `Stop` where something cannot be told."""
        if self.graph.failure is not None:
            raise Stop(f"the forward failed: {self.graph.failure.message}")
        if self.stream.long_skips:
            raise Stop("earlier states of the stream are added to it again", *(s.add for s in self.stream.long_skips))
        if not self.stream.kinds or self.stream.depth < 1:
            raise Stop("the stream has no blocks")
        self.cuts.loop = depth > self.stream.depth and self._is_loop()
        blocks = {kind.id: Blocks(self, kind).block() for kind in self.stream.kinds}
        layers = _layers(self.stream.kinds)
        groups = self._groups()
        start = self._start()
        final = Normalise(0, 0, False, 0.0, 1.0) if self.stream.final_norm is True else None
        tied = "blocks that start as copies of one another" if self.copies else "blocks whose weights serve at several depths"
        if groups and any(i.program.tokens for b in blocks.values() for a in b for i in a.inlets):
            raise Stop(f"{tied}, and in which the stream meets itself, have no row in the recursion")
        if groups and any(isinstance(s, Mix | Fourier) for b in blocks.values() for a in b for i in a.inlets for s in i.program.steps):
            raise Stop(f"experts, or a Fourier mixing, in {tied} have no row in the recursion")
        serving = tuple(groups[n % len(groups)] for n in range(depth)) if groups else ()
        every = [blocks[layers[n % len(layers)]] for n in range(depth)]
        if not self.cuts.loop:
            every[-1] = self._last(every[-1])
        return Stack(start, tuple(every), final, serving, self.tokens, self.copies)

    def _last(self, block: Block) -> Block:
        """The last block, where what the next one would do to the stream first does not follow."""
        if not any(i.program.tokens for add in block for i in add.inlets):
            return block
        end, whole = self.cuts.last_end()
        last = self.cuts.spans(self.stream.traced[-1].kind)[0][0] + 1 == len(self.stream.traced)
        return block if whole or last else Blocks(self, next(k for k in self.stream.kinds if k.id == self.stream.traced[-1].kind)).ending(end)

    def _is_loop(self) -> bool:
        """Whether the whole graph is a block (or some), and what it returns is read again."""
        begin = self.graph.nodes[self.stream.states[0]]
        return begin.op == "input" and bool(self.graph.outputs) and self.graph.nodes[self.graph.outputs[0]].shape == begin.shape

    def _end(self, other: Stream) -> Moments:
        """Moments of the last state of another stream, by its own recursion; norms after it are left to its reader."""
        if len(self.others) > MOST_BEFORE:
            raise Stop(f"it reads one of {len(self.others)} other streams, each made of the ones before", other.states[-1])
        if self.graph.nodes[other.states[-1]].op not in JOINS:
            raise Stop(f"the last state of `{other.name}` is not known", other.states[-1])
        rest = tuple(o for o in self.others if o is not other and o.states[-1] < other.states[-1])
        builder = Builder(other, self.graph, self.tokens, self.assumptions, others=rest, norms=self.norms)
        stack = builder.stack(other.depth)
        return (tied_weights.forward(stack) if stack.tied else forward(stack)).sums[-1]

    # -- ends of the stream ------------------------------------------------------------------------------------------------------------

    def _start(self) -> Moments:
        """Moments of the state that the first branch reads."""
        read = self.cuts.entry(0)
        self.begun = program = self.way_in(read)
        if isinstance(program, Unknown):
            if self.stream.embed_norm is True or "C" in self.stream.kinds[0].sublayers[0].positions:
                self.assumptions.add("the first state has entries of mean square one, independent between tokens (a norm follows before it counts)")
                return Moments(1.0, 1.0)
            raise Stop(f"the size of the stream's first state is not known: {program.reason}", *program.nodes)
        return program.forward(Moments(1.0, 1.0))[program.output]

    def way_in(self, read: int) -> Program | Unknown:
        """The way into the stream."""
        found: list[Program | Unknown] = []
        for linked in (False, True):
            reader = Reader(
                self.graph, self.weights, self.norms, {}, self.tokens, self.assumptions, sources=True, linked=linked, foreign=self.foreign
            )
            found.append(reader.program(read))
            if isinstance(found[-1], Program):
                return found[-1]
        return found[0]

    def _groups(self) -> tuple[int, ...]:
        """Group of each block, those with the same matrices, or with ones that start with the same numbers; empty where there are none. Raises where
        equal blocks start differently, and where a block has some of another's matrices and not all."""
        per_block = len(self.stream.kinds[0].sublayers)
        adds = [s for s in self.stream.states if s >= self.stream.kinds[0].sublayers[0].add and self._is_residual(s)]
        self._compare_starts(adds, per_block)
        used = [self.weights.matrices(one, two) for one, two in pairwise([-1, *adds])]
        if sum(map(len, used)) == len(frozenset().union(*used)):
            used = [self.weights.alike(matrices) for matrices in used]
            self.copies = sum(map(len, used)) > len(frozenset().union(*used))
            if not self.copies:
                return ()
        serve = "start as copies of one another" if self.copies else "serve at several depths"
        if len(adds) != per_block * self.stream.depth:
            raise Stop(f"weights {serve}, and at which is not known")
        blocks = [tuple(used[n : n + per_block]) for n in range(0, len(used), per_block)]
        groups: list[int] = []
        for place, block in enumerate(blocks):
            met = [n for n in range(place) if frozenset().union(*block) & frozenset().union(*blocks[n])]
            first = next((n for n in met if all(a <= b for a, b in zip(block, blocks[n], strict=True))), None)
            if met and first is None:
                again = "start as copies of those of another one" if self.copies else "serve in another one"
                raise Stop(f"some weights of a block {again}, and others do not", adds[place * per_block])
            groups.append(place if first is None else groups[first])
        if len(set(groups)) == len(groups):
            raise Stop(f"some weights {'start alike' if self.copies else 'serve'} in several branches of one block")
        return tuple(groups)

    def _compare_starts(self, adds: list[int], per_block: int) -> None:
        if len(self.stream.kinds) == self.stream.depth:  # each block is read for itself
            return
        seen: dict[tuple[int, int], tuple[object, ...]] = {}
        for place, (one, two) in enumerate(pairwise([self.stream.states[0], *adds])):
            mark, position = self.weights.signature(one, two), place % per_block
            if any(other == position and same_shapes(known, mark) and known != mark for (other, _), known in seen.items()):
                raise Stop(DIFFERENT, two)
            seen.setdefault((position, len(mark)), mark)

    def _is_residual(self, state: int) -> bool:
        node = self.graph.nodes[state]
        return node.op in JOINS and len({i for i in node.inputs if not self.weights.is_trained(i)}) > 1


def layer_by_layer(stream: Stream) -> Stream | None:
    """The same stream with a kind of block for every layer, for an initialisation that depends on the layer; None where not all of them ran."""
    known = {kind.id: kind for kind in stream.kinds}
    if len(stream.traced) != stream.depth or stream.copies != 1 or len(stream.kinds) == stream.depth:
        return None
    kinds = []
    for n, ran in enumerate(stream.traced):
        kind = known[ran.kind]
        if len(kind.sublayers) != len(ran.branches):
            return None
        own = tuple(replace(sub, add=add, output=output) for sub, (add, output) in zip(kind.sublayers, ran.branches, strict=True))
        kinds.append(replace(kind, id=f"{kind.id}/{n}", count=1, layers=((n, n),), sublayers=own))
    traced = tuple(replace(ran, kind=kind.id) for ran, kind in zip(stream.traced, kinds, strict=True))
    return replace(stream, kinds=tuple(kinds), traced=traced)


def _layers(kinds: Iterable[Kind]) -> list[str]:
    """Kind of every layer, in order."""
    table = {n: kind.id for kind in kinds for first, last in kind.layers for n in range(first, last + 1)}
    return [table[n] for n in sorted(table)]


def _fused_norm(node: Node) -> Norm | None:
    """A norm in one call, over the last axis."""
    if node.op not in ("layer_norm", "rms_norm") or not isinstance(node.args[0], Ref):
        return None
    kind: NormType = "layernorm" if node.op == "layer_norm" else "rmsnorm"
    eps = node.kwarg("eps")
    number = float(eps) if isinstance(eps, int | float) else 0.0
    place = Place(node.index, "", node.file, node.line)
    return Norm(node.index, node.args[0].node, kind, kind == "layernorm", (-1,), (node.shape or (1,))[-1], number, place)


__all__ = ["Builder"]
