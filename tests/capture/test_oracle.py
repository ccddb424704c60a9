"""Values that the oracle knows: numbers of the program, and entries of constant tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import trace


class _Reads(nn.Module):
    """Takes one way when a value is as the forward says, the other way when it is not."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.proj = nn.Linear(24, 24)
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) if self.value(x) else x.sin()


KNOWN: dict[str, Any] = {
    "torch.tensor of numbers": lambda x: torch.tensor([[1, x.shape[1]]], device=x.device).tolist() == [[1, 16]],
    "torch.tensor of a fraction": lambda x: bool(torch.tensor(0.25, device=x.device) < 0.5),
    "torch.tensor by keyword": lambda x: torch.tensor(data=[3, 4], device=x.device).sum().item() == 7,
    "torch.as_tensor": lambda x: torch.as_tensor([3, 4], device=x.device).prod().item() == 12,
    "new_tensor": lambda x: x.new_tensor([3.0, 4.0]).max().item() == 4.0,
    "torch.Tensor of an array": lambda x: (torch.Tensor(np.arange(0, 8, 3)).long() < torch.arange(6)[:, None]).nonzero()[:, 1].sum().item() == 2,
    "torch.tensor of known tensors": lambda x: torch.tensor([torch.arange(3).sum(), torch.arange(4).sum()]).tolist() == [3, 6],
    "an entry of a constant": lambda x: bool(torch.ones(2, 9, dtype=torch.long)[torch.zeros(2, dtype=torch.long), x[:2, 0, 0].long()].all()),
    "gather from a constant": lambda x: torch.full((2, 9), 7).gather(1, x[:, :3, 0].long()).sum().item() == 42,
}

GUESSED: dict[str, Any] = {
    "an entry of what varies": lambda x: bool(torch.arange(9)[x[:2, 0, 0].long()].all()),
    "torch.tensor of an unknown": lambda x: torch.tensor([x.sum()]).item() == 3.0,
}


@pytest.mark.parametrize("case", KNOWN)
def test_a_value_of_the_program_is_no_guess(case: str) -> None:
    graph = trace(_Reads(KNOWN[case]), (torch.empty(2, 16, 24, device="meta"),), {})
    assert graph.failure is None and not graph.guesses
    assert any(n.op == "linear" for n in graph.nodes) and not any(n.op == "sin" for n in graph.nodes)


@pytest.mark.parametrize("case", GUESSED)
def test_what_depends_on_the_input_stays_a_guess(case: str) -> None:
    graph = trace(_Reads(GUESSED[case]), (torch.empty(2, 16, 24, device="meta"),), {})
    assert graph.failure is None and graph.guesses
