"""One target, from its text to frames: build, trace, and whatever the user's code raises as an error with its line.

The same function runs in the child and, for a target that is not isolated, in the caller's process.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from screen.capture import phase
from screen.capture.build.configs import Missing
from screen.capture.inputs.missing import frames, statement
from screen.capture.kernels import older
from screen.capture.kernels.stand_in import NotInstalled, to_install
from screen.child.protocol import MAX_FRAME, Request, error_fields, frame, graph_frame
from screen.errors import InternalError, LimitError, LoadError, ScreenError, TraceError, chain
from screen.graph import io as graphio
from screen.graph.target import parse

if TYPE_CHECKING:
    from screen.capture.build.build import Built
    from screen.probe.plan.spot_types import SpotPlan

Send = Callable[[bytes], None]

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep
_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\](?:torch|torchvision)[/\\]")
_TORCHVISION = re.compile(r"[/\\](?:site|dist)-packages[/\\]torchvision[/\\]")
_MEMORY = re.compile(r"can't allocate memory|not enough memory|cannot allocate memory|bad_alloc|out of memory", re.IGNORECASE)
MAX_TEXT = 300
"""Characters of an exception's first line that are repeated."""
MOST = 40_000
"""Characters of a traceback that are kept: its beginning and its end."""
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
_ENCLOSED = "The sandbox has no network and writes to the folder of `tempfile` alone: `--sandbox off` is for code that is trusted"


def nothing() -> None:
    """No limits to set."""


def prepare(request: Request) -> None:
    """Import what the request needs, while what is compiled for it can still be kept; in a process for this request alone."""
    if request.probe is not None or request.spot is not None:
        import screen.child.real
        import screen.probe.run
        import screen.probe.second.plain
        import screen.child.order
        import screen.probe.spot

        screen.probe.second.plain.ALONE = True
    if request.again is not None:
        import screen.probe.second.again
    import screen.capture.build.build


def run(
    request: Request,
    send: Send,
    *,
    build: Callable[[Request], list[Built]] | None = None,
    before: Callable[[], None] = nothing,
    after: Callable[[], None] = nothing,
) -> None:
    """Send everything about one target, `done` or `error` last.

    `build` makes the models (by default what the target's text says), `before` sets limits, `after` lifts them when there is an error to tell.
    """
    now = ["load"]

    def enter(name: str, what: str, share: float) -> None:
        now[0] = name
        send(frame("progress", phase=name, **({"doing": what, "share": share} if what else {})))

    try:
        phase.listen(enter)
        before()
        _capture(request, send, build or _named)
    except BaseException as error:  # whatever the user's code raises, `SystemExit` and `KeyboardInterrupt` included, is a result
        after()
        _flush()
        send(frame("error", **error_fields(explain(error, request, now[0]))))
    else:
        _flush()
        send(frame("done"))


def _flush() -> None:
    """What the target printed stands in the log before anybody is told that it is done."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the target may have put anything there
            stream.flush()


def _named(request: Request) -> list[Built]:
    """The models that the target's text names."""
    from screen.capture.build.build import build

    return build(parse(request.target), set=request.set, inputs=request.inputs, depth=request.depth, width=request.width)


def _capture(request: Request, send: Send, build: Callable[[Request], list[Built]]) -> None:
    from screen.capture.trace.tracer import trace
    from screen.capture.trace.training import watched
    from screen.child.beside import beside, wants_values
    from screen.child.training import in_training
    from screen.child.variants import variants

    if request.again is not None:
        _again(request.again, send)
        return
    phase.enter("load")
    if request.probe is not None:
        _probe(request.probe, request, send, build)
        return
    if request.spot is not None:
        _spot(request.spot, request, send, build)
        return
    for built in build(request):
        send(frame("target", name=built.name, info=asdict(built.info)))
        phase.enter("trace")
        with watched() as reads:
            graph = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
        if graph.failure is None and reads.lines:
            built, graph = in_training(built, graph)
            send(frame("instead", info=asdict(built.info)))
        elif wants_values(graph):
            built, graph = beside(request, built, graph)
            send(frame("instead", info=asdict(built.info)))
        send(_fitting(graph_frame(graphio.dumps(graph)), request))
        if request.variants:
            with watched(graph.training):
                for where, other in variants(built, graph):
                    if len(document := graphio.dumps(other)) < MAX_FRAME // 2:
                        send(frame("variant", where=where, graph=json.loads(document)))


def _fitting(data: bytes, request: Request) -> bytes:
    """A frame that the parent takes. Raises `LimitError`."""
    if len(data) > MAX_FRAME:
        found = f"its graph takes {len(data) >> 20} MiB"
        raise LimitError(f"the graph of `{request.target}` must fit into {MAX_FRAME >> 20} MiB", found, "Build it with fewer layers")
    return data


def _probe(wanted: dict[str, Any], request: Request, send: Send, build: Callable[[Request], list[Built]]) -> None:
    """Build the models once more, with the values that the program itself knows, and measure what their plans say."""
    from screen.child.real import real
    from screen.child.training import as_traced
    from screen.probe.measure.leaves import Watch
    from screen.probe.plan.types import Options, from_json
    from screen.probe.run import experiments

    read = {name: from_json(plan) for name, plan in wanted["plans"].items()}
    with Watch() as watch:
        models = build(request)
    for built in models:
        if (plan := read.get(built.name)) is None:
            continue
        send(frame("target", name=built.name, info=asdict(built.info)))
        phase.enter("probe")
        with as_traced(request.trained, built.name):
            for found in experiments(plan, built, watch, Options(**wanted["options"]), partial(real, request, built)):
                send(frame("experiment", found=found))


def _spot(plans: dict[str, Any], request: Request, send: Send, build: Callable[[Request], list[Built]]) -> None:
    """Build the models once more, and look at them on real tensors."""
    from screen.capture.trace.loop import alone
    from screen.child.beside import with_values
    from screen.child.real import deeper_loop, real_loop
    from screen.child.training import as_traced
    from screen.probe.measure.leaves import Watch
    from screen.probe.plan.spot_types import plan_from_json
    from screen.probe.spot import spot_check

    read = {name: plan_from_json(plan) for name, plan in plans.items()}  # before any file of the user's could stand for a package of ours
    with Watch() as watch:
        models = build(request)
    for built in models:
        if (asked := read.get(built.name)) is None:
            continue
        built = built if asked.loop else alone(built)
        built = with_values(request, built) if built.name in request.beside else built
        send(frame("target", name=built.name, info=asdict(built.info)))
        phase.enter("probe")
        with as_traced(request.trained, built.name):
            found = spot_check(asked, built, watch, partial(real_loop, request, built), partial(deeper_loop, request, built))
        send(frame("spot", found=_ordered(found, asked, built, request)))


def _ordered(found: dict[str, Any], asked: SpotPlan, built: Built, request: Request) -> dict[str, Any]:
    """With what makes and runs the module, where it ran plainly."""
    from screen.child.order import Unsaid, order_of

    if (plain := found.get("plain")) is None or plain["output"] is None or plain["reason"]:
        return found
    if built.name in request.trained:
        return {**found, "plain": {**plain, "order": None, "unsaid": "it is judged as in training"}}
    try:
        order: dict[str, Any] | None = order_of(request, built, asked.weights, asked.seed)
        unsaid = ""
    except Unsaid as error:
        order, unsaid = None, str(error)
    except Exception as error:  # of the user's code
        order, unsaid = None, f"it raised {name_of(error)}"
    return {**found, "plain": {**plain, "order": order, "unsaid": unsaid}}


def _again(graphs: dict[str, Any], send: Send) -> None:
    """Run graphs on the values that their modules had. Nothing of the target is imported."""
    from screen.probe.second.again import again

    for name, given in graphs.items():
        send(frame("again", name=name, found=asdict(again(given["graph"], given["plain"], given["seed"]))))


def explain(error: BaseException, request: Request, doing: str) -> ScreenError:
    """What the child says about an exception: an error of ours as it is, the user's with its line, everything else as our fault."""
    if isinstance(error, Missing):
        file, line = blame(error.__traceback__)
        where = f" at {os.path.basename(file)}:{line}" if file else ""
        given = "`" + request.target + "` must build with what `--set` and `--config` give"
        return LoadError(given, f"it reads `{error.path}`{where}, which is not set", f"Add `--set {error.path}=…`", file=file, line=line)
    if isinstance(error, ScreenError):
        error.details = error.details or _details(error.__cause__ or error)
        return error
    what = f"it raised {name_of(error)}"
    file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) and error.filename else blame(error.__traceback__)
    if file is None:
        file, line = blame(error.__traceback__, _is_torchvisions)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _MEMORY.search(str(error))):
        memory = f"{request.memory / 2**30:.3g} GiB" if request.memory else "memory"
        return LimitError(
            f"`{request.target}` must fit into {memory}", what, "Build it smaller, or raise `--memory`", file=file, line=line, details=_details(error)
        )
    if file is None and isinstance(error, RecursionError):
        required = f"`{request.target}` must nest modules and values less deep than Python can follow"
        return LimitError(required, what, "Look for a module that holds itself, and for a list that is its own entry", details=_details(error))
    if file is None and _takes_modes(error):
        required = f"`{request.target}` must leave torch's stacks of modes as it finds them"
        advice = "Look for `_pop_mode` and `__exit__` calls, and for changed classes of torch"
        return TraceError(required, "a mode that was entered around it is gone", advice, details=_details(error))
    if file is None and not isinstance(error, SystemExit | KeyboardInterrupt | SyntaxError):
        return InternalError(f"capture of `{request.target}` raised {name_of(error)}", details=_details(error))
    where = f" at {os.path.basename(file)}:{line}" if file else ""
    at: dict[str, Any] = {"file": file, "line": line, "details": _details(error)}
    if (loaded := _loads_weights(error.__traceback__)) is not None:
        file, line, name = loaded
        advice = f"Build it from its config (`{name}.from_config(config)`, `{name}(config)`) where it reads weights now"
        advice = _switch(error.__traceback__) or advice
        found = f"{os.path.basename(file)}:{line} calls `from_pretrained`, which reads weights, and these are never downloaded"
        return LoadError(f"`{request.target}` must build without weights", found, advice, file=file, line=line, details=_details(error))
    if doing == "trace":
        required = f"`forward` of `{request.target}` must run to its end"
        return TraceError(required, what + where, _refused(error, request) or "Call it yourself first, or give it inputs with `--input`", **at)
    advice = _refused(error, request) or _advice(error, request)
    return LoadError(f"`{request.target}` must be importable and build a model", what + where, advice, **at)


def _takes_modes(error: BaseException) -> bool:
    """Whether a stack of torch's was found empty where we left a mode of ours: those are entered and left in order, so that somebody else took it, or
    changed how they are entered."""
    from torch import overrides
    from torch.utils import _python_dispatch

    trail = error.__traceback__
    while trail is not None and trail.tb_next is not None:
        trail = trail.tb_next
    files = (overrides.__file__, _python_dispatch.__file__)
    left = trail is not None and trail.tb_frame.f_code.co_filename in files and trail.tb_frame.f_code.co_name in ("_pop_mode", "__exit__")
    return left or "empty mode stack" in str(error)


def _loads_weights(trail: TracebackType | None) -> tuple[str, int, str] | None:
    """The user's line that calls `from_pretrained`, and the name of the class there."""
    while trail is not None and trail.tb_next is not None:
        code = trail.tb_next.tb_frame.f_code
        if code.co_name == "from_pretrained":
            owner = trail.tb_next.tb_frame.f_locals.get("cls")
            return trail.tb_frame.f_code.co_filename, trail.tb_lineno, getattr(owner, "__name__", "Model")
        trail = trail.tb_next
    return None


def _switch(trail: TracebackType | None) -> str:
    """How the weights are left out, where a call on the way takes a word for it: `create(name, pretrained_text=True)`."""
    while trail is not None:
        code, given = trail.tb_frame.f_code, trail.tb_frame.f_locals
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            if "pretrain" in name and given.get(name) is True:
                called = type(given["self"]).__name__ if code.co_name == "__init__" and "self" in given else code.co_name
                return f"Say `{name}=False` where `{called}` is called"
        trail = trail.tb_next
    return ""


def _refused(error: BaseException, request: Request) -> str:
    """What to do where it may be the sandbox that said no."""
    return _ENCLOSED if request.sandbox != "off" and any(isinstance(one, PermissionError) for one in chain(error)) else ""


_OF_312 = re.compile(r"""^\s*(class|def|async def)\s+\w+\s*\[|^\s*type\s+\w+\s*(\[.*\])?\s*=|\bf(["'])(?:(?!\3).)*\{[^{}"']*\3""", re.MULTILINE)
"""Lines that Python reads from 3.12 on: `class Net[T]`, `type Rows = list[int]`, quotes of an f-string inside of it."""


def _advice(error: BaseException, request: Request) -> str:
    if isinstance(error, ModuleNotFoundError | NotInstalled) and error.name:
        missing = to_install(error)
        where = "it can" if len(missing) == 1 else "they can"
        return f"Install {', '.join(missing)}, or run `screen` where {where} be imported"
    if isinstance(error, SyntaxError) and sys.version_info < (3, 12) and _OF_312.search(error.text or ""):
        own = ".".join(map(str, sys.version_info[:2]))
        return f"Python 3.12 reads that line, and this is Python {own}: install `screen` into an environment of Python 3.12, and run it there"
    if nothing_at := none_at(error):
        listed = ", ".join(f"`{n}`" for n in nothing_at)
        return f"There {listed} is None: give it a value, `--set NAME=…`, or add a function `build_model()` to a file"
    if (other := older.of_another_version(error)) is not None:
        return f"The `{other[0]}` that is installed takes no `{other[1]}` there: install the version of it that the project was written for"
    if request.set:
        return "Check the values of `--set`"
    return "Run it by itself first; where something must be set up before, do it in a function `build_model()` of a file of your own"


def none_at(error: BaseException) -> tuple[str, ...]:
    """Names and attributes (`args.n_heads`) on the line of the user's that failed on a `None`, and that are `None` there."""
    if not isinstance(error, TypeError | AttributeError) or "None" not in str(error):
        return ()
    own = [f for f in frames(error) if is_users(f[0].f_code.co_filename)]
    said = statement(own[-1][0].f_code.co_filename, own[-1][1]) if own else None
    if said is None:
        return ()
    found: list[str] = []
    for node in ast.walk(said):
        value: Any = 0
        if isinstance(node, ast.Name):
            value = own[-1][0].f_locals.get(node.id, 0)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = _vars_of(own[-1][0].f_locals.get(node.value.id)).get(node.attr, 0)
        if value is None and isinstance(node, ast.Name | ast.Attribute):
            found.append(ast.unparse(node))
    return tuple(dict.fromkeys(found))


def _vars_of(value: Any) -> dict[str, Any]:
    """The attributes that an object holds itself."""
    try:
        return dict(vars(value))
    except TypeError:
        return {}


def name_of(error: BaseException) -> str:
    """`ValueError: text` in backticks, on one line, without addresses."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # an exception of the user's may raise another when it is asked for its text
        lines = []
    said = " ".join(lines[:2]) if lines and lines[0].endswith(":") else "".join(lines[:1])
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    text = _ADDRESS.sub("0x…", text).replace("`", "'")
    return f"`{text[:MAX_TEXT]}…`" if len(text) > MAX_TEXT else f"`{text}`"


def _is_torchvisions(file: str) -> bool:
    return _TORCHVISION.search(file) is not None


def blame(trail: TracebackType | None, theirs: Callable[[str], bool] | None = None) -> tuple[str | None, int | None]:
    """File and line of the innermost frame that is `theirs`: neither ours, nor torch's, nor the standard library's, where nothing is said."""
    found: tuple[str | None, int | None] = (None, None)
    while trail is not None:
        if (theirs or is_users)(file := trail.tb_frame.f_code.co_filename):
            found = file, trail.tb_lineno or None
        trail = trail.tb_next
    return found


def is_users(file: str) -> bool:
    """Neither ours, nor torch's, nor the standard library's."""
    library = file.startswith(_STDLIB) and "site-packages" not in file
    return not (file.startswith((_OURS, "<")) or library or _TORCH.search(file) is not None)


def _details(error: BaseException) -> str:
    """The traceback, for `-v`."""
    text = "".join(traceback.format_exception(error))
    return text if len(text) <= MOST else f"{text[: MOST // 2]}\n…\n{text[-MOST // 2 :]}"


__all__ = ["blame", "explain", "name_of", "none_at", "prepare", "run"]
