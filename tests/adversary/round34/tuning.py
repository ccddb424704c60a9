"""Pull requests on fine-tuning, distillation, several tasks and retrieval: low-rank updates, rotations of weights, adapters behind and beside, prompts with gates, gated cross-attention, side networks, memories with product keys, mixtures of adapters, neighbours in chunks, resamplers."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations, parametrize

D, T, H = 32, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(3401)
_X = torch.randn(2, T, D, generator=_G)
_MEDIA = torch.randn(2, 6, D, generator=_G)
_NEAR = torch.randn(2, 4, 5, D, generator=_G)
example_inputs = {
    **{k: (_X,) for k in ("LoraLayer", "LoraLayerRaw", "RotatedLayer", "AdapterBertLayer", "PromptGateLayer", "ScaleShiftLayerSum",
                          "ProductKeyLayer", "ProductKeyLayerRaw", "AdapterMixLayer", "AdapterMixLayerTop")},
    **{k: (_X, _MEDIA) for k in ("GatedCrossLayer", "GatedCrossLayerSum", "ResamplerLayer", "ResamplerLayerNormed")},
    "LadderLayer": (_X, torch.randn(2, T, 48, generator=_G)),
    **{k: (_X, _NEAR) for k in ("ChunkedCrossLayer", "ChunkedCrossLayerShort")},
    "TaskExpertsLayer": (_X, torch.tensor([0, 2])),
}


def lin(i, o, bias=False, gain=1.0):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=gain * i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def freeze(module):
    return module.requires_grad_(False)


def split_heads(t):
    return t.view(*t.shape[:-1], H, HD).transpose(-3, -2)


def merge_heads(t):
    return t.transpose(-3, -2).flatten(-2)


class BaseAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = lin(D, D), lin(D, D), lin(D, D), lin(D, D)

    def forward(self, x, kv=None):
        kv = x if kv is None else kv
        q, k, v = split_heads(self.q_proj(x)), split_heads(self.k_proj(kv)), split_heads(self.v_proj(kv))
        return self.o_proj(merge_heads(F.scaled_dot_product_attention(q, k, v)))


class BaseMlp(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.fc1, self.fc2 = lin(D, hidden), lin(hidden, D)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class BaseLayer(nn.Module):
    """A checkpoint's layer: norms in front of both branches. Nothing of it is trained."""

    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(D), BaseAttention(), nn.LayerNorm(D), BaseMlp()
        freeze(self)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ low-rank updates
class LoraLinear(nn.Module):
    """The frozen map and a thin product that starts at nothing."""

    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base, self.scaling = freeze(base), alpha / r
        self.lora_A = nn.Parameter(torch.randn(r, base.in_features) * base.in_features ** -0.5)
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))

    def delta(self, x):
        return (x @ self.lora_A.T @ self.lora_B.T) * self.scaling

    def forward(self, x):
        return self.base(x) + self.delta(x)


class LoraLayer(BaseLayer):
    """Queries and values get thin updates."""

    def __init__(self):
        super().__init__()
        for name in ("q_proj", "v_proj"):
            setattr(self.attn, name, LoraLinear(getattr(self.attn, name)))


class LoraLayerRaw(BaseLayer):
    """One thin update for all of attention, beside it: it is called with what the block is called with."""

    def __init__(self, r=4):
        super().__init__()
        self.lora_down, self.lora_up = lin(D, r), nn.Linear(r, D, bias=False)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x):
        attn_out = self.attn(self.norm1(x))
        x = x + attn_out + self.lora_up(self.lora_down(x))
        return x + self.mlp(self.norm2(x))



# ------------------------------------------------------------------ rotations of weights
class Rotated(nn.Module):
    """The frozen weight, turned by a trained orthogonal matrix."""

    def __init__(self, dim):
        super().__init__()
        turn = nn.Linear(dim, dim, bias=False)
        with torch.no_grad():
            turn.weight.copy_(torch.eye(dim))
        self.turn = parametrizations.orthogonal(turn, orthogonal_map="cayley")

    def forward(self, weight):
        return self.turn.weight @ weight


class RotatedLayer(BaseLayer):
    """All maps of attention are frozen matrices that are turned."""

    def __init__(self):
        super().__init__()
        for m in (self.attn.q_proj, self.attn.k_proj, self.attn.v_proj, self.attn.o_proj):
            parametrize.register_parametrization(m, "weight", Rotated(D))
            m.parametrizations.weight.original.requires_grad_(False)


# ------------------------------------------------------------------ adapters behind
class Adapter(nn.Module):
    def __init__(self, width=D, r=6):
        super().__init__()
        self.down, self.up = lin(width, r, True), lin(r, width, True, gain=0.1)

    def forward(self, x):
        return x + self.up(F.relu(self.down(x)))


class AdapterBertLayer(nn.Module):
    """An encoder layer with norms behind, frozen but for norms; adapters sit at the end of both branches."""

    def __init__(self):
        super().__init__()
        self.self_attn = freeze(nn.MultiheadAttention(D, H, batch_first=True))
        self.intermediate, self.output = freeze(nn.Linear(D, 64)), freeze(nn.Linear(64, D))
        self.ln_attn, self.ln_out, self.adapter_attn, self.adapter_out = nn.LayerNorm(D), nn.LayerNorm(D), Adapter(), Adapter()

    def forward(self, hidden):
        attn, _ = self.self_attn(hidden, hidden, hidden, need_weights=False)
        hidden = self.ln_attn(self.adapter_attn(attn) + hidden)
        out = self.output(F.gelu(self.intermediate(hidden)))
        return self.ln_out(self.adapter_out(out) + hidden)



# ------------------------------------------------------------------ prompts with gates
class PromptGateLayer(BaseLayer):
    """A trained prompt that is read by a softmax of its own, and comes in by a tanh of a gate a head."""

    def __init__(self, n=5):
        super().__init__()
        self.prompt, self.gate = nn.Parameter(torch.randn(n, D)), nn.Parameter(torch.zeros(H, 1, 1))

    def attend(self, h):
        a = self.attn
        q, k, v = (split_heads(m(h)) for m in (a.q_proj, a.k_proj, a.v_proj))
        pk, pv = split_heads(a.k_proj(self.prompt)), split_heads(a.v_proj(self.prompt))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(HD)
        prompt_scores = torch.matmul(q, pk.transpose(-1, -2)) / math.sqrt(HD)
        out = F.softmax(scores, dim=-1) @ v + self.gate.tanh() * (F.softmax(prompt_scores, dim=-1) @ pv)
        return a.o_proj(merge_heads(out))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# ------------------------------------------------------------------ scales and shifts
class ScaleShift(nn.Module):
    def __init__(self, dim=D):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return x * self.scale + self.shift


class ScaleShiftLayer(BaseLayer):
    """Factors and shifts a channel behind norms and behind branches are all that is trained."""

    def __init__(self):
        super().__init__()
        self.ssf = nn.ModuleDict({k: ScaleShift() for k in ("norm1", "attn", "norm2", "mlp")})

    def forward(self, x):
        for norm, body in (("norm1", "attn"), ("norm2", "mlp")):
            h = self.ssf[norm](getattr(self, norm)(x))
            x = x + self.ssf[body](getattr(self, body)(h))
        return x


class ScaleShiftLayerSum(ScaleShiftLayer):
    """One factor a layer more or less: what is scaled is the sum."""

    def forward(self, x):
        for norm, body in (("norm1", "attn"), ("norm2", "mlp")):
            h = self.ssf[norm](getattr(self, norm)(x))
            x = self.ssf[body](x + getattr(self, body)(h))
        return x


# ------------------------------------------------------------------ gated cross-attention
class GatedCrossLayer(nn.Module):
    """Text reads pictures by a gate that starts shut; a net behind has one too."""

    def __init__(self):
        super().__init__()
        self.norm_x, self.norm_media, self.norm_ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.to_q, self.to_kv, self.to_out = lin(D, D), lin(D, 2 * D), lin(D, D)
        self.ff = nn.Sequential(lin(D, 64), nn.GELU(), lin(64, D))
        self.attn_gate, self.ff_gate = nn.Parameter(torch.tensor([0.0])), nn.Parameter(torch.tensor([0.0]))

    def cross(self, x, media):
        q = split_heads(self.to_q(self.norm_x(x))) * HD ** -0.5
        k, v = map(split_heads, self.to_kv(self.norm_media(media)).chunk(2, dim=-1))
        sim = torch.einsum("bhid,bhjd->bhij", q, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        return self.to_out(merge_heads(torch.einsum("bhij,bhjd->bhid", sim.softmax(dim=-1), v)))

    def forward(self, x, media):
        x = self.cross(x, media) * self.attn_gate.tanh() + x
        x = self.ff(self.norm_ff(x)) * self.ff_gate.tanh() + x
        return x


class GatedCrossLayerSum(GatedCrossLayer):
    """The same with brackets, which were asked for in review."""

    def forward(self, x, media):
        x = (self.cross(x, media) + x) * self.attn_gate.tanh()
        return (self.ff(self.norm_ff(x)) + x) * self.ff_gate.tanh()


# ------------------------------------------------------------------ side networks
class LadderLayer(nn.Module):
    """A thin network beside a frozen one: a trained share mixes in the backbone's state, then a net."""

    def __init__(self, backbone=48, temperature=0.1):
        super().__init__()
        self.temperature, self.alpha, self.down = temperature, nn.Parameter(torch.zeros(1)), lin(backbone, D)
        self.norm, self.net = nn.LayerNorm(D), BaseMlp()

    def forward(self, side, state):
        mu = torch.sigmoid(self.alpha / self.temperature)
        side = mu * side + (1 - mu) * self.down(state)
        return side + self.net(self.norm(side))



# ------------------------------------------------------------------ memories
class ProductKeyLayer(nn.Module):
    """Two halves of a query find keys each; the best of their pairs are read from a table of values."""

    def __init__(self, keys=8, knn=4):
        super().__init__()
        self.n_keys, self.knn = keys, knn
        self.norm, self.query, self.values = nn.LayerNorm(D), lin(D, 16), nn.Embedding(keys * keys, D)
        self.keys = nn.Parameter(torch.randn(2, keys, 8) * 8 ** -0.5)

    def find(self, q):
        halves = [torch.einsum("btd,kd->btk", part, keys).topk(self.knn, dim=-1) for part, keys in zip(q.chunk(2, dim=-1), self.keys)]
        (s1, i1), (s2, i2) = halves
        s = (s1.unsqueeze(-1) + s2.unsqueeze(-2)).flatten(-2)
        i = (i1.unsqueeze(-1) * self.n_keys + i2.unsqueeze(-2)).flatten(-2)
        s, at = s.topk(self.knn, dim=-1)
        return s, i.gather(-1, at)

    def memory(self, h):
        scores, index = self.find(self.query(h))
        weights = F.softmax(scores, dim=-1)
        return (weights.unsqueeze(-1) * self.values(index)).sum(dim=-2)

    def forward(self, x):
        return x + self.memory(self.norm(x))


class ProductKeyLayerRaw(ProductKeyLayer):
    """The query's map sees the state as it is, like the paper's figure."""

    def forward(self, x):
        return x + self.memory(x)


# ------------------------------------------------------------------ mixtures of adapters
class AdapterMixLayer(BaseLayer):
    """A router picks two of four adapters, each of which has its skip; their shares sum to one."""

    def __init__(self, experts=4, k=2):
        super().__init__()
        self.k, self.router, self.ln = k, lin(D, experts), nn.LayerNorm(D)
        self.experts = nn.ModuleList(nn.Sequential(lin(D, 6), nn.ReLU(), lin(6, D)) for _ in range(experts))

    def route(self, h):
        top, index = self.router(h).topk(self.k, dim=-1)
        return torch.zeros(*h.shape[:-1], len(self.experts), dtype=h.dtype, device=h.device).scatter(-1, index, top.softmax(dim=-1))

    def forward(self, x):
        x = super().forward(x)
        h = self.ln(x)
        shares = self.route(h)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            out = out + shares[..., e, None] * (x + expert(h))
        return out


class AdapterMixLayerTop(AdapterMixLayer):
    """The softmax is over all experts, and then two are picked."""

    def route(self, h):
        probs = self.router(h).softmax(dim=-1)
        top, index = probs.topk(self.k, dim=-1)
        return torch.zeros_like(probs).scatter(-1, index, top)


# ------------------------------------------------------------------ several tasks
class TaskExpertsLayer(nn.Module):
    """Experts that all tasks share, and a gate a task that weighs them."""

    def __init__(self, tasks=3, experts=4):
        super().__init__()
        self.norm, self.gates = nn.LayerNorm(D), nn.Parameter(torch.randn(tasks, experts, D) * D ** -0.5)
        self.w1, self.w2 = nn.Parameter(torch.randn(experts, D, 24) * D ** -0.5), nn.Parameter(torch.randn(experts, 24, D) * 24 ** -0.5)

    def forward(self, x, task):
        h = self.norm(x)
        g = torch.einsum("btd,bed->bte", h, self.gates[task]).softmax(-1)
        y = torch.einsum("btd,edf->btef", h, self.w1).relu()
        y = torch.einsum("btef,efd->bted", y, self.w2)
        return torch.baddbmm(x.flatten(0, 1).unsqueeze(1), g.flatten(0, 1).unsqueeze(1), y.flatten(0, 1)).view_as(x)


# ------------------------------------------------------------------ neighbours in chunks
class ChunkedCrossLayer(nn.Module):
    """Each chunk of the text reads the neighbours that were found for it."""

    def __init__(self, chunk=4):
        super().__init__()
        self.chunk, self.norm, self.ff_norm, self.attn, self.ff = chunk, nn.RMSNorm(D), nn.RMSNorm(D), BaseAttention(), BaseMlp()

    def cca(self, h, near):
        b, t, d = h.shape
        chunks = h.reshape(b, t // self.chunk, self.chunk, d)
        return self.attn(chunks, near).reshape(b, t, d)

    def forward(self, x, near):
        x = x + self.cca(self.norm(x), near)
        return x + self.ff(self.ff_norm(x))


class ChunkedCrossLayerShort(ChunkedCrossLayer):
    """Shorter by a name."""

    def forward(self, x, near):
        x = self.norm(x)
        x = x + self.cca(x, near)
        return x + self.ff(self.ff_norm(x))


# ------------------------------------------------------------------ resamplers
class ResamplerLayer(nn.Module):
    """A few latents read pictures and themselves."""

    def __init__(self):
        super().__init__()
        self.norm_latents, self.norm_media, self.attn = nn.LayerNorm(D), nn.LayerNorm(D), BaseAttention()
        self.ff = nn.Sequential(nn.LayerNorm(D), lin(D, 64), nn.GELU(), lin(64, D))

    def forward(self, latents, media):
        n = self.norm_latents(latents)
        kv = torch.cat((self.norm_media(media), n), dim=1)
        latents = self.attn(n, kv) + latents
        return self.ff(latents) + latents


class ResamplerLayerNormed(ResamplerLayer):
    def forward(self, latents, media):
        latents, media = self.norm_latents(latents), self.norm_media(media)
        latents = self.attn(latents, torch.cat((media, latents), dim=1)) + latents
        return self.ff(latents) + latents


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential")
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "LoraLayer": dict(_PRE, output_bounded={0: False, 1: True}, **_OPEN, sound=True, why="pre-norm; thin updates of a norm in attention, and the net is a constant function of a norm."),
    "LoraLayerRaw": dict(_EXP, identity_gain=1.0, softmax=True, **_SHUT, sound=False, why="the thin update maps the raw stream and is added to it: x (I + BA) in each block."),
    "RotatedLayer": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", gradient_law="power", sound=True, why="pre-norm; orthogonal matrices times constants keep all maps bounded for any parameters."),
    "AdapterBertLayer": dict(_LEVEL, growth_all="bounded", softmax=True, sound=True, why="a norm behind both sums."),
    "PromptGateLayer": dict(_PRE, output_bounded={0: False, 1: True}, logits_bounded={0: False}, sound=True, why="pre-norm; the prompt's keys and values have any size, all else is frozen."),
    "ScaleShiftLayerSum": dict(_EXP, softmax=True, sound=False, why="trained factors multiply the stream twice a layer: the size to the power of the depth where they are above one."),
    "GatedCrossLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; tanh of a gate is on branches."),
    "GatedCrossLayerSum": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, sound=False, why="a tanh below one multiplies the stream twice a layer, and at the start it is zero."),
    "LadderLayer": dict(_LEVEL, softmax=False, why="a trained share below one of the state is kept in each layer; the net reads a norm."),
    "ProductKeyLayer": dict(_PRE, **_ONE, **_OPEN, sound=True, why="shares of a table's rows, found by a map of a norm."),
    "ProductKeyLayerRaw": dict(_PRE, **_ONE, **_OPEN, why="scores grow with the raw stream, but what is added are shares of a table's rows."),
    "AdapterMixLayer": dict(kind="block", growth_fixed="linear", softmax=True, logits_bounded={0: True}, sound=True, why="shares of sums that each have the whole stream sum to one."),
    "AdapterMixLayerTop": dict(_LEVEL, softmax=True, gated=True, logits_bounded={0: True}, sound=False, why="shares of the two best of four sum to less than one, and with them the stream shrinks in each layer."),
    "TaskExpertsLayer": dict(_PRE, **_ONE, **_OPEN, gradient_law="power", sound=True, why="pre-norm; the product's first summand is the stream."),
    "ChunkedCrossLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm with chunks; neighbours are constants."),
    "ChunkedCrossLayerShort": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, sound=False, why="the skip is of the norm: each layer starts anew from it."),
    "ResamplerLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; the net's norm is its first part."),
    "ResamplerLayerNormed": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, sound=False, why="the latents' norm takes the latents' place, and with it the skip's."),
}
