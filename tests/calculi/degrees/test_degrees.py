"""Degrees against float64 Jacobians: exact ones within 0.02 (ε/(σ²+ε) apart), asymptotic ones at large scales."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from screen.calculi.degrees import Degree, degrees_of
from screen.probe.measure.branch import rows
from screen.structure.branches.branch import Branch
from tests.calculi.degrees.branches import Replay, parameters, replayed
from tests.capture.test_replay import SMALL, TYPES
from tests.soundness.grammar import Attend, Design, Part, distinct
from tests.soundness.model import build, example

SEED = 0


def scaled(replay: Replay, degree: Degree, c: float) -> dict[int, Tensor]:
    """Values of the group's parameters and of the biases that join it, multiplied by c to their powers."""
    nodes, given = parameters(replay), {}
    for name in degree.parameters:
        value = replay.env[nodes[name]].clone()
        chosen = rows(degree.rows, value.shape[degree.axis])
        value.index_copy_(degree.axis, chosen, value.index_select(degree.axis, chosen) * c)
        given[nodes[name]] = value
    for name, power in degree.biases:
        value = replay.env[nodes[name]].clone()
        fused = degree.rows is not None and value.shape[0] == replay.env[nodes[degree.parameters[0]]].shape[degree.axis]
        chosen = rows(degree.rows, value.shape[0]) if fused else torch.arange(value.shape[0])
        value.index_copy_(0, chosen, value.index_select(0, chosen) * c**power)
        given[nodes[name]] = value
    return given


def jacobian_size(replay: Replay, branch: Branch, given: dict[int, Tensor]) -> float:
    """‖Jᵀg‖ for one fixed random g: it scales as J does."""
    call, states = replay.function(branch)
    inputs = {i: t.clone().requires_grad_(True) for i, t in states.items()}
    with torch.enable_grad():
        output = call({**given, **inputs})
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(SEED), dtype=output.dtype)
    grads = torch.autograd.grad((output * probe).sum(), list(inputs.values()), allow_unused=True)
    return math.sqrt(sum(float((g**2).sum()) for g in grads if g is not None))


def slope(replay: Replay, branch: Branch, degree: Degree, low: float, high: float) -> float | None:
    """d log ‖J‖ / d log c; None where the Jacobian is zero."""
    a, b = (jacobian_size(replay, branch, scaled(replay, degree, c)) for c in (low, high))
    return None if a == 0 or b == 0 else math.log(b / a) / math.log(high / low)


def growth(replay: Replay, branch: Branch, low: float, high: float) -> float | None:
    """d log ‖F‖ / d log c, the stream multiplied by c; None where F is zero or leaves the range of float64."""
    call, states = replay.function(branch)
    own = {i for i in states if branch.border(i) == "raw"}
    with torch.no_grad():
        a, b = (float(call({i: t * c if i in own else t for i, t in states.items()}).norm()) for c in (low, high))
    return math.log(b / a) / math.log(high / low) if 0.0 < a < math.inf and 0.0 < b < math.inf else None


def disagreements(replay: Replay) -> tuple[list[str], int]:
    """What the measured slopes contradict, and how many degrees were measured."""
    wrong, count = [], 0
    for reader in replay.readers():
        for _, branch in reader.branches:
            for degree in degrees_of(branch).groups:
                if degree.status == "bound":
                    continue
                low, high, slack = (1.0, 4.0, 0.02) if degree.status == "exact" else (256.0, 1024.0, 0.1)
                found = slope(replay, branch, degree, low, high)
                count += found is not None
                if found is not None and abs(found - degree.predicted) > slack:
                    wrong.append(f"{degree.group}: predicted {degree.predicted} ({degree.status}), measured {found:.3f}")
    return wrong, count


def real_model(target: str, changes: dict[str, Any]) -> Replay:
    """A small model of a type, with weights of order one."""
    from screen.capture.build.build import build as build_target
    from screen.graph.target import parse

    built = build_target(parse(target), set=changes, inputs=(), depth=None)[0]
    torch.manual_seed(SEED)
    model: nn.Module = type(built.model)(built.model.config).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape) / math.sqrt(parameter.shape[-1]))
    args, kwargs = torch.utils._pytree.tree_map(
        lambda t: torch.randn(t.shape) if isinstance(t, Tensor) and t.device.type == "meta" else t, (built.args, built.kwargs)
    )
    return replayed(built.model, model, args, kwargs)


@pytest.mark.by_the_day
@pytest.mark.parametrize("kind", TYPES)
def test_degrees_of_an_architecture(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[kind]()
    changes = {k: v for k, v in SMALL.items() if isinstance(getattr(config, k, None), int) and k not in getattr(config, "attribute_map", {})}
    wrong, count = disagreements(real_model(f"hf:{kind}", changes))
    assert not wrong and count >= 4, wrong


# -- the table of the theory, from blocks written for it ----------------------------------------------------------------------------------


class Branch_(nn.Module):
    """x + [B](F([A](x))), with F one of the mixers of the table. No biases, one stream."""

    def __init__(self, mixer: nn.Module, norms: str, width: int = 24) -> None:
        super().__init__()
        self.mixer = mixer
        self.before = nn.LayerNorm(width, eps=1e-12) if "A" in norms else nn.Identity()
        self.after = nn.RMSNorm(width, eps=1e-12) if "B" in norms else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.after(self.mixer(self.before(x)))


class Softmax(nn.Module):
    def __init__(self, qk_norm: bool = False, shared: bool = False, fused: bool = False, width: int = 24) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width, bias=False) if fused else None
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        if shared:
            self.k = self.q
        self.qn = nn.RMSNorm(width, eps=1e-12) if qk_norm else nn.Identity()
        self.kn = nn.RMSNorm(width, eps=1e-12) if qk_norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1) if self.qkv is not None else (self.q(x), self.k(x), self.v(x))
        weights = torch.softmax(self.qn(q) @ self.kn(k).transpose(-1, -2) / math.sqrt(24), -1)
        return self.o(weights @ v)


class LinearAttention(nn.Module):
    def __init__(self, normalised: bool, width: int = 24) -> None:
        super().__init__()
        self.normalised = normalised
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = torch.relu(self.q(x)), torch.relu(self.k(x)), self.v(x)
        y = q @ (k.transpose(-1, -2) @ v)
        return self.o(y / (q @ k.sum(-2, keepdim=True).transpose(-1, -2)) if self.normalised else y)


class MLP(nn.Module):
    def __init__(self, activation: Any, gated: bool = False, fused: bool = False, width: int = 24) -> None:
        super().__init__()
        self.activation, self.gated, self.fused = activation, gated, fused
        self.w1, self.w3 = (nn.Linear(width, (2 if fused else 1) * 2 * width, bias=False) for _ in range(2))
        self.w2 = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.fused:
            gate, up = self.w1(x).chunk(2, -1)
            return self.w2(self.activation(gate) * up)
        return self.w2(self.activation(self.w1(x)) * self.w3(x) if self.gated else self.activation(self.w1(x)))


class Experts(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.router = nn.Linear(width, 4, bias=False)
        self.experts = nn.ModuleList(MLP(torch.relu) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        p = torch.softmax(self.router(x), -1)
        return sum(p[..., i : i + 1] * e(x) for i, e in enumerate(self.experts))  # type: ignore[return-value]


class Cut(nn.Module):
    """Gated attention unit: one map for gate, value and shared query and key, cut only behind its activation."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.w1, self.w2 = nn.Linear(width, 5 * width, bias=False), nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, value, z = torch.relu(self.w1(x)).split([48, 48, 24], -1)
        return self.w2(gate * (torch.relu(z @ z.transpose(-1, -2) / 24) ** 2 @ value))


GELU, SILU, RELU = nn.functional.gelu, nn.functional.silu, torch.relu
ONE, ZERO = (1.0, "exact"), (0.0, "exact")
TABLE: dict[str, tuple[Any, str, tuple[int, int, int], dict[str, tuple[float, str]]]] = {
    # name: (mixer, norms, (distinct, degree, min_degree), {weight: (exponent, status)})
    "pre softmax": (Softmax, "A", (4, 4, 2), {"v": ONE, "o": ONE, "q": (1.0, "bound"), "k": (1.0, "bound")}),
    "pre fused": (lambda: Softmax(fused=True), "A", (4, 4, 2), {"qkv[48:72]": ONE, "o": ONE, "qkv[0:24]": (1.0, "bound")}),
    "pre shared QK": (lambda: Softmax(shared=True), "A", (3, 4, 2), {"v": ONE, "q": (2.0, "bound")}),
    "pre QK-norm": (lambda: Softmax(True), "A", (2, 2, 2), {"q": ZERO, "k": ZERO, "v": ONE, "o": ONE}),
    "peri softmax": (Softmax, "AB", (2, 2, 0), {"v": ZERO, "o": ZERO, "q": (1.0, "bound"), "k": (1.0, "bound")}),
    "peri QK-norm": (lambda: Softmax(True), "AB", (0, 0, 0), {"q": ZERO, "k": ZERO, "v": ZERO, "o": ZERO}),
    "pre linear": (lambda: LinearAttention(False), "A", (4, 4, 4), {"q": ONE, "k": ONE, "v": ONE, "o": ONE}),
    "pre normalised linear": (lambda: LinearAttention(True), "A", (2, 2, 2), {"q": ZERO, "k": ZERO, "v": ONE, "o": ONE}),
    "pre ReLU": (lambda: MLP(RELU), "A", (2, 2, 2), {"w1": ONE, "w2": ONE}),
    "pre GELU": (lambda: MLP(GELU), "A", (2, 2, 2), {"w1": (1.0, "asymptotic"), "w2": ONE}),
    "pre ReLU²": (lambda: MLP(lambda t: torch.relu(t) ** 2), "A", (3, 3, 3), {"w1": (2.0, "exact"), "w2": ONE}),
    "pre gated": (lambda: MLP(SILU, gated=True), "A", (3, 3, 3), {"w1": (1.0, "asymptotic"), "w3": ONE, "w2": ONE}),
    "pre gated fused": (lambda: MLP(SILU, fused=True), "A", (3, 3, 3), {"w1[0:48]": (1.0, "asymptotic"), "w1[48:96]": ONE, "w2": ONE}),
    "peri ReLU": (lambda: MLP(RELU), "AB", (0, 0, 0), {"w1": ZERO, "w2": ZERO}),
    "peri GELU": (lambda: MLP(GELU), "AB", (0, 0, 0), {"w1": (0.0, "asymptotic"), "w2": ZERO}),
    "peri gated": (lambda: MLP(RELU, gated=True), "AB", (0, 0, 0), {"w1": ZERO, "w3": ZERO, "w2": ZERO}),
    "pre cut behind the activation": (Cut, "A", (5, 7, 7), {"w1[0:48]": ONE, "w1[48:96]": ONE, "w1[96:120]": (4.0, "exact"), "w2": ONE}),
    "pre experts": (Experts, "A", (3, 3, 2), {"router": (1.0, "bound"), "experts.0.w1": ONE, "experts.0.w2": ONE}),
}


def replay_of(mixer: Any, norms: str) -> Replay:
    torch.manual_seed(SEED)
    real = Branch_(mixer(), norms).eval()
    with torch.device("meta"):
        meta = Branch_(mixer(), norms).eval()
    return replayed(meta, real, (torch.randn(2, 7, 24),), {})


@pytest.mark.parametrize("name", TABLE)
def test_the_table_of_the_theory(name: str) -> None:
    mixer, norms, orders, expected = TABLE[name]
    replay = replay_of(mixer, norms)
    [(_, branch)] = next(iter(replay.readers())).branches
    found = degrees_of(branch)
    assert (found.orders.distinct, found.orders.degree, found.orders.min_degree) == orders
    by_name = {d.group.replace("mixer.", "").replace(".weight", ""): (d.predicted, d.status) for d in found.groups}
    assert {k: by_name[k] for k in expected} == expected, by_name
    wrong, count = disagreements(replay)
    assert not wrong and count >= sum(status != "bound" for _, status in expected.values()), wrong


def test_a_wrong_degree_is_seen() -> None:
    """The check itself: V of a pre-norm attention is measured at 1, and no other claim passes."""
    replay = replay_of(Softmax, "A")
    [(_, branch)] = next(iter(replay.readers())).branches
    [degree] = [d for d in degrees_of(branch).groups if d.group == "mixer.v.weight"]
    measured = slope(replay, branch, degree, 1.0, 4.0)
    assert measured is not None and abs(measured - 1.0) < 1e-6


def test_a_bias_joins_its_group() -> None:
    """Scaling W1 alone is no homogeneous change under an output norm when biases stand between; with its biases it is (review, item 10)."""

    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w1, self.w2 = nn.Linear(24, 48), nn.Linear(48, 24)

        def forward(self, x: Tensor) -> Tensor:
            return self.w2(torch.relu(self.w1(x)))

    replay = replay_of(Biased, "AB")
    [(_, branch)] = next(iter(replay.readers())).branches
    [degree] = [d for d in degrees_of(branch).groups if d.group == "mixer.w1.weight"]
    assert dict(degree.biases) == {"mixer.w1.bias": 1.0, "mixer.w2.bias": 1.0}
    together = slope(replay, branch, degree, 1.0, 4.0)
    alone = slope(replay, branch, dataclasses.replace(degree, biases=()), 1.0, 4.0)
    assert together is not None and alone is not None
    assert abs(together) < 0.02 < abs(alone)


# -- random designs -----------------------------------------------------------------------------------------------------------------------

STRUCTURES, SHARDS = 60, 4


@pytest.mark.by_the_day
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_designs(shard: int) -> None:
    """Exact degrees of random blocks (the grammar of the soundness tests), at scales where ε is small beside every variance.

    BatchNorm is left out: it is read as it computes in training, and these blocks run in evaluation."""
    wrong, streams = [], 0
    for design in distinct(STRUCTURES, seed=7)[shard::SHARDS]:
        if "batch" in design.line:
            continue
        torch.manual_seed(SEED)
        real, meta = build(design).double().eval(), build(design, "meta").double().eval()
        with torch.no_grad():
            for p in real.parameters():
                p.copy_(torch.randn_like(p) / math.sqrt(p.shape[-1]) if p.dim() > 1 else torch.randn_like(p) * 0.3 if not p.any() else p)
        replay = replayed(meta, real, (torch.randn_like(example(design).double()),), {})
        for _, branch in [b for reader in replay.readers() for b in reader.branches][:2]:
            for degree in degrees_of(branch).groups:
                found = slope(replay, branch, degree, 2.0**10, 2.0**12) if degree.status == "exact" else None
                if found is not None and math.isfinite(found) and abs(found - degree.predicted) > 0.02:
                    wrong.append(f"{degree.group}: predicted {degree.predicted}, measured {found:.3f} in {design.line}")
            own, large = degrees_of(branch).stream, growth(replay, branch, 2.0**24, 2.0**28)
            streams += own is not None and large is not None
            if own is not None and large is not None and abs(large - own) > 0.05:
                wrong.append(f"the stream: predicted {own}, measured {large:.3f} in {design.line}")
    assert not wrong, "\n".join(wrong)
    assert streams > 5


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Part("mlp", act="relu"), 1.0), (Part("mlp", act="gelu", bias=True), 1.0), (Part("mlp", act="relu2"), 2.0), (Part("glu", act="silu"), 2.0),
        (Part("mlp", "rms", act="sin"), 0.0), (Part("mlp", "", "rms", act="gelu"), 0.0), (Part("mlp", "", "rms", act="sin"), None),
        (Part("glu", "", "rms", act="sigmoid"), None), (Part("moe_top", "", "rms"), None), (Part("hand", "", "rms"), None),
        (Part("hand", attend=Attend("hand", qk="cosine")), 1.0), (Part("mlp", act="exp"), None),
    ],
    ids=lambda value: value.mixer + value.input_norm + value.output_norm + value.act if isinstance(value, Part) else str(value),
)  # fmt: skip
def test_the_degree_in_the_stream(part: Part, expected: float | None) -> None:
    """F(cx) = c^k F(x) for large x: a bias is outgrown, a norm leaves 0, a function that is not homogeneous leaves nothing."""
    design = Design((part,), width=8, tokens=4)
    replay = replayed(build(design, "meta"), build(design), (torch.randn_like(example(design)),), {})
    [(_, branch)] = next(iter(replay.readers())).branches
    assert degrees_of(branch).stream == expected
    if expected is not None:
        assert growth(replay, branch, 2.0**24, 2.0**28) == pytest.approx(expected, abs=0.01)


def test_a_weight_in_two_roles_is_one_group() -> None:
    """One matrix as router and as expert: scaling it scales both (found by random designs)."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Linear(24, 24, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            y = self.map(x)
            return torch.softmax(y, -1) * self.map(torch.relu(y))

    replay = replay_of(Tied, "A")
    [(_, branch)] = next(iter(replay.readers())).branches
    assert [d.parameters for d in degrees_of(branch).groups] == [("mixer.map.weight",)]


class Normed(nn.Module):
    """Maps behind `weight_norm`: the direction of a row has no length."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.w1 = nn.utils.parametrizations.weight_norm(nn.Linear(width, 48, bias=False))
        self.w2 = nn.utils.parametrizations.weight_norm(nn.Linear(48, width, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(torch.relu(self.w1(x)))


def test_weight_norm() -> None:
    replay = replay_of(Normed, "A")
    [(_, branch)] = next(iter(replay.readers())).branches
    found = {d.group.rpartition(".")[2] + d.group[6:9]: (d.predicted, d.status) for d in degrees_of(branch).groups}
    assert set(found.values()) == {ONE, ZERO} and len(found) == 4, found
    wrong, count = disagreements(replay)
    assert not wrong and count == 4, wrong


def test_an_unknown_function_of_a_weight_has_no_degree() -> None:
    class Exponential(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(24, 24))

        def forward(self, x: Tensor) -> Tensor:
            return x @ torch.matrix_exp(self.w)

    replay = replay_of(Exponential, "A")
    [(_, branch)] = next(iter(replay.readers())).branches
    unknown = degrees_of(branch).unknown
    assert unknown is not None and "of a weight has no row" in unknown.reason
