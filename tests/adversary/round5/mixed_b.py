"""Attention, in the manner of libraries, and with small things in the wrong place."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


class Attend(nn.Module):
    """Pre-norm attention. A subclass says what the scores are."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))
        self.setup()

    def setup(self):
        pass

    @staticmethod
    def heads(t):
        return t.unflatten(-1, (H, E)).transpose(1, 2)

    @staticmethod
    def flat(t):
        return t.transpose(1, 2).flatten(2)

    def qk(self, h):
        return self.heads(self.to_q(h)), self.heads(self.to_k(h))

    def scores(self, h):
        q, k = self.qk(h)
        return torch.einsum("bhie,bhje->bhij", q, k) * E ** -0.5

    def branch(self, x):
        h = self.norm(x)
        p = self.scores(h).softmax(dim=-1)
        return self.to_out(self.flat(p @ self.heads(self.to_v(h))))

    def forward(self, x):
        return x + self.branch(x)


class QKNormed(Attend):
    def setup(self):
        self.q_norm, self.k_norm = nn.RMSNorm(E), nn.RMSNorm(E)

    def qk(self, h):
        q, k = super().qk(h)
        return self.q_norm(q), self.k_norm(k)


# ---- ordinary
class RotaryPositionalEmbeddings(nn.Module):
    def __init__(self, dim, max_seq_len=T, base=10_000):
        super().__init__()
        theta = 1.0 / (base ** (torch.arange(0, dim, 2)[: dim // 2] / dim))
        idx = torch.einsum("i,j->ij", torch.arange(max_seq_len, dtype=theta.dtype), theta)
        self.register_buffer("cache", torch.stack([idx.cos(), idx.sin()], dim=-1), persistent=False)

    def forward(self, x):
        shaped = x.reshape(*x.shape[:-1], -1, 2)
        c = self.cache[: x.size(1)].view(1, x.size(1), 1, shaped.size(3), 2)
        out = torch.stack([shaped[..., 0] * c[..., 0] - shaped[..., 1] * c[..., 1], shaped[..., 1] * c[..., 0] + shaped[..., 0] * c[..., 1]], -1)
        return out.flatten(3).type_as(x)


class TuneAttention(nn.Module):
    def __init__(self, kv_heads=2, q_norm=None, k_norm=None):
        super().__init__()
        self.kv_heads, self.q_norm, self.k_norm, self.pos = kv_heads, q_norm, k_norm, RotaryPositionalEmbeddings(E)
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(D, D, bias=False), nn.Linear(D, kv_heads * E, bias=False), nn.Linear(D, kv_heads * E, bias=False)
        self.output_proj = nn.Linear(D, D, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        q = self.pos(self.q_proj(x).view(b, s, self.kv_heads * (H // self.kv_heads), E)).transpose(1, 2)
        if self.q_norm is not None:
            q = self.q_norm(q)
        k = self.pos(self.k_proj(x).view(b, s, -1, E)).transpose(1, 2)
        v = self.v_proj(x).view(b, s, -1, E).transpose(1, 2)
        k, v = (t.unsqueeze(2).expand(b, self.kv_heads, H // self.kv_heads, s, E).flatten(1, 2) for t in (k, v))
        if self.k_norm is not None:
            k = self.k_norm(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output_proj(y.transpose(1, 2).contiguous().view(b, s, -1))


class TuneMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False), nn.Linear(D, 2 * D, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TuneLayer(nn.Module):
    """torchtune's decoder layer, with its optional scales as identities and no QK-norm."""

    def __init__(self, **kw):
        super().__init__()
        self.sa_norm, self.mlp_norm, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), TuneAttention(**kw), TuneMlp()
        self.sa_scale = self.mlp_scale = nn.Identity()

    def forward(self, x):
        h = self.sa_scale(self.attn(self.sa_norm(x))) + x
        return h + self.mlp_scale(self.mlp(self.mlp_norm(h)))


class TuneLayerNormed(TuneLayer):
    """With both norms, rotary in front of them."""

    def __init__(self):
        super().__init__(q_norm=nn.RMSNorm(E), k_norm=nn.RMSNorm(E))


class GroupedUnits(Attend):
    """x-transformers: l2norm in two groups per head, scale 10."""

    @staticmethod
    def l2norm(t, groups=2):
        t = t.unflatten(-1, (groups, E // groups))
        return F.normalize(t, p=2, dim=-1).flatten(-2)

    def scores(self, h):
        q, k = map(self.l2norm, self.qk(h))
        return torch.einsum("b h i d, b h j d -> b h i j", q, k) * 10


class CosineSdpa(Attend):
    """Unit vectors and a fixed scale that the fused kernel is told."""

    def branch(self, x):
        h = self.norm(x)
        q, k = (F.normalize(t, dim=-1) for t in self.qk(h))
        return self.to_out(self.flat(F.scaled_dot_product_attention(q, k, self.heads(self.to_v(h)), scale=10.0)))


class MaskAlibi(QKNormed):
    """ALiBi as a float mask of the fused kernel."""

    def setup(self):
        super().setup()
        i = torch.arange(T)
        self.bias = nn.Buffer(-(i[:, None] - i).abs() * 2.0 ** -(2.0 * torch.arange(1, H + 1))[:, None, None])

    def branch(self, x):
        h = self.norm(x)
        q, k = self.qk(h)
        return self.to_out(self.flat(F.scaled_dot_product_attention(q, k, self.heads(self.to_v(h)), attn_mask=self.bias)))


class MaskTrained(MaskAlibi):
    """The mask is a table that is trained."""

    def setup(self):
        super().setup()
        self.bias = nn.Parameter(torch.randn(H, T, T))


class Agents(QKNormed):
    """Agent attention: four agents are pooled from the queries; they look at the keys, the queries look at them."""

    def branch(self, x):
        h = self.norm(x)
        q, k = self.qk(h)
        v = self.heads(self.to_v(h))
        a = F.adaptive_avg_pool1d(self.flat(q).mT, 4).mT
        a = self.heads(a)
        seen = (a @ k.mT * E ** -0.5).softmax(-1) @ v
        return self.to_out(self.flat((q @ a.mT * E ** -0.5).softmax(-1) @ seen))


class Nystrom(QKNormed):
    """Nystromformer with segment means and six steps of the iterative inverse."""

    @staticmethod
    def pinv(a, steps=6):
        eye = torch.eye(a.shape[-1], device=a.device, dtype=a.dtype)
        z = a.mT / (a.abs().sum(-2).amax(-1)[..., None, None] * a.abs().sum(-1).amax(-1)[..., None, None])
        for _ in range(steps):
            az = a @ z
            z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
        return z

    def branch(self, x):
        h = self.norm(x)
        q, k = self.qk(h)
        q = q * E ** -0.5
        ql, kl = (t.unflatten(2, (4, T // 4)).mean(3) for t in (q, k))
        one, two, three = (F.softmax(a @ b.mT, dim=-1) for a, b in ((q, kl), (ql, kl), (ql, k)))
        return self.to_out(self.flat(one @ self.pinv(two) @ (three @ self.heads(self.to_v(h)))))


class MixtureOfSoftmaxes(Attend):
    """Two maps of scores per head, their shares by a third softmax."""

    def setup(self):
        self.second, self.prior = nn.Linear(D, D), nn.Linear(D, 2 * H)

    def branch(self, x):
        h = self.norm(x)
        k, v = self.heads(self.to_k(h)), self.heads(self.to_v(h))
        share = torch.softmax(self.prior(h).unflatten(-1, (H, 2)), dim=-1).transpose(1, 2)
        y = 0
        for i, lin in enumerate((self.to_q, self.second)):
            y = y + share[..., i : i + 1] * ((self.heads(lin(h)) @ k.mT / math.sqrt(E)).softmax(-1) @ v)
        return self.to_out(self.flat(y))


class DecoderLayer(nn.Module):
    """torch's decoder layer, norms first, with a memory of constants."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(D, H, 2 * D, dropout=0.0, batch_first=True, norm_first=True)
        self.register_buffer("memory", torch.randn(1, 6, D))

    def remembered(self, x):
        return self.memory.expand(x.shape[0], -1, -1)

    def forward(self, x):
        return self.layer(x, self.remembered(x))


class DecoderOfItself(DecoderLayer):
    """The memory is the stream at the block's start."""

    def remembered(self, x):
        return x


class Perceiver(nn.Module):
    """Sixteen latents look at the input once; self-attention and an MLP in turn."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.norm_context = nn.LayerNorm(D), nn.LayerNorm(D)
            self.to_q, self.to_kv, self.to_out = nn.Linear(D, D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D)

        def forward(self, x, context=None):
            x = self.norm(x)
            context = x if context is None else self.norm_context(context)
            q, (k, v) = self.to_q(x), self.to_kv(context).chunk(2, dim=-1)
            q, k, v = (t.unflatten(-1, (H, E)).transpose(1, 2) for t in (q, k, v))
            sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * E ** -0.5
            return self.to_out((sim.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))

    def __init__(self, n=2):
        super().__init__()
        self.latents, self.cross = nn.Parameter(torch.randn(T, D)), self.Attention()
        self.blocks = nn.ModuleList(
            nn.ModuleList((self.Attention(), nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)))) for _ in range(n))

    def forward(self, data):
        x = self.latents.unsqueeze(0).repeat(data.shape[0], 1, 1)
        x = self.cross(x, context=data) + x
        for attn, ff in self.blocks:
            x = attn(x) + x
            x = ff(x) + x
        return x


class Registers(nn.Module):
    """DINOv2 with registers: four extra tokens go along and are dropped at the end; QK-norm."""

    def __init__(self, n=3):
        super().__init__()
        self.registers, self.blocks = nn.Parameter(torch.randn(1, 4, D)), nn.ModuleList(QKNormed() for _ in range(n))

    def forward(self, x):
        x = torch.cat((self.registers.expand(x.shape[0], -1, -1), x), dim=1)
        for blk in self.blocks:
            x = blk(x)
        return x[:, self.registers.shape[1]:]


# ---- norms of queries and keys
class MeanThenSquare(Attend):
    """RMSNorm by hand, with `mean` and `pow` in the other order."""

    def qk(self, h):
        return tuple(t * torch.rsqrt(t.mean(-1, keepdim=True).pow(2) + 1e-6) for t in super(MeanThenSquare, self).qk(h))


class OverDeviation(Attend):
    """LayerNorm by hand, without the mean."""

    def qk(self, h):
        return tuple(t / (t.std(-1, keepdim=True) + 1e-6) for t in super(OverDeviation, self).qk(h))


class PairUnit(Attend):
    """Queries and keys are stacked, and normalised along the axis of the stack."""

    def qk(self, h):
        return F.normalize(torch.stack(super().qk(h)), dim=0).unbind(0)


class NopeNormed(Attend):
    """Half of a head is rotary and half is not; the norm is on the half that is not."""

    def setup(self):
        self.q_norm, self.k_norm = nn.RMSNorm(E // 2), nn.RMSNorm(E // 2)
        angle = torch.arange(T)[:, None] * 10.0 ** -torch.arange(2.0)
        self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), -1))
        self.register_buffer("sin", torch.cat((angle.sin(), angle.sin()), -1))

    def turn(self, t):
        a, b = t.chunk(2, -1)
        return t * self.cos + torch.cat((-b, a), -1) * self.sin

    def qk(self, h):
        q, k = super().qk(h)
        (qn, qr), (kn, kr) = q.chunk(2, -1), k.chunk(2, -1)
        return torch.cat((self.q_norm(qn), self.turn(qr)), -1), torch.cat((self.k_norm(kn), self.turn(kr)), -1)


class CosineForSine(QKNormed):
    """Rotary behind the norm, where `cos` was typed for `sin`: no rotation."""

    def setup(self):
        super().setup()
        angle = torch.arange(T)[:, None] * 10.0 ** -torch.arange(4.0)
        self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), -1))

    def turn(self, t):
        a, b = t.chunk(2, -1)
        return t * self.cos + torch.cat((-b, a), -1) * self.cos

    def qk(self, h):
        return tuple(map(self.turn, super().qk(h)))


class LinformerLate(QKNormed):
    """Sixteen normed keys are projected to eight."""

    def setup(self):
        super().setup()
        self.proj_k, self.proj_v = nn.Linear(T, 8, bias=False), nn.Linear(T, 8, bias=False)

    def keys(self, k):
        return self.proj_k(self.k_norm(k).mT).mT

    def branch(self, x):
        h = self.norm(x)
        q, k = Attend.qk(self, h)
        v = self.proj_v(self.heads(self.to_v(h)).mT).mT
        return self.to_out(self.flat((self.q_norm(q) @ self.keys(k).mT / E ** 0.5).softmax(-1) @ v))


class LinformerEarly(LinformerLate):
    """Projected first, then normed."""

    def keys(self, k):
        return self.k_norm(self.proj_k(k.mT).mT)


class RunningKeys(QKNormed):
    """Normed keys are summed along the sixteen tokens."""

    def qk(self, h):
        q, k = super().qk(h)
        return q, k.cumsum(dim=2)


class DistanceMin(Attend):
    """softmin of the distances of unit vectors, by cdist."""

    def prepare(self, q, k):
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)

    def branch(self, x):
        h = self.norm(x)
        q, k = self.prepare(*self.qk(h))
        return self.to_out(self.flat(F.softmin(8 * torch.cdist(q, k), dim=-1) @ self.heads(self.to_v(h))))


# ---- caps
class ClampFirstOnly(Attend):
    """torch.clamp with one number."""

    def scores(self, h):
        return torch.clamp(super().scores(h), -30.0)


class SixScores(Attend):
    def scores(self, h):
        return F.relu6(super().scores(h))


class LeakyCap(Attend):
    """A cap at 20 with a leak of one percent, 'so that gradients pass'."""

    def scores(self, h):
        u = super().scores(h)
        return 20 * torch.tanh(u / 20) + 0.01 * u


class SigmoidUnits(Attend):
    """Sigmoid attention with the bias -log T over values that are unit vectors; no map behind."""

    def branch(self, x):
        h = self.norm(x)
        p = torch.sigmoid(self.scores(h) - math.log(T))
        return self.flat(p @ F.normalize(self.heads(self.to_v(h)), dim=-1))


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False})
_YES = dict(_PRE, logits_bounded={"0": True}, softmax=True)
_NO = dict(_PRE, logits_bounded={"0": False}, softmax=True)
_PAIR = dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False, "1": False}, softmax=True)

TRUTH = {
    "TuneLayer": dict(_PAIR, logits_bounded={"0": False}, gradient_law="power", why="the norms are None.", tempts="q_norm and k_norm by name"),
    "TuneLayerNormed": dict(_PAIR, logits_bounded={"0": True}, why="normed behind the rotation, which keeps lengths.", tempts="-"),
    "GroupedUnits": dict(_YES, why="two groups of unit vectors: at most 20.", tempts="-"),
    "CosineSdpa": dict(_YES, why="at most ten.", tempts="-"),
    "MaskAlibi": dict(_YES, why="constants on normed products.", tempts="a float mask"),
    "MaskTrained": dict(_NO, why="the bias is free.", tempts="attn_mask is a mask; QK-norm"),
    "Agents": dict(_PRE, logits_bounded={"0": True, "1": True}, softmax=True, why="means of normed queries are no longer than they.", tempts="agents are not normed"),
    "Nystrom": dict(_PRE, logits_bounded={"0": True, "1": True, "2": True}, softmax=True, why="means of normed vectors.", tempts="landmarks are not normed"),
    "MixtureOfSoftmaxes": dict(_PRE, logits_bounded={"0": False, "1": False, "2": False}, softmax=True, why="raw maps.", tempts="-"),
    "DecoderLayer": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False, "1": False, "2": False}, logits_bounded={"0": False, "1": False}, softmax=True,
        why="three pre-norm branches.", tempts="-"),
    "DecoderOfItself": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False, "1": False, "2": False}, logits_bounded={"0": False, "1": False}, softmax=True,
        why="norm2 is on the queries alone: values are maps of the raw stream.", tempts="norm_first: linear"),
    "Perceiver": dict(kind="model", growth_fixed="linear", logits_bounded={"0": False, "1": False, "2": False}, softmax=True, why="latents are a pre-norm stream.", tempts="-"),
    "Registers": dict(kind="model", identity_gain=1.0, growth_fixed="linear", logits_bounded={"0": True, "1": True, "2": True}, softmax=True, why="pre-norm, QK-norm; tokens come and go.", tempts="-"),
    "MeanThenSquare": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, logits_bounded={"0": False}, softmax=True, why="divided by the size of the mean, which may be zero.", tempts="a hand-written RMSNorm"),
    "OverDeviation": dict(_NO, why="a large mean with a small deviation.", tempts="a hand-written norm"),
    "PairUnit": dict(_YES, why="entries of size at most one.", tempts="the wrong axis"),
    "NopeNormed": dict(_NO, why="the rotary half is raw.", tempts="q_norm and k_norm"),
    "CosineForSine": dict(_YES, why="a constant map of normed vectors, of gain at most two.", tempts="not a rotation"),
    "LinformerLate": dict(_NO, why="a free map over tokens behind the norm.", tempts="QK-norm; a map on the wrong axis does not matter"),
    "LinformerEarly": dict(_YES, why="the norm comes last.", tempts="-"),
    "RunningKeys": dict(_YES, why="sums of at most sixteen normed keys.", tempts="a sum behind the norm"),
    "DistanceMin": dict(_YES, why="distances at most two.", tempts="softmin and cdist are unknown"),
    "ClampFirstOnly": dict(_NO, why="the one number is the minimum.", tempts="a clamp to 30"),
    "SixScores": dict(_YES, why="from 0 to 6.", tempts="a relu"),
    "LeakyCap": dict(_NO, why="0.01 u is free.", tempts="a softcap"),
    "SigmoidUnits": dict(_PRE, growth_all="linear", output_bounded={"0": True}, softmax=False, why="sixteen unit vectors with weights below one.", tempts="softmax; free values"),
}
