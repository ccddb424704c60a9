"""Which models the share of complete reports leaves out: those that no inputs make run, and those without a residual stream."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from screen.capture.trace.tracer import trace
from tests.coverage_of_types import adds_up
from tests.default_configs import does_not_run

D = 24


class Tokens(nn.Module):
    """An embedding, and what a case does with it."""

    def __init__(self, then: Any, **parts: nn.Module) -> None:
        super().__init__()
        self.embed, self.parts, self.then = nn.Embedding(90, D), nn.ModuleDict(parts), then
        self.places: int | None = None

    def forward(self, input_ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.then(self, self.embed(input_ids), input_ids, mask)


def unfit(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    return self.parts["two"](self.parts["one"](x))


def absent(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    return x.topk(self.places, -1).values


def refused(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    window = self.places
    if window is None:
        raise ValueError("the config has no window")
    return x[:, :window]


def without_mask(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    return x * mask[..., None]  # type: ignore[index]


def of_one_length(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    return x + torch.zeros(40, D, device=x.device)


def in_pieces(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    return x.view(x.shape[0], -1, 5, D).mean(2)


def of_many_words(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    a, b, c = ids.shape
    return x[:a, :b, :c]


def runs(self: Any, x: Tensor, ids: Tensor, mask: Tensor | None) -> Tensor:
    return self.parts["one"](x)


PARTS = {"one": nn.Linear(D, 3 * D), "two": nn.Linear(2 * D, D)}


@pytest.mark.parametrize("then", [unfit, absent, refused])
def test_a_model_that_no_inputs_make_run_is_told_with_where_it_fails(then: Any) -> None:
    model = Tokens(then, **PARTS).to("meta")
    assert "test_what_is_not_counted.py" in does_not_run(model, {"input_ids": torch.ones(2, 16, dtype=torch.long)})


@pytest.mark.parametrize("then", [without_mask, of_one_length, in_pieces, of_many_words, runs])
def test_a_model_that_other_inputs_may_make_run_is_not(then: Any) -> None:
    model = Tokens(then, **PARTS).to("meta")
    assert does_not_run(model, {"input_ids": torch.ones(2, 16, dtype=torch.long)}) == ""


def convolutions(x: Tensor, w: nn.Linear) -> Tensor:
    return torch.relu(w(torch.relu(w(x)))) * torch.sigmoid(w(x))


def pyramid(x: Tensor, w: nn.Linear) -> Tensor:
    return w(torch.cat([x, w(x)], -1)[..., :D])


def attended(x: Tensor, w: nn.Linear) -> Tensor:
    return torch.softmax(w(x) @ x.mT, -1) @ x


def skipped(x: Tensor, w: nn.Linear) -> Tensor:
    return x + w(x)


def stacked(x: Tensor, w: nn.Linear) -> Tensor:
    return torch.stack([x, w(x)]).sum(0)


def mixed(x: Tensor, w: nn.Linear) -> Tensor:
    return torch.ones(1, 2, device=x.device) @ torch.cat([x[:, :1], w(x)[:, :1]], 1)


def written(x: Tensor, w: nn.Linear) -> Tensor:
    kept = torch.stack([w(x), x])
    kept[0] = kept[0] * 2
    return kept.mean(0)


@pytest.mark.parametrize(("forward", "adds"), [(convolutions, False), (pyramid, False), (attended, False), (skipped, True), (stacked, True),
                                               (mixed, True), (written, True)])  # fmt: skip
def test_a_model_has_no_stream_where_nothing_is_added_to_what_it_was_made_from(forward: Any, adds: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(D, D)

        def forward(self, x: Tensor) -> Tensor:
            return forward(x, self.w)

    assert adds_up(trace(Model(), (torch.empty(2, 16, D, device="meta"),), {})) is adds
