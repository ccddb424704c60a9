"""The report as one page that needs nothing else: no network, no script, style and pictures inside of it, light or dark as the reader's system is.

It says what `screen.report.answer` says first, then findings with their lines of code, pictures of blocks and of what was measured; claims, bounds
and tables are folded. Jinja escapes every value, and control signs are shown as escapes first; a policy in the page forbids scripts and requests.
"""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from screen.report import derived, groups, plots, probe, words
from screen.report.answer import answer
from screen.report.escape import parts
from screen.report.links import Links
from screen.report.picture import draw
from screen.report.schema import KindPart, ProbePart, Report, Reports, StreamPart
from screen.report.svg import svg
from screen.verdict.channels import CHANNELS
from screen.visible import clean

PICTURES = 12
"""Kinds per stream that get a picture; the others are named."""


def render(report: Report | Reports, **_: object) -> str:
    """The page; there are no options."""
    links = Links()
    reports = report.reports if isinstance(report, Reports) else [report]
    made = _template().render(
        whole=report, models=[(one, answer(one)) for one in reports], several=isinstance(report, Reports), links=links, words=words, derived=derived,
        groups=groups, probe=probe, channels=CHANNELS, pictures=PICTURES, block=_block, plots=_plots, plain=_plain,
        linked=lambda value: _prose(value, links), prose=_prose, letter=lambda word: _letter(word, links), where=_where,
    )  # fmt: skip
    return re.sub(r"\n\s*\n+", "\n", made).strip() + "\n"


def _prose(value: object, links: Links | None = None) -> Markup:
    """Text whose `…` is code; with `links` words lead to their entry."""

    def plain(part: str) -> str:
        return str(escape(clean(part)))

    def code(part: str) -> str:
        return f"<code>{plain(part)}</code>"

    if links is None:
        return Markup("".join(code(part) if inside else plain(part) for inside, part in parts(value)))
    return Markup(links.joined(parts(value), plain, code, lambda shown, anchor: f'<a href="#{anchor}">{shown}</a>'))


def _letter(word: str, links: Links) -> Markup:
    return Markup('<a href="#{}">{}</a>').format(links.letter(word), word)


def _where(part: object) -> str:
    file, line = getattr(part, "file", None), getattr(part, "line", None)
    return f"{file}:{line}" if file and line else file or getattr(part, "module", None) or "?"


def _block(stream: StreamPart, kind: KindPart) -> Markup:
    return Markup(svg(draw(stream, kind)))


def _plots(measured: ProbePart, page: int) -> list[tuple[str, Markup]]:
    """(title, picture) of what was measured, where it can be drawn. Names inside of a picture are made its own, as all stand in one page."""
    found = []
    for number, (_, title, picture) in enumerate(plots.pictures(measured) if plots.can_draw() else []):
        inner = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", picture[picture.index("<svg") :], flags=re.DOTALL)
        own = f"p{page}-{number}-"
        inner = re.sub(r'(\bid="|url\(#|xlink:href="#)', lambda m, own=own: m[1] + own, inner)  # type: ignore[misc]  # mypy does not see defaults
        found.append((title, Markup(inner)))
    return found


def _plain(expression: str) -> str:
    """SymPy is loaded for the first one."""
    from screen.report.printers import plain

    return expression if expression == "infinite" else plain(expression)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("screen.report"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else clean(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


__all__ = ["render"]
