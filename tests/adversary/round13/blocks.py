"""Forty-odd residual blocks in spellings of many trades; about half have one slip each, some of them harmless."""

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum

D, T, H = 32, 16, 4


def example_inputs():
    return (torch.randn(2, T, D),)


def exists(v):
    return v is not None


def default(v, d):
    return v if exists(v) else d


# ============================================================ sound designs
class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(x, **kwargs) + x


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class GEGLU(nn.Module):
    def forward(self, x):
        x, gates = x.chunk(2, dim=-1)
        return F.gelu(gates) * x


def FeedForward(dim=D, mult=4, glu=True):
    return nn.Sequential(nn.Linear(dim, dim * mult * (2 if glu else 1)), GEGLU() if glu else nn.GELU(), nn.Dropout(0.0), nn.Linear(dim * mult, dim))


class LucidAttention(nn.Module):
    """Separate q and kv, einsum, a causal triangle; optionally l2-normed with a fixed scale."""

    def __init__(self, dim=D, dim_head=8, heads=H, causal=False, cosine=None):
        super().__init__()
        inner = dim_head * heads
        self.heads, self.scale, self.causal, self.cosine = heads, default(cosine, dim_head ** -0.5), causal, exists(cosine)
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_kv = nn.Linear(dim, inner * 2, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, dim), nn.Dropout(0.0))

    def forward(self, x, context=None, mask=None):
        b, n, _, h = *x.shape, self.heads
        context = default(context, x)
        q, k, v = (self.to_q(x), *self.to_kv(context).chunk(2, dim=-1))
        q, k, v = map(lambda t: t.reshape(b, -1, h, t.shape[-1] // h).transpose(1, 2), (q, k, v))
        if self.cosine:
            q, k = map(partial(F.normalize, dim=-1), (q, k))
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        if self.causal:
            i, j = sim.shape[-2:]
            sim = sim.masked_fill(torch.ones((i, j), device=x.device, dtype=torch.bool).triu(j - i + 1), -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class LucidLayer(nn.Module):
    """Residual(PreNorm(...)) twice."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Residual(PreNorm(D, LucidAttention(causal=True))), Residual(PreNorm(D, FeedForward()))])

    def forward(self, x):
        attn, ff = self.layers
        return ff(attn(x))


class CosineSimLayer(nn.Module):
    """Cosine similarity with the constant 10, pre-norm."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff = PreNorm(D, LucidAttention(cosine=10)), PreNorm(D, FeedForward(glu=False))

    def forward(self, x, mask=None):
        x = self.attn(x, mask=mask) + x
        x = self.ff(x) + x
        return x


class ZeroCenteredRms(nn.Module):
    """x / rms * (1 + w), in float32."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        dtype = x.dtype
        x = x.to(torch.promote_types(dtype, torch.float32))
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return (x * (1.0 + self.gain)).to(dtype)


class GemmaStyleLayer(nn.Module):
    """Four norms a layer, capped logits, grouped keys."""

    def __init__(self, n_kv=2, cap=50.0):
        super().__init__()
        self.n_kv, self.cap = n_kv, cap
        self.input_layernorm, self.post_attention_layernorm = ZeroCenteredRms(D), ZeroCenteredRms(D)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = ZeroCenteredRms(D), ZeroCenteredRms(D)
        self.q_proj, self.o_proj = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.kv_proj = nn.Linear(D, 2 * n_kv * (D // H), bias=False)
        self.gate_up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(2 * D, D, bias=False)

    def attention(self, h):
        b, n, _ = h.shape
        q = self.q_proj(h).view(b, n, H, -1).transpose(1, 2)
        k, v = self.kv_proj(h).view(b, n, 2, self.n_kv, -1).permute(2, 0, 3, 1, 4)
        k, v = (t[:, :, None].expand(-1, -1, H // self.n_kv, -1, -1).reshape(b, H, n, -1) for t in (k, v))
        w = torch.matmul(q, k.transpose(2, 3)) * (D // H) ** -0.5
        w = torch.tanh(w / self.cap) * self.cap
        w = w + torch.full((n, n), float("-inf"), device=h.device, dtype=h.dtype).triu(1)
        return self.o_proj((F.softmax(w, dim=-1) @ v).transpose(1, 2).flatten(2))

    def mlp(self, h):
        gate, up = self.gate_up(h).chunk(2, -1)
        return self.down(F.gelu(gate, approximate="tanh") * up)

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = self.post_attention_layernorm(self.attention(self.input_layernorm(hidden_states)))
        hidden_states = residual + hidden_states
        residual = hidden_states
        hidden_states = self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(hidden_states)))
        return residual + hidden_states


class ReorderedNormLayer(nn.Module):
    """Norms behind the branches only; q and k normed at full width before the heads are cut."""

    def __init__(self):
        super().__init__()
        self.att_proj, self.attn_out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(D), nn.RMSNorm(D)
        self.ff_proj, self.ff_out = nn.Linear(D, 6 * D, bias=False), nn.Linear(3 * D, D, bias=False)
        self.attn_norm, self.ff_norm = nn.RMSNorm(D), nn.RMSNorm(D)

    def attn(self, x):
        q, k, v = self.att_proj(x).split((D, D, D), dim=-1)
        q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (t.unflatten(-1, (H, -1)).movedim(-2, 1) for t in (q, k, v))
        return self.attn_norm(self.attn_out(F.scaled_dot_product_attention(q, k, v, is_causal=True).movedim(1, -2).flatten(-2)))

    def ff(self, x):
        a, g = self.ff_proj(x).chunk(2, dim=-1)
        return self.ff_norm(self.ff_out(F.silu(g) * a))

    def forward(self, x):
        x = torch.add(x, self.attn(x))
        return torch.add(x, self.ff(x))


class FunctionalParams(nn.Module):
    """Everything by hand from a ParameterDict."""

    def __init__(self):
        super().__init__()
        w = lambda *s: nn.Parameter(torch.randn(*s) / math.sqrt(s[0]))
        self.p = nn.ParameterDict({
            "wqkv": w(D, 3, H, D // H), "wo": w(H, D // H, D), "w1": w(D, 4 * D), "b1": nn.Parameter(torch.zeros(4 * D)),
            "w2": w(4 * D, D), "g1": nn.Parameter(torch.ones(D)), "g2": nn.Parameter(torch.ones(D)),
        })

    def forward(self, x):
        p = self.p
        h = F.layer_norm(x, (D,), p["g1"])
        q, k, v = torch.einsum("btd,dshe->sbhte", h, p["wqkv"])
        a = torch.einsum("bhte,bhse->bhts", q, k).div(math.sqrt(q.size(-1)))
        a = torch.softmax(a, -1)
        x = x + torch.einsum("bhts,bhse,hed->btd", a, v, p["wo"])
        h = F.layer_norm(x, (D,), p["g2"])
        return x + torch.addmm(torch.zeros((), device=x.device, dtype=x.dtype), F.relu(h.flatten(0, 1) @ p["w1"] + p["b1"]), p["w2"]).view_as(x)


class DecoderOnLearnedMemory(nn.Module):
    """nn.TransformerDecoderLayer, norm first, over a bank of eight slots."""

    def __init__(self):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(1, 8, D))
        self.layer = nn.TransformerDecoderLayer(D, H, 64, dropout=0.0, activation=F.silu, batch_first=True, norm_first=True)

    def forward(self, tgt):
        return self.layer(tgt, self.slots.expand(tgt.size(0), -1, -1))


class LibraryPostNorm(nn.TransformerEncoderLayer):
    """The library's encoder layer as it comes."""

    def __init__(self):
        super().__init__(D, H, dim_feedforward=4 * D, dropout=0.0, batch_first=True, layer_norm_eps=1e-6)


class OneHead(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(D, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(T, T)))

    def forward(self, x):
        n = x.shape[1]
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features ** -0.5
        wei = F.softmax(wei.masked_fill(self.tril[:n, :n] == 0, float("-inf")), dim=-1)
        return wei @ self.value(x)


class LectureBlock(nn.Module):
    """A list of heads, concatenated, communication before computation."""

    def __init__(self):
        super().__init__()
        self.sa_heads = nn.ModuleList([OneHead(D // H) for _ in range(H)])
        self.proj = nn.Linear(D, D)
        self.ffwd = nn.Sequential(nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D), nn.Dropout(0.2))
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        h = self.ln1(x)
        x = x + self.proj(torch.cat([head(h) for head in self.sa_heads], dim=-1))
        x = x + self.ffwd(self.ln2(x))
        return x


class MixerBlock(nn.Module):
    """Token mixing along the transposed axis, then channels."""

    def __init__(self):
        super().__init__()
        mlp = lambda d, m: nn.Sequential(nn.Linear(d, m), nn.GELU(), nn.Linear(m, d))
        self.norm1, self.token_mixing = nn.LayerNorm(D), mlp(T, 24)
        self.norm2, self.channel_mixing = nn.LayerNorm(D), mlp(D, 96)

    def forward(self, x):
        y = self.norm1(x).swapaxes(1, 2)
        x = x + self.token_mixing(y).swapaxes(1, 2)
        return x + self.channel_mixing(self.norm2(x))


class SpatialGatingBlock(nn.Module):
    """gMLP: one half gates the other through a map over tokens that starts at one."""

    def __init__(self, dim_ff=64):
        super().__init__()
        self.norm, self.proj_in = nn.LayerNorm(D), nn.Linear(D, dim_ff)
        self.sgu_norm, self.spatial = nn.LayerNorm(dim_ff // 2), nn.Conv1d(T, T, 1)
        nn.init.uniform_(self.spatial.weight, -1e-3 / T, 1e-3 / T)
        nn.init.constant_(self.spatial.bias, 1.0)
        self.proj_out = nn.Linear(dim_ff // 2, D)

    def forward(self, x):
        shortcut = x
        res, gate = F.gelu(self.proj_in(self.norm(x))).chunk(2, dim=-1)
        return self.proj_out(res * self.spatial(self.sgu_norm(gate))) + shortcut


class ConvNext1d(nn.Module):
    """A depthwise convolution of the raw stream, a norm behind it, a layer scale of 1e-6."""

    def __init__(self, layer_scale_init_value=1e-6):
        super().__init__()
        self.dwconv = nn.Conv1d(D, D, kernel_size=7, padding=3, groups=D)
        self.norm = nn.LayerNorm(D, eps=1e-6)
        self.pwconv1, self.act, self.pwconv2 = nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D)
        self.gamma = nn.Parameter(layer_scale_init_value * torch.ones(D), requires_grad=True)

    def forward(self, x):
        input = x
        x = self.dwconv(x.permute(0, 2, 1)).permute(0, 2, 1)
        x = self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        if self.gamma is not None:
            x = self.gamma * x
        return input + x


class WaveNetLayer(nn.Module):
    """A dilated causal convolution, tanh times sigmoid, a 1x1 back to the stream; no norm anywhere."""

    def __init__(self, dilation=2):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.conv = nn.Conv1d(D, 2 * D, 3, dilation=dilation)
        self.res = nn.Conv1d(D, D, 1)

    def forward(self, x):
        x = x.transpose(1, 2)
        f, g = self.conv(self.pad(x)).chunk(2, dim=1)
        return (x + self.res(torch.tanh(f) * torch.sigmoid(g))).transpose(1, 2)


class BasicBlock1d(nn.Module):
    """ResNet v1: batch norm behind each convolution, a ReLU on the sum."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(D, D, 3, padding=1, bias=False), nn.BatchNorm1d(D)
        self.conv2, self.bn2 = nn.Conv1d(D, D, 3, padding=1, bias=False), nn.BatchNorm1d(D)

    def forward(self, x):
        identity = x = x.mT
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + identity).mT


class SqrtHalfResidual(nn.Module):
    """Convolutional sequence to sequence: a GLU, and each sum times the root of a half; with norms in front."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(D), nn.Conv1d(D, 2 * D, 3, padding=2)

    def forward(self, x):
        residual = x
        y = self.conv(self.norm(x).transpose(1, 2))[..., :-2]
        return (F.glu(y, dim=1).transpose(1, 2) + residual) * math.sqrt(0.5)


class MacaronLayer(nn.Module):
    """Half a net, attention, a convolution, half a net; no norm at the end."""

    def __init__(self):
        super().__init__()
        self.ff1, self.ff2 = (nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.SiLU(), nn.Linear(4 * D, D)) for _ in range(2))
        self.attn_norm, self.attn = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True)
        self.conv_norm, self.pw1, self.dw, self.pw2 = nn.LayerNorm(D), nn.Conv1d(D, 2 * D, 1), nn.Conv1d(D, D, 5, padding=2, groups=D), nn.Conv1d(D, D, 1)

    def conv(self, x):
        return self.pw2(F.silu(self.dw(F.glu(self.pw1(self.conv_norm(x).mT), dim=1)))).mT

    def forward(self, x):
        x = x.add(self.ff1(x), alpha=0.5)
        h = self.attn_norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        x = x + self.conv(x)
        return x.add(self.ff2(x), alpha=0.5)


class NeoXParallel(nn.Module):
    """Two norms of the same stream, attention and net side by side, one sum."""

    def __init__(self):
        super().__init__()
        self.ln_a, self.ln_m = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn, self.mlp = LucidAttention(causal=True), FeedForward(glu=False)

    def forward(self, x):
        return self.mlp(self.ln_m(x)) + self.attn(self.ln_a(x)) + x


class LinformerBlock(nn.Module):
    """Keys and values are projected from 16 places to 4."""

    def __init__(self, k=4):
        super().__init__()
        self.norm, self.norm_ff, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), FeedForward()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.proj_k, self.proj_v = nn.Parameter(torch.empty(T, k).uniform_(-0.5, 0.5)), nn.Parameter(torch.empty(T, k).uniform_(-0.5, 0.5))

    def forward(self, x):
        b, n, d = x.shape
        y = self.norm(x)
        q = self.to_q(y).reshape(b, n, H, -1).transpose(1, 2)
        keys, values = (torch.einsum("bnd,nk->bkd", f(y), p[:n]) for f, p in ((self.to_k, self.proj_k), (self.to_v, self.proj_v)))
        keys, values = (t.reshape(b, -1, H, d // H).transpose(1, 2) for t in (keys, values))
        dots = torch.einsum("bhnd,bhkd->bhnk", q, keys) * (d // H) ** -0.5
        out = torch.einsum("bhnk,bhkd->bhnd", dots.softmax(dim=-1), values)
        x = x + self.to_out(out.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.norm_ff(x))


class LongConvGates(nn.Module):
    """Hyena of order two: an FFT convolution between two gates, behind a norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.in_proj, self.out_proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.short = nn.Conv1d(3 * D, 3 * D, 3, padding=2, groups=3 * D)
        self.h, self.bias = nn.Parameter(torch.randn(D, T) * 0.2), nn.Parameter(torch.ones(D))

    def forward(self, u):
        n = u.shape[1]
        z = self.short(self.in_proj(self.norm(u)).transpose(1, 2))[..., :n]
        x1, x2, v = z.split(D, dim=1)
        v = v * x1
        y = torch.fft.irfft(torch.fft.rfft(v, n=2 * n) * torch.fft.rfft(self.h, n=2 * n), n=2 * n)[..., :n] + v * self.bias[:, None]
        return u + self.out_proj((y * x2).transpose(1, 2))


class GruGate(nn.Module):
    def __init__(self, bg=2.0):
        super().__init__()
        self.wy, self.ux, self.ug = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False)
        self.bg = bg

    def forward(self, x, y):
        yr, yz, yh = self.wy(y).chunk(3, -1)
        xr, xz = self.ux(x).chunk(2, -1)
        r, z = torch.sigmoid(yr + xr), torch.sigmoid(yz + xz - self.bg)
        return (1 - z) * x + z * torch.tanh(yh + self.ug(r * x))


class GatedXlLayer(nn.Module):
    """GTrXL: identity-map reordering and a GRU in place of each sum."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn, self.mlp, self.gate1, self.gate2 = LucidAttention(causal=True), FeedForward(glu=False), GruGate(), GruGate()

    def forward(self, h):
        y = self.attn(self.norm1(h))
        h = self.gate1(h, F.relu(y))
        return self.gate2(h, F.relu(self.mlp(self.norm2(h))))


class MinGruBlock(nn.Module):
    """Gates that know the input only; the recurrence as a loop over places, expansion 1.5."""

    def __init__(self, inner=48):
        super().__init__()
        self.norm, self.to_hg, self.to_out = nn.RMSNorm(D), nn.Linear(D, 2 * inner, bias=False), nn.Linear(inner, D, bias=False)

    @staticmethod
    def g(x):
        return torch.where(x >= 0, x + 0.5, x.sigmoid())

    def forward(self, x):
        hidden, gate = self.to_hg(self.norm(x)).chunk(2, dim=-1)
        hidden, z = self.g(hidden), gate.sigmoid()
        h, out = torch.zeros_like(hidden[:, 0]), []
        for t in range(x.shape[1]):
            h = torch.lerp(h, hidden[:, t], z[:, t])
            out.append(h)
        return x + self.to_out(torch.stack(out, dim=1))


class TokenShiftChannelMix(nn.Module):
    """RWKV's channel mix: the place before, squared ReLU, a receptance."""

    def __init__(self):
        super().__init__()
        self.ln, self.time_shift = nn.LayerNorm(D), nn.ZeroPad2d((0, 0, 1, -1))
        self.mix_k, self.mix_r = nn.Parameter(torch.full((1, 1, D), 0.5)), nn.Parameter(torch.full((1, 1, D), 0.5))
        self.key, self.receptance, self.value = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False), nn.Linear(3 * D, D, bias=False)

    def branch_(self, x):
        xx = self.time_shift(x)
        k = self.key(x * self.mix_k + xx * (1 - self.mix_k))
        r = self.receptance(x * self.mix_r + xx * (1 - self.mix_r))
        return torch.sigmoid(r) * self.value(torch.square(torch.relu(k)))

    def forward(self, x):
        return x + self.branch_(self.ln(x))


class TalkingHeads(nn.Module):
    """Logits and weights are mixed over heads."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)
        self.proj_l, self.proj_w = nn.Linear(H, H), nn.Linear(H, H)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(self.norm(x)).reshape(B, N, 3, H, C // H).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * (C // H) ** -0.5, qkv[1], qkv[2]
        attn = self.proj_l((q @ k.transpose(-2, -1)).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = self.proj_w(attn.softmax(dim=-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return x + self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class RegisterTokens(nn.Module):
    """Four registers are put in front inside the branch and cut off behind it."""

    def __init__(self):
        super().__init__()
        self.registers = nn.Parameter(torch.randn(4, D) * 0.02)
        self.norm, self.mha = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True, bias=False, add_zero_attn=True)
        self.ff = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Mish(), nn.Linear(2 * D, D))

    def forward(self, x):
        r = self.registers.expand(x.shape[0], -1, -1)
        y = self.norm(torch.cat((r, x), dim=1))
        y, _ = self.mha(y, y, y, need_weights=False)
        x = x + y[:, r.shape[1]:]
        return x + self.ff(x)


class AxialBlock(nn.Module):
    """Sixteen places as a 4 by 4 grid: attention along rows, then along columns."""

    def __init__(self):
        super().__init__()
        self.rows, self.cols = PreNorm(D, LucidAttention()), PreNorm(D, LucidAttention())
        self.ff = PreNorm(D, FeedForward())

    def forward(self, x):
        b = x.shape[0]
        g = x.reshape(b * 4, 4, D)
        g = (g + self.rows(g)).view(b, 4, 4, D).transpose(1, 2).reshape(b * 4, 4, D)
        g = (g + self.cols(g)).view(b, 4, 4, D).transpose(1, 2).reshape(b, 16, D)
        return g + self.ff(g)


class AlibiQkNorm(nn.Module):
    """One key for all heads, unit queries and keys times the root of the head, linear biases by distance."""

    def __init__(self):
        super().__init__()
        self.hd = D // H
        self.norm, self.wq, self.wkv, self.wo = nn.RMSNorm(D), nn.Linear(D, D, bias=False), nn.Linear(D, 2 * (D // H), bias=False), nn.Linear(D, D, bias=False)
        self.register_buffer("slopes", 2.0 ** -torch.arange(1.0, H + 1))

    def forward(self, x):
        b, n, _ = x.shape
        h = self.norm(x)
        q, (k, v) = self.wq(h).view(b, n, H, self.hd), self.wkv(h).chunk(2, dim=-1)
        q = q / q.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        k = k / k.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        s = math.sqrt(self.hd) * torch.einsum("bihd,bjd->bhij", q, k)
        i = torch.arange(n, device=x.device)
        s = s - self.slopes[:, None, None] * (i[:, None] - i[None]).abs()
        return x + self.wo(torch.einsum("bhij,bjd->bihd", s.softmax(-1), v).flatten(2))


class SqueezeExciteConv(nn.Module):
    """Pre-activation convolutions; the branch is gated by its own mean over places."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(4, D), nn.SiLU(), nn.Conv1d(D, D, 3, padding="same"), nn.GroupNorm(4, D), nn.SiLU(), nn.Conv1d(D, D, 3, padding="same"))
        self.fc = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(D, D // 8, 1), nn.ReLU(), nn.Conv1d(D // 8, D, 1), nn.Sigmoid())

    def forward(self, x):
        y = self.body(x.transpose(-1, -2))
        return x + (y * self.fc(y)).transpose(-1, -2)


class GatV2Layer(nn.Module):
    """Additive attention over a full graph, pre-norm, heads averaged."""

    def __init__(self):
        super().__init__()
        self.norm, self.lin_l, self.lin_r = nn.LayerNorm(D), nn.Linear(D, H * D), nn.Linear(D, H * D)
        self.att, self.bias = nn.Parameter(torch.empty(H, D)), nn.Parameter(torch.zeros(D))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x):
        h = self.norm(x)
        xl, xr = (f(h).unflatten(-1, (H, D)) for f in (self.lin_l, self.lin_r))
        e = (F.leaky_relu(xl[:, None] + xr[:, :, None], 0.2) * self.att).sum(-1)
        alpha = torch.softmax(e, dim=2)
        return x + torch.einsum("bijh,bjhd->bihd", alpha, xl).mean(2) + self.bias


class SigmoidAttentionBlock(nn.Module):
    """Sigmoids with the bias -log n in place of a softmax."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.norm2, self.w13, self.w2 = nn.LayerNorm(D), nn.Linear(D, 6 * D), nn.Linear(3 * D, D)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).tensor_split(3, dim=-1))
        a = torch.sigmoid(q @ k.mT / math.sqrt(q.shape[-1]) - math.log(x.shape[1]))
        x = x + self.out((a @ v).transpose(1, 2).flatten(-2))
        a, b = self.w13(self.norm2(x)).chunk(2, -1)
        return x + self.w2(F.silu(a) * b)


class DifferentialAttention(nn.Module):
    """The difference of two softmaxes, a norm per head, times 0.2."""

    def __init__(self, lambda_init=0.8):
        super().__init__()
        self.lambda_init, self.dh = lambda_init, D // H // 2
        self.norm, self.qk, self.v, self.out = nn.RMSNorm(D), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.lq1, self.lk1, self.lq2, self.lk2 = (nn.Parameter(torch.randn(self.dh) * 0.1) for _ in range(4))
        self.subln = nn.RMSNorm(2 * self.dh, elementwise_affine=False)

    def forward(self, x):
        b, n, _ = x.shape
        h = self.norm(x)
        q, k = (t.view(b, n, 2 * H, self.dh).transpose(1, 2) for t in self.qk(h).chunk(2, dim=-1))
        v = self.v(h).view(b, n, H, 2 * self.dh).transpose(1, 2)
        w = F.softmax(q @ k.transpose(-1, -2) * self.dh ** -0.5, dim=-1).view(b, H, 2, n, n)
        lam = torch.exp((self.lq1 * self.lk1).sum()) - torch.exp((self.lq2 * self.lk2).sum()) + self.lambda_init
        o = self.subln((w[:, :, 0] - lam * w[:, :, 1]) @ v) * (1 - self.lambda_init)
        return x + self.out(o.transpose(1, 2).reshape(b, n, -1))


class BoundedStepTrunk(nn.Module):
    """A policy trunk: each step is a tanh, times 0.1."""

    def __init__(self):
        super().__init__()
        self.fc1, self.mix, self.fc2 = nn.Linear(D, 2 * D), nn.Linear(T, T), nn.Linear(2 * D, D)

    def step(self, x):
        return 0.1 * torch.tanh(self.fc2(self.mix(F.elu(self.fc1(x)).mT).mT))

    def forward(self, x):
        return x + self.step(x)


class ReversiblePair(nn.Module):
    """Two half-width streams; each is moved by the other."""

    def __init__(self, d=D // 2):
        super().__init__()
        self.f = PreNorm(d, LucidAttention(dim=d, dim_head=4))
        self.g = PreNorm(d, FeedForward(dim=d, glu=False))

    def forward(self, x):
        x1, x2 = torch.chunk(x, 2, dim=2)
        y1 = x1 + self.f(x2)
        y2 = x2 + self.g(y1)
        return torch.cat([y1, y2], dim=2)


# ============================================================ slips
class NormOfSumAddedBack(nn.Module):
    """x + norm(x + f(x)) where norm(x + f(x)) was meant."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn, self.ff = LucidAttention(), FeedForward(glu=False)

    def forward(self, x):
        x = x + self.norm1(x + self.attn(x))
        x = x + self.norm2(x + self.ff(x))
        return x


class NormedSkipInside(nn.Module):
    """The module has a skip of its own around the normed value, the block adds another."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), Residual(LucidAttention()), Residual(FeedForward())

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class NormThenFork(nn.Module):
    """The second norm overwrites the stream."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(D), LucidAttention(causal=True), nn.LayerNorm(D), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = self.ln_2(x)
        x = x + self.mlp(x)
        return x


class NormOverAllPlaces(nn.Module):
    """LayerNorm of [16, 32]: one mean and deviation for the whole sample."""

    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm([T, D]), nn.LayerNorm([T, D])
        self.attn, self.ff = LucidAttention(), FeedForward(glu=False)

    def forward(self, x):
        x = self.attn(self.ln1(x)) + x
        return self.ff(self.ln2(x)) + x


class UnitOverPlaces(nn.Module):
    """q and k are made unit vectors along the axis of places."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4).unbind()
        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)
        a = torch.softmax(10.0 * q @ k.transpose(-1, -2), dim=-1)
        return x + self.proj((a @ v).transpose(1, 2).reshape(x.shape))


class QueryNormOnly(nn.Module):
    """Both norms are made, the key's is called on the query again."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(D // H), nn.RMSNorm(D // H)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = [t.unflatten(-1, (H, -1)).transpose(1, 2) for t in (q, k, v)]
        q = self.k_norm(self.q_norm(q))
        return x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class NormBeforeProjectionOfQk(nn.Module):
    """The QK-norms stand before the maps to q and k."""

    def __init__(self):
        super().__init__()
        self.norm, self.q_norm, self.k_norm = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.mha = nn.MultiheadAttention(D, H, batch_first=True)

    def forward(self, x):
        h = self.norm(x)
        return x + self.mha(self.q_norm(h), self.k_norm(h), h, need_weights=False)[0]


class QkNormThenHeadScaleTwice(nn.Module):
    """Unit q and k with a constant 16, then divided by the root of the head again."""

    def __init__(self):
        super().__init__()
        self.norm, self.to_qkv, self.to_out, self.out_norm = nn.LayerNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D), nn.LayerNorm(D)

    def branch(self, x):
        q, k, v = (t.reshape(*t.shape[:2], H, -1).transpose(1, 2) for t in self.to_qkv(self.norm(x)).chunk(3, -1))
        q, k = 4 * q / (q.norm(dim=-1, keepdim=True) + 1e-6), 4 * k / (k.norm(dim=-1, keepdim=True) + 1e-6)
        y = F.scaled_dot_product_attention(q, k, v)                   # scale again
        return self.out_norm(self.to_out(y.transpose(1, 2).flatten(2)))

    def forward(self, x):
        return x + self.branch(x)


class ClampedStream(nn.Module):
    """A clamp against infinities, on the stream."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff, self.norm2, self.attn = nn.LayerNorm(D), FeedForward(), nn.LayerNorm(D), LucidAttention()

    def forward(self, x):
        x = x + self.attn(self.norm2(x))
        x = x + self.ff(self.norm(x))
        return torch.clamp(x, min=-3.0, max=3.0)


class TanhOnStream(nn.Module):
    """The activation is applied to the sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(D), nn.Conv1d(D, D, 3, padding=1, groups=4)

    def forward(self, x):
        return torch.tanh(x + self.conv(self.norm(x).mT).mT)


class SecondSkipFromInput(nn.Module):
    """The net's sum takes the block's input: attention reaches the stream only through the net."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), LucidAttention(causal=True), FeedForward()

    def forward(self, x):
        x_attn = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x_attn))


class MeanOfThree(nn.Module):
    """stack().mean() where stack().sum() was meant."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.ff = nn.LayerNorm(D), LucidAttention(), FeedForward(glu=False)

    def forward(self, x):
        h = self.norm(x)
        return torch.stack([x, self.attn(h), self.ff(h)], dim=0).mean(dim=0)


class SkipGain(nn.Module):
    start = 1.0

    def __init__(self):
        super().__init__()
        self.skip_scale = nn.Parameter(torch.tensor(self.start))
        self.norm, self.conv = nn.LayerNorm(D), nn.Conv1d(D, D, 5, padding=4)
        self.norm2, self.ff = nn.LayerNorm(D), FeedForward(glu=False)

    def forward(self, x):
        x = self.skip_scale * x + self.conv(self.norm(x).transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        return x + self.ff(self.norm2(x))


class SkipGainFromOne(SkipGain):
    """A learned factor on the skip, from 1."""


class SkipGainFromZero(SkipGain):
    """The learned factor is on the skip in place of the branch, and starts at 0."""
    start = 0.0


class SkipGainFromTenth(SkipGain):
    """The layer scale of 0.1 came to stand on the skip."""
    start = 0.1


class SurvivalOnSkip(nn.Module):
    """The expected value is corrected on the skip: one of two halves divides the stream by 0.8."""

    def __init__(self, survival=0.8):
        super().__init__()
        self.p = survival
        self.norm1, self.norm2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), LucidAttention(), FeedForward()

    def forward(self, x):
        x = x + self.attn(self.norm1(x)) / self.p
        x = x / self.p + self.ff(self.norm2(x))
        return x


class ZeroGammaBehind(nn.Module):
    """Norms behind the branches, their gains from zero."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff, self.norm_a, self.norm_f = LucidAttention(), FeedForward(), nn.LayerNorm(D), nn.LayerNorm(D)
        nn.init.zeros_(self.norm_a.weight)
        nn.init.zeros_(self.norm_f.weight)

    def forward(self, x):
        x = x + self.norm_a(self.attn(x))
        return x + self.norm_f(self.ff(x))


class InPlaceScaledSkip(nn.Module):
    """The skip is another name for the tensor that is scaled in place."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), LucidAttention(), FeedForward(glu=False)

    def forward(self, x):
        y = x + self.attn(self.norm1(x))
        skip = y
        y *= 2 ** -0.5
        return skip + self.ff(self.norm2(y))


class GateWrongSign(nn.Module):
    """x + g (x - f) where x + g (f - x) was meant."""

    def __init__(self):
        super().__init__()
        self.gate, self.f = nn.Linear(D, D), nn.Linear(D, D)
        nn.init.constant_(self.gate.bias, -1.0)

    def forward(self, x):
        g = torch.sigmoid(self.gate(F.layer_norm(x, (D,))))
        return x + g * (x - torch.tanh(self.f(x)))


class AveragedStates(nn.Module):
    """Half the stream, half a normed branch."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff, self.norm_a, self.norm_f = LucidAttention(), FeedForward(), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        x = torch.lerp(x, self.norm_a(self.attn(x)), 0.5)
        return torch.lerp(x, self.norm_f(self.ff(x)), 0.5)


class MinusResidual(nn.Module):
    """The branches are taken away."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.ff = nn.LayerNorm(D), nn.LayerNorm(D), LucidAttention(), FeedForward()

    def forward(self, x):
        x = torch.sub(x, self.attn(self.norm1(x)))
        return torch.sub(x, self.ff(self.norm2(x)))


class MultiplierOnSum(nn.Module):
    """residual_multiplier stands on the sum in the net's half only."""

    def __init__(self, residual_multiplier=0.5):
        super().__init__()
        self.m = residual_multiplier
        self.norm1, self.norm2, self.attn, self.ff = nn.RMSNorm(D), nn.RMSNorm(D), LucidAttention(causal=True), FeedForward()

    def forward(self, hidden_states):
        residual = hidden_states
        hidden_states = residual + self.attn(self.norm1(hidden_states)) * self.m
        residual = hidden_states
        hidden_states = (residual + self.ff(self.norm2(hidden_states))) * self.m
        return hidden_states


class HalfOfPostNorm(nn.Module):
    """The second norm of a post-norm layer is made and forgotten."""

    def __init__(self):
        super().__init__()
        self.attn, self.ff, self.norm1, self.norm2 = LucidAttention(), FeedForward(glu=False), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, src):
        src = self.norm1(src + self.attn(src))
        return src + self.ff(src)


class SoftmaxOverHeads(nn.Module):
    """dim=1 is the heads."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        w = nn.Softmax(dim=1)(q @ k.transpose(-2, -1) / math.sqrt(D // H))
        return x + self.proj((w @ v).transpose(1, 2).flatten(2))


class BatchAsSequence(nn.Module):
    """MultiheadAttention without batch_first: the samples of the batch see each other."""

    def __init__(self):
        super().__init__()
        self.ln1, self.mha, self.ln2 = nn.LayerNorm(D), nn.MultiheadAttention(D, H), nn.LayerNorm(D)
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.LeakyReLU(), nn.Linear(2 * D, D))

    def forward(self, x):
        h = self.ln1(x)
        a, _ = self.mha(h, h, h)
        x = x + a
        return x + self.ff(self.ln2(x))


class PlacesAsChannels(nn.Module):
    """BatchNorm1d of (batch, places, width): each place is a channel."""

    def __init__(self):
        super().__init__()
        self.bn1, self.bn2, self.gru = nn.BatchNorm1d(T), nn.BatchNorm1d(T), nn.Linear(D, D)
        self.ff = FeedForward(glu=False)

    def forward(self, x):
        x = x + torch.cumsum(self.gru(self.bn1(x)), dim=1) / x.shape[1]
        return x + self.ff(self.bn2(x))


class SoftmaxAsActivation(nn.Module):
    """The last activation of the branch is a softmax over features."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def branch(self, x):
        return F.softmax(self.fc2(F.relu(self.fc1(x))), dim=-1)

    def forward(self, x):
        return x + self.branch(x)


class CouplingExp(nn.Module):
    """An affine coupling with exp(tanh), halves exchanged."""

    def __init__(self, d=D // 2):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, 2 * d))

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        s, t = self.net(b).chunk(2, dim=-1)
        return torch.cat((b, a * torch.exp(torch.tanh(s)) + t), dim=-1)


class AdditiveCoupling(nn.Module):
    """NICE: one half moves by a function of the other, halves exchanged."""

    def __init__(self, d=D // 2):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))

    def forward(self, x):
        a, b = x[..., : D // 2], x[..., D // 2:]
        return torch.cat((b, a + self.net(b)), dim=-1)


class RawSecondBranch(nn.Module):
    """The net reads the stream, its norm is never called."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(D), nn.LayerNorm(D), LucidAttention()
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, D))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(x)


class EyeStart(nn.Module):
    """A raw map that starts as the identity on top of the skip."""

    def __init__(self):
        super().__init__()
        self.lin, self.norm, self.ff = nn.Linear(D, D, bias=False), nn.LayerNorm(D), FeedForward(glu=False)
        nn.init.eye_(self.lin.weight)

    def forward(self, x):
        x = x + self.lin(x)
        return x + self.ff(self.norm(x))


class ShiftedStream(nn.Module):
    """Token shift of the stream itself: half of each place is its neighbour's."""

    def __init__(self):
        super().__init__()
        self.norm, self.ff = nn.LayerNorm(D), FeedForward()

    def forward(self, x):
        x = 0.5 * (x + torch.roll(x, shifts=1, dims=1))
        return x + self.ff(self.norm(x))


class DecompositionOnStream(nn.Module):
    """The moving average over three places (circular) is taken away from the stream after each sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn, self.pool = nn.LayerNorm(D), LucidAttention(), nn.AvgPool1d(3, stride=1)

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        trend = self.pool(torch.cat([x[:, -1:], x, x[:, :1]], dim=1).transpose(1, 2)).transpose(1, 2)
        return x - trend


class NormBehindThenMap(nn.Module):
    """Norms behind the branches, but the output map stands behind the norm."""

    def __init__(self):
        super().__init__()
        self.attn, self.norm_a, self.out_a = LucidAttention(cosine=8.0), nn.LayerNorm(D), nn.Linear(D, D)
        self.ff, self.norm_f = FeedForward(), nn.LayerNorm(D)

    def forward(self, x):
        x = x + self.out_a(self.norm_a(self.attn(x)))
        return x + self.norm_f(self.ff(x))


class OneSampleSoftmaxMix(nn.Module):
    """Three kernels are mixed by a softmax of free numbers; no attention; pre-norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.convs = nn.LayerNorm(D), nn.ModuleList(nn.Conv1d(D, D, k, padding=k // 2, groups=8) for k in (1, 3, 5))
        self.arch = nn.Parameter(1e-3 * torch.randn(3))

    def forward(self, x):
        h = self.norm(x).mT
        return x + sum(w * c(h) for w, c in zip(self.arch.softmax(-1), self.convs)).mT


class LogitsTimesRoot(nn.Module):
    """The logits of unit vectors are multiplied by the norm of the raw query."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.proj, self.norm_out = nn.LayerNorm(D), nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D), nn.LayerNorm(D)

    def branch(self, x):
        q, k, v = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        size = q.norm(dim=-1, keepdim=True)
        s = (q / (size + 1e-6)) @ (k / (k.norm(dim=-1, keepdim=True) + 1e-6)).mT * size
        return self.norm_out(self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2)))

    def forward(self, x):
        return x + self.branch(x)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_CONV = dict(_PRE, softmax=False)
_POST = dict(kind="block", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True)
_B = dict(kind="block")
_FREE = dict(output_bounded={0: False, 1: False}, logits_bounded={0: False})
TRUTH = {
    "LucidLayer": dict(_PRE, **_FREE, why="pre-norm."),
    "CosineSimLayer": dict(_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: True}, why="cosine, 10 at most."),
    "GemmaStyleLayer": dict(_PRE, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, why="peri, capped at 50."),
    "ReorderedNormLayer": dict(_PRE, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, why="B and QK-norm."),
    "FunctionalParams": dict(_PRE, logits_bounded={0: False}, why="pre-norm."),
    "DecoderOnLearnedMemory": dict(_PRE, output_bounded={0: False, 1: False, 2: False}, logits_bounded={0: False, 1: False}, why="pre-norm."),
    "LibraryPostNorm": dict(_POST, logits_bounded={0: False}, why="post-norm."),
    "LectureBlock": dict(_PRE, why="pre-norm."),
    "MixerBlock": dict(_CONV, output_bounded={0: False, 1: False}, why="pre-norm."),
    "SpatialGatingBlock": dict(_CONV, output_bounded={0: False}, why="pre-norm; the gate's input is normed too."),
    "ConvNext1d": dict(_B, identity_gain=1.0, gradient_law="flat", softmax=False, output_bounded={0: False}, why="steps of 1e-6, a trained map before the gain."),
    "WaveNetLayer": dict(_CONV, output_bounded={0: False}, why="tanh times sigmoid are below 1, a map behind."),
    "BasicBlock1d": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="batch norm ends the branch; ReLU keeps what is positive."),
    "SqrtHalfResidual": dict(_B, identity_gain=0.5 ** 12, growth_fixed="bounded", softmax=False, output_bounded={0: False}, why="a root of a half a block."),
    "MacaronLayer": dict(_PRE, output_bounded={0: False, 1: False, 2: False, 3: False}, logits_bounded={1: False}, why="pre-norm."),
    "NeoXParallel": dict(_PRE, output_bounded={0: False, 1: False}, why="pre-norm; both sorts of branch unbounded whichever is first."),
    "LinformerBlock": dict(_PRE, logits_bounded={0: False}, why="pre-norm."),
    "LongConvGates": dict(_CONV, output_bounded={0: False}, why="pre-norm, cubic in a normed value."),
    "GatedXlLayer": dict(_B, gated=True, growth_fixed="bounded", growth_all="bounded", softmax=True, why="convex pair with a tanh."),
    "MinGruBlock": dict(_CONV, output_bounded={0: False}, why="pre-norm."),
    "TokenShiftChannelMix": dict(_CONV, output_bounded={0: False}, why="pre-norm."),
    "TalkingHeads": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="pre-norm."),
    "RegisterTokens": dict(_PRE, **_FREE, why="pre-norm."),
    "AxialBlock": dict(_PRE, output_bounded={0: False, 1: False, 2: False}, logits_bounded={0: False, 1: False}, why="pre-norm, transposed twice."),
    "AlibiQkNorm": dict(_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="root of 8, biases below 8."),
    "SqueezeExciteConv": dict(_CONV, output_bounded={0: False}, why="group norm in front; the gate is on the branch."),
    "GatV2Layer": dict(_PRE, logits_bounded={0: False}, why="pre-norm."),
    "SigmoidAttentionBlock": dict(_CONV, output_bounded={0: False, 1: False}, why="pre-norm."),
    "DifferentialAttention": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="a map behind the sub-norm."),
    "BoundedStepTrunk": dict(_CONV, growth_all="linear", output_bounded={0: True}, why="0.1 a step, no norm."),
    "ReversiblePair": dict(_PRE, **_FREE, why="pre-norm, two half streams."),
    # slips
    "NormOfSumAddedBack": dict(_PRE, growth_all="linear", logits_bounded={0: False}, why="a normed thing is added each time; the skip is whole."),
    "NormedSkipInside": dict(_PRE, logits_bounded={0: False}, why="the inner skip carries a normed value."),
    "NormThenFork": dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="the stream is normed once a block."),
    "NormOverAllPlaces": dict(_PRE, **_FREE, why="entries below 23."),
    "UnitOverPlaces": dict(_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="entries of q and k at most 1: 80 at most."),
    "QueryNormOnly": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="k is free."),
    "NormBeforeProjectionOfQk": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="maps behind the norms."),
    "QkNormThenHeadScaleTwice": dict(_PRE, growth_all="linear", output_bounded={0: True}, logits_bounded={0: True}, why="16/root 8 at most; peri."),
    "ClampedStream": dict(_B, growth_fixed="bounded", growth_all="bounded", softmax=True, logits_bounded={0: False}, why="3 at most."),
    "TanhOnStream": dict(_B, growth_fixed="bounded", growth_all="bounded", softmax=False, why="1 at most."),
    "SecondSkipFromInput": dict(_PRE, logits_bounded={0: False}, why="pre-norm; one sum is lost."),
    "MeanOfThree": dict(_B, identity_gain=3.0 ** -24, growth_fixed="bounded", softmax=True, output_bounded={0: False, 1: False}, logits_bounded={0: False},
        why="a third a block."),
    "SkipGainFromOne": dict(_CONV, output_bounded={0: False, 1: False}, why="1 at the start."),
    "SkipGainFromZero": dict(_B, identity_gain=0.0, growth_fixed="bounded", softmax=False, output_bounded={0: False, 1: False}, why="no skip at the start."),
    "SkipGainFromTenth": dict(_B, identity_gain=0.1 ** 24, growth_fixed="bounded", softmax=False, output_bounded={0: False, 1: False}, why="a tenth a block."),
    "SurvivalOnSkip": dict(_B, identity_gain=0.8 ** -24, growth_fixed="exponential", gradient_law="exponential", softmax=True, **_FREE, why="1.25 a block."),
    "ZeroGammaBehind": dict(_B, identity_gain=1.0, growth_fixed="bounded", softmax=True, output_bounded={0: True, 1: True}, logits_bounded={0: False},
        why="the branches are 0."),
    "InPlaceScaledSkip": dict(_B, identity_gain=0.5 ** 12, growth_fixed="bounded", softmax=True, **_FREE, why="the skip is scaled with it."),
    "GateWrongSign": dict(_B, gated=True, growth_fixed="exponential", softmax=False, why="1 + g a block."),
    "AveragedStates": dict(_B, identity_gain=0.25 ** 24, growth_fixed="bounded", growth_all="bounded", softmax=True, output_bounded={0: True, 1: True},
        logits_bounded={0: False}, why="a quarter a block; convex with normed values."),
    "MinusResidual": dict(_PRE, **_FREE, why="a sign."),
    "MultiplierOnSum": dict(_B, identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=True, **_FREE, why="a half a block."),
    "HalfOfPostNorm": dict(_B, identity_gain=None, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="the stream is normed once a block."),
    "SoftmaxOverHeads": dict(_PRE, output_bounded={0: False}, logits_bounded={0: False}, why="weights at most 1 on 16 places."),
    "BatchAsSequence": dict(_PRE, **_FREE, why="pre-norm."),
    "PlacesAsChannels": dict(_CONV, output_bounded={0: False, 1: False}, why="entries below 8."),
    "SoftmaxAsActivation": dict(_B, identity_gain=1.0, growth_fixed="linear", growth_all="linear", output_bounded={0: True}, why="at most 1 a step."),
    "CouplingExp": dict(_B, gated=True, growth_fixed="exponential", softmax=False, why="factors up to e."),
    "AdditiveCoupling": dict(_CONV, output_bounded={0: False}, why="a permutation of a stream of gain 1."),
    "RawSecondBranch": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=True, **_FREE, why="a raw net."),
    "EyeStart": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=False, output_bounded={0: False, 1: False}, why="2 a block, by a branch."),
    "ShiftedStream": dict(_CONV, output_bounded={0: False}, why="a stochastic circulant: what is equal over places is kept."),
    "DecompositionOnStream": dict(_B, identity_gain=(4 / 3) ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=True, logits_bounded={0: False},
        why="1 - (1 + 2 cos w)/3 is 4/3 at the highest frequency."),
    "NormBehindThenMap": dict(_PRE, output_bounded={0: False, 1: True}, logits_bounded={0: True}, why="a map behind the first norm; cosine."),
    "OneSampleSoftmaxMix": dict(kind="block", identity_gain=1.0, growth_fixed="linear", output_bounded={0: False}, why="pre-norm."),
    "LogitsTimesRoot": dict(_PRE, growth_all="linear", output_bounded={0: True}, logits_bounded={0: False}, why="the raw query's size is back."),
}

# the round is the other 43 and 21 models; these stand in more.py
_MORE = """LucidLayer LectureBlock LinformerBlock MixerBlock SpatialGatingBlock TokenShiftChannelMix GatV2Layer AxialBlock SigmoidAttentionBlock LibraryPostNorm MinusResidual BatchAsSequence
    SoftmaxOverHeads NormBeforeProjectionOfQk TanhOnStream AveragedStates EyeStart AdditiveCoupling NormThenFork SqueezeExciteConv RegisterTokens MinGruBlock OneSampleSoftmaxMix NeoXParallel""".split()
TRUTH_MORE = {key: TRUTH.pop(key) for key in _MORE}
