"""Inputs that fit a model that says nothing about them, and inputs that the user states."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from screen.capture.build.build import Built, build_object
from screen.capture.inputs.context import free_lengths
from screen.capture.trace.tracer import trace
from screen.errors import UsageError


class _Module(nn.Module):
    """A module with a forward given as a function, so that a test is one line."""

    def __init__(self, forward: Any, **parts: nn.Module | nn.Parameter) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._forward = forward
        self.forward = forward.__get__(self)  # the signature without `self`


def shapes(b: Built) -> list[Any]:
    return [tuple(v.shape) if isinstance(v, Tensor) else v for v in [*b.args, *b.kwargs.values()]]


def sequence(self: Any, x: Any) -> Any:
    return self.proj(self.norm(x))


def tokens(self: Any, idx: Any, targets: Any = None) -> Any:
    return self.head(self.embed(idx))


def image(self: Any, img: Any) -> Any:
    return self.patch(img).flatten(2).transpose(1, 2) + self.pos


def signal(self: Any, wave: Any) -> Any:
    return self.conv(wave)


def seq2seq(self: Any, src: Any, tgt: Any) -> Any:
    return self.cross(self.embed(tgt), self.embed(src), self.embed(src))[0]


def cross(self: Any, x: Any, memory: Any) -> Any:
    return x + self.attn(x, memory, memory)[0]


def masked(self: Any, x: Any, mask: Any) -> Any:
    return self.attn(x, x, x, attn_mask=mask)[0]


def diffusion(self: Any, x: Any, t: Any, y: Any) -> Any:
    h = self.patch(x).flatten(2).transpose(1, 2)
    return h + self.label(y)[:, None] + self.time(t[:, None].to(h.dtype))[:, None]


def conditioned(self: Any, x: Any, cond: Any) -> Any:
    return x * self.gain(cond)[:, None]


def fixed_length(self: Any, x: Any) -> Any:
    return x + self.mix(self.norm(x).transpose(1, 2)).transpose(1, 2)


def reads(self: Any, x: Any) -> Any:
    return self.proj(x) if bool((x.sum() > 0).item()) else x


def many(self: Any, *xs: Any) -> Any:
    return self.proj(xs[0])


CASES: dict[str, tuple[nn.Module, list[Any]]] = {
    "width from the first layer": (_Module(sequence, norm=nn.LayerNorm(48), proj=nn.Linear(48, 96)), [(2, 16, 48)]),
    "16 gives way to 17": (_Module(sequence, norm=nn.LayerNorm(16), proj=nn.Linear(16, 8)), [(2, 17, 16)]),
    "token ids": (_Module(tokens, embed=nn.Embedding(100, 32), head=nn.Linear(32, 100)), [(2, 16)]),
    "image side from the positions": (_Module(image, patch=nn.Conv2d(3, 32, 8, 8), pos=nn.Parameter(torch.zeros(1, 36, 32))), [(2, 3, 48, 48)]),
    "signal": (_Module(signal, conv=nn.Conv1d(80, 32, 3)), [(2, 80, 16)]),
    "encoder and decoder": (_Module(seq2seq, embed=nn.Embedding(90, 32), cross=nn.MultiheadAttention(32, 4, batch_first=True)), [(2, 16), (2, 17)]),
    "memory of another length": (_Module(cross, attn=nn.MultiheadAttention(32, 4, batch_first=True)), [(2, 16, 32), (2, 17, 32)]),
    "a mask may be left out": (_Module(masked, attn=nn.MultiheadAttention(32, 4, batch_first=True)), [(2, 16, 32), None]),
    "image, time, label": (
        _Module(diffusion, patch=nn.Conv2d(4, 32, 2, 2), label=nn.Embedding(10, 32), time=nn.Linear(1, 32)),
        [(2, 4, 224, 224), (2,), (2,)],
    ),
    "condition vector": (_Module(conditioned, gain=nn.Linear(24, 24)), [(2, 16, 24), (2, 24)]),
    "length fixed by the weights": (_Module(fixed_length, norm=nn.LayerNorm(24), mix=nn.Linear(40, 40)), [(2, 40, 24)]),
    "a forward that reads values": (_Module(reads, proj=nn.Linear(24, 24)), [(2, 16, 24)]),
    "*args": (_Module(many, proj=nn.Linear(24, 24)), [(2, 16, 24)]),
    "an encoder of torch": (nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2), [(2, 16, 32)]),
    "an encoder and decoder of torch": (nn.Transformer(32, 4, 1, 1, 64, batch_first=True), [(2, 16, 32), (2, 17, 32)]),
    "recurrent": (nn.LSTM(24, 40, batch_first=True), [(2, 16, 24)]),
}


@pytest.mark.by_the_day
@pytest.mark.parametrize("case", CASES)
def test_inputs_are_told_from_the_weights(case: str) -> None:
    model, expected = CASES[case]
    [b] = build_object(model)
    assert shapes(b) == expected


def test_ids_have_values_and_floats_have_none() -> None:
    [ids] = build_object(CASES["token ids"][0])[0].kwargs.values()
    assert ids.device.type == "cpu" and int(ids.min()) >= 3 and int(ids.max()) < 100 and not torch.equal(ids[0], ids[1])
    [x] = build_object(CASES["width from the first layer"][0])[0].kwargs.values()
    assert x.device.type == "meta" and x.dtype == torch.float32


def test_floats_have_the_dtype_of_the_weights() -> None:
    model = _Module(sequence, norm=nn.LayerNorm(48), proj=nn.Linear(48, 96)).bfloat16()
    assert build_object(model)[0].kwargs["x"].dtype == torch.bfloat16


def test_lengths_equal_no_size_of_the_model() -> None:
    assert free_lengths(nn.Linear(16, 19))[:2] == [17, 23]
    assert free_lengths(nn.Linear(16, 19), limit=16) == [13, 11, 7, 5]


def test_when_nothing_fits_the_likely_inputs_are_traced_to_the_failure() -> None:
    def forward(self: Any, x: Any) -> Any:
        raise RuntimeError("never")

    [b] = build_object(_Module(forward, proj=nn.Linear(24, 4)))
    failure = trace(b.model, b.args, b.kwargs).failure
    assert shapes(b) == [(2, 16, 24)] and failure is not None and failure.message == "RuntimeError: never"


def spreading(self: Any, x: Any, shift: Any) -> Any:
    return x + self.proj(shift)[:, None]


def test_inputs_that_broadcast_into_another_axis_are_passed_over() -> None:
    assert shapes(build_object(_Module(spreading, proj=nn.Linear(24, 24)))[0]) == [(2, 16, 24), (2, 24)]


# -- stated by the user ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("x=float32[3,5,48]",), [(3, 5, 48)]),
        (("bfloat16[3, 5, 48]",), [(3, 5, 48)]),
        (("memory=float32[2,9,32]",), [(2, 9, 32), (2, 16, 32)]),
    ],
)
def test_stated_inputs_replace_inferred_ones(texts: tuple[str, ...], expected: list[Any]) -> None:
    model = CASES["memory of another length" if "memory" in texts[0] else "width from the first layer"][0]
    [b] = build_object(model, inputs=texts)
    assert sorted(shapes(b)) == sorted(expected)


def test_a_stated_value_may_be_json() -> None:
    def forward(self: Any, x: Any, scale: Any) -> Any:
        return self.proj(x) * scale["by"]

    [b] = build_object(_Module(forward, proj=nn.Linear(24, 4)), inputs=('scale={"by": 2.0}',))
    assert b.kwargs["scale"] == {"by": 2.0} and tuple(b.kwargs["x"].shape) == (2, 16, 24)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y=float32[1]", "there is no `y`"),
        ("x=flaot32[1]", "Did you mean `float32`"),
        ("x=float32(1)", "must be `NAME=DTYPE"),
        ("x=", "must be `NAME=DTYPE"),
    ],
)
def test_inputs_that_cannot_be_read_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_object(CASES["width from the first layer"][0], inputs=(text,))


@pytest.mark.parametrize("example", [torch.ones(3, 7, 48), (torch.ones(3, 7, 48),), {"x": torch.ones(3, 7, 48)}, [torch.ones(3, 7, 48)]])
def test_example_inputs_come_in_four_forms(example: Any) -> None:
    assert shapes(build_object(CASES["width from the first layer"][0], example_inputs=example)[0]) == [(3, 7, 48)]


def test_example_inputs_of_another_form_are_refused() -> None:
    with pytest.raises(UsageError, match="is a `int`"):
        build_object(CASES["width from the first layer"][0], example_inputs=3)
