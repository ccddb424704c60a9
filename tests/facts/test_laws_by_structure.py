"""Laws of gradients where the recursion at the start has no row for something: by what branches read, and by how their matrices start."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

WIDTH, DEPTH = 24, 6


class Series(nn.Module):
    """Patches that overlap are cut from a series, whose size is not followed; nets behind norms."""

    std: float | None = None

    def __init__(self, depth: int = DEPTH) -> None:
        super().__init__()
        self.inner, self.norms = nn.Linear(8, WIDTH), nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))
        self.ups, self.downs = (nn.ModuleList(nn.Linear(*s) for _ in range(depth)) for s in ((WIDTH, 48), (48, WIDTH)))
        self.end = nn.LayerNorm(WIDTH)
        for down in self.downs:
            if self.std is not None:
                nn.init.normal_(down.weight, std=self.std)  # type: ignore[arg-type]

    def branch(self, x: Tensor, n: int) -> Tensor:
        out: Tensor = self.downs[n](F.gelu(self.ups[n](self.norms[n](x))))
        return out

    def block(self, x: Tensor, n: int) -> Tensor:
        return x + self.branch(x, n)

    def forward(self, series: Tensor) -> Tensor:
        x = self.inner(series.unfold(-1, 8, 4))
        for n in range(len(self.norms)):
            x = self.block(x, n)
        return self.end(x)  # type: ignore[no-any-return]


class Small(Series):
    """What it adds is too small for any law to be seen."""

    std = 1e-3


class Silent(Series):
    std = 0.0


class ForDepth(Series):
    def block(self, x: Tensor, n: int) -> Tensor:
        return x + DEPTH**-0.5 * self.branch(x, n)


class Shared(Series):
    """Features by their own shares of 24, which sum to 1: as small as a 24th."""

    times = 1.0

    def branch(self, x: Tensor, n: int) -> Tensor:
        out = super().branch(x, n)
        return self.times * out * out.softmax(-1)


class SharedAtFullSize(Shared):
    """A norm behind the shares gives what they leave a size of its own."""

    def branch(self, x: Tensor, n: int) -> Tensor:
        return F.layer_norm(super().branch(x, n), (WIDTH,), eps=1e-12)


class Raw(Series):
    def branch(self, x: Tensor, n: int) -> Tensor:
        out: Tensor = self.downs[n](F.gelu(self.ups[n](x)))
        return out


class Twice(Series):
    """The residual of the block, and another one around it."""

    def block(self, x: Tensor, n: int) -> Tensor:
        return x + (x + self.branch(x, n))


class Slowly(Series):
    """1 + 1/N in each of N blocks: e over all."""

    def block(self, x: Tensor, n: int) -> Tensor:
        return x + x / DEPTH + self.branch(x, n)


class Half(Series):
    def block(self, x: Tensor, n: int) -> Tensor:
        return 0.5 * x + self.branch(x, n)


def law(target: object, inputs: Tensor, **given: int) -> str | None:
    (claim,) = [c for c in screen.check(target, example_inputs=inputs, **given).claims if c.claim == "gradient_law"]  # type: ignore[arg-type]
    return claim.value if claim.status != "unknown" else None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Series, "power"), (Small, None), (Silent, None), (ForDepth, None), (Shared, None),
        (SharedAtFullSize, "power"), (Raw, None), (Twice, "exponential"), (Slowly, None), (Half, None),
    ],
)
def test_a_first_state_of_no_known_size(model: type[Series], told: str | None) -> None:
    found = law(model(), torch.randn(2, 40))
    assert found == told or (told is None and found != "power")


def measured(model: type[Series], depth: int) -> float:
    """Gradient of the first net over that of the last one, in logarithms, over eight draws."""
    logs = []
    for seed in range(8):
        torch.manual_seed(seed)
        found = model(depth)
        found(torch.randn(4, 40)).square().mul(torch.randn(4, 9, WIDTH)).sum().backward()
        first, last = (torch.cat([p.grad.flatten() for p in (found.ups[n].weight, found.downs[n].weight)]).norm() for n in (0, -1))  # type: ignore[union-attr]
        logs.append(math.log(float(first / last)))
    return sum(logs) / len(logs)


def test_they_are_measured_so() -> None:
    deep, deeper = measured(Series, 24), measured(Series, 192)
    assert deep > 0.3 and 0.4 < deeper - deep < 2.5, "eight times as deep: a power adds a number, an exponential eight times as much"
    assert measured(Twice, 24) > 24 * math.log(1.8)


class Plain(nn.Module):
    """A net of torch's own start: little over 24 blocks, and made for none. x: [2, 8, 24]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.relu(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Numbered(Plain):
    """The same size, by a number of the code."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.down.weight, std=0.7 / math.sqrt(3 * 48))


@pytest.mark.parametrize(("block", "told"), [(Plain, "power"), (Numbered, None)])
def test_what_starts_by_its_width_is_made_for_no_depth(block: type[nn.Module], told: str | None) -> None:
    assert law(block(), torch.randn(2, 8, WIDTH), depth=24) == told
