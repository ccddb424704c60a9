"""Every format says the same facts, escapes what comes from the model, and does not depend on where it is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from syrupy.assertion import SnapshotAssertion

from screen.errors import LoadError
from screen.facts.record import Facts
from screen.graph import Guess, Repeat
from screen.report import graph as graph_report
from screen.report import render
from screen.report.build import Request, assemble, not_judged, several
from screen.report.schema import Report, Reports
from screen.structure.types import Coverage, DoubledNorm, HollowNorm, LongSkip, Norm, Scale, Unknown, UnmodelledOp
from screen.verdict.channels import fold
from screen.verdict.discover import Catalogue, catalogue, run_rules
from tests import handmade as h

FORMATS = ("text", "markdown", "json")
EVIL = "a|b`c<script>alert(1)</script>[x](http://e.vil)*_\x1b[31m\u202e\n# heading"


def report_of(facts: Facts, info: h.TargetInfo | None = None, spec: str = "model.py::Model", rules: Catalogue | None = None) -> Report:
    info = info or h.TargetInfo()
    run = run_rules(facts, rules)
    return assemble(facts, run, fold(facts, run, info), info, Request(spec, root=h.ROOT))


def full() -> Facts:
    """Facts with something of everything that a report has to say."""
    base = h.hybrid()
    stream = replace(base.streams[0], long_skips=(LongSkip(30, 3, h.place(30, "blocks.7")),), embed_norm=True, embed_scale=True)
    graph = h.blank_graph(
        guesses=(Guess(h.FILE, 77, "x.sum() > 0 is True"),),
        uncalled=(1,),
        repeats=(Repeat(2, ((1, 1), (3, 1), (4, 1))),),
    )
    norm = h.norm(5)
    return replace(
        base,
        graph=graph,
        streams=(stream,),
        doubled=(DoubledNorm(norm, h.norm(6)),),
        hollow=(HollowNorm("it only multiplies", h.place(9, "blocks.3.nonorm")),),
        coverage=Coverage(64, 62, (UnmodelledOp("mystery_op", 2, False, h.place(12, "blocks.4")),)),
    )


MUST_SAY: list[tuple[str, Callable[[], Facts], list[str]]] = [
    ("norms by what they compute", h.llama, ["RMSNorm over 64, ε 1e-05|\"rmsnorm\""]),
    ("placements", h.post, ["post"]),
    ("peri with QK-norm", h.peri, ["peri", "per head|per_head"]),
    ("parallel branches", h.parallel, ["∥|parallel_group"]),
    ("kinds with ranges", full, ["2–7|2,\\s+7", "0–1|0,\\s+1"]),
    ("roles", full, ["SSM|ssm", "MoE|moe"]),
    ("alpha and branch scales", full, ["2\\.5", "learned", "1e-06"]),
    ("long skips", full, ["model.py:40|\"line\": 40"]),
    ("guesses", full, ["x.sum\\(\\) (>|&gt;) 0 is True"]),
    ("unmodelled ops", full, ["mystery_op"]),
    ("modules never called", full, ["head"]),
    ("stamped members", full, ["blocks"]),
    ("identity path", h.post, ["24"]),
    ("embedding norm and final norm", full, ["embedding norm|embed_norm", "final norm|final_norm"]),
    ("unknown with its reason", h.unknown, ["unknown", "bessel_j0"]),
    ("streams", h.encoder_decoder, ["encoder", "decoder", "memory"]),
    ("weight maps", h.llama, ["maps"]),
    ("doubled and hollow norms", full, ["G104", "G105"]),
]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("what", "make", "patterns"), MUST_SAY, ids=[m[0] for m in MUST_SAY])
def test_every_format_says_the_fact(what: str, make: Callable[[], Facts], patterns: list[str], format: str) -> None:
    text = render(report_of(make()), format)
    for pattern in patterns:
        assert re.search(pattern, text), f"{format} does not say {pattern!r}"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", h.ALL)
def test_same_facts_same_bytes(name: str, format: str) -> None:
    first, second = (render(report_of(h.ALL[name]()), format) for _ in range(2))
    assert first == second
    assert first.endswith("\n")
    assert not first.endswith("\n\n")


@pytest.mark.parametrize("format", FORMATS)
def test_no_absolute_path(format: str) -> None:
    assert "/home/" not in render(report_of(full()), format)


def test_json_keys_are_sorted_and_it_reads_back() -> None:
    report = report_of(full())
    text = render(report, "json")
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    assert Report.model_validate_json(text) == report


def test_numbers_that_are_not_finite_are_strings() -> None:
    scale = Scale("constant", float("inf"))
    facts = h.facts(h.stream(h.kind(h.sublayer(branch=scale))))
    assert json.loads(render(report_of(facts), "json"))["streams"][0]["kinds"][0]["sublayers"][0]["residual"]["branch"] == "inf"


def test_text_does_not_depend_on_a_width_without_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    report, wide = report_of(h.hybrid()), render(report_of(h.hybrid()), "text")
    monkeypatch.setenv("COLUMNS", "20")
    assert render(report, "text") == wide
    assert any(len(line) > 120 for line in wide.splitlines())


@pytest.mark.parametrize("width", [40, 80, 200])
def test_text_fits_a_terminal(width: int) -> None:
    lines = render(report_of(h.hybrid()), "text", width=width).splitlines()
    assert max(map(len, lines)) <= width
    path = next(n for n, line in enumerate(lines) if line.startswith("  identity path: "))
    assert lines[path + 1].startswith("  ")  # it hangs


def test_text_has_colour_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" not in render(report_of(h.none()), "text", color=False, width=100)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[1;38;5;167m" in render(report_of(h.none()), "text", color=True, width=100)


def evil_facts() -> Facts:
    place = replace(h.place(8, EVIL), file=f"{h.ROOT}/{EVIL}.py")
    sub = h.sublayer(place=place, branch=Scale("learned", 0.5, (EVIL,)))
    kind = replace(h.kind(sub, count=3), module=EVIL)
    bad = UnmodelledOp(EVIL, 1, True, place)
    graph = h.blank_graph(guesses=(Guess(EVIL, 3, EVIL),), uncalled=(0,))
    graph = replace(graph, modules=(replace(graph.modules[0], path=EVIL), *graph.modules[1:]))
    return h.facts(h.stream(kind), graph=graph, coverage=Coverage(9, 8, (bad,)))


def evil_report() -> Report:
    return report_of(evil_facts(), h.TargetInfo(model_class=EVIL, changed={EVIL: (EVIL, 1)}), spec=EVIL)


def test_markdown_escapes_what_comes_from_the_model() -> None:
    text = render(evil_report(), "markdown")
    outside_mermaid = re.sub(r"```mermaid.*?```", "", text, flags=re.DOTALL)
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    html = parser.render(outside_mermaid)
    assert "<script" not in html
    assert 'href="http://e.vil"' not in html
    assert "\n# heading" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    headings = re.findall(r"<h(\d)>(.*?)</h\1>", html)
    assert all("heading" not in title for _, title in headings)
    rows = [r for r in re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL) if "model.py" in r or "attention" in r]
    assert rows


def test_a_pipe_in_a_name_breaks_no_table() -> None:
    text = render(evil_report(), "markdown")
    for table in re.findall(r"(?:^\|.*\n)+", re.sub(r"```mermaid.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE):
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
        assert len(cells) == 1, table


@pytest.mark.parametrize("format", ["text", "mermaid", "dot"])
def test_graph_escapes_what_comes_from_the_model(format: str) -> None:
    text = graph_report.render(evil_report(), format)  # type: ignore[arg-type]
    assert "\x1b" not in text
    assert "\n# heading" not in text
    if format == "mermaid":
        assert "<script" not in text


def test_mermaid_labels_hold_no_markup() -> None:
    text = graph_report.render(several([evil_report(), evil_report()]), "mermaid")
    assert "script" in text  # the class name does stand there
    assert not re.search(r"<(?!br/>)", text)
    assert all(line.count('"') in (0, 2) for line in text.splitlines())


def test_text_shows_control_characters_as_escapes() -> None:
    text = render(evil_report(), "text")
    assert "\x1b" not in text
    assert "\\x1b[31m" in text
    assert "\\x0a# heading" in text


def test_mermaid_of_every_kind_names_its_positions() -> None:
    text = render(report_of(h.hybrid()), "markdown")
    pictures = re.findall(r"```mermaid\n(.*?)```", text, flags=re.DOTALL)
    assert len(pictures) == 2
    assert '"C<br/>LayerNorm"' in pictures[0]
    assert "α = 2.5" in pictures[0]
    assert '"A<br/>LayerNorm"' in pictures[1]
    assert "× γ" in pictures[1]


def test_markdown_explains_the_letters_that_occur() -> None:
    said = "Letters: A norm on the branch's input; A² norm on queries and keys; B norm on the branch's output."
    assert said in render(report_of(h.peri()), "markdown")
    text = render(report_of(h.post()), "markdown")
    assert "C norm on the sum, carried on by the stream" in text
    assert "A norm on the branch's input" not in text
    assert "Letters" not in render(report_of(h.none()), "markdown")


def test_parallel_branches_meet_in_one_add() -> None:
    picture = json.loads(graph_report.render(report_of(h.parallel()), "json"))["kinds"][0]
    adds = [n["id"] for n in picture["nodes"] if n["shape"] == "add"]
    assert len(adds) == 1
    assert sum(e["to"] == adds[0] for e in picture["edges"]) == 3  # the stream and two branches


def test_not_judged_names_the_error_and_no_verdict_but_unknown() -> None:
    error = LoadError("A target must name a model", "`model.py` defines none", "Add one", file=f"{h.ROOT}/model.py", line=3)
    report = not_judged(error, Request("model.py", root=h.ROOT))
    assert report.verdict == "unknown"
    assert report.error is not None
    assert (report.error.stage, report.error.file, report.error.line) == ("load", "model.py", 3)
    for format in FORMATS:
        assert "defines none" in render(report, format)


def test_several_reports_are_as_bad_as_the_worst() -> None:
    both = several([report_of(h.pre()), report_of(h.none()), report_of(h.unknown())])
    assert both.verdict == "unstable"
    assert isinstance(both, Reports)
    assert [r["verdict"] for r in json.loads(render(both, "json"))["reports"]] == ["conditional", "unstable", "unknown"]
    assert [line.split(":")[0] for line in render(both, "text", quiet=True).splitlines()] == ["model.py"] * 3
    assert render(both, "text").startswith("conditional: expected to train if ")
    assert render(both, "text").endswith("\n3 targets: 1 unstable, 1 unknown, 1 conditional\n")
    assert render(both, "markdown").startswith("# Unstable: 3 targets")


def test_a_notebook_shows_markdown() -> None:
    report = report_of(h.pre())
    assert report._repr_markdown_() == render(report, "markdown")


def test_alike_findings_are_said_once() -> None:
    hollow = tuple(HollowNorm("it only multiplies", h.place(9, f"blocks.{i}.norm")) for i in range(5))
    text = render(report_of(replace(h.pre(), hollow=hollow)), "text")
    assert text.count("G105 hollow-norm  violated") == 1
    assert "And 4 more like it." in text


@pytest.mark.parametrize("format", ["text", "markdown"])
def test_snapshot(format: str, snapshot: SnapshotAssertion) -> None:
    shown = set(re.findall(r"\b[A-Z]\d{3}\b", (Path(__file__).parent / "__snapshots__" / "test_report.ambr").read_text(encoding="utf-8")))
    known = replace(catalogue(), rules=tuple(r for r in catalogue().rules if r.rule.code in shown))  # a new rule is no change of the format
    report = report_of(full(), rules=known if shown else None)
    libraries = report.tool.libraries.model_copy(update={"transformers": "5", "timm": None})
    tool = report.tool.model_copy(update={"version": "1", "python": "3", "torch": "2", "libraries": libraries})
    assert render(report.model_copy(update={"tool": tool}), format) == snapshot


def test_a_quoted_full_stop_is_not_doubled() -> None:
    why = Unknown("it raised `E: no.`.", (3,))
    report = report_of(h.facts(h.stream(h.kind(h.sublayer(placement="unknown", unknown=(why,))))))
    assert any(f.message.endswith("no.`.") for f in report.findings)
    assert not any(f.message.endswith("..") for f in report.findings)


def test_a_live_module_is_reproduced_in_python() -> None:
    text = render(report_of(h.pre(), h.TargetInfo(kind="object", model_class="Net")), "markdown")
    assert "`screen.check(model)  # a live Net`" in text


def test_the_command_that_reproduces_quotes_its_words() -> None:
    facts, info = h.pre(), h.TargetInfo()
    run = run_rules(facts)
    asked = Request("my model.py::M", ("--set", "a={}"), root=h.ROOT)
    text = render(assemble(facts, run, fold(facts, run, info), info, asked), "markdown")
    assert "screen check 'my model.py::M' --set 'a={}'" in text


def test_norm_of_other_axes_is_named() -> None:
    norm: Norm = h.norm(5, "batchnorm", 32, (0, 1))
    facts = h.facts(h.stream(h.kind(h.sublayer(norms=(("A", norm),), norm_type="batchnorm"))))
    assert "BatchNorm over 32 (axes 0, 1)" in render(report_of(facts), "text")
