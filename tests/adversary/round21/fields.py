"""Other fields: speech, time series, graphs, control, tables, molecules, recommendation; sound designs and a slip beside them."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=True):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


def net(hidden=64, act=nn.SiLU):
    return nn.Sequential(lin(D, hidden), act(), lin(hidden, D))


class Mha(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.o = lin(D, 3 * D), lin(D, D)

    def forward(self, h):
        q, k, v = self.qkv(h).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


# ---------------------------------------------------------------- speech
class Conformer(nn.Module):
    """Half a net, attention, a gated filter, half a net, a norm at the end."""

    half = 0.5

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4, self.n5 = (nn.LayerNorm(D) for _ in range(5))
        self.ff1, self.ff2, self.attn = net(), net(), Mha()
        self.pw1, self.dw, self.gn, self.pw2 = lin(D, 2 * D), nn.Conv1d(D, D, 5, padding=2, groups=D), nn.GroupNorm(4, D), lin(D, D)

    def filter(self, h):
        h = self.dw(F.glu(self.pw1(h), -1).transpose(1, 2))
        return self.pw2(F.silu(self.gn(h)).transpose(1, 2))

    def body(self, x):
        x = x + self.half * self.ff1(self.n1(x))
        x = x + self.attn(self.n2(x))
        x = x + self.filter(self.n3(x))
        return x + self.half * self.ff2(self.n4(x))

    def forward(self, x):
        return self.n5(self.body(x))


class ConformerOpen(Conformer):
    """Without the norm at the end, for a stack that norms once."""

    def forward(self, x):
        return self.body(x)


class ConformerHalfBracket(Conformer):
    """0.5 * (x + f): half of the stream as well, twice a block, and no norm at the end."""

    def forward(self, x):
        x = self.half * (x + self.ff1(self.n1(x)))
        x = x + self.attn(self.n2(x))
        x = x + self.filter(self.n3(x))
        return self.half * (x + self.ff2(self.n4(x)))


class WaveNet(nn.Module):
    """Gated dilated filters; what each layer skips is summed and is the output."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 8
        self.layers = nn.ModuleList(nn.Conv1d(D, 2 * D, 2, dilation=2 ** (i % 3)) for i in range(n))
        self.res, self.skip = nn.ModuleList(lin(D, D) for _ in range(n)), nn.ModuleList(lin(D, D) for _ in range(n))

    def gate(self, a, b):
        return torch.tanh(a) * torch.sigmoid(b)

    def trunk(self, x):
        skips = 0
        for f, res, skip in zip(self.layers, self.res, self.skip):
            h = f(F.pad(x.transpose(1, 2), (f.dilation[0], 0)))
            h = self.gate(*h.chunk(2, 1)).transpose(1, 2)
            skips = skips + skip(h)
            x = x + res(h)
        self.skips = skips
        return x

    def forward(self, x):
        x = self.trunk(x)
        return x + F.relu(self.skips)


class WaveNetLinear(WaveNet):
    """tanh was left out: a gated linear unit, of degree one in the stream."""

    def gate(self, a, b):
        return a * torch.sigmoid(b)


class SnakeUnit(nn.Module):
    """A periodic activation x + sin²(αx)/α before each filter, as vocoders have it, without norms."""

    def __init__(self):
        super().__init__()
        self.a1, self.a2 = nn.Parameter(torch.ones(D, 1)), nn.Parameter(torch.ones(D, 1))
        self.c1, self.c2 = nn.Conv1d(D, D, 3, padding=2, dilation=2), nn.Conv1d(D, D, 1)

    @staticmethod
    def snake(x, a):
        return x + torch.sin(a * x).pow(2) / (a + 1e-9)

    def forward(self, x):
        h = x.transpose(1, 2)
        h = self.c2(self.snake(self.c1(self.snake(h, self.a1)), self.a2))
        return x + h.transpose(1, 2)


class SineOnly(SnakeUnit):
    """The x of the activation is missing: squares of sines, which are bounded."""

    @staticmethod
    def snake(x, a):
        return torch.sin(a * x).pow(2) / (a + 1e-9)


# ---------------------------------------------------------------- time series
class Mixer(nn.Module):
    """TSMixer: a map over time, then one over features; norms over both axes together."""

    axes = (T, D)

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.time, self.ff = nn.LayerNorm(self.axes), nn.LayerNorm(self.axes), lin(T, T), net(act=nn.ReLU)

    def forward(self, x):
        x = x + F.relu(self.time(self.n1(x).transpose(1, 2))).transpose(1, 2)
        return x + self.ff(self.n2(x))


class MixerNormBehindTranspose(nn.Module):
    """The norm is applied where time is last: over time, of its own width."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.time, self.ff = nn.LayerNorm(T), nn.LayerNorm(D), lin(T, T), net(act=nn.ReLU)

    def forward(self, x):
        x = x + F.relu(self.time(self.n1(x.transpose(1, 2)))).transpose(1, 2)
        return x + self.ff(self.n2(x))


class Backcast(nn.Module):
    """Doubly residual stacks: what a block explains is taken away, what it forecasts is summed. No norms."""

    sign = -1.0

    def __init__(self, n=None):
        super().__init__()
        n = n or 10
        self.fc = nn.ModuleList(nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, 64), nn.ReLU()) for _ in range(n))
        self.back, self.fore = nn.ModuleList(lin(64, D) for _ in range(n)), nn.ModuleList(lin(64, D) for _ in range(n))

    def trunk(self, x):
        self.total = 0
        for f, back, fore in zip(self.fc, self.back, self.fore):
            theta = f(x)
            x, self.total = x + self.sign * back(theta), self.total + fore(theta)
        return x

    def forward(self, x):
        self.trunk(x)
        return self.total


class Decomposed(nn.Module):
    """The trend is taken away behind each branch: a moving mean of three over a circle, whose highest frequency is -1/3."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), Mha(), net()

    @staticmethod
    def trend(x):
        return (x.roll(1, 1) + x + x.roll(-1, 1)) / 3

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        x = x - self.trend(x)
        return x + self.ff(self.n2(x))


class DecomposedBranch(Decomposed):
    """Only the branch loses its trend."""

    def forward(self, x):
        y = self.attn(self.n1(x))
        x = x + (y - self.trend(y))
        return x + self.ff(self.n2(x))


class ReversibleInstance(nn.Module):
    """RevIN: mean and standard deviation of each series are taken off and put back; between them eight pre-norm blocks."""

    back = True

    def __init__(self, n=None):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
        self.blocks, self.head = nn.ModuleList(Mixer() for _ in range(n or 8)), lin(D, D)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        mean, std = x.mean(1, keepdim=True).detach(), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        y = self.head(self.trunk((x - mean) / std * self.weight + self.bias))
        y = (y - self.bias) / (self.weight + 1e-10)
        return y * std + mean if self.back else (y + mean) * std


class ReversibleBracket(ReversibleInstance):
    """The mean comes back in front of the deviation."""

    back = False


# ---------------------------------------------------------------- graphs: a ring of sixteen nodes
def ring():
    a = torch.zeros(T, T)
    i = torch.arange(T)
    a[i, (i + 1) % T] = a[(i + 1) % T, i] = 1.0
    return a


class Graph(nn.Module):
    loops = False

    def __init__(self):
        super().__init__()
        a = ring() + torch.eye(T) if self.loops else ring()
        self.register_buffer("a", a)
        d = a.sum(1).rsqrt()
        self.register_buffer("p", d[:, None] * a * d)
        self.norm, self.w, self.ff = nn.LayerNorm(D), lin(D, D), net()


class GraphResidual(Graph):
    """Neighbours' means of what is normed, a map, a sum."""

    loops = True

    def forward(self, x):
        return x + F.relu(self.w(self.p @ self.norm(x)))


class GraphSumsStream(Graph):
    """x = A x + f: sums over three neighbours on the stream itself."""

    loops = True

    def forward(self, x):
        return self.a @ x + self.ff(self.norm(x))


class GraphMeansStream(Graph):
    """The same by means: what is alike in all nodes goes on as it is."""

    loops = True

    def forward(self, x):
        return self.p @ x + self.ff(self.norm(x))


class HeatStep(Graph):
    """GRAND: half a step towards the neighbours' mean, then a net."""

    def forward(self, x):
        x = x + 0.5 * (self.p @ x - x)
        return x + self.ff(self.norm(x))


class HeatBackwards(Graph):
    """The difference is turned: what differs from its neighbours is doubled."""

    def forward(self, x):
        x = x + 0.5 * (x - self.p @ x)
        return x + self.ff(self.norm(x))


class HeatTooFar(Graph):
    """A step of 1.2: neighbours that alternate change sign and grow."""

    def forward(self, x):
        x = x + 1.2 * (self.p @ x - x)
        return x + self.ff(self.norm(x))


class EdgeAttention(nn.Module):
    """Attention over a list of edges by index_add and a softmax of edges that is written out."""

    softmax_by_hand = True
    of = 1

    def __init__(self):
        super().__init__()
        i = torch.arange(T)
        self.register_buffer("edges", torch.stack((torch.cat((i, i, i)), torch.cat((i, (i + 1) % T, (i + 3) % T)))))
        self.norm, self.w, self.left, self.right, self.o = nn.LayerNorm(D), lin(D, D), lin(D, H, False), lin(D, H, False), lin(D, D)

    def forward(self, x):
        h = self.norm(x)
        v, (src, dst) = self.w(h).unflatten(-1, (H, HD)), self.edges
        e = F.leaky_relu(self.left(h)[:, src] + self.right(h)[:, dst], 0.2)
        e = torch.exp(e - e.amax(1, keepdim=True))
        total = torch.zeros(x.shape[0], T, H, dtype=x.dtype, device=x.device).index_add(1, (src, dst)[self.of], e)
        a = e / total[:, (src, dst)[self.of]]
        y = torch.zeros_like(v).index_add(1, dst, a.unsqueeze(-1) * v[:, src])
        return x + self.o(y.flatten(2))


class EdgeAttentionOfSource(EdgeAttention):
    """Normalised over edges with the same source, and summed at the target."""

    of = 0


# ---------------------------------------------------------------- control
class LatentStep(nn.Module):
    """A gated recurrent step of a world model with a norm in front of its gates: between the old state and a tanh."""

    def __init__(self):
        super().__init__()
        self.w, self.norm = lin(D, 3 * D, False), nn.LayerNorm(3 * D)

    def forward(self, x):
        reset, cand, update = self.norm(self.w(x)).chunk(3, -1)
        cand = torch.tanh(torch.sigmoid(reset) * cand)
        update = torch.sigmoid(update - 1)
        return update * cand + (1 - update) * x


class LatentStepSign(LatentStep):
    """1 + update for 1 - update."""

    def forward(self, x):
        reset, cand, update = self.norm(self.w(x)).chunk(3, -1)
        cand = torch.tanh(torch.sigmoid(reset) * cand)
        update = torch.sigmoid(update - 1)
        return update * cand + (1 + update) * x


class Simplices(nn.Module):
    """TD-MPC2: latent groups of eight that are softmaxes, behind each residual net."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff = nn.LayerNorm(D), net(act=nn.Mish)

    def forward(self, x):
        x = x + self.ff(self.norm(x))
        return x.unflatten(-1, (4, 8)).softmax(-1).flatten(-2)


class OnSphere(nn.Module):
    """SimbaV2: states of length one, a step towards a net's length-one output by learned rates."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.scaler, self.alpha = lin(D, 64, False), lin(64, D, False), nn.Parameter(torch.ones(64)), nn.Parameter(torch.full((D,), 0.2))

    def step(self, x):
        return F.normalize(self.down(F.relu(self.up(x) * self.scaler)), dim=-1)

    def forward(self, x):
        return F.normalize(x + self.alpha * (self.step(x) - x), dim=-1)


class OnSphereNoReturn(OnSphere):
    """The last normalisation is missing: 0.8 of the state, and a step of length 0.2."""

    def forward(self, x):
        return x + self.alpha * (self.step(x) - x)


# ---------------------------------------------------------------- tables
class Crossed(nn.Module):
    """DCN-V2: the input times a map of the state, added to the state; three layers are common."""

    def __init__(self, n=None):
        super().__init__()
        self.layers, self.head = nn.ModuleList(lin(D, D) for _ in range(n or 3)), lin(D, 1)

    def trunk(self, x):
        x0 = x
        for layer in self.layers:
            x = x0 * layer(x) + x
        return x

    def forward(self, x):
        return self.head(self.trunk(x))


class FeatureTokens(nn.Module):
    """FT-Transformer: a vector for each column, a class token, pre-norm blocks without the first norm, a head on the token."""

    def __init__(self, n=None):
        super().__init__()
        self.weight, self.bias, self.cls = nn.Parameter(torch.randn(D, D) * 0.2), nn.Parameter(torch.zeros(D, D)), nn.Parameter(torch.randn(D) * 0.2)
        self.blocks = nn.ModuleList(FeatureBlock(i == 0) for i in range(n or 6))
        self.head = nn.Sequential(nn.LayerNorm(D), nn.ReLU(), lin(D, 1))

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        x = x[:, 0].unsqueeze(-1) * self.weight + self.bias
        x = torch.cat((self.cls.expand(x.shape[0], 1, -1), x), 1)
        return self.head(self.trunk(x)[:, 0])


class FeatureBlock(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.n1, self.n2, self.attn = nn.Identity() if first else nn.LayerNorm(D), nn.LayerNorm(D), Mha()
        self.up, self.down = lin(D, 128), lin(64, D)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        a, b = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(a * F.relu(b))


class Ensemble(nn.Module):
    """TabM: one map for sixteen members, each with signs of its own in front and behind."""

    def __init__(self):
        super().__init__()
        self.r, self.s = nn.Parameter(torch.randn(T, D).sign()), nn.Parameter(torch.ones(T, 64))
        self.norm, self.up, self.down = nn.LayerNorm(D), lin(D, 64), lin(64, D)

    def forward(self, x):
        h = self.up(self.norm(x) * self.r) * self.s
        return x + self.down(F.relu(h))


class EnsembleOnStream(Ensemble):
    """The signs meet the stream in the sum, too."""

    def forward(self, x):
        x = x * self.r
        h = self.up(self.norm(x)) * self.s
        return x + self.down(F.relu(h))


# ---------------------------------------------------------------- recommendation
class Gated(nn.Module):
    """HSTU: pointwise attention by SiLU over the length, a norm, a gate from the same map, a sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.onorm, self.uvqk, self.o = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 4 * D), lin(D, D)
        self.register_buffer("mask", torch.tril(torch.ones(T, T)))

    def pieces(self, x):
        return F.silu(self.uvqk(self.norm(x))).chunk(4, -1)

    def forward(self, x):
        u, v, q, k = self.pieces(x)
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in (q, k, v))
        a = F.silu(q @ k.mT) / T * self.mask
        return x + self.o(u * self.onorm((a @ v).transpose(1, 2).flatten(2)))


class GatedByStream(Gated):
    """The gate is a map of the stream itself, and not of its norm."""

    def forward(self, x):
        _, v, q, k = self.pieces(x)
        u = F.silu(self.uvqk(x)[..., :D])
        q, k, v = (z.unflatten(-1, (H, HD)).transpose(1, 2) for z in (q, k, v))
        a = F.silu(q @ k.mT) / T * self.mask
        return x + self.o(u * self.onorm((a @ v).transpose(1, 2).flatten(2)))


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "Conformer": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="each block ends in a norm."),
    "ConformerOpen": dict(_NET, output_bounded={i: False for i in range(4)}, sound=True, why="pre-norm.") | dict(softmax=True),
    "ConformerHalfBracket": dict(kind="block", identity_gain=0.25 ** 24, growth_fixed="bounded", softmax=True, sound=False, why="a quarter of the stream a block."),
    "WaveNet": dict(kind="model", depth=8, identity_gain=1.0, growth_fixed="linear", softmax=False, sound=True, why="maps of values within one."),
    "WaveNetLinear": dict(kind="model", depth=8, growth_fixed="exponential", softmax=False, sound=False, why="of degree one."),
    "SnakeUnit": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="of degree one."),
    "SineOnly": dict(_NET, **_ONE, sound=False, why="maps of squares of sines."),
    "Mixer": dict(_NET, **_TWO, sound=True, why="pre-norm."),
    "MixerNormBehindTranspose": dict(_NET, **_TWO, sound=False, why="values within four, over time."),
    "Backcast": dict(kind="model", depth=9, growth_fixed="exponential", softmax=False, sound=True, why="raw nets of degree one; ten of them are fine. What the last one takes away is read by nothing: nine sums."),
    "Decomposed": dict(kind="block", identity_gain=(4 / 3) ** 24, growth_fixed="exponential", softmax=True, sound=False, why="1 + 1/3 for values that alternate."),
    "DecomposedBranch": dict(_NET, **_TWO, sound=True, why="pre-norm.") | dict(softmax=True),
    "ReversibleInstance": dict(kind="model", depth=8, growth_fixed="linear", softmax=False, sound=True, why="pre-norm."),
    "ReversibleBracket": dict(kind="model", depth=8, growth_fixed="linear", softmax=False, sound=False, why="pre-norm."),
    "GraphResidual": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "GraphSumsStream": dict(kind="block", identity_gain=3.0 ** 24, growth_fixed="exponential", softmax=False, sound=False, why="three for what is alike in all nodes."),
    "GraphMeansStream": dict(_NET, sound=True, why="one for what is alike in all nodes."),
    "HeatStep": dict(_NET, sound=True, why="(1 + λ)/2 with λ within one, and one for what is alike."),
    "HeatBackwards": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=False, sound=False, why="(3 - λ)/2 with λ = -1 on an even ring."),
    "HeatTooFar": dict(kind="block", identity_gain=1.4 ** 24, growth_fixed="exponential", softmax=False, sound=False, why="|1.2 λ - 0.2| with λ = -1."),
    "EdgeAttention": dict(_NET, **_ONE, sound=True, why="shares over the edges of a node.") | dict(softmax=True),
    "EdgeAttentionOfSource": dict(_NET, **_ONE, sound=False, why="three shares of three sums, below three together.") | dict(softmax=True),
    "LatentStep": dict(kind="block", gated=True, growth_fixed="bounded", growth_all="bounded", softmax=False, sound=True, why="between the state and a tanh."),
    "LatentStepSign": dict(kind="block", gated=True, growth_fixed="exponential", softmax=False, sound=False, why="more than one times the state."),
    "Simplices": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="shares."),
    "OnSphere": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, sound=True, why="of length one."),
    "OnSphereNoReturn": dict(kind="block", growth_fixed="bounded", softmax=False, sound=False, why="0.8 of the state and 0.2 of a unit vector."),
    "Crossed": dict(kind="model", depth=3, growth_fixed="exponential", softmax=False, sound=True, why="of degree one in the state; three layers are fine."),
    "FeatureTokens": dict(kind="model", depth=6, identity_gain=None, growth_fixed="linear", softmax=True, sound=True, why="pre-norm, but for the first attention, which is raw."),
    "Ensemble": dict(_NET, **_ONE, sound=True, why="pre-norm; fixed signs."),
    "EnsembleOnStream": dict(kind="block", growth_fixed="linear", softmax=False, **_ONE, sound=False, why="signs keep sizes; they are weights."),
    "Gated": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "GatedByStream": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="a normed value by a gate of degree one."),
}
