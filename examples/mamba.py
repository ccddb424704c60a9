"""A selective state-space model in the manner of Mamba: one pre-norm branch per block, no attention and no FFN. The scan is a plain loop."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class SelectiveSSM(nn.Module):
    def __init__(self, d_model, d_state=8, d_conv=4, expand=2):
        super().__init__()
        self.d_inner = expand * d_model
        self.dt_rank = math.ceil(d_model / 16)
        self.d_state = d_state
        self.in_proj = nn.Linear(d_model, self.d_inner * 2, bias=False)
        self.conv1d = nn.Conv1d(self.d_inner, self.d_inner, d_conv, groups=self.d_inner, padding=d_conv - 1)
        self.x_proj = nn.Linear(self.d_inner, self.dt_rank + d_state * 2, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner)
        A = torch.arange(1, d_state + 1, dtype=torch.float32).repeat(self.d_inner, 1)
        self.A_log = nn.Parameter(torch.log(A))
        self.D = nn.Parameter(torch.ones(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def forward(self, x):  # [batch, tokens, d_model]
        n = x.shape[1]
        x, z = self.in_proj(x).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[..., :n].transpose(1, 2))
        dt, B, C = self.x_proj(x).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        y = self.selective_scan(x, F.softplus(self.dt_proj(dt)), -torch.exp(self.A_log), B, C)
        return self.out_proj((y + x * self.D) * F.silu(z))

    def selective_scan(self, u, delta, A, B, C):
        dA = torch.exp(torch.einsum("bnd,ds->bnds", delta, A))
        dBu = torch.einsum("bnd,bns,bnd->bnds", delta, B, u)
        state = torch.zeros_like(dA[:, 0])
        ys = []
        for t in range(u.shape[1]):
            state = dA[:, t] * state + dBu[:, t]
            ys.append(torch.einsum("bds,bs->bd", state, C[:, t]))
        return torch.stack(ys, dim=1)


class ResidualBlock(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.mixer = SelectiveSSM(d_model)
        self.norm = nn.RMSNorm(d_model)

    def forward(self, x):
        return self.mixer(self.norm(x)) + x


class Mamba(nn.Module):
    def __init__(self, vocab_size=512, d_model=96, n_layer=6):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.layers = nn.ModuleList([ResidualBlock(d_model) for _ in range(n_layer)])
        self.norm_f = nn.RMSNorm(d_model)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm_f(x))
