"""Pull requests on layers of language models: sandwiches with caps, latents of keys and values, a choice of depth, gates behind attention, scans with gated norms, delta rules, sinks and clamps, doubly stochastic streams, long filters, the first state again."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(3201)
_X = torch.randn(2, T, D, generator=_G)
example_inputs = {k: (_X,) for k in ("GemmaLayer", "GemmaLayerSum", "LatentKvLayer", "LatentKvLayerRope", "DepthChoiceLayer", "GatedAttnLayer", "GatedAttnLayerRaw", "GatedAttnLayerSkip", "SsdLayer", "SsdLayerZ",
                                     "DeltaRuleLayer", "SinkLayer", "LongFilterLayer", "LongFilterLayerGate")}
example_inputs |= {"StochasticStreamsLayer": (torch.randn(2, T, 4, D, generator=_G),), "EmbeddingMixLayer": (_X, torch.randn(2, T, D, generator=_G))}


def proj(i: int, o: int, bias: bool = False) -> nn.Linear:
    layer = nn.Linear(i, o, bias=bias)
    nn.init.normal_(layer.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


class RMSNorm(nn.Module):
    """One plus a weight, as in the checkpoints."""

    def __init__(self, dim: int = D, eps: float = 1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * (1.0 + self.weight)


class GatedMlp(nn.Module):
    def __init__(self, hidden: int = 64):
        super().__init__()
        self.gate_up, self.down = proj(D, 2 * hidden), proj(hidden, D)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.gelu(gate, approximate="tanh") * up)


def by_head(x, n=H):
    b, t, _ = x.shape
    return x.reshape(b, t, n, -1).transpose(1, 2)


def together(x):
    return x.transpose(1, 2).flatten(-2)


def causal(t, device):
    return torch.ones(t, t, dtype=torch.bool, device=device).triu_(1)


# ------------------------------------------------------------------ sandwiches
class GemmaLayer(nn.Module):
    """Norms in front of and behind both branches, two heads of keys for four of queries, scores through a tanh."""

    def __init__(self, softcap=50.0):
        super().__init__()
        self.softcap, self.q_proj, self.kv_proj, self.o_proj, self.mlp = softcap, proj(D, D), proj(D, D), proj(D, D), GatedMlp()
        self.input_layernorm, self.post_attention_layernorm, self.pre_feedforward_layernorm, self.post_feedforward_layernorm = (RMSNorm() for _ in range(4))

    def self_attn(self, x):
        q = by_head(self.q_proj(x)) * HD ** -0.5
        k, v = (by_head(t, H // 2).repeat_interleave(2, dim=1) for t in self.kv_proj(x).chunk(2, dim=-1))
        w = q @ k.transpose(2, 3)
        w = torch.tanh(w / self.softcap) * self.softcap
        w = w.masked_fill(causal(x.shape[1], x.device), float("-inf"))
        return self.o_proj(together(w.softmax(dim=-1) @ v))

    def forward(self, x):
        residual = x
        x = self.input_layernorm(x)
        x = self.self_attn(x)
        x = self.post_attention_layernorm(x)
        x = residual + x
        residual = x
        x = self.pre_feedforward_layernorm(x)
        x = self.mlp(x)
        x = self.post_feedforward_layernorm(x)
        return residual + x


class GemmaLayerSum(GemmaLayer):
    """Four lines less: the norms behind take what they stand behind."""

    def forward(self, x):
        x = self.post_attention_layernorm(x + self.self_attn(self.input_layernorm(x)))
        return self.post_feedforward_layernorm(x + self.mlp(self.pre_feedforward_layernorm(x)))


# ------------------------------------------------------------------ latents of keys and values
def rotate(x):
    t, d = x.shape[-2:]
    angle = torch.arange(t, device=x.device, dtype=x.dtype)[:, None] * 100.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=x.dtype) / d)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), dim=-1).flatten(-2)


class LatentKvLayer(nn.Module):
    """Keys and values come from a small normed latent; a few more channels of keys, which all heads share, are rotated."""

    def __init__(self, q_rank=16, kv_rank=12, nope=6, rope=4):
        super().__init__()
        self.kv_rank, self.nope, self.rope = kv_rank, nope, rope
        self.attn_norm, self.ffn_norm, self.q_norm, self.kv_norm = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(q_rank), nn.RMSNorm(kv_rank)
        self.wq_a, self.wq_b, self.wkv_a, self.wkv_b, self.wo, self.ffn = proj(D, q_rank), proj(q_rank, H * (nope + rope)), proj(D, kv_rank + rope), proj(kv_rank, H * (nope + HD)), proj(D, D), GatedMlp()

    def latent(self, x, h):
        return self.wkv_a(h).split([self.kv_rank, self.rope], dim=-1)

    def attn(self, x, h):
        q_nope, q_pe = by_head(self.wq_b(self.q_norm(self.wq_a(h)))).split([self.nope, self.rope], dim=-1)
        kv, k_pe = self.latent(x, h)
        k_nope, v = by_head(self.wkv_b(self.kv_norm(kv))).split([self.nope, HD], dim=-1)
        scores = torch.einsum("bhsd,bhtd->bhst", q_nope, k_nope) + torch.einsum("bhsd,btd->bhst", rotate(q_pe), rotate(k_pe))
        scores = scores / math.sqrt(self.nope + self.rope)
        scores = scores.masked_fill(causal(x.shape[1], x.device), float("-inf"))
        return self.wo(torch.einsum("bhst,bhtd->bshd", scores.softmax(-1), v).flatten(2))

    def forward(self, x):
        x = x + self.attn(x, self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class LatentKvLayerRope(LatentKvLayer):
    """What goes to the cache has a norm of its own, so it is taken from the hidden states."""

    def latent(self, x, h):
        return self.wkv_a(x).split([self.kv_rank, self.rope], dim=-1)


# ------------------------------------------------------------------ a choice of depth
class DepthChoiceLayer(nn.Module):
    """Half of the tokens go through the layer, by a router's choice; what it gives is weighed by the router's sigmoid, and the others pass."""

    def __init__(self, capacity=T // 2):
        super().__init__()
        self.capacity, self.router, self.norm1, self.norm2, self.qkv, self.o, self.mlp = capacity, proj(D, 1), nn.RMSNorm(D), nn.RMSNorm(D), proj(D, 3 * D), proj(D, D), GatedMlp()

    def inner(self, x):
        q, k, v = map(by_head, self.qkv(self.norm1(x)).chunk(3, dim=-1))
        y = self.o(together(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return y + self.mlp(self.norm2(x + y))

    def forward(self, x):
        logits = self.router(x).squeeze(-1)
        weight, index = torch.topk(logits, self.capacity, dim=1, sorted=False)
        index, order = index.sort(dim=1)
        weight = weight.gather(1, order).sigmoid()
        at = index.unsqueeze(-1).expand(-1, -1, x.shape[-1])
        return x.scatter_add(1, at, self.inner(x.gather(1, at)) * weight.unsqueeze(-1))


# ------------------------------------------------------------------ gates behind attention
class GatedAttnLayer(nn.Module):
    """A norm a head on queries and keys, and a sigmoid a channel on what heads read."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(HD), nn.RMSNorm(HD)
        self.qkv, self.gate, self.o, self.mlp = proj(D, 3 * D), proj(D, D), proj(D, D), GatedMlp()

    def read(self, h):
        q, k, v = map(by_head, self.qkv(h).chunk(3, dim=-1))
        return together(F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, is_causal=True))

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.o(self.read(h) * torch.sigmoid(self.gate(h)))
        return x + self.mlp(self.ln2(x))


class GatedAttnLayerRaw(GatedAttnLayer):
    """The gate looks at the state in front of the norm, as its length says how sure the token is."""

    def forward(self, x):
        x = x + self.o(self.read(self.ln1(x)) * torch.sigmoid(self.gate(x)))
        return x + self.mlp(self.ln2(x))


class GatedAttnLayerSkip(GatedAttnLayer):
    """The gate multiplies what the sum has on its left."""

    def forward(self, x):
        h = self.ln1(x)
        g = self.gate(h).sigmoid()
        x = g * x + self.o(self.read(h))
        return x + self.mlp(self.ln2(x))


# ------------------------------------------------------------------ scans with gated norms
class SsdLayer(nn.Module):
    """One map for gate, input, two vectors and steps; a short filter; a scalar decay a head; a norm of what is gated."""

    def __init__(self, state=8, expand=48):
        super().__init__()
        self.n, self.inner, self.norm, self.in_proj, self.out_proj = state, expand, nn.RMSNorm(D), proj(D, 2 * expand + 2 * state + H), proj(expand, D)
        self.conv1d, self.A_log, self.dt_bias, self.gain_D, self.gated_norm = nn.Conv1d(expand + 2 * state, expand + 2 * state, 4, groups=expand + 2 * state, padding=3), nn.Parameter(torch.arange(1.0, H + 1).log()), nn.Parameter(torch.zeros(H)), nn.Parameter(torch.ones(H)), nn.RMSNorm(expand)

    def finish(self, y, z, x):
        return self.out_proj(self.gated_norm(y * F.silu(z)))

    def mixer(self, h, x):
        z, xbc, dt = self.in_proj(h).split([self.inner, self.inner + 2 * self.n, H], dim=-1)
        xbc = F.silu(self.conv1d(xbc.mT)[..., : h.shape[1]].mT)
        u, B, C = xbc.split([self.inner, self.n, self.n], dim=-1)
        u, dt = u.unflatten(-1, (H, -1)), F.softplus(dt + self.dt_bias)
        log_a = (-dt * self.A_log.exp()).cumsum(1)
        decay = (log_a[:, :, None] - log_a[:, None]).masked_fill(causal(h.shape[1], h.device)[..., None], float("-inf")).exp()
        y = torch.einsum("bln,bsn,blsh,bsh,bshp->blhp", C, B, decay, dt, u) + self.gain_D[:, None] * u
        return self.finish(y.flatten(2), z, x)

    def forward(self, x):
        return x + self.mixer(self.norm(x), x)


class SsdLayerZ(SsdLayer):
    """The order of the kernel's flag norm_before_gate, and a gate of its own."""

    def __init__(self):
        super().__init__()
        self.z_proj = proj(D, self.inner)

    def finish(self, y, z, x):
        return self.out_proj(self.gated_norm(y) * F.silu(self.z_proj(x)))


# ------------------------------------------------------------------ delta rules
class DeltaRuleLayer(nn.Module):
    """A matrix a head that forgets, and that is corrected by what it says of a key of length one."""

    def __init__(self):
        super().__init__()
        self.attn_norm, self.mlp_norm, self.o_norm, self.mlp = RMSNorm(), RMSNorm(), RMSNorm(HD), GatedMlp()
        self.qkv, self.b, self.a, self.g, self.o = proj(D, 3 * D), proj(D, H), proj(D, H, True), proj(D, D), proj(D, D)

    def rule(self, h):
        q, k, v = (F.silu(t).unflatten(-1, (H, HD)) for t in self.qkv(h).chunk(3, dim=-1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        beta, alpha = self.b(h).sigmoid(), torch.exp(-F.softplus(self.a(h)))
        S, out = h.new_zeros(h.shape[0], H, HD, HD), []
        for t in range(h.shape[1]):
            S = S * alpha[:, t, :, None, None]
            wrong = v[:, t] - torch.einsum("bhkv,bhk->bhv", S, k[:, t])
            S = S + torch.einsum("bhk,bhv->bhkv", k[:, t], beta[:, t, :, None] * wrong)
            out.append(torch.einsum("bhkv,bhk->bhv", S, q[:, t]))
        return torch.stack(out, dim=1)

    def forward(self, x):
        h = self.attn_norm(x)
        y = self.o_norm(self.rule(h)).flatten(2) * F.silu(self.g(h))
        x = x + self.o(y)
        return x + self.mlp(self.mlp_norm(x))


# ------------------------------------------------------------------ sinks and clamps
class SinkLayer(nn.Module):
    """A trained logit a head takes a share and reads nothing; experts with a clamp and a one beside the line."""

    def __init__(self, experts=4, k=2, limit=7.0, hidden=24):
        super().__init__()
        self.k, self.limit, self.norm_a, self.norm_m, self.qkv, self.out = k, limit, nn.RMSNorm(D), nn.RMSNorm(D), proj(D, 3 * D, True), proj(D, D, True)
        self.sinks, self.gate = nn.Parameter(torch.randn(H)), proj(D, experts, True)
        self.mlp1, self.mlp2 = nn.Parameter(torch.randn(experts, 2 * hidden, D) * D ** -0.5), nn.Parameter(torch.randn(experts, D, hidden) * hidden ** -0.5)

    def attn(self, h):
        q, k, v = map(by_head, self.qkv(h).chunk(3, dim=-1))
        qk = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(HD)
        qk = qk.masked_fill(causal(h.shape[1], h.device), float("-inf"))
        qk = torch.cat((qk, self.sinks.view(1, H, 1, 1).expand(*qk.shape[:3], 1)), dim=-1)
        w = torch.softmax(qk, dim=-1)[..., :-1]
        return self.out(together(w @ v))

    def swiglu(self, u):
        glu, line = u[..., ::2], u[..., 1::2]
        glu, line = glu.clamp(max=self.limit), line.clamp(-self.limit, self.limit)
        return glu * torch.sigmoid(1.702 * glu) * (line + 1)

    def moe(self, h):
        top = torch.topk(self.gate(h), self.k, dim=-1)
        shares = top.values.softmax(dim=-1)
        u = torch.einsum("btkoi,bti->btko", self.mlp1[top.indices], h)
        y = torch.einsum("btkoi,btki->btko", self.mlp2[top.indices], self.swiglu(u))
        return torch.einsum("btko,btk->bto", y, shares)

    def forward(self, x):
        x = x + self.attn(self.norm_a(x))
        x = x + self.moe(self.norm_m(x))
        return x


# ------------------------------------------------------------------ doubly stochastic streams
def sinkhorn(logits, rounds=12):
    m = logits
    for _ in range(rounds):
        m = m - m.logsumexp(dim=-1, keepdim=True)
        m = m - m.logsumexp(dim=-2, keepdim=True)
    return m.exp()


class StochasticStreamsLayer(nn.Module):
    """Four streams that a matrix mixes whose rows and columns sum to one; a branch reads shares of them and writes to all."""

    def __init__(self, streams=4):
        super().__init__()
        self.res, self.pre, self.post = nn.Parameter(torch.eye(streams) * 2 + torch.randn(streams, streams) * 0.2), nn.Parameter(torch.zeros(streams)), nn.Parameter(torch.zeros(streams))
        self.norm, self.mlp = nn.RMSNorm(D), GatedMlp()

    def forward(self, x):
        u = torch.einsum("btnd,n->btd", x, self.pre.sigmoid())
        y = self.mlp(self.norm(u))
        mixed = torch.einsum("mn,btnd->btmd", sinkhorn(self.res), x)
        return mixed + y.unsqueeze(2) * (2 * self.post.sigmoid()).view(1, 1, -1, 1)


# ------------------------------------------------------------------ long filters
class LongFilterLayer(nn.Module):
    """Two gates by points around a filter as long as the text; filters by a net of the place that decay."""

    def __init__(self, width=16):
        super().__init__()
        self.norm1, self.norm2, self.mlp, self.in_proj, self.out_proj = nn.LayerNorm(D), nn.LayerNorm(D), GatedMlp(), proj(D, 3 * D), proj(D, D)
        self.short, self.filter = nn.Conv1d(3 * D, 3 * D, 3, groups=3 * D, padding=2), nn.Sequential(proj(3, width, True), nn.Tanh(), proj(width, D))
        t = torch.linspace(0, 1, T)
        self.register_buffer("z", torch.stack((t, torch.sin(6.28 * t), torch.cos(6.28 * t)), dim=-1), persistent=False)

    def fft_conv(self, u):
        k = (self.filter(self.z) * torch.exp(-3.0 * self.z[:, :1])).T
        n = 2 * u.shape[-1]
        return torch.fft.irfft(torch.fft.rfft(u, n=n) * torch.fft.rfft(k, n=n), n=n)[..., : u.shape[-1]]

    def out_gate(self, x, x2):
        return x2

    def operator(self, h, x):
        u = self.short(self.in_proj(h).mT)[..., : h.shape[1]]
        x1, x2, v = u.chunk(3, dim=1)
        y = self.fft_conv(v * x1) * self.out_gate(x, x2)
        return self.out_proj(y.mT)

    def forward(self, x):
        x = x + self.operator(self.norm1(x), x)
        return x + self.mlp(self.norm2(x))


class LongFilterLayerGate(LongFilterLayer):
    """The last gate is the residual itself, which saves a third of the map."""

    def out_gate(self, x, x2):
        return x.mT


# ------------------------------------------------------------------ the first state again
class EmbeddingMixLayer(nn.Module):
    """A tenth of the embedding comes back in front of each layer; squares of ReLUs."""

    def __init__(self, keep=0.9):
        super().__init__()
        self.lambdas = (keep, 1 - keep)
        self.c_qkv, self.c_proj, self.c_fc, self.c_out = proj(D, 3 * D), proj(D, D), proj(D, 4 * D), proj(4 * D, D)

    def attn(self, h):
        q, k, v = self.c_qkv(h).view(*h.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        q, k = (F.rms_norm(t, (HD,)) for t in (q, k))
        return self.c_proj(together(F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.12)))

    def forward(self, x, x0):
        x = self.lambdas[0] * x + self.lambdas[1] * x0
        x = x + self.attn(F.rms_norm(x, (D,)))
        return x + self.c_out(F.relu(self.c_fc(F.rms_norm(x, (D,)))).square())


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "GemmaLayer": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", gradient_law="power", sound=True, why="pre-norm; both branches end in a norm; scores are 50 times a tanh."),
    "GemmaLayerSum": dict(_LEVEL, softmax=True, **_TWO, **_SHUT, sound=False, why="the norms behind hit the sums: what a layer gives has the length of a norm, and there is no skip past them."),
    "LatentKvLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; maps after the norms of latents have any size."),
    "LatentKvLayerRope": dict(_PRE, **_TWO, **_OPEN, why="values come from a normed latent, so branches stay functions of norms; the rotated keys read the stream raw: only logits grow with it."),
    "DepthChoiceLayer": dict(_PRE, **_TWO, why="tokens are chosen by the raw stream, but what is added is a function of norms times a sigmoid."),
    "GatedAttnLayer": dict(_PRE, **_TWO, **_SHUT, gradient_law="power", sound=True, why="pre-norm; norms a head stand right in front of scores."),
    "GatedAttnLayerRaw": dict(_PRE, **_TWO, **_SHUT, why="the gate reads the raw stream through a sigmoid, which is at most one."),
    "GatedAttnLayerSkip": dict(_LEVEL, softmax=True, **_TWO, **_SHUT, gated=True, sound=False, why="the skip is multiplied by a sigmoid of a norm, which for given weights is below a number below one."),
    "SsdLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; a norm, then a map."),
    "SsdLayerZ": dict(_EXP, softmax=False, **_ONE, why="a norm times silu of a map of the raw stream: of degree one."),
    "DeltaRuleLayer": dict(_NET, **_TWO, sound=True, why="pre-norm; a norm a head, times a gate of the norm."),
    "SinkLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; shares that sum to less than one; experts behind a clamp go through a map."),
    "StochasticStreamsLayer": dict(kind="block", growth_fixed="linear", **_ONE, sound=True, why="streams are mixed by a doubly stochastic matrix, whose largest singular value is one; a net of a norm is added."),
    "LongFilterLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; products of functions of norms."),
    "LongFilterLayerGate": dict(_EXP, softmax=False, **_TWO, why="the stream multiplies what the filter gives: of degree one."),
    "EmbeddingMixLayer": dict(_LEVEL, identity_gain=0.9 ** 24, softmax=True, output_bounded={1: False}, why="0.9 of the stream and a tenth of a constant in each block."),
}
