"""Pull requests on graphs, recommenders, retrieval, adapters and pairs of streams: walks that restart, points in space, message norms, tokens that swap heads, memories and chunks that are read, rotations, experts of thin maps, ladders, routers by sigmoids."""

import torch
import torch.nn as nn
import torch.nn.functional as F

D, N, T, H = 32, 10, 16, 4
HD = D // H

_G = torch.Generator().manual_seed(330)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_A = (torch.rand(N, N, generator=_G) > 0.6).float()
_A = torch.maximum(torch.maximum(_A, _A.T), torch.eye(N))
_P = _A * _A.sum(0).rsqrt() * _A.sum(1, keepdim=True).rsqrt()
_X, _H0, _TOK = _draw(2, T, D), _draw(N, D), _draw(2, 8, D)
example_inputs = {
    **{k: (_H0, _H0.clone(), _P) for k in ("PropagationStep", "InitialResidualLayer")},
    **{k: (_H0, _draw(N, 3)) for k in ("PointsLayer", "PointsLayerNormed")},
    **{k: (_H0, _A.bool()) for k in ("MessageNormLayer", "MessageNormStream")},
    **{k: (_TOK,) for k in ("HeadSwapLayer", "HeadSwapPreNorm")},
    "MemoryReaderLayer": (_X, _draw(2, 20, D), _draw(2, 20, D)),
    **{k: (_X, _draw(2, 4, 6, D)) for k in ("ChunkReaderLayer", "ChunkReaderPassed")},
    **{k: (_X,) for k in ("RotationLayer", "ThinExpertsLayer", "ThinExpertsWrapped", "SigmoidRouterLayer")},
    "LadderLayer": (_X, _draw(2, T, 8)),
    **{k: (_X, _draw(2, 6, D)) for k in ("CoAttentionLayer", "CoAttentionInOrder")},
}


def linear(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    return m


def mlp(i, o, hidden=48, act=nn.SiLU):
    return nn.Sequential(linear(i, hidden), act(), linear(hidden, o))


def sdpa(q, k, v, **kw):
    q, k, v = (t.unflatten(-1, (-1, HD)).transpose(-2, -3) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **kw).transpose(-2, -3).flatten(-2)


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (linear(D, D, False) for _ in range(4))

    def forward(self, x, memory=None, **kw):
        memory = x if memory is None else memory
        return self.o(sdpa(self.q(x), self.k(memory), self.v(memory), **kw))


# ------------------------------------------------------------------ walks that restart
class PropagationStep(nn.Module):
    """One step of a walk that starts anew from the first features a tenth of the time; nothing is trained here."""

    def __init__(self, alpha=0.1):
        super().__init__()
        self.alpha = alpha

    def forward(self, h, h0, adj):
        return torch.addmm(h0, adj, h, beta=self.alpha, alpha=1 - self.alpha)


class InitialResidualLayer(nn.Module):
    """A step of such a walk, through a map that is mostly the identity, and a ReLU."""

    def __init__(self, alpha=0.1, beta=0.05):
        super().__init__()
        self.alpha, self.beta, self.weight = alpha, beta, nn.Parameter(torch.randn(D, D) * D ** -0.5)

    def forward(self, h, h0, adj):
        support = (1 - self.alpha) * (adj @ h) + self.alpha * h0
        return F.relu((1 - self.beta) * support + self.beta * (support @ self.weight))


# ------------------------------------------------------------------ points in space
class PointsLayer(nn.Module):
    """Messages of two states and of a squared distance; points move along their differences."""

    def __init__(self):
        super().__init__()
        self.edge, self.node, self.shift = nn.Sequential(mlp(2 * D + 1, 32), nn.SiLU()), mlp(D + 32, D), mlp(32, 1)
        nn.init.normal_(self.shift[-1].weight, std=0.1)

    def pairs(self, pos):
        rel = pos[:, None] - pos[None]
        return rel, rel.square().sum(-1, keepdim=True)

    def read(self, h):
        return h

    def forward(self, h, pos):
        rel, d2 = self.pairs(pos)
        s = self.read(h)
        m = self.edge(torch.cat((s[:, None].expand(-1, N, -1), s[None].expand(N, -1, -1), d2), dim=-1))
        pos = pos + (rel * self.shift(m)).mean(dim=1)
        return h + self.node(torch.cat((s, m.mean(dim=1)), dim=-1)), pos


class PointsLayerNormed(PointsLayer):
    """States are normed where they are read; differences and distances saturate."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def read(self, h):
        return self.norm(h)

    def pairs(self, pos):
        rel, d2 = super().pairs(pos)
        return rel / (1 + (d2 + 1e-8).sqrt()), d2 / (1 + d2)


# ------------------------------------------------------------------ message norms
class MessageNormLayer(nn.Module):
    """Norm, ReLU; a softmax a channel over neighbours; what comes in is brought to the length of the state, and a net reads both."""

    def __init__(self):
        super().__init__()
        self.norm, self.gain_t, self.gain_s, self.net = nn.LayerNorm(D), nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(1)), mlp(D, D, act=nn.ReLU)

    def length(self, x, h):
        return torch.linalg.vector_norm(h, dim=-1, keepdim=True)

    def forward(self, x, adj):
        h = F.relu(self.norm(x))
        msg = h + 1e-7
        w = (self.gain_t * msg).expand(N, -1, -1).masked_fill(~adj[..., None], float("-inf")).softmax(dim=1)
        m = F.normalize((w * msg).sum(dim=1), dim=-1)
        return x + self.net(h + self.gain_s * self.length(x, h) * m)


class MessageNormStream(MessageNormLayer):
    """The length is that of the node's state, as the formula has it."""

    def length(self, x, h):
        return x.norm(p=2, dim=-1, keepdim=True)


# ------------------------------------------------------------------ tokens that swap heads
class HeadSwapLayer(nn.Module):
    """As many heads as tokens: token i gets head i of each; then a net of its own for each token."""

    def __init__(self, tokens=8):
        super().__init__()
        self.tokens, self.norm1, self.norm2 = tokens, nn.LayerNorm(D), nn.LayerNorm(D)
        self.up, self.down = nn.Parameter(torch.randn(tokens, D, 2 * D) * D ** -0.5), nn.Parameter(torch.randn(tokens, 2 * D, D) * (2 * D) ** -0.5)

    def swap(self, x):
        return x.view(-1, self.tokens, self.tokens, D // self.tokens).transpose(1, 2).reshape(x.shape)

    def own(self, x):
        return torch.einsum("btf,tfd->btd", F.gelu(torch.einsum("btd,tdf->btf", x, self.up)), self.down)

    def forward(self, x):
        s = self.norm1(x + self.swap(x))
        return self.norm2(s + self.own(s))


class HeadSwapPreNorm(HeadSwapLayer):
    """Norms in front, for depth; swapping has no weights, and needs none."""

    def forward(self, x):
        x = x + self.swap(x)
        return x + self.own(self.norm1(x))


# ------------------------------------------------------------------ memories and chunks
class MemoryReaderLayer(nn.Module):
    """Beside attention, the best three of a memory; cosines times a factor a head, and a trained mean of both."""

    def __init__(self, k=3):
        super().__init__()
        self.k, self.norm, self.norm_ff, self.ff, self.qkv, self.out = k, nn.LayerNorm(D), nn.LayerNorm(D), mlp(D, D), linear(D, 3 * D, False), linear(D, D)
        self.gain_scale, self.bias = nn.Parameter(torch.full((H, 1, 1), 5.0)), nn.Parameter(torch.zeros(H, 1, 1))

    def attend(self, h, keys, values):
        split = lambda t: t.unflatten(-1, (H, HD)).transpose(1, 2)
        q, k, v = map(split, self.qkv(h).chunk(3, dim=-1))
        q = F.normalize(q, dim=-1) * self.gain_scale
        near = F.scaled_dot_product_attention(q, F.normalize(k, dim=-1), v, is_causal=True, scale=1.0)
        s, i = torch.einsum("bhqd,bhkd->bhqk", q, F.normalize(split(keys), dim=-1)).topk(self.k, dim=-1)
        rows = split(values).unsqueeze(2).expand(-1, -1, s.shape[2], -1, -1).gather(3, i[..., None].expand(*i.shape, HD))
        far = torch.einsum("bhqk,bhqkd->bhqd", s.softmax(dim=-1), rows)
        g = self.bias.sigmoid()
        return self.out((g * far + (1 - g) * near).transpose(1, 2).flatten(2))

    def forward(self, x, keys, values):
        x = x + self.attend(self.norm(x), keys, values)
        return x + self.ff(self.norm_ff(x))


class ChunkReaderLayer(nn.Module):
    """The last token of a chunk and those behind it read what was found for this chunk."""

    def __init__(self, m=4):
        super().__init__()
        self.m, self.self_attn, self.cross, self.ff = m, Attend(), Attend(), mlp(D, D, act=nn.GELU)
        self.norm1, self.norm2, self.norm3 = (nn.RMSNorm(D) for _ in range(3))

    def read(self, h, found):
        b, n, _ = h.shape
        late = F.pad(h[:, self.m - 1:], (0, 0, 0, self.m - 1)).view(b, -1, self.m, D)
        return self.cross(late, found).view(b, n, D)[:, : n - self.m + 1]

    def chunked(self, x, found):
        return F.pad(self.read(self.norm2(x), found), (0, 0, self.m - 1, 0))

    def forward(self, x, found):
        x = x + self.self_attn(self.norm1(x), is_causal=True)
        x = x + self.chunked(x, found)
        return x + self.ff(self.norm3(x))


class ChunkReaderPassed(ChunkReaderLayer):
    """Tokens in front of the first whole chunk have nothing to read and are passed as they are."""

    def chunked(self, x, found):
        return torch.cat((x[:, : self.m - 1], self.read(self.norm2(x), found)), dim=1)


# ------------------------------------------------------------------ adapters
class RotatedMap(nn.Module):
    """A frozen map of rotated inputs; only the rotation is trained, by a skew matrix."""

    def __init__(self, i, o):
        super().__init__()
        self.register_buffer("base", torch.randn(o, i) * i ** -0.5)
        self.skew = nn.Parameter(torch.randn(i, i) * 0.05)

    def forward(self, x):
        s = self.skew - self.skew.T
        eye = torch.eye(s.shape[0], dtype=s.dtype, device=s.device)
        return F.linear(x, self.base @ torch.linalg.solve(eye + s, eye - s))


class RotationLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.o, self.up, self.down = nn.RMSNorm(D), nn.RMSNorm(D), RotatedMap(D, 3 * D), RotatedMap(D, D), RotatedMap(D, 48), RotatedMap(48, D)

    def forward(self, x):
        x = x + self.o(sdpa(*self.qkv(self.norm1(x)).chunk(3, dim=-1), is_causal=True))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class ThinExpertsLayer(nn.Module):
    """A frozen net, and shares of four thin maps beside it."""

    def __init__(self, experts=4, r=4):
        super().__init__()
        self.norm, self.base, self.router = nn.RMSNorm(D), mlp(D, D).requires_grad_(False), linear(D, experts, False)
        self.lora_a, self.lora_b = nn.Parameter(torch.randn(experts, D, r) * D ** -0.5), nn.Parameter(torch.randn(experts, r, D) * 0.3)

    def thin(self, h, read):
        p = F.softmax(self.router(h), dim=-1)
        return torch.einsum("bte,btd,edr,erf->btf", p, read, self.lora_a, self.lora_b)

    def forward(self, x):
        h = self.norm(x)
        return x + self.base(h) + self.thin(h, h)


class ThinExpertsWrapped(ThinExpertsLayer):
    """A wrapper around any net with a skip: it has the hidden state, not what is inside."""

    def inner(self, x):
        return x + self.base(self.norm(x))

    def forward(self, x):
        return self.inner(x) + self.thin(self.norm(x), x)


class LadderLayer(nn.Module):
    """A frozen layer; beside it a narrow state goes half the way to a map of what the layer gave, and through a small net."""

    def __init__(self, narrow=8):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), Attend().requires_grad_(False), mlp(D, D).requires_grad_(False)
        self.n_down, self.n_side, self.down, self.side, self.alpha = nn.LayerNorm(D), nn.LayerNorm(narrow), linear(D, narrow), mlp(narrow, narrow, 16), nn.Parameter(torch.zeros(()))

    def forward(self, h, s):
        h = h + self.attn(self.n1(h))
        h = h + self.ff(self.n2(h))
        mu = torch.sigmoid(self.alpha)
        s = mu * s + (1 - mu) * self.down(self.n_down(h))
        return h, s + self.side(self.n_side(s))


# ------------------------------------------------------------------ pairs of streams
class CoAttentionLayer(nn.Module):
    """Words read regions, then regions read words; a net each."""

    def __init__(self):
        super().__init__()
        self.t_reads, self.v_reads, self.t_ff, self.v_ff = Attend(), Attend(), mlp(D, D), mlp(D, D)
        self.norms = nn.ModuleDict({k: nn.LayerNorm(D) for k in ("t", "v", "t_kv", "v_kv", "t_ff", "v_ff")})

    def forward(self, t, v):
        n = self.norms
        t = t + self.t_reads(n["t"](t), n["v_kv"](v))
        v = v + self.v_reads(n["v"](v), n["t_kv"](t))
        t, v = t + self.t_ff(n["t_ff"](t)), v + self.v_ff(n["v_ff"](v))
        return t, v


class CoAttentionInOrder(CoAttentionLayer):
    """Words are done first, and are then handed over as they are."""

    def forward(self, t, v):
        n = self.norms
        t = t + self.t_reads(n["t"](t), n["v_kv"](v))
        t = t + self.t_ff(n["t_ff"](t))
        v = v + self.v_reads(n["v"](v), t)
        return t, v + self.v_ff(n["v_ff"](v))


# ------------------------------------------------------------------ routers by sigmoids
class SigmoidRouterLayer(nn.Module):
    """The router reads the state in full precision, before the norm; shares of the best two, by sigmoids, sum to 2.5, with a bias for balance in the choice alone; one net for all tokens."""

    def __init__(self, experts=4, k=2, scale=2.5):
        super().__init__()
        self.k, self.scale, self.norm, self.gate, self.shared = k, scale, nn.RMSNorm(D), nn.Parameter(torch.randn(experts, D) * D ** -0.5), mlp(D, D)
        self.experts = nn.ModuleList(mlp(D, D) for _ in range(experts))
        self.register_buffer("balance", torch.zeros(experts))

    def route(self, x):
        scores = torch.sigmoid(F.linear(x, self.gate))
        index = (scores + self.balance).topk(self.k, dim=-1).indices
        top = scores.gather(-1, index)
        return index, self.scale * top / (top.sum(dim=-1, keepdim=True) + 1e-20)

    def forward(self, x):
        index, share = self.route(x)
        h = self.norm(x)
        y = self.shared(h)
        for i, expert in enumerate(self.experts):
            y = y + expert(h) * (share * (index == i)).sum(dim=-1, keepdim=True)
        return x + y


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential", sound=False)
_LEVEL = dict(kind="block", growth_fixed="bounded")
_ONE, _TWO, _THREE = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: False, 1: False, 2: False})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "PropagationStep": dict(_LEVEL, identity_gain=0.9 ** 24, growth_all="bounded", softmax=False, why="the largest eigenvalue of the matrix is one: 0.9 of the stream a step, and a tenth of what stays."),
    "InitialResidualLayer": dict(_LEVEL, softmax=False, why="0.9 times a map of norm 0.95 and 0.05 times two, at most: a contraction, and a tenth of what stays."),
    "PointsLayer": dict(_EXP, softmax=False, output_bounded={0: False, 1: False}, why="no norm: messages are of degree one in states, and of two in places."),
    "PointsLayerNormed": dict(_NET, output_bounded={0: False, 1: False}, sound=True, why="functions of a norm, and of differences and distances that are at most one."),
    "MessageNormLayer": dict(_PRE, **_ONE, **_SHUT, sound=True, gradient_law="power", why="pre-norm; scores are entries of a norm times a factor."),
    "MessageNormStream": dict(_EXP, softmax=True, **_ONE, **_SHUT, why="what comes in gets the length of the stream, and the net has no norm: of degree one."),
    "HeadSwapLayer": dict(_LEVEL, growth_all="bounded", softmax=False, sound=True, why="norms behind both sums."),
    "HeadSwapPreNorm": dict(_EXP, identity_gain=2.0 ** 24, gradient_law="exponential", softmax=False, output_bounded={1: False}, why="swapping is a permutation: what it leaves as it is, is doubled."),
    "MemoryReaderLayer": dict(_PRE, **_TWO, **_SHUT, sound=True, gradient_law="power", why="pre-norm; cosines times a factor, and a memory that stays."),
    "ChunkReaderLayer": dict(_PRE, **_THREE, **_OPEN, sound=True, gradient_law="power", why="pre-norm, three branches; what was found is the same in all layers."),
    "ChunkReaderPassed": dict(_EXP, identity_gain=2.0 ** 24, softmax=True, **_OPEN, **_THREE, why="passed tokens get themselves added: doubled in each layer."),
    "RotationLayer": dict(_PRE, output_bounded={0: True, 1: True}, growth_all="linear", **_SHUT, sound=True, gradient_law="power", why="pre-norm; frozen maps of rotations have one norm whatever is trained."),
    "ThinExpertsLayer": dict(_PRE, output_bounded={0: True, 1: False}, sound=True, why="pre-norm; a frozen net, and thin maps of the norm."),
    "ThinExpertsWrapped": dict(_EXP, softmax=True, output_bounded={0: True, 1: False}, why="thin maps read the stream itself: of degree one."),
    # the frozen halves, the mean of the narrow state, its net
    "LadderLayer": dict(_PRE, output_bounded={0: True, 1: True, 2: False}, **_SHUT, sound=True, why="a frozen pre-norm layer is a constant; the narrow state is halved in each layer and gets functions of norms."),
    "CoAttentionLayer": dict(_PRE, **_OPEN, output_bounded={0: False, 1: False, 2: False, 3: False}, sound=True, why="pre-norm in both streams, also where the other one reads."),
    "CoAttentionInOrder": dict(kind="block", growth_fixed="polynomial", softmax=True, **_OPEN, output_bounded={0: False, 1: False, 2: False, 3: False}, sound=False, why="regions get values of words' stream, which grows linearly: quadratic."),
    "SigmoidRouterLayer": dict(_NET, **_ONE, why="shares read the stream itself and sum to 2.5 whatever it is; nets read a norm."),
}
