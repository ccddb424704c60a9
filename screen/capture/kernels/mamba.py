"""The mixer and the block of mamba_ssm, whose package needs a compiler for CUDA.

Source: mamba_ssm/modules/mamba_simple.py and mamba_ssm/modules/block.py of https://github.com/state-spaces/mamba. No states between calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.kernels import norms, scans


class Mamba(nn.Module):
    """x [b, l, d] -> [b, l, d]: a map to two streams, a causal convolution and a selective scan of the first, times silu of the second."""

    def __init__(
        self, d_model: int, d_state: int = 16, d_conv: int = 4, expand: float = 2, dt_rank: int | str = "auto", dt_min: float = 0.001,
        dt_max: float = 0.1, dt_init: str = "random", dt_scale: float = 1.0, dt_init_floor: float = 1e-4, conv_bias: bool = True,
        bias: bool = False, use_fast_path: bool = True, layer_idx: int | None = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.d_model, self.d_state, self.d_conv, self.expand, self.layer_idx = d_model, d_state, d_conv, expand, layer_idx
        self.d_inner = int(expand * d_model)
        self.dt_rank = math.ceil(d_model / 16) if isinstance(dt_rank, str) else dt_rank
        self.in_proj = nn.Linear(d_model, self.d_inner * 2, bias=bias, **made)
        self.conv1d = nn.Conv1d(self.d_inner, self.d_inner, d_conv, groups=self.d_inner, padding=d_conv - 1, bias=conv_bias, **made)
        self.x_proj = nn.Linear(self.d_inner, self.dt_rank + d_state * 2, bias=False, **made)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner, **made)
        spread = self.dt_rank**-0.5 * dt_scale
        if dt_init == "constant":
            nn.init.constant_(self.dt_proj.weight, spread)
        else:
            nn.init.uniform_(self.dt_proj.weight, -spread, spread)
        dt = torch.exp(torch.rand(self.d_inner, **made) * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)).clamp(min=dt_init_floor)
        with torch.no_grad():
            self.dt_proj.bias.copy_(dt + torch.log(-torch.expm1(-dt)))  # softplus gives dt of it
        self.A_log = nn.Parameter(torch.log(torch.arange(1, d_state + 1, dtype=torch.float32, device=device).repeat(self.d_inner, 1)))
        self.D = nn.Parameter(torch.ones(self.d_inner, device=device))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=bias, **made)

    def forward(self, hidden_states: Tensor, inference_params: None = None) -> Tensor:
        return scans.mamba_inner_fn(
            self.in_proj(hidden_states).transpose(1, 2), self.conv1d.weight, self.conv1d.bias, self.x_proj.weight, self.dt_proj.weight,
            self.out_proj.weight, self.out_proj.bias, -torch.exp(self.A_log.float()), None, None, self.D.float(),
            delta_bias=self.dt_proj.bias.float(), delta_softplus=True,
        )  # fmt: skip


class Block(nn.Module):
    """Adds what comes in to the residual, norms the sum and mixes it; both are returned. With `mlp_cls` a second branch follows."""

    def __init__(
        self, dim: int, mixer_cls: Callable[[int], nn.Module], mlp_cls: Callable[[int], nn.Module], norm_cls: Callable[[int], Any] = nn.LayerNorm,
        fused_add_norm: bool = False, residual_in_fp32: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.residual_in_fp32, self.fused_add_norm = residual_in_fp32, fused_add_norm
        self.norm, self.mixer = norm_cls(dim), mixer_cls(dim)
        self.mlp: nn.Module | None = None
        if mlp_cls is not nn.Identity:
            self.norm2, self.mlp = norm_cls(dim), mlp_cls(dim)

    def forward(self, hidden_states: Tensor, residual: Tensor | None = None, inference_params: None = None, **more: Any) -> tuple[Tensor, Tensor]:
        normed, total = self._normed(self.norm, hidden_states, residual)
        out = self.mixer(normed, inference_params=inference_params, **more)
        if self.mlp is not None:
            normed, total = self._normed(self.norm2, out, total)
            out = self.mlp(normed)
        return out, total

    def _normed(self, norm: Any, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        if not self.fused_add_norm:
            total = x if residual is None else x + residual
            return norm(total.to(norm.weight.dtype)), total.float() if self.residual_in_fp32 else total
        rms = not isinstance(norm, nn.LayerNorm)
        return norms.layer_norm_fn(  # type: ignore[no-any-return]
            x, norm.weight, getattr(norm, "bias", None), residual, prenorm=True, residual_in_fp32=self.residual_in_fp32, eps=norm.eps, is_rms_norm=rms
        )


class FirstBlock(Block):
    """The block of the first version, which has one branch."""

    def __init__(
        self, dim: int, mixer_cls: Callable[[int], nn.Module], norm_cls: Callable[[int], Any] = nn.LayerNorm, fused_add_norm: bool = False,
        residual_in_fp32: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dim, mixer_cls, nn.Identity, norm_cls, fused_add_norm, residual_in_fp32)


MIXER: dict[str, Any] = {"Mamba": Mamba, "Block": FirstBlock}
BLOCK: dict[str, Any] = {"Block": Block}

__all__ = ["BLOCK", "MIXER"]
