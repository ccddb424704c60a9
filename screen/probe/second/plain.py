"""The module of a target, run once as its own code runs it, before anything is traced in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from screen.capture.build.built import Built
from screen.capture.build.random_state import seeded
from screen.capture.trace.convert import plain
from screen.capture.trace.loop import Loop, own_name
from screen.capture.trace.recorder import tensors
from screen.capture.trace.tracer import Trace
from screen.probe.measure.leaves import Material, is_shape_alone
from screen.probe.measure.replay import Missing, attribute
from screen.probe.measure.session import said
from screen.probe.plan.spot_types import Plain, Sample
from screen.probe.second.outside import filled, often
from screen.probe.second.values import MOST, SAME, apart, packed, sample

LATER = "a later call of it gives something else than its first, which is what was judged"
"""What is said of a module that changes with its calls."""
ALONE = False
"""Whether this process runs one target and nothing else, so that its table of modules may change for a moment."""


@dataclass(frozen=True)
class Ran:
    """One run of the module, and what it was run with."""

    reason: str = ""
    """Why there is none, or what it does not say."""
    output: Sample | None = None
    keys: tuple[tuple[str, str], ...] = ()
    """Weight -> the name that it is drawn by: one tensor may have several."""
    inputs: tuple[Tensor, ...] = ()
    buffers: tuple[tuple[str, Tensor], ...] = ()
    """As they were before the run."""
    later: bool = False
    """Whether a later call gave something else."""
    still: bool = True
    """Whether the buffers are the same after all calls."""
    last: Sample | None = None
    """What one more call gave, where a later one gave something else and buffers are other ones."""
    late: tuple[tuple[str, Tensor], ...] = ()
    """Buffers before that call."""


def ran(names: Sequence[str], seed: int, built: Built, make: Callable[[int], nn.Module] | None) -> Ran:
    """The module with weights that are drawn by their names. Whatever its code raises is a reason."""
    if make is None:
        return Ran("the module has no weights of its own")
    try:
        model = make(seed).eval()
        keys = filled(partial(attribute, model), names, seed)
        buffers = _held(model)
        given = inputs_of(built, seed)
        inputs = tuple(t.clone() for t in torch.utils._pytree.tree_leaves(given) if isinstance(t, Tensor))
        with torch.random.fork_rng(devices=[]), torch.no_grad(), no_fast_path():

            def again() -> Tensor | None:
                args, kwargs = tree_map_only(Tensor, torch.clone, given)
                with seeded(seed):
                    return first(_unseen(model, args, kwargs) if ALONE else model(*args, **kwargs))

            out = again()
            later = often(again)
            found = sample(out) if out is not None else None
            same = found is not None and all(one is not None and apart(sample(one), found) <= SAME for one in later)
            late = _held(model)
            still = len(late) == len(buffers) and all(torch.equal(value, before) for (_, value), (_, before) in zip(late, buffers, strict=True))
            one = None if same or still else again()
    except Exception as error:
        return Ran(f"the module did not run plainly: {said(error)}")
    if found is None:
        return Ran("it returns no float tensor")
    last = None if one is None else sample(one)
    return Ran("" if same else LATER, found, keys, inputs, buffers, not same, still, last, late if last is not None else ())


def _held(model: nn.Module) -> tuple[tuple[str, Tensor], ...]:
    """Buffers by their names in the graph, as they are now."""
    return tuple((own_name(name), value.detach().clone()) for name, value in model.named_buffers(remove_duplicate=False))


def inputs_of(built: Built, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the run. Raises `Missing` where one has no values."""
    generator = torch.Generator().manual_seed(seed)
    args, kwargs = tree_map_only(Tensor, lambda t: _value(t, generator), (built.args, built.kwargs))
    return args, kwargs


def _unseen(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a module gives where its code finds nothing of ours on its stack, nor among what is imported."""
    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == __name__.partition(".")[0]}
    try:
        with ThreadPoolExecutor(1) as thread:  # which has a stack of its own

            def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                return thread.submit(torch.no_grad()(module.__call__), *args, **kwargs).result()

            return model.through(call, args, kwargs) if isinstance(model, Loop) else call(model, args, kwargs)
    finally:
        sys.modules.update(ours)


def told(ran: Ran, trace: Trace, material: Material) -> Plain:
    """A run, with the values of the leaves of its graph."""
    graph = trace.graph
    if ran.output is None:
        return Plain(ran.reason)
    output = next((i for i in graph.outputs if (graph.nodes[i].dtype or "").startswith(("float", "bfloat"))), None)
    if output is None:
        return Plain("it returns no float tensor")
    buffers, inputs = dict(ran.buffers), dict(zip((n.index for n in graph.nodes if n.op == "input"), ran.inputs, strict=False))
    found, size = [], 0
    for index in material.tape.steps([output], [])[1]:
        node = graph.nodes[index]
        if node.op == "parameter":
            continue
        try:
            value = inputs.get(index) if node.op == "input" else buffers.get(node.name)
            value = material.leaves([index])[index] if value is None else value
        except Missing as error:
            return Plain(str(error))
        if not isinstance(value, Tensor):
            return Plain(f"`{node.name}` is no tensor")
        size += value.numel() * value.element_size()
        if size > MOST:
            return Plain(f"more than {MOST >> 20} MiB that are no weights")
        found.append(packed(index, value))
    late = dict(ran.late)
    then = tuple(packed(leaf.node, late[graph.nodes[leaf.node].name]) for leaf in found if graph.nodes[leaf.node].name in late)
    return Plain(ran.reason, ran.output, ran.keys, tuple(found), ran.later, ran.still, ran.last, then)


def first(output: Any) -> Tensor | None:
    """The first float tensor of what a module returns, as the trace counts it."""
    return next((t for t in tensors(plain(output)) if isinstance(t, Tensor) and t.is_floating_point()), None)


class no_fast_path:
    """`nn.TransformerEncoder` without its fused path, as it was traced."""

    def __enter__(self) -> None:
        self.before = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)

    def __exit__(self, *error: Any) -> None:
        torch.backends.mha.set_fastpath_enabled(self.before)


def _value(given: Tensor, generator: torch.Generator) -> Tensor:
    """An argument; floats that are not there, or that somebody gave for a shape, are N(0, 1)."""
    if given.is_floating_point() and (given.device.type == "meta" or is_shape_alone(given)):
        return torch.randn(given.shape, generator=generator)
    if given.device.type == "meta":
        raise Missing("an argument has no values")
    return given.detach().clone()


__all__ = ["Ran", "first", "inputs_of", "no_fast_path", "ran", "told"]
