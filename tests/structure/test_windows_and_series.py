"""Windows of an image, series that are laid beside one another, positions that are mapped, and an encoder's last norm."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import screen
from screen.report.words import ports

WIDTH = 48


class Outlook(nn.Module):
    """Each place weighs its neighbours by shares that it makes itself, without queries and keys (VOLO's outlook attention)."""

    def __init__(self, heads: int = 4, windows: bool = True) -> None:
        super().__init__()
        self.heads, self.windows = heads, windows
        self.norm, self.v, self.proj = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.shares = nn.Linear(WIDTH, 81 * heads if windows else 9)
        self.experts = nn.Linear(WIDTH, 9 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        y = self.norm(x)
        if not self.windows:
            chosen = self.experts(y).reshape(b, h, w, 9, c)
            return x + self.proj((self.shares(y).softmax(-1)[..., None] * chosen).sum(-2))
        v = F.unfold(self.v(y).permute(0, 3, 1, 2), 3, padding=1).reshape(b, self.heads, c // self.heads, 9, h * w).permute(0, 1, 4, 3, 2)
        shares = self.shares(y).reshape(b, h * w, self.heads, 9, 9).permute(0, 2, 1, 3, 4).softmax(-1)
        z = (shares @ v).permute(0, 1, 4, 3, 2).reshape(b, c * 9, h * w)
        return x + self.proj(F.fold(z, (h, w), 3, padding=1).permute(0, 2, 3, 1))


class OutlookNet(nn.Module):
    """Three of them on an image."""

    def __init__(self, windows: bool = True) -> None:
        super().__init__()
        self.stem, self.last, self.head = nn.Conv2d(3, WIDTH, 8, 8), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)
        self.blocks = nn.ModuleList(Outlook(windows=windows) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).permute(0, 2, 3, 1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x).mean((1, 2)))


@pytest.mark.parametrize(("windows", "wanted"), [(True, ("attention", "bounded-logits")), (False, ("ffn", "bounded-router"))])
def test_shares_over_a_window_weigh_places(windows: bool, wanted: tuple[str, str]) -> None:
    """The entries of `unfold` hold channels and the places of a window; shares over maps of one place choose among experts."""
    report = screen.check(OutlookNet(windows), example_inputs={"x": torch.randn(2, 3, 64, 64)}, spot_check=False)
    (stream,) = report.streams
    conditions = {c for channel in report.channels for c in channel.conditions}
    assert ([s.role for k in stream.kinds for s in k.sublayers], wanted[1] in conditions) == ([wanted[0]], True)


class Mixer(nn.Module):
    """Channels of all series in one axis, each mapped apart, then each channel over all series (ModernTCN)."""

    def __init__(self, series: int, width: int) -> None:
        super().__init__()
        wide = series * width
        self.apart, self.norm = nn.Conv1d(wide, wide, 5, padding=2, groups=wide), nn.BatchNorm1d(width)
        self.up, self.down = nn.Conv1d(wide, 2 * wide, 1, groups=series), nn.Conv1d(2 * wide, wide, 1, groups=series)
        self.over, self.back = nn.Conv1d(wide, 2 * wide, 1, groups=width), nn.Conv1d(2 * wide, wide, 1, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        b, m, d, n = x.shape
        y = self.norm(self.apart(x.reshape(b, m * d, n)).reshape(b * m, d, n)).reshape(b, m * d, n)
        y = self.down(torch.relu(self.up(y))).reshape(b, m, d, n).permute(0, 2, 1, 3).reshape(b, d * m, n)
        return x + self.back(torch.relu(self.over(y))).reshape(b, d, m, n).permute(0, 2, 1, 3)


class Series(nn.Module):
    """Seven series, each embedded by one and the same stem."""

    def __init__(self, series: int = 7, width: int = 24) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, width, 8, 4), nn.BatchNorm1d(width))
        self.blocks = nn.ModuleList(Mixer(series, width) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 1)
        b, m, n = x.shape
        x = self.stem(x.reshape(b * m, 1, n))
        x = x.reshape(b, m, *x.shape[1:])
        for block in self.blocks:
            x = block(x)
        return x.mean(-1)


def test_the_width_of_series_beside_one_another_is_that_of_one() -> None:
    """[samples, series, channels, time]: neither the last axis nor the second holds the features."""
    report = screen.check(Series(), example_inputs={"x": torch.randn(2, 96, 7)}, spot_check=False)
    assert [s.width for s in report.streams] == [24]


class Translator(nn.Module):
    """Pre-norm encoder and decoder of torch; the encoder with or without a last norm."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, norm_first=True, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, nn.LayerNorm(32) if last else None)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64, norm_first=True, batch_first=True), 3, nn.LayerNorm(32))
        self.head = nn.Linear(32, 50)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.head(self.decoder(self.words(tgt), self.encoder(self.words(src))))


@pytest.mark.parametrize("last", [True, False])
def test_what_an_encoder_gives_behind_its_last_norm_is_normed(last: bool) -> None:
    """The norm is no part of the branch, all layers of the decoder read what it made."""
    ids = torch.ones(2, 8, dtype=torch.int64)
    report = screen.check(Translator(last), example_inputs={"src": ids, "tgt": ids}, spot_check=False)
    normed = [p.normed for st in report.streams for k in st.kinds for s in k.sublayers for p in s.ports if p.name == "memory"]
    assert normed == ["yes" if last else "no"]


class Timed(nn.Module):
    """A feed-forward that is told the time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.time = nn.LayerNorm(width), nn.Linear(width, 64), nn.Linear(64, width), nn.Linear(32, 64)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x)) + self.time(t)[:, None]))


class Stages(nn.Module):
    """One block, and three twice as wide."""

    def __init__(self) -> None:
        super().__init__()
        self.t, self.stem, self.first, self.wide = nn.Linear(4, 32), nn.Linear(8, 24), Timed(24), nn.Linear(24, 48)
        self.blocks = nn.ModuleList(Timed(48) for _ in range(3))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        t = torch.relu(self.t(t))
        x = self.wide(self.first(self.stem(x), t))
        for block in self.blocks:
            x = block(x, t)
        return x


def test_a_condition_of_all_blocks_is_not_told_as_an_earlier_block() -> None:
    """The second stage reads the time as the first did: its stream holds it, and no earlier block made it."""
    report = screen.check(Stages(), example_inputs={"x": torch.randn(2, 16, 8), "t": torch.randn(2, 4)}, spot_check=False)
    told = [ports(s, stream) for stream in report.streams for k in stream.kinds for s in k.sublayers]
    assert told == ["memory (no norm before its first map)", "what earlier branches made or read (not known whether normed)"]


class Pyramid(nn.Module):
    """Stages of one width, each of half as many places as the one before, or of as many."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stem = nn.Conv1d(3, 24, 3, padding=1)
        self.down = nn.ModuleList(nn.Conv1d(24, 24, 3, stride, 1) for _ in range(3))
        self.norms, self.maps = nn.ModuleList(nn.BatchNorm1d(24) for _ in range(4)), nn.ModuleList(nn.Conv1d(24, 24, 3, padding=1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for n, (norm, conv) in enumerate(zip(self.norms, self.maps, strict=True)):
            x = self.down[n - 1](x) if n else x
            x = x + conv(torch.relu(norm(x)))
        return x


@pytest.mark.parametrize(("stride", "wanted"), [(2, 4), (1, 1)])
def test_stages_of_one_width_are_no_blocks_of_one_stream(stride: int, wanted: int) -> None:
    """What leaves out every second place ends a stage, however wide the next one is; a matrix between states of one size is on the stream."""
    report = screen.check(Pyramid(stride), example_inputs={"x": torch.randn(2, 3, 64)}, spot_check=False)
    assert len(report.streams) == wanted
