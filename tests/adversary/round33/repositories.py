"""Whole models as repositories have them: small GPTs, skips across a language model, recurrences with a residual beside the state, text to text, places by filters, long skips in diffusion, variates as tokens, forecasts that are taken off, graphs, experts."""

import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 48
HD = D // H

_G = torch.Generator().manual_seed(3304)
_IDS, _SOURCE = torch.randint(0, V, (2, T), generator=_G), torch.randint(0, V, (2, 12), generator=_G)
_IMG, _SERIES = torch.randn(2, 3, 16, 16, generator=_G), torch.randn(2, 48, 6, generator=_G)
_ADJ = (torch.rand(2, 12, 12, generator=_G) < 0.3).float().maximum(torch.eye(12))
example_inputs = {
    **{k: (_IDS,) for k in ("SmallGpt", "SmallGptOuter", "EncoderLayersLm", "MirrorLm", "StatePairLm", "StatePairLmHidden", "SigmoidExpertsLm")},
    "TextToText": (_SOURCE, _IDS),
    "FilterPlacesVit": (_IMG,),
    "FilterPlacesVitAll": (_IMG,),
    "LongSkipDiffusion": (_IMG, torch.tensor([3.0, 700.0])),
    "VariateForecaster": (_SERIES,),
    "TakenOffForecaster": (_SERIES,),
    "MessageNet": (torch.randint(0, 9, (2, 12), generator=_G), _ADJ),
}


def scaled_init(module):
    """Applied to whole models: fan-in normal maps, tables of size one."""
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=1.0)


# ------------------------------------------------------------------ small GPTs
@dataclass
class GPTConfig:
    block_size: int = T
    vocab_size: int = V
    n_layer: int = 6
    n_head: int = H
    n_embd: int = D
    dropout: float = 0.0
    bias: bool = True


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias), nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.resid_dropout = config.n_head, nn.Dropout(config.dropout)
        self.register_buffer("bias", torch.tril(torch.ones(config.block_size, config.block_size)).view(1, 1, config.block_size, config.block_size))

    def forward(self, x):
        B, L, C = x.size()
        q, k, v = (t.view(B, L, self.n_head, C // self.n_head).transpose(1, 2) for t in self.c_attn(x).split(C, dim=2))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :L, :L] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, L, C)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc, self.gelu, self.c_proj = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias), nn.GELU(), nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(config.n_embd, bias=config.bias), CausalSelfAttention(config), nn.LayerNorm(config.n_embd, bias=config.bias), MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class SmallGpt(nn.Module):
    """Tables of tokens and places, blocks in a dictionary, a norm, and the table again."""

    def __init__(self, n=None, config=GPTConfig()):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(config.vocab_size, config.n_embd),
            wpe=nn.Embedding(config.block_size, config.n_embd),
            drop=nn.Dropout(config.dropout),
            h=nn.ModuleList([Block(config) for _ in range(n or config.n_layer)]),
            ln_f=nn.LayerNorm(config.n_embd, bias=config.bias),
        ))
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(scaled_init)
        self.transformer.wte.weight = self.lm_head.weight

    @property
    def blocks(self):
        return self.transformer.h

    def trunk(self, x):
        for block in self.transformer.h:
            x = block(x)
        return x

    def forward(self, idx):
        pos = torch.arange(idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        x = self.transformer.ln_f(self.trunk(x))
        return self.lm_head(x)


class SmallGptOuter(SmallGpt):
    """The residual is written where the stack is, as a draft of the blocks had none."""

    def trunk(self, x):
        for block in self.transformer.h:
            x = x + block(x)
        return x


# ------------------------------------------------------------------ layers of the library
class EncoderLayersLm(nn.Module):
    """The library's layers with norms in front, made causal by a mask."""

    def __init__(self, n=None):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.02)
        layer = lambda: nn.TransformerEncoderLayer(D, H, dim_feedforward=2 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)  # noqa: E731
        self.blocks, self.norm, self.head = nn.ModuleList(layer() for _ in range(n or 5)), nn.LayerNorm(D), nn.Linear(D, V)
        self.apply(scaled_init)

    def trunk(self, x):
        mask = torch.full((x.size(1), x.size(1)), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        for layer in self.blocks:
            x = layer(x, src_mask=mask)
        return x

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.tok(ids) + self.pos)))


# ------------------------------------------------------------------ skips across a language model
class PlainLayer(nn.Module):
    """Norms without gains, attention with normed heads, squares of ReLUs."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o, self.fc, self.proj = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)

    def forward(self, x):
        h = F.rms_norm(x, (x.size(-1),))
        q, k, v = self.qkv(h).view(*h.shape[:2], 3 * H, HD).transpose(1, 2).chunk(3, dim=1)
        q, k = F.rms_norm(q, (HD,)), F.rms_norm(k, (HD,))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.proj(F.relu(self.fc(F.rms_norm(x, (x.size(-1),)))).square())


class MirrorLm(nn.Module):
    """The first half of the layers puts its states on a pile, the second half takes them off again and adds them."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.embed, self.blocks, self.lm_head = nn.Embedding(V, D), nn.ModuleList(PlainLayer() for _ in range(n)), nn.Linear(D, V, bias=False)
        self.register_buffer("skip_weights", torch.ones(n // 2))
        self.apply(scaled_init)

    def trunk(self, x):
        half, pile = len(self.skip_weights), []
        for i, block in enumerate(self.blocks):
            if i >= len(self.blocks) - half:
                x = x + self.skip_weights[len(pile) - 1] * pile.pop()
            x = block(x)
            if i < half:
                pile.append(x)
        return x

    def forward(self, ids):
        x = self.trunk(F.rms_norm(self.embed(ids), (D,)))
        logits = self.lm_head(F.rms_norm(x, (D,)))
        return 15 * torch.tanh(logits / 15)


# ------------------------------------------------------------------ a residual beside the state
class SelectiveScan(nn.Module):
    """Steps, inputs and readouts of a state that decays are maps of what is read."""

    def __init__(self, inner=40, state=4, rank=4):
        super().__init__()
        self.rank, self.state, self.in_proj, self.conv1d, self.x_proj = rank, state, nn.Linear(D, 2 * inner, bias=False), nn.Conv1d(inner, inner, 4, groups=inner, padding=3), nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj, self.out_proj = nn.Linear(rank, inner), nn.Linear(inner, D, bias=False)
        self.A_log, self.D = nn.Parameter(torch.log(torch.arange(1.0, state + 1).repeat(inner, 1))), nn.Parameter(torch.ones(inner))

    def forward(self, h):
        u, z = self.in_proj(h).chunk(2, dim=-1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[..., : h.size(1)].transpose(1, 2))
        dt, B, C = torch.split(self.x_proj(u), [self.rank, self.state, self.state], dim=-1)
        dt, A = F.softplus(self.dt_proj(dt)), -torch.exp(self.A_log)
        s, ys = u.new_zeros(u.size(0), u.size(2), self.state), []
        for t in range(u.size(1)):
            s = torch.exp(dt[:, t, :, None] * A) * s + dt[:, t, :, None] * B[:, t, None] * u[:, t, :, None]
            ys.append((s * C[:, t, None]).sum(-1))
        y = torch.stack(ys, dim=1) + self.D * u
        return self.out_proj(y * F.silu(z))


class PairBlock(nn.Module):
    """Adds first, then norms, then mixes; the sum goes on beside what was mixed."""

    def __init__(self):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(D), SelectiveScan()

    def forward(self, hidden_states, residual=None):
        residual = hidden_states + residual if residual is not None else hidden_states
        hidden_states = self.mixer(self.norm(residual))
        return hidden_states, residual


class StatePairLm(nn.Module):
    """State and residual are two tensors; the last norm reads their sum."""

    def __init__(self, n=None):
        super().__init__()
        self.embedding, self.blocks, self.norm_f, self.lm_head = nn.Embedding(V, D), nn.ModuleList(PairBlock() for _ in range(n or 8)), nn.RMSNorm(D), nn.Linear(D, V, bias=False)
        self.apply(scaled_init)

    def last(self, hidden_states, residual):
        return hidden_states + residual

    def trunk(self, hidden_states):
        residual = None
        for layer in self.blocks:
            hidden_states, residual = layer(hidden_states, residual)
        return self.last(hidden_states, residual)

    def forward(self, input_ids):
        return self.lm_head(self.norm_f(self.trunk(self.embedding(input_ids))))


class StatePairLmHidden(StatePairLm):
    """The last norm reads the state, as the residual is for layers."""

    def last(self, hidden_states, residual):
        return hidden_states


# ------------------------------------------------------------------ text to text
class RelativeAttention(nn.Module):
    """Scores without a factor, with a table of distances where both sides are one text."""

    def __init__(self, causal=False, relative=False):
        super().__init__()
        self.causal, self.q, self.k, self.v, self.o = causal, nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.relative_attention_bias = nn.Embedding(2 * T, H) if relative else None

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        q, k, v = (f(t).unflatten(-1, (H, HD)) for f, t in ((self.q, x), (self.k, memory), (self.v, memory)))
        scores = torch.einsum("bqnd,bknd->bnqk", q, k)
        if self.relative_attention_bias is not None:
            i, j = torch.arange(x.size(1), device=x.device), torch.arange(memory.size(1), device=x.device)
            scores = scores + self.relative_attention_bias(j[None] - i[:, None] + T).permute(2, 0, 1)
        if self.causal:
            scores = scores + torch.full(scores.shape[-2:], float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        attn = nn.functional.softmax(scores, dim=-1)
        return self.o(torch.einsum("bnqk,bknd->bqnd", attn, v).flatten(2))


class SubLayer(nn.Module):
    """A norm in front of whatever it is given, and the sum behind."""

    def __init__(self, fn):
        super().__init__()
        self.layer_norm, self.fn = nn.RMSNorm(D), fn

    def forward(self, x, *args):
        return x + self.fn(self.layer_norm(x), *args)


def wide_net():
    return nn.Sequential(nn.Linear(D, 2 * D, bias=False), nn.ReLU(), nn.Linear(2 * D, D, bias=False))


class ReaderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList([SubLayer(RelativeAttention(relative=True)), SubLayer(wide_net())])

    def forward(self, x):
        for sub in self.layer:
            x = sub(x)
        return x


class WriterLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList([SubLayer(RelativeAttention(causal=True, relative=True)), SubLayer(RelativeAttention()), SubLayer(wide_net())])

    def forward(self, x, memory):
        x = self.layer[0](x)
        x = self.layer[1](x, memory)
        return self.layer[-1](x)


class TextToText(nn.Module):
    """One table for both sides; a reader that ends in a norm, and a writer that looks at it."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 4
        self.shared, self.encoder, self.encoder_norm = nn.Embedding(V, D), nn.ModuleList(ReaderLayer() for _ in range(n)), nn.RMSNorm(D)
        self.blocks, self.final_layer_norm, self.lm_head = nn.ModuleList(WriterLayer() for _ in range(n)), nn.RMSNorm(D), nn.Linear(D, V, bias=False)
        self.apply(scaled_init)

    def encode(self, ids):
        x = self.shared(ids)
        for layer in self.encoder:
            x = layer(x)
        return self.encoder_norm(x)

    def trunk(self, x, memory):
        for layer in self.blocks:
            x = layer(x, memory)
        return x

    def forward(self, source, target):
        return self.lm_head(self.final_layer_norm(self.trunk(self.shared(target), self.encode(source))))


# ------------------------------------------------------------------ places by filters
class PlaceFilter(nn.Module):
    """A filter a channel over the picture of tokens, added to them."""

    def __init__(self, side=4):
        super().__init__()
        self.side, self.proj = side, nn.Conv2d(D, D, 3, 1, 1, groups=D)

    def forward(self, x):
        b, n, c = x.shape
        cnn_feat = x.transpose(1, 2).view(b, c, self.side, self.side)
        x = self.proj(cnn_feat) + cnn_feat
        return x.flatten(2).transpose(1, 2)


class VisionBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True), nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class FilterPlacesVit(nn.Module):
    """Places come from a filter behind the first block; the head reads the mean of tokens."""

    def __init__(self, n=None, classes=10):
        super().__init__()
        self.patch_embed, self.blocks, self.pos_block = nn.Conv2d(3, D, 4, 4), nn.ModuleList(VisionBlock() for _ in range(n or 6)), nn.ModuleList(self.filters(n or 6))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, classes)
        self.apply(scaled_init)

    def filters(self, n):
        return [PlaceFilter()] + [nn.Identity() for _ in range(n - 1)]

    def trunk(self, x):
        for block, place in zip(self.blocks, self.pos_block):
            x = place(block(x))
        return x

    def forward(self, img):
        x = self.patch_embed(img).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.trunk(x)).mean(dim=1))


class FilterPlacesVitAll(FilterPlacesVit):
    """A filter behind each block, so that no block forgets places."""

    def filters(self, n):
        return [PlaceFilter() for _ in range(n)]


# ------------------------------------------------------------------ long skips in diffusion
class SkipBlock(nn.Module):
    """Attention and a net with a shift of the time; the second half joins a state of the first by a norm and a map."""

    def __init__(self, skip=False):
        super().__init__()
        self.norm1, self.norm2, self.qkv, self.out, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(approximate="tanh"), nn.Linear(2 * D, D))
        self.time, self.q_norm, self.k_norm = nn.Sequential(nn.SiLU(), nn.Linear(D, D)), nn.LayerNorm(HD), nn.LayerNorm(HD)
        self.skip_norm, self.skip_linear = (nn.LayerNorm(2 * D), nn.Linear(2 * D, D)) if skip else (None, None)

    def forward(self, x, c, skip=None):
        if self.skip_linear is not None:
            x = self.skip_linear(self.skip_norm(torch.cat([x, skip], dim=-1)))
        q, k, v = (t.unflatten(-1, (H, HD)).transpose(1, 2) for t in self.qkv(self.norm1(x) + self.time(c).unsqueeze(1)).chunk(3, dim=-1))
        x = x + self.out(F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class LongSkipDiffusion(nn.Module):
    """States of the first half are joined to those of the second half."""

    def __init__(self, n=None, patch=4):
        super().__init__()
        n = n or 6
        self.patch, self.x_embedder, self.pos_embed = patch, nn.Conv2d(3, D, patch, patch), nn.Parameter(torch.randn(16, D) * 0.1)
        self.t_embedder, self.blocks = nn.Sequential(nn.Linear(16, D), nn.SiLU(), nn.Linear(D, D)), nn.ModuleList(SkipBlock(i >= n - n // 2) for i in range(n))
        self.norm_out, self.proj_out = nn.LayerNorm(D), nn.Linear(D, 3 * patch ** 2)
        self.apply(scaled_init)

    def trunk(self, x, c):
        skips, half = [], len(self.blocks) // 2
        for i, block in enumerate(self.blocks):
            x = block(x, c, skips.pop() if i >= len(self.blocks) - half else None)
            if i < half:
                skips.append(x)
        return x

    def forward(self, img, t):
        freqs = torch.exp(-math.log(1e4) / 8 * torch.arange(8, device=img.device, dtype=img.dtype))
        args = t[:, None] * freqs[None]
        c = self.t_embedder(torch.cat([args.cos(), args.sin()], dim=-1))
        x = self.trunk(self.x_embedder(img).flatten(2).transpose(1, 2) + self.pos_embed, c)
        return F.pixel_shuffle(self.proj_out(self.norm_out(x)).transpose(1, 2).unflatten(2, (4, 4)), self.patch)


# ------------------------------------------------------------------ variates as tokens
class VariateLayer(nn.Module):
    """Norms behind both sums; the net is two filters of one step."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.conv1, self.conv2 = *(nn.Linear(D, D) for _ in range(4)), nn.Conv1d(D, 2 * D, 1), nn.Conv1d(2 * D, D, 1)
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], H, -1) for f in (self.q, self.k, self.v))
        A = torch.softmax(torch.einsum("blhe,bshe->bhls", q, k) / math.sqrt(HD), dim=-1)
        new_x = self.o(torch.einsum("bhls,bshd->blhd", A, v).reshape(x.shape))
        x = x + new_x
        y = x = self.norm1(x)
        y = F.gelu(self.conv1(y.transpose(-1, 1)))
        y = self.conv2(y).transpose(-1, 1)
        return self.norm2(x + y)


class VariateForecaster(nn.Module):
    """Each variate's whole past is one token; its mean and spread are taken off and given back."""

    def __init__(self, n=None, past=48, ahead=12):
        super().__init__()
        self.enc_embedding, self.blocks, self.norm, self.projector = nn.Linear(past, D), nn.ModuleList(VariateLayer() for _ in range(n or 3)), nn.LayerNorm(D), nn.Linear(D, ahead)
        self.apply(scaled_init)

    def trunk(self, x):
        for layer in self.blocks:
            x = layer(x)
        return x

    def forward(self, x_enc):
        means = x_enc.mean(1, keepdim=True).detach()
        x_enc = x_enc - means
        stdev = torch.sqrt(torch.var(x_enc, dim=1, keepdim=True, unbiased=False) + 1e-5)
        x_enc = x_enc / stdev
        out = self.projector(self.norm(self.trunk(self.enc_embedding(x_enc.permute(0, 2, 1))))).permute(0, 2, 1)
        return out * stdev + means


# ------------------------------------------------------------------ forecasts that are taken off
class BasisBlock(nn.Module):
    """A net of maps and ReLUs gives what it explains of the past, and a forecast."""

    def __init__(self, past, ahead, hidden=32):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(past, hidden), nn.Linear(hidden, hidden)])
        self.backcast, self.forecast = nn.Linear(hidden, past), nn.Linear(hidden, ahead)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.backcast(x), self.forecast(x)


class TakenOffForecaster(nn.Module):
    """Each block's past is taken off for the next; forecasts are summed."""

    def __init__(self, n=None, past=48, ahead=12):
        super().__init__()
        self.blocks = nn.ModuleList(BasisBlock(past, ahead) for _ in range(n or 6))
        self.apply(scaled_init)

    def forward(self, series):
        residuals = series.transpose(1, 2)
        forecast = residuals[..., -1:]
        for block in self.blocks:
            backcast, block_forecast = block(residuals)
            residuals = residuals - backcast
            forecast = forecast + block_forecast
        return forecast.transpose(1, 2)


# ------------------------------------------------------------------ graphs
class ShareConv(nn.Module):
    """Neighbours' messages are weighed by a softmax of themselves a channel, times a temperature."""

    def __init__(self, t=1.0, eps=1e-7):
        super().__init__()
        self.temperature, self.eps, self.mlp = nn.Parameter(torch.tensor(t)), eps, nn.Sequential(nn.Linear(D, 2 * D), nn.LayerNorm(2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x, adj):
        msg = F.relu(x) + self.eps
        logits = (msg * self.temperature)[:, None].expand(-1, x.size(1), -1, -1)
        alpha = torch.softmax(logits.masked_fill(adj[..., None] == 0, float("-inf")), dim=2)
        return self.mlp(x + (alpha * msg[:, None]).sum(dim=2))


class GraphLayer(nn.Module):
    """Norm, ReLU, messages, sum."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.LayerNorm(D), ShareConv()

    def forward(self, x, adj):
        h = F.relu(self.norm(x))
        h = self.conv(h, adj)
        return x + h


class MessageNet(nn.Module):
    """Atoms' tables, layers of messages, a norm, the mean over the graph."""

    def __init__(self, n=None, targets=3):
        super().__init__()
        self.atom_encoder, self.blocks, self.norm, self.lin = nn.Embedding(9, D), nn.ModuleList(GraphLayer() for _ in range(n or 7)), nn.LayerNorm(D), nn.Linear(D, targets)
        self.apply(scaled_init)

    def trunk(self, x, adj):
        for layer in self.blocks:
            x = layer(x, adj)
        return x

    def forward(self, atoms, adj):
        x = self.trunk(self.atom_encoder(atoms), adj)
        return self.lin(F.relu(self.norm(x)).mean(dim=1))


# ------------------------------------------------------------------ experts
@dataclass
class ExpertsConfig:
    dim: int = D
    n_layers: int = 5
    n_dense: int = 1
    n_experts: int = 4
    n_active: int = 2
    route_scale: float = 1.5
    inter: dict = field(default_factory=lambda: {"dense": 64, "expert": 24})


class GatedNet(nn.Module):
    def __init__(self, dim, inter):
        super().__init__()
        self.w1, self.w2, self.w3 = nn.Linear(dim, inter, bias=False), nn.Linear(inter, dim, bias=False), nn.Linear(dim, inter, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Experts(nn.Module):
    """Sigmoids choose experts with a bias that is no weight of the sum; one expert is for all."""

    def __init__(self, args):
        super().__init__()
        self.args, self.gate, self.experts, self.shared_experts = args, nn.Linear(args.dim, args.n_experts, bias=False), nn.ModuleList(GatedNet(args.dim, args.inter["expert"]) for _ in range(args.n_experts)), GatedNet(args.dim, args.inter["expert"])
        self.register_buffer("e_score_correction_bias", torch.zeros(args.n_experts))

    def forward(self, x):
        shape = x.size()
        x = x.view(-1, shape[-1])
        scores = self.gate(x).sigmoid()
        indices = torch.topk(scores + self.e_score_correction_bias, self.args.n_active, dim=-1)[1]
        weights = scores.gather(1, indices)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-20) * self.args.route_scale
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            idx, top = torch.where(indices == i)
            y[idx] += expert(x[idx]) * weights[idx, top, None]
        return (y + self.shared_experts(x)).view(shape)


class ExpertsLayer(nn.Module):
    def __init__(self, layer_id, args):
        super().__init__()
        self.attn_norm, self.ffn_norm, self.wqkv, self.wo = nn.RMSNorm(args.dim), nn.RMSNorm(args.dim), nn.Linear(args.dim, 3 * args.dim, bias=False), nn.Linear(args.dim, args.dim, bias=False)
        self.ffn = GatedNet(args.dim, args.inter["dense"]) if layer_id < args.n_dense else Experts(args)

    def attn(self, x):
        q, k, v = self.wqkv(x).view(*x.shape[:2], 3, H, HD).permute(2, 0, 3, 1, 4)
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        x = x + self.ffn(self.ffn_norm(x))
        return x


class SigmoidExpertsLm(nn.Module):
    """A dense layer first, then layers of experts."""

    def __init__(self, n=None, args=ExpertsConfig()):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(V, args.dim), nn.ModuleList()
        for layer_id in range(n or args.n_layers):
            self.blocks.append(ExpertsLayer(layer_id, args))
        self.norm, self.head = nn.RMSNorm(args.dim), nn.Linear(args.dim, V, bias=False)
        self.apply(scaled_init)

    def trunk(self, h):
        for layer in self.blocks:
            h = layer(h)
        return h

    def forward(self, tokens):
        return self.head(self.norm(self.trunk(self.embed(tokens))))


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_ONE, _TWO, _OPEN, _SHUT = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False}), dict(logits_bounded={0: True})
TRUTH = {
    "SmallGpt": dict(_M, depth=6, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm blocks, a norm in front of the head."),
    "SmallGptOuter": dict(_M | {"identity_gain": 2.0 ** 6, "growth_fixed": "exponential"}, depth=6, growth_all="exponential", gradient_law="exponential", **_OPEN, sound=False, why="blocks have sums, and the stack adds their input again: the stream doubles in each."),
    "EncoderLayersLm": dict(_M, depth=5, **_TWO, **_OPEN, gradient_law="power", sound=True, why="norm_first: pre-norm layers with a norm behind all."),
    "MirrorLm": dict(_M | {"identity_gain": 4.0, "growth_fixed": "polynomial"}, depth=6, **_SHUT, why="three states of the first half, each with the embedding once, are added in the second: four embeddings; sums of states that grow in line are of degree two."),
    "StatePairLm": dict(_M | {"softmax": False}, depth=8, **_ONE, gradient_law="power", sound=True, why="the sum of state and residual is the stream, each mixer reads a norm of it, and the last norm reads it whole."),
    "StatePairLmHidden": dict(kind="model", depth=8, growth_fixed="bounded", softmax=False, sound=False, why="the head reads the last mixer's function of a norm; the residual with all others is lost."),
    "TextToText": dict(_M, depth=4, output_bounded={0: False, 1: False, 2: False}, **_OPEN, sound=True, why="pre-norm in both stacks; what the writer reads is a norm."),
    "FilterPlacesVit": dict(_M, depth=6, **_OPEN, sound=True, why="pre-norm blocks; one linear filter of the stream behind the first one only."),
    "FilterPlacesVitAll": dict(_M | {"growth_fixed": "exponential"}, depth=6, **_OPEN, sound=False, why="a linear filter of the raw stream is added to it behind each block."),
    "LongSkipDiffusion": dict(kind="model", depth=6, growth_fixed="bounded", softmax=True, **_SHUT, why="each block of the second half starts from a map of a norm."),
    "VariateForecaster": dict(kind="model", depth=3, growth_fixed="bounded", softmax=True, **_OPEN, sound=True, why="a norm behind each sum; spread and mean are factors of the end."),
    "TakenOffForecaster": dict(kind="model", depth=6, growth_fixed="exponential", softmax=False, **_ONE, why="no norm: what is taken off is of degree one of what is left."),
    "MessageNet": dict(_M, depth=7, **_ONE, **_SHUT, gradient_law="power", sound=True, why="pre-norm; logits are ReLUs of a norm times a temperature that is held; a map ends the branch."),
    "SigmoidExpertsLm": dict(_M, depth=5, **_TWO, **_OPEN, sound=True, why="pre-norm; shares of sigmoids that sum to a constant; softmax in attention alone."),
}
