"""One child with torch for all the commands that a process of tests runs itself. `screen check` starts one each time: two seconds of imports.

`pytestmark = pytest.mark.usefixtures("warm")` makes it so for a module. Each target still runs in a process of its own, forked from that child. What
the child had when it was started is not asked again: whoever changes its environment gets a new one, and so does a target that is no file and
whose meaning hangs on the working directory. Tests of the child itself start their own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from screen.child.host import Host
from screen.child.launch import environment
from screen.child.protocol import Request
from screen.child.results import Capture, Progress
from screen.graph.target import TargetSpec, parse
from tests.shared import ROOT

_HOSTS: dict[object, Host] = {}


def _shared(preload: Sequence[str]) -> Host:
    said = {name: value for name, value in environment().items() if name not in ("PYTEST_CURRENT_TEST", "PWD", "OLDPWD")}
    key = (tuple(preload), tuple(sorted(said.items())))
    if key not in _HOSTS:
        here = os.getcwd()
        os.chdir(ROOT)
        try:
            _HOSTS[key] = Host(preload=preload)
        finally:
            os.chdir(here)
    return _HOSTS[key]


def _anywhere(spec: TargetSpec) -> str | None:
    """The target as it may be called from any folder; None where there is no such text."""
    if spec.kind in ("hf", "timm"):
        return spec.text
    if spec.kind == "file" and spec.path is not None and spec.text.startswith(spec.path):
        return os.path.abspath(spec.path) + spec.text[len(spec.path) :]
    return None


class Warm:
    """In the place of `Host`."""

    def __init__(self, *, preload: Sequence[str] = ()) -> None:
        self.preload = preload

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        """It goes on: others use it."""

    def capture(self, request: Request, progress: Progress | None = None) -> Capture:
        text = _anywhere(parse(request.target))
        if text is None:
            with Host(preload=self.preload) as host:
                return host.capture(request, progress)
        return _shared(self.preload).capture(replace(request, target=text), progress)


def close() -> None:
    """Ends all of them."""
    while _HOSTS:
        _HOSTS.popitem()[1].close()
