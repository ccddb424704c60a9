"""Models and blocks with one mistake of real life each (some of them harmless)."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4


def example_inputs():
    return (torch.randn(2, T, D),)


class Attention(nn.Module):
    def __init__(self, dim=D, num_heads=H, bias=True):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, dim, bias=bias)

    def split(self, x):
        B, N, _ = x.shape
        return self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)

    def merge(self, y):
        B, _, N, _ = y.shape
        return self.proj(y.transpose(1, 2).reshape(B, N, -1))

    def forward(self, x):
        q, k, v = self.split(x)
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class Mlp(nn.Module):
    def __init__(self, dim=D, hidden=2 * D):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Base(nn.Module):
    """The usual parts of a pre-norm block."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """Blocks, a final norm, a head."""

    block_class = Base

    def __init__(self, depth=12):
        super().__init__()
        self.embed_in = nn.Linear(D, D)
        self.layers = self.make_layers(depth)
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, D, bias=False)

    def make_layers(self, depth):
        return nn.ModuleList(self.block_class() for _ in range(depth))

    def features(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, x):
        return self.head(self.norm(self.features(self.embed_in(x))))


# ------------------------------------------------------------ models
class GptNormReusedLayer(Base):
    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attn(x)
        x = x + self.mlp(self.norm2(x))
        return x


class GptNormReused(Decoder):
    """`x = self.norm1(x)`, then `x + ...`."""

    block_class = GptNormReusedLayer


class SharedLayers(Decoder):
    """`[Block()] * depth`: one block, met depth times."""

    def make_layers(self, depth):
        return nn.ModuleList([self.block_class()] * depth)


class DenseSum(Decoder):
    """Outputs of all layers are summed and go on; each already has its residual."""

    def __init__(self, depth=24):
        super().__init__(depth)

    def features(self, x):
        outputs = []
        for layer in self.layers:
            x = layer(x)
            outputs.append(x)
            x = torch.stack(outputs).sum(0)
        return x


class AlphaPreLayer(Base):
    def __init__(self, n_layer):
        super().__init__()
        self.alpha = (2 * n_layer) ** 0.25

    def forward(self, x):
        x = self.alpha * x + self.attn(self.norm1(x))
        return self.alpha * x + self.mlp(self.norm2(x))


class DeepNormAlphaPre(Decoder):
    """DeepNorm's alpha in a pre-norm model of 24 layers: nothing takes it back."""

    def __init__(self, depth=24):
        super().__init__(depth)

    def make_layers(self, depth):
        return nn.ModuleList(AlphaPreLayer(24) for _ in range(depth))


class CrossWrongLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.self_attn, self.cross_attn = Attention(), nn.MultiheadAttention(D, H, batch_first=True)
        self.ff = Mlp()

    def forward(self, x, memory):
        residual = x
        h = residual + self.self_attn(self.norm1(x))
        h = residual + self.cross_attn(self.norm2(h), memory, memory, need_weights=False)[0]
        return h + self.ff(self.norm3(h))


class CrossAttentionWrongResidual(nn.Module):
    """Encoder-decoder: the decoder's `residual` is not renewed after self-attention, whose branch is lost to the sum."""

    def __init__(self, depth=8):
        super().__init__()
        self.encoder = nn.ModuleList(Base() for _ in range(depth))
        self.decoder = nn.ModuleList(CrossWrongLayer() for _ in range(depth))
        self.enc_norm, self.dec_norm, self.head = nn.LayerNorm(D), nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, x):
        memory = x
        for layer in self.encoder:
            memory = layer(memory)
        memory = self.enc_norm(memory)
        y = F.pad(x[:, :-1], (0, 0, 1, 0))
        for layer in self.decoder:
            y = layer(y, memory)
        return self.head(self.dec_norm(y))


class GateOnStreamLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D, elementwise_affine=False), nn.LayerNorm(D, elementwise_affine=False)
        self.attn, self.mlp = Attention(), Mlp()
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(D, 4 * D))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, c):
        s1, g1, s2, g2 = self.ada(c).unsqueeze(1).chunk(4, dim=-1)
        x = g1 * (x + self.attn(self.norm1(x) * (1 + s1)))
        return g2 * (x + self.mlp(self.norm2(x) * (1 + s2)))


class DitGateOnStream(nn.Module):
    """DiT: the brackets are wrong, the closed gates multiply the stream."""

    def __init__(self, depth=8):
        super().__init__()
        self.cond = nn.Parameter(torch.randn(1, D))
        self.blocks = nn.ModuleList(GateOnStreamLayer() for _ in range(depth))
        self.norm_out, self.out = nn.LayerNorm(D, elementwise_affine=False), nn.Linear(D, D)

    def forward(self, x):
        c = self.cond.expand(x.shape[0], -1)
        for block in self.blocks:
            x = block(x, c)
        return self.out(self.norm_out(x))


# ------------------------------------------------------------ blocks
class PostInOneHalf(Base):
    """Pre-norm in the first half; the second half norms the sum."""

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return self.norm2(x + self.mlp(x))


class NoResidualInMlp(Base):
    """`x +` is missing before the net."""

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        x = self.mlp(self.norm2(x))
        return x


class AttentionWithSkip(nn.Module):
    """A library's attention module that norms and adds by itself."""

    def __init__(self):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(D), Attention()

    def forward(self, x):
        return x + self.fn(self.norm(x))


class DoubleResidual(nn.Module):
    """The block adds what the module has added already."""

    def __init__(self):
        super().__init__()
        self.attn, self.norm, self.mlp = AttentionWithSkip(), nn.LayerNorm(D), Mlp()

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(self.norm(x))


class KeepOnSum(Base):
    """Division by the keep probability is done to the sum, not to the branch."""

    def __init__(self, keep=0.9):
        super().__init__()
        self.keep = keep

    def forward(self, x):
        x = (x + self.attn(self.norm1(x))) / self.keep
        return x + self.mlp(self.norm2(x)) / self.keep


class MeanOfPaths(Base):
    """The two paths are stacked and averaged."""

    def forward(self, x):
        x = torch.stack([x, self.attn(self.norm1(x))], dim=0).mean(dim=0)
        return x + self.mlp(self.norm2(x))


class RunningTokens(Base):
    """A causal sum over tokens is left on the stream."""

    def forward(self, x):
        x = torch.cumsum(x, dim=1)
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ReZeroFromOne(nn.Module):
    """ReZero, but the factor starts from one (and there are no norms)."""

    def __init__(self):
        super().__init__()
        self.resweight = nn.Parameter(torch.ones(1))
        self.self_attn, self.linear1, self.linear2 = Attention(), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, src):
        src = src + self.resweight * self.self_attn(src)
        return src + self.resweight * self.linear2(F.relu(self.linear1(src)))


class DetachedSkip(Base):
    """The skip is detached, the branch is not."""

    def forward(self, x):
        x = x.detach() + self.attn(self.norm1(x))
        return x.detach() + self.mlp(self.norm2(x))


class FrozenAttention(Base):
    """no_grad was meant for a cache and stands about the whole branch."""

    def forward(self, x):
        with torch.no_grad():
            a = self.attn(self.norm1(x))
        x = x + a
        return x + self.mlp(self.norm2(x))


class QueriesSoftmax(Base):
    """Shares are taken over the queries, and nothing keeps a row's sum at one."""

    def mix(self, x):
        q, k, v = self.attn.split(x)
        s = q @ k.transpose(-2, -1) * self.attn.head_dim ** -0.5
        return self.attn.merge(F.softmax(s, dim=-2) @ v)

    def forward(self, x):
        x = x + self.mix(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class NormOverTime(Base):
    """The norm is over the tokens of each channel."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(T), nn.LayerNorm(T)

    def forward(self, x):
        x = x + self.attn(self.norm1(x.transpose(1, 2)).transpose(1, 2))
        return x + self.mlp(self.norm2(x.transpose(1, 2)).transpose(1, 2))


class QkNormUnused(Base):
    """q and k are normed into names that nobody reads."""

    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = nn.RMSNorm(D // H), nn.RMSNorm(D // H)

    def attention(self, x):
        q, k, v = self.attn.split(x)
        q_normed, k_normed = self.q_norm(q), self.k_norm(k)
        return self.attn.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class QkNormNoScale(QkNormUnused):
    """Normed queries and keys, and 1/sqrt(d) forgotten."""

    def attention(self, x):
        q, k, v = self.attn.split(x)
        s = self.q_norm(q) @ self.k_norm(k).transpose(-2, -1)
        return self.attn.merge(s.softmax(dim=-1) @ v)


class PeriHalfUnused(Base):
    """The norm behind the net is called, and the raw value is added."""

    def __init__(self):
        super().__init__()
        self.after1, self.after2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        a = self.after1(self.attn(self.norm1(x)))
        x = x + a
        m = self.mlp(self.norm2(x))
        normed = self.after2(m)
        return x + m


class EmaSlip(Base):
    """0.9 x + 0.1 f was meant; the 0.1 is missing."""

    def __init__(self, momentum=0.9):
        super().__init__()
        self.register_buffer("momentum", torch.tensor(momentum))

    def forward(self, x):
        x = self.momentum * x + self.attn(self.norm1(x))
        return self.momentum * x + self.mlp(self.norm2(x))


class HeadsNotPutBack(Base):
    """Heads go back by view without a transpose: tokens and heads are mixed up."""

    def attention(self, x):
        q, k, v = self.attn.split(x)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.attn.proj(y.reshape(x.shape))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ScaleUpsideDown(Base):
    """Branches times sqrt(2 N) where the inverse was meant."""

    def __init__(self, n_layer=24):
        super().__init__()
        self.scale = math.sqrt(2 * n_layer)

    def forward(self, x):
        x = x + self.scale * self.attn(self.norm1(x))
        return x + self.scale * self.mlp(self.norm2(x))


_PRE = dict(identity_gain=1.0, growth_fixed="linear", softmax=True)
_FREE = dict(output_bounded={0: False, 1: False}, logits_bounded={0: False})
_M, _B = dict(kind="model"), dict(kind="block")
TRUTH = {
    "GptNormReused": dict(_M, identity_gain=None, growth_fixed="bounded", softmax=True, depth=12, logits_bounded={0: False},
        why="the skip is normed.", tempts="pre-norm"),
    "SharedLayers": dict(_M, **_PRE, depth=12, logits_bounded={0: False}, why="pre-norm, tied.", tempts="a fault of growth"),
    "DenseSum": dict(_M, identity_gain=2.0 ** 23, growth_fixed="exponential", softmax=True, depth=24, logits_bounded={0: False},
        why="each sum holds all sums before.", tempts="linear"),
    "DeepNormAlphaPre": dict(_M, identity_gain=48.0 ** 12, growth_fixed="exponential", softmax=True, depth=24, logits_bounded={0: False},
        why="48 factors of 48 ** 0.25.", tempts="DeepNorm"),
    "CrossAttentionWrongResidual": dict(_M, **_PRE, depth=8, logits_bounded={0: False}, why="pre-norm; a branch is lost.", tempts="-"),
    "DitGateOnStream": dict(_M, identity_gain=0.0, softmax=True, depth=8, why="the stream times 0.", tempts="adaLN-zero"),
    "PostInOneHalf": dict(_B, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, logits_bounded={0: False},
        why="a norm ends it.", tempts="pre-norm"),
    "NoResidualInMlp": dict(_B, identity_gain=0.0, growth_fixed="bounded", softmax=True, **_FREE, why="no skip.", tempts="pre-norm"),
    "DoubleResidual": dict(_B, identity_gain=2.0 ** 24, growth_fixed="exponential", softmax=True, logits_bounded={0: False},
        why="2 a block.", tempts="gain 1"),
    "KeepOnSum": dict(_B, identity_gain=0.9 ** -24, growth_fixed="exponential", softmax=True, logits_bounded={0: False}, why="1/0.9 a block.",
        tempts="dropout"),
    "MeanOfPaths": dict(_B, identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="a half a block.",
        tempts="a sum"),
    "RunningTokens": dict(_B, growth_fixed="polynomial", softmax=True, logits_bounded={0: False}, why="sums of sums over 16 tokens.",
        tempts="linear"),
    "ReZeroFromOne": dict(_B, identity_gain=1.0, growth_fixed="exponential", softmax=True, **_FREE, why="raw.", tempts="ReZero"),
    "DetachedSkip": dict(_B, **_PRE, gradient_law="exponential", **_FREE, why="pre-norm forward; gradients go by the branches alone.",
        tempts="gradients"),
    "FrozenAttention": dict(_B, **_PRE, why="pre-norm.", tempts="-"),
    "QueriesSoftmax": dict(_B, **_PRE, **_FREE, why="rows of sum 16 at most.", tempts="-"),
    "NormOverTime": dict(_B, **_PRE, **_FREE, why="entries below 4.", tempts="no norm"),
    "QkNormUnused": dict(_B, **_PRE, **_FREE, why="the norms are dead.", tempts="QK-norm"),
    "QkNormNoScale": dict(_B, **_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: True}, why="8 at most.", tempts="no scale"),
    "PeriHalfUnused": dict(_B, **_PRE, output_bounded={0: True, 1: False}, logits_bounded={0: False}, why="the second norm is dead.",
        tempts="peri"),
    "EmaSlip": dict(_B, identity_gain=0.9 ** 48, growth_fixed="bounded", softmax=True, **_FREE, why="0.81 a block.", tempts="-"),
    "HeadsNotPutBack": dict(_B, **_PRE, **_FREE, why="a permutation.", tempts="-"),
    "ScaleUpsideDown": dict(_B, **_PRE, **_FREE, why="still linear.", tempts="exponential"),
}
