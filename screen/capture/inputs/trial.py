"""Does a forward run on meta with these arguments? The question behind every guess about inputs."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build import meta_copy as copying
from screen.capture.build.construct import reads_a_value
from screen.capture.build.launcher import launched
from screen.capture.build.reads import source_of
from screen.capture.devices import OnMeta
from screen.capture.kernels.older import leave_out
from screen.capture.inputs.missing import frames, handed_on, missing, statement
from screen.capture.trace import flex, packed, ragged
from screen.capture.trace.eager import eager
from screen.capture.trace.meta_fallback import NARROWER
from screen.capture.trace.meta_memo import Remembered
from screen.capture.trace.nested import mapped
from screen.capture.trace.source_lines import HERE, TORCH

KEPT = 2
"""Members of a long stack of equal modules that take part in a trial of a shortened model."""
LONG = 4


@dataclass(frozen=True)
class Outcome:
    """What came of one call of forward."""

    error: BaseException | None
    """Why it did not run to its end."""
    output: Any = None
    """None when the forward reads values."""
    guessed: bool = False
    """It ran by guesses that decided something."""
    missing: tuple[str, ...] = ()
    """Arguments of forward that were `None` where it failed for that."""
    inner: tuple[str, ...] = ()
    """Arguments of a part of the model, handed on by forward as `**kwargs`, that were `None` where it failed for that."""
    reached: tuple[int, ...] = ()
    """Where it failed: the lines of the calls from the model's own forward inwards."""
    raised: BaseException | None = None
    """What the forward itself raised where it was traced."""
    traced: bool = False
    """It reads values, so that it had to be traced: a hundred times the cost of a call that fails for its form."""


def outcome(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, tracing: bool = True) -> Outcome:
    """Call the forward on meta; one that reads values is traced instead, which knows integers and guesses the rest. Without `tracing`, reading a
    value is an end without failure."""
    try:
        full = packed.stated([*args, *kwargs.values()])
        with torch.device("meta"), OnMeta(), eager(), flex.written_out(), packed.written_out(full, short=True), ragged.stacked(), \
             torch.no_grad(), Remembered():
            return Outcome(None, model(*on_meta(args), **on_meta(kwargs)))
    except (Exception, SystemExit) as error:
        if leave_out(error) or launched(error):
            return outcome(model, args, kwargs, tracing=tracing)
        if not reads_a_value(error) and NARROWER not in str(error):
            return Outcome(error, missing=missing(model, error), inner=handed_on(model, error), reached=_reached(error))
        if not tracing:
            return Outcome(None)
        from screen.capture.trace.tracer import run

        found = run(model, args, kwargs)
        if found.error is not None and leave_out(found.error):  # behind a value that it reads
            return outcome(model, args, kwargs)
        failed = RuntimeError(found.graph.failure.message) if found.graph.failure is not None else None
        names, inner = (missing(model, found.error), handed_on(model, found.error)) if found.error is not None else ((), ())
        guessed, reached = any(g.decides for g in found.graph.guesses), _reached(found.error) if found.error is not None else ()
        return Outcome(failed, guessed=guessed, missing=names, inner=inner, reached=reached, raised=found.error, traced=True)


def _reached(error: BaseException) -> tuple[int, ...]:
    """The lines where the statements of the failing calls begin but for those of torch's modules and ours, outer ones first: what stands on a later
    line of a statement may be read before what is called on its first one. What does not unpack was returned: further than all that was called."""
    found = []
    for frame, line in frames(error):
        if not frame.f_code.co_filename.startswith((TORCH, HERE)):
            said = statement(frame.f_code.co_filename, line)
            found.append(line if said is None else said.lineno)
    return (*found, sys.maxsize) if isinstance(error, ValueError) and "to unpack" in str(error) else tuple(found)


def first_tensor(output: Any) -> Tensor | None:
    """The first tensor of what a forward returned."""
    if isinstance(output, Tensor):
        return output
    values = list(output.values()) if isinstance(output, dict) else list(output) if isinstance(output, tuple | list) else []
    return first_tensor(values[0]) if values else None


def on_meta(value: Any) -> Any:
    """Arguments with every tensor on meta."""
    return mapped(value, lambda _, tensor: tensor.to("meta"))


def short_twin(model: nn.Module) -> nn.Module | None:
    """A copy whose long stacks of equal modules have two members; None when there are no such stacks.

    What runs on two layers runs on a hundred, as far as the form of the inputs goes; the opposite need not hold. A copy, because a forward may
    change its model (choose another kind of attention for short inputs)."""
    before: list[tuple[nn.Module, dict[str, Any]]] = []
    own = {type(m) for m in model.modules() if not type(m).__module__.startswith("torch.")}
    code = "\n".join(source_of(cls) or "" for cls in own)
    for name, module in list(model.named_modules()):
        members = list(module.children())
        counted = re.search(rf"\.{re.escape(name.rpartition('.')[2])}\[(?!\s*[-:\d])", code)  # `self.maps[i]`: as many as its code counts
        if isinstance(module, nn.ModuleList) and len(members) > LONG and len({_form(m) for m in members}) == 1 and not counted:
            before.append((module, dict(module._modules)))
    if not before:
        return None
    try:
        for module, all_members in before:
            for name in list(all_members)[KEPT:]:
                del module._modules[name]
        return copying.on_meta(model)
    finally:
        for module, all_members in before:
            module._modules.clear()
            module._modules.update(all_members)


def _form(module: nn.Module) -> Any:
    return type(module), tuple(tuple(p.shape) for p in module.parameters() if not isinstance(p, nn.parameter.UninitializedParameter))


__all__ = ["Outcome", "first_tensor", "on_meta", "outcome", "short_twin"]
