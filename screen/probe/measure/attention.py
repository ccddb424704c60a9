"""Logits and rows of an attention, read off its recorded call."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from screen.graph import Graph
from screen.probe.measure.replay import Env

MASKED = -1e30
"""A logit below this was masked out."""
DEVIATIONS = tuple(0.25 * 1.25**n for n in range(25))
"""Of logits, from what is next to even to what one key has, in steps of a quarter."""
NO_LOGITS: tuple[float | None, ...] = (None, None, None)
"""Of logits that cannot be had: the largest, their size, and what a softmax feels of them."""


def logits(graph: Graph, node: int, env: Env) -> Tensor | None:
    """What stands under the softmax: its input, or q kᵀ · scale with the mask of a fused call; masked entries are −∞. [..., rows, columns]"""
    here = graph.nodes[node]
    if here.op != "scaled_dot_product_attention":
        u = env.get(here.inputs[0])
        return u.masked_fill(u < MASKED, -math.inf) if isinstance(u, Tensor) and u.dim() > 1 else None
    q, k, factor = _operands(graph, node, env)
    u = q @ k.transpose(-2, -1) * factor
    if here.kwarg("is_causal", here.args[5] if len(here.args) > 5 else False) is True:
        u = u.masked_fill(torch.ones(u.shape[-2:], dtype=torch.bool, device=u.device).triu(1), -math.inf)
    mask = env.get(here.inputs[3]) if len(here.inputs) > 3 else None
    if isinstance(mask, Tensor):
        u = u.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else u + mask
    return u.masked_fill(u < MASKED, -math.inf)


def bare_logits(graph: Graph, node: int, env: Env, u: Tensor) -> Tensor:
    """q kᵀ · scale of a fused call, without what its mask adds; −∞ where its logits `u` are masked out."""
    q, k, factor = _operands(graph, node, env)
    return (q @ k.transpose(-2, -1) * factor).masked_fill(~torch.isfinite(u), -math.inf)


def largest(u: Tensor) -> float:
    """max |logit| over the entries that are not masked out."""
    kept = u[torch.isfinite(u)]
    return float(kept.abs().amax()) if kept.numel() else 0.0


def felt(u: Tensor) -> float | None:
    """The deviation of independent Gaussian logits over as many keys whose softmax is as uneven: the squares of its weights sum to as much, in the
    mean over rows. Of the rows that hide at most half of the keys that any sees; None where no row has two."""
    kept = torch.isfinite(u)
    counts = kept.sum(-1)
    rows = counts >= max(2, int(counts.max()) / 2)
    if not bool(rows.any()):
        return None
    p = u.double().masked_fill(~kept, -math.inf)[rows].softmax(-1)
    shares, share = _uneven(round(float(counts[rows].double().mean()))), float(p.square().sum(-1).mean())
    after = next((i for i, s in enumerate(shares) if s >= share), len(shares))
    if after in (0, len(shares)):
        return DEVIATIONS[min(after, len(shares) - 1)]
    part = (share - shares[after - 1]) / (shares[after] - shares[after - 1])
    return DEVIATIONS[after - 1] + part * (DEVIATIONS[after] - DEVIATIONS[after - 1])


@cache
def _uneven(keys: int) -> tuple[float, ...]:
    """E Σp² of a softmax over independent Gaussian logits of each of `DEVIATIONS`, from as many rows as make it known to a percent or two."""
    g = torch.randn(max(256, 65536 // keys), keys, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return tuple(float((s * g).softmax(-1).square().sum(-1).mean()) for s in DEVIATIONS)


def bounded_logits(graph: Graph, node: int, env: Env) -> Tensor | None:
    """max |logit| before masks, which the bound speaks of (of a softmax without its mask's entries), as a tensor that knows its gradient."""
    here = graph.nodes[node]
    if here.op != "scaled_dot_product_attention":
        u = logits(graph, node, env)
        kept = None if u is None else u[torch.isfinite(u)]
        return None if kept is None else kept.abs().amax() if kept.numel() else kept.sum()
    q, k, factor = _operands(graph, node, env)
    return (q @ k.transpose(-2, -1) * factor).abs().amax()


def bounded_logit(graph: Graph, node: int, env: Env) -> float | None:
    """The same as a number."""
    found = bounded_logits(graph, node, env)
    return None if found is None else float(found.detach())


def _operands(graph: Graph, node: int, env: Env) -> tuple[Tensor, Tensor, float]:
    """(q, k with its heads repeated, scale) of a fused call."""
    here = graph.nodes[node]
    q, k = env[here.inputs[0]], env[here.inputs[1]]
    scale = here.kwarg("scale", here.args[6] if len(here.args) > 6 else None)
    factor = float(scale) if isinstance(scale, int | float) else 1 / math.sqrt(q.shape[-1])
    if q.dim() > 3 and q.shape[-3] != k.shape[-3]:
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    return q, k, factor


__all__ = ["MASKED", "NO_LOGITS", "bare_logits", "bounded_logit", "bounded_logits", "felt", "largest", "logits"]
