"""The graph of a target that was taken for one block and turned out to be a whole model: the first copy alone. Plain data, no torch."""

from __future__ import annotations

from dataclasses import replace

from screen.graph import COPIES, Call, Graph, Module, Repeat


def first_copy(graph: Graph) -> Graph:
    """What the first copy of a loop did, as if it had been traced alone. Nodes keep their places: it ran first."""
    if graph.loop is None or not graph.loop.copies:
        return graph
    top, behind = graph.loop.copies[0], graph.loop.copies[1:2]
    end = next((n.index for n in graph.nodes if behind and behind[0] in graph.call_path(n.call)), len(graph.nodes))
    calls = {c: i for i, c in enumerate([c.index for c in graph.calls if top in graph.call_path(c.index)])}
    modules = {m: i for i, m in enumerate(_below(graph, graph.calls[top].module))}
    return replace(
        graph,
        nodes=tuple(replace(n, call=calls.get(n.call, 0)) for n in graph.nodes[:end]),
        calls=tuple(_call(graph.calls[c], calls, modules) for c in calls if graph.calls[c].module in modules),
        modules=tuple(_module(graph.modules[m], modules) for m in modules),
        outputs=tuple(n.index for n in graph.nodes[:end] if n.inputs and any(u >= end for u in graph.users[n.index])) if behind else graph.outputs,
        repeats=tuple(_repeat(r, modules) for r in graph.repeats if r.container in modules),
        guesses=tuple(g for g in graph.guesses if g.node is None or g.node < end),
        uncalled=tuple(modules[m] for m in graph.uncalled if m in modules),
        ranges=tuple((node, low, high) for node, low, high in graph.ranges if node < end),
        initialisers=tuple((name, history) for name, history in graph.initialisers if not name.startswith(COPIES)),
        loop=None,
    )


def _below(graph: Graph, top: int) -> list[int]:
    found = {top}
    for module in graph.modules:
        if module.parent in found:
            found.add(module.index)
    return sorted(found)


def _call(call: Call, calls: dict[int, int], modules: dict[int, int]) -> Call:
    return Call(calls[call.index], calls.get(call.parent) if call.parent is not None else None, modules[call.module], call.ordinal)


def _module(module: Module, modules: dict[int, int]) -> Module:
    return replace(module, index=modules[module.index], parent=modules.get(module.parent) if module.parent is not None else None)


def _repeat(repeat: Repeat, modules: dict[int, int]) -> Repeat:
    return Repeat(modules[repeat.container], tuple((modules[m], modules[r]) for m, r in repeat.members))


__all__ = ["first_copy"]
