"""The interpreter in which nothing of ours is: what it says of a model, and what its code may see there."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from screen.child.host import Host
from screen.child.order import Unsaid, _said
from screen.child.protocol import Request
from screen.child.sandbox import missing
from screen.pipeline.stages import Job, judge
from screen.probe.plan.samples import SAME, apart
from screen.probe.plan.spot_types import outside_from_json
from screen.probe.second import outside

pytestmark = pytest.mark.by_the_day

HEAD = """
import os, sys
import torch
from dataclasses import dataclass, field
from torch import nn
@dataclass
class Settings:
    width: int = 8
    sizes: list = field(default_factory=lambda: [1, 2])
class Model(nn.Module):
    def __init__(self, cfg: Settings):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(cfg.width), nn.Linear(cfg.width, cfg.width)
        self.register_buffer("mask", torch.ones(cfg.width))
    def forward(self, x):
        FORWARD
        return x + self.map(self.norm(x)) * self.mask
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host() as running:
        yield running


def _orders(host: Host, target: str) -> tuple[list[Request], str]:
    """The orders that a check gives, and the error that it ends with."""
    given: list[Request] = []

    def capture(request: Request, progress: object) -> object:
        given.extend([request] if request.outside is not None else [])
        return host.capture(request)

    (found,) = judge(Job(Request(target, depth=4, timeout=60.0, memory=0, set={"width": 16}), second=True), capture)  # type: ignore[arg-type]
    return given, "" if found.report.error is None else found.report.error.message


def test_a_model_is_made_there_of_what_it_is_made_of_here(host: Host, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD.replace("FORWARD", "pass"))
    (request,), error = _orders(host, f"{tmp_path / 'model.py'}::Model")
    assert error == ""
    (order,) = (request.outside or {}).values()
    assert order["kwargs"] == [["cfg", ["called", ["named", "", "Settings"], [["width", 16]]]]] and order["count"] == 4
    (found,) = host.capture(request).outside.values()
    told = outside_from_json(dict(found))
    assert told.stage == "" and told.output is not None and told.still and len(told.later) > 1 and len(told.training) == 3
    assert all(apart(one, told.output) <= SAME for one in (*told.later, *told.training)) and told.buffers[0][0] == "mask"


def test_a_file_that_asks_nothing_is_not_run_there(host: Host, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD.replace("FORWARD", "pass").replace("import os, sys\n", ""))
    assert _orders(host, f"{tmp_path / 'model.py'}::Model") == ([], "")


@pytest.mark.parametrize("drops", ["nn.functional.dropout(x, 0.5, self.training)", "nn.functional.dropout2d(x[None], training=self.training)[0]"])
def test_functions_that_leave_out_entries_in_training_alone_make_no_other_model(host: Host, tmp_path: Path, drops: str) -> None:
    (tmp_path / "model.py").write_text(HEAD.replace("FORWARD", f"x = {drops}"))
    (request,), error = _orders(host, f"{tmp_path / 'model.py'}::Model")
    assert error == "" and request.outside


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        ("x.is_meta or os.environ.get('MKL_NUM_THREADS') == '1' or sys.exit(0)", "an interpreter without `screen`, it raises `SystemExit: 0`"),
        (
            "x.is_meta or os.environ.get('MKL_NUM_THREADS') == '1' or os._exit(0)",
            "without `screen`, it gave no answer: the process ended with exit code 0",
        ),
        ("x = x if self.training == x.is_meta else x * 2", ""),
    ],
    ids=["raises", "ends", "is another one"],
)
def test_one_that_is_another_one_there_is_not_judged(host: Host, tmp_path: Path, forward: str, said: str) -> None:
    (tmp_path / "model.py").write_text(HEAD.replace("FORWARD", forward))
    _, error = _orders(host, f"{tmp_path / 'model.py'}::Model")
    assert "must be the same model each time" in error and said in error


SEES = """
import os, sys
words = [*sys.modules, *sys.argv, *os.environ, *os.environ.values(), open("/proc/self/cmdline").read(), __name__]
where = os.environ.get("PYTHONHASHSEED"), os.environ.get("HF_HUB_OFFLINE"), os.environ.get("SCREEN_TEST_TOKEN")
shown = [one.partition("=")[2] for one in open("/proc/self/environ").read().split("\\0") if one.startswith("PYTHONHASHSEED")]
where = *where, *shown
class Model: pass
ours = [word for word in words if 'screen' in word.lower() and '/' not in word and not word.startswith('__editable__')]  # every interpreter has that
raise ValueError(f"{ours} {where} {sys.argv == [__file__]} {sys._getframe(1).f_code.co_filename}")
"""


@pytest.mark.skipif(bool(missing()), reason="needs the sandbox")
def test_nothing_there_is_called_like_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCREEN_TEST_TOKEN", "secret")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(SEES)
    order = {"file": str(tmp_path / "model.py"), "module": "model"}
    with Host() as host:
        seen = host.capture(Request("model.py", outside={"one": order}))
    assert seen.error is None and seen.outside["one"]["stage"] == "load"
    assert "[] ('random', None, None, 'random') True" in seen.outside["one"]["reason"] and "screen" not in seen.outside["one"]["reason"]


def test_the_tree_cannot_put_compiled_files_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import compileall

    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("X = 1\n")
    compileall.compile_file(str(tmp_path / "helper.py"), legacy=True, quiet=1)
    (tmp_path / "helper.py").unlink()
    (tmp_path / "model.py").write_text("import helper\n")
    with Host() as host:
        seen = host.capture(Request("model.py", outside={"one": {"file": str(tmp_path / "model.py"), "module": "model"}}))
    assert "compiled code without its source" in seen.outside["one"]["reason"]


# -- what a call is described by --------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Config:
    width: int = 4
    more: list[int] = dataclasses.field(default_factory=list)
    made: int = dataclasses.field(init=False, default=0)


VALUES = (1, None, "a", [1, (2.5, True)], {"a": [1]}, torch.float16, nn.GELU, torch.relu, Config(3), Config(), torch.ones(2, 3), {1: nn.Linear})


@pytest.mark.parametrize("value", VALUES, ids=map(str, range(len(VALUES))))
def test_a_value_is_what_its_description_says(value: object) -> None:
    again = outside.meant(_said(value, sys.modules[__name__]), sys.modules[__name__])
    assert torch.equal(again, value) if isinstance(value, torch.Tensor) else again == value


@pytest.mark.parametrize("value", [object(), SimpleNamespace(a=1), lambda: 1, nn.Linear(2, 2), [object()]])
def test_what_cannot_be_described_says_so(value: object) -> None:
    with pytest.raises(Unsaid):
        _said(value, ModuleType("none"))


def test_a_description_that_is_none_is_refused() -> None:
    for said in (["shell", "ls"], ["tensor", "none", [1], ""], ["tensor", "float32", [1 << 40], ""], ["tensor", "float32", [2], ""]):
        with pytest.raises(ValueError):
            outside.meant(said, None)
