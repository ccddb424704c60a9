from torch import nn
from torch.nn.functional import gelu


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm_2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm_1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(gelu(self.up(self.norm_2(x))))


class Model(nn.Module):
    def __init__(self, vocabulary=256, width=64, depth=4):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.blocks(self.embedding(ids)))
