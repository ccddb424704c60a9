"""Short trainings: what diverges and what does not, the limits of a sweep, the budget, and what is left as it was."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.capture.build.build import build, build_object
from screen.capture.build.random_state import seeded
from screen.capture.trace.tracer import run
from screen.child.protocol import Request
from screen.child.real import real
from screen.command.cli import main
from screen.facts import derive
from screen.graph.target import parse
from screen.pipeline.probe import GRACE, probe_request
from screen.pipeline.stages import job_of
from screen.probe.budget.budget import Budget
from screen.probe.measure.leaves import Missing, Watch
from screen.probe.measure.session import Session
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.types import WHOLE, Options
from screen.probe.stress import sweep as module
from screen.probe.stress.smaller import smaller
from screen.probe.stress.sweep import PLANS, StressPlan, Sweep, affordable, chosen, learns, limits
from screen.probe.stress.tasks import KEYS, NOISE, Task, task_of
from screen.probe.stress.training import Run, diverged, means, train
from screen.settings import load

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.by_the_day]

IDS = torch.arange(32).reshape(2, 16)
TASK = Task("", 1.0, 3.0, None, None, None)  # type: ignore[arg-type]  # only the two losses are read


class Chain(nn.Module):
    """Six maps one after the other, no norm: degree 6 in its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(6)))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.maps(x))


class Normed(Chain):
    """The same behind a norm without gain: what is added has one size, whatever the weights."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.3 * torch.nn.functional.rms_norm(self.maps(x), (16,))


class Tokens(nn.Module):
    """Logits of 64 tokens from the token itself and the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.up, self.head = nn.Embedding(64, 16), nn.Linear(32, 128), nn.Linear(128, 64)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        return self.head(torch.relu(self.up(torch.cat([x, x[:, :1].expand_as(x)], -1))))


def sweep_of(kind: type[nn.Module], inputs: Any = None) -> Sweep:
    torch.manual_seed(0)
    model = kind()
    built = build_object(model, example_inputs=inputs)[0]
    return Sweep(partial(real, Request(""), built), task_of(built, model, 0), StressPlan(40, 1, (0.0,)), "cpu", 0)


def ran(losses: list[float], rate: float = 1.0, lost: bool = False) -> Run:
    return Run(rate, tuple(losses), tuple(losses), 0.0, (math.nan, math.nan), lost)


def test_a_product_of_six_maps_diverges_where_a_norm_behind_it_does_not() -> None:
    bare, normed = sweep_of(Chain), sweep_of(Normed)
    assert not bare.run(0.0, 0, 1e-3).diverged
    lost = bare.run(0.0, 0, 0.3)
    assert lost.diverged and lost.final > 10
    assert not normed.run(0.0, 0, 0.3).diverged


def test_a_sweep_ends_at_the_first_divergence_and_asks_once_more_between(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = replace(sweep_of(Chain), task=TASK)
    monkeypatch.setattr(module, "train", lambda m, t, rate, *_: ran([3.0, 9.0 if rate > 0.02 else 2.0 if rate > 2e-3 else 2.9], rate, rate > 0.02))
    rates = [rate for rate, _ in sweep.upwards(0.0)]
    assert rates == pytest.approx([10**-3.5, 1e-3, 10**-2.5, 1e-2, 10**-1.5, 10**-1.75])
    assert limits(sweep.runs[0.0, 0], TASK) == ((pytest.approx(10**-1.75), pytest.approx(10**-1.5)),) * 2


@pytest.mark.parametrize(
    ("losses", "lost"),
    [
        ([3.0] * 10 + [1.5] * 10, False),
        ([3.0] * 10 + [3.9] * 10, False),  # above its start, by less than half of what there is to learn
        ([3.0] * 10 + [4.1] * 10, True),
        ([3.0] * 5 + [1.2] * 5 + [40.0] * 5 + [1.3] * 5, False),  # a spike that recovers
        ([3.0] * 10 + [1.2] * 8 + [2.5] * 2, True),  # one that does not
        ([3.0, 2.0, math.nan], True),
        ([50.0] + [3.2] * 19, False),  # a bad start is none
    ],
)  # fmt: skip
def test_what_counts_as_divergence(losses: list[float], lost: bool) -> None:
    assert diverged(losses, TASK) is lost


def test_learning_is_measured_from_the_best_constant_answer() -> None:
    assert learns(ran([2.0]), 1.2, TASK) and not learns(ran([2.2]), 1.2, TASK)
    assert not learns(ran([2.9]), 2.9, TASK)  # the best rate gains less than a tenth of what there is to learn
    assert not learns(ran([1.2], lost=True), 1.2, TASK)


def test_limits_count_upwards_from_the_best_rate() -> None:
    finals = {1e-3: 2.9, 1e-2: 1.2, 1e-1: 2.8, 1.0: 1.3}
    runs = {rate: ran([3.0, final], rate) for rate, final in finals.items()}
    assert limits(runs, TASK) == ((1.0, math.inf), (1e-2, 1e-1))
    assert limits({r: replace(run, diverged=True) for r, run in runs.items()}, TASK) == ((0.0, 1e-3), (0.0, 1e-3))


def test_means_end_at_the_end() -> None:
    assert means(tuple(map(float, range(25)))) == [1.5, 3.5, 5.5, 7.5, 9.5, 11.5, 13.5, 15.5, 17.5, 19.5, 21.5, 23.5]


def test_the_budget_chooses_the_plan_before_anything_runs() -> None:
    assert affordable(1e-6, 60.0) is PLANS[0]
    assert affordable(0.1, 60.0) is PLANS[-1]
    with pytest.raises(Missing, match="probe-seconds"):
        affordable(1.0, 60.0)


def test_the_floor_of_the_task_of_tokens_is_its_entropy() -> None:
    """A model that knows the permutations, by counting what a batch says, has the floor's loss; no constant answer is below ln 32."""
    task = task_of(build_object(Tokens(), example_inputs=IDS)[0], Tokens(), 0)
    g = torch.Generator().manual_seed(1)
    counts = torch.zeros(KEYS, 32, 32)
    for _ in range(300):
        ids, y = task.batch(g)
        counts.index_put_(((ids[:, :1] - 32).expand_as(y), ids[:, 1:], y), torch.ones(y.shape), accumulate=True)
    best = counts.argmax(-1)
    q = torch.full_like(counts, NOISE / 32).scatter_(-1, best[..., None], 1 - NOISE + NOISE / 32)
    loss = float(-(counts * q.log()).sum() / counts.sum())
    p = [1 - NOISE + NOISE / 32, *[NOISE / 32] * 31]
    assert task.floor == pytest.approx(-sum(v * math.log(v) for v in p)) == pytest.approx(loss, abs=0.03)
    assert task.trivial == pytest.approx(math.log(32))
    assert float(-(counts.sum((0, 1)) / counts.sum()).log().mean()) == pytest.approx(task.trivial, abs=0.01)


def test_a_model_learns_the_tokens() -> None:
    sweep = sweep_of(Tokens, IDS)
    task = sweep.task
    with torch.enable_grad():
        found = train(sweep.make(0), task, 1e-2, 150, 0, 0)
    assert task.floor < found.final < task.trivial - 0.3 and not found.diverged


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    sweep = sweep_of(Chain)  # its dropout draws random numbers of the global state
    runs = [sweep.run(0.0, seed, 1e-2) for seed in (0, 0, 1)]
    assert runs[0].losses == runs[1].losses != runs[2].losses


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLANS", (StressPlan(10, 2, (0.1,)),))


@pytest.mark.usefixtures("short")
def test_a_live_model_is_left_alone() -> None:
    torch.manual_seed(5)
    model = Chain().eval()
    before, kept, theirs = {k: v.clone() for k, v in model.state_dict().items()}, torch.random.get_rng_state(), random.getstate()
    report = screen.check(model, stress=True)
    assert report.probe is not None
    found = [e for e in report.probe.experiments if e.name == "stress"]
    assert {e.outcome for e in found} == {"observed"} and any("largest stable" in e.what for e in found)
    assert report.verdict == screen.check(model).verdict
    assert not model.training and all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert torch.equal(kept, torch.random.get_rng_state()) and theirs == random.getstate() and not torch.is_inference_mode_enabled()


def test_a_model_without_a_task_says_so() -> None:
    class Three(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[0, 0, :3] * torch.ones(3)

    with pytest.raises(Missing, match="no task fits"):
        task_of(build_object(Three(), example_inputs=torch.randn(2, 5, 7))[0], Three(), 0)


class Pixels(nn.Module):
    """Features of patches, from which classes are pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, stride=4)

    def forward(self, x: Tensor) -> Tensor:
        return self.patches(x)


def test_classes_of_images_are_pooled() -> None:
    task = task_of(build_object(Pixels(), example_inputs=torch.randn(2, 3, 16, 16))[0], Pixels(), 0)
    g = torch.Generator().manual_seed(0)
    (x, y), (_, more) = task.batch(g), task.batch(g)
    assert x.shape == (8, 3, 16, 16) and y.shape == (8,) and not torch.equal(y, more)
    out = task.answer(Pixels(), x).detach()
    assert out.shape == (8, 16, 4, 4) and torch.allclose(task.loss(out, y), torch.nn.functional.cross_entropy(out.mean((2, 3)), y))


def test_random_states_are_put_back_after_an_exception() -> None:
    kept = torch.random.get_rng_state(), random.getstate()
    with pytest.raises(ValueError, match="theirs"), seeded(3):
        torch.rand(3)
        raise ValueError("theirs")
    assert torch.equal(kept[0], torch.random.get_rng_state()) and kept[1] == random.getstate()


def test_the_option_asks_for_the_probe_and_time_for_it() -> None:
    job = job_of("x.py", load({"stress": True}, Path("/")))
    assert job.probe is not None and job.probe.stress
    assert job_of("x.py", load({}, Path("/"))).probe is None
    times = [probe_request(job.request, {}, replace(job.probe, stress=s)).timeout for s in (False, True)]
    assert times[1] - times[0] == pytest.approx(GRACE * job.probe.seconds)
    assert times[0] - job.request.timeout == pytest.approx(GRACE * job.probe.seconds * (1 + WHOLE))  # that of `update` and `curvature` besides


SOURCE = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 32), nn.Linear(32, width)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
"""


def test_the_command_trains_a_stack_of_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "block.py"
    path.write_text(SOURCE, encoding="utf-8")

    code = main(["probe", f"{path}::Block", "--depth", "2", "--device", "cpu", "--stress", "--probe-seconds", "1", "--format", "json"])
    found = [e for e in json.loads(capsys.readouterr().out)["probe"]["experiments"] if e["name"] == "stress"]
    assert code == 0 and found[0]["outcome"] == "observed" and "loss_at_0" in found[0]["numbers"]
    assert found[-2]["what"] == "largest stable learning rate, warm-up of 5 steps" and found[-2]["numbers"]["blocks_stacked"] == 2


GPT = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
class Model(nn.Module):
    def __init__(self, breadth=256, symbols=3000, layers=6, other=6):
        super().__init__()
        self.embed, self.head = nn.Embedding(symbols, breadth), nn.Linear(breadth, symbols)
        self.blocks, self.norm = nn.ModuleList(Block(breadth) for _ in range(layers)), nn.LayerNorm(breadth)
    def forward(self, ids: torch.LongTensor):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
"""


def session_of(path: Path, seconds: float) -> tuple[Any, Any, Any]:
    """The plan, the session and the maker of a target."""
    target = f"{path}::Model"
    with Watch() as watch:
        (built,) = build(parse(target), set={}, inputs=(), depth=None)
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    session = Session(trace, built, watch, Options(0, "cpu", seconds=seconds), Budget(seconds, 0, "cpu"))
    return plan_of(derive(trace.graph)), session, partial(real, Request(target), built)


def test_a_smaller_model_is_trained_where_the_model_itself_is_beyond_the_budget(tmp_path: Path) -> None:
    """The vocabulary, then the width, then the depth; another number of the same value is no depth."""
    path = tmp_path / "gpt.py"
    path.write_text(GPT, encoding="utf-8")
    plan, session, make = session_of(path, 1e6)
    assert not chosen(plan, session, make).words
    found = list(smaller(plan, session))
    assert [f.settings for f in found] == [
        {"symbols": 256}, {"symbols": 256, "breadth": 128}, {"symbols": 256, "breadth": 64}, {"symbols": 256, "breadth": 32},
        {"symbols": 256, "breadth": 32, "layers": 4}, {"symbols": 256, "breadth": 32, "layers": 2},
    ]  # fmt: skip
    assert found[-1].words == "256 ids in place of 3000, width 32 in place of 256, 2 blocks in place of 6"
    plan, session, make = session_of(path, 12.0)
    trained = chosen(plan, session, make)
    assert trained.plan.seeds == 2 and trained.words.startswith("256 ids in place of 3000, width ") and "affords it" in trained.words
    assert sum(w.numel() for w in trained.make(0).parameters()) == trained.weights < session.built.info.parameters


def test_a_budget_that_is_too_small_for_any_of_them_says_what_would_do(tmp_path: Path) -> None:
    path = tmp_path / "gpt.py"
    path.write_text(GPT, encoding="utf-8")
    with pytest.raises(Missing, match=r"it takes \d+ s of counted work: `--probe-seconds \d+` affords it") as caught:
        chosen(*session_of(path, 0.1))
    seconds = float(str(caught.value).split("--probe-seconds ")[1].split("`")[0])
    assert not chosen(*session_of(path, seconds)).words
