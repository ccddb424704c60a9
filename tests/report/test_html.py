"""The page: one file that needs nothing else, whose tags balance, and in which no text of the model becomes markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from screen.errors import LoadError
from screen.report import render
from screen.report.build import Request, assemble, not_judged, several
from screen.report.picture import draw
from screen.report.schema import ExperimentPart, ProbePart, Report
from screen.report.source import LONGEST, excerpt
from screen.report.svg import svg
from screen.structure.types import HollowNorm, Place
from screen.verdict.channels import fold
from screen.verdict.discover import run_rules
from tests import handmade as h
from tests.report.test_report import EVIL, evil_facts, evil_report, full, report_of

VOID = frozenset({"meta", "br"})
FORBIDDEN = frozenset({"script", "iframe", "object", "embed", "link", "img", "form", "input", "base", "video", "audio", "foreignobject"})
CORPUS = (
    EVIL, "<!--", "-->", "]]>", "</code></pre></style></title>", "<svg onload=alert(1)>", "\"' onmouseover='x", "&lt;b&gt;", "&#60;b&#62;",
    "javascript:alert(1)", "{{ 7 * 7 }}", "{% include 'x' %}", "::error::x", "##[error]x", "@somebody #1 http://e.vil", "\u2028\u2029\x85",
    "\u202eabc\u2066", "\x1b]8;;http://e.vil\x07", "`", "``a`b``", "`<b>`", "a" * 5000, "\ud800", "\x00", "</svg><b>", "url(http://e.vil)",
    "@import 'x'", "<a href=//e.vil>", "<style>*{}</style>", "%s %n {0}",
)  # fmt: skip
"""What a name of a module, a message or a line of code may be."""


class Page(HTMLParser):
    """Reads a page, and keeps what is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.faults += [f"<{tag}>"] if tag in FORBIDDEN else []
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src", "xlink:href", "action") and not (value or "").startswith("#")):
                self.faults.append(f"<{tag} {name}={value!r}>")
            if name == "id":
                self.ids[value or ""] += 1
            if name == "href":
                self.links.append((value or "").removeprefix("#"))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def page(report: object) -> Page:
    return Page(render(report, "html"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", h.ALL)
def test_a_page_is_whole_and_needs_nothing_else(name: str) -> None:
    report = report_of(h.ALL[name]())
    text = render(report, "html")
    read = Page(text)
    assert read.faults == [] and text == render(report, "html") and text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert max(read.ids.values()) == 1 and set(read.links) <= set(read.ids)
    assert not re.search(r"https?://(?!www\.w3\.org)", text) and "@import" not in text and "prefers-color-scheme: dark" in text
    assert read.tags["svg"] == sum(len(s.kinds) for s in report.streams)


def test_the_order_is_that_of_the_first_screen_and_the_rest_is_folded() -> None:
    report = report_of(h.pre())
    text = render(report, "html")
    parts = ["<h1>", "What would help most", ">Findings<", "What can go wrong", ">Stream ", "<summary>The four steps", "<summary>Claims"]
    places = [text.index(part) for part in (*parts, ">Coverage<")]
    assert places == sorted(places)
    first = text[: text.index("What can go wrong")]
    open_ = [f for f in report.findings if f.outcome == "conditional"]
    assert open_ and all(f"<h3>{f.code} {f.name}" in first and f"<code>{f.file}:{f.line}</code>" in first for f in open_)


def test_everything_of_a_report_is_somewhere_on_the_page() -> None:
    words = "".join(page(report_of(full())).words)
    for said in ("mystery_op", "x.sum() > 0 is True", "G104", "G105", "SSM", "2.5", "head"):
        assert said in words


@pytest.mark.parametrize("evil", CORPUS, ids=range(len(CORPUS)))
def test_no_text_becomes_markup(evil: str) -> None:
    report = report_of(h.pre())
    findings = [
        f.model_copy(update={
            "message": evil, "plain": evil, "module": evil, "file": evil, "remedy": evil, "stream": evil, "sublayer": evil, "theorem": evil,
            "assumptions": [evil], "numbers": {evil: evil}, "excerpt": [(1, evil)], "line": 1,
        })
        for f in report.findings
    ]  # fmt: skip
    channels = [c.model_copy(update={"reason": evil}) for c in report.channels]
    claims = [c.model_copy(update={"reason": evil, "group": evil}) for c in report.claims]
    target = report.target.model_copy(update={"spec": evil, "notes": [evil], "changed": {evil: (evil, evil)}})
    bad = report.model_copy(update={"findings": findings, "channels": channels, "claims": claims, "target": target, "summary": evil})
    plain, read = page(report), page(several([bad, bad]))
    assert read.faults == [] and max(read.ids.values()) == 1
    assert set(read.tags) <= {*plain.tags, "nav", "thead", "mark", "pre"}
    text = render(bad, "html")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)


def test_a_whole_hostile_model_is_harmless() -> None:
    read = page(evil_report())
    assert read.faults == [] and "script" not in read.tags and any("alert(1)" in w for w in read.words)
    for stream in report_of(evil_facts()).streams:
        for kind in stream.kinds:
            xml.etree.ElementTree.fromstring(svg(draw(stream, kind)))


def test_pictures_are_well_formed_and_their_boxes_do_not_overlap() -> None:
    for make in h.ALL.values():
        for stream in report_of(make()).streams:
            for kind in stream.kinds:
                picture = draw(stream, kind)
                root = xml.etree.ElementTree.fromstring(svg(picture))
                boxes = [tuple(float(r.attrib[k]) for k in ("x", "y", "width", "height")) for r in root.iter("rect")]
                assert len(boxes) + len(list(root.iter("circle"))) == len(picture.boxes)
                for i, (x, y, w, t) in enumerate(boxes):
                    assert not any(x < x2 + w2 and x2 < x + w and y < y2 + t2 and y2 < y + t for x2, y2, w2, t2 in boxes[:i]), (stream.name, kind.id)
                wide, high = (float(root.attrib[k]) for k in ("width", "height"))
                assert all(x >= 0 and y >= 0 and x + w <= wide and y + t <= high for x, y, w, t in boxes)


def test_several_targets_have_an_index() -> None:
    failed = not_judged(LoadError("a model", "none", file="m.py", line=3), Request("broken.py", root="/"))
    read = page(several([report_of(h.pre()), report_of(h.none()), failed]))
    assert {"target-1", "target-2", "target-3"} <= set(read.ids) & set(read.links)
    assert "broken.py" in read.words and read.tags["nav"] == 1 and read.faults == []
    assert page(report_of(h.pre())).tags["nav"] == 0


def test_what_was_measured_is_drawn_in_the_page() -> None:
    numbers: dict[str, int | float | str] = {f"at_{n}": float(n) for n in (4, 8, 16)}
    what = "rms <b>, exponent of n"
    measured = [ExperimentPart(name=n, what=what, measured=1.0, outcome="observed", numbers=numbers) for n in ("depth", "width")]
    probe = ProbePart(device="cpu", dtype="float32", seed=0, experiments=measured)
    report = report_of(h.pre())
    read = page(several([r.model_copy(update={"probe": probe}) for r in (report, report)]))
    assert read.faults == [] and max(read.ids.values()) == 1
    assert read.tags["svg"] == 2 * (len(report.streams[0].kinds) + 2)


def test_lines_of_code_are_data_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("\n".join(f"line {n} <b>" for n in range(1, 31)))
    place = Place(9, "blocks.3.nonorm", str(tmp_path / "model.py"), 19)
    facts, info = replace(h.pre(), hollow=(HollowNorm("it only multiplies", place),)), h.TargetInfo()
    run = run_rules(facts)
    report = assemble(facts, run, fold(facts, run, info), info, Request("model.py", root=str(tmp_path)))
    found = next(f for f in report.findings if f.code == "G105")
    assert found.excerpt == [(n, f"line {n} <b>") for n in range(17, 22)]
    assert "<mark>line 19 &lt;b&gt;</mark>" in render(report, "html")
    assert all(not f.excerpt for f in report.findings if f.outcome in ("holds", "not_applicable"))
    assert Report.model_validate_json(report.to_json()) == report


def test_only_code_below_the_working_directory_is_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "project", tmp_path / "secret.py"
    inside.mkdir()
    outside.write_text("secret\n")
    (inside / "notes.txt").write_text("secret\n")
    (inside / "link.py").symlink_to(inside / "notes.txt")
    (inside / "long.py").write_text("x" * 999 + "\n\nend")
    root = str(inside)
    strange = ("../secret.py", "sub/../../secret.py", "<string>", "", "\0.py")
    for file in (*strange, *map(str, (outside, inside, inside / "notes.txt", inside / "link.py"))):
        assert excerpt(file, 1, root) == []
    assert excerpt("long.py", 1, root) == [(1, "x" * LONGEST), (2, ""), (3, "end")]
    assert excerpt("long.py", 0, root) == excerpt("long.py", 4, root) == excerpt("none.py", 1, root) == []
