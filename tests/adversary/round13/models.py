"""Small whole models, ports and slips of ports."""

import copy
import math
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H = 32, 16, 4


def example_inputs():
    return (torch.randn(2, T, D),)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


def rotate_half(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-b, a), dim=-1)


class SelfAttention(nn.Module):
    """Rotary, optional unit q and k."""

    def __init__(self, dim=D, heads=H, qk_norm=False, causal=True, bias=False):
        super().__init__()
        self.heads, self.qk_norm, self.causal = heads, qk_norm, causal
        self.wqkv, self.wo = nn.Linear(dim, 3 * dim, bias=bias), nn.Linear(dim, dim, bias=bias)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.wqkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if self.qk_norm:
            q, k = F.rms_norm(q, (q.size(-1),)), F.rms_norm(k, (k.size(-1),))
        hd = q.shape[-1]
        ang = torch.outer(torch.arange(n, device=x.device, dtype=x.dtype), 1e4 ** (-torch.arange(0, hd, 2, device=x.device, dtype=x.dtype) / hd)).repeat(1, 2)
        cos, sin = ang.cos(), ang.sin()
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.wo(y.transpose(1, 2).reshape(b, n, d))


class SwiGLU(nn.Module):
    def __init__(self, dim=D, hidden=80):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False), nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self, qk_norm=False, causal=True):
        super().__init__()
        self.attention, self.feed_forward = SelfAttention(qk_norm=qk_norm, causal=causal), SwiGLU()
        self.attention_norm, self.ffn_norm = RMSNorm(D), RMSNorm(D)

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class LlamaModel(nn.Module):
    """Meta's layout; the embedded tokens come in."""

    def __init__(self, n_layers=10):
        super().__init__()
        self.params = SimpleNamespace(n_layers=n_layers)
        self.layers = nn.ModuleList()
        for _ in range(self.params.n_layers):
            self.layers.append(LlamaBlock())
        self.norm, self.output = RMSNorm(D), nn.Linear(D, D, bias=False)

    def forward(self, h):
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))


class WhisperBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.attn_ln = nn.MultiheadAttention(D, H, batch_first=True), nn.LayerNorm(D)
        self.mlp, self.mlp_ln = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D)), nn.LayerNorm(D)

    def forward(self, x):
        y = self.attn_ln(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.mlp_ln(x))
        return x


class AudioEncoder(nn.Module):
    """Two convolutions with GELUs, sinusoids, pre-norm blocks, a norm."""

    def __init__(self, n_layer=6):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(D, D, 3, padding=1), nn.Conv1d(D, D, 3, padding=1)
        t = torch.arange(T)[:, None] * torch.exp(-math.log(1e4) / (D // 2 - 1) * torch.arange(D // 2))[None]
        self.register_buffer("positional_embedding", torch.cat([t.sin(), t.cos()], dim=1))
        self.blocks = nn.ModuleList([WhisperBlock() for _ in range(n_layer)])
        self.ln_post = nn.LayerNorm(D)

    def forward(self, x):
        x = F.gelu(self.conv1(x.permute(0, 2, 1)))
        x = F.gelu(self.conv2(x)).permute(0, 2, 1)
        x = x + self.positional_embedding
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)


class SpeedrunBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.lambdas = SelfAttention(qk_norm=True), nn.Parameter(torch.tensor([1.0, 0.0]))
        self.c_fc, self.c_proj = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, x, x0):
        x = self.lambdas[0] * x + self.lambdas[1] * x0
        x = x + self.attn(F.rms_norm(x, (D,)))
        return x + self.c_proj(F.relu(self.c_fc(F.rms_norm(x, (D,)))).square())


class SpeedrunGpt(nn.Module):
    """x0 comes in again by a learned pair (1, 0), q and k are normed, squared ReLU, a capped head."""

    def __init__(self, n_layer=12):
        super().__init__()
        self.blocks = nn.ModuleList(SpeedrunBlock() for _ in range(n_layer))
        self.lm_head = nn.Linear(D, D, bias=False)

    def features(self, x):
        x0 = x
        for block in self.blocks:
            x = block(x, x0)
        return x

    def forward(self, x):
        x = F.rms_norm(self.features(F.rms_norm(x, (D,))), (D,))
        return 30 * torch.tanh(self.lm_head(x) / 30)


class UVitAverage(nn.Module):
    """Down, up; each block on the way up starts from (x + skip) over the root of two."""

    def __init__(self, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(WhisperBlock() for _ in range(depth))
        self.norm, self.proj = nn.LayerNorm(D), nn.Linear(D, D)

    def features(self, x):
        half, skips = len(self.blocks) // 2, []
        for b in self.blocks[:half]:
            x = b(x)
            skips.append(x)
        for b in self.blocks[half:]:
            x = b((x + skips.pop()) / math.sqrt(2))
        return x

    def forward(self, x):
        return self.proj(self.norm(self.features(x)))


class LoopedTransformer(nn.Module):
    """The input is added before every block."""

    def __init__(self, loops=24):
        super().__init__()
        self.blocks = nn.ModuleList(LlamaBlock() for _ in range(loops))
        self.norm = RMSNorm(D)

    def features(self, x):
        inject = x
        for b in self.blocks:
            x = b(x + inject)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class Conv1D(nn.Module):
    """HF's linear layer with a transposed weight."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf, self.weight, self.bias = nf, nn.Parameter(torch.empty(nx, nf)), nn.Parameter(torch.zeros(nf))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


class DtBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(3 * D, D), "c_proj": Conv1D(D, D)})
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(4 * D, D), "c_proj": Conv1D(D, 4 * D)})

    def forward(self, hidden):
        residual = hidden
        q, k, v = [t.unflatten(-1, (H, -1)).permute(0, 2, 1, 3) for t in self.attn["c_attn"](self.ln_1(hidden)).split(D, dim=2)]
        w = q @ k.transpose(-1, -2) / v.size(-1) ** 0.5
        causal = torch.ones(w.shape[-2:], dtype=torch.bool, device=w.device).tril()
        w = torch.where(causal, w, torch.full([], torch.finfo(w.dtype).min, dtype=w.dtype, device=w.device)).softmax(-1)
        hidden = self.attn["c_proj"]((w @ v).permute(0, 2, 1, 3).flatten(2)) + residual
        residual = hidden
        return residual + self.mlp["c_proj"](F.relu(self.mlp["c_fc"](self.ln_2(hidden))))


class DecisionTransformer(nn.Module):
    """Embedding norm, GPT-2 layers, projections with std 0.02 / sqrt(2N), tanh actions."""

    def __init__(self, n_layer=6):
        super().__init__()
        self.embed_state, self.embed_ln = nn.Linear(D, D), nn.LayerNorm(D)
        self.h = nn.ModuleList(DtBlock() for _ in range(n_layer))
        self.ln_f, self.predict_action = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, D), nn.Tanh())
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * n_layer))

    def forward(self, states):
        x = self.embed_ln(self.embed_state(states))
        for block in self.h:
            x = block(x)
        return self.predict_action(self.ln_f(x))


class TstLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.norm_attn, self.norm_ffn = nn.BatchNorm1d(D), nn.BatchNorm1d(D)
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, src):
        src = src + self.self_attn(src, src, src)[0]
        src = self.norm_attn(src.transpose(1, 2)).transpose(1, 2)
        src = src + self.ff(src)
        return self.norm_ffn(src.transpose(1, 2)).transpose(1, 2)


class PatchTst(nn.Module):
    """Post-norm with batch norms, learned positions."""

    def __init__(self, n_layers=5):
        super().__init__()
        self.w_p, self.w_pos = nn.Linear(D, D), nn.Parameter(torch.empty(T, D).uniform_(-0.02, 0.02))
        self.layers = nn.ModuleList([TstLayer() for _ in range(n_layers)])
        self.head = nn.Linear(D, D)

    def forward(self, z):
        u = self.w_p(z) + self.w_pos
        for mod in self.layers:
            u = mod(u)
        return self.head(u)


class GraphormerLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.ffn = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D))

    def forward(self, x, bias):
        y = self.ln1(x)
        b, n, _ = y.shape
        q, k, v = (f(y).view(b, n, H, -1) for f in (self.q, self.k, self.v))
        s = torch.einsum("bihd,bjhd->bhij", q * (D // H) ** -0.5, k) + bias
        x = x + self.o(torch.einsum("bhij,bjhd->bihd", torch.softmax(s, 3), v).reshape(b, n, -1))
        return x + self.ffn(self.ln2(x))


class Graphormer(nn.Module):
    """A ring of 16 nodes; a learned bias per distance and head for all layers."""

    def __init__(self, n_layers=8):
        super().__init__()
        i = torch.arange(T)
        d = (i[:, None] - i[None]).abs()
        self.register_buffer("dist", torch.minimum(d, T - d))
        self.spatial = nn.Embedding(T // 2 + 1, H)
        self.layers = nn.ModuleList(GraphormerLayer() for _ in range(n_layers))
        self.final_ln = nn.LayerNorm(D)

    def forward(self, x):
        bias = self.spatial(self.dist).permute(2, 0, 1).unsqueeze(0)
        for layer in self.layers:
            x = layer(x, bias)
        return self.final_ln(x)


class RgLruBlock(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.temporal_norm, self.channel_norm = RMSNorm(D), RMSNorm(D)
        self.linear_y, self.linear_x, self.linear_out = nn.Linear(D, width), nn.Linear(D, width), nn.Linear(width, D)
        self.conv_1d = nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.gates, self.a_param = nn.Linear(width, 2 * width), nn.Parameter(torch.linspace(0.5, 3.0, width))
        self.mlp = SwiGLU()

    def recurrent(self, x):
        y = F.gelu(self.linear_y(x))
        x = self.conv_1d(self.linear_x(x).mT)[..., : x.shape[1]].mT
        r, i = torch.sigmoid(self.gates(x)).chunk(2, -1)
        log_a = -8.0 * r * F.softplus(self.a_param)
        a, mult = log_a.exp(), torch.sqrt(1 - torch.exp(2 * log_a) + 1e-6)
        h, out = x.new_zeros(x.shape[0], x.shape[2]), []
        for t in range(x.shape[1]):
            h = a[:, t] * h + mult[:, t] * i[:, t] * x[:, t]
            out.append(h)
        return self.linear_out(torch.stack(out, 1) * y)

    def forward(self, x):
        x = x + self.recurrent(self.temporal_norm(x))
        return x + self.mlp(self.channel_norm(x))


class Griffin(nn.Module):
    """Gated linear recurrences only; the input times the root of the width."""

    def __init__(self, depth=6):
        super().__init__()
        self.blocks = nn.ModuleList([RgLruBlock() for _ in range(depth)])
        self.final_norm = RMSNorm(D)

    def forward(self, x):
        x = x * math.sqrt(D)
        for block in self.blocks:
            x = block(x)
        return self.final_norm(x)


class WaveLayer(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.filter, self.gate = (nn.Conv1d(D, D, 2, dilation=dilation) for _ in range(2))
        self.residual, self.skip = nn.Conv1d(D, D, 1), nn.Conv1d(D, 48, 1)
        self.dilation = dilation

    def forward(self, x):
        p = F.pad(x, (self.dilation, 0))
        z = torch.tanh(self.filter(p)) * torch.sigmoid(self.gate(p))
        return x + self.residual(z), self.skip(z)


class WaveNet(nn.Module):
    """Dilations 1, 2, 4, 8 in turn; the head reads the sum of the skips."""

    def __init__(self, layers=8):
        super().__init__()
        self.causal = nn.Conv1d(D, D, 1)
        self.layers = nn.ModuleList(WaveLayer(2 ** (i % 4)) for i in range(layers))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(48, 48, 1), nn.ReLU(), nn.Conv1d(48, D, 1))

    def features(self, x):
        x = x.transpose(1, 2)
        for layer in self.layers:
            x, _ = layer(x)
        return x.transpose(1, 2)

    def forward(self, x):
        x, total = self.causal(x.transpose(1, 2)), 0
        for layer in self.layers:
            x, s = layer(x)
            total = total + s
        return self.end(total).transpose(1, 2)


class AlbertLike(nn.Module):
    """One post-norm layer of the library, twelve times."""

    def __init__(self, n=12):
        super().__init__()
        self.embedding_norm = nn.LayerNorm(D)
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, dropout=0.0, activation="gelu", batch_first=True)
        self.layers = nn.ModuleList([layer] * n)
        self.classifier = nn.Linear(D, D)

    def forward(self, x):
        x = self.embedding_norm(x)
        for layer in self.layers:
            x = layer(x)
        return self.classifier(x)


class CloneStack(nn.Module):
    """Deep copies of one pre-norm layer by nn.TransformerEncoder, with a final norm."""

    def __init__(self, num_layers=8):
        super().__init__()
        proto = nn.TransformerEncoderLayer(D, H, 4 * D, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(proto, num_layers, norm=nn.LayerNorm(D), enable_nested_tensor=False)
        self.layers = self.encoder.layers

    def forward(self, src):
        return self.encoder(src)


class StaticHyperConnections(nn.Module):
    """Four copies of the stream, read by a row, written by a column, mixed by a matrix that starts as the identity; their mean at the end."""

    class Layer(nn.Module):
        def __init__(self, i, n=4):
            super().__init__()
            self.read, self.write = nn.Parameter(F.one_hot(torch.tensor(i % n), n).to(torch.get_default_dtype())), nn.Parameter(torch.ones(n))
            self.mix = nn.Parameter(torch.eye(n))
            self.norm, self.attn, self.norm2, self.mlp = RMSNorm(D), SelfAttention(), RMSNorm(D), SwiGLU()

        def forward(self, s):
            h = torch.einsum("n,bntd->btd", self.read, s)
            y = self.attn(self.norm(h))
            y = y + self.mlp(self.norm2(h))
            return torch.einsum("nm,bmtd->bntd", self.mix, s) + self.write[:, None, None] * y[:, None]

    def __init__(self, depth=8):
        super().__init__()
        self.blocks = nn.ModuleList(self.Layer(i) for i in range(depth))
        self.norm = RMSNorm(D)

    def features(self, x):
        s = x.unsqueeze(1).repeat(1, 4, 1, 1)
        for b in self.blocks:
            s = b(s)
        return s.mean(1)

    def forward(self, x):
        return self.norm(self.features(x))


class CoAttention(nn.Module):
    """Two streams, each reads the other; the second starts from learned tokens; pre-norm."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.na, self.nb = nn.LayerNorm(D), nn.LayerNorm(D)
            self.a_to_b, self.b_to_a = nn.MultiheadAttention(D, H, batch_first=True), nn.MultiheadAttention(D, 2, batch_first=True)
            self.fa = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))
            self.fb = copy.deepcopy(self.fa)

        def forward(self, a, b):
            na, nb = self.na(a), self.nb(b)
            a = a + self.b_to_a(na, nb, nb, need_weights=False)[0]
            b = b + self.a_to_b(nb, na, na, need_weights=False)[0]
            return a + self.fa(a), b + self.fb(b)

    def __init__(self, depth=6):
        super().__init__()
        self.second = nn.Parameter(torch.randn(6, D))
        self.layers = nn.ModuleList(self.Layer() for _ in range(depth))
        self.norm = nn.LayerNorm(D)

    def features(self, a):
        b = self.second.expand(a.shape[0], -1, -1)
        for layer in self.layers:
            a, b = layer(a, b)
        return a

    def forward(self, a):
        return self.norm(self.features(a))


# ============================================================ slips
class LoopAddsAgain(nn.Module):
    """The blocks have their skips; the loop adds another."""

    def __init__(self, n_layers=24):
        super().__init__()
        self.blocks = nn.ModuleList(LlamaBlock() for _ in range(n_layers))
        self.norm, self.head = RMSNorm(D), nn.Linear(D, D, bias=False)

    def features(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x

    def forward(self, x):
        return self.head(self.norm(self.features(x)))


class FinalNormIndented(nn.Module):
    """The final norm stands inside the loop."""

    def __init__(self, n_layers=12):
        super().__init__()
        self.blocks = nn.ModuleList(WhisperBlock() for _ in range(n_layers))
        self.norm = nn.LayerNorm(D)

    def features(self, x):
        for block in self.blocks:
            x = block(x)
            x = self.norm(x)
        return x

    def forward(self, x):
        return self.features(x)


class LeapfrogAverage(nn.Module):
    """Each state is the mean of the block's output and the state two before."""

    def __init__(self, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(WhisperBlock() for _ in range(depth))
        self.norm = nn.LayerNorm(D)

    def features(self, x):
        before = x
        for block in self.blocks:
            x, before = (block(x) + before) / 2, x
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class RunningMeanOfLayers(nn.Module):
    """The state is the mean of the input and all branches so far."""

    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attn, self.mlp = RMSNorm(D), SelfAttention(causal=False), SwiGLU()

        def forward(self, x):
            h = self.norm(x)
            return self.attn(h) + self.mlp(h)

    def __init__(self, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Branch() for _ in range(depth))
        self.norm = RMSNorm(D)

    def features(self, x):
        for i, block in enumerate(self.blocks):
            x = x + (block(x) - x) / (i + 2)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


class LastBlockUnskipped(nn.Module):
    """The last block has no skip around its net."""

    class Block(LlamaBlock):
        def __init__(self, last):
            super().__init__()
            self.last = last

        def forward(self, x):
            h = x + self.attention(self.attention_norm(x))
            y = self.feed_forward(self.ffn_norm(h))
            return y if self.last else h + y

    def __init__(self, depth=24):
        super().__init__()
        self.blocks = nn.ModuleList(self.Block(i == depth - 1) for i in range(depth))
        self.norm = RMSNorm(D)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class ElmoMixture(nn.Module):
    """The head reads a softmax-weighted mean of all states; pre-norm blocks with unit q and k."""

    def __init__(self, depth=9):
        super().__init__()
        self.blocks = nn.ModuleList(LlamaBlock(qk_norm=True, causal=False) for _ in range(depth))
        self.scalars = nn.Parameter(torch.zeros(depth + 1))
        self.head = nn.Linear(D, D)

    def forward(self, x):
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1]))
        return self.head(torch.einsum("l,lbtd->btd", self.scalars.softmax(0), torch.stack(states)))


class EmbeddingScaleEachLayer(nn.Module):
    """The factor on the embedding, here 2 ** 0.25, is applied before every block."""

    def __init__(self, n_layer=24):
        super().__init__()
        self.scale = 2 ** 0.25
        self.layers = nn.ModuleList(LlamaBlock() for _ in range(n_layer))
        self.norm = RMSNorm(D)

    def features(self, x):
        for layer in self.layers:
            x = layer(x * self.scale)
        return x

    def forward(self, x):
        return self.norm(self.features(x))


_PRE = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_POST = dict(kind="model", identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True)
_M = dict(kind="model")
TRUTH = {
    "LlamaModel": dict(_PRE, depth=10, logits_bounded={0: False}, why="pre-norm."),
    "AudioEncoder": dict(_PRE, depth=6, logits_bounded={0: False}, why="pre-norm."),
    "SpeedrunGpt": dict(_PRE, depth=12, logits_bounded={0: True}, why="1 and 0 at the start; pre-norm; QK-norm."),
    "UVitAverage": dict(_M, identity_gain=1 + 2 ** 0.5 - 2 ** 0.5 / 64, softmax=True, depth=24, logits_bounded={0: False},
        why="g = (g + 1)/root 2, twelve times from 1; linear in the middle, bounded at the end: no word on growth."),
    "LoopedTransformer": dict(_M, identity_gain=25.0, growth_fixed="linear", softmax=True, depth=24, logits_bounded={0: False}, why="one more each block."),
    "DecisionTransformer": dict(_M, identity_gain=1.0, gradient_law="flat", softmax=True, depth=6, logits_bounded={0: False}, why="pre-norm."),
    "PatchTst": dict(_POST, depth=5, logits_bounded={0: False}, why="batch norms on the sum."),
    "Graphormer": dict(_PRE, depth=8, logits_bounded={0: False}, why="pre-norm."),
    "Griffin": dict(_M, identity_gain=32 ** 0.5, growth_fixed="linear", softmax=False, depth=6, why="pre-norm behind a factor √d."),
    "WaveNet": dict(_M, identity_gain=1.0, growth_fixed="linear", softmax=False, depth=8, why="tanh times sigmoid."),
    "AlbertLike": dict(_POST, depth=12, logits_bounded={0: False}, why="post-norm, tied."),
    "CloneStack": dict(_PRE, depth=8, logits_bounded={0: False}, why="pre-norm, all alike at the start."),
    "StaticHyperConnections": dict(_PRE, depth=8, logits_bounded={0: False}, why="identity at the start; the mean of four."),
    "CoAttention": dict(_M, identity_gain=1.0, softmax=True, depth=6, logits_bounded={0: False},
        why="pre-norm."),
    "LoopAddsAgain": dict(_M, identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", softmax=True, depth=24,
        logits_bounded={0: False}, why="2 a block."),
    "FinalNormIndented": dict(_M, identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True, depth=12, logits_bounded={0: False},
        why="a norm on the stream behind each block."),
    "LeapfrogAverage": dict(_PRE, depth=24, logits_bounded={0: False}, why="means of ones are one."),
    "RunningMeanOfLayers": dict(_M, identity_gain=1 / 25, growth_fixed="bounded", softmax=True, depth=24, logits_bounded={0: False}, why="1/(N + 1)."),
    "LastBlockUnskipped": dict(_M, identity_gain=0.0, softmax=True, depth=24, logits_bounded={0: False},
        why="what leaves the last block is a net of a normed value; linear before it: no word on growth."),
    "ElmoMixture": dict(_PRE, depth=9, logits_bounded={0: True}, why="pre-norm, QK-norm."),
    "EmbeddingScaleEachLayer": dict(_M, identity_gain=64.0, growth_fixed="exponential", gradient_law="exponential", softmax=True, depth=24,
        logits_bounded={0: False}, why="2 ** 0.25 a block."),
}
