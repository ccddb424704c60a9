"""Whole models: towers that are summed, encoders with decoders, streams that exchange, decompositions of a series, dense sums; and slips in them."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(n_in, n_out, bias=True):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


class Mlp(nn.Module):
    def __init__(self, ratio=2):
        super().__init__()
        self.fc1, self.fc2 = dense(D, ratio * D), dense(ratio * D, D)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class NormedMlp(Mlp):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def forward(self, x):
        return super().forward(self.norm(x))


class Attend(nn.Module):
    """Queries of one, keys and values of another sequence."""

    def __init__(self, causal=False):
        super().__init__()
        self.q, self.k, self.v, self.o = (dense(D, D, bias=False) for _ in range(4))
        self.causal = causal

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        split = lambda t: t.unflatten(-1, (H, E)).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(memory)), split(self.v(memory)), is_causal=self.causal)
        return self.o(y.transpose(1, 2).flatten(2))


# ---- two towers
class TwoTowersSum(nn.Module):
    """A tower on the sequence, one on the same sequence with other weights; their outputs are added."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))
        self.others = nn.ModuleList(NormedMlp() for _ in range(n))

    def join(self, a, b):
        return a + b

    def forward(self, x):
        a = b = x
        for block, other in zip(self.blocks, self.others):
            a, b = a + block(a), b + other(b)
        return self.join(a, b)


class TwoTowersMean(TwoTowersSum):
    """Their mean."""

    def join(self, a, b):
        return 0.5 * (a + b)


class TowerDifference(TwoTowersSum):
    """Their difference: what they have in common is gone."""

    def join(self, a, b):
        return a - b


class TowersOneAfterOther(TwoTowersSum):
    """Two loops, one behind the other; the sum of both ends."""

    def forward(self, x):
        a = b = x
        for block in self.blocks:
            a = a + block(a)
        for other in self.others:
            b = b + other(b)
        return self.join(a, b)


class FlippedTwin(nn.Module):
    """One body reads the sequence forward and backward; the mean of both ends."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))

    def tower(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x

    def forward(self, x):
        return (self.tower(x) + self.tower(x.flip(1)).flip(1)) / 2


class EndsJoined(TwoTowersSum):
    """The towers read half of the channels each, and their ends stand side by side."""

    def __init__(self, n=24):
        super().__init__(n)
        for towers in (self.blocks, self.others):
            for block in towers:
                block.norm, block.fc1, block.fc2 = nn.LayerNorm(D // 2), dense(D // 2, D), dense(D, D // 2)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        for block, other in zip(self.blocks, self.others):
            a, b = a + block(a), b + other(b)
        return torch.cat((a, b), -1)


# ---- encoders and decoders
class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.n1, self.mlp = Attend(), nn.LayerNorm(D), NormedMlp()

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(x)


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.cross, self.mlp = Attend(causal=True), Attend(), NormedMlp()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, y, memory):
        y = y + self.attn(self.n1(y))
        y = y + self.cross(self.n2(y), memory)
        return y + self.mlp(y)


class EncoderDecoder(nn.Module):
    """The decoder reads the same sequence shifted by one; memory is normed."""

    def __init__(self, n=24):
        super().__init__()
        self.encoder = nn.ModuleList(EncoderLayer() for _ in range(n))
        self.blocks = nn.ModuleList(DecoderLayer() for _ in range(n))
        self.norm = nn.LayerNorm(D)

    def end(self, memory):
        return self.norm(memory)

    def forward(self, x):
        memory = x
        for layer in self.encoder:
            memory = layer(memory)
        memory, y = self.end(memory), x.roll(1, 1)
        for block in self.blocks:
            y = block(y, memory)
        return y


class EncoderDecoderRaw(EncoderDecoder):
    """The norm at the end of the encoder is forgotten."""

    def end(self, memory):
        return memory


class MemoryAdded(EncoderDecoder):
    """Each layer of the decoder adds the normed memory itself."""

    def forward(self, x):
        memory = x
        for layer in self.encoder:
            memory = layer(memory)
        memory, y = self.norm(memory), x
        for block in self.blocks:
            y = block(y + memory, memory)
        return y


# ---- residuals of forecasts
class NBeats(nn.Module):
    """Each block takes off what it explains, and its forecast is summed."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(n))
        self.heads = nn.ModuleList(dense(D, D) for _ in range(n))

    def read(self, x):
        return x

    def forward(self, x):
        forecast = torch.zeros_like(x)
        for block, head in zip(self.blocks, self.heads):
            theta = block(self.read(x))
            x = x - theta
            forecast = forecast + head(theta)
        return forecast


class NBeatsNormed(NBeats):
    """Blocks read a normed residual."""

    def read(self, x):
        return F.layer_norm(x, (D,))


class NBeatsBoth(NBeatsNormed):
    """The residual is returned with the forecast."""

    def forward(self, x):
        forecast = 0
        for block, head in zip(self.blocks, self.heads):
            theta = block(self.read(x))
            x, forecast = x - theta, forecast + head(theta)
        return x + forecast


def moving_average(x, k=5):
    front, back = x[:, :1].repeat(1, k // 2, 1), x[:, -1:].repeat(1, k // 2, 1)
    return F.avg_pool1d(torch.cat([front, x, back], dim=1).transpose(1, 2), k, stride=1).transpose(1, 2)


class Autoformer(nn.Module):
    """Behind each branch the moving average goes over to the trend; the end is season plus trend."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))

    def forward(self, x):
        trend = torch.zeros_like(x)
        for block in self.blocks:
            x = x + block(x)
            mean = moving_average(x)
            x, trend = x - mean, trend + mean
        return self.end(x, trend)

    def end(self, x, trend):
        return x + trend


class AutoformerSeason(Autoformer):
    """The trend is not added at the end."""

    def end(self, x, trend):
        return x


def seasons(n):
    m = torch.stack([moving_average(c.view(1, T, 1)).view(T) for c in torch.eye(T).double()], 1)
    return torch.linalg.matrix_norm(torch.linalg.matrix_power(torch.eye(T).double() - m, n), 2).item()


# ---- streams that exchange
class Evoformer(nn.Module):
    """A stream of tokens and one of pairs: pairs bias the attention, outer products of tokens update pairs."""

    class Layer(nn.Module):
        def __init__(self, c=8):
            super().__init__()
            self.n1, self.n2, self.np, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(c), NormedMlp()
            self.qkv, self.out, self.bias = dense(D, 3 * D, bias=False), dense(D, D), dense(c, H, bias=False)
            self.left, self.right, self.pair = dense(D, c), dense(D, c), dense(c * c, c)

        def forward(self, s, z):
            q, k, v = (t.view(*s.shape[:2], H, E).transpose(1, 2) for t in self.qkv(self.n1(s)).split(D, -1))
            a = q @ k.mT / E ** 0.5 + self.bias(self.np(z)).permute(0, 3, 1, 2)
            s = s + self.out((a.softmax(-1) @ v).transpose(1, 2).flatten(2))
            s = s + self.mlp(s)
            h = self.n2(s)
            outer = torch.einsum("bic,bjd->bijcd", self.left(h), self.right(h)).flatten(3)
            return s, z + self.pair(outer)

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer() for _ in range(n))

    def forward(self, x):
        z = x.new_zeros(x.shape[0], T, T, 8)
        for block in self.blocks:
            x, z = block(x, z)
        return x


class Coordinates(nn.Module):
    """Graph networks with positions: half of the channels are features, half positions that move along their differences."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.phi, self.feature = nn.LayerNorm(D // 2), dense(D // 2, 1), dense(D // 2, D // 2)

        def weight(self, h):
            return 2.0 * torch.tanh(self.phi(h) + 1.0)

        def forward(self, h, pos):
            y = self.norm(h)
            difference = pos.unsqueeze(2) - pos.unsqueeze(1)
            pos = pos + (difference * self.weight(y).unsqueeze(1)).mean(2)
            return h + self.feature(y), pos

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer() for _ in range(n))

    def forward(self, x):
        h, pos = x.chunk(2, -1)
        for block in self.blocks:
            h, pos = block(h, pos)
        return torch.cat([h, pos], -1)


class CoordinatesUnit(Coordinates):
    """Differences are divided by their length plus one."""

    class Layer(Coordinates.Layer):
        def forward(self, h, pos):
            y = self.norm(h)
            difference = pos.unsqueeze(2) - pos.unsqueeze(1)
            difference = difference / (difference.norm(dim=-1, keepdim=True) + 1.0)
            pos = pos + (difference * self.weight(y).unsqueeze(1)).mean(2)
            return h + self.feature(y), pos


class SiameseNorm(nn.Module):
    """Two streams share each branch: one is never normed, one is normed behind each add."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(n))
        self.pre = nn.ModuleList(nn.LayerNorm(D) for _ in range(n + 1))
        self.post = nn.ModuleList(nn.LayerNorm(D) for _ in range(n))

    def forward(self, x):
        y = x = F.layer_norm(x, (D,))
        for block, pre, post in zip(self.blocks, self.pre, self.post):
            out = block(pre(x) + y)
            x, y = x + out, post(y + out)
        return self.pre[-1](x) + y


class GuestStream(nn.Module):
    """A short stream of eight guest channels reads and writes beside the wide one; each branch reads the norm of both."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(D + 8), dense(D + 8, 64), nn.SiLU(), dense(64, D + 8)) for _ in range(n))
        self.guest = nn.Parameter(torch.randn(8))

    def forward(self, x):
        g = self.guest.expand(*x.shape[:2], 8)
        for block in self.blocks:
            dx, dg = block(torch.cat([x, g], -1)).split([D, 8], -1)
            x, g = x + dx, g + dg
        return x


# ---- dense sums
class FourStatesMean(nn.Module):
    """Behind every fourth block the stream is the mean of the last four states."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))

    def merge(self, states):
        return torch.stack(states).mean(0)

    def forward(self, x):
        states = []
        for block in self.blocks:
            x = x + block(x)
            states.append(x)
            if len(states) == 4:
                x, states = self.merge(states), []
        return x


class FourStatesSum(FourStatesMean):
    """... the sum, divided by the root of four."""

    def merge(self, states):
        return sum(states) / math.sqrt(len(states))


class MuddStatic(nn.Module):
    """Branches read trained sums of all states so far, each its own for queries, values and the residual; the residual's start at the newest."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(n))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(n))
        newest = lambda i: nn.Parameter(torch.eye(i + 1)[-1].repeat(2, 1))
        self.dense = nn.ParameterList(newest(i) for i in range(n))

    def forward(self, x):
        states = [x]
        for block, norm, w in zip(self.blocks, self.norms, self.dense):
            branch, residual = torch.einsum("cl,lbtd->cbtd", w, torch.stack(states))
            states.append(residual + block(norm(branch)))
        return states[-1]


class TransparentEnd(nn.Module):
    """The output is a trained convex mean of all states (a softmax of zeros at the start)."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))
        self.mix = nn.Parameter(torch.zeros(n + 1))

    def forward(self, x):
        states = [x]
        for block in self.blocks:
            states.append(states[-1] + block(states[-1]))
        return torch.tensordot(self.mix.softmax(0), torch.stack(states), dims=1)


class SkipEveryOther(nn.Module):
    """Stream plus the state of two blocks ago, halved."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))

    def forward(self, x):
        older = x
        for i, block in enumerate(self.blocks):
            y = x + block(x)
            if i % 2:
                y, older = (y + older) / 2, y
            x = y
        return x


# ---- starts that depend on depth
class Keel(nn.Module):
    """Post-norm whose skip is multiplied by twice the depth; the branch reads its own norm."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))
        self.post, self.alpha = nn.ModuleList(nn.LayerNorm(D) for _ in range(n)), 2.0 * n

    def forward(self, x):
        for block, post in zip(self.blocks, self.post):
            x = post(self.alpha * x + block(x))
        return x


class Admin(nn.Module):
    """Post-norm whose skip is multiplied by a trained vector that starts at the root of the layer's index."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks, self.post = nn.ModuleList(Mlp() for _ in range(n)), nn.ModuleList(nn.LayerNorm(D) for _ in range(n))
        self.omega = nn.ParameterList(nn.Parameter(torch.full((D,), math.sqrt(i + 1))) for i in range(n))

    def forward(self, x):
        for block, post, omega in zip(self.blocks, self.post, self.omega):
            x = post(omega * x + block(x))
        return x


class ReZero(nn.Module):
    """Branches times trained scalars that start at 0; no norm."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(n))
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        for a, block in zip(self.alpha, self.blocks):
            x = x + a * block(x)
        return x


class Fixup(nn.Module):
    """No norm: the first map of each branch is scaled down with depth, the last starts at 0; scalar biases and a scalar multiplier."""

    class Layer(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.b = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(4))
            self.fc1, self.fc2, self.multiplier = dense(D, 2 * D, bias=False), dense(2 * D, D, bias=False), nn.Parameter(torch.ones(1))
            with torch.no_grad():
                self.fc1.weight.mul_(n ** -0.5)
                self.fc2.weight.zero_()

        def forward(self, x):
            y = self.fc1(x + self.b[0])
            y = F.relu(y + self.b[1])
            return x + self.fc2(y + self.b[2]) * self.multiplier + self.b[3]

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer(n) for _ in range(n))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class WarmedResidual(nn.Module):
    """Branches are let in layer by layer as steps go by (a buffer that starts at 0)."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))
        self.register_buffer("step", torch.zeros(()))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = x + torch.clamp(self.step / (100.0 * (i + 1)), max=1.0) * block(x)
        return x


class EmbedScale(nn.Module):
    """The stream starts at the input times the root of its width."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))

    def forward(self, x):
        x = x * math.sqrt(D)
        for block in self.blocks:
            x = x + block(x)
        return x


class NormedStart(nn.Module):
    """The embedding is normed and joins every layer with weight 0 at the start; queries read a norm without gain."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(Mlp() for _ in range(n))
        self.lambdas = nn.Parameter(torch.tensor([[1.0, 0.0]]).repeat(n, 1))

    def forward(self, x):
        x = x0 = F.rms_norm(x, (D,))
        for block, lam in zip(self.blocks, self.lambdas):
            x = lam[0] * x + lam[1] * x0
            x = x + block(F.rms_norm(x, (D,)))
        return x


class PostEveryFourth(nn.Module):
    """Pre-norm; behind every fourth block the stream itself is normed."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(NormedMlp() for _ in range(n))
        self.norms = nn.ModuleList(nn.LayerNorm(D) if i % 4 == 3 else nn.Identity() for i in range(n))

    def forward(self, x):
        for block, norm in zip(self.blocks, self.norms):
            x = norm(x + block(x))
        return x


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_MODEL = dict(_LIN, kind="model", softmax=False)
TRUTH = {
    "TwoTowersSum": dict(_MODEL, identity_gain=2.0, why="x and x.", tempts="gain 1 of each"),
    "TwoTowersMean": dict(_MODEL, why="half of each.", tempts="2; 1/2"),
    "TowerDifference": dict(_MODEL, identity_gain=0.0, why="x - x.", tempts="gain 1 of each"),
    "TowersOneAfterOther": dict(_MODEL, identity_gain=2.0, why="x and x.", tempts="one tower of 48"),
    "FlippedTwin": dict(_MODEL, why="each token comes to its own place twice, halved.", tempts="2; 1/2"),
    "EndsJoined": dict(_MODEL, why="halves side by side.", tempts="2; two streams"),
    "EncoderDecoder": dict(_MODEL, gradient_law="power", softmax=True, logits_bounded=None, why="memory is normed.", tempts="-"),
    "EncoderDecoderRaw": dict(_MODEL, growth_fixed="polynomial", softmax=True,
        why="n values of a stream that grows with n.", tempts="linear: the decoder's own norms"),
    "MemoryAdded": dict(_MODEL, softmax=True, why="a normed thing is added at each layer.", tempts="long skip: 2^24"),
    "NBeats": dict(kind="model", growth_fixed="exponential", softmax=False, why="branches of degree one, no norm.", tempts="zeros: bounded"),
    "NBeatsNormed": dict(kind="model", identity_gain=0.0, growth_fixed="linear", softmax=False, why="the forecast starts at 0.", tempts="gain 1"),
    "NBeatsBoth": dict(_MODEL, why="the residual returns.", tempts="-"),
    "Autoformer": dict(_MODEL, why="season and trend sum to x.", tempts="(1 - MA)^24"),
    "AutoformerSeason": dict(kind="model", identity_gain=seasons(24), growth_fixed="exponential", softmax=False,
        why="1 - MA is above 1 where the window's response is below 0.", tempts="gain 1"),
    "Evoformer": dict(_MODEL, softmax=True, why="pairs are read behind a norm.", tempts="products of streams"),
    "Coordinates": dict(kind="model", growth_fixed="exponential", softmax=False,
        why="positions move along their differences.", tempts="gain 1, linear: branches are normed"),
    "CoordinatesUnit": dict(_MODEL, why="steps below a constant.", tempts="exponential"),
    "SiameseNorm": dict(kind="model", identity_gain=None, growth_fixed="bounded", softmax=False,
        why="both are normed at the end.", tempts="gain 1; linear"),
    "GuestStream": dict(_MODEL, why="a normed branch writes both.", tempts="-"),
    "FourStatesMean": dict(_MODEL, why="means of states of gain 1.", tempts="2^6; (1/4)^6"),
    "FourStatesSum": dict(kind="model", identity_gain=2.0 ** 6, growth_fixed="exponential", gradient_law="exponential", softmax=False,
        why="4 / 2 every fourth block.", tempts="gain 1"),
    "MuddStatic": dict(_MODEL, why="the newest state alone, at the start.", tempts="dense: 2^24"),
    "TransparentEnd": dict(_MODEL, softmax=None, why="a convex mean.", tempts="25; 1/25"),
    "SkipEveryOther": dict(_MODEL, why="means of states of gain 1.", tempts="2^-12"),
    "Keel": dict(kind="model", identity_gain=None, growth_fixed="bounded", gradient_law="flat", softmax=False,
        why="1/(2n) of the branch in each of n.", tempts="post-norm: exponential"),
    "Admin": dict(kind="model", identity_gain=None, growth_fixed="bounded", softmax=False, why="normed.", tempts="gain sqrt(i)"),
    "ReZero": dict(kind="model", identity_gain=1.0, softmax=False, why="closed at the start.", tempts="exponential: degree one"),
    "Fixup": dict(kind="model", identity_gain=1.0, gradient_law="flat", softmax=False, why="last maps start at 0.", tempts="exponential"),
    "WarmedResidual": dict(kind="model", identity_gain=1.0, softmax=False, why="closed at the start.", tempts="-"),
    "EmbedScale": dict(_MODEL, identity_gain=math.sqrt(D), why="once.", tempts="gain 1"),
    "NormedStart": dict(kind="model", identity_gain=None, growth_fixed="linear", softmax=False,
        why="the input is normed.", tempts="gain 1 of the input"),
    "PostEveryFourth": dict(kind="model", identity_gain=None, growth_fixed="bounded", softmax=False,
        why="the last norm is at most three blocks away.", tempts="linear"),
}
