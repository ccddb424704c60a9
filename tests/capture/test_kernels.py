"""Stand-ins of kernels compute what the kernels are documented to compute: each against its formula, entry by entry, in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from screen.capture.kernels import attention, norms, rotary, scans, stand_in

B, L, S, H, D = 2, 5, 7, 4, 3


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def by_hand(q: Tensor, k: Tensor, v: Tensor, seen: Any, scale: float, cap: float = 0.0, slopes: Tensor | None = None) -> Tensor:
    """softmax over what is seen, query by query. `seen(i, j)`: i and j counted so that the last ones meet."""
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=q.dtype)
    groups = q.shape[2] // k.shape[2]
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            for i in range(q.shape[1]):
                at = i + k.shape[1] - q.shape[1]
                logits = [float(q[b, i, h] @ k[b, j, h // groups]) * scale for j in range(k.shape[1])]
                logits = [cap * math.tanh(u / cap) if cap else u for u in logits]
                if slopes is not None:
                    logits = [u - float(slopes[h]) * abs(at - j) for j, u in enumerate(logits)]
                weights = [math.exp(u) if seen(at, j) else 0.0 for j, u in enumerate(logits)]
                for j, w in enumerate(weights):
                    out[b, i, h] += w / sum(weights) * v[b, j, h // groups]
    return out


CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "plain": ({}, lambda i, j: True),
    "causal": ({"causal": True}, lambda i, j: j <= i),
    "window": ({"window_size": (2, 1)}, lambda i, j: i - 2 <= j <= i + 1),
    "causal window": ({"causal": True, "window_size": (1, -1)}, lambda i, j: i - 1 <= j <= i),
    "capped": ({"softcap": 0.5, "causal": True}, lambda i, j: j <= i),
    "scaled": ({"softmax_scale": 0.1}, lambda i, j: True),
}


@pytest.mark.parametrize("heads", [H, 2])
@pytest.mark.parametrize("length", [L, S])
@pytest.mark.parametrize("case", CASES)
def test_flash_attention(case: str, length: int, heads: int) -> None:
    settings, seen = CASES[case]
    q, k, v = draw(B, length, H, D), draw(B, S, heads, D), draw(B, S, heads, D)
    wanted = by_hand(q, k, v, seen, settings.get("softmax_scale", 1 / math.sqrt(D)), settings.get("softcap", 0.0))
    torch.testing.assert_close(attention.flash_attn_func(q, k, v, **settings), wanted)


def test_alibi_packed_sequences_and_xformers() -> None:
    q, k, v, slopes = draw(B, L, H, D), draw(B, L, H, D), draw(B, L, H, D), torch.tensor([0.5, 0.25, 0.125, 0.1], dtype=torch.float64)
    scale = 1 / math.sqrt(D)
    found = attention.flash_attn_func(q, k, v, causal=True, alibi_slopes=slopes)
    torch.testing.assert_close(found, by_hand(q, k, v, lambda i, j: j <= i, scale, slopes=slopes))
    plain = by_hand(q, k, v, lambda i, j: j <= i, scale)
    torch.testing.assert_close(attention.flash_attn_qkvpacked_func(torch.stack([q, k, v], 2), causal=True), plain)
    torch.testing.assert_close(attention.memory_efficient_attention(q, k, v, attention.LowerTriangularMask()), plain)
    starts = torch.tensor([0, L, 2 * L])
    packed = attention.flash_attn_varlen_func(*(t.flatten(0, 1) for t in (q, k, v)), starts, starts, L, L, causal=True)
    torch.testing.assert_close(packed, plain.flatten(0, 1))


def test_selective_scans_and_causal_convolutions() -> None:
    d, n, length = 3, 2, 6
    u, delta, z = draw(B, d, length), draw(B, d, length), draw(B, d, length).flip(0)
    A, Bs, C, skip, bias = -draw(d, n).exp(), draw(B, n, length), draw(B, n, length).flip(2), draw(d), draw(d).flip(0)
    wanted = torch.zeros(B, d, length, dtype=torch.float64)
    for b in range(B):
        for c in range(d):
            state = torch.zeros(n, dtype=torch.float64)
            for t in range(length):
                step = torch.nn.functional.softplus(delta[b, c, t] + bias[c])
                state = torch.exp(step * A[c]) * state + step * Bs[b, :, t] * u[b, c, t]
                wanted[b, c, t] = (state @ C[b, :, t] + skip[c] * u[b, c, t]) * torch.nn.functional.silu(z[b, c, t])
    torch.testing.assert_close(scans.selective_scan_fn(u, delta, A, Bs, C, skip, z, bias, True), wanted)
    weight = draw(d, 3)
    by_steps = torch.stack([sum(weight[:, 2 - s] * u[..., t - s] for s in range(3) if t >= s) for t in range(length)], -1)  # type: ignore[arg-type]
    torch.testing.assert_close(scans.causal_conv1d_fn(u, weight), by_steps)


def test_scans_of_heads_are_selective_scans_of_their_channels() -> None:
    heads, size, states, groups = 4, 3, 2, 2
    x, dt, z = draw(B, L, heads, size), draw(B, L, heads), draw(B, L, heads, size).flip(0)
    A, skip, bias = -draw(heads).exp(), draw(heads).flip(0), draw(heads)
    Bs, C = draw(B, L, groups, states), draw(B, L, groups, states).flip(0)

    def channels(t: Tensor) -> Tensor:
        return t.expand(*t.shape[:2], heads, size).flatten(2).transpose(1, 2)

    def wide(t: Tensor) -> Tensor:
        return t.repeat_interleave(size)

    flat = [t.permute(0, 2, 3, 1) for t in (Bs, C)]
    A_wide = wide(A)[:, None].expand(-1, states)
    wanted = scans.selective_scan_fn(channels(x), channels(dt[..., None]), A_wide, *flat, wide(skip), channels(z), wide(bias), True)
    found = scans.mamba_chunk_scan_combined(x, dt, A, Bs, C, 2, skip, z, bias, dt_softplus=True)
    torch.testing.assert_close(found, wanted.transpose(1, 2).unflatten(-1, (heads, size)))
    width = heads * size + 2 * groups * states
    packed, weight, out = draw(B, L, heads * size + width + heads), draw(width, 3), draw(5, heads * size)
    whole = scans.mamba_split_conv1d_scan_combined(
        packed, weight, None, bias, A, skip, 2, rmsnorm_weight=draw(heads * size), outproj_weight=out, headdim=size, ngroups=groups,
        norm_before_gate=False,
    )  # fmt: skip
    gate, mixed, dt = packed.split([heads * size, width, heads], -1)
    x, Bs, C = scans.causal_conv1d_fn(mixed.transpose(1, 2), weight, activation="silu").transpose(1, 2).split([heads * size, 4, 4], -1)
    x, Bs, C = x.unflatten(-1, (heads, size)), Bs.unflatten(-1, (groups, states)), C.unflatten(-1, (groups, states))
    y = scans.mamba_chunk_scan_combined(x, dt, A, Bs, C, 2, skip, None, bias, dt_softplus=True).flatten(2) * torch.nn.functional.silu(gate)
    y = torch.nn.functional.rms_norm(y.unflatten(-1, (groups, -1)), (6,), None, 1e-6).flatten(2) * draw(heads * size)
    torch.testing.assert_close(whole, y @ out.T)


@pytest.mark.parametrize(("make", "eps", "gain"), [
    (norms.RMSNorm, 1e-5, 1.0), (norms.FusedRMSNorm, 1e-5, 1.0), (norms.LigerRMSNorm, 1e-6, 1.0),
    (lambda width: norms.LigerRMSNorm(width, offset=1.0), 1e-6, 1.0), (norms.RMSNormGated, 1e-5, 1.0),
])  # fmt: skip
def test_rms_norms_have_the_eps_of_their_packages(make: Any, eps: float, gain: float) -> None:
    x = 1e-3 * draw(2, 8)
    torch.testing.assert_close(make(8).double()(x), gain * x / (x.square().mean(-1, keepdim=True) + eps).sqrt())


def test_fused_residuals_and_gates() -> None:
    x, other, w = draw(2, 8), draw(2, 8).flip(0), draw(8)
    out, total = norms.rms_norm_fn(x, w, None, other, prenorm=True, eps=1e-6)
    torch.testing.assert_close(total, x + other)
    torch.testing.assert_close(out, total / (total.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w)
    gate = torch.nn.functional.silu(other)
    for before in (True, False):
        norm = norms.RMSNormGated(8, norm_before_gate=before).double()
        inner = x if before else x * gate
        wanted = inner / (inner.square().mean(-1, keepdim=True) + 1e-5).sqrt() * (gate if before else 1.0)
        torch.testing.assert_close(norm(x, other), wanted)


def test_a_report_names_what_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_in, "_standing", {"flash_attn"})
    assert stand_in.notes() == ("`flash_attn` is not installed: functions of the documented mathematics stand in for its own",)


def test_sequences_one_behind_another_see_their_own_keys() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 7, 2, 4), torch.randn(1, 8, 2, 4), torch.randn(1, 8, 2, 4)
    packed = attention.memory_efficient_attention(q, k, v, attention.BlockDiagonalMask.from_seqlens([3, 4], [5, 3]))
    apart = [attention.memory_efficient_attention(q[:, a:b], k[:, c:d], v[:, c:d]) for a, b, c, d in ((0, 3, 0, 5), (3, 7, 5, 8))]
    torch.testing.assert_close(packed, torch.cat(apart, 1))


@pytest.mark.parametrize("conj", [False, True])
def test_pairs_turn_into_others_and_in_place(conj: bool) -> None:
    x, angles = draw(B, L, H, 2 * D), draw(L, D)
    cos, sin, out = angles.cos()[:, None], angles.sin()[:, None], torch.empty_like(x)
    rotary.apply_rotary(*x.chunk(2, dim=-1), cos, sin, *out.chunk(2, dim=-1), conj)
    for b in range(B):
        for at in range(L):
            for h in range(H):
                for d in range(D):
                    turn = complex(float(x[b, at, h, d]), float(x[b, at, h, D + d])) * complex(
                        math.cos(float(angles[at, d])), math.sin(float(angles[at, d])) * (-1 if conj else 1)
                    )
                    assert complex(float(out[b, at, h, d]), float(out[b, at, h, D + d])) == pytest.approx(turn)
    first, second = x.chunk(2, dim=-1)
    rotary.apply_rotary(first, second, cos, sin, first, second, conj)
    torch.testing.assert_close(x, out)
