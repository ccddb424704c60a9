"""Blocks of language models as pull requests bring them: parallel, peri, latent, sigmoid, stick-breaking, hybrid, routed, gated; some with one slip."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False, std=None):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5 if std is None else std)
    if bias:
        nn.init.zeros_(w.bias)
    return w


def causal(t, device=None):
    return torch.ones(t, t, dtype=torch.bool, device=device).tril()


def split(t: Tensor, n: int = H) -> Tensor:
    b, s, _ = t.shape
    return t.view(b, s, n, -1).permute(0, 2, 1, 3)


def join(t: Tensor) -> Tensor:
    b, n, s, d = t.shape
    return t.permute(0, 2, 1, 3).contiguous().view(b, s, n * d)


class FeedForward(nn.Module):
    """One fused map in, a gate, one map out."""

    def __init__(self, d=D, inner=64):
        super().__init__()
        self.w13, self.w2 = lin(d, 2 * inner), lin(inner, d)

    def forward(self, x):
        gate, up = self.w13(x).chunk(2, -1)
        return self.w2(F.silu(gate) * up)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.wqkv, self.wo = lin(D, 3 * D), lin(D, D)

    def forward(self, h):
        q, k, v = map(split, self.wqkv(h).chunk(3, -1))
        return self.wo(join(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


# ------------------------------------------------------------ parallel and peri
@dataclass
class ParallelConfig:
    hidden_size: int = D
    num_heads: int = H
    eps: float = 1e-5
    extras: dict = field(default_factory=dict)


class ParallelFused(nn.Module):
    """One norm without bias, one map for queries, keys, values, gate and up; one map of both results."""

    def __init__(self, cfg: ParallelConfig | None = None):
        super().__init__()
        self.cfg = cfg = cfg or ParallelConfig()
        self.sizes = [cfg.hidden_size] * 3 + [48, 48]
        self.norm = nn.LayerNorm(cfg.hidden_size, eps=cfg.eps, bias=False)
        self.fused_in, self.fused_out = lin(cfg.hidden_size, sum(self.sizes)), lin(cfg.hidden_size + 48, cfg.hidden_size)

    def forward(self, x):
        q, k, v, gate, up = self.fused_in(self.norm(x)).split(self.sizes, dim=-1)
        a = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=True)
        return x + self.fused_out(torch.cat([join(a), F.silu(gate) * up], dim=-1))


class OnePlusNorm(nn.Module):
    """Root mean square with a gain of one plus a weight."""

    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.eps, self.gain = eps, nn.Parameter(torch.zeros(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.gain)


class FourNorms(nn.Module):
    """A norm before and behind each branch, queries and keys normed by head, a window of four places."""

    def __init__(self):
        super().__init__()
        self.pre_attn, self.post_attn, self.pre_ff, self.post_ff = (OnePlusNorm(D) for _ in range(4))
        self.q_norm, self.k_norm = OnePlusNorm(HD), OnePlusNorm(HD)
        self.q, self.k, self.v, self.o, self.ff = lin(D, D), lin(D, HD), lin(D, HD), lin(D, D), FeedForward()

    def attn(self, h):
        b, s, _ = h.shape
        q = self.q_norm(self.q(h).view(b, s, H, HD)).transpose(1, 2)
        k, v = self.k_norm(self.k(h)).unsqueeze(1), self.v(h).unsqueeze(1)
        i = torch.arange(s, device=h.device)
        near = (i[:, None] >= i) & (i[:, None] - i < 4)
        w = (q @ k.mT * HD ** -0.5).masked_fill(~near, float("-inf")).softmax(-1)
        return self.o(join(w @ v))

    def forward(self, x):
        x = x + self.post_attn(self.attn(self.pre_attn(x)))
        return x + self.post_ff(self.ff(self.pre_ff(x)))


class OutputNormUnused(nn.Module):
    """Norms were to stand behind the branches alone; the second one's result is thrown away."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward()

    def forward(self, x):
        h = self.attn(x)
        h = self.n1(h)
        x = x + h
        h = self.ff(x)
        self.n2(h)
        return x + h


class SecondSkipNormed(nn.Module):
    """The variable of the first sum is written over by its norm."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        x = self.n2(x)
        x = x + self.ff(x)
        return x


class SkipFromBefore(nn.Module):
    """The second sum starts again from what came in, so that attention reaches it through the net alone."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward()

    def forward(self, x):
        h = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(h))


class SkipAddedTwice(nn.Module):
    """A helper adds the residual and so does the block, in the second sum."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward()

    @staticmethod
    def residual(x, y):
        return x.add(y)

    def forward(self, x):
        x = self.residual(x, self.attn(self.n1(x)))
        y = self.residual(x, self.ff(self.n2(x)))
        return x + y


class AttentionCountedTwice(nn.Module):
    """What attention gives is in both sums; the stream is not."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward()

    def forward(self, x):
        a = self.attn(self.n1(x))
        h = x + a
        return h + a + self.ff(self.n2(h))


class HalfPowerSums(nn.Module):
    """Each sum over root two, so that variances stay."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff, self.scale = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward(), math.sqrt(0.5)

    def forward(self, x):
        x = (x + self.attn(self.n1(x))) * self.scale
        return (x + self.ff(self.n2(x))) * self.scale


class HalfPowerBranches(nn.Module):
    """The same factor slid inside of the brackets."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff, self.scale = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward(), math.sqrt(0.5)

    def forward(self, x):
        x = x + self.attn(self.n1(x)) * self.scale
        return x + self.ff(self.n2(x)) * self.scale


class LowRankBeside(nn.Module):
    """A low-rank path with a skip of its own, of the normed state, is added and the sum is divided by root two."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.nl, self.na, self.nf = (nn.RMSNorm(D) for _ in range(5))
        self.attn, self.ff, self.left, self.right = Attn(), FeedForward(), lin(D, 8), lin(8, D)

    def forward(self, x):
        h = self.n1(x)
        low = h + self.nl(self.right(self.left(h)))
        x = x + self.na(self.attn(h))
        x = (x + low) / math.sqrt(2)
        return x + self.nf(self.ff(self.n2(x)))


# ------------------------------------------------------------ attention of other kinds
class LatentKeys(nn.Module):
    """Keys and values come from a normed latent of eight, queries from one of sixteen, and a rotated part is shared by all heads."""

    def __init__(self, latent=8, rot=4):
        super().__init__()
        self.rot, self.latent = rot, latent
        self.n1, self.n2, self.q_norm, self.kv_norm = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(16), nn.RMSNorm(latent)
        self.q_a, self.q_b = lin(D, 16), lin(16, H * (HD + rot))
        self.kv_a, self.kv_b, self.o, self.ff = lin(D, latent + rot), lin(latent, H * 2 * HD), lin(D, D), FeedForward()

    def turn(self, t):
        ang = torch.arange(t.shape[-2], device=t.device, dtype=t.dtype)[:, None] * torch.tensor([1.0, 0.01], device=t.device, dtype=t.dtype)
        a, b = t[..., 0::2], t[..., 1::2]
        return torch.stack((a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()), -1).flatten(-2)

    def attn(self, h):
        q_nope, q_rot = split(self.q_b(self.q_norm(self.q_a(h)))).split([HD, self.rot], dim=-1)
        c, k_rot = self.kv_a(h).split([self.latent, self.rot], dim=-1)
        k_nope, v = split(self.kv_b(self.kv_norm(c))).chunk(2, dim=-1)
        k_rot = self.turn(k_rot.unsqueeze(1)).expand(-1, H, -1, -1)
        q, k = torch.cat((q_nope, self.turn(q_rot)), -1), torch.cat((k_nope, k_rot), -1)
        return self.o(join(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=(HD + self.rot) ** -0.5)))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class SigmoidWeights(nn.Module):
    """Weights are sigmoids with a bias of minus the logarithm of the number of places."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.wqkv, self.wo, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), FeedForward()

    def attn(self, h):
        q, k, v = (t.unflatten(-1, (H, HD)) for t in self.wqkv(h).chunk(3, -1))
        z = torch.einsum("bihd,bjhd->bhij", q, k) / HD ** 0.5 - math.log(h.shape[1])
        w = torch.sigmoid(z) * causal(h.shape[1], h.device)
        return self.wo(torch.einsum("bhij,bjhd->bihd", w, v).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class StickBreaking(nn.Module):
    """A place takes its share of what nearer places left over."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.wqkv, self.wo, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), FeedForward()

    def attn(self, h):
        q, k, v = map(split, self.wqkv(h).chunk(3, -1))
        z = q @ k.transpose(-1, -2) / math.sqrt(HD)
        seen = causal(h.shape[1], h.device).tril(-1)
        left = F.logsigmoid(-z).masked_fill(~seen, 0.0)
        after = left.flip(-1).cumsum(-1).flip(-1) - left
        w = (F.logsigmoid(z) + after).exp().masked_fill(~seen, 0.0)
        return self.wo(join(w @ v))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class ForgetGateLogits(nn.Module):
    """Sums of logarithms of forget gates are added to logits of normed queries and keys."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.wqkv, self.wf, self.wo, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, H, True), lin(D, D), FeedForward()
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)

    def attn(self, h):
        q, k, v = map(split, self.wqkv(h).chunk(3, -1))
        c = F.logsigmoid(self.wf(h)).cumsum(1).transpose(1, 2)
        z = self.q_norm(q) @ self.k_norm(k).mT / math.sqrt(HD) + c[..., :, None] - c[..., None, :]
        return self.wo(join(z.masked_fill(~causal(h.shape[1], h.device), -torch.inf).softmax(-1) @ v))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class TemperatureByPlace(nn.Module):
    """Normed queries grow with the logarithm of their place."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.wqkv, self.wo, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), FeedForward()

    def attn(self, h):
        q, k, v = map(split, self.wqkv(h).chunk(3, -1))
        q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
        place = torch.arange(h.shape[1], device=h.device, dtype=h.dtype)
        q = q * (torch.log(torch.floor((place + 1) / 4) + 1) * 0.1 + 1).view(1, 1, -1, 1)
        return self.wo(join(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class ClippedProjections(nn.Module):
    """What the fused map gives is cut at eight."""

    def __init__(self, clip_qkv=8.0):
        super().__init__()
        self.clip = clip_qkv
        self.n1, self.n2, self.wqkv, self.wo, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D), lin(D, D), FeedForward()

    def attn(self, h):
        qkv = self.wqkv(h)
        if self.clip is not None:
            qkv.clamp_(min=-self.clip, max=self.clip)
        q, k, v = map(split, qkv.chunk(3, -1))
        return self.wo(join(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class ClippedCopyUnused(nn.Module):
    """The cut copy of the projections is not the one that is used."""

    def __init__(self, clip_qkv=8.0):
        super().__init__()
        self.clip = clip_qkv
        self.n1, self.n2, self.wqkv, self.wo, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D), lin(D, D), FeedForward()

    def attn(self, h):
        qkv = self.wqkv(h)
        if self.clip is not None:
            qkv.clamp(min=-self.clip, max=self.clip)
        q, k, v = map(split, qkv.chunk(3, -1))
        return self.wo(join(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class ScaleForgotten(nn.Module):
    """Written out by hand, and the root of the head's width is missing; weights over heads instead of places."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.wqkv, self.wo, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D), lin(D, D), FeedForward()

    def attn(self, h):
        q, k, v = (t.unflatten(-1, (H, HD)) for t in self.wqkv(h).chunk(3, -1))
        w = torch.einsum("bihd,bjhd->bijh", q, k).softmax(dim=-1)
        return self.wo(torch.einsum("bijh,bjhd->bihd", w, v).reshape(h.shape))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class NormOverPlaces(nn.Module):
    """Queries and keys are normed behind the transpose, over their places."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.wqkv, self.wo, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D), lin(D, D), FeedForward()
        self.q_norm, self.k_norm = nn.LayerNorm(T), nn.LayerNorm(T)

    def attn(self, h):
        q, k, v = map(split, self.wqkv(h).chunk(3, -1))
        q, k = self.q_norm(q.mT).mT, self.k_norm(k.mT).mT
        return self.wo(join(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class CanonBeforeAttention(nn.Module):
    """A causal filter of four places with a skip stands between the norm and attention, and one before the net."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), FeedForward()
        self.canon_a, self.canon_c = (nn.Conv1d(D, D, 4, groups=D, padding=3, bias=False) for _ in range(2))

    @staticmethod
    def canon(conv, h):
        return h + conv(h.transpose(1, 2))[..., : h.shape[1]].transpose(1, 2)

    def forward(self, x):
        x = x + self.attn(self.canon(self.canon_a, self.n1(x)))
        return x + self.ff(self.canon(self.canon_c, self.n2(x)))


class HybridHeads(nn.Module):
    """Attention and a decaying sum read one norm; each result is normed, weighed by a vector, and their mean is mapped."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.na, self.ns = (nn.RMSNorm(D) for _ in range(4))
        self.wqkv, self.wz, self.wo, self.ff = lin(D, 3 * D), lin(D, 2 * D), lin(D, D), FeedForward()
        self.gain_a, self.gain_s = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))

    def mix(self, h):
        q, k, v = map(split, self.wqkv(h).chunk(3, -1))
        a = join(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        u, g = self.wz(h).chunk(2, -1)
        keep = torch.sigmoid(g)
        s, ys = torch.zeros_like(u[:, 0]), []
        for t in range(h.shape[1]):
            s = keep[:, t] * s + (1 - keep[:, t]) * u[:, t]
            ys.append(s)
        return self.wo((self.gain_a * self.na(a) + self.gain_s * self.ns(torch.stack(ys, dim=1))) / 2)

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return x + self.ff(self.n2(x))


class SquashInPlaceOfNorm(nn.Module):
    """Dynamic tanh: γ tanh(α x) + β before each branch."""

    class Squash(nn.Module):
        def __init__(self, start=0.5):
            super().__init__()
            self.alpha, self.gamma, self.beta = nn.Parameter(torch.full((1,), start)), nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

        def forward(self, x):
            return self.gamma * torch.tanh(self.alpha * x) + self.beta

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = self.Squash(), self.Squash(), Attn(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class TowardsSphere(nn.Module):
    """Each step goes a part of the way to the unit result of a branch and back to the sphere."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff = Attn(), FeedForward()
        self.lr_a, self.lr_m = nn.Parameter(torch.full((D,), 0.05)), nn.Parameter(torch.full((D,), 0.05))

    @staticmethod
    def unit(t):
        return t / torch.linalg.norm(t, dim=-1, keepdim=True).clamp(min=1e-8)

    def forward(self, x):
        x = self.unit(x + self.lr_a * (self.unit(self.attn(x)) - x))
        return self.unit(x + self.lr_m * (self.unit(self.ff(x)) - x))


class TowardsSphereStaysOff(nn.Module):
    """The way back to the sphere was forgotten."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff, self.lr = Attn(), FeedForward(), 0.05

    def forward(self, x):
        x = torch.lerp(x, F.normalize(self.attn(x), dim=-1), self.lr)
        return torch.lerp(x, F.normalize(self.ff(x), dim=-1), self.lr)


class AwayFromTarget(nn.Module):
    """A step of minus a twentieth: the sign of the difference slid."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff, self.lr = Attn(), FeedForward(), 0.05

    def forward(self, x):
        x = x + self.lr * (x - F.normalize(self.attn(x), dim=-1))
        return x + self.lr * (x - F.normalize(self.ff(x), dim=-1))


# ------------------------------------------------------------ routed
class DepthRouter(nn.Module):
    """Half of the tokens pass; what they get is weighed by the sigmoid of their score."""

    raw = False

    def __init__(self, capacity=8):
        super().__init__()
        self.capacity, self.router, self.norm, self.ff = capacity, lin(D, 1), nn.RMSNorm(D), FeedForward()

    def forward(self, x):
        score = self.router(x).squeeze(-1)
        weight, index = torch.topk(score, self.capacity, dim=1, sorted=False)
        index = index.unsqueeze(-1).expand(-1, -1, x.shape[-1])
        picked = torch.gather(x, 1, index)
        weight = weight if self.raw else torch.sigmoid(weight)
        return torch.scatter_add(x, 1, index, self.ff(self.norm(picked)) * weight.unsqueeze(-1))


class DepthRouterRaw(DepthRouter):
    """The score itself is the weight, and it reads the stream as it is."""

    raw = True


class ExpertsByIndexAdd(nn.Module):
    """Two of four experts; each takes the tokens that are its own and adds them where they were."""

    def __init__(self, n=4, k=2):
        super().__init__()
        self.k, self.norm, self.router = k, nn.RMSNorm(D), lin(D, n)
        self.experts = nn.ModuleList(FeedForward(inner=16) for _ in range(n))

    def branch(self, x):
        h = self.norm(x).reshape(-1, D)
        share, which = self.router(h).softmax(-1).topk(self.k, -1)
        share = share / share.sum(-1, keepdim=True)
        weight = torch.zeros(h.shape[0], len(self.experts), dtype=h.dtype, device=h.device).scatter(1, which, share)
        out = torch.zeros_like(h)
        for e, expert in enumerate(self.experts):
            out += weight[:, e, None] * expert(h)
        return out.view_as(x)

    def forward(self, x):
        return x + self.branch(x)


class PathsByShares(nn.Module):
    """Three paths (skip, attention, net) are weighed by three times a softmax, so that each starts at one."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.ff, self.mix = nn.RMSNorm(D), Attn(), FeedForward(), nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.norm(x)
        w = 3 * self.mix.softmax(0)
        return w[0] * x + w[1] * self.attn(h) + w[2] * self.ff(h)


class PathsByHalves(nn.Module):
    """The same with a sigmoid a path: each starts at a half."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.ff, self.mix = nn.RMSNorm(D), Attn(), FeedForward(), nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.norm(x)
        skip, a, f = torch.sigmoid(self.mix).unbind()
        return torch.stack((skip * x, a * self.attn(h), f * self.ff(h))).sum(0)


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_TWO = dict(output_bounded={0: False, 1: False})
_ONE = dict(output_bounded={0: False})
_CLOSED = dict(growth_all="linear", output_bounded={0: True, 1: True})
_ON = dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True)
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
_GROWS = dict(growth_fixed="exponential", gradient_law="exponential")
TRUTH = {
    "ParallelFused": dict(_PRE, **_ONE, **_F, why="one branch; pre-norm."),
    "FourNorms": dict(_PRE, **_CLOSED, **_T, why="peri; QK-norm."),
    "OutputNormUnused": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=True, output_bounded={0: True, 1: False}, **_F, why="a raw net of degree two in the stream."),
    "SecondSkipNormed": dict(_ON, gradient_law="exponential", **_F, why="a norm on the stream, a net of what is normed."),
    "SkipFromBefore": dict(_PRE, **_F, why="one sum a block; the net reads what is normed."),
    "SkipAddedTwice": dict(_B, identity_gain=2.0 ** 24, softmax=True, **_GROWS, **_F, why="twice a block."),
    "AttentionCountedTwice": dict(_PRE, **_F, why="a branch of weight two."),
    "HalfPowerSums": dict(_B, identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=True, **_TWO, **_F, why="a half a block."),
    "HalfPowerBranches": dict(_PRE, **_TWO, **_F, why="pre-norm."),
    "LowRankBeside": dict(_B, identity_gain=0.5 ** 12, gradient_law="exponential", growth_fixed="bounded", growth_all="bounded", softmax=True, **_F, why="one over root two a block; all that is added is normed."),
    "LatentKeys": dict(_PRE, **_TWO, **_F, why="maps stand behind the latents' norms."),
    "SigmoidWeights": dict(_NET, **_TWO, why="weights are at most one each."),
    "StickBreaking": dict(_NET, **_TWO, why="shares of one."),
    "ForgetGateLogits": dict(_PRE, **_TWO, **_F, why="sums of free gates."),
    "TemperatureByPlace": dict(_PRE, **_TWO, **_T, why="a number by place."),
    "ClippedProjections": dict(_PRE, **_TWO, **_T, why="64 times eight over root eight."),
    "ClippedCopyUnused": dict(_PRE, **_TWO, **_F, why="nothing is cut."),
    "ScaleForgotten": dict(_PRE, **_TWO, **_F, why="shares are at most one."),
    "NormOverPlaces": dict(_PRE, **_TWO, **_T, why="an entry is at most root T."),
    "CanonBeforeAttention": dict(_PRE, **_TWO, **_F, why="filters of what is normed."),
    "HybridHeads": dict(_PRE, **_TWO, **_F, why="pre-norm; a map behind the norms."),
    "SquashInPlaceOfNorm": dict(_PRE, **_TWO, **_F, why="entries at most γ."),
    "TowardsSphere": dict(_ON, growth_all="bounded", why="unit length behind each step."),
    "TowardsSphereStaysOff": dict(_B, identity_gain=0.95 ** 48, growth_fixed="bounded", growth_all="bounded", softmax=True, why="a mean of what was and a unit vector."),
    "AwayFromTarget": dict(_B, identity_gain=1.05 ** 48, softmax=True, growth_fixed="exponential", why="1.05 twice a block."),
    "DepthRouter": dict(_NET, **_ONE, why="a weight below one on a pre-norm branch."),
    "DepthRouterRaw": dict(_B, growth_fixed="exponential", softmax=False, **_ONE, why="the weight grows with the stream."),
    "ExpertsByIndexAdd": dict(_B, identity_gain=1.0, growth_fixed="linear", **_ONE, why="shares of one; pre-norm."),
    "PathsByShares": dict(_PRE, why="each path starts at one."),
    "PathsByHalves": dict(_B, identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=True, why="a half a block."),
}
