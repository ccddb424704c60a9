"""Attention as it is written lately: packed documents, shared keys, latent heads, sparse branches, other shares than those of softmax."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


def heads(t, n=H):
    return t.unflatten(-1, (n, -1)).transpose(1, 2)


def merge(t):
    return t.transpose(1, 2).flatten(2)


def rope(x):
    t, d = torch.arange(x.shape[-2], device=x.device, dtype=x.dtype), x.shape[-1] // 2
    a = t[:, None] * 10000.0 ** (-torch.arange(d, device=x.device, dtype=x.dtype) / d)
    c, s = a.cos(), a.sin()
    u, v = x.chunk(2, -1)
    return torch.cat((u * c - v * s, u * s + v * c), -1)


class SwiGlu(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.w13, self.w2 = lin(D, 2 * hidden), lin(hidden, D)

    def forward(self, x):
        g, u = self.w13(x).chunk(2, -1)
        return self.w2(F.silu(g) * u)


class Unweighted(nn.Module):
    def forward(self, x):
        return F.rms_norm(x, (x.size(-1),))


class VarlenPacked(nn.Module):
    """A packed batch: tokens of all rows in one row, split by cumulated lengths, one call a document."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.wqkv, self.wo, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), SwiGlu()
        self.cu_seqlens = (0, 5, 16, 19, 32)

    def attn(self, h):
        b, t, _ = h.shape
        q, k, v = self.wqkv(h.reshape(b * t, D)).view(-1, 3, H, HD).unbind(1)
        out = []
        for s, e in zip(self.cu_seqlens[:-1], self.cu_seqlens[1:]):
            qi, ki, vi = (z[s:e].transpose(0, 1).unsqueeze(0) for z in (q, k, v))
            out.append(F.scaled_dot_product_attention(qi, ki, vi, is_causal=True).squeeze(0).transpose(0, 1))
        return self.wo(torch.cat(out).reshape(b, t, D))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class DocumentMask(nn.Module):
    """Documents of a packed row by a count of ends; queries and keys normed behind the turn."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(HD), nn.RMSNorm(HD)
        self.qkv, self.o, self.mlp = lin(D, 3 * D), lin(D, D), SwiGlu()
        ends = torch.zeros(T, dtype=torch.long)
        ends[[4, 10]] = 1
        doc = torch.cumsum(ends, 0) - ends
        i = torch.arange(T)
        self.register_buffer("mask", (doc[:, None] == doc[None]) & (i[:, None] >= i[None]), persistent=False)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        q, k = self.q_norm(rope(q)), self.k_norm(rope(k))
        x = x + self.o(merge(F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)))
        return x + self.mlp(self.norm2(x))


class KvShared(nn.Module):
    """The upper half has queries of its own and reads keys and values of the last layer below it."""

    def __init__(self, n=None):
        super().__init__()
        self.n = n = n or 8
        self.layer = nn.ModuleList(nn.ModuleDict({"n1": nn.RMSNorm(D), "n2": nn.RMSNorm(D), "q": lin(D, D), "o": lin(D, D), "mlp": SwiGlu()}) for _ in range(n))
        self.kv = nn.ModuleList(lin(D, 2 * HD) for _ in range(n // 2))

    def forward(self, x):
        cache = None
        for i, b in enumerate(self.layer):
            h = b["n1"](x)
            if i < self.n // 2:
                k, v = self.kv[i](h).chunk(2, -1)
                cache = (rope(k.unsqueeze(1)), v.unsqueeze(1))
            k, v = (z.expand(-1, H, -1, -1) for z in cache)
            x = x + b["o"](merge(F.scaled_dot_product_attention(rope(heads(b["q"](h))), k, v, is_causal=True)))
            x = x + b["mlp"](b["n2"](x))
        return x


class GemmaNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.zeros(d)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + self.gain)


class LocalGlobal(nn.Module):
    """Five of six layers look at four tokens; norms in front and behind, and on queries and keys; gains as one plus a weight."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        keys = ("in", "post_attn", "pre_ff", "post_ff")
        self.layer = nn.ModuleList(nn.ModuleDict(dict({k: GemmaNorm(D) for k in keys}, qn=GemmaNorm(HD), kn=GemmaNorm(HD), q=lin(D, D), kv=lin(D, 4 * HD),
                                                      o=lin(D, D), g=lin(D, 64), u=lin(D, 64), d=lin(64, D))) for _ in range(n))
        i = torch.arange(T)
        causal = i[:, None] >= i[None]
        self.register_buffer("full", causal)
        self.register_buffer("window", causal & (i[:, None] - i[None] < 4))

    def forward(self, x):
        for i, b in enumerate(self.layer):
            h = b["in"](x)
            q, (k, v) = heads(b["q"](h)), (heads(z, 2).repeat_interleave(2, dim=1) for z in b["kv"](h).chunk(2, -1))
            q, k = rope(b["qn"](q)), rope(b["kn"](k))
            mask = self.full if (i + 1) % 6 == 0 else self.window
            x = x + b["post_attn"](b["o"](merge(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))))
            h = b["pre_ff"](x)
            x = x + b["post_ff"](b["d"](F.gelu(b["g"](h), approximate="tanh") * b["u"](h)))
        return x


class LatentHeads(nn.Module):
    """Multi-head latent attention: queries and key-values by normed latents, one turned key for all heads."""

    qk_norm = False

    def __init__(self, nope=8, rot=4, ql=12, kvl=10):
        super().__init__()
        self.nope, self.rot, self.kvl = nope, rot, kvl
        self.norm1, self.norm2, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), SwiGlu()
        self.q_a, self.q_n, self.q_b = lin(D, ql), nn.RMSNorm(ql), lin(ql, H * (nope + rot))
        self.kv_a, self.kv_n, self.kv_b, self.o = lin(D, kvl + rot), nn.RMSNorm(kvl), lin(kvl, H * (nope + HD)), lin(H * HD, D)
        self.qn, self.kn = nn.RMSNorm(nope), nn.RMSNorm(nope)

    def attn(self, h):
        q_nope, q_pe = heads(self.q_b(self.q_n(self.q_a(h)))).split((self.nope, self.rot), -1)
        c, k_pe = self.kv_a(h).split((self.kvl, self.rot), -1)
        k_nope, v = heads(self.kv_b(self.kv_n(c))).split((self.nope, HD), -1)
        if self.qk_norm:
            q_nope, k_nope = self.qn(q_nope), self.kn(k_nope)
        q = torch.cat((q_nope, rope(q_pe)), -1)
        k = torch.cat((k_nope, rope(k_pe.unsqueeze(1)).expand(-1, H, -1, -1)), -1)
        s = (q @ k.transpose(-1, -2)) * (self.nope + self.rot) ** -0.5
        s = s.masked_fill(torch.ones(T, T, dtype=torch.bool, device=s.device).triu(1), float("-inf"))
        return self.o(merge(s.softmax(-1) @ v))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LatentHeadsNopeNormed(LatentHeads):
    """The same, and norms on the parts that are not turned: those that are turned stay free."""

    qk_norm = True


class LatentFromStream(LatentHeads):
    """The down map of keys and values reads the stream itself; its latent is normed, the turned key is not."""

    def forward(self, x):
        h = self.norm1(x)
        q_nope, q_pe = heads(self.q_b(self.q_n(self.q_a(h)))).split((self.nope, self.rot), -1)
        c, k_pe = self.kv_a(x).split((self.kvl, self.rot), -1)
        k_nope, v = heads(self.kv_b(self.kv_n(c))).split((self.nope, HD), -1)
        q = torch.cat((q_nope, rope(q_pe)), -1)
        k = torch.cat((k_nope, rope(k_pe.unsqueeze(1)).expand(-1, H, -1, -1)), -1)
        x = x + self.o(merge(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.mlp(self.norm2(x))


class LogitsRescaled(nn.Module):
    """Logits are shrunk where the largest passes a hundred; the measure has no gradient."""

    def __init__(self, tau=100.0):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o, self.mlp, self.tau = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), SwiGlu(), tau

    def shrink(self, s):
        top = s.detach().abs().amax(dim=(-2, -1), keepdim=True)
        return s * (self.tau / top.clamp(min=1e-6)).clamp(max=1.0)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        s = self.shrink(q @ k.transpose(-2, -1) / math.sqrt(HD))
        x = x + self.o(merge(torch.softmax(s, -1) @ v))
        return x + self.mlp(self.norm2(x))


class LogitsRescaledSigned(LogitsRescaled):
    """The largest without its absolute value: what is far below zero stays."""

    def shrink(self, s):
        top = s.detach().amax(dim=(-2, -1), keepdim=True)
        return s * (self.tau / top.clamp(min=1e-6)).clamp(max=1.0)


class DifferenceTwo(nn.Module):
    """Differential attention of the second kind: twice the query heads, a sigmoid of the token for the second, no norm by head."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.wq, self.wkv, self.wl, self.wo, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 2 * D), lin(D, 2 * D), lin(D, H), lin(D, D), SwiGlu()

    def attn(self, h):
        q = heads(self.wq(h), 2 * H)
        k, v = (heads(z).repeat_interleave(2, 1) for z in self.wkv(h).chunk(2, -1))
        a = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        a1, a2 = a[:, 0::2], a[:, 1::2]
        lam = torch.sigmoid(self.wl(h)).transpose(1, 2).unsqueeze(-1)
        return self.wo(merge(a1 - lam * a2))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GatedHeadsOut(nn.Module):
    """Gated attention: the query map gives a gate beside each query, norms on queries and keys, sigmoid before the last map."""

    gate = staticmethod(torch.sigmoid)

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.qn, self.kn = GemmaNorm(D), GemmaNorm(D), GemmaNorm(HD), GemmaNorm(HD)
        self.q_proj, self.g_proj, self.kv_proj, self.o_proj, self.mlp = lin(D, D), lin(D, D), lin(D, 2 * D), lin(D, D), SwiGlu()

    def gate_source(self, x, h):
        return h

    def forward(self, x):
        h = self.ln1(x)
        k, v = map(heads, self.kv_proj(h).chunk(2, -1))
        a = F.scaled_dot_product_attention(rope(self.qn(heads(self.q_proj(h)))), rope(self.kn(k)), v, is_causal=True)
        x = x + self.o_proj(merge(a) * self.gate(self.g_proj(self.gate_source(x, h))))
        return x + self.mlp(self.ln2(x))


class GateOfRawSigmoid(GatedHeadsOut):
    """The gate reads the stream in front of the norm: it is a sigmoid, and that is fine."""

    def gate_source(self, x, h):
        return x


class GateOfRawSilu(GateOfRawSigmoid):
    """The same gate with SiLU: the branch grows with the stream."""

    gate = staticmethod(F.silu)


class TalkingHeads(nn.Module):
    """Maps across heads before and after softmax; norms on queries and keys do not bound what the first of them gives."""

    def __init__(self):
        super().__init__()
        self.norm1, self.qn, self.kn, self.qkv, self.o = nn.LayerNorm(D), nn.LayerNorm(HD), nn.LayerNorm(HD), lin(D, 3 * D), lin(D, D)
        self.pre, self.post = nn.Parameter(torch.eye(H) + 0.1 * torch.randn(H, H)), nn.Parameter(torch.eye(H) + 0.1 * torch.randn(H, H))
        self.norm2, self.mlp = nn.LayerNorm(D), SwiGlu()

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        dots = torch.einsum("bhid,bhjd->bhij", self.qn(q), self.kn(k)) * HD ** -0.5
        dots = torch.einsum("bhij,hg->bgij", dots, self.pre)
        attn = torch.einsum("bhij,hg->bgij", dots.softmax(-1), self.post)
        x = x + self.o(merge(torch.einsum("bhij,bhjd->bhid", attn, v)))
        return x + self.mlp(self.norm2(x))


class LengthScaled(nn.Module):
    """Scalable softmax: logits times a learned number and the logarithm of how many tokens are seen, on normed queries and keys."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qn, self.kn, self.qkv, self.o, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), Unweighted(), Unweighted(), lin(D, 3 * D), lin(D, D), SwiGlu()
        self.gain_s = nn.Parameter(torch.full((H, 1, 1), 0.43))
        self.register_buffer("log_n", torch.log(torch.arange(1, T + 1).float()).view(1, 1, T, 1))

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        q = rope(self.qn(q)) * self.gain_s * self.log_n.to(q.dtype)
        x = x + self.o(merge(F.scaled_dot_product_attention(q, rope(self.kn(k)), v, is_causal=True)))
        return x + self.mlp(self.norm2(x))


class ConvolvedScores(nn.Module):
    """Multi-token attention: a small convolution over queries and keys on the scores, masks before and behind, a norm by head."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), SwiGlu()
        self.kq_conv, self.head_norm = nn.Conv2d(H, H, (3, 5), padding=(2, 2), groups=H, bias=False), nn.GroupNorm(H, D)
        nn.init.dirac_(self.kq_conv.weight, groups=H)
        self.register_buffer("future", torch.ones(T, T).triu(1).bool())

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        s = (q @ k.mT * HD ** -0.5).masked_fill(self.future, 0.0)
        s = self.kq_conv(s)[:, :, :T].masked_fill(self.future, float("-inf"))
        y = merge(s.softmax(-1) @ v)
        y = self.head_norm(y.reshape(-1, D)).view_as(y)
        x = x + self.o(y)
        return x + self.mlp(self.norm2(x))


class ProductTensor(nn.Module):
    """Tensor product attention: queries, keys and values are products of two factors of a token, summed over ranks."""

    def __init__(self, rq=3, r=2):
        super().__init__()
        self.norm1, self.norm2, self.mlp, self.o = nn.RMSNorm(D), nn.RMSNorm(D), SwiGlu(), lin(D, D)
        self.a = nn.ModuleDict({k: lin(D, n * H) for k, n in (("q", rq), ("k", r), ("v", r))})
        self.b = nn.ModuleDict({k: lin(D, n * HD) for k, n in (("q", rq), ("k", r), ("v", r))})

    def factor(self, h, key):
        a, b = self.a[key](h).unflatten(-1, (-1, H)), self.b[key](h).unflatten(-1, (-1, HD))
        return torch.einsum("btrh,btrd->bhtd", a, b) / a.shape[2]

    def forward(self, x):
        h = self.norm1(x)
        y = F.scaled_dot_product_attention(rope(self.factor(h, "q")), rope(self.factor(h, "k")), self.factor(h, "v"), is_causal=True)
        x = x + self.o(merge(y))
        return x + self.mlp(self.norm2(x))


class ThreeWaysSparse(nn.Module):
    """Native sparse attention: compressed blocks, the two best blocks, a window; each with a sigmoid of the token."""

    def __init__(self, block=4):
        super().__init__()
        self.block, self.norm1, self.norm2, self.qkv, self.o, self.gates, self.mlp = block, nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), lin(D, 3 * H), SwiGlu()
        self.kc, self.vc = lin(block * HD, HD), lin(block * HD, HD)
        i = torch.arange(T)
        self.register_buffer("causal", i[:, None] >= i[None])
        self.register_buffer("near", (i[:, None] >= i[None]) & (i[:, None] - i[None] < 4))
        self.register_buffer("done", i[:, None] >= (torch.arange(T // block) + 1)[None] * block - 1)

    def attn(self, h):
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        c, n = self.block, T // self.block
        kc, vc = self.kc(k.reshape(*k.shape[:2], n, c * HD)), self.vc(v.reshape(*v.shape[:2], n, c * HD))
        s = (q @ kc.mT * HD ** -0.5).masked_fill(~self.done, -1e9)
        p = s.softmax(-1) * self.done.any(-1, keepdim=True)
        out_c = p @ vc
        own = torch.eye(n, device=h.device).repeat_interleave(c, 0)
        best = (p.sum(1) + 10 * own).topk(2, -1).indices
        chosen = torch.zeros_like(p[:, 0]).scatter(-1, best, 1.0).bool().repeat_interleave(c, -1).unsqueeze(1) & self.causal
        out_s = F.scaled_dot_product_attention(q, k, v, attn_mask=chosen)
        out_w = F.scaled_dot_product_attention(q, k, v, attn_mask=self.near)
        g = torch.sigmoid(self.gates(h)).unflatten(-1, (H, 3)).transpose(1, 2)
        return self.o(merge(g[..., 0:1] * out_c + g[..., 1:2] * out_s + g[..., 2:3] * out_w))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class IndexedTop(nn.Module):
    """A light indexer of ReLUs says which six tokens a query may read; it has no gradient from the reading."""

    def __init__(self, top=6):
        super().__init__()
        self.top, self.norm1, self.norm2, self.qkv, self.o, self.mlp = top, nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), SwiGlu()
        self.iq, self.ik, self.iw = lin(D, 2 * 4), lin(D, 4), lin(D, 2)
        self.register_buffer("future", torch.ones(T, T).triu(1).bool())

    def forward(self, x):
        h = self.norm1(x)
        with torch.no_grad():
            iq, ik, w = self.iq(h).unflatten(-1, (2, 4)), self.ik(h), self.iw(h)
            score = (torch.einsum("bihd,bjd->bihj", iq, ik).relu() * w.unsqueeze(-1)).sum(2).masked_fill(self.future, float("-inf"))
            keep = torch.full_like(score, float("-inf")).scatter_(-1, score.topk(self.top, -1).indices, 0.0).masked_fill(self.future, float("-inf"))
        q, k, v = map(heads, self.qkv(h).chunk(3, -1))
        s = q @ k.mT / HD ** 0.5 + keep.unsqueeze(1)
        x = x + self.o(merge(s.softmax(-1) @ v))
        return x + self.mlp(self.norm2(x))


class SoftPick(nn.Module):
    """Shares that may all be zero: relu(exp s - 1) over the sum of |exp s - 1|, shifted by the largest."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), SwiGlu()

    def share(self, s):
        m = s.amax(-1, keepdim=True)
        e = torch.exp(s - m) - torch.exp(-m)
        return F.relu(e) / (e.abs().sum(-1, keepdim=True) + 1e-6)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.o(merge(self.share(q @ k.mT * HD ** -0.5) @ v))
        return x + self.mlp(self.norm2(x))


class StableShares(SoftPick):
    """s + 1 above zero and 1 / (1 - s) below, over the sum."""

    def share(self, s):
        u = torch.where(s >= 0, s + 1, 1 / (1 - s.clamp(max=0)))
        return u / u.sum(-1, keepdim=True)


class SparseShares(SoftPick):
    """The projection onto the simplex: sort, running sums, a threshold, ReLU."""

    def share(self, s):
        z, _ = s.sort(-1, descending=True)
        r = torch.arange(1, s.shape[-1] + 1, device=s.device, dtype=s.dtype)
        c = z.cumsum(-1) - 1
        n = (r * z > c).sum(-1, keepdim=True)
        return F.relu(s - c.gather(-1, n - 1) / n)


class MuTransferred(nn.Module):
    """Logits over the width of a head, not its root, with a base of eight; branches over the root of depth."""

    def __init__(self, depth=24):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o, self.mlp, self.mult = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 3 * D), lin(D, D), SwiGlu(), depth ** -0.5
        nn.init.zeros_(self.qkv.weight[:D])

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.mult * self.o(merge(F.scaled_dot_product_attention(q, k, v, scale=8 ** 0.5 / HD, is_causal=True)))
        return x + self.mult * self.mlp(self.norm2(x))


class MixedValues(nn.Module):
    """Values of the first layer are mixed into all others by two learned numbers, the embedding into the stream by two more."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 10
        self.layer = nn.ModuleList(nn.ModuleDict({"qkv": lin(D, 3 * D), "o": lin(D, D), "up": lin(D, 64), "down": lin(64, D)}) for _ in range(n))
        self.lamb = nn.ParameterList(nn.Parameter(torch.tensor([0.5, 0.5])) for _ in range(n))
        self.resid = nn.ParameterList(nn.Parameter(torch.tensor([1.0, 0.0])) for _ in range(n))

    def forward(self, x):
        x = x0 = F.rms_norm(x, (D,))
        v1 = None
        for b, lamb, r in zip(self.layer, self.lamb, self.resid):
            x = r[0] * x + r[1] * x0
            q, k, v = map(heads, b["qkv"](F.rms_norm(x, (D,))).chunk(3, -1))
            v1 = v if v1 is None else v1
            v = lamb[0] * v + lamb[1] * v1.view_as(v)
            q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
            x = x + b["o"](merge(F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)))
            x = x + b["down"](F.relu(b["up"](F.rms_norm(x, (D,)))).square())
        return x


class MixedRawValues(MixedValues):
    """The same, and what is mixed in is the stream's own token, not a value of it: as large as the stream."""

    def forward(self, x):
        for b, lamb in zip(self.layer, self.lamb):
            q, k, v = map(heads, b["qkv"](F.rms_norm(x, (D,))).chunk(3, -1))
            v = lamb[0] * v + lamb[1] * heads(x)
            q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
            x = x + b["o"](merge(F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)))
            x = x + b["down"](F.relu(b["up"](F.rms_norm(x, (D,)))).square())
        return x


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_HAND = dict(_PRE, softmax=False)
_TWO = dict(output_bounded={0: False, 1: False})
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "VarlenPacked": dict(_PRE, **_TWO, **_F, why="pre-norm; each document by itself."),
    "DocumentMask": dict(_PRE, **_TWO, **_T, why="pre-norm; norms of eight on both sides, over the root of eight."),
    "KvShared": dict(kind="model", depth=8, identity_gain=1.0, growth_fixed="linear", softmax=True, **_F, why="pre-norm; kept keys and values are of what is normed."),
    "LocalGlobal": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=True, output_bounded={0: True, 1: True}, **_T,
                        why="norms on both sides of each branch and on queries and keys."),
    "LatentHeads": dict(_PRE, **_TWO, **_F, why="maps stand behind the norms of the latents."),
    "LatentHeadsNopeNormed": dict(_PRE, **_TWO, **_F, why="the turned parts are free."),
    "LatentFromStream": dict(_PRE, **_TWO, **_F, why="values come from a norm; the turned key grows with the stream."),
    "LogitsRescaled": dict(_PRE, **_TWO, **_T, why="at most a hundred."),
    "LogitsRescaledSigned": dict(_PRE, **_TWO, **_F, why="nothing bounds them below."),
    "DifferenceTwo": dict(_PRE, **_TWO, **_F, why="pre-norm; a share below one is taken away."),
    "GatedHeadsOut": dict(_PRE, **_TWO, **_T, why="pre-norm; norms on queries and keys."),
    "GateOfRawSigmoid": dict(_PRE, **_TWO, **_T, why="a sigmoid is at most one, whatever it reads."),
    "GateOfRawSilu": dict(_B, growth_fixed="exponential", softmax=True, **_TWO, **_T, why="silu of the stream times a mean of values: of degree one."),
    "TalkingHeads": dict(_PRE, **_TWO, **_F, why="a free map stands behind the products."),
    "LengthScaled": dict(_PRE, **_TWO, why="pre-norm; logits are at most √8 · log 16 · s, s a free number."),
    "ConvolvedScores": dict(_PRE, **_TWO, **_F, why="pre-norm."),
    "ProductTensor": dict(_PRE, **_TWO, **_F, why="pre-norm; products of two maps."),
    "ThreeWaysSparse": dict(_PRE, output_bounded={0: False, 1: False}, why="sums of three means of values, below one each."),
    "IndexedTop": dict(_PRE, **_TWO, why="pre-norm; six of sixteen tokens are read."),
    "SoftPick": dict(_HAND, **_TWO, why="shares of at most one in sum.") | dict(softmax=None),
    "StableShares": dict(_HAND, **_TWO, why="shares.") | dict(softmax=None),
    "SparseShares": dict(_HAND, **_TWO, why="shares.") | dict(softmax=None),
    "MuTransferred": dict(_PRE, **_TWO, **_F, why="pre-norm."),
    "MixedValues": dict(kind="model", depth=10, growth_fixed="linear", softmax=True, why="pre-norm; first values are of a norm; all queries and keys are normed."),
    "MixedRawValues": dict(kind="model", depth=10, growth_fixed="exponential", softmax=True, why="half of each token goes through a free map: degree one."),
}
