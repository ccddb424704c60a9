"""Feed-forward layers, experts, and mixers of tokens other than softmax attention. x: [batch, tokens, width]."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.soundness.activations import ACT


class FeedForward(nn.Module):
    """`mlp`: W2 φ(W1 x); `glu`: W2 (φ(W1 x) ⊙ W3 x), with W1 and W3 in one matrix; `linear`: W x."""

    def __init__(self, mixer: str, width: int, act: str, bias: bool, sub: Callable[[int], nn.Module] | None) -> None:
        super().__init__()
        self.mixer, self.act, hidden = mixer, ACT[act], width + 2
        if mixer == "linear":
            self.out = nn.Linear(width, width, bias)
            return
        self.up = nn.Linear(width, hidden * (2 if mixer == "glu" else 1), bias)
        self.out = nn.Linear(hidden, width, bias)
        self.sub = sub(hidden) if sub is not None else None

    def forward(self, x: Tensor) -> Tensor:
        if self.mixer == "linear":
            return self.out(x)
        if self.mixer == "glu":
            gate, value = self.up(x).chunk(2, -1)
            y = self.act(gate) * value
        else:
            y = self.act(self.up(x))
        return self.out(y if self.sub is None else self.sub(y))


class Experts(nn.Module):
    """Two experts, weighed by a softmax over both, or by a sigmoid of the one that wins."""

    def __init__(self, mixer: str, width: int, act: str, bias: bool) -> None:
        super().__init__()
        self.top = mixer == "moe_top"
        self.router = nn.Linear(width, 3, bias)
        self.experts = nn.ModuleList(FeedForward("mlp", width, act, bias, None) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.router(x).softmax(-1)
        if self.top:
            best, index = scores.topk(2, dim=-1)
            best = best / best.sum(-1, keepdim=True)
            scores = torch.zeros_like(scores).scatter(-1, index, best)
        y = torch.stack([e(x) for e in self.experts], -1)
        return (y * scores.unsqueeze(-2)).sum(-1)


class LinearAttention(nn.Module):
    """Attention without softmax, φ(q)ᵀ Σ φ(k) vᵀ, by a feature map, normalised or not, causal by cumsum or by a mask, or not."""

    def __init__(self, width: int, act: str, bias: bool, sub: Callable[[int], nn.Module] | None) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width, bias), nn.Linear(width, width, bias)
        self.act, self.normal, self.form = act, act in ("elu", "relu", "sigmoid", "exp", "softplus"), len(act) % 3
        self.sub = sub(width) if sub is not None else None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        phi = (lambda t: F.elu(t) + 1) if self.act == "elu" else ACT[self.act]
        q, k = phi(q), phi(k)
        if self.form == 0:
            scores = (q @ k.transpose(-2, -1)).tril()
            y = scores @ v
            total = scores.sum(-1, keepdim=True)
        elif self.form == 1:
            y = q @ (k.transpose(-2, -1) @ v)
            total = q @ k.sum(-2).unsqueeze(-1)
        else:
            state = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), 1)
            y = (q.unsqueeze(-2) @ state).squeeze(-2)
            total = (q * k.cumsum(1)).sum(-1, keepdim=True)
        y = y / (total + 1e-3) if self.normal else y
        return self.out(y if self.sub is None else self.sub(y))


class Convolution(nn.Module):
    """Convolution over tokens: depthwise and causal (a short filter), or full."""

    def __init__(self, width: int, act: str, bias: bool) -> None:
        super().__init__()
        self.full = act in ("relu", "silu", "tanh")
        self.conv = nn.Conv1d(width, width, 3, padding=1 if self.full else 2, groups=1 if self.full else width, bias=bias)
        self.act, self.out = ACT[act], nn.Linear(width, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x.transpose(1, 2))[..., : x.shape[1]]
        return self.out(self.act(y.transpose(1, 2)))


class TokenMlp(nn.Module):
    """MLP-Mixer's mixing: a feed-forward over the token axis."""

    def __init__(self, tokens: int, act: str, bias: bool) -> None:
        super().__init__()
        self.inner = FeedForward("mlp", tokens, act, bias, None)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


class Pool(nn.Module):
    """Without weights: mean over tokens, windows, running means, minus the value itself."""

    def __init__(self, act: str) -> None:
        super().__init__()
        self.form = sorted(ACT).index(act) % 5

    def forward(self, x: Tensor) -> Tensor:
        if self.form == 0:
            return x.mean(1, keepdim=True).expand_as(x)
        if self.form == 1:
            return F.avg_pool1d(x.transpose(1, 2), 3, 1, 1, count_include_pad=False).transpose(1, 2) - x
        if self.form == 2:
            return x.cumsum(1) / torch.arange(1, x.shape[1] + 1, dtype=x.dtype, device=x.device).view(1, -1, 1)
        if self.form == 3:
            return F.max_pool1d(x.transpose(1, 2), 3, 1, 1).transpose(1, 2)
        return x.sum(1, keepdim=True) - x


class Fourier(nn.Module):
    """FNet: the real part of a transform over tokens and features, or over one of them."""

    def __init__(self, act: str) -> None:
        super().__init__()
        self.form = sorted(ACT).index(act) % 3

    def forward(self, x: Tensor) -> Tensor:
        if self.form == 0:
            return torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        if self.form == 1:
            return torch.fft.fft2(x, norm="ortho").real
        return torch.fft.fft(x, dim=1).real


class Scan(nn.Module):
    """h_t = a ⊙ h_{t−1} + b ⊙ u_t, with a = σ(parameter)."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(width, width, bias), nn.Linear(width, width, bias)
        self.decay, self.gain = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        u, a = self.into(x), torch.sigmoid(self.decay)
        state = torch.zeros_like(u[:, 0])
        found = []
        for t in range(x.shape[1]):
            state = a * state + self.gain * u[:, t]
            found.append(state)
        return self.out(torch.stack(found, 1))


class StateSpace(nn.Module):
    """A selective state space: decay exp(−softplus(Δ)·exp(A)), input and output maps that depend on the token, a skip D ⊙ u."""

    def __init__(self, width: int, act: str, bias: bool, sub: Callable[[int], nn.Module] | None) -> None:
        super().__init__()
        self.into, self.step = nn.Linear(width, 2 * width, bias), nn.Linear(width, width, True)
        self.maps, self.out = nn.Linear(width, 4, False), nn.Linear(width, width, bias)
        self.log_a, self.skip = nn.Parameter(torch.zeros(width, 2)), nn.Parameter(torch.ones(width))
        self.act = ACT[act]
        self.sub = sub(width) if sub is not None else None

    def forward(self, x: Tensor) -> Tensor:
        u, z = self.into(x).chunk(2, -1)
        u = F.silu(u)
        b, c = self.maps(u).chunk(2, -1)
        delta = F.softplus(self.step(u))
        decay = torch.exp(-delta.unsqueeze(-1) * torch.exp(self.log_a))
        drive = (delta * u).unsqueeze(-1) * b.unsqueeze(-2)
        state, found = torch.zeros_like(drive[:, 0]), []
        for t in range(x.shape[1]):
            state = decay[:, t] * state + drive[:, t]
            found.append((state * c[:, t].unsqueeze(-2)).sum(-1))
        y = (torch.stack(found, 1) + self.skip * u) * self.act(z)
        return self.out(y if self.sub is None else self.sub(y))


class Gate(nn.Module):
    """W3 (σ(W1 x) ⊙ φ(W2 x)) with a token shift before W2 (RWKV's channel mixing)."""

    def __init__(self, width: int, act: str, bias: bool) -> None:
        super().__init__()
        self.one, self.two, self.out = (nn.Linear(width, width, bias) for _ in range(3))
        self.mu, self.act = nn.Parameter(torch.full((width,), 0.5)), ACT[act]

    def forward(self, x: Tensor) -> Tensor:
        shifted = F.pad(x, (0, 0, 1, -1))
        mixed = x * self.mu + shifted * (1 - self.mu)
        return torch.sigmoid(self.one(x)) * self.out(self.act(self.two(mixed)))
