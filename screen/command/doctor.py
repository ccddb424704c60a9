"""`screen doctor`: what a report of a fault needs to know of this machine. Torch is asked in a process of its own."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata

import screen
from screen.child import namespace, sandbox
from screen.child.launch import ENVIRONMENT, can_fork, interpreter

PACKAGES = ("torch", "transformers", "timm", "torchvision", "click", "rich-click", "jinja2", "networkx", "numpy", "pydantic", "rich", "sympy")
GROUPS = ("screen.rules", "screen.ops", "screen.targets", "screen.report.formats")
PATIENCE = 120
"""Seconds for torch to say what it is."""


def report() -> str:
    """Everything, one fact per line."""
    sections = {
        "screen": _itself(),
        "versions": [(name, _version(name)) for name in PACKAGES],
        "device": _device(),
        "isolation": _isolation(),
        "plugins": _plugins(),
    }
    lines = []
    for title, rows in sections.items():
        width = max(len(name) for name, _ in rows)
        lines += [title, *(f"  {name:<{width}}  {value}" for name, value in rows), ""]
    return "\n".join(lines)


def _itself() -> list[tuple[str, str]]:
    command = shutil.which("screen")
    return [
        ("version", screen.__version__),
        ("imported from", os.path.dirname(os.path.abspath(screen.__file__))),
        ("`screen` on the PATH", _whose(command) if command else "none (`python -m screen` and `archscreen` always work)"),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
    ]


def _whose(command: str) -> str:
    """Whether a command is ours: a script of Python that names this package."""
    try:
        with open(command, "rb") as file:
            ours = re.search(rb"\bscreen\.(__main__|command\.cli)\b", file.read(4096)) is not None
    except OSError:
        return command
    return command if ours else f"{command}, which is another program: use `archscreen` or `python -m screen`"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _device() -> list[tuple[str, str]]:
    try:
        done = subprocess.run(
            interpreter("screen.child.device"),
            capture_output=True,
            timeout=PATIENCE,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            check=False,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        return [(str(name), str(value)) for name, value in answer]
    except subprocess.TimeoutExpired:
        return [("torch", f"did not import within {PATIENCE} s")]
    except (IndexError, ValueError, TypeError, OSError):
        error = done.stderr.decode("utf-8", "replace").strip().splitlines() if "done" in locals() else []
        return [("torch", f"does not import: {error[-1] if error else 'no answer'}")]


def _isolation() -> list[tuple[str, str]]:
    how = "one process forked per target, killed as a group" if can_fork() else "a fresh interpreter per target (no `os.fork` here)"
    clock = "the parent keeps the clock and kills"
    processes = namespace.described() if can_fork() else "those of the machine"
    return [("capture", how), ("processes", processes), ("memory", _memory()), ("time", clock), ("sandbox", sandbox.described())]


def _memory() -> str:
    """Which of the limits on memory is active; the system may accept one and not keep it."""
    try:
        import resource
    except ImportError:
        return "no limit: this system has none that we know"
    if sys.platform == "darwin":
        return "no limit: macOS does not keep RLIMIT_AS"
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    cap = "" if hard == resource.RLIM_INFINITY else f", at most {hard / 2**30:.1f} GiB (the system's own limit)"
    return f"address space (RLIMIT_AS){cap}"


def _plugins() -> list[tuple[str, str]]:
    from screen.verdict.discover import catalogue

    found = catalogue()
    rows = [("rules", f"{len(found.rules)} loaded, {len(found.faults)} not")]
    rows += [(fault.rule, f"did not load: {fault.reason}") for fault in found.faults]
    for group in GROUPS:
        points = sorted(metadata.entry_points(group=group), key=lambda point: point.name)
        rows += [(f"{group}: {point.name}", f"{point.value} ({point.dist.name if point.dist else 'unknown'})") for point in points]
    return rows


__all__ = ["report"]
