"""The report as Markdown (GitHub's): what `screen.report.answer` says, findings, then tables, with a Mermaid picture of each block kind.

Every value that the template prints is escaped, unless a filter says what it is instead: `code` (a code span) or `html` (inside an HTML
element). A name from the model can therefore never become markup. Formulas are LaTeX (`screen.report.printers`): a `math` fence for each, which
GitHub renders without reading underscores or bars as its own, and $`…`$ in a line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from screen.report import derived, groups, probe, words
from screen.report.answer import answer
from screen.report.escape import Safe, code, html, linked, text
from screen.report.graph import mermaid
from screen.report.links import Links
from screen.report.picture import draw
from screen.report.schema import ErrorPart, FindingPart, GuessPart, KindPart, Report, Reports, Source, StreamPart
from screen.verdict.channels import CHANNELS
from screen.visible import clean

PICTURES = 12
"""Kinds per stream that get a picture; the others are named."""


LIMIT = 65_536
"""Characters of a comment or an issue on GitHub."""
CUT = "\n\n*Cut here: the whole report is longer than what GitHub takes.*\n"


def render(report: Report | Reports, *, plots: Sequence[probe.Pictures] = (), short: bool = False, **_: object) -> str:
    """The report as Markdown. `plots`: for each model the pictures of what was measured, files beside the report. `short`: without tables and
    details, and never longer than `LIMIT`."""
    links = Links()
    if isinstance(report, Report):
        made = _one(report, 1, links, *plots[:1], short=short)
    else:
        models = [f'<a id="target-{i + 1}"></a>\n\n' + _one(r, 2, links, *plots[i : i + 1], short=short) for i, r in enumerate(report.reports)]
        made = "\n".join([_summary(report, len(models)), *models])
        if short and len(made) > LIMIT:
            made = "\n".join([_summary(report, _cut(made).count('<a id="target-')), *models])
    if not short:
        return made + _words(links)
    return made if len(made) <= LIMIT else _cut(made)


def _cut(made: str) -> str:
    """Whole lines of a report up to what GitHub takes."""
    return made[: made.rindex("\n", 0, LIMIT - len(CUT))] + CUT


def _summary(report: Reports, there: int) -> str:
    """Several targets as one table whose names lead to their reports, as far as these are on the page: the first `there`."""
    lines = [f"# {report.verdict.capitalize()}: {len(report.reports)} targets", "", "| target | verdict | why |", "|---|---|---|"]
    for place, one in enumerate(report.reports, 1):
        name = f"[{code(one.target.spec)}](#target-{place})" if place <= there else code(one.target.spec)
        lines.append(f"| {name} | {words.headline(one)} | {text(answer(one).reason)} |")
    return "\n".join(lines) + "\n"


def _words(links: Links) -> str:
    """The entries of the glossary that the first screens lead to."""
    if not links.used:
        return ""
    entries = [f'- <a id="{anchor}"></a>**{text(term.name)}**: {text(term.text)}' for anchor, term in sorted(links.used.items())]
    return "\n".join(["\n## Words\n", *entries, "", "`screen explain TERM` prints an entry, and there are more of them.", ""])


def render_probe(reports: list[Report], *, pictures: Sequence[probe.Pictures] = (), short: bool = False, **_: object) -> str:
    """A section for each model that was measured. `pictures`: those of each model, files beside the page. `short`: without the folded numbers."""
    made = []
    for place, report in enumerate(reports):
        lines = probe.markdown(report.probe, pictures[place] if pictures else (), short=short) if report.probe else []
        made.append(f"# Probe of `{clean(report.target.spec)}`\n\n" + "\n".join(lines) + "\n" if lines else "")
    return "\n".join(made)


def _one(report: Report, level: int, links: Links, plots: probe.Pictures = (), *, short: bool = False) -> str:
    formulas = {written for stream in report.streams for kind in stream.kinds for s in kind.sublayers for _, written in derived.expressions(s)}
    made = _template().render(
        report=report, said=answer(report), words=words, derived=derived, groups=groups, probe=probe, channels=CHANNELS, short=short,
        h1=Safe("#" * level), h2=Safe("#" * (level + 1)), mermaid=_mermaid, linked=lambda value: linked(value, links),
        letter=lambda word: Safe(f"[{word}](#{links.letter(word)})"),
        where=_where, pictures=PICTURES, plots=plots, formulas=formulas,
    )
    return re.sub(r"\n{3,}", "\n\n", made).strip() + "\n"


def _mermaid(stream: StreamPart, kind: KindPart) -> Safe:
    return Safe(mermaid(draw(stream, kind)).rstrip())


def _latex(written: str) -> Safe:
    """SymPy is loaded for the first one."""
    from screen.report.printers import latex

    return Safe(latex(written))


def _math(written: str) -> Safe:
    """A formula in a line."""
    return Safe(f"$`{_latex(written)}`$")


def _where(part: Source | GuessPart | FindingPart | ErrorPart) -> Safe:
    if part.file:
        return code(f"{part.file}:{part.line}" if part.line else part.file)
    return code(getattr(part, "module", None) or "?")


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("screen.report"),
        autoescape=False,  # HTML's escaping would be wrong here; `finalize` escapes for Markdown
        finalize=text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(code=code, html=html, raw=Safe, latex=_latex, math=_math)
    return environment.get_template("report.md.j2")


__all__ = ["code", "html", "render", "text"]
