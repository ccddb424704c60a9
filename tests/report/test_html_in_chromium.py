"""The page in a real browser: nothing is asked for or logged, pictures and text are there to be seen, wide and narrow, light and dark."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

import screen
from screen.errors import LoadError
from screen.report import plots, render
from screen.report.build import Request, not_judged, several
from screen.report.schema import ExperimentPart, ProbePart, Report
from tests import handmade as h
from tests.report import chromium
from tests.report.test_html import CORPUS
from tests.report.test_report import evil_report, full, report_of
from tests.shared import ROOT

pytestmark = [
    pytest.mark.by_the_day,
    pytest.mark.skipif(chromium.CHROMIUM is None, reason="no Chromium is on the PATH: " + ", ".join(chromium.NAMES)),
]
WIDE, PHONE = 1200, 375


def measured(report: Report) -> Report:
    """With two laws that have plots."""
    numbers: dict[str, int | float | str] = {f"at_{n}": float(n) for n in (4, 8, 16)}
    parts = [ExperimentPart(name=n, what="rms, exponent of n", measured=1.0, outcome="observed", numbers=numbers) for n in ("depth", "width")]
    return report.model_copy(update={"probe": ProbePart(device="cpu", dtype="float32", seed=0, experiments=parts)})


def long_names(report: Report) -> Report:
    """Names, messages and paths without a place to break."""
    word = "a" * 300
    findings = [f.model_copy(update={"message": word, "plain": word, "module": word, "file": f"{word}.py", "remedy": word}) for f in report.findings]
    return report.model_copy(update={
        "findings": findings, "summary": word, "target": report.target.model_copy(update={"spec": f"{word}.py", "notes": [word]}),
        "channels": [c.model_copy(update={"reason": word}) for c in report.channels],
    })  # fmt: skip


def failed() -> Report:
    return not_judged(LoadError("a model must be importable", "it raised `ValueError`", file="m.py", line=3), Request("broken.py", root="/"))


def slip() -> Report:
    """With lines of code."""
    return screen.check(f"{ROOT}/examples/slips/norm_of_the_sum.py::Slip", isolate=False)


PAGES: dict[str, Any] = {
    "stable": lambda: report_of(h.peri()),
    "slip": slip,
    "unknown": lambda: report_of(h.unknown()),
    "streams and plots": lambda: measured(report_of(h.encoder_decoder())),
    "full": lambda: report_of(full()),
    "failed": failed,
    "several": lambda: several([report_of(h.pre()), measured(report_of(h.none())), failed(), report_of(h.llama())]),
    "hostile": evil_report,
    "long names": lambda: long_names(report_of(h.pre())),
}


@functools.cache
def made(name: str) -> Any:
    return PAGES[name]()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def page(folder: Path, name: str) -> Path:
    path = folder / f"{name.replace(' ', '-')}.html"
    path.write_text(render(made(name), "html"), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), [(WIDE, False), (PHONE, True)], ids=["wide, light", "phone, dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_as_it_is_shown(folder: Path, name: str, width: int, dark: bool) -> None:
    shown = chromium.show(page(folder, name), width, dark=dark)
    facts = shown.facts
    assert shown.console == [] and facts["asked"] == []
    assert (facts["width"], facts["dark"]) == (width, dark)
    assert facts["scrolls"] <= width and facts["wide"] == []  # to its side nothing scrolls but tables, code and pictures of their own
    assert facts["words"] > 8 and facts["pale"] == [] and facts["squeezed"] == []
    reports = getattr(made(name), "reports", [made(name)])
    assert len(facts["blocks"]) == sum(len(stream.kinds) for report in reports for stream in report.streams)
    for block in facts["blocks"]:
        left, top, wide, high = block["box"]
        assert wide > 100 and high > 30 and len(block["parts"]) > 2
        for x, y, w, t in [*block["parts"], *block["names"]]:  # every box and every name is inside of its picture
            assert w > 0 and t > 0 and left <= x and top <= y and x + w <= left + wide + 1 and y + t <= top + high + 1
    assert len(facts["plots"]) == sum(2 for report in reports if report.probe is not None and plots.can_draw())
    assert all(plot["box"][2] > 200 and plot["box"][3] > 100 and plot["marks"] > 5 for plot in facts["plots"])
    flat = "".join(facts["text"].split())
    for finding in [f for report in reports for f in report.findings if f.outcome in ("violated", "conditional") and name != "hostile"]:
        assert f"{finding.code}{finding.name}" in flat


def test_what_a_page_must_not_do_is_seen(folder: Path) -> None:
    """Each of the checks above has something to find."""
    path = folder / "bad.html"
    text = render(made("stable"), "html").replace(
        "<main>", '<main><img src="http://nowhere.invalid/x.png"><p style="width: 2000px; color: #999">wide</p>'
    )
    path.write_text(text.replace("svg.block rect,", "svg.block { display: none } svg.block rect,"), encoding="utf-8")
    shown = chromium.show(path, WIDE)
    assert any("Content Security Policy" in line for line in shown.console)
    assert shown.facts["asked"] == ["http://nowhere.invalid/x.png"] and shown.facts["scrolls"] > WIDE
    assert len(shown.facts["wide"]) == 1 and shown.facts["pale"][0][2] == "wide"
    assert shown.facts["blocks"][0]["box"][2:] == [0, 0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_picture_of_the_page_is_not_blank(folder: Path, dark: bool) -> None:
    image = pytest.importorskip("PIL.Image")
    target = folder / f"page-{dark}.png"
    chromium.picture(page(folder, "several"), target, WIDE, 2400, dark=dark)
    with image.open(target) as opened:
        colours = opened.convert("RGB").resize((60, 120)).getcolors(maxcolors=7200)
        assert opened.size == (WIDE, 2400) and len(colours) > 50
        most = max(colours)[1]
    assert (max(most) < 60) is dark


def test_the_corpus_is_text_to_a_browser(folder: Path) -> None:
    """Names that are markup, links and commands elsewhere: no element, no request, no script."""
    report = report_of(h.pre())
    findings = [
        report.findings[0].model_copy(update={"message": evil, "plain": evil, "module": evil, "remedy": evil, "outcome": "violated", "line": n})
        for n, evil in enumerate(CORPUS)
    ]
    path = folder / "corpus.html"
    path.write_text(render(report.model_copy(update={"findings": findings}), "html"), encoding="utf-8")
    shown = chromium.show(path, PHONE)
    assert shown.console == [] and shown.facts["asked"] == [] and shown.facts["scrolls"] <= PHONE
