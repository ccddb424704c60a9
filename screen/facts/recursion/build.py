"""From a stream of the facts to a `Stack`: one program per branch, blocks in the order of their layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise

from screen import ops
from screen.facts.nouns import Kind, Norm, NormType, Place, Scale, Stream, Sublayer, Unknown
from screen.facts.recursion import tied
from screen.facts.recursion.layout import Layout, stream_layout
from screen.facts.recursion.memory import Foreign, beside
from screen.facts.recursion.moments import Moments
from screen.facts.recursion.program import Program
from screen.facts.recursion.reader import NORMS, Reader
from screen.facts.recursion.stack import Add, Block, Inlet, Stack, forward
from screen.facts.recursion.steps import Fourier, Mix, Normalise
from screen.facts.recursion.values import Stop
from screen.facts.recursion.weights import Weights, same_shapes
from screen.graph import Graph, Node, Ref

BEYOND = {
    "ssm": "a state is carried from token to token by a decay that depends on the tokens and starts at values that are no draw",
    "rnn": "a state is carried from token to token, how far depends on the tokens",
    "linear_attention": "sums over the tokens so far grow with the position, and divided by each other they are no average of independent rows",
    "fourier": "a fixed mixing of tokens and features makes no independent sums, and no norm on the stream follows",
}
"""Role -> why exchangeable tokens and independent weights do not give its law."""
JOINS = frozenset({"add", "sub", "lerp", "addcmul", "index_add"})


@dataclass
class Builder:
    """Builds the stack of one stream."""

    stream: Stream
    graph: Graph
    tokens: int
    assumptions: set[str] = field(default_factory=set)
    used: set[tuple[int, int | None]] = field(default_factory=set)
    """Weights of all branches: one that serves twice makes them dependent."""
    others: tuple[Stream, ...] = ()
    """Streams that a branch may read."""
    norms: Mapping[int, Norm] = field(default_factory=dict)
    """All norms of the graph, by node."""

    def __post_init__(self) -> None:
        self.weights = Weights(self.graph)
        self.layouts: dict[int, Layout] = {}
        outside = beside(self.graph, self.stream, self.others)
        ends = {other.states[-1]: cache(partial(self._end, other)) for other in outside}
        self.foreign = Foreign(ends, frozenset(n for other in outside for n in other.states[:-1]))
        for node in self.stream.states:
            shape = self.graph.nodes[node].shape
            if shape:
                self.layouts[node] = stream_layout(shape, -1 if shape[-1] == self.stream.width else min(1, len(shape) - 1))

    def stack(self, depth: int) -> Stack:
        """The stack; raises `Stop` where something cannot be told."""
        if self.graph.failure is not None:
            raise Stop(f"the forward failed: {self.graph.failure.message}")
        if self.stream.long_skips:
            raise Stop("earlier states of the stream are added to it again", *(s.add for s in self.stream.long_skips))
        if not self.stream.kinds or self.stream.depth < 1:
            raise Stop("the stream has no blocks")
        blocks = {kind.id: self._block(kind) for kind in self.stream.kinds}
        layers = _layers(self.stream.kinds)
        groups = self._groups()
        start = self._start()
        final = Normalise(0, 0, False, 0.0, 1.0) if self.stream.final_norm is True else None
        if groups and any(isinstance(s, Mix | Fourier) for b in blocks.values() for a in b for i in a.inlets for s in i.program.steps):
            raise Stop("experts, or a Fourier mixing, in blocks whose weights serve at several depths have no row in the recursion")
        serving = tuple(groups[n % len(groups)] for n in range(depth)) if groups else ()
        return Stack(start, tuple(blocks[layers[n % len(layers)]] for n in range(depth)), final, serving, self.tokens)

    # -- one block ---------------------------------------------------------------------------------------------------------------------

    def _block(self, kind: Kind) -> Block:
        adds: list[Add] = []
        group: list[Sublayer] = []
        for sub in kind.sublayers:
            if group and (sub.parallel_group is None or sub.parallel_group != group[-1].parallel_group):
                adds.append(self._add(group))
                group = []
            group.append(sub)
        if group:
            adds.append(self._add(group))
        return tuple(adds)

    def _add(self, group: list[Sublayer]) -> Add:
        identity = 1.0
        for sub in group:
            identity *= _number(sub.alpha, f"the multiplier of the stream at `{sub.name}`", sub.add) ** 2
        inlets = tuple(Inlet(s.name, self._program(s, {g.add for g in group}), self._factor(s)) for s in group)
        close = self._close(group[-1])
        if close is None and any(isinstance(s, Fourier) for i in inlets for s in i.program.steps):
            raise Stop(f"`{group[-1].name}`: {BEYOND['fourier']}", group[-1].output)
        return Add(inlets, identity, close)

    def _close(self, sub: Sublayer) -> Normalise | None:
        norm = next((n for position, n in sub.norms if position == "C"), None)
        if norm is None:
            if "C" in sub.positions:
                raise Stop(f"the norm on the stream after `{sub.name}` is not known", sub.add)
            return None
        if norm.type not in NORMS:
            raise Stop(f"a norm of type `{norm.type}` on the stream has no row in the recursion", norm.node)
        node = self.graph.nodes[norm.node]
        weight = node.kwarg("weight")
        gain = self.weights.mean_square(weight.node) if isinstance(weight, Ref) else 1.0
        if isinstance(gain, Unknown):
            raise Stop(gain.reason, *gain.nodes)
        return Normalise(0, 0, NORMS[norm.type], norm.eps or 0.0, gain / (norm.size if norm.type == "l2" else 1))

    def _factor(self, sub: Sublayer) -> float:
        """s² of the add itself (`alpha=`, a minus); multipliers before it are steps of the branch."""
        node = self.graph.nodes[sub.add]
        if node.op not in ("add", "sub"):
            raise Stop(f"a residual add by `{node.op}` has no row in the recursion", sub.add)
        factor = node.kwarg("alpha", 1)
        second = len(node.args) > 1 and isinstance(node.args[1], Ref) and node.args[1].node == sub.output
        return float(factor) ** 2 if second and isinstance(factor, int | float) else 1.0

    def _program(self, sub: Sublayer, group: set[int]) -> Program:
        leaves = {n: layout for n, layout in self.layouts.items() if n < sub.add}
        norms = {**self.norms, **{n.node: n for _, n in sub.norms}}
        reader = Reader(self.graph, self.weights, norms, leaves, self.tokens, self.assumptions, used=self.used, foreign=self.foreign)
        program = reader.program(sub.output)
        if isinstance(program, Unknown):
            if not self.others and any(p.name == "memory" for p in sub.ports):
                raise Stop(f"`{sub.name}` reads another stream", sub.output)
            why = f"{BEYOND[sub.role]}: " if sub.role in BEYOND else ""
            raise Stop(f"`{sub.name}`: {why}{program.reason}", *program.nodes)
        for read in reader.table:
            if read in leaves and (late := self._between(read, sub.add, group)):
                raise Stop(f"`{sub.name}` reads an earlier state than the one that it is added to", late[0])
        return program

    def _between(self, read: int, add: int, group: set[int]) -> list[int]:
        """What happens to the stream between a read and the add: other adds, or a norm that the branch does not see."""
        found = []
        for state in self.stream.states:
            if read < state < add and state not in group:
                node = self.graph.nodes[state]
                both = [i for i in node.inputs if not self.weights.is_trained(i)]
                if (node.op in JOINS and len(set(both)) > 1) or ops.CLASSES.get(node.op) == "norm":
                    found.append(state)
        return found

    def _end(self, other: Stream) -> Moments:
        """Moments of the last state of another stream, by its own recursion; norms after it are left to its reader."""
        if self.graph.nodes[other.states[-1]].op not in JOINS:
            raise Stop(f"the last state of `{other.name}` is not known", other.states[-1])
        rest = tuple(o for o in self.others if o is not other and o.states[-1] < other.states[-1])
        builder = Builder(other, self.graph, self.tokens, self.assumptions, others=rest, norms=self.norms)
        stack = builder.stack(other.depth)
        return (tied.forward(stack) if stack.tied else forward(stack)).sums[-1]

    # -- ends of the stream ------------------------------------------------------------------------------------------------------------

    def _start(self) -> Moments:
        """Moments of the state that the first branch reads."""
        first = self.stream.kinds[0].sublayers[0]
        before = [n for n in self.stream.states if n < min(s.add for s in self.stream.kinds[0].sublayers)]
        read = max((n for n in before if self._reaches(n, first.output)), default=None)
        if read is None:
            raise Stop("the state that the first branch reads is not known", first.add)
        norms = {n.index: norm for n in self.graph.nodes[: read + 1] if (norm := _fused_norm(n)) is not None} | dict(self.norms)
        reader = Reader(self.graph, self.weights, norms, {}, self.tokens, self.assumptions, sources=True, foreign=self.foreign)
        program = reader.program(read)
        if isinstance(program, Unknown):
            if self.stream.embed_norm is True or "C" in first.positions:
                self.assumptions.add("the first state has entries of mean square one, independent between tokens (a norm follows before it counts)")
                return Moments(1.0, 1.0)
            raise Stop(f"the size of the stream's first state is not known: {program.reason}", *program.nodes)
        return program.forward(Moments(1.0, 1.0))[program.output]

    def _reaches(self, state: int, output: int) -> bool:
        """Whether a branch reads a state, by a walk back from its output that ends at states."""
        seen: set[int] = set()
        stack, states = [output], set(self.stream.states)
        while stack:
            node = stack.pop()
            if node == state:
                return True
            if node not in seen and node >= state and (node not in states or node == output):
                seen.add(node)
                stack.extend(self.graph.nodes[node].inputs)
        return False

    def _groups(self) -> tuple[int, ...]:
        """Group of each block, those with the same matrices; empty where none serves twice. Raises where equal blocks start differently, and where a
        block has some of another's matrices and not all."""
        per_block = len(self.stream.kinds[0].sublayers)
        adds = [s for s in self.stream.states if s >= self.stream.kinds[0].sublayers[0].add and self._is_residual(s)]
        self._compare_starts(adds, per_block)
        used = [self.weights.matrices(one, two) for one, two in pairwise([-1, *adds])]
        if sum(map(len, used)) == len(frozenset().union(*used)):
            return ()
        if len(adds) != per_block * self.stream.depth:
            raise Stop("weights serve at several depths, and at which is not known")
        blocks = [tuple(used[n : n + per_block]) for n in range(0, len(used), per_block)]
        groups: list[int] = []
        for place, block in enumerate(blocks):
            met = [n for n in range(place) if frozenset().union(*block) & frozenset().union(*blocks[n])]
            first = next((n for n in met if all(a <= b for a, b in zip(block, blocks[n], strict=True))), None)
            if met and first is None:
                raise Stop("some weights of a block serve in another one, and others do not", adds[place * per_block])
            groups.append(place if first is None else groups[first])
        return tuple(groups)

    def _compare_starts(self, adds: list[int], per_block: int) -> None:
        seen: dict[tuple[int, int], tuple[object, ...]] = {}
        for place, (one, two) in enumerate(pairwise(adds)):
            mark, position = self.weights.signature(one, two), (place + 1) % per_block
            if any(other == position and same_shapes(known, mark) and known != mark for (other, _), known in seen.items()):
                raise Stop("blocks of one kind start from different initialisers", two)
            seen.setdefault((position, len(mark)), mark)

    def _is_residual(self, state: int) -> bool:
        node = self.graph.nodes[state]
        return node.op in JOINS and len({i for i in node.inputs if not self.weights.is_trained(i)}) > 1


def _number(scale: Scale, what: str, node: int) -> float:
    value = scale.value if scale.kind in ("none", "constant") else scale.init if scale.kind == "learned" else None
    if value is None:
        raise Stop(f"{what} is not known at initialisation", node)
    return value


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
