"""Whole models, as they are sent for review: hybrids, factors of the depth, more than one token ahead, pictures, speech to text, flows, molecules, sessions, deep post-norm."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, V = 32, 16, 4, 64
HD = D // H

_G = torch.Generator().manual_seed(428)


def _draw(*shape):
    return torch.randn(shape, generator=_G)


_IDS = torch.randint(0, V, (2, T), generator=_G)
_BONDS = (torch.rand(12, 12, generator=_G) > 0.7).float()
example_inputs = {
    **{k: (_IDS,) for k in ("HybridLm", "HybridLmRelease", "DepthDrawnLm", "TwoAheadLm", "SessionModel", "DeepPostLm", "DeepPostLmConfig")},
    **{k: (_draw(2, 3, 16, 16),) for k in ("WrappedVit", "WrappedVitStages")},
    "SpeechToText": (_draw(2, 40, 20), _IDS[:, :10].clone()),
    **{k: (_draw(2, 4, 8, 8), torch.tensor([0.2, 0.7]), torch.tensor([1, 3])) for k in ("FlowTransformer", "FlowTransformerLean")},
    "HubNodeNet": (_draw(12, 9), torch.maximum(_BONDS, _BONDS.T)),
}


def lin(i, o, bias=False, std=None):
    m = nn.Linear(i, o, bias=bias)
    nn.init.normal_(m.weight, std=i ** -0.5 if std is None else std)
    if bias:
        nn.init.zeros_(m.bias)
    return m


def net(act=nn.GELU, d=D):
    return nn.Sequential(lin(d, 2 * d), act(), lin(2 * d, d))


class Attention(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.qkv, self.out, self.causal = lin(D, 3 * D), lin(D, D), causal

    def forward(self, h):
        q, k, v = self.qkv(h).unflatten(-1, (3, H, HD)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))


class Listed(nn.Module):
    """Blocks in a list."""

    def trunk(self, x):
        for b in self.blocks:
            x = b(x)
        return x


# ------------------------------------------------------------------ hybrids
@dataclass
class HybridConfig:
    n_layer: int = 8
    attn_every: int = 4
    norm_eps: float = 1e-5


class LinearRecurrence(nn.Module):
    """Keys and values in a matrix a head that decays; a norm a head, a gate, a map."""

    def __init__(self):
        super().__init__()
        self.qkvg, self.norm, self.out = lin(D, 4 * D), nn.RMSNorm(HD), lin(D, D)
        self.register_buffer("decay", 1 - 2.0 ** (-1 - torch.arange(H, dtype=torch.get_default_dtype())))

    def forward(self, h):
        q, k, v, g = self.qkvg(h).unflatten(-1, (4, H, HD)).unbind(2)
        state, out = h.new_zeros(h.shape[0], H, HD, HD), []
        for t in range(h.shape[1]):
            state = state * self.decay[:, None, None] + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(-2)
            out.append((q[:, t].unsqueeze(-2) @ state).squeeze(-2))
        return self.out((self.norm(torch.stack(out, 1)) * F.silu(g)).flatten(2))


class HybridBlock(nn.Module):
    def __init__(self, cfg, i):
        super().__init__()
        is_attn = (i + 1) % cfg.attn_every == 0
        self.mixer = Attention() if is_attn else LinearRecurrence()
        self.ln1, self.ln2, self.ffn = nn.RMSNorm(D, eps=cfg.norm_eps), nn.RMSNorm(D, eps=cfg.norm_eps), net(nn.SiLU)

    def forward(self, x):
        x = x + self.mixer(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class HybridLm(Listed):
    """Three recurrences, then attention, and again."""

    def __init__(self, n=None):
        super().__init__()
        cfg = HybridConfig(n_layer=n or 8)
        self.embed, self.blocks = nn.Embedding(V, D), nn.ModuleList(HybridBlock(cfg, i) for i in range(cfg.n_layer))
        self.norm, self.lm_head = nn.RMSNorm(D, eps=cfg.norm_eps), lin(D, V)

    def forward(self, ids):
        return self.lm_head(self.norm(self.trunk(self.embed(ids))))


class HybridLmRelease(HybridLm):
    """The hidden state can be asked for, normed as probes want it."""

    def forward(self, ids, return_hidden=False):
        hidden = self.trunk(self.embed(ids))
        logits, normed = self.lm_head(hidden), self.norm(hidden)
        return (logits, normed) if return_hidden else logits


# ------------------------------------------------------------------ draws by depth
class DrawnBlock(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Attention(), net()
        for m in (self.attn.out, self.mlp[-1]):
            with torch.no_grad():
                m.weight.mul_((2 * n) ** -0.5)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class DepthDrawnLm(Listed):
    """Last maps of branches are drawn by the root of twice the depth; tied embeddings."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 6
        self.wte, self.wpe, self.blocks, self.ln_f = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.1), nn.ModuleList(DrawnBlock(n) for _ in range(n)), nn.LayerNorm(D)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe[: ids.shape[1]]
        return F.linear(self.ln_f(self.trunk(x)), self.wte.weight)


# ------------------------------------------------------------------ two ahead
class PreBlock(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.attn_norm, self.ffn_norm, self.attn, self.ffn = nn.RMSNorm(D), nn.RMSNorm(D), Attention(causal), net(nn.SiLU)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class TwoAheadLm(Listed):
    """A module for the token after the next one: norms of the state and of the next embedding, a map of both, one more block, the same head."""

    def __init__(self, n=None):
        super().__init__()
        self.embed, self.blocks, self.norm, self.head = nn.Embedding(V, D), nn.ModuleList(PreBlock() for _ in range(n or 4)), nn.RMSNorm(D), lin(D, V)
        self.hnorm, self.enorm, self.eh_proj, self.mtp, self.mtp_norm = nn.RMSNorm(D), nn.RMSNorm(D), lin(2 * D, D), PreBlock(), nn.RMSNorm(D)

    def forward(self, ids):
        x = self.embed(ids)
        h = self.trunk(x)
        y = self.eh_proj(torch.cat((self.hnorm(h[:, :-1]), self.enorm(x[:, 1:])), dim=-1))
        return self.head(self.norm(h)), self.head(self.mtp_norm(self.mtp(y)))


# ------------------------------------------------------------------ pictures
class Wrapped(nn.Module):
    """Norm, function, sum."""

    def __init__(self, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(D), fn

    def forward(self, x):
        return self.fn(self.norm(x)) + x


class WrappedVit(Listed):
    """A class token and registers, pairs of wrapped functions, a norm; the class token is read."""

    def __init__(self, n=None, registers=2):
        super().__init__()
        self.patch, self.cls, self.reg, self.pos = nn.Conv2d(3, D, 4, 4), nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, registers, D)), nn.Parameter(torch.randn(1, 16, D) * 0.1)
        self.blocks = nn.ModuleList(nn.Sequential(Wrapped(Attention(causal=False)), Wrapped(net())) for _ in range(n or 5))
        self.norm, self.head = nn.LayerNorm(D), lin(D, 10, True)

    def forward(self, img):
        x = self.patch(img).flatten(2).mT + self.pos
        b = x.shape[0]
        x = torch.cat((self.cls.expand(b, -1, -1), self.reg.expand(b, -1, -1), x), dim=1)
        return self.head(self.norm(self.trunk(x))[:, 0])


class WrappedVitStages(WrappedVit):
    """States behind each block are kept for dense heads, normed."""

    def trunk(self, x):
        kept = []
        for b in self.blocks:
            x = self.norm(b(x))
            kept.append(x)
        return kept[-1]


# ------------------------------------------------------------------ speech to text
class SpeechToText(nn.Module):
    """The library's encoder and decoder layers with norms in front, and a norm behind each stack."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 4
        kw = dict(dim_feedforward=64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.front = nn.Sequential(nn.Conv1d(20, D, 3, padding=1), nn.GELU(), nn.Conv1d(D, D, 3, stride=2, padding=1), nn.GELU())
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, **kw), n, norm=nn.LayerNorm(D), enable_nested_tensor=False)
        self.blocks, self.ln = nn.ModuleList(nn.TransformerDecoderLayer(D, H, **kw) for _ in range(n)), nn.LayerNorm(D)
        self.tokens, self.places = nn.Embedding(V, D), nn.Parameter(torch.randn(T, D) * 0.1)

    def trunk(self, x, audio):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        for layer in self.blocks:
            x = layer(x, audio, tgt_mask=mask)
        return x

    def forward(self, mel, ids):
        audio = self.encoder(self.front(mel.transpose(1, 2)).transpose(1, 2))
        x = self.tokens(ids) + self.places[: ids.shape[1]]
        return self.ln(self.trunk(x, audio)) @ self.tokens.weight.T


# ------------------------------------------------------------------ flows
def modulate(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class FlowBlock(nn.Module):
    """A condition shifts and scales norms, and gates both halves."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D, elementwise_affine=False), nn.LayerNorm(D, elementwise_affine=False)
        self.attn, self.mlp, self.ada = Attention(causal=False), net(), nn.Sequential(nn.SiLU(), lin(D, 6 * D, True, 0.1))

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(c).chunk(6, dim=1)
        x = x + a1[:, None] * self.attn(modulate(self.norm1(x), s1, g1))
        return x + a2[:, None] * self.mlp(modulate(self.norm2(x), s2, g2))


class FlowBlockLean(FlowBlock):
    """Scales and shifts do what a norm's gain and bias did."""

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(c).tensor_split(6, dim=-1)
        x = x + a1.unsqueeze(1) * self.attn(modulate(x, s1, g1))
        return x + a2.unsqueeze(1) * self.mlp(modulate(x, s2, g2))


class FlowTransformer(nn.Module):
    """Velocities of latents for a time and a class."""

    block = FlowBlock

    def __init__(self, n=None, patch=2):
        super().__init__()
        self.embed, self.label, self.pos = nn.Conv2d(4, D, patch, patch), nn.Embedding(5, D), nn.Parameter(torch.randn(1, 16, D) * 0.1)
        self.time = nn.Sequential(lin(16, D, True), nn.SiLU(), lin(D, D, True))
        self.blocks, self.norm, self.last = nn.ModuleList(self.block() for _ in range(n or 6)), nn.LayerNorm(D, elementwise_affine=False), lin(D, 4 * patch * patch, True)
        self.ada = nn.Sequential(nn.SiLU(), lin(D, 2 * D, True, 0.1))

    def trunk(self, x, c):
        for b in self.blocks:
            x = b(x, c)
        return x

    def forward(self, z, t, y):
        f = t[:, None] * torch.exp(torch.linspace(0, 5, 8, device=t.device, dtype=t.dtype))
        c = self.time(torch.cat((f.cos(), f.sin()), dim=-1)) + self.label(y)
        x = self.trunk(self.embed(z).flatten(2).transpose(1, 2) + self.pos, c)
        x = self.last(modulate(self.norm(x), *self.ada(c).chunk(2, dim=1)))
        return x.view(-1, 4, 4, 2, 2, 4).permute(0, 5, 1, 3, 2, 4).reshape(z.shape)


class FlowTransformerLean(FlowTransformer):
    block = FlowBlockLean


# ------------------------------------------------------------------ molecules
class HubNodeNet(nn.Module):
    """A hub reads the mean of all nodes and gives its state to each of them in front of each layer."""

    def __init__(self, n=None):
        super().__init__()
        n = n or 5
        self.encode, self.last, self.predict = lin(9, D, True), nn.LayerNorm(D), lin(D, 1, True)
        self.blocks, self.norms = nn.ModuleList(net(nn.ReLU) for _ in range(n)), nn.ModuleList(nn.LayerNorm(D) for _ in range(n))
        self.hub_nets, self.hub_norms, self.hub = nn.ModuleList(net(nn.ReLU) for _ in range(n)), nn.ModuleList(nn.LayerNorm(D) for _ in range(n)), nn.Parameter(torch.zeros(D))

    def trunk(self, x, a):
        hub = self.hub
        for node, norm, hub_net, hub_norm in zip(self.blocks, self.norms, self.hub_nets, self.hub_norms):
            x = x + hub
            h = norm(x)
            x = x + node(h + a @ h)
            hub = hub + hub_net(hub_norm(x.mean(dim=0)))
        return x

    def forward(self, atoms, bonds):
        a = bonds / bonds.sum(-1, keepdim=True).clamp(min=1)
        return self.predict(self.last(self.trunk(self.encode(atoms), a)).mean(dim=0))


# ------------------------------------------------------------------ sessions
class PointWise(nn.Module):
    """Two filters of length one and a skip."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(D, D, 1), nn.Conv1d(D, D, 1)

    def forward(self, x):
        y = self.conv2(F.relu(self.conv1(x.transpose(-1, -2)))).transpose(-1, -2)
        return y + x


class SessionBlock(nn.Module):
    """As in the well-known port: the query is normed, attends to the sequence, and is added to what it gets."""

    def __init__(self):
        super().__init__()
        self.attention_layernorm, self.forward_layernorm, self.attention, self.forward_layer = nn.LayerNorm(D, eps=1e-8), nn.LayerNorm(D, eps=1e-8), nn.MultiheadAttention(D, 2), PointWise()

    def forward(self, seqs):
        n = seqs.shape[1]
        mask = ~torch.tril(torch.ones((n, n), dtype=torch.bool, device=seqs.device))
        seqs = seqs.transpose(0, 1)
        q = self.attention_layernorm(seqs)
        y, _ = self.attention(q, seqs, seqs, attn_mask=mask)
        seqs = (q + y).transpose(0, 1)
        return self.forward_layer(self.forward_layernorm(seqs))


class SessionModel(Listed):
    """Next items by products with their embeddings."""

    def __init__(self, n=None):
        super().__init__()
        self.item_emb, self.pos_emb = nn.Embedding(V, D, padding_idx=0), nn.Embedding(T, D)
        self.blocks, self.last_layernorm = nn.ModuleList(SessionBlock() for _ in range(n or 4)), nn.LayerNorm(D, eps=1e-8)

    def forward(self, log_seqs):
        x = self.item_emb(log_seqs) * D ** 0.5
        x = x + self.pos_emb(torch.arange(log_seqs.shape[1], device=log_seqs.device))
        x = x * (log_seqs != 0).unsqueeze(-1)
        return self.last_layernorm(self.trunk(x)) @ self.item_emb.weight.t()


# ------------------------------------------------------------------ deep post-norm
class DeepPostBlock(nn.Module):
    """A factor on the stream and small draws keep a deep post-norm stack level."""

    def __init__(self, n):
        super().__init__()
        self.alpha, beta = (2 * n) ** 0.25, (8 * n) ** -0.25
        self.ln1, self.ln2, self.attn, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), Attention(), net()
        with torch.no_grad():
            self.attn.qkv.weight[2 * D:].mul_(beta)
            for m in (self.attn.out, self.mlp[0], self.mlp[-1]):
                m.weight.mul_(beta)

    def add(self, x, y):
        return x * self.alpha + y

    def forward(self, x):
        x = self.ln1(self.add(x, self.attn(x)))
        return self.ln2(self.add(x, self.mlp(x)))


class DeepPostBlockConfig(DeepPostBlock):
    """The sum is `torch.add`, with its factor."""

    def add(self, x, y):
        return torch.add(x, y, alpha=self.alpha)


class DeepPostLm(Listed):
    block = DeepPostBlock

    def __init__(self, n=None):
        super().__init__()
        n = n or 12
        self.embed, self.blocks, self.head = nn.Embedding(V, D), nn.ModuleList(self.block(n) for _ in range(n)), lin(D, V)

    def forward(self, ids):
        return self.head(self.trunk(self.embed(ids)))


class DeepPostLmConfig(DeepPostLm):
    block = DeepPostBlockConfig


_M = dict(kind="model", identity_gain=1.0, growth_fixed="linear")
_TWO, _OPEN = dict(output_bounded={0: False, 1: False}), dict(logits_bounded={0: False})
TRUTH = {
    "HybridLm": dict(_M, depth=8, softmax=True, **_TWO, sound=True, why="pre-norm, a norm in front of the head."),
    "HybridLmRelease": dict(_M, depth=8, softmax=True, **_TWO, sound=False, why="the same stream; the head reads it without a norm: what the norm gives is handed out beside it, or thrown away."),
    "DepthDrawnLm": dict(kind="model", depth=6, identity_gain=1.0, gradient_law="flat", softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm; last maps of branches are drawn by (2n)^(-1/2)."),
    "TwoAheadLm": dict(_M, softmax=True, sound=True, why="pre-norm, and a norm in front of each map."),
    "WrappedVit": dict(_M, depth=5, softmax=True, **_TWO, **_OPEN, gradient_law="power", sound=True, why="pre-norm, a norm in front of the head."),
    "WrappedVitStages": dict(kind="model", depth=5, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=False, why="the norm for heads is on the stream itself, once a block."),
    "SpeechToText": dict(_M, softmax=True, sound=True, why="pre-norm in both halves, a norm behind each."),
    "FlowTransformer": dict(_M, depth=6, softmax=True, **_TWO, **_OPEN, sound=True, why="pre-norm; gates and scales are functions of the condition."),
    "FlowTransformerLean": dict(kind="model", depth=6, growth_fixed="exponential", softmax=True, **_TWO, **_OPEN, sound=False, why="scales and shifts are of the condition, and nothing is divided by the stream's size: of degree one."),
    "HubNodeNet": dict(kind="model", growth_fixed="polynomial", softmax=False, why="the hub grows by a function of a norm a layer, and is added to all nodes in each: sums of sums."),
    "SessionModel": dict(kind="model", depth=4, growth_fixed="bounded", softmax=True, sound=False, why="the skip is of the normed query, and the net's skip of a norm: no token is carried."),
    "DeepPostLm": dict(kind="model", depth=12, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=True, why="norms behind sums, (2n)^(1/4) on the stream, (8n)^(-1/4) in the draws."),
    "DeepPostLmConfig": dict(kind="model", depth=12, growth_fixed="bounded", growth_all="bounded", softmax=True, sound=False, why="the factor is on the branch."),
}
