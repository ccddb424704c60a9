"""What a module of a file gives in an interpreter in which nothing of ours is (`screen.child.outside`), beside what it gave where it was traced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from screen.child.asks import asks
from screen.child.draw import INSTALLED
from screen.child.protocol import Request
from screen.child.results import Capture, Progress
from screen.graph import Graph
from screen.graph.target import parse
from screen.pipeline.variants import Elsewhere
from screen.probe.plan.samples import SAME, apart
from screen.probe.plan.spot_types import Leaf, Outside, Plain, outside_from_json

WHERE = "run by itself, in an interpreter without `screen`,"


@dataclass(frozen=True)
class Beside:
    """What was learnt of one module."""

    plain: Plain | None = None
    """What it gave, to be compared with its graph; None: nothing."""
    differs: str = ""
    """How it is another one there; empty where that is not seen."""
    told: Outside | None = None
    doubt: str = ""
    """Why nothing, or not all, is known."""


def outside(
    request: Request, ran: Mapping[str, Plain], graphs: Mapping[str, Graph], capture: Callable[[Request, Progress], Capture], progress: Progress
) -> dict[str, Beside]:
    """What the modules that ran plainly give outside; nothing of those whose code asks nothing by which it could tell one from the other."""
    may_ask = {name for name in ran if asks(_files(request, graphs[name]))}
    orders = {name: plain.order for name, plain in ran.items() if plain.order is not None and name in may_ask}
    found = {name: Beside(doubt=f"{WHERE} it was not run: {plain.unsaid}") for name, plain in ran.items() if plain.unsaid and name in may_ask}
    if not orders:
        return found
    seen = capture(replace(request, outside=orders), progress)
    for name in orders:
        found[name] = _beside(ran[name], graphs[name], seen, name)
    return found


def _files(request: Request, graph: Graph) -> set[str]:
    """The user's files that ran."""
    path = parse(request.target).path
    files = {node.file for node in graph.nodes} | {module.file for module in graph.modules}
    return {os.path.abspath(file) for file in [*files, *([path] if path else [])] if file and not INSTALLED.search(file)}


def _beside(plain: Plain, graph: Graph, seen: Capture, name: str) -> Beside:
    error = seen.error
    if name not in seen.outside:
        what = f"{WHERE} it gave no answer: {error.found if error else 'nothing was said of it'}"
        late = error is not None and (error.stage in ("internal", "load") or (error.stage == "limits" and not seen.left))
        return Beside(doubt=what) if late else Beside(differs=what)
    try:
        told = outside_from_json(dict(seen.outside[name]))
    except ValueError as error:
        return Beside(differs=f"{WHERE} it sends what cannot be read: {str(error).splitlines()[0]}")
    if told.stage == "load":
        return Beside(doubt=f"{WHERE} it was not built: {told.reason}")
    if told.output is None:
        return Beside(differs=f"{WHERE} it raises `{told.reason}`")
    if plain.output is not None and apart(told.output, plain.output) > SAME:
        return Beside(differs=f"{WHERE} it gives something else than beside the trace")
    own = _with_buffers(plain, graph, told)
    return Beside(own, told=told)


def changed(ran: Plain, beside: Beside | None, elsewhere: Elsewhere) -> str:
    """How a module is another one outside, at a later call or in training; empty where that is not seen, or follows from its program."""
    if beside is not None and beside.differs:
        return beside.differs
    told = beside.told if beside is not None else None
    later = ran.later or (told is not None and told.output is not None and any(apart(one, told.output) > SAME for one in told.later))
    if later and ran.still and (told is None or told.still) and "call" in elsewhere.one:
        return "a later call of it gives something else than its first, by the same program, and no buffer is another one then"
    if told is not None and told.output is not None and len(told.training) == 3 and "training" in elsewhere.one:
        one, again, after = told.training
        if apart(one, again) <= SAME < max(apart(one, told.output), apart(after, told.output)):
            return f"{WHERE} it gives something else in training than in evaluation, by the same program"
    return ""


def _with_buffers(plain: Plain, graph: Graph, told: Outside) -> Plain:
    """What it gave outside, on the inputs that it had and on the buffers that it had there."""

    def own(held: Iterable[tuple[str, str, tuple[int, ...], str]]) -> dict[int, Leaf]:
        values = {name: rest for name, *rest in held}
        nodes = {leaf.node: graph.nodes[leaf.node] for leaf in plain.leaves if 0 <= leaf.node < len(graph.nodes)}
        return {i: Leaf(i, *values[n.name]) for i, n in nodes.items() if n.op == "buffer" and n.name in values}  # type: ignore[arg-type]

    begin = own(told.buffers)
    leaves = tuple(begin.get(leaf.node, leaf) for leaf in plain.leaves)
    changes = told.last is not None and told.output is not None and apart(told.last, told.output) > SAME
    late = (told.last, tuple(own(told.late).values())) if changes else (plain.last, plain.late)
    return Plain("", told.output, told.keys, leaves, last=late[0], late=late[1])


__all__ = ["Beside", "changed", "outside"]
