"""The bounds hold on random blocks; and the harness that says so can see a broken bound (`tests/soundness`)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.rules import gradient_ratio, stream_growth
from screen.structure.branches.branch import Branch
from tests.soundness import draws
from tests.soundness.grammar import Attend, Design, Part, designs, distinct
from tests.soundness.measure import Attack, fibre
from tests.soundness.model import build, example
from tests.soundness.mutations import MUTATIONS, Mutation
from tests.soundness.nodewise import mixed_norm, tangents
from tests.soundness.record import Record
from tests.soundness.region import Region, regions
from tests.soundness.sentences import attack_sentences
from tests.soundness.shards import Plan, one_structure

# -- the harness itself -------------------------------------------------------------------------------------------------------------------


def _first(design: Design, seed: int = 0) -> tuple[Region, dict[str, torch.Tensor], dict[int, torch.Tensor]]:
    rng = random.Random(seed)
    region = regions(design)[0]
    nodes = region.branch.flow.graph.nodes
    return region, draws.weights(region.shapes(), rng), {i: draws.inputs(nodes[i].shape or (), rng) for i in region.leaves}


def test_designs_of_a_seed_are_distinct_and_stay_the_same() -> None:
    found = distinct(3000, 0)
    assert len(set(found)) == len({d.line for d in found}) == 3000
    assert found[:50] == distinct(50, 0) and found[:50] != distinct(50, 1)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(designs())
def test_every_design_runs(design: Design) -> None:
    """Two blocks of it: cubes without a norm leave the floats in twelve."""
    few = replace(design, depth=min(design.depth, 2))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(example(few).shape, dtype=torch.float64)  # of a constant one some norms divide by zero
        assert bool(torch.isfinite(build(few)(x)).all())


@pytest.mark.by_the_day
@pytest.mark.parametrize("design", distinct(24, 3), ids=lambda d: d.line)
def test_a_region_computes_what_the_branch_computes(design: Design) -> None:
    """The first branch of the first block, on the input of the model."""
    region = _first(design)[0]
    weights = {k: torch.randn(s, dtype=torch.float64) for k, s in region.shapes().items()}
    model = build(design).train()  # batch norms with the statistics of the batch
    model.load_state_dict(weights, strict=False)
    x = torch.randn(example(design).shape, dtype=torch.float64)
    whole = bool(design.stream_norm) and design.end == "first_again"  # all that is added again behind the norm is one branch
    if whole or region.leaves != (0,) or len(regions(design)) != min(design.depth, 2) * len(design.parts):
        pytest.skip("the input passes a norm of the stream, or a branch without weights is no branch, or all of the block is one")
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        expected = model.blocks[0].branches[0](x)
        assert float(fibre(region.run({0: x}, weights)[region.branch.output] - expected)) <= 1e-9 * float(fibre(expected))


def test_the_jacobian_of_a_known_map() -> None:
    """F(x) = W x with orthogonal W: 1."""
    design = Design((Part("linear"),), width=6, tokens=4)
    region, weights, leaves = _first(design)
    weights = {k: draws.form("orthogonal", tuple(v.shape), torch.Generator().manual_seed(0), random.Random(0)) for k, v in weights.items()}
    assert Attack(region, weights, random.Random(0)).jacobian(leaves, 2)[0] == pytest.approx(1.0)


def test_a_mixed_norm_by_hand() -> None:
    t = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4)
    by_hand = sum(max(float(t[b, h].norm()) for b in range(2)) ** 2 for h in range(3)) ** 0.5
    assert mixed_norm(t, (2, 3, 4), {2}, {1}, 2) == pytest.approx(by_hand)
    assert mixed_norm(t, (2, 3, 4), {2}, (), 1) == pytest.approx(20 + 21 + 22 + 23)
    assert mixed_norm(t, (2, 3, 4), (), (), 2) == 23.0
    assert mixed_norm(1e200 * t, (2, 3, 4), {2}, (), 2) == pytest.approx(1e200 * float(t[1, 2].norm()))


def test_tangents_are_directional_derivatives() -> None:
    torch.manual_seed(0)
    design = Design((Part("hand", "LayerNorm", attend=Attend("hand", heads=2, groups=2, rope="half")),), width=8, tokens=5)
    region, weights, leaves = _first(design)
    weights = {k: torch.randn_like(v) for k, v in weights.items()}
    leaves = {i: torch.randn_like(t) for i, t in leaves.items()}
    step = {i: torch.randn_like(t) for i, t in leaves.items()}
    value, tangent = tangents(region, leaves, weights, step)[region.branch.output]
    moved = region.run({i: t + 1e-7 * step[i] for i, t in leaves.items()}, weights)[region.branch.output]
    assert torch.allclose((moved - value) / 1e-7, tangent, atol=1e-5)


def test_ascent_climbs() -> None:
    torch.manual_seed(0)
    design = Design((Part("mlp", act="gelu"),), width=8)
    region, _, leaves = _first(design)
    weights = {k: torch.randn(s, dtype=torch.float64) for k, s in region.shapes().items()}
    attack = Attack(region, weights, random.Random(0))
    start = {i: torch.randn_like(t) for i, t in leaves.items()}
    best = attack.climb(start, lambda at: fibre(attack.output(at)) / fibre(at[0]), 20)
    gain = [float(fibre(attack.output(at)) / fibre(at[0])) for at in (start, best)]
    assert gain[1] > 1.3 * gain[0]


# -- the bounds ---------------------------------------------------------------------------------------------------------------------------

PERI = Design((Part("sdpa", "rms", "rms"), Part("mlp", "rms", "rms")), width=6, tokens=4)
CI = Plan(structures=200, draws=5, steps=6, shards=40, seed=2)
"""The slice of the long run (`python -m tests.soundness`) that every night has, and a twentieth of it every change; in small parts, for even days."""


@pytest.mark.by_the_day
@pytest.mark.parametrize("shard", range(CI.shards))
def test_no_bound_is_broken(shard: int) -> None:
    """200 structures × 5 draws: magnitudes, slopes, logits, inner entries and boundedness, the facts of every node, and every rule by itself."""
    total = Record()
    for number, design in CI.designs(shard):
        total.add(one_structure(number, design, CI))
    assert not total.violations
    assert not total.errors
    assert total.trials > 0.7 * CI.draws * len(CI.designs(shard))  # a branch without weights may be no branch
    assert total.checks["magnitude"] > 10 and total.checks["lipschitz"] > 10 and total.checks["every rule"] > 100


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_mutations_still_apply(mutation: Mutation) -> None:
    """Each stands for one place in the calculus as it is; `python -m tests.soundness.mutations` shows that the harness finds it."""
    assert mutation.path.read_text(encoding="utf-8").count(mutation.old) == 1


@pytest.mark.by_the_day
def test_the_harness_sees_a_broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the size of the input taken as 0, every bound that reads its input raw must break."""
    assert not one_structure(0, PERI, CI).violations
    monkeypatch.setattr(Attack, "size", lambda *_: 0.0)
    raw = Design((Part("mlp"),), width=6, tokens=4)
    assert one_structure(0, raw, CI).violations


# -- sentences about whole streams --------------------------------------------------------------------------------------------------------

CARRIED = Design((Part("pool", "group", "hand_layer", act="softplus", bias=True, twist="raw_gate"),), alpha="gate", depth=3, width=16, tokens=4)
"""A gated copy of the sum goes past the norm that stands on it."""
STEEP = Design((Part("mlp", output_norm="rms", act="sin"),), width=8, tokens=4)
"""N(W sin(V x)): no power of depth."""
OTHER_EPS = Design((Part("mlp", "RMSNorm"),), different="eps", depth=2)


def sentences(design: Design) -> Record:
    record = Record()
    attack_sentences(design, "0", record)
    return record


@pytest.mark.by_the_day
@pytest.mark.parametrize(
    ("design", "where", "answer", "kind"),
    [
        (CARRIED, (stream_growth, "growth_of"), lambda *_: "bounded", "growth, size"),
        (STEEP, (gradient_ratio, "keeps_slope"), lambda *_: False, "gradients over depth"),
        (OTHER_EPS, (Branch, "constants"), (), "blocks of `k0` share one derivation, and differ in it"),
    ],
    ids=["growth", "gradients", "kinds"],
)
def test_the_harness_sees_a_false_sentence(
    design: Design, where: tuple[object, str], answer: object, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was said once."""
    assert not sentences(design).violations
    monkeypatch.setattr(*where, answer)
    assert kind in {v["kind"] for v in sentences(design).violations}


@pytest.mark.by_the_day
def test_sentences_that_hold_are_compared() -> None:
    checks = sentences(PERI).checks
    assert checks["growth, weights"] == 1 and checks["gradients over depth"] == 1
