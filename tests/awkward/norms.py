"""Norms written by hand, and things that look like norms and are none. Each is tried as the A of a pre block."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.awkward.parts import FFN, Attention, D

Body = Callable[[Tensor, Tensor], Tensor]
"""(x [..., d], gain [d]) -> normalised x."""


class Handmade(nn.Module):
    """A pre block whose two norms are `body`, with a gain each."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.attn, self.ffn = Attention(), FFN()
        self.g1, self.g2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.body(x, self.g1))
        return x + self.ffn(self.body(x, self.g2))


# RMSNorm, in ten hands.


def rms_rsqrt(x: Tensor, g: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * g


def rms_sqrt(x: Tensor, g: Tensor) -> Tensor:
    return g * (x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-8))


def rms_by_norm(x: Tensor, g: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6) * D**0.5 * g


def rms_vector_norm(x: Tensor, g: Tensor) -> Tensor:
    rms = torch.linalg.vector_norm(x, dim=-1, keepdim=True) * D**-0.5
    return x / (rms + 1e-8) * g


def rms_cast(x: Tensor, g: Tensor) -> Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True).add(1e-6))
    return g * y.to(x.dtype)


def rms_one_plus(x: Tensor, g: Tensor) -> Tensor:
    y = x.double()
    return ((y * (y.pow(2).sum(-1, keepdim=True) / D + 1e-6).pow(-0.5)) * (1.0 + g.double())).type_as(x)


def rms_normalize(x: Tensor, g: Tensor) -> Tensor:
    return F.normalize(x, dim=-1) * g * D**0.5


def rms_einsum(x: Tensor, g: Tensor) -> Tensor:
    square = torch.einsum("...d,...d->...", x, x)[..., None]
    return torch.einsum("...d,d->...d", x * (square / D + 1e-6).rsqrt(), g)


def rms_in_place(x: Tensor, g: Tensor) -> Tensor:
    y = x.clone()
    y /= y.square().mean(-1, keepdim=True).add_(1e-6).sqrt_()
    return y.mul_(g)


def rms_exp_log(x: Tensor, g: Tensor) -> Tensor:
    return x * torch.exp(-0.5 * torch.log(x.pow(2).mean(-1, keepdim=True) + 1e-6)) * g


# LayerNorm, in six.


def layer_var(x: Tensor, g: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * g


def layer_var_mean(x: Tensor, g: Tensor) -> Tensor:
    var, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return (x - mean) * torch.rsqrt(var + 1e-5) * g


def layer_annotated(x: Tensor, g: Tensor) -> Tensor:
    """Unbiased std with the ε outside the root."""
    return g * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)


def layer_centred(x: Tensor, g: Tensor) -> Tensor:
    c = x - x.mean(dim=-1, keepdim=True)
    return c * (c * c).mean(-1, keepdim=True).add(1e-5).rsqrt() * g


def layer_moments(x: Tensor, g: Tensor) -> Tensor:
    """Var as E[x²] − E[x]²."""
    mean, square = x.mean(-1, keepdim=True), (x**2).mean(-1, keepdim=True)
    return (x - mean) / (square - mean**2 + 1e-5) ** 0.5 * g


def layer_functional(x: Tensor, g: Tensor) -> Tensor:
    return torch.layer_norm(x, (D,), weight=g, bias=None)


# Other norms.


def max_abs(x: Tensor, g: Tensor) -> Tensor:
    return x / (x.abs().amax(-1, keepdim=True) + 1e-6) * g


def fourth_powers(x: Tensor, g: Tensor) -> Tensor:
    return x / (x.pow(4).mean(-1, keepdim=True) + 1e-12).pow(0.25) * g


def l1(x: Tensor, g: Tensor) -> Tensor:
    return F.normalize(x, p=1.0, dim=-1) * g


# No norms.


def partial_rms(x: Tensor, g: Tensor) -> Tensor:
    """The statistic is of the first quarter of the features: it bounds nothing that the others carry."""
    return x * torch.rsqrt(x[..., : D // 4].pow(2).mean(-1, keepdim=True) + 1e-6) * g


def by_mean(x: Tensor, g: Tensor) -> Tensor:
    """Scale-free, but the mean may vanish: unbounded."""
    return x / x.mean(-1, keepdim=True) * g


def centred_only(x: Tensor, g: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) * g


def detached_constant(x: Tensor, g: Tensor) -> Tensor:
    """Divides by a statistic of a constant tensor."""
    ones = torch.ones_like(x)
    return x * torch.rsqrt(ones.pow(2).mean(-1, keepdim=True) + 1e-6) * g


class LayerNorm(nn.Module):
    """By its name a norm; by what it does, a gain."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.bias


class Channels(nn.Module):
    """BatchNorm or GroupNorm over features, which have to go to axis 1 first."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class FusedRMS(torch.autograd.Function):
    """A kernel with a backward of its own, as fused norms are shipped."""

    @staticmethod
    def forward(ctx, x: Tensor, g: Tensor, eps: float) -> Tensor:  # type: ignore[no-untyped-def,override]
        inverse = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, g, inverse)
        return x * inverse * g

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def,override]
        return grads[0], None, None


def autograd_function(x: Tensor, g: Tensor) -> Tensor:
    return FusedRMS.apply(x, g, 1e-6)
