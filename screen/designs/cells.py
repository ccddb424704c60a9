"""Cells to a complete spec: what a row states, then what it is assumed to be, then general defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from screen.designs.spec import Design, Init, NotExpressible, Pattern, Residual, Spec, Sublayer, names

HEAD_DIM = 64
"""Features of a head where neither heads nor their size is stated."""
VOCAB, CONTEXT, CLASSES = 32_000, 1_024, 1_000
"""Tokens of a vocabulary, tokens of a sequence, classes of images, where they are not stated."""
STD = 0.02
"""Standard deviation of normal weights where neither a number nor a rule is stated (GPT-2, BERT)."""


class _Cells:
    """A row's cells, what is assumed of it, and a record of what was filled in."""

    def __init__(self, row: Mapping[str, Any], changed: Mapping[str, Any], assume: bool) -> None:
        self.row, self.changed = row, changed
        self.assumed = {k: v["value"] for k, v in row.get("assumed", {}).items()} if assume else {}
        self.filled: dict[str, str] = {}

    def __call__(self, path: str, default: Any = None) -> Any:
        """The value at `design.norm_type`, or None when nobody says."""
        if path in self.changed:
            return self.changed[path]
        node: Any = self.row
        for name in path.split("."):
            node = node.get(name) if node is not None else None
        if node is not None:
            return node
        if path in self.assumed:
            self.filled[path] = "assumed"
            return self.assumed[path]
        if default is not None:
            self.filled[path] = "general default"
        return default


def resolve(row: Mapping[str, Any], changed: Mapping[str, Any] | None = None, *, assume: bool = True) -> Spec:
    """The complete spec of a row's `design`, `init` and `precision`.

    `changed` overrides cells by their path (`design.width`). With `assume` false, the row's own `assumed` is left aside.
    Raises `NotExpressible` where a size, a placement or a norm is not known, or where the design needs what no module here can do.
    """
    cell = _Cells(row, changed or {}, assume)
    design = _design(cell)
    half = (row.get("precision") or {}).get("params") == "fp16"
    return Spec(design, _init(cell), "float16" if half else "float32", cell.filled)


def _design(cell: _Cells) -> Design:
    family = cell("design.family")
    if family not in ("decoder", "encoder", "encoder_decoder", "vit"):
        raise NotExpressible(f"family {family}")
    sublayers = _sublayers(cell)
    depths = [int(cell(f"design.{name}") or 0) for name in ("depth", "encoder_depth", "decoder_depth")]
    if not (all(depths[1:]) if family == "encoder_decoder" else depths[0]):
        raise NotExpressible("depth not known")
    width = cell("design.width")
    if not width:
        raise NotExpressible("width not known")
    norm = cell("design.norm_type", "layernorm" if family != "decoder" else None)
    if norm not in ("layernorm", "rmsnorm", "none", "dyt"):
        raise NotExpressible(f"norm {norm}" if norm else "norm type not known")
    pattern = _pattern(cell)
    residual = _residual(cell, pattern)
    gated = any(s.role == "gated_ffn" for s in sublayers)
    head_dim = cell("design.head_dim")
    heads = cell("design.heads", max(1, width // (head_dim or HEAD_DIM)))
    scale, causal = cell("design.embed_scale"), cell("design.causal")
    last = [s for s in sublayers if s.stream != "encoder"][-1].placement
    return Design(
        family=family,
        depth=0 if family == "encoder_decoder" else depths[0],
        encoder_depth=depths[1] if family == "encoder_decoder" else 0,
        decoder_depth=depths[2] if family == "encoder_decoder" else 0,
        width=width,
        heads=heads,
        head_dim=head_dim or width // heads,
        kv_heads=cell("design.kv_heads") or heads,
        ffn_width=cell("design.ffn_width", round(8 / 3 * width / 64) * 64 if gated else 4 * width),
        vocab=CLASSES if family == "vit" else int(cell("design.vocab", VOCAB)),
        context=int(cell("design.context", CONTEXT)),
        sublayers=sublayers,
        pattern=pattern,
        parallel=bool(cell("design.parallel")),
        norm_type=norm,
        norm_affine=cell("design.norm_affine") is not False,
        qk_norm=cell("design.qk_norm", "none"),
        qk_norm_type=cell("design.qk_norm_type"),
        qk_norm_scale=cell("design.qk_norm_scale") is not False,
        v_norm=bool(cell("design.v_norm")),
        final_norm=norm != "none" and bool(cell("design.final_norm", "C" not in last)),
        embed_norm=bool(cell("design.embed_norm")),
        embed_scale=math.sqrt(width) if scale == "sqrt(d)" else scale,
        residual=residual,
        attention_softmax=cell("design.attention_softmax") is not False,
        sigma_reparam=bool(cell("design.sigma_reparam")),
        attention_logit_cap=cell("design.attention_logit_cap"),
        output_logit_cap=cell("design.output_logit_cap"),
        activation=cell("design.activation", "silu" if gated else "gelu"),
        tied_embeddings=cell("design.tied_embeddings", False),
        position=cell("design.position", "rotary" if gated else "learned"),
        biases=cell("design.biases", norm == "layernorm"),
        causal=family == "decoder" if causal is None else bool(causal),
    )


def _sublayers(cell: _Cells) -> tuple[Sublayer, ...]:
    stated = cell("design.sublayers")
    if not stated or any(s["placement"] is None for s in stated):
        raise NotExpressible("placement not known")
    known = names(Sublayer)
    sublayers = tuple(Sublayer(**{k: v for k, v in s.items() if k in known}) for s in stated)
    for role in {s.role for s in sublayers} - {"attention", "cross_attention", "ffn", "gated_ffn"}:
        raise NotExpressible(f"a branch of the kind {role}")
    return sublayers


def _pattern(cell: _Cells) -> Pattern | None:
    stated = cell("design.pattern")
    if stated is None:
        return None
    if stated["kind"] == "extra_stream_norm":
        raise NotExpressible("norms on the stream between blocks")
    known = names(Pattern)
    return Pattern(**{k: v for k, v in stated.items() if k in known})


def _residual(cell: _Cells, pattern: Pattern | None) -> Residual:
    kind, alpha, rule = cell("design.residual.kind", "none"), cell("design.residual.alpha"), cell("design.residual.rule") or ""
    if kind == "data_dependent":
        raise NotExpressible("data-dependent residual")
    if kind == "constant" and alpha is None and pattern is None:
        raise NotExpressible("alpha not known")
    if "bottom" in rule:
        raise NotExpressible("a skip from the block's bottom to its top")
    return Residual(kind, alpha, cell("design.residual.branch"), rule)


def _init(cell: _Cells) -> Init:
    std, rule = cell("init.std"), cell("init.std_rule")
    kind = cell("init.kind")
    if kind is None:
        kind, std = "normal", std or STD
        cell.filled["init.kind"] = "general default"
    if kind in ("normal", "truncated_normal") and std is None and rule is None:
        std = STD
        cell.filled["init.std"] = "general default"
    return Init(
        kind=kind,
        std=std,
        std_rule=rule,
        depth_scaled=bool(cell("init.depth_scaled")),
        depth_rule=cell("init.depth_rule") or "",
        gains=cell("init.gains"),
        embedding_std=cell("init.embedding_std"),
    )


__all__ = ["resolve"]
