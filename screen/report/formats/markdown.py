"""The report as Markdown (GitHub's), with a Mermaid picture of each block kind.

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
from screen.report.escape import Safe, code, html, text
from screen.report.graph import mermaid
from screen.report.picture import draw
from screen.report.schema import ErrorPart, FindingPart, GuessPart, KindPart, Report, Reports, Source, StreamPart
from screen.report.words import clean
from screen.verdict.channels import CHANNELS

PICTURES = 12
"""Kinds per stream that get a picture; the others are named."""


def render(report: Report | Reports, *, plots: Sequence[probe.Pictures] = (), **_: object) -> str:
    """The report as Markdown. `plots`: for each model the pictures of what was measured, files beside the report."""
    if isinstance(report, Report):
        return _one(report, 1, *plots[:1])
    models = [_one(r, 2, *plots[i : i + 1]) for i, r in enumerate(report.reports)]
    return "\n".join([f"# {report.verdict.capitalize()}: {len(report.reports)} targets\n", *models])


def render_probe(reports: list[Report], *, pictures: Sequence[probe.Pictures] = (), **_: object) -> str:
    """A section for each model that was measured. `pictures`: those of each model, files beside the page."""
    made = []
    for place, report in enumerate(reports):
        lines = probe.markdown(report.probe, pictures[place] if pictures else ()) if report.probe else []
        made.append(f"# Probe of `{clean(report.target.spec)}`\n\n" + "\n".join(lines) + "\n" if lines else "")
    return "\n".join(made)


def _one(report: Report, level: int, plots: probe.Pictures = ()) -> str:
    formulas = {written for stream in report.streams for kind in stream.kinds for s in kind.sublayers for _, written in derived.expressions(s)}
    made = _template().render(
        report=report, words=words, derived=derived, groups=groups, probe=probe, channels=CHANNELS,
        h1=Safe("#" * level), h2=Safe("#" * (level + 1)), mermaid=_mermaid,
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
