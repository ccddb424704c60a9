"""What kept public files of a sixteenth round from being read, or made pages of them tell little, each by its cause in a file of its own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.capture.first_try import built, writing

write = pytest.fixture(writing)


# -- an axis without entries -------------------------------------------------------------------------------------------------------------------


def test_an_axis_that_is_repeated_no_times_is_no_fault_of_ours(write: Any) -> None:
    """More levels than there are frames are laid along the batch, so that each is repeated 2 // 8 times: a length of 0 meets nothing."""
    file = write(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.cells, self.level, self.back = nn.Conv2d(5, 32, 4, 4), nn.Embedding(70, 32), nn.Linear(32, 5)

            def forward(self, film, level):
                batch, frames, channels, height, width = film.shape
                x = self.cells(film.flatten(0, 1)).flatten(2).mT.unflatten(0, (-1, frames))
                s = self.level(level.flatten()).reshape(-1, frames, 32)
                s = s.repeat(len(x) // len(s), 1, 1)
                return self.back(x + s.unsqueeze(2) * torch.tanh(x))
        """
    )
    (net,) = built(file)
    assert type(net.model).__name__ == "Net"
