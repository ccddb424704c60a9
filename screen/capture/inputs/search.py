"""Inputs of the user's own modules, by trying: what the first weighted layer takes says the kind, sizes of weights say the width, and the
first combination whose forward runs on meta is taken.

The name of an argument only orders the attempts (`mask`, `t`, `pos`); it never decides.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture import phase
from screen.capture.build.meta_copy import on_meta
from screen.capture.inputs.containers import dictionaries, keys_of, lists, tables
from screen.capture.inputs.context import BATCH, Lookup, forward_parameters, forward_signature, widths_of
from screen.capture.inputs.documented import documented
from screen.capture.inputs.explicit import Inputs
from screen.capture.inputs.fallbacks import with_streams
from screen.capture.inputs.grids import images, signals, videos
from screen.capture.inputs.lengths import likely, named
from screen.capture.inputs.measured import measured
from screen.capture.inputs.mend import Far, mend
from screen.capture.inputs.missing import taken
from screen.capture.inputs.patterns import patterned
from screen.capture.inputs.records import unfolded
from screen.capture.inputs.states import is_state, states
from screen.capture.inputs.trial import first_tensor, outcome, short_twin
from screen.capture.kernels.stand_in import NotInstalled
from screen.capture.trace import flex
from screen.errors import TraceError

BUDGET = 600
TRACED = 20
"""Trials, and how many a traced one counts for. No clock: the same model must always get the same inputs."""
MOST = 1000
"""Of one model, whatever it asks for."""
NARROW, WIDE = 8, 64
"""Values of the other arguments for each main input: likely ones, and all."""
CLIMB = 1000
EACH = 40
"""Trials of one argument after the other, and values of each."""
LONGEST = 4096
"""Length of a mask: it is square, and has values."""
SHOWN = 12
"""Inputs that did not run, as far as they are told."""
FEW = 6
"""Values of an optional argument that may make a part of the model run."""
LARGE = 3000
"""Modules of a model times values of all optional arguments: a run costs what its modules cost."""
MORE = 4
"""How often optional arguments may turn out to be needed."""
_TABLE = re.compile(r"^(<class ')?(typing\.)?(Dict|dict|Mapping)\b|^(typing\.)?Optional\[(typing\.)?(Dict|dict|Mapping)\b")
"""An annotation of what is handed on by name."""
_GRID = re.compile(r"list\[tuple\[((?:int, )+int)\]\]", re.IGNORECASE)
"""An annotation of sizes of images."""
_INTEGERS = re.compile(r"\b(list|sequence)\[int\]", re.IGNORECASE)
Held = Callable[[], Inputs | None]
"""Asks for the inputs of a part in a model that holds it."""

def nothing() -> Inputs | None:
    """No model is asked."""
    return None


def infer(model: nn.Module, look: Lookup, fixed: Inputs, tried: list[str] | None = None, held: Held = nothing) -> Inputs:
    """Arguments with which the forward of `model` runs on meta; `fixed` ones are kept.

    An optional argument that a forward turns out to need is made too. When it runs with none of the likely ones, it is given those that arrive at it
    in a model that holds it (`held`), and then what its failures say is mended. When it runs with none, those with which it came furthest: tracing
    them tells why no further, and `tried` is filled with the main inputs that were. Raises `TraceError` when there is nothing to try."""
    own = type(model)

    def arrived() -> Inputs | None:
        taken, model.__class__ = type(model), own
        try:
            return held()
        finally:
            model.__class__ = taken

    with unfolded(model, fixed) as (given, folded):
        look = look if given is fixed else Lookup(model, look.config, look.lengths)
        return folded(measured(model, look, _inferred(model, look, given, tried, arrived), given))


def _inferred(model: nn.Module, look: Lookup, fixed: Inputs, tried: list[str] | None, held: Held) -> Inputs:
    twin = on_meta(model)
    phase.enter("trace")
    masks = {n: flex.causal() for n, p in forward_parameters(model).items() if "BlockMask" in str(p.annotation) and n not in fixed[1]}
    open_, fixed = not (fixed[0] or fixed[1]), (fixed[0], {**masks, **fixed[1]})
    search = _Search(twin, fixed)
    wanted = required(model, fixed)

    def meant(found: Inputs, of: list[inspect.Parameter]) -> Inputs:
        """What a holder gives before what was found: what stands beside the first argument means something (tables, places)."""
        arrived = held() if open_ and len(of) > 1 else None
        return fuller(model, twin, look, found) if arrived is None else arrived

    for without in (False, True) if any(forward_parameters(model)[n].default is not inspect.Parameter.empty for n in masks) else (False,):
        if without:  # one that may be left out, and is for another kind of attention
            fixed = fixed[0], {n: v for n, v in fixed[1].items() if n not in masks or forward_parameters(model)[n].default is inspect.Parameter.empty}
            search, wanted = _Search(twin, fixed), required(model, fixed)
        for _ in range(MORE):
            asked = len(search.asked)
            found = search.run(model, look, wanted)
            if found is not None:
                return meant(found, wanted)
            if search.nameless is not None:
                return search.nameless
            more = [taken(model, name) for name in list(search.asked)[asked:]]
            if not more:
                break
            for one in more if len(more) > 1 else ():  # either of them may be meant: `assert exists(ids) ^ exists(embeddings)`
                if (found := search.run(model, look, [*wanted, one])) is not None and search.nameless is None:
                    return meant(found, [*wanted, one])
            wanted = [*wanted, *(p for p in more if p not in wanted)]
    if open_ and (found := held()) is not None:
        return found
    if (found := search.supplied(model, look)) is not None:
        return fuller(model, twin, look, found)
    if search.furthest is not None and (found := _mended(model, twin, look, search)) is not None:
        return fuller(model, twin, look, found)
    mended = search.reached
    if len(wanted) > 1 and (found := search.climb(model, look, wanted)) is not None:
        return fuller(model, twin, look, found)
    if search.reached > mended and (found := _mended(model, twin, look, search, again=True)) is not None:
        return fuller(model, twin, look, found)
    if search.read is not None and search.reached > (failed := outcome(twin, *search.read)).reached and failed.error is not None:
        search.read = None  # what was mended came further than where the guesses of this one end
    found = search.spread or search.read or search.furthest
    if search.spread is None and search.read is None and tried is not None:
        tried += list(search.mains)[:SHOWN]
    if found is not None:
        return found
    names = ", ".join(f"`{p.name}`" for p in wanted) or "nothing"
    raise TraceError(
        f"`forward` of `{type(model).__name__}` must run on inputs that can be told from its weights",
        f"it takes {names}, for which nothing could be made up",
        "Say what it takes: `--input 'x=float32[2,16,512]'`, or `example_inputs` in the file",
    )


def _mended(model: nn.Module, twin: nn.Module, look: Lookup, search: _Search, *, again: bool = False) -> Inputs | None:
    """Inputs mended by what the failures say, on a model whose long stacks are cut to two layers where it has some; `again`: the furthest alone."""
    widths, fixed = widths_of(model), search.fixed
    if search.furthest is None or search.furthest[0]:
        return None

    def more(name: str, values: dict[str, Any]) -> list[Any]:
        main = next(iter(values.values()), None)
        found = list(itertools.islice(seconds(name, model, look, widths, main), EACH // 2))
        if "mask" in name.casefold():
            lengths = dict.fromkeys(v.shape[1] for v in values.values() if isinstance(v, Tensor) and v.dim() > 1)
            ones = [torch.ones(BATCH, n, dtype=torch.bool) for n in lengths if n <= LONGEST]
            found = [*ones, *found]
        floats = isinstance(main, Tensor) and main.dtype.is_floating_point
        return sorted(found, key=lambda v: floats and isinstance(v, Tensor) and v.dtype in (torch.int32, torch.int64) and v.dim() > 1)

    starts = []
    wanted = required(model, fixed)
    if not again and not _led(model, fixed) and wanted:
        for kind in _kinds(model, look, widths, wanted[0].name):
            main = next(kind(), None)
            if main is not None:
                others = {p.name: next(seconds(p.name, model, look, widths, main)) for p in wanted[1:]}
                if isinstance(main, Tensor) and main.dim() > 3:  # what goes with an image or a video is rather a sequence than another one
                    words = look.floats(BATCH, look.targets, look.width)
                    alike = [n for n, v in others.items() if isinstance(v, Tensor) and v.dtype.is_floating_point and v.dim() == main.dim()]
                    starts += [{wanted[0].name: main, **others, **dict.fromkeys(alike, words), **fixed[1]}] if alike else []
                starts.append({wanted[0].name: main, **others, **fixed[1]})
    starts.append(dict(search.furthest[1]))
    short, failed = short_twin(model), list[Far]()
    found, spent = mend(short if short is not None else twin, look, starts, set(fixed[1]), more, failed)
    search.spent += spent
    furthest = max(failed, key=lambda one: one[:2], default=None)
    if found is None and furthest is not None:
        came = outcome(twin, (), furthest[2], tracing=False) if short is not None else None
        if came is not None and (came.error is None or came.reached > furthest[0]):
            found = furthest[2]  # the shortened model ends where the whole one does not: its code counts members
        else:
            search.keep(furthest)
    if found is None:
        return None
    whole = outcome(twin, (), found)
    if whole.error is not None and short is not None:  # the length of a list is among what it asks for
        failed.clear()
        mended, spent = mend(twin, look, [found], set(fixed[1]), more, failed)
        search.spent += spent
        if mended is None:
            search.keep(failed[0])
            return None
        found, whole = mended, outcome(twin, (), mended)
    if whole.error is not None or _spread(tuple(found.values()), whole.output):
        return None
    main = next((n for n, v in found.items() if isinstance(v, Tensor) and n not in fixed[1]), None)
    if main is not None and found[main].dtype == torch.int64 and found[main].dim() > 1:
        floats = {**found, main: look.floats(*found[main].shape)}  # integers that no table reads stand for measured numbers
        if outcome(twin, (), floats).error is None:
            return (), floats
    return (), found


def fuller(model: nn.Module, twin: nn.Module, look: Lookup, given: Inputs) -> Inputs:
    """The inputs, with optional arguments without which a part of the model never runs (a second stream, for cross-attention)."""
    left_out = [name for name, p in list(forward_parameters(model).items())[len(given[0]) :] if p.default is None and name not in given[1]]
    main = given[0][0] if given[0] else next(iter(given[1].values()), None)
    whole, least = twin, given
    if left_out and (short := short_twin(model)) is not None and outcome(short, *given).error is None:
        twin = short  # what a stack takes, its first layers take
    given = with_streams(twin, given, left_out, lambda name: seconds(name, model, look, widths_of(model), main))
    idle = _idle(twin, given) if left_out else None
    left_to_try = max(FEW, LARGE // len(list(twin.modules())))
    for name in (n for n in left_out if n not in given[1]):
        if not idle:
            break
        for value in itertools.islice((v for v in seconds(name, model, look, widths_of(model), main) if v is not None), min(FEW, left_to_try)):
            left_to_try -= 1
            more = given[0], {**given[1], name: value}
            left = _idle(twin, more)
            if left is not None and len(left) < len(idle):
                given, idle = more, left
                break
    return least if twin is not whole and given is not least and outcome(whole, *given).error is not None else given


def _idle(twin: nn.Module, given: Inputs) -> set[str] | None:
    """Modules with weights of their own that do not run; None where the forward fails."""
    plain = [(name, m) for name, m in twin.named_modules() if not isinstance(m, torch.jit.ScriptModule)]  # a scripted one takes no hooks
    waiting = {name for name, m in plain if next(m.parameters(recurse=False), None) is not None}
    ran: set[str] = set()
    hooks = [m.register_forward_pre_hook(lambda *_, name=name: ran.add(name)) for name, m in plain if name in waiting]
    try:
        return None if outcome(twin, *given).error is not None else waiting - ran
    finally:
        for hook in hooks:
            hook.remove()


def _said(value: Any) -> str:
    """An input in words, as `--input` takes it."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{','.join(map(str, value.shape))}]"
    return type(value).__name__


class _Search:
    """The trials of one model."""

    def __init__(self, twin: nn.Module, fixed: Inputs) -> None:
        self.twin, self.fixed = twin, fixed
        self.spread: Inputs | None = None
        """Ran, with an output that looks as if two inputs had met by broadcasting."""
        self.furthest: Inputs | None = None
        self.reached: tuple[int, ...] = ()
        """Lines at which the furthest one failed, outer calls first."""
        self.read: Inputs | None = None
        """Ran up to a value that meta does not have, and not with any guess."""
        self.nameless: Inputs | None = None
        """Ended with a name that is nowhere defined or not installed, which no input mends."""
        self.spent = 0
        self.mains: dict[str, None] = {}
        """What was given as the first argument, in words."""
        self.asked: dict[str, None] = {}
        """Optional arguments that were missing where a forward failed."""

    def run(self, model: nn.Module, look: Lookup, wanted: list[inspect.Parameter]) -> Inputs | None:
        """The first inputs that run; None where none do, or where it showed that more arguments are needed."""
        before = len(self.asked)
        for stage, budget in stages(model, look, wanted, _led(model, self.fixed), _leading(model, self.fixed)):
            spent = 0
            for values in stage:
                found, cost = self._try(wanted, values)
                if found is not None or self.nameless is not None:
                    return found
                spent += cost
                self.spent += cost
                if cost == TRACED and len(self.asked) > before:  # each costs much, and none runs without these
                    return None
                if spent > budget or self.spent > MOST or (self.spread is not None and spent > BUDGET // 10):
                    break
            if len(self.asked) > before:
                return None
        return None

    def keep(self, mended: Far) -> None:
        """Remember a mended choice where it came further than all before."""
        if mended[0] > self.reached:
            self.furthest, self.reached = ((), mended[2]), mended[0]

    def supplied(self, model: nn.Module, look: Lookup) -> Inputs | None:
        """An optional argument that was left out, beside the inputs that came furthest: a cache is read at places (`table[places]`), and `None` names
        none without an error of its own."""
        if self.furthest is None or self.spread is not None:
            return None
        args, kwargs = self.furthest
        main = args[0] if args else next(iter(kwargs.values()), None)
        left = [n for n, p in list(forward_parameters(model).items())[len(args) :] if p.default is None and n not in kwargs]
        for name in left[:FEW]:
            for value in itertools.islice((v for v in seconds(name, model, look, widths_of(model), main) if isinstance(v, Tensor)), FEW):
                self.spent += 1
                given = args, {**kwargs, name: value}
                found = outcome(self.twin, *given)
                if found.error is None:
                    return given
                if found.reached > self.reached:
                    self.furthest, self.reached = given, found.reached
        return None

    def climb(self, model: nn.Module, look: Lookup, wanted: list[inspect.Parameter]) -> Inputs | None:
        """One argument after the other is changed where that brings the forward further: where they are many, their product is out of reach."""
        widths, limit = widths_of(model), self.spent + CLIMB
        choices: dict[str, list[Any]] = {}
        values: dict[str, Any] = {}
        led, improved = _led(model, self.fixed), True
        while improved and self.spent < limit:
            improved = False
            for parameter in wanted:
                name = parameter.name
                main = values.get(wanted[0].name) if not led and name != wanted[0].name else None
                first = not led and parameter is wanted[0]
                choices[name] = list(itertools.islice(mains(model, look, widths, name) if first else seconds(name, model, look, widths, main), EACH))
                if name not in values:
                    given = {**self.furthest[1]} if self.furthest is not None else {}
                    values[name] = given.get(name, choices[name][0])
            for parameter in wanted:
                for value in choices[parameter.name]:
                    before = self.reached
                    found, cost = self._try(wanted, tuple({**values, parameter.name: value}[p.name] for p in wanted))
                    self.spent += cost
                    if found is not None:
                        return found
                    if self.reached > before:
                        values[parameter.name], improved = value, True
                    if self.spent > limit:
                        return None
            more = [taken(model, name) for name in self.asked if name not in values]
            wanted, improved = [*wanted, *more], improved or bool(more)
        return None

    def _try(self, wanted: list[inspect.Parameter], values: tuple[Any, ...]) -> tuple[Inputs | None, int]:
        """The inputs, where they run, and what the trial cost."""
        args, fixed_kwargs = self.fixed
        kwargs = {**fixed_kwargs, **{p.name: v for p, v in zip(wanted, values, strict=True) if p.kind is not p.POSITIONAL_ONLY}}
        given = (*args, *(v for p, v in zip(wanted, values, strict=True) if p.kind is p.POSITIONAL_ONLY)), kwargs
        if values:
            self.mains[_said(values[0])] = None
        found = outcome(self.twin, *given)
        cost = TRACED if found.traced else 1
        if found.error is None:
            if not _spread(values, found.output):
                return given, cost
            self.spread = self.spread or given
            return None, cost
        if found.traced:
            self.read = self.read or given
        if isinstance(found.error, NameError | NotInstalled) and not isinstance(found.error, UnboundLocalError):
            self.nameless = given
        self.asked |= dict.fromkeys(name for name in (*found.missing, *found.inner) if name not in kwargs)
        if self.furthest is None or found.reached > self.reached:
            self.furthest, self.reached = given, found.reached
        return None, cost


def _led(model: nn.Module, fixed: Inputs) -> bool:
    """Is the first argument of forward among the fixed ones?"""
    return bool(fixed[0]) or next(iter(forward_parameters(model)), "") in fixed[1]


def _leading(model: nn.Module, fixed: Inputs) -> Tensor | None:
    """The first argument of forward where it is among the fixed ones, and a tensor."""
    found = fixed[0][0] if fixed[0] else fixed[1].get(next(iter(forward_parameters(model)), ""))
    return found if isinstance(found, Tensor) else None


def _spread(values: tuple[Any, ...], output: Any) -> bool:
    """Did two inputs broadcast against each other where they should not have: a sequence in, and one axis more out?"""
    main, result = (values[0] if values else None), first_tensor(output)
    return len(values) > 1 and isinstance(main, Tensor) and main.dim() == 3 and result is not None and result.dim() > 3


def required(model: nn.Module, fixed: Inputs) -> list[inspect.Parameter]:
    """The arguments of forward that have to be made: those without default, else the first one; `*args` counts as one."""
    args, kwargs = fixed
    found = forward_signature(model)
    open_ = [p for p in list(forward_parameters(model).values())[len(args) :] if p.name not in kwargs]
    wanted = [p for p in open_ if p.default is p.empty]
    if not wanted and not args and not kwargs:
        packed = any(p.kind is p.VAR_POSITIONAL for p in found)
        wanted = [p for p in open_ if not (packed and p.kind is p.KEYWORD_ONLY)][:1]
        if not wanted and packed:
            wanted = [inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)]
    return sorted(wanted, key=lambda p: is_state(model, p))  # what is made of the others comes behind them


# -- what to try -----------------------------------------------------------------------------------------------------------------------


def stages(
    model: nn.Module, look: Lookup, wanted: list[inspect.Parameter], led: bool, main: Tensor | None = None
) -> Iterator[tuple[Iterator[tuple[Any, ...]], int]]:
    """Values for the wanted arguments, likely ones first, in stages with the trials that each may take: the likely kind of main input with the likely
    values of the others, the other kinds, then all of them with more values. `led`: the main input is among the fixed ones, `main` if a tensor."""
    if not wanted:
        yield iter([()]), 1
        return
    widths = widths_of(model)
    if led:
        yield itertools.product(*(seconds(p.name, model, look, widths, main) for p in wanted)), BUDGET
        return
    kinds = _kinds(model, look, widths, wanted[0].name)
    for limit in (NARROW, WIDE) if len(wanted) > 1 else (WIDE,):
        for place, kind in enumerate(kinds):
            yield _combined(kind(), model, look, wanted, widths, limit), BUDGET // (3 if place == 0 else 6)


def _combined(
    mains: Iterator[Any], model: nn.Module, look: Lookup, wanted: list[inspect.Parameter], widths: list[int], limit: int
) -> Iterator[tuple[Any, ...]]:
    """Main inputs with values for the other arguments, at most `limit` for each."""
    for main in mains:
        others = [list(seconds(p.name, model, look, widths, main)) for p in wanted[1:]]
        if len(others) > 1:
            yield (main, *(main for _ in others))  # q, k, v
        for rest in itertools.islice(itertools.product(*others), limit if others else 1):
            yield (main, *rest)


def mains(model: nn.Module, look: Lookup, widths: list[int], name: str) -> Iterator[Any]:
    """The main input, called `name`, likely kinds first."""
    return itertools.chain.from_iterable(kind() for kind in _kinds(model, look, widths, name))


def _kinds(model: nn.Module, look: Lookup, widths: list[int], name: str) -> list[Callable[[], Iterator[Any]]]:
    """Kinds of main input, the likely one first. The name of the argument says which comes second."""
    kinds: dict[str, Callable[[], Iterator[Any]]] = {
        "pattern": lambda: patterned(model, look),
        "tokens": lambda: _tokens(model, look),
        "sequence": lambda: _sequences(look, widths),
        "image": lambda: images(model, look),
        "signal": lambda: signals(model, look),
        "video": lambda: videos(model, look),
    }
    first = ["pattern", leading_kind(model)]
    if any(word in name.casefold() for word in ("img", "image", "pixel")):
        first.append("image")
    if any(word in name.casefold() for word in ("ids", "idx", "token", "input_ids")):
        first.append("tokens")
    annotation = str(getattr(forward_parameters(model).get(name), "annotation", ""))
    keys = keys_of(model, name, annotation)
    chosen = [kinds[k] for k in dict.fromkeys([*first, *kinds])]
    if "list[tensor" in annotation.replace("torch.", "").casefold():
        chosen = [*(functools.partial(lists, kind) for kind in chosen), *chosen]
    return [functools.partial(dictionaries, keys, kind) for kind in chosen] if keys else chosen


def leading_kind(model: nn.Module) -> str:
    """What the first layer with weights takes."""
    for module in model.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            return "tokens"
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            return "image"
        if isinstance(module, nn.Conv1d):
            return "signal"
        if (
            next(module.parameters(recurse=False), None) is not None
            and not isinstance(module, nn.BatchNorm2d)
            and next(module.children(), None) is None
        ):
            return "sequence"
    return "sequence"


def _tokens(model: nn.Module, look: Lookup) -> Iterator[Tensor]:
    embedding = look.first(nn.Embedding, nn.EmbeddingBag)
    rows = embedding.num_embeddings if embedding is not None else 100  # a table of a class of its own
    for length in likely(look):
        yield look.ids(length, vocabulary=rows)
    yield look.ids(look.tokens, batch=1, vocabulary=rows)[0]


def _sequences(look: Lookup, widths: list[int]) -> Iterator[Tensor]:
    for width in widths:
        yield look.floats(BATCH, look.tokens, width)
    for length in likely(look)[1:]:
        for width in widths[:6]:
            yield look.floats(BATCH, length, width)
    for width in widths[:12]:
        yield look.floats(BATCH, width)
        yield look.floats(look.tokens, width)


_OPTIONAL = re.compile(r"\bOptional\[|\|\s*None\b")
"""An annotation that says what may be left out."""


def seconds(name: str, model: nn.Module, look: Lookup, widths: list[int], main: Any) -> Iterator[Any]:
    """Another argument: by its name first, then like the main one, then the usual conditions."""
    word = name.casefold()
    stated = forward_parameters(model).get(name)
    if stated is not None and stated.default is stated.empty and _OPTIONAL.search(str(stated.annotation)):
        yield None
    if stated is not None and _TABLE.search(str(stated.annotation)):
        yield {}
    if getattr(forward_parameters(model).get(name), "annotation", None) in (int, "int"):
        yield 0
    if (parameter := forward_parameters(model).get(name)) is not None and is_state(model, parameter):
        yield from states(model, name, {next(iter(n for n in forward_parameters(model) if n != name), ""): main})
    yield from tables(name, model, look, widths)
    yield from documented(model, name, look, widths)
    length = main.shape[1] if isinstance(main, Tensor) and main.dim() > 1 else look.tokens
    if _INTEGERS.search(str(getattr(forward_parameters(model).get(name), "annotation", ""))) is not None and isinstance(main, Tensor):
        yield [main.shape[0]] if main.dim() < 2 else [length] * main.shape[0]  # of one sequence behind another: their lengths
    if (grid := _GRID.search(str(getattr(forward_parameters(model).get(name), "annotation", "")))) is not None:
        side = math.isqrt(length)
        yield [(*[1] * (grid[1].count("int") - 2), side, length // side)] * BATCH
    if "mask" in word:
        length = min(length, LONGEST)
        yield from (None, torch.ones(length, length, dtype=torch.bool), look.floats(length, length), torch.ones(BATCH, length, dtype=torch.bool))
    if any(w in word for w in ("token", "text", "ids", "idx", "prev")):
        yield from (look.ids(n) for n in (look.targets, *named(look)[:2]))
    if "len" in word:
        yield torch.full((BATCH,), length)
    if word.endswith("ids") and isinstance(main, Tensor) and main.dtype.is_floating_point:  # places of patches and of words: time, row, column
        yield from (look.floats(*batch, n, k) for k in (3, 4, 2) for n in (length, look.targets) for batch in ((), (BATCH,)))
    if "pos" in word or "index" in word or word.endswith("idx"):
        yield from (torch.arange(length).repeat(BATCH, 1), torch.arange(length))
    if word in ("t", "time", "sigma", "label", "labels", "y") or any(w in word for w in ("step", "class", "guidance")):
        yield torch.arange(1, BATCH + 1)
        yield look.floats(BATCH)
    if word in ("c", "z", "emb", "temb") or any(w in word for w in ("cond", "style", "vec", "pool")):
        yield from (look.floats(BATCH, w) for w in widths[:NARROW])
    if word.endswith(("size", "coords")):  # of an image: height and width
        yield look.floats(BATCH, 2)
    if any(w in word for w in ("freq", "rope", "cos", "sin", "rotary")):
        yield from _rotations(model, look, length)
    if isinstance(main, Tensor) and main.dim() > 1:
        yield from _like(main, look)
    width = main.shape[-1] if isinstance(main, Tensor) and main.dim() == 3 else widths[0]
    for w in dict.fromkeys([width, *widths[:6]]):
        yield look.floats(BATCH, look.targets, w)
        yield look.floats(BATCH, w)
    yield from (torch.arange(1, BATCH + 1), look.floats(BATCH), None, 0, torch.ones(BATCH, length, dtype=torch.bool))
    if name not in look.states:
        look.states[name] = list(states(model, name, {}))
    yield from look.states[name]


def _like(main: Tensor, look: Lookup) -> Iterator[Tensor]:
    """The same kind as the main input, with another length first."""
    if not main.dtype.is_floating_point:
        yield look.ids(look.targets)
        yield main
        yield look.floats(BATCH, look.targets, look.width)
    elif main.dim() == 3:
        yield look.floats(main.shape[0], look.targets, main.shape[2])
        yield look.floats(*main.shape)
    else:
        yield look.floats(*main.shape)


def _rotations(model: nn.Module, look: Lookup, length: int) -> Iterator[Any]:
    """Rotary tables: [length, head size] and half of it, real and complex."""
    sizes = [v for m in model.modules() for k, v in vars(m).items() if isinstance(v, int) and "head" in k and "dim" in k]
    heads = [v for m in model.modules() for k, v in vars(m).items() if isinstance(v, int) and "head" in k and "dim" not in k and v > 0]
    sizes += [w // h for w in widths_of(model)[:2] for h in heads[:2]]
    for size in dict.fromkeys(sizes):
        yield torch.empty(length, size // 2, dtype=torch.complex64, device="meta")
        yield from (look.floats(length, size), look.floats(length, size // 2), look.floats(BATCH, length, size))
        yield (look.floats(length, size), look.floats(length, size))


__all__ = ["Held", "infer", "leading_kind", "mains", "nothing", "required", "seconds", "stages"]
