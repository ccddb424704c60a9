"""What branches add: vision, speech, diffusion, mixtures, state spaces; hand-written norms, caps and gates."""

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


# ---- ordinary
def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    """adaLN with gates, a constant condition."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(D, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.qkv, self.proj, self.mlp = nn.Linear(D, 3 * D), nn.Linear(D, D), Mlp()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), dense(D, 6 * D, 2.0))
        self.register_buffer("c", torch.randn(1, D))

    def condition(self, x):
        return self.c

    def attn(self, h):
        b, n, c = h.shape
        q, k, v = self.qkv(h).reshape(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))

    def parts(self, x):
        a = self.adaLN_modulation(self.condition(x)).chunk(6, dim=1)
        one = a[2].unsqueeze(1) * self.attn(modulate(self.norm1(x), a[0], a[1]))
        x = x + one
        two = a[5].unsqueeze(1) * self.mlp(modulate(self.norm2(x), a[3], a[4]))
        return one, two

    def forward(self, x):
        one, two = self.parts(x)
        return x + one + two


class DiTPooled(DiTBlock):
    """The condition is the mean of the tokens."""

    def condition(self, x):
        return x.mean(dim=1)


class NormFormer(nn.Module):
    """Pre-norm, a norm behind attention and one in the middle of the MLP, scales per head and per channel on the second skip."""

    def __init__(self):
        super().__init__()
        self.n1, self.post, self.n2, self.mid = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(4 * D)
        self.qkv, self.out, self.fc1, self.fc2 = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.c_attn, self.gain_resid = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(D))

    def attention(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        y = torch.softmax(q @ k.mT / math.sqrt(8), -1) @ v
        return self.post(self.out(torch.einsum("bhte,h->bthe", y, self.c_attn).flatten(2)))

    def ffn(self, x):
        return self.fc2(self.mid(F.gelu(self.fc1(self.n2(x)))))

    def forward(self, x):
        x = x + self.attention(x)
        return torch.mul(self.gain_resid, x) + self.ffn(x)


class HyperMixer(nn.Module):
    """The weights of the token MLP are made from the normed tokens."""

    def __init__(self):
        super().__init__()
        self.norm, self.make1, self.make2 = nn.LayerNorm(D), Mlp(out=24, gain=3.0), Mlp(out=24, gain=3.0)

    def branch(self, x):
        h = self.norm(x)
        w1, w2 = self.make1(self.source(x, h)), self.make2(h)
        return torch.einsum("btk,bkd->btd", w2, F.gelu(torch.einsum("btk,btd->bkd", w1, h) / T ** 0.5)) / 24 ** 0.5

    def source(self, x, h):
        return h

    def forward(self, x):
        return x + self.branch(x)


class HyperMixerRaw(HyperMixer):
    """One of the two makers reads the stream as it is."""

    def source(self, x, h):
        return x


class GatedLinear(nn.Module):
    """GLA: a matrix state with a decay per key channel, a norm per head, a swish gate, a map."""

    def __init__(self, heads=4, e=8):
        super().__init__()
        self.h, self.e = heads, e
        self.norm, self.g_norm = nn.RMSNorm(D), nn.RMSNorm(e)
        self.qkvg, self.gk, self.o = nn.Linear(D, 4 * D, bias=False), nn.Sequential(nn.Linear(D, 4, bias=False), nn.Linear(4, D)), nn.Linear(D, D, bias=False)

    def branch(self, x):
        h = self.norm(x)
        b, t, _ = h.shape
        q, k, v, g = self.qkvg(h).chunk(4, -1)
        q, k, v = (a.view(b, t, self.h, self.e) for a in (q, k, v))
        a = (F.logsigmoid(self.gk(h)) / 16).exp().view(b, t, self.h, self.e)
        s, out = h.new_zeros(b, self.h, self.e, self.e), []
        for i in range(t):
            s = a[:, i, :, :, None] * s + k[:, i, :, :, None] * v[:, i, :, None, :]
            out.append((q[:, i, :, :, None] * s).sum(2) * self.e ** -0.5)
        return self.o(self.g_norm(torch.stack(out, 1)).flatten(2) * F.silu(g))

    def forward(self, x):
        return x + self.branch(x)


class ExpertChoice(nn.Module):
    """Experts choose four tokens each by a softmax over experts."""

    def __init__(self, experts=4, capacity=4):
        super().__init__()
        self.norm, self.gate, self.experts, self.capacity = nn.LayerNorm(D), nn.Linear(D, experts, bias=False), nn.ModuleList(Mlp() for _ in range(experts)), capacity

    def branch(self, x):
        h = self.norm(x)
        share, which = self.gate(h).softmax(-1).topk(self.capacity, dim=1)
        y = torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            idx = which[..., i, None].expand(-1, -1, D)
            y = y.scatter_add(1, idx, share[..., i, None] * expert(h.gather(1, idx)))
        return y

    def forward(self, x):
        return x + self.branch(x)


class MBConv(nn.Module):
    """CoAtNet's: pre-activation norm, expansion, depthwise, squeeze and excite, projection."""

    def __init__(self):
        super().__init__()
        self.pre_norm = nn.GroupNorm(1, D)
        self.conv1_1x1, self.conv2_kxk, self.conv3_1x1 = nn.Conv1d(D, 2 * D, 1), nn.Conv1d(2 * D, 2 * D, 3, padding=1, groups=2 * D), nn.Conv1d(2 * D, D, 1)
        self.fc1, self.fc2 = nn.Conv1d(2 * D, 8, 1), nn.Conv1d(8, 2 * D, 1)

    def branch(self, x):
        y = F.gelu(self.conv2_kxk(F.gelu(self.conv1_1x1(self.pre_norm(x.mT)))))
        y = y * self.fc2(F.relu(self.fc1(y.mean(-1, keepdim=True)))).sigmoid()
        return self.conv3_1x1(y).mT

    def forward(self, x):
        return x + self.branch(x)


class Houlsby(Tail):
    """A bottleneck adapter with a skip of its own behind the MLP, inside of the branch."""

    front = nn.LayerNorm

    def setup(self):
        self.down, self.up = nn.Linear(D, 4), nn.Linear(4, D)

    def tail(self, y):
        return y + self.up(F.gelu(self.down(y)))


class LoraBeside(Tail):
    """A low-rank adapter that was put beside norm and MLP together."""

    front = nn.LayerNorm

    def setup(self):
        self.lora_a, self.lora_b, self.scaling = dense(D, 8, bias=False), dense(8, D, bias=False), 2.0

    def branch(self, x):
        return self.body(self.norm(x)) + self.lora_b(self.lora_a(x)) * self.scaling


class Squeezeformer(nn.Module):
    """Post-norm with an adaptive scale in front of the module."""

    def __init__(self):
        super().__init__()
        self.ada_gain, self.ada_bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
        self.ffn, self.norm = nn.Sequential(nn.Linear(D, 4 * D), nn.SiLU(), nn.Linear(4 * D, D)), nn.LayerNorm(D)

    def forward(self, x):
        y = self.ffn(torch.addcmul(self.ada_bias, x, self.ada_gain))
        return self.norm(y.mul(0.5).add_(x))


class ConvMixer(nn.Module):
    """Residual around the depthwise convolution; the pointwise one has none."""

    class Residual(nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.fn = fn

        def forward(self, x):
            return self.fn(x) + x

    def __init__(self):
        super().__init__()
        norm = lambda: nn.BatchNorm1d(D, track_running_stats=False)
        self.net = nn.Sequential(self.Residual(nn.Sequential(nn.Conv1d(D, D, 5, groups=D, padding="same"), nn.GELU(), norm())), nn.Conv1d(D, D, 1), nn.GELU(), norm())

    def forward(self, x):
        return self.net(x.mT).mT


# ---- in the place of a norm
class ScaleNormWidth(Tail):
    """ScaleNorm, g x / |x| with g = sqrt(D), where the length became that of the shape."""

    gain = 2.0

    def setup(self):
        self.gain_g = nn.Parameter(torch.tensor(D ** 0.5))

    def branch(self, x):
        return self.body(self.gain_g * x / x.size(-1) ** 0.5)


class NfBlock(nn.Module):
    """Normaliser-free: scaled weight standardisation, ReLU with its gamma, alpha = 1."""

    class WsLinear(nn.Linear):
        def forward(self, x):
            var, mean = torch.var_mean(self.weight, dim=1, keepdim=True, unbiased=False)
            return F.linear(x, (self.weight - mean) * torch.rsqrt(var * self.in_features + 1e-4), self.bias)

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = self.WsLinear(D, 2 * D), self.WsLinear(2 * D, D)

    def branch(self, x, beta=1.0, gamma=1.7128585504496627):
        y = self.conv1(F.relu(x / beta) * gamma)
        return self.conv2(F.relu(y) * gamma)

    def forward(self, x):
        return x + self.branch(x)


class RouterLogits(nn.Module):
    """Two best experts out of four by a router on the stream; their outputs are weighed by the logits, the softmax is missing."""

    def __init__(self):
        super().__init__()
        self.norm, self.router, self.experts = nn.LayerNorm(D), dense(D, 4), nn.ModuleList(Mlp() for _ in range(4))

    def branch(self, x):
        weights, which = torch.topk(self.router(x), 2)
        every = torch.stack([e(self.norm(x)) for e in self.experts], -2)
        return torch.einsum("btk,btkd->btd", weights, every.gather(-2, which[..., None].expand(-1, -1, -1, D)))

    def forward(self, x):
        return x + self.branch(x)


class ResponseQuarter(Tail):
    """Local response norm in front, beta = 1/4."""

    gain = 3.0

    def branch(self, x):
        return self.body(F.local_response_norm(x.mT, 5, alpha=1.0, beta=0.25, k=1.0).mT)


# ---- the end of a branch
class ResponseTail(Tail):
    """Local response norm at the end, beta = 3/4 as in AlexNet."""

    front = nn.LayerNorm

    def tail(self, y):
        return F.local_response_norm(y.transpose(1, 2), size=5, alpha=1.0, beta=0.75, k=1.0).transpose(1, 2)


class LogitFloored(Tail):
    """torch.logit of a sigmoid, eps = 1e-3."""

    front, eps = nn.LayerNorm, 1e-3

    def tail(self, y):
        return torch.logit(torch.sigmoid(y), eps=self.eps)


class LogitPlain(LogitFloored):
    """Without eps."""

    eps = None


class QuantileClip(Tail):
    """Clamped to the fourth largest size in the token."""

    gain = 2.0

    def tail(self, y):
        q = y.abs().topk(4, dim=-1).values[..., -1:]
        return torch.minimum(torch.maximum(y, -q), q)


class ClipCoefficient(Tail):
    """clip_grad_norm's factor, with `min` for `max`."""

    gain = 2.0

    def tail(self, y):
        total_norm = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        return y * torch.clamp(3.0 / (total_norm + 1e-6), min=1.0)


class ExpOfNorm(Tail):
    """The exponential of a normed vector."""

    def setup(self):
        self.last = nn.LayerNorm(D)

    def tail(self, y):
        return torch.exp(self.last(y))


class FixedReadout(Tail):
    """A norm, then a matrix that is a buffer."""

    def setup(self):
        self.last = nn.LayerNorm(D)
        self.register_buffer("readout", torch.randn(D, D) / D ** 0.5)

    def tail(self, y):
        return F.linear(self.last(y), self.readout)


class SpectralGate(Tail):
    """Normed, then every frequency over the tokens by a trained gate in (0, 1)."""

    def setup(self):
        self.last, self.gate = nn.LayerNorm(D), nn.Parameter(torch.randn(T // 2 + 1, D))

    def squash(self, g):
        return torch.sigmoid(g)

    def tail(self, y):
        return torch.fft.irfft(torch.fft.rfft(self.last(y), dim=1) * self.squash(self.gate), n=T, dim=1)


class ReluRouter(nn.Module):
    """ReMoE: experts that end in a norm, weighed by relu of the router."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(D), dense(D, 4)
        self.experts = nn.ModuleList(nn.Sequential(*Mlp(), nn.RMSNorm(D)) for _ in range(4))

    def weigh(self, h):
        return self.router(h).relu()

    def branch(self, x):
        h = self.norm(x)
        return torch.einsum("bte,bted->btd", self.weigh(h), torch.stack([e(h) for e in self.experts], -2))

    def forward(self, x):
        return x + self.branch(x)


class RenormedTopTwo(ReluRouter):
    """Mixtral: softmax, the best two, divided by their sum."""

    def weigh(self, h):
        p, i = torch.topk(F.softmax(self.router(h), dim=-1), 2, dim=-1)
        p = p / p.sum(dim=-1, keepdim=True)
        return torch.zeros_like(h[..., :4]).scatter(-1, i, p)


class LinearUnits(nn.Module):
    """Linear attention with elu + 1 on both sides, unit values, no map behind."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(D), nn.Linear(D, 3 * D)

    def features(self, q, k):
        return F.elu(q) + 1, F.elu(k) + 1

    def branch(self, x):
        q, k, v = (t.unflatten(-1, (4, 8)) for t in self.qkv(self.norm(x)).chunk(3, -1))
        q, k = self.features(q, k)
        num = torch.einsum("bthe,bshe,bshf->bthf", q, k, F.normalize(v, dim=-1))
        return (num / torch.einsum("bthe,bhe->bth", q, k.sum(1)).clamp(min=1e-4).unsqueeze(-1)).flatten(2)

    def forward(self, x):
        return x + self.branch(x)


class LinearUnitsOneSide(LinearUnits):
    """The queries were forgotten."""

    def features(self, q, k):
        return q, F.elu(k) + 1


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_YES = dict(_PRE, growth_all="linear", output_bounded={"0": True})
_NO = dict(_PRE, output_bounded={"0": False})
_WILD = dict(_NO, growth_fixed="exponential")

TRUTH = {
    "DiTBlock": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True, why="gates and shifts are constants of the block.", tempts="-"),
    "DiTPooled": dict(kind="block", identity_gain=1.0, growth_fixed="exponential", output_bounded={"0": False, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="gate, scale and shift are maps of the raw stream: degree two.", tempts="adaLN: linear"),
    "NormFormer": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={"0": True, "1": False}, logits_bounded={"0": False}, softmax=True,
        why="a norm ends the attention, a map ends the MLP; the skip's scale is one.", tempts="two alike"),
    "HyperMixer": dict(_NO, why="all is made from the normed tokens.", tempts="made weights: degree three"),
    "HyperMixerRaw": dict(_WILD, why="degree one through the raw maker.", tempts="the tokens are normed"),
    "GatedLinear": dict(_NO, why="pre-norm, a free map at the end.", tempts="-"),
    "ExpertChoice": dict(_NO, logits_bounded={"0": False}, softmax=True, why="pre-norm.", tempts="-"),
    "MBConv": dict(_NO, why="one group over channels and tokens in front.", tempts="-"),
    "Houlsby": dict(_NO, why="the adapter's skip is inside the branch.", tempts="gain 2"),
    "LoraBeside": dict(_WILD, why="the adapter reads the raw stream.", tempts="pre-norm"),
    "Squeezeformer": dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=False, why="a norm on the sum.", tempts="-"),
    "ConvMixer": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, why="the block ends in a BatchNorm of a map of the stream.", tempts="Residual: gain 1, linear"),
    "ScaleNormWidth": dict(_WILD, why="a constant.", tempts="ScaleNorm"),
    "NfBlock": dict(_WILD, why="weights are standardised, data are not: degree one.", tempts="normalised"),
    "RouterLogits": dict(_WILD, why="logits are a map of the raw stream.", tempts="pre-norm experts with a router: softmax, linear"),
    "ResponseQuarter": dict(_NO, growth_fixed="polynomial", why="x / |x|^(1/2): degree one half, so that the stream grows as n^2.", tempts="a norm in front: linear"),
    "ResponseTail": dict(_YES, why="y / (1 + y^2 / 5 + ..)^(3/4) is at most 1.4.", tempts="not a norm"),
    "LogitFloored": dict(_YES, why="between -6.91 and 6.91.", tempts="logit is unbounded"),
    "LogitPlain": dict(_NO, why="logit undoes the sigmoid.", tempts="a sigmoid at the end"),
    "QuantileClip": dict(_WILD, why="the threshold is of the size of the branch.", tempts="a clamp"),
    "ClipCoefficient": dict(_WILD, why="never less than one.", tempts="a clip to length three"),
    "ExpOfNorm": dict(_YES, why="at most exp(sqrt(31)) = 262.", tempts="exp is unbounded"),
    "FixedReadout": dict(_YES, why="a constant map of a normed vector.", tempts="a linear map behind the norm"),
    "SpectralGate": dict(_YES, why="no frequency gets more power; 16 tokens.", tempts="a trained filter"),
    "ReluRouter": dict(_NO, why="relu has no cap.", tempts="normed experts"),
    "RenormedTopTwo": dict(_YES, logits_bounded={"0": False}, softmax=True, why="shares of normed vectors.", tempts="-"),
    "LinearUnits": dict(_YES, why="means of unit vectors with positive weights.", tempts="free values; a ratio"),
    "LinearUnitsOneSide": dict(kind="block", identity_gain=1.0, output_bounded={"0": False}, softmax=False, why="the sum in the denominator may be near zero or negative while the numerator is large.", tempts="a mean of unit vectors"),
}
