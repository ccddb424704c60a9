"""Blocks as ordinary engineers write them, without tricks."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4


def example_inputs():
    return (torch.randn(2, T, D),)


class GptBlock(nn.Module):
    """nanoGPT's."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.c_attn, self.c_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.c_fc, self.c_out = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.register_buffer("mask", torch.tril(torch.ones(T, T)).view(1, 1, T, T))
        self.dropout = nn.Dropout(0.1)

    def attn(self, x):
        B, N, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, N, H, C // H).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :N, :N] == 0, float("-inf"))
        att = self.dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, N, C)
        return self.dropout(self.c_proj(y))

    def mlp(self, x):
        return self.dropout(self.c_out(F.gelu(self.c_fc(x))))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class VitBlock(nn.Module):
    """timm's, with layer scale and nn.MultiheadAttention."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D, eps=1e-6), nn.LayerNorm(D, eps=1e-6)
        self.attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Dropout(0.0), nn.Linear(4 * D, D))
        self.gain1, self.gain2 = nn.Parameter(0.1 * torch.ones(D)), nn.Parameter(0.1 * torch.ones(D))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.gain1 * self.attn(h, h, h, need_weights=False)[0]
        return x + self.gain2 * self.mlp(self.norm2(x))


class BertLayer(nn.TransformerEncoderLayer):
    """The library's, as it comes."""

    def __init__(self):
        super().__init__(D, H, 4 * D, dropout=0.0, batch_first=True)


class EncoderPre(nn.TransformerEncoderLayer):
    """norm_first."""

    def __init__(self):
        super().__init__(D, H, 4 * D, dropout=0.0, batch_first=True, norm_first=True)


class RMSNorm(nn.Module):
    def __init__(self, dim=D, eps=1e-6):
        super().__init__()
        self.eps, self.gain = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        dtype = x.dtype
        x = x.float() if dtype != torch.float64 else x
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)).to(dtype) * self.gain


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class LlamaBlock(nn.Module):
    """Grouped keys, rotary positions, SwiGLU."""

    def __init__(self):
        super().__init__()
        self.input_norm, self.post_norm = RMSNorm(), RMSNorm()
        self.q_proj, self.k_proj, self.v_proj = nn.Linear(D, D, bias=False), nn.Linear(D, D // 2, bias=False), nn.Linear(D, D // 2, bias=False)
        self.o_proj = nn.Linear(D, D, bias=False)
        self.gate, self.up, self.down = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)

    def norm_qk(self, q, k):
        return q, k

    def attention(self, x):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, H, 8).transpose(1, 2)
        k = self.k_proj(x).view(b, n, H // 2, 8).transpose(1, 2)
        v = self.v_proj(x).view(b, n, H // 2, 8).transpose(1, 2)
        q, k = self.norm_qk(q, k)
        freq = 10000.0 ** (-torch.arange(0, 8, 2, device=x.device).to(x.dtype) / 8)
        angle = torch.arange(n, device=x.device).to(x.dtype)[:, None] * freq
        angle = torch.cat([angle, angle], dim=-1)
        q = q * angle.cos() + rotate_half(q) * angle.sin()
        k = k * angle.cos() + rotate_half(k) * angle.sin()
        k, v = (t.repeat_interleave(2, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, n, D))

    def mlp(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))

    def forward(self, hidden):
        residual = hidden
        hidden = self.input_norm(hidden)
        hidden = residual + self.attention(hidden)
        residual = hidden
        hidden = self.post_norm(hidden)
        return residual + self.mlp(hidden)


class QwenBlock(LlamaBlock):
    """Queries and keys are normed a head."""

    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = RMSNorm(8), RMSNorm(8)

    def norm_qk(self, q, k):
        return self.q_norm(q), self.k_norm(k)


class OlmoBlock(QwenBlock):
    """Norms behind both branches, none before."""

    def forward(self, x):
        x = x + self.input_norm(self.attention(x))
        return x + self.post_norm(self.mlp(x))


class GemmaBlock(QwenBlock):
    """Norms on both ends."""

    def __init__(self):
        super().__init__()
        self.after1, self.after2 = RMSNorm(), RMSNorm()

    def forward(self, x):
        x = x + self.after1(self.attention(self.input_norm(x)))
        return x + self.after2(self.mlp(self.post_norm(x)))


class ParallelBlock(nn.Module):
    """GPT-J's: one norm, two branches, one add."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, H, batch_first=True, bias=False)
        self.fc_in, self.fc_out = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        h = self.norm(x)
        a, _ = self.attn(h, h, h)
        return a + self.fc_out(F.gelu(self.fc_in(h))) + x


class ConvNext(nn.Module):
    """Depthwise 7, a norm, an inverted bottleneck, layer scale; on a 4 x 4 image."""

    def __init__(self):
        super().__init__()
        self.dwconv, self.norm = nn.Conv2d(D, D, 7, padding=3, groups=D), nn.LayerNorm(D)
        self.pw1, self.pw2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.gain = nn.Parameter(0.1 * torch.ones(D))

    def branch(self, x):
        b = x.shape[0]
        y = self.dwconv(x.transpose(1, 2).reshape(b, D, 4, 4))
        y = self.norm(y.permute(0, 2, 3, 1))
        y = self.gain * self.pw2(F.gelu(self.pw1(y)))
        return y.reshape(b, T, D)

    def forward(self, x):
        return x + self.branch(x)


class Mixer(nn.Module):
    """A net over tokens, a net over channels."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.tokens = nn.Sequential(nn.Linear(T, 2 * T), nn.GELU(), nn.Linear(2 * T, T))
        self.channels = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Gmlp(nn.Module):
    """Spatial gating."""

    def __init__(self):
        super().__init__()
        self.norm, self.sgu_norm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.up, self.down, self.spatial = nn.Linear(D, 2 * D), nn.Linear(D, D), nn.Conv1d(T, T, 1)
        nn.init.constant_(self.spatial.bias, 1.0)

    def branch(self, x):
        u, v = F.gelu(self.up(self.norm(x))).chunk(2, dim=-1)
        return self.down(u * self.spatial(self.sgu_norm(v)))

    def forward(self, x):
        return x + self.branch(x)


class Pool(nn.Module):
    """PoolFormer: a mean of neighbours less the token, then a net; batch first, tokens in a 4 x 4 image."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(1, D), nn.GroupNorm(1, D)
        self.pool = nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)
        self.fc1, self.fc2 = nn.Conv2d(D, 2 * D, 1), nn.Conv2d(2 * D, D, 1)

    def forward(self, x):
        x = x.transpose(1, 2).unflatten(-1, (4, 4))
        h = self.norm1(x)
        x = x + (self.pool(h) - h)
        x = x + self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return x.flatten(2).transpose(1, 2)


class Conformer(nn.Module):
    """Half-step nets around attention and a convolution, a norm last."""

    def __init__(self):
        super().__init__()
        ff = lambda: nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D))
        self.ff1, self.ff2, self.norm_att, self.norm_conv, self.final = ff(), ff(), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.glu, self.depth, self.out = nn.Linear(D, 2 * D), nn.Conv1d(D, D, 5, padding=2, groups=D), nn.Linear(D, D)
        self.mid = nn.LayerNorm(D)

    def conv(self, x):
        y = F.glu(self.glu(self.norm_conv(x)), dim=-1)
        y = self.depth(y.transpose(1, 2)).transpose(1, 2)
        return self.out(F.silu(self.mid(y)))

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        h = self.norm_att(x)
        x = x + self.attn(h, h, h)[0]
        x = x + self.conv(x)
        x = x + 0.5 * self.ff2(x)
        return self.final(x)


class ConformerOpen(Conformer):
    """The last norm is left out."""

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        h = self.norm_att(x)
        x = x + self.attn(h, h, h)[0]
        x = x + self.conv(x)
        return x + 0.5 * self.ff2(x)


class SqueezeExcite(nn.Module):
    """A residual convolution with channel gates from the mean over tokens."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv1, self.conv2 = nn.LayerNorm(D), nn.Conv1d(D, D, 3, padding=1), nn.Conv1d(D, D, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(D, D // 4), nn.Linear(D // 4, D)

    def branch(self, x):
        y = self.conv2(F.relu(self.conv1(self.norm(x).transpose(1, 2)))).transpose(1, 2)
        gate = torch.sigmoid(self.fc2(F.relu(self.fc1(y.mean(1)))))
        return y * gate.unsqueeze(1)

    def forward(self, x):
        return x + self.branch(x)


class WindowBlock(nn.Module):
    """Attention in shifted windows of four tokens, a table of relative positions (Swin)."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.table = nn.Parameter(torch.zeros(7, H))
        nn.init.trunc_normal_(self.table, std=0.02)
        i = torch.arange(4)
        self.register_buffer("index", i[:, None] - i[None, :] + 3)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def attention(self, x):
        b = x.shape[0]
        w = torch.roll(x, shifts=-2, dims=1).view(b * 4, 4, D)
        q, k, v = self.qkv(w).reshape(b * 4, 4, 3, H, D // H).permute(2, 0, 3, 1, 4)
        attn = (q * (D // H) ** -0.5) @ k.transpose(-2, -1)
        attn = attn + self.table[self.index.view(-1)].view(4, 4, H).permute(2, 0, 1).unsqueeze(0)
        y = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(b * 4, 4, D)
        return torch.roll(self.proj(y).view(b, T, D), shifts=2, dims=1)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class DitBlock(nn.Module):
    """Shift, scale and gate from the mean of the tokens, gates from zero."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D, elementwise_affine=False), nn.LayerNorm(D, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(approximate="tanh"), nn.Linear(2 * D, D))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x):
        a, b, c, d, e, f = self.ada(F.layer_norm(x.mean(1, keepdim=True), (D,))).chunk(6, dim=-1)
        h = self.norm1(x) * (1 + b) + a
        x = x + c * self.attn(h, h, h)[0]
        return x + f * self.mlp(self.norm2(x) * (1 + e) + d)


class GruGated(nn.Module):
    """GTrXL: a GRU in the residual's place, its update gate biased by two."""

    def __init__(self):
        super().__init__()
        self.norm, self.f = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D), nn.ReLU())
        self.wr, self.ur, self.wz, self.uz, self.wg, self.ug = (nn.Linear(D, D, bias=False) for _ in range(6))
        self.bias = nn.Parameter(torch.full((D,), 2.0))

    def forward(self, x):
        y = self.f(self.norm(x))
        r = torch.sigmoid(self.wr(y) + self.ur(x))
        z = torch.sigmoid(self.wz(y) + self.uz(x) - self.bias)
        h = torch.tanh(self.wg(y) + self.ug(r * x))
        return (1 - z) * x + z * h


class Macaron(nn.Module):
    """The convolution and the feed-forward of an audio model, post-norm, no attention."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm1, self.norm2 = nn.Conv1d(D, D, 3, padding=1), nn.LayerNorm(D), nn.LayerNorm(D)
        self.lin1, self.lin2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        x = self.norm1(x + F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2))
        return self.norm2(x + self.lin2(F.relu(self.lin1(x))))


class NoNormBlock(nn.Module):
    """Somebody left the norms out."""

    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        for layer in (self.fc1, self.fc2):
            nn.init.xavier_normal_(layer.weight, gain=1.4)

    def forward(self, x):
        x = x + self.attn(x, x, x)[0]
        return x + self.fc2(F.gelu(self.fc1(x)))


class NormOnce(nn.Module):
    """One norm at the top, read by attention; the feed-forward reads the stream as it is."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True)
        self.fc1, self.fc2 = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        for layer in (self.fc1, self.fc2):
            nn.init.xavier_normal_(layer.weight, gain=1.4)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.fc2(F.relu(self.fc1(x)))


class NormReused(nn.Module):
    """The normed value is the name that goes on."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attn(x, x, x)[0]
        x = x + self.mlp(self.norm2(x))
        return x


_LIN = dict(kind="block", identity_gain=1.0, growth_fixed="linear")
_PRE = dict(_LIN, output_bounded={0: False, 1: False}, logits_bounded={0: False}, softmax=True)
_PERI = dict(_LIN, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, softmax=True)
_POST = dict(kind="block", identity_gain=None, growth_fixed="bounded")
_RAW = dict(kind="block", identity_gain=1.0, growth_fixed="exponential", softmax=True)
TRUTH = {
    "GptBlock": dict(_PRE, why="pre-norm.", tempts="-"),
    "VitBlock": dict(_PRE, why="pre-norm.", tempts="-"),
    "BertLayer": dict(_POST, softmax=True, growth_all="bounded", why="post-norm.", tempts="-"),
    "EncoderPre": dict(_LIN, softmax=True, logits_bounded={0: False}, why="pre-norm.", tempts="-"),
    "LlamaBlock": dict(_PRE, why="pre-norm.", tempts="-"),
    "QwenBlock": dict(_PRE, logits_bounded={0: True}, why="QK-norm.", tempts="-"),
    "OlmoBlock": dict(_PERI, why="behind.", tempts="-"),
    "GemmaBlock": dict(_PERI, why="peri.", tempts="-"),
    "ParallelBlock": dict(_LIN, softmax=True, logits_bounded={0: False}, why="pre-norm.", tempts="-"),
    "ConvNext": dict(_LIN, output_bounded={0: False}, softmax=False, why="normed inside.", tempts="-"),
    "Mixer": dict(_LIN, output_bounded={0: False, 1: False}, softmax=False, why="pre-norm.", tempts="-"),
    "Gmlp": dict(_LIN, output_bounded={0: False}, softmax=False, why="pre-norm.", tempts="-"),
    "Pool": dict(_LIN, output_bounded={0: True, 1: False}, softmax=False, why="pre-norm, no weights in the first.", tempts="-"),
    "Conformer": dict(_POST, growth_all="bounded", softmax=True, why="a norm last.", tempts="-"),
    "ConformerOpen": dict(_LIN, softmax=True, why="pre-norm.", tempts="-"),
    "SqueezeExcite": dict(_LIN, output_bounded={0: False}, softmax=False, why="pre-norm.", tempts="-"),
    "WindowBlock": dict(_PRE, why="pre-norm.", tempts="-"),
    "DitBlock": dict(_LIN, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="closed gates.", tempts="-"),
    "GruGated": dict(kind="block", growth_fixed="bounded", growth_all="bounded", softmax=False, why="a convex pair with a tanh.", tempts="-"),
    "Macaron": dict(_POST, growth_all="bounded", softmax=False, why="post-norm.", tempts="-"),
    "NoNormBlock": dict(_RAW, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="raw.", tempts="-"),
    "NormOnce": dict(_RAW, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="the second is raw.", tempts="pre-norm"),
    "NormReused": dict(_POST, softmax=True, logits_bounded={0: False}, why="the skip is normed.", tempts="gain 1"),
}
