"""Parallel pre-LN: attention and FFN read one norm and are added at once (GPT-J, PaLM). Tensor code without submodules for the maps."""

import torch
from torch import nn
from torch.nn import Parameter


class ParallelBlock(nn.Module):
    def __init__(self, d, heads, mult=4):
        super().__init__()
        h = d // heads
        self.scale = h**-0.5
        self.ln = nn.LayerNorm(d, bias=False)
        self.wq = Parameter(torch.randn(d, heads, h) * d**-0.5)
        self.wk = Parameter(torch.randn(d, heads, h) * d**-0.5)
        self.wv = Parameter(torch.randn(d, heads, h) * d**-0.5)
        self.wo = Parameter(torch.randn(heads, h, d) * d**-0.5)
        self.wi = Parameter(torch.randn(d, mult * d) * d**-0.5)
        self.wf = Parameter(torch.randn(mult * d, d) * (mult * d) ** -0.5)

    def forward(self, x):
        y = self.ln(x)
        q = torch.einsum("btd,dhk->bhtk", y, self.wq)
        k = torch.einsum("btd,dhk->bhtk", y, self.wk)
        v = torch.einsum("btd,dhk->bhtk", y, self.wv)
        logits = torch.einsum("bhik,bhjk->bhij", q, k) * self.scale
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        weights = logits.where(mask, torch.finfo(logits.dtype).min).softmax(-1)
        attn = torch.einsum("bhij,bhjk,hkd->bid", weights, v, self.wo)
        ffn = torch.einsum("btf,fd->btd", nn.functional.gelu(y @ self.wi), self.wf)
        return x + attn + ffn


class ParallelLM(nn.Module):
    def __init__(self, vocab=512, d=96, heads=4, depth=6):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        nn.init.normal_(self.embed.weight, std=0.02)  # it is the head too
        self.blocks = nn.Sequential(*[ParallelBlock(d, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(d, bias=False)

    def forward(self, tokens):
        return self.ln_f(self.blocks(self.embed(tokens))) @ self.embed.weight.t()
