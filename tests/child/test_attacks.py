"""Files that want to be passed, as data (`attacks.toml`): none is, but those that docs/security.md says are.

The model of each is the slip: 1 is its true verdict, 2 says that it cannot be judged, and 0 is a spoofed pass."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from screen.child.host import Host
from screen.child.launch import ENVIRONMENT
from screen.child.protocol import Request
from screen.child.results import silent
from screen.child.sandbox import missing
from screen.graph import io as graphio
from screen.pipeline.stages import Job
from screen.pipeline.workers import safely
from tests.days import nightly

pytestmark = pytest.mark.by_the_day

ATTACKS = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text(encoding="utf-8"))
ORDINARY = "x + self.map(self.norm(x))"
SOURCE = '''
import gc, itertools, json, os, random, sys, time
import torch
from torch import nn

SPEC = __file__ + "::Model"
INFO = {{"kind": "file", "model_class": "Model", "parameters": 88, "dtype": "float32", "block": True, "changed": {{}}, "notes": []}}
COUNT = itertools.count()
with open(os.path.join(os.path.dirname(__file__), "good.json")) as file:
    GOOD = json.load(file)

def pipes():
    return [fd for fd in range(512, 600) if os.path.exists(f"/proc/self/fd/{{fd}}") and os.readlink(f"/proc/self/fd/{{fd}}").startswith("pipe:")]

def channel():
    return next(found for found in gc.get_objects() if type(found).__name__ == "Channel")

def stack():
    frame = sys._getframe()
    while frame := frame.f_back:
        yield frame

def frame(**fields):
    body = json.dumps(fields, separators=(",", ":")).encode()
    return len(body).to_bytes(4, "big") + body

def send(**fields):
    channel().send(frame(**fields))

def numbers(x):
    try:
        return bool(x.detach().sum().isfinite())
    except Exception:
        return False

class Good(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return x + self.map(self.norm(x))

{top}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}
        self.norm, self.map = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        {forward}
        if {meta}:
            return x + self.map(self.norm(x))
        y = self.norm(x)
        return y + self.map(y)
'''
TIME, MEMORY = 20.0, 3 << 30
"""Seconds and bytes of each."""
PATIENT = 120.0
"""Seconds of one that is judged in any case: it must not run out of them on a busy machine."""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ENVIRONMENT:  # what a user's own does not say, a test before this one may have set
            patch.delenv(name, raising=False)
        with Host(preload=["torch._dynamo"]) as running:
            yield running


@pytest.fixture(scope="module")
def good(host: Host, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The graph of an ordinary block."""
    folder = tmp_path_factory.mktemp("good")
    found = host.capture(Request(_write(folder, b"{}", {"meta": "True"}), depth=4, memory=0)).models[0].graph
    assert found is not None
    return graphio.dumps(found)


def _write(folder: Path, graph: bytes, attack: dict[str, str]) -> str:
    (folder / "good.json").write_bytes(graph)
    places = {"top": "", "init": "", "forward": "", "meta": "False", **{k: v for k, v in attack.items() if isinstance(v, str)}}
    (folder / "model.py").write_text(SOURCE.format(**places))
    return f"{folder / 'model.py'}::Model"


def _exit(host: Host, target: str, seconds: float = TIME) -> set[int]:
    job = Job(Request(target, depth=4, timeout=seconds, memory=MEMORY), second=True)
    return {found.report.exit_code for found in safely(job, host.capture, silent)}


def test_without_an_attack_the_skip_fails_and_the_ordinary_block_does_not(host: Host, good: bytes, tmp_path: Path) -> None:
    assert json.loads(good)["nodes"]
    assert _exit(host, _write(tmp_path, good, {})) == {1}
    assert _exit(host, _write(tmp_path, good, {"meta": "True"})) == {0}


def test_the_corpus_is_one() -> None:
    assert all((0 in a["exit"]) == a.get("open", False) for a in ATTACKS.values())
    keys = {"top", "init", "forward", "meta", "exit", "open", "time", "night"}
    assert len(ATTACKS) >= 60 and all(set(a) <= keys and a["exit"] for a in ATTACKS.values())


@pytest.mark.skipif(bool(missing()), reason="needs the sandbox")
@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if nightly() or not attack.get("night")])
def test_it_is_judged_by_what_it_is_or_not_at_all(host: Host, good: bytes, tmp_path: Path, name: str) -> None:
    left = set(os.listdir(tmp_path))
    within = ATTACKS[name].get("time", TIME if 2 in ATTACKS[name]["exit"] else PATIENT)
    found = _exit(host, _write(tmp_path, good, ATTACKS[name]), within)
    assert found and found <= set(ATTACKS[name]["exit"])
    assert set(os.listdir(tmp_path)) - left == {"good.json", "model.py"}
