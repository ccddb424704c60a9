"""Experiment `start`: the block at its initialisation. rms of the stream and of each branch, largest logit, entropy of attention rows, θ.

θ(p) = 4 max_S p(S)(1 − p(S)) (`screen.theorems.theta`) is an interval for long rows; what is reported is the mean of its lower ends. Entropy in nats,
over ln of the number of entries that the mask leaves.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from screen.probe.measure.attention import largest, logits
from screen.probe.measure.stack import Stack
from screen.probe.plan.types import Experiment, rounded
from screen.theorems.theta import row_entropy, theta

ROWS = 64
"""Rows of attention that θ is computed of, spread evenly."""


def start(stack: Stack, x: Tensor, words: str) -> list[Experiment]:
    """What stands at the first block."""
    plan = stack.plan
    env = stack.run(x, stack.drawn(0))
    empty = Experiment("start", "", "observed", plan.stream, plan.kind, samples=x.numel())
    found = [replace(empty, what="rms of the stream at the block", measured=rounded(_rms(x)), reason=words)]
    for name, node in zip(plan.names, plan.outputs, strict=False):
        found.append(replace(empty, what="rms of what the branch adds", sublayer=name, measured=rounded(_rms(env[node]))))
    for name, node in plan.softmaxes:
        found.append(_attention(stack, node, {**env, plan.entry: x}, replace(empty, what="largest logit of the attention", sublayer=name)))
    return found


def _rms(t: Tensor) -> float:
    return float(t.square().mean().sqrt())


def _attention(stack: Stack, node: int, env: dict[int, Tensor], empty: Experiment) -> Experiment:
    """Largest logit, with entropy and θ of its rows."""
    u = logits(stack.material.tape.graph, node, env)
    if u is None:
        return replace(empty, outcome="not_measured", reason="its logits are not one tensor")
    p = torch.softmax(u, -1).reshape(-1, u.shape[-1])
    p = p[torch.isfinite(p).all(-1)]
    picked = p[torch.linspace(0, max(len(p) - 1, 0), min(ROWS, len(p))).round().long()].cpu().numpy()
    kept = [row for row in picked if (row > 0).sum() > 1]
    if not kept:
        return replace(empty, measured=rounded(largest(u)), reason="no row of attention has two entries")
    entropy = sum(row_entropy(row) / math.log((row > 0).sum()) for row in kept) / len(kept)
    low = sum(theta(row).low for row in kept) / len(kept)
    numbers = {"entropy_share": rounded(entropy), "theta": rounded(low), "rows": float(len(kept))}
    return replace(empty, measured=rounded(largest(u)), numbers=numbers, reason=f"row entropy {entropy:.3g} of ln n, θ {low:.3g}")


__all__ = ["start"]
