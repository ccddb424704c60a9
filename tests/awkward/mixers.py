"""Attention and other mixers in odd spellings."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.awkward.parts import HEADS, D

H = D // HEADS


class PreMix(nn.Module):
    """`x + mix(norm(x))`: the mixer is all there is."""

    def __init__(self, mix: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(D), mix()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(self.norm(x))


class Interleaved(nn.Module):
    """One map for q, k and v, whose rows interleave head by head; q and k are normalised per head."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.qn, self.kn = nn.RMSNorm(H), nn.RMSNorm(H)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, HEADS, 3 * H).permute(0, 2, 1, 3).split(H, dim=-1)
        y = F.scaled_dot_product_attention(self.qn(q), self.kn(k), v, is_causal=True)
        return self.o(y.permute(0, 2, 1, 3).flatten(2))


class FullQK(nn.Module):
    """q and k are normalised over the full width before they are split into heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.qn, self.kn = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        def heads(t: Tensor) -> Tensor:
            return t.unflatten(-1, (HEADS, H)).transpose(1, 2)

        y = F.scaled_dot_product_attention(heads(self.qn(self.q(x))), heads(self.kn(self.k(x))), heads(self.v(x)))
        return self.o(y.transpose(1, 2).flatten(-2))


class Cosine(nn.Module):
    """Logits are cosines times a learned, clamped temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(HEADS, 1, 1)))

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, HEADS, H).permute(2, 0, 3, 1, 4)
        a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        a = (a * self.logit_scale.clamp(max=math.log(100.0)).exp()).softmax(-1)
        return self.o((a @ v).transpose(1, 2).reshape(b, n, D))


class OneSided(Interleaved):
    """Only the queries are normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.kn = nn.Identity()


class Einsum(nn.Module):
    """Weights with head axes, everything by einsum, keys and values shared by all heads."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wo = nn.Parameter(torch.empty(D, HEADS, H)), nn.Parameter(torch.empty(HEADS, H, D))
        self.wk, self.wv = nn.Parameter(torch.empty(D, H)), nn.Parameter(torch.empty(D, H))

    def forward(self, x: Tensor) -> Tensor:
        q = torch.einsum("b i d, d h k -> b h i k".replace(" ", ""), x, self.wq)
        logits = torch.einsum("bhik,bjk->bhij", q, torch.einsum("bjd,dk->bjk", x, self.wk)) * H**-0.5
        mixed = torch.einsum("bhij,bjk->bhik", logits.softmax(-1), torch.einsum("bjd,dk->bjk", x, self.wv))
        return torch.einsum("bhik,hkd->bid", mixed, self.wo)


class HandSoftmax(nn.Module):
    """Softmax by exp and sum: a division by a sum that is no norm of the stream. Weights are read as `.T` and `.data`."""

    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Parameter(torch.empty(D, D)) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = x @ self.wq.T, x @ self.wk.mT, torch.matmul(x, self.wv.data)
        logits = q @ k.mT / D**0.5
        weights = (logits - logits.amax(-1, keepdim=True)).exp()
        weights = weights / weights.sum(-1, keepdim=True)
        return weights @ v @ self.wo.t()


class Linear(nn.Module):
    """Linear attention: elu + 1 features, a running normaliser, no softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, H)) for t in self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.einsum("bnhk,bnhv->bhkv", k, v)
        z = 1 / (torch.einsum("bnhk,bhk->bnh", q, k.sum(1)) + 1e-6)
        return self.o(torch.einsum("bnhk,bhkv,bnh->bnhv", q, state, z).flatten(2))


class Softcapped(Interleaved):
    """Logits pass a tanh; q and k carry no norm."""

    def __init__(self) -> None:
        super().__init__()
        self.qn = self.kn = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, HEADS, 3 * H).permute(0, 2, 1, 3).chunk(3, -1)
        a = (50.0 * torch.tanh(q @ k.mT * H**-0.5 / 50.0)).masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        return self.o((a.softmax(-1) @ v).transpose(1, 2).flatten(-2))


class Recurrent(nn.Module):
    """An LSTM over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTM(D, D, batch_first=True), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cell(x)[0])


class Fourier(nn.Module):
    """FNet: the real part of a 2-D Fourier transform, no weight."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real


class Pool(nn.Module):
    """PoolFormer: average pooling over tokens minus the input, no weight."""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(x.transpose(1, 2), 3, 1, 1, count_include_pad=False).transpose(1, 2) - x


class Convolution(nn.Module):
    """Gated depthwise convolution over tokens (Conformer, LFM2)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.depthwise = nn.Conv1d(D, D, 5, padding=2, groups=D)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.depthwise(F.glu(self.inner(x)).transpose(1, 2)).transpose(1, 2))


class Scan(nn.Module):
    """A diagonal state-space model by a Python loop over tokens, with its direct term D·u."""

    def __init__(self, state: int = 4) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.bcd = nn.Linear(D, 2 * state + D)
        self.log_a, self.direct = nn.Parameter(torch.zeros(D, state)), nn.Parameter(torch.ones(D))
        self.state = state

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.inner(x).chunk(2, -1)
        b, c, dt = self.bcd(u).split([self.state, self.state, D], -1)
        dt = F.softplus(dt)
        h = u.new_zeros(*u.shape[::2], self.state)  # [batch, d, state]
        out = []
        for t in range(u.shape[1]):
            h = torch.exp(-dt[:, t, :, None] * self.log_a.exp()) * h + (dt[:, t] * u[:, t]).unsqueeze(-1) * b[:, t, None, :]
            out.append((h * c[:, t, None, :]).sum(-1))
        y = torch.stack(out, 1) + self.direct * u
        return self.outer(y * F.silu(gate))


class Latent(nn.Module):
    """Keys and values through a narrow latent that is normalised between two maps: no QK-norm."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.down, self.norm, self.up = nn.Linear(D, 10, bias=False), nn.RMSNorm(10), nn.Linear(10, 2 * D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, H)).transpose(1, 2) for t in (self.q(x), *self.up(self.norm(self.down(x))).chunk(2, -1)))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))


class JointOutput(nn.Module):
    """Parallel block with one map in and one map out: q, k, v and the FFN's hidden layer share both."""

    def __init__(self, hidden: int = 80) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(D, 3 * D + hidden, bias=False), nn.Linear(D + hidden, D, bias=False)
        self.split = (D, D, D, hidden)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, h = self.inner(x).split(self.split, -1)
        q, k, v = (t.unflatten(-1, (HEADS, H)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        return self.outer(torch.cat([y, F.gelu(h)], -1))


class Gated(nn.Module):
    """SwiGLU with gate and up in one matrix, as two calls of chunk."""

    def __init__(self, hidden: int = 80) -> None:
        super().__init__()
        self.both, self.down = nn.Linear(D, 2 * hidden, bias=False), nn.Linear(hidden, D, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.both(x).chunk(2, -1)
        return self.down(F.silu(gate).mul(up))
