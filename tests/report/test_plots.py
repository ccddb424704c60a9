"""Pictures of what was measured: what is in them, that they are the same every time, and where they are written."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from screen.command.cli import main
from screen.report import plots
from screen.report.plots.data import ROWS, series, sheets
from screen.report.schema import ExperimentPart, ProbePart
from tests.shared import ROOT

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.by_the_day]

PRE = str(ROOT / "examples" / "pre.py")


def part(name: str, what: str, **fields: Any) -> ExperimentPart:
    return ExperimentPart(name=name, what=what, **{"outcome": "confirmed", "stream": "stream", "kind": "k0", **fields})


LAW = {"at_4": 2.0, "at_16": 4.0, "at_8": 2.83, "law": "power law"}
DEPTH = [
    part("depth", "rms of the stream, exponent of depth", measured=0.5, numbers=LAW),
    part("depth", "rms of the stream, 16 blocks", measured=4.0, predicted=4.4),
]
SUM = {"ratio_0": 5.0, "lost_0": 0.01, "low_0": 0.005, "high_0": 0.02, "ratio_3": 40.0, "lost_3": 0.1, "low_3": 0.05, "high_3": 0.2}
PARTS = [
    *DEPTH,
    part("invariance", "exponent", sublayer="ffn", group="h.0.up.weight", predicted=1.0, measured=1.0),
    part("invariance", "exponent", sublayer="ffn", group="h.0.a$b<c>\u202e", predicted=1.0, measured=0.2, outcome="refuted"),
    part("bounds", "largest ‖J‖ over its bound", sublayer="ffn", predicted="at most 1", measured=0.3),
    part("precision", "share of the branch that the sum loses, float16", sublayer="ffn", predicted="0.005 to 0.02", measured=0.01, numbers=SUM),
    part("precision", "largest rms, float16", predicted="at least 3.72e+03", measured=14900.0),
    part("stress", "loss", measured="nan", numbers={"at_0": 4.0, "at_100": "nan", "at_200": 3.0}),
]


def probe(parts: list[ExperimentPart] = PARTS) -> ProbePart:
    return ProbePart(device="cpu", dtype="float64", seed=0, experiments=parts)




def test_series_are_in_the_order_of_their_numbers() -> None:
    assert list(series(DEPTH[0]).items()) == [(4.0, 2.0), (8.0, 2.83), (16.0, 4.0)]
    assert list(series(PARTS[-1])) == [0.0, 200.0]  # what is not finite is left out


def test_a_law_has_its_points_its_line_and_its_prediction() -> None:
    (sheet,) = sheets(probe(DEPTH))
    panel = sheet.panels[0]
    measured, fitted, predicted = panel.curves
    assert panel.title == "rms of the stream" and panel.log_x and panel.log_y
    assert measured.x == (4.0, 8.0, 16.0) and measured.y == (2.0, 2.83, 4.0)
    assert fitted.y == pytest.approx((2.0, 2.83, 4.0), rel=1e-2) and "0.50" in fitted.label
    assert (predicted.x, predicted.y) == ((16.0,), (4.4,))
    assert [(r.predicted, r.measured) for r in sheet.panels[1].rows] == [(4.4, 4.0)]


def test_an_exponential_is_fitted_as_one() -> None:
    numbers = {"at_4": 1.0, "at_8": 10.0, "at_12": 100.0, "law": "exponential"}
    (sheet,) = sheets(probe([part("depth", "rms of the stream, exponent of depth", measured=3.0, numbers=numbers)]))
    assert sheet.panels[0].curves[1].y == pytest.approx((1.0, 10.0, 100.0)) and "exp" in sheet.panels[0].curves[1].label


def test_what_is_compared_stands_in_rows() -> None:
    found = {sheet.name: sheet for sheet in sheets(probe())}
    assert list(found) == ["depth", "invariance", "bounds", "precision", "stress"]
    rows = found["invariance"].panels[0].rows
    assert [r.refuted for r in rows] == [False, True] and rows[0].label == "ffn 0.up.weight"
    assert found["bounds"].panels[0].limit == 1.0 and found["bounds"].panels[0].rows[0].label == "ffn ‖J‖"
    share, least = found["precision"].panels[:2]
    assert share.curves[0].band == ((0.005, 0.05), (0.02, 0.2))
    assert least.rows[0].predicted == 3720.0 and least.rows[0].at_least


def test_many_rows_are_cut_and_counted() -> None:
    many = [part("invariance", "exponent", group=f"w{i}", predicted=1.0, measured=1.0) for i in range(ROWS + 5)]
    panel = sheets(probe(many))[0].panels[0]
    assert len(panel.rows) == ROWS and panel.left_out == 5


def test_a_kind_that_is_not_alone_is_named() -> None:
    two = [part("bounds", "b", kind=kind, predicted="at most 1", measured=0.5) for kind in ("k0", "k1")]
    assert [r.label for r in sheets(probe(two))[0].panels[0].rows] == ["k0 b", "k1 b"]


def test_nothing_to_show_is_no_picture() -> None:
    assert sheets(probe([part("start", "rms", measured=1.0)])) == []


def test_pictures_are_the_same_every_time_and_whatever_the_settings() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    first = plots.pictures(probe())
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "other", "axes.facecolor": "red"}):
        assert plots.pictures(probe()) == first
    assert len(first) == 5
    for _, _, svg in first:
        root = ET.fromstring(svg)
        assert root.tag.endswith("svg") and "<dc:date>" not in svg
        assert "\u202e" not in svg


def test_measured_and_predicted_differ_without_colour() -> None:
    """In grey: the marks of what is measured, predicted and refuted have different shapes."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from screen.report.plots import draw

    ax = Figure().subplots()
    sheet = next(s for s in sheets(probe()) if s.name == "invariance")
    draw._rows(ax, sheet.panels[0])
    marks = {str(line.get_label()): line.get_marker() for line in ax.lines if not str(line.get_label()).startswith("_")}
    assert set(marks) == {"predicted", "measured", "refuted"} and len(set(marks.values())) == 3


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report with something measured, without measuring it."""
    from screen.pipeline import stages as pipeline

    real = pipeline.with_probe
    monkeypatch.setattr(pipeline, "with_probe", lambda *args: real(*args).model_copy(update={"probe": probe()}))


@pytest.mark.usefixtures("quick")
def test_files_lie_beside_the_report_and_are_linked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "a report.md"
    common = ["--device", "cpu", "--probe-seconds", "0.001"]
    assert main(["check", PRE, "--probe", *common, "--report", f"markdown={target}", "-q"]) == 0
    text = target.read_text()
    for name in ("depth", "bounds", "precision"):
        assert (tmp_path / f"a report.{name}.svg").is_file() and f"(a%20report.{name}.svg)" in text
    assert "at\\_4 2, at\\_8 2.83, at\\_16 4" in text  # the same numbers in a table
    other = tmp_path / "probe.md"
    main(["probe", PRE, *common, "--format", "markdown", "-o", str(other)])
    assert "(probe.depth.svg)" in other.read_text() and (tmp_path / "probe.depth.svg").is_file()
    capsys.readouterr()


@pytest.mark.usefixtures("quick")
def test_no_file_is_written_with_markdown_on_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", PRE, "--probe", "--device", "cpu", "--probe-seconds", "0.001", "--format", "markdown"]) == 0
    out, err = capsys.readouterr()
    assert "![" not in out and "More numbers" in out and not list(tmp_path.iterdir()) and "matplotlib" not in err


@pytest.mark.usefixtures("quick")
def test_without_matplotlib_the_report_is_written_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plots, "can_draw", lambda: False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    target = tmp_path / "r.md"
    assert main(["check", PRE, "--probe", "--device", "cpu", "--probe-seconds", "0.001", "--report", f"markdown={target}", "-q"]) == 0
    assert "pip install 'archscreen[plots]'" in capsys.readouterr().err
    assert "![" not in target.read_text() and not list(tmp_path.glob("*.svg"))
