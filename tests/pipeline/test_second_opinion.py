"""A model that is another one in a second capture is not judged, and one that is the same is captured twice without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from screen.capture.build.build import build
from screen.child.hash_seeds import draws, other_hash, other_seed, seed_of
from screen.child.host import Host
from screen.child.protocol import Request
from screen.child.results import Capture, Progress
from screen.errors import LimitError
from screen.facts import derive
from screen.graph.target import parse
from screen.pipeline import stages
from screen.pipeline.spot import GRACE, with_weights
from screen.pipeline.stages import Job, judge
from screen.probe.measure.parted import traced
from screen.probe.plan.spot_types import SpotPlan
from tests.shared import ROOT

pytestmark = pytest.mark.by_the_day

HEAD = """
import os, random
import numpy as np
import torch
from torch import nn
class Sub(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.map, self.f = nn.Linear(8, 8), f
    def forward(self, x):
        return x + self.map(self.f(x))
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.parts = nn.ModuleList(Sub(f) for f in 2 * (torch.sigmoid, torch.tanh, torch.relu, nn.LayerNorm(8)))
    def forward(self, x):
        for part in PARTS:
            x = part(x)
        return self.norm(x)
"""
OTHERS = {
    "random in forward": "[p for p in self.parts if random.random() < 0.5]",
    "a set of objects": "set(self.parts)",
    "numbers of numpy": "self.parts[: np.random.randint(1, 4)]",
    "a set of words": "[self.parts[int(word[-1])] for word in {f'part {i}' for i in range(8)}]",
    "a set of two words": "self.parts[: 2 + (next(iter({'pre', 'post'})) == 'post')]",
    "the hash of a word": "self.parts[: 2 + hash('a') % 2]",
    "the hash of a word that is computed": "self.parts[: 2 + hash('part ' + str(len(self.parts))) % 2]",
    "the hash of a word, by its method": "self.parts[: 2 + 'a'.__hash__() % 2]",
}
SAME = {
    "a seed of its own": "random.Random(3).sample(list(self.parts), 3)",
    "numbers that nobody asks": "[random.random(), np.random.rand(), self.parts][2]",
    "a question to a set": "[self.parts[i] for i in range(3) if str(i) in {'0', '2'}]",
    "the hash of a number": "self.parts[: 2 + hash(2.5) % 2 + hash((1, 2)) % 2]",
    "a table by hashes": "[{hash(str(i)): part for i, part in enumerate(self.parts)}[hash(str(i))] for i in range(3)]",
}


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with Host(preload=["torch._dynamo"]) as running:
        yield running


def _error(host: Host, folder: Path, parts: str, top: str = "") -> str:
    (folder / "model.py").write_text(HEAD.replace("PARTS", parts) + top)
    (found,) = judge(Job(Request(f"{folder / 'model.py'}::Model", timeout=60.0, memory=0, sandbox="off"), spot=False, second=True), host.capture)
    return "" if found.report.error is None else found.report.error.message


@pytest.mark.parametrize("habit", OTHERS)
def test_a_model_that_differs_from_capture_to_capture_is_not_judged(host: Host, tmp_path: Path, habit: str) -> None:
    message = _error(host, tmp_path, OTHERS[habit])
    assert "must be the same model each time" in message and "two captures differ, first in " in message and "model.py" in message


@pytest.mark.parametrize("habit", SAME)
def test_one_that_does_not_is_judged(host: Host, tmp_path: Path, habit: str) -> None:
    assert _error(host, tmp_path, SAME[habit]) == ""


def test_what_fails_the_second_time_is_not_judged(host: Host, tmp_path: Path) -> None:
    left = str(tmp_path / "left")
    once = f"if os.path.exists({left!r}): os._exit(0)\nopen({left!r}, 'w').close()\n"
    assert "the second time it was not captured: the process ended with exit code 0" in _error(host, tmp_path, "self.parts", once)


def test_words_are_asked_for_where_code_may_ask(tmp_path: Path) -> None:
    sets = "x = {1, 2}", "set('ab')", "{a for a in 'ab'}", "'a'.__hash__()"
    hashed = "hash('a')", "h = hash"
    for text in (*sets, *hashed, "'a' in {'a'}", "x = {1: 2}", "("):
        (tmp_path / "model.py").write_text(text)
        found = draws([str(tmp_path / "none.py"), str(tmp_path), str(tmp_path / "model.py")])
        assert [(bool(seed), turned) for seed, turned in found] == [(text in sets, text in hashed)], text
    (tmp_path / "model.py").write_text("{hash('a')}")
    assert draws([str(tmp_path / "model.py")]) == ((1, False), (0, True))
    os.mkfifo(tmp_path / "pipe.py")
    assert draws([str(tmp_path / "pipe.py")]) == ((0, False),)


def test_written_words_have_another_order_with_the_other_seed(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("NAMES = ['pre', 'post']\nfor kind in {'a', 'b'} | set('cd') | set(NAMES): 'e'.__hash__()")
    program = "print(*{'a', 'b'}, *set('cd'), *set(['pre', 'post']), hash('e') & 1)"
    seeds = 0, other_seed([str(tmp_path / "model.py")])
    one, other = (subprocess.check_output([sys.executable, "-c", program], env={"PYTHONHASHSEED": str(seed)}).split() for seed in seeds)
    changed = [a != b for a, b in zip(one, other, strict=True)]
    assert seeds[1] and len(changed) == 7 and all(changed)
    assert other_seed([str(tmp_path / "none.py")]) == 1


def test_what_varies_has_another_hash_and_equal_values_have_equal_ones() -> None:
    same = 1, 2.5, True, (1, 2), frozenset({3})
    others = "a", b"a", (1, "a"), None, object(), frozenset({"a"})
    assert [other_hash(value) == hash(value) for value in (*same, *others)] == [True] * len(same) + [False] * len(others)
    assert other_hash("a") == other_hash("".join(["", "a"])) and other_hash("a") % 2 != hash("a") % 2


def test_the_seed_where_nothing_of_ours_is_follows_from_the_file(tmp_path: Path) -> None:
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    for file in files:
        file.write_text(file.name)
    seeds = [seed_of(str(file)) for file in (*files, files[0])]
    assert seeds[0] == seeds[2] != seeds[1] and all(100_000 <= seed < 2**32 for seed in (*seeds, seed_of(None)))


AT_THE_END = """
import sys
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.map, self.plain = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        x = x + self.map(self.norm(x))
        if not x.is_meta:
            REAL
        return x + self.plain(self.norm(x))
"""


@pytest.mark.parametrize(
    ("real", "said"),
    [
        ("return x * 3 + self.plain(x)", "on real tensors it gives something else than the program that was traced"),
        ("os._exit(0)", "on real tensors it was not there: the process ended with exit code 0"),
    ],
    ids=["another program", "no program"],
)
def test_a_model_that_is_another_one_on_real_tensors_is_not_judged(host: Host, tmp_path: Path, real: str, said: str) -> None:
    (tmp_path / "model.py").write_text(HEAD.replace("PARTS", "self.parts") + AT_THE_END.replace("REAL", real))
    (found,) = judge(Job(Request(f"{tmp_path / 'model.py'}::Model", depth=4, timeout=60.0, memory=0), second=True), host.capture)
    assert said in found.report.to_json() and found.report.exit_code == 2


def test_a_graph_is_run_where_nothing_of_the_target_is_and_agrees(host: Host, tmp_path: Path) -> None:
    asked: list[Request] = []
    told: list[Capture] = []

    def capture(request: Request, progress: Progress) -> Capture:
        if request.again is not None:
            asked.append(request)
            request = replace(request, target=str(tmp_path / "there_is_none.py"))
            told.append(host.capture(request, progress))
            return told[-1]
        return host.capture(request, progress)

    text = HEAD.replace("PARTS", "self.parts") + AT_THE_END.replace("REAL", "pass")
    (tmp_path / "model.py").write_text(text)
    job = Job(Request(f"{tmp_path / 'model.py'}::Model", depth=4, timeout=60.0, memory=0), second=True)
    (found,) = judge(job, capture)
    assert found.report.error is None and len(asked) == 1 and told[0].error is None
    (again,) = told[0].again.values()
    assert again["agrees"] is True and again["difference"] < 1e-6
    judge(replace(job, second=False), capture)
    assert len(asked) == 1


@pytest.mark.parametrize(("target", "times"), [(f"{ROOT / 'examples' / 'pre.py'}", 2), ("hf:gpt2", 1)])
def test_files_are_captured_twice_and_libraries_once(host: Host, target: str, times: int) -> None:
    draws: list[int] = []

    def capture(request: Request, progress: Progress) -> Capture:
        draws.append(request.draw)
        return host.capture(request, progress)

    job = Job(Request(target, {"n_layer": 1} if times == 1 else {}, timeout=100.0, memory=0), spot=False, second=True)
    assert judge(job, capture)[0].report.error is None
    assert draws == list(range(times))
    draws.clear()
    judge(replace(job, second=False), capture)
    assert draws == [0]


def test_copies_that_stand_for_others_are_compared_with_nothing() -> None:
    """Of a block with many calls a few copies are traced, and the module has all of them."""
    for name, whole in (("TokenShiftMix", False), ("LargeKernel", True)):
        [block] = build(parse(f"tests/adversary/round9/mixed_b.py::{name}"), set={}, inputs=(), depth=None)
        graph = traced(block.model, block.args, block.kwargs, initialisers=block.initialisers).graph
        assert graph.loop is not None and graph.is_whole is whole, name
        assert bool(with_weights(SpotPlan(0, "", ()), derive(graph)).weights) is whole


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("return x * torch.rand(1)", "`rand` does not follow from its operands"),
        ("return x.bfloat16().float()", ""),
        ("self.seen = getattr(self, 'seen', 0) + x.sum(); return x + self.seen", "a later call of it gives something else"),
        ("return x if x.sum() > 0 else x * 2", "values of its data decide what it does"),
        ("return x / 0", "its output is no finite number"),
    ],
)
def test_where_there_is_no_opinion_the_report_says_why(host: Host, tmp_path: Path, end: str, said: str) -> None:
    (tmp_path / "model.py").write_text(HEAD.replace("PARTS", "self.parts").replace("return self.norm(x)", end))
    job = Job(Request(f"{tmp_path / 'model.py'}::Model", timeout=60.0, memory=0), second=True)
    told = [judge(one, host.capture)[0].report.spot_check.reason for one in (job, replace(job, second=False))]
    assert (f"not confirmed by a second opinion: {said}" in told[0]) == bool(said) and "not confirmed" not in told[1]
    if "rand" in said:
        error = judge(replace(job, confirmed=True), host.capture)[0].report.error
        assert error is not None and f"there is none: {said}" in error.message


STATE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(8), nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("mean", torch.ones(8))
    def forward(self, x):
        self.calls += 1
        REST
"""


@pytest.mark.parametrize(
    ("rest", "agrees"),
    [
        ("self.mean.mul_(0.9).add_(0.1 * x.mean((0, 1))); return x + self.map(self.norm(x)) * self.mean", True),
        ("scale = self.mean; self.mean = 0.9 * self.mean + 0.1 * x.abs().mean((0, 1)); return x + self.map(self.norm(x)) * scale", True),
        ("return x + self.map(self.norm(x)) * torch.where(self.calls > 3, 1.0, 0.5)", True),
        ("return x + self.map(self.norm(x)) * (1.0 if self.calls.item() < 3 else 0.5)", True),
        ("return x + self.map(self.norm(x)) * (1.0 if self.calls.is_meta or float(self.calls) < 3 else 0.5)", False),
    ],
)
def test_a_state_in_buffers_is_a_state_where_a_later_call_follows_from_them(host: Host, tmp_path: Path, rest: str, agrees: bool) -> None:
    (tmp_path / "model.py").write_text("import torch\nfrom torch import nn\n" + STATE.replace("REST", rest))
    found = judge(Job(Request(f"{tmp_path / 'model.py'}::Model", depth=2, timeout=60.0, memory=0), second=True), host.capture)[0].report
    if agrees:
        assert found.error is None and "a later call of it gives something else" in found.spot_check.reason
    else:
        assert found.error is not None and "on the buffers that it has then" in found.error.message


@pytest.mark.parametrize(("real", "agrees"), [("pass", True), ("return x * 3 + self.plain(x)", False)])
def test_one_that_is_too_large_or_too_slow_to_measure_is_run_plainly_all_the_same(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: str, agrees: bool
) -> None:
    asked: list[float] = []

    def slow(request: Request, progress: Progress) -> Capture:
        """One that is given up while it measures."""
        if request.spot is None:
            return host.capture(request, progress)
        asked.append(request.timeout)
        plan = next(iter(request.spot.values()))
        measures = not plan["only"] and not plan["parts"]
        return Capture((), LimitError("it must end", "it was still running then"), "") if measures else host.capture(request, progress)

    (tmp_path / "model.py").write_text(HEAD.replace("PARTS", "self.parts") + AT_THE_END.replace("REAL", real))
    job = Job(Request(f"{tmp_path / 'model.py'}::Model", depth=4, timeout=60.0, memory=0), second=True)
    (found,) = judge(job, slow)
    assert asked[0] == GRACE < asked[1]
    assert (found.report.error is None) == agrees and "not confirmed" not in found.report.to_json()
    if not agrees:
        return

    def large(request: Request, progress: Progress) -> Capture:
        """One that is no block."""
        seen = slow(request, progress)
        return replace(seen, models=tuple(replace(model, info=replace(model.info, block=False)) for model in seen.models))

    monkeypatch.setattr(stages, "LARGEST", 10)
    (found,) = judge(replace(job, request=replace(job.request, depth=None)), large)
    assert found.report.error is None and "not confirmed" not in found.report.to_json() and "too large for a spot check" in found.report.to_json()
    assert len(asked) == 3


def test_one_that_never_ends_on_real_tensors_is_not_judged(host: Host, tmp_path: Path) -> None:
    def late(request: Request, progress: Progress) -> Capture:
        return Capture((), LimitError("it must end", "it was still running then"), "") if request.spot else host.capture(request, progress)

    (tmp_path / "model.py").write_text(HEAD.replace("PARTS", "self.parts"))
    (found,) = judge(Job(Request(f"{tmp_path / 'model.py'}::Model", timeout=60.0, memory=0), second=True), late)
    assert found.report.exit_code == 2 and found.report.error is not None and "it was still running then" in found.report.error.message
