"""What a residual branch adds: bounded over all weights or not, and what degree it has in the stream."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize

D = 32


def example_inputs():
    return (torch.randn(2, 16, D),)


def dense(d_in, d_out, gain=1.0, bias=True):
    lin = nn.Linear(d_in, d_out, bias=bias)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


class Tail(nn.Module):
    """x + tail(mlp(x)); no norm in front unless `front` says so."""

    front = nn.Identity
    gain = 1.0

    def __init__(self):
        super().__init__()
        self.norm = self.front(D) if self.front is not nn.Identity else nn.Identity()
        self.body = nn.Sequential(dense(D, 2 * D), nn.GELU(), dense(2 * D, D, self.gain))
        self.setup()

    def setup(self):
        pass

    def tail(self, y):
        return y

    def branch(self, x):
        return self.tail(self.body(self.norm(x)))

    def forward(self, x):
        return x + self.branch(x)


# ---- orthogonal weights
class Rotation(nn.Module):
    """exp(A - A^T) with the upper triangle of the weight."""

    def forward(self, w):
        a = w.triu(1)
        return torch.linalg.matrix_exp(a - a.mT)


class OrthogonalMaps(nn.Module):
    """Two orthogonal maps without bias around a ReLU, on a normed input."""

    bias = False

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.first, self.second = (parametrize.register_parametrization(nn.Linear(D, D, bias=self.bias), "weight", Rotation()) for _ in range(2))

    def branch(self, x):
        return self.second(F.relu(self.first(self.norm(x))))

    def forward(self, x):
        return x + self.branch(x)


class OrthogonalMapsBias(OrthogonalMaps):
    """nn.Linear has a bias by default."""

    bias = True


# ---- periodic, hump-like and rational tails
class SineTail(Tail):
    def tail(self, y):
        return torch.sin(y) + torch.sin(y).square()


class SnakeTail(Tail):
    """Snake: y + sin^2 y."""

    def tail(self, y):
        return torch.addcmul(y, y.sin(), y.sin())


class SiluAgainstSilu(Tail):
    """silu(y) silu(-y)."""

    def tail(self, y):
        return F.silu(y) * F.silu(-y)


class SiluTimesSilu(Tail):
    """silu(y) silu(y), behind a norm."""

    front = nn.LayerNorm

    def tail(self, y):
        return F.silu(y) * F.silu(y)


class RationalLevel(Tail):
    """y |y| / (1 + y^2)."""

    def tail(self, y):
        return y * y.abs() / torch.addcmul(torch.ones_like(y), y, y)


class RationalSlope(Tail):
    """y^3 / (1 + y^2)."""

    gain = 2.0

    def tail(self, y):
        return y.pow(3) / torch.addcmul(torch.ones_like(y), y, y)


class LogProbabilities(Tail):
    """log_softmax over the channels."""

    def tail(self, y):
        return F.log_softmax(y, dim=-1)


class SignedRoot(nn.Module):
    """sgn(y) sqrt|y| of one linear map, no norm."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(D, D, bias=False)

    def branch(self, x):
        y = self.map(x)
        return torch.copysign(y.abs().add(1e-12).sqrt(), y)

    def forward(self, x):
        return x + self.branch(x)


# ---- sums over time
class CumsumOfNormed(Tail):
    """Normed per token, and then a running sum over the 16 tokens."""

    def setup(self):
        self.last = nn.RMSNorm(D)

    def tail(self, y):
        return torch.cumsum(self.last(y), 1)


class CumsumThenMap(CumsumOfNormed):
    """A trained map behind the running sum."""

    def setup(self):
        super().setup()
        self.rate = nn.Linear(D, D, bias=False)

    def tail(self, y):
        return self.rate(super().tail(y))


class SigmoidDecay(Tail):
    """s <- a s + (1 - a) v with a = sigmoid(.) per channel, v normed."""

    front = nn.LayerNorm

    def setup(self):
        self.last = nn.RMSNorm(D)
        self.decay = nn.Parameter(torch.randn(D))

    def coefficients(self):
        a = torch.sigmoid(self.decay)
        return a, 1 - a

    def tail(self, y):
        a, b = self.coefficients()
        s, out = torch.zeros_like(y[:, 0]), []
        for v in self.last(y).unbind(1):
            s = a * s + b * v
            out.append(s)
        return torch.stack(out, 1)


class FreeDecay(SigmoidDecay):
    """The decay as it is; it starts between 0 and 1."""

    def setup(self):
        super().setup()
        self.decay = nn.Parameter(torch.rand(D))

    def coefficients(self):
        return self.decay, 1 - self.decay


# ---- recurrent cells
class LstmBranch(nn.Module):
    """x + LSTM(x)."""

    def __init__(self):
        super().__init__()
        self.rnn = self.make()

    def make(self):
        return nn.LSTM(D, D, batch_first=True)

    def branch(self, x):
        return self.rnn(x)[0]

    def forward(self, x):
        return x + self.branch(x)


class ProjectedLstm(LstmBranch):
    """With a projected state."""

    def make(self):
        return nn.LSTM(D, 2 * D, batch_first=True, proj_size=D)


class GruBranch(LstmBranch):
    def make(self):
        return nn.GRU(D, D // 2, batch_first=True, bidirectional=True)


class ReluRnn(LstmBranch):
    def make(self):
        return nn.RNN(D, D, nonlinearity="relu", batch_first=True)


# ---- behind a norm
class LeakyAfterNorm(Tail):
    def setup(self):
        self.last = nn.Sequential(nn.LayerNorm(D), nn.LeakyReLU(0.2))

    def tail(self, y):
        return self.last(y)


class PReluAfterNorm(LeakyAfterNorm):
    """The negative slope is a weight, one per channel."""

    def setup(self):
        self.last = nn.ModuleList([nn.LayerNorm(D), nn.PReLU(D)])

    def tail(self, y):
        return self.last[1](self.last[0](y).mT).mT


class SqueezeGate(Tail):
    """Normed, then gated per channel by what a bottleneck makes of the mean over tokens."""

    def setup(self):
        self.last = nn.RMSNorm(D)
        self.squeeze, self.excite = nn.Linear(D, 8), nn.Linear(8, D)

    act = staticmethod(F.hardsigmoid)

    def tail(self, y):
        y = self.last(y)
        g = self.act(self.excite(F.relu(self.squeeze(y.mean(1, keepdim=True)))))
        return y * g


class SqueezeRelu(SqueezeGate):
    """The gate is a relu."""

    act = staticmethod(F.relu)


class InstanceNormTail(Tail):
    """InstanceNorm1d: every channel over the tokens."""

    def setup(self):
        self.last = nn.InstanceNorm1d(D)

    def tail(self, y):
        return self.last(y.mT).mT


# ---- clamps
class ClipToConstant(Tail):
    def setup(self):
        self.register_buffer("limit", torch.full((D,), 3.0))

    def tail(self, y):
        return torch.clamp(y, -self.limit, self.limit)


class ClipToStream(Tail):
    """Entries are clamped to the rms of the token in the stream (as gradients are clipped to the size of their weight)."""

    gain = 2.0

    def branch(self, x):
        r = x.square().mean(-1, keepdim=True).sqrt()
        return torch.clamp(self.body(x), -r, r)


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        ctx.save_for_backward(y)
        return y.clamp(-2, 2)

    @staticmethod
    def backward(ctx, g):
        return g


class ClipGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        return y * 1.0

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-2, 2)


class ForwardClip(Tail):
    """Clamped, with the gradient of the identity."""

    def tail(self, y):
        return Clip.apply(y)


class BackwardClip(Tail):
    """The value goes through, the gradient is clamped."""

    def tail(self, y):
        return ClipGradient.apply(y)


# ---- fast weights
class FastWeightsNormed(nn.Module):
    """A rank-four map made by the normed mean of the tokens, applied to the normed tokens."""

    def __init__(self):
        super().__init__()
        self.norm, self.make, self.up = nn.LayerNorm(D), dense(D, 4 * D), dense(4, D)

    def read(self, x, h):
        return h

    def branch(self, x):
        h = self.norm(x)
        w = self.make(h.mean(1)).tanh().unflatten(-1, (4, D))
        return self.up(torch.einsum("brd,btd->btr", w, self.read(x, h)))

    def forward(self, x):
        return x + self.branch(x)


class FastWeightsRaw(FastWeightsNormed):
    """Applied to the tokens as they are."""

    def read(self, x, h):
        return x


# ---- a norm inside
class SubNormOnly(nn.Module):
    """No norm in front; one between the activation and the last map."""

    def __init__(self):
        super().__init__()
        self.up, self.side, self.norm, self.down = dense(D, 2 * D), dense(D, 2 * D), nn.LayerNorm(2 * D), dense(2 * D, D)

    def inner(self, x):
        return self.norm(F.silu(self.up(x)) * self.side(x))

    def branch(self, x):
        return self.down(self.inner(x))

    def forward(self, x):
        return x + self.branch(x)


class SubNormBypassed(SubNormOnly):
    """The norm covers one of the two factors."""

    def inner(self, x):
        return self.norm(F.silu(self.up(x))) * self.side(x)


# ---- statistics given back
class DeviationGivenBack(nn.Module):
    """Reversible instance norm: what the norm divided by is multiplied back."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(dense(D, 2 * D), nn.GELU(), dense(2 * D, D))

    def back(self, y, std, mean):
        return y * std

    def branch(self, x):
        var, mean = torch.var_mean(x, dim=-1, keepdim=True, unbiased=False)
        std = (var + 1e-5).sqrt()
        return self.back(self.body((x - mean) / std), std, mean)

    def forward(self, x):
        return x + self.branch(x)


class MeanGivenBack(DeviationGivenBack):
    """Only the mean is given back."""

    def back(self, y, std, mean):
        return y + mean


# ---- random features
class FourierFixed(nn.Module):
    """Trained frequencies and phases, a fixed read-out."""

    def __init__(self):
        super().__init__()
        self.freq = dense(D, 2 * D)
        self.register_buffer("out", torch.randn(2 * D, D) / 8)

    def branch(self, x):
        return torch.cos(self.freq(x)) @ self.out

    def forward(self, x):
        return x + self.branch(x)


class FourierTrained(FourierFixed):
    """The read-out is trained."""

    def __init__(self):
        super().__init__()
        self.out = nn.Parameter(self._buffers.pop("out"))


# ---- tied weights
class TiedUnitRows(nn.Module):
    """One matrix with unit rows, used there and back."""

    def __init__(self):
        super().__init__()
        self.norm, self.weight = nn.RMSNorm(D), nn.Parameter(torch.randn(2 * D, D) / 6)

    def pair(self):
        w = F.normalize(self.weight, dim=-1)
        return w, w

    def branch(self, x):
        there, back = self.pair()
        return F.gelu(self.norm(x) @ there.mT) @ back

    def forward(self, x):
        return x + self.branch(x)


class TiedUnitOnce(TiedUnitRows):
    """The unit rows are used on the way there; back it is the parameter."""

    def pair(self):
        return F.normalize(self.weight, dim=-1), self.weight


# ---- a table
class UnitTable(nn.Module):
    """What is added is a row of a table, chosen by the largest product; rows are scaled to length two."""

    def __init__(self):
        super().__init__()
        self.query, self.table = nn.Linear(D, D), nn.Embedding(64, D)

    def row(self, i):
        return 2 * F.normalize(self.table(i), dim=-1)

    def branch(self, x):
        return self.row((self.query(x) @ self.table.weight.T).argmax(-1))

    def forward(self, x):
        return x + self.branch(x)


class PlainTable(UnitTable):
    def row(self, i):
        return F.embedding(i, self.table.weight)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_YES = dict(_PRE, growth_all="linear", output_bounded={"0": True}, softmax=False)
_NO = dict(_PRE, output_bounded={"0": False}, softmax=False)
_WILD = dict(_NO, growth_fixed="exponential")

TRUTH = {
    "OrthogonalMaps": dict(_YES, gradient_law="power", why="orthogonal maps keep the length of the normed input, the ReLU shrinks it: |F| <= sqrt(D) given the gains.", tempts="two trained maps behind a norm"),
    "OrthogonalMapsBias": dict(_NO, gradient_law="power", why="the last bias is free.", tempts="orthogonal weights"),
    "SineTail": dict(_YES, gradient_law="exponential", why="entries from -1/4 to 2. The slopes do not fall as the stream grows, so that gradients grow exponentially.", tempts="no norm; squares"),
    "SnakeTail": dict(_WILD, why="y + sin^2 y is y up to one: degree one without a norm.", tempts="periodic activation"),
    "SiluAgainstSilu": dict(_YES, why="-y^2 s(y)(1 - s(y)), which decays as y^2 exp(-|y|).", tempts="a product of two unbounded factors"),
    "SiluTimesSilu": dict(_NO, why="grows as y^2 to the right; the norm in front keeps it fixed at fixed weights.", tempts="as its twin"),
    "RationalLevel": dict(_YES, why="|.| < 1.", tempts="degree two over something"),
    "RationalSlope": dict(_WILD, why="y up to 1/2: degree one, no norm.", tempts="a rational function as its twin"),
    "LogProbabilities": dict(_WILD, why="log p = y - lse(y) has the spread of y: degree one.", tempts="softmax: bounded; or at most zero"),
    "SignedRoot": dict(kind="block", identity_gain=1.0, growth_fixed="polynomial", output_bounded={"0": False}, softmax=False,
        why="s' = s + c sqrt s gives s ~ (c n / 2)^2 for aligned weights (for example all the identity).", tempts="no norm: exponential; or sub-linear: linear"),
    "CumsumOfNormed": dict(_YES, why="at most 16 vectors of rms 1.", tempts="a running sum is unbounded"),
    "CumsumThenMap": dict(_NO, why="a free map behind the norm.", tempts="normed"),
    "SigmoidDecay": dict(_YES, gradient_law="power", why="a convex mean of normed vectors and zero.", tempts="a recurrence"),
    "FreeDecay": dict(_NO, gradient_law="power", why="a parameter outside of (0, 1) gives powers up to a^16.", tempts="it starts in (0, 1)"),
    "LstmBranch": dict(_YES, why="o tanh(c) lies in (-1, 1).", tempts="no norm, recurrence: exponential"),
    "ProjectedLstm": dict(_NO, why="the state is a free map of o tanh(c), bounded at fixed weights.", tempts="LSTM: below one"),
    "GruBranch": dict(_YES, why="h is a convex mean of tanh's and of zero.", tempts="no norm"),
    "ReluRnn": dict(_WILD, why="degree one in the stream.", tempts="an RNN's tanh"),
    "LeakyAfterNorm": dict(_YES, why="a LeakyReLU of 0.2 shrinks a normed vector.", tempts="-"),
    "PReluAfterNorm": dict(_NO, why="the slope is a free weight behind the norm.", tempts="an activation behind a norm"),
    "SqueezeGate": dict(_YES, why="a gate in [0, 1] on a normed vector.", tempts="trained maps behind the norm"),
    "SqueezeRelu": dict(_NO, why="the gate is unbounded over weights; it reads normed values.", tempts="squeeze and excite: at most one"),
    "InstanceNormTail": dict(_YES, gradient_law="power", why="each channel has mean 0 and variance 1 over 16 tokens: entries at most 4.", tempts="the wrong axis"),
    "ClipToConstant": dict(_YES, why="entries at most 3.", tempts="a clamp by tensors"),
    "ClipToStream": dict(_WILD, why="bounded by the size of the stream only; degree one.", tempts="a clamp"),
    "ForwardClip": dict(_YES, gradient_law="exponential", why="entries at most 2, whatever the backward pass says. The backward pass is that of x + mlp(x) without a norm: exponential, while the stream grows linearly.", tempts="custom function: unknown"),
    "BackwardClip": dict(_WILD, gradient_law="exponential", why="the forward pass is the identity: degree one, no norm. Each block adds at most a bounded amount to the backward signal while the activations of the last block grow exponentially: first over last falls exponentially.", tempts="a clamp is in the graph of its gradient"),
    "FastWeightsNormed": dict(_NO, why="products of bounded things at fixed weights, then a free map.", tempts="degree two"),
    "FastWeightsRaw": dict(_WILD, why="a map in (-1, 1) made of normed data, applied to the raw stream: degree one.", tempts="a norm stands in front"),
    "SubNormOnly": dict(_NO, gradient_law="power", why="what the last map reads is normed: bounded at fixed weights.", tempts="no norm in front: exponential"),
    "SubNormBypassed": dict(_WILD, why="a normed factor times a raw one: degree one.", tempts="as its twin"),
    "DeviationGivenBack": dict(_WILD, why="F(N(x)) std(x): degree one.", tempts="pre-norm"),
    "MeanGivenBack": dict(kind="block", identity_gain=2.0 ** 24, growth_fixed="exponential", output_bounded={"0": False}, softmax=False,
        gradient_law="exponential", why="the branch adds the mean over channels as it is: I + 11^T/d has the eigenvalue 2.", tempts="pre-norm; gain 1"),
    "FourierFixed": dict(_YES, gradient_law="exponential", why="64 cosines through a fixed matrix. The cosine's slope does not fall as the stream grows: the Jacobian I + J keeps its size and gradients grow exponentially although the stream does not.", tempts="no norm; a trained matrix"),
    "FourierTrained": dict(_NO, gradient_law="exponential", why="cosines through a free matrix: bounded at fixed weights. Gradients as its twin's: exponential.", tempts="as its twin; or exponential"),
    "TiedUnitRows": dict(_YES, gradient_law="power", why="64 products of at most sqrt(D) with unit rows.", tempts="a trained map behind the norm"),
    "TiedUnitOnce": dict(_NO, gradient_law="power", why="the way back uses the parameter itself.", tempts="as its twin"),
    "UnitTable": dict(_YES, gradient_law="flat", why="rows of length two; the choice does not matter. No gradient passes the argmax, so every Jacobian is I: level gradients.", tempts="a lookup in a free table"),
    "PlainTable": dict(_NO, gradient_law="flat", why="rows of a free table; bounded at fixed weights. No gradient passes the argmax: level.", tempts="finitely many values: bounded; no norm: exponential"),
}
for _name in ("LogProbabilities", "GruBranch", "SigmoidDecay"):      # a matter of words: log_softmax as activation, gates a and 1 - a
    del TRUTH[_name]["softmax"]
