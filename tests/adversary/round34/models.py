"""Whole models: a notebook's GPT, and the same with thin updates; a simple ViT; translators; recommenders of sequences; agents and world models; forecasters; a mesh simulator; one layer for all depths."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, V = 32, 16, 64

_G = torch.Generator().manual_seed(3404)
_IDS = torch.randint(1, V, (2, T), generator=_G)
_SRC = torch.randint(1, V, (2, 12), generator=_G)
_IMG = torch.randn(2, 3, 16, 16, generator=_G)
_SEND, _RECV = torch.randint(0, T, (2, 40), generator=_G)
example_inputs = {
    **{k: (_IDS,) for k in ("NotebookGpt", "NotebookGptTwice", "ThinUpdateGpt", "BertRecommender", "SharedLayerBert")},
    **{k: (_IMG,) for k in ("SimpleVit", "DropPathVit")},
    **{k: (_IDS, _SRC) for k in ("Translator", "TranslatorOpen")},
    "DecisionModel": (torch.randn(2, 5, 1, generator=_G), torch.randn(2, 5, 11, generator=_G), torch.randn(2, 5, 3, generator=_G), torch.arange(5).expand(2, 5)),
    "BeatsForecaster": (torch.randn(8, D, generator=_G),),
    "InvertedForecaster": (torch.randn(2, 24, 7, generator=_G),),
    "ResidualActor": (torch.randn(8, 17, generator=_G),),
    "MeshSimulator": (torch.randn(T, 6, generator=_G), torch.randn(40, 4, generator=_G), _SEND, _RECV),
}


# ------------------------------------------------------------------ a notebook's GPT
@dataclass
class GPTConfig:
    block_size: int = T
    vocab_size: int = V
    n_layer: int = 6
    n_head: int = 4
    n_embd: int = D
    bias: bool = True


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn, self.c_proj, self.n_head = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias), nn.Linear(config.n_embd, config.n_embd, bias=config.bias), config.n_head

    def forward(self, x):
        B, L, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, L, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, L, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, L, self.n_head, C // self.n_head).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, L, C))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc, self.gelu, self.c_proj = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(config.n_embd), CausalSelfAttention(config), nn.LayerNorm(config.n_embd), MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class NotebookGpt(nn.Module):
    """Tokens, places, blocks, a norm, and the table again."""

    def __init__(self, n=None):
        super().__init__()
        config = GPTConfig(n_layer=n or GPTConfig.n_layer)
        self.config = config
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, config.n_embd),
            wpe=nn.Embedding(config.block_size, config.n_embd),
            h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
            ln_f=nn.LayerNorm(config.n_embd),
        ))
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def trunk(self, x):
        for block in self.transformer.h:
            x = block(x)
        return x

    def forward(self, idx):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        x = self.transformer.ln_f(self.trunk(x))
        return self.lm_head(x)


class NotebookGptTwice(NotebookGpt):
    """Residual connections in the loop, where one sees them."""

    def trunk(self, x):
        for block in self.transformer.h:
            x = x + block(x)
        return x


# ------------------------------------------------------------------ thin updates
class LoRALinear(nn.Linear):
    """A map that is frozen, with a thin update."""

    def __init__(self, source, r=4, alpha=8.0):
        super().__init__(source.in_features, source.out_features, bias=source.bias is not None)
        self.load_state_dict(source.state_dict())
        self.requires_grad_(False)
        self.A, self.B, self.s = nn.Linear(self.in_features, r, bias=False), nn.Linear(r, self.out_features, bias=False), alpha / r
        nn.init.zeros_(self.B.weight)

    def forward(self, x):
        return super().forward(x) + self.s * self.B(self.A(x))


def inject(module, names):
    for name, child in list(module.named_children()):
        if name in names and isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child))
        else:
            inject(child, names)


class ThinUpdateGpt(NotebookGpt):
    """All is frozen; attention's first maps get thin updates."""

    def __init__(self, n=None):
        super().__init__(n)
        self.requires_grad_(False)
        inject(self.transformer, {"c_attn"})


# ------------------------------------------------------------------ a simple ViT
class Attention(nn.Module):
    """Its norm is its own."""

    def __init__(self, dim, heads=4, dim_head=8):
        super().__init__()
        self.heads, self.scale, self.norm, self.attend = heads, dim_head ** -0.5, nn.LayerNorm(dim), nn.Softmax(dim=-1)
        self.to_qkv, self.to_out = nn.Linear(dim, heads * dim_head * 3, bias=False), nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x):
        x = self.norm(x)
        qkv = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in qkv)
        attn = self.attend(torch.matmul(q, k.transpose(-1, -2)) * self.scale)
        return self.to_out(torch.matmul(attn, v).transpose(1, 2).flatten(2))


def feed_forward(dim, hidden):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class Transformer(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([Attention(dim), feed_forward(dim, 64)]))

    def trunk(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return x

    def forward(self, x):
        return self.norm(self.trunk(x))


class SimpleVit(nn.Module):
    """Patches with sines of their places, layers, and a mean."""

    transformer = Transformer

    def __init__(self, n=None, classes=10):
        super().__init__()
        self.to_patch_embedding = nn.Sequential(nn.LayerNorm(48), nn.Linear(48, D), nn.LayerNorm(D))
        omega = 1.0 / 10000 ** (torch.arange(D // 4) / (D // 4 - 1))
        y, x = (g.flatten()[:, None] * omega for g in torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"))
        self.register_buffer("pos_embedding", torch.cat((x.sin(), x.cos(), y.sin(), y.cos()), dim=1), persistent=False)
        self.encoder, self.linear_head = self.transformer(D, n or 6), nn.Linear(D, classes)

    def forward(self, img):
        b = img.shape[0]
        patches = img.view(b, 3, 4, 4, 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(b, 16, 48)
        x = self.to_patch_embedding(patches)
        x = x + self.pos_embedding.to(x.dtype)
        return self.linear_head(self.encoder(x).mean(dim=1))


class DropPathTransformer(Transformer):
    """Layers are dropped in training; what is seen otherwise is weighed by the chance to be kept."""

    keep = 0.9

    def trunk(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = (ff(x) + x) * self.keep
        return x


class DropPathVit(SimpleVit):
    transformer = DropPathTransformer


# ------------------------------------------------------------------ translators
class PositionalEncoding(nn.Module):
    def __init__(self, d_model=D, max_len=32):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)].to(x.dtype)


class Translator(nn.Module):
    """The library's layers, with norms behind as the library has them; source and target share nothing."""

    norm_first = False

    def __init__(self, n=None):
        super().__init__()
        n = n or 3
        shape = dict(d_model=D, nhead=4, dim_feedforward=64, dropout=0.0, batch_first=True, norm_first=self.norm_first)
        self.src_tok_emb, self.tgt_tok_emb, self.positional_encoding = nn.Embedding(V, D), nn.Embedding(V, D), PositionalEncoding()
        self.encoder_layers = nn.ModuleList(nn.TransformerEncoderLayer(**shape) for _ in range(n))
        self.decoder_layers = nn.ModuleList(nn.TransformerDecoderLayer(**shape) for _ in range(n))
        self.generator = nn.Linear(D, V)

    def encode(self, src):
        for layer in self.encoder_layers:
            src = layer(src)
        return src

    def trunk(self, tgt, src):
        memory = self.encode(src)
        mask = torch.full((tgt.shape[1], tgt.shape[1]), float("-inf"), dtype=tgt.dtype, device=tgt.device).triu(1)
        for layer in self.decoder_layers:
            tgt = layer(tgt, memory, tgt_mask=mask)
        return tgt

    def forward(self, tgt, src):
        tgt = self.positional_encoding(self.tgt_tok_emb(tgt) * math.sqrt(D))
        src = self.positional_encoding(self.src_tok_emb(src) * math.sqrt(D))
        return self.generator(self.trunk(tgt, src))


class TranslatorOpen(Translator):
    """Norms in front, which train without a warm-up; the decoder's last norm stands in front of the generator."""

    norm_first = True

    def __init__(self, n=None):
        super().__init__(n)
        self.generator = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, V))


# ------------------------------------------------------------------ recommenders of sequences
class SublayerConnection(nn.Module):
    def __init__(self, size, dropout=0.0):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(size), nn.Dropout(p=dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class PairAttention(nn.Module):
    def __init__(self, h=4, d_model=D):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.linear_layers, self.output_linear = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(3)]), nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask):
        b = query.size(0)
        query, key, value = [l(x).view(b, -1, self.h, self.d_k).transpose(1, 2) for l, x in zip(self.linear_layers, (query, key, value))]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores = scores.masked_fill(mask == 0, float("-inf"))
        x = torch.matmul(F.softmax(scores, dim=-1), value)
        return self.output_linear(x.transpose(1, 2).contiguous().view(b, -1, self.h * self.d_k))


class RecommenderBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = PairAttention(), nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.input_sublayer, self.output_sublayer, self.dropout = SublayerConnection(D), SublayerConnection(D), nn.Dropout(0.0)

    def forward(self, x, mask):
        x = self.input_sublayer(x, lambda _x: self.attention.forward(_x, _x, _x, mask=mask))
        x = self.output_sublayer(x, self.feed_forward)
        return self.dropout(x)


class BertRecommender(nn.Module):
    """Items of a session, where zeros are no items."""

    def __init__(self, n=None):
        super().__init__()
        self.token, self.position = nn.Embedding(V + 1, D, padding_idx=0), nn.Embedding(T, D)
        self.transformer_blocks = nn.ModuleList([RecommenderBlock() for _ in range(n or 4)])
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, V)

    def trunk(self, x, mask):
        for transformer in self.transformer_blocks:
            x = transformer.forward(x, mask)
        return x

    def forward(self, ids):
        mask = (ids > 0).unsqueeze(1).repeat(1, ids.size(1), 1).unsqueeze(1)
        x = self.token(ids) + self.position.weight[: ids.size(1)].unsqueeze(0)
        return self.out(self.norm(self.trunk(x, mask)))


# ------------------------------------------------------------------ agents
class DecisionModel(nn.Module):
    """Returns, states and actions in turn, which a causal transformer reads; one norm takes care of them in each layer."""

    def __init__(self, n=None, state_dim=11, act_dim=3, max_ep=32):
        super().__init__()
        self.embed_timestep, self.embed_return, self.embed_state, self.embed_action = nn.Embedding(max_ep, D), nn.Linear(1, D), nn.Linear(state_dim, D), nn.Linear(act_dim, D)
        self.embed_ln, self.blocks = nn.LayerNorm(D), nn.ModuleList(Block(GPTConfig()) for _ in range(n or 4))
        self.predict_action = nn.Sequential(nn.Linear(D, act_dim), nn.Tanh())

    def trunk(self, x):
        for block in self.blocks:
            x = block(self.embed_ln(x))
        return x

    def forward(self, returns, states, actions, timesteps):
        b, t, _ = states.shape
        time = self.embed_timestep(timesteps)
        tokens = [f(u) + time for f, u in ((self.embed_return, returns), (self.embed_state, states), (self.embed_action, actions))]
        x = torch.stack(tokens, dim=1).permute(0, 2, 1, 3).reshape(b, 3 * t, D)
        x = self.trunk(x).reshape(b, t, 3, D)
        return self.predict_action(x[:, :, 1])


class ResidualActor(nn.Module):
    """Observations with running statistics, a map, residual nets with norms in front, a norm, and the policy's mean and deviation."""

    class ResidualBlock(nn.Module):
        def __init__(self, hidden_dim=D):
            super().__init__()
            self.ln, self.fc1, self.fc2 = nn.LayerNorm(hidden_dim), nn.Linear(hidden_dim, hidden_dim * 4), nn.Linear(hidden_dim * 4, hidden_dim)
            nn.init.kaiming_normal_(self.fc1.weight)
            nn.init.kaiming_normal_(self.fc2.weight)

        def forward(self, x):
            res = x
            x = self.ln(x)
            x = F.relu(self.fc1(x))
            x = self.fc2(x)
            return res + x

    def __init__(self, n=None, obs=17, act=6):
        super().__init__()
        self.register_buffer("mean", torch.zeros(obs))
        self.register_buffer("var", torch.ones(obs))
        self.embed, self.post_ln = nn.Linear(obs, D), nn.LayerNorm(D)
        self.encoder = nn.Sequential(*[self.ResidualBlock() for _ in range(n or 4)])
        self.fc_mean, self.fc_logstd = nn.Linear(D, act), nn.Linear(D, act)

    def trunk(self, x):
        return self.encoder(x)

    def forward(self, obs):
        x = (obs - self.mean) / torch.sqrt(self.var + 1e-8)
        x = self.post_ln(self.trunk(self.embed(x)))
        log_std = -5 + 3.5 * (torch.tanh(self.fc_logstd(x)) + 1)
        return torch.cat((self.fc_mean(x), log_std), dim=-1)


# ------------------------------------------------------------------ forecasters
class BeatsBlock(nn.Module):
    """A net that says what it explains of the window and what follows of that."""

    def __init__(self, window=D, ahead=8, width=48):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(window, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.theta_b, self.theta_f = nn.Linear(width, window, bias=False), nn.Linear(width, ahead, bias=False)

    def forward(self, x):
        h = self.fc(x)
        return self.theta_b(h), self.theta_f(h)


class BeatsForecaster(nn.Module):
    """What a block explains is taken off the window, and forecasts are summed."""

    def __init__(self, n=None):
        super().__init__()
        self.blocks = nn.ModuleList(BeatsBlock() for _ in range(n or 4))

    def trunk(self, residuals):
        forecast = 0
        for block in self.blocks:
            backcast, ahead = block(residuals)
            residuals = residuals - backcast
            forecast = forecast + ahead
        self.forecast = forecast
        return residuals

    def forward(self, window):
        self.trunk(window)
        return self.forecast


class InvertedLayer(nn.Module):
    """Each series is a token; filters of one point are the net."""

    def __init__(self, d_ff=64):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 4, batch_first=True)
        self.conv1, self.conv2 = nn.Conv1d(D, d_ff, kernel_size=1), nn.Conv1d(d_ff, D, kernel_size=1)
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        new_x, _ = self.attention(x, x, x)
        x = x + new_x
        y = x = self.norm1(x)
        y = F.gelu(self.conv1(y.transpose(-1, 1)))
        y = self.conv2(y).transpose(-1, 1)
        return self.norm2(x + y)


class InvertedForecaster(nn.Module):
    """Windows lose mean and spread, and each series becomes a token."""

    def __init__(self, n=None, window=24, ahead=8):
        super().__init__()
        self.enc_embedding, self.projection = nn.Linear(window, D), nn.Linear(D, ahead)
        self.layers, self.norm = nn.ModuleList([InvertedLayer() for _ in range(n or 3)]), nn.LayerNorm(D)

    def trunk(self, x):
        for attn_layer in self.layers:
            x = attn_layer(x)
        return x

    def forward(self, x_enc):
        means = x_enc.mean(1, keepdim=True).detach()
        x_enc = x_enc - means
        stdev = torch.sqrt(torch.var(x_enc, dim=1, keepdim=True, unbiased=False) + 1e-5)
        x = self.enc_embedding((x_enc / stdev).permute(0, 2, 1))
        dec_out = self.projection(self.norm(self.trunk(x))).permute(0, 2, 1)
        return dec_out * stdev + means


# ------------------------------------------------------------------ a mesh simulator
def mlp(inp, out=D, norm=True):
    layers = [nn.Linear(inp, 48), nn.ReLU(), nn.Linear(48, out)]
    return nn.Sequential(*layers, nn.LayerNorm(out)) if norm else nn.Sequential(*layers)


class MeshStep(nn.Module):
    """Edges first, then nodes; norms end both nets."""

    def __init__(self):
        super().__init__()
        self.edge_mlp, self.node_mlp = mlp(3 * D), mlp(2 * D)

    def forward(self, v, e, s, r):
        e = e + self.edge_mlp(torch.cat((v[s], v[r], e), dim=-1))
        pooled = torch.zeros_like(v).index_add_(0, r, e)
        v = v + self.node_mlp(torch.cat((v, pooled), dim=-1))
        return v, e


class MeshSimulator(nn.Module):
    """Encode, steps of messages, decode."""

    def __init__(self, n=None):
        super().__init__()
        self.encode_v, self.encode_e, self.decode = mlp(6), mlp(4), mlp(D, 2, norm=False)
        self.processor = nn.ModuleList(MeshStep() for _ in range(n or 5))

    def trunk(self, v, e, s, r):
        for step in self.processor:
            v, e = step(v, e, s, r)
        return v

    def forward(self, v, e, senders, receivers):
        return self.decode(self.trunk(self.encode_v(v), self.encode_e(e), senders, receivers))


# ------------------------------------------------------------------ one layer for all depths
class SharedLayerBert(nn.Module):
    """A small table, a map to the width, and one layer with norms behind that runs as often as one wants."""

    def __init__(self, n=None, emb=12):
        super().__init__()
        self.num_hidden_layers = n or 6
        self.word_embeddings, self.embedding_norm, self.mapping_in = nn.Embedding(V, emb), nn.LayerNorm(emb), nn.Linear(emb, D)
        self.layer = nn.TransformerEncoderLayer(D, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
        self.classifier = nn.Linear(D, 3)

    def trunk(self, hidden_states):
        for _ in range(self.num_hidden_layers):
            hidden_states = self.layer(hidden_states)
        return hidden_states

    def forward(self, ids):
        x = self.mapping_in(self.embedding_norm(self.word_embeddings(ids)))
        return self.classifier(self.trunk(x)[:, 0])


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_LEVEL = dict(kind="model", growth_fixed="bounded", growth_all="bounded")
_TWO, _OPEN = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "NotebookGpt": dict(_M, depth=6, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, and a norm in front of the table."),
    "NotebookGptTwice": dict(kind="model", depth=6, identity_gain=2.0 ** 6, growth_fixed="exponential", growth_all="exponential", softmax=True, gradient_law="exponential", sound=False, why="the block has its skip, and the loop adds the stream once more: twice the stream in each block."),
    "ThinUpdateGpt": dict(_M, depth=6, output_bounded={0: False, 1: True}, **_OPEN, sound=True, why="pre-norm; what is trained is behind a norm, and the net is a constant function of a norm."),
    "SimpleVit": dict(_M, depth=6, **_TWO, **_OPEN, sound=True, why="pre-norm with norms inside branches."),
    "DropPathVit": dict(kind="model", depth=6, identity_gain=0.9 ** 6, growth_fixed="bounded", softmax=True, **_TWO, **_OPEN, sound=False, why="the chance to be kept multiplies the sum, with the stream: 0.9 of it is left by each layer."),
    "Translator": dict(_LEVEL, depth=3, softmax=True, **_OPEN, sound=True, why="norms behind all sums."),
    "TranslatorOpen": dict(kind="model", depth=3, identity_gain=1.0, growth_fixed="polynomial", softmax=True, **_OPEN, sound=False, why="the encoder has no last norm: its stream grows with its depth, and each decoder layer adds a map of it as it is, so the decoder's grows with the square."),
    "BertRecommender": dict(_M, depth=4, **_TWO, **_OPEN, sound=True, why="pre-norm by a helper; padding is masked."),
    "DecisionModel": dict(kind="model", depth=4, growth_fixed="bounded", softmax=True, **_TWO, **_OPEN, sound=False, why="the embedding's norm is called on the stream in front of each block, and its output is what the block's skips hold."),
    "ResidualActor": dict(_M | dict(softmax=False), depth=4, output_bounded={0: False}, gradient_law="power", sound=True, why="pre-norm, and a norm behind all."),
    "BeatsForecaster": dict(kind="model", depth=4, identity_gain=1.0, growth_fixed="exponential", softmax=False, output_bounded={0: False}, why="a net of ReLUs of the raw window is taken off the window in each block: of degree one."),
    "InvertedForecaster": dict(_LEVEL, depth=3, softmax=True, **_OPEN, sound=True, why="norms behind both sums."),
    "MeshSimulator": dict(_M | dict(softmax=False), depth=5, growth_all="linear", gradient_law="power", sound=True, why="both nets read raw states and end in norms."),
    "SharedLayerBert": dict(_LEVEL, depth=6, softmax=True, **_OPEN, sound=True, why="norms behind both sums of the one layer."),
}
