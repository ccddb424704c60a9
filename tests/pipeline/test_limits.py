"""Time and memory of the analysis: a graph that takes for ever, or everything, is one clear error."""

from __future__ import annotations

import itertools
import signal
import time
from dataclasses import replace

import pytest

from screen.child.protocol import Request
from screen.child.results import Capture, Progress, silent
from screen.errors import LimitError
from screen.pipeline import workers
from screen.pipeline.limits import Clock, OutOfTime
from screen.pipeline.stages import Job, Judged, unjudged


def _judged_by(monkeypatch: pytest.MonkeyPatch, judge: object, timeout: float = 0.2, memory: int = 0) -> Judged:
    monkeypatch.setattr(workers, "judge", judge)
    (found,) = workers.safely(Job(Request("model.py", timeout=timeout, memory=memory)), lambda request, progress: Capture((), None, ""), silent)
    return found


def _for_ever(*_: object) -> list[Judged]:
    for _step in itertools.count():
        try:
            sum(range(100))
        except Exception:  # what turns exceptions into reasons
            continue
    raise AssertionError


def test_an_analysis_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGALRM)
    found = _judged_by(monkeypatch, _for_ever)
    assert found.report.error is not None and found.report.error.stage == "limits" and "within 0.2 s" in found.report.error.message
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_analysis_that_takes_everything_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)

    def judge(*_: object) -> list[Judged]:
        return [unjudged(Job(Request("model.py")), LimitError("x", str(len([bytearray(1 << 26) for _ in range(64)]))))]

    found = _judged_by(monkeypatch, judge, 60.0, 256 << 20)
    assert found.report.error is not None and found.report.error.stage == "limits" and "--memory" in found.report.error.message
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_the_clock_stands_while_others_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capture keeps its own time, and what listens is not ours."""

    def judge(job: Job, capture: object, progress: Progress) -> list[Judged]:
        assert callable(capture)
        capture(job.request, progress)
        return [unjudged(job, LimitError("it", "ended"))]

    monkeypatch.setattr(workers, "judge", judge)

    def slow(request: Request, progress: Progress) -> Capture:
        progress("load")
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
        time.sleep(0.3)
        return Capture((), None, "")

    (found,) = workers.safely(Job(Request("model.py", timeout=0.2, memory=0)), slow, silent)
    assert found.report.error is not None and "ended" in found.report.error.message


def test_one_deadline_holds_for_captures_and_the_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[float] = []

    def judge(job: Job, capture: object, progress: Progress) -> list[Judged]:
        assert callable(capture)
        for request in (job.request, replace(job.request, timeout=20.0), replace(job.request, probe={})):
            capture(request, progress)
        return _for_ever()

    monkeypatch.setattr(workers, "judge", judge)

    def slow(request: Request, progress: Progress) -> Capture:
        spent.append(request.spent)
        return Capture((), None, "", seconds=59.9)

    (found,) = workers.safely(Job(Request("model.py", timeout=60.0, memory=0)), slow, silent)
    assert "must be judged within 60 s" in str(found.error)
    assert spent[0] < 1 and 19 < spent[1] <= 21 and spent[2] == 0.0  # of 20 seconds; a probe has its own


def test_out_of_time_is_no_exception_that_becomes_a_reason() -> None:
    assert not issubclass(OutOfTime, Exception)
    with pytest.raises(OutOfTime), Clock(0.05, 0).running():
        _for_ever()
