"""The command line: exit codes, where things are written, what it does not import."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from screen.command import cli, doctor, commands, pages
from screen.errors import InternalError, LoadError, ScreenError, UsageError
from screen.pipeline.stages import Judged
from screen.report.build import Request, not_judged
from screen.report.schema import ExperimentPart, ProbePart, Report
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day

MODEL = """
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
"""


def _screen(*words: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(
        [sys.executable, "-m", "screen", *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


def _report(verdict: str = "unknown", error: ScreenError | None = None, spec: str = "model.py") -> Report:
    blank = not_judged(error or LoadError("a must", "b is"), Request(spec))
    return blank.model_copy(update={"verdict": verdict, "error": blank.error if error else None})


# -- one way out ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (SystemExit(0), 2, "error: "),
        (SystemExit(1), 2, "error: "),
        (SystemExit(None), 2, "error: "),
        (GeneratorExit(), 2, "error: "),
        (KeyError("x"), 2, "fault of `screen`"),
        (AssertionError(), 2, "fault of `screen`"),
        (MemoryError(), 2, "fault of `screen`"),
        (RecursionError("deep"), 2, "fault of `screen`"),
        (InternalError("it broke"), 2, "fault of `screen`"),
        (UsageError("a must", "b is", "Try c"), 2, "error: a must; b is. Try c."),
        (PermissionError(13, "Permission denied", "x.json"), 2, "error: `x.json`"),
        (BrokenPipeError(), 2, ""),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_exception_becomes_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], raised: BaseException, code: int, said: str
) -> None:
    def fail(*_: object) -> int:
        raise raised

    monkeypatch.setattr(pages, "schema", fail)
    monkeypatch.setattr("screen.command.console._discard_stdout", lambda: None)
    assert cli.main(["schema"]) == code
    out, err = capsys.readouterr()
    assert out == "" and said in err and "Traceback" not in err


def test_a_traceback_is_shown_only_on_demand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> int:
        raise KeyError("x")

    monkeypatch.setattr(commands, "check", fail)
    assert cli.main(["check", "x.py", "-v"]) == 2
    assert "Traceback" in capsys.readouterr().err
    assert cli.main(["check", "x.py"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_stdout_that_cannot_be_written_to_is_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert cli.main(["config"]) == 2


def test_a_reader_that_leaves_early_is_exit_2(tmp_path: Path) -> None:
    script = f"{sys.executable} -m screen schema | head -c 10 > /dev/null; echo ${{PIPESTATUS[0]}}"
    for _ in range(3):
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
        )
        assert done.stdout.strip() in ("0", "2") and done.stderr == ""  # 0: all was in the pipe before its reader left


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nope"], "has no `--nope`"),
        (["check", "x.py", "--fromat", "json"], "Did you mean `--format`?"),
        (["check"], "TARGET"),
        (["chekc", "x.py"], "Did you mean `screen check`?"),
        (["model.py"], "Did you mean `screen check model.py`?"),
        (["check", "x.py", "--depth"], "requires an argument"),
        (["check", "x.py", "--depth", "0"], "above zero"),
        (["check", "x.py", "--format", "htm"], "Did you mean `html`"),
        (["check", "x.py", "--report", "htm=x"], "Did you mean `html`"),
        (["check", "x.py", "--baseline", "x"], "Make it with `--update-baseline`"),
        (["check", "x.py", "--update-baseline"], "`--baseline` is not given"),
        (["check", "x.py", "--recipe", "x"], "no recipe called `x`"),
        (["fix", "x.py"], "not in this version"),
        (["sweep", "a.json", "b.json"], "not in this version"),
        (["sweep", "space.toml"], "not in this version"),
        (["check", "there/is/none.py"], "there is no file"),
        (["check", "x.py", "-q", "-v"], "exclude each other"),
        (["graph", "x.py", "--format", "dott"], "Did you mean `dot`?"),
        (["check", "x.py", "--recipe", "lrr=1"], "Did you mean `lr`"),
        (["check", "x.py", "--recipe", "learning_rate=1"], "Did you mean `lr`"),
        (["check", "x.py", "--recipe", "lr=-1"], "`lr` in `--recipe` must be greater than 0"),
        (["recipe", "bert-bas"], "Did you mean `bert-base`"),
        (["rule", "G999"], "there is none called `G999`"),
    ],
)
def test_usage_errors_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").write_text("")
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and said in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--help"], 0), (["check", "--help"], 0), (["rule"], 0), (["rule", "--all"], 0), (["schema"], 0), (["config"], 0), (["check", "none.py"], 2),
     (["recipe"], 0), (["recipe", "bert-base"], 0), (["recipe", "--fields"], 0), (["check", "none.py", "--recipe", "bert-base"], 2)],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_needs_no_model_does_not_import_torch(tmp_path: Path, words: list[str], code: int) -> None:
    script = (
        "import sys; from screen.command.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'torch', 'transformers', 'matplotlib'} & set(sys.modules); print(code, sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == f"{code} []"


def test_help_loads_click_and_little_else() -> None:
    script = "import sys; from screen.command.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert not {"pydantic", "networkx", "sympy", "jinja2", "screen.report.schema", "screen.pipeline.stages"} & set(done.stderr.split())


# -- exit codes of several targets, and where reports go (what fails a single one: tests/pipeline/test_gate.py) --------------------------------------


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Sets what judging gives, so that no model is needed."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("")

    def set_(*found: Judged) -> None:
        monkeypatch.setattr(commands, "_judge", lambda asked, settings, **_: [[one] for one in found])

    return set_


def _good(verdict: str, spec: str = "a.py") -> Judged:
    return Judged(_report(verdict, spec=spec), None, True)


def _bad(spec: str = "b.py") -> Judged:
    error = LoadError("`b.py` must be importable", "it raised `ValueError`")
    return Judged(_report("unknown", error, spec), error, False)


@pytest.mark.parametrize("format_", ["text", "markdown", "json"])
@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([_good("conditional")], 0),
        ([_good("unstable")], 1),
        ([_good("unknown")], 2),
        ([_bad()], 2),
        ([_good("conditional"), _good("unstable")], 1),
        ([_good("unstable"), _bad()], 2),
        ([_bad(), _good("conditional")], 2),
    ],
)
def test_2_wins_over_1_over_0_in_every_format(judged: Callable[..., None], found: list[Judged], code: int, format_: str) -> None:
    judged(*found)
    assert cli.main(["check", "a.py", "--format", format_]) == code


def test_a_probe_that_was_interrupted_is_130_whatever_was_found(judged: Callable[..., None]) -> None:
    judged(replace(_good("unstable"), interrupted=True), _good("stable"))
    assert cli.main(["check", "a.py"]) == 130


def test_probe_takes_every_option_of_check() -> None:
    check, probe = ({name: param for param in cli.app.commands[command].params for name in (*param.opts, *param.secondary_opts)}
                    for command in ("check", "probe"))  # fmt: skip
    assert set(check) - set(probe) == {"--probe", "--no-probe"} and set(probe) <= set(check)
    told_apart = {name for name in probe if probe[name].to_info_dict() != check[name].to_info_dict()}
    assert told_apart == {"--fail-on", "--format", "--quiet", "-q"}  # their help alone
    for name in told_apart:
        assert probe[name].to_info_dict() | {"help": ""} == check[name].to_info_dict() | {"help": ""}
    groups = cli.click.rich_click.OPTION_GROUPS
    shown = [{option for group in groups[f"screen {command}"] for option in group["options"]} for command in ("check", "probe")]
    long = [{name for name in names if name.startswith("--") and not name.startswith("--no-")} - {"targets"} | {"--help"} for names in (check, probe)]
    assert shown == long  # none stands in a box of its own


def _probed(*outcomes: str, spec: str = "a.py", verdict: str = "stable") -> Judged:
    """A target of which this came out."""
    measured = [ExperimentPart(name="depth", what="rms", outcome=one) for one in outcomes]
    part = ProbePart(device="cpu", dtype="float64", seed=0, experiments=measured)
    return Judged(_report(verdict, spec=spec).model_copy(update={"probe": part}), None, True)


@pytest.mark.parametrize(
    ("found", "words", "code", "said"),
    [
        ([_probed("confirmed")], [], 0, ""),
        ([_probed("confirmed", "refuted", verdict="unknown")], [], 1, "exit 1: 1 prediction is refuted"),
        ([_probed("not_measured")], [], 2, "exit 2: nothing was measured"),
        ([_probed("observed", verdict="unstable")], [], 0, ""),
        ([_probed("observed", verdict="unstable")], ["--fail-on", "unstable"], 1, "exit 1: the verdict is unstable (--fail-on unstable)"),
        ([_probed("observed", verdict="unstable")], ["--fail-on", "never"], 0, ""),
        ([_probed("observed", verdict="unstable")], ["--baseline", "known.json", "--update-baseline"], 1, "exit 1: the verdict is unstable"),
        ([_probed("refuted", verdict="unknown")], ["--fail-on", "slip"], 2, "exit 2: the verdict is unknown (`--allow-unknown` lets it pass)"),
        ([_probed("refuted", verdict="unknown")], ["--fail-on", "slip", "--allow-unknown"], 1, "exit 1: 1 prediction is refuted"),
        ([_probed("confirmed"), _probed("refuted", "refuted", spec="b.py")], [], 1, "exit 1: `b.py`: 2 predictions are refuted"),
        ([_probed("refuted"), _bad()], [], 2, "error: `b.py` must be importable"),
        ([_bad(), _probed("confirmed")], ["--fail-on", "never"], 2, "error: `b.py` must be importable"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shown", ([], ["-q"], ["--format", "json"], ["-o", "out"], ["--report", "sarif=new/r.sarif"]), ids=" ".join)
def test_the_exit_code_of_a_probe(
    judged: Callable[..., None], capsys: pytest.CaptureFixture[str], found: list[Judged], words: list[str], code: int, said: str, shown: list[str]
) -> None:
    judged(*found)
    assert cli.main(["probe", "a.py", *words, *shown]) == code
    err = capsys.readouterr().err
    assert said in err and err.count("exit ") == (0 if "exit" not in said else 1) and "fault" not in err


def test_a_gate_of_the_file_is_that_of_check(judged: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "screen.toml").write_text("fail-on = 'unstable'\nbaseline = 'none.json'\n")
    judged(_probed("confirmed", verdict="unstable"))
    assert cli.main(["probe", "a.py"]) == 0
    assert cli.main(["probe", "a.py", "--fail-on", "unstable"]) == 2  # the baseline counts too now, and is not there


def test_a_probe_is_told_as_it_comes(judged: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judged(_probed("confirmed"), _bad(), _probed("refuted", spec="c.py"))
    assert cli.main(["probe", "a.py", "b.py", "-q", "--report", "json=new/r.json", "--report", "html=new/r.html"]) == 2
    assert capsys.readouterr().out == "a.py: 1 confirmed\nb.py: nothing was measured\nc.py: 1 REFUTED\n"
    assert [r["target"]["spec"] for r in json.loads((tmp_path / "new/r.json").read_text())["reports"]] == ["a.py", "b.py", "c.py"]
    assert "<!doctype html>" in (tmp_path / "new/r.html").read_text()
    cli.main(["probe", "a.py", "b.py", "--color", "always"])
    told = capsys.readouterr().out
    assert "\x1b[1;38;5;167m  REFUTED\x1b[0m" in told and "\x1b[38;5;29m  confirmed\x1b[0m" in told and told.count("\n\n") == 1
    cli.main(["probe", "a.py", "b.py", "-o", "out"])
    plain = (tmp_path / "out").read_text()
    assert plain == re.sub(r"\x1b\[[\d;]*m", "", told)


def test_several_targets_are_one_object_in_the_order_given(judged: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    judged(_bad(), _good("unstable"))
    cli.main(["check", "b.py", "a.py", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["reports", "schema_version", "tool", "verdict"]
    assert [r["target"]["spec"] for r in found["reports"]] == ["b.py", "a.py"]
    assert found["reports"][0]["error"]["stage"] == "load"


def test_without_a_graph_text_says_nothing_on_stdout_and_json_a_report(judged: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    judged(_bad())
    cli.main(["check", "b.py"])
    out, err = capsys.readouterr()
    assert out == "" and err == "error: `b.py` must be importable; it raised `ValueError`.\n"
    cli.main(["check", "b.py", "--format", "json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == "unknown"


def test_reports_go_where_they_are_wanted(
    judged: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judged(_good("conditional"))
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    cli.main(["check", "a.py", "-o", "main.txt", "--report", "json=r.json", "--report", "markdown=r.md"])
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "conditional"
    assert (tmp_path / "main.txt").read_text().startswith("conditional")
    assert summary.read_text() == "before\n" + (tmp_path / "r.md").read_text()


def test_a_report_that_cannot_be_written_is_said_before_the_work(judged: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    judged()
    assert cli.main(["check", "a.py", "-o", "no/such/folder.txt"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert cli.main(["check", "a.py", "--report", "json=."]) == 2
    assert "it is a folder" in capsys.readouterr().err


def test_quiet_is_one_line_for_each(judged: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    judged(_good("conditional"), _good("unstable"))
    cli.main(["check", "a.py", "b.py", "-q"])
    assert [line.split(": ")[:2] for line in capsys.readouterr().out.splitlines()] == [["a.py", "conditional"], ["a.py", "unstable"]]
    cli.main(["check", "a.py", "b.py", "--color", "never"])
    assert capsys.readouterr().out.splitlines()[-1] == "2 targets: 1 unstable, 1 conditional"


def test_targets_are_told_as_they_come_and_ctrl_c_keeps_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import screen.pipeline.workers

    heard: list[str] = []

    def one(job: object, capture: object, progress: object) -> list[Judged]:
        heard.append(capsys.readouterr().out)
        if len(heard) == 3:
            raise KeyboardInterrupt
        return [_good("conditional", f"m{len(heard)}.py")]

    monkeypatch.setattr(screen.pipeline.workers, "judge", one)
    words = [f"m{n}.py" for n in (1, 2, 3, 4)]
    for name in words:
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", *words, "-q", "--report", "json=r.json"]) == 130
    assert [line.split(":")[0] for line in "".join(heard).splitlines()] == ["m1.py", "m2.py"]
    assert "interrupted" in capsys.readouterr().err
    assert [r["target"]["spec"] for r in json.loads((tmp_path / "r.json").read_text())["reports"]] == ["m1.py", "m2.py"]


@pytest.mark.parametrize(
    ("when", "env", "terminal", "expected"),
    [
        ("auto", {}, True, True),
        ("auto", {}, False, False),
        ("auto", {"NO_COLOR": "1"}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colour(monkeypatch: pytest.MonkeyPatch, when: str, env: dict[str, str], terminal: bool, expected: bool) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert commands._color(when, terminal) is expected


def test_progress_goes_to_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, quiet, said in ((Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)):
        monkeypatch.setattr(sys, "stderr", stream)
        progress = commands.Progress(quiet)
        progress.of("a.py")("trace")
        progress.clear()
        assert bool(stream.getvalue()) is said


# -- the real thing -------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "model.py").write_text(MODEL)
    return folder


def test_check_screens_a_file(project: Path) -> None:
    done = _screen("check", "model.py", cwd=project)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("conditional")


Here = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(warm: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """Runs the command in this process, in a folder; its exit code, output and errors."""

    def run(*words: str, cwd: Path) -> tuple[int, str, str]:
        monkeypatch.chdir(cwd)
        return (cli.main([*words]), *capfd.readouterr())

    return run


def test_what_a_target_prints_is_shown_on_demand_only(here: Here, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("print('hello from the file')\n" + MODEL)
    quiet, verbose = here("check", "model.py", cwd=tmp_path), here("check", "model.py", "-v", cwd=tmp_path)
    assert quiet[0] == verbose[0] == 0
    assert "hello" not in quiet[1] + quiet[2] + verbose[1] and "hello from the file" in verbose[2]


def test_a_terminal_without_unicode_is_served_too(project: Path) -> None:
    done = _screen("check", "model.py", cwd=project, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("conditional")


def test_check_judges_several_targets_and_exits_with_the_worst(project: Path) -> None:
    done = _screen("check", "model.py::Model", "model.py::Missing", "hf:gpt2", "--set", "n_layer=2", "--format", "json", cwd=project)
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert len(found["reports"]) == 3 and [bool(r["error"]) for r in found["reports"]][1] is True


def test_same_input_same_bytes(project: Path) -> None:
    outputs = {_screen("check", "model.py", "--format", "json", cwd=project, env={"PYTHONHASHSEED": str(seed)}).stdout for seed in (0, 1)}
    [text] = outputs
    assert json.loads(text)["streams"] and str(project) not in text


def test_graph_prints_the_streams(here: Here, project: Path) -> None:
    for name in ("text", "mermaid", "dot", "json"):
        code, out, err = here("graph", "model.py", "--format", name, cwd=project)
        assert code == 0 and out and err == "", name


def test_what_shows_no_change_tries_none(here: Here, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def counted(*_: Any, **__: Any) -> tuple[()]:
        tried.append("once")
        return ()

    monkeypatch.setattr("screen.pipeline.stages.tried", counted)
    branch = "x + self.down(nn.functional.gelu(self.up(self.norm(x))))"
    (project / "post.py").write_text(MODEL.replace(branch, "self.norm(x + self.down(self.up(x)))"))
    assert here("graph", "post.py", cwd=project)[0] == 0
    assert here("compare", "model.py", "post.py", cwd=project)[0] in (0, 1)
    assert not tried
    assert here("check", "post.py", cwd=project)[0] in (0, 1)
    assert len(tried) == 1


def test_doctor_tells_versions_device_isolation_and_plugins(project: Path) -> None:
    done = _screen("doctor", cwd=project)
    assert done.returncode == 0 and done.stderr == ""
    for word in ("screen", "imported from", "torch", "device", "isolation", "plugins", "sandbox"):
        assert word in done.stdout


@pytest.mark.parametrize(("script", "ours"), [
    ("#!/usr/bin/python\nimport sys\nfrom screen.__main__ import main\nsys.exit(main())\n", True),
    ("#!/usr/bin/python\nfrom screen.command.cli import main\n", True),
    ("#!/bin/sh\necho screen\n", False),
])  # fmt: skip
def test_doctor_knows_its_own_script(tmp_path: Path, script: str, ours: bool) -> None:
    (tmp_path / "screen").write_text(script)
    assert ("another program" not in doctor._whose(str(tmp_path / "screen"))) is ours


def test_schema_accepts_a_real_report(here: Here, project: Path) -> None:
    import jsonschema

    schema: dict[str, Any] = json.loads(here("schema", cwd=project)[1])
    jsonschema.validate(json.loads(here("check", "model.py", "--format", "json", cwd=project)[1]), schema)


def test_settings_of_a_file_count(here: Here, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "pyproject.toml").write_text('[tool.screen]\nfail-on = "conditional"\nformat = "json"\n')
    code, out, _ = here("check", "model.py", cwd=tmp_path)
    assert code == 1 and json.loads(out)["verdict"] == "conditional"
