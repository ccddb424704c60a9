"""Where meta cannot do it: a forward that reads values which it has none of is traced with the values of real weights beside it.

The model is as its own code makes it on the CPU in float32, at its own sizes where its weights fit into `ROOM`; else with the settings halved, one
after the other, that make it smaller: those that leave the number of its modules as it is come first. The report says so in a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from screen.capture.build.built import Built
from screen.child.protocol import Request
from screen.child.real import real_loop
from screen.graph import Graph

ROOM = 2 << 30
"""Bytes of weights in float32."""
SEEDS = (0, 1)
"""Of the weights; what they give is said of the model where it is the same program."""
BUILDS = 48
"""Models that are built to find a smaller one."""


def wants_values(graph: Graph) -> bool:
    """Whether values that were guessed keep a forward from its end, or parts of the model from running."""
    return bool(graph.guesses) and (graph.failure is not None or (bool(graph.uncalled) and any(guess.decides for guess in graph.guesses)))


def beside(request: Request, built: Built, failed: Graph) -> tuple[Built, Graph]:
    """The model and its graph, traced so that it runs to its end and more of it runs, with a note about it; else what was given."""
    from screen.capture.trace.tracer import trace_beside

    if failed.failure is None and 4 * built.info.parameters > ROOM:
        return built, failed  # a smaller one is worth its many builds where nothing can be told without
    small, settings = _narrowed(built)
    if 4 * small.info.parameters > ROOM:
        return built, failed
    try:
        small = _drawn(request, small, settings)
        graph = trace_beside(small.model, small.args, small.kwargs, small.drawn, initialisers=small.initialisers).graph
    except Exception:  # of the user's code, on another device: what meta said stands
        return built, failed
    if graph.failure is not None or (failed.failure is None and len(graph.uncalled) >= len(failed.uncalled)):
        return built, failed
    read = failed.guesses[-1] if failed.failure is not None else next(guess for guess in failed.guesses if guess.decides)
    without = "does not run without them" if failed.failure is not None else "leaves out parts of the model without them"
    sizes = ", ".join(f"`{key}` is {value} here, and {built.integers[key]} in the target" for key, value in settings.items())
    what = f"narrowed: {sizes}" if settings else "at its own sizes"
    note = f"`forward` reads numbers of the data (line {read.line}) and {without}: traced with weights on the CPU, {what}"
    changed = {**small.info.changed, **{key: [built.integers[key], value] for key, value in settings.items()}}
    info = replace(small.info, weights="real", changed=changed, notes=(*small.info.notes, note))
    return replace(small, info=info), graph


def with_values(request: Request, built: Built) -> Built:
    """The model as `beside` makes it, narrowed where it has to be, with values of its weights. Raises what the user's code raises."""
    small, settings = _narrowed(built)
    return _drawn(request, small, settings)


def _drawn(request: Request, small: Built, settings: Mapping[str, int]) -> Built:
    """With values of real weights, one draw for each of `SEEDS`; `settings`: those that it was narrowed by."""
    small = replace(small, supplied={**small.supplied, **settings})
    return replace(small, drawn=tuple(_values(real_loop(request, small, seed)) for seed in SEEDS))


def _values(model: nn.Module) -> dict[str, Any]:
    return dict([*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)])


def _narrowed(built: Built) -> tuple[Built, dict[str, int]]:
    """The model with halved settings until its weights fit, and these; as it is where they fit already or nothing makes it smaller."""
    small, settings, left = built, dict[str, int](), BUILDS
    if 4 * built.info.parameters <= ROOM or built.again is None:
        return built, settings
    ranked: list[tuple[bool, int, str]] = []
    for key, value in list(built.integers.items())[: BUILDS // 2]:
        if value > 1 and (found := _with(built, {key: value // 2})) is not None and found.info.parameters < built.info.parameters:
            ranked.append((_modules(found) != _modules(built), found.info.parameters, key))
    for _, _, key in sorted(ranked):
        value = built.integers[key]
        while value > 1 and left and 4 * small.info.parameters > ROOM:
            value, left = value // 2, left - 1
            found = _with(built, {**settings, key: value})
            if found is None or found.info.parameters >= small.info.parameters:
                break
            small, settings = found, {**settings, key: value}
    return small, settings


def _with(built: Built, settings: Mapping[str, int]) -> Built | None:
    """The target with other settings, if it builds; its inputs are looked for anew."""
    if built.again is None:
        return None
    try:
        return next((b for b in built.again(settings, {}) if b.name == built.name), None)
    except Exception:  # sizes that do not go together
        return None


def _modules(built: Built) -> int:
    return sum(1 for _ in built.model.modules())


__all__ = ["beside", "wants_values", "with_values"]
