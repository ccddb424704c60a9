"""ReZero: no norm anywhere; every branch is multiplied by one learned number that starts at zero."""

import torch
from torch import nn


class RZTXEncoderLayer(nn.Module):
    def __init__(self, d_model, nhead, dim_feedforward, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)
        self.resweight = nn.Parameter(torch.Tensor([0]))

    def forward(self, src, src_mask=None):
        src2 = src
        src2 = self.self_attn(src2, src2, src2, attn_mask=src_mask)[0]
        src2 = src2 * self.resweight
        src = src + self.dropout1(src2)
        src2 = src
        src2 = self.linear2(self.dropout(torch.relu(self.linear1(src2))))
        src2 = src2 * self.resweight
        src = src + self.dropout2(src2)
        return src


class ReZeroEncoder(nn.Module):
    def __init__(self, ntoken=512, ninp=96, nhead=4, nhid=384, nlayers=12):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.layers = nn.ModuleList([RZTXEncoderLayer(ninp, nhead, nhid) for _ in range(nlayers)])
        self.decoder = nn.Linear(ninp, ntoken)

    def forward(self, src):
        output = self.encoder(src)
        for mod in self.layers:
            output = mod(output)
        return self.decoder(output)
