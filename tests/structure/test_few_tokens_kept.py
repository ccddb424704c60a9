"""A first token that is kept beside strided maps of the others begins another state; beside the others with a branch added it does not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import screen
from tests.awkward.parts import FFN, TOKENS, D, Pre


class Shortened(nn.Module):
    """Blocks of all tokens; then the first one, and a map of each four of the others, in blocks again."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.map, self.norms = nn.Embedding(9, D), nn.Conv1d(D, D, 4, stride=4), nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.long, self.short = (nn.ModuleList(Pre() for _ in range(n)) for n in (2, 4))

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        for block in self.long:
            x = block(x)
        few = torch.relu(self.map(x.mT)).mT
        x = self.norms[0](torch.cat((x[:, :1], few), 1))
        for block in self.short:
            x = block(x)
        out: Tensor = self.norms[1](x)
        return out


class Apart(nn.Module):
    """The first token passes, the others have a net of their own with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.pre, self.norm, self.ffn = Pre(), nn.LayerNorm(D), FFN()

    def forward(self, x: Tensor) -> Tensor:
        first, rest = self.pre(x).split((1, x.shape[1] - 1), 1)
        return torch.cat((first, rest + self.ffn(self.norm(rest))), 1)


def test_a_state_of_maps_with_one_token_kept_is_another_stream() -> None:
    report = screen.check(Shortened(), example_inputs=torch.zeros(2, TOKENS, dtype=torch.long), spot_check=False)
    assert [s.depth for s in report.streams] == [2, 4]


def test_a_token_kept_beside_others_with_a_skip_stays_on_their_stream() -> None:
    model = nn.Sequential(*(Apart() for _ in range(4)), nn.LayerNorm(D))
    (stream,) = screen.check(model, example_inputs=torch.randn(2, TOKENS, D), spot_check=False).streams
    assert stream.depth == 4 and [b.placement for b in stream.kinds[0].sublayers] == ["pre"] * 3
