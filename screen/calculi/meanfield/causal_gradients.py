"""Gradients under a causal mask, position by position: they gather at the first tokens, whose rows are short and whose differences are few.

The state of `causal` forward, and back the n × n matrix Γ_ij = E G_ia G_ja of a gradient G. With C_ij = E X_ia X_ja = (q_i + q_j)/2 − D_ij,

    weights    E‖∂L/∂W‖² per entry and token: Σ_ij Γ_ij C_ij / n
    φ          Γ_ij E φ'(x_i)φ'(x_j)          norm    s_i s_j Γ_ij          product    Γ_ij C_ij of the other factor

Attention, with E A_ij A_kl as in `causal` and rows i, k of i and k keys: the values receive Σ_ik E[A_ij A_kl] Γ_ik. The logits of rows i and k have
on their m = min(i, k) common keys together

    e_ik = d_h·Γ_ik·δ_v·S_ik,      S_ii = S_i,  S_ik = √(S_i S_k)·R_ik/√(P_i P_k)

each key the same share and the sum over keys zero, so that queries receive τ²·e_ik·δ_k, and keys j, l the sum over i, k ≥ max(j, l) of
τ²·C^q_ik·e_ik/m where j = l, and of −1/(m − 1) of it where not. δ_v, δ_k are means over the pairs of the first m positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from screen.calculi.meanfield.activation_kernels import Kernel
from screen.calculi.meanfield.causal import GRID, MOST, State, added, before_close, mean_of, rows, scaled, slots_of, together
from screen.calculi.meanfield.moments import Gradient, Moments
from screen.calculi.meanfield.program import Program
from screen.calculi.meanfield.propagate import Backward, Stack
from screen.calculi.meanfield.transfer import Attend, Entrywise, Join, Linear, Mix, Normalise, Part, Product, Shift, Step, Stretch, Sum, Within

Array = NDArray[np.float64]
READ = (Attend, Entrywise, Join, Linear, Mix, Normalise, Part, Product, Shift, Stretch, Sum, Within)


@dataclass(frozen=True)
class Start:
    """One backward pass of several that are run together."""

    depth: int
    """Blocks that it runs back through."""
    silent: bool = False
    """Whether no gradient passes through the logits."""


def is_read(stack: Stack) -> bool:
    """Whether every step of a stack has a row here."""
    programs = [i.program for b in {id(b): b for b in stack.blocks}.values() for a in b for i in a.inlets]
    return len(stack.blocks) <= MOST and not any(p.tokens for p in programs) and all(isinstance(s, READ) for p in programs for s in p.steps)


def backward(stack: Stack, starts: tuple[Start, ...], states: Sequence[State]) -> tuple[Backward, ...]:
    """A gradient of size one at each position behind the first `depth` blocks (and the final norm), back to the first; one result for each start.

    `states`: `states_of` the stack. A pass is carried from where it starts, and not before."""
    n = stack.tokens
    ends = np.cumsum([len(b) for b in stack.blocks])
    order = sorted(range(len(starts)), key=lambda p: -starts[p].depth)
    deepest = [starts[p].depth for p in order]
    loud = np.array([not starts[p].silent for p in order])
    back = np.zeros((0, n, n))
    streams, weights, lasts = (np.zeros((len(starts), len(stack.blocks))) for _ in range(3))
    for number in reversed(range(len(stack.blocks))):
        begun = sum(depth > number for depth in deepest)  # the others start further down
        if begun > len(back):
            one = np.eye(n) if stack.final is None else np.diag(stack.final.gain / (states[ends[number]][0] + stack.final.eps))
            back = np.concatenate([back, np.broadcast_to(one, (begun - len(back), n, n))])
        here = order[:begun]
        block = stack.blocks[number]
        for position in reversed(range(len(block))):
            add, read = block[position], states[ends[number] - len(block) + position]
            slots = [slots_of(i.program, read) for i in add.inlets]
            if add.close is not None:
                back = _normed(add.close, before_close(add, read, slots), back)
            passed = back * add.identity
            last = np.zeros(begun)
            for inlet, known in zip(add.inlets, slots, strict=True):
                backs = _branch(inlet.program, known, back * inlet.square, loud[:begun])
                passed = passed + backs[0]
                found, last = _weights(inlet.program, known, backs, n)
                weights[here, number] += found
            if position == len(block) - 1:
                lasts[here, number] = last
            back = passed
        streams[here, number] = np.einsum("bii->b", back) / n
    table = [(streams[p], weights[p], lasts[p]) for p in range(len(starts))]
    return tuple(Backward(*(tuple(map(float, row[: s.depth])) for row in rows_)) for s, rows_ in zip(starts, table, strict=True))


def _weights(program: Program, slots: Mapping[int, State], backs: Mapping[int, Array], n: int) -> tuple[Array, Array]:
    """Mean squares of the gradients of all weights of a branch, and per entry of the one nearest to its output."""
    total = last = np.zeros(())
    for step in program.linears:
        q, apart = slots[step.source]
        g = backs[step.target] / step.experts
        per = np.maximum(np.einsum("bij,ij->b", g, together(q, apart)) / n, 0.0)
        total = total + step.entries * per + step.outputs * np.maximum(g.sum((-1, -2)) / n, 0.0)
        last = per
    return total, last


def _branch(program: Program, slots: Mapping[int, State], back: Array, loud: NDArray[np.bool_]) -> dict[int, Array]:
    backs: dict[int, Array] = {0: np.zeros_like(back)}
    backs[program.output] = back
    for step in reversed(program.steps):
        if step.target not in backs:
            continue
        for slot, gradient in _step(step, slots, backs[step.target], loud):
            backs[slot] = backs[slot] + gradient if slot in backs else gradient
    for step in program.linears:
        backs.setdefault(step.target, np.zeros_like(back))
    return backs


def _step(step: Step, slots: Mapping[int, State], g: Array, loud: NDArray[np.bool_]) -> list[tuple[int, Array]]:
    if isinstance(step, Linear):
        return [(step.source, g * step.backward_gain)]
    if isinstance(step, Normalise):
        return [(step.source, _normed(step, slots[step.source], g))]
    if isinstance(step, Entrywise):
        return [(step.source, g * _slopes(step.kernel, slots[step.source]))]
    if isinstance(step, Stretch):
        return [(step.source, g * step.factor**2)]
    if isinstance(step, Part):
        return [(step.source, g * step.share)]
    if isinstance(step, Shift | Within):
        return [(step.source, g)]
    if isinstance(step, Sum | Join):
        return [(source, g) for source in step.sources]
    if isinstance(step, Product):
        ways = (step.left, step.right, step.repeats[0]), (step.right, step.left, step.repeats[1])
        return [(one, g * together(*slots[other]) * times) for one, other, times in ways]
    if isinstance(step, Mix):
        return _mixed(step, slots, g)
    if not isinstance(step, Attend):
        raise NotImplementedError(type(step).__name__)
    return attended(step, slots, g, loud)


def _normed(norm: Normalise, state: State, g: Array) -> Array:
    scale = np.sqrt(norm.gain / np.maximum(state[0] + norm.eps, 1e-300))
    return np.asarray(g * np.outer(scale, scale))


def _slopes(kernel: Kernel, state: State) -> Array:
    q, apart = state
    power = float(f"{float(q.mean()):.6g}")
    if power <= 0:
        return np.full_like(apart, kernel.backward(Moments(0.0, 0.0), Gradient(1.0, 1.0)).shared)
    own, table = slopes(kernel, power)
    found = np.interp(apart / power, GRID, table)
    np.fill_diagonal(found, own)
    return np.asarray(found)


@lru_cache(maxsize=256)
def slopes(kernel: Kernel, power: float) -> tuple[float, Array]:
    """E φ'², and E φ'φ' over the grid of 1 − ρ."""
    one = Gradient(1.0, 1.0)
    own = kernel.backward(Moments(power, power), one).power
    return own, np.array([kernel.backward(Moments(power, power * lost), one).shared for lost in GRID])


def _mixed(step: Mix, slots: Mapping[int, State], g: Array) -> list[tuple[int, Array]]:
    """With the numbers of the routing at the mean over positions."""
    keep, apart, jump, both = step.core.at(mean_of(slots[step.logits]))
    q, distance = added([scaled(slots[v], 1 / len(step.values)) for v in step.values])
    own = np.eye(len(q))
    to_logits = g * together(q, distance) * (both + (jump - both) * own) * (step.core.width / step.core.experts)
    to_values = g * (keep - apart * (1 - own)) / len(step.values)
    return [(step.logits, to_logits), *((v, to_values) for v in step.values)]


def attended(step: Attend, slots: Mapping[int, State], g: Array, loud: NDArray[np.bool_]) -> list[tuple[int, Array]]:
    query, key, value = slots[step.query], slots[step.key], slots[step.value]
    core, n = step.core, len(query[0])
    if not core.causal:
        return _open(step, slots, g, loud[:, None, None])
    pick, jump, meet = rows(step, slots)
    low, high, own, others = _keys(n)
    same = np.where(own, pick, meet)
    to_value = _with_diagonal(_later(g * np.where(others > 0, (1 - same) / np.maximum(others, 1), 0.0)), _later_alike(g, same / low))
    slope = core.slope(mean_of(query), mean_of(key), step.variance({slot: mean_of(slots[slot]) for slot, _ in step.places}))
    root = np.sqrt(jump / pick)
    steep = np.where(own, jump, np.outer(root, root) * meet)
    value_gap, key_gap = (_first(apart)[low - 1] for _, apart in (value, key))
    logits = g * (core.width * slope * steep * value_gap)
    logits[~loud] = 0.0
    to_query = logits * (core.scale**2 * key_gap)
    each = core.scale**2 * together(*query) / low
    apart = -_later_alike(logits, each / np.maximum(low - 1, 1))
    to_key = _with_diagonal(apart[:, high], _later_alike(logits, each))
    places = [(slot, np.where(own, square / core.width * logits, 0.0)) for slot, square in step.places]
    return [(step.query, to_query), (step.key, to_key), (step.value, to_value), *places]


@lru_cache(maxsize=4)
def _keys(n: int) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.bool_], NDArray[np.int_]]:
    """Of rows i and k: the keys that both see, the place of the later one, whether they are one, and the pairs of unlike keys."""
    count = np.arange(1, n + 1)
    low = np.minimum.outer(count, count)
    return low, np.maximum.outer(count, count) - 1, np.eye(n, dtype=bool), np.outer(count, count) - low


def _open(step: Attend, slots: Mapping[int, State], g: Array, heard: NDArray[np.bool_]) -> list[tuple[int, Array]]:
    """Rows over all keys: exchangeable."""
    n, kept = g.shape[-1], {s: mean_of(slots[s]) for s in (step.query, step.key, step.value, *(p for p, _ in step.places))}
    found: dict[int, list[Gradient]] = {}
    for one in g:
        power = float(np.trace(one)) / n
        backs = [Gradient(0.0, 0.0)] * (max(*kept, step.target) + 1)
        backs[step.target] = Gradient(power, float(one.sum() - n * power) / (n * (n - 1)))
        moments = [kept.get(s, Moments(0.0, 0.0)) for s in range(len(backs))]
        step.backward(moments, backs)
        for slot in kept:
            found.setdefault(slot, []).append(backs[slot])
    own = np.eye(n)
    table = {s: np.array([b.shared + (b.power - b.shared) * own for b in each]) for s, each in found.items()}
    return [(s, t if s == step.value else np.where(heard, t, 0.0)) for s, t in table.items()]


def _later(values: Array) -> Array:
    """Sums over i ≥ j and k ≥ l."""
    turned = np.ascontiguousarray(values[..., ::-1, ::-1])
    return np.asarray(turned.cumsum(-1).cumsum(-2)[..., ::-1, ::-1])


def _later_alike(values: Array, times: Array) -> Array:
    """Sums of `values · times` over i ≥ j and k ≥ j."""
    each = np.einsum("bik,ik->bi", values, np.triu(times)) + np.einsum("bik,ik->bk", values, np.tril(times, -1))
    return np.asarray(each[:, ::-1].cumsum(-1)[:, ::-1])


def _with_diagonal(values: Array, own: Array) -> Array:
    """The same array, its diagonals replaced."""
    np.einsum("bii->bi", values)[...] = own
    return values


def _first(apart: Array) -> Array:
    """Mean of D over the pairs of the first m positions, for every m."""
    count = np.arange(1, len(apart) + 1)
    return np.asarray(np.diag(apart.cumsum(0).cumsum(1)) / np.maximum(count * (count - 1), 1))


__all__ = ["Start", "attended", "backward", "is_read"]
