"""A module that is given alone, and taken for a block: what is summed in it is a stream only where the next block can go on with it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen


class Experts(nn.Module):
    """Two experts for each token, by a sum of gates times places, [batch, tokens, experts, room], that dispatches and combines; no skip."""

    def __init__(self, skip: bool = False) -> None:
        super().__init__()
        self.gates = nn.Parameter(torch.randn(32, 4))
        self.up, self.down, self.skip = nn.Parameter(torch.randn(4, 32, 64)), nn.Parameter(torch.randn(4, 64, 32)), skip

    def forward(self, x: Tensor) -> Tensor:
        gates = torch.einsum("bnd,de->bne", x, self.gates).softmax(-1)
        first, one = (t.squeeze(-1) for t in gates.topk(1, dim=-1))
        chosen = F.one_hot(one, 4).float()
        second, two = (t.squeeze(-1) for t in (gates * (1 - chosen)).topk(1, dim=-1))
        also = F.one_hot(two, 4).float()
        total = first + second + 1e-9
        first, second = first / total, second / total
        place = (chosen.cumsum(1) - chosen) * chosen
        chosen = chosen * (place < 3)
        behind = (also.cumsum(1) - also + chosen.sum(1, keepdim=True)) * also
        also = also * (behind < 3)
        parts = []
        for weight, index, mask, where in ((first, one, chosen, place), (second, two, also, behind)):
            fits = mask.sum(-1)
            room = F.one_hot(where.sum(-1).long().clamp(0, 5), 6)[..., :3]
            parts.append((weight * fits)[..., None, None] * fits[..., None, None] * F.one_hot(index, 4)[..., None] * room[..., None, :])
        combine = parts[0] + parts[1]
        packed = torch.einsum("bnd,bnec->ebcd", x, combine.bool().to(combine))
        hidden = torch.einsum("ebcd,edf->ebcf", packed, self.up).relu()
        mixed = torch.einsum("ebcd,bnec->bnd", torch.einsum("ebcf,efd->ebcd", hidden, self.down), combine)
        return x + mixed if self.skip else mixed


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A file of this class alone."""
    file = tmp_path / "experts.py"
    head = "import torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\n\n\n"
    tail = "\n\nclass Skipping(Experts):\n    def __init__(self):\n        super().__init__(skip=True)\n"
    tail += "\n\nexample_inputs = torch.randn(2, 12, 32)\n"
    file.write_text(f"{head}{inspect.getsource(Experts)}{tail}")
    return str(file)


def test_a_sum_of_gates_is_no_stream_of_a_layer_of_experts(path: str) -> None:
    report = screen.check(f"{path}::Experts")
    assert not report.streams and "G110" not in {f.code for f in report.findings if f.outcome == "violated"}


def test_a_layer_of_experts_with_a_skip_is_a_block(path: str) -> None:
    (stream,) = screen.check(f"{path}::Skipping").streams
    assert stream.width == 32 and [s.role for k in stream.kinds for s in k.sublayers] == ["moe"]


class Layer(nn.Module):
    """x ← N(2x + F(x)), twice."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.one, self.two = nn.MultiheadAttention(32, 4), nn.LayerNorm(32), nn.LayerNorm(32)
        self.ffn = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(2 * x + self.attention(x, x, x, need_weights=False)[0])
        return self.two(2 * x + self.ffn(x))


class Led(nn.Module):
    """Layers behind a filter for positions that is added and normed, with tokens first between them; all states come out as well."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.filter, self.norm = nn.Conv1d(32, 32, 5, padding=2, groups=4), nn.LayerNorm(32)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        x = self.norm(x + F.gelu(self.filter(x.mT)).mT)
        x, states = x.transpose(0, 1), []
        for layer in self.layers:
            x = layer(x)
            states.append(x)
        return x.transpose(0, 1), states


@pytest.mark.parametrize("depth", [3, 4])
def test_layers_behind_a_filter_for_positions_are_not_one_block(depth: int) -> None:
    stream, = screen.check(Led(depth), example_inputs=torch.zeros(2, 9, 32)).streams
    assert stream.depth == depth and stream.embed_norm
    assert {(s.role, s.placement) for k in stream.kinds for s in k.sublayers} == {("attention", "post"), ("ffn", "post")}
