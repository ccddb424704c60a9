"""Layers that read pictures, stores, slots and patches: gated cross attention, resamplers, query bridges, experts for pixels, parallel branches, sigmoid routers, soft slots, routers of depth, pools of bytes, token shifts, differences of two attentions, states on a sphere."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, LENGTH, HEADS = 32, 16, 4
PER_HEAD = WIDTH // HEADS

_G = torch.Generator().manual_seed(3501)
_X = torch.randn(2, LENGTH, WIDTH, generator=_G)
_MEDIA = torch.randn(2, 20, WIDTH, generator=_G)
_IS_IMAGE = (torch.arange(LENGTH) < 6).expand(2, -1)
example_inputs = {
    **{k: (_X, _MEDIA) for k in ("GatedMediaLayer", "GatedMediaLayerLerp", "ResamplerLayer", "ResamplerLayerRaw", "QueryBridgeLayer")},
    "VisualExpertLayer": (_X, _IS_IMAGE),
    **{k: (_X,) for k in ("ParallelLayer", "ParallelLayerTwice", "SigmoidRouterLayer", "SigmoidRouterLayerRaw", "SlotExpertsLayer", "DepthRouterLayer", "DepthRouterLayerBare",
                          "BytePoolLayer", "BytePoolLayerRaw", "TokenShiftLayer", "TokenShiftLayerRaw", "DifferentialLayer", "HypersphereLayer")},
}


def lin(n_in, n_out, bias=False):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=1 / math.sqrt(n_in))
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def feed_forward(dim=WIDTH, mult=2):
    return nn.Sequential(nn.LayerNorm(dim), lin(dim, dim * mult), nn.GELU(), lin(dim * mult, dim))


def split_heads(t, h=HEADS):
    return t.view(*t.shape[:-1], h, -1).transpose(-2, -3)


def merge_heads(t):
    return t.transpose(-2, -3).flatten(-2)


class SwiGLU(nn.Module):
    def __init__(self, dim=WIDTH, hidden=48):
        super().__init__()
        self.w1, self.w2, self.w3 = lin(dim, hidden), lin(hidden, dim), lin(dim, hidden)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


# ------------------------------------------------------------------ gated cross attention
class MaskedCrossAttention(nn.Module):
    def __init__(self, dim=WIDTH):
        super().__init__()
        self.scale_factor = PER_HEAD ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.to_q = lin(dim, dim)
        self.to_kv = lin(dim, 2 * dim)
        self.to_out = lin(dim, dim)

    def forward(self, x, media):
        x = self.norm(x)
        q = split_heads(self.to_q(x)) * self.scale_factor
        k, v = (split_heads(t) for t in self.to_kv(media).chunk(2, dim=-1))
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        return self.to_out(merge_heads(torch.einsum("b h i j, b h j d -> b h i d", attn, v)))


class GatedMediaLayer(nn.Module):
    """Words read a picture, then a net; the tanh of a number opens each."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff = MaskedCrossAttention(), feed_forward()
        self.attn_gate = nn.Parameter(torch.tensor([0.5]))
        self.ff_gate = nn.Parameter(torch.tensor([0.5]))

    def forward(self, x, media):
        x = self.attn(x, media) * self.attn_gate.tanh() + x
        x = self.ff(x) * self.ff_gate.tanh() + x
        return x


class GatedMediaLayerLerp(GatedMediaLayer):
    """The gate goes from words to the picture, by a sigmoid."""

    def forward(self, x, media):
        x = torch.lerp(x, self.attn(x, media), self.attn_gate.sigmoid())
        return torch.lerp(x, self.ff(x), self.ff_gate.sigmoid())


# ------------------------------------------------------------------ resamplers
class ResamplerLayer(nn.Module):
    """Latents read the picture and themselves side by side."""

    def __init__(self, dim=WIDTH):
        super().__init__()
        self.norm_media, self.norm_latents = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_q, self.to_kv, self.to_out = lin(dim, dim), lin(dim, 2 * dim), lin(dim, dim)
        self.ff = feed_forward(dim)

    def sources(self, media, latents, normed):
        return torch.cat((media, normed), dim=-2)

    def attend(self, media, latents):
        media, normed = self.norm_media(media), self.norm_latents(latents)
        q = split_heads(self.to_q(normed))
        k, v = map(split_heads, self.to_kv(self.sources(media, latents, normed)).chunk(2, dim=-1))
        return self.to_out(merge_heads(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, latents, media):
        latents = latents + self.attend(media, latents)
        latents = latents + self.ff(latents)
        return latents


class ResamplerLayerRaw(ResamplerLayer):
    """The name in the concatenation is that of the argument."""

    def sources(self, media, latents, normed):
        return torch.cat((media, latents), dim=-2)


# ------------------------------------------------------------------ query bridges
class AddNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.LayerNorm, self.dropout = nn.LayerNorm(dim, eps=1e-12), nn.Dropout(0.0)

    def forward(self, hidden, residual):
        return self.LayerNorm(self.dropout(hidden) + residual)


class QueryBridgeLayer(nn.Module):
    """Queries attend to themselves and to the picture, then a net; a norm stands behind each sum, as in BERT."""

    def __init__(self, dim=WIDTH):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, HEADS, batch_first=True)
        self.crossattention = nn.MultiheadAttention(dim, HEADS, batch_first=True)
        self.intermediate, self.output = lin(dim, 2 * dim, True), lin(2 * dim, dim, True)
        self.add_norm = nn.ModuleDict({k: AddNorm(dim) for k in ("self", "cross", "query")})

    def forward(self, hidden_states, image_embeds):
        out, _ = self.attention(hidden_states, hidden_states, hidden_states, need_weights=False)
        hidden_states = self.add_norm["self"](out, hidden_states)
        out = self.crossattention(hidden_states, image_embeds, image_embeds)[0]
        hidden_states = self.add_norm["cross"](out, hidden_states)
        out = self.output(F.gelu(self.intermediate(hidden_states)))
        return self.add_norm["query"](out, hidden_states)


# ------------------------------------------------------------------ experts for pixels
class VisualExpertLayer(nn.Module):
    """Picture tokens have maps and a net of their own; all tokens meet in one attention."""

    def __init__(self, dim=WIDTH):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.qkv = nn.ModuleDict(dict(vision=lin(dim, 3 * dim), language=lin(dim, 3 * dim)))
        self.dense = nn.ModuleDict(dict(vision=lin(dim, dim), language=lin(dim, dim)))
        self.mlp = nn.ModuleDict(dict(vision=SwiGLU(), language=SwiGLU()))

    @staticmethod
    def route(maps, x, vision):
        return torch.where(vision.unsqueeze(-1), maps["vision"](x), maps["language"](x))

    def forward(self, hidden, vision):
        h = self.input_layernorm(hidden)
        q, k, v = (split_heads(t) for t in self.route(self.qkv, h, vision).chunk(3, -1))
        context = merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        hidden = hidden + self.route(self.dense, context, vision)
        h = self.post_attention_layernorm(hidden)
        return hidden + self.route(self.mlp, h, vision)


# ------------------------------------------------------------------ parallel branches
class ParallelLayer(nn.Module):
    """Attention and net read one norm and are added together; queries and keys have norms a head."""

    def __init__(self, dim=WIDTH):
        super().__init__()
        self.ln = nn.LayerNorm(dim, bias=False)
        self.wqkv, self.wo, self.mlp = lin(dim, 3 * dim), lin(dim, dim), SwiGLU()
        self.q_ln, self.k_ln = nn.LayerNorm(PER_HEAD, bias=False), nn.LayerNorm(PER_HEAD, bias=False)

    def attention(self, h):
        q, k, v = map(split_heads, self.wqkv(h).split(WIDTH, dim=-1))
        return self.wo(merge_heads(F.scaled_dot_product_attention(self.q_ln(q), self.k_ln(k), v, is_causal=True)))

    def forward(self, x):
        h = self.ln(x)
        return x + self.attention(h) + self.mlp(h)


class ParallelLayerTwice(ParallelLayer):
    """Rewritten from the serial layer, whose last line adds the residual."""

    def forward(self, x):
        residual = x
        h = self.ln(x)
        x = x + self.attention(h)
        x = x + self.mlp(h)
        return residual + x


# ------------------------------------------------------------------ sigmoid routers
@dataclass
class ExpertConfig:
    n_routed: int = 4
    top_k: int = 2
    hidden: int = 24
    routed_scaling: float = 1.5


class SigmoidRouterLayer(nn.Module):
    """Experts by sigmoid scores that are normalised; a bias that is no weight evens out the choice; one expert for all."""

    def __init__(self, cfg: ExpertConfig = ExpertConfig()):
        super().__init__()
        self.cfg, self.norm = cfg, nn.RMSNorm(WIDTH)
        self.gate = nn.Parameter(torch.randn(cfg.n_routed, WIDTH) * WIDTH ** -0.5)
        self.register_buffer("e_score_correction_bias", torch.zeros(cfg.n_routed))
        self.experts = nn.ModuleList(SwiGLU(hidden=cfg.hidden) for _ in range(cfg.n_routed))
        self.shared_experts = SwiGLU(hidden=cfg.hidden)

    def tokens(self, x, h):
        return h.flatten(0, 1)

    def moe(self, x, h):
        flat = self.tokens(x, h)
        scores = F.linear(h.flatten(0, 1), self.gate).sigmoid()
        index = torch.topk(scores + self.e_score_correction_bias, self.cfg.top_k, dim=-1)[1]
        weight = scores.gather(1, index)
        weight = weight / (weight.sum(dim=-1, keepdim=True) + 1e-20) * self.cfg.routed_scaling
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(index == e)
            if row.numel():
                out.index_add_(0, row, expert(flat[row]) * weight[row, slot, None])
        return out.view_as(h) + self.shared_experts(h)

    def forward(self, x):
        return x + self.moe(x, self.norm(x))


class SigmoidRouterLayerRaw(SigmoidRouterLayer):
    """Tokens are sent as they came, and scores are of the norm."""

    def tokens(self, x, h):
        return x.flatten(0, 1)


# ------------------------------------------------------------------ soft slots
class SlotExpertsLayer(nn.Module):
    """Each slot is a mean of tokens, each token a mean of what experts make of slots; both by cosines times a factor."""

    def __init__(self, experts=4, slots=3, hidden=32):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.phi, self.scale = nn.Parameter(torch.randn(WIDTH, experts, slots)), nn.Parameter(torch.tensor(2.0))
        self.w_in, self.w_out = nn.Parameter(torch.randn(experts, WIDTH, hidden) * WIDTH ** -0.5), nn.Parameter(torch.randn(experts, hidden, WIDTH) * hidden ** -0.5)

    def soft_moe(self, x):
        phi = self.scale * F.normalize(self.phi, dim=0)
        logits = torch.einsum("bmd,dnp->bmnp", F.normalize(x, dim=-1), phi)
        d = logits.softmax(dim=1)
        c = logits.flatten(2).softmax(dim=2).view_as(logits)
        xs = torch.einsum("bmd,bmnp->bnpd", x, d)
        ys = torch.einsum("bnpd,ndh->bnph", xs, self.w_in)
        ys = torch.einsum("bnph,nhd->bnpd", F.gelu(ys), self.w_out)
        return torch.einsum("bnpd,bmnp->bmd", ys, c)

    def forward(self, x):
        return x + self.soft_moe(self.norm(x))


# ------------------------------------------------------------------ routers of depth
class Decoder(nn.Module):
    def __init__(self, skip=True):
        super().__init__()
        self.skip, self.ln_1, self.ln_2, self.mlp = skip, nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), SwiGLU()
        self.c_attn, self.c_proj = lin(WIDTH, 3 * WIDTH), lin(WIDTH, WIDTH)

    def attend(self, h):
        q, k, v = map(split_heads, self.c_attn(h).chunk(3, dim=-1))
        return self.c_proj(merge_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))

    def forward(self, x):
        if not self.skip:
            return self.mlp(self.ln_2(self.attend(self.ln_1(x))))
        x = x + self.attend(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class DepthRouterLayer(nn.Module):
    """A router says how much of the layer a token gets; the rest is the token as it came."""

    skip = True

    def __init__(self):
        super().__init__()
        self.router_norm, self.router, self.layer = nn.RMSNorm(WIDTH), lin(WIDTH, 1), Decoder(self.skip)

    def forward(self, x):
        p = torch.sigmoid(self.router(self.router_norm(x)))
        return p * self.layer(x) + (1 - p) * x


class DepthRouterLayerBare(DepthRouterLayer):
    """The blend has the token in it, so the layer needs no skips."""

    skip = False


# ------------------------------------------------------------------ pools of bytes
class BytePoolLayer(nn.Module):
    """Bytes read means of patches of four bytes, then a net."""

    def __init__(self, patch=4):
        super().__init__()
        self.patch, self.norm, self.ff = patch, nn.LayerNorm(WIDTH), feed_forward()
        self.query, self.key_value, self.out = lin(WIDTH, WIDTH), lin(WIDTH, 2 * WIDTH), lin(WIDTH, WIDTH)

    def pool(self, t):
        return t.unflatten(1, (-1, self.patch)).mean(dim=2)

    def patches(self, x, h):
        return self.pool(h)

    def read(self, x):
        h = self.norm(x)
        k, v = self.key_value(self.patches(x, h)).chunk(2, dim=-1)
        per_head = []
        for q_i, k_i, v_i in zip(self.query(h).split(PER_HEAD, -1), k.split(PER_HEAD, -1), v.split(PER_HEAD, -1)):
            a = torch.softmax(q_i @ k_i.mT / PER_HEAD ** 0.5, dim=-1)
            per_head.append(a @ v_i)
        return self.out(torch.cat(per_head, dim=-1))

    def forward(self, x):
        x = x + self.read(x)
        return x + self.ff(x)


class BytePoolLayerRaw(BytePoolLayer):
    """Patches are means of what bytes hold."""

    def patches(self, x, h):
        return self.pool(x)


# ------------------------------------------------------------------ token shifts
class TokenShiftLayer(nn.Module):
    """Each token is mixed with the one before: a decayed sum of products with a gate, then a net of squares with a gate."""

    def __init__(self, hidden=48):
        super().__init__()
        self.ln1, self.ln2, self.time_shift = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.ZeroPad2d((0, 0, 1, -1))
        self.mix = nn.ParameterDict({k: nn.Parameter(torch.linspace(0.2, 0.8, WIDTH)) for k in ("k", "v", "r", "ck", "cr")})
        self.att = nn.ModuleDict({k: lin(WIDTH, WIDTH) for k in ("key", "value", "receptance", "output")})
        self.ffn = nn.ModuleDict(dict(key=lin(WIDTH, hidden), receptance=lin(WIDTH, WIDTH), value=lin(hidden, WIDTH)))
        gap = (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).float()
        self.register_buffer("decay", torch.where(gap >= 0, 0.8 ** gap.clamp(min=0), 0.0))

    def before(self, x, h):
        return self.time_shift(h)

    def mixed(self, h, prev, key):
        return torch.lerp(prev, h, self.mix[key].sigmoid())

    def time_mixing(self, x, h):
        prev = self.before(x, h)
        k, v, r = (self.att[name](self.mixed(h, prev, key)) for name, key in (("key", "k"), ("value", "v"), ("receptance", "r")))
        return self.att["output"](r.sigmoid() * (self.decay.to(h) @ (k.sigmoid() * v)))

    def channel_mixing(self, x, h):
        prev = self.before(x, h)
        k = torch.relu(self.ffn["key"](self.mixed(h, prev, "ck"))) ** 2
        return torch.sigmoid(self.ffn["receptance"](self.mixed(h, prev, "cr"))) * self.ffn["value"](k)

    def forward(self, x):
        x = x + self.time_mixing(x, self.ln1(x))
        x = x + self.channel_mixing(x, self.ln2(x))
        return x


class TokenShiftLayerRaw(TokenShiftLayer):
    """What is shifted is the input, so that it can be kept for the next step."""

    def before(self, x, h):
        return self.time_shift(x)


# ------------------------------------------------------------------ differences of two attentions
class DifferentialLayer(nn.Module):
    """Two maps of attention, one taken from the other; a norm a head behind."""

    def __init__(self, lambda_init=0.8):
        super().__init__()
        self.lambda_init, self.norm1, self.norm2, self.mlp = lambda_init, nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH), SwiGLU()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (lin(WIDTH, WIDTH) for _ in range(4))
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (nn.Parameter(0.1 * torch.randn(PER_HEAD)) for _ in range(4))
        self.subln = nn.RMSNorm(PER_HEAD, elementwise_affine=False)

    def attn(self, h):
        b, t, _ = h.shape
        q = self.q_proj(h).view(b, t, HEADS, 2, PER_HEAD // 2)
        k = self.k_proj(h).view(b, t, HEADS, 2, PER_HEAD // 2)
        v = self.v_proj(h).view(b, t, HEADS, PER_HEAD)
        s = torch.einsum("bthcd,bshcd->bhcts", q, k) * (PER_HEAD // 2) ** -0.5
        s = s + torch.full((t, t), float("-inf"), device=h.device, dtype=h.dtype).triu(1)
        one, two = F.softmax(s, dim=-1).unbind(2)
        lam = torch.exp(self.lambda_q1 @ self.lambda_k1) - torch.exp(self.lambda_q2 @ self.lambda_k2) + self.lambda_init
        y = torch.einsum("bhts,bshd->bthd", one - lam * two, v)
        y = self.subln(y) * (1 - self.lambda_init)
        return self.out_proj(y.reshape(b, t, WIDTH))

    def forward(self, x):
        y = self.attn(self.norm1(x)) + x
        return self.mlp(self.norm2(y)) + y


# ------------------------------------------------------------------ states on a sphere
def unit(x):
    return x / x.norm(p=2, dim=-1, keepdim=True).clamp_min(1e-6)


class HypersphereLayer(nn.Module):
    """The state has length one; each branch moves it a step towards what it gives, and it is brought back."""

    def __init__(self):
        super().__init__()
        self.wqkv, self.wo, self.mlp, self.scale = lin(WIDTH, 3 * WIDTH), lin(WIDTH, WIDTH), SwiGLU(), nn.Parameter(torch.full((PER_HEAD,), 2.0))
        self.alpha_a, self.alpha_m = nn.Parameter(torch.full((WIDTH,), 0.2)), nn.Parameter(torch.full((WIDTH,), 0.2))

    def attn(self, h):
        q, k, v = map(split_heads, self.wqkv(h).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(unit(q) * self.scale, unit(k) * self.scale, v, is_causal=True, scale=PER_HEAD ** 0.5)
        return self.wo(merge_heads(y))

    def forward(self, h):
        h = unit(h)
        h = unit(h + self.alpha_a * (unit(self.attn(h)) - h))
        h = unit(h + self.alpha_m * (unit(self.mlp(h)) - h))
        return h


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "GatedMediaLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; tanh of a number is at most one, and stands on the branch."),
    "GatedMediaLayerLerp": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, sound=False, why="a lerp takes one minus the sigmoid of the stream, which for given weights is below one: the stream is forgotten."),
    "ResamplerLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; keys and values are maps of two norms."),
    "ResamplerLayerRaw": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="keys and values are maps of the raw latents: of degree one."),
    "QueryBridgeLayer": dict(_LEVEL, growth_all="bounded", softmax=True, output_bounded={i: False for i in range(3)}, logits_bounded={0: False, 1: False}, sound=True, why="a norm behind each sum."),
    "VisualExpertLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; a mask chooses between two maps of a norm."),
    "ParallelLayer": dict(_PRE, **_TWO, **_SHUT, gradient_law="power", sound=True, why="pre-norm; two functions of one norm are added; norms a head."),
    "ParallelLayerTwice": dict(_EXP, identity_gain=2.0 ** 24, growth_all="exponential", softmax=True, **_SHUT, why="the stream is added twice in each layer."),
    "SigmoidRouterLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="pre-norm; shares of sigmoids sum to a constant."),
    "SigmoidRouterLayerRaw": dict(_EXP, softmax=False, **_ONE, why="experts read raw tokens: products of two maps, of degree two."),
    "SlotExpertsLayer": dict(_PRE, **_ONE, **_SHUT, sound=True, why="pre-norm; cosines times a factor that is held."),
    "DepthRouterLayer": dict(kind="block", growth_fixed="linear", softmax=True, **_TWO, **_OPEN, sound=True, why="p (x + f) + (1 - p) x = x + p f, with f of norms and p below one."),
    "DepthRouterLayerBare": dict(_LEVEL, gated=True, softmax=True, **_OPEN, sound=False, why="the skip is multiplied by one minus a sigmoid of a norm, which for given weights is below a number below one."),
    "BytePoolLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; means of a norm are keys and values."),
    "BytePoolLayerRaw": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="values are maps of means of the raw stream: of degree one."),
    "TokenShiftLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm; the token before is normed too."),
    "TokenShiftLayerRaw": dict(_EXP, softmax=False, **_TWO, why="the token before is read raw, and squared."),
    "DifferentialLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; a norm a head, then a map."),
    "HypersphereLayer": dict(_LEVEL, growth_all="bounded", softmax=True, **_SHUT, why="the state has length one behind each step."),
}
