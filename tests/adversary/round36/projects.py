"""Whole models as in tutorials and small repositories: texts, translation, speech, tables, molecules, series of words with recurrences, waves with long skips, pictures."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

D, T, H, V = 32, 16, 4, 48
HD = D // H

_G = torch.Generator().manual_seed(3604)
_IDS = torch.randint(0, V, (2, T), generator=_G)
_ADJ = (torch.rand(12, 12, generator=_G) < 0.25).float()
example_inputs = {
    **{k: (_IDS,) for k in ("NanoGpt", "TutorialGpt", "LlamaLm", "LlamaLmCheckpoint", "SharedLayerEncoder", "ResidualLstmLm")},
    "TranslationModel": (_IDS, torch.randint(0, V, (2, 10), generator=_G)),
    "SpeechEncoder": (torch.randn(2, 20, 32, generator=_G),),
    "FeatureTokenTransformer": (torch.randn(6, 5, generator=_G), torch.randint(0, 7, (6, 3), generator=_G)),
    "TableResNet": (torch.randn(24, 9, generator=_G),),
    "MoleculeNet": (torch.randint(0, 9, (3, 12), generator=_G), ((_ADJ + _ADJ.T) > 0).float().expand(3, 12, 12)),
    "LongSkipDenoiser": (torch.randn(2, 1, 128, generator=_G), torch.tensor([3.0, 70.0])),
    **{k: (torch.randn(2, 3, 16, 16, generator=_G),) for k in ("LocalPositionVit", "AveragedVit")},
}


@dataclass
class GPTConfig:
    block_size: int = T
    vocab_size: int = V
    n_layer: int = 6
    n_head: int = H
    n_embd: int = D
    bias: bool = False
    activations: dict = field(default_factory=lambda: {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU})


def dense(i, o, bias=True):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def heads(x):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def mlp(dim=D, mult=2, act=nn.GELU):
    return nn.Sequential(dense(dim, mult * dim), act(), dense(mult * dim, dim))


# ------------------------------------------------------------------ texts
class GptBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd, bias=config.bias), nn.LayerNorm(config.n_embd, bias=config.bias)
        self.c_attn, self.c_proj = dense(config.n_embd, 3 * config.n_embd, config.bias), dense(config.n_embd, config.n_embd, config.bias)
        self.mlp = nn.ModuleDict(dict(c_fc=dense(config.n_embd, 4 * config.n_embd, config.bias), act=config.activations["gelu"](), c_proj=dense(4 * config.n_embd, config.n_embd, config.bias), dropout=nn.Dropout(0.0)))
        m = self.mlp
        self.mlpf = lambda x: m.dropout(m.c_proj(m.act(m.c_fc(x))))
        self.register_buffer("mask", torch.tril(torch.ones(config.block_size, config.block_size))[None, None])

    def attn(self, x):
        t = x.size(1)
        q, k, v = map(heads, self.c_attn(x).chunk(3, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        return self.c_proj((F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().flatten(2))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlpf(self.ln_2(x))
        return x


class NanoGpt(nn.Module):
    """Tables of words and places, blocks, a norm, a map to words."""

    def __init__(self, n=None, config=None):
        super().__init__()
        config = config or GPTConfig()
        self.wte, self.wpe = nn.Embedding(config.vocab_size, config.n_embd), nn.Embedding(config.block_size, config.n_embd)
        self.blocks = nn.ModuleList(GptBlock(config) for _ in range(n or config.n_layer))
        self.ln_f, self.lm_head = nn.LayerNorm(config.n_embd, bias=config.bias), dense(config.n_embd, config.vocab_size, False)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        return self.lm_head(self.ln_f(self.trunk(x)))


class Head(nn.Module):
    def __init__(self, head_size):
        super().__init__()
        self.key, self.query, self.value = (dense(D, head_size, False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(T, T)))

    def forward(self, x):
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[: x.shape[1], : x.shape[1]] == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class TutorialBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.proj = nn.ModuleList(Head(HD) for _ in range(H)), dense(D, D)
        self.ffwd, self.ln1, self.ln2 = mlp(act=nn.ReLU), nn.LayerNorm(D), nn.LayerNorm(D)

    def sa(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))

    def forward(self, x):
        x = x + self.sa(x)
        x = x + self.ffwd(self.ln2(x))
        return x


class TutorialGpt(nn.Module):
    """A list of heads that are joined; the first norm of a block is made and not called."""

    def __init__(self, n=None):
        super().__init__()
        self.token_embedding_table, self.position_embedding_table = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.Sequential(*(TutorialBlock() for _ in range(n or 4)))
        self.ln_f, self.lm_head = nn.LayerNorm(D), dense(D, V)

    def trunk(self, x):
        return self.blocks(x)

    def forward(self, idx):
        pos = self.position_embedding_table(torch.arange(idx.shape[1], device=idx.device))
        return self.lm_head(self.ln_f(self.trunk(self.token_embedding_table(idx) + pos)))


def precompute_freqs(dim, end, theta=1e4):
    freqs = 1.0 / theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim)
    angles = torch.outer(torch.arange(end).float(), freqs)
    return torch.cos(angles), torch.sin(angles)


def rotary(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos[: x.shape[-2]].to(x.dtype), sin[: x.shape[-2]].to(x.dtype)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).type_as(x)


class LlamaBlock(nn.Module):
    def __init__(self, layer_id, hidden=64):
        super().__init__()
        self.layer_id, self.attention_norm, self.ffn_norm = layer_id, nn.RMSNorm(D, eps=1e-5), nn.RMSNorm(D, eps=1e-5)
        self.wq, self.wk, self.wv, self.wo = dense(D, D, False), dense(D, D // 2, False), dense(D, D // 2, False), dense(D, D, False)
        self.w1, self.w2, self.w3 = dense(D, hidden, False), dense(hidden, D, False), dense(D, hidden, False)

    def attention(self, x, cos, sin):
        q, k, v = (f(x).unflatten(-1, (-1, HD)).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        k, v = (t.repeat_interleave(H // t.shape[1], dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(rotary(q, cos, sin), rotary(k, cos, sin), v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))

    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        n = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(n)) * self.w3(n))


class LlamaLm(nn.Module):
    """Turned queries and keys, two heads of keys for four, gated nets."""

    def __init__(self, n=None):
        super().__init__()
        self.tok_embeddings, self.norm, self.output = nn.Embedding(V, D), nn.RMSNorm(D, eps=1e-5), dense(D, V, False)
        self.blocks = nn.ModuleList(LlamaBlock(i) for i in range(n or 6))
        cos, sin = precompute_freqs(HD, 2 * T)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def trunk(self, h):
        for block in self.blocks:
            h = block(h, self.cos, self.sin)
        return h

    def forward(self, tokens):
        return self.output(self.norm(self.trunk(self.tok_embeddings(tokens))))


class LlamaLmCheckpoint(LlamaLm):
    """Layers are computed again in the backward pass; the residual is around what is computed again."""

    def trunk(self, h):
        for block in self.blocks:
            h = h + checkpoint(block, h, self.cos, self.sin, use_reentrant=False)
        return h


class SharedEncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.attention_dense, self.attention_norm, self.ffn, self.ffn_output, self.full_layer_layer_norm = dense(D, 3 * D), dense(D, D), nn.LayerNorm(D, eps=1e-12), dense(D, 2 * D), dense(2 * D, D), nn.LayerNorm(D, eps=1e-12)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(x).chunk(3, dim=-1))
        a = self.attention_dense(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        x = self.attention_norm(x + a)
        return self.full_layer_layer_norm(self.ffn_output(F.gelu(self.ffn(x), approximate="tanh")) + x)


class SharedLayerEncoder(nn.Module):
    """One layer with norms behind sums, as often as is asked; thin tables of words and a map to the width."""

    def __init__(self, n=None, embedding_size=16, classes=3):
        super().__init__()
        self.num_hidden_layers, self.word_embeddings, self.position_embeddings, self.norm = n or 6, nn.Embedding(V, embedding_size), nn.Embedding(T, embedding_size), nn.LayerNorm(embedding_size)
        self.embedding_hidden_mapping_in, self.layer, self.pooler, self.classifier = dense(embedding_size, D), SharedEncoderLayer(), dense(D, D), dense(D, classes)

    def trunk(self, x):
        for _ in range(self.num_hidden_layers):
            x = self.layer(x)
        return x

    def forward(self, ids):
        x = self.norm(self.word_embeddings(ids) + self.position_embeddings.weight[: ids.shape[1]])
        x = self.trunk(self.embedding_hidden_mapping_in(x))
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


# ------------------------------------------------------------------ translation
class SublayerConnection(nn.Module):
    """A norm, a layer, and the sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(D), nn.Dropout(0.0)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.feed_forward, self.sublayer = nn.MultiheadAttention(D, H, batch_first=True), mlp(act=nn.ReLU), nn.ModuleList(SublayerConnection() for _ in range(2))

    def forward(self, x):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, need_weights=False)[0])
        return self.sublayer[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.src_attn = nn.MultiheadAttention(D, H, batch_first=True), nn.MultiheadAttention(D, H, batch_first=True)
        self.feed_forward, self.sublayer = mlp(act=nn.ReLU), nn.ModuleList(SublayerConnection() for _ in range(3))

    def forward(self, x, memory):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, attn_mask=mask, need_weights=False)[0])
        x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, need_weights=False)[0])
        return self.sublayer[2](x, self.feed_forward)


class TranslationModel(nn.Module):
    """An encoder and a decoder that reads it, norms first in both, and a generator."""

    def __init__(self, n=None):
        super().__init__()
        self.src_embed, self.tgt_embed, self.encoder, self.encoder_norm = nn.Embedding(V, D), nn.Embedding(V, D), nn.ModuleList(EncoderLayer() for _ in range(3)), nn.LayerNorm(D)
        self.blocks, self.decoder_norm, self.generator = nn.ModuleList(DecoderLayer() for _ in range(n or 3)), nn.LayerNorm(D), dense(D, V)
        at, div = torch.arange(64).unsqueeze(1), torch.exp(torch.arange(0, D, 2) * -(math.log(10000.0) / D))
        self.register_buffer("pe", torch.stack((torch.sin(at * div), torch.cos(at * div)), dim=-1).flatten(1))

    def embed(self, table, ids):
        return table(ids) * math.sqrt(D) + self.pe[: ids.shape[1]]

    def encode(self, src):
        x = self.embed(self.src_embed, src)
        for layer in self.encoder:
            x = layer(x)
        return self.encoder_norm(x)

    def trunk(self, x, memory):
        for layer in self.blocks:
            x = layer(x, memory)
        return x

    def forward(self, src, tgt):
        x = self.trunk(self.embed(self.tgt_embed, tgt), self.encode(src))
        return F.log_softmax(self.generator(self.decoder_norm(x)), dim=-1)


# ------------------------------------------------------------------ speech
def sinusoids(length, channels, max_timescale=10000):
    inv = torch.exp(-math.log(max_timescale) / (channels // 2 - 1) * torch.arange(channels // 2))
    scaled_time = torch.arange(length)[:, None] * inv[None]
    return torch.cat((scaled_time.sin(), scaled_time.cos()), dim=1)


class SpeechBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_ln, self.mlp_ln, self.query, self.key, self.value, self.out, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), dense(D, D), dense(D, D, False), dense(D, D), dense(D, D), mlp()

    def qkv_attention(self, q, k, v):
        scale = (q.shape[-1] // H) ** -0.25
        q, k, v = heads(q) * scale, heads(k) * scale, heads(v)
        w = F.softmax((q @ k.transpose(-1, -2)), dim=-1)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)

    def forward(self, x):
        h = self.attn_ln(x)
        x = x + self.out(self.qkv_attention(self.query(h), self.key(h), self.value(h)))
        x = x + self.mlp(self.mlp_ln(x))
        return x


class SpeechEncoder(nn.Module):
    """Two filters, sines of places, blocks, a norm, characters by frame."""

    def __init__(self, n=None, mels=20, chars=30):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(mels, D, 3, padding=1), nn.Conv1d(D, D, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", sinusoids(64, D))
        self.blocks, self.ln_post, self.ctc = nn.ModuleList(SpeechBlock() for _ in range(n or 4)), nn.LayerNorm(D), dense(D, chars)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = self.trunk(x + self.positional_embedding[: x.shape[1]])
        return F.log_softmax(self.ctc(self.ln_post(x)), dim=-1)


# ------------------------------------------------------------------ tables
class FeatureTokenTransformer(nn.Module):
    """Each column is a token; the first layer has no norm in front of its attention; nets with gates of ReLUs; the class token is read."""

    def __init__(self, n=None, numbers=5, cardinalities=(7, 7, 7), classes=2):
        super().__init__()
        self.weight, self.bias, self.cls = nn.Parameter(torch.randn(numbers, D) * 0.5), nn.Parameter(torch.zeros(numbers, D)), nn.Parameter(torch.randn(1, 1, D) * 0.5)
        self.tables = nn.ModuleList(nn.Embedding(c, D) for c in cardinalities)
        self.blocks = nn.ModuleList()
        for i in range(n or 3):
            layer = nn.ModuleDict({"qkv": dense(D, 3 * D), "out": dense(D, D), "linear0": dense(D, 80), "linear1": dense(40, D), "ffn_normalization": nn.LayerNorm(D)})
            if i > 0:
                layer["attention_normalization"] = nn.LayerNorm(D)
            self.blocks.append(layer)
        self.head = nn.Sequential(nn.LayerNorm(D), nn.ReLU(), dense(D, classes))

    @staticmethod
    def attention(layer, x):
        q, k, v = map(heads, layer["qkv"](x).chunk(3, dim=-1))
        p = torch.softmax(q @ k.mT / HD ** 0.5, dim=-1)
        return layer["out"]((p @ v).transpose(1, 2).flatten(2))

    @staticmethod
    def ffn(layer, x):
        a, b = layer["linear0"](x).chunk(2, dim=-1)
        return layer["linear1"](a * F.relu(b))

    def trunk(self, x):
        for layer in self.blocks:
            residual = layer["attention_normalization"](x) if "attention_normalization" in layer else x
            x = x + self.attention(layer, residual)
            x = x + self.ffn(layer, layer["ffn_normalization"](x))
        return x

    def forward(self, x_num, x_cat):
        parts = [self.cls.expand(len(x_num), -1, -1), x_num.unsqueeze(-1) * self.weight + self.bias]
        parts += [table(x_cat[:, i]).unsqueeze(1) for i, table in enumerate(self.tables)]
        return self.head(self.trunk(torch.cat(parts, dim=1))[:, 0])


class TableResNet(nn.Module):
    """Norms of the batch first, two maps, the sum; no attention."""

    class Block(nn.Module):
        def __init__(self, d, hidden):
            super().__init__()
            self.normalization, self.linear_first, self.linear_second, self.dropout_first, self.dropout_second = nn.BatchNorm1d(d), dense(d, hidden), dense(hidden, d), nn.Dropout(0.0), nn.Dropout(0.0)

        def forward(self, x):
            x_input = x
            x = self.normalization(x)
            x = F.relu(self.linear_first(x))
            x = self.dropout_first(x)
            x = self.linear_second(x)
            x = self.dropout_second(x)
            x = x_input + x
            return x

    def __init__(self, n=None, features=9, out=1):
        super().__init__()
        self.first_layer, self.blocks, self.head = dense(features, D), nn.Sequential(*(self.Block(D, 2 * D) for _ in range(n or 4))), nn.Sequential(nn.BatchNorm1d(D), nn.ReLU(), dense(D, out))

    def trunk(self, x):
        return self.blocks(x)

    def forward(self, x):
        return self.head(self.trunk(self.first_layer(x))).squeeze(-1)


# ------------------------------------------------------------------ molecules
class NodeBatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x)


class MoleculeNet(nn.Module):
    """Sums of neighbours through a net, a norm of nodes, a ReLU, and the sum with what was there; the mean of nodes is read."""

    def __init__(self, n=None, atoms=9, tasks=4):
        super().__init__()
        n = n or 4
        self.atom_encoder, self.blocks, self.norms = nn.Embedding(atoms, D), nn.ModuleList(mlp(act=nn.ReLU) for _ in range(n)), nn.ModuleList(NodeBatchNorm(D) for _ in range(n))
        self.gain_eps, self.readout = nn.Parameter(torch.zeros(n)), dense(D, tasks)

    def trunk(self, h, adj):
        for eps, net, norm in zip(self.gain_eps, self.blocks, self.norms):
            m = net((1 + eps) * h + torch.bmm(adj, h))
            h = F.relu(norm(m)) + h
        return h

    def forward(self, atoms, adj):
        return self.readout(self.trunk(self.atom_encoder(atoms), adj).mean(dim=1))


# ------------------------------------------------------------------ recurrences
class ResidualLstmLm(nn.Module):
    """Layers of one direction, each behind a norm and with a residual; the table is read again at the end."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.lstm, self.drop = nn.LayerNorm(D), nn.LSTM(D, D, batch_first=True), nn.Dropout(0.0)

        def forward(self, x, state=None):
            y, state = self.lstm(self.norm(x), state)
            return x + self.drop(y), state

    def __init__(self, n=None):
        super().__init__()
        self.encoder, self.blocks, self.norm, self.decoder = nn.Embedding(V, D), nn.ModuleList(self.Layer() for _ in range(n or 4)), nn.LayerNorm(D), dense(D, V)
        self.decoder.weight = self.encoder.weight

    def trunk(self, x):
        for layer in self.blocks:
            x, _ = layer(x)
        return x

    def forward(self, ids):
        return self.decoder(self.norm(self.trunk(self.encoder(ids))))


# ------------------------------------------------------------------ waves with long skips
class WaveBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True), nn.LayerNorm(D), mlp()

    def forward(self, x, skip=None):
        if skip is not None:
            x = x + skip
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class LongSkipDenoiser(nn.Module):
    """Pieces of a wave and a token of the time; what the first half of layers gave is added in the second half, last one first."""

    def __init__(self, n=None, patch=8):
        super().__init__()
        half = (n or 6) // 2
        self.patch, self.embed, self.time, self.pos = patch, dense(patch, D), nn.Sequential(dense(8, D), nn.SiLU(), dense(D, D)), nn.Parameter(torch.randn(17, D) * 0.1)
        self.in_blocks, self.out_blocks, self.norm, self.final = nn.ModuleList(WaveBlock() for _ in range(half)), nn.ModuleList(WaveBlock() for _ in range(half)), nn.LayerNorm(D), dense(D, patch)

    def trunk(self, x):
        skips = []
        for block in self.in_blocks:
            x = block(x)
            skips.append(x)
        for block in self.out_blocks:
            x = block(x, skips.pop())
        return x

    def forward(self, wave, t):
        angles = t[:, None] * torch.exp(-torch.arange(4, device=t.device, dtype=t.dtype))
        token = self.time(torch.cat((angles.sin(), angles.cos()), dim=1)).unsqueeze(1)
        x = self.embed(wave.squeeze(1).unflatten(-1, (-1, self.patch)))
        x = self.norm(self.trunk(torch.cat((token, x), dim=1) + self.pos))
        return self.final(x[:, 1:]).flatten(1).unsqueeze(1)


# ------------------------------------------------------------------ pictures
class LocalPositionVit(nn.Module):
    """In front of each layer a filter a channel over the grid says where a patch is, and is added."""

    class Block(nn.Module):
        def __init__(self, side):
            super().__init__()
            self.side, self.pos, self.norm1, self.norm2, self.qkv, self.proj, self.mlp = side, nn.Conv2d(D, D, 3, padding=1, groups=D), nn.LayerNorm(D), nn.LayerNorm(D), dense(D, 3 * D), dense(D, D), mlp()

        def forward(self, x):
            grid = x.mT.unflatten(-1, (self.side, self.side))
            x = x + self.pos(grid).flatten(2).mT
            q, k, v = map(heads, self.qkv(self.norm1(x)).chunk(3, dim=-1))
            x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
            return x + self.mlp(self.norm2(x))

    def __init__(self, n=None, patch=4, classes=10):
        super().__init__()
        self.patch_embed, self.blocks, self.norm, self.head = nn.Conv2d(3, D, patch, patch), nn.ModuleList(self.Block(16 // patch) for _ in range(n or 4)), nn.LayerNorm(D), dense(D, classes)

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, img):
        return self.head(self.norm(self.trunk(self.patch_embed(img).flatten(2).transpose(1, 2))).mean(dim=1))


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(D), fn

    def forward(self, x):
        return torch.stack((x, self.fn(self.norm(x)))).mean(dim=0)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_qkv, self.to_out = dense(D, 3 * D, False), dense(D, D)

    def forward(self, x):
        q, k, v = self.to_qkv(x).view(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        attn = torch.einsum("bhid,bhjd->bhij", q, k).mul(HD ** -0.5).softmax(dim=-1)
        return self.to_out(torch.einsum("bhij,bhjd->bihd", attn, v).flatten(2))


class AveragedVit(nn.Module):
    """A helper around attention and nets that gives the mean of what came in and what comes out."""

    def __init__(self, n=None, classes=10):
        super().__init__()
        self.to_patch, self.cls, self.pos = dense(48, D), nn.Parameter(torch.randn(D)), nn.Parameter(torch.randn(1, 17, D) * 0.02)
        self.blocks, self.head = nn.ModuleList(nn.Sequential(Residual(SelfAttention()), Residual(mlp())) for _ in range(n or 4)), nn.Sequential(nn.LayerNorm(D), dense(D, classes))

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, img):
        x = self.to_patch(F.unfold(img, 4, stride=4).mT)
        x = torch.cat((self.cls.expand(len(x), 1, -1), x), dim=1) + self.pos
        return self.head(self.trunk(x)[:, 0])


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_TWO, _OPEN, _SHUT = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False}), dict(output_bounded={0: True})
TRUTH = {
    "NanoGpt": dict(_M, depth=6, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, a norm in front of the head."),
    "TutorialGpt": dict(kind="model", depth=4, identity_gain=1.0, growth_fixed="exponential", softmax=True, **_TWO, **_OPEN, sound=False, why="attention reads the raw stream: values are of degree one."),
    "LlamaLm": dict(_M, depth=6, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, a norm in front of the head."),
    "LlamaLmCheckpoint": dict(kind="model", depth=6, identity_gain=64.0, growth_fixed="exponential", softmax=True, **_OPEN, gradient_law="exponential", sound=False, why="a block has its skip, and one more is around it: each layer doubles the stream."),
    "SharedLayerEncoder": dict(kind="model", depth=6, growth_fixed="bounded", softmax=True, **_TWO, **_OPEN, sound=True, why="norms behind sums of one layer."),
    "TranslationModel": dict(_M, output_bounded={0: False, 1: False, 2: False}, logits_bounded={0: False, 1: False}, gradient_law="power", sound=True, why="pre-norm in encoder and decoder, norms behind both."),
    "SpeechEncoder": dict(_M, depth=4, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, a norm in front of the head."),
    "FeatureTokenTransformer": dict(_M, depth=3, **_TWO, **_OPEN, sound=True, why="pre-norm but for the first attention, which reads embeddings once."),
    "TableResNet": dict(_M, depth=4, softmax=False, output_bounded={0: False}, gradient_law="power", sound=True, why="norms of the batch in front of nets."),
    "MoleculeNet": dict(_M, depth=4, softmax=False, growth_all="linear", **_SHUT, sound=True, why="branches read the raw stream and end in a norm and a ReLU."),
    "ResidualLstmLm": dict(_M, depth=4, softmax=False, growth_all="linear", **_SHUT, sound=True, why="states of an LSTM are at most one."),
    "LongSkipDenoiser": dict(kind="model", depth=6, identity_gain=4.0, growth_fixed="polynomial", softmax=True, why="each layer of the second half adds a stream of the first half that has the embedding once: one and three; sums of what grows linearly are squares."),
    "LocalPositionVit": dict(kind="model", depth=4, identity_gain=1.0, growth_fixed="exponential", softmax=True, output_bounded={0: False, 1: False, 2: False}, logits_bounded={1: False}, why="the filter over the grid is a linear map of the raw stream."),
    "AveragedVit": dict(kind="model", depth=4, identity_gain=0.5 ** 8, growth_fixed="bounded", softmax=True, **_TWO, **_OPEN, sound=False, why="half of the stream is left by each of two branches."),
}
