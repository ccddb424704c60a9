"""What branches add, in library styles and next to them; a few whole models."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T = 32, 16


def example_inputs():
    return (torch.randn(2, T, D),)


def dense(d_in, d_out, gain=1.0, bias=True):
    lin = nn.Linear(d_in, d_out, bias=bias)
    nn.init.normal_(lin.weight, std=gain * d_in ** -0.5)
    return lin


class Mlp(nn.Sequential):
    def __init__(self, d=D, out=None, gain=1.0):
        super().__init__(dense(d, 2 * d), nn.GELU(), dense(2 * d, out or d, gain))


class Tail(nn.Module):
    """x + tail(mlp(x)), no norm in front unless `front` says so."""

    front = nn.Identity
    gain = 1.0

    def __init__(self):
        super().__init__()
        self.norm, self.body = self.front(D), Mlp(gain=self.gain)
        self.setup()

    def setup(self):
        pass

    def tail(self, y):
        return y

    def branch(self, x):
        return self.tail(self.body(self.norm(x)))

    def forward(self, x):
        return x + self.branch(x)


# ---- norms that are none
class CenterNorm(nn.Module):
    """LipsFormer: d/(d-1) times the centred token, a gain and a bias."""

    def __init__(self, d):
        super().__init__()
        self.gain_n, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(self, x):
        d = x.shape[-1]
        return torch.addcmul(self.bias, d / (d - 1) * (x - x.mean(-1, keepdim=True)), self.gain_n)


class LipsFormerMlp(Tail):
    front, gain = CenterNorm, 2.0


class Affine(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gain_a, self.beta = nn.Parameter(torch.ones(1, 1, d)), nn.Parameter(torch.zeros(1, 1, d))

    def forward(self, x):
        return torch.addcmul(self.beta, self.gain_a, x)


class ResMlp(nn.Module):
    """ResMLP: Aff in place of norms, LayerScale 0.5."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = Affine(D), Affine(D), nn.Linear(T, T), Mlp()
        self.gain_1, self.gain_2 = (nn.Parameter(torch.full((D,), 0.5)) for _ in range(2))

    def forward(self, x):
        x = x + self.gain_1 * self.attn(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.gain_2 * self.mlp(self.norm2(x))


class DynamicTanh(Tail):
    """DyT in the place of a norm: tanh(alpha x), with gain and bias."""

    class DyT(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.alpha, self.gain_t, self.beta = nn.Parameter(torch.full((1,), 0.5)), nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

        def forward(self, x):
            return self.gain_t * torch.tanh(self.alpha * x) + self.beta

    front = DyT


class BatchStatistics(Tail):
    """BatchNorm1d without running statistics in front."""

    def setup(self):
        self.norm = nn.BatchNorm1d(D, track_running_stats=False)

    def branch(self, x):
        return self.body(self.norm(x.flatten(0, 1)).view_as(x))


class RunningStatistics(Tail):
    """The same norm with constants in place of the statistics, as at inference."""

    gain = 2.0

    def setup(self):
        self.register_buffer("mean", torch.zeros(D))
        self.register_buffer("var", torch.ones(D))

    def branch(self, x):
        h = F.batch_norm(x.flatten(0, 1), self.mean, self.var, training=False)
        return self.body(h.view_as(x))


class NormedRange(Tail):
    """Scaled to [0, 1] by the least and greatest entry of the token."""

    def branch(self, x):
        low, high = x.amin(-1, True), x.amax(-1, True)
        return self.body((x - low).div_(high - low + 1e-6))


class NormOfWeights(Tail):
    """RMSNorm of the weights, called from the place where the activations are normed."""

    gain = 2.0

    def setup(self):
        self.first = nn.Parameter(torch.randn(D, D))

    def branch(self, x):
        return self.body(F.linear(x, F.rms_norm(self.first, (D,))) / D ** 0.5)


class LoudestToken(Tail):
    """One divisor for all tokens: the greatest rms among them."""

    def branch(self, x):
        r = x.square().mean(-1, keepdim=True).sqrt().amax(1, keepdim=True)
        return self.body(x / (r + 1e-6))


# ---- the last op of a branch
class NormOfTheSum(Tail):
    """Peri-norm, where the output norm was given the sum; then the skip once more."""

    def setup(self):
        self.last = nn.LayerNorm(D)

    def branch(self, x):
        return self.last(x + self.body(x))


class GatedNorm(Tail):
    """A sigmoid gate outside of the norm, which reads the stream as it is."""

    def setup(self):
        self.last, self.gate = nn.RMSNorm(D), nn.Linear(D, D)

    act = staticmethod(torch.sigmoid)

    def branch(self, x):
        return self.last(self.body(x)) * self.act(self.gate(x))


class GatedNormSilu(GatedNorm):
    """The gate is a SiLU, as behind the norm of Mamba-2; but that one is inside."""

    act = staticmethod(F.silu)

    def __init__(self):
        super().__init__()
        nn.init.normal_(self.gate.weight, std=2 * D ** -0.5)


class GatedNormInside(GatedNormSilu):
    """Mamba-2: norm(y silu(z))."""

    def branch(self, x):
        return self.last(self.body(x) * F.silu(self.gate(x)))


class TanhModulated(Tail):
    """norm(y) (1 + tanh s) + tanh b, s and b maps of the stream."""

    def setup(self):
        self.last, self.ada = nn.LayerNorm(D), nn.Linear(D, 2 * D)

    act = staticmethod(torch.tanh)

    def branch(self, x):
        scale, shift = self.act(self.ada(x)).chunk(2, -1)
        return torch.addcmul(shift, self.last(self.body(x)), 1 + scale)


class PlainModulated(TanhModulated):
    """DiT's modulate, behind the branch and by the stream itself."""

    act = staticmethod(lambda t: 2 * t)


class GluAfterNorm(Tail):
    """Norm of the doubled width, then a product of its halves."""

    def setup(self):
        self.body, self.last = Mlp(out=2 * D), nn.LayerNorm(2 * D)

    def tail(self, y):
        a, b = self.last(y).chunk(2, -1)
        return F.silu(a) * b


class GluBeforeNormHalf(GluAfterNorm):
    """The gate is normed, the value is not; pre-norm."""

    front = nn.LayerNorm

    def setup(self):
        self.body, self.last = Mlp(out=2 * D), nn.LayerNorm(D)

    def tail(self, y):
        a, b = y.chunk(2, -1)
        return torch.sigmoid(self.last(a)) * b


class GlobalNorm(Tail):
    """Conv-TasNet's global layer norm: all tokens and channels at once."""

    def tail(self, y):
        return F.layer_norm(y, y.shape[1:])


class CumulativeNorm(Tail):
    """Over channels and all frames so far."""

    def power(self, y):
        n = torch.arange(1, T + 1, device=y.device, dtype=y.dtype)[:, None]
        return y.square().mean(-1, keepdim=True).cumsum(1) / n

    def tail(self, y):
        return y * torch.rsqrt(self.power(y) + 1e-6)


class CumulativeNormPast(CumulativeNorm):
    """Strictly causal: all frames before this one, the first by a constant."""

    front = nn.LayerNorm

    def power(self, y):
        return F.pad(super().power(y)[:, :-1], (0, 0, 1, 0), value=1.0)


class PartialRms(Tail):
    """pRMSNorm: the statistic is that of the first eight channels."""

    front = nn.LayerNorm

    def tail(self, y):
        return y / (y[..., : D // 4].square().mean(-1, keepdim=True) + 1e-6).sqrt()


class AddcdivRms(Tail):
    def forward(self, x):
        y = self.body(x)
        return torch.addcdiv(x, y, y.square().mean(-1, keepdim=True).add(1e-6).sqrt())

    def branch(self, x):
        return self.forward(x) - x


class AddcdivMeanSquare(AddcdivRms):
    """The root was forgotten, and the epsilon is small."""

    front = nn.LayerNorm

    def forward(self, x):
        y = self.body(self.norm(x))
        return torch.addcdiv(x, y, y.square().mean(-1, keepdim=True).add(1e-12))


class DividedByStream(Tail):
    """Divided by the rms of the stream instead of its own."""

    def branch(self, x):
        return self.body(x) / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


class TrustRatio(Tail):
    """The branch gets the length of the stream, as LARS does with updates."""

    def branch(self, x):
        y = self.body(x)
        return y * (x.norm(dim=-1, keepdim=True) / y.norm(dim=-1, keepdim=True).clamp(min=1e-9))


class ClampInput(Tail):
    """A clamp in front of the MLP, no norm."""

    def branch(self, x):
        return self.body(x.clamp(-3, 3))


class ZeroedOutliers(Tail):
    """Entries beyond three are set to zero."""

    def tail(self, y):
        return torch.where(y.abs() < 3, y, torch.zeros_like(y))


class TanhInliers(Tail):
    """Entries within three go through tanh, the others are left."""

    gain = 2.0

    def tail(self, y):
        return torch.where(y.abs() < 3, y.tanh(), y)


class NanGuard(Tail):
    """nan_to_num with finite ends."""

    front = nn.RMSNorm

    def tail(self, y):
        return torch.nan_to_num(y, nan=0.0, posinf=10.0, neginf=-10.0)


class PolarAngle(Tail):
    """Angles of pairs."""

    def tail(self, y):
        a, b = y.chunk(2, -1)
        return torch.cat((torch.atan2(a, b), torch.atan2(b, a)), -1)


class PolarRadius(Tail):
    """Lengths of pairs, centred by a sign."""

    gain = 2.0

    def tail(self, y):
        a, b = y.chunk(2, -1)
        r = torch.hypot(a, b)
        return torch.cat((r, -r), -1)


class ErfTail(Tail):
    def tail(self, y):
        return torch.special.erf(y).mul(3).sub(torch.special.expit(y))


class TanhThenLinear(nn.Module):
    """No norm; tanh, then a map."""

    def __init__(self):
        super().__init__()
        self.up, self.down = dense(D, D), dense(D, D)

    def branch(self, x):
        return self.down(self.up(x).tanh_())

    def forward(self, x):
        return x + self.branch(x)


class LinearThenTanh(TanhThenLinear):
    def branch(self, x):
        return self.down(self.up(x)).tanh_()


class OrthonormalTokens(Tail):
    """The tokens are orthonormalised by QR."""

    def setup(self):
        self.body[2] = dense(2 * D, D)

    def tail(self, y):
        return torch.linalg.qr(y.mT)[0].mT


class StandardisedOut(Tail):
    """Bounded hidden units and a last map whose rows are standardised, without a bias."""

    def setup(self):
        self.body, self.up, self.weight = None, dense(D, 2 * D), nn.Parameter(torch.randn(D, 2 * D))

    def rows(self):
        var, mean = torch.var_mean(self.weight, dim=1, keepdim=True, unbiased=False)
        return (self.weight - mean) * torch.rsqrt(var + 1e-8) / 8

    def branch(self, x):
        return F.linear(torch.sigmoid(self.up(x)), self.rows())


class CentredOut(StandardisedOut):
    """Rows are centred and not divided."""

    def rows(self):
        return (self.weight - self.weight.mean(1, keepdim=True)) / 8


# ---- ordinary
class FNet(nn.Module):
    """FNet with norms in front: an orthonormal Fourier transform of the normed stream, its real part; then an MLP."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Mlp()

    def mix(self, x):
        return torch.fft.fft2(self.n1(x), norm="ortho").real

    def forward(self, x):
        x = x + self.mix(x)
        return x + self.mlp(self.n2(x))


class FairseqLayer(nn.Module):
    """maybe_layer_norm(before ^ normalize_before)."""

    normalize_before = True

    def __init__(self):
        super().__init__()
        self.self_attn_layer_norm, self.final_layer_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.self_attn = nn.MultiheadAttention(D, 4)
        self.fc1, self.fc2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def maybe_layer_norm(self, norm, x, before=False, after=False):
        assert before ^ after
        return norm(x) if after ^ self.normalize_before else x

    def forward(self, x):
        x = x.transpose(0, 1)
        residual = x
        x = self.maybe_layer_norm(self.self_attn_layer_norm, x, before=True)
        x, _ = self.self_attn(query=x, key=x, value=x, need_weights=False)
        x = residual + x
        x = self.maybe_layer_norm(self.self_attn_layer_norm, x, after=True)
        residual = x
        x = self.maybe_layer_norm(self.final_layer_norm, x, before=True)
        x = self.fc2(F.relu(self.fc1(x)))
        x = residual + x
        x = self.maybe_layer_norm(self.final_layer_norm, x, after=True)
        return x.transpose(0, 1)


class FairseqLayerPost(FairseqLayer):
    """The default of the flag."""

    normalize_before = False


class RwkvChannelMix(nn.Module):
    """Token shift, squared relu, a receptance gate."""

    def __init__(self):
        super().__init__()
        self.ln, self.time_shift = nn.LayerNorm(D), nn.ZeroPad2d((0, 0, 1, -1))
        self.mix_k, self.mix_r = (nn.Parameter(torch.rand(D)) for _ in range(2))
        self.key, self.value, self.receptance = nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False), nn.Linear(D, D, bias=False)

    def branch(self, x):
        h = self.ln(x)
        past = self.time_shift(h)
        k = self.key(torch.lerp(past, h, self.mix_k)).relu().square()
        return torch.sigmoid(self.receptance(torch.lerp(past, h, self.mix_r))) * self.value(k)

    def forward(self, x):
        return x + self.branch(x)


class DiagonalSsm(nn.Module):
    """S4D in its convolution mode with a feedthrough D, GELU and GLU; norm in front."""

    def __init__(self, n=4):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, 2 * D)
        self.log_dt, self.C = nn.Parameter(torch.linspace(-5, -1, D)), nn.Parameter(torch.randn(D, n, 2) * 0.5 ** 0.5)
        self.log_A_real, self.A_imag = nn.Parameter(torch.full((D, n), math.log(0.5))), nn.Parameter(math.pi * torch.arange(n).repeat(D, 1).to(torch.get_default_dtype()))
        self.skip_D = nn.Parameter(torch.ones(D))

    def kernel(self, length):
        a = -torch.exp(self.log_A_real) + 1j * self.A_imag
        dta = a * torch.exp(self.log_dt)[:, None]
        c = torch.view_as_complex(self.C) * (torch.exp(dta) - 1) / a
        return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(dta[..., None] * torch.arange(length, device=a.device))).real

    def branch(self, x):
        u = self.read(x)
        k = self.kernel(T)
        y = torch.fft.irfft(torch.fft.rfft(k, n=2 * T) * torch.fft.rfft(u, n=2 * T), n=2 * T)[..., :T]
        y = y + u * self.skip_D[:, None]
        return F.glu(self.out(F.gelu(y).mT), dim=-1)

    def read(self, x):
        return self.norm(x).mT

    def forward(self, x):
        return x + self.branch(x)


class SwitchLayer(nn.Module):
    """Switch transformer: the best expert by a softmax router, its output times its probability."""

    def __init__(self, experts=4):
        super().__init__()
        self.norm, self.router, self.experts = nn.LayerNorm(D), nn.Linear(D, experts), nn.ModuleList(Mlp() for _ in range(experts))

    def weigh(self, h):
        return F.softmax(self.router(h), dim=-1)

    def branch(self, x):
        h = self.norm(x)
        p, which = self.weigh(h).max(dim=-1, keepdim=True)
        y = torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            y = torch.where(which == i, expert(h), y)
        return p * y

    def forward(self, x):
        return x + self.branch(x)


class SigmoidSwitch(SwitchLayer):
    """A sigmoid of each logit."""

    def weigh(self, h):
        return torch.sigmoid(self.router(h))


class GlobalResponse(nn.Module):
    """ConvNeXt v2: depthwise convolution, norm, MLP with a global response norm inside."""

    def __init__(self):
        super().__init__()
        self.norm, self.dwconv, self.pw1, self.pw2 = nn.LayerNorm(D), nn.Conv1d(D, D, 7, padding=3, groups=D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.gamma, self.beta = nn.Parameter(torch.zeros(2 * D)), nn.Parameter(torch.zeros(2 * D))

    def branch(self, x):
        y = F.gelu(self.pw1(self.norm(self.dwconv(x.mT).mT)))
        g = y.norm(p=2, dim=1, keepdim=True)
        y = self.gamma * (y * (g / (g.mean(dim=-1, keepdim=True) + 1e-6))) + self.beta + y
        return self.pw2(y)

    def forward(self, x):
        return x + self.branch(x)


class GruGate(nn.Module):
    """GTrXL: a GRU gate joins the stream and a pre-norm MLP."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(D), Mlp()
        self.w, self.u, self.g = nn.Linear(D, 3 * D), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False)

    def forward(self, x):
        y = F.relu(self.mlp(self.norm(x)))
        a, b, c = self.w(y).chunk(3, -1)
        r, z = torch.sigmoid(torch.stack((a, b)) + torch.stack(self.u(x).chunk(2, -1))).unbind(0)
        z = z * 0.5
        return (1 - z) * x + z * torch.tanh(c + self.g(r * x))


class UniversalTransformer(nn.Module):
    """One layer many times; position and step signals are added to the stream each time."""

    def __init__(self, n=24):
        super().__init__()
        self.n, self.norm, self.mlp = n, nn.LayerNorm(D), Mlp()
        i, j = torch.arange(T)[:, None], torch.arange(D // 2)
        self.register_buffer("freq", 100.0 ** (-2 * j / D))
        self.register_buffer("pos", torch.cat((torch.sin(i * self.freq), torch.cos(i * self.freq)), -1))

    def forward(self, x):
        for t in range(self.n):
            x = x + self.pos + torch.cat((torch.sin(t * self.freq), torch.cos(t * self.freq)))
            x = x + self.mlp(self.norm(x))
        return x


class FusedAddNorm(nn.Module):
    """Hidden and residual travel together, a fused kernel adds and norms."""

    def __init__(self, n=24):
        super().__init__()
        self.blocks = nn.ModuleList(nn.ModuleDict({"norm": nn.RMSNorm(D), "mlp": Mlp(gain=3.0)}) for _ in range(n))

    @staticmethod
    def add_norm(norm, hidden, residual):
        residual = hidden + residual
        return norm(residual), residual

    def forward(self, x):
        hidden, residual = torch.zeros_like(x), x
        for b in self.blocks:
            hidden, residual = self.add_norm(b["norm"], hidden, residual)
            hidden = b["mlp"](hidden)
        return hidden + residual


class FusedAddNormSwapped(FusedAddNorm):
    """The two results come in the other order."""

    @staticmethod
    def add_norm(norm, hidden, residual):
        residual = hidden + residual
        return residual, norm(residual)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_YES = dict(_PRE, growth_all="linear", output_bounded={"0": True})
_NO = dict(_PRE, output_bounded={"0": False})
_WILD = dict(_NO, growth_fixed="exponential")


TRUTH = {
    "LipsFormerMlp": dict(_WILD, why="centring divides by nothing: degree one.", tempts="a norm in front"),
    "ResMlp": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=False, why="Aff is a gain and a bias: degree one.", tempts="norm1 and norm2; a small LayerScale"),
    "DynamicTanh": dict(_NO, why="tanh is bounded, the map behind is free.", tempts="no norm: exponential"),
    "BatchStatistics": dict(_NO, gradient_law="power", why="normed over the tokens of the batch, each channel: bounded.", tempts="norm over the wrong axis"),
    "RunningStatistics": dict(_WILD, why="constants: an affine map.", tempts="batch_norm is a norm"),
    "NormedRange": dict(_NO, why="entries in [0, 1] in front of the MLP.", tempts="no norm"),
    "NormOfWeights": dict(_WILD, why="rms_norm of a weight.", tempts="rms_norm in front of the MLP"),
    "LoudestToken": dict(_NO, why="entries at most sqrt(D).", tempts="the divisor is that of another token"),
    "NormOfTheSum": dict(_YES, why="a norm is added to the stream.", tempts="post-norm: bounded; or x enters the branch: gain 2"),
    "GatedNorm": dict(_YES, why="a gate below one on a normed vector.", tempts="a raw map behind the norm"),
    "GatedNormSilu": dict(_WILD, why="silu of a raw map: degree one.", tempts="the output norm"),
    "GatedNormInside": dict(_YES, why="the norm comes last.", tempts="degree two"),
    "TanhModulated": dict(_YES, why="at most twice the normed vector, plus one.", tempts="modulated by maps of the raw stream"),
    "PlainModulated": dict(_WILD, why="scale and shift are maps of the raw stream.", tempts="a LayerNorm behind the branch"),
    "GluAfterNorm": dict(_YES, why="both factors are parts of a vector of length 8.", tempts="degree two"),
    "GluBeforeNormHalf": dict(_NO, why="the value is a free map.", tempts="a norm and a sigmoid behind the MLP"),
    "GlobalNorm": dict(_YES, why="512 numbers of mean 0 and variance 1: at most 22.6.", tempts="the wrong axes"),
    "CumulativeNorm": dict(_YES, why="the mean over t frames holds this frame: at most sqrt(16 D).", tempts="statistics of other tokens"),
    "CumulativeNormPast": dict(_NO, why="a loud frame behind silent ones (and the first one).", tempts="a norm at the end"),
    "PartialRms": dict(_NO, why="the other 24 channels can be larger by any factor.", tempts="RMSNorm at the end"),
    "AddcdivRms": dict(_YES, why="y over its rms.", tempts="-"),
    "AddcdivMeanSquare": dict(_NO, why="y over its mean square: small y give large outputs.", tempts="normed at the end"),
    "DividedByStream": dict(_NO, why="degree zero in the stream at large streams, one in the last map.", tempts="normed at the end; or no norm: exponential"),
    "TrustRatio": dict(_WILD, why="as long as the stream: degree one.", tempts="normed at the end"),
    "ClampInput": dict(_NO, why="an MLP of bounded entries.", tempts="no norm: exponential; or bounded"),
    "ZeroedOutliers": dict(_YES, why="entries below three.", tempts="no clamp"),
    "TanhInliers": dict(_WILD, why="large entries pass.", tempts="tanh"),
    "NanGuard": dict(_NO, why="finite entries pass.", tempts="ends at 10"),
    "PolarAngle": dict(_YES, why="at most pi.", tempts="no norm"),
    "PolarRadius": dict(_WILD, why="degree one.", tempts="as its twin"),
    "ErfTail": dict(_YES, why="between -4 and 3.", tempts="no norm"),
    "TanhThenLinear": dict(_NO, why="bounded units through a free map.", tempts="no norm: exponential; or tanh: bounded"),
    "LinearThenTanh": dict(_YES, why="tanh comes last.", tempts="no norm"),
    "OrthonormalTokens": dict(_YES, why="orthonormal columns have entries at most one.", tempts="no norm"),
    "StandardisedOut": dict(_YES, why="rows of length 8/8 on 64 numbers in (0, 1).", tempts="a trained map at the end"),
    "CentredOut": dict(_NO, why="the length of a row is free.", tempts="as its twin"),
    "FNet": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": True, "1": False}, softmax=False, gradient_law="power",
        why="a unitary transform of a normed stream has no weight; the MLP's last map is free.", tempts="a transform on the stream"),
    "FairseqLayer": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True, gradient_law="power",
        why="before=True with the flag: norms in front.", tempts="four norm calls: both"),
    "FairseqLayerPost": dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="after=True without the flag: norms on the sums.", tempts="four norm calls: pre-norm"),
    "RwkvChannelMix": dict(_NO, why="pre-norm, a free value map.", tempts="-"),
    "DiagonalSsm": dict(_NO, why="pre-norm; a feedthrough of the normed stream.", tempts="u D looks like a skip: gain 2"),
    "SwitchLayer": dict(_NO, logits_bounded={"0": False}, softmax=True, why="pre-norm; a free router.", tempts="-"),
    "SigmoidSwitch": dict(_NO, why="one sigmoid per expert, the largest is taken.", tempts="a router: softmax"),
    "GlobalResponse": dict(_NO, why="the norm behind the depthwise map; a response norm of degree one.", tempts="a raw convolution first"),
    "GruGate": dict(kind="block", growth_fixed="bounded", growth_all="bounded", why="a convex mean of the stream and tanh: at most max(|x|, 1).", tempts="gain 1, linear"),
    "UniversalTransformer": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False, why="constants of size one and a pre-norm branch per step.", tempts="-"),
    "FusedAddNorm": dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=False, gradient_law="power", why="pre-norm.", tempts="a norm on the stream"),
    "FusedAddNormSwapped": dict(kind="model", growth_fixed="exponential", softmax=False, why="the MLP reads the raw sum, the skip is normed: s' = F(s) + N(s) with F of gain above one.", tempts="as its twin"),
}
