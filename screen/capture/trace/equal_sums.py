"""A sum that the code writes twice, `m = mlp(norm(x + a)); return x + a + m`, is one value, and a state of its stream."""

from __future__ import annotations

from collections.abc import Collection

import torch.fx

from screen import ops
from screen.capture.trace.recorder import Recorder, made_of, storage_of


def merge(recorder: Recorder, outputs: Collection[torch.fx.Node]) -> dict[torch.fx.Node, torch.fx.Node]:
    """Later sums of the same two values with the first of them, which what read the later ones reads from now on: the very same entries. Sums that
    something writes to stay as they are, and two that are given back as two."""
    first: dict[frozenset[torch.fx.Node], torch.fx.Node] = {}
    found: dict[torch.fx.Node, torch.fx.Node] = {}
    written: set[torch.fx.Node] | None = None
    for node in recorder.graph.nodes:
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
            found[node] = before
    return found


def _written(recorder: Recorder) -> set[torch.fx.Node]:
    """Values in memory that something wrote to, before it and since."""
    held = (recorder.values[id(t)] for t in recorder.keep if id(t) in recorder.values and storage_of(t) in recorder.writes)
    return {node for value in held for node in made_of(value)}


__all__ = ["merge"]
