"""What a constructor does to its parameters, recorded while the model is built.

`normal_(0, 0.02)`, `zero_()`, `mul_(0.5)` on a parameter are kept in order; so are the factory it came from (`ones`, `zeros`, `randn`, `full`) and
out-of-place scaling by a number on the way (`nn.Parameter(1e-6 * torch.ones(d))` is `fill_(1)`, `mul_(1e-6)`). A history belongs to a
storage: `.data`, `.detach()` and `nn.Parameter(t)` share it. On meta nothing is computed, so this is a law, not a value.

Four functions of `nn.init` (`trunc_normal_`, `orthogonal_`, `dirac_`, `sparse_`) do nothing on meta, after they have looked at `is_meta`: that
look is what is recorded, with the arguments of the function that looked.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from screen.capture.initial.buffers import FACTORIES, SHORT, Values, as_row
from screen.graph import Initialiser

SILENT = {
    "_no_grad_trunc_normal_": ("trunc_normal_", ("mean", "std", "a", "b")),
    "orthogonal_": ("orthogonal_", ("gain",)),
    "dirac_": ("dirac_", ()),
    "sparse_": ("sparse_", ("sparsity", "std")),
}
"""Functions of `nn.init` that stop on meta -> (name, arguments that make the law)."""

_LAWS: dict[str, tuple[object, ...]] = {"normal_": (0.0, 1.0), "uniform_": (0.0, 1.0), "zero_": (), "fill_": (), "exponential_": (1.0,),
                                        "cauchy_": (0.0, 1.0), "log_normal_": (1.0, 2.0), "bernoulli_": (0.5,)}  # fmt: skip
"""In-place calls after which nothing of the old values is left, with their default arguments."""
_STEPS = {"mul_": "mul_", "div_": "div_", "add_": "add_", "sub_": "sub_", "clamp_": "clamp_", "erfinv_": "erfinv_",
          "__imul__": "mul_", "__itruediv__": "div_",
          "__iadd__": "add_", "__isub__": "sub_", "__setitem__": "setitem_"}  # fmt: skip
"""In-place calls that build on the values that are there -> name in the record."""
FEW = 64
"""Entries of an integer tensor that keeps its values."""
_WHOLE = ("kaiming_uniform_", "constant_", "uniform_", "normal_")
"""Functions of `nn.init` that torch hands over whole."""
_KEEPS = ("requires_grad_", "detach_", "share_memory_")
"""Names that end like a call in place and write to nothing."""
_COPIES = ("clone", "to", "contiguous", "cpu", "cuda", "type", "type_as", "float", "double", "half", "bfloat16")
"""Calls whose result has the values of the tensor, perhaps rounded to another type: `model.half()` makes every parameter by one."""
_FIXED = ("zero_", "fill_", "constant_")
"""Calls that draw nothing."""
_DRAWS = frozenset({*_LAWS, *(name for name, _ in SILENT.values()), "kaiming_uniform_"}) - {"zero_", "fill_", "dirac_"}
"""Calls that draw: what is copied behind them holds the same numbers."""
_SCALED = {"mul": "mul_", "__mul__": "mul_", "__rmul__": "mul_", "div": "div_", "__truediv__": "div_", "add": "add_",
           "__add__": "add_", "__radd__": "add_",
           "sub": "sub_", "__sub__": "sub_"}  # fmt: skip
"""Out-of-place calls with a number -> the same step in place."""
_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_foreign: dict[str, bool] = {}


class Recorder(TorchFunctionMode):
    """Active while a model is built; `of(model)` then gives the record.

    Calls without a handler cost one look-up, and numbers are not drawn on meta: recording costs less than it saves."""

    def __init__(self) -> None:
        super().__init__()
        self._histories: dict[int, list[Initialiser]] = {}
        self._alive: list[Any] = []
        self._draws = itertools.count(1)
        self._empty: set[int] = set()
        """Storages that came from `torch.empty` and that nothing has been seen to write to."""
        self._lengths: dict[int, tuple[int, int, int]] = {}
        """Storage of norms -> storage of what they are norms of, how many calls it had had, and the axis that was kept."""
        self._values = Values()
        self._handlers = self._table()
        self._filling = {getattr(owner, n) for owner, names in ((Tensor, _LAWS), (nn.init, _WHOLE)) for n in names}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = self._handlers.get(func)
        if func is torch.tensor and (value := _integers(args, kwargs or {})) is not None:
            return value
        if handler is None:
            if self._empty:
                self._written(func, args, kwargs)
            return func(*args, **kwargs) if kwargs else func(*args)
        kwargs = kwargs or {}
        result = self._drawn(func, args, kwargs)
        if result is None:
            result = self._values.made(func, args, kwargs) if func in FACTORIES and "out" not in kwargs else func(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            handler(result, args, kwargs)
        return result

    def _drawn(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The tensor that a call would fill with numbers, when it is on meta: filling it would only cost time."""
        if func not in self._filling:
            return None
        tensor = args[0] if args else kwargs.get("tensor")
        with torch._C.DisableTorchFunction():
            if not isinstance(tensor, Tensor) or not tensor.is_meta:
                return None
            if self._values.holds(tensor):
                if getattr(func, "__name__", "") in _FIXED:
                    return None
                self._values.forget(tensor)
            return tensor

    def __enter__(self) -> Recorder:
        super().__enter__()
        self._values.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._values.__exit__(*error)
        super().__exit__(*error)

    def of(self, model: nn.Module) -> tuple[tuple[str, tuple[Initialiser, ...]], ...]:
        """Parameter name -> what was done to it, in the order of the parameters, then what is kept of the values of buffers; others are absent."""
        parameters = [(name, p, _key(p)) for name, p in model.named_parameters()]
        names = {key: name for name, _, key in parameters}
        found = (
            (name, self._histories.get(key) or self._length(key, names) or self._unfilled(key, p) or _constant(p)) for name, p, key in parameters
        )
        return tuple((name, tuple(history)) for name, history in found if history) + self._values.of(model)

    def _length(self, parameter: int, names: dict[int, str]) -> tuple[Initialiser, ...]:
        """Of weight norm: the lengths of another parameter, where neither has been changed since."""
        other, calls, dim = self._lengths.get(parameter, (_NONE, 0, 0))
        if other not in names or len(self._histories.get(other, ())) != calls:
            return ()
        return (Initialiser("norm_of", (names[other], dim)),)

    def _unfilled(self, key: int, parameter: Tensor) -> tuple[Initialiser, ...]:
        """Of memory that nothing has written to."""
        return (Initialiser("empty", ()),) if key in self._empty and parameter.numel() else ()

    def _written(self, func: Any, args: Any, kwargs: Any) -> None:
        """A call without a handler that may write: by its name in place, or with `out`."""
        targets = [kwargs["out"]] if kwargs and "out" in kwargs else []
        name = getattr(func, "__name__", "")
        if args and (name == "__setitem__" or (name.endswith("_") and name not in _KEEPS and not name.startswith("__"))):
            targets.append(args[0])
        for target in targets:
            self._empty.discard(_key(target))

    def _made_empty(self, result: Any) -> None:
        if (key := _key(result)) != _NONE:
            self._empty.add(key)
            self._alive.append(result.untyped_storage())

    def so_far(self, parameter: nn.Parameter) -> tuple[Initialiser, ...]:
        """What has been done to a parameter up to now."""
        return tuple(self._histories.get(_key(parameter), ()))

    def take(self, target: nn.Parameter, history: tuple[Initialiser, ...]) -> None:
        """`target` has this history."""
        if history:
            self._begin(target, self._anew(history))

    def forget(self, tensor: Tensor) -> None:
        """Nothing is known of this parameter or buffer any more."""
        self._histories.pop(_key(tensor), None)
        self._empty.discard(_key(tensor))
        self._values.forget(tensor)

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """While functions of `nn.init` are replaced: the replacements have the same laws."""
        before, filling = dict(self._handlers), set(self._filling)
        for name in _WHOLE:
            self._filling.add(getattr(nn.init, name))
            self._handlers[getattr(nn.init, name)] = lambda r, a, k, n=name: self._law(n, a, k)  # type: ignore[misc]
        try:
            yield
        finally:
            self._handlers, self._filling = before, filling

    def _table(self) -> dict[Any, Callable[[Any, Any, Any], None]]:
        """Function of torch -> what to do after it ran."""
        table: dict[Any, Callable[[Any, Any, Any], None]] = {_IS_META: self._asked}
        for function in (torch.empty, torch.empty_like, torch.empty_strided, Tensor.new_empty):
            table[function] = lambda r, a, k: self._made_empty(r)
        for name in (*_LAWS, *_STEPS):
            if hasattr(Tensor, name):
                table[getattr(Tensor, name)] = lambda r, a, k, n=name: self._in_place(n, a, k)  # type: ignore[misc]
        for name in _SCALED:
            for owner in (Tensor, torch):
                if hasattr(owner, name):
                    table[getattr(owner, name)] = lambda r, a, k, n=name: self._scaled(n, r, a)  # type: ignore[misc]
        for name, op, values in (
            ("zeros", "zero_", ()),
            ("ones", "fill_", (1.0,)),
            ("randn", "normal_", (0.0, 1.0)),
            ("rand", "uniform_", (0.0, 1.0)),
        ):
            table[getattr(torch, name)] = lambda r, a, k, o=op, v=values: self._begin(r, self._anew((Initialiser(o, v, *_line()),)))  # type: ignore[misc]
        table[torch.full] = lambda r, a, k: self._begin(r, (Initialiser("fill_", (k.get("fill_value", a[1] if len(a) > 1 else None),), *_line()),))
        table[torch.tensor] = self._listed
        functions: tuple[Any, ...] = (torch.as_tensor, torch.asarray, Tensor.new_tensor)
        for function in functions:
            table[function] = lambda r, a, k, f=function: self._values.literal(f, a, k, r)  # type: ignore[misc]
        for name in _COPIES:
            table[getattr(Tensor, name)] = lambda r, a, k: self._copied(r, a[0])
        table[nn.functional.pad] = lambda r, a, k: None if any(a[1] if len(a) > 1 else k["pad"]) else self._copied(r, a[0])
        table[Tensor.copy_] = lambda r, a, k: self._filled(a[0], a[1] if len(a) > 1 else k.get("src"))
        for name in _WHOLE:
            table[getattr(nn.init, name)] = lambda r, a, k, n=name: self._law(n, a, k)  # type: ignore[misc]
        table[torch.norm_except_dim] = lambda r, a, k: self._normed(r, a[0], k.get("dim", a[2] if len(a) > 2 else 0))
        return table

    # -- what the handlers do ------------------------------------------------------------------------------------------------------------

    def _in_place(self, name: str, args: Any, kwargs: Any) -> None:
        given = (*args[1:], *(v for k, v in kwargs.items() if k != "generator"))
        values = tuple(v if isinstance(v, bool | int | float) else f"<{type(v).__name__}>" for v in given)
        if name in _STEPS:
            self._append(args[0], _STEPS[name], values)
        else:
            self._append(args[0], name, values or _LAWS[name])

    def _law(self, name: str, args: Any, kwargs: Any) -> None:
        """A function of `nn.init` that torch hands over whole, with keywords: what it calls is not seen."""
        tensor = kwargs.get("tensor", args[0] if args else None)
        if name == "kaiming_uniform_":
            fan = nn.init._calculate_correct_fan(tensor, kwargs["mode"])
            limit = nn.init.calculate_gain(kwargs["nonlinearity"], kwargs["a"]) * math.sqrt(3.0 / fan) if fan else 0.0
            self._append(tensor, "uniform_", (-limit, limit))
        elif name == "constant_":
            self._append(tensor, "fill_", (kwargs["val"],))
        else:
            self._append(tensor, name, (kwargs["a"], kwargs["b"]) if name == "uniform_" else (kwargs["mean"], kwargs["std"]))

    def _asked(self, result: Any, args: Any, kwargs: Any) -> None:
        """`is_meta` was read: by a function of `nn.init` that then does nothing?"""
        frame = sys._getframe(2)
        found = SILENT.get(frame.f_code.co_name)
        if found is not None and frame.f_code.co_filename == nn.init.__file__ and result:
            self._append(args[0], found[0], tuple(frame.f_locals.get(name) for name in found[1]))
            self._values.forget(args[0])

    def _scaled(self, name: str, result: Any, args: Any) -> None:
        if len(args) != 2:
            return
        source, number = args if isinstance(args[0], Tensor) else (args[1], args[0])
        if isinstance(number, bool | int | float) and (history := self._histories.get(_key(source))):
            self._begin(result, (*history, Initialiser(_SCALED[name], (number,), *_line())))

    def _listed(self, result: Any, args: Any, kwargs: Any) -> None:
        """`torch.tensor(0.5)` and `torch.tensor([1.0, 1.0])` are laws of one number; a short list of others is a row of numbers."""
        self._values.literal(torch.tensor, args, kwargs, result)
        data = args[0] if args else kwargs.get("data")
        values = {data} if isinstance(data, bool | int | float) else _numbers(data)
        if len(values) == 1:
            self._begin(result, (Initialiser("fill_", (float(values.pop()),), *_line()),))
        elif values and result.is_floating_point():
            self._begin(result, (Initialiser("values_", tuple(map(float, data)), *_line()),))

    def _copied(self, target: Any, source: Any) -> None:
        if target is not source and (history := self._histories.get(_key(source))):
            self._begin(target, history)

    def _normed(self, result: Any, source: Any, dim: int) -> None:
        self._lengths[_key(result)] = _key(source), len(self._histories.get(_key(source), ())), dim
        self._alive.append(result.untyped_storage())

    def _filled(self, target: Any, source: Any) -> None:
        """`weight.copy_(values)`: the law of the source, or none."""
        if _whole(target) and (history := self._histories.get(_key(source))):
            self._begin(target, history if _is_users() else self._anew(history))
        else:
            self._append(target, "copy_", ())

    def _append(self, tensor: Any, op: str, values: tuple[object, ...]) -> None:
        key = _key(tensor)
        if key == _NONE:
            return
        history = self._histories.get(key)
        [step] = self._anew((Initialiser(op, values, *_line(), whole=_whole(tensor)),))
        if history is None:
            self._begin(tensor, (step,), key)
            return
        history.append(step)
        if op == "clamp_" and [s.op for s in history[-5:]] == ["uniform_", "erfinv_", "mul_", "add_", "clamp_"]:
            drawn, _, scale, shift, cut = history[-5:]  # a truncated normal written out
            law = (*shift.args, float(str(scale.args[0])) / math.sqrt(2.0), *cut.args)
            history[-5:] = [Initialiser("trunc_normal_", law, step.file, step.line, draw=drawn.draw)]

    def _anew(self, history: Iterable[Initialiser]) -> tuple[Initialiser, ...]:
        """The same calls with random numbers of their own."""
        return tuple(replace(c, draw=next(self._draws)) if c.op in _DRAWS else c for c in history)

    def _begin(self, tensor: Any, history: Iterable[Initialiser], key: int | None = None) -> None:
        key = _key(tensor) if key is None else key
        if key == _NONE:
            return
        if key not in self._histories:
            self._alive.append(tensor.untyped_storage())  # its key must not be given to another one
        self._histories[key] = list(history)


_IS_META = Tensor.is_meta.__get__  # type: ignore[attr-defined]
_NONE = -1


def _integers(args: Any, kwargs: Any) -> Tensor | None:
    """`torch.tensor` of a few integers or truth values, made on the CPU: its values are part of the program (a stride kept in a buffer)."""
    if "device" in kwargs or not args or not isinstance(args[0], bool | int | list | tuple):
        return None
    with torch._C.DisableTorchFunction():
        made = torch.tensor(*args, **{**kwargs, "device": "cpu"})
    return made if made.numel() <= FEW and not made.dtype.is_floating_point and not made.dtype.is_complex else None


def _key(tensor: Any) -> int:
    """Which storage a tensor has; `_NONE` for what has none."""
    if not isinstance(tensor, Tensor) or nn.parameter.is_lazy(tensor):
        return _NONE
    try:
        with torch._C.DisableTorchFunction():
            return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return _NONE


def _numbers(data: Any) -> set[float]:
    """The different numbers of a short list; empty for anything else."""
    short = isinstance(data, list | tuple) and 0 < len(data) <= SHORT
    return set(data) if short and all(isinstance(v, bool | int | float) for v in data) else set()


def _constant(parameter: Tensor) -> tuple[Initialiser, ...]:
    """The value of a short parameter that was made where the device is not asked (`torch.Tensor([0])`), if all its entries are equal; of one of any
    length that it holds nothing (`screen.capture.build.construct.workshop`)."""
    if parameter.device.type == "cpu" and parameter.is_floating_point() and parameter.numel() and bool(parameter.detach().isnan().all()):
        return (Initialiser("empty", ()),)
    if parameter.device.type != "cpu" or not 0 < parameter.numel() <= SHORT or nn.parameter.is_lazy(parameter):
        return ()
    values = {float(v) for v in parameter.detach().flatten().tolist()}
    return (Initialiser("fill_", (values.pop(),)),) if len(values) == 1 else as_row(parameter)


def _whole(tensor: Tensor) -> bool:
    """Does the tensor cover its storage?"""
    return tensor.untyped_storage().nbytes() <= tensor.numel() * tensor.element_size()


def _is_users() -> bool:
    """Whether somebody else than this package made a call that is handled: a block is set behind itself by copies that stand for others."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (frame.f_code.co_filename == __file__ or frame.f_code.co_filename.startswith(_TORCH)):
        frame = frame.f_back
    return frame is None or not frame.f_code.co_filename.startswith(_OURS)


def _line() -> tuple[str, int]:
    """File and line of the innermost frame outside torch and this package."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        foreign = _foreign.get(file)
        if foreign is None:
            foreign = _foreign[file] = not file.startswith((_TORCH, _OURS, "<"))
        if foreign:
            return file, frame.f_lineno or 0
        frame = frame.f_back
    return "", 0


__all__ = ["Recorder", "SILENT"]
