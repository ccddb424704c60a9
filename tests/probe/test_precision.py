"""One block in 16-bit types: what the program casts itself is kept, what overflows is found where it overflows, and lost branches are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from screen.capture.build.build import build
from screen.capture.trace.tracer import run
from screen.facts import derive
from screen.graph.target import parse
from screen.probe.budget.budget import Budget
from screen.probe.measure.leaves import Material, Missing, Watch
from screen.probe.measure.replay import Tape
from screen.probe.measure.session import Session
from screen.probe.measure.stack import Stack
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.types import BoundPlan, Experiment, ProbePlan
from screen.probe.precision import experiments as module
from screen.probe.precision.against_float64 import Precision
from screen.probe.precision.experiments import counted, lost, precision, reach
from screen.probe.precision.program import Half, aligned, halved
from screen.probe.precision.run import precise
from tests.probe.common import CPU, planned

pytestmark = pytest.mark.by_the_day

BLOCK = """
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        kind = x.dtype
        CAST
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)).to(kind) * self.weight


class Block(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.norm = Norm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + SCALE * self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""


def beside(path: Path, cast: str = "x = x.float()", dtype: torch.dtype = torch.float16, scale: str = "1.0") -> Precision:
    file = path / "model.py"
    file.write_text(BLOCK.replace("CAST", cast).replace("SCALE", scale))
    return of_target(f"{file}::Model", dtype)


def of_target(target: str, dtype: torch.dtype) -> Precision:
    with Watch() as watch:
        built = build(parse(target), set={}, inputs=(), depth=None)[0]
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    plan = plan_of(derive(trace.graph))
    stack = Stack(plan.blocks[0], Material(Tape(trace, torch.float64, "cpu"), built, watch, 0))
    with torch.no_grad():
        x, _ = stack.start(True)
        return Precision(stack, halved(trace, built, dtype, "cpu"), dtype, x, {s.name: s for s in plan.sublayers})


def found(made: Precision, what: str) -> Experiment:
    with torch.no_grad():
        return next(e for e in precision(made) if e.what.startswith(what))


def test_a_cast_of_the_program_is_kept(tmp_path: Path) -> None:
    """Squares in float32 reach as far as the stream; squares in float16 end at |x| = 256."""
    kept, bare = beside(tmp_path), beside(tmp_path, cast="pass")
    with torch.no_grad():
        far, near = (reach(m, Experiment("precision", "", "observed")) for m in (kept, bare))
    assert far.outcome == "confirmed" and "the stream itself" in far.reason
    assert near.outcome == "confirmed" and "`pow`" in near.reason
    top = float(bare.x.abs().amax())
    k = int(near.numbers["finite_to"])
    assert top * 2**k < 256 <= top * 2 ** (k + 1)
    ops = [n.op for n in kept.half.tape.graph.nodes]
    assert len(ops) > len(kept.stack.material.tape.graph.nodes) and {"float", "to"} & set(ops)


def test_values_have_the_types_of_the_program(tmp_path: Path) -> None:
    made = beside(tmp_path, dtype=torch.bfloat16)
    with torch.no_grad():
        env = made.run(0)
    tape = made.half.tape
    assert all(v.dtype == tape.dtype_of(j) for j, v in env.items() if isinstance(v, torch.Tensor))
    assert {v.dtype for v in env.values() if isinstance(v, torch.Tensor)} == {torch.bfloat16, torch.float32}


def test_the_error_is_that_of_the_model_itself_in_the_type(tmp_path: Path) -> None:
    """The block by hand: weights rounded, every call in bfloat16, the norm in float32."""
    made = beside(tmp_path, dtype=torch.bfloat16)
    tape, true = made.stack.material.tape, made.true
    weights = {tape.nodes[i].meta["label"]: v.bfloat16() for i, v in true.items() if tape.graph.nodes[i].op == "parameter"}
    x = made.x.bfloat16()
    y = x.float()
    y = (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weights["blocks.0.norm.weight"]
    y = torch.relu(torch.nn.functional.linear(y, weights["blocks.0.up.weight"], weights["blocks.0.up.bias"]))
    y = x + 1.0 * torch.nn.functional.linear(y, weights["blocks.0.down.weight"], weights["blocks.0.down.bias"])
    with torch.no_grad():
        assert torch.equal(made.run(0)[made.exit], y)
    step = true[made.stack.plan.exit] - made.x
    error = float((y.double() - true[made.stack.plan.exit]).norm() / step.norm())
    assert found(made, "relative error").measured == pytest.approx(error, rel=5e-3)


def test_a_bound_that_is_too_small_is_refuted(tmp_path: Path) -> None:
    made = beside(tmp_path, cast="pass")
    name, sub = next(iter(made.sublayers.items()))
    small = BoundPlan("internal", sub.output, (("num", 1e-6, "", (), ()),))
    made.sublayers = {name: replace(sub, plain=tuple(replace(b, program=small.program) for b in sub.plain))}
    made.x = made.x * 300
    assert found(made, "non-finite").outcome == "refuted"
    assert found(made, "largest rms").outcome == "refuted"


def test_without_a_bound_nothing_is_predicted(tmp_path: Path) -> None:
    made = beside(tmp_path)
    made.sublayers = {name: replace(sub, plain=()) for name, sub in made.sublayers.items()}
    count = found(made, "non-finite")
    assert count.outcome == "observed" and count.predicted is None and "no bound is known" in count.reason


def test_an_underflow_is_no_overflow(tmp_path: Path) -> None:
    """A stream of 1e-6: squares and ε = 1e-8 are 0 in float16, and so is the divisor."""
    file = tmp_path / "model.py"
    file.write_text(BLOCK.replace("CAST", "pass").replace("SCALE", "1.0").replace("1e-5", "1e-8"))
    made = of_target(f"{file}::Model", torch.float16)
    made.x = made.x * 1e-6
    made.__post_init__()
    with torch.no_grad():
        bad = made.bad(made.run(0))
        assert bad.count and bad.underflow
        assert counted(made, bad, "", Experiment("precision", "", "observed")).outcome == "observed"


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 11), (torch.bfloat16, 8)])
def test_what_a_sum_loses(tmp_path: Path, dtype: torch.dtype, bits: int) -> None:
    """A branch 2^−bits of the stream: nearly everything is lost; with full weight little is. The share lies where the theorem puts it."""
    little = beside(tmp_path, dtype=dtype, scale=f"{2.0 ** -(bits + 2)}")
    much = beside(tmp_path, dtype=dtype)
    shares = [float(found(m, "share").measured or 0) for m in (little, much)]
    assert shares[0] > 0.7 and shares[1] < 0.05
    assert all(found(m, "share").outcome == "confirmed" for m in (little, much))


def test_lost_entries_by_hand(tmp_path: Path) -> None:
    """x = 1 in bfloat16: +2^−8 is half a unit and goes to even (lost), +2^−8·1.5 is kept; −2^−9 is half a unit below (lost), −2^−9·1.5 is kept."""
    made = beside(tmp_path, dtype=torch.bfloat16)
    with torch.no_grad():
        made.run(0)
        (add,) = made.half.tape.seen
        x, f = (torch.ones_like(v) for v in made.half.tape.seen[add])
        f[..., 0::4], f[..., 1::4], f[..., 2::4], f[..., 3::4] = 2.0**-8, 2.0**-8 * 1.5, -(2.0**-9), -(2.0**-9) * 1.5
        judged = next(iter(lost(made, {add: [x, f]}, Experiment("precision", "", "observed"))))
    assert (judged.numbers["low_0"], judged.numbers["lost_0"], judged.numbers["high_0"]) == (0.0, 0.5, 0.75)


def test_a_rounding_that_is_not_that_of_the_type_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """bfloat16 sums, judged as if they had the eleven bits of float16."""
    made = beside(tmp_path, dtype=torch.bfloat16)
    for name in ("always_lost", "possibly_lost"):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda kind, real=real: real("float16"))
    assert found(made, "share").outcome == "refuted"


def test_masks_are_not_counted() -> None:
    """Causal attention: −∞ above the diagonal in every type."""
    made = of_target("examples/pre.py", torch.float16)
    assert found(made, "non-finite").measured == 0.0


def test_the_model_is_left_in_its_type(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(BLOCK.replace("CAST", "pass").replace("SCALE", "1.0"))
    built = build(parse(f"{file}::Model"), set={}, inputs=(), depth=None)[0]
    trace = run(built.model, built.args, built.kwargs)
    before = [(id(p), p.dtype) for p in built.model.parameters()]
    halved(trace, built, torch.float16, "cpu")
    assert before == [(id(p), p.dtype) for p in built.model.parameters()]


def test_another_program_is_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    text = BLOCK.replace("CAST", "x = x * 2 if x.dtype == torch.float16 else x").replace("SCALE", "1.0")
    file.write_text(text)
    built = build(parse(f"{file}::Model"), set={}, inputs=(), depth=None)[0]
    trace = run(built.model, built.args, built.kwargs)
    with pytest.raises(Missing, match="another program in float16"):
        halved(trace, built, torch.float16, "cpu")
    assert isinstance(halved(trace, built, torch.bfloat16, "cpu"), Half)


def test_a_forward_that_does_not_run_in_the_type(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(BLOCK.replace("CAST", "assert x.dtype != torch.float16").replace("SCALE", "1.0"))
    built = build(parse(f"{file}::Model"), set={}, inputs=(), depth=None)[0]
    trace = run(built.model, built.args, built.kwargs)
    with pytest.raises(Missing, match="does not run in float16"):
        halved(trace, built, torch.float16, "cpu")


def test_a_program_is_aligned_with_itself() -> None:
    built = build(parse("examples/post.py"), set={}, inputs=(), depth=None)[0]
    graph = run(built.model, built.args, built.kwargs).graph
    assert aligned(graph, graph) == ({i: i for i in range(len(graph.nodes))}, frozenset())
    assert aligned(graph, replace(graph, nodes=graph.nodes[:-1])) == (None, frozenset())


@pytest.mark.parametrize("name", ["pre", "post", "parallel", "moe", "mamba", "vit_block", "none"])
def test_examples(name: str) -> None:
    """Both types are measured, and nothing is refuted."""
    with torch.no_grad():
        mine = list(precise(*session(f"examples/{name}.py")))
    assert {t for t in ("float16", "bfloat16") if any(t in e.what for e in mine)} == {"float16", "bfloat16"}
    assert not [e for e in mine if e.outcome in ("refuted", "not_measured")]
    assert [e for e in mine if e.outcome == "confirmed"]


CLAMPED = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(d, d) for _ in range(4)])
        self.embed = nn.Linear(d, d)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = x + block(torch.nn.functional.layer_norm(x, (x.shape[-1],)))
            if x.dtype == torch.float16:
                top = torch.finfo(x.dtype).max
                top = torch.where(torch.isinf(x).any(), top - 1000, top)
                x = torch.clamp(x, min=-top, max=top)
        return x
"""


def test_a_stream_that_is_clamped_in_float16_alone(tmp_path: Path) -> None:
    """The clamp is found to be one, and what goes on is behind it; a program that does something else is still another one."""
    file = tmp_path / "clamped.py"
    file.write_text(CLAMPED)
    plan, made = session(f"{file}::Model")
    with torch.no_grad():
        found = list(precise(plan, made))
        half = halved(made.trace, made.built, torch.float16, "cpu")
    assert {e.outcome for e in found} <= {"confirmed", "observed"} and any(e.outcome == "confirmed" for e in found if "float16" in e.what)
    graph, exit_ = half.tape.graph, plan.blocks[0].exit
    assert len(half.clamped) == 4 and graph.nodes[half.end(exit_)].op == "clamp" and graph.nodes[half.of[exit_]].op == "add"
    file.write_text(CLAMPED.replace("x = torch.clamp(x, min=-top, max=top)", "x = torch.tanh(x)"))
    with torch.no_grad():
        assert "another program in float16" in next(e.reason for e in precise(*session(f"{file}::Model")))


def test_what_does_not_run_and_what_is_beyond_the_budget() -> None:
    """A norm that returns float32 meets a weight in float16; a second of counted work is not enough for nothing."""
    with torch.no_grad():
        found = list(precise(*session("examples/peri.py")))
        assert {e.outcome for e in found} == {"not_measured"} and all("does not run in" in e.reason for e in found)
        plan, made = session("examples/pre.py")
        made.budget.chosen = {}
        assert all("--probe-seconds" in e.reason for e in precise(plan, made))


def session(target: str) -> tuple[ProbePlan, Session]:
    built, plan, watch = planned(target)
    trace = run(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    return plan, Session(trace, built, watch, CPU, Budget(1e6, 8 << 30, "cpu"))
