"""Experts that are added one after the other by shares of one router: its logits are made of the norm that stands in front of all of them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen

pytestmark = pytest.mark.by_the_day

example_inputs = (torch.randn(2, 8, 32),)


class Rms(nn.Module):
    """Written out. x: [2, 8, 32]."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Experts(nn.Module):
    """x: [2, 8, 32]."""

    norm_type: type[nn.Module] = Rms

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.router = self.norm_type(), nn.Linear(32, 3)
        self.ups, self.downs = (nn.ModuleList(nn.Linear(a, b) for _ in range(3)) for a, b in ((32, 48), (48, 32)))

    def read(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        shares = self.router(self.read(x)).softmax(-1).split(1, -1)
        outs = [down(F.silu(up(h))) for up, down in zip(self.ups, self.downs, strict=True)]
        for share, out in zip(shares, outs, strict=True):
            x = x + share * out
        return x


class Raw(Experts):
    """The router reads the stream as it is."""

    def read(self, x: Tensor) -> Tensor:
        return x


class Copied(Experts):
    """The last expert gives back what it reads."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        shares = self.router(h).softmax(-1).split(1, -1)
        for share, out in zip(shares, [self.downs[0](self.ups[0](h)), self.downs[1](self.ups[1](h)), h], strict=True):
            x = x + share * out
        return x


def _report(block: str) -> screen.Report:
    return screen.check(f"{__file__}::{block}", depth=24, isolate=False, spot_check=False)


def test_logits_of_a_shared_router_do_not_add_up() -> None:
    said = [f for f in _report("Experts").findings if f.code in ("L201", "L202")]
    assert not [f.message for f in said if "add up" in f.message or "come from before" in f.message]
    assert {f.outcome for f in said if f.code == "L202"} == {"holds"}


def test_logits_that_read_the_stream_grow_with_it() -> None:
    said = [f for f in _report("Raw").findings if f.code in ("L201", "L202")]
    assert not [f.message for f in said if "add up" in f.message or "divided" in f.message]
    assert "holds" not in {f.outcome for f in said if f.code == "L202"}


def test_a_norm_that_is_added_is_no_long_skip() -> None:
    [stream] = _report("Copied").streams
    assert stream.long_skips == []
