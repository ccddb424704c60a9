"""A `Graph` as bytes and back: how it crosses from the child to the parent, and how it is kept in a file.

JSON, never pickle: what comes back from the process that ran the user's code is data, and is checked field by field before anything
reads it. A node is a list in the order of `Node`'s fields, without its index (its position says it); a `Ref` is `{"r": node}`, the
only object inside arguments; a tuple is a list; `inf` and `nan` stand as JavaScript writes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeVar

from screen.graph import SOURCES, Call, Failure, Graph, Guess, Initialiser, Loop, Module, Node, Ref, Repeat
from screen.graph.gc_pause import put_off

VERSION = 2
"""Version of this form. It crosses one pipe between two processes of one installation, so a reader knows only its own."""

LONGEST = 100_000
"""Characters of a name, a path or a message."""
T = TypeVar("T")


class GraphFormatError(ValueError):
    """The bytes are not a graph; the text says where."""


def dumps(graph: Graph) -> bytes:
    """The graph as JSON. The same graph gives the same bytes."""
    document = {
        "version": VERSION,
        "nodes": [(n.op, n.args, n.kwargs, n.shape, n.dtype, n.call, n.file, n.line, n.name) for n in graph.nodes],
        "calls": [[c.parent, c.module, c.ordinal] for c in graph.calls],
        "modules": [[m.parent, m.path, m.class_name, m.container, m.file, m.line] for m in graph.modules],
        "outputs": graph.outputs,
        "repeats": [[r.container, r.members] for r in graph.repeats],
        "guesses": [[g.file, g.line, g.assumed, g.node, g.decides] for g in graph.guesses],
        "failure": None if (f := graph.failure) is None else [f.message, f.file, f.line, f.node],
        "uncalled": graph.uncalled,
        "initialisers": [[name, [[i.op, i.args, i.file, i.line, i.whole, i.draw] for i in history]] for name, history in graph.initialisers],
        "ranges": graph.ranges,
        "loop": None if graph.loop is None else [graph.loop.copies, graph.loop.count],
        "frozen": graph.frozen,
        "training": graph.training,
    }
    return json.dumps(document, default=_ref, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def loads(data: bytes) -> Graph:
    """The graph that `dumps` wrote, checked. Raises `GraphFormatError` for anything else."""
    try:
        document = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise GraphFormatError(f"not JSON: {error}") from None
    return read(document)


def read(document: object) -> Graph:
    """The graph of a parsed document, checked.

    Raises `GraphFormatError`: another version, a field of the wrong type, an index that points nowhere.
    """
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise GraphFormatError(f"not a graph of version {VERSION}")
    try:
        with put_off():  # a collection for every few hundred nodes doubles the time
            graph = _graph(document)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise GraphFormatError(f"not a graph: {type(error).__name__}: {error}") from None
    if fault := next(_faults(graph), None):
        raise GraphFormatError(f"not a graph: {fault}")
    return graph


def _graph(d: dict[str, object]) -> Graph:
    return Graph(
        nodes=tuple(_node(i, row) for i, row in enumerate(_list(d["nodes"]))),
        calls=tuple(Call(i, _opt_int(p), _int(m), _int(o)) for i, (p, m, o) in enumerate(map(_list, _list(d["calls"])))),
        modules=tuple(_module(i, row) for i, row in enumerate(_list(d["modules"]))),
        outputs=_ints(d["outputs"]),
        repeats=tuple(
            Repeat(_int(c), tuple((_int(a), _int(b)) for a, b in map(_list, _list(members)))) for c, members in map(_list, _list(d["repeats"]))
        ),
        guesses=_each(d["guesses"], _guess),
        failure=None if d["failure"] is None else _failure(_list(d["failure"])),
        uncalled=_ints(d["uncalled"]),
        initialisers=tuple((_str(name), _each(history, _initialiser)) for name, history in map(_list, _list(d["initialisers"]))),
        ranges=tuple((_int(node), _float(low), _float(high)) for node, low, high in map(_list, _list(d["ranges"]))),
        loop=None if d["loop"] is None else _loop(_list(d["loop"])),
        frozen=_each(d["frozen"], _str),
        training=tuple((_str(file), _int(line)) for file, line in map(_list, _list(d["training"]))),
    )


def _node(index: int, row: object) -> Node:
    op, args, kwargs, shape, dtype, call, file, line, name = _list(row)
    return Node(
        index,
        _str(op),
        tuple([_arg(value, index) for value in _list(args)]),
        tuple([(_str(key), _arg(value, index)) for key, value in map(_list, _list(kwargs))]) if kwargs else (),
        None if shape is None else _ints(shape),
        None if dtype is None else _str(dtype),
        _int(call),
        _str(file),
        _int(line),
        _str(name),
    )


def _module(index: int, row: object) -> Module:
    parent, path, class_name, container, file, line = _list(row)
    return Module(index, _opt_int(parent), _str(path), _str(class_name), _str(container), _str(file), _int(line))


def _loop(row: list[object]) -> Loop:
    copies, count = row
    return Loop(_ints(copies), _int(count))


def _guess(row: object) -> Guess:
    file, line, assumed, node, decides = _list(row)
    return Guess(_str(file), _int(line), _str(assumed), _opt_int(node), _bool(decides))


def _failure(row: list[object]) -> Failure:
    message, file, line, node = row
    return Failure(_str(message), _str(file), _int(line), _opt_int(node))


def _initialiser(row: object) -> Initialiser:
    op, args, file, line, whole, draw = _list(row)
    return Initialiser(_str(op), tuple([_arg(value, 0) for value in _list(args)]), _str(file), _int(line), _bool(whole), _int(draw))


def _faults(graph: Graph) -> Iterator[str]:
    """Indices that point nowhere. (What a node reads was checked while it was read; `graph.lint` says the same in words for tests.)"""
    nodes, modules, calls = len(graph.nodes), len(graph.modules), len(graph.calls)
    wanted: list[tuple[str, int, int]] = [(f"call {c.index}", c.module, modules) for c in graph.calls]
    wanted += [(f"call {c.index}", c.parent, c.index) for c in graph.calls if c.parent is not None]
    wanted += [(f"module {m.index}", m.parent, modules) for m in graph.modules if m.parent is not None]
    wanted += [("a repeat", i, modules) for r in graph.repeats for i in (r.container, *(j for pair in r.members for j in pair))]
    wanted += [("uncalled", i, modules) for i in graph.uncalled]
    wanted += [("an output", i, nodes) for i in graph.outputs]
    wanted += [("a range", i, nodes) for i, _, _ in graph.ranges]
    wanted += [("a guess", g.node, nodes) for g in graph.guesses if g.node is not None]
    wanted += [("the loop", i, calls) for i in (graph.loop.copies if graph.loop is not None else ())]
    if graph.failure is not None and graph.failure.node is not None:
        wanted.append(("the failure", graph.failure.node, nodes))
    yield from (f"{what} points to {index} of {size}" for what, index, size in wanted if not 0 <= index < size)
    yield from (f"node {n.index} stands in call {n.call} of {calls}" for n in graph.nodes if not 0 <= n.call < calls)
    yield from (f"node {n.index} ({n.op}) is a source and has inputs" for n in graph.nodes if n.op in SOURCES and n.inputs)


def _ref(value: object) -> dict[str, int]:
    """What JSON has no word for: only a `Ref` may stand beside scalars and tuples."""
    if isinstance(value, Ref):
        return {"r": value.node}
    raise TypeError(f"a graph's arguments are references, scalars and tuples; `{type(value).__name__}` is none of them")


def _arg(value: object, limit: int) -> object:
    """One argument of a node that stands at `limit`: what it refers to must come before it."""
    kind = type(value)
    if kind is dict:
        ((key, node),) = value.items()  # type: ignore[attr-defined]
        if key != "r" or type(node) is not int or not 0 <= node < limit:
            raise ValueError(f"node {limit} reads {value}, which does not come before it")
        return Ref(node)
    return tuple([_arg(item, limit) for item in value]) if kind is list else value  # type: ignore[attr-defined]


def _each(value: object, read: Callable[[object], T]) -> tuple[T, ...]:
    return tuple([read(item) for item in _list(value)])


def _list(value: object) -> list[object]:
    if type(value) is not list:
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value


def _ints(value: object) -> tuple[int, ...]:
    numbers = tuple(_list(value))
    if any(type(number) is not int for number in numbers):
        raise TypeError(f"expected whole numbers, found {str(numbers)[:100]}")
    return numbers  # type: ignore[return-value]


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"expected a whole number, found {type(value).__name__}")
    return value


def _float(value: object) -> float:
    if type(value) is not float:
        raise TypeError(f"expected a number, found {type(value).__name__}")
    return value


def _bool(value: object) -> bool:
    if type(value) is not bool:
        raise TypeError(f"expected true or false, found {type(value).__name__}")
    return value


def _opt_int(value: object) -> int | None:
    return None if value is None else _int(value)


def _str(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"expected text, found {type(value).__name__}")
    if len(value) > LONGEST:
        raise ValueError(f"a text of {len(value):,} characters")
    return value


__all__ = ["VERSION", "GraphFormatError", "dumps", "loads", "read"]
