"""Streams and skips: ordinary ones in the manner of libraries, and some with a slip in them."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(d_in, d_out, gain=1.0):
    lin = nn.Linear(d_in, d_out)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


def body(d=D, out=None, gain=1.0):
    return nn.Sequential(dense(d, 2 * d), nn.GELU(), dense(2 * d, out or d, gain))


def pre(d=D, out=None, gain=1.0):
    return nn.Sequential(nn.LayerNorm(d), body(d, out, gain))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = pre()


class Layers(nn.Module):
    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(pre() for _ in range(n))


# ---- order of evaluation, wrappers
class WalrusRight(nn.Module):
    """The name is bound anew inside the call; the left operand was read before."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.RMSNorm(D), body()

    def forward(self, x):
        return x + self.mlp(x := self.norm(x))


class WalrusLeft(WalrusRight):
    """The same with the operands in the other order."""

    def forward(self, x):
        return self.mlp(x := self.norm(x)) + x


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(x, **kwargs) + x


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(dim), fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class Together(nn.Module):
    def __init__(self, *fns):
        super().__init__()
        self.fns = nn.ModuleList(fns)

    def forward(self, x):
        return sum(fn(x) for fn in self.fns)


class WrappersInOrder(nn.Module):
    """Residual(PreNorm(fn)), as in vit-pytorch; a mixer's two steps."""

    def __init__(self):
        super().__init__()
        self.tokens = Residual(PreNorm(D, nn.Sequential(nn.Conv1d(T, 2 * T, 1), nn.GELU(), nn.Conv1d(2 * T, T, 1))))
        self.channels = Residual(PreNorm(D, body()))

    def forward(self, x):
        return self.channels(self.tokens(x))


class WrappersSwapped(nn.Module):
    """PreNorm(Residual(fn)) for the second."""

    def __init__(self):
        super().__init__()
        self.tokens = Residual(PreNorm(D, nn.Sequential(nn.Conv1d(T, 2 * T, 1), nn.GELU(), nn.Conv1d(2 * T, T, 1))))
        self.channels = PreNorm(D, Residual(body()))

    def forward(self, x):
        return self.channels(self.tokens(x))


class WrappedSum(nn.Module):
    """A sum of branches, one of which is nn.Identity, inside Residual."""

    def __init__(self):
        super().__init__()
        self.net = Residual(Together(nn.Identity(), PreNorm(D, body())))

    def forward(self, x):
        return self.net(x)


class LibraryLayer(nn.Module):
    """torch's own pre-norm layer, with a skip around it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, 4, 2 * D, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, x):
        return x + self.layer(x)


# ---- factors
class ScaledSum(Block):
    """LayerScale, on the sum."""

    def __init__(self, init_values=0.8):
        super().__init__()
        self.gain_ls = nn.Parameter(init_values * torch.ones(D))

    def forward(self, x):
        return (x + self.f(x)).mul(self.gain_ls)


@dataclass
class DeepConfig:
    layers: int = 24
    dim: int = D

    @property
    def alpha(self):
        return (2 * self.layers) ** 0.25

    @property
    def beta(self):
        return (8 * self.layers) ** -0.25


class DeepOutNorm(nn.Module):
    """DeepNorm's alpha and beta, the norm around the branch and not around the sum."""

    def __init__(self, cfg=DeepConfig()):
        super().__init__()
        self.cfg, self.mlp, self.norm = cfg, body(gain=cfg.beta), nn.LayerNorm(cfg.dim)

    def forward(self, x):
        return torch.add(self.norm(self.mlp(x)), x, alpha=self.cfg.alpha)


class FusedAddmm(nn.Module):
    """The last map and the skip in one baddbmm."""

    beta = 1.0

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), dense(D, 2 * D), nn.Parameter(torch.randn(2 * D, D) / 8)

    def forward(self, x):
        h = F.gelu(self.up(self.norm(x)))
        return torch.baddbmm(x, h, self.down.expand(x.shape[0], -1, -1), beta=self.beta)


class FusedAddmmNine(FusedAddmm):
    """beta = 0.9."""

    beta = 0.9


class DartsCell(Block):
    """Differentiable search: a softmax over the identity, nothing, and an MLP."""

    def __init__(self):
        super().__init__()
        self.alphas = nn.Parameter(torch.tensor([2.0, 0.0, 0.0]))
        self.ops = nn.ModuleDict({"skip": nn.Identity(), "mlp": self.f})
        self.names = ("skip", "none", "mlp")

    def forward(self, x):
        w = F.softmax(self.alphas, dim=-1)
        return sum(a * (self.ops[name](x) if name in self.ops else x.mul(0.0)) for a, name in zip(w, self.names))


class RescaledMask(Block):
    """Padding is zeroed; the mask is divided by its mean, as an inverted dropout does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keep", (torch.arange(T) < 12).to(torch.get_default_dtype())[:, None])

    def forward(self, x):
        return (x + self.f(x)) * self.keep / self.keep.mean()


class Preconditioned(Block):
    """Karras: c_skip x + c_out F(c_in x), at sigma 0.25."""

    sigma, data = 0.25, 0.5

    def forward(self, x):
        total = self.sigma ** 2 + self.data ** 2
        c_skip, c_out, c_in = self.data ** 2 / total, self.sigma * self.data / total ** 0.5, total ** -0.5
        return c_skip * x + c_out * self.f(c_in * x)


class ShrunkGradient(Block):
    """GLM's trick for the embedding, in every block: alpha x + (1 - alpha) x.detach()."""

    def forward(self, x, alpha=0.5):
        x = x * alpha + x.detach() * (1 - alpha)
        return x + self.f(x)


class TrapezoidSlip(Block):
    """Three rounds of an implicit trapezoid: z = x + (f(x) + f(z)) / 2, where `f(x)` became `z`."""

    def forward(self, x):
        z = x
        for _ in range(3):
            z = x + 0.5 * (z + self.f(z))
        return z


# ---- reparameterised
class RepDirac(Block):
    """The identity as a Dirac kernel."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", nn.init.dirac_(torch.empty(D, D, 3)))

    def skip(self, x):
        return F.conv1d(x.mT, self.kernel, padding=1).mT

    def forward(self, x):
        return self.skip(x) + self.f(x)


class RepDiracTwice(RepDirac):
    """The kernel holds the identity already."""

    def forward(self, x):
        return x + self.skip(x) + self.f(x)


class RepVgg(nn.Module):
    """Three branches with BatchNorm each, the identity among them, ReLU."""

    def __init__(self):
        super().__init__()
        norm = lambda: nn.BatchNorm1d(D, track_running_stats=False)
        self.rbr_identity = norm()
        self.rbr_dense = nn.Sequential(nn.Conv1d(D, D, 3, padding=1, bias=False), norm())
        self.rbr_1x1 = nn.Sequential(nn.Conv1d(D, D, 1, bias=False), norm())

    def forward(self, x):
        x = x.transpose(1, 2)
        return F.relu(self.rbr_dense(x) + self.rbr_1x1(x) + self.rbr_identity(x)).transpose(1, 2)


# ---- graphs
class GraphSkip(Block):
    """GCN: the skip is propagated by the symmetric normalised adjacency with self-loops, of a path with chords."""

    def __init__(self):
        super().__init__()
        self.register_buffer("adj", self.adjacency())

    @staticmethod
    def adjacency():
        i = torch.arange(T)
        a = ((i[:, None] - i).abs() <= 1) | ((i[:, None] - i).abs() == 5)
        a = a.to(torch.get_default_dtype())
        r = a.sum(-1).rsqrt()
        return r[:, None] * a * r

    def forward(self, x):
        return torch.einsum("ij,bjd->bid", self.adj, x) + self.f(x)


class GraphSum(GraphSkip):
    """GIN: (1 + eps) x and the sum of the neighbours, on a ring."""

    @staticmethod
    def adjacency():
        eye = torch.eye(T)
        return eye.roll(1, 0) + eye.roll(-1, 0)

    def forward(self, x, eps=0.0):
        return torch.addmm((1 + eps) * x.flatten(2).transpose(0, 1).flatten(1), self.adj, x.transpose(0, 1).flatten(1)).view(T, -1, D).transpose(0, 1) + self.f(x)


# ---- whole models whose factors know the depth
class DecayOverDepth(Layers):
    """1 - 1/n on the stream."""

    sign = -1.0

    def forward(self, x):
        n = len(self.blocks)
        for f in self.blocks:
            x = torch.add(f(x), x, alpha=1 + self.sign / n)
        return x


class GrowthOverDepth(DecayOverDepth):
    """1 + 1/n."""

    sign = 1.0


class DdimSampler(Layers):
    """DDIM: from abar = 0.1 to 0.9 in n steps."""

    def forward(self, x):
        n = len(self.blocks)
        abar = [0.1 + 0.8 * i / n for i in range(n + 1)]
        for eps_net, a, b in zip(self.blocks, abar, abar[1:]):
            eps = eps_net(x)
            x0 = (x - math.sqrt(1 - a) * eps) / math.sqrt(a)
            x = math.sqrt(b) * x0 + math.sqrt(1 - b) * eps
        return x


class AdamOverDepth(Layers):
    """Every layer's branch (no norm) is a 'gradient'; the stream moves by Adam's step."""

    def __init__(self, n=24):
        super().__init__(n)
        self.blocks = nn.ModuleList(body() for _ in range(n))

    def forward(self, x, b1=0.9, b2=0.99):
        m = v = torch.zeros_like(x)
        for t, f in enumerate(self.blocks, 1):
            g = f(x)
            m = torch.lerp(m, g, 1 - b1)
            v = b2 * v + (1 - b2) * g.square()
            x = x + (m / (1 - b1 ** t)) / ((v / (1 - b2 ** t) + 1e-16).sqrt())
        return x


class DualStreams(nn.Module):
    """ResiDual: a post-normed stream, and a plain one that gathers the same branches; the plain one was to be normed at the end."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks, self.norms, self.first = nn.ModuleList(body() for _ in range(n)), nn.ModuleList(nn.LayerNorm(D) for _ in range(n)), nn.LayerNorm(D)

    def forward(self, x):
        dual, x = x, self.first(x)
        for f, norm in zip(self.blocks, self.norms):
            y = f(x)
            dual = dual + y
            x = norm(x + y)
        return x + dual


class MegaGate(nn.Module):
    """Mega: residual + u (h - residual) with a sigmoid u, both read from the normed stream."""

    def __init__(self):
        super().__init__()
        self.norm, self.mx, self.h_proj, self.decay = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(D, D), nn.Parameter(torch.zeros(D))

    def ema(self, h):
        a, out = self.decay.sigmoid(), [h[:, 0]]
        for t in range(1, h.shape[1]):
            out.append(torch.lerp(out[-1], h[:, t], a))
        return torch.stack(out, dim=1)

    def forward(self, x):
        residual, x = x, self.norm(x)
        u, hx = self.mx(self.ema(x)).split(D, dim=-1)
        h = F.silu(torch.add(hx, self.h_proj(x)))
        return torch.addcmul(residual, u.sigmoid(), h - residual)


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", growth_all="exponential", softmax=False)
_A = (2 * 24) ** 0.25

TRUTH = {
    "WalrusRight": dict(_LIN, gradient_law="power", why="the left operand is read first.", tempts="x is the normed tensor by the time of the add"),
    "WalrusLeft": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="the right operand is read behind the binding: F(N x) + N x.", tempts="pre-norm: gain 1, linear"),
    "WrappersInOrder": dict(_LIN, why="pre-norm, twice.", tempts="-"),
    "WrappersSwapped": dict(kind="block", identity_gain=None, growth_fixed="bounded", softmax=False, why="N x + F(N x) in the second step.", tempts="Residual and PreNorm: gain 1"),
    "WrappedSum": dict(_EXP, identity_gain=2.0 ** 24, gradient_law="exponential", why="x + (x + F).", tempts="a pre-norm residual: gain 1"),
    "LibraryLayer": dict(_EXP, identity_gain=2.0 ** 24, softmax=True, why="the layer has its own skips.", tempts="a pre-norm library layer as a branch: gain 1"),
    "ScaledSum": dict(kind="block", identity_gain=0.8 ** 24, growth_fixed="bounded", softmax=False, why="0.8 x + 0.8 F.", tempts="LayerScale on the branch: gain 1, linear"),
    "DeepOutNorm": dict(_EXP, identity_gain=_A ** 24, gradient_law="exponential", why="2.63 x + N(F).", tempts="DeepNorm: post-norm, bounded; or gain 1"),
    "FusedAddmm": dict(_LIN, why="x + h W.", tempts="-"),
    "FusedAddmmNine": dict(kind="block", identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=False, why="0.9 x + h W.", tempts="gain 1, linear"),
    "DartsCell": dict(kind="block", identity_gain=(math.e ** 2 / (math.e ** 2 + 2)) ** 24, growth_fixed="bounded", softmax=True, why="the identity's share is 0.787 per block at the start.", tempts="gain 1"),
    "RescaledMask": dict(_EXP, identity_gain=(4 / 3) ** 24, gradient_law="exponential", why="tokens that are kept: 16/12 per block.", tempts="a mask of zeros and ones: gain 1"),
    "Preconditioned": dict(kind="block", identity_gain=0.8 ** 24, growth_fixed="bounded", softmax=False, why="c_skip = 0.25/0.3125.", tempts="gain 1"),
    "ShrunkGradient": dict(_LIN, gradient_law="exponential", why="forward x + F; backward 1/2 per block.", tempts="the identity: power"),
    "TrapezoidSlip": dict(_EXP, identity_gain=1.875 ** 24, gradient_law="exponential", why="z = 3/2, 7/4, 15/8 of x.", tempts="an integrator of a bounded field: gain 1"),
    "RepDirac": dict(_LIN, why="a convolution with a Dirac kernel.", tempts="a convolution on the stream"),
    "RepDiracTwice": dict(_EXP, identity_gain=2.0 ** 24, gradient_law="exponential", why="x + x + F.", tempts="a branch that is a convolution"),
    "RepVgg": dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=False, why="the identity branch has its norm.", tempts="gain 1 by the identity branch"),
    "GraphSkip": dict(_LIN, why="a symmetric matrix with the largest eigenvalue 1 (vector sqrt(degree)).", tempts="smoothing: bounded"),
    "GraphSum": dict(_EXP, identity_gain=3.0 ** 24, gradient_law="exponential", why="constants on a ring of degree two: 1 + 2.", tempts="gain 1 from (1 + eps) with eps = 0"),
    "DecayOverDepth": dict(kind="model", identity_gain=(23 / 24) ** 24, softmax=False, why="(1 - 1/n)^n: never less than 1/4.", tempts="a decay: bounded"),
    "GrowthOverDepth": dict(kind="model", identity_gain=(25 / 24) ** 24, softmax=False, why="(1 + 1/n)^n < e.", tempts="a factor above one: exponential"),
    "DdimSampler": dict(kind="model", identity_gain=3.0, softmax=False, why="the product of sqrt(b/a) is sqrt(0.9/0.1).", tempts="gain 1"),
    "AdamOverDepth": dict(_LIN, kind="model", growth_all="linear", why="Adam's ratio is bounded for any gradients.", tempts="no norm: exponential"),
    "DualStreams": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False, why="the plain stream is added as it is.", tempts="post-norm: bounded"),
    "MegaGate": dict(kind="block", growth_fixed="bounded", softmax=False, why="a convex mean of the stream and of something bounded at fixed weights.", tempts="residual plus something: gain 1, linear"),
}
