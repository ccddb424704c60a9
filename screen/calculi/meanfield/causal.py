"""Causal attention, position by position: what exchangeable tokens get wrong once they are nearly alike.

Row i of a causal mask has i keys, so that the first tokens keep their differences: even rows, A_ij = 1/i, have the eigenvalues 1, ½, ⅓, … and
one application takes the slowest difference (x_2 − x_1, which grows as i − 1 along the sequence) to a quarter of its square, where the mean over
exchangeable tokens says P − R. So here the state is, for n positions,

    q_i = E X_ia²        D_ij = E (X_ia − X_ja)²/2

and a value o = A v of rows that sum to one has, exactly, with F_i = Σ_jk E[A_ij A_ik] D_jk

    q_o,i = Σ_j E[A_ij] q_j − F_i        D_o,ij = Σ_kl E[A_ik A_jl] D_kl − (F_i + F_j)/2.

Keys of a row are exchangeable for its logits: E A_ij² = P_i/i, E A_ij A_ik = (1 − P_i)/(i(i − 1)), and for i < j the products share the mass
R_ij on equal keys and 1 − R_ij on the i·j − i others. P_i and R_ij are means over Gaussian logits of one deviation for all rows; R_ij is taken
linear in the correlation of two queries. Linear maps, gains and products act on q and D entry by entry; an entry-wise φ is taken at the mean
of q, all its arguments having one size behind a norm. Forward only.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from screen.calculi.meanfield.activation_kernels import Kernel
from screen.calculi.meanfield.attention import SEED, SPREADS
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Stack
from screen.calculi.meanfield.transfer import Attend, Entrywise, Fourier, Join, Linear, Mix, Normalise, Part, Product, Shift, Step, Stretch, Sum

Array = NDArray[np.float64]
State = tuple[Array, Array]
"""(q [n], D [n, n])."""
ROWS = 96
GRID = np.concatenate([[0.0], np.geomspace(1e-14, 2.0, 80)])
"""1 − ρ at which a kernel is taken; between them its gap is interpolated."""
MOST = 256
"""Blocks up to which positions are followed."""


@lru_cache(maxsize=4)
def tables(tokens: int) -> tuple[Array, Array, Array]:
    """P [s, i], and R for equal and for independent queries, [s, i, j] and [i, j]."""
    draw = np.random.default_rng(SEED).standard_normal((ROWS, tokens))
    picks, meets = [], []
    for spread in SPREADS:
        weights = np.exp(spread * (draw - draw.max(1, keepdims=True)))
        sums, squares = weights.cumsum(1), (weights**2).cumsum(1)
        picks.append((squares / sums**2).mean(0))
        first = (squares / sums) / ROWS
        meets.append(np.triu(first.T @ (1 / sums)))
    count = np.arange(1, tokens + 1)
    apart = np.triu(np.broadcast_to(1.0 / count, (tokens, tokens)))
    return np.array(picks), np.array(meets), apart


def last_one_minus_cos(stack: Stack) -> float | None:
    """1 − cos between tokens after the last block, mean over pairs; None where there are too many blocks."""
    if len(stack.blocks) > MOST:
        return None
    n = stack.tokens
    state = _even(stack.start, n)
    for block in stack.blocks:
        for add in block:
            terms = [_scaled(_branch(i.program, state), i.square) for i in add.inlets]
            state = _added([_scaled(state, add.identity), *terms])
            state = state if add.close is None else _normed(add.close, state)
    size = np.sqrt(np.outer(state[0], state[0]))
    lost = (state[1] - (np.sqrt(state[0])[:, None] - np.sqrt(state[0])[None]) ** 2 / 2) / size
    return max(float(lost.sum() / (n * (n - 1))), 0.0)


def is_causal(stack: Stack) -> bool:
    """Whether some attention has a causal mask."""
    programs = {id(i): i.program for b in {id(b): b for b in stack.blocks}.values() for a in b for i in a.inlets}
    return any(p.is_causal for p in programs.values())


def _branch(program: Program, state: State) -> State:
    slots: dict[int, State] = {0: state, **{slot: _even(moments, len(state[0])) for slot, moments in program.given}}
    for step in program.steps:
        slots[step.target] = _step(step, slots)
    return slots[program.output]


def _step(step: Step, slots: dict[int, State]) -> State:
    if isinstance(step, Linear):
        q, apart = slots[step.source]
        return q * step.forward_gain + step.bias, apart * step.forward_gain
    if isinstance(step, Normalise):
        return _normed(step, slots[step.source])
    if isinstance(step, Entrywise):
        return _through(step.kernel, slots[step.source])
    if isinstance(step, Stretch):
        return _scaled(slots[step.source], step.factor**2)
    if isinstance(step, Part):
        return slots[step.source]
    if isinstance(step, Shift):
        q, apart = slots[step.source]
        return q + step.square, apart + step.gap * (1 - np.eye(len(q)))
    if isinstance(step, Sum):
        return _added([slots[s] for s in step.sources])
    if isinstance(step, Join):
        return _added([_scaled(slots[s], w) for s, w in zip(step.sources, step.shares, strict=True)])
    if isinstance(step, Fourier):
        gap = _mean(slots[step.source]).gap * step.size
        return _even(Moments(gap, gap), len(slots[step.source][0]))
    if isinstance(step, Product):
        return _product(slots[step.left], slots[step.right])
    if isinstance(step, Mix):
        return _mixed(step, slots)
    if not isinstance(step, Attend):
        raise NotImplementedError(type(step).__name__)
    return _attended(step, slots)


def _scaled(state: State, square: float) -> State:
    return state[0] * square, state[1] * square


def _added(states: list[State]) -> State:
    return np.sum([q for q, _ in states], axis=0), np.sum([d for _, d in states], axis=0)


def _normed(norm: Normalise, state: State) -> State:
    """X_i/σ_i: D' = s_i s_j D + (s_i − s_j)(s_i q_i − s_j q_j)/2, s = γ/σ. The mean over features of a sum of many values is left out."""
    q, apart = state
    scale = np.sqrt(norm.gain / (q + norm.eps))
    size = scale * q
    return scale**2 * q, np.outer(scale, scale) * apart + (scale[:, None] - scale) * (size[:, None] - size) / 2


def _through(kernel: Kernel, state: State) -> State:
    q, apart = state
    power = float(q.mean())
    if power <= 0:
        return np.full(len(q), kernel.forward(Moments(0.0, 0.0)).power), np.zeros_like(apart)
    found, table = gaps(kernel, float(f"{power:.6g}"))
    return np.full(len(q), found), np.interp(apart / power, GRID, table)


@lru_cache(maxsize=256)
def gaps(kernel: Kernel, power: float) -> tuple[float, Array]:
    """E φ² and the gaps of φ over the grid."""
    return kernel.forward(Moments(power, 0.0)).power, np.array([kernel.forward(Moments(power, power * lost)).gap for lost in GRID])


def _product(one: State, two: State) -> State:
    """r = r₁r₂ with r_ij = (q_i + q_j)/2 − D_ij."""
    middle = [(q[:, None] + q) / 2 for q, _ in (one, two)]
    q = one[0] * two[0]
    spread = (q[:, None] + q) / 2 - middle[0] * middle[1]
    return q, spread + middle[0] * two[1] + middle[1] * one[1] - one[1] * two[1]


def _even(moments: Moments, tokens: int) -> State:
    """Exchangeable tokens."""
    return np.full(tokens, moments.power), moments.gap * (1 - np.eye(tokens))


def _mean(state: State) -> Moments:
    n = len(state[0])
    return Moments(float(state[0].mean()), float(state[1].sum()) / (n * (n - 1)))


def _mixed(step: Mix, slots: dict[int, State]) -> State:
    """Σ_e g_e f_e, with the numbers of the routing at the mean over positions."""
    keep, apart, _, _ = step.core.at(_mean(slots[step.logits]))
    q, distance = _added([_scaled(slots[v], 1 / len(step.values)) for v in step.values])
    return keep * q, keep * distance + apart * ((q[:, None] + q) / 2 - distance) * (1 - np.eye(len(q)))


def _attended(step: Attend, slots: dict[int, State]) -> State:
    query, key, (q, apart) = slots[step.query], slots[step.key], slots[step.value]
    n, means = len(q), (_mean(query), _mean(key))
    places = step.variance({slot: _mean(slots[slot]) for slot, _ in step.places})
    if not step.core.causal:  # rows over all keys see their mean alone
        return _even(step.core.forward(*means, _mean(slots[step.value]), places), n)
    pick, meet = _rows(n, step.core.spread(*means, places), step.core.alike(*means, places))
    count = np.arange(1, n + 1)
    whole = apart.cumsum(0).cumsum(1)
    own = (1 - pick) / np.maximum(count * (count - 1), 1) * np.diag(whole)
    low = np.minimum.outer(count, count)
    others = np.maximum(np.outer(count, count) - low, 1)
    cross = (1 - meet) / others * whole - (own[:, None] + own) / 2
    np.fill_diagonal(cross, 0.0)
    return q.cumsum() / count - own, cross


def _rows(tokens: int, spread: float, cosine: float) -> tuple[Array, Array]:
    """P [i] and R [i, j] at one deviation of the logits and one correlation of the queries."""
    picks, meets, apart = tables(tokens)
    place = min(max(spread, 0.0), SPREADS[-1])
    high = min(max(int(np.searchsorted(SPREADS, place)), 1), len(SPREADS) - 1)
    part = (place - SPREADS[high - 1]) / (SPREADS[high] - SPREADS[high - 1])
    pick = (1 - part) * picks[high - 1] + part * picks[high]
    near = min(max(cosine, 0.0), 1.0)
    upper = near * ((1 - part) * meets[high - 1] + part * meets[high]) + (1 - near) * apart
    return pick, np.asarray(upper + np.triu(upper, 1).T)


__all__ = ["GRID", "gaps", "is_causal", "last_one_minus_cos"]
