"""What the recursion of second moments says of a call on Gaussian entries, against draws: power, gap between tokens, and gradients back to what it
reads. Every op that the recursion has a row for has a call on which it says something."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from screen.calculi.meanfield.activation_kernels import FUNCTIONS
from screen.calculi.meanfield.causal import _product
from screen.calculi.meanfield.lower.axes import COPIES, REGROUPS, SAME, Layout, stream_layout
from screen.calculi.meanfield.lower.lower import Reader
from screen.calculi.meanfield.lower.ends import CLAMPS
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.stop import Stop
from screen.calculi.meanfield.weights import Weights
from screen.graph import Initialiser
from screen.structure.axis_order import TURNS
from screen.structure.types import Unknown
from tests.rows.block import Alone, Call
from tests.rows.table import CALLS

COSINE, DEVIATION, DRAWS, ROOM = 0.4, 0.5, 120, 0.25
"""Between all tokens; of weights; how many draws; and the relative room that so few of them need."""
START = Moments(1.0, 1.0 - COSINE)
HEAVY = {"exp-0": 0.7}
"""Of calls with heavy tails."""
NARROW = frozenset({"mul-0", "mul-7", "scaled_dot_product_attention-4", "scaled_dot_product_attention-5", "softmax-2", "matmul-3"})
"""Calls that mix four features, which is far from the limit of large widths; `tests/test_covariance_*.py` measure such in wide models."""
_TOLD = """
full-0 full_like-0 new_full-0 new_tensor-0 zeros-0 zeros_like-0 new_zeros-0 ones-0 ones_like-0 new_ones-0
relu-0 gelu-0 silu-0 mish-0 hardswish-0 elu-0 celu-0 selu-0 leaky_relu-0 sigmoid-0 hardsigmoid-0 tanh-0 erf-0 atan-0 asinh-0 softsign-0
softplus-0 logsigmoid-0 relu6-0 sin-0 cos-0 sinc-0 sinc-1 abs-0 neg-0 tanhshrink-0 softshrink-0 erfc-0 exp-0 square-0 gelu-1 hardtanh-3 exp-1 clamp-5
clamp_min-1 clamp_max-1 glu-0 add-2 add-3 sub-2 add-4 mul-0 sub-3 mul-2 mul-3 mul-4 mul-5 mul-7 mul-8 div-0 true_divide-0 neg-1 lerp-2 pow-0
pow-1 to-0 float-0 half-0 bfloat16-0 double-0 type_as-0 contiguous-0 clone-0 detach-1 data-1 alias-0 lift_fresh-0 view-0 view-1
reshape-0 flatten-0 unflatten-0 unsqueeze-0 squeeze-0 squeeze-1 view_as-0 reshape_as-0 ravel-0 atleast_2d-0 transpose-0 transpose-1
swapaxes-0 swapdims-0 t-0 T-0 mT-0 H-0 mH-0 adjoint-0 permute-0 permute-1 movedim-0 movedim-1 expand-0 expand-1 expand_as-0 broadcast_to-0
repeat-0 repeat-1 repeat_interleave-0 repeat_interleave-1 roll-0 roll-1 roll-2 flip-0 flip-1 select-0 select-1 narrow-0 narrow-1 slice-0 split-0
split-1 split_with_sizes-0 tensor_split-0 tensor_split-1 chunk-0 getitem-0 unbind-0 getitem-1 getitem-2 getitem-3 getitem-4 cat-0 cat-1
cat-2 cat-3 stack-0 stack-1 linear-0 linear-1 addmm-0 matmul-1 mm-0 scaled_dot_product_attention-4 scaled_dot_product_attention-5 mean-3
softmax-2 matmul-3 scalar_tensor-0 tensor-0 as_tensor-0
"""
TOLD = frozenset(_TOLD.split())
"""Calls of which the recursion says something."""


def read(call: Call, linked: bool) -> tuple[Program, Layout] | Unknown:
    """The program of the call's last node, from what it reads, and the layout of its entries."""
    graph = call.trace.graph
    names = [n.name for n in graph.nodes if n.op == "parameter" and n.name.startswith("call.")]
    graph = replace(graph, initialisers=tuple((name, (Initialiser("normal_", (0.0, DEVIATION)),)) for name in names))
    source = next(n.index for n in graph.nodes if n.op == "linear" and n.inputs[0] == 0)
    tokens = math.prod(call.shape[:-1])
    reader = Reader(graph, Weights(graph), {}, {source: stream_layout(call.shape, -1)}, tokens, linked=linked)
    try:
        found = reader.program(call.end.index)
        if not isinstance(found, Unknown):
            found.forward(START)
    except Stop as stop:  # while it runs
        return stop.unknown
    return found if isinstance(found, Unknown) else (found, reader.end.layout)


def by_token(y: Tensor, layout: Layout) -> Tensor:
    """[tokens, features] of a value; copies of a token count as features of it."""
    factors = [(size, label) for axis in layout for size, label in axis if size > 1]
    order = sorted(range(len(factors)), key=lambda i: factors[i][1] != "t")
    features = math.prod(size for size, label in factors if label != "t")
    return y.reshape([size for size, _ in factors]).permute(order).reshape(-1, features)


def drawn(call: Call, layout: Layout) -> tuple[Moments, float]:
    """Measured moments, and the power of the gradient at the operand for one of power 1 at each entry of the result."""
    torch.default_generator.manual_seed(0)
    alone = Alone(call)
    power = cross = back = 0.0
    pairs = 0
    for _ in range(DRAWS):
        x = math.sqrt(COSINE) * torch.randn(call.shape[-1]) + math.sqrt(1 - COSINE) * torch.randn(call.shape)
        weights = [DEVIATION * torch.randn(shape) for shape in call.weights]
        x.requires_grad_()
        y = alone.of(x * 1, *weights)
        for place in reversed(call.taken):
            y = y[place]
        rows = by_token(y.detach(), layout)
        square, total = float((rows**2).sum()), float((rows.sum(0) ** 2).sum())
        power += square / rows.numel()
        pairs = rows.shape[0] * (rows.shape[0] - 1) * rows.shape[1]
        cross += (total - square) / pairs if pairs else 0.0
        [grad] = torch.autograd.grad(y, x, torch.randn_like(y), allow_unused=True) if y.requires_grad else [None]
        back += float((grad**2).mean()) if grad is not None else 0.0
    return Moments(power / DRAWS, (power - cross) / DRAWS if pairs else math.nan), back / DRAWS


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_moments_are_measured(call: Call) -> None:
    found = next((r for r in (read(call, False), read(call, True)) if not isinstance(r, Unknown)), None)
    assert (found is not None) == (str(call) in TOLD)
    if found is None or str(call) in NARROW:
        return
    program, layout = found
    room = HEAVY.get(str(call), ROOM)
    seen, back = drawn(call, layout)
    slots = program.forward(START)
    said = slots[program.output]
    given = program.backward(slots, Gradient(1.0, 0.0))[0].power
    assert said.power == pytest.approx(seen.power, rel=room)
    assert math.isnan(seen.gap) or said.gap == pytest.approx(seen.gap, rel=room)
    assert given == pytest.approx(back, rel=room)


def test_a_product_of_independent_values_has_the_product_of_their_inner_products() -> None:
    """State: (q_i, D_ij) with r_ij = (q_i + q_j)/2 − D_ij."""
    rng = np.random.default_rng(0)
    inner = [(a := rng.normal(size=(3, 5))) @ a.T for _ in range(2)]
    states = [(np.diag(r), (np.diag(r)[:, None] + np.diag(r)) / 2 - r) for r in inner]
    q, apart = _product(*states)
    assert np.allclose(q, np.diag(inner[0] * inner[1])) and np.allclose((q[:, None] + q) / 2 - apart, inner[0] * inner[1])


def test_every_row_has_a_call() -> None:
    told = {name.rpartition("-")[0] for name in TOLD}
    assert set(FUNCTIONS) - told == {"gelu_tanh"}  # the second call of gelu
    assert (SAME | REGROUPS | COPIES | TURNS | CLAMPS) - told == {"cpu", "cuda", "type"}  # moves, which capture records as `to`
    assert not TOLD - {str(c) for c in CALLS}
