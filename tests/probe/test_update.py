"""κ of the first Adam step against Adam itself and against closed forms; the groups of weights; what has no κ, and what is left as it was."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.table import designs
from screen.probe.experiments.update import updates
from screen.probe.measure.determinism import settled
from screen.probe.measure.whole import Whole
from screen.probe.plan.types import Experiment
from screen.recipe import Recipe
from tests.probe.common import planned
from tests.probe.whole import given

pytestmark = pytest.mark.by_the_day

IDS = torch.arange(24).reshape(2, 12) % 40


def gpt(norms: str = "A", **changed: Any) -> nn.Module:
    torch.manual_seed(0)
    return designs.GPT(designs.Design(norms, depth=2, dim=16, heads=2, vocab=48, **changed))


def found(model: nn.Module, inputs: Any, recipe: Recipe | None = None, seconds: float = 1e6, kappa: float | None = None) -> list[Experiment]:
    plan, session, make = given(model, inputs, recipe, seconds)
    with settled("cpu", 0):
        return list(updates(replace(plan, update=replace(plan.update, predicted=kappa)), session, make))


def by_group(lines: list[Experiment]) -> dict[str, Experiment]:
    return {e.group: e for e in lines[2:]}


@pytest.mark.parametrize(("norms", "final"), [("A", nn.LayerNorm), ("A", nn.RMSNorm), ("C", None), ("", None)])
def test_kappa_is_what_a_step_of_adam_does(norms: str, final: type[nn.Module] | None) -> None:
    """A pre-norm with a last norm that is a function, or the parts of a fused kernel; a post-norm; a stream without norms, divided by its rms."""
    model = gpt(norms, final_norm=False)
    if final is not None:
        model.norm = final(16)
    plan, session, make = given(model, IDS)
    with settled("cpu", 0):
        lines = list(updates(plan, session, make))
        task, whole = (w := Whole(make(0), session, plan.update)).task, w
    g = torch.Generator().manual_seed(whole.generator.initial_seed())
    batches = [task.batch(g) for _ in range(8)]
    twin = copy.deepcopy(model).double().train()
    (sum(task.loss(twin(x), y) for x, y in batches) / 8).backward()  # type: ignore[union-attr]  # a sum of tensors

    def state() -> Tensor:
        x = twin.embed(batches[0][0])  # type: ignore[operator]
        for block in twin.blocks:  # type: ignore[union-attr]
            x = block(x)
        x = twin.norm(x)  # type: ignore[operator]
        return x if norms else x / x.square().mean(-1, keepdim=True).sqrt()

    before, step = state().detach(), 1e-7
    torch.optim.Adam(twin.parameters(), lr=step, eps=1e-8).step()
    moved = (state().detach() - before) / step
    assert lines[0].measured == pytest.approx(float(moved.square().mean().sqrt() / before.square().mean().sqrt()), rel=0.02)
    assert isinstance(lines[0].measured, float) and lines[1].measured == pytest.approx(1 / lines[0].measured, rel=0.02)


class InPlace(nn.Module):
    """Sums that are made in place, and written over behind the last one; or the same with new tensors."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.in_place, self.embed, self.a, self.b, self.head = in_place, nn.Embedding(40, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 40)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for part in (self.a, self.b):
            y = part(torch.tanh(x))
            if self.in_place:
                y += x
            x = y if self.in_place else y + x
        return self.head(F.relu(x, inplace=self.in_place))


def test_a_state_that_is_made_and_overwritten_in_place_is_found() -> None:
    one, other = (found(InPlace(b), IDS) for b in (False, True))
    assert one[0].outcome == "observed" and [e.measured for e in one] == [e.measured for e in other]


class Map(nn.Module):
    """One map, and no stream: the output stands for the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.map(x)


def test_kappa_of_one_map_has_a_closed_form() -> None:
    """h = y/rms(y), y = Wx: δy = −η·sign(G)·x, and of δh what is along h is lost."""
    torch.manual_seed(0)
    model = Map()
    plan, session, make = given(model, torch.randn(2, 5, 6))
    with settled("cpu", 0):
        whole = Whole(make(0), session, plan.update)
        batches = [whole.batch() for _ in range(8)]
        total = sum(whole.gradients(b)["model.map.weight"] for b in batches)
        line = next(iter(updates(plan, session, make)))
    x, w = batches[0][0], model.map.weight.detach()
    y, dy = x @ w.T, -x @ torch.as_tensor(total).sign().T
    size = y.square().mean(-1, keepdim=True).sqrt()
    dh = (dy - y * (y * dy).mean(-1, keepdim=True) / size**2) / size
    assert line.measured == pytest.approx(float(dh.square().mean().sqrt()), rel=0.01)


def test_groups_are_what_weights_do() -> None:
    lines = by_group(found(gpt(), IDS))
    assert set(lines) == {"FFN in", "FFN out", "O", "Q and K", "V", "biases", "embedding", "gains"}
    assert lines["biases"].numbers["rms_weight"] == 0.0 and "they start at 0" in lines["biases"].reason
    assert lines["FFN out"].numbers["rms_weight"] == pytest.approx(1 / 8, rel=0.1)  # 1/√64
    whole = found(gpt(), IDS)[0].measured
    assert isinstance(whole, float) and lines["V"].numbers["share"] == pytest.approx(float(lines["V"].measured or 0) / whole, rel=0.02)


def test_groups_of_a_fused_map_and_of_a_mixture() -> None:
    assert set(dict(planned("examples/vit_block.py")[1].update.groups)) == {"FFN in", "FFN out", "O", "Q, K and V", "biases", "gains"}
    groups = dict(planned("examples/moe.py")[1].update.groups)
    assert {"moe in", "moe out", "other maps"} <= groups.keys() and groups["other maps"] == ("output.weight",)
    assert sum(map(len, groups.values())) == len({n for names in groups.values() for n in names})


def test_layers_that_did_not_run_are_in_the_groups_of_those_that_stand_for_them() -> None:
    """40 blocks, of which a few are traced."""
    with torch.device("meta"):
        model = designs.GPT(designs.Design("A", depth=40, dim=16, heads=2, vocab=48))
    plan = given(model, IDS)[0]
    assert {n for _, names in plan.update.groups for n in names} == set(dict(model.named_parameters()))


def test_weights_without_a_gradient_do_not_move() -> None:
    """ReZero: branches are multiplied by 0 at the start, so that scales and embedding move alone."""
    lines = by_group(found(gpt("", rezero=True, final_norm=False), IDS))
    assert {g for g, e in lines.items() if e.measured == 0.0} == {"FFN in", "FFN out", "O", "Q and K", "V"}
    assert float(lines["gains"].measured or 0) > 0


class Deaf(nn.Module):
    """What it has learned reaches no output."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.map(x)
        return torch.tanh(x)


def test_where_no_weight_reaches_the_output_there_is_no_kappa() -> None:
    (line,) = found(Deaf(), torch.randn(2, 3, 4))
    assert line.outcome == "not_applicable" and "no weight has a gradient" in line.reason


class Counts(nn.Module):
    """Integers in, one number for each of three classes out: no task fits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(20, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.norm(self.embed(ids).mean(1)))


def test_a_model_that_no_task_fits_is_asked_for_noise() -> None:
    line = found(Counts(), IDS % 20)[0]
    assert line.outcome == "observed" and "outputs that are N(0, 1)" in line.reason


class _Twice(torch.autograd.Function):
    """2x, without a derivative in forward mode."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *g: Tensor) -> Tensor:
        return 2 * g[0]


class Doubled(nn.Module):
    """A residual block with an op of the user's own, or the same op written out."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.own, self.up, self.down, self.drop, self.norm = own, nn.Linear(8, 16), nn.Linear(16, 8), nn.Dropout(0.5), nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            y = torch.tanh(self.up(x))
            x = x + self.drop(self.down(_Twice.apply(y) if self.own else 2 * y))
        return self.norm(x)


def test_an_op_without_a_forward_derivative_is_met_by_differences() -> None:
    x = torch.randn(2, 4, 8)
    plain, own = found(Doubled(False), x)[0], found(Doubled(True), x)[0]
    assert "differences" in own.reason and "where it is linear" in own.reason and "differences" not in plain.reason
    assert own.measured == pytest.approx(plain.measured, rel=0.02)


def test_it_runs_as_in_evaluation_with_the_users_hooks_and_leaves_all_as_it_was() -> None:
    """The model's dropout would halve its branches; its hook doubles them."""
    x, model = torch.randn(2, 4, 8), Doubled(False).train()
    first = found(model, x)
    torch.manual_seed(5)
    state, before = torch.get_rng_state(), {n: p.clone() for n, p in model.named_parameters()}
    assert [e.measured for e in found(model, x)] == [e.measured for e in first]  # nothing is drawn
    assert model.training and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, before[n]) and p.grad is None for n, p in model.named_parameters())
    model.down.register_forward_hook(lambda module, args, output: 2 * output)
    assert found(model, x)[0].measured != first[0].measured


def test_batch_norms_take_the_statistics_of_the_batch() -> None:
    """What evaluation would divide by makes no difference."""
    kappas = []
    for variance in (1.0, 1e6):
        torch.manual_seed(0)
        norm = nn.BatchNorm2d(8)
        torch.as_tensor(norm.running_var).fill_(variance)
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm, nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
        kappas.append(found(model, torch.randn(2, 3, 8, 8))[0].measured)
    assert kappas[0] is not None and kappas[0] == kappas[1]


def test_epsilon_and_rate_are_the_recipes() -> None:
    plain, slow = found(gpt(), IDS)[0], found(gpt(), IDS, Recipe(eps=1e3, lr=0.01))[0]  # type: ignore[call-arg]  # all its fields are optional
    assert float(slow.measured or 0) < 1e-2 * float(plain.measured or 0) and "kappa_in_a_step_of_0.01" in slow.numbers


def test_a_derivation_is_compared_up_to_a_factor_of_two() -> None:
    measured = float(found(gpt(), IDS)[0].measured or math.nan)
    near, far = (found(gpt(), IDS, kappa=measured * by)[0] for by in (1.9, 2.2))
    assert near.outcome == "confirmed" and near.predicted == pytest.approx(1.9 * measured, rel=0.01)
    assert far.outcome == "observed" and far.reason.startswith("2.2 times from its derivation")


def test_work_is_counted_before_it_is_done() -> None:
    (line,) = found(gpt(), IDS, seconds=1e-3)
    assert line.outcome == "not_measured" and "of counted work" in line.reason and "--probe-seconds" in line.reason


class Fickle(nn.Module):
    """Another program for large batches."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.a, self.b, self.norm = nn.Embedding(40, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x + torch.tanh(self.a(x))
        x = x + torch.tanh(self.b(x))
        if len(x) > 2:
            x = F.layer_norm(x, (8,))
        return self.norm(x)


def test_a_state_that_is_not_found_again_is_not_measured() -> None:
    (line,) = found(Fickle(), IDS)
    assert line.outcome == "not_measured" and line.reason.startswith("its last state was not found again: 2 calls")
