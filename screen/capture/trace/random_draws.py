"""Whether two programs are one but for random draws: a branch that a mask leaves out at random, over the mask's mean, is in the mean the branch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from screen.capture.trace.oracle import RANDOM
from screen.graph import SOURCES, Graph, Node, Ref
from screen.ops import CLASSES


def same(evaluated: Graph, trained: Graph) -> bool:
    """Whether a program as in training is the one in evaluation but for random draws, and for what is computed besides.

    Every op of the one in evaluation is found in the other, in its order, and reads the same there: a value times a mask that was drawn stands for
    the value itself, over a number too (the mask's mean)."""
    sources = {_key(n): n.index for n in evaluated.nodes if n.op in SOURCES}
    ops = [n for n in evaluated.nodes if n.op not in SOURCES]
    meant: dict[int, _Meant] = {}
    found = 0
    for node in trained.nodes:
        if node.op in SOURCES:
            meant[node.index] = _Value(sources[_key(node)]) if _key(node) in sources else _OTHER if node.op in ("parameter", "input") else _NUMBER
            continue
        read = [meant[i] for i in node.inputs]
        if found < len(ops) and _key(node) == _key(ops[found]) and _read_alike(read, ops[found].inputs):
            meant[node.index] = _Value(ops[found].index)
            found += 1
        else:
            meant[node.index] = _in_the_mean(node, read)
    return found == len(ops)


@dataclass(frozen=True)
class _Value:
    """A value of the program in evaluation."""

    node: int
    masked: bool = False
    """It was multiplied by a mask that was drawn."""
    scaled: bool = False
    """It was multiplied by a number, as by one over the mean of a mask, which may come before it."""

    def stands_for(self, node: int) -> bool:
        """Whether it is a value of the program in evaluation, in the mean."""
        return self.node == node and (self.masked or not self.scaled)


def _read_alike(read: list[_Meant], inputs: tuple[int, ...]) -> bool:
    return len(read) == len(inputs) and all(isinstance(one, _Value) and one.stands_for(other) for one, other in zip(read, inputs, strict=True))


_Meant = _Value | str
_DRAWN, _NUMBER, _OTHER = "drawn", "number", "other"
"""Made of draws; made of numbers alone; anything else."""
_DRAWS = frozenset({"rand", "rand_like", "bernoulli", "bernoulli_p", "uniform"})
"""Draws that masks are made of: their mean is not 0."""
_FACTORS = frozenset({"mul", "div", "where", "masked_fill"})


def _in_the_mean(node: Node, read: list[_Meant]) -> _Meant:
    """What an op that is in training alone stands for."""
    if node.op in _DRAWS:
        return _DRAWN
    if CLASSES.get(node.op) == "factory":
        return _OTHER if node.op in RANDOM and not node.op.startswith(("empty", "new_empty")) else _NUMBER
    values = {v for v in read if isinstance(v, _Value)}
    if not values:
        return next((v for v in (_OTHER, _DRAWN) if v in read), _NUMBER)
    value = next(iter(values))
    if len(values) > 1 or _OTHER in read:
        return _OTHER
    if node.op in _FACTORS:
        return replace(value, masked=True) if _DRAWN in read else replace(value, scaled=True)
    return value if CLASSES.get(node.op) == "view" and len(read) == 1 else _OTHER


def _key(node: Node) -> tuple[object, ...]:
    """What an op is, apart from which values it reads and whether a dropout draws."""
    numbers: object = () if "dropout" in node.op else (_numbers(node.args), tuple((k, _numbers(v)) for k, v in node.kwargs if k != "dropout_p"))
    return node.op, node.shape, node.dtype, node.name if node.op in SOURCES else "", numbers


def _numbers(value: object) -> object:
    """Arguments without the values that they name."""
    if isinstance(value, Ref):
        return None
    return tuple(map(_numbers, value)) if isinstance(value, tuple) else value


__all__ = ["same"]
