"""A sum that the code writes twice, `m = mlp(norm(x + a)); return x + a + m`, is one value, and a state of its stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch.fx

from screen import ops
from screen.capture.trace.recorder import Recorder, made_of, storage_of

SHARE = 4
"""Of the sums of one line one in so many is written twice at least: `x + a + b + c`."""
Place = tuple[str, int, int]
"""File, line, call of a module."""


def merge(recorder: Recorder, outputs: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """Leaves out later sums of the same two values: what read them reads the first one, which has the very same entries. Returns the outputs that
    are left. As they are stay sums that something writes to, two that are given back as two, and those of a line that is no second writing in each
    call: two streams may begin at one value (`y = x`)."""
    sums = [node for node in recorder.graph.nodes if _is_sum(node)]
    same = _later(sums, outputs)
    if same and (written := _written(recorder)):
        sums = [node for node in sums if node not in written]
        same = _later(sums, outputs)
    if same:
        places = {node: _place(recorder, node) for node in sums}
        added, twice = Counter(places.values()), Counter(places[node] for node in same)
        once = {place[:2] for place in added if SHARE * twice[place] < added[place]}
        same = _later([node for node in sums if places[node][:2] not in once or node not in same], outputs)
    for node, before in same.items():
        node.replace_all_uses_with(before)
        recorder.graph.erase_node(node)
    if same:
        recorder.values = {key: same.get(node, node) for key, node in recorder.values.items()}
    return [same.get(node, node) for node in outputs]


def _is_sum(node: torch.fx.Node) -> bool:
    """Whether a call adds two tensors, and nothing is a factor of one."""
    plain = node.op == "call_function" and len(node.args) == 2 and not node.kwargs and all(isinstance(a, torch.fx.Node) for a in node.args)
    return plain and ops.canonical(str(getattr(node.target, "__name__", "")).partition(".")[0])[0] == "add"


def _later(sums: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]) -> dict[torch.fx.Node, torch.fx.Node]:
    """Each later one of equal sums with the first."""
    first: dict[frozenset[object], torch.fx.Node] = {}
    found: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in sums:
        before = first.setdefault(frozenset(found.get(a, a) if isinstance(a, torch.fx.Node) else a for a in node.args), node)
        if before is not node and not (before in outputs and node in outputs):
            found[node] = before
    return found


def _place(recorder: Recorder, node: torch.fx.Node) -> Place:
    origin = recorder.origins[node]
    return origin.file, origin.line, origin.call


def _written(recorder: Recorder) -> set[torch.fx.Node]:
    """Values in memory that something wrote to, before it and since."""
    held = (recorder.values[id(t)] for t in recorder.keep if id(t) in recorder.values and storage_of(t) in recorder.writes)
    return {node for value in held for node in made_of(value)}


__all__ = ["merge"]
