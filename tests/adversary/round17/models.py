"""Whole small models of an ordinary day: how layers are built, run and joined, some with a slip."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def linear(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


class Attention(nn.Module):
    def __init__(self, width=D, causal=True, unit=False):
        super().__init__()
        self.causal, self.unit = causal, unit
        self.qkv, self.proj = linear(width, 3 * width), linear(width, width)

    def forward(self, x, freqs=None, first_v=None, mix=None):
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        if self.unit:
            q, k = F.rms_norm(q, q.shape[-1:]), F.rms_norm(k, k.shape[-1:])
        if freqs is not None:
            q, k = (t * freqs[0] + torch.cat((-t[..., HD // 2 :], t[..., : HD // 2]), -1) * freqs[1] for t in (q, k))
        if first_v is not None:
            v = mix * v + (1 - mix) * first_v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        y = self.proj(y.transpose(1, 2).flatten(2))
        return (y, v) if mix is not None else y


class Net(nn.Module):
    def __init__(self, width=D, inner=64):
        super().__init__()
        self.c_fc, self.c_proj = linear(width, inner, True), linear(inner, width, True)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Layer(nn.Module):
    def __init__(self, width=D, **kw):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, **kw), Net(width)

    def forward(self, x, freqs=None):
        x = x + self.attn(self.ln_1(x), freqs)
        return x + self.mlp(self.ln_2(x))


class Stack(nn.Module):
    """`make(i)` builds a layer, `features` runs them."""

    def __init__(self, n=12):
        super().__init__()
        self.n, self.layers, self.norm = n, nn.ModuleList([self.make(i) for i in range(n)]), nn.LayerNorm(D)

    def make(self, i):
        return Layer()

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


# ------------------------------------------------------------ as meant
class RotaryOnce(Stack):
    """Angles are made once by the model and handed to each layer."""

    def __init__(self, n=8):
        super().__init__(n)
        inv = 10000.0 ** (-torch.arange(HD // 2).to(torch.get_default_dtype()) / (HD // 2))
        emb = torch.outer(torch.arange(T).to(inv.dtype), inv).repeat(1, 2)
        self.register_buffer("cos", emb.cos(), persistent=False)
        self.register_buffer("sin", emb.sin(), persistent=False)

    def features(self, x):
        freqs = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        for layer in self.layers:
            x = layer(x, freqs)
        return x


class ScaledSandwich(Stack):
    """The embedding is multiplied by root d; four norms a layer; unit queries and keys; a cap at the end."""

    class Four(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_a, self.norm_b, self.norm_c, self.norm_d = (nn.RMSNorm(D) for _ in range(4))
            self.attn, self.mlp = Attention(unit=True), Net()

        def forward(self, x):
            x = x + self.norm_b(self.attn(self.norm_a(x)))
            return x + self.norm_d(self.mlp(self.norm_c(x)))

    def __init__(self, n=8):
        super().__init__(n)
        self.head = linear(D, D)

    def make(self, i):
        return self.Four()

    def features(self, x):
        return super().features(x * torch.tensor(D ** 0.5, dtype=x.dtype, device=x.device))

    def forward(self, x):
        return 30.0 * torch.tanh(self.head(self.norm(self.features(x))) / 30.0)


class TokensInFront(Stack):
    """A class token and four registers are put in front and taken away."""

    def __init__(self, n=6):
        super().__init__(n)
        self.cls_token, self.registers = nn.Parameter(torch.zeros(1, 1, D)), nn.Parameter(torch.zeros(1, 4, D))
        self.pos = nn.Parameter(0.02 * torch.randn(1, T, D))

    def make(self, i):
        return Layer(causal=False)

    def features(self, x):
        b = x.shape[0]
        x = torch.cat([self.cls_token.expand(b, -1, -1), self.registers.expand(b, -1, -1), x + self.pos], dim=1)
        x = super().features(x)
        return x[:, 5:]


class FirstValuesMixed(Stack):
    """The values of the first layer come back in all later ones, half and half."""

    class Mixed(Layer):
        def __init__(self):
            super().__init__()
            self.gain_v = nn.Parameter(torch.tensor(0.5))

        def forward(self, x, v1=None):
            y, v = self.attn(self.ln_1(x), first_v=v1, mix=self.gain_v)
            x = x + y
            return x + self.mlp(self.ln_2(x)), v if v1 is None else v1

    def make(self, i):
        return self.Mixed()

    def features(self, x):
        v1 = None
        for layer in self.layers:
            x, v1 = layer(x, v1)
        return x


class TwoLanes(Stack):
    """Two copies of the stream; each part reads a mix, writes to both; a learned matrix that starts as one mixes the lanes; their mean goes on."""

    class Lane(nn.Module):
        def __init__(self, part):
            super().__init__()
            self.norm, self.part = nn.LayerNorm(D), part
            self.gain_read, self.gain_write, self.mix = nn.Parameter(torch.tensor([0.5, 0.5])), nn.Parameter(torch.ones(2)), nn.Parameter(torch.eye(2))

        def forward(self, lanes):
            h = torch.einsum("nbtd,n->btd", lanes, self.gain_read)
            y = self.part(self.norm(h))
            return torch.einsum("mn,nbtd->mbtd", self.mix, lanes) + self.gain_write.view(2, 1, 1, 1) * y

    def make(self, i):
        return self.Lane(Net() if i % 2 else Attention())

    def features(self, x):
        lanes = torch.stack([x, x])
        for layer in self.layers:
            lanes = layer(lanes)
        return lanes.mean(dim=0)


class AverageOfDepths(Stack):
    """Behind each layer a weighed sum of all states so far, which starts as the last one alone."""

    def __init__(self, n=6):
        super().__init__(n)
        self.gain_depth = nn.ParameterList([nn.Parameter(torch.cat([torch.zeros(i + 1), torch.ones(1)])) for i in range(n)])

    def features(self, x):
        states = [x]
        for layer, w in zip(self.layers, self.gain_depth, strict=True):
            states.append(layer(x))
            x = (w.view(-1, 1, 1, 1) * torch.stack(states)).sum(0)
        return x


class ReversibleHalves(nn.Module):
    """Two halves take turns: attention of the one goes to the other, the net of that back."""

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_f, self.norm_g, self.f, self.g = nn.LayerNorm(D // 2), nn.LayerNorm(D // 2), Attention(D // 2), Net(D // 2)

        def forward(self, a, b):
            a = a + self.f(self.norm_f(b))
            return a, b + self.g(self.norm_g(a))

    def __init__(self, n=8):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(self.Pair() for _ in range(n)), nn.LayerNorm(D)

    def features(self, x):
        a, b = x.chunk(2, dim=-1)
        for layer in self.layers:
            a, b = layer(a, b)
        return torch.cat((a, b), dim=-1)

    def forward(self, x):
        return self.norm(self.features(x))


class LibraryEncoder(nn.Module):
    """The library's own layers, norms first, one behind all."""

    def __init__(self, n=6):
        super().__init__()
        make = nn.TransformerEncoderLayer(D, H, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(make, n, norm=nn.LayerNorm(D), enable_nested_tensor=False)

    @property
    def layers(self):
        return self.encoder.layers

    def features(self, x):
        for layer in self.encoder.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.encoder(x)


class LibraryEncoderAsDefault(LibraryEncoder):
    """The same with norms behind the sums, as the library has it if nothing is said."""

    def __init__(self, n=6):
        super().__init__(n)
        make = nn.TransformerEncoderLayer(D, H, 64, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(make, n)


class TimeConditioned(Stack):
    """A net of sines of the time makes shifts, scales and gates for each layer and for the last norm."""

    class Modulated(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(D, elementwise_affine=False), nn.LayerNorm(D, elementwise_affine=False)
            self.attn, self.mlp, self.ada = Attention(causal=False), Net(), nn.Sequential(nn.SiLU(), linear(D, 6 * D, True))

        def forward(self, x, c):
            s1, g1, a1, s2, g2, a2 = self.ada(c)[:, None].chunk(6, dim=2)
            x = x + a1 * self.attn(self.norm1(x) * (1 + g1) + s1)
            return x + a2 * self.mlp(self.norm2(x) * (1 + g2) + s2)

    def __init__(self, n=6):
        super().__init__(n)
        self.t_embedder = nn.Sequential(linear(D, D, True), nn.SiLU(), linear(D, D, True))
        self.last, self.out = nn.Sequential(nn.SiLU(), linear(D, 2 * D, True)), linear(D, D, True)

    def make(self, i):
        return self.Modulated()

    def condition(self, x):
        t = torch.full((x.shape[0],), 0.3, dtype=x.dtype, device=x.device)
        f = torch.exp(-math.log(10000.0) * torch.arange(D // 2, device=x.device, dtype=x.dtype) / (D // 2))
        a = t[:, None] * f * 1000
        return self.t_embedder(torch.cat([a.cos(), a.sin()], dim=-1))

    def features(self, x):
        c = self.condition(x)
        for layer in self.layers:
            x = layer(x, c)
        return x

    def forward(self, x):
        shift, scale = self.last(self.condition(x))[:, None].chunk(2, dim=-1)
        return self.out(F.layer_norm(self.features(x), (D,)) * (1 + scale) + shift)


class EulerSteps(Stack):
    """Each layer is a step of one over their number."""

    class Step(nn.Module):
        def __init__(self, dt):
            super().__init__()
            self.dt, self.norm1, self.norm2, self.attn, self.mlp = dt, nn.LayerNorm(D), nn.LayerNorm(D), Attention(), Net()

        def forward(self, x):
            x = torch.add(x, self.attn(self.norm1(x)), alpha=self.dt)
            return torch.add(x, self.mlp(self.norm2(x)), alpha=self.dt)

    def __init__(self, n=12):
        self.dt = 1.0 / n
        super().__init__(n)

    def make(self, i):
        return self.Step(self.dt)


# ------------------------------------------------------------ with a slip
class CrossNetwork(nn.Module):
    """What came in times a map of the state, added: features are crossed, and powers grow with each layer."""

    def __init__(self, n=4):
        super().__init__()
        self.layers = nn.ModuleList(linear(D, D, True) for _ in range(n))

    def features(self, x):
        x0 = x
        for cross in self.layers:
            x = x0 * cross(x) + x
        return x

    def forward(self, x):
        return self.features(x)


class LongSkips(Stack):
    """The second half gets the states of the first, added."""

    def __init__(self, n=24):
        super().__init__(n)

    def features(self, x):
        held = []
        for layer in self.layers[: self.n // 2]:
            held.append(x)
            x = layer(x)
        for layer in self.layers[self.n // 2 :]:
            x = layer(x + held.pop())
        return x


class LongSkipsTwice(LongSkips):
    """And what goes into a layer is added behind it once more."""

    def features(self, x):
        held = []
        for layer in self.layers[: self.n // 2]:
            held.append(x)
            x = layer(x)
        for layer in self.layers[self.n // 2 :]:
            h = x + held.pop()
            x = layer(h) + h
        return x


class EmbeddingScaleEverywhere(Stack):
    """The embedding's factor is applied in front of every layer."""

    def __init__(self, n=24):
        super().__init__(n)

    def features(self, x):
        for layer in self.layers:
            x = layer(x * 1.3)
        return x


class StartAddedEverywhere(Stack):
    """Learned weights for the state and for the start, of which both begin at one."""

    def __init__(self, n=24):
        super().__init__(n)
        self.gain_mix = nn.Parameter(torch.ones(n, 2))

    def features(self, x):
        x0 = x
        for i, layer in enumerate(self.layers):
            x = layer(self.gain_mix[i, 0] * x + self.gain_mix[i, 1] * x0)
        return x


class NoNormAtTheEnd(Stack):
    """The final norm is built and not called; weights of the head are those of a table drawn from N(0, 1)."""

    def __init__(self, n=8):
        super().__init__(n)
        self.wte = nn.Embedding(D, D)

    def forward(self, x):
        return F.linear(self.features(x), self.wte.weight)


class InitMissesTheNet(Stack):
    """Depth's factor is given to what is called `proj.weight`; the net's last map is called otherwise and keeps N(0, 1)."""

    def __init__(self, n=12):
        super().__init__(n)
        for name, p in self.named_parameters():
            if name.endswith("attn.proj.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * n))
            elif name.endswith("mlp.c_proj.weight"):
                nn.init.normal_(p)


class MixedNorms(Stack):
    """The first quarter has norms behind the sums, the rest in front."""

    class Post(Layer):
        def forward(self, x, freqs=None):
            x = self.ln_1(x + self.attn(x))
            return self.ln_2(x + self.mlp(x))

    def __init__(self, n=12):
        self.early = n // 4
        super().__init__(n)

    def make(self, i):
        return self.Post() if i < self.early else Layer()


class NormBetweenLayers(Stack):
    """The final norm slid into the loop by one indent."""

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
            x = self.norm(x)
        return x

    def forward(self, x):
        return self.features(x)


class GlobalContextLoop(Stack):
    """Behind each layer the mean over tokens is added to all tokens."""

    def __init__(self, n=24):
        super().__init__(n)

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
            x = x + x.mean(1, keepdim=True)
        return x


_M = dict(kind="model")
_F = dict(logits_bounded={0: False})
_BARE = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_PRE = dict(_BARE, **_F)
_GROWS = dict(growth_fixed="exponential", gradient_law="exponential")
TRUTH = {
    "RotaryOnce": dict(_PRE, depth=8, why="pre-norm."),
    "ScaledSandwich": dict(_BARE, identity_gain=32 ** 0.5, growth_all="linear", logits_bounded={0: True}, depth=8, why="peri; root d once."),
    "TokensInFront": dict(_PRE, depth=6, why="pre-norm; tokens come and go."),
    "FirstValuesMixed": dict(_PRE, depth=12, why="values are bounded; pre-norm."),
    "TwoLanes": dict(_BARE, why="the lanes' mean of ones."),
    "AverageOfDepths": dict(_PRE, why="the last state alone, at the start."),
    "ReversibleHalves": dict(_PRE, depth=8, why="pre-norm, by halves."),
    "LibraryEncoder": dict(_PRE, depth=6, why="pre-norm."),
    "LibraryEncoderAsDefault": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, depth=6, **_F, why="post-norm."),
    "TimeConditioned": dict(_PRE, depth=6, why="pre-norm; gates know the time alone."),
    "EulerSteps": dict(_M, identity_gain=1.0, growth_fixed="bounded", softmax=True, depth=12, **_F, why="steps sum to one."),
    "CrossNetwork": dict(_M, identity_gain=1.0, growth_fixed="exponential", softmax=False, why="a raw branch of degree one in the state."),
    "LongSkips": dict(_M, identity_gain=13.0, growth_fixed="polynomial", softmax=True, **_F, why="one more at each of twelve layers; sums of sums of branches."),
    "LongSkipsTwice": dict(_M, identity_gain=3 * 2.0 ** 12 - 2, growth_fixed="exponential", softmax=True, **_F, why="twice one more, twelve times."),
    "EmbeddingScaleEverywhere": dict(_M, identity_gain=1.3 ** 24, softmax=True, **_GROWS, **_F, why="a factor a layer."),
    "StartAddedEverywhere": dict(_PRE, identity_gain=25.0, why="one more at each layer."),
    "NoNormAtTheEnd": dict(_PRE, depth=8, why="pre-norm, whatever stands behind."),
    "InitMissesTheNet": dict(_PRE, depth=12, why="pre-norm at any size of weights."),
    "MixedNorms": dict(_M, identity_gain=None, growth_fixed="linear", softmax=True, depth=12, **_F, why="post, then pre."),
    "NormBetweenLayers": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, depth=12, **_F, why="a norm behind each layer."),
    "GlobalContextLoop": dict(_M, identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=True, **_F, why="what all tokens share is doubled."),
}
