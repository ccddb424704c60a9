"""Scales on the stream of a pre-norm stack: no channel is closed that depends on them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day


class Block(nn.Module):
    def __init__(self, gain: float | str, width: int = 32) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gain = gain
        self.learned = nn.Parameter(torch.ones(()))
        self.gate = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(torch.relu(self.up(self.norm(x))))
        if self.gain == "learned":
            return self.learned * x + y
        if self.gain == "data":
            return torch.sigmoid(self.gate(x)) * x + y
        return float(self.gain) * x + y


class Stack(nn.Module):
    def __init__(self, gain: float | str, depth: int = 16) -> None:
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(Block(gain) for _ in range(depth)), nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@pytest.mark.parametrize(
    ("gain", "depth", "growth"),
    [
        (1.0, "closed", "conditional"),
        (0.5, "conditional", "conditional"),  # the ratio is that of a stationary stream; past the branches next to nothing comes back
        (1.2, "conditional", "conditional"),  # 18 times over 16 blocks
        (2.0, "open", "open"),  # gradients are those of the stream, 2e4 between the first and the last block
        ("learned", "conditional", "conditional"),
        ("data", "conditional", "conditional"),  # a sigmoid carries on at most all of it
    ],
)
def test_channels(gain: float | str, depth: str, growth: str) -> None:
    torch.manual_seed(0)
    report = screen.check(Stack(gain), example_inputs=torch.zeros(2, 8, 32))
    states = {c.id: c for c in report.channels}
    assert (states["D"].state, states["R"].state) == (depth, growth), (states["D"].reason, states["R"].reason)


class Averaged(nn.Module):
    """0.9 x + share · (x + 10 f(x)): the branch carries a share of the stream."""

    def __init__(self, read: str, share: float, depth: int = 12) -> None:
        super().__init__()
        self.read, self.share = read, share
        self.maps, self.norm = nn.ModuleList(nn.Linear(32, 32) for _ in range(depth)), nn.LayerNorm(32)

    def branch(self, x: Tensor, map: nn.Module) -> Tensor:
        if self.read == "root":
            return torch.relu(map(self.norm(x))) + torch.sqrt(x.abs() + 1.0)
        if self.read == "slope":
            return torch.relu(map(self.norm(x))) + 0.01 * torch.relu(x)
        out: Tensor = map(torch.relu(map(self.norm(x) if self.read == "normed" else x)))
        return out

    def forward(self, x: Tensor) -> Tensor:
        for map in self.maps:
            x = 0.9 * x + self.share * (x + 10.0 * self.branch(x, map))
        return x


@pytest.mark.parametrize(
    ("read", "share", "law"),
    [("normed", 0.1, "linear"), ("normed", 0.5, "exponential"), ("raw", 0.1, None), ("root", 0.1, None), ("slope", 0.1, None), ("slope", 0.5, None)],
)
def test_what_a_branch_adds_beside_its_share_of_the_stream(read: str, share: float, law: str | None) -> None:
    report = screen.check(Averaged(read, share), example_inputs=torch.zeros(2, 8, 32))
    assert [c.value for c in report.claims if (c.claim, c.weights, c.status) == ("growth", "fixed", "proved")] == ([law] if law else [])


@pytest.mark.parametrize(("gain", "law"), [(0.9, "bounded"), (1 - 0.5 / 16, "linear"), (1.0, "linear")])
def test_a_stream_that_keeps_more_than_half_has_not_settled(gain: float, law: str) -> None:
    """0.9^16 = 0.19, and what is added is forgotten; (1 - 1/2n)^n is 0.6 at any depth n."""
    report = screen.check(Stack(gain), example_inputs=torch.zeros(2, 8, 32))
    assert [c.value for c in report.claims if (c.claim, c.weights) == ("growth", "fixed")] == [law]


def test_the_criterion_of_deepnorm_is_not_asked_of_a_stream_without_norms() -> None:
    """2N(v² + w²)/α² is about a sum that is normed."""
    report = screen.check(Stack(2.0), example_inputs=torch.zeros(2, 8, 32))
    assert {f.outcome for f in report.findings if f.code == "D102"} == {"not_applicable"}


@pytest.mark.timeout(60)
def test_a_scale_that_is_read_many_times_costs_one_look() -> None:
    class Doubled(Stack):
        def __init__(self) -> None:
            super().__init__("learned", depth=2)
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            gain = self.scale
            for _ in range(60):
                gain = gain * gain  # 2^60 ways back to the parameter
            for block in self.blocks:
                x = x + gain * block(x)
            return self.norm(x)

    report = screen.check(Doubled(), example_inputs=torch.zeros(2, 8, 32))
    assert "closed" not in {c.state for c in report.channels if c.id == "R"}


class Masked(nn.Module):
    """Post-norm blocks that set padded tokens to 0, and a stream to which rows of zeros are joined."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.maps, self.norms = (nn.ModuleList(make() for _ in range(6)) for make in (lambda: nn.Linear(16, 16), lambda: nn.LayerNorm(16)))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for layer, norm in zip(self.maps, self.norms, strict=True):
            if self.kind == "mask":
                x = norm(x + torch.relu(layer(x))) * mask[..., None].to(x.dtype)
            elif self.kind == "places":
                x = norm(x + torch.relu(layer(x))) * mask[..., None].to(x.dtype).cumsum(1)
            else:
                x = torch.nn.functional.pad(x[:, 1:], (0, 0, 1, 0), mode=self.kind) + torch.relu(layer(norm(x)))
        return x


def test_a_mask_of_padding_breaks_no_path_and_zeros_beside_the_stream_are_read() -> None:
    found = {}
    for kind in ("mask", "places", "constant", "replicate"):
        report = screen.check(Masked(kind), example_inputs=(torch.zeros(2, 8, 16), torch.ones(2, 8, dtype=torch.bool)))
        found[kind] = report.streams[0].identity_path
    assert found["mask"].breaks == [] and found["mask"].norms_crossed == 6
    assert found["places"].breaks  # no mask of padding
    assert len(found["places"].breaks) == 1  # one line of code, however often it runs
    assert found["constant"].gain == "0 to 1" and found["replicate"].gain == "1.41 (measured)"


class Half(nn.Module):
    """An encoder, or a decoder without its memory: two of one class have the same lines and the same number of nodes outside of their blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(16, 32), nn.Parameter(torch.zeros(8, 32))
        self.blocks, self.norm = nn.ModuleList(Block(1.0) for _ in range(2)), nn.LayerNorm(32)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.place
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Half(), Half()

    def forward(self, ids: Tensor) -> Tensor:
        return self.one(ids) + self.two(ids).mean(1, keepdim=True)


def test_two_stacks_of_one_class_are_no_two_blocks_that_end_in_a_norm() -> None:
    report = screen.check(Both(), example_inputs=torch.zeros(1, 8, dtype=torch.long), spot_check=False)
    paths = [s.identity_path for s in report.streams]
    assert [(p.exists, p.norms_crossed) for p in paths] == [(True, 0)] * 2
