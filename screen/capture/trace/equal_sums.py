"""A sum that the code writes twice, `m = mlp(norm(x + a)); return x + a + m`, is one value, and a state of its stream."""

from __future__ import annotations

from collections.abc import Sequence

import torch.fx

from screen import ops
from screen.capture.trace.recorder import Recorder, made_of, storage_of


def merge(recorder: Recorder, outputs: Sequence[torch.fx.Node]) -> list[torch.fx.Node]:
    """Leaves out every later sum of the same two values: what read it reads the first of them, which has the very same entries. Sums that something
    writes to stay, and two that are given back as two. Returns the outputs that are left."""
    first: dict[frozenset[torch.fx.Node], torch.fx.Node] = {}
    same: dict[torch.fx.Node, torch.fx.Node] = {}
    written: set[torch.fx.Node] | None = None
    for node in list(recorder.graph.nodes):
        if node.op != "call_function" or len(node.args) != 2 or node.kwargs or not all(isinstance(a, torch.fx.Node) for a in node.args):
            continue
        name = str(getattr(node.target, "__name__", "")).partition(".")[0]
        if ops.canonical(name)[0] != "add":
            continue
        before = first.setdefault(frozenset(node.args), node)
        if before is node or (before in outputs and node in outputs):
            continue
        written = _written(recorder) if written is None else written
        if written.isdisjoint((before, node)):
            node.replace_all_uses_with(before)
            recorder.graph.erase_node(node)
            same[node] = before
    if same:
        recorder.values = {key: same.get(node, node) for key, node in recorder.values.items()}
    return [same.get(node, node) for node in outputs]


def _written(recorder: Recorder) -> set[torch.fx.Node]:
    """Values in memory that something wrote to, before it and since."""
    held = (recorder.values[id(t)] for t in recorder.keep if id(t) in recorder.values and storage_of(t) in recorder.writes)
    return {node for value in held for node in made_of(value)}


__all__ = ["merge"]
