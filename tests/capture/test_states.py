"""A block whose state is no tensor is a loop all the same: dictionaries, tuples, dataclasses, alone or before other results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from screen.capture.build.build import build_object
from screen.capture.trace.loop import FEW, Loop
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.structure.types import Unknown

D, DEPTH = 8, 5


class Parts(NamedTuple):
    tokens: Tensor
    counts: Tensor


@dataclass
class State:
    tokens: Tensor
    step: int = 0


@dataclass
class Sums:
    tokens: Tensor
    counts: Tensor


class Widened(nn.Module):
    """A pre-norm branch of the tokens in a state, and beside it a state that a part of the branch is added to."""

    def __init__(self, read: Callable[[Any], tuple[Tensor, Any]], write: Callable[[Any, Tensor, Any], Any]) -> None:
        super().__init__()
        self.norm, self.up, self.down, self.read, self.write = nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.Linear(2 * D, D), read, write

    def forward(self, state: Any) -> Any:
        x, beside = self.read(state)
        return self.write(state, x + self.down(torch.tanh(self.up(self.norm(x)))), beside)


FORMS: dict[str, tuple[Any, Callable[[Any], tuple[Tensor, Any]], Callable[[Any, Tensor, Any], Any]]] = {
    "dictionary": (
        {"counts": torch.zeros(2, 3, D), "tokens": torch.zeros(2, 3, D)},
        lambda s: (s["tokens"], s["counts"]),
        lambda s, x, c: {"tokens": x, "counts": c + x},
    ),
    "one entry": ({"tokens": torch.zeros(2, 3, D)}, lambda s: (s["tokens"], None), lambda s, x, c: {**s, "tokens": x}),
    "named tuple": (Parts(torch.zeros(2, 3, D), torch.zeros(2, 3)), lambda s: s, lambda s, x, c: s._replace(tokens=x)),
    "tuple": ((torch.zeros(2, 3, D), torch.zeros(2, 3)), lambda s: s, lambda s, x, c: (x, c)),
    "dataclass": (State(torch.zeros(2, 3, D)), lambda s: (s.tokens, s.step), lambda s, x, c: State(x, c + 1)),
    "two results": (Sums(torch.zeros(2, 3, D), torch.zeros(2, 3, D)), lambda s: (s.tokens, s.counts), lambda s, x, c: (Sums(x, c), x.mean())),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_state_is_handed_on(form: str) -> None:
    state, read, write = FORMS[form]
    built = build_object(Widened(read, write), example_inputs=(state,), depth=DEPTH)[0]
    assert built.info.block and isinstance(built.model, Loop) and len(built.model.members) >= FEW
    facts = derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))
    stream = max(facts.streams, key=lambda s: s.depth)
    operator = facts.operator(stream)
    assert not isinstance(operator, Unknown) and stream.depth == DEPTH and facts.is_loop


def test_what_is_of_another_form_is_no_state() -> None:
    """A dictionary of results is none of what came in."""
    state, read, _ = FORMS["dictionary"]
    built = build_object(Widened(read, lambda s, x, c: {"tokens": x, "loss": c.mean()}), example_inputs=(state,))[0]
    assert not built.info.block
