"""Fused norms and entry-wise kernels, written out.

Sources: apex/normalization/fused_layer_norm.py; csrc/layer_norm/ln_api.cpp of flash-attention; mamba_ssm/ops/triton/layer_norm.py
(`layer_norm_ref`, `rms_norm_ref`) and layernorm_gated.py (`rms_norm_ref`); liger_kernel/transformers and
ops/rms_norm.py.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """x / rms(x) · weight, with the residual that some callers hand over: norm(x + residual)."""

    def __init__(self, hidden_size: int, eps: float = 1e-5, device: Any = None, dtype: Any = None, **_: Any) -> None:
        super().__init__(hidden_size, eps, device=device, dtype=dtype)
        self.register_parameter("bias", None)

    def forward(self, x: Tensor, residual: Tensor | None = None, prenorm: bool = False, residual_in_fp32: bool = False) -> Any:
        return rms_norm_fn(x, self.weight, None, residual, prenorm=prenorm, residual_in_fp32=residual_in_fp32, eps=self.eps)


def _added(x: Tensor, residual: Tensor | None, in_fp32: bool) -> Tensor:
    total = x if residual is None else x + residual
    return total.float() if in_fp32 else total


def rms_norm_fn(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None, *_: Any, prenorm: bool = False,
    residual_in_fp32: bool = False, eps: float | None = 1e-6, **__: Any,
) -> Any:  # fmt: skip
    """norm(x + residual), with the sum beside it where `prenorm`."""
    total = _added(x, residual, residual_in_fp32)
    out = F.rms_norm(total.to(x.dtype), weight.shape, weight, eps)
    out = out if bias is None else out + bias
    return (out, total) if prenorm else out


def layer_norm_fn(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None, *_: Any, prenorm: bool = False,
    residual_in_fp32: bool = False, eps: float = 1e-6, is_rms_norm: bool = False, **__: Any,
) -> Any:  # fmt: skip
    """As `rms_norm_fn`, of either kind."""
    if is_rms_norm:
        return rms_norm_fn(x, weight, bias, residual, prenorm=prenorm, residual_in_fp32=residual_in_fp32, eps=eps)
    total = _added(x, residual, residual_in_fp32)
    out = F.layer_norm(total.to(x.dtype), weight.shape, weight, bias, eps)
    return (out, total) if prenorm else out


def rms_norm(x: Tensor, weight: Tensor, epsilon: float = 1e-6) -> Tensor:
    """flash_attn.ops.rms_norm."""
    return F.rms_norm(x, weight.shape, weight, epsilon)


def dropout_add_ln_fwd(
    x0: Tensor, residual: Tensor | None, gamma: Tensor, beta: Tensor | None, rowscale: Tensor | None, colscale: Tensor | None, x0_subset: None,
    z_subset: None, dropout_p: float, epsilon: float, rowscale_const: float = 1.0, z_numrows: int = 0, gen: Any = None,
    residual_in_fp32: bool = False, is_rms_norm: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """norm(x0 · scales + residual), that sum where there is a residual, no mask, and the mean and the inverse deviation of each row."""
    scaled = x0 if rowscale is None else x0 * rowscale[:, None]
    scaled = scaled if colscale is None else scaled * colscale
    total = _added(scaled, residual, residual_in_fp32)
    norm = layer_norm_fn(total.to(x0.dtype), gamma, beta, eps=epsilon, is_rms_norm=is_rms_norm)
    mean = total.mean(-1)
    spread = (total - mean[:, None] * (not is_rms_norm)).square().mean(-1)
    return norm, None if residual is None and colscale is None else total, None, mean, (spread + epsilon).rsqrt()


class RMSNormGated(nn.RMSNorm):
    """norm(x · silu(z)), or norm(x) · silu(z) where `norm_before_gate`; over groups of channels where `group_size`."""

    def __init__(
        self, hidden_size: int, eps: float = 1e-5, group_size: int | None = None, norm_before_gate: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(hidden_size, eps, device=device, dtype=dtype)
        self.group_size, self.norm_before_gate = group_size or hidden_size, norm_before_gate
        self.register_parameter("bias", None)

    def forward(self, x: Tensor, z: Tensor | None = None) -> Tensor:
        gated = x if z is None or self.norm_before_gate else x * F.silu(z)
        groups = F.rms_norm(gated.unflatten(-1, (-1, self.group_size)), (self.group_size,), None, self.eps).flatten(-2)
        out = groups * self.weight
        return out if z is None or not self.norm_before_gate else out * F.silu(z)


class FusedRMSNorm(nn.RMSNorm):
    """apex: with an ε of its own where none is given."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, **_: Any) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine)


class LigerRMSNorm(nn.RMSNorm):
    """x / rms(x) · (weight + offset)."""

    def __init__(self, hidden_size: int, eps: float = 1e-6, offset: float = 0.0, *_: Any, **__: Any) -> None:
        super().__init__(hidden_size, eps)
        self.offset = offset
        nn.init.constant_(self.weight, 1.0 - offset)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight + self.offset if self.offset else self.weight, self.eps)


class LigerLayerNorm(nn.LayerNorm):
    """nn.LayerNorm with the defaults of Liger."""

    def __init__(self, hidden_size: int, eps: float = 1e-6, bias: bool = False, *_: Any, **__: Any) -> None:
        super().__init__(hidden_size, eps, bias=bias)


class LigerSwiGLUMLP(nn.Module):
    """down(silu(gate x) · up x)."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(config.hidden_size, config.intermediate_size, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class LigerRMSNormFunction:
    """As `LigerRMSNorm`, of a weight that is handed over."""

    @staticmethod
    def apply(x: Tensor, weight: Tensor, eps: float, offset: float = 0.0, *_: Any) -> Tensor:
        """The norm of `x`."""
        return F.rms_norm(x, weight.shape, weight + offset if offset else weight, eps)


RMS: dict[str, Any] = {"RMSNorm": RMSNorm, "rms_norm": rms_norm, "rms_norm_fn": rms_norm_fn}
LAYER: dict[str, Any] = {"layer_norm_fn": layer_norm_fn}
DROPOUT: dict[str, Any] = {"dropout_add_ln_fwd": dropout_add_ln_fwd}
GATED: dict[str, Any] = {"RMSNorm": RMSNormGated}
APEX: dict[str, Any] = {
    "FusedLayerNorm": nn.LayerNorm,
    "MixedFusedLayerNorm": nn.LayerNorm,
    "FusedRMSNorm": FusedRMSNorm,
    "MixedFusedRMSNorm": FusedRMSNorm,
}
LIGER: dict[str, Any] = {"LigerRMSNorm": LigerRMSNorm, "LigerSwiGLUMLP": LigerSwiGLUMLP, "LigerLayerNorm": LigerLayerNorm}

__all__ = ["APEX", "DROPOUT", "GATED", "LAYER", "LIGER", "RMS"]
LIGER_RMS: dict[str, Any] = {"LigerRMSNormFunction": LigerRMSNormFunction}
