"""Whole models, as they are sent for review: residuals handed on beside states, shared experts, attention over depth, pooled pictures, library stacks, loops, two halves, two towers, denoisers, series in their own units."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 64
HD = D // H

_G = torch.Generator().manual_seed(429)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_IDS = torch.randint(0, V, (2, T), generator=_G)
_IMG = _draw(2, 3, 16, 16)
example_inputs = {
    **{k: (_IDS,) for k in ("FusedAddLm", "FusedAddLmLean", "SharedExpertLm", "SharedExpertLmEarly", "DepthAttentionLm", "LibraryLm", "LibraryLmPreNorm", "LoopedLm")},
    **{k: (_IMG,) for k in ("PooledVit", "PooledVitAverage")},
    "RelativeTranslator": (_IDS, _IDS[:, :10].clone()),
    "TwoTowers": (_IMG, _IDS),
    "PlaneDenoiser": (_draw(2, 4, 16, 16), torch.tensor([0.3, 0.8])),
    "OwnUnitsForecaster": (_draw(2, 48, 3) * 5 + 20,),
}


def lin(i, o, bias=False, std=None):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5 if std is None else std)
    if bias:
        nn.init.zeros_(m.bias)
    return m


class Mlp(nn.Sequential):
    def __init__(self, act=nn.GELU, hidden=2 * D):
        super().__init__(lin(D, hidden), act(), lin(hidden, D))


class Attn(nn.Module):
    def __init__(self, causal=True, scale=None):
        super().__init__()
        self.q, self.kv, self.o, self.causal, self.scale = lin(D, D), lin(D, 2 * D), lin(D, D), causal, scale

    def forward(self, h, memory=None, bias=None):
        k, v = self.kv(h if memory is None else memory).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (self.q(h), k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=self.causal and bias is None, scale=self.scale)
        return self.o(y.transpose(1, 2).flatten(2))


class PreBlock(nn.Module):
    def __init__(self, causal=True, norm=nn.LayerNorm):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = norm(D), norm(D), Attn(causal), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


# ------------------------------------------------------------------ residuals beside states
class GatedScan(nn.Module):
    """A short filter, a decay from the token, a gate."""

    def __init__(self):
        super().__init__()
        self.in_proj, self.dt, self.out_proj = lin(D, 2 * D), lin(D, D, True), lin(D, D)
        self.conv, self.a_log = nn.Conv1d(D, D, 4, padding=3, groups=D), nn.Parameter(torch.zeros(D))

    def forward(self, h):
        u, z = self.in_proj(h).chunk(2, dim=-1)
        u = F.silu(self.conv(u.mT)[..., : u.shape[1]].mT)
        dt = F.softplus(self.dt(u))
        keep, s, ys = torch.exp(-dt * self.a_log.exp()), torch.zeros_like(u[:, 0]), []
        for a, b in zip(keep.unbind(1), (dt * u).unbind(1)):
            s = a * s + b
            ys.append(s)
        return self.out_proj(torch.stack(ys, dim=1) * F.silu(z))


class FusedAddBlock(nn.Module):
    """The sum of the layer below is done here, together with the norm; the sum is handed on beside what the mixer gives."""

    def __init__(self):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(D), GatedScan()

    def forward(self, hidden, residual=None):
        residual = hidden if residual is None else hidden + residual
        return self.mixer(self.norm(residual)), residual


class FusedAddLm(nn.Module):
    """States and residuals; both go into the last norm."""

    def __init__(self, n=None):
        super().__init__()
        self.embedding, self.blocks, self.norm_f, self.lm_head = nn.Embedding(V, D), nn.ModuleList(FusedAddBlock() for _ in range(n or 8)), nn.RMSNorm(D), lin(D, V)

    def trunk(self, hidden):
        residual = None
        for layer in self.blocks:
            hidden, residual = layer(hidden, residual)
        return hidden + residual

    def forward(self, ids):
        return self.lm_head(self.norm_f(self.trunk(self.embedding(ids))))


class FusedAddLmLean(FusedAddLm):
    """The last layer has no layer above it that would need the residual."""

    def trunk(self, hidden):
        residual = None
        for layer in self.blocks:
            hidden, residual = layer(hidden, residual)
        return hidden


# ------------------------------------------------------------------ shared experts
class SharedExpertBlock(nn.Module):
    """The best two of four nets, by a softmax of all, and one for all tokens."""

    def __init__(self, experts=4, k=2):
        super().__init__()
        self.k, self.attn_norm, self.ffn_norm, self.attn = k, nn.RMSNorm(D), nn.RMSNorm(D), Attn()
        self.gate, self.experts, self.shared = lin(D, experts), nn.ModuleList(Mlp(nn.SiLU) for _ in range(experts)), Mlp(nn.SiLU)

    def routed(self, h):
        share, index = self.gate(h).softmax(dim=-1).topk(self.k, dim=-1)
        share = torch.zeros(*h.shape[:-1], len(self.experts), dtype=h.dtype, device=h.device).scatter(-1, index, share)
        return sum(share[..., i, None] * e(h) for i, e in enumerate(self.experts))

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        h = self.ffn_norm(x)
        return x + (self.routed(h) + self.shared(h))


class SharedExpertBlockEarly(SharedExpertBlock):
    """The net for all tokens starts while tokens are still being sorted."""

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        identity = x
        y = self.routed(self.ffn_norm(x))
        y = y + self.shared(identity)
        return x + y


class SharedExpertLm(nn.Module):
    block = SharedExpertBlock

    def __init__(self, n=None):
        super().__init__()
        self.embed_tokens, self.blocks, self.norm, self.lm_head = nn.Embedding(V, D), nn.ModuleList(self.block() for _ in range(n or 6)), nn.RMSNorm(D), lin(D, V)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids):
        return self.lm_head(self.norm(self.trunk(self.embed_tokens(ids))))


class SharedExpertLmEarly(SharedExpertLm):
    block = SharedExpertBlockEarly


# ------------------------------------------------------------------ attention over depth
class DepthReader(nn.Module):
    """A trained query weighs norms of all states so far; states themselves are summed by these shares."""

    def __init__(self):
        super().__init__()
        self.query, self.norm = nn.Parameter(torch.zeros(D)), nn.RMSNorm(D)

    def forward(self, states):
        s = torch.stack(states)
        w = torch.einsum("nbtd,d->nbt", self.norm(s), self.query).softmax(dim=0)
        return torch.einsum("nbt,nbtd->btd", w, s)


class DepthAttentionLm(nn.Module):
    """In place of sums: each half reads a mean over what all halves below it gave, the embedding first."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.wte, self.blocks, self.readers = nn.Embedding(V, D), nn.ModuleList(nn.ModuleList((nn.Sequential(nn.RMSNorm(D), Attn()), nn.Sequential(nn.RMSNorm(D), Mlp()))) for _ in range(n)), nn.ModuleList(DepthReader() for _ in range(2 * n + 1))
        self.norm, self.head = nn.RMSNorm(D), lin(D, V)

    def trunk(self, x):
        states, readers = [x], iter(self.readers)
        for halves in self.blocks:
            for half in halves:
                states.append(half(next(readers)(states)))
        return next(readers)(states)

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.wte(ids))))


# ------------------------------------------------------------------ pooled pictures
class PooledVit(nn.Module):
    """Tokens are normed, or what is pooled of them is."""

    def __init__(self, n=None, pool="token", fc_norm=None):
        super().__init__()
        use_fc_norm = pool == "avg" if fc_norm is None else fc_norm
        self.pool, self.patch, self.cls_token, self.pos = pool, nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 17, D) * 0.1)
        self.blocks = nn.Sequential(*(PreBlock(causal=False) for _ in range(n or 5)))
        self.norm = nn.Identity() if pool == "avg" else nn.LayerNorm(D)
        self.fc_norm, self.head = nn.LayerNorm(D) if use_fc_norm else nn.Identity(), lin(D, 10, True)

    def trunk(self, x):
        return self.blocks(x)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
        x = self.norm(self.trunk(x))
        x = x[:, 1:].mean(dim=1) if self.pool == "avg" else x[:, 0]
        return self.head(self.fc_norm(x))


class PooledVitAverage(PooledVit):
    """The mean of tokens, from a checkpoint without a norm of what is pooled."""

    def __init__(self, n=None):
        super().__init__(n, pool="avg", fc_norm=False)


# ------------------------------------------------------------------ library stacks
class LibraryLm(nn.Module):
    """The library's stack as it comes, with norms behind sums."""

    norm_first = False

    def __init__(self, n=None):
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=self.norm_first)
        self.embed, self.pos, self.encoder, self.decoder = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.1), nn.TransformerEncoder(layer, n or 6, enable_nested_tensor=False), lin(D, V)

    @property
    def blocks(self):
        return self.encoder.layers

    def trunk(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        return self.encoder(x, mask=mask, is_causal=True)

    def forward(self, ids):
        return self.decoder(self.trunk(self.embed(ids) * math.sqrt(D) + self.pos[: ids.shape[1]]))


class LibraryLmPreNorm(LibraryLm):
    """One flag, for stability."""

    norm_first = True


# ------------------------------------------------------------------ loops
class LoopedLm(nn.Module):
    """One block, many times; the embedding is added to the state in front of each pass."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.embed, self.block, self.norm, self.head = n or 8, nn.Embedding(V, D), PreBlock(norm=nn.RMSNorm), nn.RMSNorm(D), lin(D, V)

    def trunk(self, e):
        x = torch.zeros_like(e)
        for _ in range(self.n):
            x = self.block(x + e)
        return x

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.embed(ids))))


# ------------------------------------------------------------------ two halves
@dataclass
class RelativeConfig:
    layers: int = 4
    buckets: int = 8
    eps: float = 1e-6
    hidden: int = field(default=2 * D)


class RelativeLayer(nn.Module):
    def __init__(self, c, cross=False):
        super().__init__()
        norm = lambda: nn.RMSNorm(D, eps=c.eps)
        self.n_self, self.n_ff, self.self_attn, self.ff = norm(), norm(), Attn(False, scale=1.0), Mlp(nn.ReLU, c.hidden)
        nn.init.normal_(self.self_attn.q.weight, std=(D * HD) ** -0.5)
        self.n_cross, self.cross = (norm(), Attn(False, scale=1.0)) if cross else (None, None)

    def forward(self, x, bias, memory=None):
        x = x + self.self_attn(self.n_self(x), bias=bias)
        if self.cross is not None:
            x = x + self.cross(self.n_cross(x), memory)
        return x + self.ff(self.n_ff(x))


class RelativeTranslator(nn.Module):
    """Scores without a temperature, which is in the draws of queries; one table of distances for all layers of a half; tied embeddings, scaled at the end."""

    def __init__(self, n=None):
        super().__init__()
        c = RelativeConfig(layers=n or 4)
        self.c, self.shared, self.enc_bias, self.dec_bias = c, nn.Embedding(V, D), nn.Embedding(c.buckets, H), nn.Embedding(c.buckets, H)
        self.encoder, self.blocks = nn.ModuleList(RelativeLayer(c) for _ in range(c.layers)), nn.ModuleList(RelativeLayer(c, True) for _ in range(c.layers))
        self.enc_norm, self.dec_norm = nn.RMSNorm(D, eps=c.eps), nn.RMSNorm(D, eps=c.eps)

    def distances(self, table, n):
        i = torch.arange(n, device=table.weight.device)
        return table((i[:, None] - i).abs().clamp(max=self.c.buckets - 1)).permute(2, 0, 1).unsqueeze(0)

    def trunk(self, x, memory):
        n = x.shape[1]
        bias = self.distances(self.dec_bias, n) + torch.full((n, n), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        for layer in self.blocks:
            x = layer(x, bias, memory)
        return x

    def forward(self, src, tgt):
        m, bias = self.shared(src), self.distances(self.enc_bias, src.shape[1])
        for layer in self.encoder:
            m = layer(m, bias)
        y = self.dec_norm(self.trunk(self.shared(tgt), self.enc_norm(m)))
        return F.linear(y * D ** -0.5, self.shared.weight)


# ------------------------------------------------------------------ two towers
class TwoTowers(nn.Module):
    """A picture and a text, each as a unit vector; their products times a trained temperature."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 4
        self.patch, self.pos_v, self.ln_pre, self.ln_post = nn.Conv2d(3, D, 4, 4, bias=False), nn.Parameter(torch.randn(16, D) * 0.1), nn.LayerNorm(D), nn.LayerNorm(D)
        self.tokens, self.pos_t, self.ln_final = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.1), nn.LayerNorm(D)
        self.visual, self.text = nn.Sequential(*(PreBlock(False) for _ in range(n))), nn.Sequential(*(PreBlock() for _ in range(n)))
        self.proj_v, self.proj_t, self.logit_scale = lin(D, 24), lin(D, 24), nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, img, ids):
        v = self.visual(self.ln_pre(self.patch(img).flatten(2).mT + self.pos_v))
        t = self.text(self.tokens(ids) + self.pos_t[: ids.shape[1]])
        v = F.normalize(self.proj_v(self.ln_post(v.mean(dim=1))), dim=-1)
        t = F.normalize(self.proj_t(self.ln_final(t)[:, -1]), dim=-1)
        return self.logit_scale.exp() * v @ t.T


# ------------------------------------------------------------------ denoisers
class TimeUnit(nn.Module):
    def __init__(self, i, o, emb=32):
        super().__init__()
        self.in_layers, self.emb = nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1)), nn.Sequential(nn.SiLU(), nn.Linear(emb, 2 * o))
        self.norm, self.last = nn.GroupNorm(8, o), nn.Sequential(nn.SiLU(), nn.Conv2d(o, o, 3, padding=1))
        self.skip = nn.Identity() if i == o else nn.Conv2d(i, o, 1)

    def forward(self, x, emb):
        scale, shift = self.emb(emb)[..., None, None].chunk(2, dim=1)
        h = self.norm(self.in_layers(x)) * (1 + scale) + shift
        return self.skip(x) + self.last(h)


class PlaneDenoiser(nn.Module):
    """Two resolutions; what goes up is put beside what went down."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 2
        self.time, self.enter = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32)), nn.Conv2d(4, D, 3, padding=1)
        self.fine, self.down, self.coarse, self.up = nn.ModuleList(TimeUnit(D, D) for _ in range(n)), nn.Conv2d(D, D, 3, 2, 1), nn.ModuleList(TimeUnit(D, D) for _ in range(n)), nn.Conv2d(D, D, 3, padding=1)
        self.back, self.out = nn.ModuleList(TimeUnit(2 * D, D) for _ in range(n)), nn.Sequential(nn.GroupNorm(8, D), nn.SiLU(), nn.Conv2d(D, 4, 3, padding=1))

    def forward(self, x, t):
        f = t[:, None] * torch.exp(torch.linspace(0, 5, 8, device=t.device, dtype=t.dtype))
        emb, x, kept = self.time(torch.cat((f.sin(), f.cos()), dim=-1)), self.enter(x), []
        for unit in self.fine:
            x = unit(x, emb)
            kept.append(x)
        x = self.down(x)
        for unit in self.coarse:
            x = unit(x, emb)
        x = self.up(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        for unit in self.back:
            x = unit(torch.cat((x, kept.pop()), dim=1), emb)
        return self.out(x)


# ------------------------------------------------------------------ series in their own units
class OwnUnitsForecaster(nn.Module):
    """Each series is brought to mean nothing and length one, and what is said of it is brought back."""

    def __init__(self, n=None, patch=6, horizon=12):
        super().__init__()
        self.patch, self.embed, self.pos = patch, lin(patch, D, True), nn.Parameter(torch.randn(8, D) * 0.1)
        self.blocks, self.norm, self.head = nn.ModuleList(PreBlock(causal=False) for _ in range(n or 4)), nn.LayerNorm(D), lin(8 * D, horizon, True)

    def trunk(self, x):
        for b in self.blocks:
            x = b(x)
        return x

    def forward(self, series):
        mean = series.mean(dim=1, keepdim=True).detach()
        std = (series.var(dim=1, keepdim=True, unbiased=False) + 1e-5).sqrt().detach()
        x = ((series - mean) / std).permute(0, 2, 1).unfold(-1, self.patch, self.patch).flatten(0, 1)
        x = self.norm(self.trunk(self.embed(x) + self.pos))
        y = self.head(x.flatten(1)).unflatten(0, (series.shape[0], -1)).transpose(1, 2)
        return y * std + mean


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
_ONE, _TWO, _OPEN = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "FusedAddLm": dict(_M, depth=8, softmax=False, **_ONE, gradient_law="power", sound=True, why="pre-norm; sums are done one layer later, and the last one in front of the last norm."),
    "FusedAddLmLean": dict(kind="model", softmax=False, sound=False, why="the head reads what the last mixer gave, and not the stream: the residual is dropped at the end."),
    "SharedExpertLm": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm, a norm in front of the head; both kinds of nets read the norm."),
    "SharedExpertLmEarly": dict(kind="model", depth=6, growth_fixed="exponential", softmax=True, sound=False, why="the shared net reads the stream: of degree one."),
    "DepthAttentionLm": dict(kind="model", growth_fixed="bounded", softmax=True, why="means over depth of functions of norms and of the embedding: no sum."),
    "PooledVit": dict(_M, depth=5, softmax=True, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, a norm in front of the head."),
    "PooledVitAverage": dict(_M, depth=5, softmax=True, **_TWO, **_OPEN, gradient_law="power", sound=False, why="neither tokens nor their mean are normed: the head reads a stream that grows with depth."),
    "LibraryLm": dict(kind="model", depth=6, growth_fixed="bounded", growth_all="bounded", softmax=True, **_OPEN, sound=True, why="post-norm, six layers."),
    "LibraryLmPreNorm": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, sound=False, why="pre-norm, and the stack was given no last norm."),
    "LoopedLm": dict(kind="model", growth_fixed="linear", softmax=True, why="pre-norm, one block; the embedding is added once a pass: linear. The gain is the number of passes, or one, as it is counted."),
    "RelativeTranslator": dict(_M, softmax=True, sound=True, why="pre-norm in both halves, a norm behind each; three branches in the decoder, two in the encoder."),
    "TwoTowers": dict(kind="model", softmax=True, sound=True, why="pre-norm in both towers, a norm behind each."),
    "PlaneDenoiser": dict(kind="model", softmax=False, sound=True, why="pre-norm units; maps where widths change."),
    "OwnUnitsForecaster": dict(_M, depth=4, softmax=True, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, a norm in front of the head."),
}
