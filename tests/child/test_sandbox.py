"""What the process of a target cannot reach in its sandbox, what it can, and that nothing of it is left. Where the machine has none: what is said."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import glob
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from screen.child import sandbox, worker
from screen.child.host import Host
from screen.child.protocol import Request
from screen.child.sandbox import clear, missing, shown
from screen.errors import LimitError, UsageError
from screen.pipeline import stages
from screen.pipeline.probe import probe_request
from screen.probe.plan.types import Options
from screen.settings import load

enclosed = pytest.mark.skipif(bool(missing()), reason=missing())

REFUSED = {
    "a socket to anywhere": "socket.socket()",
    "a socket to a service of this machine": "socket.socket(socket.AF_UNIX)",
    "a pair that can be turned to a service": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a file beside the model": "open(HERE / 'made', 'w')",
    "the model itself": "open(__file__, 'a')",
    "emptying a file": "os.truncate(__file__, 0)",
    "removing a file": "os.unlink(__file__)",
    "renaming a file": "os.rename(__file__, __file__ + '.old')",
    "the mode of a file": "os.chmod(__file__, 0o777)",
    "the time of a file": "os.utime(__file__)",
    "a folder for everybody": "open('/tmp/screen-made', 'w')",
    "torch": "open(torch.__file__, 'a')",
    "this package": "open(sys.modules['screen'].__file__, 'a')",
    "the report": "open(HERE / 'report.json')",
    "the report by a link": "open(HERE / 'link.json')",
    "keys of the user": "open(HERE / 'home' / '.netrc')",
    "a folder of keys": "open(HERE / 'home' / '.ssh' / 'id')",
    "keys of the user by the name of the home": "open(os.path.expanduser('~/.netrc'))",
    "what lies in the home, written": "open(os.path.expanduser('~/.cache/words.txt'), 'a')",
    "memory of its parent": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "the environment of its parent": "open(f'/proc/{os.getppid()}/environ', 'rb')",
    "tracing its parent": "called(LIBC.ptrace(16, os.getppid(), None, None))",
    "reading from its parent": "called(LIBC.syscall(310 if os.uname().machine == 'x86_64' else 270, os.getppid(), 0, 0, 0, 0, 0))",
    "limits of its parent": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "what a program that it starts writes": "subprocess.run(['sh', '-c', f'echo x > {HERE}/made'], check=True, stderr=subprocess.DEVNULL)",
}
DONE = {
    "a file of its own": "tempfile.NamedTemporaryFile().write(b'x')",
    "a folder of its own": "os.mkdir(tempfile.mkdtemp() + '/in')",
    "a file beside the model, read": "open(HERE / 'words.txt').read()",
    "a module of the standard library": "__import__('wave')",
    "a pair of sockets": "socket.socketpair()",
    "a process": "subprocess.run(['true'], check=True)",
    "a thread": "threading.Thread(target=int).start()",
    "nowhere": "open(os.devnull, 'w').write('x')",
    "a signal to itself": "os.kill(os.getpid(), 0)",
    "what lies in the home": "open(os.path.expanduser('~/.cache/words.txt')).read()",
    "a cache that a library makes in the home": "os.makedirs(os.path.expanduser('~/.cache/a/b'), exist_ok=True)",
    "a file that it makes there": "open(os.path.expanduser('~/.of_a_library'), 'w')",
    "names in a folder": "os.listdir('/')",
}
SOURCE = """
import ctypes, os, resource, socket, subprocess, sys, tempfile, threading
from pathlib import Path
import torch
HERE = Path(__file__).parent
LIBC = ctypes.CDLL(None, use_errno=True)
def called(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), 'refused')
def attempt(code):
    try:
        eval(code)
    except (OSError, subprocess.CalledProcessError) as error:
        return getattr(error, 'errno', 13) or 13
    return 0
print({name: attempt(code) for name, code in CODES.items()}, flush=True)
raise ValueError("done")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a report, a home with keys, and words that it may read."""
    here = tmp_path_factory.mktemp("tree")
    (here / "words.txt").write_text("words")
    (here / "home" / ".ssh").mkdir(parents=True)
    (here / "home" / ".cache").mkdir()
    (here / "home" / ".cache" / "words.txt").write_text("words")
    for name in ("report.json", "home/.netrc", "home/.ssh/id"):
        (here / name).write_text("hidden")
    (here / "link.json").symlink_to("report.json")
    (here / "model.py").write_text(f"CODES = {({**REFUSED, **DONE})!r}\n{SOURCE}")
    return here


@pytest.fixture(scope="module")
def host(tree: Path) -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tree / "home"))
        with Host() as running:
            yield running


@pytest.fixture(scope="module")
def answers(host: Host, tree: Path) -> dict[str, int]:
    """Name of an attempt -> the number of its error, 0 where it was done."""
    found = host.capture(Request(f"{tree / 'model.py'}::Net", sandbox="require", hidden=(str(tree / "report.json"),)))
    assert "done" in str(found.error) and not (tree / "made").exists()
    assert {path.name for path in (tree / "home").rglob("*")} == {".ssh", "id", ".netrc", ".cache", "words.txt"}
    answers: dict[str, int] = ast.literal_eval(found.log.splitlines()[-1])
    return answers


@enclosed
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_out_of_reach(answers: dict[str, int], what: str) -> None:
    assert answers[what] in (1, 13)


@enclosed
@pytest.mark.parametrize("what", DONE)
def test_what_models_need_is_there(answers: dict[str, int], what: str) -> None:
    assert answers[what] == 0


@enclosed
def test_no_signal_reaches_ours_where_landlock_knows_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 6.12: the filter of system calls alone."""
    monkeypatch.setattr(sandbox, "landlock", lambda: 0)
    me, group = os.getpid(), os.getpgid(0)
    child = os.fork()
    if child == 0:
        os.setsid()
        with contextlib.suppress(OSError):  # Landlock is missed
            sandbox.enclose("/nonexistent", [], (me,))
        libc = ctypes.CDLL(None, use_errno=True)
        tries = [lambda: os.kill(me, 0), lambda: os.kill(-group, 0), lambda: os.kill(-1, 0), lambda: _sent(libc, 234, 131, me, me, 0),
                 lambda: _sent(libc, 424, 424, os.open(f"/proc/{me}", os.O_RDONLY), 0, 0, 0), lambda: _sent(libc, 200, 130, me, 0),
                 lambda: os.kill(os.getpid(), 0), lambda: os.kill(0, 0)]  # fmt: skip
        os._exit(sum(_refused(one) << place for place, one in enumerate(tries)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0b00111111


def _sent(libc: ctypes.CDLL, x86: int, arm: int, *given: int) -> None:
    if libc.syscall(x86 if os.uname().machine == "x86_64" else arm, *given) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def _refused(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except PermissionError:
        return True
    return False


@pytest.mark.by_the_day
@enclosed
@pytest.mark.parametrize("mode", ["auto", "require", "off"])
def test_an_error_that_may_be_the_sandbox_says_so(host: Host, tmp_path: Path, mode: str) -> None:
    (tmp_path / "model.py").write_text("try:\n    raise PermissionError\nexcept OSError as error:\n    raise ValueError from error\n")
    found = host.capture(Request(f"{tmp_path / 'model.py'}::Net", sandbox=mode))
    assert ("--sandbox off" in str(found.error)) == (mode != "off")


def test_where_one_is_required_and_cannot_be_had_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "missing", lambda: "this kernel has no Landlock")
    with pytest.raises(UsageError, match=r"`--sandbox require` must find a sandbox; this kernel has no Landlock\. .*container"):
        stages.job_of("model.py", load({"sandbox": "require"}))
    assert stages.job_of("model.py", load({"sandbox": "auto"})).request.sandbox == "auto"


@pytest.mark.parametrize(
    ("version", "filters", "said"),
    [
        (7, True, "Landlock 7 (files, TCP, signals) and seccomp (sockets, tracing, modes of files)"),
        (3, True, "Landlock 3 (files) and seccomp (sockets, tracing, modes of files)"),
        (4, False, "Landlock 4 (files, TCP): this kernel has no seccomp, or this container keeps it away"),
        (1, False, "none: this kernel has version 1 of Landlock, and version 3 is needed (Linux 6.2)"),
        (0, True, "seccomp (sockets, tracing, modes of files): this kernel has no Landlock, or this container keeps it away, and"),
    ],
)
def test_doctor_says_what_there_is(monkeypatch: pytest.MonkeyPatch, version: int, filters: bool, said: str) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sandbox.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sandbox, "landlock", lambda: version)
    monkeypatch.setattr(sandbox, "_filters", lambda: filters)
    assert sandbox.described().startswith(said)


def test_a_sandbox_that_fails_in_the_process_itself_is_an_error_only_where_it_is_required() -> None:
    nowhere = {"scratch": "/nonexistent", "hidden": []}
    with pytest.raises(LimitError, match="--sandbox require"):
        worker._enclose(Request("model.py", sandbox="require"), nowhere)
    worker._enclose(Request("model.py", sandbox="auto"), nowhere)


def test_reports_and_the_page_of_a_job_are_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    job = stages.job_of("model.py", load({"output": "o.json", "report": ("junit=r/j.xml",)}))
    assert job.request.hidden == (str(tmp_path / "o.json"), str(tmp_path / "r" / "j.xml"))
    assert (job.request.timeout, job.request.spent, job.request.memory, job.request.sandbox) == (120.0, 0.0, 8 << 30, "auto")


@pytest.mark.parametrize(("cards", "wanted", "mode"), [(1, "auto", "off"), (1, "require", "require"), (0, "auto", "auto")])
def test_a_driver_of_a_card_is_left_alone_where_no_sandbox_is_required(monkeypatch: pytest.MonkeyPatch, cards: int, wanted: str, mode: str) -> None:
    monkeypatch.setattr(glob, "glob", lambda pattern: ["/dev/nvidia0"] * cards)
    assert probe_request(Request("model.py", sandbox=wanted), {}, Options()).sandbox == mode


def test_what_is_shown_covers_everything_but_what_is_hidden(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "way").symlink_to("a/b")
    found = {path for path in shown([str(tmp_path / "a/b"), str(tmp_path / "a/b/c"), str(tmp_path / "new.json")]) if path.startswith(str(tmp_path))}
    assert found == {str(tmp_path / "a/d"), str(tmp_path / "e")}
    assert list(shown([])) == list(shown([os.devnull])) == ["/"]


def test_a_folder_is_removed_however_deep(tmp_path: Path) -> None:
    left = Path.cwd()
    (tmp_path / "scratch" / "closed").mkdir(parents=True)
    os.chdir(tmp_path / "scratch")
    try:
        for _ in range(200):
            os.mkdir("in")
            os.chdir("in")
        os.mkdir("closed", 0)
    finally:
        os.chdir(left)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 60)
    try:
        clear(str(tmp_path / "scratch"))
    finally:
        sys.setrecursionlimit(limit)
    assert not (tmp_path / "scratch").exists()


@pytest.mark.by_the_day
def test_no_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "model.py").write_text("import tempfile\ntempfile.mkdtemp()\nraise ValueError\n")
    with Host() as host:
        host.capture(Request(f"{tmp_path / 'model.py'}::Net"))
        (scratch,) = tmp_path.glob("tmp*")
        assert bool(list(scratch.glob("*/*"))) == (not missing())
        assert host._child is not None
        host._child.kill()
    assert not list(tmp_path.glob("tmp*"))


@pytest.mark.by_the_day
def test_torch_leaves_no_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with Host(preload=["torch._dynamo", "torch._inductor.runtime.cache_dir_utils"]) as host:
        host.capture(Request("none.py"))
    assert list(tmp_path.iterdir()) == []
