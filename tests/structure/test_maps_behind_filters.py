"""How many maps has an attention with filtered keys, with an output that gates itself, with heads in groups? Truths by hand."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import screen
from tests.structure.mixed_blocks import Mixed

pytestmark = pytest.mark.by_the_day

WIDTH = 16


class Reduced(nn.Module):
    """Attention whose keys and values, of one map, or with the queries as well, come of a filtered image; `low`: by a bottleneck."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.out, self.norm = how, nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        groups = WIDTH if how == "all" else 1
        self.filter = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=groups) if how == "all" else nn.Conv2d(WIDTH, WIDTH, 2, stride=2)
        self.q, self.low = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 4)
        self.maps = nn.Linear(4 if how == "low" else WIDTH, 3 * WIDTH if how == "all" else 2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        image = x.mT.unflatten(2, (6, 6))
        if self.how == "all":
            q, k, v = self.maps(self.filter(image).flatten(2).mT).chunk(3, -1)
        elif self.how == "low":
            q, (k, v) = self.q(x), self.maps(self.low(x)).chunk(2, -1)
        else:
            q, (k, v) = self.q(x), self.maps(self.norm(self.filter(image).flatten(2).mT)).chunk(2, -1)
        return self.out(torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v)


class Strided(nn.Module):
    """Attention whose keys and values strided filters make themselves, or filters of a map of their own (`behind`)."""

    def __init__(self, behind: bool) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 2, stride=2), nn.Conv2d(WIDTH, WIDTH, 2, stride=2)
        self.out, self.maps = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH) if behind else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        image = x.mT.unflatten(2, (6, 6))
        q, k, v = (made.flatten(2).mT for made in (self.q(image), self.k(image), self.v(image)))
        return self.out(torch.softmax(q @ self.maps(k).mT * WIDTH**-0.5, -1) @ v)


class Gated(nn.Module):
    """Attention whose output map gives what is added and its own gate, by name or by hand."""

    def __init__(self, named: bool) -> None:
        super().__init__()
        self.named, self.qkv, self.out = named, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        y = self.out(torch.softmax(q @ k.mT * WIDTH**-0.5, -1) @ v)
        made, gate = y.chunk(2, -1)
        return nn.functional.glu(y, -1) if self.named else made * torch.sigmoid(gate)


class Groups(nn.Module):
    """Heads of one kind of attention beside heads of another one: of neighbours, and by a sum over all tokens; maps of their own, or one fused."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused, self.qkv, self.out = fused, nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        made = self.qkv(x).chunk(3, -1) if self.fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (m.unflatten(-1, (4, 4)).transpose(1, 2) for m in made)
        near = [m[:, :2].unflatten(2, (6, 6)) for m in (q, k, v)]
        local = (torch.softmax(near[0] @ near[1].mT * 0.5, -1) @ near[2]).flatten(2, 3)
        far = [m[:, 2:] for m in (q, k, v)]
        whole = torch.softmax(far[0], -1) @ (torch.softmax(far[1], -2).mT @ far[2])
        return self.out(torch.cat((local, whole), 1).transpose(1, 2).flatten(2))


class Stack(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        kinds: dict[str, nn.Module] = {"strided": Strided(False), "behind": Strided(True), "glu": Gated(True), "gate": Gated(False)}
        kinds |= {"groups": Groups(False), "one": Groups(True)}
        self.patch = nn.Conv2d(3, WIDTH, 2, stride=2)
        self.blocks = nn.ModuleList([Mixed(copy.deepcopy(kinds[how]) if how in kinds else Reduced(how), WIDTH) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize(("how", "maps"), [("keys", 4), ("all", 4), ("low", 4)])
def test_each_part_of_a_fused_map_behind_a_filter_counts(how: str, maps: int) -> None:
    """Keys and values of one map behind a strided filter were one map. Behind a bottleneck, which is a map, they are one (low-rank keys, values)."""
    (stream,) = screen.check(Stack(how), example_inputs=torch.zeros(2, 3, 12, 12)).streams
    assert stream.kinds[0].sublayers[0].m.maps == maps


@pytest.mark.parametrize(("how", "maps"), [("strided", 4), ("behind", 4), ("glu", 5), ("gate", 5), ("groups", 4), ("one", 4)])
def test_maps_are_counted_by_the_parts_that_they_play(how: str, maps: int) -> None:
    """Keys and values that strided filters make were no maps, an output map with its gate was one, maps whose heads are cut into groups were two."""
    (stream,) = screen.check(Stack(how), example_inputs=torch.zeros(2, 3, 12, 12)).streams
    assert stream.kinds[0].sublayers[0].m.maps == maps
