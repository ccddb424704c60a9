"""One run of one model, watched from two levels.

A `TorchFunctionMode` sees what was written (`F.scaled_dot_product_attention`, `softmax`, `__add__`), a `TorchDispatchMode` under it sees aten ops.
A call whose canonical name has a row in the vocabulary becomes one node; any other is replaced by its aten children. Global module hooks
give the tree of calls, a frame walk the user's file and line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode

from screen import ops
from screen.capture import devices
from screen.capture.trace import meta_fallback
from screen.capture.trace.fused import apart, is_fused
from screen.capture.trace.dropouts import undrawn
from screen.capture.trace.meta_memo import Memo
from screen.capture.trace.module_calls import Scopes
from screen.capture.trace.nested import mapped
from screen.capture.trace.oracle import Oracle
from screen.capture.trace.recorder import Origin, Recorder, region_of, set_item, sizes_of, tensors
from screen.capture.trace.source_lines import no_modes, user_line
from screen.capture.trace.training import is_trained
from screen.capture.trace.value_reads import ATEN_READS, PLAIN_READS

SILENT = {"size", "dim", "stride", "__len__", "numel", "is_contiguous", "element_size", "storage_offset", "__repr__", "__hash__",
          "data_ptr", "untyped_storage", "storage", "is_floating_point", "is_complex", "get_device", "nelement", "ndimension", "__dir__",
          "_is_view", "is_same_size", "has_names", "register_hook", "retain_grad", "requires_grad_", "__set__", "__delete__"}
"""Reads that say nothing about values."""

DRAWN = "numbers of weights that were drawn"
"""What is assumed where a value is read that hangs on weights or arguments."""

KEPT_PROPERTIES = {"T", "mT", "H", "mH", "data", "real", "imag"}
Sizes = dict[int, tuple[tuple[int, ...], str]]
"""(shape, type) of some tensors, by id."""


@dataclass
class _Frame:
    """One call at the function level: the aten calls below it, and what they wrote."""

    children: list[tuple[Any, Any, Any, Any, Sizes]] = field(default_factory=list)


@dataclass
class Session:
    """One run of one model."""

    recorder: Recorder
    oracle: Oracle
    scopes: Scopes
    frames: list[_Frame] = field(default_factory=list)
    guesses: list[tuple[str, int, str, int]] = field(default_factory=list)
    """(file, line, what was assumed, number of nodes recorded before)."""
    on_meta: dict[int, Tensor] = field(default_factory=dict)
    sizes_are_guessed: bool = False
    running: int = 0
    """Aten calls that run now, one inside of the other."""
    assumptions: set[tuple[str, int]] = field(default_factory=set)
    """Lines that read a value known only if floats are finite and not zero."""
    memo: Memo = field(default_factory=Memo)

    def origin(self) -> Origin:
        """The module call that runs now, and the user's line."""
        file, line = user_line()
        return Origin(self.scopes.current, file, line)

    # -- function level ---------------------------------------------------------------------------------------------------------------

    def function(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """One torch function call."""
        name = "" if _is_written_elsewhere(func) else getattr(func, "__name__", "")
        answer = devices.told(func, name, args) if not self.running else NotImplemented
        if answer is not NotImplemented:
            return answer
        if name == "__get__" and getattr(getattr(func, "__self__", None), "__name__", "") not in KEPT_PROPERTIES:
            return func(*args, **kwargs)
        if name in SILENT:
            return func(*args, **kwargs)
        if name in PLAIN_READS:
            self._drawn(args, kwargs)
            return PLAIN_READS[name](self, func, args, kwargs)
        if name == "__get__":
            name = func.__self__.__name__  # type: ignore[attr-defined]
        else:
            func, args, kwargs = devices.kept(func, name, args, kwargs, self._on_meta)
            name = name and getattr(func, "__name__", "")
        frame = _Frame()
        self.frames.append(frame)
        try:
            result = func(*(self._indexed(args) if name == "__getitem__" else args), **kwargs)
        except BaseException:
            self.frames.pop()
            self._flush(frame)
            raise
        self.frames.pop()
        result = meta_fallback.laid_out(func, args, kwargs, result)
        self.oracle.literal(func, args, kwargs, result)
        self._settle(func, name, args, kwargs, result, frame)
        return result

    def _indexed(self, args: Any) -> Any:
        """`x[:, [-1, 0]]`: torch makes a tensor of the list on meta and forgets its entries."""
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        if not any(isinstance(i, list) for i in index):
            return args
        with no_modes():
            known = [torch.tensor(i, device="cpu") if isinstance(i, list) and i and isinstance(i[0], int) else i for i in index]
        made = [self.meta_twin(i) if isinstance(i, Tensor) and i.device.type == "cpu" and args[0].device.type == "meta" else i for i in known]
        return (args[0], tuple(made) if isinstance(args[1], tuple) else made[0])

    def _settle(self, func: Any, name: str, args: Any, kwargs: Any, result: Any, frame: _Frame) -> None:
        op, _ = ops.canonical(name)
        writes = [w for child in frame.children for w in _written(child[0], child[1], child[2])]
        fresh = [t for t in tensors(result) if id(t) not in self.recorder.values and id(t) not in self.recorder.names]
        if not writes and not fresh:
            return
        plain = op not in ops.OPAQUE and ops.has_row(op) and not _of_another(func) and not any(map(_wrapped, tensors((args, kwargs, result))))
        plain = plain and not (op in ("add", "sub") and len(args) > 2)  # `add(x, alpha, y)`: the aten call names the factor
        if not plain or (writes and name != "__setitem__" and not any(w is t for w in writes for t in tensors((args, kwargs)))):
            self._flush(frame)
            return
        origin = self.origin()
        if name == "__setitem__":
            node = self.recorder.call(set_item, args, kwargs, None, origin)
            regions = [region_of(w) for w in writes] or [region_of(args[0])]
            for region in regions:
                self.recorder.written(args[0], node, region, origin)
            return
        node = self.recorder.call(func, args, kwargs, result if fresh else None, origin)
        for target in writes:
            if any(target is t for t in tensors((args, kwargs))):
                self.recorder.written(target, node, region_of(target), origin)

    def _flush(self, frame: _Frame) -> None:
        """Write down the aten children in place of the call."""
        if self.frames:
            self.frames[-1].children.extend(frame.children)
            return
        origin = self.origin()
        for func, args, kwargs, result, made in frame.children:
            self._child(func, args, kwargs, result, origin, made)

    def _child(self, func: Any, args: Any, kwargs: Any, result: Any, origin: Origin, made: Sizes) -> None:
        """One aten call. `made`: the sizes of its results before a later one turned them in place."""
        writes = _written(func, args, kwargs)
        fresh = [t for t in tensors(result) if id(t) not in self.recorder.values]
        if not writes and not fresh:
            return
        record = partial(apart, self.recorder) if is_fused(self.recorder, func, args, origin) else self.recorder.call
        node = record(func, args, kwargs, result if fresh else None, origin)
        for tensor in fresh:
            self.recorder.values[id(tensor)].meta["val"] = made[id(tensor)]
        for target in writes:
            self.recorder.written(target, node, region_of(target), origin)

    # -- aten level -------------------------------------------------------------------------------------------------------------------

    def dispatched(self, func: Any, args: Any, kwargs: Any) -> Any:
        """One aten call. TorchScript makes it outside of every function, and what PyTorch asks inside of it is no question of the user's."""
        self.running += 1
        try:
            return self.aten(func, args, kwargs)
        finally:
            self.running -= 1

    def aten(self, func: Any, args: Any, kwargs: Any) -> Any:
        """One aten call."""
        args, kwargs = self._same_device(args, kwargs)
        name = func.__name__.split(".")[0]
        reader = ATEN_READS.get(name)
        if reader is not None:
            answer = reader(self, func, args, kwargs)
            if answer is not NotImplemented:
                if self.oracle.drawn is not None:
                    self._drawn(args, kwargs)
                    self.oracle.follow(func, args, kwargs, answer)
                self.oracle.supposed.note(func, args, kwargs, answer, self.oracle.value)
                self._note(func, args, kwargs, answer)
                return answer
        try:
            result = self.memo.run(func, args, kwargs)
        except NotImplementedError as error:
            result = meta_fallback.run(func, args, kwargs, error)
        except RuntimeError as error:
            if not meta_fallback.fits(func, error):
                raise
            result = meta_fallback.run(func, args, kwargs, error)
        self.oracle.follow(func, args, kwargs, result)
        self.oracle.supposed.note(func, args, kwargs, result, self.oracle.value)
        self._note(func, args, kwargs, result)
        return result

    def _drawn(self, args: Any, kwargs: Any) -> None:
        """A read of what values were drawn for: as much a guess as they are."""
        if self.oracle.of_draws(tensors((args, kwargs))):
            file, line = user_line()
            self.guesses.append((file, line, f"{DRAWN} = theirs", len(self.recorder.graph.nodes)))

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self.frames:
            self.frames[-1].children.append((func, args, kwargs, result, {id(t): sizes_of(t) for t in tensors(result)}))
            self.recorder.keep.extend(tensors(result))
        else:
            self._child(func, args, kwargs, result, self.origin(), {id(t): sizes_of(t) for t in tensors(result)})

    def _same_device(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Where meta and CPU tensors meet, the CPU ones are moved to meta, and their values kept."""
        found = list(tensors((args, kwargs)))
        if not any(t.device.type == "meta" for t in found) or all(t.device.type == "meta" or t.dim() == 0 for t in found):
            return args, kwargs
        return self._moved(args), self._moved(kwargs)

    def _moved(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.device.type == "meta" or value.dim() == 0:
                return value
            return self.meta_twin(value)
        if isinstance(value, tuple | list):
            return type(value)(self._moved(v) for v in value)
        if isinstance(value, dict):
            return {k: self._moved(v) for k, v in value.items()}
        return value

    def _on_meta(self, value: Tensor) -> Tensor:
        return value if value.device.type == "meta" else self.meta_twin(value)

    def meta_twin(self, value: Tensor) -> Tensor:
        """The meta tensor that stands for a CPU tensor."""
        twin = self.on_meta.get(id(value))
        if twin is None:
            with no_modes():
                twin = value.to("meta")
            self.on_meta[id(value)] = twin
            self.recorder.keep.append(value)
            self.oracle.learn(twin, value)
            self.recorder.twins[id(twin)] = value
        return twin

    def takes(self, lengths: Tensor, count: int, steps: int) -> bool:
        """Lengths of sequences that are packed are taken for full ones, by a guess where they are not known to be."""
        known = self.oracle.value(lengths)
        if known is None or len(known) != count or not bool((known == steps).all()):
            self.guess(True, "all sequences are as long as the longest")
        return True

    def guess(self, default: Any, what: str) -> Any:
        """A guessed answer, recorded with the user's line."""
        file, line = user_line()
        answer = self.oracle.guess(default, what, (file, line, what))
        self.guesses.append((file, line, f"{what} = {answer}", len(self.recorder.graph.nodes)))
        return answer


class Functions(TorchFunctionMode):
    """Tells a session of calls as they were written."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = undrawn(func, args, kwargs or {}) if is_trained() else (args, kwargs or {})
        return self.session.function(func, args, kwargs)


def as_known(value: Any) -> Any:
    """With the values that the run which goes on here knows of integers and truth values, in whatever holds them."""
    session = next((mode.session for mode in reversed(_get_current_function_mode_stack()) if isinstance(mode, Functions)), None)

    def known(_: str, tensor: Tensor) -> Tensor:
        found = session.oracle.value(tensor) if session is not None and not tensor.dtype.is_floating_point else None
        return tensor if found is None else found.clone()

    with no_modes():  # which tell another device
        return mapped(value, known)


class Aten(TorchDispatchMode):
    """Tells a session of the aten calls below them."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is ever compiled. The wrapper that torch would put around us imports `torch._dynamo` (1.2 s) at the first call."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.session.dispatched(func, args, kwargs or {})


def _written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors that an aten call writes to, from its schema."""
    schema = func._schema
    if not schema.is_mutable:
        return []
    found: list[Tensor] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            found.extend(tensors(value))
    return found


def _of_another(func: Any) -> bool:
    """An op of another library, `torch.ops.theirs.layer_norm`: its bare name says nothing of what it computes, and its aten call has the full one."""
    return isinstance(func, torch._ops.OpOverloadPacket) and not func._qualified_op_name.startswith(("aten::", "prims::"))


def _is_written_elsewhere(func: Any) -> bool:
    """A function of other code that hands itself on as torch's do (`torch.overrides.handle_torch_function`): it may have the name of any of them."""
    return isinstance(func, FunctionType) and (func.__module__ or "").partition(".")[0] not in ("torch", "screen")


def _wrapped(tensor: Tensor) -> bool:
    """Tensors of vmap and of subclasses: their insides are seen at the aten level only."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor) or (
        type(tensor).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl and hasattr(type(tensor), "__tensor_flatten__")
    )


__all__ = ["DRAWN", "Aten", "Functions", "Session", "as_known"]
