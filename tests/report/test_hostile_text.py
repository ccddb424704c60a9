"""Names and messages from user code are text in every format: the corpus is `tests/hostile`, one JSON string a file.

Each is put into everything of a saved report that may come from the model, its file, its exceptions or its settings, and every format is read as its
reader reads it: a terminal, a log of GitHub or Azure, GitHub's Markdown, a browser, a parser of JSON or XML."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from screen.command import console
from screen.errors import LoadError
from screen.report import render
from screen.report.schema import Report
from screen.visible import HIDDEN, clean
from tests.report.test_report import full, report_of

CORPUS = {path.stem: str(json.loads(path.read_text(encoding="utf-8"))) for path in sorted((Path(__file__).parents[1] / "hostile").glob("*.json"))}
THEIRS = frozenset({
    "module", "message", "plain", "remedy", "reason", "summary", "op", "container", "modules_uncalled", "assumed", "theorem", "assumptions", "text",
    "stated", "path", "branch", "symbols", "file", "rule", "breaks", "maps",
})  # fmt: skip
"""Keys whose values hold names of the model, its files and its exceptions; a rule that did not run tells what it raised."""
WORD = "word"
"""What stands in a report that is compared with."""
FREE = ("long", "long-lines", *(name for name, text in CORPUS.items() if text.count("`") % 2 or "``" in text))
"""Texts that are longer than a line of a table, and those that put other words of a report between backticks, after which it is grouped."""


def _put(value: Any, text: str, theirs: bool = False) -> Any:
    """The value with the text in every word that is not ours."""
    if isinstance(value, str):
        return f"{text} {value}" if theirs and value else value
    if isinstance(value, list):
        return [_put(item, text, theirs) for item in value]
    if isinstance(value, dict):
        return {name: _put(item, text, name in THEIRS or (theirs and not name.endswith("kind"))) for name, item in value.items()}
    return value


@cache
def _saved() -> dict[str, Any]:
    """A report with one of each outcome and each channel, and few of anything else: the corpus is long."""
    data = report_of(full()).model_dump(mode="json")
    first = {(f["outcome"], f["severity"]): f for f in reversed(data["findings"])}
    data["findings"], data["claims"] = list(first.values()), data["claims"][:12]
    data["streams"][0]["kinds"] = data["streams"][0]["kinds"][:1]
    return data


@cache
def _report(text: str) -> Report:
    """A report with the text everywhere; as a file's name, a key of a config, a setting and an exception too."""
    data = _put(_saved(), text)
    data["target"].update(spec=f"{text}.py::{text}", name=text, model_class=text, changed={text: [text, text]}, options=["--set", text], notes=[text])
    data["error"] = {"stage": "load", "message": f"it raised `{text}: {text}`; {text}", "file": text, "line": 3}
    data["settings"] = {"trusted": None, "of_tree": {"ignore": text, "fail-on": text}}
    data["recipe"] = {"values": {"optimizer": text}, "origins": {"optimizer": text}, "unused": [text], "sources": {}, "derived": {}}
    for finding in data["findings"]:
        finding.update(file=text, excerpt=[[3, text]])
    return Report.model_validate(data)


def _hidden(text: str) -> list[str]:
    stacked = ["marks"] if re.search("[\u0300-\u036f]{5}", text) else []
    empty = "\u034f\u115f\u1160\u2800\u3164\ufe0f\uffa0\U000e0100"
    return stacked + [f"U+{ord(c):04X}" for c in text if (c != "\n" and unicodedata.category(c) in HIDDEN) or c in empty]


def _commands(text: str) -> list[str]:
    """Lines that a runner of GitHub or Azure takes for a command, as it finds them."""
    return [line for line in text.split("\n") if re.match(r"\s*::.*::", line) or re.search(r"##\w*\[", line)]


class _Page(HTMLParser):
    """Tags, and what could do something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.active: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.active += [f"<{tag}>"] if tag in ("script", "img", "iframe", "object", "embed", "base", "form", "link") else []
        self.active += [f"{tag} {name}={value}" for name, value in attributes if name.startswith("on") or name == "style"]
        self.active += [f"{tag} {name}={value}" for name, value in attributes if name in ("href", "src") and not (value or "").startswith("#")]


def _text(text: str, plain: str, name: str) -> None:
    assert not _commands(text)
    assert name in FREE or text.count("\n") == plain.count("\n")


def _github(text: str, plain: str, name: str) -> None:
    lines = text.split("\n")
    assert len(lines) == plain.count("\n") + 1
    assert len([line for line in lines if line.startswith("::")]) == len(_commands(text)) == len(_commands(plain))
    assert all(re.match(r"::(error|warning|notice) file=[^:,]*,line=\d+,title=screen [\w-]+ [\w-]+::", line) for line in _commands(text))


def _markdown(text: str, plain: str, name: str) -> None:
    pictures = re.compile(r"^```(?:mermaid|math)\n.*?^```$", re.DOTALL | re.MULTILINE)
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    read, compared = (parser.parse(pictures.sub("", whole)) for whole in (text, plain))
    kinds, expected = ([t.type for t in tokens if t.type.endswith("_open")] for tokens in (read, compared))
    assert name in FREE or kinds == expected
    assert name in FREE or len(pictures.findall(text)) == len(pictures.findall(plain))
    inner = [child for t in read for child in t.children or ()]
    assert not [t for t in inner if t.type == "image" or (t.type == "link_open" and not str(t.attrs["href"]).startswith("#"))]
    assert not [t for t in inner if t.type in ("em_open", "strong_open", "s_open") and name in t.content]
    html = [t.content for t in [*read, *inner] if t.type in ("html_inline", "html_block")]
    tags = {tag for content in html for tag in re.findall(r"</?(\w+)", content)}
    assert tags <= {"details", "summary", "code", "b", "a", "br", "table", "tr", "td", "pre", "sub", "em", "strong"}, tags
    assert not [content for content in html if re.search(r"<!--(?! -->)|<[^>]*\son\w+=|href=\"(?!#)", content)]
    seen = [t.content for t in inner if t.type == "text"] + [re.sub(r"<code>.*?</code>|<[^>]*>|&#?\w+;", "\0", content) for content in html]
    assert not [word for word in seen if re.search(r"@\w|(?<!&)#\d|://|www\.|GH-\d|mailto:\w|[!%&~$]\d", word)]


def _html(text: str, plain: str, name: str) -> None:
    page, compared = _Page(text), _Page(plain)
    assert page.active == compared.active
    for free in ("code", "a"):  # pairs of backticks, and words of the glossary
        page.tags[free] = compared.tags[free] = 0
    assert name in FREE or page.tags == compared.tags


def _json(text: str, plain: str, name: str) -> None:
    assert not _commands(text)
    assert text.isascii() and _shape(json.loads(text)) == _shape(json.loads(plain))


def _sarif(text: str, plain: str, name: str) -> None:
    _json(text, plain, name)
    assert not re.search(r'"text": ".*(\]\(|\{\d)', text)


def _junit(text: str, plain: str, name: str) -> None:
    read, compared = (JUnitXml.fromstring(whole.encode()) for whole in (text, plain))
    assert [len(list(suite)) for suite in read] == [len(list(suite)) for suite in compared]


def _shape(value: Any) -> Any:
    """A document without its words; keys that come from a model are words too."""
    if isinstance(value, dict):
        return [_shape(item) for _, item in sorted(value.items(), key=lambda pair: len(pair[0]) if "::" in pair[0] else 0)]
    return [_shape(item) for item in value] if isinstance(value, list) else type(value).__name__


READERS = {
    "text": _text, "quiet": _text, "verbose": _text, "concise": _text, "github": _github, "markdown": _markdown, "short": _markdown, "html": _html,
    "json": _json, "gitlab": _json, "sarif": _sarif, "junit": _junit,
}  # fmt: skip
OPTIONS = {"quiet": ("text", {"quiet": True}), "verbose": ("text", {"verbose": True}), "short": ("markdown", {"short": True})}


@cache
def _plain(form: str) -> str:
    return _rendered(WORD, form)


def _rendered(text: str, form: str) -> str:
    format, options = OPTIONS.get(form, (form, {}))
    return render(_report(text), format, **options)


def test_the_corpus_is_large() -> None:
    assert len(CORPUS) >= 60


@pytest.mark.by_the_day
@pytest.mark.parametrize("name", CORPUS)
def test_text_from_user_code_is_neutral_in_every_format(name: str) -> None:
    faults = []
    for form, read in READERS.items():
        made = _rendered(CORPUS[name], form)
        try:
            assert not _hidden(made)
            read(made, _plain(form), name)
        except AssertionError as fault:
            faults.append(f"{form}: {str(fault)[:600]}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", CORPUS)
def test_an_error_is_one_line_that_commands_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    monkeypatch.setattr(console, "verbose", True)
    kind = type(clean(CORPUS[name])[:50] or "Odd", (Exception,), {})
    console.about(LoadError(CORPUS[name], CORPUS[name], CORPUS[name], details=f"Traceback\n{CORPUS[name]}"))
    console.about(kind(CORPUS[name]))
    console.block(CORPUS[name])
    text = said.getvalue()
    assert text.startswith("error: ") and not _hidden(text) and not _commands(text)
    assert text.split("\n")[1] == "Traceback"


def test_what_may_stand_in_a_line_stands_as_it_is() -> None:
    for text in ("model.py::Net", "a ∘ b · ‖x‖", "naïve 模型", "nai\u0308ve", "x ## y", "[bold]", "100 %", "{0}", "x!"):
        assert clean(text) == text
