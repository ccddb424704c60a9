"""What building a target gives: the model on meta, its inputs, and plain facts about both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn

from screen.capture.build.sizes import Sizes
from screen.graph import Initialiser


@dataclass(frozen=True)
class TargetInfo:
    """Plain data about a built target, for the report."""

    kind: str
    model_class: str
    parameters: int
    """Number of weights, each shared one once."""
    dtype: str
    """Of most weights."""
    block: bool
    """One residual block, to be stacked, rather than a whole model."""
    weights: Literal["meta", "real"] = "meta"
    """`real` where values of real ones stood beside meta."""
    changed: dict[str, list[Any]] = field(default_factory=dict)
    """Config field to [old, new]."""
    notes: tuple[str, ...] = ()
    """Sentences about what was left out: lines that did not run, other models of the file that do not build."""
    depth: int | None = None
    """`--depth` as asked for; only a block target has one."""


@dataclass(frozen=True)
class Built:
    """One model ready to be traced."""

    name: str
    """Label for the report: the target's text, with the class when a file gives several."""
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    info: TargetInfo
    initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...] = ()
    original: nn.Module | None = None
    """The live model that this one is a copy of without weights; it is only read."""
    again: Callable[[Mapping[str, Any], Mapping[str, tuple[tuple[Any, ...], dict[str, Any]]]], list[Built]] | None = None
    """Builds the target once more with more settings (as of `--set`), and with inputs by the name of the model where those are known: they are not
    looked for again. None for a live model, which nothing can build again."""
    integers: Mapping[str, int] = field(default_factory=dict)
    """Settings that are whole numbers, as `--set` names them, with their values."""
    entry: str = ""
    """What makes it, by its name in its file."""
    part: str = ""
    """The module inside of that, where it has several and no forward of its own."""
    around: int = 0
    """Weights of the model that makes it, where it is a part that does not build alone."""
    supplied: Mapping[str, Any] = field(default_factory=dict)
    """Settings that its author gives elsewhere, without which it does not build (`screen.capture.build.construct.Told`)."""
    drawn: tuple[Mapping[str, torch.Tensor], ...] = ()
    """Values of its weights that stood beside meta when it was traced, by name, one draw after the other."""
    lacking: tuple[str, ...] = ()
    """Arguments of its constructor that are `None` and that its forward asks for where it fails."""
    sizes: Callable[[], Sizes] | None = None
    """The fields of its config that go with its width; None where there is no config. Raises `UsageError`."""


def _counts(model: nn.Module) -> dict[torch.dtype, int]:
    """Weights of each dtype."""
    counts: dict[torch.dtype, int] = {}
    for parameter in model.parameters():
        counts[parameter.dtype] = counts.get(parameter.dtype, 0) + weight_count(parameter)
    return counts


def _commonest(counts: dict[torch.dtype, int]) -> str:
    """The dtype that most weights have."""
    return str(max(counts, key=lambda d: counts[d])).removeprefix("torch.") if counts else str(torch.get_default_dtype()).removeprefix("torch.")


def weight_count(parameter: nn.Parameter) -> int:
    """Number of entries; 0 for a lazy parameter without a shape yet."""
    return 0 if isinstance(parameter, nn.parameter.UninitializedParameter) else parameter.numel()


def info_of(model: nn.Module, kind: str, *, block: bool = False, changed: dict[str, list[Any]] | None = None, depth: int | None = None) -> TargetInfo:
    """The plain facts about a model."""
    counts = _counts(model)
    return TargetInfo(
        kind=kind,
        model_class=type(model).__qualname__,
        parameters=sum(counts.values()),
        dtype=_commonest(counts),
        block=block,
        changed=changed or {},
        depth=depth if block else None,
    )


__all__ = ["Built", "TargetInfo", "info_of", "weight_count"]
