"""From a target to models on the meta device with inputs for their forward.

Everything is built under `torch.device("meta")`: a model of 405 billion weights takes a fifth of a second and no memory.
"""

from __future__ import annotations

import contextlib
import itertools
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn

from screen.capture.build import forwards, guarded, launcher, libraries, offline, piecewise, python_file, rows, scripts, settings_files, usual
from screen.capture.inputs import explicit
from screen.capture.build.block import largest_stack, looks
from screen.capture.build.built import Built, TargetInfo, info_of
from screen.capture.build.caches import set_up, waits
from screen.capture.build.construct import Told, Values, attempted, construct, kept_record, workshop
from screen.capture.build.entries import Made, made_of, model_of, of_one, takes
from screen.capture.build.configs import Missing, is_asked_of, settings_of
from screen.capture.build.needs import Needs, needs
from screen.capture.build.unbuilt import later, why_not
from screen.capture.build.examples import settings_made
from screen.capture.build.failing import asked_dtype, left_open, said_by_author
from screen.capture.build.holder import arriving
from screen.capture.build.meta_copy import on_meta, values_of
from screen.capture.build.piecewise import Reading
from screen.capture.inputs.records import is_record
from screen.capture.inputs.search import infer, required
from screen.capture.inputs.trial import outcome
from screen.capture.build.inner import has_forward, inner
from screen.capture.build.integers import of_config, of_entry
from screen.capture.inputs.context import Lookup, config_parts, forward_signature
from screen.capture.kernels import older, stand_in
from screen.capture.trace.loop import DEEPEST, as_loop, recorded
from screen.capture.initial.buffers import Record, buffers
from screen.capture.build.width import resized, sizes_of
from screen.errors import LoadError, ScreenError, UsageError, whole_model
from screen.graph.target import OPTIONAL, TargetSpec

TRIED = "ran on none of the inputs that were tried"
"""Of the note on a forward that fails."""
_FILES = 2
"""Files of settings with which such a model is built once more."""
_CALLS = 8
"""Models, functions of a file and places in tables that are tried."""
_Known = Mapping[str, explicit.Inputs]
"""Inputs by the name of the model that runs on them."""


def build(
    spec: TargetSpec, *, set: dict[str, Any], inputs: tuple[str, ...], depth: int | None, width: int | None = None, known: _Known | None = None
) -> list[Built]:
    """All models of a target, in eval mode, on meta. A file without `::Name` can give several.

    `set`: settings as parsed from `--set`; `inputs`: texts of `--input`; `depth`: `--depth`, for block targets only;
    `width`: `--width`, for configs only; `known`: inputs that are taken as they are and not looked for.
    Raises `UsageError`, `LoadError` and `TraceError`; exceptions of the user's code pass through."""

    def again(more: Mapping[str, Any], ran: _Known) -> list[Built]:
        return build(spec, set={**set, **more}, inputs=inputs, depth=depth, known=ran)

    with torch.no_grad():
        if width is not None:
            set = _narrowed(spec, set, inputs, depth, width)
        return [replace(found, again=again) for found in _built(spec, set, inputs, depth, known or {})]


def _narrowed(spec: TargetSpec, settings: dict[str, Any], inputs: tuple[str, ...], depth: int | None, width: int) -> dict[str, Any]:
    """The settings with those of a width over them. Raises `UsageError`."""
    if spec.kind not in ("hf", "config"):
        raise UsageError("`--width` changes a config", f"`{spec.text}` is none", "Set the sizes with `--set` where its class takes them")

    def make(more: Mapping[str, Any]) -> Built:
        return _hf(spec, {**settings, **more}, inputs, depth, {})

    return {**settings, **resized(spec.text, sizes_of(spec, settings), width, make)}


def _built(spec: TargetSpec, settings: dict[str, Any], inputs: tuple[str, ...], depth: int | None, known: _Known) -> list[Built]:
    if OPTIONAL in settings and spec.kind not in ("file", "module"):
        advice = "Name a `config.json` as the target, or take `--set`"
        raise UsageError("`--config` says what a class of your own takes", f"`{spec.text}` is none", advice)
    if spec.kind in ("hf", "config"):
        return [_hf(spec, settings, inputs, depth, known)]
    if spec.kind == "timm":
        return [_timm(spec, settings, inputs, depth, known)]
    return _python(spec, settings, inputs, depth, known)


def build_object(
    model: nn.Module,
    *,
    example_inputs: Any = None,
    inputs: tuple[str, ...] = (),
    depth: int | None = None,
    name: str = "",
    found: dict[str, explicit.Inputs] | None = None,
) -> list[Built]:
    """A live model, on a copy: the user's is never altered. `example_inputs`: a tensor, a tuple, or a dictionary of named arguments.
    `found`: keeps inputs that had to be looked for, for the next time that the same model is built."""
    record = values_of(model) + buffers(model)
    twin = on_meta(model).eval()
    stated = explicit.normal(example_inputs) if example_inputs is not None else None
    with torch.no_grad():
        built = _ready(name or type(model).__qualname__, twin, "object", stated, inputs, depth, record, {}, found or {})
    if found is not None and not built.info.notes and all(isinstance(v, torch.Tensor) for v in (*built.args, *built.kwargs.values())):
        found[built.name] = built.args, built.kwargs  # tensors alone: a cache that the forward fills is another one by now
    return [replace(built, original=model)]


def _hf(spec: TargetSpec, settings: dict[str, Any], inputs: tuple[str, ...], depth: int | None, known: _Known) -> Built:
    from screen.capture.build import transformers as hf

    model, config, changed, record, notes = hf.build(spec, settings)
    built = _ready(spec.text, model.eval(), spec.kind, None, inputs, depth, record, changed, known, config)
    built = replace(built, info=replace(built.info, notes=(*notes, *built.info.notes)))
    return replace(built, integers=of_config(config), sizes=partial(sizes_of, spec, settings))


def _timm(spec: TargetSpec, settings: dict[str, Any], inputs: tuple[str, ...], depth: int | None, known: _Known) -> Built:
    timm = libraries.timm()
    name = spec.name or ""
    if not timm.is_model(name):
        from screen.graph.target import did_you_mean

        raise UsageError("`timm:NAME` must name an architecture of the installed timm", f"`{name}` is none", did_you_mean(name, timm.list_models()))
    model, record, changed = construct(name, lambda **more: timm.create_model(name, pretrained=False, **more), settings, None)
    size = getattr(model, "default_cfg", {}).get("input_size")
    stated: explicit.Inputs | None = ((torch.empty(2, *size, device="meta"),), {}) if size else None
    built = _ready(spec.text, model, "timm", stated, inputs, depth, record, changed, known)
    return replace(built, integers=of_entry(type(model), settings, None))


def _python(spec: TargetSpec, settings: dict[str, Any], inputs: tuple[str, ...], depth: int | None, known: _Known) -> list[Built]:
    """Models of a file or of a module."""
    module = _load(spec)
    forwards.supply(module, reading := python_file.reading_of(module))

    def found(values: Values) -> dict[str, Any]:
        with workshop(values=values):  # a package may import what is asked for only now
            return dict(python_file.find(module, spec))

    entries = attempted(found)
    if spec.argument is not None:
        entries = {name: partial(entry, spec.argument) for name, entry in entries.items()}
    with workshop(values=Values.FEW):
        guarded.supply(module, reading)
    told: dict[str, Told] = {}

    def making(choose: bool = False) -> tuple[list[Made], list[str], dict[str, dict[str, Any]]]:
        whole = {name: vars(module)[name] for name in python_file.wholes(module)} if choose and spec.name is None else {}
        given = {name: of_one(name, {**entries, **whole}, settings) for name in [*entries, *whole]}
        entries.update(whole)
        return *made_of(entries, given, module, reading, told, choose=choose, named=spec.name is not None), given

    try:
        made, refused, given = making()
    except (Needs, Missing):
        others = {} if spec.name is not None else python_file.others(module, entries)
        entries |= others  # a `build_model` that needs what nobody gave hides nothing
        given = {name: of_one(name, entries, settings) for name in entries}
        try:
            if not others:
                raise
            made, refused, given = making()
        except (Needs, Missing) as error:
            asked = error if isinstance(error, Needs) else needs(next(iter(entries)), [error.path])
            filed = OPTIONAL not in settings and spec.path is not None and usual.of_rows(dict.fromkeys(asked.lacking)) is None
            command = _filed(spec, entries, given, module, reading) if filed else ""
            complete = bool(command) and " --set " not in command
            filing = shlex.split(command)[2].rpartition("::")[2] if complete else ""
            alone = settings_files.sole(spec.path or "", filing, asked.lacking, takes(entries.get(filing))) if complete else None
            if alone is not None:
                note = f"its settings are those of `{alone.text}`, the one table of the project that has them"
                return [replace(one, info=replace(one.info, notes=(note, *one.info.notes))) for one in
                        _python(spec, {**settings, **alone.settings}, inputs, depth, known)]  # fmt: skip
            if command:
                asked.try_ = f"A file of the project has them: `{command}`. {asked.try_}"
                raise asked from None
            chosen: list[Made] = []
            sizes: dict[str, dict[str, Any]] = {}
            with contextlib.suppress(Exception), later(asked):
                chosen, _, given = making(choose=True)
                sizes = {name: told[name].chosen for name, _ in chosen}
            weights = {name: usual.extent(model) for name, (model, *_) in chosen}
            free = _free(entries, chosen, given, module, reading, told) if chosen else {}
            if not free or usual.largest(sizes, weights) not in free:
                models = {name: model for name, (model, *_) in chosen}
                unbuilt = [name for name, entry in entries.items() if isinstance(entry, type) and entry not in map(type, models.values())]
                with contextlib.suppress(Exception):
                    name, ran = usual.whole(models, sizes, python_file.held(module), unbuilt, _runs)
                    asked.try_ = usual.proposed(asked.try_, spec, name, sizes[name], ran, _stated(settings))
                raise (asked if chosen else error) from None
            settings = {**settings, **{f"{name}.{key}": value for name in free for key, value in sizes[name].items()}}
            made, refused, given = making()
            for name in {*free} & {*told}:
                told[name].settings |= sizes[name]
                told[name].notes.append(rows.said(sizes[name], free[name]))
    except Exception as error:
        if isinstance(error, ScreenError | ImportError):  # it says what to give, or to install
            raise
        given = {name: of_one(name, entries, settings) for name in entries}
        command = _filed(spec, entries, given, module, reading) if OPTIONAL not in settings and spec.path is not None else ""
        if command:
            found_out = f"it raised `{type(error).__name__}: {error}`".splitlines()[0]
            advice = f"A file of the project says what it is built with: `{command}`"
            raise LoadError(f"`{spec.text}` must build from the defaults of its settings", found_out, advice) from error
        failed, entries = entries, {} if spec.name is not None else python_file.below(module, entries)
        try:
            made, _, given = making()
        except Exception:  # nor does anything inside of it
            raise error from None
        made = [max(made, key=lambda one: usual.extent(one[1][0])[1])]
        if not any(True for _ in made[0][1][0].parameters()):
            raise error
        refused = [f"not judged: {why_not(next(iter(failed)), error)}", f"`{made[0][0]}` is the largest of what it contains"]
    left = {name: entry for name, entry in entries.items() if name not in dict(made)}
    if left and refused and spec.path is not None and OPTIONAL not in settings and (command := _filed(spec, left, given, module, reading)):
        refused = [*refused, f"a file of the project has what one of these needs: `{command}`"]
    bare = [name for name, (model, *_) in made if not any(True for _ in model.parameters())]
    if 0 < len(bare) < len(made):  # a loss, a schedule
        made = [one for one in made if one[0] not in bare]
        refused = [*refused, *(f"not judged: `{name}` has no weights" for name in bare)]
    several = len(made) > 1
    if several:
        made = python_file.drop_contained(made, lambda entry: entry[0])
    built, remade = [], list[str]()
    for name, (whole, record, changed) in made:
        label = f"{spec.text}::{name}" if several and len(made) > 1 else spec.text
        parts = [(whole.get_submodule(held), held)] if (held := told[name].part) else inner(name, whole)
        for model, part in parts:
            own = tuple((key.removeprefix(f"{part}."), law) for key, law in record if key.startswith(f"{part}.")) if part else record
            notes = (f"`{name}` has no `forward`: its `{part}` is looked at",) if part and not held else ()
            stated = explicit.of_file(module, model, (name, type(model).__name__))
            shown = label if len(parts) == 1 else f"{label}{'.' if '::' in label else '::'}{part}"
            ready = _ready(shown, model, spec.kind, stated, inputs, depth, own, changed, known, author=None if part else entries[name])
            for _ in range(_CALLS if not part and ready.lacking else 0):
                more = _asked(name, entries[name], given[name], model, ready, module, reading)
                if more is None:
                    break
                model, own, changed, sizes = more
                given[name] = {**given[name], **sizes}
                told[name].settings |= sizes
                told[name].notes.append(rows.said(sizes, []))
                ready = _ready(shown, model, spec.kind, stated, inputs, depth, own, changed, known, author=entries[name])
            if not part and (other := _instead(name, entries[name], given[name], model, ready, module, reading)) is not None:
                maker, (model, own, changed), lines = other
                told[name].notes.append(f"`{maker}` makes it: its own defaults do not run")
                remade.append(name)
                told[name].notes += lines
                ready = _ready(shown, model, spec.kind, stated, inputs, depth, own, changed, known, author=vars(module)[maker])
            fails = any(TRIED in note for note in ready.info.notes)
            if not part and fails and (author := _as_author(name, entries[name], given[name], module, reading)) is not None:
                (model, own, changed), place, stated_there = author
                given[name] = {**given[name], **stated_there}
                told[name].settings |= stated_there
                told[name].notes.append(f"its settings are those of {place}: with its own defaults no forward runs")
                ready, fails = _ready(shown, model, spec.kind, stated, inputs, depth, own, changed, known, author=entries[name]), False
            if not part and spec.path is not None and OPTIONAL not in settings and fails:
                ready = _by_file(spec, name, entries[name], given[name], module, reading, ready)
            given_back = (*stand_in.notes(), *older.notes(), *launcher.notes(), *offline.notes())
            info = replace(ready.info, notes=(*given_back, *reading.lines, *told[name].notes, *refused, *notes, *ready.info.notes))
            whole_numbers = {} if held else of_entry(entries[name], given[name], module)
            around = info_of(whole, spec.kind).parameters if held else 0
            built.append(replace(ready, info=info, integers=whole_numbers, entry=name, part=part, around=around, supplied=told[name].settings))
    return _without_derived(built, entries, remade)


def _without_derived(built: list[Built], entries: Mapping[str, Any], remade: list[str]) -> list[Built]:
    """The models without those whose forward fails and whose class is derived from one whose own defaults do not run either (`remade`); the notes of
    the others name them."""
    bases = tuple(entries[name] for name in remade)
    kinds = {one.entry: entries[one.entry] for one in built if any(TRIED in note for note in one.info.notes) and one.entry not in remade}
    left = [name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, bases)]
    more = tuple(f"not judged: `{name}` does not run with its own defaults" for name in left)
    return [replace(one, info=replace(one.info, notes=(*one.info.notes, *more))) for one in built if one.entry not in left]


def _filed(
    spec: TargetSpec, entries: Mapping[str, Any], given: Mapping[str, dict[str, Any]], module: ModuleType, reading: Reading
) -> str:
    """A command that builds a model of a file with what a file of settings of its project says, with usual sizes for what is lacking then; empty for
    none."""
    commands: list[tuple[int, str]] = []
    for name, entry in entries.items():
        try:
            model_of(name, entry, given[name], module, reading, Told())
            continue
        except (Needs, Missing) as asked:
            lacking = asked.lacking if isinstance(asked, Needs) else (asked.path,)
        except Exception:  # its settings have defaults, with which it does not build
            lacking = settings_of(entry, module)
        for found in settings_files.having(spec.path or "", getattr(entry, "__name__", name), lacking, takes(entry)):
            sizes: dict[str, Any] = {}
            with contextlib.suppress(Exception):
                model = _filled_up(name, entry, {**given[name], **found.settings}, module, reading, sizes)
                target = spec.text if spec.name is not None else f"{spec.text}::{name}"
                more = [f"--set {shlex.quote(f'{key}={usual.word(size)}')}" for key, size in sizes.items()]
                file = ["--config", shlex.quote(found.text)] if found.own else _stated(found.settings)
                words = ["screen check", shlex.quote(target), *file, *_stated(given[name]), *more]
                commands.append((usual.extent(model)[1], " ".join(words)))
                break
    return max(commands, default=(0, ""))[1]


def _by_file(spec: TargetSpec, name: str, entry: Any, given: dict[str, Any], module: ModuleType, reading: Reading, ready: Built) -> Built:
    """A model whose forward runs on none of the inputs tried; its note names the command with a file of settings with which it does."""
    asked = [key for key in settings_of(entry, module) if is_asked_of(key.partition(".")[0], key.partition(".")[2], entry)]
    for found in settings_files.having(spec.path or "", getattr(entry, "__name__", name), asked)[:_FILES] if asked else ():
        tried: list[str] = []
        with contextlib.suppress(Exception):
            _inputs(model_of(name, entry, {**given, **found.settings}, module, reading, Told())[0], None, (), None, [], tried)
            if not tried:
                target = spec.text if spec.name is not None else f"{spec.text}::{name}"
                words = ["screen check", shlex.quote(target), "--config", shlex.quote(found.text), *_stated(given)]
                more = f"; with a file of the project it runs: `{' '.join(words)}`"
                return replace(ready, info=replace(ready.info, notes=tuple(n + more if TRIED in n else n for n in ready.info.notes)))
    return ready


def _as_author(
    name: str, entry: Any, given: dict[str, Any], module: ModuleType, reading: Reading
) -> tuple[tuple[nn.Module, Record, dict[str, list[Any]]], str, dict[str, Any]] | None:
    """The model with the settings that its author makes for it, or says in a script, where a forward runs then, their place, and what they are; None
    elsewhere."""
    names = {path.partition(".")[2]: path for path in settings_of(entry, module)}
    own = ((place, {names[key]: table[key] for key in names if key in table}) for place, table in settings_made(entry))
    for place, table in itertools.islice(own if names else scripts.said(entry), _FILES):
        found = {path: value for path, value in table.items() if path not in given}
        tried: list[str] = []
        with contextlib.suppress(Exception):
            made = model_of(name, entry, {**given, **found}, module, reading, Told())
            _inputs(made[0], None, (), None, [], tried)
            if not tried:
                return made, place, {path: found[path] for path in found if path in made[2]}
    return None


def _stated(settings: Mapping[str, Any]) -> list[str]:
    """What the command line said, as words of it."""
    file = [f"--config {shlex.quote(settings[OPTIONAL])}"] if OPTIONAL in settings else []
    return [*file, *(f"--set {shlex.quote(f'{key}={usual.word(value)}')}" for key, value in settings.items() if not key.startswith(OPTIONAL))]


def _filled_up(name: str, entry: Any, settings: dict[str, Any], module: ModuleType, reading: Reading, sizes: dict[str, Any]) -> nn.Module:
    """A model; `sizes` is filled with what the settings lack, of usual sizes. Raises what its constructor does."""
    while True:
        try:
            return model_of(name, entry, {**settings, **sizes}, module, reading, Told())[0]
        except (Needs, Missing) as error:
            more = usual.chosen(entry, error.lacking if isinstance(error, Needs) else (error.path,))
            if not more or {*more} & {*sizes}:
                raise
            sizes |= more


def _runs(model: nn.Module) -> bool:
    """Does a forward run on inputs that are guessed? Of one that has none its parts are run one by one."""
    tried: list[str] = []
    with contextlib.suppress(Exception):
        if not has_forward(model):
            return bool(inner("", model))
        args, kwargs = _inputs(model, None, (), None, [], tried)
        return not tried and outcome(on_meta(model), args, kwargs).error is None
    return False


def _instead(
    name: str, entry: Any, given: dict[str, Any], model: nn.Module, ready: Built, module: ModuleType, reading: Reading
) -> tuple[str, tuple[nn.Module, Record, dict[str, list[Any]]], list[str]] | None:
    """A function of the file that makes a model of a class whose forward fails with a part that its own defaults choose, `Net(block=Block)`, or does
    not know a word of theirs, and what is said of what it makes: the first one whose forward runs; None elsewhere."""
    if not isinstance(entry, type) or ready.info.block:
        return None
    if not isinstance(outcome(on_meta(model), ready.args, ready.kwargs).error, TypeError | AssertionError):
        return None
    for maker in python_file.makers(module, entry)[:_CALLS]:
        told, tried = Told(), list[str]()
        with contextlib.suppress(Exception):
            made = model_of(maker, vars(module)[maker], given, module, reading, told)
            _inputs(made[0], None, (), None, [], tried)
            if not tried:
                return maker, made, told.notes
    return None


def _asked(
    name: str, entry: Any, given: dict[str, Any], before: nn.Module, ready: Built, module: ModuleType, reading: Reading
) -> tuple[nn.Module, Record, dict[str, list[Any]], dict[str, Any]] | None:
    """The model with places in tables that its forward asks for and that are `None`, `ids == self.pad_idx`; None where it asks for other things."""
    sizes = usual.chosen(entry, ready.lacking)
    indices = usual.of_rows(sizes) if sizes else None
    if indices is None:
        return None
    try:
        made = model_of(name, entry, {**given, **sizes}, module, reading, Told())
    except Exception:  # it is none of its arguments
        return None
    return (*made, sizes) if all(indices.values()) and rows.depending(before, [(made[0], True)]) is not None else None


def _free(
    entries: Mapping[str, Any],
    chosen: list[Made],
    given: Mapping[str, dict[str, Any]],
    module: ModuleType,
    reading: Reading,
    told: Mapping[str, Told],
) -> dict[str, list[str]]:
    """The models for which all sizes chosen are numbers of rows, with the weights that have them."""
    found: dict[str, list[str]] = {}
    for name, (model, *_) in chosen:
        sizes = told[name].chosen
        indices = usual.of_rows(sizes)
        if indices is None:
            continue
        with contextlib.suppress(Exception):
            pairs = rows.others(sizes, indices)
            twins = ((model_of(name, entries[name], {**given[name], **more}, module, reading, Told())[0], index) for more, index in pairs)
            grown = rows.depending(model, twins)
            if grown is not None:
                found[name] = grown
    return found


def _carried(spec: TargetSpec, error: ModuleNotFoundError) -> bool:
    """Can a package of kernels be imported now from a folder of the project, which carries it, rather than be stood in for?"""
    package = (error.name or "").partition(".")[0]
    folder = piecewise.above(piecewise.importing(error) or spec.path, error.name or "") if package in stand_in.PACKAGES and spec.path else None
    sys.path.extend([folder] if folder is not None else [])
    return folder is not None


def _load(spec: TargetSpec) -> ModuleType:
    """Run the user's file on meta, once more with small tensors on the CPU when it reads values."""

    def at_once(values: Values) -> ModuleType:
        with kept_record(spec.path, values) as keep:
            try:
                return keep(python_file.load_at_once(spec))
            except ModuleNotFoundError as error:
                if not _carried(spec, error):
                    raise
                return keep(python_file.load_at_once(spec))

    try:
        return attempted(at_once)
    except (Exception, SystemExit) as error:
        first = error

    def after(values: Values) -> ModuleType:
        with kept_record(spec.path, values) as keep:
            return keep(python_file.load_after(spec, first))

    return attempted(after)


def _ready(
    label: str,
    model: nn.Module,
    kind: str,
    stated: explicit.Inputs | None,
    inputs: tuple[str, ...],
    depth: int | None,
    record: Record,
    changed: dict[str, list[Any]],
    known: _Known,
    config: Any = None,
    author: Any = None,
) -> Built:
    """A built model with inputs, and the plain facts about it. `author`: the class or function that it came from, whose author may call it."""
    tried: list[str] = []
    lacking: tuple[str, ...] = ()
    bare = on_meta(model) if waits(model) else None
    made = [*set_up(model)]
    args, kwargs = known[label] if label in known else _inputs(model, stated, inputs, config, made, tried)
    if tried and stated is None and (fed := _otherwise(model, bare, inputs, config, made, (args, kwargs))) is not None:
        model, (args, kwargs), made = fed
        tried = []
    if depth is not None and depth > DEEPEST:
        raise UsageError(f"`--depth` is at most {DEEPEST:,}", f"it is {depth:,}", "Take a smaller one")
    found = looks(model, args, kwargs, said=depth is not None)
    info = info_of(model, kind, block=found.block, changed=changed, depth=depth)
    if tried and author is not None and (said := said_by_author(model, author)) is not None:
        (args, kwargs), place = said
        made.append(f"its inputs are those of {place}")
    elif tried:
        first = next((p.name for p in forward_signature(model)), "x")
        lacking, place = left_open(model, (args, kwargs))
        asked = "".join(f"; `{name}` is None, which {place} asks for: `--set {name}=…`" for name in lacking)
        made.append(f"`forward` {TRIED}; as `{first}`: {', '.join(tried)}, …{asked}")
    info = replace(info, notes=tuple(made))
    if found.block:
        loop = as_loop(model, found.fed, depth)
        return Built(label, loop, args, kwargs, info, recorded(record, loop))
    if depth is not None:
        raise whole_model(label, _depth(model, found.depth))
    return Built(label, model, args, kwargs, info, record, lacking=lacking)


def _otherwise(
    model: nn.Module, bare: nn.Module | None, inputs: tuple[str, ...], config: Any, made: list[str], failed: explicit.Inputs
) -> tuple[nn.Module, explicit.Inputs, list[str]] | None:
    """A model whose forward runs on none of the inputs tried, `failed` the furthest, with weights of the dtype that the failure speaks of, or with
    caches for one sequence (`bare`, without any) in the place of those for two; None where it does not run so either."""
    own = Lookup(model).dtype
    for twin in (model, bare):
        if twin is None:
            continue
        if twin is bare:
            made, tried = [*set_up(twin, 1)], list[str]()
            failed = _inputs(twin.eval(), None, inputs, config, made, tried)
            if not tried:
                return twin, failed, made
        if (dtype := asked_dtype(twin, failed, own)) is not None:
            notes, tried = [*made], list[str]()
            given = _inputs(twin.to(dtype), None, inputs, config, notes, tried)
            if not tried:
                return twin, given, [*notes, f"its weights are taken in {str(dtype)[6:]}, without which its forward does not run"]
            twin.to(own)
    return None


def _inputs(
    model: nn.Module, stated: explicit.Inputs | None, texts: tuple[str, ...], config: Any, notes: list[str], tried: list[str]
) -> explicit.Inputs:
    """`--input` over `example_inputs` over what the config says over what the weights say over what arrives in a model that holds it.

    `notes` is told where they come from when that is neither said nor found at once, `tried` what was tried when nothing runs."""
    look = Lookup(model, config if config is not None else getattr(model, "config", None))

    def held() -> explicit.Inputs | None:
        found = arriving(model, look.config, _guessed)
        notes.extend(() if found is None else [f"the inputs are those {found[1]}"])
        return None if found is None else found[0]

    args, kwargs = explicit.stated(texts, model, look)
    if stated is not None:
        explicit.check_names("`example_inputs`", stated[1], model)
        return _over(model, stated, (args, kwargs))
    if _is_pretrained(model):
        from screen.capture.inputs.transformers import arguments

        named = {**dict(zip(look.parameters, args, strict=False)), **kwargs}
        given = arguments(look, named, held)
        if type(model).__module__.startswith("transformers.") or outcome(on_meta(model), *given).error is None:
            return given  # else its forward is one of the user's own
    if (args or kwargs) and not required(model, (args, kwargs)) and not any(type(v) is dict and is_record(model, n) for n, v in kwargs.items()):
        return args, kwargs
    return infer(model, look, (args, kwargs), tried, held)


def _guessed(model: nn.Module, config: Any) -> explicit.Inputs:
    """Inputs of a whole model that holds a part."""
    look = Lookup(model, config)
    if _is_pretrained(model):
        from screen.capture.inputs.transformers import arguments

        return arguments(look)
    return infer(model, look, ((), {}))


def _over(model: nn.Module, below: explicit.Inputs, above: explicit.Inputs) -> explicit.Inputs:
    """Inputs where `above` replaces what it names, by position or by name."""
    names = [p.name for p in forward_signature(model)]
    taken = {*above[1], *names[: len(above[0])]}
    args = above[0] or tuple(v for n, v in zip([*names, *[""] * len(below[0])], below[0], strict=False) if n not in taken)
    moved = {n: v for n, v in zip(names, below[0], strict=False) if n not in taken} if above[1] and below[0] else {}
    kwargs = {**{n: v for n, v in below[1].items() if n not in taken}, **above[1]}
    return (args, kwargs) if not moved else (above[0], {**moved, **kwargs})


def _is_pretrained(model: nn.Module) -> bool:
    """Is it a model of transformers, without importing it to find out?"""
    return any(c.__name__ == "PreTrainedModel" and c.__module__.startswith("transformers.") for c in type(model).__mro__)


def _depth(model: nn.Module, chain: int) -> int:
    """The depth to name in an error: what the config says, else the blocks of its chain, else the largest stack of equal modules."""
    for _, part in config_parts(getattr(model, "config", None)):
        found = part.get("num_hidden_layers") if isinstance(part, dict) else getattr(part, "num_hidden_layers", None)
        if isinstance(found, int):
            return found
    return chain or largest_stack(model)


__all__ = ["Built", "TargetInfo", "build", "build_object"]
