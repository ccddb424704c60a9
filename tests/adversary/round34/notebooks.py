"""Layers from memory, in notebooks and courses: heads in a list, sublayers with a helper, the library's own layer, parallel branches, slopes for distances between norms, talking heads, cosines, softmaxes by hand, decoders with memories, residual filters, filters of a denoiser."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

n_embd, block_size, n_head = 32, 16, 4
head_size = n_embd // n_head

_G = torch.Generator().manual_seed(3403)
_X = torch.randn(2, block_size, n_embd, generator=_G)
_IMG = torch.randn(2, n_embd, 4, 4, generator=_G)
example_inputs = {
    **{k: (_X,) for k in ("HeadsBlock", "HeadsBlockNormed", "SublayerLayerBare", "NativeLayer", "ParallelBlock", "ParallelBlockRaw", "AlibiBlock", "TalkingHeadsBlock",
                          "CosineBlock", "CosineBlockQuery", "HandSoftmaxBlock", "EinsumPostBlock")},
    "MemoryDecoderLayer": (_X, torch.randn(2, 10, n_embd, generator=_G)),
    **{k: (_IMG,) for k in ("LateSkipResBlock", "DoubleConvBlock")},
}


# ------------------------------------------------------------------ heads in a list
class Head(nn.Module):
    """one head of self-attention"""

    def __init__(self):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * head_size ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return wei @ self.value(x)


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.proj = nn.ModuleList([Head() for _ in range(n_head)]), nn.Linear(n_embd, n_embd)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(out)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(0.0))

    def forward(self, x):
        return self.net(x)


class HeadsBlock(nn.Module):
    """communication followed by computation"""

    def __init__(self):
        super().__init__()
        self.sa, self.ffwd = MultiHeadAttention(), FeedForward()
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        x = x + self.ffwd(self.ln2(x))
        return x


class HeadsBlockNormed(HeadsBlock):
    """one operation per line"""

    def forward(self, x):
        x = self.ln1(x)
        x = x + self.sa(x)
        x = self.ln2(x)
        x = x + self.ffwd(x)
        return x


# ------------------------------------------------------------------ sublayers with a helper
def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    """A residual connection with a norm."""

    def __init__(self, size=n_embd, dropout=0.0):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(x))


def attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h=n_head, d_model=n_embd):
        super().__init__()
        self.d_k, self.h, self.linears, self.attn = d_model // h, h, clones(nn.Linear(d_model, d_model), 4), None

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        query, key, value = [lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2) for lin, x in zip(self.linears, (query, key, value))]
        x, self.attn = attention(query, key, value, mask=mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class SublayerLayerBare(nn.Module):
    """An encoder layer of self-attention and a net, each in a sublayer."""

    def __init__(self):
        super().__init__()
        self.self_attn, self.feed_forward, self.sublayer = MultiHeadedAttention(), FeedForward(), clones(SublayerConnection(), 2)

    def forward(self, x, mask=None):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer[1](x, self.feed_forward)


# ------------------------------------------------------------------ the library's own
class NativeLayer(nn.TransformerEncoderLayer):
    """The library's layer with its norms in front."""

    def __init__(self):
        super().__init__(d_model=n_embd, nhead=n_head, dim_feedforward=64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)


# ------------------------------------------------------------------ parallel branches
class ParallelBlock(nn.Module):
    """One norm and one map for attention and net, which are summed at once."""

    def __init__(self, ff_inner=64):
        super().__init__()
        self.fused_dims = (n_embd, head_size, head_size, 2 * ff_inner)
        self.norm, self.fused, self.attn_out, self.ff_out = nn.LayerNorm(n_embd), nn.Linear(n_embd, sum(self.fused_dims), bias=False), nn.Linear(n_embd, n_embd, bias=False), nn.Linear(ff_inner, n_embd, bias=False)

    def ff(self, x, ff):
        a, gate = ff.chunk(2, dim=-1)
        return self.ff_out(F.silu(gate) * a)

    def forward(self, x):
        q, k, v, ff = self.fused(self.norm(x)).split(self.fused_dims, dim=-1)
        q = q.unflatten(-1, (n_head, head_size)).transpose(1, 2) * head_size ** -0.5
        sim = torch.einsum("bhid,bjd->bhij", q, k)
        causal = torch.ones(sim.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        attn = sim.masked_fill(causal, float("-inf")).softmax(dim=-1)
        out = torch.einsum("bhij,bjd->bihd", attn, v).flatten(2)
        return x + self.attn_out(out) + self.ff(x, ff)


class ParallelBlockRaw(ParallelBlock):
    """The net has a first map of its own, which reads the block's input as attention does."""

    def __init__(self, ff_inner=64):
        super().__init__(ff_inner)
        self.ff_in = nn.Linear(n_embd, ff_inner)

    def ff(self, x, ff):
        return self.ff_out(F.gelu(self.ff_in(x)))


# ------------------------------------------------------------------ slopes for distances
class AlibiBlock(nn.Module):
    """Distances are taken off the scores, by a slope a head; norms stand in front of branches and behind."""

    def __init__(self):
        super().__init__()
        self.pre = nn.ModuleDict({"attn": nn.LayerNorm(n_embd), "ffn": nn.LayerNorm(n_embd)})
        self.post = nn.ModuleDict({"attn": nn.LayerNorm(n_embd), "ffn": nn.LayerNorm(n_embd)})
        self.to_qkv, self.to_out, self.ffn = nn.Linear(n_embd, 3 * n_embd, bias=False), nn.Linear(n_embd, n_embd), FeedForward()
        slopes = torch.tensor([2.0 ** (-8 * (i + 1) / n_head) for i in range(n_head)])
        distance = torch.arange(block_size)[None, :] - torch.arange(block_size)[:, None]
        bias = slopes[:, None, None] * distance
        self.register_buffer("alibi", bias.masked_fill(distance > 0, float("-inf")), persistent=False)

    def attn(self, h):
        b, t, _ = h.shape
        q, k, v = self.to_qkv(h).reshape(b, t, 3, n_head, head_size).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / head_size ** 0.5 + self.alibi[:, :t, :t].to(h.dtype)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, n_embd))

    def forward(self, x):
        for name in ("attn", "ffn"):
            fn = getattr(self, name)
            x = x + self.post[name](fn(self.pre[name](x)))
        return x


# ------------------------------------------------------------------ talking heads
class TalkingHeadsBlock(nn.Module):
    """Heads are mixed in front of the softmax and behind; a table of biases by distance."""

    def __init__(self, init=0.5):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.proj = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd), nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.proj_l, self.proj_w = nn.Linear(n_head, n_head), nn.Linear(n_head, n_head)
        self.bias_table = nn.Parameter(torch.randn(2 * block_size - 1, n_head) * 0.02)
        self.register_buffer("index", torch.arange(block_size)[:, None] - torch.arange(block_size)[None, :] + block_size - 1)
        self.gamma1, self.gamma2, self.mlp = nn.Parameter(init * torch.ones(n_embd)), nn.Parameter(init * torch.ones(n_embd)), FeedForward()

    def attn(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, n_head, C // n_head).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * head_size ** -0.5, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1) + self.bias_table[self.index].permute(2, 0, 1)
        attn = self.proj_l(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = attn.softmax(dim=-1)
        attn = self.proj_w(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)

    def forward(self, x):
        x = x + self.gamma1 * self.attn(self.norm1(x))
        x = x + self.gamma2 * self.mlp(self.norm2(x))
        return x


# ------------------------------------------------------------------ cosines
def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class CosineBlock(nn.Module):
    """Queries and keys get length one and are turned by their place; a temperature a head."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.wq, self.wk, self.wv, self.wo, self.ffwd = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd), *(nn.Linear(n_embd, n_embd, bias=False) for _ in range(4)), FeedForward()
        self.logit_scale = nn.Parameter(torch.full((n_head,), math.log(10.0)))
        freqs = torch.outer(torch.arange(block_size).float(), 1.0 / 10000 ** (torch.arange(0, head_size, 2).float() / head_size))
        self.register_buffer("cos", torch.cat((freqs, freqs), dim=-1).cos())
        self.register_buffer("sin", torch.cat((freqs, freqs), dim=-1).sin())

    def unit(self, q, k):
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1)

    def rope(self, x):
        return (x * self.cos[: x.shape[-2]] + rotate_half(x) * self.sin[: x.shape[-2]]).to(x.dtype)

    def attention(self, x):
        outs = []
        scale = self.logit_scale.exp().clamp(max=100.0)
        for h, (q, k, v) in enumerate(zip(*(w(x).split(head_size, dim=-1) for w in (self.wq, self.wk, self.wv)))):
            q, k = self.unit(q, k)
            att = scale[h] * torch.bmm(self.rope(q), self.rope(k).transpose(1, 2))
            outs.append(torch.bmm(torch.softmax(att, dim=-1), v))
        return self.wo(torch.cat(outs, dim=-1))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.ffwd(self.ln_2(x))


class CosineBlockQuery(CosineBlock):
    """Only queries get length one, for keys are cached."""

    def unit(self, q, k):
        return F.normalize(q, dim=-1), k


# ------------------------------------------------------------------ softmaxes by hand
def softmax(x, dim=-1):
    e = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return e / e.sum(dim=dim, keepdim=True)


class HandSoftmaxBlock(nn.Module):
    """Half a net, attention whose scores go through a tanh, half a net."""

    softmax_by_hand = True

    def __init__(self, cap=20.0):
        super().__init__()
        self.cap, self.norms = cap, nn.ModuleList(nn.RMSNorm(n_embd) for _ in range(3))
        self.W_qkv, self.W_o, self.ffn1, self.ffn2 = nn.Parameter(torch.randn(3, n_head, n_embd, head_size) * n_embd ** -0.5), nn.Parameter(torch.randn(n_head, head_size, n_embd) * n_embd ** -0.5), FeedForward(), FeedForward()

    def self_attention(self, x):
        Q, K, V = torch.einsum("btc,phcd->pbhtd", x, self.W_qkv)
        scores = self.cap * torch.tanh(torch.einsum("bhtd,bhsd->bhts", Q, K) / (math.sqrt(head_size) * self.cap))
        heads = torch.einsum("bhts,bhsd->bhtd", softmax(scores), V)
        return torch.einsum("bhtd,hdc->btc", heads, self.W_o)

    def forward(self, x):
        x = x + 0.5 * self.ffn1(self.norms[0](x))
        x = x + self.self_attention(self.norms[1](x))
        x = x + 0.5 * self.ffn2(self.norms[2](x))
        return x


# ------------------------------------------------------------------ norms behind
class EinsumPostBlock(nn.Module):
    """The layer of a video course: attention by einsum, norms behind both sums."""

    def __init__(self):
        super().__init__()
        self.values = nn.Linear(head_size, head_size, bias=False)
        self.keys = nn.Linear(head_size, head_size, bias=False)
        self.queries = nn.Linear(head_size, head_size, bias=False)
        self.fc_out = nn.Linear(n_embd, n_embd)
        self.norm1, self.norm2, self.feed_forward, self.dropout = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd), FeedForward(), nn.Dropout(0.0)

    def attention(self, values, keys, query):
        N, L = query.shape[0], query.shape[1]
        values, keys, queries = (t.reshape(N, -1, n_head, head_size) for t in (values, keys, query))
        values, keys, queries = self.values(values), self.keys(keys), self.queries(queries)
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        att = torch.softmax(energy / (n_embd ** 0.5), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [att, values]).reshape(N, L, n_embd)
        return self.fc_out(out)

    def forward(self, x):
        att = self.attention(x, x, x)
        x = self.dropout(self.norm1(att + x))
        forward = self.feed_forward(x)
        return self.dropout(self.norm2(forward + x))


# ------------------------------------------------------------------ decoders with memories
class MemoryDecoderLayer(nn.Module):
    """Attention to what was written, attention to the source, a net; norms in front."""

    def __init__(self):
        super().__init__()
        self.self_attn, self.multihead_attn = nn.MultiheadAttention(n_embd, n_head, batch_first=True), nn.MultiheadAttention(n_embd, n_head, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(n_embd, 64), nn.Linear(64, n_embd)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, tgt, memory):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1), device=tgt.device, dtype=tgt.dtype)
        tgt2 = self.norm1(tgt)
        tgt = tgt + self.self_attn(tgt2, tgt2, tgt2, attn_mask=mask)[0]
        tgt = self.norm2(tgt)
        tgt = tgt + self.multihead_attn(tgt, memory, memory)[0]
        tgt2 = self.norm3(tgt)
        return tgt + self.linear2(F.relu(self.linear1(tgt2)))


# ------------------------------------------------------------------ residual filters
class LateSkipResBlock(nn.Module):
    """Two filters with norms of the batch, a sum and a ReLU."""

    def __init__(self, channels=n_embd):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        identity = out
        out = self.bn2(self.conv2(out))
        out = out + identity
        return F.relu(out)


class DoubleConvBlock(nn.Module):
    """The residual pair of filters of a denoiser."""

    def __init__(self, channels=n_embd, residual=True):
        super().__init__()
        self.residual = residual
        self.double_conv = nn.Sequential(
            nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(1, channels),
            nn.GELU(),
            nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(1, channels),
        )

    def forward(self, x):
        if self.residual:
            return F.gelu(x + self.double_conv(x))
        return self.double_conv(x)


_PRE = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NET = dict(_PRE, softmax=False)
_EXP = dict(kind="block", growth_fixed="exponential")
_LEVEL = dict(kind="block", growth_fixed="bounded")
_TWO, _BOTH = dict(output_bounded={0: False, 1: False}), dict(output_bounded={0: True, 1: True})
_OPEN, _SHUT = dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "HeadsBlock": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm."),
    "HeadsBlockNormed": dict(_LEVEL, softmax=True, **_TWO, **_OPEN, sound=False, why="norms take the stream's place: each block starts anew from a norm."),
    "SublayerLayerBare": dict(_EXP, identity_gain=1.0, softmax=True, **_TWO, **_OPEN, sound=False, why="the helper's norm is never called: branches are of degree one in the raw stream."),
    "NativeLayer": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, as norm_first says."),
    "ParallelBlock": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm; two functions of one norm are added."),
    "ParallelBlockRaw": dict(_EXP, identity_gain=1.0, softmax=True, **_TWO, **_OPEN, sound=False, why="the net reads the raw stream: of degree one."),
    "AlibiBlock": dict(_PRE, **_BOTH, **_OPEN, growth_all="linear", gradient_law="power", sound=True, why="norms in front of and behind both branches; scores are a constant and a product of maps of a norm."),
    "TalkingHeadsBlock": dict(_PRE, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm with a factor a channel."),
    "CosineBlock": dict(_PRE, **_TWO, **_SHUT, gradient_law="power", sound=True, why="pre-norm; cosines that are turned, times a temperature that is held."),
    "CosineBlockQuery": dict(_PRE, **_TWO, **_OPEN, why="pre-norm; keys have any length, so scores grow with their map."),
    "HandSoftmaxBlock": dict(_PRE, output_bounded={0: False, 1: False, 2: False}, logits_bounded={1: True}, gradient_law="power", sound=True, why="pre-norm with half nets; scores are twenty times a tanh."),
    "EinsumPostBlock": dict(_LEVEL, growth_all="bounded", softmax=True, **_OPEN, sound=True, why="a norm behind both sums."),
    "MemoryDecoderLayer": dict(_LEVEL, softmax=True, output_bounded={0: False, 1: False, 2: False}, logits_bounded={0: False, 1: False}, sound=False, why="the second norm takes the stream's place: each layer starts anew from it."),
    "LateSkipResBlock": dict(_LEVEL, growth_all="bounded", softmax=False, gradient_law="exponential", sound=False, why="the skip is taken behind the first filter and its norm: each block is a sum of two norms, and no path leads past them."),
    "DoubleConvBlock": dict(kind="block", growth_fixed="linear", growth_all="linear", softmax=False, output_bounded={0: True}, sound=False, why="a GELU of the sum is on the skip, and is never larger than what it gets; the branch ends in a norm."),
}
