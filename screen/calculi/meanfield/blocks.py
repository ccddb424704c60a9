"""One block of a stream: residual adds of independent branches where the walk shows nothing else, else one program of all that is in it."""

from __future__ import annotations

from dataclasses import dataclass

from screen.calculi.meanfield.context import Context
from screen.calculi.meanfield.lower.lower import NORMS, Reader
from screen.calculi.meanfield.lower.pointwise import FACTOR
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Add, Block, Inlet
from screen.calculi.meanfield.stop import Stop
from screen.calculi.meanfield.transfer import Fourier, Normalise
from screen.calculi.meanfield.walk import Joint
from screen.graph import Ref
from screen.structure.types import Kind, Norm, Sublayer, Unknown

BEYOND = {
    "ssm": "a state is carried from token to token by a decay that starts at values that are no draw",
    "rnn": "a state is carried from token to token, how far depends on the tokens",
    "linear_attention": "sums over the tokens so far grow with the position, and divided by each other they are no average of independent rows",
    "fourier": "a fixed mixing of tokens and features makes no independent sums, and no norm on the stream follows",
}
"""Role -> why exchangeable tokens and independent weights do not give its law."""
JOINS = frozenset({"add", "sub", "lerp", "index_add"})
WHOLE = "block"
"""The name of a block that is one program."""


class Dependent(Stop):
    """A branch that is not independent of the stream that it is added to."""


@dataclass
class Blocks:
    """Reads one kind of block."""

    context: Context
    kind: Kind

    def block(self) -> Block:
        """The block; raises `Stop` where neither way is open."""
        number, entry, exit_ = self.context.cuts.spans(self.kind.id)[0]
        branches = self.context.stream.traced[number].branches
        names = dict(zip((o for _, o in branches), self.kind.sublayers, strict=False))
        try:
            joints = self._joints(number, entry, exit_)
            self._compare(joints)
        except Stop as why:
            return self._whole(number, entry, exit_, why)
        is_last = self.context.cuts.exit(number) is None
        try:
            return tuple(self._add(joint, names, is_last and joint is joints[-1]) for joint in joints)
        except Dependent as why:
            return self._whole(number, entry, exit_, why)

    def ending(self, exit_: int) -> Block:
        """The last traced block up to a state, as one program."""
        number = len(self.context.stream.traced) - 1
        return self._whole(number, self.context.cuts.entry(number), exit_, Stop("the last block ends before the others do", exit_))

    def _joints(self, number: int, entry: int, exit_: int) -> tuple[Joint, ...]:
        table: dict[int, frozenset[int]] = {}
        reads: dict[int, frozenset[int]] = {}
        for add, output in self.context.stream.traced[number].branches:
            table[add] = table.get(add, frozenset()) | {output}
            reads[output] = self.context.cuts.reads(output)
        return self.context.walk.joints(entry, exit_, table, reads)

    def _compare(self, joints: tuple[Joint, ...]) -> None:
        """Every other block of this kind does the same to the stream as the one that is read."""
        first = [j.shape for j in joints]
        for other, entry, exit_ in self.context.cuts.spans(self.kind.id)[1:]:
            if [j.shape for j in self._joints(other, entry, exit_)] != first:
                raise Stop("blocks of one kind do not do the same to the stream", exit_)

    # -- residual adds -----------------------------------------------------------------------------------------------------------------

    def _add(self, joint: Joint, names: dict[int, Sublayer], is_last: bool) -> Add:
        inlets = tuple(Inlet(names[o].name, self._program(names[o], joint.read), c**2) for o, c in joint.branches)
        sub = names[joint.branches[-1][0]]
        norm = joint.norm or (self.closing(sub) if is_last else None)
        close = None if norm is None else self._close(norm, joint.after)
        if close is None and any(isinstance(s, Fourier) for i in inlets for s in i.program.steps):
            raise Stop(f"`{sub.name}`: {BEYOND['fourier']}", sub.output)
        return Add(inlets, joint.identity**2, close)

    def closing(self, sub: Sublayer) -> Norm | None:
        """The norm on the sum of a block that no other follows."""
        if sub.norm_on_skip:
            return None
        norm = next((n for position, n in sub.norms if position == "C"), None)
        if norm is None and "C" in sub.positions:
            raise Stop(f"the norm on the stream after `{sub.name}` is not known", sub.add)
        return norm

    def _close(self, norm: Norm, factor: float) -> Normalise:
        if norm.type not in NORMS or norm.axes != (-1,):
            raise Stop(f"a norm of type `{norm.type}` on the stream has no row in the recursion", norm.node)
        weights, node = self.context.weights, self.context.graph.nodes[norm.node]
        weight, bias = node.kwarg("weight"), node.kwarg("bias")
        gain = weights.mean_square(weight.node) if isinstance(weight, Ref) else 1.0
        shift = weights.mean_square(bias.node) if isinstance(bias, Ref) else 0.0
        for found in (gain, shift):
            if isinstance(found, Unknown):
                raise Stop(found.reason, *found.nodes)
        if shift:
            raise Stop("a norm's bias does not start at zero", norm.node)
        assert isinstance(gain, float)
        return Normalise(0, 0, NORMS[norm.type], norm.eps or 0.0, gain * factor**2 / (norm.size if norm.type == "l2" else 1))

    def _program(self, sub: Sublayer, read: int) -> Program:
        own = self.context
        leaves = {n: layout for n, layout in own.layouts.items() if n < sub.add and own.walk.plain(n) == own.walk.plain(read)}
        earlier = frozenset(n for n in own.layouts if n < sub.add and n not in leaves)
        reader = Reader(own.graph, own.weights, own.norms, leaves, own.tokens, own.assumptions, used=own.used, foreign=own.foreign, earlier=earlier)
        program = reader.program(sub.output)
        if isinstance(program, Unknown):
            if not own.others and any(p.name == "memory" for p in sub.ports) and program.reason != FACTOR:
                raise Stop(f"`{sub.name}` reads another stream", sub.output)
            why = f"{BEYOND[sub.role]}: " if sub.role in BEYOND else ""
            raise Stop(f"`{sub.name}`: {why}{program.reason}", *program.nodes)
        if reader.end.roots & {0, *(slot for slot, _ in program.given)}:
            raise Dependent(f"`{sub.name}` is not independent of what it is added to", sub.output)
        return program

    # -- a whole block -----------------------------------------------------------------------------------------------------------------

    def _whole(self, number: int, entry: int, exit_: int, why: Stop) -> Block:
        """All between two states as one program, whose values may have something in common."""
        first = self._ops(entry, exit_)
        for _, start, end in self.context.cuts.spans(self.kind.id)[1:] if self.context.cuts.exit(number) is not None else ():
            if self._ops(start, end) != first:
                raise Stop("blocks of one kind do not do the same to the stream", end)
        reader, program = self._read(entry, exit_, True, why)
        if not reader.end.gaussian:
            reader, program = self._read(entry, exit_, False, why)
        if 0 in reader.end.bent:
            raise Stop("the stream passes an op that changes how its entries are distributed", *why.unknown.nodes)
        if reader.end.roots & {slot for slot, _ in program.given}:
            raise Stop("the same value is added to the stream in every block", *why.unknown.nodes)
        branches = self.context.stream.traced[number].branches
        names = tuple((o, s.name) for (_, o), s in zip(branches, self.kind.sublayers, strict=False))
        return (Add((Inlet(WHOLE, program, names=names),), 0.0),)

    def _ops(self, entry: int, exit_: int) -> list[tuple[object, ...]]:
        """The ops between two states that make the second one of the first, in order, with their numbers and with which operands are made of it."""
        nodes = self.context.graph.nodes
        below, above = {entry}, {exit_}
        for node in nodes[entry + 1 : exit_ + 1]:
            if not below.isdisjoint(node.inputs):
                below.add(node.index)
        for node in reversed(nodes[entry + 1 : exit_ + 1]):
            if node.index in above:
                above.update(node.inputs)
        found = [nodes[n] for n in sorted(below & above - {entry})]
        return [(n.op, tuple(a for a in n.args if isinstance(a, int | float)), tuple(i in below for i in n.inputs)) for n in found]

    def _read(self, entry: int, exit_: int, gaussian: bool, why: Stop) -> tuple[Reader, Program]:
        own = self.context
        plain = own.walk.plain(entry)
        leaves = {n: layout for n, layout in own.layouts.items() if n <= exit_ and own.walk.plain(n) == plain}
        earlier = frozenset(n for n in own.layouts if n < entry and n not in leaves)
        reader = Reader(
            own.graph, own.weights, own.norms, leaves, own.tokens, own.assumptions,
            foreign=own.foreign, linked=True, earlier=earlier, gaussian=gaussian,
        )  # fmt: skip
        program = reader.program(exit_)
        if isinstance(program, Unknown):
            raise Stop(f"{why.unknown.reason}, and the block as a whole is not read: {program.reason}", *program.nodes, *why.unknown.nodes)
        return reader, program


__all__ = ["JOINS", "WHOLE", "Blocks"]
