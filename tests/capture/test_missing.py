"""Arguments that turn out to be missing, and plans that find them."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from screen.capture.inputs import transformers as inputs
from screen.capture.inputs.context import Lookup
from screen.capture.inputs.missing import missing
from screen.capture.inputs.registry import Like
from screen.capture.inputs.transformers import alternatives, arguments, combinations, single
from screen.capture.inputs.trial import outcome


def passed_on(function: Any) -> Any:
    """A decorator as libraries have them."""

    @functools.wraps(function)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return wrapper


class Inner(nn.Module):
    """Uses what it was given under another name than the caller's."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(24, 24)

    @passed_on
    def forward(self, states: Tensor, bias: Tensor | None = None, spare: Tensor | None = None) -> Tensor:
        return self.proj(states) + bias.unsqueeze(1)  # type: ignore[union-attr]


class Outer(nn.Module):
    """Its forward runs with `memory` only; `unused` and `cache` are `None` on the same line and do no harm."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 24)
        self.inner = Inner()

    @passed_on
    def forward(
        self, input_ids: Tensor, memory: Tensor | None = None, unused: Tensor | None = None, cache: dict[str, Any] | None = None
    ) -> Tensor:
        found: Tensor = self.inner(
            self.embed(input_ids),
            bias=memory,
            spare=unused,
        )
        return found


class Cached(nn.Module):
    """What it misses is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 24)

    def forward(self, input_ids: Tensor, cache: dict[int, Any] | None = None) -> Tensor:
        return self.embed(input_ids) + cache[0].sum()  # type: ignore[index]


class Reading(Outer):
    """Reads a value first, so that it has to be traced."""

    def forward(self, input_ids: Tensor, memory: Tensor | None = None) -> Any:
        return super().forward(input_ids, memory) if bool((input_ids > 2).all()) else None


def test_the_argument_that_was_none_is_named_through_calls_and_decorators() -> None:
    found = outcome(Outer().to("meta"), (), {"input_ids": torch.ones(2, 7, dtype=torch.long)})
    assert isinstance(found.error, AttributeError) and found.missing == ("memory",) and not found.traced


def test_the_argument_that_was_none_is_named_after_a_read_of_a_value() -> None:
    found = outcome(Reading().to("meta"), (), {"input_ids": torch.full((2, 7), 5)})
    assert found.traced and found.missing == ("memory",)


def test_nothing_is_missing_where_the_failure_speaks_of_something_else() -> None:
    wrong = outcome(Outer().to("meta"), (), {"input_ids": torch.ones(2, 7, dtype=torch.long), "memory": torch.ones(2, 5)})
    assert wrong.error is not None and wrong.missing == ()
    assert missing(Outer(), AttributeError("'NoneType' object has no attribute 'shape'")) == ()


class ReadingTwo(Reading):
    """Has more than one argument that is given anyway, so that there are trials, which trace."""

    def forward(self, input_ids: Tensor, image: Tensor, memory: Tensor | None = None) -> Any:
        return super().forward(input_ids, memory)


@pytest.mark.parametrize("model", [Outer(), ReadingTwo()])
def test_a_missing_argument_is_given(model: nn.Module) -> None:
    kwargs = arguments(Lookup(model))[1]
    assert tuple(kwargs["input_ids"].shape) == (2, 16) and kwargs["memory"].shape[-1] == 24 and "unused" not in kwargs
    assert outcome(model.to("meta"), (), kwargs).error is None


def test_a_model_that_takes_tokens_alone_is_not_traced_for_its_inputs() -> None:
    assert list(arguments(Lookup(Reading()))[1]) == ["input_ids"]
    assert outcome(Reading().to("meta"), (), {"input_ids": torch.full((2, 7), 5)}, tracing=False).error is None


def test_what_is_no_tensor_is_not_made_up() -> None:
    assert list(arguments(Lookup(Cached()))[1]) == ["input_ids"]


class Partless(Outer):
    """A part of it is left out: nothing that is passed is at fault."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = None  # type: ignore[assignment]


def test_a_part_that_is_not_there_is_no_missing_argument() -> None:
    found = outcome(Partless().to("meta"), (), {"input_ids": torch.ones(2, 7, dtype=torch.long)})
    assert "'NoneType' object is not callable" in str(found.error) and found.missing == ()


class Deaf(nn.Module):
    """Takes images too, by a part that is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 24)
        self.tower = None

    def forward(self, input_ids: Tensor, pixel_values: Tensor | None = None) -> Tensor:
        return self.embed(input_ids) + self.tower(pixel_values) if pixel_values is not None else self.embed(input_ids)  # type: ignore[misc]


def test_a_failure_that_no_form_mends_ends_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    run = inputs._Trials.run
    monkeypatch.setattr(inputs._Trials, "run", lambda self, kwargs: (calls.append(",".join(kwargs)), run(self, kwargs))[1])
    assert list(arguments(Lookup(Deaf()))[1]) == ["input_ids"]
    assert calls[-1] == "input_ids" and len(calls) < 20


class OneSample(nn.Module):
    """Takes a batch of one only."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, 24)

    def forward(self, input_ids: Tensor, image: Tensor) -> Tensor:
        return self.embed(input_ids).view(1, -1, 24) + image.view(1, -1)[:, :1, None].expand(1, input_ids.shape[1], 24)


def test_a_batch_of_one_is_the_last_plan() -> None:
    kwargs = arguments(Lookup(OneSample()))[1]
    assert kwargs["input_ids"].shape[0] == 1 and kwargs["image"].shape[0] == 1


def test_one_sample_of_each_argument() -> None:
    plan = {"a": [torch.ones(2, 3), None], "b": [torch.ones(3, 2)], "mask": [Like(("a",), longest=True)]}
    cut = single(plan)
    assert [tuple(v.shape) for v in (cut["a"][0], cut["b"][0])] == [(1, 3), (3, 2)] and cut["a"][1] is None and "mask" not in cut


def test_two_rules_that_make_the_same_mask_are_tried_once() -> None:
    plan = {"a": [torch.ones(2, 9, 3), torch.ones(2, 3, 9)], "mask": [Like(("a",), longest=True), Like(("a",), longest=False)]}
    found = [(tuple(k["a"].shape), tuple(k["mask"].shape)) for k in combinations(plan)]
    assert found == [((2, 9, 3), (2, 9)), ((2, 3, 9), (2, 9)), ((2, 3, 9), (2, 3))]


class Levels(nn.Module):
    """Maps of several resolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Conv2d(24, 24, 1)

    def forward(self, maps: list[Tensor]) -> Tensor:
        return sum((self.proj(m).flatten(2) for m in maps[1:]), self.proj(maps[0]).flatten(2)[..., :1])  # type: ignore[return-value]


def test_a_list_of_tensors_becomes_maps_of_two_resolutions() -> None:
    look = Lookup(Levels())
    first = alternatives(look, look.parameters["maps"])[0]
    assert [tuple(m.shape) for m in first] == [(2, 24, 16, 4), (2, 24, 8, 2)]
    assert isinstance(arguments(look)[1]["maps"], list)
