"""Large blocks: upper bounds of norms, memory and types by counted work, float32, and the coordinate check over width."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from screen.capture.build.build import build
from screen.capture.build.width import sizes_of
from screen.capture.build.width import traced as program
from screen.capture.trace.tracer import run as traced
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph.target import parse
from screen.probe.bounds import weight_norms as measures
from screen.probe.bounds.arrays import Arrays
from screen.probe.bounds.fallback import ALONE
from screen.probe.budget.budget import ATTACK, RATES, Budget, Load, below, bytes_of, dtype_of, load_of, norm_work
from screen.probe.experiments.width_scaling import ladder, verdict, widened
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session
from screen.probe.plan.from_facts import plan_of
from screen.probe.plan.types import BlockPlan, Experiment, Options, PartPlan, QuantityPlan
from tests.probe.common import CPU, measured, planned
from tests.probe.zoo import small

pytestmark = pytest.mark.by_the_day

GIB = 2**30
GPU = 139 * GIB


def matrix(rows: int, columns: int) -> QuantityPlan:
    return QuantityPlan("W0", "spectral", "rc", PartPlan("w", 0, (rows, columns), (columns, 1)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["normal", "one row", "nearly equal", "decaying", "zero beside one"])
def test_an_upper_bound_is_one_and_close(kind: str, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(1)
    w = torch.randn(120, 200, generator=g, dtype=torch.float64)
    if kind == "one row":
        w[1:] = 0
    elif kind == "nearly equal":
        w = torch.eye(150, dtype=torch.float64) + 1e-4 * torch.diag(torch.linspace(0, 1, 150, dtype=torch.float64))
    elif kind == "decaying":
        w = w * torch.logspace(0, -8, 120, dtype=torch.float64)[:, None]
    elif kind == "zero beside one":
        w = torch.zeros(130, 140, dtype=torch.float64)
        w[7, 9] = 3.0
    true = float(torch.linalg.matrix_norm(w, 2))
    assert true <= measures.upper(w.to(dtype)) <= true / math.sqrt(1 - measures.SHARE) * (1 + 1e-4)
    assert true <= measures.upper(w.to(dtype).mT) <= true / math.sqrt(1 - measures.SHARE) * (1 + 1e-4)


def test_the_upper_bound_holds_for_many_matrices_of_the_hardest_kind() -> None:
    """One large singular value hidden among many equal ones: an estimate from below misses it in most draws."""
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        q, _ = torch.linalg.qr(torch.randn(300, 300, generator=g, dtype=torch.float64))
        values = torch.full((300,), 0.9, dtype=torch.float64)
        values[0] = 1.0
        assert measures.upper(q * values) >= 1.0


def test_steps_follow_from_the_chance() -> None:
    """1.648 √m e^(−√ε (2k−1)) at most chance^(1/starts)."""
    for side in (1025, 4096, 16384):
        k = measures.steps(side)
        fails = [1.648 * math.sqrt(side) * math.exp(-math.sqrt(measures.SHARE) * (2 * n - 1)) for n in (k, k - 1)]
        assert fails[0] ** measures.STARTS <= measures.CHANCE < fails[1] ** measures.STARTS


def test_large_norms_are_bounded_and_small_ones_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    w = torch.randn(60, 90, generator=torch.Generator().manual_seed(2))
    true = float(torch.linalg.matrix_norm(w.double(), 2))
    assert measures.quantity(matrix(60, 90), Arrays({"w": w})) == pytest.approx(true, rel=1e-8) and measures.is_exact(matrix(60, 90))
    monkeypatch.setattr(measures, "EXACT", 50)
    assert true * 1.01 < measures.quantity(matrix(60, 90), Arrays({"w": w})) < true * 1.06 and not measures.is_exact(matrix(60, 90))
    for factor in (1e-30, 1e30):  # squares that float32 does not hold
        assert measures.quantity(matrix(60, 90), Arrays({"w": w * factor})) == pytest.approx(factor * true, rel=0.06)


def test_large_norms_cost_less() -> None:
    assert norm_work(matrix(4096, 4096)) < 0.2 * (2.0 * 4096**3 + 10.0 * 4096**3)
    assert norm_work(matrix(1024, 4096)) == 2.0 * 1024 * 4096 * 1024 + 10.0 * 1024**3


def test_rounding_that_is_allowed() -> None:
    assert measures.slack(torch.float64, 50, 53248) == 1e-6
    assert measures.slack(torch.float32, 20, 11008) == pytest.approx(20 * 11008 * 2.0**-24)


@pytest.fixture(scope="module")
def llama405() -> Any:
    """Two layers of the 405B model: on meta its blocks take no memory."""
    sizes = {"hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128, "num_key_value_heads": 8, "num_hidden_layers": 2}
    graph = program(build(parse("hf:llama"), set=sizes, inputs=(), depth=None)[0])
    return graph, plan_of(derive(graph))


def test_a_block_of_405b_fits_on_one_gpu(llama405: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, plan = llama405
    ffn = below(graph, plan.sublayers[1])
    assert ffn == 3 * 16384 * 53248 + 16384 and below(graph, plan.sublayers[0]) == 2 * 16384**2 + 2 * 16384 * 1024 + 16384
    assert bytes_of(ffn, torch.float32, ATTACK) < 0.9 * GPU < bytes_of(ffn, torch.float64, ATTACK)
    monkeypatch.setattr("screen.probe.budget.budget.room_of", lambda memory, device: 0.9 * GPU)
    budget = Budget(60, 0, "cuda", torch.float32)
    for sublayer in plan.sublayers:
        budget.room(sublayer, graph, ATTACK)
    assert dtype_of("auto", plan, graph, 0.9 * GPU, 60 * RATES["cuda"]) == torch.float32


def test_values_must_fit_too() -> None:
    """Attention over 10,000 tokens with a table of relative positions has few weights and 10⁹ values."""
    load = Load(weights=50_000, calls=40, tokens=20_000, made=1_200_000_000)
    with pytest.raises(Missing, match=r"1,200,000,000 values need 17\.9 GiB"):
        Budget(60, 8 << 30, "cpu").fits(load)
    Budget(60, 24 << 30, "cpu").fits(load)


def test_fused_attention_makes_a_matrix_of_tokens() -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x).transpose(1, 2)

    graph = trace(Attention(), (torch.empty(2, 3, 500, 8),), {})
    assert load_of(graph, list(graph.outputs), []).made == 2 * 3 * 500 * (8 + 4 * 500)


def test_the_type(llama405: Any) -> None:
    graph, plan = llama405
    assert dtype_of("float64", plan, graph, 0, 0) == torch.float64
    assert dtype_of("auto", plan, graph, math.inf, math.inf) == torch.float64
    assert dtype_of("auto", plan, graph, math.inf, 1e12) == torch.float32
    assert dtype_of("auto", plan, graph, 1e9, math.inf) == torch.float32


def test_float32_says_the_same() -> None:
    found = measured("hf:gemma2", replace(CPU, dtype="float32", seconds=10.0), **small("gemma2"))
    assert not [e for e in found if e["outcome"] == "refuted"]
    degrees = [e for e in found if e["name"] == "invariance"]
    assert len(degrees) >= 6 and {e["outcome"] for e in degrees} == {"confirmed"}
    assert any(e["name"] == "bounds" and e["outcome"] == "confirmed" for e in found)


def test_bounds_at_a_drawn_input_where_an_attack_is_too_much() -> None:
    sizes = {"num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 4}
    found = [e for e in measured("hf:llama", Options(device="cpu", seconds=0.1), **sizes, vocab_size=80) if e["name"] == "bounds"]
    assert {e["outcome"] for e in found if e["what"].endswith(ALONE)} == {"confirmed"}
    assert {e["outcome"] for e in found if not e["what"].endswith(ALONE)} == {"not_measured"}


def session_of(target: str, **settings: Any) -> tuple[Session, list[BlockPlan]]:
    built, plan, watch = planned(target, **settings)
    trace = traced(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    return Session(trace, built, watch, CPU, Budget(1e6, 0, "cpu")), list(plan.blocks)


def over_width(target: str, **settings: Any) -> dict[tuple[str, str], Experiment]:
    session, (block,) = session_of(target, **settings)
    return {(e.what.partition(",")[0], e.sublayer): e for e in widened((block,), session)}


def test_gpt2_with_a_fixed_deviation_grows_with_width() -> None:
    """N(0, 0.02²) on d entries: every map adds √d, and two stand in a branch behind a norm."""
    found = over_width("hf:gpt2", n_layer=1, n_embd=512, n_head=8, vocab_size=64)
    for name in ("attention", "ffn"):
        start = found["rms of what the branch adds", name]
        assert start.measured == pytest.approx(1.0, abs=0.15) and "grows like width^" in start.reason
        change = found["rms of its change after one signed step", name].measured
        assert isinstance(change, float) and change > 1.0
    assert found["rms of the logits of the attention", "attention"].samples == 12


def test_a_branch_that_ends_in_a_norm_does_not_grow() -> None:
    found = over_width("examples/peri.py")
    start = found["rms of what the branch adds", "attention"]
    assert isinstance(start.measured, float) and abs(start.measured) < 0.01
    assert start.reason.startswith("does not grow with width") and "`dim` alone" in start.reason
    assert start.numbers["ratio"] == pytest.approx(1.0, abs=0.01)


def test_an_output_that_starts_at_zero_has_no_exponent() -> None:
    found = over_width("examples/rezero.py")
    assert "not_applicable" in {e.outcome for e in found.values()} and all(e.outcome != "refuted" for e in found.values())


def test_no_family_of_widths() -> None:
    session, (block,) = session_of("examples/pre.py")
    live = replace(session, built=replace(session.built, again=None))
    fixed = replace(session, built=replace(session.built, integers={}))
    plain = replace(session, built=replace(session.built, sizes=partial(sizes_of, parse("hf:resnet"), {})))
    for one, said in ((plain, "`ResNetConfig` has none"), (live, "a live model"), (fixed, "no whole number")):
        (found,) = widened((block,), one)
        assert found.outcome == "not_measured" and found.reason.startswith(said)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.2, 0.4, "grows like width^0.30"),
        (-0.05, 0.05, "does not grow"),
        (-0.6, -0.4, "shrinks"),
        (0.0, 0.5, "cannot be told"),
        (-0.3, 0.0, "does not grow"),
    ],
)
def test_verdicts(low: float, high: float, said: str) -> None:
    assert verdict(low, high, (low + high) / 2).startswith(said)


@pytest.mark.parametrize(
    ("own", "step", "widths"),
    [(4096, 128, [256, 384, 640, 1024]), (768, 64, [128, 256, 448, 768]), (2304, 576, [576, 1152, 1728, 2304]), (64, 64, [64, 128, 192, 256])],
)
def test_the_ladder(own: int, step: int, widths: list[int]) -> None:
    found = ladder(own, step)
    assert all(w % step == 0 for w in found) and found[-1] == widths[-1] and len(found) >= 3


def test_the_graph_of_a_narrower_model_is_that_of_its_own() -> None:
    built = build(parse("hf:gpt2"), set={"n_layer": 2}, inputs=(), depth=None, width=128)[0]
    assert built.again is not None and built.sizes is not None and built.sizes().main == 128
    again = built.again({"n_embd": 256, "n_head": 4}, {})[0]
    assert again.info.changed["n_embd"] == [768, 256]
    assert len(traced(again.model, again.args, again.kwargs).graph.nodes) == len(program(built).nodes)
