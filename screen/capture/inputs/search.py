"""Inputs of the user's own modules, by trying: what the first weighted layer takes says the kind, sizes of weights say the width, and the
first combination whose forward runs on meta is taken.

The name of an argument only orders the attempts (`mask`, `t`, `pos`); it never decides.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture import phase
from screen.capture.build.meta_copy import on_meta
from screen.capture.inputs.context import BATCH, Lookup, forward_parameters, forward_signature, widths_of
from screen.capture.inputs.explicit import Inputs
from screen.capture.inputs.trial import first_tensor, outcome
from screen.errors import TraceError

BUDGET = 600
TRACED = 20
"""Trials, and how many a traced one counts for. No clock: the same model must always get the same inputs."""
IMAGE_SIDES = (224, 32, 64, 28, 256)
"""Sides of square images to try when no grid of positions says better."""


def infer(model: nn.Module, look: Lookup, fixed: Inputs) -> Inputs:
    """Arguments with which the forward of `model` runs on meta; `fixed` ones are kept.

    When it runs with none, the most likely ones: tracing them tells how far it gets, and why no further. Raises `TraceError` when there is
    nothing to try."""
    args, fixed_kwargs = fixed
    wanted = required(model, fixed)
    twin = on_meta(model)
    spent = 0
    likely: Inputs | None = None
    spread: Inputs | None = None
    phase.enter("trace")
    for values in combinations(model, look, wanted, _led(model, fixed)):
        kwargs = {**fixed_kwargs, **{p.name: v for p, v in zip(wanted, values, strict=True) if p.kind is not p.POSITIONAL_ONLY}}
        positional = (*args, *(v for p, v in zip(wanted, values, strict=True) if p.kind is p.POSITIONAL_ONLY))
        found = outcome(twin, positional, kwargs)
        if found.error is None and not _spread(values, found.output):
            return positional, kwargs
        spread = spread or ((positional, kwargs) if found.error is None else None)
        likely = likely or (positional, kwargs)
        spent += TRACED if found.traced else 1
        if (spread is not None and spent > BUDGET // 10) or spent > BUDGET:
            break
    if spread is not None or likely is not None:
        return spread or likely  # type: ignore[return-value]
    names = ", ".join(f"`{p.name}`" for p in wanted) or "nothing"
    raise TraceError(
        f"`forward` of `{type(model).__name__}` must run on inputs that can be told from its weights",
        f"it takes {names}, for which nothing could be made up",
        "Say what it takes: `--input 'x=float32[2,16,512]'`, or `example_inputs` in the file",
    )


def _led(model: nn.Module, fixed: Inputs) -> bool:
    """Is the first argument of forward among the fixed ones?"""
    return bool(fixed[0]) or next(iter(forward_parameters(model)), "") in fixed[1]


def _spread(values: tuple[Any, ...], output: Any) -> bool:
    """Did two inputs broadcast against each other where they should not have: a sequence in, and one axis more out?"""
    main, result = (values[0] if values else None), first_tensor(output)
    return len(values) > 1 and isinstance(main, Tensor) and main.dim() == 3 and result is not None and result.dim() > 3


def required(model: nn.Module, fixed: Inputs) -> list[inspect.Parameter]:
    """The arguments of forward that have to be made: those without default, else the first one; `*args` counts as one."""
    args, kwargs = fixed
    found = forward_signature(model)
    open_ = [p for p in list(forward_parameters(model).values())[len(args) :] if p.name not in kwargs]
    wanted = [p for p in open_ if p.default is p.empty]
    if not wanted and not args and not kwargs:
        wanted = open_[:1]
        if not wanted and any(p.kind is p.VAR_POSITIONAL for p in found):
            wanted = [inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)]
    return wanted


# -- what to try -----------------------------------------------------------------------------------------------------------------------


def combinations(model: nn.Module, look: Lookup, wanted: list[inspect.Parameter], led: bool) -> Iterator[tuple[Any, ...]]:
    """Values for the wanted arguments, likely ones first. `led`: the main input is among the fixed ones."""
    if not wanted:
        yield ()
        return
    widths = widths_of(model)
    if led:
        yield from itertools.product(*(seconds(p.name, model, look, widths, None) for p in wanted))
        return
    for main in mains(model, look, widths):
        others = [list(seconds(p.name, model, look, widths, main)) for p in wanted[1:]]
        if len(others) > 1:
            yield (main, *(main for _ in others))  # q, k, v
        for rest in itertools.islice(itertools.product(*others), 64 if others else 1):
            yield (main, *rest)


def mains(model: nn.Module, look: Lookup, widths: list[int]) -> Iterator[Any]:
    """The main input, likely kinds first."""
    kinds = {"tokens": _tokens(model, look), "sequence": _sequences(look, widths), "image": _images(model, look), "signal": _signals(model, look)}
    first = leading_kind(model)
    yield from kinds.pop(first)
    for rest in kinds.values():
        yield from rest


def leading_kind(model: nn.Module) -> str:
    """What the first layer with weights takes."""
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            return "tokens"
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            return "image"
        if isinstance(module, nn.Conv1d):
            return "signal"
        if (
            next(module.parameters(recurse=False), None) is not None
            and not isinstance(module, nn.BatchNorm2d)
            and next(module.children(), None) is None
        ):
            return "sequence"
    return "sequence"


def _tokens(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    embedding = look.first(nn.Embedding, nn.EmbeddingBag)
    if embedding is not None:
        for length in _lengths(look):
            yield look.ids(length, vocabulary=embedding.num_embeddings)
        yield look.ids(look.tokens, batch=1, vocabulary=embedding.num_embeddings)[0]


def _lengths(look: Lookup) -> list[int]:
    """A length of our own first, then the sizes of the model: some layers fix the length."""
    sizes = sorted({s for p in look.model.parameters() if not isinstance(p, nn.parameter.UninitializedParameter) for s in p.shape if 1 < s <= 4096})
    return [look.tokens, *[s for s in sizes if s != look.tokens][:12]]


def _sequences(look: Lookup, widths: list[int]) -> Iterator[Tensor]:
    for width in widths:
        yield look.floats(BATCH, look.tokens, width)
    for length in _lengths(look)[1:]:
        for width in widths[:6]:
            yield look.floats(BATCH, length, width)
    for width in widths[:12]:
        yield look.floats(BATCH, width)
        yield look.floats(look.tokens, width)


def _images(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    conv = look.first(nn.Conv2d, nn.Conv3d)
    if conv is None:
        return
    patch = max(conv.kernel_size[-1], conv.stride[-1])
    stated = [v for m in model.modules() for k, v in vars(m).items() if "size" in k and isinstance(v, int) and v > patch]
    tables = [p.shape for p in model.parameters() if p.dim() == 3] + [(m.num_embeddings,) for m in model.modules() if isinstance(m, nn.Embedding)]
    grids = [s - extra for shape in tables for s in shape for extra in (0, 1) if s >= 16]
    sides = [conv.stride[-1] * round(n**0.5) for n in grids if round(n**0.5) ** 2 == n]
    for side in dict.fromkeys([*stated, *sides, *IMAGE_SIDES]):
        if side % conv.stride[-1] == 0:
            shape = (conv.in_channels, side, side) if isinstance(conv, nn.Conv2d) else (conv.in_channels, 4 * conv.stride[0], side, side)
            yield look.floats(BATCH, *shape)


def _signals(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    conv = look.first(nn.Conv1d)
    if conv is not None:
        strides = 1
        for module in model.modules():
            strides *= module.stride[0] if isinstance(module, nn.Conv1d) else 1
        for length in (look.tokens, 16 * min(strides, 4096), 16000):
            yield look.floats(BATCH, conv.in_channels, length)
            yield look.floats(BATCH, length, conv.in_channels)


def seconds(name: str, model: nn.Module, look: Lookup, widths: list[int], main: Any) -> Iterator[Any]:
    """Another argument: by its name first, then like the main one, then the usual conditions."""
    word = name.casefold()
    length = main.shape[1] if isinstance(main, Tensor) and main.dim() > 1 else look.tokens
    if "mask" in word:
        yield from (None, torch.ones(length, length, dtype=torch.bool), look.floats(length, length), torch.ones(BATCH, length, dtype=torch.bool))
    if "pos" in word or "index" in word or word.endswith("idx"):
        yield from (torch.arange(length).repeat(BATCH, 1), torch.arange(length))
    if word in ("t", "time", "sigma", "label", "labels", "y") or "timestep" in word or "class" in word:
        yield torch.arange(1, BATCH + 1)
        yield look.floats(BATCH)
    if word in ("c", "z", "emb", "temb") or any(w in word for w in ("cond", "style", "vec", "pool")):
        yield from (look.floats(BATCH, w) for w in widths[:4])
    if any(w in word for w in ("freq", "rope", "cos", "sin", "rotary")):
        yield from _rotations(model, look, length)
    if isinstance(main, Tensor) and main.dim() > 1:
        yield from _like(main, look)
    width = main.shape[-1] if isinstance(main, Tensor) and main.dim() == 3 else widths[0]
    for w in dict.fromkeys([width, *widths[:6]]):
        yield look.floats(BATCH, look.targets, w)
        yield look.floats(BATCH, w)
    yield from (torch.arange(1, BATCH + 1), look.floats(BATCH), None, 0, torch.ones(BATCH, length, dtype=torch.bool))


def _like(main: Tensor, look: Lookup) -> Iterator[Tensor]:
    """The same kind as the main input, with another length first."""
    if not main.dtype.is_floating_point:
        yield look.ids(look.targets)
        yield main
        yield look.floats(BATCH, look.targets, look.width)
    elif main.dim() == 3:
        yield look.floats(main.shape[0], look.targets, main.shape[2])
        yield look.floats(*main.shape)
    else:
        yield look.floats(*main.shape)


def _rotations(model: nn.Module, look: Lookup, length: int) -> Iterator[Any]:
    """Rotary tables: [length, head size] and half of it, real and complex."""
    sizes = [v for m in model.modules() for k, v in vars(m).items() if isinstance(v, int) and "head" in k and "dim" in k]
    heads = [v for m in model.modules() for k, v in vars(m).items() if isinstance(v, int) and "head" in k and "dim" not in k and v > 0]
    sizes += [w // h for w in widths_of(model)[:2] for h in heads[:2]]
    for size in dict.fromkeys(sizes):
        yield torch.empty(length, size // 2, dtype=torch.complex64, device="meta")
        yield from (look.floats(length, size), look.floats(length, size // 2), look.floats(BATCH, length, size))
        yield (look.floats(length, size), look.floats(length, size))


__all__ = ["combinations", "infer", "leading_kind", "mains", "required", "widths_of"]
