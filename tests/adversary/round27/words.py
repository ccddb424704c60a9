"""Pull requests on layers of language models: parallel halves, short filters, gated units, retrieved chunks, compressed pasts, experts that copy or drop, norms inside branches."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(27)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X = _draw(2, T, D)
example_inputs = {
    **{k: (_X,) for k in ("NeoxParallelLayer", "CanonLayer", "CanonStream", "GatedUnitLayer", "GatedUnitShortcut", "RelativeMemoryLayer", "CompressedPastLayer", "LightHeavyLayer", "CosineFeatureLayer",
                          "SubNormLayer", "SubNormFast", "HeadExpertsLayer", "CopyExpertsLayer", "CopyExpertsInPlace", "CapacityLayer", "AveragedGateLayer", "BranchNormLayer", "QueryKeyNormLayer")},
    **{k: (_X, _draw(2, 4, 6, D)) for k in ("RetrievedChunkLayer", "RetrievedChunkShifted")},
    "DualStreamLayer": (_X, _draw(2, T, D)),
}


def proj(i, o, bias=False, gain=1.0):
    layer = nn.Linear(i, o, bias=bias)
    nn.init.normal_(layer.weight, mean=0.0, std=gain * i ** -0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def split_heads(t):
    return t.reshape(*t.shape[:-1], H, HD).transpose(-2, -3)


def join_heads(t):
    return t.transpose(-2, -3).flatten(-2)


class FFN(nn.Module):
    def __init__(self, hidden=64, act=F.gelu):
        super().__init__()
        self.up, self.down, self.act = proj(D, hidden), proj(hidden, D), act

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = proj(D, 3 * D), proj(D, D)

    def forward(self, h):
        q, k, v = map(split_heads, self.qkv(h).chunk(3, dim=-1))
        return self.out(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


# ------------------------------------------------------------------ halves side by side
@dataclass
class NeoxConfig:
    hidden_size: int = D
    rotary_pct: float = 0.5
    layer_norm_eps: float = 1e-5
    use_parallel_residual: bool = True


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class NeoxParallelLayer(nn.Module):
    """Attention and net read one stream by two norms; half of each head is turned by places."""

    def __init__(self, config=None):
        super().__init__()
        self.config = config = config or NeoxConfig()
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.post_attention_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.query_key_value, self.dense, self.mlp = proj(D, 3 * D, True), proj(D, D, True), FFN()
        self.rot = int(HD * config.rotary_pct)
        inv = 1.0 / (10000 ** (torch.arange(0, self.rot, 2) / self.rot))
        angles = torch.outer(torch.arange(T).float(), inv)
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin(), persistent=False)

    def turn(self, t):
        r, p = t[..., : self.rot], t[..., self.rot:]
        return torch.cat((r * self.cos + rotate_half(r) * self.sin, p), dim=-1)

    def attention(self, h):
        b, t, _ = h.shape
        q, k, v = self.query_key_value(h).view(b, t, H, 3 * HD).transpose(1, 2).chunk(3, dim=-1)
        scores = torch.matmul(self.turn(q), self.turn(k).transpose(-1, -2)) / math.sqrt(HD)
        mask = torch.tril(torch.ones(t, t, dtype=torch.bool, device=h.device))
        probs = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
        return self.dense((probs @ v).transpose(1, 2).reshape(b, t, D))

    def forward(self, hidden_states):
        attn = self.attention(self.input_layernorm(hidden_states))
        if self.config.use_parallel_residual:
            return self.mlp(self.post_attention_layernorm(hidden_states)) + attn + hidden_states
        attn = attn + hidden_states
        return self.mlp(self.post_attention_layernorm(attn)) + attn


# ------------------------------------------------------------------ short filters with a skip of their own
class Canon(nn.Module):
    """A causal filter of four tokens a channel, and what it read."""

    def __init__(self, k=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D, 1, k) * 0.5)
        self.k = k

    def forward(self, h):
        y = F.conv1d(F.pad(h.transpose(1, 2), (self.k - 1, 0)), self.weight, groups=D)
        return h + y.transpose(1, 2)


class CanonLayer(nn.Module):
    """Neighbours talk in front of attention and of the net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.canon_a, self.canon_c, self.attn, self.mlp = Canon(), Canon(), CausalAttention(), FFN(act=F.silu)

    def forward(self, x):
        x = x + self.attn(self.canon_a(self.norm1(x)))
        return x + self.mlp(self.canon_c(self.norm2(x)))


class CanonStream(CanonLayer):
    """The same, with filters where both halves profit from them: ahead of the norms."""

    def forward(self, x):
        x = self.canon_a(x)
        x = x + self.attn(self.norm1(x))
        x = self.canon_c(x)
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ gated attention units
class OffsetScale(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.randn(heads, dim)), nn.Parameter(torch.zeros(heads, dim))

    def forward(self, z):
        return (torch.einsum("...d,hd->...hd", z, self.gamma) + self.beta).unbind(dim=-2)


class GatedUnitLayer(nn.Module):
    """One unit for attention and net: squared ReLUs of scores, values gated by a wide map."""

    def __init__(self, wide=48, s=16):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.to_uv, self.to_z, self.to_out = proj(D, 2 * wide), proj(D, s), proj(wide, D)
        self.offset = OffsetScale(s)
        self.register_buffer("causal", torch.tril(torch.ones(T, T)))

    def mixed(self, h, v):
        q, k = self.offset(F.silu(self.to_z(h)))
        sim = torch.einsum("bid,bjd->bij", q, k) / q.shape[-1] ** 0.5
        return (F.relu(sim) ** 2 * self.causal) @ v / math.sqrt(h.shape[1])

    def forward(self, x):
        h = self.norm(x)
        u, v = F.silu(self.to_uv(h)).chunk(2, dim=-1)
        return x + self.to_out(u * self.mixed(h, v))


class GatedUnitShortcut(GatedUnitLayer):
    """Gates from one map, and values from another one, so that they can be cached apart."""

    def __init__(self, wide=48, s=16):
        super().__init__(wide, s)
        del self.to_uv
        self.to_u, self.to_v = proj(D, wide), proj(D, wide)

    def forward(self, x):
        u = F.silu(self.to_u(x))
        h = self.norm(x)
        v = F.silu(self.to_v(h))
        return x + self.to_out(u * self.mixed(h, v))


# ------------------------------------------------------------------ pasts
class RelativeMemoryLayer(nn.Module):
    """Distances by a shifted product of queries with sines, and two trained biases of queries."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.r, self.out, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), proj(D, 3 * D), proj(D, D), proj(D, D), FFN(act=F.relu)
        self.u, self.v = nn.Parameter(torch.randn(H, 1, HD) * 0.1), nn.Parameter(torch.randn(H, 1, HD) * 0.1)
        pos = torch.arange(T - 1, -1, -1.0)
        inv = 1 / (10000 ** (torch.arange(0.0, D, 2.0) / D))
        self.register_buffer("sines", torch.cat((torch.outer(pos, inv).sin(), torch.outer(pos, inv).cos()), -1))

    @staticmethod
    def shift(s):
        b, h, i, j = s.shape
        return F.pad(s, (1, 0)).view(b, h, j + 1, i)[:, :, 1:].reshape(b, h, i, j)

    def attend(self, h):
        q, k, v = map(split_heads, self.qkv(h).chunk(3, -1))
        r = split_heads(self.r(self.sines))
        ac = torch.matmul(q + self.u, k.transpose(-1, -2))
        bd = self.shift(torch.matmul(q + self.v, r.transpose(-1, -2)))
        s = (ac + bd) * HD ** -0.5
        mask = torch.ones(T, T, device=h.device).triu(1).bool()
        return self.out(join_heads(torch.softmax(s.masked_fill(mask, -1e30), dim=-1) @ v))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CompressedPastLayer(nn.Module):
    """Segments attend to themselves and read a matrix of all segments before; a trained share a head mixes both."""

    def __init__(self, segment=4):
        super().__init__()
        self.segment = segment
        self.norm1, self.norm2, self.qkv, self.out, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), proj(D, 3 * D), proj(D, D), FFN()
        self.beta = nn.Parameter(torch.zeros(H, 1, 1))

    def attend(self, h):
        q, k, v = map(split_heads, self.qkv(h).chunk(3, -1))
        memory = q.new_zeros(q.shape[0], H, HD, HD)
        z = q.new_zeros(q.shape[0], H, HD, 1)
        outs, g = [], torch.sigmoid(self.beta)
        for i in range(0, h.shape[1], self.segment):
            qs, ks, vs = (t[:, :, i: i + self.segment] for t in (q, k, v))
            local = F.scaled_dot_product_attention(qs, ks, vs, is_causal=True)
            sq, sk = F.elu(qs) + 1, F.elu(ks) + 1
            past = (sq @ memory) / (sq @ z + 1e-6)
            outs.append(g * past + (1 - g) * local)
            memory = memory + sk.transpose(-1, -2) @ vs
            z = z + sk.sum(dim=-2).unsqueeze(-1)
        return self.out(join_heads(torch.cat(outs, dim=2)))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class RetrievedChunkLayer(nn.Module):
    """Each chunk but the first reads neighbours of the chunk before it, with tokens shifted so that none sees its own future."""

    def __init__(self, chunk=4):
        super().__init__()
        self.chunk = chunk
        self.norms = nn.ModuleList(nn.RMSNorm(D) for _ in range(3))
        self.attn, self.q, self.kv, self.o, self.mlp = CausalAttention(), proj(D, D), proj(D, 2 * D), proj(D, D), FFN()

    def cross(self, h, neighbours):
        c = self.chunk
        h = h[:, c - 1:]
        h = F.pad(h, (0, 0, 0, c - 1)).unflatten(1, (-1, c))
        k, v = self.kv(neighbours).chunk(2, dim=-1)
        y = F.scaled_dot_product_attention(split_heads(self.q(h)), split_heads(k), split_heads(v))
        y = self.o(join_heads(y)).flatten(1, 2)
        return F.pad(y, (0, 0, c - 1, 0))[:, : -(c - 1)]

    def forward(self, x, neighbours):
        x = x + self.attn(self.norms[0](x))
        x = x + self.cross(self.norms[1](x), neighbours)
        return x + self.mlp(self.norms[2](x))


class RetrievedChunkShifted(RetrievedChunkLayer):
    """The shift is done once, on the stream, so that no zeros have to be padded in front."""

    def forward(self, x, neighbours):
        x = x + self.attn(self.norms[0](x))
        first, rest = x[:, : self.chunk - 1], x[:, self.chunk - 1:]
        read = self.cross(self.norms[1](x), neighbours)[:, self.chunk - 1:]
        x = torch.cat((first, self.norms[1](rest) + read), dim=1)
        return x + self.mlp(self.norms[2](x))


# ------------------------------------------------------------------ a few tokens get more
class LightHeavyLayer(nn.Module):
    """All tokens get a thin net; the four best ones by a trained score get a wide one, too."""

    def __init__(self, k=4):
        super().__init__()
        self.k, self.norm_a, self.norm_f = k, nn.RMSNorm(D), nn.RMSNorm(D)
        self.attn, self.light, self.heavy, self.score = CausalAttention(), FFN(16), FFN(128), proj(D, 1)

    def forward(self, x):
        x = x + self.attn(self.norm_a(x))
        h = self.norm_f(x)
        top, index = self.score(h).squeeze(-1).topk(self.k, dim=1)
        index = index.unsqueeze(-1).expand(-1, -1, D)
        extra = self.heavy(h.gather(1, index)) * torch.sigmoid(top).unsqueeze(-1)
        return (x + self.light(h)).scatter_add(1, index, extra)


class CosineFeatureLayer(nn.Module):
    """ReLU features, weighed by cosines of distances, over their sum."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.out, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), proj(D, 3 * D), proj(D, D), FFN()
        self.register_buffer("angle", math.pi / 2 * torch.arange(1, T + 1) / T)

    def attend(self, h):
        q, k, v = map(split_heads, self.qkv(h).chunk(3, dim=-1))
        q, k = F.relu(q), F.relu(k)
        cos, sin = self.angle.cos()[:, None], self.angle.sin()[:, None]
        q, k = torch.cat((q * sin, q * cos), -1), torch.cat((k * sin, k * cos), -1)
        kv = torch.einsum("bhtd,bhtm->bhdm", k, v)
        z = 1 / torch.clamp_min(torch.einsum("bhtd,bhd->bht", q, k.sum(dim=2)), 1e-6)
        return self.out(join_heads(torch.einsum("bhtd,bhdm,bht->bhtm", q, kv, z)))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ norms inside and behind
class SubNormLayer(nn.Module):
    """A norm in front of each branch and one in front of its last map."""

    def __init__(self):
        super().__init__()
        self.self_attn_layer_norm, self.inner_attn_ln, self.final_layer_norm, self.ffn_layernorm = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(64)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj, self.fc1, self.fc2 = proj(D, D), proj(D, D), proj(D, D), proj(D, D), proj(D, 64), proj(64, D)

    def self_attn(self, h):
        q, k, v = split_heads(self.q_proj(h)), split_heads(self.k_proj(h)), split_heads(self.v_proj(h))
        weights = torch.softmax(torch.matmul(q * HD ** -0.5, k.mT), dim=-1)
        return self.out_proj(self.inner_attn_ln(join_heads(weights @ v)))

    def ffn(self, h):
        return self.fc2(self.ffn_layernorm(F.gelu(self.fc1(h))))

    def forward(self, x):
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        return x + self.ffn(self.final_layer_norm(x))


class SubNormFast(SubNormLayer):
    """The inner norms are enough to keep branches level; the outer ones are left out for speed."""

    def forward(self, x):
        x = x + self.self_attn(x)
        return x + self.ffn(x)


class QkvOfStream(nn.Module):
    """Norms on all channels of queries and keys."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (proj(D, D) for _ in range(4))
        self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D)

    def forward(self, x):
        q, k, v = split_heads(self.q_norm(self.q_proj(x))), split_heads(self.k_norm(self.k_proj(x))), split_heads(self.v_proj(x))
        return self.o_proj(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))


class BranchNormLayer(nn.Module):
    """Norms stand behind branches, in front of sums."""

    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = QkvOfStream(), FFN(act=F.silu)
        self.post_attention_layernorm, self.post_feedforward_layernorm = nn.RMSNorm(D), nn.RMSNorm(D)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.self_attn(hidden_states)
        hidden_states = self.post_attention_layernorm(hidden_states)
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.mlp(hidden_states)
        hidden_states = self.post_feedforward_layernorm(hidden_states)
        return residual + hidden_states


class QueryKeyNormLayer(BranchNormLayer):
    """Norms of queries and keys make the one behind attention redundant."""

    def __init__(self):
        super().__init__()
        self.post_attention_layernorm = nn.Identity()


class DualStreamLayer(nn.Module):
    """Branches read a stream with norms behind its sums; what they give is summed on a second one, too."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), CausalAttention(), FFN()

    def forward(self, x, dual):
        for ln, fn in ((self.ln1, self.attn), (self.ln2, self.mlp)):
            y = fn(x)
            dual = dual + y
            x = ln(x + y)
        return x, dual


# ------------------------------------------------------------------ experts
class HeadExpertsLayer(nn.Module):
    """Heads have several maps of values and outputs each, of which a sigmoid takes two."""

    def __init__(self, e=3, k=2):
        super().__init__()
        self.k, self.norm1, self.norm2, self.mlp = k, nn.LayerNorm(D), nn.LayerNorm(D), FFN()
        self.qk, self.sel_v, self.sel_o = proj(D, 2 * D), proj(D, H * e), proj(D, H * e)
        self.v, self.o = nn.Parameter(torch.randn(H, e, D, HD) / D ** 0.5), nn.Parameter(torch.randn(H, e, HD, D) / D ** 0.5)

    def select(self, logits):
        s = torch.sigmoid(logits.unflatten(-1, (H, -1)))
        kept, index = s.topk(self.k, dim=-1)
        return torch.zeros_like(s).scatter(-1, index, kept)

    def attend(self, h):
        q, k = map(split_heads, self.qk(h).chunk(2, -1))
        v = torch.einsum("btd,hedk,bthe->bhtk", h, self.v, self.select(self.sel_v(h)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.einsum("bhtk,hekd,bthe->btd", y, self.o, self.select(self.sel_o(h)))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CopyExpertsLayer(nn.Module):
    """Beside nets there are experts without cost: one gives nothing, one a copy of what it reads, one a trained vector."""

    def __init__(self, nets=3):
        super().__init__()
        self.norm, self.router, self.nets, self.constant = nn.RMSNorm(D), proj(D, nets + 3), nn.ModuleList(FFN(32, F.silu) for _ in range(nets)), nn.Parameter(torch.randn(D))

    def experts(self, h, copied):
        return [*(net(h) for net in self.nets), torch.zeros_like(h), copied, self.constant.expand_as(h)]

    def forward(self, x):
        h = self.norm(x)
        p = self.router(h).softmax(dim=-1)
        for share, y in zip(p.split(1, dim=-1), self.experts(h, h)):
            x = x + share * y
        return x


class CopyExpertsInPlace(CopyExpertsLayer):
    """A copy needs no norm."""

    def forward(self, x):
        h = self.norm(x)
        p = F.softmax(self.router(h), dim=-1)
        return x + torch.einsum("bte,ebtd->btd", p, torch.stack(self.experts(h, x)))


class CapacityLayer(nn.Module):
    """An expert takes three tokens of a row, in their order; tokens that find no place go on as they are."""

    def __init__(self, e=4, capacity=3):
        super().__init__()
        self.norm, self.router, self.capacity = nn.LayerNorm(D), proj(D, e), capacity
        self.w1, self.w2 = nn.Parameter(torch.randn(e, D, 48) / D ** 0.5), nn.Parameter(torch.randn(e, 48, D) / 48 ** 0.5)

    def forward(self, x):
        h = self.norm(x)
        gate, index = self.router(h).softmax(-1).max(dim=-1)
        chosen = F.one_hot(index, self.w1.shape[0]).to(x.dtype)
        kept = chosen * (chosen.cumsum(dim=1) <= self.capacity)
        y = torch.einsum("bted,bte->btd", torch.einsum("bteh,ehd->bted", F.gelu(torch.einsum("btd,edh->bteh", h, self.w1)), self.w2), kept)
        y = gate.unsqueeze(-1) * y
        dropped = kept.sum(dim=-1, keepdim=True) == 0
        return x + torch.where(dropped, x, y)


# ------------------------------------------------------------------ a gate between what was and what is new
class AveragedGateLayer(nn.Module):
    """Moving means in front of one head of attention; a gate mixes what comes out with what came in."""

    def __init__(self, z=16):
        super().__init__()
        self.norm, self.alpha, self.to_z, self.to_v, self.gates, self.h = nn.LayerNorm(D), nn.Parameter(torch.randn(D)), proj(D, z, True), proj(D, D, True), proj(D, 2 * D, True), proj(D, D, True)
        self.scale, self.shift = nn.Parameter(torch.randn(2, z)), nn.Parameter(torch.zeros(2, z))

    def ema(self, h):
        a, state, out = torch.sigmoid(self.alpha), torch.zeros_like(h[:, 0]), []
        for t in range(h.shape[1]):
            state = a * h[:, t] + (1 - a) * state
            out.append(state)
        return torch.stack(out, dim=1)

    def forward(self, x):
        h = self.norm(x)
        m = self.ema(h)
        z = F.silu(self.to_z(m))
        q, k = z * self.scale[0] + self.shift[0], z * self.scale[1] + self.shift[1]
        attn = torch.softmax(q @ k.transpose(1, 2) * q.shape[-1] ** -0.5, dim=-1) @ F.silu(self.to_v(h))
        reset, update = self.gates(m).chunk(2, dim=-1)
        new = torch.tanh(self.h(F.silu(reset) * attn))
        phi = torch.sigmoid(update)
        return phi * new + (1 - phi) * x


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_BOTH, _OPEN, _SHUT = dict(output_bounded={0: True, 1: True}, growth_all="linear"), dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "NeoxParallelLayer": dict(_PRE, logits_bounded={1: False}, gradient_law="power", sound=True, why="pre-norm, both halves by norms of the same stream."),
    "CanonLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; the filter's own skip carries the norm."),
    "CanonStream": dict(_EXP, softmax=True, logits_bounded={1: False}, why="the stream and a filter of it, twice a block: of degree one."),
    "GatedUnitLayer": dict(_NET, **_ONE, sound=True, why="products of functions of a norm."),
    "GatedUnitShortcut": dict(_EXP, softmax=False, **_ONE, why="gates are of the stream: of degree one."),
    "RelativeMemoryLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm."),
    "CompressedPastLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; what is read from the past is over the sum of its weights."),
    "RetrievedChunkLayer": dict(_PRE, **_OPEN, sound=True, why="pre-norm, three branches; neighbours are the same in all layers."),
    "RetrievedChunkShifted": dict(_PRE, **_OPEN, sound=False, why="tokens behind the first three are their norm and what was read: nothing of them is carried; the first three are."),
    "LightHeavyLayer": dict(_PRE, **_OPEN, sound=True, why="pre-norm; shares of a net of the norm for a few tokens."),
    "CosineFeatureLayer": dict(_NET, **_TWO, sound=True, why="pre-norm; means of values by weights that are not negative."),
    "SubNormLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm, and a norm in front of last maps."),
    "SubNormFast": dict(_PRE, **_TWO, **_OPEN, sound=False, why="what is added is a map of a norm; scores are products of the stream and grow with it."),
    "BranchNormLayer": dict(_PRE, **_BOTH, **_SHUT, sound=True, why="norms behind both branches, and on queries and keys."),
    "QueryKeyNormLayer": dict(_EXP, softmax=True, **_SHUT, why="values are the stream's: of degree one."),
    "DualStreamLayer": dict(kind="block", growth_fixed="linear", softmax=True, sound=True, why="the second stream carries; the first one, which branches read, ends in a norm."),
    "HeadExpertsLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; sigmoids of maps of norms."),
    "CopyExpertsLayer": dict(_PRE, **_OPEN, sound=True, why="shares of functions of a norm; the copy is of the norm."),
    "CopyExpertsInPlace": dict(_EXP, softmax=True, **_OPEN, why="a share of the stream is added to it in each block."),
    "CapacityLayer": dict(_EXP, softmax=True, **_OPEN, why="tokens without a place are doubled."),
    "AveragedGateLayer": dict(_LEVEL, growth_all="bounded", gated=True, softmax=True, **_OPEN, sound=True, why="a gated mean of a tanh and of what came in."),
}
