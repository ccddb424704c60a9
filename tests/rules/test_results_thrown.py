"""Results that nothing reads, of ops without weights: a mask or a clamp that is not assigned, beside what is written in place or kept on the side."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import screen

WIDTH, PLACES = 32, 8


class Block(nn.Module):
    """Attention over scores that something is done with."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.norm, self.project, self.out = how, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("later", torch.ones(PLACES, PLACES, dtype=torch.bool).triu(1))
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(self.norm(x)).chunk(3, -1)
        scores = q @ k.mT / WIDTH**0.5
        match self.how:
            case "mask is not assigned":
                scores.masked_fill(self.later, -1e9)
            case "norm is not assigned":
                F.layer_norm(v, (WIDTH,))
            case "activation is not assigned":
                F.gelu(v)
            case "written in place":
                scores.masked_fill_(self.later, -1e9)
                v[..., :8].clamp_(-1, 1)
            case "kept":
                self.shares, self.size, self.copy = scores.softmax(-1), scores.abs().mean(), v.detach().clone()
            case "running mean":
                self.mean.mul_(0.9).add_(v.detach().mean((0, 1)), alpha=0.1)
        return x + self.out(scores.softmax(-1) @ v)


@pytest.mark.parametrize("how", ["mask is not assigned", "norm is not assigned", "written in place", "kept", "running mean"])
def test_what_is_thrown_away_is_named(how: str) -> None:
    report = screen.check(nn.Sequential(Block(how), Block(how)), example_inputs=torch.randn(2, PLACES, WIDTH))
    [found] = [f for f in report.findings if f.code == "G123"]
    lost = {"mask is not assigned": "`masked_fill`", "norm is not assigned": "`layer_norm`"}.get(how, "")
    assert found.outcome == ("violated" if lost else "holds"), found.message
    assert lost in found.message


class Chunks(nn.Module):
    """A sum of what chunks hold, read before it is updated: the last update is for a chunk that does not come."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.project, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = F.normalize(self.project(self.norm(x)), dim=-1).chunk(3, -1)
        state, read = k[:, :2].mT @ v[:, :2], [v[:, :2]]
        for i in range(2, PLACES, 2):
            read.append(q[:, i : i + 2] @ state)
            state = state + k[:, i : i + 2].mT @ v[:, i : i + 2]
        return x + self.out(torch.cat(read, 1))


def test_the_last_update_of_a_state_is_assigned() -> None:
    report = screen.check(nn.Sequential(Chunks(), Chunks()), example_inputs=torch.randn(2, PLACES, WIDTH))
    [found] = [f for f in report.findings if f.code == "G123"]
    assert found.outcome == "holds", found.message


def test_what_is_proposed_can_be_written_of_a_function_that_tensors_have_no_method_for() -> None:
    model = nn.Sequential(Block("norm is not assigned"), Block("activation is not assigned"))
    report = screen.check(model, example_inputs=torch.randn(2, PLACES, WIDTH))
    found = [f for f in report.findings if f.code == "G123" and f.outcome == "violated"]
    assert {"layer_norm", "gelu"} <= {word for f in found for word in ("layer_norm", "gelu") if f"`{word}`" in f.message}, found
    assert not any("x = x.layer_norm" in (f.remedy or "") or "x = x.gelu" in (f.remedy or "") for f in found), found


class _Raw(nn.Module):
    """x + f(x), whose norm is made and not used, or goes to a second output, or is carried on in half of the channels."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.how = nn.LayerNorm(16), nn.Linear(32, 64), nn.Linear(64, 32), how
        for linear in (self.up, self.down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = x + self.down(torch.relu(self.up(x)))
        part = self.norm(y[..., :16])
        return torch.cat((part, y[..., 16:]), -1) if self.how == "half" else y


class _Raws(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(_Raw(how) for _ in range(12)), nn.Linear(32, 7)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        sizes = []
        for block in self.blocks:
            x = block(x)
            sizes.append(block.norm(x[..., :16]).amax())
        return self.head(x), torch.stack(sizes)


@pytest.mark.parametrize("whole", [False, True])
def test_a_norm_that_reaches_nothing_of_the_stream_is_no_doubt_of_r101(whole: bool) -> None:
    """R101 told that a norm acts on some entries of the stream, which made its channel unknown beside a violated R201."""
    x = torch.randn(2, 6, 32)
    report = screen.check(_Raws(""), example_inputs=x) if whole else screen.check(_Raw(""), example_inputs=x, depth=12)
    assert {f.code: f.outcome for f in report.findings if f.code in ("R101", "R201")} == {"R101": "violated", "R201": "violated"}


def test_a_norm_on_half_of_the_channels_is_one() -> None:
    report = screen.check(_Raw("half"), example_inputs=torch.randn(2, 6, 32), depth=12)
    assert {f.code: f.outcome for f in report.findings if f.code in ("R101", "R301")} == {"R101": "conditional", "R301": "conditional"}


class TwoStreams(nn.Module):
    """Words beside a picture, which one feed-forward reads both of in each block; the words of the last block are not handed on."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)) for _ in range(3))
        self.words = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH)) for _ in range(3)) if own else self.nets

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        for norm, net, other in zip(self.norms, self.nets, self.words, strict=True):
            following = words + other(norm(words))
            x, words = x + net(norm(x) + words.mean(1, keepdim=True)), following
        return x


@pytest.mark.parametrize("own", [True, False])
def test_weights_that_another_call_hands_on_have_their_gradient(own: bool) -> None:
    report = screen.check(TwoStreams(own), example_inputs=(torch.zeros(2, 9, WIDTH), torch.zeros(2, 5, WIDTH)), spot_check=False)
    said = [f.message for f in report.findings if f.code == "G123" and f.outcome == "violated"]
    shared = [s for s in said if s.endswith(" in this call: its weights get gradients from other calls alone.")]
    assert [s.split("`")[1] for s in shared] == (["norms.2"] if own else ["norms.2", "nets.2"])
    assert [s.split("`")[1] for s in said if s.endswith(": its weights get no gradient.")] == (["words.2"] if own else [])
