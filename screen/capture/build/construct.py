"""From a class, an instance or a function to a model on the meta device.

A constructor that reads a value (`torch.linspace(0, 0.1, n)[i].item()`) cannot run on meta: it runs again with small tensors on the CPU, and if that
is not enough with all of them that fit. A device other than CPU and meta that the code asks for is read as meta, and what is on meta moves nowhere.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import enum
import inspect
import os
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.utils import parametrizations
from torch.overrides import TorchFunctionMode

from screen.capture import devices
from screen.capture.build import usual
from screen.capture.build.absent import absent
from screen.capture.build.meta_copy import has_values, on_meta, values_of
from screen.capture.initial.recorder import Recorder
from screen.capture.kernels.older import leave_out
from screen.capture.kernels import stand_in as kernels
from screen.capture.build.configs import (
    Given,
    build_config,
    config_of,
    fields_of,
    fitted,
    given_config,
    globals_of,
    is_asked_of,
    is_config,
    offered_names,
    refused,
)
from screen.capture.build.needs import Needs, needs, refuses
from screen.capture.build.nones import left_none
from screen.capture.build.own_tables import as_table
from screen.capture.build.examples import example, named_settings, realised
from screen.capture.build.launcher import launched
from screen.capture.build.offline import do_without, without_file
from screen.capture.build.libraries import lacks_torchvision
from screen.capture.build.reads import only_kept
from screen.capture.build.unread import compiled, switches
from screen.capture.build.overrides import nest, plain, unknown
from screen.capture.initial.buffers import Record, buffers
from screen.capture.initial.transformers import import_for, is_imported, started
from screen.errors import LoadError, ScreenError, UsageError
from screen.capture.inputs.missing import frames, parts_of, statement
from screen.capture.trace.source_lines import HERE, TORCH
from screen.graph.target import OPTIONAL

SMALL = 4096
"""Entries: tensors up to this size may be made on the CPU when a constructor reads values."""
KEPT = "is not given: its class only keeps it"
"""Of an argument that is there by name."""
STATED = 1 << 20
"""Entries up to which a tensor that is asked for on the CPU by name is made there: a table, but no weight of a large model."""
ROOM = 2 << 30
"""Bytes of tensors that are made on the CPU when a constructor reads values of larger ones: what is made after them is made on meta."""
READS = (
    "meta tensor",
    "meta tensors",
    "Meta tensors",
    "device='meta'",
    "on meta",
    "meta device",
    "device meta",
    "Meta device",
    "expected device meta",
    "is not available for meta",
    "from meta",
    "torch.nonzero()",
    "on a meta",
)
"""What torch says, in its several ways, when a value is read that meta does not have."""

_T = TypeVar("_T")


class Values(enum.Enum):
    """Which tensors of a constructor have values."""

    NONE = enum.auto()
    """Those that it asks for on the CPU by name, while they are no larger than `STATED`."""
    FEW = enum.auto()
    """Small ones."""
    ALL = enum.auto()
    """All, until `ROOM` is full."""


class _Devices(TorchFunctionMode):
    """Factories: CUDA and the like become meta; with `values`, tensors are made on the CPU. What is on meta stays there."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        from torch.utils._device import _device_constructors

        self.values = values
        self.factories = _device_constructors()
        self.room = ROOM

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "__get__" and func.__self__.__name__ == "is_meta" and not devices.asks().startswith(TORCH):
            return False  # "build this table later, when there are values": nobody would
        device = kwargs.get("device")
        if name in ("cpu", "cuda", "to") and args and isinstance(args[0], torch.Tensor):
            if args[0].is_meta or name == "cuda" or (name == "to" and _elsewhere(args[1] if len(args) > 1 else device)):
                func, args, kwargs = devices.kept(func, name, args, kwargs, devices.to_meta)
        elif func in self.factories:
            if device is None and self._has_room(func, args, kwargs):
                kwargs["device"] = "cpu"
            elif device is not None and (torch.device(device).type not in ("cpu", "meta") or _entries(func, args, kwargs) > STATED):
                kwargs["device"] = "meta"
        elif device is not None and torch.device(device).type not in ("cpu", "meta"):
            kwargs["device"] = "meta"
        elif getattr(func, "overloadpacket", None) is torch.ops.aten.empty and _entries(func.overloadpacket, args, kwargs) > STATED:
            kwargs["device"] = "meta"  # `torch.Tensor(4096, 4096)`, which asks no factory
        elif name == "__set__" and func.__self__.__name__ == "data" and args[0].is_meta and not args[1].is_meta:
            args = args[0], devices.to_meta(args[1])  # `weight.data = torch.rand(…, device="cpu")`, which torch does between two of one device
        elif func is torch.allclose and args[0].is_meta and sys._getframe(1).f_code.co_filename == parametrizations.__file__:
            return False  # "is it orthogonal already?": where that cannot be told, torch leaves a parametrisation half made and says nothing
        elif func is torch.geqrf and args[0].is_meta:  # torch has no kernel for its shapes
            rows, columns = args[0].shape[-2:]
            return torch.empty_like(args[0]), args[0].new_empty(*args[0].shape[:-2], min(rows, columns))
        return func(*args, **kwargs)


    def _has_room(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Is this tensor made on the CPU?"""
        if self.values is not Values.ALL:
            return self.values is Values.FEW and _entries(func, args, kwargs) <= SMALL
        self.room -= 4 * _entries(func, args, kwargs)
        return self.room > 0


def _elsewhere(value: Any) -> bool:
    """Is this a device that is neither CPU nor meta?"""
    if isinstance(value, torch.dtype | torch.Tensor | bool):
        return False
    with contextlib.suppress(RuntimeError, TypeError):
        return torch.device(value).type not in ("cpu", "meta")
    return False


def _entries(func: Any, args: Any, kwargs: Any) -> int:
    """How many entries a factory call makes; 0 where that is not in its arguments (`tensor`, `arange`)."""
    if getattr(func, "__name__", "") not in ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "eye", "normal"):
        return 0
    sizes = kwargs.get("size", args)
    total = 1
    for size in sizes if isinstance(sizes, list | tuple) else [sizes]:
        for entry in size if isinstance(size, list | tuple) else [size]:
            total *= entry if isinstance(entry, int) else 1
    return total


@contextlib.contextmanager
def workshop(recorder: Recorder | None = None, *, values: Values = Values.NONE) -> Iterator[None]:
    """Meta is the default device, random numbers are seeded, what is done to parameters is recorded, and memory that nothing fills holds NaN where it
    is on the CPU all the same (`torch.Tensor(8, 8)`)."""
    state, theirs = torch.random.get_rng_state(), random.getstate()
    strict = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    numpy = sys.modules.get("numpy.random")
    numbers = numpy.get_state() if numpy else None
    torch.default_generator.manual_seed(0)
    random.seed(0)
    if numpy:
        numpy.seed(0)
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        with torch.device("meta"), _Devices(values), kernels.on_meta(), recorder or contextlib.nullcontext():
            yield
    finally:
        torch.use_deterministic_algorithms(strict[0], warn_only=strict[1])
        torch.random.set_rng_state(state)
        random.setstate(theirs)
        if numpy:
            numpy.set_state(numbers)


RECORD = "__screen_record__"
"""Where a module keeps what was done to parameters while its file ran."""


@contextlib.contextmanager
def kept_record(path: str | None, values: Values) -> Iterator[Callable[[ModuleType], ModuleType]]:
    """The workshop for the run of a file, `path`, with what keeps the record of it for the models that the file makes itself."""
    recorder = Recorder()
    with workshop(recorder, values=values):
        import_for(path)
        known = is_imported()

        def keep(module: ModuleType) -> ModuleType:
            if is_imported() == known:  # else models of transformers in it may have started unseen
                vars(module)[RECORD] = recorder
            return module

        with started(recorder):
            yield keep


def _record_of(model: nn.Module, module: ModuleType | None) -> Record:
    """Of a model that a file made: its values, and where it has none what was recorded."""
    known, recorder = values_of(model) + buffers(model), vars(module).get(RECORD) if module is not None else None
    names = {name for name, _ in known}
    return known + tuple(row for row in (recorder.of(model) if isinstance(recorder, Recorder) else ()) if row[0] not in names)


def reads_a_value(error: BaseException) -> bool:
    """Did it fail because a tensor on meta has no values?"""
    return isinstance(error, RuntimeError | NotImplementedError | TypeError | ValueError) and any(r in str(error) for r in READS)


def attempted(run: Callable[[Values], _T]) -> _T:
    """What `run` gives, on meta; again with values where it reads some, and again whenever what it lacks can be stood in for."""
    values = Values.NONE
    while True:
        try:
            return run(values)
        except Exception as error:
            if reads_a_value(error) and values is not Values.ALL:
                values = Values.FEW if values is Values.NONE else Values.ALL
            elif not any(mend(error) for mend in (lacks_torchvision, kernels.stand_in, leave_out, launched, do_without, without_file)):
                raise


@dataclass
class Told:
    """What a model was given that nobody stated."""

    notes: list[str] = field(default_factory=list)
    """Where it is from, in sentences."""
    settings: dict[str, Any] = field(default_factory=dict)
    """By dotted names, as of `--set`: what its constructor refused, as the author gives it."""
    chosen: dict[str, Any] = field(default_factory=dict)
    """Sizes with which it builds, to be proposed (`usual`)."""
    part: str = ""
    """The module inside of it that was named, where that does not build alone."""


def construct(
    name: str, entry: Any, settings: dict[str, Any], module: ModuleType | None, told: Told | None = None
) -> tuple[nn.Module, Record, dict[str, list[Any]]]:
    """The model that a candidate stands for, on meta and in eval, with its initialisers and what `settings` changed; `told` is filled with what
    else it was given.

    Raises `UsageError` for settings that do not fit, `LoadError` when no model comes out; exceptions of the user's code pass through."""
    if isinstance(entry, nn.Module):
        if settings:
            raise UsageError(f"`--set` needs a class or a function, because it changes how `{name}` is built", f"`{name}` is an instance")
        return on_meta(entry).eval(), _record_of(entry, module), {}
    if left := sorted(getattr(entry, "__abstractmethods__", ())):
        found = f"it leaves {', '.join(f'`{method}`' for method in left)} to the classes that are derived from it"
        raise LoadError(f"`{name}` must be a class that can be built", found, "Name one of those")
    told = Told() if told is None else told
    args, kwargs, changed = arguments(name, entry, nest(settings), module, told.notes)

    def build(values: Values) -> tuple[Any, Recorder]:
        known = is_imported()
        with workshop(recorder := Recorder(), values=values), started(recorder):
            model = entry(*args, **{key: realised(value) for key, value in kwargs.items()})
        return (model, recorder) if is_imported() == known else build(values)  # it imports transformers itself

    try:
        try:
            model, recorder = attempted(build)
        except Exception as error:
            if not re.search(rf"type:? '?{Given.__name__}\b", str(error)):
                raise
            kwargs = {key: as_table(value) if isinstance(value, Given) else value for key, value in kwargs.items()}
            model, recorder = attempted(build)  # of a library that takes dictionaries alone, `OmegaConf.create(config)`
    except Exception as error:
        lacking = refused(error, kwargs)
        if isinstance(error, ScreenError):
            raise
        if (folder := opened_beside(error, module)) is not None:
            told.notes.append(f"it is built in `{os.path.basename(folder)}`, where the `{error.filename}` is that it reads")  # type: ignore[attr-defined]
            with contextlib.chdir(folder):
                return construct(name, entry, settings, module, told)
        if off := switches(error, entry, settings):
            told.notes.append(f"weights are never downloaded: {', '.join(f'`{key}=False`' for key in off)}")
            return construct(name, entry, {**settings, **off}, module, told)
        if (off := compiled(error, kwargs)) and not {*off} & {*settings}:
            told.notes.append(f"kernels of its own are not compiled here: {', '.join(f'`{key}=False`' for key in off)}")
            told.settings |= off
            return construct(name, entry, {**settings, **off}, module, told)
        if (unseen := _unseen(error, entry)) is not None and not {*unseen[1]} & {*settings}:
            stated, place = example(entry, unseen[1], globals_of(entry), loosely=True)
            if unseen[0] is not entry and not {*unseen[1]} <= {*stated}:
                stated, place = example(unseen[0], unseen[1], globals_of(unseen[0]))
            if left := [key for key in unseen[1] if key not in stated]:
                raise needs(name, left, place) from None
            told.notes.append(f"`{name}` has the arguments of {place}")
            return construct(name, entry, {**stated, **settings}, module, told)
        if not lacking:
            for key, value in kwargs.items() if not settings else ():
                said, place = named_settings(entry, type(value)) if dataclasses.is_dataclass(value) else ({}, "")
                if said:
                    why = str(error).splitlines()[0] if str(error) else type(error).__name__
                    told.notes[:] = [f"`{name}` does not build from the defaults of its settings ({why}): it has {place}"]
                    told.settings |= {f"{key}.{field}": plain(one) for field, one in said.items()}
                    return construct(name, entry, {f"{key}.{field}": one for field, one in said.items()}, module, told)
            stated, place = ({}, "") if kwargs or settings else example(entry, [], globals_of(entry), loosely=True)
            if kwargs and not settings:  # arguments of a call that were left out before: modules of the project
                needed = [p.name for p in inspect.signature(entry).parameters.values() if p.default is p.empty and p.name in kwargs]
                stated, place = example(entry, needed, globals_of(entry), whole=True)
            if not stated or {*stated} <= {*kwargs}:
                nothing, where = left_none(error, entry, kwargs)
                if own_kinds := _of_defaults(nothing, entry, module, settings):
                    told.notes += [f"its `{key}` is a `{kind}` of its own defaults: without one it does not build" for key, kind in own_kinds.items()]
                    return construct(name, entry, {**settings, **{key: {} for key in own_kinds}}, module, told)
                if nothing:
                    raise refuses(name, nothing, where) from error
                raise
            own = Told()
            try:
                made = construct(name, entry, stated, module, own)
            except Exception:
                raise error from None
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            told.notes[:] = [f"`{name}` does not build from its own defaults ({why}): it has the arguments of {place}", *own.notes]
            return made[0], made[1], {key: [old, plain(new)] for key, (old, new) in made[2].items()}
        more, place = _stated(lacking, kwargs)
        if place and not {*more} & {*settings}:
            told.notes.append(f"what its constructor refuses otherwise is that of {place}: {', '.join(f'`{k}`' for k in more)}")
            told.settings |= more
            return construct(name, entry, {**settings, **more}, module, told)
        file, line = next((f.f_code.co_filename, n) for f, n in reversed(list(frames(error))) if not f.f_code.co_filename.startswith((TORCH, HERE)))
        raise refuses(name, lacking, f"{os.path.basename(file)}:{line}") from error
    if isinstance(model, tuple | list) and (several := [m for m in model if isinstance(m, nn.Module) and any(True for _ in m.parameters())]):
        told.notes.append(f"`{name}` returns several things: its `{type(several[0]).__name__}` is looked at")
        model = several[0]
    if not isinstance(model, nn.Module):
        raise LoadError(f"`{name}` must return a `torch.nn.Module`", f"it returned a `{type(model).__name__}`")
    record = recorder.of(model)
    stray = any(t.device.type != "meta" and not has_values(t) for t in [*model.parameters(), *model.buffers()])
    return (on_meta(model) if stray else model).eval(), record, changed


def _of_defaults(nothing: Mapping[str, Any], entry: Any, module: ModuleType | None, settings: Mapping[str, Any]) -> dict[str, str]:
    """Of configurations that were left out and must not be, each of a class that is stated and asks for nothing, the names of these classes; none
    where one of them is another thing."""
    found: dict[str, str] = {}
    for key in nothing:
        parameter = inspect.signature(entry).parameters[key]
        kind = config_of(parameter, module, entry) if parameter.default is None and key not in settings else None
        if kind is None:
            return {}
        found[key] = kind.__name__
    return found


_UNSEEN = re.compile(r"(?:(?:.*\.)?(\w+)\.)?\w+\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.*)")
"""Python's own words."""


def _unseen(error: BaseException, entry: Any) -> tuple[Any, list[str]] | None:
    """What a constructor that only passes arguments on, `def __init__(self, *args, **kwargs)`, lacks for the one to which it does: that of a class
    below it, which is given with it, or of a part; None elsewhere."""
    said = _UNSEEN.fullmatch(str(error)) if isinstance(error, TypeError) and isinstance(entry, type) else None
    if said is None or not _passed_on(error):
        return None
    names = re.findall(r"'(\w+)'", said[2])
    own = [c for c in entry.__mro__ if "__init__" in vars(c) and c.__name__ == said[1] and not c.__module__.startswith("torch.")]
    return (own[-1] if own else entry), names


def _passed_on(error: BaseException) -> bool:
    """Whether all calls of the author's on the way to an error hand on what they were given beside their own arguments, `Part(dim, **kwargs)`."""
    own = [f for f in frames(error) if not f[0].f_code.co_filename.startswith((TORCH, HERE))]
    for frame, line in own:
        code = frame.f_code
        place = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
        rest = code.co_varnames[place] if code.co_flags & inspect.CO_VARKEYWORDS else None
        said = statement(code.co_filename, line)
        calls = [n for n in parts_of(said) if isinstance(n, ast.Call)] if said is not None else []
        if rest is None or not any(k.arg is None and ast.unparse(k.value) == rest for call in calls for k in call.keywords):
            return False
    return bool(own)


def opened_beside(error: BaseException, module: ModuleType | None) -> str | None:
    """The folder of a file where what it opens by its name stands, `open("net.yaml")`; None elsewhere, and where it is built there already."""
    folder = os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or ""))
    named = error.filename if isinstance(error, FileNotFoundError) and isinstance(error.filename, str) else ""
    there = bool(named) and not os.path.isabs(named) and os.path.isfile(os.path.join(folder, named))
    return folder if there and os.path.realpath(folder) != os.path.realpath(os.getcwd()) else None


def _stated(lacking: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What a call of the author's gives for settings by their paths, and its place; nothing where it does not give all."""
    owner = next(iter(lacking)).partition(".")[0]
    names = [path.partition(".")[2] for path in lacking]
    cls = type(given[owner])
    found, place = example(cls, names, globals_of(cls)) if dataclasses.is_dataclass(cls) else ({}, "")
    usable = {f"{owner}.{n}": found[n] for n in names if n in found and found[n] != lacking[f"{owner}.{n}"]}
    return (usable, place) if len(usable) == len(lacking) else ({}, "")


def arguments(
    name: str, entry: Any, settings: dict[str, Any], module: ModuleType | None, told: list[str] | None = None
) -> tuple[list[Any], dict[str, Any], dict[str, list[Any]]]:
    """Arguments for a class or a function: settings by name, those that it does not know into its one config argument.

    An argument without default is filled only when it is a configuration (`screen.capture.build.configs`)."""
    try:
        found = list(inspect.signature(entry).parameters.values())
    except (TypeError, ValueError):
        return [], dict(settings), {k: [None, v] for k, v in settings.items()}
    known = {p.name: p for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    beside = {k.removeprefix(OPTIONAL): v for k, v in settings.items() if k.startswith(OPTIONAL)}
    settings = {**{k: v for k, v in beside.items() if k in known}, **{k: v for k, v in settings.items() if not k.startswith(OPTIONAL)}}
    open_ = [p for p in found if p.name not in settings or isinstance(settings[p.name], dict)]
    classes = {p.name: c for p in open_ if (c := config_of(p, module, entry)) is not None}
    loose = {
        p.name: p for p in known.values() if p.name not in classes and isinstance(settings.get(p.name, {}), dict | str) and is_config(p, entry)
    }
    file = beside.pop("", None)
    given: dict[str, Any] = {}
    own: dict[str, list[str]] = {key: list(nested) for key, nested in settings.items() if key in loose and isinstance(nested, dict)}
    inner: dict[str, Any] = {key: dict(settings.get(key, {})) for key in classes} | {key: settings.get(key, {}) for key in loose}
    taken = known.keys() & beside
    for key in inner:
        names = fields_of(classes[key]) if key in classes else offered_names(entry, key)
        names = [*names, *(k for k in beside if k not in names and is_asked_of(key, k, entry))] if key in classes else names
        fitting = fitted(beside, names) if names else beside if key not in beside else {}
        taken |= fitting.keys()
        inner[key] = {**fitting, **inner[key]} if isinstance(inner[key], dict) else inner[key]
    if told is not None and file is not None and not taken:
        told.append(f"nothing that `{file}` says is a setting of `{name}`")
    for key, value in settings.items():
        owner = next((c for c, cls in classes.items() if key in fields_of(cls)), next(iter(loose), None))
        if key in inner:
            continue
        if key in known or (owner is None and any(p.kind is p.VAR_KEYWORD for p in found)):
            given[key] = Given(value, key) if isinstance(value, dict) else value
        elif owner is not None and isinstance(inner[owner], dict):
            inner[owner] = {**inner[owner], key: value}
        else:
            raise unknown(key, name, [*known, *(f for c in classes.values() for f in fields_of(c))])
    changed = {k: [_default(known.get(k)), settings[k]] for k in given}
    open_needs: dict[str, Needs] = {}
    for key, value in inner.items():
        if known[key].default is inspect.Parameter.empty or value or key in loose or key in settings:
            try:
                made = build_config(classes[key], value, key, entry, told) if key in classes else given_config(known[key], entry, value, told)
            except Needs as error:
                open_needs[key] = error
                continue
            given[key], more = made
            said = {*own.get(key, ()), *settings}
            if key in loose and file is not None and isinstance(value, dict) and {*value} - said:  # it says much else
                more = {key: [None, file], **{k: v for k, v in more.items() if k.partition(".")[2] in said}}
            changed.update(more)
    given |= {p.name: made for p in known.values() if p.name not in given and (made := _here(p)) is not None}
    if "pretrained" in known and "pretrained" not in given and known["pretrained"].default is True:  # no weights are downloaded
        given["pretrained"], changed["pretrained"] = False, [True, False]
    missing = [p.name for p in known.values() if p.default is p.empty and p.name not in {*given, *open_needs}]
    stated, place = example(entry, missing, globals_of(entry)) if missing else ({}, "")
    lacking = [key for key in missing if key not in stated]
    for key in [key for key in lacking if len(lacking) < len(known) and _is_kept(entry, known[key])]:
        given[key] = absent(key, [], KEPT)
        lacking.remove(key)
        missing.remove(key)
        if told is not None:
            told.append(f"`{name}` only keeps its `{key}`: it is there by name only")
    if open_needs and not lacking and len(open_needs) == 1:
        raise next(iter(open_needs.values()))
    if lacking or open_needs:
        raise needs(name, [*(path for error in open_needs.values() for path in error.lacking), *lacking], place if lacking else "")
    if missing:
        if told is not None:
            told.append(f"`{name}` has the arguments of {place}")
        given = {**{key: Given(value, key) if isinstance(value, dict) else value for key, value in stated.items() if key not in inner}, **given}
        changed = {**{key: [_default(known[key]), plain(value)] for key, value in stated.items()}, **changed}
    return [], given, changed


def _is_kept(entry: Any, parameter: inspect.Parameter) -> bool:
    """Is an argument no number and no module, and only kept, `self.tokenizer = tokenizer`?"""
    note = parameter.annotation
    number = note is not parameter.empty and note in usual.NUMBERS
    module = isinstance(note, type) and issubclass(note, nn.Module)
    return not number and not module and only_kept(entry, parameter.name) and not usual.chosen(entry, (parameter.name,))


def _here(parameter: inspect.Parameter) -> Any:
    """Where and in which precision a model is made, for an argument without default that asks for nothing else: what is made here is on meta."""
    if parameter.default is not parameter.empty or isinstance(parameter.annotation, nn.Module):
        return parameter.annotation if parameter.default is parameter.empty else None  # `act: nn.ReLU()`, which says what is meant
    note = str(getattr(parameter.annotation, "__name__", parameter.annotation)).removeprefix("torch.")
    return {"device": torch.device("cpu"), "dtype": torch.float32}.get(note)


def _default(parameter: inspect.Parameter | None) -> Any:
    return None if parameter is None or parameter.default is parameter.empty else parameter.default


__all__ = ["READS", "SMALL", "Told", "Values", "arguments", "attempted", "construct", "reads_a_value", "kept_record", "workshop"]
