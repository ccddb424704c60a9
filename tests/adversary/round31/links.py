"""Pull requests on graphs, recommenders, agents, retrieval, adapters and mixtures: edges that gate, filters of distances, gated units by points, wide critics, latents that read, gates that start closed, directions of maps, the best two experts, halves that can be undone."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, N, H = 32, 12, 4
HD = D // H

_G = torch.Generator().manual_seed(331)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_SEQ = _draw(2, N, D)
example_inputs = {
    "GatedEdgeLayer": (_draw(N, D), _draw(N, N, D)),
    "DistanceFilterLayer": (_draw(N, D), _draw(N, 3)),
    "PointwiseUnitLayer": (_SEQ,),
    **{k: (_draw(16, D),) for k in ("WideCriticUnit", "WideCriticUnitTidy")},
    **{k: (_draw(2, 5, D), _draw(2, 9, D)) for k in ("LatentReaderLayer", "LatentReaderLayerCat", "GatedReaderLayer", "GatedReaderLayerLerp")},
    **{k: (_SEQ,) for k in ("DirectionLayer", "TopTwoLayer", "TopTwoLayerBuffer")},
    **{k: (_draw(2, N, D), _draw(2, N, D)) for k in ("ReversibleLayer", "ReversibleLayerFused")},
}


def lin(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def net(i, o, hidden=64, act=nn.GELU):
    return nn.Sequential(lin(i, hidden), act(), lin(hidden, o))


class MultiHead(nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.causal = causal
        self.to_q, self.to_kv, self.to_out = lin(D, D, False), lin(D, 2 * D, False), lin(D, D, False)

    def forward(self, x, context=None):
        q, (k, v) = self.to_q(x), self.to_kv(x if context is None else context).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(-2, -3) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.to_out(y.transpose(-2, -3).flatten(-2))


# ------------------------------------------------------------------ edges that gate
class GatedEdgeLayer(nn.Module):
    """Edges have states; sigmoids of them, divided by their sum, gate what neighbours send. Norms of the batch in front of ReLUs, in front of sums."""

    def __init__(self):
        super().__init__()
        self.A, self.B, self.C, self.D, self.E = (lin(D, D) for _ in range(5))
        self.bn_h, self.bn_e = nn.BatchNorm1d(D), nn.BatchNorm1d(D)

    def forward(self, h, e):
        e_hat = self.C(e) + self.D(h)[:, None] + self.E(h)[None]
        sigma = torch.sigmoid(e_hat)
        h_hat = self.A(h) + (sigma * self.B(h)[None]).sum(dim=1) / (sigma.sum(dim=1) + 1e-6)
        h = h + F.relu(self.bn_h(h_hat))
        e = e + F.relu(self.bn_e(e_hat.flatten(0, 1)).view_as(e))
        return h, e


# ------------------------------------------------------------------ filters of distances
class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return F.softplus(x) - F.softplus(torch.zeros((), dtype=x.dtype))


class DistanceFilterLayer(nn.Module):
    """Atoms: a filter of the spread distance weighs what neighbours send; a net, a skip, and no norm."""

    def __init__(self, bumps=16, cutoff=4.0):
        super().__init__()
        self.register_buffer("offset", torch.linspace(0, cutoff, bumps), persistent=False)
        self.cutoff, self.mlp, self.lin1 = cutoff, nn.Sequential(lin(bumps, D), ShiftedSoftplus(), lin(D, D)), lin(D, D, False)
        self.lin2, self.act, self.lin3 = lin(D, D), ShiftedSoftplus(), lin(D, D)

    def forward(self, h, pos):
        d = (pos[:, None] - pos[None]).square().sum(-1).clamp(min=1e-12).sqrt()
        rbf = torch.exp(-4.0 * (d[..., None] - self.offset) ** 2)
        c = 0.5 * (torch.cos(d * torch.pi / self.cutoff) + 1.0) * (d < self.cutoff)
        w = self.mlp(rbf) * c[..., None]
        m = torch.einsum("ijd,jd->id", w, self.lin1(h))
        return h + self.lin3(self.act(self.lin2(m)))


# ------------------------------------------------------------------ gated units by points
class PointwiseUnitLayer(nn.Module):
    """Actions of a user: scores go through an activation by points and are divided by the length; what is read is normed and multiplied by a gate."""

    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_out, self.f1, self.f2, self.rel = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 4 * D, False), lin(D, D), nn.Parameter(torch.randn(2 * N - 1) * 0.1)

    def forward(self, x):
        b, n, _ = x.shape
        u, v, q, k = F.silu(self.f1(self.norm_in(x))).chunk(4, dim=-1)
        q, k, v = (t.view(b, n, H, HD).permute(0, 2, 1, 3) for t in (q, k, v))
        at = torch.arange(n, device=x.device)
        a = F.silu(q @ k.transpose(-1, -2) + self.rel[at[:, None] - at[None] + N - 1]) / n
        y = (a.tril() @ v).permute(0, 2, 1, 3).reshape(b, n, D)
        return x + self.f2(self.norm_out(y) * u)


# ------------------------------------------------------------------ wide critics
class WideCriticUnit(nn.Module):
    """Map, norm, ReLU, map, norm, and a skip."""

    def __init__(self):
        super().__init__()
        self.dense0, self.norm0, self.dense1, self.norm1 = lin(D, D), nn.LayerNorm(D), lin(D, D), nn.LayerNorm(D)

    def forward(self, x):
        res = x
        x = self.dense0(x)
        x = self.norm0(x)
        x = F.relu(x)
        x = self.dense1(x)
        x = self.norm1(x)
        return res + x


class WideCriticUnitTidy(WideCriticUnit):
    """The same as a list, with the ReLU in place and the skip taken behind the first map, where a wider input has its new width."""

    def forward(self, x):
        res = x = self.dense0(x)
        for f in (self.norm0, F.relu, self.dense1, self.norm1):
            x = f(x)
        return res + x


# ------------------------------------------------------------------ latents that read
class LatentReaderLayer(nn.Module):
    """A few latents read a picture's tokens and each other."""

    def __init__(self):
        super().__init__()
        self.norm_media, self.norm_latents, self.ff_norm, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), MultiHead(), net(D, D)

    def forward(self, latents, media):
        media, q = self.norm_media(media), self.norm_latents(latents)
        latents = latents + self.attn(q, torch.cat((media, q), dim=-2))
        return latents + self.ff(self.ff_norm(latents))


class LatentReaderLayerCat(LatentReaderLayer):
    """What is read is put together by the caller."""

    def forward(self, latents, media):
        context = torch.cat((self.norm_media(media), latents), dim=-2)
        latents = latents + self.attn(self.norm_latents(latents), context)
        return latents + self.ff(self.ff_norm(latents))


# ------------------------------------------------------------------ gates that start closed
class GatedReaderLayer(nn.Module):
    """Words read a picture through a tanh of a trained scalar, and so for the net behind it."""

    def __init__(self, gate=0.3):
        super().__init__()
        self.norm, self.ff_norm, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), MultiHead(), net(D, D)
        self.gain_attn, self.gain_ff = nn.Parameter(torch.tensor([gate])), nn.Parameter(torch.tensor([gate]))

    def put(self, x, y, g):
        return y * g.tanh() + x

    def forward(self, x, media):
        x = self.put(x, self.attn(self.norm(x), media), self.gain_attn)
        return self.put(x, self.ff(self.ff_norm(x)), self.gain_ff)


class GatedReaderLayerLerp(GatedReaderLayer):
    """One call, and nothing changes where the gate is nothing."""

    def put(self, x, y, g):
        return torch.lerp(x, y, g.tanh())


# ------------------------------------------------------------------ directions of maps
class DirectionMap(nn.Module):
    """A frozen map and a thin one; each row of their sum is brought to a trained length."""

    def __init__(self, i, o, r=4):
        super().__init__()
        self.register_buffer("weight", torch.randn(o, i) * i ** -0.5)
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(r, i) * i ** -0.5), nn.Parameter(torch.zeros(o, r))
        self.gain_magnitude = nn.Parameter(self.weight.norm(dim=1, keepdim=True).clone())

    def forward(self, x):
        w = self.weight + self.lora_b @ self.lora_a
        return F.linear(x, self.gain_magnitude * w / w.norm(dim=1, keepdim=True))


class DirectionLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.q, self.k, self.v, self.o, self.gate, self.up, self.down = *(DirectionMap(D, D) for _ in range(4)), DirectionMap(D, 48), DirectionMap(D, 48), DirectionMap(48, D)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (f(h).unflatten(-1, (H, HD)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


# ------------------------------------------------------------------ the best two
class TopTwoLayer(nn.Module):
    """Each token goes to two of four nets, whose shares sum to one."""

    def __init__(self, experts=4, k=2):
        super().__init__()
        self.k, self.norm1, self.norm2, self.attn = k, nn.RMSNorm(D), nn.RMSNorm(D), MultiHead(causal=True)
        self.gate, self.experts = lin(D, experts, False), nn.ModuleList(net(D, D, 48, nn.SiLU) for _ in range(experts))

    def start(self, residual):
        return torch.zeros_like(residual).flatten(0, 1)

    def moe(self, hidden_states, residual):
        flat = hidden_states.flatten(0, 1)
        routing_weights = F.softmax(self.gate(flat), dim=1)
        routing_weights, selected = torch.topk(routing_weights, self.k, dim=-1)
        routing_weights = routing_weights / routing_weights.sum(dim=-1, keepdim=True)
        final = self.start(residual)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(selected == e)
            final.index_add_(0, token, expert(flat[token]) * routing_weights[token, slot, None])
        return final.view_as(residual)

    def forward(self, x):
        residual = x
        x = residual + self.attn(self.norm1(x))
        residual = x
        return residual + self.moe(self.norm2(x), residual)


class TopTwoLayerBuffer(TopTwoLayer):
    """The buffer for what experts give is a copy of what there is, which saves a fill."""

    def start(self, residual):
        return residual.clone().flatten(0, 1)


# ------------------------------------------------------------------ halves that can be undone
class ReversibleLayer(nn.Module):
    """Two streams; each one gets a function of the other one."""

    def __init__(self):
        super().__init__()
        self.f_norm, self.g_norm, self.f, self.g = nn.LayerNorm(D), nn.LayerNorm(D), MultiHead(causal=True), net(D, D)

    def forward(self, x1, x2):
        y1 = x1 + self.f(self.f_norm(x2))
        y2 = x2 + self.g(self.g_norm(y1))
        return y1, y2


class ReversibleLayerFused(ReversibleLayer):
    """Both norms are computed at the start, where both streams are at hand."""

    def forward(self, x1, x2):
        n1, n2 = self.g_norm(x1), self.f_norm(x2)
        y = self.f(n2)
        return x1 + y, x2 + self.g(n1 + y)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _BOTH = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "GatedEdgeLayer": dict(_NET, output_bounded={0: True, 1: True}, growth_all="linear", sound=True, why="both branches end in a norm of the batch and a ReLU."),
    "DistanceFilterLayer": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, why="no norm: softplus is of degree one far out."),
    "PointwiseUnitLayer": dict(_NET, **_ONE, sound=True, why="pre-norm; a norm times a gate of the norm."),
    "WideCriticUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm."),
    "WideCriticUnitTidy": dict(kind="block", softmax=False, sound=False, why="the skip is of a map of the stream: no path without weights."),
    "LatentReaderLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm; latents are normed also where they are read."),
    "LatentReaderLayerCat": dict(_EXP, softmax=True, **_TWO, **_OPEN, why="latents are read as they are: values of degree one."),
    "GatedReaderLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; the picture's tokens are the same in all layers."),
    "GatedReaderLayerLerp": dict(_LEVEL, softmax=True, **_OPEN, sound=False, why="each half leaves 1 - tanh(0.3) of the stream: it decays."),
    "DirectionLayer": dict(_PRE, **_BOTH, **_SHUT, growth_all="linear", sound=True, gradient_law="power", why="pre-norm; rows of maps have lengths that are held, whatever is trained."),
    "TopTwoLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, gradient_law="power", why="pre-norm; shares of nets of norms."),
    "TopTwoLayerBuffer": dict(_EXP, identity_gain=2.0 ** 24, gradient_law="exponential", softmax=True, **_OPEN, why="the buffer has the stream in it, which is added once more: doubled."),
    "ReversibleLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="functions of norms in both streams."),
    "ReversibleLayerFused": dict(_PRE, **_TWO, **_OPEN, why="the net reads a norm and what attention gave, which is of a norm too."),
}
