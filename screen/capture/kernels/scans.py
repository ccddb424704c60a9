"""Selective scans and causal convolutions, written out step by step.

Sources: `selective_scan_ref` and `mamba_inner_ref` of mamba_ssm/ops/selective_scan_interface.py; `ssd_selective_scan` and
`mamba_split_conv1d_scan_ref` of mamba_ssm/ops/triton/ssd_combined.py; `causal_conv1d_ref` of causal_conv1d; accelerated_scan/ref.py.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def selective_scan_fn(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor | None = None, z: Tensor | None = None, delta_bias: Tensor | None = None,
    delta_softplus: bool = False, return_last_state: bool = False,
) -> Any:  # fmt: skip
    """h_t = exp(Δ_t A) h_{t−1} + Δ_t B_t u_t,  y_t = C_t h_t + D u_t,  times silu(z).

    u, delta, z [b, d, l]; A [d, n]; B and C [d, n], [b, n, l] or [b, g, n, l]; D and delta_bias [d]."""
    if delta_bias is not None:
        delta = delta + delta_bias[:, None]
    if delta_softplus:
        delta = F.softplus(delta)
    B, C = (_per_channel(t, u) for t in (B, C))
    decay = torch.exp(delta[..., None] * A[:, None])  # [b, d, l, n]
    added = delta[..., None] * B * u[..., None]
    state = torch.zeros_like(added[:, :, 0])
    outputs = []
    for t in range(u.shape[-1]):
        state = decay[:, :, t] * state + added[:, :, t]
        outputs.append((state * C[:, :, t]).sum(-1))
    y = torch.stack(outputs, dim=-1)
    if D is not None:
        y = y + u * D[:, None]
    if z is not None:
        y = y * F.silu(z)
    return (y, state) if return_last_state else y


def _per_channel(t: Tensor, u: Tensor) -> Tensor:
    """B or C as [b, d, l, n]."""
    if t.dim() == 2:
        return t[None, :, None].expand(u.shape[0], -1, u.shape[-1], -1)
    t = t[:, None] if t.dim() == 3 else t
    return t.repeat_interleave(u.shape[1] // t.shape[1], dim=1).transpose(-2, -1)


def mamba_inner_fn(
    xz: Tensor, conv1d_weight: Tensor, conv1d_bias: Tensor | None, x_proj_weight: Tensor, delta_proj_weight: Tensor, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, A: Tensor, B: Tensor | None = None, C: Tensor | None = None, D: Tensor | None = None,
    delta_bias: Tensor | None = None, B_proj_bias: Tensor | None = None, C_proj_bias: Tensor | None = None, delta_softplus: bool = True, **_: Any,
) -> Tensor:  # fmt: skip
    """The whole of a Mamba mixer behind its first map. xz [b, 2 d, l] -> [b, l, out]."""
    maps = conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight
    y = mamba_inner_fn_no_out_proj(xz, *maps, A, B, C, D, delta_bias, None, None, delta_softplus)
    return F.linear(y.transpose(1, 2), out_proj_weight, out_proj_bias)


def mamba_inner_fn_no_out_proj(
    xz: Tensor, conv1d_weight: Tensor, conv1d_bias: Tensor | None, x_proj_weight: Tensor, delta_proj_weight: Tensor, A: Tensor,
    B: Tensor | None = None, C: Tensor | None = None, D: Tensor | None = None, delta_bias: Tensor | None = None, B_proj_bias: Tensor | None = None,
    C_proj_bias: Tensor | None = None, delta_softplus: bool = True, **_: Any,
) -> Tensor:  # fmt: skip
    """The same without its last map, as in https://github.com/hustvl/Vim, whose mixer adds two of them. xz [b, 2 d, l] -> [b, d, l]."""
    x, z = xz.chunk(2, dim=1)
    x = causal_conv1d_fn(x, conv1d_weight.flatten(1), conv1d_bias, activation="silu")
    rank, states = delta_proj_weight.shape[1], A.shape[-1]
    parts = x.transpose(1, 2) @ x_proj_weight.t()
    delta = (parts[..., :rank] @ delta_proj_weight.t()).transpose(1, 2)
    if B is None:
        B = parts[..., rank : rank + states].transpose(1, 2)
    if C is None:
        C = parts[..., -states:].transpose(1, 2)
    y: Tensor = selective_scan_fn(x, delta, A, B, C, D, z, delta_bias, delta_softplus)
    return y


def causal_conv1d_fn(x: Tensor, weight: Tensor, bias: Tensor | None = None, *_: Any, activation: str | None = None, **__: Any) -> Tensor:
    """x [b, d, l], weight [d, k]: a convolution of each channel with its past."""
    padded = F.pad(x, (weight.shape[-1] - 1, 0))
    out = F.conv1d(padded, weight[:, None], bias, groups=x.shape[1])
    return F.silu(out) if activation in ("silu", "swish") else out


def mamba_chunk_scan_combined(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, chunk_size: int, D: Tensor | None = None, z: Tensor | None = None,
    dt_bias: Tensor | None = None, initial_states: Tensor | None = None, *_: Any, dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")), return_final_states: bool = False, **__: Any,
) -> Any:  # fmt: skip
    """h_t = exp(Δ_t A) h_{t−1} + Δ_t x_t B_tᵀ,  y_t = h_t C_t + D x_t,  times silu(z): one A and one Δ for each head.

    x, z [b, l, h, p]; dt [b, l, h]; A and dt_bias [h]; B, C [b, l, g, n]; D [h] or [h, p]; states [b, h, p, n]."""
    dt = dt if dt_bias is None else dt + dt_bias
    dt = F.softplus(dt) if dt_softplus else dt
    dt = dt if tuple(dt_limit) == (0.0, float("inf")) else dt.clamp(*dt_limit)
    B, C = (t.repeat_interleave(x.shape[2] // t.shape[2], dim=2) for t in (B, C))
    decay = torch.exp(dt * A)[..., None, None]
    added = (dt[..., None] * x)[..., None] * B[..., None, :]
    state = torch.zeros_like(added[:, 0]) if initial_states is None else initial_states
    outputs = []
    for t in range(x.shape[1]):
        state = decay[:, t] * state + added[:, t]
        outputs.append((state * C[:, t, :, None]).sum(-1))
    y = torch.stack(outputs, dim=1)
    y = y if D is None else y + x * (D if D.dim() == 2 else D[:, None])
    y = y if z is None else y * F.silu(z)
    return (y, state) if return_final_states else y


def mamba_split_conv1d_scan_combined(
    zxbcdt: Tensor, conv1d_weight: Tensor, conv1d_bias: Tensor | None, dt_bias: Tensor, A: Tensor, D: Tensor, chunk_size: int,
    initial_states: Tensor | None = None, seq_idx: Any = None, dt_limit: tuple[float, float] = (0.0, float("inf")),
    return_final_states: bool = False, activation: str = "silu", rmsnorm_weight: Tensor | None = None, rmsnorm_eps: float = 1e-6,
    outproj_weight: Tensor | None = None, outproj_bias: Tensor | None = None, headdim: int | None = None, ngroups: int = 1,
    norm_before_gate: bool = True, **_: Any,
) -> Any:  # fmt: skip
    """The whole of a Mamba-2 mixer behind its first map. zxbcdt [b, l, 2 d + 2 g n + h], with d = h p -> [b, l, out]."""
    heads = dt_bias.shape[0]
    size = headdim if D.dim() == 1 else D.shape[1]
    dim = heads * (size or 0)
    z, parts, dt = zxbcdt.split([dim, zxbcdt.shape[-1] - dim - heads, heads], dim=-1)
    parts = causal_conv1d_fn(parts.transpose(1, 2), conv1d_weight, conv1d_bias, activation=activation).transpose(1, 2)
    states = (parts.shape[-1] - dim) // 2
    x, B, C = parts.split([dim, states, states], dim=-1)
    x, gate = (t.unflatten(-1, (heads, -1)) for t in (x, z))
    B, C = (t.unflatten(-1, (ngroups, -1)) for t in (B, C))
    y, state = mamba_chunk_scan_combined(
        x, dt, A, B, C, chunk_size, D, gate if rmsnorm_weight is None else None, dt_bias, initial_states, dt_softplus=True, dt_limit=dt_limit,
        return_final_states=True,
    )  # fmt: skip
    y = y.flatten(2)
    if rmsnorm_weight is not None:
        y = y if norm_before_gate else y * F.silu(z)
        y = F.rms_norm(y.unflatten(-1, (ngroups, -1)), (dim // ngroups,), None, rmsnorm_eps).flatten(-2) * rmsnorm_weight
        y = y * F.silu(z) if norm_before_gate else y
    y = y if outproj_weight is None else F.linear(y, outproj_weight, outproj_bias)
    return (y, state) if return_final_states else y


def scan(gates: Tensor, tokens: Tensor) -> Tensor:
    """h_t = gate_t h_{t−1} + token_t; both [b, d, l]."""
    state, outputs = torch.zeros_like(tokens[..., 0]), []
    for t in range(tokens.shape[-1]):
        state = gates[..., t] * state + tokens[..., t]
        outputs.append(state)
    return torch.stack(outputs, dim=-1)


SELECTIVE: dict[str, Any] = {
    "selective_scan_fn": selective_scan_fn,
    "selective_scan_ref": selective_scan_fn,
    "mamba_inner_fn": mamba_inner_fn,
    "mamba_inner_fn_no_out_proj": mamba_inner_fn_no_out_proj,
}
CONVOLUTION: dict[str, Any] = {"causal_conv1d_fn": causal_conv1d_fn, "causal_conv1d_ref": causal_conv1d_fn}
CHUNKED: dict[str, Any] = {
    "mamba_chunk_scan_combined": mamba_chunk_scan_combined,
    "mamba_split_conv1d_scan_combined": mamba_split_conv1d_scan_combined,
}
LINEAR: dict[str, Any] = {"scan": scan}

__all__ = ["CHUNKED", "CONVOLUTION", "LINEAR", "SELECTIVE"]
