"""`report.stream_graph()` and `screen graph --format graphml`: the streams as a graph that other programs read."""

from __future__ import annotations

import io
import subprocess
import sys

import networkx
import pytest

import screen
from screen.report.graph import render
from screen.report.schema import Report
from tests.shared import ROOT
import itertools

pytestmark = pytest.mark.by_the_day

ALL = ("pre.py", "post.py", "peri.py", "parallel.py")


def report_of(name: str) -> Report:
    return screen.check(str(ROOT / "examples" / name), isolate=False)


@pytest.mark.parametrize("name", [n for n in ALL if (ROOT / "examples" / n).exists()])
def test_one_node_for_each_box(name: str) -> None:
    report = report_of(name)
    graph = report.stream_graph()
    assert isinstance(graph, networkx.DiGraph) and graph.number_of_nodes() > 0
    for stream in report.streams:
        for kind in stream.kinds:
            inside = [n for n, d in graph.nodes(data=True) if (d["stream"], d["kind"]) == (stream.name, kind.id)]
            assert {graph.nodes[n]["count"] for n in inside} == {kind.count}
            branches = [n for n in inside if graph.nodes[n]["shape"] == "branch"]
            assert len(branches) == len(kind.sublayers)
            begin, end = inside[0], inside[-1]
            path = networkx.shortest_path(graph.subgraph(inside), begin, end)  # the identity path leads through the block
            assert all(graph.edges[e]["stream"] for e in itertools.pairwise(path))
            if kind.count > 1:
                assert graph.edges[end, begin]["times"] == kind.count - 1


def test_pre_norm_has_its_norm_before_the_branch() -> None:
    graph = report_of("pre.py").stream_graph()
    assert {graph.nodes[n]["position"] for b, d in graph.nodes(data=True) if d["shape"] == "branch" for n in graph.predecessors(b)} == {"A"}


def test_graphml_is_read_back() -> None:
    report = report_of("pre.py")
    graph = report.stream_graph()
    back = networkx.read_graphml(io.StringIO(render(report, "graphml")))
    assert dict(back.nodes(data=True)) == dict(graph.nodes(data=True))
    assert set(back.edges) == set(graph.edges)


def test_the_command_writes_it() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "screen", "graph", "--format", "graphml", "examples/pre.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert networkx.read_graphml(io.StringIO(found.stdout)).number_of_nodes() > 0


def test_networkx_is_loaded_for_nothing_else() -> None:
    code = "import sys, screen; screen.check; import screen.report.formats.text, screen.report.formats.markdown; sys.exit('networkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
