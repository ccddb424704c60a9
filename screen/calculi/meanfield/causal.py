"""Causal attention, position by position: what exchangeable tokens get wrong once they are nearly alike.

Row i of a causal mask has i keys, so that the first tokens keep their differences: even rows, A_ij = 1/i, have the eigenvalues 1, ½, ⅓, … and
one application takes the slowest difference (x_2 − x_1, which grows as i − 1 along the sequence) to a quarter of its square, where the mean over
exchangeable tokens says P − R. So here the state is, for n positions,

    q_i = E X_ia²        D_ij = E (X_ia − X_ja)²/2

and a value o = A v of rows that sum to one has, exactly, with F_i = Σ_jk E[A_ij A_ik] D_jk

    q_o,i = Σ_j E[A_ij] q_j − F_i        D_o,ij = Σ_kl E[A_ik A_jl] D_kl − (F_i + F_j)/2.

Keys of a row are exchangeable for its logits: E A_ij² = P_i/i, E A_ij A_ik = (1 − P_i)/(i(i − 1)), and for i < j the products share the mass
R_ij on equal keys and 1 − R_ij on the i·j − i others. P_i and R_ij are means over Gaussian logits of one deviation
for all rows. Linear maps, gains and products act on q and D entry by entry; an entry-wise φ is taken at the mean of q, all its arguments having one
size behind a norm. Gradients: see `causal_gradients`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from screen.calculi.meanfield.activation_kernels import Kernel
from screen.calculi.meanfield.attention import COSINES, SEED, SPREADS
from screen.calculi.meanfield.moments import Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Add, Stack
from screen.calculi.meanfield.transfer import (
    Attend,
    Entrywise,
    Fourier,
    Join,
    Linear,
    Mix,
    Normalise,
    Part,
    Product,
    Shift,
    Step,
    Stretch,
    Sum,
    Within,
)

Array = NDArray[np.float64]
State = tuple[Array, Array]
"""(q [n], D [n, n])."""
ROWS = 96
GRID = np.concatenate([[0.0], np.geomspace(1e-14, 0.1, 72), np.linspace(0.125, 1.0, 36), [2.0]])
"""1 − ρ at which a kernel is taken, close to each other up to tokens that share nothing; between them its gap is interpolated."""
MOST = 256
"""Blocks up to which positions are followed."""


@lru_cache(maxsize=4)
def tables(tokens: int) -> tuple[Array, Array, Array]:
    """P and S, [s, i], and R, [s, ρ, i, j] for i ≤ j."""
    draw = np.random.default_rng(SEED)
    shared, one, two = (draw.standard_normal((ROWS, tokens)) for _ in range(3))
    count = np.arange(1, tokens + 1)
    picks, jumps, meets = [], [], []
    for spread in SPREADS:
        weights, sums = _exponentials(spread * shared)
        pick = (weights**2).cumsum(1) / sums**2
        picks.append(pick.mean(0))
        jumps.append((pick - 2 * (weights**3).cumsum(1) / sums**3 + pick**2).mean(0))
        line = [np.triu(np.broadcast_to(1.0 / count, (tokens, tokens)))]  # of independent rows
        for cosine in COSINES[1:]:
            near, far = math.sqrt(cosine), math.sqrt(1 - cosine)
            (left, above), (right, below) = (_exponentials(spread * (near * shared + far * own)) for own in (one, two))
            line.append(np.triu(((left * right).cumsum(1) / above).T @ (1 / below)) / ROWS)
        meets.append(line)
    return np.array(picks), np.array(jumps), np.array(meets)


def _exponentials(logits: Array) -> tuple[Array, Array]:
    """e^u, and its sums over the keys of each position."""
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights, weights.cumsum(1)


def last_one_minus_cos(stack: Stack, states: Callable[[], Sequence[State]] | None = None) -> float | None:
    """1 − cos between tokens after the last block, mean over pairs; None where there are too many blocks. `states`: `states_of` it, where known."""
    if len(stack.blocks) > MOST:
        return None
    n, state = stack.tokens, (states() if states is not None else states_of(stack))[-1]
    size = np.sqrt(np.outer(state[0], state[0]))
    lost = (state[1] - (np.sqrt(state[0])[:, None] - np.sqrt(state[0])[None]) ** 2 / 2) / size
    return max(float(lost.sum() / (n * (n - 1))), 0.0)


def states_of(stack: Stack) -> list[State]:
    """The states before each add, and behind the last one."""
    states = [even(stack.start, stack.tokens)]
    for block in stack.blocks:
        for add in block:
            states.append(across(add, states[-1]))
    return states


def across(add: Add, state: State) -> State:
    """The state behind an add."""
    total = before_close(add, state, [slots_of(i.program, state) for i in add.inlets])
    return total if add.close is None else normed(add.close, total)


def before_close(add: Add, state: State, slots: Sequence[Mapping[int, State]]) -> State:
    """The sum of an add."""
    terms = [scaled(s[i.program.output], i.square) for s, i in zip(slots, add.inlets, strict=True)]
    return added([scaled(state, add.identity), *terms])


def is_causal(stack: Stack) -> bool:
    """Whether some attention has a causal mask."""
    programs = {id(i): i.program for b in {id(b): b for b in stack.blocks}.values() for a in b for i in a.inlets}
    return any(p.is_causal for p in programs.values())


def slots_of(program: Program, state: State) -> dict[int, State]:
    """All slots of a branch, from the state that it reads."""
    slots: dict[int, State] = {0: state, **{slot: even(moments, len(state[0])) for slot, moments in program.given}}
    for step in program.steps:
        slots[step.target] = _step(step, slots)
    return slots


def _step(step: Step, slots: dict[int, State]) -> State:
    if isinstance(step, Linear):
        q, apart = slots[step.source]
        return q * step.forward_gain + step.bias, apart * step.forward_gain
    if isinstance(step, Normalise):
        return normed(step, slots[step.source])
    if isinstance(step, Entrywise):
        return _through(step.kernel, slots[step.source])
    if isinstance(step, Stretch):
        return scaled(slots[step.source], step.factor**2)
    if isinstance(step, Part):
        return slots[step.source]
    if isinstance(step, Within):
        step.check(float(slots[step.source][0].max()))
        return slots[step.source]
    if isinstance(step, Shift):
        q, apart = slots[step.source]
        return q + step.square, apart + step.gap * (1 - np.eye(len(q)))
    if isinstance(step, Sum):
        return added([slots[s] for s in step.sources])
    if isinstance(step, Join):
        return added([scaled(slots[s], w) for s, w in zip(step.sources, step.shares, strict=True)])
    if isinstance(step, Fourier):
        gap = mean_of(slots[step.source]).gap * step.size
        return even(Moments(gap, gap), len(slots[step.source][0]))
    if isinstance(step, Product):
        return _product(slots[step.left], slots[step.right])
    if isinstance(step, Mix):
        return _mixed(step, slots)
    if not isinstance(step, Attend):
        raise NotImplementedError(type(step).__name__)
    return _attended(step, slots)


def scaled(state: State, square: float) -> State:
    """The state of a·X, a² = `square`."""
    return state[0] * square, state[1] * square


def added(states: list[State]) -> State:
    """Of the sum of independent values."""
    return np.sum([q for q, _ in states], axis=0), np.sum([d for _, d in states], axis=0)


def normed(norm: Normalise, state: State) -> State:
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


def even(moments: Moments, tokens: int) -> State:
    """Exchangeable tokens."""
    return np.full(tokens, moments.power), moments.gap * (1 - np.eye(tokens))


def mean_of(state: State) -> Moments:
    """The mean over positions and pairs."""
    n = len(state[0])
    return Moments(float(state[0].mean()), float(state[1].sum()) / (n * (n - 1)))


def _mixed(step: Mix, slots: dict[int, State]) -> State:
    """Σ_e g_e f_e, with the numbers of the routing at the mean over positions."""
    keep, apart, _, _ = step.core.at(mean_of(slots[step.logits]))
    q, distance = added([scaled(slots[v], 1 / len(step.values)) for v in step.values])
    return keep * q, keep * distance + apart * ((q[:, None] + q) / 2 - distance) * (1 - np.eye(len(q)))


def _attended(step: Attend, slots: dict[int, State]) -> State:
    query, key, (q, apart) = slots[step.query], slots[step.key], slots[step.value]
    n = len(q)
    if not step.core.causal:  # rows over all keys see their mean alone
        places = step.variance({slot: mean_of(slots[slot]) for slot, _ in step.places})
        return even(step.core.forward(mean_of(query), mean_of(key), mean_of(slots[step.value]), places), n)
    pick, _, meet = rows(step, slots)
    count = np.arange(1, n + 1)
    whole = apart.cumsum(0).cumsum(1)
    own = (1 - pick) / np.maximum(count * (count - 1), 1) * np.diag(whole)
    low = np.minimum.outer(count, count)
    others = np.maximum(np.outer(count, count) - low, 1)
    cross = (1 - meet) / others * whole - (own[:, None] + own) / 2
    np.fill_diagonal(cross, 0.0)
    return q.cumsum() / count - own, cross


def rows(step: Attend, slots: Mapping[int, State]) -> tuple[Array, Array, Array]:
    """P [i], S [i] and R [i, j], at the mean deviation of the logits and the mean correlation of two queries."""
    query, key = mean_of(slots[step.query]), mean_of(slots[step.key])
    places = step.variance({slot: mean_of(slots[slot]) for slot, _ in step.places})
    spread, alike = step.core.spread(query, key, places), step.core.alike(query, key, places)
    return _rows(len(slots[step.query][0]), spread, alike)


@lru_cache(maxsize=2 * MOST)
def _rows(tokens: int, spread: float, alike: float) -> tuple[Array, Array, Array]:
    """The same block is asked for its rows on the way forward and twice on the way back."""
    (high, part), (right, side) = _place(SPREADS, spread), _place(COSINES, alike)
    picks, jumps, meets = tables(tokens)
    pick, jump, line = ((1 - part) * t[high - 1] + part * t[high] for t in (picks, jumps, meets[:, right - 1 : right + 1]))
    upper, fade = (1 - side) * line[0] + side * line[1], SPREADS[-1] / max(spread, SPREADS[-1])
    return 1 - fade * (1 - pick), fade * jump, upper + np.triu(upper, 1).T


def _place(grid: Sequence[float], value: float) -> tuple[int, float]:
    """The grid's first point above a value, and how far of the way to it."""
    inside = min(max(value, grid[0]), grid[-1])
    high = min(max(bisect_left(grid, inside), 1), len(grid) - 1)
    return high, (inside - grid[high - 1]) / (grid[high] - grid[high - 1])


def together(power: Array, apart: Array) -> Array:
    """E X_ia X_ja."""
    return np.asarray((power[:, None] + power) / 2 - apart)


__all__ = [
    "GRID", "MOST", "State", "across", "added", "before_close", "even", "gaps", "is_causal", "last_one_minus_cos", "mean_of",
    "normed", "rows", "scaled", "slots_of", "together",
]  # fmt: skip
