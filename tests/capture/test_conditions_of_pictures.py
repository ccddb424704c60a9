"""Forwards that are told much beside a picture: what a size is cut into, a row of a table for each sample, calls over several lines."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.capture.test_mend import found


class Told(nn.Module):
    """Time, sizes and a style make one row for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.styles, self.told = nn.Linear(8, 24), nn.Embedding(1, 16), nn.Linear(24 + 16 + 6 * 8, 24)

    def spread(self, numbers: Tensor) -> Tensor:
        if len(numbers.shape) != 1:
            raise ValueError("numbers stand in a row")
        waves = numbers[:, None].float() * torch.exp(-math.log(10000.0) * torch.arange(4) / 4)[None]
        return torch.cat([waves.sin(), waves.cos()], dim=-1)

    def forward(self, step: Tensor, sizes: Tensor, style: Tensor, dtype: torch.dtype) -> Tensor:
        stepped = self.steps(self.spread(step).to(dtype))
        sized = self.spread(sizes.view(-1))
        sized = sized.view(-1, 6 * 8)
        style = self.styles(style)
        told = torch.cat([stepped, sized, style], dim=1)
        out: Tensor = self.told(told)
        return out


class Picture(nn.Module):
    """The dtype of the step is read on the second line of a call whose first line goes on inside."""

    def __init__(self) -> None:
        super().__init__()
        self.told, self.cut, self.norm, self.map = Told(), nn.Conv2d(3, 24, 4, stride=4), nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, x: Tensor, step: Tensor, sizes: Tensor | None = None, style: Tensor | None = None) -> Tensor:
        x = self.cut(x).flatten(2).mT
        told = self.told(
            step, sizes, style, dtype=step.dtype
        )  # fmt: skip
        return x + self.map(self.norm(x) * told[:, None])


def test_sizes_and_styles_of_a_picture_are_told() -> None:
    kwargs, tried = found(Picture())
    assert not tried
    assert tuple(kwargs["sizes"].shape) == (2, 6) and tuple(kwargs["style"].shape) == (2,)


class Padded(nn.Module):
    """A video beside one mask for all samples and frames, cut into patches together; the rate of frames is spread over the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.norm, self.map = nn.Linear((6 + 1) * 4, 24), nn.LayerNorm(24), nn.Linear(24, 24)
        self.rate = nn.Linear(1, 24)

    def forward(self, video: Tensor, rate: Tensor, shown: Tensor | None = None, more: dict[str, Any] | None = None) -> Tensor:
        samples, _, frames, height, width = video.shape
        assert shown is not None
        assert shown.shape[-2:] == video.shape[-2:], "the mask has the size of a frame"
        mask = shown.unsqueeze(2)
        mask = mask.repeat(samples, 1, frames, 1, 1)
        x = torch.cat([video, mask], dim=1)
        x = x.unflatten(4, (width // 2, 2)).unflatten(3, (height // 2, 2)).permute(0, 2, 3, 5, 1, 4, 6).flatten(4).flatten(1, 3)
        x = self.cut(x)
        rates = rate.expand(samples)
        rates = self.rate(rates[:, None])
        return self.joined(x, rates, **more)

    def joined(self, x: Tensor, rates: Tensor) -> Tensor:
        return x + self.map(self.norm(x) + rates[:, None])


def test_one_mask_for_all_frames_of_a_video() -> None:
    """Too many axes, a batch that is repeated, channels that patches hold beside others, and a table of names that is empty."""
    kwargs, tried = found(Padded())
    assert not tried
    assert kwargs["shown"].shape[0] == 1 and kwargs["video"].shape[1] + kwargs["shown"].shape[1] == 7 and kwargs["more"] == {}


class Beside(nn.Module):
    """What is said of a video has as many channels as the video has, by a size that is written out."""

    def __init__(self) -> None:
        super().__init__()
        self.cut, self.own, self.norm, self.map = nn.Conv2d(10, 24, 4, stride=4), nn.Conv2d(5, 5, 1), nn.LayerNorm(24), nn.Linear(24, 24)

    def forward(self, video: Tensor, latents: Tensor) -> Tensor:
        samples, channels, frames, height, width = video.shape
        latents = self.own(latents.transpose(1, 2).flatten(0, 1))
        latents = latents.reshape(samples, frames, channels, height, width)
        both = torch.cat([video, latents.transpose(1, 2)], dim=1)
        x = self.cut(both.transpose(1, 2).flatten(0, 1)).flatten(2).mT
        return x + self.map(self.norm(x))


def test_a_video_and_what_stands_beside_it_have_the_channels_of_both() -> None:
    kwargs, tried = found(Beside())
    assert not tried and kwargs["video"].shape[1] == kwargs["latents"].shape[1] == 5
