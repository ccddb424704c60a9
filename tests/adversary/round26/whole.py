"""Whole models, as they are sent for review: language models, encoders, pictures, sound, flows, graphs, series, sessions, agents; some with a slip in how parts are joined."""

import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 60
HD = D // H

_G = torch.Generator().manual_seed(426)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_IDS = torch.randint(0, V, (2, T), generator=_G)
example_inputs = {
    **{k: (_IDS,) for k in ("CharLm", "CharLmExport", "ScaledEmbedLm", "BehaviourSequence", "SharedDepthLm", "FusedAddScanLm")},
    "MaskedEncoder": (_IDS, torch.ones(2, T, dtype=torch.long)),
    "HybridStemVit": (_draw(2, 3, 16, 16),),
    "NoiseToWave": (_draw(2, 1, 32), torch.tensor([0.2, 0.9])),
    "FlowMatchingNet": (_draw(2, 12, 8), torch.tensor([0.3, 0.6])),
    "GraphReadout": (_draw(2, 10, 7), (_draw(2, 10, 10) > 0.5)),
    "HorizonDecoder": (_draw(2, 48, 3),),
    "TwinCritic": (_draw(4, 11), _draw(4, 3)),
}


def dense(i, o, bias=False, gain=1.0):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=gain / math.sqrt(i))
    if bias:
        nn.init.zeros_(m.bias)
    return m


def net(act=nn.GELU, h=64):
    return nn.Sequential(dense(D, h), act(), dense(h, D))


class SwiGlu(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = dense(D, 48), dense(D, 48), dense(48, D)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Heads(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (dense(D, D) for _ in range(4))
        self.causal = causal

    def forward(self, x, memory=None):
        m = x if memory is None else memory
        q, k, v = (p(s).view(s.shape[0], -1, H, HD).transpose(1, 2) for p, s in ((self.q_proj, x), (self.k_proj, m), (self.v_proj, m)))
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    """Pre-norm."""

    def __init__(self, causal=False, norm=nn.LayerNorm, mlp=net):
        super().__init__()
        self.input_norm, self.post_norm, self.self_attn, self.mlp = norm(D), norm(D), Heads(causal), mlp()

    def forward(self, x):
        x = x + self.self_attn(self.input_norm(x))
        x = x + self.mlp(self.post_norm(x))
        return x


class Stacked(nn.Module):
    """Layers in a list."""

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x


# ------------------------------------------------------------------ language
class CharLm(Stacked):
    """Characters, gated nets, tied embeddings."""

    def __init__(self, n=None):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.02)
        self.blocks = nn.ModuleList(Layer(True, nn.RMSNorm, SwiGlu) for _ in range(n or 6))
        self.norm = nn.RMSNorm(D)

    def hidden(self, ids):
        return self.norm(self.trunk(self.tok(ids) + self.pos[: ids.shape[1]]))

    def forward(self, ids):
        return F.linear(self.hidden(ids), self.tok.weight)


class CharLmExport(CharLm):
    """For the runtime: one head without sharing, gains folded into its map."""

    def __init__(self, n=None):
        super().__init__(n)
        self.head = dense(D, V)
        with torch.no_grad():
            self.head.weight.mul_(self.norm.weight)
        del self.norm

    def hidden(self, ids):
        return self.trunk(self.tok(ids) + self.pos[: ids.shape[1]])

    def forward(self, ids):
        return self.head(self.hidden(ids))


class ScaledEmbedLm(nn.Module):
    """Embeddings are drawn small and scaled by the root of the width."""

    def __init__(self, n=None):
        super().__init__()
        self.tok, self.blocks, self.norm = nn.Embedding(V, D), nn.ModuleList(Layer(True) for _ in range(n or 4)), nn.LayerNorm(D)
        nn.init.normal_(self.tok.weight, std=D ** -0.5)
        self.scale = math.sqrt(D)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x * self.scale)
        return x

    def forward(self, ids):
        return self.norm(self.trunk(self.tok(ids))) @ self.tok.weight.t()


class SharedDepthLm(nn.Module):
    """One layer's weights for all depths, factored embeddings."""

    def __init__(self, n=None):
        super().__init__()
        self.passes = n or 6
        self.tok, self.wide, self.layer = nn.Embedding(V, 16), dense(16, D), Layer(True)
        self.norm, self.thin = nn.LayerNorm(D), dense(D, 16)

    def trunk(self, x):
        for _ in range(self.passes):
            x = self.layer(x)
        return x

    def forward(self, ids):
        h = self.norm(self.trunk(self.wide(self.tok(ids))))
        return self.thin(h) @ self.tok.weight.T


class DecayMixer(nn.Module):
    """A decaying mean of the past in closed form, gated."""

    def __init__(self):
        super().__init__()
        self.u, self.g, self.o, self.decay = dense(D, D), dense(D, D), dense(D, D), nn.Parameter(torch.linspace(-1.0, 3.0, D))

    def forward(self, h):
        n = torch.arange(h.shape[1], device=h.device)
        gap = (n[:, None] - n).clamp(min=0)
        a = torch.sigmoid(self.decay)
        kernel = (1 - a) * a ** gap[..., None] * (n[:, None] >= n)[..., None]
        return self.o(torch.einsum("tsd,bsd->btd", kernel, self.u(h)) * F.silu(self.g(h)))


class AddNormLayer(nn.Module):
    """The sum of what came in is made in front of the norm, as the fused kernel does."""

    def __init__(self):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(D), DecayMixer()

    def forward(self, hidden, residual=None):
        residual = hidden if residual is None else hidden + residual
        hidden = self.norm(residual)
        hidden = self.mixer(hidden) + residual
        return hidden, residual


class FusedAddScanLm(nn.Module):
    """Hidden states and residuals go from layer to layer; the sum is made in the next one."""

    def __init__(self, n=None):
        super().__init__()
        self.embed, self.layers, self.norm_f, self.head = nn.Embedding(V, D), nn.ModuleList(AddNormLayer() for _ in range(n or 6)), nn.RMSNorm(D), dense(D, V)

    def trunk(self, x):
        residual = None
        for layer in self.layers:
            x, residual = layer(x, residual)
        return x + residual

    def forward(self, ids):
        return self.head(self.norm_f(self.trunk(self.embed(ids))))


# ------------------------------------------------------------------ encoders
@dataclass
class EncoderConfig:
    hidden_size: int = D
    num_hidden_layers: int = 4
    intermediate_size: int = 64
    layer_norm_eps: float = 1e-12


class EncoderOutput(nn.Module):
    def __init__(self, i, cfg):
        super().__init__()
        self.dense, self.LayerNorm = dense(i, cfg.hidden_size, bias=True), nn.LayerNorm(cfg.hidden_size, eps=cfg.layer_norm_eps)

    def forward(self, hidden_states, input_tensor):
        return self.LayerNorm(self.dense(hidden_states) + input_tensor)


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.qkv, self.attention_output = dense(D, 3 * D, bias=True), EncoderOutput(D, cfg)
        self.intermediate, self.output = dense(D, cfg.intermediate_size, bias=True), EncoderOutput(cfg.intermediate_size, cfg)

    def forward(self, x, bias):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        p = (q @ k.transpose(2, 3) / math.sqrt(HD) + bias).softmax(dim=-1)
        x = self.attention_output((p @ v).transpose(1, 2).flatten(2), x)
        return self.output(F.gelu(self.intermediate(x)), x)


class MaskedEncoder(nn.Module):
    """Masked language model with an additive mask and a tied decoder behind a transform."""

    def __init__(self, n=None):
        super().__init__()
        cfg = EncoderConfig(num_hidden_layers=n or 4)
        self.words, self.places, self.norm = nn.Embedding(V, D), nn.Embedding(T, D), nn.LayerNorm(D)
        self.layer = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.num_hidden_layers))
        self.transform, self.transform_norm, self.bias = dense(D, D, bias=True), nn.LayerNorm(D), nn.Parameter(torch.zeros(V))

    def trunk(self, x, bias):
        for layer in self.layer:
            x = layer(x, bias)
        return x

    def forward(self, ids, attention_mask):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -1e4
        x = self.trunk(self.norm(x), bias)
        return self.transform_norm(F.gelu(self.transform(x))) @ self.words.weight.T + self.bias


class HybridStemVit(nn.Module):
    """A stem of convolutions in front of a vision transformer; a class token is read."""

    def __init__(self, n=None):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, D, 3, 2, 1), nn.BatchNorm2d(D))
        self.cls, self.pos = nn.Parameter(torch.zeros(1, 1, D)), nn.Parameter(torch.randn(1, 17, D) * 0.02)
        self.encoder = nn.Sequential(*(Layer(norm=partial(nn.LayerNorm, eps=1e-6)) for _ in range(n or 5)))
        self.fc_norm, self.head = nn.LayerNorm(D), dense(D, 10, bias=True)

    @property
    def blocks(self):
        return self.encoder

    def trunk(self, x):
        return self.encoder(x)

    def forward(self, img):
        x = self.stem(img).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
        return self.head(self.fc_norm(self.trunk(x)[:, 0]))


# ------------------------------------------------------------------ sound, flows
def timestep(t, d=D):
    f = torch.exp(-math.log(1000.0) * torch.arange(d // 2, device=t.device) / (d // 2))
    a = t[:, None] * f * 100
    return torch.cat((a.sin(), a.cos()), dim=-1)


class WaveUnit(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.n1, self.c1, self.time = nn.GroupNorm(4, i), nn.Conv1d(i, o, 3, padding=1), dense(D, o, bias=True)
        self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv1d(o, o, 3, padding=1)
        self.skip = nn.Identity() if i == o else nn.Conv1d(i, o, 1)

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.time(t)[:, :, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class NoiseToWave(nn.Module):
    """A small U-shaped net for waves."""

    def __init__(self, n=None):
        super().__init__()
        c = 16
        self.head, self.time = nn.Conv1d(1, c, 3, padding=1), nn.Sequential(dense(D, D, True), nn.SiLU())
        self.d1, self.d2, self.mid, self.u2, self.u1 = WaveUnit(c, c), WaveUnit(c, 2 * c), WaveUnit(2 * c, 2 * c), WaveUnit(4 * c, c), WaveUnit(2 * c, c)
        self.tail_norm, self.tail = nn.GroupNorm(4, c), nn.Conv1d(c, 1, 3, padding=1)

    def forward(self, x, t):
        t = self.time(timestep(t))
        a = self.d1(self.head(x), t)
        b = self.d2(F.avg_pool1d(a, 2), t)
        m = self.mid(F.avg_pool1d(b, 2), t)
        y = self.u2(torch.cat((F.interpolate(m, scale_factor=2.0), b), 1), t)
        y = self.u1(torch.cat((F.interpolate(y, scale_factor=2.0), a), 1), t)
        return self.tail(F.silu(self.tail_norm(y)))


class FlowMatchingNet(nn.Module):
    """Velocities of latents; the time comes in again in front of each layer."""

    def __init__(self, n=None):
        super().__init__()
        self.proj_in, self.time = dense(8, D, True), nn.Sequential(dense(D, D, True), nn.SiLU(), dense(D, D, True))
        self.blocks, self.norm_out, self.proj_out = nn.ModuleList(Layer() for _ in range(n or 6)), nn.LayerNorm(D), dense(D, 8, True)

    def trunk(self, x, temb):
        for block in self.blocks:
            x = block(x + temb[:, None])
        return x

    def forward(self, x, t):
        return self.proj_out(self.norm_out(self.trunk(self.proj_in(x), self.time(timestep(t)))))


# ------------------------------------------------------------------ graphs, series, sessions, agents
class GraphLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.lin, self.self_loop = nn.LayerNorm(D), dense(D, D), dense(D, D, bias=True)

    def forward(self, x, a):
        h = self.norm(x)
        return x + F.relu(a @ self.lin(h) + self.self_loop(h))


class GraphReadout(nn.Module):
    """Symmetric degrees, residual layers, a mean and a largest value of nodes are read."""

    def __init__(self, n=None):
        super().__init__()
        self.embed, self.blocks = dense(7, D, True), nn.ModuleList(GraphLayer() for _ in range(n or 5))
        self.final, self.read = nn.LayerNorm(D), nn.Sequential(dense(2 * D, D, True), nn.ReLU(), dense(D, 1, True))

    def trunk(self, x, a):
        for block in self.blocks:
            x = block(x, a)
        return x

    def forward(self, x, edges):
        x = self.embed(x)
        a = (edges | edges.transpose(1, 2)).to(x.dtype)
        a = a + torch.eye(a.shape[1], device=a.device, dtype=a.dtype)
        d = a.sum(-1).rsqrt()
        x = self.final(self.trunk(x, d[:, :, None] * a * d[:, None, :]))
        return self.read(torch.cat((x.mean(1), x.amax(1)), dim=-1))


class QueryLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.own, self.cross, self.net = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), Heads(), Heads(), net()

    def forward(self, x, memory):
        x = x + self.own(self.n1(x))
        x = x + self.cross(self.n2(x), memory)
        return x + self.net(self.n3(x))


class HorizonDecoder(nn.Module):
    """Trained queries, one a step of the horizon, read patches of the past; level and spread go around the net."""

    def __init__(self, n=None):
        super().__init__()
        self.patch, self.memory_norm = dense(8 * 3, D, True), nn.LayerNorm(D)
        self.queries = nn.Parameter(torch.randn(1, 12, D))
        self.blocks, self.norm, self.head = nn.ModuleList(QueryLayer() for _ in range(n or 4)), nn.LayerNorm(D), dense(D, 3, True)

    def trunk(self, x, memory):
        for block in self.blocks:
            x = block(x, memory)
        return x

    def forward(self, series):
        mean, std = series.mean(1, keepdim=True), series.std(1, keepdim=True) + 1e-5
        z = (series - mean) / std
        memory = self.memory_norm(self.patch(z.reshape(z.shape[0], -1, 24)))
        x = self.trunk(self.queries.expand(z.shape[0], -1, -1), memory)
        return self.head(self.norm(x)) * std + mean


class SessionUnit(nn.Module):
    """Pointwise attention without shares; its norm is multiplied by a gate."""

    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_attn, self.uvqk, self.o = nn.LayerNorm(D), nn.LayerNorm(D, elementwise_affine=False), dense(D, 4 * D), dense(D, D, True)
        self.register_buffer("seen", torch.ones(T, T).tril(), persistent=False)

    def forward(self, x):
        u, v, q, k = F.silu(self.uvqk(self.norm_in(x))).chunk(4, dim=-1)
        q, k, v = (t.unflatten(-1, (H, HD)) for t in (q, k, v))
        a = F.silu(torch.einsum("bthd,bshd->bhts", q, k)) / T * self.seen
        y = torch.einsum("bhts,bshd->bthd", a, v).flatten(-2)
        return x + self.o(u * self.norm_attn(y))


class BehaviourSequence(Stacked):
    """Next items by cosines with their embeddings."""

    def __init__(self, n=None):
        super().__init__()
        self.items, self.pos, self.blocks = nn.Embedding(V, D), nn.Embedding(T, D), nn.ModuleList(SessionUnit() for _ in range(n or 4))

    def forward(self, ids):
        x = self.items(ids) * D ** 0.5 + self.pos.weight
        x = F.normalize(self.trunk(x), dim=-1)
        return x @ F.normalize(self.items.weight, dim=-1).T / 0.05


class ValueUnit(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(D), dense(D, 4 * D, True, gain=2 ** 0.5), dense(4 * D, D, True)

    def forward(self, x):
        return x + self.fc2(F.relu(self.fc1(self.norm(x))))


class TwinCritic(nn.Module):
    """Two estimates of a value, of which the smaller one is taken."""

    def __init__(self, n=None):
        super().__init__()
        self.embed = dense(14, D, True)
        self.first = self.second = nn.Sequential(*(ValueUnit() for _ in range(n or 3)))
        self.q1, self.q2 = (nn.Sequential(nn.LayerNorm(D), dense(D, 1, True)) for _ in range(2))

    def trunk(self, x):
        return self.first(x)

    def forward(self, obs, act):
        x = self.embed(torch.cat((obs, act), dim=-1))
        return torch.minimum(self.q1(self.trunk(x)), self.q2(self.second(x)))


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
_TWO, _OPEN = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "CharLm": dict(_M, gradient_law="power", depth=6, softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm, a norm in front of the head."),
    "CharLmExport": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, sound=False, why="the same stream; gains are kept, and the norm is not."),
    "ScaledEmbedLm": dict(kind="model", depth=4, identity_gain=1024.0, gradient_law="exponential", growth_fixed="exponential", softmax=True, **_OPEN, sound=False, why="the root of the width is in the loop: 32^(n/2)."),
    "SharedDepthLm": dict(_M, softmax=True, sound=True, why="pre-norm, with the same weights in all passes."),
    "FusedAddScanLm": dict(kind="model", depth=6, identity_gain=64.0, growth_fixed="exponential", softmax=False, sound=False, why="the residual is in what is handed on and is added to itself in the next layer."),
    "MaskedEncoder": dict(kind="model", depth=4, growth_fixed="bounded", softmax=True, sound=True, why="post-norm."),
    "HybridStemVit": dict(_M, gradient_law="power", depth=5, softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm, a norm in front of the head."),
    "NoiseToWave": dict(kind="model", softmax=False, sound=True, why="pre-norm units, a norm in front of the last map."),
    "FlowMatchingNet": dict(_M, depth=6, softmax=True, **_OPEN, sound=True, why="pre-norm; one and the same vector is added in each layer."),
    "GraphReadout": dict(_M, gradient_law="power", depth=5, softmax=False, output_bounded={0: False}, sound=True, why="pre-norm; the matrix of the graph has norm one and is read by branches alone."),
    "HorizonDecoder": dict(_M, depth=4, softmax=True, sound=True, why="pre-norm; the memory is a norm."),
    "BehaviourSequence": dict(_M, depth=4, softmax=False, output_bounded={0: False}, sound=True, why="pre-norm; a gate times a norm, through a map; cosines at the end."),
    "TwinCritic": dict(_M, softmax=False, output_bounded={0: False}, sound=False, why="pre-norm; both estimates read one and the same tower."),
}
