"""`screen.check`: the command from Python."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from screen.errors import LoadError, ScreenError, UsageError
from screen.report.schema import Report

if TYPE_CHECKING:
    from torch import nn

    from screen.report.compare import Comparison


def check(
    target: str | nn.Module,
    *,
    example_inputs: Any = None,
    recipe: Any = None,
    probe: bool = False,
    stress: bool = False,
    spot_check: bool = True,
    depth: int | None = None,
    set: Mapping[str, Any] | None = None,
    isolate: bool | None = None,
) -> Report:
    """Screen one model and return its report.

    `target` is text as on the command line, captured in a process of its own, or a live `nn.Module`, captured in this process on a copy
    without weights: the model itself is never altered. `isolate=False` captures text in this process too, without limits;
    `isolate=True` with a module is refused, since a module cannot be sent elsewhere. `example_inputs`: a tensor, a tuple of positional
    arguments or a dict of named ones, for a module; text of the command line's `--input` form, or several, for a text target. `spot_check=False`
    says everything without a run on real tensors. `recipe`: a `screen.Recipe`, a dict of its fields, or text as `--recipe` takes it (a file, a name,
    `FIELD=VALUE`), or a list of these, where later ones win.

    Raises `ScreenError` where the command would exit 2 without a graph.
    """
    from screen.graph.gc_pause import put_off
    from screen.pipeline.stages import judge
    from screen.probe.plan.types import Options
    from screen.recipe.read import recipe_of

    stated = None if recipe is None else recipe_of(recipe, "`recipe=`")
    stated_depth = stated.recipe.depth if stated is not None else None
    job, capture = _prepare(target, example_inputs, stated_depth if depth is None else depth, dict(set or {}), isolate)
    job = replace(job, spot=spot_check, recipe=stated)
    if probe or stress:
        job = replace(job, probe=Options(stress=stress))
    try:
        with nullcontext() if job.probe is not None else put_off():  # each collection walks all that the caller has, and measuring may take minutes
            judged = judge(job, capture)
    finally:
        if (close := getattr(getattr(capture, "__self__", None), "close", None)) is not None:
            close()
    for one in judged:
        if one.error is not None:
            raise one.error
    if len(judged) > 1:
        names = ", ".join(f"`{j.report.target.spec}`" for j in judged)
        raise LoadError("`screen.check` must be given one model", f"`{job.request.target}` holds {len(judged)}", f"Name one of {names}")
    return judged[0].report


def compare(first: Report | str | nn.Module, *others: Report | str | nn.Module, **options: Any) -> Comparison:
    """Reports side by side: what differs in structure, channels and claims; `worse` names the channels that are worse than in the first.

    Each is a report, or what `check` takes; `options` are those of `check`. Raises as `check` does, and `UsageError` for one target alone."""
    from screen.report.compare import compare as beside

    if not others:
        raise UsageError("`screen.compare` must be given two targets or reports, or more", "there is 1")
    return beside([one if isinstance(one, Report) else check(one, **options) for one in (first, *others)])


def _prepare(target: Any, example_inputs: Any, depth: int | None, settings: dict[str, Any], isolate: bool | None) -> tuple[Any, Any]:
    """The job and what captures it."""
    from screen.child.protocol import Request
    from screen.pipeline.stages import Job

    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 1):
        raise UsageError("`depth` must be a whole number above zero", f"it is `{depth!r}`")
    if isinstance(target, str):
        request = Request(target, settings, _texts(example_inputs), depth)
        return Job(request), _capturer(target, isolate)
    if isinstance(target, type):
        found = f"it is the class `{target.__name__}`"
        raise UsageError("`screen.check` must be given text or an `nn.Module` object", found, f"Build it: `screen.check({target.__name__}(…))`")
    if not hasattr(target, "named_parameters"):  # torch is not imported for a question
        raise UsageError("`screen.check` must be given text or an `nn.Module`", f"it is a `{type(target).__name__}`")
    if settings:
        raise UsageError("`set=` changes how a target is built", "the target is a live module, which is built already", "Build it otherwise")
    if isolate:
        raise UsageError("`isolate=True` must be given text", "the target is a live module, which cannot be sent to another process", "Name its file")
    from screen.child.in_process import object_capturer

    name = type(target).__name__
    return Job(Request(name, {}, (), depth), live=True), object_capturer(target, example_inputs, depth)


def _capturer(target: str, isolate: bool | None) -> Any:
    from screen.command.commands import preload
    from screen.graph.target import parse

    spec = parse(target)
    if isolate is False:
        from screen.child.in_process import capture

        return capture
    from screen.child.host import Host

    return Host(preload=preload([spec])).capture


def _texts(example_inputs: Any) -> tuple[str, ...]:
    if example_inputs is None:
        return ()
    if isinstance(example_inputs, str):
        return (example_inputs,)
    if isinstance(example_inputs, list | tuple) and all(isinstance(text, str) for text in example_inputs):
        return tuple(example_inputs)
    raise UsageError(
        "`example_inputs` of a text target must be text, as for `--input`",
        f"it is a `{type(example_inputs).__name__}`",
        "For example `x=float32[1,16,512]`",
    )


__all__ = ["ScreenError", "check", "compare"]
