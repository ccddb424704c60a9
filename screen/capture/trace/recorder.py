"""The recorder: tensors to `torch.fx` nodes, with writes and aliases kept right.

A value is a tensor object (by `id`, kept alive) with the region of its storage that it covers. Every in-place op is a write to a
region; a read of a tensor whose storage was written since, in an overlapping region, by way of another tensor object, resolves to an `alias`
node over its old value and those writes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch import Tensor

from screen.capture.trace.source_lines import no_modes

Region = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Storage offset, shape, strides (in elements)."""


def alias(old: Any, *writes: Any) -> Any:
    """A tensor read after writes to its storage: in a replay the storage has them already."""
    return old


def set_item(target: Any, index: Any, value: Any) -> Any:
    """`target[index] = value`, returning the target."""
    operator.setitem(target, index, value)
    return target


@dataclass
class _Write:
    stamp: int
    region: Region
    node: torch.fx.Node


@dataclass
class Origin:
    """Where a node came from: module call, file, line."""

    call: int
    file: str
    line: int


@dataclass
class Recorder:
    """Builds one `torch.fx.Graph` while a forward runs."""

    names: dict[int, tuple[str, str]]
    """id(tensor) -> (kind, qualified name) for parameters, buffers and other tensors that the model holds."""
    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    values: dict[int, torch.fx.Node] = field(default_factory=dict)
    stamps: dict[int, int] = field(default_factory=dict)
    keep: list[Tensor] = field(default_factory=list)
    writes: dict[int, list[_Write]] = field(default_factory=dict)
    origins: dict[torch.fx.Node, Origin] = field(default_factory=dict)
    constants: dict[str, Tensor] = field(default_factory=dict)
    twins: dict[int, Tensor] = field(default_factory=dict)
    """id(meta tensor) -> the CPU tensor that it stands for."""
    clock: int = 0
    unread: dict[int, Tensor] = field(default_factory=dict)
    """Stand-ins for what was not computed, by id."""
    was_read: bool = False
    """Whether one of them was."""

    def forbidden(self, like: Tensor) -> Tensor:
        """A stand-in for a tensor that was not computed."""
        with no_modes():
            made = torch.empty_like(like, device="meta")
        self.unread[id(made)] = made
        return made

    def placeholder(self, name: str, tensor: Tensor, origin: Origin) -> torch.fx.Node:
        """Declare an argument of forward."""
        node = self.graph.create_node("placeholder", _identifier(name), (), {}, name=_identifier(name))
        node.meta["label"] = name
        return self._bind(tensor, node, origin)

    def read(self, tensor: Tensor, origin: Origin) -> torch.fx.Node:
        """The node whose value a tensor has now."""
        node = self.values.get(id(tensor))
        if node is None and id(tensor) in self.twins:
            return self.read(self.twins[id(tensor)], origin)
        if node is None:
            node = self._source(tensor, origin)
        return self._after_writes(tensor, node, origin) if self.writes else node

    def call(self, target: Callable[..., Any], args: Any, kwargs: Any, result: Any, origin: Origin) -> torch.fx.Node:
        """Record a call and bind the tensors of its result."""
        node = self.graph.create_node("call_function", target, self._args(args, origin), self._args(kwargs, origin))
        self._bind_result(result, node, origin)
        return node

    def written(self, tensor: Tensor, node: torch.fx.Node, region: Region, origin: Origin) -> None:
        """The storage of `tensor` was written in `region`, and `tensor` has the value of `node` from now on."""
        self.clock += 1
        self.writes.setdefault(storage_of(tensor), []).append(_Write(self.clock, region, node))
        self._bind(tensor, node, origin)

    def _bind_result(self, result: Any, node: torch.fx.Node, origin: Origin) -> None:
        self.origins[node] = origin
        if isinstance(result, Tensor):
            self._bind(result, node, origin)
        elif isinstance(result, tuple | list):
            for position, item in enumerate(result):
                if not _holds_tensor(item):
                    continue
                part = self.graph.create_node("call_function", operator.getitem, (node, position), {})
                self._bind_result(item, part, origin)

    def _bind(self, tensor: Tensor, node: torch.fx.Node, origin: Origin) -> torch.fx.Node:
        key = id(tensor)
        if key not in self.stamps:
            self.keep.append(tensor)
        self.values[key] = node
        self.stamps[key] = self.clock
        self.origins[node] = origin
        node.meta["val"] = sizes_of(tensor)
        return node

    def _source(self, tensor: Tensor, origin: Origin) -> torch.fx.Node:
        self.was_read |= id(tensor) in self.unread
        kind, name = self.names.get(id(tensor), ("constant", ""))
        twin = None if name else self._twin(tensor)
        if twin is not None:
            return self._bind(tensor, twin, self.origins[twin])
        if not name:
            name = f"constant{len(self.constants)}"
            self.constants[name] = tensor
        node = self.graph.create_node("get_attr", name, (), {})
        node.meta["kind"] = kind
        node.meta["label"] = name
        return self._bind(tensor, node, origin)

    def _twin(self, tensor: Tensor) -> torch.fx.Node | None:
        """The node of another object for the very same memory: wrappers come and go below the aten level."""
        storage, region = storage_of(tensor), region_of(tensor)
        for other in reversed(self.keep):
            if other.shape == tensor.shape and other.dtype == tensor.dtype and storage_of(other) == storage and region_of(other) == region:
                return self.values.get(id(other))
        return None

    def _after_writes(self, tensor: Tensor, node: torch.fx.Node, origin: Origin) -> torch.fx.Node:
        history = self.writes.get(storage_of(tensor))
        if not history or history[-1].stamp <= self.stamps[id(tensor)]:
            return node
        seen = self.stamps[id(tensor)]
        mine = region_of(tensor)
        since = [w for w in history if w.stamp > seen and w.node is not node and overlap(w.region, mine)]
        self.stamps[id(tensor)] = self.clock
        same = (n for n, w in enumerate(since) if w.region == mine and w.node.meta["val"] == sizes_of(tensor) and node in made_of(w.node))
        whole = max(same, default=-1)
        if whole >= 0:  # the same entries by another name: what was there before is gone
            node, since = self._bind(tensor, since[whole].node, self.origins[since[whole].node]), since[whole + 1 :]
        news = [w.node for w in since]
        if not news:
            return node
        fresh = self.graph.create_node("call_function", alias, (node, *news), {})
        return self._bind(tensor, fresh, origin)

    def _args(self, value: Any, origin: Origin) -> Any:
        if isinstance(value, Tensor):
            return self.read(value, origin)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return tuple(self._args(v, origin) for v in value)
        if isinstance(value, tuple | list):
            return type(value)(self._args(v, origin) for v in value) if type(value) in (tuple, list) else value
        if isinstance(value, dict):
            return {k: self._args(v, origin) for k, v in value.items()}
        if isinstance(value, slice):
            return slice(self._args(value.start, origin), self._args(value.stop, origin), self._args(value.step, origin))
        return value


_VIEWS = frozenset({"view", "view_as", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "transpose", "permute", "__getitem__", "getitem"})


def made_of(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """A value, and back to what it is behind views and writes in place, with nothing in between that gradients do not pass."""
    while True:
        yield node
        name = str(getattr(node.target, "__name__", node.target))
        writes = name in ("set_item", "alias") or name.startswith("__i") or (name.endswith("_") and not name.startswith("_") and name != "detach_")
        if not (writes or name in _VIEWS) or not node.args or not isinstance(node.args[0], torch.fx.Node):
            return
        node = node.args[0]


def sizes_of(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    """(shape, type)."""
    return tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, tuple | list) and any(map(_holds_tensor, value)))


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name) or "_"


def storage_of(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # vmapped and other wrapped tensors have none
        return -id(tensor)


def region_of(tensor: Tensor) -> Region:
    """The part of its storage that a tensor covers."""
    try:
        return int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride())
    except (RuntimeError, NotImplementedError):
        return 0, tuple(tensor.shape), ()


def overlap(a: Region, b: Region) -> bool:
    """Whether two regions of one storage may share an element. False is certain, True is not."""
    (start_a, shape_a, stride_a), (start_b, shape_b, stride_b) = a, b
    if 0 in shape_a or 0 in shape_b:
        return False
    if len(stride_a) != len(shape_a) or len(stride_b) != len(shape_b):
        return True
    end_a = start_a + sum((n - 1) * s for n, s in zip(shape_a, stride_a, strict=True))
    end_b = start_b + sum((n - 1) * s for n, s in zip(shape_b, stride_b, strict=True))
    if end_a < start_b or end_b < start_a:
        return False
    return not _apart_in_one_dim(a, b)


def _apart_in_one_dim(a: Region, b: Region) -> bool:
    """Two boxes of the same strides are disjoint when their coordinates are apart in some dimension."""
    strides = sorted({s for region in (a, b) for n, s in zip(region[1], region[2], strict=True) if n > 1 and s > 0}, reverse=True)
    boxes = []
    for start, shape, stride in (a, b):
        extent = dict.fromkeys(strides, 1)
        for n, s in zip(shape, stride, strict=True):
            if n > 1 and s > 0:
                extent[s] = max(extent[s], n)
        box, rest = [], start
        for s in strides:
            low, rest = divmod(rest, s)
            box.append((low, low + extent[s]))
        boxes.append((box, rest))
    for position in range(1, len(strides)):  # a box that runs over into the next coordinate proves nothing
        if any(box[position][1] * strides[position] > strides[position - 1] for box, _ in boxes):
            return False
    (first, rest_a), (second, rest_b) = boxes
    if rest_a != rest_b:
        return False
    return any(p[1] <= q[0] or q[1] <= p[0] for p, q in zip(first, second, strict=True))


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists and dicts, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, slice):
        yield from tensors((value.start, value.stop, value.step))
