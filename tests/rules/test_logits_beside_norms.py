"""Of logits of normed queries and keys that grow, what makes them grow is named."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, HEADS = 32, 4


class Block(nn.Module):
    """Normed queries and keys, and a bias that a map makes of each key: as large as that map."""

    def __init__(self, normed: bool) -> None:
        super().__init__()
        self.norm, self.project, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.of_key, self.normed = nn.Linear(WIDTH, HEADS), normed

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = self.project(h).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if self.normed:
            q, k = F.rms_norm(q, (q.shape[-1],)), F.rms_norm(k, (k.shape[-1],))
        self.logits = q @ k.mT / q.shape[-1] ** 0.5 + self.of_key(h).transpose(1, 2)[:, :, None]
        out: Tensor = x + self.out((self.logits.softmax(-1) @ v).transpose(1, 2).flatten(-2))
        return out


def _message(normed: bool) -> str:
    report = screen.check(nn.Sequential(Block(normed), Block(normed)), example_inputs=torch.randn(2, 8, WIDTH))
    return next(f.message for f in report.findings if f.code == "L201")


def test_the_map_beside_the_norms_is_named() -> None:
    x, sizes = torch.randn(2, 8, WIDTH, dtype=torch.float64), []
    for name in ("", "project", "of_key"):
        torch.manual_seed(0)
        block = Block(True).double()
        if name:
            block.get_submodule(name).weight.data.mul_(1e4)
        block(x)
        sizes.append(float(block.logits.abs().amax()))
    assert sizes[1] < 4 * sizes[0] < sizes[2] / 100
    said = _message(True)
    assert "of_key.weight" in said and "W_Q" not in said and "project" not in said, said


def test_queries_and_keys_without_norms_are_named() -> None:
    assert "W_Q and W_K" in _message(False)


class Cosines(nn.Module):
    """Cosines of a raw stream, times a temperature that its clamp holds from below alone."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out, self.heat = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x).chunk(3, -1)
        u = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.heat.clamp(min=0.5).square().exp()
        return x + self.out(u.softmax(-1) @ v) / (1 + v.norm(dim=-1, keepdim=True))  # type: ignore[no-any-return]


def test_cosines_are_not_made_of_how_large_the_stream_is() -> None:
    report = screen.check(nn.Sequential(Cosines(), Cosines()), example_inputs=torch.randn(2, 8, WIDTH))
    found = [f.message for f in report.findings if f.code == "L202"]
    assert found and not any("made of a stream that nothing bounds" in message for message in found)


class Clipped(Block):
    """Queries and keys whose length is at most 4, or the queries alone."""

    def __init__(self, both: bool) -> None:
        super().__init__(True)
        self.both = both

    def forward(self, x: Tensor) -> Tensor:
        def clip(y: Tensor) -> Tensor:
            return y * (4.0 / (torch.linalg.vector_norm(y, dim=-1, keepdim=True) + 1e-6)).clamp(max=1.0)

        h = self.norm(x)
        q, k, v = self.project(h).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        logits = clip(q) @ (clip(k) if self.both else k).mT + self.of_key(h).transpose(1, 2)[:, :, None]
        out: Tensor = x + self.out((logits.softmax(-1) @ v).transpose(1, 2).flatten(-2))
        return out


def test_no_norms_are_proposed_where_what_is_compared_is_bounded() -> None:
    """Of clipped queries and keys L201 named the map of the bias, and proposed norms on queries and keys."""
    for both in (True, False):
        model = nn.Sequential(Clipped(both), Clipped(both))
        found = next(f for f in screen.check(model, example_inputs=torch.randn(2, 8, WIDTH)).findings if f.code == "L201")
        assert ("norms on queries and keys" in found.remedy) is not both, found
        assert "of_key.weight" in found.message
