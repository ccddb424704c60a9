"""The model of a target with real weights, as its own code makes them: for training, where a trace will not do.

Built on the CPU in float32 from a seed; the global random states (torch, `random`, numpy) are put back. A live model is copied, its weights with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from torch import nn

from screen.capture.build import python_file
from screen.capture.build.built import Built
from screen.capture.build.construct import arguments
from screen.capture.build.deep import deep
from screen.capture.build.inner import inner
from screen.capture.build.overrides import nest
from screen.capture.build.random_state import seeded
from screen.capture.trace.loop import Loop
from screen.capture.kernels import older
from screen.child.protocol import Request
from screen.errors import LoadError
from screen.graph import Initialiser
from screen.graph.target import TargetSpec, parse

LARGEST = 200_000_000
"""Weights of a model that is made for one part of it."""


def real(request: Request, built: Built, seed: int, more: Mapping[str, Any] | None = None, module: ModuleType | None = None) -> nn.Module:
    """A fresh model for each seed, with more settings (as of `--set`) or without, or a copy of the live one. `module`: its file, where that ran
    already. Raises `LoadError`; exceptions of the user's code pass through."""
    if built.original is not None:
        model = deep(built.original)
    elif built.around > LARGEST:
        raise LoadError("a part must come with a model that is small enough to be made with weights", f"that of `{built.name}` has {built.around:,}")
    else:
        with seeded(seed):
            model = _made(parse(request.target), request, built, more or {}, module)
    if any(t.device.type == "meta" for t in [*model.parameters(), *model.buffers()]):
        raise LoadError("a model that is trained must have weights", f"`{built.name}` builds itself without them")
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():  # complex buffers stay as they are
            tensor.data = tensor.data.to("cpu", torch.float32)
    return model


def real_loop(request: Request, built: Built, seed: int) -> nn.Module:
    """The model with weights, and of a block target as many copies as its loop runs, each started anew; those of a live block are drawn as its
    weights look, and those of one that a larger model holds as it makes them. Raises as `real` does."""
    loop = built.model
    if not isinstance(loop, Loop):
        return real(request, built, seed)
    blocks = [real(request, built, seed)]
    for number in range(1, len(loop.members)):
        blocks.append(deep(blocks[0]) if built.around else real(request, built, seed + number))
        if built.original is not None or built.around:
            _redraw(blocks[-1], dict(built.initialisers), number, seed)
    return Loop.of(blocks, loop)


def deeper_loop(request: Request, built: Built, seed: int, count: int) -> Loop:
    """A loop of so many copies of a block, its file run once. Raises as `real` does, and `LoadError` of what is no such loop."""
    loop, spec = built.model, parse(request.target)
    if not isinstance(loop, Loop) or spec.kind not in ("file", "module"):
        raise LoadError("a deeper loop must be made of a block of a file", f"`{built.name}` is none")
    module = None if built.original is not None else python_file.load(spec)
    blocks = [real(request, built, seed + number, module=module) for number in range(count)]
    if built.original is not None:
        for number, block in enumerate(blocks):
            _redraw(block, dict(built.initialisers), number, seed)
    return Loop.of(blocks, loop)


def _redraw(block: nn.Module, histories: Mapping[str, tuple[Initialiser, ...]], number: int, seed: int) -> None:
    """Fresh weights in a copy of a live block, where its record says how they look."""
    from screen.probe.measure.weights import drawn

    generator = torch.Generator().manual_seed(seed * 1009 + number)
    with torch.no_grad():
        for name, parameter in block.named_parameters():
            if history := histories.get(name):
                value, note = drawn(tuple(parameter.shape), history, generator)
                if not note:
                    parameter.copy_(value)


def _made(spec: TargetSpec, request: Request, built: Built, more: Mapping[str, Any], module: ModuleType | None) -> nn.Module:
    """As `screen.capture.build.build` makes it, on the CPU in place of meta."""
    if spec.kind in ("hf", "config"):
        from screen.capture.build import transformers as hf

        sizes = {key: new for key, (_, new) in built.info.changed.items()} if request.width is not None else {}
        return hf.real(spec, {**request.set, **sizes, **built.supplied, **more})
    if spec.kind == "timm":
        from screen.capture.build import libraries

        made: nn.Module = libraries.timm().create_model(spec.name, pretrained=False, **{**request.set, **built.supplied, **more})
        return made
    module = python_file.load(spec) if module is None else module
    older.again()
    name, entry = entry_of(spec, built, module)
    if isinstance(entry, nn.Module):
        return deep(_part(name, entry, built.part))
    args, kwargs = call_of(name, entry, request, {**built.supplied, **more}, module)
    return _part(name, entry(*args, **kwargs), built.part)


def entry_of(spec: TargetSpec, built: Built, module: ModuleType) -> tuple[str, Any]:
    """What makes a model of a file, with its name there."""
    found = python_file.find(module, spec)
    name = built.entry or found[0][0]
    entry: Any = next((value for key, value in found if key == name), None) or getattr(module, name)
    return name, entry


def call_of(name: str, entry: Any, request: Request, more: Mapping[str, Any], module: ModuleType) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that it is called with."""
    settings = {k.removeprefix(f"{name}."): v for k, v in {**request.set, **more}.items()}
    args, kwargs, _ = arguments(name, entry, nest(settings), module)
    return args, kwargs


def _part(name: str, model: nn.Module, part: str) -> nn.Module:
    """The module inside it that is looked at."""
    return model.get_submodule(part) if part else inner(name, model)[0][0]


__all__ = ["call_of", "deeper_loop", "entry_of", "real", "real_loop", "seeded"]
