"""Small whole models on token ids, as in repositories: configurations, own initialisers, tied heads, caches; and slips in them.

`trunk` maps the first state of the stream to its last; truths about gain and growth are its own."""

import math
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

D, T, H, E, VOCAB = 32, 16, 4, 8, 64


def example_inputs():
    return (torch.randint(0, VOCAB, (2, T)),)


class RMSNorm(nn.Module):
    def __init__(self, dim=D, eps=1e-6):
        super().__init__()
        self.gain, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.gain


class SelfAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.qk_norm = nn.ModuleList([RMSNorm(E), RMSNorm(E)]) if cfg.qk_norm else None
        self.causal = cfg.causal

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, H, E).permute(2, 0, 3, 1, 4).unbind(0)
        if self.qk_norm is not None:
            q, k = self.qk_norm[0](q), self.qk_norm[1](k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).contiguous().view(b, t, D))


class FeedForward(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.up, self.proj = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        return self.proj(F.gelu(self.up(x), approximate="tanh"))


class SwiGlu(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.up, self.gate, self.proj = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, 2 * D, bias=False), nn.Linear(2 * D, D, bias=False)

    def forward(self, x):
        return self.proj(F.silu(self.gate(x)) * self.up(x))


def config(**more):
    return SimpleNamespace(**(dict(qk_norm=False, causal=True, ffn=FeedForward, norm=nn.LayerNorm, std=0.1) | more))


class PreBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln_1, self.ln_2 = cfg.norm(D), cfg.norm(D)
        self.attn, self.ffn = SelfAttention(cfg), cfg.ffn(cfg)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.ffn(self.ln_2(x))


class Lm(nn.Module):
    """Tables of tokens and of positions, blocks, a norm, a tied head; all matrices N(0, std)."""

    block, cfg = PreBlock, config()

    def __init__(self, n=24):
        super().__init__()
        self.n = n
        self.tok, self.pos = nn.Embedding(VOCAB, D), nn.Embedding(T, D)
        self.blocks = nn.ModuleList(self.block(self.cfg) for _ in range(n))
        self.norm = self.cfg.norm(D)
        self.head = nn.Linear(D, VOCAB, bias=False)
        self.apply(self.reset)
        self.finish()
        self.head.weight = self.tok.weight

    def reset(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=self.cfg.std)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def finish(self):
        pass

    def trunk(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def embed(self, ids):
        return self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))

    def forward(self, ids):
        return self.head(self.norm(self.trunk(self.embed(ids))))


class GptScaled(Lm):
    """Maps back to the stream start at std / sqrt(2 n)."""

    def finish(self):
        for name, p in self.named_parameters():
            if name.endswith("proj.weight"):
                nn.init.normal_(p, std=self.cfg.std / math.sqrt(2 * self.n))


class LlamaTiny(Lm):
    """RMSNorm, SwiGLU, positions by turning the embedding."""

    cfg = config(norm=RMSNorm, ffn=SwiGlu)

    def embed(self, ids):
        return self.tok(ids) * math.sqrt(D)


class PeriBlock(PreBlock):
    """Norms on both ends of each branch."""

    def __init__(self, cfg):
        super().__init__(cfg)
        self.post_1, self.post_2 = cfg.norm(D), cfg.norm(D)

    def forward(self, x):
        x = x + self.post_1(self.attn(self.ln_1(x)))
        return x + self.post_2(self.ffn(self.ln_2(x)))


class GemmaTiny(Lm):
    """Peri, QK-norm, capped output."""

    block, cfg = PeriBlock, config(norm=RMSNorm, ffn=SwiGlu, qk_norm=True)

    def forward(self, ids):
        return 30.0 * torch.tanh(super().forward(ids) / 30.0)


class PeriSlipBlock(PeriBlock):
    """The second norm behind is called on the stream's sum, in the skip's place."""

    def forward(self, x):
        x = x + self.post_1(self.attn(self.ln_1(x)))
        return self.post_2(x) + self.ffn(self.ln_2(x))


class GemmaSlip(GemmaTiny):
    """The stream is normed once a block."""

    block = PeriSlipBlock


class StreamGainBlock(PreBlock):
    """The first add takes the skip before attention, the second one takes both states."""

    def forward(self, x):
        y = x + self.attn(self.ln_1(x))
        return (x + y) / 2 + self.ffn(self.ln_2(y))


class HalfOfAttention(Lm):
    """(x + y) / 2: half of the attention is lost, the stream is not."""

    block = StreamGainBlock


class BothStatesBlock(PreBlock):
    """x + y + ffn."""

    def forward(self, x):
        y = x + self.attn(self.ln_1(x))
        return x + y + self.ffn(self.ln_2(y))


class BothStates(Lm):
    """The stream doubles each block."""

    block = BothStatesBlock


class NoSkipBlock(PreBlock):
    """The second add is forgotten."""

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return self.ffn(self.ln_2(x))


class ForgottenAdd(Lm):
    """No path without weights."""

    block = NoSkipBlock


class PostBlock(PreBlock):
    """Norms behind the adds."""

    def forward(self, x):
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.ffn(x))


class BertTiny(Lm):
    """Post-norm, no mask, a norm on the embedding."""

    block, cfg = PostBlock, config(causal=False)

    def embed(self, ids):
        return F.layer_norm(super().embed(ids), (D,))


class MixedLm(Lm):
    """Every fourth block attends; the others are gated short convolutions."""

    class Conv(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.ln_1, self.inp, self.proj = cfg.norm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
            self.conv = nn.Conv1d(D, D, 3, groups=D, padding=2)

        def forward(self, x):
            a, b, c = self.inp(self.ln_1(x)).chunk(3, -1)
            y = self.conv((a * b).mT)[..., :x.shape[1]].mT
            return x + self.proj(c * y)

    def __init__(self, n=24):
        super().__init__(0)
        self.blocks = nn.ModuleList((PreBlock if i % 4 == 1 else self.Conv)(self.cfg) for i in range(n))
        self.blocks.apply(self.reset)


class SsmLm(Lm):
    """A real diagonal recurrence run by a loop over tokens; no attention."""

    class Layer(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.ln, self.inp, self.proj = cfg.norm(D), nn.Linear(D, 2 * D), nn.Linear(D, D)
            self.decay = nn.Parameter(torch.linspace(0.0, 4.0, D))

        def forward(self, x):
            u, gate = self.inp(self.ln(x)).chunk(2, -1)
            a, state, out = torch.sigmoid(self.decay), torch.zeros_like(u[:, 0]), []
            for t in range(x.shape[1]):
                state = a * state + (1 - a) * u[:, t]
                out.append(state)
            return x + self.proj(torch.stack(out, 1) * F.silu(gate))

    block = Layer


class MoeLm(Lm):
    """Odd blocks have four experts; the router's weights are kept as they are."""

    class Experts(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.router = nn.Linear(D, 4, bias=False)
            self.experts = nn.ModuleList(FeedForward(cfg) for _ in range(4))

        def forward(self, x):
            weights, index = torch.topk(F.softmax(self.router(x), -1), 2)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                share = (weights * (index == i)).sum(-1, keepdim=True)
                out += share * expert(x)
            return out

    def __init__(self, n=24):
        super().__init__(0)
        self.blocks = nn.ModuleList(PreBlock(config(ffn=self.Experts) if i % 2 else config()) for i in range(n))
        self.blocks.apply(self.reset)


class SharedInPairs(Lm):
    """Every second block has the weights of the one before it (MobileLLM)."""

    def trunk(self, x):
        for block in self.blocks:
            for _ in range(2):
                x = block(x)
        return x


class SkipTheMiddle(Lm):
    """The input of the first half is added behind the second."""

    def trunk(self, x):
        start = x
        half = len(self.blocks) // 2
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i + 1 == half:
                x, start = x + start, x
        return x + start


class EmbeddingEachBlock(Lm):
    """Blocks read the stream plus the embedding; the skip has the stream alone."""

    class Layer(PreBlock):
        def forward(self, x, e):
            x = x + self.attn(self.ln_1(x + e))
            return x + self.ffn(self.ln_2(x + e))

    block = Layer

    def trunk(self, x):
        e = x
        for block in self.blocks:
            x = block(x, e)
        return x


class EmbeddingOnSkip(EmbeddingEachBlock):
    """x = x + e stands on the stream."""

    class Layer(PreBlock):
        def forward(self, x, e):
            x = x + e
            x = x + self.attn(self.ln_1(x))
            return x + self.ffn(self.ln_2(x))

    block = Layer


class ConditionedLm(Lm):
    """Shift, scale and gate from a pooled condition, all from zero (DiT)."""

    class Layer(PreBlock):
        def __init__(self, cfg):
            super().__init__(config(norm=lambda d: nn.LayerNorm(d, elementwise_affine=False)))
            self.ada = nn.Linear(D, 6 * D)

        def forward(self, x, c):
            s1, b1, g1, s2, b2, g2 = self.ada(F.silu(c)).unsqueeze(1).chunk(6, -1)
            x = x + g1 * self.attn(self.ln_1(x) * (1 + s1) + b1)
            return x + g2 * self.ffn(self.ln_2(x) * (1 + s2) + b2)

    block = Layer

    def finish(self):
        for block in self.blocks:
            nn.init.zeros_(block.ada.weight)

    def trunk(self, x):
        c = F.layer_norm(x, (D,)).mean(1)
        for block in self.blocks:
            x = block(x, c)
        return x


class SimBa(Lm):
    """Normed MLPs, no attention: as reinforcement learning has them."""

    class Layer(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.ln, self.ffn = cfg.norm(D), FeedForward(cfg)

        def forward(self, x):
            residual = x
            x = self.ln(x)
            x = self.ffn(x)
            return residual + x

    block = Layer


class SimBaSlip(SimBa):
    """`residual` is taken behind the norm."""

    class Layer(SimBa.Layer):
        def forward(self, x):
            x = self.ln(x)
            residual = x
            x = self.ffn(x)
            return residual + x

    block = Layer


class Classifier(Lm):
    """The mean over tokens, then a head; the output is a dictionary."""

    cfg = config(causal=False, ffn=SwiGlu)

    def forward(self, ids):
        hidden = self.trunk(self.embed(ids))
        pooled = self.norm(hidden).mean(1)
        return {"logits": self.head(pooled), "hidden": hidden, "probabilities": None}


class CacheLm(Lm):
    """Keys and values of the normed embedding are made once, and all layers read them (YOCO)."""

    class Layer(nn.Module):
        def __init__(self, cfg):
            super().__init__()
            self.ln_1, self.ln_2, self.q, self.proj, self.ffn = cfg.norm(D), cfg.norm(D), nn.Linear(D, D), nn.Linear(D, D), FeedForward(cfg)

        def forward(self, x, k, v):
            q = self.q(self.ln_1(x)).unflatten(-1, (H, E)).transpose(1, 2)
            a = (q @ k.transpose(2, 3) / E ** 0.5).softmax(-1)
            x = x + self.proj((a @ v).transpose(1, 2).flatten(2))
            return x + self.ffn(self.ln_2(x))

    block = Layer

    def __init__(self, n=24):
        super().__init__(n)
        self.kv, self.kv_norm = nn.Linear(D, 2 * D), nn.LayerNorm(D)

    def trunk(self, x):
        k, v = self.kv(self.kv_norm(x)).unflatten(-1, (2, H, E)).permute(2, 0, 3, 1, 4)
        for block in self.blocks:
            x = block(x, k, v)
        return x


_LM = dict(kind="model", identity_gain=1.0, growth_fixed="linear", softmax=True)
_NO = dict(_LM, logits_bounded={0: False})
TRUTH = {
    "Lm": dict(_NO, output_bounded={0: False, 1: False}, why="pre-norm.", tempts="-"),
    "GptScaled": dict(_NO, output_bounded={0: False, 1: False}, gradient_law="flat", why="pre-norm.", tempts="-"),
    "LlamaTiny": dict(_NO, output_bounded={0: False, 1: False}, why="pre-norm.", tempts="-"),
    "GemmaTiny": dict(_LM, growth_all="linear", output_bounded={0: True, 1: True}, logits_bounded={0: True}, why="peri.", tempts="-"),
    "GemmaSlip": dict(_LM, identity_gain=None, growth_fixed="bounded", output_bounded={0: True, 1: False}, logits_bounded={0: True},
        why="a norm on the stream.", tempts="peri"),
    "HalfOfAttention": dict(_NO, why="half of x and of y.", tempts="2^-24"),
    "BothStates": dict(_NO, identity_gain=2.0 ** 24, growth_fixed="exponential", gradient_law="exponential", why="2 x.", tempts="gain 1"),
    "ForgottenAdd": dict(_NO, identity_gain=0.0, growth_fixed="bounded", why="each block ends in a branch.", tempts="gain 1"),
    "BertTiny": dict(_NO, identity_gain=None, growth_fixed="bounded", why="post-norm.", tempts="-"),
    "MixedLm": dict(_LM, why="pre-norm.", tempts="-"),
    "SsmLm": dict(_LM, output_bounded={0: False}, softmax=False, why="pre-norm.", tempts="a loop of 16 steps"),
    "MoeLm": dict(_LM, why="pre-norm.", tempts="-"),
    "SharedInPairs": dict(_LM, why="each block twice.", tempts="-"),
    "SkipTheMiddle": dict(_LM, identity_gain=3.0, why="1 + 1, + 1.", tempts="gain 1"),
    "EmbeddingEachBlock": dict(_LM, why="branches read it only.", tempts="a long skip per block"),
    "EmbeddingOnSkip": dict(_LM, identity_gain=25.0, why="1 + 24.", tempts="gain 1; exponential"),
    "ConditionedLm": dict(_LM, growth_fixed="bounded", gradient_law=None, why="closed gates.", tempts="-"),
    "SimBa": dict(_LM, output_bounded={0: False}, softmax=False, why="pre-norm.", tempts="-"),
    "SimBaSlip": dict(_LM, identity_gain=None, growth_fixed="bounded", softmax=False, why="the skip is normed.", tempts="gain 1"),
    "Classifier": dict(_LM, why="pre-norm.", tempts="a mean at the end"),
    "CacheLm": dict(_NO, why="pre-norm.", tempts="another source of keys"),
}
