"""A smaller model of the same code, where training the model itself is beyond the budget or the memory. What is changed is found by trial:

1. the vocabulary: settings whose value is the number of rows of a table that ids are looked up in, above `TABLE`, become `VOCABULARY` (the task has
   fewer symbols than that);
2. the sides of a picture: settings whose value is a side of the input's become `SIDE`;
3. the width, as in `screen.probe.experiments.width_scaling`: widths downwards from the model's own;
4. the depth: settings whose value is the depth of a stack, and that, made smaller, take away the weights of so many blocks.

In 1 to 3 the program stays the same, op by op. Each model keeps what made the one before smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from screen.capture.build.built import weight_count
from screen.probe.budget.budget import load_of
from screen.probe.experiments.width_scaling import each_once, family
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session
from screen.probe.plan.types import BlockPlan, ProbePlan

TABLE, VOCABULARY = 1024, 256
SIDE = 64
DEPTHS = (4, 2)
Settings = dict[str, Any]
"""Beside the user's own, as of `--set`."""


@dataclass(frozen=True)
class Smaller:
    """One model, and what of it is smaller."""

    settings: Settings
    session: Session
    words: str


def smaller(plan: ProbePlan, session: Session, depth: bool = True) -> Iterator[Smaller]:
    """Models, from the largest to the smallest. `depth`: whether the depth may be changed too."""
    if session.built.again is None:
        return
    same, any_depth = each_once(session), each_once(session, same=False)
    settings, words = Settings(), tuple[str, ...]()
    every = [(_tables(session), same), (_pictures(session), same), (_widths(plan, session), same), (_depths(plan, session), any_depth)]
    for steps, made in every if depth else every[:-1]:
        before = settings, words
        for more, said in steps:
            wanted = {**before[0], **more}
            if (found := made(wanted)) is not None:
                settings, words = wanted, (*before[1], said)
                yield Smaller(settings, found, ", ".join(words))


def _tables(session: Session) -> Iterator[tuple[Settings, str]]:
    """All large vocabularies at once."""
    graph = session.trace.graph
    rows = {(graph.nodes[i].shape or (0,))[0] for n in graph.nodes if n.op == "embedding" for i in n.inputs if graph.nodes[i].op == "parameter"}
    found = {name: value for name, value in session.built.integers.items() if value > TABLE and value in rows}
    if found:
        yield dict.fromkeys(found, VOCABULARY), f"{VOCABULARY} ids in place of {max(found.values())}"


def _pictures(session: Session) -> Iterator[tuple[Settings, str]]:
    """All sides of the pictures that the model reads."""
    leaves = tree_leaves((session.built.args, session.built.kwargs))
    sides = {n for t in leaves if isinstance(t, Tensor) and t.dim() == 4 and t.is_floating_point() for n in t.shape[-2:]}
    found = {name: value for name, value in session.built.integers.items() if value > SIDE and value in sides}
    if found:
        yield dict.fromkeys(found, SIDE), f"pictures of side {SIDE} in place of {max(found.values())}"


def _widths(plan: ProbePlan, session: Session) -> Iterator[tuple[Settings, str]]:
    """Widths downwards."""
    for block in plan.blocks[:1]:
        own = (session.trace.graph.nodes[block.entry].shape or (0,))[block.axis]
        try:
            settings = family(block, session, each_once(session)).settings
        except Missing:
            return
        for width in sorted((w for w in settings if w < own), reverse=True):
            yield dict(settings[width]), f"width {width} in place of {own}"


def _depths(plan: ProbePlan, session: Session) -> Iterator[tuple[Settings, str]]:
    """Depths downwards, of all stacks at once."""
    for depth in DEPTHS:
        found = {name: depth for block in plan.blocks for name in _named(block, session, depth)}
        if found:
            yield dict(found), f"{depth} blocks in place of {max(session.built.integers[name] for name in found)}"


def _named(block: BlockPlan, session: Session, depth: int) -> Iterator[str]:
    """The settings that are the depth of a block's stack."""
    each = load_of(session.trace.graph, [block.exit, *block.outputs], [block.entry, *block.cuts]).weights
    for name, value in session.built.integers.items():
        if value == block.depth > depth and each and 0.5 < _fewer(session, {name: depth}) / (value - depth) / each < 2.0:
            yield name


def _fewer(session: Session, settings: Mapping[str, Any]) -> int:
    """By how many weights the model has fewer with some settings; 0 where it cannot be built."""
    assert session.built.again is not None
    try:
        other = next(b for b in session.built.again(settings, {}) if b.name == session.built.name)
    except Exception:  # the user's code, with sizes that it may refuse
        return 0
    return sum(map(weight_count, session.built.model.parameters())) - sum(map(weight_count, other.model.parameters()))


__all__ = ["Smaller", "smaller"]
