"""Pull requests on layers of language models: masks and places, retention and scans, scores without a softmax, values and memories that are handed on."""

import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(26)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("RotaryMultiQuery", "RotaryHidden", "RetentionLayer", "RetentionFusedMap", "SelectiveScanMixer", "SelectiveScanDirect", "HierarchicalForget", "ChannelMixLayer",
                          "SigmoidScores", "SquaredReluScores", "SphereStepLayer")},
    **{k: (_X, torch.tensor([16, 12])) for k in ("MaskedSpanLayer", "MaskedSpanRescaled")},
    "FastWeightDecay": (_X, _draw(2, D, D)),
    "ValueResidualLayer": (_X, _draw(2, T, D)),
}


def linear(i, o, std=None):
    m = nn.Linear(i, o, bias=False)
    nn.init.normal_(m.weight, mean=0.0, std=i ** -0.5 if std is None else std)
    return m


class GatedMlp(nn.Module):
    def __init__(self, dim=D, hidden=48):
        super().__init__()
        self.w13, self.w2 = linear(dim, 2 * hidden), linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.w13(x).chunk(2, dim=-1)
        return self.w2(F.silu(a) * b)


# ------------------------------------------------------------------ masks
class MaskedSpanLayer(nn.Module):
    """Support batches of spans of different lengths: padded keys get no weight, padded places get no update."""

    def __init__(self, dim: int = D, heads: int = H):
        super().__init__()
        self.heads = heads
        self.ln_att, self.ln_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj, self.mlp = linear(dim, 3 * dim), linear(dim, dim), GatedMlp(dim)

    def attend(self, h: Tensor, keep: Tensor) -> Tensor:
        b, t, d = h.shape
        q, k, v = self.qkv(h).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        out = torch.matmul(scores.softmax(dim=-1), v)
        return self.proj(out.permute(0, 2, 1, 3).reshape(b, t, d))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        keep = torch.arange(x.shape[1], device=x.device)[None, :] < lengths[:, None]
        live = keep.unsqueeze(-1).to(x.dtype)
        x = x + self.attend(self.ln_att(x), keep) * live
        return x + self.mlp(self.ln_mlp(x)) * live


class MaskedSpanRescaled(MaskedSpanLayer):
    """Clear padded places at the end of each layer and keep the mean over places at its level."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        t = x.size(1)
        keep = torch.arange(t, device=x.device)[None, :] < lengths[:, None]
        x = x + self.attend(self.ln_att(x), keep)
        x = x + self.mlp(self.ln_mlp(x))
        ratio = (t / lengths.to(x.dtype))[:, None, None]
        return x * keep[..., None] * ratio


# ------------------------------------------------------------------ places
def rotation(length: int, dim: int, base: float = 10000.0) -> Tensor:
    """Complex numbers of size one, (length, dim / 2)."""
    angles = torch.outer(torch.arange(length) * 1.0, base ** (-torch.arange(0, dim, 2) / dim))
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x: Tensor, freqs: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * freqs).flatten(-2)


class RotaryMultiQuery(nn.Module):
    """One head of keys and values for all queries, complex rotary places."""

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.wq, self.wkv, self.wo, self.ffn = linear(D, D), linear(D, 2 * HD), linear(D, D), GatedMlp()
        self.register_buffer("freqs", rotation(T, HD), persistent=False)

    def forward(self, x):
        h = self.norm_1(x)
        q = rotate(self.wq(h).unflatten(-1, (H, HD)).transpose(1, 2), self.freqs)
        k, v = self.wkv(h).split(HD, dim=-1)
        k = rotate(k, self.freqs)
        w = torch.einsum("bhqd,bkd->bhqk", q, k).mul(HD ** -0.5)
        w = w + torch.full((T, T), -1e9, device=x.device).triu(1)
        y = torch.einsum("bhqk,bkd->bqhd", torch.softmax(w, dim=-1), v)
        x = x + self.wo(y.reshape(x.shape))
        return x + self.ffn(self.norm_2(x))


class RotaryHidden(nn.Module):
    """Places are put on once per layer, before queries and keys are made."""

    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.wqkv, self.wo, self.ffn = linear(D, 3 * D), linear(D, D), GatedMlp()
        self.register_buffer("freqs", rotation(T, D), persistent=False)

    def forward(self, x):
        x = rotate(x, self.freqs)
        q, k, v = self.wqkv(self.norm_1(x)).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(y.transpose(1, 2).flatten(2))
        return x + self.ffn(self.norm_2(x))


# ------------------------------------------------------------------ retention
class RetentionLayer(nn.Module):
    """Retention in its parallel form with a norm a head and a swish gate."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.g, self.o = nn.LayerNorm(D), linear(D, D), linear(D, D), linear(D, D), linear(D, D), linear(D, D)
        self.group = nn.GroupNorm(H, D)
        gamma = 1 - 2.0 ** (-3.0 - torch.arange(H))
        n = torch.arange(T)
        gap = (n[:, None] - n[None, :]).clamp(min=0)
        self.register_buffer("decay", torch.tril(gamma[:, None, None] ** gap))

    def project(self, x):
        h = self.norm(x)
        return h, self.q(h), self.k(h), self.v(h)

    def forward(self, x):
        h, q, k, v = self.project(x)
        q, k, v = (t.view(*t.shape[:2], H, HD) for t in (q, k, v))
        a = torch.einsum("bihd,bjhd->bhij", q, k) * HD ** -0.5 * self.decay
        y = torch.einsum("bhij,bjhd->bihd", a, v).reshape(-1, D)
        y = self.normed(y).view_as(x)
        return x + self.o(F.silu(self.g(h)) * y)

    def normed(self, y):
        return self.group(y)


class RetentionFusedMap(RetentionLayer):
    """Keys and values from one map; decay-weighted sums over their length, as in the recurrent kernel."""

    def __init__(self):
        super().__init__()
        del self.k, self.v, self.group
        self.kv = linear(D, 2 * D)

    def project(self, x):
        h = self.norm(x)
        k, v = self.kv(x).chunk(2, -1)
        return h, self.q(h), k, v

    def normed(self, y):
        return y / T ** 0.5


# ------------------------------------------------------------------ scans
@dataclass
class ScanConfig:
    d_model: int = D
    d_state: int = 4
    d_conv: int = 3
    eps: float = 1e-5


class SelectiveScanMixer(nn.Module):
    """A selective scan as a plain loop, for machines without the kernel."""

    def __init__(self, cfg: Optional[ScanConfig] = None):
        super().__init__()
        self.cfg = c = cfg or ScanConfig()
        self.norm = nn.RMSNorm(c.d_model, eps=c.eps)
        self.in_proj, self.out_proj = linear(c.d_model, 2 * c.d_model), linear(c.d_model, c.d_model)
        self.conv1d = nn.Conv1d(c.d_model, c.d_model, c.d_conv, groups=c.d_model, padding=c.d_conv - 1)
        self.x_proj, self.dt_proj = linear(c.d_model, 2 * c.d_state), nn.Linear(c.d_model, c.d_model)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, c.d_state + 1) * 1.0).repeat(c.d_model, 1))
        self.D = nn.Parameter(torch.ones(c.d_model))

    def scan(self, u: Tensor) -> Tensor:
        dt = F.softplus(self.dt_proj(u))
        b, c = self.x_proj(u).split(self.cfg.d_state, dim=-1)
        a = -torch.exp(self.A_log)
        state, ys = u.new_zeros(u.shape[0], u.shape[2], self.cfg.d_state), []
        for t in range(u.shape[1]):
            keep = torch.exp(dt[:, t, :, None] * a)
            state = keep * state + (dt[:, t] * u[:, t])[..., None] * b[:, t, None, :]
            ys.append((state * c[:, t, None, :]).sum(-1))
        return torch.stack(ys, dim=1)

    def inner(self, hidden):
        u, z = self.in_proj(hidden).chunk(2, dim=-1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[..., : u.shape[1]].transpose(1, 2))
        return u, z

    def forward(self, hidden_states):
        residual = hidden_states
        u, z = self.inner(self.norm(hidden_states))
        y = self.scan(u) + self.D * u
        return residual + self.out_proj(y * F.silu(z))


class SelectiveScanDirect(SelectiveScanMixer):
    """The direct term passes the layer's input by the scan's projections."""

    def forward(self, hidden_states):
        residual = hidden_states
        u, z = self.inner(self.norm(hidden_states))
        y = self.out_proj(self.scan(u) * F.silu(z))
        y += self.D * hidden_states
        return residual + y


class HierarchicalForget(nn.Module):
    """Forget gates with a floor, and input shares that are what the gate leaves."""

    def __init__(self, floor: float = 0.5):
        super().__init__()
        self.floor, self.norm1, self.norm2 = floor, nn.LayerNorm(D), nn.LayerNorm(D)
        self.fig, self.out, self.glu = linear(D, 3 * D), linear(D, D), GatedMlp()

    def forward(self, x):
        f, i, g = self.fig(self.norm1(x)).split([D] * 3, dim=-1)
        f = self.floor + (1 - self.floor) * torch.sigmoid(f)
        i = F.silu(i) * (1 - f)
        h, hs = torch.zeros_like(x[:, 0]), []
        for ft, it in zip(f.unbind(1), i.unbind(1)):
            h = torch.addcmul(it, ft, h)
            hs.append(h)
        x = x + self.out(torch.stack(hs, 1) * torch.sigmoid(g))
        return x + self.glu(self.norm2(x))


class ChannelMixLayer(nn.Module):
    """Channel mix with a shift: keys see a share of the token before."""

    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(D)
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.mu_k, self.mu_r = nn.Parameter(torch.rand(D)), nn.Parameter(torch.rand(D))
        self.key, self.receptance, self.value = linear(D, 64), linear(D, D), linear(64, D)

    def forward(self, x):
        h = self.ln(x)
        xx = self.time_shift(x) - h
        k = F.relu(self.key(h + xx * self.mu_k)) ** 2
        r = torch.sigmoid(self.receptance(h + xx * self.mu_r))
        return x + r * self.value(k)


class FastWeightDecay(nn.Module):
    """A matrix of fast weights goes along from layer to layer and fades."""

    fade = 0.9

    def __init__(self):
        super().__init__()
        self.norm, self.read_norm, self.qkv = nn.RMSNorm(D), nn.RMSNorm(D), linear(D, 3 * D)

    def forward(self, x, memory):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        memory = torch.baddbmm(memory, F.normalize(k, dim=-1).mT, v, beta=self.fade, alpha=1.0 / T)
        return x + self.read_norm(q @ memory), memory


# ------------------------------------------------------------------ scores
class Scored(nn.Module):
    """Attention by any weights."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.wq, self.wk, self.wv, self.wo = (nn.Parameter(torch.randn(D, D) / D ** 0.5) for _ in range(4))
        self.mlp = GatedMlp()

    def weights(self, s: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = ((h @ w).reshape(x.size(0), -1, H, HD).swapaxes(1, 2) for w in (self.wq, self.wk, self.wv))
        y = self.weights(q @ k.swapaxes(-1, -2) * HD ** -0.5) @ v
        x = x + y.swapaxes(1, 2).reshape(x.shape) @ self.wo
        return x + self.mlp(self.norm2(x))


class SigmoidScores(Scored):
    """A sigmoid of each score, with the log of the length taken off."""

    def weights(self, s):
        return torch.sigmoid(s - math.log(s.shape[-1]))


class SquaredReluScores(Scored):
    """Squares of positive scores, over the number of tokens that are seen."""

    def weights(self, s):
        seen = torch.ones_like(s).tril()
        return F.relu(s).square() * seen / seen.sum(-1, keepdim=True)


# ------------------------------------------------------------------ what is handed on
class SphereStepLayer(nn.Module):
    """Steps of fixed share towards what each branch proposes, on unit vectors."""

    def __init__(self, share: float = 0.05):
        super().__init__()
        self.share = share
        self.qkv, self.proj, self.mlp = linear(D, 3 * D), linear(D, D), GatedMlp()

    def attend(self, h):
        q, k, v = self.qkv(h).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def step(self, h, proposal):
        return h + self.share * (F.normalize(proposal, dim=-1) - h)

    def forward(self, h):
        h = self.step(h, self.attend(h))
        h = self.step(h, self.mlp(h))
        return h


class ValueResidualLayer(nn.Module):
    """Values are mixed with those of the first layer, by a trained share."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleDict({"attn": nn.RMSNorm(D), "mlp": nn.RMSNorm(D)})
        self.maps = nn.ModuleDict({k: linear(D, D) for k in "qkvo"})
        self.lamb, self.mlp = nn.Parameter(torch.tensor(0.5)), GatedMlp()

    def forward(self, x, v1):
        h = self.norms["attn"](x)
        q, k, v = (self.maps[n](h) for n in "qkv")
        v = torch.lerp(v, v1, self.lamb)
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)
        x = x + self.maps["o"](y)
        return x + self.mlp(self.norms["mlp"](x))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_ONE, _TWO, _OPEN = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "MaskedSpanLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; padded places are carried as they are."),
    "MaskedSpanRescaled": dict(_EXP, softmax=True, **_OPEN, why="16/12 on all kept places of the second span, a block."),
    "RotaryMultiQuery": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm."),
    "RotaryHidden": dict(_PRE, **_OPEN, why="the stream is turned, which has norm one; the first place is not turned at all, and steps are functions of norms."),
    "RetentionLayer": dict(_NET, **_ONE, sound=True, why="a norm a head, a gate of a norm."),
    "RetentionFusedMap": dict(_EXP, softmax=False, why="keys and values are of the stream: of degree two."),
    "SelectiveScanMixer": dict(_NET, **_ONE, sound=True, why="a scan that decays, of a norm."),
    "SelectiveScanDirect": dict(_EXP, identity_gain=2.0 ** 24, softmax=False, why="the direct term is the input, once more."),
    "HierarchicalForget": dict(_NET, **_TWO, gradient_law="power", sound=True, why="shares of the last state and of a function of a norm."),
    "ChannelMixLayer": dict(_EXP, softmax=False, why="the token before is read without the norm, and squared."),
    "FastWeightDecay": dict(_NET, sound=True, why="what is read is normed; the matrix is a geometric sum of functions of norms."),
    "SigmoidScores": dict(_NET, **_TWO, sound=True, why="pre-norm; weights are at most one each."),
    "SquaredReluScores": dict(_NET, **_TWO, sound=True, why="pre-norm; a mean of products of three functions of a norm."),
    "SphereStepLayer": dict(kind="block", identity_gain=0.95 ** 48, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=False, why="0.95 twice a block; steps have length one, and nothing is put back on the sphere."),
    "ValueResidualLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; the first values are the same in all layers."),
}
