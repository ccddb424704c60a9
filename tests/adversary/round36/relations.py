"""Research code with graphs, sets, points and memories: soft aggregations, equivariant layers, vectors as channels, latents that read, gated cross attention, product keys, triangles, edges with gates, soft experts, recurrent nodes."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, M = 32, 16, 4, 24
HD = D // H

_G = torch.Generator().manual_seed(3603)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_X, _CTX = _draw(2, T, D), _draw(2, 20, M)
_ADJ = (torch.rand(T, T, generator=_G) < 0.3).float().fill_diagonal_(1.0)
_POS = _draw(2, T, 3)
example_inputs = {
    **{k: (_X, _ADJ) for k in ("SoftAggregationLayer", "GatedEdgeLayer", "GatedEdgeLayerSum", "RecurrentNodeLayer")},
    **{k: (_X, _POS) for k in ("EquivariantLayer", "EquivariantLayerNorm")},
    **{k: (_draw(2, T, 3, D),) for k in ("VectorLayer", "VectorLayerGate")},
    **{k: (_X, _CTX) for k in ("ResamplerLayer", "ResamplerLayerLatents", "GatedCrossLayer", "GatedCrossLayerSum")},
    **{k: (_draw(2, 8, 8, D),) for k in ("TriangleLayer", "TriangleLayerLate")},
    **{k: (_X,) for k in ("ProductKeyLayer", "SoftExpertLayer", "SoftExpertLayerSlots")},
}


def lin(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def feed_forward(dim=D, mult=2, out=None, act=nn.GELU):
    return nn.Sequential(lin(dim, dim * mult), act(), lin(dim * mult, out or dim))


# ------------------------------------------------------------------ soft aggregations
class SoftAggregation(nn.Module):
    """Messages are positive; a softmax over neighbours, a channel each, with a temperature; then a net of the sum with one's own."""

    def __init__(self, eps=1e-7):
        super().__init__()
        self.eps, self.gain_t, self.mlp = eps, nn.Parameter(torch.tensor(1.0)), feed_forward(act=nn.ReLU)

    def forward(self, h, adj):
        msg = F.relu(h) + self.eps
        logits = (msg * self.gain_t).unsqueeze(1).masked_fill(adj[None, :, :, None] == 0, float("-inf"))
        share = torch.softmax(logits, dim=2)
        return self.mlp(h + (share * msg.unsqueeze(1)).sum(dim=2))


class SoftAggregationLayer(nn.Module):
    """Norm, ReLU, aggregation, sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(D), SoftAggregation()

    def forward(self, x, adj):
        h = F.relu(self.norm(x))
        return x + self.conv(h, adj)


# ------------------------------------------------------------------ equivariant layers
class EquivariantLayer(nn.Module):
    """Messages of two nodes and their distance, a soft edge, a net of a node and the mean of its messages."""

    def __init__(self, hidden=32):
        super().__init__()
        self.edge_mlp, self.att_mlp = nn.Sequential(lin(2 * D + 1, hidden), nn.SiLU(), lin(hidden, hidden), nn.SiLU()), nn.Sequential(lin(hidden, 1), nn.Sigmoid())
        self.node_mlp = nn.Sequential(lin(D + hidden, hidden), nn.SiLU(), lin(hidden, D))
        self.norm = self.make_norm()

    def make_norm(self):
        return nn.Identity()

    def forward(self, h, pos):
        n, u = h.shape[1], self.norm(h)
        radial = (pos.unsqueeze(2) - pos.unsqueeze(1)).square().sum(-1, keepdim=True)
        pair = torch.cat((u.unsqueeze(2).expand(-1, -1, n, -1), u.unsqueeze(1).expand(-1, n, -1, -1), radial), dim=-1)
        m = self.edge_mlp(pair)
        m = m * self.att_mlp(m)
        m = m * (1 - torch.eye(n, device=h.device, dtype=h.dtype))[None, :, :, None]
        return h + self.node_mlp(torch.cat((u, m.sum(dim=2) / (n - 1)), dim=-1))


class EquivariantLayerNorm(EquivariantLayer):
    """Messages and nets read a norm."""

    def make_norm(self):
        return nn.LayerNorm(D)


# ------------------------------------------------------------------ vectors as channels
class VectorNorm(nn.Module):
    """Lengths of vectors are brought to a mean square of one; directions stay."""

    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(channels)), eps

    def forward(self, v):
        mean = v.square().sum(dim=-2, keepdim=True).mean(dim=-1, keepdim=True)
        return v * torch.rsqrt(mean + self.eps) * self.weight


class VectorLayer(nn.Module):
    """Maps mix vectors of a node and the mean of others; a gate a channel reads their lengths."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.other, self.gate, self.out = VectorNorm(D), lin(D, D, False), lin(D, D, False), feed_forward(), lin(D, D, False)

    def update(self, n, v):
        u = self.mix(n) + self.other(n.mean(dim=1, keepdim=True))
        length = torch.linalg.vector_norm(n, dim=-2)
        return self.out(u * torch.sigmoid(self.gate(length)).unsqueeze(-2))

    def forward(self, v):
        return v + self.update(self.norm(v), v)


class VectorLayerGate(VectorLayer):
    """Norms are for lengths, which the gate reads; what is mixed are the vectors."""

    def update(self, n, v):
        u = self.mix(v) + self.other(v.mean(dim=1, keepdim=True))
        length = torch.linalg.vector_norm(n, dim=-2)
        return self.out(u * torch.sigmoid(self.gate(length)).unsqueeze(-2))


# ------------------------------------------------------------------ latents that read
class ResamplerLayer(nn.Module):
    """Latents attend to the picture's features and to themselves, then go through a net."""

    def __init__(self):
        super().__init__()
        self.norm_media, self.norm_latents, self.to_q, self.to_kv_media, self.to_kv, self.to_out = nn.LayerNorm(M), nn.LayerNorm(D), lin(D, D, False), lin(M, 2 * D, False), lin(D, 2 * D, False), lin(D, D, False)
        self.ff = nn.Sequential(nn.LayerNorm(D), *feed_forward())

    def own(self, latents, normed):
        return normed

    def attend(self, latents, media):
        normed = self.norm_latents(latents)
        kv = torch.cat((self.to_kv_media(self.norm_media(media)), self.to_kv(self.own(latents, normed))), dim=1)
        q, k, v = (t.unflatten(-1, (H, HD)) for t in (self.to_q(normed) * HD ** -0.5, *kv.chunk(2, dim=-1)))
        sim = torch.einsum("bihd,bjhd->bhij", q, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        return self.to_out(torch.einsum("bhij,bjhd->bihd", sim.softmax(dim=-1), v).flatten(2))

    def forward(self, latents, media):
        latents = self.attend(latents, media) + latents
        return self.ff(latents) + latents


class ResamplerLayerLatents(ResamplerLayer):
    """Latents are joined to what was normed."""

    def own(self, latents, normed):
        return latents


# ------------------------------------------------------------------ gated cross attention
class GatedCrossLayer(nn.Module):
    """Words attend to a picture; both branches come in by the tanh of a number."""

    def __init__(self, start=0.5):
        super().__init__()
        self.norm_q, self.norm_kv, self.norm_ff = nn.LayerNorm(D), nn.LayerNorm(M), nn.LayerNorm(D)
        self.attn, self.ff = nn.MultiheadAttention(D, H, kdim=M, vdim=M, batch_first=True), feed_forward()
        self.alpha_xattn, self.alpha_dense = nn.Parameter(torch.tensor([start])), nn.Parameter(torch.tensor([start]))

    def cross(self, x, media):
        kv = self.norm_kv(media)
        return self.attn(self.norm_q(x), kv, kv, need_weights=False)[0]

    def forward(self, x, media):
        x = x + self.alpha_xattn.tanh() * self.cross(x, media)
        x = x + self.alpha_dense.tanh() * self.ff(self.norm_ff(x))
        return x


class GatedCrossLayerSum(GatedCrossLayer):
    """The gate closes the whole layer."""

    def forward(self, x, media):
        x = (x + self.cross(x, media)) * self.alpha_xattn.tanh()
        x = (x + self.ff(self.norm_ff(x))) * self.alpha_dense.tanh()
        return x


# ------------------------------------------------------------------ product keys
class ProductKeyLayer(nn.Module):
    """A memory whose keys are pairs of half keys: the best of both halves, then the best of their sums, a softmax and a table."""

    def __init__(self, n_keys=12, knn=4, heads=2, k_dim=16):
        super().__init__()
        self.n_keys, self.knn, self.heads, self.k_dim = n_keys, knn, heads, k_dim
        self.norm, self.query_proj, self.query_norm = nn.LayerNorm(D), lin(D, heads * k_dim), nn.LayerNorm(k_dim)
        self.keys, self.values = nn.Parameter(torch.randn(2, heads, n_keys, k_dim // 2) * (k_dim // 2) ** -0.5), nn.EmbeddingBag(n_keys ** 2, D, mode="sum")
        nn.init.normal_(self.values.weight, std=0.5)

    def memory(self, h):
        q = self.query_norm(self.query_proj(h).unflatten(-1, (self.heads, self.k_dim)))
        s1, s2 = (torch.einsum("bthd,hnd->bthn", part, keys) for part, keys in zip(q.chunk(2, dim=-1), self.keys))
        (s1, i1), (s2, i2) = s1.topk(self.knn, dim=-1), s2.topk(self.knn, dim=-1)
        scores = (s1.unsqueeze(-1) + s2.unsqueeze(-2)).flatten(-2)
        index = (i1.unsqueeze(-1) * self.n_keys + i2.unsqueeze(-2)).flatten(-2)
        scores, best = scores.topk(self.knn, dim=-1)
        index, share = index.gather(-1, best), F.softmax(scores, dim=-1)
        out = self.values(index.view(-1, self.heads * self.knn), per_sample_weights=share.reshape(-1, self.heads * self.knn))
        return out.view_as(h)

    def forward(self, x):
        return x + self.memory(self.norm(x))


# ------------------------------------------------------------------ triangles
class TriangleLayer(nn.Module):
    """Pairs of nodes are updated by products over a third one, with a norm in front and one in the middle."""

    def __init__(self, hidden=24):
        super().__init__()
        self.norm_in, self.norm_out = nn.LayerNorm(D), nn.LayerNorm(hidden)
        self.p_in, self.g_in, self.p_out, self.g_out = lin(D, 2 * hidden, False), lin(D, 2 * hidden, False), lin(hidden, D, False), lin(D, D, False)

    def product(self, h):
        a, b = (self.p_in(h) * self.g_in(h).sigmoid()).chunk(2, dim=-1)
        t = torch.einsum("bikd,bjkd->bijd", a, b)
        return self.p_out(self.norm_out(t)) * self.g_out(h).sigmoid()

    def forward(self, z):
        return z + self.product(self.norm_in(z))


class TriangleLayerLate(TriangleLayer):
    """One norm less: that in the middle is enough."""

    def __init__(self):
        super().__init__()
        del self.norm_in

    def forward(self, z):
        return z + self.product(z)


# ------------------------------------------------------------------ edges with gates
class NodeBatchNorm(nn.BatchNorm1d):
    """Over all nodes of all graphs."""

    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x)


class GatedEdgeLayer(nn.Module):
    """Sums over neighbours by sigmoids of both ends, over the sum of these; a norm of nodes, a ReLU, and the sum with what came in."""

    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps, self.A, self.B, self.D, self.E, self.bn_h = eps, lin(D, D), lin(D, D), lin(D, D), lin(D, D), NodeBatchNorm(D)

    def aggregate(self, h, adj):
        sigma = torch.sigmoid(self.D(h).unsqueeze(2) + self.E(h).unsqueeze(1)) * adj[None, :, :, None]
        near = torch.einsum("bijd,bjd->bid", sigma, self.B(h)) / (sigma.sum(dim=2) + self.eps)
        return self.A(h) + near

    def forward(self, h, adj):
        h_in = h
        h = self.aggregate(h, adj)
        h = F.relu(self.bn_h(h))
        h = h_in + h
        return h


class GatedEdgeLayerSum(GatedEdgeLayer):
    """The residual goes in before the norm."""

    def forward(self, h, adj):
        h_in = h
        h = h_in + self.aggregate(h, adj)
        return F.relu(self.bn_h(h))


# ------------------------------------------------------------------ soft experts
class SoftExpertLayer(nn.Module):
    """Slots are means of tokens, experts work on slots, tokens are means of slots; logits are cosines times a scale."""

    def __init__(self, experts=4, slots=2):
        super().__init__()
        self.norm, self.phi, self.scale = nn.LayerNorm(D), nn.Parameter(torch.randn(D, experts, slots) * D ** -0.5), nn.Parameter(torch.tensor(4.0))
        self.experts = nn.ModuleList(feed_forward() for _ in range(experts))

    def tokens(self, x, h):
        return h

    def forward(self, x):
        h = self.norm(x)
        logits = torch.einsum("btd,dnp->btnp", F.normalize(h, dim=-1), self.scale * F.normalize(self.phi, dim=0))
        dispatch = F.softmax(logits, dim=1)
        combine = F.softmax(logits.flatten(2), dim=-1).view_as(logits)
        slots = torch.einsum("btnp,btd->bnpd", dispatch, self.tokens(x, h))
        slots = torch.stack([expert(slots[:, i]) for i, expert in enumerate(self.experts)], dim=1)
        return x + torch.einsum("btnp,bnpd->btd", combine, slots)


class SoftExpertLayerSlots(SoftExpertLayer):
    """Cosines need the norm; slots are means of the tokens themselves."""

    def tokens(self, x, h):
        return x


# ------------------------------------------------------------------ recurrent nodes
class RecurrentNodeLayer(nn.Module):
    """A node is the state of a GRU that reads the mean of its neighbours' messages."""

    def __init__(self):
        super().__init__()
        self.message, self.cell = lin(D, D), nn.GRUCell(D, D)

    def forward(self, h, adj):
        m = torch.matmul(adj / adj.sum(dim=-1, keepdim=True), self.message(h))
        return self.cell(m.flatten(0, 1), h.flatten(0, 1)).view_as(h)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential")
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "SoftAggregationLayer": dict(_PRE, **_ONE, **_SHUT, gradient_law="power", sound=True, why="pre-norm; logits are ReLUs of the norm times a temperature that is held."),
    "EquivariantLayer": dict(_EXP, identity_gain=1.0, softmax=False, **_ONE, why="no norm: messages and nets are of degree one in the stream."),
    "EquivariantLayerNorm": dict(_NET, **_ONE, gradient_law="power", sound=True, why="all nets read the norm and constant distances."),
    "VectorLayer": dict(_NET, **_ONE, sound=True, why="the branch is a function of vectors whose mean square is one."),
    "VectorLayerGate": dict(_EXP, identity_gain=1.0, softmax=False, **_ONE, sound=False, why="maps mix the raw vectors: of degree one."),
    "ResamplerLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm for latents and for what they read."),
    "ResamplerLayerLatents": dict(_EXP, identity_gain=1.0, softmax=True, **_TWO, **_OPEN, sound=False, why="keys and values of latents are maps of the raw stream."),
    "GatedCrossLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; tanhs of held numbers are on branches."),
    "GatedCrossLayerSum": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, sound=False, why="the skip is multiplied by a tanh of a number twice, which is below one."),
    "ProductKeyLayer": dict(_PRE, **_ONE, **_OPEN, sound=True, why="pre-norm; shares of rows of a table, by products with keys of any size."),
    "TriangleLayer": dict(_NET, **_ONE, gradient_law="power", sound=True, why="norms in front and in the middle, then a map times a sigmoid."),
    "TriangleLayerLate": dict(_NET, **_ONE, why="products of the raw stream end in a norm, and the gate is a sigmoid: what is added is bounded for given weights."),
    "GatedEdgeLayer": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm of nodes and a ReLU."),
    "GatedEdgeLayerSum": dict(_LEVEL, softmax=False, growth_all="bounded", sound=False, why="the norm takes the sum: each layer gives a ReLU of a norm, and no skip goes past it."),
    "SoftExpertLayer": dict(_PRE, **_ONE, **_SHUT, sound=True, why="pre-norm; logits are cosines times a scale that is held."),
    "SoftExpertLayerSlots": dict(_EXP, identity_gain=1.0, softmax=True, **_ONE, **_SHUT, sound=False, why="experts read means of the raw stream: of degree one."),
    "RecurrentNodeLayer": dict(_LEVEL, softmax=False, gated=True, growth_all="bounded", why="shares of the state and of a tanh: no entry gets larger than one or than it was."),
}
