"""Files that say something else of themselves than they are, by the ways that are closed. Those that are not: `docs/security.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from screen.child.host import Host
from screen.child.protocol import Request
from screen.command import cli
from screen.graph import io as graphio
from screen.pipeline.stages import Job, Judged, judge

pytestmark = pytest.mark.by_the_day

MODEL = """
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(8), nn.Linear(8, 8)
    def forward(self, x):
        return RESULT
"""
GOOD, BAD = "x + self.map(self.norm(x))", "self.map(self.norm(x)) * 3"
FORGE = """
import json, os
LINE = next(fd for fd in range(512, 600) if os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:"))
def say(kind, **fields):
    body = json.dumps({"kind": kind, **fields}).encode()
    os.write(LINE, len(body).to_bytes(4, "big") + body)
for frame in json.load(open(os.path.join(os.path.dirname(__file__), "frames.json"))):
    say(**frame)
os._exit(0)
"""
REPLAY = """
from screen.probe.plan.spot_types import SpotPlan
from screen.probe import spot
SpotPlan.is_of = lambda plan, graph: True
spot.Run.replayed = lambda run, found: found
"""
PATCHED = """
import screen.graph.io as io
read = io.dumps
FORGED = open(__file__.replace("model.py", "graph.json"), "rb").read()
io.dumps = lambda graph: FORGED
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host(preload=["torch._dynamo"]) as running:
        yield running


@pytest.fixture(scope="module")
def frames(host: Host, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What a good model says of itself."""
    from screen.graph import io

    path = tmp_path_factory.mktemp("good") / "model.py"
    path.write_text(MODEL.replace("RESULT", GOOD))
    (found,) = host.capture(Request(f"{path}::Model")).models
    assert found.graph is not None
    info = {"kind": "file", "model_class": "Model", "parameters": 88, "dtype": "float32", "block": True, "changed": {}, "notes": []}
    return [{"kind": "target", "name": "Model", "info": info}, {"kind": "graph", "graph": json.loads(io.dumps(found.graph))}, {"kind": "done"}]


def _judged(host: Host, path: Path) -> list[Judged]:
    return judge(Job(Request(f"{path}::Model", depth=4, timeout=60.0, memory=0), second=True), host.capture)


def test_frames_of_another_model_do_not_pass(host: Host, frames: list[dict[str, object]], tmp_path: Path) -> None:
    (tmp_path / "frames.json").write_text(json.dumps(frames))
    (tmp_path / "model.py").write_text(FORGE)
    (found,) = _judged(host, tmp_path / "model.py")
    assert found.report.exit_code == 2 and "on real tensors it was not there: nothing was said of it" in str(found.error)


def test_a_serialiser_that_writes_another_model_does_not_pass(host: Host, frames: list[dict[str, object]], tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(frames[1]["graph"]))
    (tmp_path / "model.py").write_text(PATCHED + MODEL.replace("RESULT", BAD))
    (found,) = _judged(host, tmp_path / "model.py")
    assert found.report.exit_code == 2 and "a second trace gave another program" in str(found.error)


def test_nor_does_one_that_patches_the_spot_check_besides(host: Host, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL.replace("RESULT", GOOD))
    (good,) = host.capture(Request(f"{tmp_path / 'model.py'}::Model", depth=4)).models
    assert good.graph is not None
    (tmp_path / "graph.json").write_bytes(graphio.dumps(good.graph))
    (tmp_path / "model.py").write_text(PATCHED + REPLAY + MODEL.replace("RESULT", BAD))
    (found,) = _judged(host, tmp_path / "model.py")
    assert found.report.exit_code == 2 and "on real tensors it gives something else" in str(found.error)


@pytest.mark.parametrize("said", [[{"kind": "done"}], [{"kind": "progress", "phase": "probe"}, {"kind": "done"}], []], ids=["done", "far", "nothing"])
def test_a_file_that_says_that_it_is_done_is_exit_2(said: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "frames.json").write_text(json.dumps(said))
    (tmp_path / "model.py").write_text(FORGE)
    assert cli.main(["check", str(tmp_path / "model.py")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and err.startswith("error: ") and "fault of `screen`" not in err
