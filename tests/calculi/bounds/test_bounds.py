"""Closed forms of the bounds for known designs, what "bounded over all weights" says of them, and the constants that rules use."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from screen.calculi.bounds import BranchBounds, bounds_of, values_of
from screen.calculi.bounds.expr import Expr, add, largest, mul, num, power, rss, smallest, sym
from screen.calculi.bounds.expr.order import at_most
from screen.calculi.bounds.parts import Part
from screen.calculi.bounds.quantities import Names
from screen.calculi.bounds.rules.activation import SHAPES
from screen.capture.trace.tracer import trace
from screen.structure.branches.branch import Branch
from screen.structure.chains.find import Chains
from screen.structure.chains.identity_edges import Edges
from screen.structure.dataflow import Flow
from screen.structure.norms.find import Norms
from screen.structure.streams.reader import Reader
from screen.structure.types import Unknown

WIDTH, HEADS, TOKENS = 16, 4, 5


class Attention(nn.Module):
    """Fused qkv, four heads, a free scale."""

    def __init__(self, qk_norm: bool = False) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.q_norm = nn.RMSNorm(WIDTH // HEADS) if qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(WIDTH // HEADS) if qk_norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Gated(nn.Module):
    """SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((WIDTH, 32), (WIDTH, 32), (32, WIDTH)))

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mlp(nn.Module):
    """Two layers."""

    def __init__(self, act: Any = F.relu) -> None:
        super().__init__()
        self.up, self.down, self.act = nn.Linear(WIDTH, 32, bias=False), nn.Linear(32, WIDTH, bias=False), act

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Stack(nn.Module):
    """Two blocks of one branch; A and B as asked."""

    def __init__(self, branch: Any, before: Any = None, after: Any = None, scale: Any = None) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, WIDTH)
        self.branches = nn.ModuleList(branch() for _ in range(2))
        self.before = nn.ModuleList((before or nn.Identity)() for _ in range(2))
        self.after = nn.ModuleList((after or nn.Identity)() for _ in range(2))
        self.scale = scale

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for f, a, b in zip(self.branches, self.before, self.after, strict=True):
            y = b(f(a(x)))
            x = x + (y if self.scale is None else self.scale(y))
        return x


def branch_of(model: nn.Module) -> Branch:
    """The first branch."""
    flow = Flow(trace(model.to("meta").eval(), (torch.zeros(2, TOKENS, dtype=torch.long),), {}))
    chains = Chains(flow, Edges(flow, Norms(flow)))
    return Reader(chains, chains.streams[0]).branches[0][1]


def rms() -> nn.Module:
    return nn.RMSNorm(WIDTH, eps=1e-6)


def bounds(*args: Any, **kwargs: Any) -> BranchBounds:
    return bounds_of(branch_of(Stack(*args, **kwargs)))


# -- closed forms ---------------------------------------------------------------------------------------------------------------------


def test_pre_attention_has_the_form_of_theorem_5_1() -> None:
    """‖W_O‖ √(Σ_h ‖W_V^h‖²) √d γ; slope: the value path, and θ · (logit slope) · value."""
    found = bounds(Attention, rms)
    assert str(found.magnitude) == "4*W4W3n" and str(found.plain(found.magnitude)) == "4*W3_rss*W4*g0_abs"
    assert str(found.coarse["W4W3n"]) == "W3n_rss*W4"
    q, k, v, o, g, s = (sym(n) for n in ("W1_max", "W2_max", "W3_rss", "W4", "g0_abs", "sigma_0"))
    value = mul(power(s, -1), g, v, o)
    logits = mul(num(2 * 4 * 4 / math.sqrt(WIDTH // HEADS)), power(g, 3), power(s, -1), q, k, v, o, sym("theta_0"))
    where = {n: 0.3 + 0.1 * i for i, n in enumerate(("W1_max", "W2_max", "W3_rss", "W4", "g0_abs", "sigma_0", "theta_0"))}
    plain, spread = found.plain(found.lipschitz_local), found.lipschitz_local
    assert isinstance(plain, Expr) and isinstance(spread, Expr)
    assert plain.evaluate(where) == pytest.approx(add(value, logits).evaluate(where), rel=1e-12)
    assert str(spread) == "W4*(4*W1nW2n_max*spread_0*theta_0*sigma_0**(-1) + W3n_rss*sigma_0**(-1))"  # T10
    assert str(found.logits[0]) == "8*W1nW2n_max" and found.logits_bounded is False


def test_global_slopes_count_the_smallest_divisor() -> None:
    found = bounds(Mlp, rms)
    assert isinstance(found.lipschitz, Expr) and isinstance(found.lipschitz_local, Expr)
    where = {"W0n": 2.0, "W1": 3.0, "sigma_0": 0.5}
    assert found.lipschitz_local.evaluate(where) == pytest.approx(12.0)
    assert found.lipschitz.evaluate(where) == pytest.approx(6.0 / math.sqrt(1e-6))
    assert found.norms[0][2] == pytest.approx(1e-3)


def test_a_raw_input_stands_as_a_symbol() -> None:
    assert str(bounds(Mlp).magnitude) == "B*W0*W1"


def test_qk_norm_bounds_the_logits_given_its_gains() -> None:
    found = bounds(lambda: Attention(qk_norm=True))
    assert found.logits_bounded is True
    assert str(found.logits[0]) == "2*g0_abs*g1_abs"  # √d_h · max|γ_q| · max|γ_k|, d_h = 4
    assert all("gain" in g for g in found.given)


class HeadGains(Attention):
    """A gain for each feature of each head behind the norm, or for each token: one is the norm's, the other a trained table."""

    def __init__(self, *axes: int) -> None:
        super().__init__(qk_norm=True)
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(axes)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.q_norm(q) * self.gains[0], self.k_norm(k) * self.gains[1], v)
        return self.out(y.transpose(1, 2).reshape(x.shape))


@pytest.mark.parametrize(("axes", "bounded"), [((HEADS, 1, WIDTH // HEADS), True), ((WIDTH // HEADS,), True), ((TOKENS, WIDTH // HEADS), False)])
def test_a_gain_for_each_head_is_the_norms_and_one_for_each_token_is_a_table(axes: tuple[int, ...], bounded: bool) -> None:
    assert bounds(lambda: HeadGains(*axes)).logits_bounded is bounded


# -- bounded over all weights ---------------------------------------------------------------------------------------------------------


class Adaptive(nn.Module):
    """A norm whose gain depends on data (AdaLN)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gate = nn.RMSNorm(WIDTH, elementwise_affine=False), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) * self.gate(x)


class Squashed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


class Shifted(nn.Module):
    """A norm, then a bias of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.extra = nn.LayerNorm(WIDTH), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) + self.extra


class Partial(nn.Module):
    """Divides by the rms of a quarter of the features: bounds nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x[..., : WIDTH // 4].pow(2).mean(-1, keepdim=True) + 1e-6)


class Written(nn.Module):
    """g · x / (‖x‖/√d + ε): the root mean square by the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * (x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) / math.sqrt(WIDTH) + 1e-6))


class Halved(nn.Module):
    """A norm whose divisor is a hundredth of the usual one."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.norm(dim=-1, keepdim=True) * 0.01)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, rms, True),
        (rms, rms, True),
        (rms, lambda: nn.LayerNorm(WIDTH), True),
        (rms, Squashed, True),
        (Written, Written, True),
        (rms, None, False),
        (None, None, False),
        (None, Adaptive, False),
        (None, Shifted, False),
    ],
)
def test_whether_a_branch_is_bounded_over_all_weights(before: Any, after: Any, expected: bool) -> None:
    for branch in (Attention, Gated, Mlp):
        found = bounds(branch, before, after)
        assert found.bounded is expected, (branch, found.bounded)
        assert (found.breaker is None) is expected and (found.bound is not None) is expected


def test_a_partial_norm_bounds_nothing() -> None:
    assert bounds(Mlp, None, Partial).bounded is not True


def test_a_constant_in_the_divisor_counts() -> None:
    found = bounds(Mlp, None, Halved)
    assert isinstance(found.magnitude, Expr) and found.magnitude.evaluate({}) == pytest.approx(100.0)
    assert isinstance(found.lipschitz, Unknown)  # without an ε there is no Lipschitz constant


def test_a_mixer_without_weights_is_bounded() -> None:
    class Pool(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.avg_pool1d(x.transpose(1, 2), 3, 1, 1).transpose(1, 2)

    found = bounds(Pool, rms)
    assert found.bounded is True and str(found.magnitude) == "4*g0_abs"


# -- the Hamiltonian ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_the_hamiltonian_is_attained_on_the_norms_image(kind: str) -> None:
    """The closed form equals −⟨p, f⟩ at its maximiser, and no random output of the norm exceeds it."""
    after = rms if kind == "rms" else (lambda: nn.LayerNorm(WIDTH))
    form = bounds(Mlp, rms, after, scale=lambda y: y * 0.5).hamiltonian
    assert form is not None and form.kind == kind and form.width == WIDTH and not form.attained
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=WIDTH) for name in (*form.gain, *form.bias)}
    p = rng.normal(size=(3, WIDTH))
    best = form.maximise(p, weights)
    top = form.evaluate(p, weights)
    assert -(p * best).sum() == pytest.approx(top, rel=1e-12)
    gain, bias = form.affine(weights)
    normed = (best - bias) / gain  # the maximiser is an output of the norm
    assert np.allclose((normed**2).mean(-1), 1.0) and (kind == "rms" or np.allclose(normed.mean(-1), 0.0))
    z = rng.normal(size=(2000, 3, WIDTH))
    z = z - z.mean(-1, keepdims=True) if kind == "layer" else z
    outputs = z / np.sqrt((z**2).mean(-1, keepdims=True)) * gain + bias
    assert (-(outputs * p).sum((1, 2))).max() <= top
    assert form.evaluate(0 * p, weights) == 0.0


def test_the_hamiltonian_text_is_read_by_sympy() -> None:
    import sympy

    form = bounds(Mlp, rms, lambda: nn.LayerNorm(WIDTH)).hamiltonian
    assert form is not None and form.text == "Sum(sqrt(16)*Norm(C*Gamma*p(j)) - Inner(p(j), b), (j, 1, n))"
    names = {"C": sympy.Symbol("C"), "Gamma": sympy.Symbol("Gamma"), "b": sympy.Symbol("b"), "p": sympy.Function("p")}
    assert sympy.sympify(form.text, locals=names).has(names["Gamma"])
    assert bounds(Mlp, rms).hamiltonian is None


# -- constants ------------------------------------------------------------------------------------------------------------------------

REAL: dict[str, Any] = {
    "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "mish": F.mish, "hardswish": F.hardswish, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "hardsigmoid": F.hardsigmoid, "erf": torch.erf, "atan": torch.atan, "asinh": torch.asinh, "softsign": F.softsign, "softplus": F.softplus,
    "logsigmoid": F.logsigmoid, "relu6": F.relu6, "sin": torch.sin, "cos": torch.cos, "abs": torch.abs, "tanhshrink": F.tanhshrink,
    "softshrink": F.softshrink,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REAL))
def test_constants_of_activations(name: str) -> None:
    """Each constant is an upper bound on a fine grid, and no looser than 1 %."""
    t = torch.linspace(-12.0, 12.0, 240_001, dtype=torch.float64)
    for f in (REAL[name], *([lambda x: F.gelu(x, approximate="tanh")] if name == "gelu" else [])):
        y, shape = f(t), SHAPES[name]
        zero = float(f(torch.zeros(1, dtype=torch.float64)))
        away = t.abs() > 1e-6
        slope = float(((y - zero).abs()[away] / t.abs()[away]).max())
        steep = float(((y[1:] - y[:-1]).abs() / (t[1] - t[0])).max())
        assert slope <= shape.slope * (1 + 1e-9) and steep <= shape.lipschitz * (1 + 1e-9) and abs(zero) <= abs(shape.at_zero)
        assert shape.lipschitz <= 1.01 * steep and shape.low <= float(y.min()) and float(y.max()) <= shape.high


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x * torch.sigmoid(1.702 * x),
        lambda x: 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0))),
        lambda x: 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))),
        lambda x: x * torch.tanh(F.softplus(x)),
    ],
)
def test_activations_written_out_are_recognised(act: Any) -> None:
    found = bounds(lambda: Mlp(act), rms)
    assert str(found.magnitude) == "4*W0n*W1"


def test_an_activation_that_only_looks_alike_has_a_slope_of_its_own() -> None:
    """max of σ(u)(1 + 1.702 t (1 − σ(u))), u = 1.702 t + 0.01, is 1.0990786; that of SiLU is 1.0998394."""
    found = bounds(lambda: Mlp(lambda x: x * torch.sigmoid(1.702 * x + 0.01)), rms)
    assert isinstance(found.lipschitz_local, Expr)
    at = found.lipschitz_local.evaluate({"W0n": 100.0, "W1": 1.0, "W0n_row": 100.0, "sigma_0": 1.0})
    assert 109.90785 <= at <= 109.909


# -- expressions and quantities -------------------------------------------------------------------------------------------------------


def test_expressions_collect_terms_and_keep_the_smaller() -> None:
    a, b = sym("a"), sym("b")
    assert add(a, a, b) is add(mul(num(2), a), b) and mul(a, b) is mul(b, a) and mul(a, power(a, -1)) is num(1)
    assert smallest(mul(num(2), a), a) is a and largest(mul(num(2), a), a) is mul(num(2), a)
    assert at_most(a, add(a, b)) and not at_most(add(a, b), a)
    assert rss(a) is a and rss(num(3), num(4)) is num(5)
    assert mul(num(0), a) is num(0)


def test_large_numbers_do_not_overflow_into_nonsense() -> None:
    a = sym("a")
    e = mul(power(a, 400), power(sym("b"), -400))
    assert e.evaluate({"a": 1e3, "b": 1e3}) == pytest.approx(1.0) and e.lambdify()({"a": 1e3, "b": 1e3}) == pytest.approx(1.0)
    assert power(a, 400).evaluate({"a": 10.0}) == math.inf and power(a, 400).log({"a": 10.0}) == pytest.approx(400 * math.log(10))


def test_quantities_are_norms_of_the_parts_that_they_name() -> None:
    weight = np.random.default_rng(1).normal(size=(12, 8))
    names = Names()
    whole = Part("w", (12, 8), 0, (12, 8), (8, 1))
    values = whole.sliced(0, 4, 12).split(0, (2, 4))  # rows 4-11 as two heads
    asked = {"rc": (whole, "rc"), "heads": (values, "hrc"), "max": (values, "src"), "turned": (values.permuted((1, 2, 0)), "rch"),
             "row": (whole, "sc"), "abs": (whole, "ss"), "sum": (whole, "sa")}  # fmt: skip
    symbols = {key: names.symbol(*pair) for key, pair in asked.items()}
    found = values_of(tuple(names.quantities.values()), {"w": weight})
    heads = [np.linalg.norm(weight[i : i + 4], 2) for i in (4, 8)]
    assert found[symbols["rc"]] == pytest.approx(np.linalg.norm(weight, 2))
    assert found[symbols["heads"]] == pytest.approx(math.hypot(*heads)) and found[symbols["max"]] == pytest.approx(max(heads))
    assert found[symbols["turned"]] == pytest.approx(math.hypot(*heads))
    assert found[symbols["row"]] == pytest.approx(np.linalg.norm(weight, axis=1).max()) and found[symbols["abs"]] == pytest.approx(abs(weight).max())
    assert found[symbols["sum"]] == pytest.approx(abs(weight).sum(1).max())
    assert np.allclose(replace(whole.sliced(1, 0, 8, 2), shift=3.0).read({"w": weight}), weight[:, ::2] + 3.0)
    assert names.quantities[symbols["heads"]].slices == "[4:12]" and names.quantities[symbols["heads"]].heads == 2


# -- rotary positions -----------------------------------------------------------------------------------------------------------------


def _angles(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1])[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003])


def _halves(x: Tensor) -> Tensor:
    f = torch.cat([_angles(x)] * 2, -1)
    return x * f.cos() + torch.cat([-x[..., 8:], x[..., :8]], -1) * f.sin()


def _pairs(x: Tensor) -> Tensor:
    f = _angles(x).repeat_interleave(2, -1)
    return x * f.cos() + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * f.sin()


def _apart(x: Tensor) -> Tensor:
    f = _angles(x)
    c, s = f.cos(), f.sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def _complex(x: Tensor) -> Tensor:
    f = _angles(x)
    return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:2], 8, 2)) * torch.polar(torch.ones_like(f), f)).flatten(-2)


def _other_tokens(x: Tensor) -> Tensor:
    """The sine of the next token's angle: no rotation."""
    f = torch.cat([torch.cat([_angles(x)] * 2, -1), torch.ones(1, WIDTH)], 0)
    return x * f[:-1].cos() + torch.cat([-x[..., 8:], x[..., :8]], -1) * f[1:].sin()


def test_a_tensor_that_the_model_holds_has_a_norm_of_its_own() -> None:
    """A plain attribute, as rotary tables often are: no weight, so that training leaves it as it is."""

    class Held(Mlp):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.ones(WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return self.down(self.up(x * self.table))

    found = bounds(Held, rms)
    assert str(found.magnitude) == "4*W0*W1*b0_abs*g0_abs" and not isinstance(found.lipschitz, Unknown)
    assert "b0_abs" not in found.free and "W0" in found.free


@pytest.mark.parametrize(("turn", "exact"), [(_halves, True), (_pairs, True), (_apart, True), (_complex, True), (_other_tokens, False)])
def test_rotary_positions_are_isometries_where_they_are_recognised(turn: Any, exact: bool) -> None:
    class Turned(Mlp):
        def forward(self, x: Tensor) -> Tensor:
            return self.down(self.up(torch.clone(turn(x))))

    text = str(bounds(Turned, rms).magnitude)
    assert (text == "4*W0*W1*g0_abs") is exact, text
