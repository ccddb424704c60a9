"""Linear attention with the feature map elu + 1, causal by cumulative sums, in a pre-LN transformer."""

import torch
from torch import nn
from torch.nn.functional import elu


class LinearAttention(nn.Module):
    def __init__(self, d_model: int, heads: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.heads, self.eps = heads, eps
        self.query = nn.Linear(d_model, d_model, bias=False)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, _ = x.shape
        q = elu(self.query(x).view(n, length, self.heads, -1)) + 1
        k = elu(self.key(x).view(n, length, self.heads, -1)) + 1
        v = self.value(x).view(n, length, self.heads, -1)
        kv = torch.einsum("nlhd,nlhm->nlhdm", k, v).cumsum(dim=1)  # running sum of outer products
        z = 1 / (torch.einsum("nlhd,nlhd->nlh", q, k.cumsum(dim=1)) + self.eps)
        y = torch.einsum("nlhd,nlhdm,nlh->nlhm", q, kv, z)
        return self.out(y.reshape(n, length, -1))


class Layer(nn.Module):
    def __init__(self, d_model: int, heads: int, d_ff: int) -> None:
        super().__init__()
        self.attention = LinearAttention(d_model, heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.linear2(torch.relu(self.linear1(y)))


class LinearTransformer(nn.Module):
    def __init__(self, vocab: int = 512, d_model: int = 96, heads: int = 4, depth: int = 6) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        self.layers = nn.ModuleList(Layer(d_model, heads, 4 * d_model) for _ in range(depth))
        self.norm = nn.LayerNorm(d_model)
        self.predictor = nn.Linear(d_model, vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.predictor(self.norm(x))
