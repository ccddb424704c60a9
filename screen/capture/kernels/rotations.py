"""Rotary embeddings of rotary-embedding-torch.

Source: rotary_embedding_torch/rotary_embedding_torch.py of https://github.com/lucidrains/rotary-embedding-torch, without its caches. Features turn
in pairs of neighbours.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.kernels.rotary import turned


def rotate_half(x: Tensor) -> Tensor:
    """(a, b) becomes (-b, a)."""
    return turned(x, interleaved=True)


def apply_rotary_emb(
    freqs: Tensor, t: Tensor, start_index: int = 0, scale: Any = 1.0, seq_dim: int = -2, freqs_seq_dim: int | None = None
) -> Tensor:
    """Turns the features from `start_index` on by the angles [l, r] or [..., l, r], the last of them for fewer steps."""
    if freqs_seq_dim is None and (freqs.dim() == 2 or t.dim() == 3):
        freqs_seq_dim = 0
    if freqs_seq_dim is not None:
        there = freqs.shape[freqs_seq_dim]
        steps = min(t.shape[seq_dim], there)
        freqs = freqs.narrow(freqs_seq_dim, there - steps, steps)
    end = start_index + freqs.shape[-1]
    assert end - start_index <= t.shape[-1], f"{freqs.shape[-1]} features turn, of {t.shape[-1]}"
    middle = t[..., start_index:end]
    middle = middle * freqs.cos() * scale + rotate_half(middle) * freqs.sin() * scale
    return torch.cat((t[..., :start_index], middle, t[..., end:]), dim=-1).type(t.dtype)


def apply_learned_rotations(rotations: Tensor, t: Tensor, start_index: int = 0, freq_ranges: Tensor | None = None) -> Tensor:
    """Turns by angles that a map gives, times a range of frequencies where there is one."""
    if freq_ranges is not None:
        rotations = (rotations[..., None] * freq_ranges).flatten(-2)
    return apply_rotary_emb(rotations.repeat_interleave(2, dim=-1), t, start_index)


def broadcat(tensors: Any, dim: int = -1) -> Tensor:
    return torch.cat(torch.broadcast_tensors(*tensors), dim=dim)


class RotaryEmbedding(nn.Module):
    """Angles of positions, and what turns queries and keys by them; with `use_xpos` keys shrink where queries grow."""

    def __init__(
        self, dim: int, custom_freqs: Tensor | None = None, freqs_for: str = "lang", theta: float = 10000, max_freq: float = 10, num_freqs: int = 1,
        learned_freq: bool = False, use_xpos: bool = False, xpos_scale_base: float = 512, interpolate_factor: float = 1.0,
        theta_rescale_factor: float = 1.0, seq_before_head_dim: bool = False, cache_if_possible: bool = True, cache_max_seq_len: int = 8192,
    ) -> None:  # fmt: skip
        super().__init__()
        theta *= theta_rescale_factor ** (dim / (dim - 2)) if theta_rescale_factor != 1.0 else 1.0
        if custom_freqs is not None:
            freqs = custom_freqs
        elif freqs_for == "lang":
            freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
        elif freqs_for == "pixel":
            freqs = torch.linspace(1.0, max_freq / 2, dim // 2) * math.pi
        else:
            freqs = torch.ones(num_freqs)
        self.freqs = nn.Parameter(freqs, requires_grad=learned_freq)
        self.freqs_for, self.learned_freq, self.use_xpos, self.scale_base = freqs_for, learned_freq, use_xpos, xpos_scale_base
        self.seq_before_head_dim, self.default_seq_dim = seq_before_head_dim, -3 if seq_before_head_dim else -2
        self.interpolate_factor = interpolate_factor
        self.apply_rotary_emb = apply_rotary_emb
        if use_xpos:
            self.register_buffer("scale", (torch.arange(0, dim, 2) + 0.4 * dim) / (1.4 * dim), persistent=False)

    @property
    def device(self) -> torch.device:
        return self.freqs.device

    def get_seq_pos(self, seq_len: int, device: Any = None, dtype: Any = None, offset: int = 0) -> Tensor:
        return (torch.arange(seq_len, device=device or self.device, dtype=dtype or self.freqs.dtype) + offset) / self.interpolate_factor

    def forward(self, t: Tensor, seq_len: int | None = None, offset: int = 0) -> Tensor:
        return (t.type(self.freqs.dtype)[..., None] * self.freqs).repeat_interleave(2, dim=-1)

    def get_scale(self, t: Tensor, seq_len: int | None = None, offset: int = 0) -> Tensor:
        power = (t - t.shape[0] // 2) / self.scale_base
        return (self.scale ** power[:, None]).repeat_interleave(2, dim=-1)  # type: ignore[operator]

    def rotate_queries_or_keys(self, t: Tensor, seq_dim: int | None = None, offset: int = 0, scale: Any = None) -> Tensor:
        assert not self.use_xpos or scale is not None, "`rotate_queries_and_keys` turns both"
        return self._rotated(t, seq_dim, offset, 1.0 if scale is None else scale)

    def rotate_queries_with_cached_keys(self, q: Tensor, k: Tensor, seq_dim: int | None = None, offset: int = 0) -> tuple[Tensor, Tensor]:
        axis = self.default_seq_dim if seq_dim is None else seq_dim
        ahead, places = k.shape[axis] - q.shape[axis], self.get_seq_pos(k.shape[axis])
        own = (self.get_scale(places[ahead:]), self.get_scale(places) ** -1) if self.use_xpos else (1.0, 1.0)
        return self._rotated(q, axis, ahead + offset, own[0]), self._rotated(k, axis, 0, own[1])

    def rotate_queries_and_keys(self, q: Tensor, k: Tensor, seq_dim: int | None = None) -> tuple[Tensor, Tensor]:
        assert self.use_xpos
        axis = self.default_seq_dim if seq_dim is None else seq_dim
        scale = self.get_scale(self.get_seq_pos(q.shape[axis]))
        return self._rotated(q, axis, 0, scale), self._rotated(k, axis, 0, scale**-1)

    def _rotated(self, t: Tensor, seq_dim: int | None, offset: int, scale: Any) -> Tensor:
        axis = self.default_seq_dim if seq_dim is None else seq_dim
        freqs = self(self.get_seq_pos(t.shape[axis], offset=offset))
        if axis == -3:
            freqs, scale = freqs[:, None], scale[:, None] if isinstance(scale, Tensor) and scale.dim() == 2 else scale
        return apply_rotary_emb(freqs, t, scale=scale, seq_dim=axis)

    def get_axial_freqs(self, *dims: int, offsets: Any = None) -> Tensor:
        """Angles of the places of a grid, axis by axis: [*dims, features]."""
        found = []
        for place, size in enumerate(dims):
            steps = torch.linspace(-1, 1, size, device=self.device) if self.freqs_for == "pixel" else torch.arange(size, device=self.device)
            angles = self(steps if offsets is None else steps + offsets[place])
            found.append(angles.reshape(*(size if axis == place else 1 for axis in range(len(dims))), -1))
        whole = (*dims, -1)
        return torch.cat([angles.expand(whole) for angles in found], dim=-1)


ROTATIONS: dict[str, Any] = {
    "RotaryEmbedding": RotaryEmbedding,
    "apply_rotary_emb": apply_rotary_emb,
    "apply_learned_rotations": apply_learned_rotations,
    "rotate_half": rotate_half,
    "broadcat": broadcat,
}

__all__ = ["ROTATIONS"]
