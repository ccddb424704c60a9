"""The tracer: runs forward once on the meta device and records what it does.

A `TorchFunctionMode` sees what was written (`F.scaled_dot_product_attention`, `softmax`, `__add__`), a `TorchDispatchMode` under it sees aten ops.
A call whose canonical name has a row in the vocabulary becomes one node; any other is replaced by its aten children. Global module hooks
give the tree of calls, a frame walk the user's file and line.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from screen import ops
from screen.capture import convert, rescue, stamp
from screen.capture.lines import COMPOSITE, HERE, TORCH, no_modes, user_line
from screen.capture.oracle import Oracle, Site
from screen.capture.reads import ATEN_READS, PLAIN_READS
from screen.capture.record import Origin, Recorder, region_of, set_item, tensors
from screen.capture.scopes import Scopes
from screen.graph import Failure, Graph, Initialiser


MAX_TRIALS = 4
"""Guesses that are turned round one by one to see whether they decide anything."""

MAX_RUNS = 8
"""Restarts with another answer after an exception that follows a guess."""

SILENT = {"size", "dim", "stride", "__len__", "numel", "is_contiguous", "element_size", "storage_offset", "__repr__", "__hash__",
          "data_ptr", "untyped_storage", "storage", "is_floating_point", "is_complex", "get_device", "nelement", "ndimension", "__dir__",
          "_is_view", "is_same_size", "has_names", "register_hook", "retain_grad", "requires_grad_", "__set__", "__delete__"}
"""Reads that say nothing about values."""

KEPT_PROPERTIES = {"T", "mT", "H", "mH", "data", "real", "imag"}


@dataclass
class _Frame:
    """One call at the function level: the aten calls below it, and what they wrote."""

    children: list[tuple[Any, Any, Any, Any]] = field(default_factory=list)


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
    assumptions: set[tuple[str, int]] = field(default_factory=set)
    """Lines that read a value known only if floats are finite and not zero."""

    def origin(self) -> Origin:
        """The module call that runs now, and the user's line."""
        file, line = user_line()
        return Origin(self.scopes.current, file, line)

    # -- function level ---------------------------------------------------------------------------------------------------------------

    def function(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """One torch function call."""
        name = getattr(func, "__name__", "")
        if name == "__get__" and getattr(getattr(func, "__self__", None), "__name__", "") not in KEPT_PROPERTIES:
            return func(*args, **kwargs)
        if name in SILENT:
            return func(*args, **kwargs)
        if name in PLAIN_READS:
            return PLAIN_READS[name](self, func, args, kwargs)
        if name == "__get__":
            name = func.__self__.__name__  # type: ignore[attr-defined]
        frame = _Frame()
        self.frames.append(frame)
        try:
            result = func(*(self._indexed(args) if name == "__getitem__" else args), **kwargs)
        finally:
            self.frames.pop()
            if sys.exc_info()[0] is not None:
                self._flush(frame)
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
        plain = op not in ops.OPAQUE and ops.has_row(op) and not any(map(_wrapped, tensors((args, kwargs, result))))
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
        for func, args, kwargs, result in frame.children:
            self._child(func, args, kwargs, result, origin)

    def _child(self, func: Any, args: Any, kwargs: Any, result: Any, origin: Origin) -> None:
        writes = _written(func, args, kwargs)
        fresh = [t for t in tensors(result) if id(t) not in self.recorder.values]
        if not writes and not fresh:
            return
        node = self.recorder.call(func, args, kwargs, result if fresh else None, origin)
        for target in writes:
            self.recorder.written(target, node, region_of(target), origin)

    # -- aten level -------------------------------------------------------------------------------------------------------------------

    def aten(self, func: Any, args: Any, kwargs: Any) -> Any:
        """One aten call."""
        args, kwargs = self._same_device(args, kwargs)
        name = func.__name__.split(".")[0]
        reader = ATEN_READS.get(name)
        if reader is not None:
            answer = reader(self, func, args, kwargs)
            if answer is not NotImplemented:
                self._note(func, args, kwargs, answer)
                return answer
        try:
            result = func(*args, **kwargs)
        except NotImplementedError as error:
            result = rescue.run(func, args, kwargs, error)
        except RuntimeError as error:
            if not rescue.fits(func, error):
                raise
            result = rescue.run(func, args, kwargs, error)
        self.oracle.follow(func, args, kwargs, result)
        self._note(func, args, kwargs, result)
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self.frames:
            self.frames[-1].children.append((func, args, kwargs, result))
            self.recorder.keep.extend(tensors(result))
        else:
            self._child(func, args, kwargs, result, self.origin())

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

    def guess(self, default: Any, what: str) -> Any:
        """A guessed answer, recorded with the user's line."""
        file, line = user_line()
        answer = self.oracle.guess(default, what, (file, line, what))
        self.guesses.append((file, line, f"{what} = {answer}", len(self.recorder.graph.nodes)))
        return answer


class _Functions(TorchFunctionMode):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.session.function(func, args, kwargs or {})


class _Aten(TorchDispatchMode):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is ever compiled. The wrapper that torch would put around us imports `torch._dynamo` (1.2 s) at the first call."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.session.aten(func, args, kwargs or {})


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


def _wrapped(tensor: Tensor) -> bool:
    """Tensors of vmap and of subclasses: their insides are seen at the aten level only."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor) or (
        type(tensor).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl and hasattr(type(tensor), "__tensor_flatten__")
    )


@dataclass
class Trace:
    """What one run left: the `torch.fx` graph, and the plain one made of it."""

    recorder: Recorder
    graph: Graph
    error: BaseException | None = None
    """What ended the forward early."""


def trace(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...] = ()
) -> Graph:
    """Run `model` on meta and return what it did. The user's exceptions end up in `Graph.failure`."""
    return run(model, args, kwargs, initialisers=initialisers).graph


def run(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...] = ()
) -> Trace:
    """As `trace`, with the `torch.fx` graph. After an exception that follows a guess, the last guess is answered otherwise."""
    answers: dict[Site, Any] = {}
    first: Trace | None = None
    for _ in range(MAX_RUNS):
        result, oracle = _once(model, args, kwargs, initialisers, answers)
        first = first or result
        if result.graph.failure is None:
            return _settled(result, oracle, model, args, kwargs, answers)
        order = list(dict.fromkeys(a.site for a in oracle.guesses))
        given = {a.site: a.answer for a in oracle.guesses}
        open_sites = [s for s in order if s not in answers and _other(given[s]) is not None]
        if not open_sites:
            break
        last = open_sites[-1]
        earlier = set(order[: order.index(last)])
        answers = {s: v for s, v in answers.items() if s in earlier} | {last: _other(given[last])}
    assert first is not None
    return first


def _other(answer: Any) -> Any:
    """The other answer to a guess; None when there is none to try."""
    if answer is False:
        return True
    if answer is True:
        return None
    return 0 if answer == 1 else None


def _settled(result: Trace, oracle: Oracle, model: nn.Module, args: Any, kwargs: Any, answers: dict[Site, Any]) -> Trace:
    """Tell guesses that decide something from guesses that do not: run again with other answers and compare the programs.

    A mask that selects everything decides nothing: what it selects goes the same way, however much of it there is. Neither does a guess whose
    other answer ended in an exception: the program that goes on is the only one."""
    harmless = {a.site for a in oracle.guesses if a.answer is True and a.what.startswith("a mask")} | set(answers)
    turned = {a.site: _contrary(a.answer) for a in oracle.guesses if a.site not in harmless}
    trials = [turned] if len(turned) == 1 else [turned, *({s: v} for s, v in list(turned.items())[:MAX_TRIALS])]
    for trial in trials if turned else []:
        other, _ = _once(model, args, kwargs, (), answers | trial)
        if other.graph.failure is None and convert.shape_of(other.graph) == convert.shape_of(result.graph):
            harmless |= set(trial)
        if trial is turned and harmless >= set(turned):
            break
    return Trace(result.recorder, convert.mark_harmless(result.graph, harmless))


def _contrary(answer: Any) -> Any:
    """Another answer than the one given."""
    return not answer if isinstance(answer, bool) else answer + 1


def _once(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], initialisers: Any, answers: dict[Site, Any], stamped: bool = True
) -> tuple[Trace, Oracle]:
    given = (args, kwargs)
    scopes = Scopes(model)
    session = Session(Recorder(scopes.tensor_names()), Oracle(answers), scopes)
    entry = Origin(0, "", 0)
    args = tuple(_input(session, f"arg{i}", value, entry) for i, value in enumerate(args))
    kwargs = {name: _input(session, name, value, entry) for name, value in kwargs.items()}
    failure: Failure | None = None
    outputs: Any = None
    raised: BaseException | None = None
    with stamp.stamping(model, session, enabled=stamped) as repeats, scopes.watching(), _frozen(model), torch.no_grad(), _quiet():
        try:
            with torch.device("meta"), _Aten(session), _Functions(session):
                outputs = model(*args, **kwargs)
        except (Exception, SystemExit) as error:
            failure, raised = _failure(error), error
        scopes.unwind()
    if repeats.failed:
        return _once(model, *given, initialisers, answers, stamped=False)
    graph = convert.graph_of(session, outputs, failure, repeats.table(scopes), initialisers)
    return Trace(session.recorder, graph, raised), session.oracle


def _input(session: Session, name: str, value: Any, origin: Origin) -> Any:
    """Move an argument to meta, declare it, and remember integers and truth values."""
    if isinstance(value, Tensor):
        twin = value if value.device.type == "meta" else value.to("meta")
        if twin is not value and not value.dtype.is_floating_point and not value.dtype.is_complex:
            session.oracle.learn(twin, value)
        session.recorder.placeholder(name, twin, origin)
        return twin
    if isinstance(value, tuple | list):
        return type(value)(_input(session, f"{name}.{i}", v, origin) for i, v in enumerate(value))
    if isinstance(value, dict):
        return {k: _input(session, f"{name}.{k}", v, origin) for k, v in value.items()}
    return value


@contextlib.contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Weights that ask for no gradient: views of one that does lose their identity between two aten calls."""
    asking = [p for p in model.parameters() if p.requires_grad]
    for parameter in asking:
        parameter.requires_grad = False
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad = True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of torch about meta tensors, no fast path of `nn.TransformerEncoder` that hides what is computed."""
    import warnings

    dynamo = sys.modules.get("torch._dynamo")
    stance = torch.compiler.set_stance("force_eager") if dynamo is not None else contextlib.nullcontext()
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), stance:
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _failure(error: BaseException) -> Failure:
    """The exception with the innermost line that is the user's."""
    file, line = "", 0
    trail = error.__traceback__
    while trail is not None:
        name = trail.tb_frame.f_code.co_filename
        if not name.startswith((TORCH, HERE, "<")) or name in COMPOSITE:
            file, line = name, trail.tb_lineno
        trail = trail.tb_next
    try:
        text = str(error).strip().splitlines()
    except Exception:  # an exception whose own text raises
        text = []
    return Failure(f"{type(error).__name__}: {text[0] if text else ''}".rstrip(": "), file, line)


