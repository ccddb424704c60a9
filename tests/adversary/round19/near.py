"""Near misses: sound designs in which one line slid. A bracket, a sign, an axis, a constant, the wrong one of two tensors."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H
LAYERS = 24


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, std=None):
    w = nn.Linear(i, o, bias=False)
    nn.init.normal_(w.weight, std=i ** -0.5 if std is None else std)
    return w


def heads(t):
    return t.unflatten(-1, (H, -1)).transpose(1, 2)


def merge(t):
    return t.transpose(1, 2).flatten(2)


class Mlp(nn.Module):
    def __init__(self, act=F.gelu, inner=64):
        super().__init__()
        self.up, self.down, self.act = lin(D, inner), lin(inner, D), act

    def forward(self, h):
        return self.down(self.act(self.up(h)))


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = lin(D, 3 * D), lin(D, D)

    def forward(self, h):
        q, k, v = (heads(t) for t in self.qkv(h).chunk(3, -1))
        return self.out(merge(F.scaled_dot_product_attention(q, k, v)))


class DeepNormInverted(nn.Module):
    """DeepNorm with the root taken of one over the depth: the skip is made small instead of large."""

    alpha = (2 * LAYERS) ** -0.25

    def __init__(self):
        super().__init__()
        self.attn, self.mlp, self.n1, self.n2 = Attn(), Mlp(F.relu), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        x = self.n1(self.alpha * x + self.attn(x))
        return self.n2(self.alpha * x + self.mlp(x))


class SkipInitOnSkip(nn.Module):
    """SkipInit's number stands before the wrong one of the two."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.RMSNorm(D), Mlp()
        self.alpha = nn.Parameter(torch.tensor(0.9))

    def forward(self, x):
        return self.alpha * x + self.mlp(self.norm(x))


class LayerScaleInside(nn.Module):
    """LayerScale between the norm and the branch instead of behind it."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Attn(), Mlp()
        self.gamma1, self.gamma2 = (nn.Parameter(1e-4 * torch.ones(D)) for _ in range(2))

    def forward(self, x):
        x = x + self.attn(self.gamma1 * self.norm1(x))
        return x + self.mlp(self.gamma2 * self.norm2(x))


class PeriBracket(nn.Module):
    """Peri-norm, the closing bracket one word late: the second norm holds the sum."""

    def __init__(self):
        super().__init__()
        self.pre_a, self.post_a, self.pre_m, self.post_m = (nn.RMSNorm(D) for _ in range(4))
        self.attn, self.mlp = Attn(), Mlp()

    def forward(self, x):
        x = self.post_a(x + self.attn(self.pre_a(x)))
        return self.post_m(x + self.mlp(self.pre_m(x)))


class QueryNormTooEarly(nn.Module):
    """QK-norm on what the maps read."""

    def __init__(self):
        super().__init__()
        self.norm, self.norm2, self.qn, self.kn = (nn.RMSNorm(D) for _ in range(4))
        self.q, self.k, self.v, self.o, self.mlp = lin(D, D), lin(D, D), lin(D, D), lin(D, D), Mlp()

    def attn(self, h):
        q, k, v = heads(self.q(self.qn(h))), heads(self.k(self.kn(h))), heads(self.v(h))
        return self.o(merge(F.scaled_dot_product_attention(q, k, v)))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(self.norm2(x))


class QueryAlone(nn.Module):
    """The cap is on the queries, and the keys go free."""

    cap = 5.0

    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.o, self.mlp = lin(D, 3 * D), lin(D, D), Mlp()

    def attn(self, h):
        q, k, v = (heads(t) for t in self.qkv(h).split(D, dim=-1))
        q = self.cap * torch.tanh(q / self.cap)
        p = ((q @ k.mT) / math.sqrt(HD)).softmax(-1)
        return self.o(merge(p @ v))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(self.norm2(x))


class CapOnShares(nn.Module):
    """The cap stands behind the softmax, where it does nothing."""

    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.o, self.mlp = lin(D, 3 * D), lin(D, D), Mlp()

    def attn(self, h):
        q, k, v = (heads(t) for t in self.qkv(h).split(D, dim=-1))
        p = (q @ k.mT * HD ** -0.5).softmax(-1)
        p = 30.0 * torch.tanh(p / 30.0)
        return self.o(merge(p @ v))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(self.norm2(x))


class CapWithoutDivision(nn.Module):
    """Thirty times tanh of the logits themselves: steep, and still at most thirty."""

    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.o, self.mlp = lin(D, 3 * D), lin(D, D), Mlp()

    def attn(self, h):
        q, k, v = (heads(t) for t in self.qkv(h).split(D, dim=-1))
        s = 30.0 * torch.tanh(q @ k.mT * HD ** -0.5)
        return self.o(merge(s.softmax(-1) @ v))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(self.norm2(x))


class LambdaOfStream(nn.Module):
    """Differential attention whose λ is a map of the stream as it is."""

    def __init__(self):
        super().__init__()
        self.norm, self.qk1, self.qk2, self.v, self.o, self.lam = nn.RMSNorm(D), lin(D, 2 * D), lin(D, 2 * D), lin(D, D), lin(D, D), lin(D, 1)

    @staticmethod
    def shares(qk):
        q, k = (heads(t) for t in qk.chunk(2, -1))
        return (q @ k.mT * HD ** -0.5).softmax(-1)

    def forward(self, x):
        h = self.norm(x)
        lam = self.lam(x)[:, None]
        a = self.shares(self.qk1(h)) - lam * self.shares(self.qk2(h))
        return x + self.o(merge(a @ heads(self.v(h))))


class DeltaKeysFree(nn.Module):
    """A delta rule whose keys have no unit length: what is unlearned may be more than what was there."""

    def __init__(self):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.beta, self.o = nn.RMSNorm(D), lin(D, D), lin(D, D), lin(D, D), lin(D, 1), lin(D, D)

    def mix(self, h):
        q, k, v, beta = self.q(h), self.k(h), self.v(h), torch.sigmoid(self.beta(h))
        S, ys = h.new_zeros(h.shape[0], D, D), []
        for t in range(T):
            kt, vt = k[:, t], v[:, t]
            S = S + beta[:, t, :, None] * torch.einsum("bv,bk->bvk", vt - torch.einsum("bvk,bk->bv", S, kt), kt)
            ys.append(torch.einsum("bvk,bk->bv", S, q[:, t]) / D)
        return self.o(torch.stack(ys, 1))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class DecaySignLost(nn.Module):
    """A selective scan whose A lost its minus: every step multiplies the state by more than one."""

    def __init__(self, n=4):
        super().__init__()
        self.norm, self.inp, self.dt, self.bc, self.out = nn.RMSNorm(D), lin(D, 2 * D), lin(D, D, 0.02), lin(D, 2 * n), lin(D, D)
        self.A_log, self.n = nn.Parameter(torch.log(torch.arange(1.0, n + 1)).repeat(D, 1)), n

    def scan(self, h):
        u, z = self.inp(h).chunk(2, -1)
        dt = 0.1 * F.softplus(self.dt(u))
        B, C = self.bc(u).split(self.n, -1)
        A = torch.exp(self.A_log)
        s, ys = u.new_zeros(u.shape[0], D, self.n), []
        for t in range(T):
            s = torch.exp(dt[:, t, :, None] * A) * s + (dt[:, t] * u[:, t])[..., None] * B[:, t, None]
            ys.append((s * C[:, t, None]).sum(-1))
        return self.out(torch.stack(ys, 1) * F.silu(z))

    def forward(self, x):
        return x + self.scan(self.norm(x))


class ModulatedStream(nn.Module):
    """adaLN: scale and shift reach the stream instead of what is normed."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp, self.ada = nn.LayerNorm(D, elementwise_affine=False), Mlp(), nn.Linear(D, 3 * D)
        self.cond = nn.Parameter(torch.randn(D))
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x):
        shift, scale, gate = self.ada(F.silu(self.cond)).chunk(3)
        x = x * (1 + scale) + shift
        return x + gate * self.mlp(self.norm(x))


class GateOverSum(nn.Module):
    """adaLN: the gate holds the sum, and starts at a half."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp, self.ada = nn.LayerNorm(D, elementwise_affine=False), Mlp(), nn.Linear(D, D)
        self.register_buffer("cond", torch.linspace(-1, 1, D))
        nn.init.zeros_(self.ada.weight)
        nn.init.constant_(self.ada.bias, 0.5)

    def forward(self, x):
        return self.ada(self.cond) * (x + self.mlp(self.norm(x)))


class GatedHighwayTwice(nn.Module):
    """A highway whose carry gate is one plus the gate instead of one minus it."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp, self.t = nn.RMSNorm(D), Mlp(), nn.Linear(D, D)
        nn.init.constant_(self.t.bias, -2.0)

    def forward(self, x):
        t = torch.sigmoid(self.t(self.norm(x)))
        return t * self.mlp(self.norm(x)) + (1 + t) * x


class DepthTokensWeighed(nn.Module):
    """Mixture of depths: what is put back is the weighed sum, skip and all."""

    def __init__(self, k=8):
        super().__init__()
        self.norm, self.mlp, self.route, self.k = nn.RMSNorm(D), Mlp(), lin(D, 1), k

    def forward(self, x):
        r = torch.sigmoid(self.route(self.norm(x)))
        w, i = r.topk(self.k, dim=1)
        i = i.expand(-1, -1, D)
        picked = x.gather(1, i)
        return x.scatter(1, i, w * (picked + self.mlp(self.norm(picked))))


class StandardisedNoBeta(nn.Module):
    """Normaliser-free: weights are standardised, α is there, and the division by what the stream has grown to is not."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(64, D)), nn.Parameter(torch.randn(D, 64))
        self.g1, self.g2 = nn.Parameter(torch.ones(64, 1)), nn.Parameter(torch.ones(D, 1))

    @staticmethod
    def ws(w, g):
        var, mean = torch.var_mean(w, dim=1, keepdim=True)
        return (w - mean) * torch.rsqrt(torch.clamp(var * w.shape[1], min=1e-4)) * g

    def forward(self, x):
        h = F.relu(F.linear(x, self.ws(self.w1, self.g1))) * math.sqrt(2 / (1 - 1 / math.pi))
        return x + 0.5 * F.linear(h, self.ws(self.w2, self.g2))


class MemoryRawQuery(nn.Module):
    """Cross-attention to learned memories; the query's norm is computed and the stream is passed."""

    def __init__(self, slots=12):
        super().__init__()
        self.norm, self.q, self.o = nn.LayerNorm(D), lin(D, D), lin(D, D)
        self.mk, self.mv = nn.Parameter(torch.randn(slots, D)), nn.Parameter(torch.randn(slots, D))

    def forward(self, x):
        h = self.norm(x)
        p = torch.softmax(self.q(x) @ self.mk.t() / math.sqrt(D), dim=-1)
        return x + self.o(p @ self.mv) * torch.ones_like(h)


class NormWithoutRoot(nn.Module):
    """Divided by the mean square instead of its root."""

    def __init__(self):
        super().__init__()
        self.mlp, self.weight, self.eps = Mlp(), nn.Parameter(torch.ones(D)), 1e-6

    def norm(self, x):
        xf = x.float() if x.dtype is not torch.float64 else x
        return (xf / (xf.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class SandwichFromNormed(nn.Module):
    """Sandwich norm; the name of the normed one was used again and the skip starts there."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.n4, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(D), Attn(), Mlp()

    def forward(self, x):
        x = self.n1(x)
        x = x + self.n2(self.attn(x))
        x = self.n3(x)
        return x + self.n4(self.mlp(x))


class ValuesRaw(nn.Module):
    """Queries and keys are made of the normed input and normed again; the values of the input itself."""

    def __init__(self):
        super().__init__()
        self.norm, self.qk, self.v, self.o = nn.RMSNorm(D), lin(D, 2 * D), lin(D, D), lin(D, D, 0.5 * D ** -0.5)

    def forward(self, x):
        q, k = (F.normalize(heads(t), dim=-1) for t in self.qk(self.norm(x)).chunk(2, -1))
        p = torch.sigmoid(8.0 * (q @ k.mT) - math.log(T))
        return x + self.o(merge(p @ heads(self.v(x))))


class SharedExpertRaw(nn.Module):
    """Routed experts read the norm; the shared one reads the stream."""

    def __init__(self, n=4):
        super().__init__()
        self.norm, self.gate, self.shared = nn.RMSNorm(D), lin(D, n), Mlp(F.relu)
        self.experts = nn.ModuleList(Mlp(inner=16) for _ in range(n))

    def forward(self, x):
        h = self.norm(x)
        p = self.gate(h).softmax(-1)
        top, i = p.topk(2, dim=-1)
        w = torch.zeros_like(p).scatter(-1, i, top / top.sum(-1, keepdim=True))
        routed = sum(w[..., e, None] * f(h) for e, f in enumerate(self.experts))
        return x + self.shared(x) + routed


class SubNormFirstLost(nn.Module):
    """Sub-LN: the inner norms are there, and the ones before the maps were lost in a merge."""

    def __init__(self):
        super().__init__()
        self.qkv, self.ln_a, self.o = lin(D, 3 * D), nn.LayerNorm(D), lin(D, D)
        self.up, self.ln_m, self.down = lin(D, 64), nn.LayerNorm(64), lin(64, D)

    def forward(self, x):
        q, k, v = (heads(t) for t in self.qkv(x).chunk(3, -1))
        x = x + self.o(self.ln_a(merge(F.scaled_dot_product_attention(q, k, v))))
        return x + self.down(self.ln_m(F.gelu(self.up(x))))


class SphereOverPlaces(nn.Module):
    """Projected to the sphere over the axis of the tokens."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp = Attn(), Mlp()

    def forward(self, x):
        x = F.normalize(x + F.normalize(self.attn(x), dim=1), dim=1) * T ** 0.5
        return F.normalize(x + F.normalize(self.mlp(x), dim=1), dim=1) * T ** 0.5


class ReZeroShared(nn.Module):
    """ReZero; one number for both branches, written behind the second sum, so that the stream gets it, too."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp, self.gate = nn.RMSNorm(D), nn.RMSNorm(D), Attn(), Mlp(), nn.Parameter(torch.tensor(0.05))

    def forward(self, x):
        y = x + self.attn(self.n1(x))
        y = y + self.mlp(self.n2(y))
        return x + y * self.gate


class DecayedSkip(nn.Module):
    """Weight of the skip by a buffer of exponentials: made for time, used over channels."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.RMSNorm(D), Mlp()
        self.register_buffer("keep", torch.exp(-torch.linspace(0.0, 1.0, D)))

    def forward(self, x):
        return self.keep * x + self.mlp(self.norm(x))


class Layer(nn.Module):
    """A pre-norm layer that may be given values of another one."""

    def __init__(self, d=D):
        super().__init__()
        self.n1, self.n2, self.qk, self.v, self.o, self.mlp = nn.RMSNorm(d), nn.RMSNorm(d), lin(d, 2 * d), lin(d, d), lin(d, d), Mlp()

    def attend(self, h, v):
        q, k = (heads(t) for t in self.qk(h).chunk(2, -1))
        return self.o(merge(F.scaled_dot_product_attention(q, k, heads(v))))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attend(h, self.v(h))
        return x + self.mlp(self.n2(x))


class ValueChain(nn.Module):
    """Value residual from the layer before instead of from the first: what is added was added to."""

    def __init__(self, n=None):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(n or 12))

    def forward(self, x):
        v = 0.0
        for layer in self.layers:
            h = layer.n1(x)
            v = layer.v(h) + v
            x = x + layer.attend(h, v)
            x = x + layer.mlp(layer.n2(x))
        return x


class LanesSummed(nn.Module):
    """Hyper-connections as they start; at the end the lanes are summed and the mean was meant."""

    def __init__(self, n=None, lanes=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.RMSNorm(D), Mlp()) for _ in range(n or 12))
        self.lanes = lanes
        self.read = nn.ParameterList(nn.Parameter(torch.eye(lanes)[i % lanes].clone()) for i in range(n or 12))
        self.mix = nn.ParameterList(nn.Parameter(torch.eye(lanes)) for _ in range(n or 12))

    def forward(self, x):
        s = x.unsqueeze(2).repeat(1, 1, self.lanes, 1)
        for layer, read, mix in zip(self.layers, self.read, self.mix):
            y = layer(torch.einsum("btnd,n->btd", s, read))
            s = torch.einsum("btnd,nm->btmd", s, mix) + y.unsqueeze(2)
        return s.sum(2)


class LadderAdds(nn.Module):
    """A U-Net of layers at one resolution; skips are added where they were to be joined by a map."""

    def __init__(self, n=None):
        super().__init__()
        n = (n or 12) // 2
        self.layers = nn.ModuleList(Layer() for _ in range(2 * n))
        self.n = n

    def forward(self, x):
        kept = []
        for layer in self.layers[: self.n]:
            x = layer(x)
            kept.append(x)
        for layer in self.layers[self.n:]:
            x = layer(x + kept.pop())
        return x


class TiedTenth(nn.Module):
    """One layer is run over and over; its damping is on the whole step, so that the skip has 1.1."""

    def __init__(self, n=None):
        super().__init__()
        self.layer, self.n = Layer(), n or 12

    def forward(self, x):
        for _ in range(self.n):
            x = x + 0.1 * self.layer(x)
        return x


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
_ON = dict(_B, identity_gain=None, growth_fixed="bounded")
_M = dict(kind="model", depth=12, softmax=True)
TRUTH = {
    "DeepNormInverted": dict(_ON, growth_all="bounded", softmax=True, **_TWO, **_F, why="a norm behind each sum; 0.38 of the skip is left."),
    "SkipInitOnSkip": dict(_B, identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=False, **_ONE, why="0.9 a block of what is carried, a normed branch added."),
    "LayerScaleInside": dict(_PRE, **_TWO, **_F, why="pre-norm; 1e-4 makes logits and branches small, not bounded."),
    "PeriBracket": dict(_ON, growth_all="bounded", softmax=True, **_TWO, **_F, why="a norm behind each sum."),
    "QueryNormTooEarly": dict(_PRE, **_TWO, **_F, why="maps stand behind the norms."),
    "QueryAlone": dict(_PRE, **_TWO, **_F, why="5 √8 times a free key."),
    "CapOnShares": dict(_PRE, **_TWO, **_F, why="shares are at most one already."),
    "CapWithoutDivision": dict(_PRE, **_TWO, **_T, why="at most 30."),
    "LambdaOfStream": dict(_B, growth_fixed="exponential", softmax=True, **_ONE, **_F, why="a branch of degree one in the stream: λ(x) times bounded values."),
    "DeltaKeysFree": dict(_NET, **_ONE, why="sixteen steps of what is normed."),
    "DecaySignLost": dict(_NET, **_ONE, why="over places it grows, over blocks it does not: the scan reads a norm."),
    "ModulatedStream": dict(_B, identity_gain=1.0, softmax=False, **_ONE, why="scale starts at 0; trained, it multiplies the stream."),
    "GateOverSum": dict(_B, identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=False, **_ONE, why="a half a block."),
    "GatedHighwayTwice": dict(_B, gated=True, growth_fixed="exponential", softmax=False, **_ONE, why="1 + σ a channel, at each block more than one."),
    "DepthTokensWeighed": dict(_B, gated=True, growth_fixed="bounded", softmax=False, **_ONE, why="w (x + f), w below one, w and f of what is normed."),
    "StandardisedNoBeta": dict(_B, identity_gain=1.0, growth_fixed="exponential", gradient_law="exponential", softmax=False, **_ONE,
                               why="x + 0.5 f(x), f of degree one. Centred rows take the mean of what ReLU gives, and nothing backwards: 1.25 forward, 1 + 0.25 / (1 - 1/π) = 1.37 backward, a block, in squares."),
    "MemoryRawQuery": dict(_PRE, **_ONE, **_F, why="shares of fixed values; logits grow with the stream."),
    "NormWithoutRoot": dict(_NET, **_ONE, why="degree minus one: the stream grows as a root."),
    "SandwichFromNormed": dict(_ON, growth_all="bounded", softmax=True, output_bounded={0: True, 1: True}, **_F, why="the stream is normed twice a block."),
    "ValuesRaw": dict(_B, identity_gain=1.0, growth_fixed="exponential", gradient_law="exponential", softmax=False, **_ONE, why="weights are bounded and values of degree one."),
    "SharedExpertRaw": dict(_B, identity_gain=1.0, growth_fixed="exponential", gradient_law="flat", softmax=True, **_ONE, **_F, why="a raw net of degree one."),
    "SubNormFirstLost": dict(_PRE, gradient_law="exponential", **_TWO, **_F, why="norms before the last maps; logits grow with the stream's square."),
    "SphereOverPlaces": dict(_ON, growth_all="bounded", softmax=True, output_bounded={0: True, 1: True}, **_F, why="each channel has length 4 over sixteen places."),
    "ReZeroShared": dict(_B, identity_gain=1.05 ** 24, growth_fixed="exponential", softmax=True, **_F, why="1.05 a block."),
    "DecayedSkip": dict(_B, identity_gain=1.0, growth_fixed="linear", gradient_law="exponential", softmax=False, **_ONE, why="the first channel keeps all, the last e to the minus 1."),
    "ValueChain": dict(_M, identity_gain=1.0, growth_fixed="polynomial", **_F, why="values are sums of normed ones, one more a layer: with equal weights the stream goes with the square."),
    "LanesSummed": dict(_M, identity_gain=4.0, growth_fixed="linear", why="four copies are summed.") | dict(softmax=False),
    "LadderAdds": dict(_M, identity_gain=7.0, growth_fixed="polynomial", **_F, why="six kept states are added, each has the input."),
    "TiedTenth": dict(_M, identity_gain=1.1 ** 12, growth_fixed="exponential", **_F, why="1.1 a round."),
}
