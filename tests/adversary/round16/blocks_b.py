"""Blocks with small slips beside those without them: norms that are none, norms at the wrong place, skips that are more or less than one, cancelled terms."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

D, T, H = 32, 16, 4
HD = D // H


def example_inputs():
    return (torch.randn(2, T, D),)


def fc(i, o, bias=False):
    w = nn.Linear(i, o, bias=bias)
    nn.init.normal_(w.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(w.bias)
    return w


class Attention(nn.Module):
    """`prepare` is what is done to queries and keys, `score` what is done to their products."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (fc(D, D) for _ in range(4))

    def prepare(self, q, k):
        return q, k

    def score(self, u):
        return u

    def forward(self, h):
        b, t, _ = h.shape
        q, k = self.prepare(self.q(h).view(b, t, H, HD), self.k(h).view(b, t, H, HD))
        u = self.score(torch.einsum("bihd,bjhd->bhij", q, k) / HD ** 0.5)
        y = torch.einsum("bhij,bjhd->bihd", u.softmax(dim=-1), self.v(h).view(b, t, H, HD))
        return self.o(y.reshape(b, t, D))


def net(inner=64):
    return nn.Sequential(fc(D, inner, True), nn.GELU(), fc(inner, D, True))


class PreAttention(nn.Module):
    """Pre-norm attention alone."""

    attention = Attention

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(D), self.attention()

    def branch(self, x):
        return self.attn(self.norm(x))

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ queries and keys
class UnitOnView(PreAttention):
    """Lengths are divided out in place, in a view of queries and keys."""

    class attention(Attention):
        def prepare(self, q, k):
            for t in (q, k):
                flat = t.view(-1, HD)
                with torch.no_grad():
                    size = flat.norm(dim=-1, keepdim=True)
                flat /= size
            return q, k


class UnitOnCopy(PreAttention):
    """The same behind a transpose, where the reshape is a copy that nobody reads."""

    class attention(Attention):
        def prepare(self, q, k):
            q, k = q.transpose(1, 2), k.transpose(1, 2)
            for t in (q, k):
                flat = t.reshape(-1, HD)
                with torch.no_grad():
                    size = flat.norm(dim=-1, keepdim=True)
                flat /= size
            return q.transpose(1, 2), k.transpose(1, 2)


class NormalizeByDefault(PreAttention):
    """`F.normalize` as it comes: over dimension 1, which are the places; every entry is at most one all the same."""

    class attention(Attention):
        def prepare(self, q, k):
            return F.normalize(q) * HD ** 0.5, F.normalize(k) * HD ** 0.5


class RmsOverHeads(PreAttention):
    """The norm is taken over the heads of a channel."""

    class attention(Attention):
        def __init__(self):
            super().__init__()
            self.q_norm, self.k_norm = nn.RMSNorm(H), nn.RMSNorm(H)

        def prepare(self, q, k):
            return self.q_norm(q.transpose(2, 3)).transpose(2, 3), self.k_norm(k.transpose(2, 3)).transpose(2, 3)


class HalfOfHeadNormed(PreAttention):
    """Only the part that is rotated is normed."""

    class attention(Attention):
        def __init__(self):
            super().__init__()
            self.q_norm, self.k_norm = nn.RMSNorm(HD // 2), nn.RMSNorm(HD // 2)

        def prepare(self, q, k):
            half = lambda norm, t: torch.cat([norm(t[..., : HD // 2]), t[..., HD // 2 :]], dim=-1)
            return half(self.q_norm, q), half(self.k_norm, k)


class RotaryAcrossHeads(PreAttention):
    """Normed by head, then rotated as one long vector: pairs are of different heads, lengths of all heads together stay."""

    class attention(Attention):
        def __init__(self):
            super().__init__()
            self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)
            angle = torch.arange(T)[:, None] * 100.0 ** (-torch.arange(D // 2) / (D // 2))
            self.register_buffer("cos", angle.cos()[None])
            self.register_buffer("sin", angle.sin()[None])

        def turn(self, t):
            a, b = t.flatten(2).chunk(2, dim=-1)
            return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], dim=-1).view_as(t)

        def prepare(self, q, k):
            return self.turn(self.q_norm(q)), self.turn(self.k_norm(k))


class UnitByOneNorm(PreAttention):
    """Sums of sizes are one, times a trained temperature."""

    class attention(Attention):
        def __init__(self):
            super().__init__()
            self.tau = nn.Parameter(torch.tensor(8.0))

        def prepare(self, q, k):
            return F.normalize(q, p=1, dim=-1) * self.tau, F.normalize(k, p=1.0, dim=-1) * self.tau


class UnitBySum(PreAttention):
    """Without the sizes: the sum may be near zero."""

    class attention(Attention):
        def prepare(self, q, k):
            return q / q.sum(dim=-1, keepdim=True).square().add(1e-12).sqrt(), k


class SharedLength(PreAttention):
    """Keys are divided by the queries' length."""

    class attention(Attention):
        def prepare(self, q, k):
            size = q.square().mean(dim=-1, keepdim=True).add(1e-6).rsqrt()
            return q * size, k * size


class ClippedQkv(PreAttention):
    """DBRX: queries and keys are clamped to eight."""

    class attention(Attention):
        def prepare(self, q, k):
            return q.clamp(min=-8.0, max=8.0), k.clamp(min=-8.0, max=8.0)


class StandardizedRows(PreAttention):
    """The logits of a query have mean zero and deviation one."""

    class attention(Attention):
        def score(self, u):
            return (u - u.mean(dim=-1, keepdim=True)) / (u.std(dim=-1, keepdim=True) + 1e-6)


class StandardizedColumns(PreAttention):
    """The mean is the query's, the deviation is the key's."""

    class attention(Attention):
        def score(self, u):
            return (u - u.mean(dim=-1, keepdim=True)) / (u.std(dim=-2, keepdim=True) + 1e-6)


class TrainedPrefix(PreAttention):
    """Two trained keys and values are put in front of the normed ones."""

    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = nn.RMSNorm(HD), nn.RMSNorm(HD)
        self.prefix_k, self.prefix_v = nn.Parameter(torch.randn(2, D) * 0.5), nn.Parameter(torch.randn(2, D) * 0.5)

    def branch(self, x):
        h, a = self.norm(x), self.attn
        split = lambda t: t.unflatten(-1, (H, HD)).transpose(1, 2)
        grow = lambda p: p.expand(h.shape[0], -1, -1)
        k = torch.cat([split(grow(self.prefix_k)), self.k_norm(split(a.k(h)))], dim=2)
        v = torch.cat([split(grow(self.prefix_v)), split(a.v(h))], dim=2)
        y = F.scaled_dot_product_attention(self.q_norm(split(a.q(h))), k, v)
        return a.o(y.transpose(1, 2).flatten(2))


class BiasInTheRms(nn.Module):
    """Zipformer's norm: the root mean square is that of the input less a trained vector."""

    def __init__(self, dim, start=0.0):
        super().__init__()
        self.shift, self.gain_log = nn.Parameter(torch.full((dim,), start)), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        scales = torch.mean((x - self.shift) ** 2, dim=-1, keepdim=True) ** -0.5 * self.gain_log.exp()
        return x * scales


class BiasedQkNorm(PreAttention):
    """Such a norm on queries and keys: an input that is the vector has no length."""

    class attention(Attention):
        def __init__(self):
            super().__init__()
            self.q_norm, self.k_norm = BiasInTheRms(HD, 0.1), BiasInTheRms(HD, 0.1)

        def prepare(self, q, k):
            return self.q_norm(q), self.k_norm(k)


# ------------------------------------------------------------ norms behind branches and in front of them
class NormedNet(nn.Module):
    """A net of the raw stream and `behind`."""

    def __init__(self):
        super().__init__()
        self.net, self.gain = net(), nn.Parameter(torch.ones(D))

    def behind(self, y):
        raise NotImplementedError

    def branch(self, x):
        return self.behind(self.net(x)) * self.gain

    def forward(self, x):
        return x + self.branch(x)


class BehindCompressedRms(NormedNet):
    """The root mean square of the vector and of minus its sum, as of a vector one longer."""

    def behind(self, y):
        size = (y.square().sum(-1, keepdim=True) + y.sum(-1, keepdim=True).square()) / (D + 1)
        return y * torch.rsqrt(size + 1e-6)


class BehindGroupRms(NormedNet):
    """Groups of eight channels, each by its own root mean square."""

    def behind(self, y):
        g = y.unflatten(-1, (4, 8))
        return (g / g.pow(2).mean(dim=-1, keepdim=True).add(1e-6).sqrt()).flatten(-2)


class BehindFourthMoment(NormedNet):
    """Over the fourth root of the mean fourth power."""

    def behind(self, y):
        return y / (y.pow(4).mean(-1, keepdim=True) + 1e-12).pow(0.25)


class BehindMedian(NormedNet):
    """Over the median size: half of the channels may be as large as they like."""

    def behind(self, y):
        return y / (y.abs().median(dim=-1, keepdim=True).values + 1e-6)


class BehindPower(NormedNet):
    """Power norm in training: each channel over its quadratic mean on batch and places."""

    def behind(self, y):
        return y / y.square().mean(dim=(0, 1), keepdim=True).add(1e-5).sqrt()


class BehindRunningPower(NormedNet):
    """Power norm as it is served: the quadratic mean is a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("psi2", torch.ones(1, 1, D))

    def behind(self, y):
        return y / (self.psi2 + 1e-5).sqrt()


class BehindCumulative(NormedNet):
    """cLN of streaming speech: mean and deviation of all that came, this place included."""

    @staticmethod
    def moments(y):
        n = torch.arange(1, y.shape[1] + 1, device=y.device, dtype=y.dtype)[None, :, None] * y.shape[-1]
        mean = y.sum(-1, keepdim=True).cumsum(dim=1) / n
        power = y.pow(2).sum(-1, keepdim=True).cumsum(dim=1) / n
        return mean, power - mean.pow(2)

    def behind(self, y):
        mean, var = self.moments(y)
        return (y - mean) / (var + 1e-8).sqrt()


class BehindCumulativeLagged(BehindCumulative):
    """This place is left out."""

    def behind(self, y):
        mean, var = (F.pad(t, (0, 0, 1, 0))[:, :-1] for t in self.moments(y))
        return (y - mean) / (var + 1e-2).sqrt()


class BehindRecentPower(NormedNet):
    """Over the root of a moving mean of powers, a tenth of which is this place's."""

    def behind(self, y):
        power, out = y[:, 0].square().mean(-1, keepdim=True), []
        for t in range(y.shape[1]):
            power = 0.9 * power + 0.1 * y[:, t].square().mean(-1, keepdim=True)
            out.append(y[:, t] * torch.rsqrt(power + 1e-8))
        return torch.stack(out, dim=1)


class BehindBiased(NormedNet):
    """The norm whose root mean square is that of the input less a trained vector."""

    def __init__(self):
        super().__init__()
        self.norm = BiasInTheRms(D, 0.1)

    def behind(self, y):
        return self.norm(y)


class ScaleNormTwice(NormedNet):
    """One trained number over the length, in front of the net and behind it."""

    def __init__(self):
        super().__init__()
        self.gain_in, self.gain_out = nn.Parameter(torch.tensor(D ** 0.5)), nn.Parameter(torch.tensor(D ** 0.5))

    def branch(self, x):
        return self.gain_out * F.normalize(self.net(self.gain_in * F.normalize(x, dim=-1)), dim=-1)


class NormTimesStream(NormedNet):
    """The net reads the normed stream times the stream."""

    def branch(self, x):
        return self.net[2](F.layer_norm(x, (D,)) * x @ self.net[0].weight[:D].t() @ self.net[0].weight.t())


class OrthogonalizedMaps(nn.Module):
    """Both weights go through five steps of Newton and Schulz before they are used."""

    def __init__(self):
        super().__init__()
        self.norm, self.w1, self.w2 = nn.RMSNorm(D), nn.Parameter(torch.randn(D, D)), nn.Parameter(torch.randn(D, D))

    @staticmethod
    def orthogonal(w, a=3.4445, b=-4.7750, c=2.0315):
        w = w / (w.norm() + 1e-7)
        for _ in range(5):
            g = w @ w.T
            w = a * w + (b * g + c * g @ g) @ w
        return w

    def branch(self, x):
        return F.relu(self.norm(x) @ self.orthogonal(self.w1)) @ self.orthogonal(self.w2)

    def forward(self, x):
        return x + self.branch(x)


class SkipBehindFirstNorm(nn.Module):
    """The attention's skip is taken behind its norm, the net's before it."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Attention(), net()

    def forward(self, x):
        x = self.ln_1(x)
        x = x + self.attn(x)
        x = x + self.mlp(self.ln_2(x))
        return x


class StaleResidual(SkipBehindFirstNorm):
    """The second sum has the block's input: attention reaches the stream through the net alone."""

    def forward(self, x):
        residual = x
        x = self.ln_1(x)
        x = residual + self.attn(x)
        x = self.ln_2(x)
        x = residual + self.mlp(x)
        return x


class GatedResidualNetwork(nn.Module):
    """Temporal fusion: two maps with ELU, a gated linear unit, sum, norm."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.gate, self.norm = fc(D, D, True), fc(D, D, True), fc(D, 2 * D, True), nn.LayerNorm(D)

    def forward(self, x):
        return self.norm(x + F.glu(self.gate(self.fc2(F.elu(self.fc1(x)))), dim=-1))


# ------------------------------------------------------------ sums
class AlphaOnTheSkip(nn.Module):
    """`torch.add(a, b, alpha=0.5)` halves b, and b is the skip."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Attention(), net()

    def forward(self, x):
        x = torch.add(self.attn(self.ln_1(x)), x, alpha=0.5)
        return torch.add(self.mlp(self.ln_2(x)), x, alpha=0.5)


class AlphaOnTheBranch(AlphaOnTheSkip):
    """Here it is the branch."""

    def forward(self, x):
        x = torch.add(x, self.attn(self.ln_1(x)), alpha=0.5)
        return torch.add(x, self.mlp(self.ln_2(x)), alpha=0.5)


def unit(x, eps=1e-4):
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / (eps + size * x.shape[-1] ** -0.5)


def keep_size_sum(a, b, t=0.3):
    return a.lerp(b, t) / math.sqrt((1 - t) ** 2 + t ** 2)


class KeepSizeDecoder(nn.Module):
    """EDM2: unit rows, a SiLU over 0.596, sums that keep the size of terms that know nothing of each other; the raw stream is read."""

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(64, D)), nn.Parameter(torch.randn(D, 64))

    def branch(self, x):
        for w in (self.w1, self.w2):
            x = F.linear(F.silu(x) / 0.596, unit(w) * w.shape[-1] ** -0.5)
        return x

    def forward(self, x):
        return keep_size_sum(x, self.branch(x))


class KeepSizeEncoder(KeepSizeDecoder):
    """The encoder's flavour: what is carried has unit size, too."""

    def forward(self, x):
        x = unit(x)
        return keep_size_sum(x, self.branch(x))


class CanonOnNormed(nn.Module):
    """A short convolution with a skip of its own, behind the norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.canon, self.attn = nn.RMSNorm(D), nn.Conv1d(D, D, 4, groups=D, padding=3), Attention()
        nn.init.normal_(self.canon.weight, std=0.5)

    def short(self, x):
        return x + self.canon(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)

    def forward(self, x):
        return x + self.attn(self.short(self.norm(x)))


class CanonOnStream(CanonOnNormed):
    """In front of it: on the stream."""

    def forward(self, x):
        x = self.short(x)
        return x + self.attn(self.norm(x))


class VocoderResidual(nn.Module):
    """HiFi-GAN: leaky ReLUs and weight-normed convolutions of growing reach, no norm."""

    def __init__(self):
        super().__init__()
        conv = lambda d: weight_norm(nn.Conv1d(D, D, 3, dilation=d, padding=d))
        self.convs1, self.convs2 = nn.ModuleList([conv(1), conv(3)]), nn.ModuleList([conv(1), conv(1)])

    def forward(self, x):
        x = x.transpose(1, 2)
        for c1, c2 in zip(self.convs1, self.convs2):
            xt = F.leaky_relu(x, 0.1)
            xt = c1(xt)
            xt = F.leaky_relu(xt, 0.1)
            xt = c2(xt)
            x = xt + x
        return x.transpose(1, 2)


class VarianceReset(nn.Module):
    """NFNet: standardized weights, the branch halved, the expected deviation always one instead of what has been added."""

    def __init__(self, alpha=0.5, beta=1.0):
        super().__init__()
        self.alpha, self.beta, self.conv1, self.conv2, self.gain = alpha, beta, nn.Conv1d(D, D, 3, padding=1), nn.Conv1d(D, D, 1), nn.Parameter(torch.ones(2, D, 1, 1))

    def standardized(self, conv, i):
        w = conv.weight
        var, mean = torch.var_mean(w, dim=(1, 2), keepdim=True)
        w = (w - mean) * torch.rsqrt(torch.clamp(var * w[0].numel(), min=1e-4)) * self.gain[i]
        return lambda t: F.conv1d(t, w, conv.bias, padding=conv.padding)

    def branch(self, x):
        y = F.relu(x.transpose(1, 2) / self.beta) * 1.7139588594436646
        y = F.relu(self.standardized(self.conv1, 0)(y)) * 1.7139588594436646
        return self.standardized(self.conv2, 1)(y).transpose(1, 2)

    def forward(self, x):
        return x + self.alpha * self.branch(x)


class GalerkinRaw(nn.Module):
    """Keys and values are normed, queries are not, and nothing in front is."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.k_norm, self.v_norm, self.ff = fc(D, D), fc(D, D), fc(D, D), fc(D, D), nn.LayerNorm(HD), nn.LayerNorm(HD), net()

    def attn(self, x):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (self.q(x), self.k(x), self.v(x)))
        y = q @ (self.k_norm(k).transpose(-2, -1) @ self.v_norm(v)) / x.shape[1]
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.ff(x)


class SpectralOperator(nn.Module):
    """F-FNO: the lowest frequencies by complex maps, a net behind, skip; no norm."""

    def __init__(self, modes=5):
        super().__init__()
        self.modes, self.weight, self.net = modes, nn.Parameter(torch.randn(modes, D, D, 2) * (2 * D) ** -0.5), net()

    def branch(self, x):
        f = torch.fft.rfft(x, dim=1, norm="ortho")
        low = torch.einsum("bmi,mio->bmo", f[:, : self.modes], torch.view_as_complex(self.weight))
        low = torch.cat([low, torch.zeros_like(f[:, self.modes :])], dim=1)
        return self.net(torch.fft.irfft(low, n=x.shape[1], dim=1, norm="ortho"))

    def forward(self, x):
        return x + self.branch(x)


class ScalarsAndVectors(nn.Module):
    """PaiNN's update: eight scalars, eight vectors of three; products of vectors go to scalars."""

    def __init__(self):
        super().__init__()
        self.u, self.v, self.a = fc(8, 8), fc(8, 8), nn.Sequential(fc(16, 8, True), nn.SiLU(), fc(8, 24, True))

    def forward(self, x):
        s, vec = x[..., :8], x[..., 8:].unflatten(-1, (3, 8))
        u, v = self.u(vec), self.v(vec)
        size = v.square().sum(dim=-2).add(1e-8).sqrt()
        a_vv, a_sv, a_ss = self.a(torch.cat([s, size], dim=-1)).split(8, dim=-1)
        s = s + a_ss + a_sv * (u * v).sum(dim=-2)
        vec = vec + a_vv[..., None, :] * u
        return torch.cat([s, vec.flatten(-2)], dim=-1)


class SetAttention(nn.Module):
    """Set transformer: what is carried is the map of the queries; a net of one map with ReLU."""

    def __init__(self, ln=False):
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = fc(D, D, True), fc(D, D, True), fc(D, D, True), fc(D, D, True)
        self.ln0, self.ln1 = (nn.LayerNorm(D), nn.LayerNorm(D)) if ln else (nn.Identity(), nn.Identity())

    def forward(self, x):
        q, k, v = self.fc_q(x), self.fc_k(x), self.fc_v(x)
        q_, k_, v_ = (torch.cat(t.split(HD, 2), 0) for t in (q, k, v))
        a = torch.softmax(q_.bmm(k_.transpose(1, 2)) / math.sqrt(D), 2)
        o = torch.cat((q_ + a.bmm(v_)).split(x.size(0), 0), 2)
        o = self.ln0(o)
        o = o + F.relu(self.fc_o(o))
        return self.ln1(o)


class SetAttentionNormed(SetAttention):
    """With both norms."""

    def __init__(self):
        super().__init__(ln=True)


class CompactSteps(nn.Module):
    """The classical step written by its states: (y1 + 2 y2 + y3 − x) / 3 and a sixth of the last slope."""

    def __init__(self, h=0.5):
        super().__init__()
        self.h, self.norm, self.f = h, nn.LayerNorm(D), net()

    def slope(self, x):
        return self.f(self.norm(x))

    def states(self, x):
        y1 = x + 0.5 * self.h * self.slope(x)
        y2 = x + 0.5 * self.h * self.slope(y1)
        y3 = x + self.h * self.slope(y2)
        return y1, y2, y3

    def forward(self, x):
        y1, y2, y3 = self.states(x)
        return (y1 + 2 * y2 + y3 - x) / 3 + self.h / 6 * self.slope(y3)


class CompactStepsSlip(CompactSteps):
    """Without the term that is taken off."""

    def forward(self, x):
        y1, y2, y3 = self.states(x)
        return (y1 + 2 * y2 + y3) / 3 + self.h / 6 * self.slope(y3)


class CompensatedSum(nn.Module):
    """Kahan: what is lost in a sum is taken off the next term; in exact numbers it is zero."""

    def __init__(self):
        super().__init__()
        self.norms, self.bodies = nn.ModuleList(nn.LayerNorm(D) for _ in range(2)), nn.ModuleList([Attention(), net()])

    def forward(self, x):
        lost = torch.zeros_like(x)
        for norm, body in zip(self.norms, self.bodies):
            y = body(norm(x)) - lost
            t = x + y
            lost = (t - x) - y
            x = t
        return x


class NeverLess(PreAttention):
    """The larger of the stream and the sum."""

    def forward(self, x):
        return torch.maximum(x, x + self.branch(x))


class CentredStream(PreAttention):
    """Each sum loses its mean over channels."""

    def forward(self, x):
        x = x + self.branch(x)
        return x - x.mean(dim=-1, keepdim=True)


class HalfDecays(PreAttention):
    """In a copy, the first half of the channels gets what was added, the other one is halved."""

    def forward(self, x):
        h = x.clone()
        h[..., : D // 2] += self.branch(x)[..., : D // 2]
        h[..., D // 2 :] *= 0.5
        return h


class SubtractedSkip(PreAttention):
    """Relaxation with a step of one: the stream itself goes out."""

    step = 1.0

    def forward(self, x):
        return x + self.step * (self.branch(x) - x)


class RelaxedSkip(SubtractedSkip):
    """With a step of a fifth."""

    step = 0.2


class LeakyRates(nn.Module):
    """A rate network's Euler step: minus the rate, plus a tanh of a map of all rates."""

    def __init__(self, dt=0.1, tau=0.5):
        super().__init__()
        self.dt, self.t, self.w = dt, tau, fc(D, D, True)

    def forward(self, x):
        return x + (self.dt / self.t) * (-x + torch.tanh(self.w(x)))


class RecurrentHighway(nn.Module):
    """SRU with a tanh: a running mean of maps, and a reset gate between it and the stream."""

    def __init__(self):
        super().__init__()
        self.w = fc(D, 3 * D, True)

    def forward(self, x):
        u, f, r = self.w(x).chunk(3, dim=-1)
        f, r = f.sigmoid(), r.sigmoid()
        c, out = torch.zeros_like(u[:, 0]), []
        for t in range(x.shape[1]):
            c = f[:, t] * c + (1 - f[:, t]) * u[:, t]
            out.append(r[:, t] * torch.tanh(c) + (1 - r[:, t]) * x[:, t])
        return torch.stack(out, dim=1)


class MirroredStream(nn.Module):
    """The stream is mirrored at a vector that a map makes of it: its length never changes."""

    def __init__(self):
        super().__init__()
        self.norm, self.v = nn.RMSNorm(D), fc(D, D)

    def forward(self, x):
        v = F.normalize(self.v(self.norm(x)), dim=-1)
        return x - 2.0 * v * (v * x).sum(dim=-1, keepdim=True)


class ScenarioGate(nn.Module):
    """PEPNet: the stream is multiplied by twice a sigmoid of the scenario, whose map starts at zero."""

    twice = 2.0

    def __init__(self):
        super().__init__()
        self.register_buffer("scenario", torch.sin(torch.arange(8.0))[None, None])
        self.norm, self.gate, self.net = nn.LayerNorm(D), nn.Linear(8, D, bias=False), net()
        nn.init.zeros_(self.gate.weight)

    def forward(self, x):
        x = x * (self.twice * torch.sigmoid(self.gate(self.scenario)))
        return x + self.net(self.norm(x))


class ScenarioGateOnce(ScenarioGate):
    """The two is forgotten."""

    twice = 1.0


class RawFromZero(nn.Module):
    """Fixup: no norm, the last map is zero, a trained scale and single biases."""

    def __init__(self):
        super().__init__()
        self.b1, self.b2, self.b3, self.b4, self.scale = *(nn.Parameter(torch.zeros(1)) for _ in range(4)), nn.Parameter(torch.ones(1))
        self.conv1, self.conv2 = nn.Conv1d(D, D, 3, padding=1, bias=False), nn.Conv1d(D, D, 3, padding=1, bias=False)
        nn.init.zeros_(self.conv2.weight)

    def branch(self, x):
        y = F.relu(self.conv1(x.transpose(1, 2) + self.b1) + self.b2)
        return (self.conv2(y + self.b3) * self.scale + self.b4).transpose(1, 2)

    def forward(self, x):
        return x + self.branch(x)


class MovingPoints(nn.Module):
    """EGNN: 29 features and a point in space; points move along unit gaps by a tanh, features by a net of the raw ones."""

    def __init__(self):
        super().__init__()
        self.edge, self.move, self.node = nn.Sequential(fc(59, D, True), nn.SiLU()), fc(D, 1), nn.Sequential(fc(29 + D, D, True), nn.SiLU(), fc(D, 29, True))

    def forward(self, x):
        h, p = x.split([29, 3], dim=-1)
        gap = p[:, :, None] - p[:, None]
        d2 = gap.square().sum(-1, keepdim=True)
        pair = torch.cat([h[:, :, None].expand(-1, -1, T, -1), h[:, None].expand(-1, T, -1, -1), d2 / (1 + d2)], dim=-1)
        m = self.edge(pair)
        p = p + (gap / ((d2 + 1e-8).sqrt() + 1) * torch.tanh(self.move(m))).mean(dim=2)
        h = h + self.node(torch.cat([h, m.mean(dim=2)], dim=-1))
        return torch.cat([h, p], dim=-1)


_B = dict(kind="block")
_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_ONE = dict(output_bounded={0: False})
_QK = dict(_PRE, **_ONE, logits_bounded={0: True})
_RAW = dict(_PRE, **_ONE, logits_bounded={0: False})
_PERI = dict(_CONV, growth_all="linear", output_bounded={0: True})
_GROWS = dict(growth_fixed="exponential")
_LEVEL = dict(_GROWS, gradient_law="flat")       # a stream that grows as its gradient falls: a map's own gradient is their product
TRUTH = {
    "UnitOnView": dict(_QK, gradient_law="power", why="the view is what is read."),
    "UnitOnCopy": dict(_RAW, why="the copy is not read."),
    "NormalizeByDefault": dict(_QK, why="entries are at most one in size."),
    "RmsOverHeads": dict(_QK, why="entries are at most root H."),
    "HalfOfHeadNormed": dict(_RAW, why="the other half is free."),
    "RotaryAcrossHeads": dict(_QK, why="a rotation keeps the length of all heads together."),
    "UnitByOneNorm": dict(_QK, why="the length is at most the sum of sizes."),
    "UnitBySum": dict(_RAW, why="keys are free, and sums vanish."),
    "SharedLength": dict(_RAW, why="keys may be longer than queries."),
    "ClippedQkv": dict(_QK, why="eight times eight times the width."),
    "StandardizedRows": dict(_QK, why="at most root T."),
    "StandardizedColumns": dict(_RAW, why="a key whose logits hardly differ has any size behind it."),
    "TrainedPrefix": dict(_RAW, why="the trained keys are not normed."),
    "BiasedQkNorm": dict(_RAW, why="where the input is the vector the norm has no bound."),
    "BehindCompressedRms": dict(_PERI, gradient_law="power", why="the size is at least the vector's."),
    "BehindGroupRms": dict(_PERI, why="a norm by group."),
    "BehindFourthMoment": dict(_PERI, why="the fourth moment is at least the square of the second."),
    "BehindMedian": dict(_CONV, **_ONE, why="the median bounds no maximum."),
    "BehindPower": dict(_PERI, why="entries are at most the root of batch times places."),
    "BehindRunningPower": dict(_B, identity_gain=1.0, softmax=False, **_ONE, **_LEVEL, why="a number is no norm: a raw branch."),
    "BehindCumulative": dict(_PERI, why="the deviation has this place in it."),
    "BehindCumulativeLagged": dict(_B, identity_gain=1.0, softmax=False, **_ONE, why="this place may be larger than all before it."),
    "BehindRecentPower": dict(_PERI, why="at most root ten times root d."),
    "BehindBiased": dict(_CONV, **_ONE, why="where the input is the vector the norm has no bound."),
    "ScaleNormTwice": dict(_PERI, gradient_law="power", why="a unit vector times a gain."),
    "NormTimesStream": dict(_B, identity_gain=1.0, softmax=False, **_ONE, **_GROWS, why="a branch of degree one."),
    "OrthogonalizedMaps": dict(_PERI, why="singular values stay below 1.3 whatever the weights."),
    "SkipBehindFirstNorm": dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="the block begins with a norm on the stream."),
    "StaleResidual": dict(_PRE, why="one branch behind the other."),
    "GatedResidualNetwork": dict(_B, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=False, why="post-norm."),
    "AlphaOnTheSkip": dict(_B, identity_gain=2.0 ** -48, growth_fixed="bounded", softmax=True, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="the skip is halved twice."),
    "AlphaOnTheBranch": dict(_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="the branch is halved."),
    "KeepSizeDecoder": dict(_B, identity_gain=(0.7 / math.sqrt(0.58)) ** 24, softmax=False, **_ONE, why="0.7 over the root of 0.58."),
    "KeepSizeEncoder": dict(_B, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=False, output_bounded={0: True}, why="unit rows of a unit stream."),
    "CanonOnNormed": dict(_PRE, why="pre-norm."),
    "CanonOnStream": dict(_B, identity_gain=1.0, softmax=True, **_GROWS, why="a raw branch."),
    "VocoderResidual": dict(_B, identity_gain=1.0, softmax=False, output_bounded={0: False, 1: False}, **_LEVEL, why="raw branches."),
    "VarianceReset": dict(_B, identity_gain=1.0, softmax=False, **_ONE, **_GROWS, why="a raw branch of degree one with a fixed factor."),
    "GalerkinRaw": dict(_B, identity_gain=1.0, softmax=False, output_bounded={0: False, 1: False}, gradient_law="exponential", **_GROWS, why="degree one in the queries, raw net."),
    "SpectralOperator": dict(_B, identity_gain=1.0, softmax=False, **_ONE, **_GROWS, why="a raw branch."),
    "ScalarsAndVectors": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, why="raw, degree three."),
    "SetAttention": dict(_B, softmax=True, **_GROWS, why="no norm; every sum is of maps of the same size."),
    "SetAttentionNormed": dict(_B, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, why="post-norm."),
    "CompactSteps": dict(_CONV, why="(1 + 2 + 1 - 1) / 3."),
    "CompactStepsSlip": dict(_B, identity_gain=(4 / 3) ** 24, softmax=False, gradient_law="exponential", **_GROWS, why="(1 + 2 + 1) / 3."),
    "CompensatedSum": dict(_PRE, why="what is lost is zero."),
    "NeverLess": dict(_PRE, **_ONE, logits_bounded={0: False}, why="the stream and a ReLU."),
    "CentredStream": dict(_PRE, **_ONE, logits_bounded={0: False}, why="a projection onto what has mean zero."),
    "HalfDecays": dict(_PRE, logits_bounded={0: False}, why="the first half is carried whole."),
    "SubtractedSkip": dict(_B, identity_gain=0.0, growth_fixed="bounded", softmax=True, why="x + f - x."),
    "RelaxedSkip": dict(_B, identity_gain=0.8 ** 24, growth_fixed="bounded", softmax=True, why="four fifths."),
    "LeakyRates": dict(_B, identity_gain=0.8 ** 24, growth_fixed="bounded", growth_all="bounded", softmax=False, gradient_law="exponential", why="four fifths and a fifth of a tanh."),
    "RecurrentHighway": dict(_B, gated=True, growth_fixed="bounded", growth_all="bounded", softmax=False, why="between a tanh and the stream."),
    "MirroredStream": dict(_B, growth_fixed="bounded", growth_all="bounded", softmax=False, gradient_law="exponential", why="an isometry."),
    "ScenarioGate": dict(_CONV, why="twice a half at the start."),
    "ScenarioGateOnce": dict(_B, identity_gain=2.0 ** -24, growth_fixed="bounded", softmax=False, why="a half."),
    "RawFromZero": dict(_B, identity_gain=1.0, growth_fixed="bounded", gradient_law="flat", softmax=False, **_ONE, why="nothing is added at the start."),
    "MovingPoints": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, why="features are raw."),
}
