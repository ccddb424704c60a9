"""A block as the user's code starts it in a model of another depth: initialisers and constants may follow it (GPT-2's 1/√(2N), DeepNorm's α, β).

Which setting is the depth is found by trial: a whole number whose value is the depth that was measured, so that with n in its place

* the program is the same, on the same inputs, op by op and shape by shape, up to the end of the first block and behind the last one, and
* there are n − depth times the weights of a block more: more than half of those that the first block reads, and less than twice as many (a first
  block may hold what all share, and a block may hold what it does not read).

Models of other depths are built and traced on meta, like the first; where no block, embedding or constant of the two shallowest
starts otherwise, no other depth is built.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.fx

from screen.capture.build.built import weight_count
from screen.probe.measure.leaves import Missing, Watch
from screen.probe.measure.parted import traced
from screen.probe.measure.session import Session
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import BlockPlan

UNKNOWN = "weights start as in the {0} blocks that it was built with"
SAME = "how weights start does not depend on the depth"
FOLLOWS = "weights and constants start as in the model of each depth (`{0}`)"


@dataclass(frozen=True)
class Depths:
    """Which stack stands for each depth, and words for the report."""

    stacks: dict[int, Stack]
    words: str

    @property
    def follow(self) -> bool:
        """Whether each depth has a start of its own."""
        return len({id(s) for s in self.stacks.values()}) > 1


def of_depths(stack: Stack, session: Session, depths: list[int]) -> Depths:
    """The block for each depth."""
    own = stack.plan.depth
    fixed = Depths(dict.fromkeys(depths, stack), UNKNOWN.format(own))
    others = [n for n in sorted(depths) if n != own][:2]
    if session.built.again is None or not others:
        return fixed
    for name in (k for k, v in session.built.integers.items() if v == own):
        ends = {n: _rebuilt(stack, session, name, n) for n in others}
        if any(found is None for found in ends.values()):
            continue
        if all(_alike(stack, found) for found in ends.values() if found is not None):
            return replace(fixed, words=SAME)
        stacks = {n: stack if n == own else ends.get(n) or _rebuilt(stack, session, name, n) for n in depths}
        whole = {n: found for n, found in stacks.items() if found is not None}
        return Depths(whole, FOLLOWS.format(name)) if len(whole) == len(stacks) else fixed
    return fixed


def _rebuilt(stack: Stack, session: Session, name: str, depth: int) -> Stack | None:
    """The same block in a model with another value of a setting, where that is a model of so many blocks."""
    first = session.built
    assert first.again is not None
    try:
        with Watch() as watch:
            built = next(b for b in first.again({name: depth}, {first.name: (first.args, first.kwargs)}) if b.name == first.name)
        more = sum(map(weight_count, built.model.parameters())) - sum(map(weight_count, first.model.parameters()))
        each = more / (depth - stack.plan.depth) / stack.parameters
        if not 0.5 < each < 2.0:
            return None
        trace = traced(built.model, built.args, built.kwargs, initialisers=built.initialisers)
        other = replace(session, trace=trace, built=built, watch=watch)
        plan = _moved(stack, other)
        return Stack(plan, other.material()) if plan is not None else None
    except Exception:  # the user's code, with a setting that it may refuse
        return None


def _moved(stack: Stack, other: Session) -> BlockPlan | None:
    """The plan in a deeper or shallower model's nodes; None where the programs differ."""
    plan = stack.plan
    here, there = stack.material.tape.graph.nodes, other.trace.graph.nodes
    shift = len(there) - len(here)
    if plan.exit >= len(there) or plan.last + shift < 0:
        return None
    head = all((a.op, a.shape, a.inputs) == (b.op, b.shape, b.inputs) for a, b in zip(here[: plan.exit + 1], there, strict=False))
    ends = zip(here[plan.last : plan.end + 1], there[plan.last + shift :], strict=False)
    if not head or any((a.op, a.shape) != (b.op, b.shape) for a, b in ends):
        return None
    return replace(plan, last=plan.last + shift, end=plan.end + shift)


def _alike(one: Stack, two: Stack) -> bool:
    """Whether everything up to the end of the block, and behind the last one, starts alike."""
    shift = two.plan.end - one.plan.end
    places = [(i, i) for i in range(one.plan.exit + 1)] + [(i, i + shift) for i in range(one.plan.last + 1, one.plan.end + 1)]
    return all(_state(one, i, 0) == _state(two, j, j - i) for i, j in places)


def arrive_alike(one: Stack, two: Stack) -> bool:
    """Whether the same stream arrives at the block."""
    return one is two or all(_state(one, i, 0) == _state(two, i, 0) for i in range(one.plan.entry + 1))


def _state(stack: Stack, index: int, shift: int) -> object:
    """How a node starts: a parameter by its initialisers, a leaf by its value, a call by its constants (and what it reads, by place)."""
    material = stack.material
    node, call = material.tape.graph.nodes[index], material.tape.nodes[index]
    if node.op == "parameter":
        return stack.histories.get(call.meta["label"], ())
    if call.op in ("placeholder", "get_attr"):
        try:
            (value,) = material.leaves([index]).values()
        except Missing as missing:
            return str(missing)
        return value.cpu().numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value)
    return repr(torch.fx.node.map_arg((call.args, call.kwargs), lambda a: material.tape.order[a] - shift))


__all__ = ["Depths", "arrive_alike", "of_depths"]
