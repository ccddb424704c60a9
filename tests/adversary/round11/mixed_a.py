"""Attention, gates, recurrences and experts of the last years, each beside a slip; bounded outputs and logits."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E = 32, 16, 4, 8


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(n_in, n_out, bias=False):
    layer = nn.Linear(n_in, n_out, bias=bias)
    nn.init.normal_(layer.weight, std=n_in ** -0.5)
    return layer


def rms(t, dim=-1):
    return t * torch.rsqrt(t.pow(2).mean(dim, keepdim=True) + 1e-6)


class Att(nn.Module):
    """x + o(p v): what a subclass changes is a method."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.wq, self.wk, self.wv, self.wo = (dense(D, D) for _ in range(4))

    def heads(self, t):
        return t.unflatten(-1, (H, E)).transpose(1, 2)

    def qk(self, h):
        return self.heads(self.wq(h)), self.heads(self.wk(h))

    def values(self, h):
        return self.heads(self.wv(h))

    def scores(self, h):
        q, k = self.qk(h)
        return q @ k.transpose(-1, -2) / math.sqrt(E)

    def probs(self, h):
        return self.scores(h).softmax(-1)

    def mix(self, h):
        return self.probs(h) @ self.values(h)

    def out(self, y, h):
        return self.wo(y.transpose(1, 2).flatten(2))

    def branch(self, x):
        h = self.norm(x)
        return self.out(self.mix(h), h)

    def forward(self, x):
        return x + self.branch(x)


class Tail(Att):
    """Normed values and no map behind them: the output is as large as the weights of the values."""

    def values(self, h):
        return rms(super().values(h))

    def out(self, y, h):
        return y.transpose(1, 2).flatten(2)


class Unit(Att):
    """Queries and keys are normed a head."""

    def qk(self, h):
        q, k = super().qk(h)
        return rms(q), rms(k)


# ---- what takes the softmax's place
class SigmoidAttention(Att):
    """Sigmoids with a bias of -ln n."""

    def probs(self, h):
        return torch.sigmoid(self.scores(h) - math.log(T))


class SigmoidTail(Tail):
    """The same, of normed values."""

    def probs(self, h):
        return torch.sigmoid(self.scores(h) - math.log(T))


class SoftplusTail(Tail):
    """Softplus instead: no upper end."""

    def probs(self, h):
        return F.softplus(self.scores(h)) / T


class Softpick(Tail):
    """relu(e^s - 1) over the sum of |e^s - 1|, shifted by the largest score."""

    def over(self, t):
        return t.abs().sum(-1, keepdim=True)

    def probs(self, h):
        s = self.scores(h)
        m = s.amax(-1, keepdim=True).detach()
        e = torch.exp(s - m) - torch.exp(-m)
        return F.relu(e) / (self.over(e) + 1e-6)


class SoftpickSigned(Softpick):
    """The absolute value below is forgotten: positive and negative cancel."""

    def over(self, t):
        return t.sum(-1, keepdim=True)


class ReluShares(Tail):
    """ReLU scores over one plus their sum."""

    def probs(self, h):
        r = F.relu(self.scores(h))
        return r / (1.0 + r.sum(-1, keepdim=True))


class ReluMean(Tail):
    """ReLU scores over the number of tokens."""

    def probs(self, h):
        return F.relu(self.scores(h)).div(T)


# ---- differential attention
class Differential(Tail):
    """Two softmaxes, one taken from the other at a trained rate a b + 0.8, and a norm a head."""

    def __init__(self):
        super().__init__()
        self.wq2, self.wk2 = dense(D, D), dense(D, D)
        self.a, self.b = nn.Parameter(0.1 * torch.randn(E)), nn.Parameter(0.1 * torch.randn(E))

    def rate(self, h):
        return torch.dot(self.a, self.b) + 0.8

    def end(self, y):
        return 0.2 * rms(y)

    def mix(self, h):
        q, k = self.heads(self.wq2(h)), self.heads(self.wk2(h))
        other = F.softmax(q @ k.mT * E ** -0.5, -1)
        return self.end((super().probs(h) - self.rate(h) * other) @ self.values(h))


class DifferentialNoNorm(Differential):
    """Without the norm: the rate is free."""

    def end(self, y):
        return 0.2 * y


class DifferentialGated(DifferentialNoNorm):
    """A rate of a sigmoid of each token, no norm (the second version)."""

    def rate(self, h):
        return torch.sigmoid(self.wo(h)[..., :H]).transpose(1, 2).unsqueeze(-1)


# ---- gates
class GatedHeads(Unit):
    """A sigmoid gate of each head's output, then the map."""

    def __init__(self):
        super().__init__()
        self.wg = dense(D, D)

    def out(self, y, h):
        return super().out(y * self.heads(self.wg(h)).sigmoid(), h)


class NormBeforeMap(Att):
    """QK-norm is put before the maps."""

    def qk(self, h):
        return super().qk(rms(h))


class OneSided(Att):
    """Only queries are normed."""

    def qk(self, h):
        q, k = super().qk(h)
        return rms(q), k


class AcrossTokens(Att):
    """Normed along the tokens: no entry above the root of 16."""

    def qk(self, h):
        q, k = super().qk(h)
        return rms(q, -2), rms(k, -2)


class FullWidth(Att):
    """Normed before the heads are split."""

    def qk(self, h):
        return self.heads(rms(self.wq(h))), self.heads(rms(self.wk(h)))


class NormThenRemap(Unit):
    """A map per head behind the norm (a low-rank adapter put in later)."""

    def __init__(self):
        super().__init__()
        self.adapt = nn.Parameter(torch.randn(H, E, E) * E ** -0.5)

    def qk(self, h):
        q, k = super().qk(h)
        return torch.einsum("bhte,hef->bhtf", q, self.adapt), k


# ---- latents
class Latent(Att):
    """Keys of a normed latent and a shared rotary part, both normed behind their maps."""

    def __init__(self):
        super().__init__()
        self.down, self.up, self.rope = dense(D, 12), dense(12, D), dense(D, 4)
        self.qr = dense(D, H * 4)

    def tail(self, t):
        return rms(t)

    def qk(self, h):
        c = rms(self.down(h))
        k = rms(self.heads(self.up(c)))
        kr = self.tail(self.rope(h)).unsqueeze(1).expand(-1, H, -1, -1)
        qr = self.tail(self.qr(h).unflatten(-1, (H, 4)).transpose(1, 2))
        return torch.cat([rms(self.heads(self.wq(h))), qr], -1), torch.cat([k, kr], -1)


class LatentRawRope(Latent):
    """The rotary parts are not normed."""

    def tail(self, t):
        return t


class LatentNormBetween(Att):
    """Only the latent is normed, as published."""

    def __init__(self):
        super().__init__()
        self.down, self.up = dense(D, 12), dense(12, D)

    def qk(self, h):
        return self.heads(self.wq(h)), self.heads(self.up(rms(self.down(h))))


# ---- scores of other kinds
class CosineCall(Att):
    """F.cosine_similarity, times ten."""

    def scores(self, h):
        q, k = self.qk(h)
        return 10.0 * F.cosine_similarity(q.unsqueeze(3), k.unsqueeze(2), dim=-1)


class MinusDistance(Att):
    """Minus the squared distance."""

    def scores(self, h):
        q, k = self.qk(h)
        return -torch.cdist(q, k).square()


class MinusDistanceUnit(Unit):
    """... of normed ones."""

    def scores(self, h):
        q, k = self.qk(h)
        return -(q.unsqueeze(-2) - k.unsqueeze(-3)).square().sum(-1) / math.sqrt(E)


class SinkLogit(Unit):
    """A trained logit a head beside the scores; its column is dropped (gpt-oss)."""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(H))

    def column(self, s):
        return self.sink.view(1, H, 1, 1).expand(s.shape[0], -1, T, 1)

    def probs(self, h):
        s = self.scores(h)
        return torch.cat([s, self.column(s)], dim=-1).softmax(dim=-1)[..., :-1]


class SinkZero(SinkLogit):
    """The sink is a zero: softmax off by one."""

    def column(self, s):
        return s.new_zeros(*s.shape[:-1], 1)


class CapBehindMask(Att):
    """A cap on masked scores: the mask is capped too, and the scores are bounded all the same."""

    def cap(self, s, mask):
        return 15.0 * torch.tanh(s.masked_fill(mask, -1e4) / 15.0)

    def scores(self, h):
        mask = torch.ones(T, T, dtype=torch.bool, device=h.device).triu(1)
        return self.cap(super().scores(h), mask)


class CapWithoutDivide(CapBehindMask):
    """tanh(s) * s: the cap's number became the scores."""

    def cap(self, s, mask):
        return (s * torch.tanh(s / 15.0)).masked_fill(mask, 0.0)


class TanhHalves(Att):
    """tanh of queries and of keys."""

    def qk(self, h):
        q, k = super().qk(h)
        return q.tanh(), k.tanh()


class TanhOfQueries(Att):
    """Of queries alone."""

    def qk(self, h):
        q, k = super().qk(h)
        return q.tanh(), k


class Forgetting(Unit):
    """Sums of log gates between two tokens are added: no lower end."""

    def gate(self, h):
        return F.logsigmoid(self.wo(h)[..., :H])

    def scores(self, h):
        total = self.gate(h).cumsum(1).transpose(1, 2)
        bias = total.unsqueeze(-1) - total.unsqueeze(-2)
        return super().scores(h) + bias.tril()


class ForgettingFloor(Forgetting):
    """No gate below one half."""

    def gate(self, h):
        return self.wo(h)[..., :H].sigmoid().clamp(min=0.5).log()


class AlibiFixed(Unit):
    """Slopes of a buffer."""

    def __init__(self):
        super().__init__()
        gap = torch.arange(T)[None] - torch.arange(T)[:, None]
        self.register_buffer("bias", -gap.abs() * (2.0 ** -torch.arange(1, H + 1)).view(H, 1, 1))

    def scores(self, h):
        return super().scores(h) + self.bias.to(h.dtype)


class AlibiTrained(AlibiFixed):
    """Slopes are trained."""

    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(torch.ones(H))

    def scores(self, h):
        return Unit.scores(self, h) + self.bias.to(h.dtype) * self.slopes.view(H, 1, 1)


class Channels(Att):
    """Attention over channels (cross-covariance): queries and keys are unit along the tokens."""

    axis = -2

    def branch(self, x):
        h = self.norm(x)
        q, k = (F.normalize(t, dim=self.axis) for t in self.qk(h))
        p = (q.transpose(-2, -1) @ k).mul(4.0).softmax(dim=-1)
        return self.wo((self.values(h) @ p.mT).transpose(1, 2).reshape(x.shape))


class ChannelsRaw(Channels):
    """The values are made unit instead of the keys."""

    def branch(self, x):
        h = self.norm(x)
        q, k = self.qk(h)
        v = F.normalize(self.values(h), dim=-2)
        p = (F.normalize(q, dim=-2).transpose(-2, -1) @ k).softmax(dim=-1)
        return self.wo((v @ p.mT).transpose(1, 2).reshape(x.shape))


# ---- linear attention, retention, recurrences
class SoftmaxFeatures(Tail):
    """softmax of queries over channels, of keys over tokens; no n x n (efficient attention)."""

    def mix(self, h):
        q, k = self.qk(h)
        state = k.softmax(-2).mT @ self.values(h)
        return q.softmax(-1) @ state


class SoftmaxFeaturesSlip(SoftmaxFeatures):
    """The keys' softmax is on the channels, the queries have none."""

    def mix(self, h):
        q, k = self.qk(h)
        return q @ (k.softmax(-1).mT @ self.values(h))


class Retention(Tail):
    """Powers of a decay instead of the softmax, a group norm over all heads, a sigmoid gate."""

    def __init__(self):
        super().__init__()
        gap = torch.arange(T)[:, None] - torch.arange(T)[None]
        gamma = (1 - 2.0 ** (-3 - torch.arange(H))).view(H, 1, 1)
        self.register_buffer("decay", torch.where(gap >= 0, gamma ** gap.clamp(min=0), 0.0))

    def gate(self, h):
        return torch.sigmoid(self.wo(h))

    def probs(self, h):
        return self.scores(h) * self.decay.to(h.dtype)

    def out(self, y, h):
        y = y.transpose(1, 2).flatten(2)
        return F.group_norm(y.flatten(0, 1), H).view_as(y) * self.gate(h)


class RetentionSwish(Retention):
    """A SiLU gate."""

    def gate(self, h):
        return F.silu(self.wo(h))


class Wkv(nn.Module):
    """Shifted tokens, a running weighted mean by two sums, a sigmoid receptance."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.r, self.k, self.v = (dense(D, D) for _ in range(3))
        self.mu, self.w, self.u = nn.Parameter(torch.full((D,), 0.5)), nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(D))

    def weight(self, h):
        return torch.exp(self.k(h).clamp(-30.0, 30.0))

    def over(self, top, below):
        return top / below

    def branch(self, x):
        h = self.norm(x)
        last = F.pad(h, (0, 0, 1, 0))[:, :-1]
        h = h * self.mu + last * (1 - self.mu)
        k, v, decay = self.weight(h), rms(self.v(h)), torch.exp(-torch.exp(self.w))
        top = below = torch.zeros_like(k[:, 0])
        out = []
        for t in range(x.shape[1]):
            top, below = decay * top + k[:, t] * v[:, t], decay * below + k[:, t]
            out.append(self.over(top, below))
        return torch.sigmoid(self.r(h)) * torch.stack(out, 1)

    def forward(self, x):
        return x + self.branch(x)


class WkvNoDivide(Wkv):
    """Softplus weights, and the sum below is not used."""

    def weight(self, h):
        return F.softplus(self.k(h))

    def over(self, top, below):
        return top


class DeltaRule(Tail):
    """S <- S - beta (S k - v) k', unit keys, beta a sigmoid: sixteen steps of a loop."""

    def rate(self, h):
        return torch.sigmoid(self.wo(h)[..., :H]).transpose(1, 2)

    def keys(self, h):
        q, k = self.qk(h)
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)

    def mix(self, h):
        (q, k), v, beta = self.keys(h), self.values(h), self.rate(h)
        state, out = h.new_zeros(h.shape[0], H, E, E), []
        for t in range(T):
            kt = k[:, :, t]
            error = v[:, :, t] - torch.einsum("bhvk,bhk->bhv", state, kt)
            state = state + torch.einsum("bh,bhv,bhk->bhvk", beta[:, :, t], error, kt)
            out.append(torch.einsum("bhvk,bhk->bhv", state, q[:, :, t]))
        return torch.stack(out, 2)


class DeltaRuleRawKeys(DeltaRule):
    """Keys are not unit."""

    def keys(self, h):
        return self.qk(h)


# ---- experts
class SoftMoe(nn.Module):
    """Slots are means of tokens, tokens are means of slots; experts end in a norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.phi, self.w = nn.Parameter(torch.randn(D, 4) * D ** -0.5), nn.Parameter(torch.randn(4, D, D) * D ** -0.5)

    def combine(self, logits):
        return logits.softmax(2)

    def branch(self, x):
        h = self.norm(x)
        logits = h @ self.phi
        slots = logits.softmax(1).mT @ h
        y = rms(torch.einsum("bsd,sde->bse", slots, self.w))
        return self.combine(logits) @ y

    def forward(self, x):
        return x + self.branch(x)


class SoftMoeRawCombine(SoftMoe):
    """The logits themselves put the slots back."""

    def combine(self, logits):
        return logits


class SigmoidRouter(nn.Module):
    """Sigmoid scores, the best two made to sum to one, times 2.5; normed experts (DeepSeek-V3's router)."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.RMSNorm(D), dense(D, 4)
        self.experts = nn.ModuleList(nn.Sequential(dense(D, D), nn.SiLU(), dense(D, D), nn.RMSNorm(D, elementwise_affine=False)) for _ in range(4))
        self.register_buffer("bias", torch.zeros(4))

    def score(self, h):
        return self.router(h).sigmoid()

    def branch(self, x):
        h = self.norm(x)
        s = self.score(h)
        index = (s + self.bias).topk(2, -1).indices
        w = s.gather(-1, index)
        w = 2.5 * w / (w.sum(-1, keepdim=True) + 1e-20)
        share = torch.zeros_like(s).scatter_(-1, index, w)
        return sum(share[..., i:i + 1] * e(h) for i, e in enumerate(self.experts))

    def forward(self, x):
        return x + self.branch(x)


class RouterTanh(SigmoidRouter):
    """tanh scores: the two may cancel below."""

    def score(self, h):
        return self.router(h).tanh()


# ---- ends of branches
class End(nn.Module):
    """x + end(f(norm(x)))."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(D), nn.Sequential(dense(D, 2 * D, True), nn.GELU(), dense(2 * D, D, True))

    def end(self, y):
        return y

    def branch(self, x):
        return self.end(self.f(self.norm(x)))

    def forward(self, x):
        return x + self.branch(x)


class SumBelow(End):
    """y over one plus the absolute sum."""

    def end(self, y):
        return y / (1 + y.abs().sum(-1, keepdim=True))


class SumBelowSigned(End):
    """Over one plus the absolute value of the sum."""

    def end(self, y):
        return y / (1 + y.sum(-1, keepdim=True).abs())


class OverBatch(End):
    """F.normalize over the batch."""

    def end(self, y):
        return F.normalize(y, dim=0)


class CenteredOverStd(End):
    """Standardised by hand, Bessel's correction and all."""

    def end(self, y):
        y = y - y.mean(-1, keepdim=True)
        return y / (y.std(-1, keepdim=True) + 1e-5)


class StdOfInput(End):
    """The std of another tensor is below."""

    def branch(self, x):
        h = self.norm(x)
        y = self.f(h)
        return (y - y.mean(-1, keepdim=True)) / (h.std(-1, keepdim=True) + 1e-5)


class PercentileClip(End):
    """Clipped at the largest of the first eight channels."""

    def end(self, y):
        top = y[..., :8].abs().amax(-1, keepdim=True)
        return torch.minimum(torch.maximum(y, -top), top)


class ErfEnd(End):
    """erf behind, with a gain."""

    def __init__(self):
        super().__init__()
        self.gain_a, self.gain_b = nn.Parameter(torch.full((1,), 0.5)), nn.Parameter(torch.ones(D))

    def end(self, y):
        return self.gain_b * torch.erf(self.gain_a * y)


class ErfThenMap(ErfEnd):
    """erf, then a map."""

    def __init__(self):
        super().__init__()
        self.last = dense(D, D)

    def end(self, y):
        return self.last(super().end(y))


class SquareOverSum(End):
    """y squared over the sum of squares, with the signs of y."""

    def end(self, y):
        return y.sign() * y.square() / (y.square().sum(-1, keepdim=True) + 1e-6)


class CubeOverSum(End):
    """A cube over the sum of squares."""

    def end(self, y):
        return y.pow(3) / (y.square().sum(-1, keepdim=True) + 1e-6)


class SphereRotate(End):
    """Sine and cosine of what was made."""

    def end(self, y):
        a, b = y.chunk(2, -1)
        return torch.cat([a.sin() * b.cos(), a.cos()], -1)


class NormOfMagnitude(End):
    """A direction times the root of the length."""

    def end(self, y):
        r = y.norm(dim=-1, keepdim=True)
        return y / (r + 1e-6) * torch.sqrt(r)


class Standardised(nn.Module):
    """Both maps are standardised in forward; no norm on activations but the first one's."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(D)
        self.w1, self.w2 = nn.Parameter(torch.randn(2 * D, D)), nn.Parameter(torch.randn(D, 2 * D))

    def unit(self, w):
        return F.normalize(w, dim=1)

    def branch(self, x):
        return F.linear(F.relu(F.linear(self.norm(x), self.unit(self.w1))), self.unit(self.w2))

    def forward(self, x):
        return x + self.branch(x)


class StandardisedByMean(Standardised):
    """Rows lose their mean, and no more."""

    def unit(self, w):
        return (w - w.mean(1, keepdim=True)) / math.sqrt(w.shape[1])


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_NO, _YES = (dict(_LIN, output_bounded={0: False}, softmax=True, logits_bounded={0: v}) for v in (False, True))
_FREE = dict(_LIN, output_bounded={0: False}, softmax=False)
_OUT = dict(_LIN, growth_all="linear", output_bounded={0: True}, softmax=False)
_TAIL = dict(_OUT, softmax=True, logits_bounded={0: False})
_HAND = {k: v for k, v in _OUT.items() if k != "softmax"}
TRUTH = {
    "SigmoidAttention": dict(_FREE, why="a map ends it.", tempts="a softmax"),
    "SigmoidTail": dict(_OUT, why="sixteen shares below one.", tempts="scores without an end"),
    "SoftplusTail": dict(_FREE, why="no upper end.", tempts="its twin"),
    "Softpick": dict(_HAND, why="shares of absolute sum one.", tempts="exponentials"),
    "SoftpickSigned": dict(_LIN, growth_fixed=None, output_bounded={0: False}, why="the sum below may be 0.", tempts="its twin"),
    "ReluShares": dict(_OUT, why="shares below one.", tempts="ReLU scores"),
    "ReluMean": dict(_FREE, why="no upper end.", tempts="a mean"),
    "Differential": dict(_LIN, growth_all="linear", output_bounded={0: True}, softmax=True, logits_bounded={0: False, 1: False},
        why="a norm ends it.", tempts="a free rate"),
    "DifferentialNoNorm": dict(_LIN, output_bounded={0: False}, softmax=True, why="the rate is free.", tempts="normed values, shares"),
    "DifferentialGated": dict(_LIN, growth_all="linear", output_bounded={0: True}, softmax=True, why="1 + 1.", tempts="differences"),
    "GatedHeads": dict(_YES, why="QK-norm.", tempts="a gate"),
    "NormBeforeMap": dict(_NO, why="maps behind the norm.", tempts="QK-norm"),
    "OneSided": dict(_NO, why="raw keys.", tempts="QK-norm"),
    "AcrossTokens": dict(_YES, why="entries below 4.", tempts="another axis"),
    "FullWidth": dict(_YES, why="all heads have 32 together.", tempts="heads"),
    "NormThenRemap": dict(_NO, why="a map behind the norm.", tempts="QK-norm"),
    "Latent": dict(_YES, why="all parts are normed.", tempts="a latent"),
    "LatentRawRope": dict(_NO, why="the rotary part is raw.", tempts="QK-norm"),
    "LatentNormBetween": dict(_NO, why="a map behind the norm.", tempts="QK-norm"),
    "CosineCall": dict(_YES, why="10.", tempts="a call"),
    "MinusDistance": dict(_NO, why="raw.", tempts="a distance"),
    "MinusDistanceUnit": dict(_YES, why="distances on a sphere.", tempts="a broadcast difference"),
    "SinkLogit": dict(_NO, why="the sink is a free logit.", tempts="QK-norm"),
    "SinkZero": dict(_YES, why="0.", tempts="a column"),
    "CapBehindMask": dict(_YES, why="15.", tempts="-1e4"),
    "CapWithoutDivide": dict(_NO, why="s times tanh.", tempts="a cap"),
    "TanhHalves": dict(_YES, why="eight products below one.", tempts="no norm"),
    "TanhOfQueries": dict(_NO, why="raw keys.", tempts="its twin"),
    "Forgetting": dict(_NO, why="log gates have no lower end.", tempts="QK-norm"),
    "ForgettingFloor": dict(_YES, why="15 ln 2 at most.", tempts="a log"),
    "AlibiFixed": dict(_YES, why="constants.", tempts="-"),
    "AlibiTrained": dict(_NO, why="free slopes.", tempts="QK-norm"),
    "Channels": dict(_YES, why="unit columns.", tempts="channels"),
    "ChannelsRaw": dict(_NO, why="raw keys.", tempts="unit values"),
    "SoftmaxFeatures": dict(_LIN, growth_all="linear", output_bounded={0: True}, softmax=True, logits_bounded={0: False, 1: False},
        why="shares of shares.", tempts="two softmaxes"),
    "SoftmaxFeaturesSlip": dict(_LIN, output_bounded={0: False}, softmax=True, why="raw queries.", tempts="its twin"),
    "Retention": dict(_OUT, why="normed groups, a gate below one.", tempts="no softmax"),
    "RetentionSwish": dict(_FREE, why="a SiLU has no upper end.", tempts="its twin"),
    "Wkv": dict(_HAND, why="a weighted mean of normed values.", tempts="exponentials"),
    "WkvNoDivide": dict(_FREE, why="the weights have no upper end.", tempts="its twin"),
    "DeltaRule": dict(_OUT, why="each step adds less than a value.", tempts="a loop"),
    "DeltaRuleRawKeys": dict(_FREE, growth_fixed=None, why="keys of any length.", tempts="its twin"),
    "SoftMoe": dict(_LIN, growth_all="linear", output_bounded={0: True}, softmax=True, why="means of normed slots.", tempts="-"),
    "SoftMoeRawCombine": dict(_LIN, output_bounded={0: False}, softmax=True, why="raw logits.", tempts="its twin"),
    "SigmoidRouter": dict(_OUT, why="2.5.", tempts="a divisor"),
    "RouterTanh": dict(_FREE, growth_fixed=None, why="the divisor may be 0.", tempts="its twin"),
    "SumBelow": dict(_OUT, why="below one.", tempts="no norm"),
    "SumBelowSigned": dict(_FREE, why="the sum may be 0.", tempts="its twin"),
    "OverBatch": dict(_OUT, why="unit over two examples.", tempts="another axis"),
    "CenteredOverStd": dict(_OUT, why="standardised.", tempts="-"),
    "StdOfInput": dict(_FREE, why="another tensor's.", tempts="a norm"),
    "PercentileClip": dict(_FREE, why="the ends are free.", tempts="a clip"),
    "ErfEnd": dict(_LIN, softmax=False, why="erf, times a gain that is no norm's.", tempts="-"),
    "ErfThenMap": dict(_FREE, why="a map behind it.", tempts="erf"),
    "SquareOverSum": dict(_OUT, why="shares.", tempts="squares"),
    "CubeOverSum": dict(_FREE, why="of degree one.", tempts="a divisor"),
    "SphereRotate": dict(_OUT, why="sines.", tempts="-"),
    "NormOfMagnitude": dict(_FREE, why="a root has no end.", tempts="a direction"),
    "Standardised": dict(_OUT, why="unit rows.", tempts="free weights"),
    "StandardisedByMean": dict(_FREE, why="lengths are free.", tempts="its twin"),
}
