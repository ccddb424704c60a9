"""The cell of a gated recurrence that joins a branch to its stream, written out: one branch, placed by the norm that its maps read behind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import screen
from screen.report.schema import Report
from tests.awkward.parts import FFN, TOKENS, Attention, D, Stack


class Cell(nn.Module):
    """z of the state, and a candidate of what is read and of what the reset gate leaves of the state."""

    def __init__(self, order: int = 0, mapped: bool = False) -> None:
        super().__init__()
        self.read, self.state = nn.Linear(D, 3 * D), nn.Linear(D, 2 * D, bias=False)
        self.order, self.own = order, nn.Linear(D, D, bias=False) if mapped else None

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        f, g, new = self.read(read).chunk(3, -1)
        a, b = self.state(x).chunk(2, -1)
        z, r = torch.sigmoid(f + a - 2.0), torch.sigmoid(g + b)
        kept = r * x if self.own is None else r * self.own(x)
        candidate = torch.tanh(new + kept)
        return z * x + (1 - z) * candidate if self.order == 0 else (1.0 - z) * candidate + x * z


class Reset(nn.Module):
    """The same, of the transformer for agents: the candidate has a map of what the reset gate leaves, before or behind it; in a bounded function or
    beside it; and with no such gate."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.read, self.state, self.own, self.kind = nn.Linear(D, 3 * D), nn.Linear(D, 2 * D, bias=False), nn.Linear(D, D, bias=False), kind

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        f, g, new = self.read(read).chunk(3, -1)
        a, b = self.state(x).chunk(2, -1)
        z, r = torch.sigmoid(f + a - 2.0), torch.sigmoid(g + b)
        kept = self.own(r * x) if self.kind in ("behind", "beside") else r * self.own(x) if self.kind == "before" else self.own(x)
        candidate = torch.tanh(new) + kept if self.kind == "beside" else torch.tanh(new + kept)
        return (1 - z) * x + z * candidate


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(D, 40), nn.Linear(D, 40), nn.Linear(40, D)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.up(x) * nn.functional.silu(self.gate(x)))
        return out


class Recurrent(nn.Module):
    """Attention and a net, a cell each."""

    def __init__(self, normed: bool = True, order: int = 0, gated: bool = False, reset: str = "") -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) if normed else nn.Identity() for _ in range(2))
        self.attn, self.ffn, self.cells = Attention(), Gated() if gated else FFN(), nn.ModuleList(Cell(order) for _ in range(2))
        self.cells = nn.ModuleList(Reset(reset) for _ in range(2)) if reset else self.cells

    def forward(self, x: Tensor) -> Tensor:
        x = self.cells[0](x, self.attn(self.norms[0](x)))
        out: Tensor = self.cells[1](x, self.ffn(self.norms[1](x)))
        return out


class Rectified(nn.Module):
    """relu(x + F(N(x))): the function stands on the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), FFN()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.ffn(self.norm(x)))


class Around(nn.Module):
    """Several of them with one skip around all."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Rectified() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        h = x
        for block in self.blocks:
            h = block(h)
        return x + h


def read(model: nn.Module) -> Report:
    return screen.check(model, example_inputs=torch.randn(2, TOKENS, D), spot_check=False)


@pytest.mark.parametrize(("order", "gated"), [(0, False), (1, False), (1, True)])
def test_a_written_cell_joins_one_branch_that_is_placed_by_its_norm(order: int, gated: bool) -> None:
    (stream,) = read(Stack(lambda: Recurrent(order=order, gated=gated), 4)).streams
    assert stream.depth == 4
    for kind in stream.kinds:
        roles = "attention", "gated_ffn" if gated else "ffn"
        assert [(b.role, b.placement, b.parallel_group) for b in kind.sublayers] == [(role, "pre", None) for role in roles]
        assert {(b.residual.alpha_kind) for b in kind.sublayers} == {"data"}


def test_a_cell_that_reads_the_bare_branch_has_no_norm() -> None:
    (stream,) = read(Stack(lambda: Recurrent(normed=False), 4)).streams
    assert {b.placement for k in stream.kinds for b in k.sublayers} == {"none"}


@pytest.mark.parametrize(("reset", "placement"), [("behind", "pre"), ("before", "pre"), ("beside", "none"), ("all of it", "none")])
def test_a_cell_may_map_what_it_keeps(reset: str, placement: str) -> None:
    """Where no function bounds what is kept, or no gate resets it, the map reads the stream bare."""
    (stream,) = read(Stack(lambda: Recurrent(reset=reset), 4)).streams
    assert stream.depth == 4
    for kind in stream.kinds:
        assert [(b.role, b.placement) for b in kind.sublayers] == [("attention", placement), ("ffn", placement)]


def test_a_function_on_the_stream_stays_there_under_a_long_skip() -> None:
    report = read(nn.Sequential(Around(), nn.LayerNorm(D)))
    longest = max(report.streams, key=lambda s: s.depth or 0)
    assert longest.depth == 4 and [b.placement for b in longest.kinds[0].sublayers] == ["pre"]
