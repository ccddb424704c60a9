"""Forwards that read the values of their tensors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.awkward.parts import FFN, HEADS, Attention, D, Pre


class SumDecides(nn.Module):
    """Which of two FFNs runs depends on the sum of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.warm, self.cold = nn.LayerNorm(D), FFN(), FFN()

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        if h.sum() > 0:
            return x + self.warm(h)
        return x + self.cold(h)


class ItemTemperature(nn.Module):
    """The temperature leaves torch by `.item()` and comes back as a number, between norm and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(D), Attention()
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attn(self.norm(x) * (1.0 / self.log_temperature.exp().item()))


class ExpertLoop(nn.Module):
    """Every expert picks its tokens with `where` and writes back with `index_add_`."""

    def __init__(self, experts: int = 4, top: int = 2) -> None:
        super().__init__()
        self.norm, self.router = nn.LayerNorm(D), nn.Linear(D, experts, bias=False)
        self.experts = nn.ModuleList(FFN() for _ in range(experts))
        self.top = top

    def forward(self, x: Tensor) -> Tensor:
        flat = self.norm(x).view(-1, D)
        weights, chosen = self.router(flat).softmax(-1).topk(self.top, -1)
        mask = nn.functional.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            slot, token = torch.where(mask[index] > 0)
            out.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
        return x + out.view_as(x)


class UniqueExperts(nn.Module):
    """Only the experts that were chosen run: the loop is over values."""

    def __init__(self, experts: int = 4) -> None:
        super().__init__()
        self.norm, self.router = nn.LayerNorm(D), nn.Linear(D, experts, bias=False)
        self.experts = nn.ModuleList(FFN() for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        weight, chosen = self.router(h).sigmoid().max(-1)
        out = torch.zeros_like(x)
        for index in chosen.unique().tolist():
            rows = chosen == index
            out[rows] = self.experts[index](h[rows]) * weight[rows].unsqueeze(-1)
        return x + out


class EarlyExit(Pre):
    """A block that returns its input when that is all zero."""

    def forward(self, x: Tensor) -> Tensor:
        if not x.any():
            return x
        return super().forward(x)


class FiniteGuard(Pre):
    """Clamps only when something overflowed, as half-precision code does."""

    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(x)
        if torch.isinf(x).any() or torch.isnan(x).any():
            x = x.clamp(-6e4, 6e4)
        return x


class LengthFromMask(nn.Module):
    """Cuts the attention's keys to the longest sequence, whose length is read off the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(D), nn.MultiheadAttention(D, HEADS, batch_first=True, bias=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # mask: [batch, tokens], True where there is a token
        longest = int(mask.sum(-1).max())
        keys = self.norm(x)[:, :longest]
        return x + self.attn(self.norm(x), keys, keys, need_weights=False)[0]


class Depths(nn.Module):
    """Mixture of depths: only the best-scored tokens go through the branch, and are scattered back onto the stream."""

    def __init__(self, keep: int = 5) -> None:
        super().__init__()
        self.norm, self.score, self.ffn = nn.LayerNorm(D), nn.Linear(D, 1), FFN()
        self.keep = keep

    def forward(self, x: Tensor) -> Tensor:
        index = self.score(x).squeeze(-1).topk(self.keep, dim=1).indices.unsqueeze(-1).expand(-1, -1, D)
        return x.scatter_add(1, index, self.ffn(self.norm(x.gather(1, index))))
