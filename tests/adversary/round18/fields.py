"""Blocks of other fields: vision, diffusion, state spaces, speech, series, graphs, control, recommendation; some with one slip."""

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


def mlp(d=D, inner=64, act=nn.GELU):
    return nn.Sequential(lin(d, inner), act(), lin(inner, d))


def image(x):
    """[batch, 16, channels] as a picture of four by four."""
    return x.transpose(1, 2).unflatten(2, (4, 4))


def tokens(x):
    return x.flatten(2).transpose(1, 2)


class MHSA(nn.Module):
    def __init__(self, d=D):
        super().__init__()
        self.qkv, self.proj = lin(d, 3 * d), lin(d, d)

    def forward(self, x, mask=None):
        *lead, n, c = x.shape
        q, k, v = self.qkv(x).reshape(*lead, n, 3, H, c // H).movedim(-3, 0).transpose(-2, -3)
        att = (q * (c // H) ** -0.5) @ k.transpose(-2, -1)
        if mask is not None:
            att = att + mask
        return self.proj((att.softmax(dim=-1) @ v).transpose(-2, -3).reshape(*lead, n, c))


# ------------------------------------------------------------ vision
class ResponseNormBlock(nn.Module):
    """A depthwise filter, a norm over channels, a net with global response normalisation inside."""

    class Response(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.gamma, self.beta = nn.Parameter(torch.zeros(1, 1, 1, d)), nn.Parameter(torch.zeros(1, 1, 1, d))

        def forward(self, x):
            size = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
            return self.gamma * (x * (size / (size.mean(dim=-1, keepdim=True) + 1e-6))) + self.beta + x

    def __init__(self):
        super().__init__()
        self.dwconv = nn.Conv2d(D, D, 3, padding=1, groups=D)
        self.norm, self.pwconv1, self.act, self.grn, self.pwconv2 = nn.LayerNorm(D, eps=1e-6), lin(D, 64), nn.GELU(), self.Response(64), lin(64, D)

    def branch(self, x):
        h = self.dwconv(image(x)).permute(0, 2, 3, 1)
        return self.pwconv2(self.grn(self.act(self.pwconv1(self.norm(h))))).flatten(1, 2)

    def forward(self, x):
        return x + self.branch(x)


class ShiftedWindows(nn.Module):
    """Windows of two by two are rolled, cut, attended to, put together and rolled back."""

    back = True

    def __init__(self, window=2, shift=1):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), MHSA(), mlp()

    def windows(self, h):
        b, w = h.shape[0], self.window
        h = torch.roll(h.view(b, 4, 4, D), (-self.shift, -self.shift), dims=(1, 2))
        h = h.view(b, 4 // w, w, 4 // w, w, D).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, D)
        h = self.attn(h)
        h = h.view(b, 4 // w, 4 // w, w, w, D).permute(0, 1, 3, 2, 4, 5).reshape(b, 4, 4, D)
        return (torch.roll(h, (self.shift, self.shift), dims=(1, 2)) if self.back else h).reshape(b, 16, D)

    def forward(self, x):
        x = x + self.windows(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ShiftedWindowsStay(ShiftedWindows):
    """The roll back was forgotten."""

    back = False


class PoolMixer(nn.Module):
    """Mean pooling less the value, behind a norm over all of a sample; a number for each channel behind each branch."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, D), nn.GroupNorm(1, D)
        self.pool, self.fc1, self.fc2 = nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.Conv2d(D, 64, 1), nn.Conv2d(64, D, 1)
        self.gain_1, self.gain_2 = nn.Parameter(1e-1 * torch.ones(D)), nn.Parameter(1e-1 * torch.ones(D))

    def forward(self, x):
        x = image(x)
        h = self.norm1(x)
        x = x + self.gain_1.view(1, -1, 1, 1) * (self.pool(h) - h)
        x = x + self.gain_2.view(1, -1, 1, 1) * self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return tokens(x)


class PoolMixerWithoutLess(PoolMixer):
    """The skip was moved into the pool's path as well: the pool reads the stream and is not less the value."""

    def forward(self, x):
        x = image(x)
        x = x + self.pool(x)
        x = x + self.gain_2.view(1, -1, 1, 1) * self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return tokens(x)


class SpatialGating(nn.Module):
    """Half of the channels are mixed over places behind a norm and gate the other half; the gate starts at one."""

    def __init__(self, inner=64):
        super().__init__()
        self.norm, self.fc_in, self.norm_v, self.fc_out = nn.LayerNorm(D), lin(D, inner), nn.LayerNorm(inner // 2), lin(inner // 2, D)
        self.spatial = nn.Conv1d(T, T, 1)
        nn.init.zeros_(self.spatial.weight)
        nn.init.ones_(self.spatial.bias)

    def branch(self, x):
        u, v = F.gelu(self.fc_in(self.norm(x))).chunk(2, dim=-1)
        return self.fc_out(u * self.spatial(self.norm_v(v)))

    def forward(self, x):
        return x + self.branch(x)


class AcrossChannels(nn.Module):
    """Attention of channels: queries and keys are unit vectors over places, a temperature by head."""

    axis = -1

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.proj, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D), lin(D, D), mlp()
        self.tau = nn.Parameter(torch.ones(H, 1, 1))

    def attn(self, h):
        q, k, v = self.qkv(h).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 4, 1).unbind(0)
        q, k = F.normalize(q, dim=self.axis), F.normalize(k, dim=self.axis)
        w = ((q @ k.transpose(-2, -1)) * self.tau).softmax(dim=-1)
        return self.proj((w @ v).permute(0, 3, 1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class AcrossChannelsWrongAxis(AcrossChannels):
    """The vectors are scaled over the channels of a head, not over places."""

    axis = -2


class ReluAttention(nn.Module):
    """Kernels of rectified values, one more column for the denominator."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.proj, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 3 * D, False), lin(D, D), mlp()

    def attn(self, h):
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(h).chunk(3, dim=-1))
        q, k = F.relu(q), F.relu(k)
        v = F.pad(v, (0, 1), value=1.0)
        out = q @ (k.transpose(-1, -2) @ v)
        out = out[..., :-1] / (out[..., -1:] + 1e-6)
        return self.proj(out.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TokenMeanRemoved(nn.Module):
    """High frequencies only: the mean over places is taken from the skip by mistake, where it was meant for the branch."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), MHSA(), mlp()

    def forward(self, x):
        x = x - x.mean(1, keepdim=True) + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class AdaptiveShiftOnSkip(nn.Module):
    """Scale and shift of a condition are applied to the stream and not to what is normed."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(D, elementwise_affine=False), mlp()
        self.register_buffer("scale", torch.full((D,), 0.05))
        self.register_buffer("shift", torch.full((D,), 0.1))

    def forward(self, x):
        x = x * (1 + self.scale) + self.shift
        return x + self.mlp(self.norm(x))


class SingleTableModulation(nn.Module):
    """Six rows of one table of a block are added to a time's embedding and scale, shift and gate."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(D, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn, self.mlp, self.scale_shift_table = MHSA(), mlp(), nn.Parameter(torch.randn(6, D) / D ** 0.5)
        self.register_buffer("t", torch.zeros(1, 6, D))

    def forward(self, x):
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = (self.scale_shift_table[None] + self.t).chunk(6, dim=1)
        x = x + gate_a * self.attn(self.norm1(x) * (1 + scale_a) + shift_a)
        return x + gate_m * self.mlp(self.norm2(x) * (1 + scale_m) + shift_m)


class GateOnWholeSum(nn.Module):
    """A closed gate (it starts at a half) stands on the sum instead of on the branch."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), MHSA(), mlp()
        self.gate = nn.Parameter(torch.zeros(D))

    def forward(self, x):
        g = self.gate.sigmoid()
        x = g * (x + self.attn(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class TanhGates(nn.Module):
    """Branches behind tanh of a number that starts at zero, and raw: nobody normed what they read."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp = MHSA(), mlp()
        self.attn_gate, self.ff_gate = nn.Parameter(torch.tensor([0.0])), nn.Parameter(torch.tensor([0.0]))

    def forward(self, x):
        x = x + self.attn(x) * self.attn_gate.tanh()
        return x + self.mlp(x) * self.ff_gate.tanh()


class SkipScaleHalf(nn.Module):
    """A residual block of a score network: group norms and SiLU before filters, the sum over root two."""

    def __init__(self):
        super().__init__()
        self.norm0, self.norm1 = nn.GroupNorm(8, D, eps=1e-6), nn.GroupNorm(8, D, eps=1e-6)
        self.conv0, self.conv1, self.skip_scale = nn.Conv2d(D, D, 3, padding=1), nn.Conv2d(D, D, 3, padding=1), math.sqrt(0.5)

    def forward(self, x):
        orig = x = image(x)
        x = self.conv0(F.silu(self.norm0(x)))
        x = self.conv1(F.silu(self.norm1(x)))
        return tokens(x.add_(orig) * self.skip_scale)


# ------------------------------------------------------------ state spaces, recurrence
class DiagonalKernel(nn.Module):
    """A diagonal state space as a long filter by Fourier transforms, GLU behind."""

    sign = -1.0

    def __init__(self, states=4):
        super().__init__()
        self.norm, self.out = nn.LayerNorm(D), nn.Conv1d(D, 2 * D, 1)
        self.log_dt, self.c = nn.Parameter(torch.rand(D) * 2 - 4), nn.Parameter(torch.randn(D, states, 2) * 0.5 ** 0.5)
        self.log_a, self.a_imag, self.skip = nn.Parameter(torch.full((D, states), math.log(0.5))), nn.Parameter(math.pi * torch.arange(states).repeat(D, 1).float()), nn.Parameter(torch.randn(D))

    def kernel(self, length):
        dt = self.log_dt.exp()[:, None]
        re, im = self.sign * self.log_a.exp() * dt, self.a_imag * dt
        t = torch.arange(length, device=dt.device, dtype=dt.dtype)
        size = (re[..., None] * t).exp()
        return 2 * (size * (self.c[..., 0, None] * (im[..., None] * t).cos() - self.c[..., 1, None] * (im[..., None] * t).sin()) * dt[..., None]).sum(1)

    def branch(self, x):
        u = self.norm(x).transpose(1, 2)
        n = u.shape[-1]
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * n) * torch.fft.rfft(self.kernel(n), n=2 * n), n=2 * n)[..., :n] + u * self.skip[:, None]
        return F.glu(self.out(F.gelu(y)), dim=1).transpose(1, 2)

    def forward(self, x):
        return x + self.branch(x)


class DiagonalKernelGrows(DiagonalKernel):
    """The minus before the exponential of the decay was lost: the filter grows along the sequence."""

    sign = 1.0


class ChannelMixShifted(nn.Module):
    """Squared ReLU of a mix with the place before, a sigmoid gate, all of what is normed."""

    raw = False

    def __init__(self):
        super().__init__()
        self.ln, self.key, self.receptance, self.value = nn.LayerNorm(D), lin(D, 64, False), lin(D, D, False), lin(64, D, False)
        self.mix_k, self.mix_r = nn.Parameter(torch.full((D,), 0.5)), nn.Parameter(torch.full((D,), 0.5))
        self.time_shift = nn.ZeroPad2d((0, 0, 1, -1))

    def branch(self, x):
        h = self.ln(x)
        before = self.time_shift(x if self.raw else h)
        k = torch.lerp(h, before, self.mix_k)
        r = h + (before - h) * self.mix_r
        return torch.sigmoid(self.receptance(r)) * self.value(torch.relu(self.key(k)) ** 2)

    def forward(self, x):
        return x + self.branch(x)


class ChannelMixShiftedRaw(ChannelMixShifted):
    """The place before is taken from the stream and not from what is normed."""

    raw = True


class MatrixMemory(nn.Module):
    """A matrix memory with exponential input gates, held in range by a running maximum; what is read is divided by at least one."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.gates, self.out_norm, self.out, self.o = nn.LayerNorm(D), lin(D, 3 * D), lin(D, 2 * H), nn.LayerNorm(HD), lin(D, D), lin(D, D)

    def branch(self, x):
        h = self.norm(x)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        i, f = self.gates(h).transpose(1, 2).chunk(2, dim=1)
        logf = F.logsigmoid(f).cumsum(-1)
        z = logf[..., :, None] - logf[..., None, :] + i[..., None, :]
        z = z.masked_fill(~torch.ones(T, T, dtype=torch.bool, device=x.device).tril(), -math.inf)
        top = z.amax(-1, keepdim=True)
        c = (q @ k.mT) * HD ** -0.5 * (z - top).exp()
        y = c / torch.maximum(c.sum(-1, keepdim=True).abs(), (-top).exp()) @ v
        return self.out(self.out_norm(y.transpose(1, 2)).flatten(2) * torch.sigmoid(self.o(h)))

    def forward(self, x):
        return x + self.branch(x)


class GatedRecurrentUnitNormed(nn.Module):
    """A minimal gated recurrence of what is normed, by a cumulative sum in logarithms; a norm behind."""

    def __init__(self):
        super().__init__()
        self.norm, self.post, self.zh = nn.RMSNorm(D), nn.RMSNorm(D), lin(D, 2 * D)

    def branch(self, x):
        z, h = self.zh(self.norm(x)).chunk(2, -1)
        log_keep, log_in = -F.softplus(z), -F.softplus(-z)
        log_h = torch.where(h >= 0, (F.relu(h) + 0.5).log(), -F.softplus(-h))
        a = log_keep.cumsum(1)
        return self.post((a + torch.logcumsumexp(log_in + log_h - a, dim=1)).exp())

    def forward(self, x):
        return x + self.branch(x)


# ------------------------------------------------------------ speech, series
class ScaleBiasPost(nn.Module):
    """Post-norm with a trained scale and bias before each part."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), MHSA(), mlp(act=nn.SiLU)
        self.scale = nn.ParameterList(torch.ones(D) for _ in range(2))
        self.bias = nn.ParameterList(torch.zeros(D) for _ in range(2))

    def forward(self, x):
        x = self.ln1(x + self.attn(x * self.scale[0] + self.bias[0]))
        return self.ln2(x + self.ff(x * self.scale[1] + self.bias[1]))


class SnakeUnit(nn.Module):
    """A unit of a vocoder: x + sin² over α twice before filters, no norm."""

    def __init__(self, dilation=3):
        super().__init__()
        self.a1, self.a2 = nn.Parameter(torch.ones(1, D, 1)), nn.Parameter(torch.ones(1, D, 1))
        self.c1, self.c2 = nn.Conv1d(D, D, 3, padding=dilation, dilation=dilation), nn.Conv1d(D, D, 1)

    @staticmethod
    def snake(x, a):
        return x + (a + 1e-9).reciprocal() * torch.sin(a * x).pow(2)

    def forward(self, x):
        h = x.transpose(1, 2)
        y = self.c2(self.snake(self.c1(self.snake(h, self.a1)), self.a2))
        return (h + y).transpose(1, 2)


class BatchNormPost(nn.Module):
    """Series by patches: batch norms behind the sums, over batch and places."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm1d(D), nn.BatchNorm1d(D)
        self.attn, self.ff = MHSA(), mlp()

    def forward(self, x):
        x = self.norm1((x + self.attn(x)).transpose(1, 2)).transpose(1, 2)
        return self.norm2((x + self.ff(x)).transpose(1, 2)).transpose(1, 2)


class Decomposed(nn.Module):
    """A moving mean is taken away behind each sum: only what is seasonal goes on."""

    def __init__(self, k=5):
        super().__init__()
        self.k, self.norm1, self.norm2, self.attn, self.ff = k, nn.LayerNorm(D), nn.LayerNorm(D), MHSA(), mlp()

    def seasonal(self, x):
        padded = torch.cat((x[:, :1].expand(-1, self.k // 2, -1), x, x[:, -1:].expand(-1, self.k // 2, -1)), dim=1)
        return x - F.avg_pool1d(padded.transpose(1, 2), self.k, stride=1).transpose(1, 2)

    def forward(self, x):
        x = self.seasonal(x + self.attn(self.norm1(x)))
        return self.seasonal(x + self.ff(self.norm2(x)))


class BackcastRaw(nn.Module):
    """Double residual without norms: each block takes what it explains away."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(lin(D, 64), nn.ReLU(), lin(64, 64), nn.ReLU(), lin(64, D))

    def branch(self, x):
        return self.net(x)

    def forward(self, x):
        return x - self.branch(x)


# ------------------------------------------------------------ graphs, control, recommendation
class LocalAndGlobal(nn.Module):
    """A graph layer: messages and attention, each with its own skip and norm, are added, so that the skip counts twice before the last norm."""

    def __init__(self):
        super().__init__()
        self.norm_l, self.norm_a, self.norm_o, self.attn, self.ff, self.msg = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), MHSA(), mlp(), mlp()
        ring = torch.eye(T).roll(1, 0)
        self.register_buffer("adj", ring + ring.t())

    def forward(self, x):
        local = self.norm_l(x + self.msg(x + torch.matmul(self.adj, x)))
        far = self.norm_a(x + self.attn(x))
        h = local + far
        return self.norm_o(h + self.ff(h))


class SelfLoopTwice(nn.Module):
    """The normalised adjacency has self loops, and the block adds the state once more."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff = nn.LayerNorm(D), mlp()
        a = torch.eye(T) + torch.eye(T).roll(1, 0) + torch.eye(T).roll(-1, 0)
        self.register_buffer("a_hat", a / a.sum(1, keepdim=True))

    def forward(self, x):
        x = x + self.a_hat @ x
        return x + self.ff(self.norm(x))


class Propagation(nn.Module):
    """Personalised propagation: nine tenths of the neighbours' mean and a tenth of a net of what is normed."""

    def __init__(self, alpha=0.1):
        super().__init__()
        self.alpha, self.norm, self.ff = alpha, nn.LayerNorm(D), mlp()
        a = torch.eye(T) + torch.eye(T).roll(1, 0) + torch.eye(T).roll(-1, 0)
        self.register_buffer("a_hat", a / 3)

    def forward(self, x):
        return torch.matmul(self.a_hat, x).mul(1 - self.alpha).add(self.ff(self.norm(x)), alpha=self.alpha)


class OutputNormedResidual(nn.Module):
    """A critic's block: map, norm, ReLU, map, norm, and the skip."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(lin(D, 64), nn.LayerNorm(64), nn.ReLU(), lin(64, D), nn.LayerNorm(D))

    def branch(self, x):
        return self.net(x)

    def forward(self, x):
        return x + self.branch(x)


class CrossLayer(nn.Module):
    """A cross layer of low rank on the state itself, not on the first one."""

    def __init__(self, rank=8):
        super().__init__()
        self.v, self.u = lin(D, rank, False), lin(rank, D)

    def branch(self, x):
        return x * self.u(self.v(x))

    def forward(self, x):
        return torch.addcmul(x, x, self.u(self.v(x)))


class PointwiseUnits(nn.Module):
    """Attention by SiLU without a softmax, over the number of places; a norm behind, times a gate of SiLU."""

    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_out, self.f1, self.f2 = nn.LayerNorm(D), nn.LayerNorm(D), lin(D, 4 * D), lin(D, D)
        self.rel = nn.Parameter(torch.zeros(2 * T - 1))

    def branch(self, x):
        n = x.shape[1]
        u, q, k, v = F.silu(self.f1(self.norm_in(x))).chunk(4, dim=-1)
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in (q, k, v))
        i = torch.arange(n, device=x.device)
        w = F.silu(q @ k.transpose(-1, -2) + self.rel[i[:, None] - i + T - 1]) / n
        w = w * torch.ones(n, n, device=x.device, dtype=x.dtype).tril()
        return self.f2(self.norm_out((w @ v).transpose(1, 2).flatten(2)) * u)

    def forward(self, x):
        return self.branch(x).add(x)


class MomentumKept(nn.Module):
    """A running mean of the stream: nine tenths and, by a slip, two tenths of what a normed net gives plus the state."""

    def __init__(self, m=0.9):
        super().__init__()
        self.m, self.norm, self.ff = m, nn.LayerNorm(D), mlp()

    def forward(self, x):
        new = x + self.ff(self.norm(x))
        return self.m * x + 2 * (1 - self.m) * new


class MomentumRight(MomentumKept):
    """Nine tenths and one."""

    def forward(self, x):
        new = x + self.ff(self.norm(x))
        return self.m * x + (1 - self.m) * new


class GatesPastOne(nn.Module):
    """Update and keep gates are two sigmoids of what is normed with a bias of two: together they are more than one."""

    def __init__(self):
        super().__init__()
        self.norm, self.z, self.k, self.h = nn.LayerNorm(D), lin(D, D), lin(D, D), lin(D, D)
        nn.init.constant_(self.z.bias, 2.0)
        nn.init.constant_(self.k.bias, 2.0)

    def forward(self, x):
        n = self.norm(x)
        return torch.sigmoid(self.k(n)) * x + torch.sigmoid(self.z(n)) * torch.tanh(self.h(n))


_B = dict(kind="block")
_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_PRE = dict(_NET, softmax=True)
_TWO = dict(output_bounded={0: False, 1: False})
_ONE = dict(output_bounded={0: False})
_ON = dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True)
_F, _T = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "ResponseNormBlock": dict(_NET, **_ONE, why="a norm behind the first filter."),
    "ShiftedWindows": dict(_PRE, **_TWO, **_F, why="pre-norm; places move and come back."),
    "ShiftedWindowsStay": dict(_PRE, **_TWO, **_F, why="pre-norm; the branch alone is moved."),
    "PoolMixer": dict(_NET, output_bounded={0: True, 1: False}, why="means of normed values; a net behind a norm."),
    "PoolMixerWithoutLess": dict(_B, growth_fixed="exponential", softmax=False, why="what is even is doubled."),
    "SpatialGating": dict(_NET, **_ONE, why="pre-norm."),
    "AcrossChannels": dict(_PRE, **_TWO, **_T, why="unit vectors."),
    "AcrossChannelsWrongAxis": dict(_PRE, **_TWO, **_T, why="entries are at most one: a product over sixteen places is at most sixteen."),
    "ReluAttention": dict(_NET, **_TWO, why="shares of one at most."),
    "TokenMeanRemoved": dict(_PRE, **_TWO, **_F, why="what differs over places is kept."),
    "AdaptiveShiftOnSkip": dict(_B, identity_gain=1.05 ** 24, growth_fixed="exponential", softmax=False, **_ONE, why="1.05 a block."),
    "SingleTableModulation": dict(_PRE, **_F, why="pre-norm; gates are weights."),
    "GateOnWholeSum": dict(_B, identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=True, **_F, why="a half a block."),
    "TanhGates": dict(_B, identity_gain=1.0, growth_fixed="bounded", softmax=True, **_F, why="nothing is added at the start."),
    "SkipScaleHalf": dict(_B, identity_gain=0.5 ** 12, growth_fixed="bounded", softmax=False, why="one over root two a block."),
    "DiagonalKernel": dict(_NET, **_ONE, why="pre-norm."),
    "DiagonalKernelGrows": dict(_NET, **_ONE, why="pre-norm: a filter of sixteen places is a number."),
    "ChannelMixShifted": dict(_NET, **_ONE, why="pre-norm."),
    "ChannelMixShiftedRaw": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, **_ONE, why="a square of the stream."),
    "MatrixMemory": dict(_LIN, **_ONE, why="a map behind the norm; pre-norm."),
    "GatedRecurrentUnitNormed": dict(_LIN, growth_all="linear", output_bounded={0: True}, why="a norm ends the branch."),
    "ScaleBiasPost": dict(_ON, growth_all="bounded", **_F, why="post-norm."),
    "SnakeUnit": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, why="a raw branch of degree one."),
    "BatchNormPost": dict(_ON, growth_all="bounded", **_F, why="batch norms on the stream."),
    "Decomposed": dict(_B, softmax=True, **_F, why="of what is kept no word."),
    "BackcastRaw": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, **_ONE, why="a raw branch of degree one."),
    "LocalAndGlobal": dict(_ON, growth_all="bounded", **_F, why="a norm ends the block."),
    "SelfLoopTwice": dict(_B, identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=False, why="what all nodes share is doubled."),
    "Propagation": dict(_B, identity_gain=0.9 ** 24, growth_fixed="bounded", softmax=False, **_ONE, why="nine tenths of a mean."),
    "OutputNormedResidual": dict(_NET, growth_all="linear", output_bounded={0: True}, why="a norm ends the branch."),
    "CrossLayer": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, why="a raw branch of degree two."),
    "PointwiseUnits": dict(_NET, **_ONE, why="pre-norm."),
    "MomentumKept": dict(_B, identity_gain=1.1 ** 24, growth_fixed="exponential", softmax=False, why="0.9 and 0.2."),
    "MomentumRight": dict(_NET, why="0.9 and 0.1."),
    "GatesPastOne": dict(_B, gated=True, growth_fixed="bounded", softmax=False, why="the keep gate knows what is normed: at most a number below one."),
}
