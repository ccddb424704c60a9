"""Inputs are tried many times: what must come out as before is not run again, and nothing else is passed over."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from screen.capture.inputs.idle import Idle
from screen.capture.inputs.transformers import _Trials
from screen.capture.inputs.trial import outcome
from screen.capture.trace.meta_memo import Remembered

WIDTH = 8


class Counted(nn.Module):
    """A part that counts its calls on meta."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = nn.Linear(WIDTH, WIDTH), 0

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        self.calls += 1
        return self.inner(x) * scale


class Prompted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.prompts, self.joined, self.never = (Counted() for _ in range(4))

    def forward(self, x: Tensor, points: Tensor | None = None, scale: float = 1.0) -> Tensor:
        x = self.encoder(x, scale=scale)
        if points is None:
            return x
        if points.shape[1] == 3:
            raise ValueError("three points")
        return self.joined(x + self.prompts(points))


def test_an_encoder_runs_once_for_all_prompts() -> None:
    model = Prompted().to("meta")
    idle, x = Idle(model), torch.zeros(2, 4, WIDTH)
    assert idle.parts({"x": x}) == {"prompts", "joined", "never"}
    assert idle.parts({"x": x, "points": torch.zeros(2, 4, WIDTH)}) == {"never"}
    assert idle.parts({"x": x, "points": torch.zeros(2, 1, WIDTH)}) == {"never"}
    assert idle.parts({"x": x, "points": torch.zeros(2, 3, WIDTH)}) is None
    assert idle.parts({"x": x}) == {"prompts", "joined", "never"}
    assert (model.encoder.calls, model.prompts.calls, model.joined.calls) == (1, 2, 2)
    assert "forward" not in vars(model.encoder) and not model.encoder._forward_pre_hooks


def test_other_tensors_and_other_numbers_are_other_calls() -> None:
    model = Prompted().to("meta")
    idle, x = Idle(model), torch.zeros(2, 4, WIDTH)
    for given in ({"x": x}, {"x": x, "scale": 2.0}, {"x": x + 1}, {"x": x, "scale": 2.0}):
        assert idle.parts(given) == {"prompts", "joined", "never"}
    assert model.encoder.calls == 3


class Deep(nn.Module):
    """Its whole stack refuses two tokens as two layers do; three it refuses for a layer that is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] == 2:
            raise LookupError("no two tokens")
        if x.shape[1] == 3 and len(self.layers) < 6:
            raise LookupError("not deep enough")
        for layer in self.layers:
            x = layer(x)
        return x


def test_the_whole_model_is_not_asked_again_for_a_failure_of_both() -> None:
    trials, asked = _Trials(Deep()), list[int]()
    whole = trials.whole

    def counted(kwargs: dict[str, Tensor]) -> object:
        asked.append(kwargs["x"].shape[1])
        return whole(kwargs)

    trials.whole = counted  # type: ignore[assignment,method-assign]
    found = [trials.run({"x": torch.zeros(2, tokens, WIDTH)})[0].error for tokens in (2, 2, 3, 3, 2, 5)]
    assert [str(e) for e in found] == ["no two tokens", "no two tokens", "None", "None", "no two tokens", "None"]
    assert asked == [2, 3, 3, 5]


class Written(nn.Module):
    """Views, writes, casts, an op of several results and one that fails for more than four tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.wide(self.norm(x)).half()
        y[:, 0] += 1
        best, place = y.transpose(1, 2).topk(3)
        return y.view(-1, WIDTH), best, place, x.new_zeros(4, WIDTH) + x


def test_what_an_earlier_trial_asked_is_known_and_gives_the_same() -> None:
    model, x = Written().to("meta"), torch.zeros(2, 4, WIDTH, device="meta")
    wanted = [(tuple(t.shape), t.stride(), t.dtype) for t in model(x)]
    Remembered.memo.made.clear()
    first = outcome(model, (x,), {})
    asked = len(Remembered.memo.made)
    again = outcome(model, (x,), {})
    assert asked and len(Remembered.memo.made) == asked
    for found in (first, again):
        assert [(tuple(t.shape), t.stride(), t.dtype) for t in found.output] == wanted
    for _ in range(2):
        assert "length 6" in str(outcome(model, (torch.zeros(2, 6, WIDTH),), {}).error)
