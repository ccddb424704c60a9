"""Recurrences over packed sequences: written out where all sequences are as long as the longest, and then what torch itself makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import screen
from screen.capture.trace.packed import written_out

MODEL = """
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Speech(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.table, self.pre, self.norm = nn.Embedding(50, d), RECURRENCE, nn.LayerNorm(d)
        self.nets = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d)) for _ in range(3))

    def forward(self, tokens, durations):
        packed = pack_padded_sequence(self.table(tokens), durations, batch_first=True, enforce_sorted=False)
        x, _ = pad_packed_sequence(self.pre(packed)[0], batch_first=True)
        for net in self.nets:
            x = x + net(x)
        return self.norm(x)
"""


@pytest.mark.parametrize("recurrence", ["nn.LSTM(d, d // 2, batch_first=True, bidirectional=True)", "nn.GRU(d, d, 2, batch_first=True)"])
@pytest.mark.parametrize("durations", ["durations", "durations.cpu()", "durations.tolist()"])
def test_lengths_are_found_for_what_packs_by_them(tmp_path: Path, recurrence: str, durations: str) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL.replace("RECURRENCE", recurrence).replace("), durations,", f"), {durations},"))
    (stream,) = screen.check(f"{path}:Speech", isolate=False, spot_check=False).streams
    assert (stream.depth, stream.final_norm) == (3, True)


class Packs(nn.Module):
    """x: [2, 7, 8], or [7, 2, 8]."""

    def __init__(self, recurrence: nn.RNNBase, **padding: int) -> None:
        super().__init__()
        self.recurrence, self.padding = recurrence, padding

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        first = self.recurrence.batch_first
        out, states = self.recurrence(pack_padded_sequence(x, lengths, batch_first=first))
        padded, lengths = pad_packed_sequence(out, batch_first=first, padding_value=-1.0, total_length=self.padding.get("total_length"))
        return padded, lengths, *(states if isinstance(states, tuple) else (states,))


@pytest.mark.parametrize(
    "model",
    [
        Packs(nn.LSTM(8, 5, 2, batch_first=True, bidirectional=True)),
        Packs(nn.LSTM(8, 5, batch_first=True, proj_size=3)),
        Packs(nn.GRU(8, 5), total_length=9),
        Packs(nn.RNN(8, 5, batch_first=True, nonlinearity="relu"), total_length=8),
        Packs(nn.RNN(8, 5)),
    ],
)
@pytest.mark.parametrize("lengths", [(7, 7), (7, 4)])
def test_what_is_written_out_is_what_torch_does(model: Packs, lengths: tuple[int, int]) -> None:
    x = torch.randn((2, 7, 8) if model.recurrence.batch_first else (7, 2, 8), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = model(x, torch.tensor(lengths))
        with written_out():
            again = model(x, torch.tensor(lengths))
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other)
