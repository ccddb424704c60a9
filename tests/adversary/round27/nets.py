"""Pull requests on graphs, recommenders, tables, agents, modalities and adapters: points that move, types of nodes, tokens that are dealt, neighbours of rows, tokens that two modalities share."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, N, T, H = 32, 8, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(327)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_BASKETS = (torch.rand(2, 6, 10, generator=_G) > 0.6).float()
example_inputs = {
    "EquivariantStep": (_draw(2, N, D), _draw(2, N, 3)),
    "TypedNodesLayer": ({"user": _draw(2, 6, D), "item": _draw(2, 10, D)}, _BASKETS),
    "TokenDealLayer": (_draw(2, 4, D),),
    **{k: (_draw(2, 10, D), _draw(2, 12, D), _draw(2, 4, D)) for k in ("SharedTokensLayer", "SharedTokensScatter")},
    "NearestRowsLayer": (_draw(6, D), _draw(20, D), _draw(20, 1)),
    "RecurrentStateStep": (_draw(4, D), _draw(4, 12)),
    "ParallelAdapterLayer": (_draw(2, T, D),),
}


def dense(i, o, bias=True, gain=1.0):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=gain * i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def net(i=D, hidden=64, o=D, act=nn.SiLU):
    return nn.Sequential(dense(i, hidden), act(), dense(hidden, o))


# ------------------------------------------------------------------ graphs
class EquivariantStep(nn.Module):
    """Nodes have features and places; messages know distances by bumps, and move nodes along unit directions."""

    def __init__(self, bumps=8):
        super().__init__()
        self.norm, self.edge_mlp, self.node_mlp = nn.LayerNorm(D), nn.Sequential(dense(2 * D + bumps, 32), nn.SiLU(), dense(32, 32), nn.SiLU()), net(D + 32)
        self.coord_mlp = nn.Sequential(dense(32, 32), nn.SiLU(), dense(32, 1, bias=False), nn.Tanh())
        self.register_buffer("centres", torch.linspace(0, 5, bumps))

    def messages(self, h, gap):
        n = h.shape[1]
        bumps = torch.exp(-(gap - self.centres).square())
        pairs = torch.cat((h[:, :, None].expand(-1, -1, n, -1), h[:, None].expand(-1, n, -1, -1), bumps), dim=-1)
        return self.edge_mlp(pairs)

    def forward(self, h, coords):
        diff = coords[:, :, None] - coords[:, None]
        gap = (diff.square().sum(-1, keepdim=True) + 1e-8).sqrt()
        hn = self.norm(h)
        m = self.messages(hn, gap)
        coords = coords + (diff / (gap + 1) * self.coord_mlp(m)).mean(dim=2)
        h = h + self.node_mlp(torch.cat((hn, m.mean(dim=2)), dim=-1))
        return h, coords


class TypedNodesLayer(nn.Module):
    """Users and items have maps of their own for themselves and for each kind of edge."""

    def __init__(self):
        super().__init__()
        self.norm = nn.ModuleDict({k: nn.LayerNorm(D) for k in ("user", "item")})
        self.own = nn.ModuleDict({k: dense(D, D) for k in ("user", "item")})
        self.edge = nn.ModuleDict({"buys": dense(D, D, False), "bought_by": dense(D, D, False)})

    @staticmethod
    def mean(adj, source):
        return adj @ source / adj.sum(-1, keepdim=True).clamp(min=1)

    def forward(self, state, baskets):
        h = {k: self.norm[k](v) for k, v in state.items()}
        new = {
            "user": self.own["user"](h["user"]) + self.mean(baskets, self.edge["bought_by"](h["item"])),
            "item": self.own["item"](h["item"]) + self.mean(baskets.transpose(1, 2), self.edge["buys"](h["user"])),
        }
        return {k: state[k] + F.relu(new[k]) for k in state}


# ------------------------------------------------------------------ recommenders, tables
class TokenDealLayer(nn.Module):
    """Tokens deal pieces of their channels to each other, without weights; then each token has a net of its own."""

    def __init__(self, tokens=4):
        super().__init__()
        self.t, self.norm = tokens, nn.LayerNorm(D)
        self.w1, self.w2 = nn.Parameter(torch.randn(tokens, D, 64) / D ** 0.5), nn.Parameter(torch.randn(tokens, 64, D) / 8)

    def deal(self, x):
        b, t, d = x.shape
        return x.view(b, t, t, d // t).transpose(1, 2).reshape(b, t, d)

    def forward(self, x):
        x = x + self.deal(x)
        h = F.gelu(torch.einsum("btd,tdh->bth", self.norm(x), self.w1))
        return x + torch.einsum("bth,thd->btd", h, self.w2)


class NearestRowsLayer(nn.Module):
    """Rows of a table look for their neighbours among rows with known targets, by distances of keys."""

    def __init__(self):
        super().__init__()
        self.norm, self.key, self.label, self.t = nn.LayerNorm(D), dense(D, D), dense(1, D), net()
        self.norm2, self.block = nn.LayerNorm(D), net(act=nn.ReLU)

    def forward(self, x, candidates, targets):
        k, ck = self.key(self.norm(x)), self.key(self.norm(candidates))
        similarity = -(k.square().sum(-1, keepdim=True) - 2 * k @ ck.T + ck.square().sum(-1)) / D ** 0.5
        value, index = similarity.topk(5, dim=-1)
        p = F.softmax(value, dim=-1)
        v = self.label(targets)[index] + self.t(k.unsqueeze(1) - ck[index])
        x = x + torch.einsum("bn,bnd->bd", p, v)
        return x + self.block(self.norm2(x))


# ------------------------------------------------------------------ agents
class RecurrentStateStep(nn.Module):
    """The deterministic state of a world model: one normed map for all three gates."""

    def __init__(self, inputs=12, update_bias=-1.0):
        super().__init__()
        self.layer, self.norm, self.update_bias = dense(D + inputs, 3 * D, bias=False), nn.LayerNorm(3 * D), update_bias

    def forward(self, deter, action):
        parts = self.norm(self.layer(torch.cat([deter, action], dim=-1)))
        reset, cand, update = torch.chunk(parts, 3, dim=-1)
        cand = torch.tanh(torch.sigmoid(reset) * cand)
        update = torch.sigmoid(update + self.update_bias)
        return update * cand + (1 - update) * deter


# ------------------------------------------------------------------ modalities
class ModalityLayer(nn.Module):
    """Pre-norm."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.out, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), dense(D, 3 * D), dense(D, D), net(act=nn.GELU)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class SharedTokensLayer(nn.Module):
    """Sound and pictures meet in four tokens only, which both layers rewrite; the mean of both is handed on."""

    def __init__(self):
        super().__init__()
        self.audio, self.video = ModalityLayer(), ModalityLayer()

    def forward(self, audio, video, shared):
        n = shared.shape[1]
        a = self.audio(torch.cat((shared, audio), dim=1))
        v = self.video(torch.cat((shared, video), dim=1))
        return a[:, n:], v[:, n:], torch.stack((a[:, :n], v[:, :n])).mean(dim=0)


class SharedTokensScatter(SharedTokensLayer):
    """Any number of modalities, in a loop: each one adds what it wrote to the tokens."""

    def forward(self, audio, video, shared):
        n, written, kept = shared.shape[1], torch.zeros_like(shared), []
        for layer, x in ((self.audio, audio), (self.video, video)):
            z, x = layer(torch.cat((shared, x), dim=1)).split((n, x.shape[1]), dim=1)
            written += z
            kept.append(x)
        return kept[0], kept[1], written


# ------------------------------------------------------------------ adapters
class Adapter(nn.Module):
    """A bottleneck; its norm stands in front, behind, or nowhere."""

    def __init__(self, bottleneck=8, scale=0.5, layernorm_option="none"):
        super().__init__()
        self.down_proj, self.up_proj, self.scale, self.option = dense(D, bottleneck), dense(bottleneck, D), scale, layernorm_option
        if self.option in ("in", "out"):
            self.adapter_norm = nn.LayerNorm(D)

    def forward(self, x):
        if self.option == "in":
            x = self.adapter_norm(x)
        up = self.up_proj(F.relu(self.down_proj(x))) * self.scale
        return self.adapter_norm(up) if self.option == "out" else up


class ParallelAdapterLayer(ModalityLayer):
    """A frozen layer, beside whose net an adapter is trained."""

    def __init__(self):
        super().__init__()
        self.requires_grad_(False)
        self.adapter = Adapter()

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        residual, adapted = x, self.adapter(x)
        x = self.mlp(self.norm2(x))
        return x + adapted + residual


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_OPEN = dict(logits_bounded={0: False})
TRUTH = {
    "EquivariantStep": dict(_NET, sound=True, why="features have functions of a norm and of bumps added; places move by means of steps of at most one."),
    "TypedNodesLayer": dict(_NET, sound=True, why="pre-norm in both types; means of norms."),
    "TokenDealLayer": dict(_EXP, identity_gain=2.0 ** 24, softmax=False, gradient_law="exponential", why="pieces are dealt from the stream: a permutation of order two and the identity have the eigenvalue two."),
    "NearestRowsLayer": dict(_PRE, **_OPEN, sound=True, why="pre-norm; shares of functions of norms; candidates are the same in all layers."),
    "RecurrentStateStep": dict(_LEVEL, growth_all="bounded", gated=True, softmax=False, sound=True, why="a gated mean of a tanh and of the state."),
    "SharedTokensLayer": dict(_PRE, sound=True, why="pre-norm; a mean of two states that both carry the shared tokens."),
    "SharedTokensScatter": dict(_EXP, identity_gain=2.0 ** 24, softmax=True, gradient_law="exponential", why="both layers carry the shared tokens, and what they give is summed."),
    "ParallelAdapterLayer": dict(_EXP, softmax=True, **_OPEN, why="the adapter reads the stream without a norm: of degree one."),
}
