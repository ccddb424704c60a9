"""The tracer: runs forward once on the meta device, watched by a session, and again where a guess may decide something."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from screen.capture.trace import convert, flex, packed, ragged, stamp
from screen.capture.trace.eager import eager
from screen.capture.trace.loop import own_name
from screen.capture.trace.module_calls import Scopes
from screen.capture.trace.nested import mapped
from screen.capture.trace.oracle import Oracle, Site
from screen.capture.trace.recorder import Origin, Recorder, tensors
from screen.capture.trace.session import DRAWN, Aten, Functions, Session
from screen.capture.trace.source_lines import COMPOSITE, HERE, TORCH
from screen.capture.trace.training import told
from screen.graph import Failure, Graph, Initialiser

MAX_TRIALS = 4
"""Guesses that are turned round one by one to see whether they decide anything."""

MAX_RUNS = 8
"""Restarts with another answer after an exception that follows a guess."""


MOST = 1000
"""Characters of an exception's first line that are kept."""
LARGEST = 1 << 26
"""Entries of a tensor that is computed beside meta, where weights have values."""


@dataclass
class Trace:
    """What one run left: the `torch.fx` graph, and the plain one made of it."""

    recorder: Recorder
    graph: Graph
    error: BaseException | None = None
    """What ended the forward early."""
    outputs: Any = None
    """What the forward returned, on meta."""


def trace(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...] = ()
) -> Graph:
    """Run `model` on meta and return what it did. The user's exceptions end up in `Graph.failure`."""
    return run(model, args, kwargs, initialisers=initialisers).graph


def trace_beside(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    weights: Sequence[Mapping[str, Tensor]],
    *,
    initialisers: tuple[tuple[str, tuple[Initialiser, ...]], ...] = (),
) -> Trace:
    """As `run`, with values beside meta: of parameters and buffers the first of `weights`, by name, of float arguments draws from N(0, 1). What the
    forward reads is then what it would read, where meta alone has to guess; it decides something unless all of `weights` give the same program."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    traces = []
    for seed, values in enumerate(weights):
        known = {id(tensor): values[name].detach() for name, tensor in named if name in values}
        traces.append(_once(model, args, kwargs, initialisers, {}, stamped=False, known=known, seed=seed)[0])
    first, *others = (t.graph for t in traces)
    same = all(g.failure is None and convert.shape_of(g) == convert.shape_of(first) for g in others)
    sites = {(g.file, g.line, DRAWN) for g in first.guesses} if others and same else set()
    return replace(traces[0], graph=convert.mark_harmless(first, sites))


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
    """Tell guesses that decide something from guesses that do not: run again with other answers and compare what is computed of floats.

    A mask that selects everything decides nothing: what it selects goes the same way, however much of it there is. Neither does a guess whose
    other answer ended in an exception: the program that goes on is the only one."""
    harmless = {a.site for a in oracle.guesses if a.answer is True and a.what.startswith("a mask")} | set(answers)
    turned = {a.site: _contrary(a.answer) for a in oracle.guesses if a.site not in harmless}
    trials = [turned] if len(turned) == 1 else [turned, *({s: v} for s, v in list(turned.items())[:MAX_TRIALS])]
    for trial in trials if turned else []:
        other, _ = _once(model, args, kwargs, (), answers | trial)
        if other.graph.failure is None and convert.floats_of(other.graph) == convert.floats_of(result.graph):
            harmless |= set(trial)
        if trial is turned and harmless >= set(turned):
            break
    return replace(result, graph=convert.mark_harmless(result.graph, harmless))


@contextlib.contextmanager
def _tracked() -> Iterator[None]:
    """`torch.inference_mode` is `torch.no_grad` for the time of a run: it computes the same, and tensors that are made in it do not tell what they
    are views of, so that what is written into a part of one would be lost."""
    with mock.patch.object(torch._C, "_InferenceMode", lambda _: contextlib.nullcontext()):
        yield


def _contrary(answer: Any) -> Any:
    """Another answer than the one given."""
    return not answer if isinstance(answer, bool) else answer + 1


def _once(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], initialisers: Any, answers: dict[Site, Any], stamped: bool = True,
    known: dict[int, Tensor] | None = None, seed: int = 0,
) -> tuple[Trace, Oracle]:
    given, frozen = (args, kwargs), _constant(model)
    scopes = Scopes(model)
    oracle = Oracle(answers) if known is None else Oracle(answers, known=dict(known), largest=LARGEST, drawn=set(known))
    session = Session(Recorder(scopes.tensor_names()), oracle, scopes)
    entry = Origin(0, "", 0)
    args = tuple(_input(session, f"arg{i}", value, entry) for i, value in enumerate(args))
    kwargs = {name: _input(session, name, value, entry) for name, value in kwargs.items()}
    if known is not None:
        generator = torch.Generator().manual_seed(seed)
        for twin in tensors((args, kwargs)):
            if twin.dtype.is_floating_point and oracle.drawn is not None:
                oracle.learn(twin, torch.randn(twin.shape, generator=generator).to(twin.dtype))
                oracle.drawn.add(id(twin))
    failure: Failure | None = None
    outputs: Any = None
    raised: BaseException | None = None
    with stamp.stamping(model, session, initialisers, enabled=stamped) as repeats, scopes.watching(), _frozen(model), torch.no_grad(), _quiet():
        try:
            with torch.device("meta"), Aten(session), Functions(session), flex.written_out(), packed.written_out(session.takes), \
                 ragged.stacked(), _tracked():
                outputs = model(*args, **kwargs)
        except (Exception, SystemExit) as error:
            failure, raised = _failure(error), error
        scopes.unwind()
    session.recorder.was_read |= any(id(t) in session.recorder.unread for t in tensors(convert.plain(outputs)))
    if repeats.failed:
        return _once(model, *given, initialisers, answers, stamped=False)
    graph = replace(convert.graph_of(session, outputs, failure, repeats.table(scopes), initialisers, frozen), training=told())
    return Trace(session.recorder, graph, raised, outputs), session.oracle


def _input(session: Session, name: str, value: Any, origin: Origin) -> Any:
    """Move an argument to meta, declare it, and remember integers and truth values."""

    def declared(place: str, given: Tensor) -> Tensor:
        twin = given if given.device.type == "meta" else given.to("meta")
        if twin is not given and not given.dtype.is_floating_point and not given.dtype.is_complex:
            session.oracle.learn(twin, given)
        session.recorder.placeholder(place, twin, origin)
        return twin

    return mapped(value, declared, name)


def _constant(model: nn.Module) -> tuple[str, ...]:
    """Names of the parameters that training leaves as they are; none where nothing asks for a gradient: then nobody said what trains."""
    asking = [p.requires_grad for p in model.parameters()]
    if all(asking) or not any(asking):
        return ()
    return tuple(own_name(name) for name, p in model.named_parameters(remove_duplicate=False) if not p.requires_grad)


@contextlib.contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Weights that ask for no gradient: views of one that does lose their identity between two aten calls."""
    asking = [p for p in model.parameters() if p.requires_grad and p.is_leaf]  # copies that TorchScript makes are no leaves
    for parameter in asking:
        parameter.requires_grad = False
    try:
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad = True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of torch about meta tensors, no fast path of `nn.TransformerEncoder` that hides what is computed, and no TorchScript that is
    rewritten when it has run a few times."""
    import warnings

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), eager(), torch.jit.optimized_execution(False):  # type: ignore[attr-defined]  # it is documented
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
            file, line = name, trail.tb_lineno or 0
        trail = trail.tb_next
    try:
        text = str(error).strip().splitlines()
    except Exception:  # an exception whose own text raises
        text = []
    return Failure(f"{type(error).__name__}: {text[0][:MOST] if text else ''}".rstrip(": "), file, line)
