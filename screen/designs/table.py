"""The designs that people choose between, as cells: what differs from one to the next is placement, factors and the kind of norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


MIX_FRACTION = 0.25
"""Share of blocks that are post-norm, from the bottom, in Mix-LN (Li et al. 2025)."""
LAYER_SCALES = ((18, 0.1), (24, 1e-5), (math.inf, 1e-6))
"""(largest number of blocks, start of the factor) of LayerScale (Touvron et al. 2021, section 2.3)."""
QK = "+qk"
"""What a name of the table ends with when queries and keys are normed for each head."""


def _norms(placement: str, **other: Any) -> Callable[[int], dict[str, Any]]:
    return lambda depth: {"placement": placement, **other}


def _deepnorm(depth: int) -> dict[str, Any]:
    """α = (2N)^(1/4) on the path, β = (8N)^(−1/4) on V, O and the feed-forward (Wang et al. 2022, table 2, decoders)."""
    gains = {"on": ["v", "o", "ffn"], "gain": (8 * depth) ** -0.25}
    return {"placement": "C", "residual": {"kind": "constant", "alpha": (2 * depth) ** 0.25, "branch": 1.0, "rule": None}, "init": {"gains": gains}}


def _layerscale(depth: int) -> dict[str, Any]:
    start = next(value for largest, value in LAYER_SCALES if depth <= largest)
    return {"placement": "A", "residual": {"kind": "learned", "alpha": 1.0, "branch": start, "rule": "per feature"}}


TABLE: dict[str, Callable[[int], dict[str, Any]]] = {
    "none": _norms("", norm_type="none"),
    "pre": _norms("A"),
    "post": _norms("C"),
    "peri": _norms("AB", embed_norm=True),
    "sandwich": _norms("AB"),
    "output": _norms("B"),
    "pre-post": _norms("AC"),
    "sub-ln": _norms("AS"),
    "parallel": _norms("A", parallel=True),
    "mix-ln": _norms("A", pattern={"kind": "first_fraction", "fraction": MIX_FRACTION, "sublayers": "C"}),
    "residual": _norms("C", pattern={"kind": "two_streams", "rule": "x = LN(x + F(x)), y = y + F(x), out = x + LN(y)"}),
    "deepnorm": _deepnorm,
    "layerscale": _layerscale,
    "rezero": _norms("", norm_type="none", residual={"kind": "learned", "alpha": 1.0, "branch": 0.0, "rule": None}),
    "dyt": _norms("A", norm_type="dyt"),
}
"""From a name to what its cells say at a depth: `placement` of each sublayer, other cells of the design, and of `init` where it is part of it."""


def row(name: str, *, depth: int, width: int, init: dict[str, Any] | None = None, **design: Any) -> dict[str, Any]:
    """The cells of a decoder of the table, LayerNorm and GELU unless `design` says otherwise, as `resolve` takes them.

    `name` is a key of `TABLE`, with `+qk` behind it for QK-norm. `init` holds cells of the initialisation, below those that are part of the design.
    """
    base = name.removesuffix(QK)
    cells = TABLE[base](depth)
    placement, own = cells.pop("placement"), cells.pop("init", {})
    known = {
        "family": "decoder", "depth": depth, "width": width, "norm_type": "layernorm", "qk_norm": "per_head" if name.endswith(QK) else "none",
        "activation": "gelu", "tied_embeddings": False, "position": "learned", "biases": False, "causal": True,
        "sublayers": [{"role": role, "placement": placement, "stream": None} for role in ("attention", "ffn")],
        "residual": {"kind": "none", "alpha": 1.0, "branch": 1.0, "rule": None},
    }  # fmt: skip
    start = {"kind": "normal", "std_rule": "1/sqrt(fan_in)", **(init or {}), **own}
    return {"design": {**known, **cells, **design}, "init": start, "precision": {"params": "fp32"}, "assumed": {}}


__all__ = ["LAYER_SCALES", "MIX_FRACTION", "QK", "TABLE", "row"]
