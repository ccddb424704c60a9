"""Mix-LN: the first quarter of the layers is post-LN, the others are pre-LN. One class, one number that decides."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, layer_id, post_layers, dim, heads):
        super().__init__()
        self.layer_id = layer_id
        self.post_layers = post_layers
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True, bias=False)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.attn_norm = nn.LayerNorm(dim)
        self.ffn_norm = nn.LayerNorm(dim)

    def attend(self, x):
        causal = torch.triu(torch.ones(x.size(1), x.size(1), device=x.device, dtype=torch.bool), diagonal=1)
        return self.attn(x, x, x, attn_mask=causal, need_weights=False)[0]

    def forward(self, x):
        if self.layer_id < self.post_layers:
            x = self.attn_norm(x + self.attend(x))
            x = self.ffn_norm(x + self.ffn(x))
        else:
            x = x + self.attend(self.attn_norm(x))
            x = x + self.ffn(self.ffn_norm(x))
        return x


class MixLN(nn.Module):
    def __init__(self, vocab=512, dim=96, heads=4, depth=12, post_fraction=0.25):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(i, int(post_fraction * depth), dim, heads) for i in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.output = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))
