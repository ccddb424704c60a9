"""Whole models: fused adds that hand two tensors on, lists of kept states, layers by names, loops with an input fed in, two resolutions, two sides."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def lin(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    return w


class Mlp(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.fc, self.proj = lin(D, hidden), lin(hidden, D)

    def forward(self, x):
        return self.proj(F.relu(self.fc(x)).square())


class Attn(nn.Module):
    def __init__(self, normed=True):
        super().__init__()
        self.c_q, self.c_kv, self.c_proj, self.normed = lin(D, D), lin(D, 2 * D), lin(D, D), normed

    def forward(self, x, memory=None, causal=True):
        q, (k, v) = self.c_q(x), self.c_kv(x if memory is None else memory).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (q, k, v))
        if self.normed:
            q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal and memory is None)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Pre(nn.Module):
    def __init__(self, normed=True):
        super().__init__()
        self.n1, self.n2, self.attn, self.mlp = nn.RMSNorm(D), nn.RMSNorm(D), Attn(normed), Mlp()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class RMSNormAdd(nn.Module):
    """Adds what is handed on to the residual first, and gives both: the norm of the sum, and the sum."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x, residual=None):
        if residual is not None:
            x = x + residual
        residual = x
        return F.rms_norm(x, (D,), self.weight, 1e-6), residual


class ServingLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm, self.self_attn, self.mlp = RMSNormAdd(), RMSNormAdd(), Attn(), Mlp()

    def forward(self, hidden, residual):
        hidden, residual = self.input_layernorm(hidden, residual)
        hidden = self.self_attn(hidden)
        hidden, residual = self.post_attention_layernorm(hidden, residual)
        return self.mlp(hidden), residual


class ServingModel(nn.Module):
    """Layers of a serving engine: hidden state and residual are two tensors, the last norm adds once more."""

    def __init__(self, n=None):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(ServingLayer() for _ in range(n or 12)), RMSNormAdd()

    def trunk(self, x):
        residual = None
        for layer in self.layers:
            x, residual = layer(x, residual)
        return x, residual

    def forward(self, x):
        hidden, residual = self.trunk(x)
        return self.norm(hidden, residual)[0]


class ServingLayerStale(ServingLayer):
    """The second norm's sum is thrown away: what attention said is in no residual."""

    def forward(self, hidden, residual):
        hidden, residual = self.input_layernorm(hidden, residual)
        hidden = self.self_attn(hidden)
        hidden, _ = self.post_attention_layernorm(hidden, residual)
        return self.mlp(hidden), residual


class ServingModelStale(ServingModel):
    """The same with layers that lose it."""

    def __init__(self, n=None):
        super().__init__(n)
        self.layers = nn.ModuleList(ServingLayerStale() for _ in range(n or 12))


class ServingModelDropsResidual(ServingModel):
    """The residual is not handed to the next layer: each starts from what the last net said."""

    def trunk(self, x):
        for layer in self.layers:
            x, _ = layer(x, None)
        return x, None


class Speedrun(nn.Module):
    """A normed start, skips by sigmoids from the first half to the second, last states first."""

    def __init__(self, n=None):
        super().__init__()
        self.n = n or 12
        self.blocks = nn.ModuleDict({f"h{i}": Pre() for i in range(self.n)})
        self.skip_lambdas = nn.Parameter(torch.full((self.n // 2,), -1.5))

    def forward(self, x):
        x = F.rms_norm(x, (D,))
        kept = []
        for i, block in enumerate(self.blocks.values()):
            if i >= self.n // 2:
                x = x + 2 * torch.sigmoid(self.skip_lambdas[i - self.n // 2]) * kept.pop()
            x = block(x)
            if i < self.n // 2:
                kept.append(x)
        return F.rms_norm(x, (D,))


class Backout(nn.Module):
    """Half of the state at two thirds of the depth is taken away in the end: no final norm follows."""

    def __init__(self, n=None):
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(n or 12))
        self.register_buffer("lamb", torch.tensor(0.5))

    def forward(self, x):
        at = len(self.blocks) * 2 // 3
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i == at:
                seen = x
        return x - self.lamb * seen


class MixedPlaces(nn.Module):
    """A quarter of the blocks with norms behind sums, the others with norms in front."""

    def __init__(self, n=None):
        super().__init__()
        self.n = n or 12
        for i in range(self.n):
            setattr(self, f"layer_{i:02d}", Pre())

    def forward(self, x):
        for i in range(self.n):
            layer = getattr(self, f"layer_{i:02d}")
            if i < self.n // 4:
                x = layer.n1(x + layer.attn(x))
                x = layer.n2(x + layer.mlp(x))
            else:
                x = layer(x)
        return x


class Reversed(nn.Module):
    """A series is standardised over time, forecast by a patch transformer, and brought back by its own mean and deviation."""

    def __init__(self, n=None):
        super().__init__()
        self.embed, self.head, self.affine = nn.Linear(4, D), nn.Linear(4 * D, 16), nn.Parameter(torch.ones(D))
        self.blocks = nn.ModuleList(Pre(False) for _ in range(n or 6))
        self.norm = nn.LayerNorm(D)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        mean, std = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False).add(1e-5).sqrt()
        z = ((x - mean) / std * self.affine).permute(0, 2, 1).unfold(-1, 4, 4).flatten(0, 1)
        z = self.norm(self.trunk(self.embed(z))).flatten(1)
        y = self.head(z).unflatten(0, (x.shape[0], D)).permute(0, 2, 1)
        return y / self.affine * std + mean


class ConcatSkips(nn.Module):
    """Blocks of the second half read a map of the state beside that of the first half."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 8
        self.inward, self.mid = nn.ModuleList(Pre(False) for _ in range(n // 2)), Pre(False)
        self.outward = nn.ModuleList(nn.ModuleDict({"skip": lin(2 * D, D), "block": Pre(False)}) for _ in range(n // 2))

    def forward(self, x):
        skips = []
        for block in self.inward:
            x = block(x)
            skips.append(x)
        x = self.mid(x)
        for layer in self.outward:
            x = layer["block"](layer["skip"](torch.cat((x, skips.pop()), -1)))
        return x


class InitialMix(nn.Module):
    """Graph layers that mix a tenth of the first state in, with maps near the identity: no norm, and a ReLU."""

    alpha = 0.1

    def __init__(self, n=None):
        super().__init__()
        self.n, self.maps = n or 16, nn.ParameterList(torch.randn(D, D) * D ** -0.5 for _ in range(n or 16))
        eye = torch.eye(T)
        self.register_buffer("adj", (eye + eye.roll(1, 0) + eye.roll(-1, 0)) / 3)

    def forward(self, x):
        h = h0 = x
        for i, w in enumerate(self.maps):
            beta = 0.5 / (i + 1)
            s = (1 - self.alpha) * torch.einsum("ij,bjd->bid", self.adj, h) + self.alpha * h0
            h = F.relu((1 - beta) * s + beta * (s @ w))
        return h


@dataclass
class Output:
    last_hidden_state: torch.Tensor
    hidden_states: tuple


class Equilibrium(nn.Module):
    """One cell, again and again, with the input fed in: the norm of a net of the state and a map of the input, and a ReLU of the state beside."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.w1, self.w2, self.norm1, self.norm2, self.norm3 = n or 12, lin(D, 64), lin(64, D), nn.LayerNorm(64), nn.LayerNorm(D), nn.LayerNorm(D)

    def f(self, z, x):
        y = self.norm1(F.relu(self.w1(z)))
        return self.norm3(F.relu(z + self.norm2(x + self.w2(y))))

    def forward(self, x):
        z = torch.zeros_like(x)
        for _ in range(self.n):
            z = self.f(z, x)
        return z


class InjectedLoop(nn.Module):
    """A shared block is run many times, and the input is added before each round, as in recurrent depth without its adapter."""

    def __init__(self, n=None):
        super().__init__()
        self.n, self.core = n or 12, Pre()

    def forward(self, x):
        s = x
        for _ in range(self.n):
            s = self.core(s + x)
        return s


class TranslationStack(nn.Module):
    """Layers of a recurrent translator: the first has no residual, all others add what they read."""

    def __init__(self, n=None):
        super().__init__()
        self.rnns = nn.ModuleList(nn.LSTM(D, D, batch_first=True) for _ in range(n or 8))

    def forward(self, x):
        for i, rnn in enumerate(self.rnns):
            y, _ = rnn(x)
            x = y if i == 0 else x + y
        return x


class TwoSides(nn.Module):
    """An encoder and a decoder with attention to its normed end; a dataclass in between."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.encoder, self.decoder = nn.ModuleList(Pre(False) for _ in range(n)), nn.ModuleList(Pre(False) for _ in range(n))
        self.cross, self.norms = nn.ModuleList(Attn(False) for _ in range(n)), nn.ModuleList(nn.RMSNorm(D) for _ in range(n))
        self.encoder_norm, self.final = nn.RMSNorm(D), nn.RMSNorm(D)

    def encode(self, x):
        states = []
        for block in self.encoder:
            x = block(x)
            states.append(x)
        return Output(last_hidden_state=self.encoder_norm(x), hidden_states=tuple(states))

    def trunk(self, x):
        memory = self.encode(x)
        y = x.roll(1, 1)
        for block, cross, norm in zip(self.decoder, self.cross, self.norms):
            y = block(y)
            y = y + cross(norm(y), memory.last_hidden_state)
        return y

    def forward(self, x):
        return self.final(self.trunk(x))


class PatternStack(nn.Module):
    """Layers by letters: a gated moving sum, attention, a net; one norm and one add for all."""

    pattern = "M-M-*-M-M-*-"

    def __init__(self, n=None):
        super().__init__()
        make = {"M": MovingSum, "*": Attn, "-": Mlp}
        self.mixers = nn.ModuleList(make[c]() for c in (self.pattern * ((n or 12) // 12 + 1))[:n or 12])
        self.norms = nn.ModuleList(nn.RMSNorm(D) for _ in self.mixers)
        self.norm_f = nn.RMSNorm(D)

    def trunk(self, x):
        for norm, mixer in zip(self.norms, self.mixers):
            x = torch.add(x, mixer(norm(x)))
        return x

    def forward(self, x):
        return self.norm_f(self.trunk(x))


class MovingSum(nn.Module):
    """A state-space dual form by sums of logs: decays of the data, a mask of their products, a gated norm at the end."""

    def __init__(self):
        super().__init__()
        self.in_proj, self.dt_bias, self.a_log, self.norm, self.out_proj = lin(D, 4 * D + H), nn.Parameter(torch.full((H,), -2.0)), nn.Parameter(torch.zeros(H)), nn.RMSNorm(D), lin(D, D)

    def forward(self, u):
        z, x, b, c, dt = torch.split(self.in_proj(u), (D, D, D, D, H), dim=-1)
        x, b, c = (F.silu(t).unflatten(-1, (H, HD)) for t in (x, b, c))
        dt = F.softplus(dt + self.dt_bias)
        total = (-self.a_log.exp() * dt).cumsum(1)
        seg = total[:, :, None] - total[:, None]
        mask = torch.ones(u.shape[1], u.shape[1], dtype=torch.bool, device=u.device).tril()[None, :, :, None]
        w = seg.masked_fill(~mask, float("-inf")).exp() * torch.einsum("bthd,bshd->btsh", c, b)
        y = torch.einsum("btsh,bsh,bshd->bthd", w, dt, x).flatten(2)
        return self.out_proj(self.norm(y * F.silu(z)))


class PatternStackNoAdd(PatternStack):
    """`torch.add(norm(x), …)`: what is carried is what is normed."""

    def trunk(self, x):
        for norm, mixer in zip(self.norms, self.mixers):
            h = norm(x)
            x = torch.add(h, mixer(h))
        return x


class InnerOuter(nn.Module):
    """Two streams: pixels of a patch, and patches, to which a map of the pixels is added in each layer."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.inner = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(n))
        self.proj_norm, self.proj = nn.ModuleList(nn.LayerNorm(D) for _ in range(n)), nn.ModuleList(lin(D, D) for _ in range(n))
        self.outer = nn.ModuleList(Pre(False) for _ in range(n))

    def forward(self, x):
        pixels, patches = x.unflatten(-1, (4, 8)), x
        for inner, norm, proj, outer in zip(self.inner, self.proj_norm, self.proj, self.outer):
            pixels = pixels + inner(pixels)
            patches = outer(patches + proj(norm(pixels.flatten(-2))))
        return patches


_M = dict(kind="model", softmax=True)
TRUTH = {
    "ServingModel": dict(_M, depth=12, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm in two tensors."),
    "ServingModelStale": dict(_M, depth=12, identity_gain=1.0, growth_fixed="linear", sound=False, why="pre-norm; attention's output is read once."),
    "ServingModelDropsResidual": dict(_M, depth=12, growth_fixed="bounded", sound=False, why="each layer gives a net of a norm."),
    "Speedrun": dict(_M, depth=12, sound=True, why="pre-norm; earlier states are added by 0.36."),
    "Backout": dict(_M, depth=12, identity_gain=0.5, growth_fixed="linear", sound=True, why="half is taken away."),
    "MixedPlaces": dict(_M, depth=12, growth_fixed="linear", sound=True, why="post-norm first, pre-norm then."),
    "Reversed": dict(_M, depth=6, growth_fixed="linear", sound=True, why="pre-norm."),
    "ConcatSkips": dict(_M, depth=9, sound=True, why="maps join."),
    "InitialMix": dict(kind="model", depth=16, softmax=False, sound=True, why="maps near the identity."),
    "Equilibrium": dict(kind="model", depth=12, growth_fixed="bounded", growth_all="bounded", softmax=False, sound=True, why="each round ends in a norm."),
    "InjectedLoop": dict(_M, depth=12, identity_gain=13.0, growth_fixed="linear", sound=True, why="the input once more a round."),
    "TranslationStack": dict(kind="model", depth=8, growth_fixed="linear", growth_all="linear", softmax=False, sound=True, why="values below one are added."),
    "TwoSides": dict(_M, depth=6, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm."),
    "PatternStack": dict(_M, depth=12, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm."),
    "PatternStackNoAdd": dict(_M, depth=12, growth_fixed="bounded", sound=False, why="a normed stream and a function of it."),
    "InnerOuter": dict(_M, depth=6, identity_gain=1.0, growth_fixed="linear", sound=True, why="pre-norm; what is added is normed."),
}
