"""The tree of module calls: which module ran inside which, how often, and what holds which tensor."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from screen.capture.trace.loop import Loop, module_name, own_name
from screen.graph import Call, Module
from screen.graph import Loop as Ran

_PLAIN = (int, float, bool, str, type(None), OrderedDict, torch.dtype)
_REGISTRIES = frozenset(vars(nn.Module()))
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
_TORCHS = nn.Module.__call__
"""As it is before any code of a target runs."""


class Scopes:
    """Modules of one model and the calls of one run, from global forward hooks."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules: list[nn.Module] = []
        self.entries: list[Module] = []
        self.paths: list[str] = []
        """Where each module stands below the model that runs: in a loop, by which copy; `entries` have the user's names."""
        self.index: dict[int, int] = {}
        self.calls: list[Call] = []
        self.stack: list[int] = []
        self.counts: dict[int, int] = {}
        self.own: set[int] = set()
        """Modules with a `__call__` of their own."""
        self.names: dict[int, tuple[str, str]] = {}
        self.held: list[Tensor] = []
        """What `names` names, alive: a forward that replaces one of them would free its id for the next value."""
        places: dict[str, int] = {}
        for path, module in model.named_modules():
            parent = places.get(path.rpartition(".")[0], 0) if path else None
            places[path] = self._add(module, parent, path)
        self.calls.append(Call(0, None, 0, 0))

    @property
    def current(self) -> int:
        """The call that runs now; 0 outside of all."""
        return self.stack[-1] if self.stack else 0

    def _add(self, module: nn.Module, parent: int | None, path: str) -> int:
        position = len(self.modules)
        self.modules.append(module)
        self.index[id(module)] = position
        container = "list" if isinstance(module, _CONTAINERS) else ""
        self.entries.append(Module(position, parent, module_name(path), type(module).__name__, container))
        self.paths.append(path)
        return position

    def _of(self, module: nn.Module) -> int:
        """The entry of a module; one that is not registered (kept in a plain list) gets one below its caller."""
        found = self.index.get(id(module))
        if found is not None:
            return found
        parent = self.calls[self.current].module if self.stack else 0
        path = self._path_of_unregistered(module, parent)
        first = len(self.modules)
        for inner, child in module.named_modules():
            if id(child) in self.index:
                continue
            above = parent if child is module else self.index[id(module.get_submodule(inner.rpartition(".")[0]))]
            position = self._add(child, above, f"{path}.{inner}" if inner else path)
            _name_tensors(self.names, self.held, child, self.paths[position])
            child.requires_grad_(False)
        return first

    def _path_of_unregistered(self, module: nn.Module, parent: int) -> str:
        holder = self.modules[parent]
        prefix = self.paths[parent]
        for name, value in vars(holder).items():
            items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
            for key, item in items:
                if item is module:
                    return ".".join(filter(None, (prefix, name, str(key))))
        return ".".join(filter(None, (prefix, f"unregistered{len(self.modules)}")))

    def tensor_names(self) -> dict[int, tuple[str, str]]:
        """id(tensor) -> (kind, qualified name) of all that the model holds, plain attributes included."""
        for path, module in zip(self.paths, self.modules, strict=True):
            _name_tensors(self.names, self.held, module, path)
        return self.names

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Global hooks for the time of one run; a `__call__` that is not torch's own may run none of them, and is watched itself."""
        before = hooks.register_module_forward_pre_hook(self._enter)
        after = hooks.register_module_forward_hook(self._leave, always_call=True)
        own = {owner: owner.__dict__["__call__"] for module in self.modules if (owner := _calls(type(module))) is not None}
        for owner, call in own.items():
            owner.__call__ = self._watched(call)
        try:
            yield
        finally:
            for owner, call in own.items():
                owner.__call__ = call
            before.remove()
            after.remove()

    def _watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, entered and left."""

        def watched(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._enter(module, args)
            self.own.add(self._of(module))
            try:
                return call(module, *args, **kwargs)
            finally:
                self._leave(module, args, None)

        return watched

    def _enter(self, module: nn.Module, args: Any) -> None:
        position = self._of(module)
        if self.stack and position in self.own and self.calls[self.current].module == position:  # its own `__call__` goes on to torch's
            self.stack.append(self.current)
            return
        if not self.stack:
            if module is self.model and len(self.calls) == 1:
                self.stack.append(0)
                self.counts[position] = 1
                return
            self.stack.append(0)
        ordinal = self.counts.get(position, 0)
        self.counts[position] = ordinal + 1
        self.calls.append(Call(len(self.calls), self.current, position, ordinal))
        self.stack.append(len(self.calls) - 1)

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        if self.stack:
            self.stack.pop()

    def unwind(self) -> None:
        """Forget an unfinished stack."""
        self.stack.clear()

    def uncalled(self, skip: set[int], read: Collection[int]) -> tuple[int, ...]:
        """Outermost modules with parameters below them of which nothing ran. `skip`: modules that were stamped; `read`: ids of the parameters
        that were read, if need be by another module (tied weights, `out_proj` of `nn.MultiheadAttention`)."""
        called = {c.module for c in self.calls}
        alive: set[int] = set()
        for position in sorted(called | skip, reverse=True):
            walk: int | None = position
            while walk is not None and walk not in alive:
                alive.add(walk)
                walk = self.entries[walk].parent
        found = []
        for entry, module in zip(self.entries, self.modules, strict=True):
            parent = entry.parent
            if entry.index in alive or not (parent is None or parent in alive) or self._below(parent, skip):
                continue
            weights = {id(p) for p in module.parameters()}  # of dead ones only: for every module of a deep model it takes a third of the trace
            if weights and not any(w in read for w in weights):
                found.append(entry.index)
        return tuple({self.entries[i].path: i for i in reversed(found)}.values())[::-1]

    def _below(self, position: int | None, tops: set[int]) -> bool:
        while position is not None:
            if position in tops:
                return True
            position = self.entries[position].parent
        return False

    def loop(self) -> Ran | None:
        """The copies of a block that ran, where the model is a loop of them."""
        if not isinstance(self.model, Loop):
            return None
        copies = {self.index[id(m)] for m in self.model.members}
        return Ran(tuple(c.index for c in self.calls if c.parent == 0 and c.module in copies), self.model.count)

    def table(self) -> tuple[Module, ...]:
        """The modules as plain data, with the file and line of each class."""
        return tuple(self.entries)


def _calls(kind: type[nn.Module]) -> Any:
    """The class that a module has its `__call__` from; None where it is torch's own."""
    owner = next(c for c in kind.__mro__ if "__call__" in c.__dict__)
    return None if owner.__dict__["__call__"] is _TORCHS else owner


def _name_tensors(names: dict[int, tuple[str, str]], held: list[Tensor], module: nn.Module, path: str) -> None:
    def add(kind: str, name: str, tensor: Any) -> None:
        if type(tensor) not in _PLAIN and isinstance(tensor, Tensor):
            names.setdefault(id(tensor), (kind, own_name(f"{path}.{name}" if path else name)))
            held.append(tensor)

    for name, parameter in module._parameters.items():
        add("parameter", name, parameter)
    for name, buffer in module._buffers.items():
        add("buffer", name, buffer)
    for name, value in vars(module).items():
        if type(value) in _PLAIN or name in _REGISTRIES:
            continue
        kind = "parameter" if isinstance(value, nn.Parameter) else "constant"
        add(kind, name, value)
        if isinstance(value, list | tuple):
            for position, item in enumerate(value):
                add("parameter" if isinstance(item, nn.Parameter) else "constant", f"{name}.{position}", item)
        elif type(value) is dict:
            for key, item in value.items():
                add("parameter" if isinstance(item, nn.Parameter) else "constant", f"{name}.{key}", item)


__all__ = ["Scopes", "torch"]
