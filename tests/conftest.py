"""The table of the zoo: rows come from the tests (of every xdist worker) as properties, shares are checked when all have run."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from screen.errors import SWALLOWED
from tests.days import VARIABLE, WHOLE, of_the_day, today
from tests.warm import Warm, close
from tests.zoo import Row, counts, table
from tests.zoo_score import LABELS, OTHERS, PLACEMENTS, Score, labels

settings.register_profile("seeded", derandomize=True)  # the same examples each time
settings.load_profile("seeded")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: two workers on two cores, and small tensors are faster on one thread
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so starts what a shell runs in the background, and the commands under test would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

sys.dont_write_bytecode = True  # tests write files of one name and size within a second, and Python would believe what it compiled of the one before

ROWS = pytest.StashKey[list[Row]]()
FAULTS = pytest.StashKey[list[str]]()
PLACEMENTS_RIGHT = 0.98
"""Share of sublayer placements that must be right (the others `unknown`, never wrong)."""
OTHERS_RIGHT = 0.97
"""Share that each other field must reach."""
COLLECT = (50_000, 10, 10)
"""New objects before garbage is collected. At Python's own 700 a fifth of all time goes into walking what torch and transformers have made."""


@pytest.fixture(autouse=True)
def _no_swallowed_exceptions(request: pytest.FixtureRequest) -> Iterator[None]:
    """An exception of ours that a calculus, a rule or the pipeline turned into a reason fails the test, unless the test makes one on purpose."""
    SWALLOWED.clear()
    yield
    if request.node.get_closest_marker("faults") is None:
        assert not SWALLOWED, f"swallowed: {dict(SWALLOWED)}"


@pytest.fixture(autouse=True)
def _same_process() -> Iterator[None]:
    """Building a file puts its folder on `sys.path`; a child that a later test starts must not find that test's files there. And the command line
    collects garbage rarely, as a process may that ends soon."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    gc.set_threshold(*COLLECT)


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that this process runs share one child (`tests/warm.py`)."""
    monkeypatch.setattr("screen.command.commands.Host", Warm)
    monkeypatch.setattr("screen.child.host.Host", Warm)


def pytest_report_header() -> str:
    day = today()
    what = "all" if day == WHOLE else f"a twentieth of each file's ({VARIABLE}={WHOLE}: all)"
    return f"{VARIABLE}={day}: of the tests marked `by_the_day` {what}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests of other days out, but for what is named by its file."""
    if any(".py" in argument for argument in config.args):
        return
    sweeps: dict[str, list[str]] = {}
    for item in items:
        if item.get_closest_marker("by_the_day"):
            sweeps.setdefault(item.nodeid.split("::")[0], []).append(item.nodeid)
    others = {name for sweep in sweeps.values() for name in set(sweep) - of_the_day(sweep, today())}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
    items[:] = [item for item in items if item.nodeid not in others]


def pytest_collection_finish() -> None:
    """What the modules of all tests hold stays until the end: no collection need walk it."""
    gc.freeze()
    gc.set_threshold(*COLLECT)


def pytest_configure(config: pytest.Config) -> None:
    today()  # before workers start, which inherit it
    config.stash[ROWS], config.stash[FAULTS] = [], []
    config.pluginmanager.register(_Collector(config.stash[ROWS]))


class _Collector:
    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "call" else ():
            if name == "zoo":
                data = json.loads(str(value))
                self.rows.append(Row(**{**data, "scores": [Score(**s) for s in data["scores"]]}))


def faults(rows: list[Row]) -> list[str]:
    """What falls short, in words. Shares are checked only when every label ran."""
    if not LABELS.exists() or len({row.id for row in rows}) < len(labels()):
        return []
    found = []
    for name, fields, least in [("placements", PLACEMENTS, PLACEMENTS_RIGHT), *((n, (n,), OTHERS_RIGHT) for n in OTHERS)]:
        result = counts(rows, fields)
        share = result["right"] / sum(result.values())
        if share < least:
            found.append(f"zoo: {name} {share:.1%} right, at least {least:.0%} are required")
    return found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail the session when the shares fall short (in the process that prints, not in a worker)."""
    close()
    if not hasattr(session.config, "workerinput"):
        session.config.stash[FAULTS] = faults(session.config.stash[ROWS])
        if session.config.stash[FAULTS] and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if rows := sorted(config.stash[ROWS], key=lambda row: row.id):
        terminalreporter.section("zoo")
        terminalreporter.write_line(table(rows))
    for line in config.stash[FAULTS]:
        terminalreporter.write_line(line, red=True)
