"""Whole small models and blocks as working engineers write them. All of them are as they were meant."""

import math
from dataclasses import dataclass, field
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

D, T, H = 32, 16, 4


def example_inputs():
    return (torch.randn(2, T, D),)


# ============================================================ models
@dataclass
class GPTConfig:
    block_size: int = T
    n_layer: int = 12
    n_head: int = H
    n_embd: int = D
    dropout: float = 0.1
    bias: bool = True


class CausalSelfAttention(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head, self.n_embd = config.n_head, config.n_embd

    def forward(self, x):
        B, L, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, L, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, L, C)
        return self.resid_dropout(self.c_proj(y))


class GPTMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.act = nn.GELU(approximate="tanh")
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class GPTLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(config.n_embd), CausalSelfAttention(config)
        self.ln_2, self.mlp = nn.LayerNorm(config.n_embd), GPTMLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GptModel(nn.Module):
    """GPT on embeddings, learned positions, a final norm and a head."""

    def __init__(self, n_layer=12):
        super().__init__()
        config = GPTConfig(n_layer=n_layer)
        self.config = config
        self.transformer = nn.ModuleDict(dict(
            wpe=nn.Embedding(config.block_size, config.n_embd),
            drop=nn.Dropout(config.dropout),
            h=nn.ModuleList([GPTLayer(config) for _ in range(config.n_layer)]),
            ln_f=nn.LayerNorm(config.n_embd),
        ))
        self.lm_head = nn.Linear(config.n_embd, config.n_embd, bias=False)

    def forward(self, inputs_embeds):
        pos = torch.arange(inputs_embeds.size(1), device=inputs_embeds.device)
        x = self.transformer.drop(inputs_embeds + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


class BertSelfAttention(nn.Module):
    def __init__(self, hidden=D, heads=H):
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))

    def transpose_for_scores(self, x):
        return x.view(*x.size()[:-1], self.heads, self.size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask: Optional[torch.Tensor] = None):
        q, k, v = (self.transpose_for_scores(f(hidden_states)) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
        if attention_mask is not None:
            scores = scores + attention_mask
        context = torch.matmul(nn.functional.softmax(scores, dim=-1), v)
        return context.permute(0, 2, 1, 3).reshape(hidden_states.shape)


class BertOutput(nn.Module):
    """dense, dropout, LayerNorm(hidden + input): used behind both halves."""

    def __init__(self, n_in, hidden=D):
        super().__init__()
        self.dense, self.LayerNorm, self.dropout = nn.Linear(n_in, hidden), nn.LayerNorm(hidden, eps=1e-12), nn.Dropout(0.1)

    def forward(self, hidden_states, input_tensor):
        hidden_states = self.dropout(self.dense(hidden_states))
        return self.LayerNorm(hidden_states + input_tensor)


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.attention_output = BertSelfAttention(), BertOutput(D)
        self.intermediate, self.output = nn.Linear(D, 4 * D), BertOutput(4 * D)

    def forward(self, hidden_states, attention_mask=None):
        attention_output = self.attention_output(self.attention(hidden_states, attention_mask), hidden_states)
        return self.output(F.gelu(self.intermediate(attention_output)), attention_output)


class BertEncoderModel(nn.Module):
    """BERT: embedding norm, post-norm layers, a transform head."""

    def __init__(self, num_hidden_layers=12):
        super().__init__()
        self.position = nn.Embedding(T, D)
        self.embed_norm = nn.LayerNorm(D, eps=1e-12)
        self.layer = nn.ModuleList(BertLayer() for _ in range(num_hidden_layers))
        self.head = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.LayerNorm(D), nn.Linear(D, D))

    def forward(self, embeds, mask=None):
        h = self.embed_norm(embeds + self.position.weight[: embeds.shape[1]])
        if mask is not None:
            mask = (1.0 - mask[:, None, None, :].to(h.dtype)) * torch.finfo(h.dtype).min
        for layer_module in self.layer:
            h = layer_module(h, mask)
        return self.head(h)


def drop_path(x, p: float = 0.0, training: bool = False):
    if p == 0.0 or not training:
        return x
    keep = 1 - p
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    return x * x.new_empty(shape).bernoulli_(keep).div_(keep)


class DropPath(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.p = p

    def forward(self, x):
        return drop_path(x, self.p, self.training)


class LayerScale(nn.Module):
    def __init__(self, dim, init_values=0.1):
        super().__init__()
        self.gain = nn.Parameter(init_values * torch.ones(dim))

    def forward(self, x):
        return x * self.gain


class VitAttention(nn.Module):
    def __init__(self, dim=D, num_heads=H, qk_norm=True):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.q_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class VitLayer(nn.Module):
    def __init__(self, drop_path=0.0):
        super().__init__()
        self.norm1, self.attn, self.ls1, self.drop_path1 = nn.LayerNorm(D), VitAttention(), LayerScale(D), DropPath(drop_path)
        self.norm2, self.ls2, self.drop_path2 = nn.LayerNorm(D), LayerScale(D), DropPath(drop_path)
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x))))
        x = x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))
        return x


class VitQkNorm(nn.Module):
    """ViT with a class token, QK-norm, layer scale, drop path; the class token is cut at the end."""

    def __init__(self, depth=12, drop_path_rate=0.0):
        super().__init__()
        self.patch_embed = nn.Linear(D, D)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, D))
        self.pos_embed = nn.Parameter(torch.randn(1, T + 1, D) * 0.02)
        dpr = [drop_path_rate * i / max(depth - 1, 1) for i in range(depth)]
        self.blocks = nn.Sequential(*[VitLayer(p) for p in dpr])
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, patches):
        x = self.patch_embed(patches)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        x = self.norm(self.blocks(x))
        return self.head(x[:, 1:])


class T5Norm(nn.Module):
    def __init__(self, dim=D, eps=1e-6):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return self.gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class T5Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))

    def forward(self, x, kv=None, bias=None):
        kv = x if kv is None else kv
        q, k, v = (t.unflatten(-1, (H, D // H)).transpose(1, 2) for t in (self.q(x), self.k(kv), self.v(kv)))
        scores = q @ k.transpose(3, 2)          # T5 has no scale
        if bias is not None:
            scores = scores + bias
        return self.o((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


class T5Ff(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi_0, self.wi_1, self.wo = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)

    def forward(self, x):
        return self.wo(F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x))


class T5Layer(nn.Module):
    def __init__(self, is_decoder):
        super().__init__()
        self.is_decoder = is_decoder
        self.norm_sa, self.sa = T5Norm(), T5Attention()
        if is_decoder:
            self.norm_ca, self.ca = T5Norm(), T5Attention()
        self.norm_ff, self.ff, self.dropout = T5Norm(), T5Ff(), nn.Dropout(0.1)

    def forward(self, x, memory=None, bias=None):
        x = x + self.dropout(self.sa(self.norm_sa(x), bias=bias))
        if self.is_decoder:
            x = x + self.dropout(self.ca(self.norm_ca(x), kv=memory))
        return x + self.dropout(self.ff(self.norm_ff(x)))


class T5Stack(nn.Module):
    def __init__(self, n, is_decoder=False):
        super().__init__()
        self.is_decoder = is_decoder
        self.relative = nn.Embedding(2 * T, H)
        self.block = nn.ModuleList(T5Layer(is_decoder) for _ in range(n))
        self.final = T5Norm()

    def forward(self, x, memory=None):
        i = torch.arange(x.shape[1], device=x.device)
        bias = self.relative(i[None, :] - i[:, None] + T).permute(2, 0, 1)[None]
        if self.is_decoder:
            bias = bias.masked_fill(i[None, :] > i[:, None], float("-inf"))
        for layer in self.block:
            x = layer(x, memory, bias)
        return self.final(x)


class T5Like(nn.Module):
    """Encoder and decoder of the same depth; the decoder reads the sequence shifted by one."""

    def __init__(self, depth=8):
        super().__init__()
        self.encoder, self.decoder = T5Stack(depth), T5Stack(depth, is_decoder=True)
        self.lm_head = nn.Linear(D, D, bias=False)

    def forward(self, embeds):
        memory = self.encoder(embeds)
        shifted = F.pad(embeds[:, :-1], (0, 0, 1, 0))
        return self.lm_head(self.decoder(shifted, memory) * D ** -0.5)


class PlainLayer(nn.Module):
    def __init__(self, dim=D, heads=H):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class UNetAdd(nn.Module):
    """A U-Net of transformer blocks; every up block starts from the sum with its partner's output."""

    def __init__(self, depth=24):
        super().__init__()
        self.in_blocks = nn.ModuleList(PlainLayer() for _ in range(depth // 2))
        self.out_blocks = nn.ModuleList(PlainLayer() for _ in range(depth // 2))
        self.proj_in, self.norm, self.proj_out = nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, D)

    def features(self, x):
        skips = []
        for blk in self.in_blocks:
            x = blk(x)
            skips.append(x)
        for blk in self.out_blocks:
            x = blk(x + skips.pop())
        return x

    def forward(self, x):
        return self.proj_out(self.norm(self.features(self.proj_in(x))))


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    def __init__(self, hidden=D):
        super().__init__()
        self.norm1 = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(hidden, elementwise_affine=False, eps=1e-6)
        self.attn = VitAttention(hidden, H, qk_norm=False)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(approximate="tanh"), nn.Linear(4 * hidden, hidden))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 6 * hidden, bias=True))

    def forward(self, x, c):
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + gate_msa.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift_msa, scale_msa))
        x = x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))
        return x


class DiT(nn.Module):
    """DiT with adaLN-zero; the time step is an argument with a default."""

    def __init__(self, depth=12):
        super().__init__()
        self.x_embedder = nn.Linear(D, D)
        self.t_embedder = nn.Sequential(nn.Linear(D, D), nn.SiLU(), nn.Linear(D, D))
        self.blocks = nn.ModuleList([DiTBlock() for _ in range(depth)])
        self.norm_final, self.linear = nn.LayerNorm(D, elementwise_affine=False), nn.Linear(D, D)
        self.initialize_weights()

    def initialize_weights(self):
        for block in self.blocks:
            nn.init.constant_(block.adaLN_modulation[-1].weight, 0)
            nn.init.constant_(block.adaLN_modulation[-1].bias, 0)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def timestep(self, t):
        half = D // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device).to(t.dtype) / half)
        args = t[:, None] * freqs[None]
        return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

    def forward(self, x, t=None):
        if t is None:
            t = x.new_full((x.shape[0],), 10.0)
        c = self.t_embedder(self.timestep(t))
        x = self.x_embedder(x)
        for block in self.blocks:
            x = block(x, c)
        return self.linear(self.norm_final(x))


class ConvModule(nn.Module):
    def __init__(self, dim=D, kernel=5):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pointwise1 = nn.Conv1d(dim, 2 * dim, 1)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.bn = nn.GroupNorm(1, dim)
        self.pointwise2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        x = self.norm(x).transpose(1, 2)
        x = F.glu(self.pointwise1(x), dim=1)
        x = self.pointwise2(F.silu(self.bn(self.depthwise(x))))
        return x.transpose(1, 2)


class ConformerLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff1 = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.SiLU(), nn.Dropout(0.1), nn.Linear(2 * D, D))
        self.ff2 = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.SiLU(), nn.Dropout(0.1), nn.Linear(2 * D, D))
        self.attn_norm, self.attn = nn.LayerNorm(D), nn.MultiheadAttention(D, H, batch_first=True)
        self.conv, self.final_norm = ConvModule(), nn.LayerNorm(D)

    def forward(self, x):
        x = 0.5 * self.ff1(x) + x
        h = self.attn_norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        x = x + self.conv(x)
        x = 0.5 * self.ff2(x) + x
        return self.final_norm(x)


class ConformerEncoder(nn.Module):
    """An audio encoder on frames: Conformer layers behind a projection."""

    def __init__(self, num_layers=6):
        super().__init__()
        self.input_projection = nn.Sequential(nn.Linear(D, D), nn.Dropout(0.1))
        self.layers = nn.ModuleList(ConformerLayer() for _ in range(num_layers))
        self.ctc = nn.Linear(D, D)

    def forward(self, frames):
        x = self.input_projection(frames)
        for layer in self.layers:
            x = layer(x)
        return self.ctc(x).log_softmax(dim=-1) if not self.training else self.ctc(x)


class SwinV2Attention(nn.Module):
    def __init__(self, dim=D, heads=H, window=4):
        super().__init__()
        self.heads, self.window = heads, window
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(1, 16), nn.ReLU(inplace=True), nn.Linear(16, heads, bias=False))
        i = torch.arange(window)
        self.register_buffer("coords", (i[:, None] - i[None, :])[..., None] / window, persistent=False)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B_, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B_, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(100.0)).exp()
        bias = self.cpb_mlp(self.coords).permute(2, 0, 1)
        attn = attn + 16 * torch.sigmoid(bias).unsqueeze(0)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B_, N, C))


class SwinV2Layer(nn.Module):
    def __init__(self, shift=0, window=4):
        super().__init__()
        self.shift, self.window = shift, window
        self.attn, self.norm1, self.norm2 = SwinV2Attention(window=window), nn.LayerNorm(D), nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def windows(self, x):
        B, L, C = x.shape
        if self.shift > 0:
            x = torch.roll(x, -self.shift, dims=1)
        x = self.attn(x.reshape(-1, self.window, C)).reshape(B, L, C)
        if self.shift > 0:
            x = torch.roll(x, self.shift, dims=1)
        return x

    def forward(self, x):
        x = x + self.norm1(self.windows(x))
        x = x + self.norm2(self.mlp(x))
        return x


class SwinV2Stage(nn.Module):
    """One stage of Swin v2: cosine attention with a clamped scale, norms behind, every other block shifted."""

    def __init__(self, depth=6):
        super().__init__()
        self.patch_norm = nn.LayerNorm(D)
        self.blocks = nn.ModuleList(SwinV2Layer(shift=0 if i % 2 == 0 else 2) for i in range(depth))
        self.norm = nn.LayerNorm(D)

    def forward(self, x):
        x = self.patch_norm(x)
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x)


class Retention(nn.Module):
    def __init__(self, dim=D, heads=H):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.g_proj, self.out_proj = (nn.Linear(dim, dim, bias=False) for _ in range(5))
        self.group_norm = nn.RMSNorm(dim // heads, elementwise_affine=False)
        gamma = 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.get_default_dtype()))
        i = torch.arange(T)
        diff = (i[:, None] - i[None, :]).to(gamma.dtype)
        self.register_buffer("decay", torch.where(diff >= 0, gamma[:, None, None] ** diff.clamp(min=0), torch.zeros(())))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (p(x).view(b, n, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT * (d // self.heads) ** -0.5 * self.decay[:, :n, :n]
        y = self.group_norm(scores @ v).transpose(1, 2).reshape(b, n, d)
        return self.out_proj(F.silu(self.g_proj(x)) * y)


class RetNetLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.retention_norm, self.retention = nn.RMSNorm(D), Retention()
        self.ffn_norm, self.fc1, self.fc2 = nn.RMSNorm(D), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)

    def forward(self, x):
        x = x + self.retention(self.retention_norm(x))
        return x + self.fc2(F.gelu(self.fc1(self.ffn_norm(x))))


class RetNet(nn.Module):
    """RetNet in its parallel form."""

    def __init__(self, depth=8):
        super().__init__()
        self.layers = nn.ModuleList(RetNetLayer() for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(D), nn.Linear(D, D, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class MambaMixer(nn.Module):
    def __init__(self, dim=D, state=4, conv=4):
        super().__init__()
        self.inner, self.state, self.rank = 2 * dim, state, 4
        self.in_proj = nn.Linear(dim, 2 * self.inner, bias=False)
        self.conv1d = nn.Conv1d(self.inner, self.inner, conv, padding=conv - 1, groups=self.inner)
        self.x_proj = nn.Linear(self.inner, self.rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(self.rank, self.inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).to(torch.get_default_dtype()).repeat(self.inner, 1)))
        self.D = nn.Parameter(torch.ones(self.inner))
        self.out_proj = nn.Linear(self.inner, dim, bias=False)

    def scan(self, u, dt, B, C):
        A = -torch.exp(self.A_log)
        h, ys = u.new_zeros(u.shape[0], self.inner, self.state), []
        for t in range(u.shape[1]):
            h = torch.exp(dt[:, t, :, None] * A) * h + (dt[:, t] * u[:, t])[..., None] * B[:, t, None, :]
            ys.append((h * C[:, t, None, :]).sum(-1))
        return torch.stack(ys, dim=1) + u * self.D

    def forward(self, x):
        n = x.shape[1]
        u, z = self.in_proj(x).chunk(2, dim=-1)
        u = F.silu(self.conv1d(u.transpose(1, 2))[..., :n].transpose(1, 2))
        dt, B, C = self.x_proj(u).split([self.rank, self.state, self.state], dim=-1)
        y = self.scan(u, F.softplus(self.dt_proj(dt)), B, C)
        return self.out_proj(y * F.silu(z))


class MambaLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(D), MambaMixer()

    def forward(self, hidden_states):
        residual = hidden_states
        return residual + self.mixer(self.norm(hidden_states))


class MambaLM(nn.Module):
    """Mamba: one mixer per layer, a final norm."""

    def __init__(self, n_layer=12):
        super().__init__()
        self.backbone = nn.ModuleDict({"layers": nn.ModuleList([MambaLayer() for _ in range(n_layer)]), "norm_f": nn.RMSNorm(D)})
        self.lm_head = nn.Linear(D, D, bias=False)

    def forward(self, x):
        for layer in self.backbone["layers"]:
            x = layer(x)
        return self.lm_head(self.backbone["norm_f"](x))


class S4DKernel(nn.Module):
    def __init__(self, channels=D, n=8):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(channels) * 2 - 4)
        self.C = nn.Parameter(torch.randn(channels, n, 2) * 0.5 ** 0.5)
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(channels, n)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(n).to(torch.get_default_dtype()).repeat(channels, 1))

    def forward(self, L):
        dt = torch.exp(self.log_dt)[:, None]
        re, im = -torch.exp(self.log_A_real) * dt, self.A_imag * dt
        t = torch.arange(L, device=dt.device).to(dt.dtype)
        decay, angle = torch.exp(re[..., None] * t), im[..., None] * t
        c = self.C * dt[..., None]
        return 2 * (decay * (c[..., 0, None] * angle.cos() - c[..., 1, None] * angle.sin())).sum(1)


class S4Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.kernel, self.skip = nn.LayerNorm(D), S4DKernel(), nn.Parameter(torch.randn(D))
        self.output_linear = nn.Linear(D, 2 * D)

    def s4(self, u):
        L = u.shape[1]
        k = self.kernel(L)
        y = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), n=2 * L) * torch.fft.rfft(k, n=2 * L), n=2 * L)[..., :L]
        y = y.transpose(1, 2) + u * self.skip
        return F.glu(self.output_linear(F.gelu(y)), dim=-1)

    def forward(self, x):
        return x + self.s4(self.norm(x))


class S4Model(nn.Module):
    """S4D with kernels by FFT, pre-norm."""

    def __init__(self, n_layers=6):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(D, D), nn.Linear(D, D)
        self.s4_layers = nn.ModuleList(S4Layer() for _ in range(n_layers))
        self.norm = nn.LayerNorm(D)

    def forward(self, x):
        x = self.encoder(x)
        for layer in self.s4_layers:
            x = layer(x)
        return self.decoder(self.norm(x))


class PerceiverLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_q, self.norm_kv, self.norm_sa, self.norm_ff = (nn.LayerNorm(D) for _ in range(4))
        self.cross, self.sa = (nn.MultiheadAttention(D, H, batch_first=True) for _ in range(2))
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, latents, data):
        kv = self.norm_kv(data)
        latents = latents + self.cross(self.norm_q(latents), kv, kv, need_weights=False)[0]
        h = self.norm_sa(latents)
        latents = latents + self.sa(h, h, h, need_weights=False)[0]
        return latents + self.ff(self.norm_ff(latents))


class Perceiver(nn.Module):
    """Sixteen latents, which read the raw data in every layer."""

    def __init__(self, depth=6):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(T, D))
        self.layers = nn.ModuleList(PerceiverLayer() for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, data):
        latents = self.latents.unsqueeze(0).repeat(data.shape[0], 1, 1)
        for layer in self.layers:
            latents = layer(latents, data)
        return self.out(self.norm(latents))


class ITransformerLayer(nn.Module):
    def __init__(self, d_model=D, d_ff=64, activation="gelu"):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, H, batch_first=True)
        self.conv1, self.conv2 = nn.Conv1d(d_model, d_ff, 1), nn.Conv1d(d_ff, d_model, 1)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.Dropout(0.1)
        self.activation = F.relu if activation == "relu" else F.gelu

    def forward(self, x):
        new_x, attn = self.attention(x, x, x)
        x = x + self.dropout(new_x)
        y = x = self.norm1(x)
        y = self.dropout(self.activation(self.conv1(y.transpose(-1, 1))))
        y = self.dropout(self.conv2(y).transpose(-1, 1))
        return self.norm2(x + y)


class ITransformer(nn.Module):
    """Each of 16 variates is a token; normalised by its own mean and deviation, and put back at the end."""

    def __init__(self, e_layers=6, use_norm=True):
        super().__init__()
        self.use_norm = use_norm
        self.enc_embedding = nn.Linear(D, D)
        self.layers = nn.ModuleList(ITransformerLayer() for _ in range(e_layers))
        self.norm, self.projector = nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, series):
        x = series
        if self.use_norm:
            means = x.mean(-1, keepdim=True).detach()
            x = x - means
            stdev = torch.sqrt(torch.var(x, dim=-1, keepdim=True, unbiased=False) + 1e-5)
            x = x / stdev
        x = self.enc_embedding(x)
        for layer in self.layers:
            x = layer(x)
        out = self.projector(self.norm(x))
        return out * stdev + means if self.use_norm else out


@dataclass
class MoEConfig:
    dim: int = D
    n_experts: int = 4
    top_k: int = 2
    hidden: int = 48


class Expert(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.w1, self.w3 = nn.Linear(cfg.dim, cfg.hidden, bias=False), nn.Linear(cfg.dim, cfg.hidden, bias=False)
        self.w2 = nn.Linear(cfg.hidden, cfg.dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MoEFeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.gate = nn.Linear(cfg.dim, cfg.n_experts, bias=False)
        self.experts = nn.ModuleList(Expert(cfg) for _ in range(cfg.n_experts))

    def forward(self, x):
        weights, chosen = torch.topk(F.softmax(self.gate(x), dim=-1), self.cfg.top_k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        full = torch.zeros_like(self.gate(x)).scatter(-1, chosen, weights)
        y = torch.stack([e(x) for e in self.experts], dim=-2)
        return (full.unsqueeze(-1) * y).sum(-2)


class MoELayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(cfg.dim), nn.RMSNorm(cfg.dim)
        self.attention, self.feed_forward = VitAttention(cfg.dim), MoEFeedForward(cfg)

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class MoELM(nn.Module):
    """Mixtral-like with QK-norm and two of four experts."""

    def __init__(self, depth=6):
        super().__init__()
        cfg = MoEConfig()
        self.layers = nn.ModuleDict({f"layer_{i}": MoELayer(cfg) for i in range(depth)})
        self.norm, self.output = nn.RMSNorm(D), nn.Linear(D, D, bias=False)

    def forward(self, x):
        for name in self.layers:
            x = self.layers[name](x)
        return self.output(self.norm(x))


class CrossLayer(nn.Module):
    def __init__(self, dim=D):
        super().__init__()
        self.linear = nn.Linear(dim, dim)

    def forward(self, x0, xl):
        return x0 * self.linear(xl) + xl


class DcnV2(nn.Module):
    """DCN-v2: cross layers on the embedded features, a deep tower beside them."""

    def __init__(self, num_layers=6):
        super().__init__()
        self.cross = nn.ModuleList(CrossLayer() for _ in range(num_layers))
        self.deep = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D), nn.ReLU())
        self.out = nn.Linear(2 * D, D)

    def cross_net(self, x0):
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return x

    def forward(self, features):
        return self.out(torch.cat([self.cross_net(features), self.deep(features)], dim=-1))


class FTLayer(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, H, batch_first=True)
        self.attention_normalization = None if first else nn.LayerNorm(D)
        self.ffn_normalization = nn.LayerNorm(D)
        self.linear_first, self.linear_second = nn.Linear(D, 64), nn.Linear(32, D)

    def forward(self, x):
        h = x if self.attention_normalization is None else self.attention_normalization(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        a, b = self.linear_first(self.ffn_normalization(x)).chunk(2, dim=-1)
        return x + self.linear_second(a * F.relu(b))


class FTTransformer(nn.Module):
    """FT-Transformer: the first layer has no norm before attention; ReGLU."""

    def __init__(self, n_blocks=6):
        super().__init__()
        self.feature_bias = nn.Parameter(torch.zeros(T, D))
        self.blocks = nn.ModuleList(FTLayer(first=i == 0) for i in range(n_blocks))
        self.head = nn.Sequential(nn.LayerNorm(D), nn.ReLU(), nn.Linear(D, D))

    def forward(self, tokens):
        x = tokens + self.feature_bias
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class TriangleMultiplication(nn.Module):
    def __init__(self, dim=D, hidden=16, outgoing=True):
        super().__init__()
        self.equation = "bikc,bjkc->bijc" if outgoing else "bkic,bkjc->bijc"
        self.layer_norm_in, self.layer_norm_out = nn.LayerNorm(dim), nn.LayerNorm(hidden)
        self.linear_a, self.linear_a_g, self.linear_b, self.linear_b_g = (nn.Linear(dim, hidden) for _ in range(4))
        self.linear_z, self.linear_g = nn.Linear(hidden, dim), nn.Linear(dim, dim)

    def forward(self, z):
        z = self.layer_norm_in(z)
        a = torch.sigmoid(self.linear_a_g(z)) * self.linear_a(z)
        b = torch.sigmoid(self.linear_b_g(z)) * self.linear_b(z)
        x = self.layer_norm_out(torch.einsum(self.equation, a, b))
        return torch.sigmoid(self.linear_g(z)) * self.linear_z(x)


class PairBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.tri_mul_out, self.tri_mul_in = TriangleMultiplication(), TriangleMultiplication(outgoing=False)
        self.transition = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, z):
        z = z + self.tri_mul_out(z)
        z = z + self.tri_mul_in(z)
        return z + self.transition(z)


class PairStack(nn.Module):
    """AlphaFold's pair stack on four residues: triangles along both edges, a transition."""

    def __init__(self, no_blocks=8):
        super().__init__()
        self.linear_in, self.linear_out = nn.Linear(D, D), nn.Linear(D, D)
        self.blocks = nn.ModuleList(PairBlock() for _ in range(no_blocks))

    def forward(self, pairs):
        z = self.linear_in(pairs).unflatten(1, (4, 4))
        for block in self.blocks:
            z = block(z)
        return self.linear_out(z.flatten(1, 2))


# ============================================================ blocks
class CheckpointedBlock(nn.Module):
    """Pre-norm; attention is recomputed in training."""

    def __init__(self, gradient_checkpointing=True):
        super().__init__()
        self.gradient_checkpointing = gradient_checkpointing
        self.norm1, self.norm2 = nn.RMSNorm(D), nn.RMSNorm(D)
        self.attn, self.mlp = VitAttention(qk_norm=False), T5Ff()

    def forward(self, x):
        h = self.norm1(x)
        if self.gradient_checkpointing and self.training:
            a = checkpoint(self.attn, h, use_reentrant=False)
        else:
            a = self.attn(h)
        x = x + a
        return x + self.mlp(self.norm2(x))


class EncoderLayerNormedFf(nn.TransformerEncoderLayer):
    """The library's pre-norm layer, a third norm behind the feed-forward."""

    def __init__(self):
        super().__init__(D, H, 4 * D, dropout=0.1, activation=F.gelu, batch_first=True, norm_first=True)
        self.norm3 = nn.LayerNorm(D)

    def _ff_block(self, x):
        return self.norm3(super()._ff_block(x))


class Vit22bBlock(nn.Module):
    """Parallel branches from one fused projection, QK-norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.in_proj = nn.Linear(D, 3 * D + 2 * D, bias=False)
        self.q_norm, self.k_norm = nn.LayerNorm(D // H), nn.LayerNorm(D // H)
        self.out_proj = nn.Linear(D + 2 * D, D)

    def branch(self, x):
        B, N, C = x.shape
        q, k, v, h = self.in_proj(self.norm(x)).split([C, C, C, 2 * C], dim=-1)
        q, k, v = (t.view(B, N, H, C // H).transpose(1, 2) for t in (q, k, v))
        a = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.out_proj(torch.cat([a.transpose(1, 2).reshape(B, N, C), F.gelu(h)], dim=-1))

    def forward(self, x):
        return x + self.branch(x)


class MemoryBlock(nn.Module):
    """Self-attention, then cross attention to a bank of learned memories, then a net; all pre-norm."""

    def __init__(self, slots=8):
        super().__init__()
        self.norms = nn.ModuleDict({k: nn.LayerNorm(D) for k in ("self", "cross", "ff")})
        self.attn = nn.ModuleDict({k: nn.MultiheadAttention(D, H, batch_first=True) for k in ("self", "cross")})
        self.memory = nn.Parameter(torch.randn(slots, D) * 0.02)
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def self_attention(self, h):
        return self.attn["self"](h, h, h, need_weights=False)[0]

    def cross_attention(self, h):
        m = self.memory.expand(h.shape[0], -1, -1)
        return self.attn["cross"](h, m, m, need_weights=False)[0]

    def forward(self, x):
        for key, fn in (("self", self.self_attention), ("cross", self.cross_attention), ("ff", self.ff)):
            x = x + fn(self.norms[key](x))
        return x


class DeepNormBlock(nn.Module):
    """DeepNet for 24 layers: alpha on the skip, beta on the value path, norms on the sum."""

    N = 24

    def __init__(self):
        super().__init__()
        self.alpha, beta = (2 * self.N) ** 0.25, (8 * self.N) ** -0.25
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.fc1, self.fc2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        for name, lin in self.named_children():
            if isinstance(lin, nn.Linear):
                nn.init.xavier_normal_(lin.weight, gain=1.0 if name in "qk" else beta)
                nn.init.zeros_(lin.bias)

    def attn(self, x):
        q, k, v = (f(x).unflatten(-1, (H, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = self.ln1(x * self.alpha + self.attn(x))
        return self.ln2(x * self.alpha + self.fc2(F.relu(self.fc1(x))))


class SandwichFunctional(nn.Module):
    """Norms before and behind, all by F.layer_norm without parameters; logits with Gemma 2's cap."""

    def __init__(self, cap=50.0):
        super().__init__()
        self.cap = cap
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    @staticmethod
    def ln(x):
        return F.layer_norm(x, x.shape[-1:])

    def attention(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, H, -1)).permute(2, 0, 3, 1, 4)
        s = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        s = self.cap * torch.tanh(s / self.cap)
        keep = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
        p = torch.softmax(s.masked_fill(~keep, float("-inf")), dim=-1)
        return self.o(torch.einsum("bhij,bhjd->bihd", p, v).flatten(2))

    def forward(self, x):
        x = x + self.ln(self.attention(self.ln(x)))
        return x + self.ln(self.down(F.gelu(self.up(self.ln(x)))))


class ReZeroBlock(nn.Module):
    """No norms; one scalar for both branches, from zero."""

    def __init__(self):
        super().__init__()
        self.resweight = nn.Parameter(torch.zeros(1))
        self.self_attn = nn.MultiheadAttention(D, H, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, src):
        src2 = self.self_attn(src, src, src)[0]
        src = src + self.resweight * src2
        src2 = self.linear2(F.relu(self.linear1(src)))
        return src + self.resweight * src2


class HighwayConv(nn.Module):
    """A highway layer with a convolution and a tanh; carries at the start."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(D, 2 * D, 3, padding=2)
        with torch.no_grad():
            self.conv.bias[D:] = -2.0

    def forward(self, x):
        y = self.conv(x.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        h, g = y.chunk(2, dim=-1)
        g = torch.sigmoid(g)
        return g * torch.tanh(h) + (1.0 - g) * x


class SubLnBlock(nn.Module):
    """Magneto: a norm before each branch and one before its last map."""

    def __init__(self):
        super().__init__()
        self.norm1, self.sub1, self.norm2, self.sub2 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(2 * D)
        self.qkv, self.out, self.fc1, self.fc2 = nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def attn(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, H, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out(self.sub1(y))

    def ffn(self, x):
        return self.fc2(self.sub2(F.gelu(self.fc1(x))))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class NGptBlock(nn.Module):
    """nGPT: the stream stays on the sphere, moved towards each branch by a learned rate."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp = VitAttention(qk_norm=False), T5Ff()
        self.alpha_a, self.alpha_m = nn.Parameter(torch.full((D,), 0.05)), nn.Parameter(torch.full((D,), 0.05))

    @staticmethod
    def unit(x):
        return F.normalize(x, p=2.0, dim=-1)

    def step(self, x, y, alpha):
        return self.unit(x + alpha.abs() * (self.unit(y) - x))

    def forward(self, x):
        x = self.step(x, self.attn(x), self.alpha_a)
        return self.step(x, self.mlp(x), self.alpha_m)


class LinearAttentionBlock(nn.Module):
    """elu + 1 features, causal sums, a divisor."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.to_qkv, self.to_out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)
        self.net = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def attention(self, x):
        q, k, v = (t.unflatten(-1, (H, -1)) for t in self.to_qkv(x).chunk(3, dim=-1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bnhd,bnhe->bnhde", k, v).cumsum(1)
        z = torch.einsum("bnhd,bnhd->bnh", q, k.cumsum(1)) + 1e-6
        return self.to_out((torch.einsum("bnhd,bnhde->bnhe", q, kv) / z.unsqueeze(-1)).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.net(self.norm2(x))


class GraphBlock(nn.Module):
    """Graph transformer: attention along edges of a ring, a bias per edge, batch-free norms on the sum."""

    def __init__(self):
        super().__init__()
        i = torch.arange(T)
        dist = (i[:, None] - i[None, :]).abs()
        dist = torch.minimum(dist, T - dist)
        self.register_buffer("spd", dist.clamp(max=5))
        self.register_buffer("no_edge", dist > 4)
        self.spatial_bias = nn.Embedding(6, H)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ffn = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def attention(self, x):
        q, k, v = (f(x).view(x.shape[0], -1, H, D // H).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) / (D // H) ** 0.5 + self.spatial_bias(self.spd).permute(2, 0, 1)
        s = s.masked_fill(self.no_edge, float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.ffn(x))


class FNetPre(nn.Module):
    """The real part of a two-dimensional FFT of the normed stream, then a net."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + torch.fft.fft2(self.norm1(x), dim=(-2, -1), norm="ortho").real
        return x + self.ff(self.norm2(x))


class MlaBlock(nn.Module):
    """DeepSeek's latent attention: norms on both latents, maps behind them, a shared rotary key."""

    def __init__(self, q_rank=16, kv_rank=16, nope=8, rope=4):
        super().__init__()
        self.nope, self.rope = nope, rope
        self.input_norm, self.post_norm, self.q_norm, self.kv_norm = nn.RMSNorm(D), nn.RMSNorm(D), nn.RMSNorm(q_rank), nn.RMSNorm(kv_rank)
        self.q_a, self.q_b = nn.Linear(D, q_rank, bias=False), nn.Linear(q_rank, H * (nope + rope), bias=False)
        self.kv_a, self.kv_b = nn.Linear(D, kv_rank + rope, bias=False), nn.Linear(kv_rank, H * (nope + 8), bias=False)
        self.o_proj, self.mlp = nn.Linear(H * 8, D, bias=False), T5Ff()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, rope, 2).to(torch.get_default_dtype()) / rope))

    def rotate(self, t):
        a = torch.arange(t.shape[-2], device=t.device).to(t.dtype)[:, None] * self.inv_freq.to(t.dtype)
        x1, x2 = t.chunk(2, dim=-1)
        return torch.cat([x1 * a.cos() - x2 * a.sin(), x1 * a.sin() + x2 * a.cos()], dim=-1)

    def attention(self, x):
        b, n, _ = x.shape
        q = self.q_b(self.q_norm(self.q_a(x))).view(b, n, H, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        latent, k_pe = self.kv_a(x).split([self.kv_norm.weight.shape[0], self.rope], dim=-1)
        k_nope, v = self.kv_b(self.kv_norm(latent)).view(b, n, H, -1).transpose(1, 2).split([self.nope, 8], dim=-1)
        k_pe = self.rotate(k_pe.unsqueeze(1)).expand(-1, H, -1, -1)
        q, k = torch.cat([q_nope, self.rotate(q_pe)], dim=-1), torch.cat([k_nope, k_pe], dim=-1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, n, -1))

    def forward(self, x):
        x = x + self.attention(self.input_norm(x))
        return x + self.mlp(self.post_norm(x))


_PRE = dict(identity_gain=1.0, growth_fixed="linear", softmax=True)
_POST = dict(identity_gain=None, growth_fixed="bounded", growth_all="bounded", softmax=True)
_M, _B = dict(kind="model"), dict(kind="block")
TRUTH = {
    "GptModel": dict(_M, **_PRE, depth=12, logits_bounded={0: False}, why="pre-norm.", tempts="-"),
    "BertEncoderModel": dict(_M, **_POST, depth=12, logits_bounded={0: False}, why="post-norm.", tempts="-"),
    "VitQkNorm": dict(_M, **_PRE, depth=12, logits_bounded={0: True}, why="pre-norm, QK-norm.", tempts="-"),
    "T5Like": dict(_M, **_PRE, depth=8, logits_bounded={0: False}, why="pre-norm in both stacks.", tempts="two streams"),
    "UNetAdd": dict(_M, identity_gain=13.0, growth_fixed="polynomial", softmax=True, depth=24, logits_bounded={0: False},
        why="1 + one for each of 12 long skips; sums of linear states.", tempts="gain 1"),
    "DiT": dict(_M, identity_gain=1.0, growth_fixed="bounded", gradient_law="flat", softmax=True, depth=12, logits_bounded={0: False},
        why="closed gates.", tempts="linear"),
    "ConformerEncoder": dict(_M, **_POST, depth=6, logits_bounded={0: False}, why="a norm ends each layer.", tempts="pre-norm"),
    "SwinV2Stage": dict(_M, **_PRE, growth_all="linear", depth=6, output_bounded={0: True, 1: True}, logits_bounded={0: True},
        why="norms behind, cosine with a clamp.", tempts="-"),
    "RetNet": dict(_M, identity_gain=1.0, growth_fixed="linear", softmax=False, depth=8, why="pre-norm.", tempts="-"),
    "MambaLM": dict(_M, identity_gain=1.0, growth_fixed="linear", softmax=False, depth=12, why="pre-norm.", tempts="a scan"),
    "S4Model": dict(_M, identity_gain=1.0, growth_fixed="linear", softmax=False, depth=6, why="pre-norm.", tempts="FFT"),
    "Perceiver": dict(_M, **_PRE, depth=6, logits_bounded={0: False}, why="pre-norm; raw data only behind a norm.", tempts="-"),
    "ITransformer": dict(_M, **_POST, depth=6, logits_bounded={0: False}, why="post-norm.", tempts="division by the deviation"),
    "MoELM": dict(_M, **_PRE, depth=6, logits_bounded={0: True}, why="pre-norm, QK-norm in attention.", tempts="-"),
    "DcnV2": dict(_M, identity_gain=1.0, growth_fixed="exponential", softmax=False, depth=6,
        why="linear in the stream, no norm.", tempts="a gate"),
    "FTTransformer": dict(_M, **_PRE, depth=6, logits_bounded={0: False}, why="pre-norm but for the first.", tempts="a raw branch"),
    "PairStack": dict(_M, identity_gain=1.0, growth_fixed="linear", softmax=False, depth=8, why="pre-norm.", tempts="products"),
    "CheckpointedBlock": dict(_B, **_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="pre-norm.", tempts="-"),
    "EncoderLayerNormedFf": dict(_B, **_PRE, output_bounded={0: False, 1: True}, logits_bounded={0: False}, why="a norm ends the second.",
        tempts="the library's layer"),
    "Vit22bBlock": dict(_B, **_PRE, output_bounded={0: False}, logits_bounded={0: True}, why="pre-norm, QK-norm.", tempts="-"),
    "MemoryBlock": dict(_B, **_PRE, output_bounded={0: False, 1: False, 2: False}, logits_bounded={0: False, 1: False}, why="pre-norm.", tempts="-"),
    "DeepNormBlock": dict(_B, **_POST, gradient_law="flat", logits_bounded={0: False}, why="DeepNorm.", tempts="alpha"),
    "SandwichFunctional": dict(_B, **_PRE, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, why="peri, capped.",
        tempts="-"),
    "ReZeroBlock": dict(_B, identity_gain=1.0, growth_fixed="bounded", softmax=True, logits_bounded={0: False}, why="the factor is 0.", tempts="raw branches"),
    "HighwayConv": dict(_B, growth_fixed="bounded", growth_all="bounded", softmax=False, why="a convex pair with a tanh.", tempts="no norm"),
    "SubLnBlock": dict(_B, **_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="a map behind the norm.", tempts="norms behind"),
    "NGptBlock": dict(_B, **_POST, logits_bounded={0: False}, why="unit tokens.", tempts="a residual"),
    "LinearAttentionBlock": dict(_B, identity_gain=1.0, growth_fixed="linear", softmax=False, output_bounded={0: False, 1: False}, why="pre-norm.", tempts="-"),
    "GraphBlock": dict(_B, **_POST, logits_bounded={0: False}, why="post-norm.", tempts="-"),
    "FNetPre": dict(_B, identity_gain=1.0, growth_fixed="linear", softmax=False, output_bounded={0: True, 1: False},
        why="a unitary map of a normed value.", tempts="a sum over all tokens"),
    "MlaBlock": dict(_B, **_PRE, output_bounded={0: False, 1: False}, logits_bounded={0: False}, why="maps behind the norms.", tempts="norms on q and k"),
}
