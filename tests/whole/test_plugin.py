"""A distribution with a rule, an op, targets and a format of its own: examples/plugin, installed as it stands; and rules that do not load."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import screen.plugins
from screen.command import cli
from screen.pipeline.stages import job_of
from screen.report.schema import Report
from screen.settings import load
from screen.verdict.discover import RESERVED, catalogue, collect
from tests.command.test_cli import MODEL
from tests.facts_reference import PAGE, page
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment that has the example installed."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "examples" / "plugin", folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder / "site")]
    done = subprocess.run([*command, str(folder / "source")], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": f"{folder / 'site'}:{ROOT}"}


def _screen(env: dict[str, str], cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "screen", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=200, check=False)


def test_its_rule_judges_and_its_format_prints(installed: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL.replace("32", "36"))
    words = "check", "model.py::Model", "--no-spot-check", "--select", "G901", "--report", "concise=found.txt", "--format", "widths"
    done = _screen(installed, tmp_path, *words)
    assert (done.returncode, done.stdout) == (1, "model.py::Model stream 36\n") and "G901 violated" in done.stderr
    assert "G901 warning `stream` is 36 wide" in (tmp_path / "found.txt").read_text()
    assert _screen(installed, tmp_path, "rule", "G901").stdout.startswith("# G901")


def test_its_target_is_built_and_its_op_is_known(installed: dict[str, str], tmp_path: Path) -> None:
    done = _screen(installed, tmp_path, "check", "house:small", "--set", "blocks=2", "--format", "json")
    report = Report.model_validate_json(done.stdout)
    assert (done.returncode, done.stderr, report.coverage.unmodelled, report.target.depth) == (0, "", [], 2)
    assert report.streams[0].kinds[0].sublayers[0].placement == "pre" and report.spot_check.ran and not report.spot_check.refuted


def test_its_own_tests_pass(installed: dict[str, str]) -> None:
    folder = Path(installed["PYTHONPATH"].split(":")[0]).parent / "source" / "tests"
    env = {**installed, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert "4 passed" in done.stdout, done.stdout


class _Distribution:
    name = "of-another"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation with a distribution whose rule is gone."""
    point = EntryPoint("gone", "no_such_module_at_all", "screen.rules")
    object.__setattr__(point, "dist", _Distribution()) if hasattr(point, "__slots__") else vars(point).update(dist=_Distribution())
    monkeypatch.setattr(screen.plugins, "entry_points", lambda *, group: [point] if group == "screen.rules" else [])
    catalogue.cache_clear()
    yield
    catalogue.cache_clear()


def test_a_rule_that_does_not_load_is_named_with_its_distribution(broken: None) -> None:
    [fault] = catalogue().faults
    assert fault.rule == "no_such_module_at_all" and fault.reason.startswith("of the distribution `of-another`: it does not load")


def test_with_strict_rules_it_is_exit_2(broken: None) -> None:
    job_of("model.py", load({}, ROOT / "examples"))
    with pytest.raises(screen.ScreenError, match=r"every rule must load with `--strict-rules`.*of-another"):
        job_of("model.py", load({"strict_rules": True}, ROOT / "examples"))


def test_a_check_that_raises_is_exit_2_with_strict_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from screen.command import commands
    from screen.pipeline.stages import Judged
    from screen.report.schema import CoveragePart, RuleNotRun
    from tests.test_integrations import _report

    coverage = CoveragePart(rules_not_run=[RuleNotRun(rule="G901", reason="its check raised `KeyError`")])
    report = _report("stable").model_copy(update={"coverage": coverage})
    (tmp_path / "a.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "_judge", lambda asked, settings: [[Judged(report, None, True)]])
    assert [cli.main(["check", "a.py", *words]) for words in ([], ["--strict-rules"])] == [0, 2]
    assert "exit 2: every rule must run with `--strict-rules`; `G901` its check raised" in capsys.readouterr().err


def test_codes_are_kept_apart() -> None:
    own = next(iter(screen.plugins.own("screen.rules").values()))
    assert [rule.rule.code for rule in catalogue().rules if RESERVED.fullmatch(rule.rule.code)] == []
    [fault] = collect([own], {own: "of-another"}).faults
    assert "is not reserved for other distributions" in fault.reason


def test_the_reference_of_facts_is_that_of_the_code() -> None:
    """`python -m tests.facts_reference --write` makes it again."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page()
