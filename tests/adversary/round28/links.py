"""Pull requests on graphs, molecules, recommenders, agents, adapters and modalities: two kinds of messages, pairs, crosses, spectral norms, prefixes, maps a modality, tasks that share experts."""

from collections import namedtuple
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm

D, N, T, H = 32, 10, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(328)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_NODES, _X = _draw(2, N, D), _draw(2, T, D)
_ADJ = ((torch.rand(N, N, generator=_G) > 0.6) | torch.eye(N, dtype=torch.bool)).float()
_ADJ = torch.maximum(_ADJ, _ADJ.T)
_IMAGE = torch.zeros(T, dtype=torch.bool)
_IMAGE[4:11] = True
example_inputs = {
    "TwoMessagesLayer": (_NODES, _ADJ),
    **{k: (_draw(2, 6, 6, D),) for k in ("TriangleLayer", "TriangleModule")},
    **{k: (_NODES, _draw(2, N, D), _draw(2, N, N, 8)) for k in ("ConditionedPairLayer", "ConditionedPairLiteral")},
    **{k: (_draw(6, D), _draw(6, D)) for k in ("FieldCrossLayer", "FieldCrossNormed")},
    "TaskExpertsLayer": ({"click": _draw(6, D), "stay": _draw(6, D), "buy": _draw(6, D)},),
    "SpectralUnit": (_draw(6, D),),
    "FilmUnit": (_draw(2, D, T), _draw(2, 12)),
    **{k: (_X,) for k in ("LowRankLayer", "PrefixGateLayer", "ReadjustedLayer")},
    **{k: (_X, _IMAGE) for k in ("ModalityMapsLayer", "ModalityMapsWhere")},
}


def mk(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def block(i=D, hidden=64, o=D, act=nn.ReLU):
    return nn.Sequential(mk(i, hidden), act(), mk(hidden, o))


def attention(q, k, v, mask=None):
    q, k, v = (t.unflatten(-1, (H, HD)).transpose(-2, -3) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(-2, -3).flatten(-2)


# ------------------------------------------------------------------ graphs
class TokensNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x)


class TwoMessagesLayer(nn.Module):
    """Messages of neighbours and attention of all nodes, each with a skip and a norm of the batch; their sum goes to a net with both, too."""

    def __init__(self):
        super().__init__()
        self.eps, self.nn = nn.Parameter(torch.tensor(0.1)), block()
        self.qkv, self.out, self.ff = mk(D, 3 * D), mk(D, D), block()
        self.norm1_local, self.norm1_attn, self.norm2 = (TokensNorm(D) for _ in range(3))

    def forward(self, x, adj):
        local = self.nn((1 + self.eps) * x + F.relu(adj @ x))
        glob = self.out(attention(*self.qkv(x).chunk(3, -1)))
        h = self.norm1_local(x + local) + self.norm1_attn(x + glob)
        return self.norm2(h + self.ff(h))


# ------------------------------------------------------------------ pairs of residues
class TriangleModule(nn.Module):
    """Edges of triangles are multiplied and summed over the third corner; a norm, a map, a gate."""

    def __init__(self, c=16):
        super().__init__()
        self.norm_in, self.norm_out = nn.LayerNorm(D), nn.LayerNorm(c)
        self.p_in, self.g_in, self.p_out, self.g_out = mk(D, 2 * c, False), mk(D, 2 * c, False), mk(c, D, False), mk(D, D, False)

    def forward(self, z):
        h = self.norm_in(z)
        a, b = (torch.sigmoid(self.g_in(h)) * self.p_in(h)).chunk(2, dim=-1)
        z = torch.einsum("bikc,bjkc->bijc", a, b)
        return torch.sigmoid(self.g_out(h)) * self.p_out(self.norm_out(z))


class TriangleLayer(TriangleModule):
    """The module and what it read; then a transition."""

    def __init__(self, c=16):
        super().__init__(c)
        self.norm_t, self.transition = nn.LayerNorm(D), block(act=nn.SiLU)

    def forward(self, z):
        z = z + super().forward(z)
        return z + self.transition(self.norm_t(z))


class AdaNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_a, self.norm_s = nn.LayerNorm(D, elementwise_affine=False), nn.LayerNorm(D, bias=False)
        self.gain_of, self.shift_of = mk(D, D), mk(D, D, False)

    def forward(self, a, s):
        s = self.norm_s(s)
        return torch.sigmoid(self.gain_of(s)) * self.norm_a(a) + self.shift_of(s)


class ConditionedPairLayer(nn.Module):
    """Tokens attend with a bias of pairs; singles say the gains of norms and gate what is given."""

    def __init__(self, c_pair=8):
        super().__init__()
        self.ada_attn, self.ada_ff, self.norm_z, self.to_bias = AdaNorm(), AdaNorm(), nn.LayerNorm(c_pair), mk(c_pair, H, False)
        self.q, self.kvg, self.o, self.gate_attn = mk(D, D), mk(D, 3 * D, False), mk(D, D, False), mk(D, D)
        self.up, self.down, self.gate_ff = mk(D, 4 * D, False), mk(2 * D, D, False), mk(D, D)

    def attend(self, a, s, z):
        h = self.ada_attn(a, s)
        k, v, g = self.kvg(h).chunk(3, dim=-1)
        y = attention(self.q(h), k, v, self.to_bias(self.norm_z(z)).permute(0, 3, 1, 2))
        return torch.sigmoid(self.gate_attn(s)) * self.o(torch.sigmoid(g) * y)

    def transition(self, a, s):
        u, w = self.up(self.ada_ff(a, s)).chunk(2, dim=-1)
        return torch.sigmoid(self.gate_ff(s)) * self.down(F.silu(u) * w)

    def forward(self, a, s, z):
        a = a + self.attend(a, s, z)
        return a + self.transition(a, s)


class ConditionedPairLiteral(ConditionedPairLayer):
    """As the algorithm is printed."""

    def forward(self, a, s, z):
        b = self.attend(a, s, z)
        return b + self.transition(a, s)


# ------------------------------------------------------------------ recommenders
class FieldCrossLayer(nn.Module):
    """A cross with the first features: their product with a map of what came in, and what came in."""

    def __init__(self, rank=8):
        super().__init__()
        self.u, self.v = mk(D, rank, False), mk(rank, D)

    def forward(self, x, x0):
        return torch.addcmul(x, x0, self.v(self.u(x)))


class FieldCrossNormed(FieldCrossLayer):
    """The map reads a norm."""

    def __init__(self, rank=8):
        super().__init__(rank)
        self.norm = nn.LayerNorm(D)

    def forward(self, x, x0):
        return torch.addcmul(x, x0, self.v(self.u(self.norm(x))))


class TaskExpertsLayer(nn.Module):
    """Tasks have states of their own, and gates that share three experts."""

    tasks = ("click", "stay", "buy")

    def __init__(self, experts=3):
        super().__init__()
        self.norms = nn.ModuleDict({k: nn.LayerNorm(D) for k in self.tasks})
        self.gates = nn.ModuleDict({k: mk(D, experts, False) for k in self.tasks})
        self.experts = nn.ModuleList(block(act=nn.SiLU) for _ in range(experts))

    def forward(self, state):
        new = {}
        for k, x in state.items():
            h = self.norms[k](x)
            given = torch.stack([e(h) for e in self.experts], dim=-2)
            new[k] = x + torch.einsum("be,bed->bd", self.gates[k](h).softmax(dim=-1), given)
        return new


# ------------------------------------------------------------------ agents
class SpectralUnit(nn.Module):
    """A norm, and two maps of spectral norm one without biases."""

    def __init__(self):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(D), spectral_norm(mk(D, 64, False)), spectral_norm(mk(64, D, False))

    def forward(self, x):
        return x + self.fc2(F.relu(self.fc1(self.norm(x))))


class FilmUnit(nn.Module):
    """Filter, norm, activation, twice; an observation scales and shifts in the middle."""

    def __init__(self, cond=12, groups=8):
        super().__init__()
        stage = lambda: nn.Sequential(nn.Conv1d(D, D, 5, padding=2), nn.GroupNorm(groups, D), nn.Mish())
        self.blocks, self.cond_encoder = nn.ModuleList([stage(), stage()]), nn.Sequential(nn.Mish(), mk(cond, 2 * D))

    def forward(self, x, cond):
        out = self.blocks[0](x)
        scale, bias = self.cond_encoder(cond).view(-1, 2, D, 1).unbind(1)
        out = self.blocks[1](scale * out + bias)
        return out + x


# ------------------------------------------------------------------ adapters
class LowRankMap(nn.Module):
    def __init__(self, i, o, r=4, alpha=8):
        super().__init__()
        self.base, self.scale = mk(i, o), alpha / r
        self.base.requires_grad_(False)
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(r, i) / i ** 0.5), nn.Parameter(torch.zeros(o, r))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.t() @ self.lora_b.t()) * self.scale


class LowRankLayer(nn.Module):
    """A frozen layer with thin maps beside queries, values and the net's last map."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D).requires_grad_(False), nn.LayerNorm(D).requires_grad_(False)
        self.q, self.k, self.v, self.o = LowRankMap(D, D), mk(D, D).requires_grad_(False), LowRankMap(D, D), mk(D, D).requires_grad_(False)
        self.up, self.down = mk(D, 64).requires_grad_(False), LowRankMap(64, D)

    def forward(self, x):
        h = self.ln_1(x)
        x = x + self.o(attention(self.q(h), self.k(h), self.v(h)))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class PrefixGateLayer(nn.Module):
    """Trained prefixes have a softmax of their own, whose share is a gate a head that starts near nothing."""

    def __init__(self, prefix=3):
        super().__init__()
        self.norm1, self.norm2, self.wqkv, self.wo, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), mk(D, 3 * D, False), mk(D, D, False), block(act=nn.SiLU)
        self.prefix, self.gate = nn.Parameter(torch.randn(1, prefix, D)), nn.Parameter(torch.full((1, H, 1, 1), 0.1))

    def attn(self, h):
        heads = lambda t: t.unflatten(-1, (H, HD)).transpose(1, 2)
        q, k, v = map(heads, self.wqkv(h).chunk(3, -1))
        _, pk, pv = map(heads, self.wqkv(self.prefix).chunk(3, -1))
        own = (q @ k.mT * HD ** -0.5).softmax(-1) @ v
        extra = torch.tanh(self.gate) * ((q @ pk.mT * HD ** -0.5).softmax(-1) @ pv)
        return self.wo((own + extra).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ReadjustedLayer(PrefixGateLayer):
    """A bottleneck behind both halves reads what the layer gives, and gives it back with what it adds."""

    def __init__(self):
        super().__init__()
        self.adapter = nn.Sequential(mk(D, 8), nn.GELU(), mk(8, D))

    def adapt(self, x):
        return x + self.adapter(x)

    def forward(self, x):
        x = self.adapt(x + self.attn(self.norm1(x)))
        return self.adapt(x + self.mlp(self.norm2(x)))


# ------------------------------------------------------------------ modalities
Maps = namedtuple("Maps", "text image")


class ModalityMapsLayer(nn.Module):
    """Text and image have norms, maps and nets of their own, and attend to each other in one sequence."""

    def __init__(self):
        super().__init__()
        two = lambda make: nn.ModuleList(make() for _ in range(2))
        self.norm1, self.norm2, self.qkv, self.out, self.net = two(partial(nn.RMSNorm, D)), two(partial(nn.RMSNorm, D)), two(lambda: mk(D, 3 * D, False)), two(lambda: mk(D, D, False)), two(block)

    @staticmethod
    def by_kind(fns, x, image):
        parts = Maps(*(fn(x) for fn in fns))
        return torch.where(image[:, None], parts.image, parts.text)

    def attn(self, x, image):
        q, k, v = self.by_kind(self.qkv, self.by_kind(self.norm1, x, image), image).chunk(3, dim=-1)
        return self.by_kind(self.out, attention(q, k, v), image)

    def forward(self, x, image):
        x = x + self.attn(x, image)
        return x + self.by_kind(self.net, self.by_kind(self.norm2, x, image), image)


class ModalityMapsWhere(ModalityMapsLayer):
    """The second half is written out, to save a call."""

    def forward(self, x, image):
        x = x + self.attn(x, image)
        text, picture = self.net[0](self.norm2[0](x)), self.net[1](self.norm2[1](x))
        return torch.where(image.unsqueeze(-1), picture, x + text)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "TwoMessagesLayer": dict(_LEVEL, growth_all="bounded", softmax=True, sound=True, why="norms of the batch behind all sums, in training."),
    "TriangleLayer": dict(_NET, **_TWO, gradient_law="power", sound=True, why="pre-norm, a norm of products."),
    "TriangleModule": dict(_LEVEL, softmax=False, sound=False, why="the skip was the caller's; nothing of the pairs is carried."),
    "ConditionedPairLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; gates and gains are functions of the single state, which is the same in all layers."),
    "ConditionedPairLiteral": dict(_LEVEL, softmax=True, sound=False, why="the sum is of two branches; nothing of what came in is carried."),
    "FieldCrossLayer": dict(_EXP, softmax=False, **_ONE, why="a product with the first features is of degree one in what came in."),
    "FieldCrossNormed": dict(_NET, **_ONE, sound=True, why="a product of a function of a norm with features that stay."),
    "TaskExpertsLayer": dict(_PRE, sound=True, why="pre-norm in each state."),
    "SpectralUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="pre-norm; maps have norm one whatever their weights are."),
    "FilmUnit": dict(_NET, output_bounded={0: True}, growth_all="linear", sound=True, why="the branch ends in a norm and an activation."),
    "LowRankLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm; thin maps start at nothing."),
    "PrefixGateLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; prefixes are constants of the stream."),
    "ReadjustedLayer": dict(_EXP, softmax=True, why="the adapter reads the stream without a norm: of degree one."),
    "ModalityMapsLayer": dict(_PRE, **_TWO, **_OPEN, sound=True, why="pre-norm, by the kind of token."),
    "ModalityMapsWhere": dict(_PRE, **_OPEN, sound=False, why="image tokens have no skip around the net; text tokens have."),
}
