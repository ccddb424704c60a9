"""PyTorch's `nn.TransformerEncoder` with its defaults: post-LN, as most tutorials leave it."""

import math

import torch
from torch import nn


class TextClassifier(nn.Module):
    def __init__(self, vocab_size=512, d_model=96, nhead=4, num_layers=6, num_classes=5, max_len=128):
        super().__init__()
        self.token = nn.Embedding(vocab_size, d_model)
        self.position = nn.Embedding(max_len, d_model)
        for table in (self.token, self.position):  # times √d below: tokens of size one
            nn.init.normal_(table.weight, std=d_model**-0.5)
        layer = nn.TransformerEncoderLayer(d_model=d_model, nhead=nhead, dim_feedforward=4 * d_model, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=num_layers)
        self.classifier = nn.Linear(d_model, num_classes)
        self.scale = math.sqrt(d_model)

    def forward(self, input_ids):
        x = self.token(input_ids) * self.scale
        x = x + self.position(torch.arange(input_ids.shape[1], device=input_ids.device))
        return self.classifier(self.encoder(x).mean(dim=1))
