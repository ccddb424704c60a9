"""A graph survives the pipe, and nothing else comes out of it."""

from __future__ import annotations

import json
import time
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screen.graph import Call, Failure, Graph, Guess, Initialiser, Loop, Module, Node, Ref, Repeat, lint
from screen.graph import io as graphio

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=5)


def full() -> Graph:
    """A graph in which every field of every noun differs from its default."""
    nodes = (
        Node(0, "input", (), (), (2, 16), "int64", 0, "a.py", 1, "ids"),
        Node(1, "parameter", (), (), (16, 8), "bfloat16", 1, "a.py", 2, "embed.weight"),
        Node(2, "embedding", (Ref(0), (Ref(1), ("slice", None, -1, 2))), (("scale", float("inf")), ("x", Ref(1))), None, None, 1, "b.py", 3),
    )
    return Graph(
        nodes,
        (Call(0, None, 0, 0), Call(1, 0, 1, 4)),
        (Module(0, None, "", "M", "", "a.py", 9), Module(1, 0, "embed", "Embedding", "list", "b.py", 10)),
        (2, 0),
        repeats=(Repeat(1, ((0, 0), (1, 0))),),
        guesses=(Guess("a.py", 4, "`if` is false", 1, False),),
        failure=Failure("ValueError: ü \udcff", "a.py", 5, 2),
        uncalled=(1,),
        initialisers=(("embed.weight", (Initialiser("normal_", (0.0, 0.02), "a.py", 6, False, 3),)),),
        loop=Loop((1,), 24),
        ranges=((1, -0.5, 2.0),),
        frozen=("embed.weight",),
        training=(("a.py", 7),),
    )


def _noun_fields(value: Any, seen: dict[str, set[str]]) -> None:
    """Names of the fields that differ from their defaults somewhere below `value`."""
    if is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            item = getattr(value, f.name)
            if item != f.default:
                seen.setdefault(type(value).__name__, set()).add(f.name)
            _noun_fields(item, seen)
    elif isinstance(value, tuple):
        for item in value:
            _noun_fields(item, seen)


def test_the_example_sets_every_field_so_that_a_new_one_cannot_be_forgotten() -> None:
    seen: dict[str, set[str]] = {}
    _noun_fields(full(), seen)
    for noun in (Node, Module, Call, Repeat, Loop, Guess, Failure, Initialiser, Graph):
        assert seen[noun.__name__] == {f.name for f in fields(noun)}, noun


def test_every_field_survives() -> None:
    again = graphio.loads(graphio.dumps(full()))
    assert again == full()
    assert [c.draw for _, history in again.initialisers for c in history] == [3]  # two laws are compared without it


@pytest.mark.by_the_day
@settings(max_examples=50)
@given(st.lists(st.recursive(SCALARS | st.just(Ref(0)), lambda s: st.lists(s, max_size=3).map(tuple), max_leaves=6), max_size=4).map(tuple))
def test_any_arguments_survive(args: tuple[object, ...]) -> None:
    first, *_ = full().nodes
    graph = Graph((first, Node(1, "op", args, (("key", args),), (), None, 0, "", 0)), (Call(0, None, 0, 0),), (Module(0, None, "", "M", ""),), (1,))
    again = graphio.loads(graphio.dumps(graph))
    assert again == graph
    assert repr(again.nodes) == repr(graph.nodes)  # 1, 1.0 and True are equal, and must not be exchanged


def _broken(path: tuple[object, ...], value: object) -> bytes:
    document = json.loads(graphio.dumps(full()))
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("version",), 1),
        (("nodes", 0, 0), 5),
        (("nodes", 2, 1), [{"r": 2}]),
        (("nodes", 2, 1), [{"r": -1}]),
        (("nodes", 2, 1), [{"r": "0"}]),
        (("nodes", 2, 1), [{"s": 0}]),
        (("nodes", 2, 1), [{"r": 0, "s": 0}]),
        (("nodes", 0, 1), [{"r": 0}]),
        (("nodes", 1, 1), [{"r": 0}]),
        (("nodes", 0, 3), [2, 1.5]),
        (("nodes", 0, 5), 2),
        (("nodes", 0, 7), 1.0),
        (("nodes", 0, 7), True),
        (("nodes", 0, 5), -1),
        (("nodes", 0), ["input"]),
        (("calls", 1, 0), 1),
        (("calls", 1, 1), 2),
        (("modules", 1, 0), 7),
        (("outputs",), [3]),
        (("outputs",), [True]),
        (("repeats", 0, 1), [[0, 9]]),
        (("guesses", 0, 4), 1),
        (("guesses", 0, 3), 3),
        (("failure", 3), 3),
        (("uncalled",), [2]),
        (("initialisers", 0, 1), 0),
        (("nodes",), None),
    ],
)
def test_what_is_not_a_graph_is_refused(path: tuple[object, ...], value: object) -> None:
    with pytest.raises(graphio.GraphFormatError):
        graphio.loads(_broken(path, value))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"version":1}', b"[" * 100_000])
def test_bytes_that_are_not_even_that_are_refused(data: bytes) -> None:
    with pytest.raises(graphio.GraphFormatError):
        graphio.loads(data)


def test_only_references_scalars_and_tuples_can_be_written() -> None:
    graph = full()
    odd = replace(graph, nodes=(*graph.nodes, Node(3, "op", (object(),), (), None, None, 0, "", 0)))
    with pytest.raises(TypeError, match="references, scalars and tuples"):
        graphio.dumps(odd)


def test_lint_agrees_with_the_reader() -> None:
    assert lint(graphio.loads(graphio.dumps(full()))) == []


def test_twelve_thousand_nodes_are_read_in_a_moment() -> None:
    nodes = [Node(0, "input", (), (), (2, 16), "int64", 0, "a.py", 3, "x")]
    nodes += [Node(i, "add", (Ref(i - 1), Ref(max(0, i - 5))), (("alpha", 1.0),), (2, 16, 512), "bfloat16", 0, "a.py", i) for i in range(1, 12_000)]
    graph = Graph(tuple(nodes), (Call(0, None, 0, 0),), (Module(0, None, "", "M", ""),), (11_999,))
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        graphio.loads(graphio.dumps(graph))
        times.append(time.perf_counter() - begin)
    assert min(times) < 4.0  # 0.2 s on an idle machine; other tests run beside this one
