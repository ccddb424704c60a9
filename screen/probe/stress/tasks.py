"""Synthetic tasks for a short training, made from a seed: nothing is downloaded. Which one a model gets follows from its inputs and its output.

All of them ask for the same two things: find out which of a few maps is meant (attention, from a key that stands first), and apply it (the FFN).

* `tokens`, ids [b, n] → logits [b, n, V]: the first id is a key k of 4, the others are symbols x of K = 32 (or fewer). Target of each symbol:
  π_k(x) for a fixed random permutation π_k, or, with probability ε = 0.2, any symbol. Best mean loss (nats), with q = 1 − ε + ε/K:
  floor = −q·ln q − (K − 1)·(ε/K)·ln(ε/K); the best constant answer has ln K. Inputs are independent of each other, so that a model that sees the
  whole sequence can guess no better than a causal one.
* `sequence`, floats [b, n, d] → [b, n, d'] or [b, d']: the first vector is one of 4 fixed random vectors c_k, the others are N(0, 1). Target:
  tanh(x·W_k), or its mean over the tokens times √n; where the output has the form of the input, x + tanh(x·W_k), which a stream that carries x can
  reach. Loss: mean square error over that of tanh(x·W_k). Floor 0, and 1 for the constant answer (x where x is a part of the target).
* `image`, floats [b, c, h, w] → [b, C], or [b, n, C] or [b, C, h', w'], of which the mean is taken: one of C (at most 8) fixed patterns of N(0, 1) on
  a 4 × 4 grid with noise of 0.5 on each of its fields and 0.3 on every pixel; the label is the pattern. Floor about 0; the best constant answer has
  ln C.
* `noise`, for a model that none of these fits, and never trained on: its own inputs (floats drawn anew), and the mean square distance of its first
  output of floats from N(0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from screen.capture.build.built import Built
from screen.probe.measure.leaves import Missing

BATCH = 8
KEYS = 4
SYMBOLS = (32, 16, 8)
NOISE = 0.2
GRID = 4
CLASSES = 8
FIELD_NOISE, PIXEL_NOISE = 0.5, 0.3

Batch = tuple[Tensor, Tensor]
"""Input and target."""


@dataclass(frozen=True)
class Task:
    """What a model is trained on."""

    words: str
    floor: float
    """Mean loss of the best answer."""
    trivial: float
    """Mean loss of the best answer that is learned without looking: a constant, or the input as it is."""
    batch: Callable[[torch.Generator], Batch]
    answer: Callable[[nn.Module, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]


class _Call:
    """The forward of a model as a function of one of its inputs; the others stay as they are, as often as the batch is large."""

    def __init__(self, built: Built, seed: int) -> None:
        leaves, self._form = tree_flatten((built.args, dict(built.kwargs)))
        g = torch.Generator().manual_seed(seed)
        self.leaves = [_value(v, g) for v in leaves]
        self.tensors = [i for i, v in enumerate(self.leaves) if isinstance(v, Tensor)]
        if not self.tensors:
            raise Missing("its forward takes no tensor")
        self.main = self.tensors[0]

    def output(self, model: nn.Module, x: Tensor | None = None) -> Any:
        leaves = list(self.leaves)
        if x is not None:
            rows = self.leaves[self.main].shape[0]
            for i in self.tensors:
                value = leaves[i]
                if value.dim() and value.shape[0] == rows and i != self.main:
                    leaves[i] = value.repeat(-(-x.shape[0] // rows), *[1] * (value.dim() - 1))[: x.shape[0]]
                leaves[i] = leaves[i].to(x.device)
            leaves[self.main] = x
        args, kwargs = tree_unflatten(leaves, self._form)
        return model(*args, **kwargs)


def task_of(built: Built, model: nn.Module, seed: int) -> Task:
    """The task that fits a model. Raises `Missing`."""
    call = _Call(built, seed)
    with torch.no_grad():
        one = model[0] if isinstance(model, nn.ModuleList) else model
        tensors = [t for t in tree_leaves(_plain(call.output(one))) if isinstance(t, Tensor) and t.is_floating_point()]
    if not tensors:
        raise Missing("its output holds no tensor of floats")
    shape = tensors[0].shape
    ids = [i for i in call.tensors if not call.leaves[i].is_floating_point() and call.leaves[i].shape == shape[:2] and _varies(call.leaves[i])]
    main = call.leaves[call.main]
    if ids and len(shape) == 3:
        call.main = ids[-1]  # of an encoder and a decoder the latter
        return _tokens(call, model, shape, seed)
    if main.is_floating_point() and main.dim() == 3 and len(shape) in (2, 3) and shape[: len(shape) - 1] == main.shape[: len(shape) - 1]:
        return _sequence(call, shape, seed)
    if main.is_floating_point() and main.dim() == 4 and len(shape) in (2, 3, 4) and shape[0] == main.shape[0] and _width(shape) > 1:
        return _image(call, shape, seed)
    raise Missing(f"no task fits an input {list(main.shape)} ({str(main.dtype).removeprefix('torch.')}) and an output {list(shape)}")


def noise_of(built: Built, model: nn.Module, seed: int) -> Task:
    """A loss for any model. Raises `Missing` where it gives no floats."""
    call = _Call(built, seed)
    main = call.leaves[call.main]

    def answer(model: nn.Module, x: Tensor) -> Tensor:
        found = [t for t in tree_leaves(_plain(call.output(model, x))) if isinstance(t, Tensor) and t.is_floating_point()]
        if not found:
            raise Missing("its output holds no tensor of floats")
        return found[0]

    with torch.no_grad():
        shape = answer(model, main).shape

    def batch(g: torch.Generator) -> Batch:
        x = torch.randn(main.shape, generator=g) if main.is_floating_point() else main
        return x, torch.randn(shape, generator=g)

    return Task("its own inputs, and outputs that are N(0, 1)", 1.0, 1.0, batch, answer, lambda out, y: (out.float() - y).square().mean())


def _value(value: Any, g: torch.Generator) -> Any:
    """An argument with numbers: N(0, 1) for floats without any."""
    if not isinstance(value, Tensor) or value.device.type != "meta":
        return value
    if not value.is_floating_point():
        raise Missing(f"an argument {list(value.shape)} of {str(value.dtype).removeprefix('torch.')} has no values")
    return torch.randn(value.shape, generator=g, dtype=torch.float32)


def _varies(ids: Tensor) -> bool:
    """Ids differ from each other; masks and kinds of tokens are constant."""
    return bool((ids != ids.flatten()[0]).any()) if ids.numel() and ids.dtype != torch.bool else False


def _plain(output: Any) -> Any:
    """An output class of transformers as a list of its values."""
    return list(output.values()) if isinstance(output, dict) else output


def _answer(call: _Call, shape: torch.Size) -> Callable[[nn.Module, Tensor], Tensor]:
    """The first tensor of the output that has as many axes, and the same last one; a list of blocks is run one after the other."""

    def answer(model: nn.Module, x: Tensor) -> Tensor:
        for layer in model if isinstance(model, nn.ModuleList) else [model]:
            found = tree_leaves(_plain(call.output(layer, x)))
            x = next(t for t in found if isinstance(t, Tensor) and t.is_floating_point() and t.dim() == len(shape) and t.shape[-1] == shape[-1])
        return x

    return answer


def _tokens(call: _Call, model: nn.Module, shape: torch.Size, seed: int) -> Task:
    n, width = shape[1], shape[2]
    answer = _answer(call, shape)
    count = next((k for k in SYMBOLS if k <= width and _takes(answer, model, torch.full((BATCH, n), k + KEYS - 1))), None)
    if count is None or n < 2:
        raise Missing(f"its vocabulary must hold {SYMBOLS[-1] + KEYS} tokens, and a sequence two")
    maps = torch.stack([torch.randperm(count, generator=_generator(seed, k)) for k in range(KEYS)])

    def batch(g: torch.Generator) -> Batch:
        key = torch.randint(KEYS, (BATCH, 1), generator=g)
        x = torch.randint(count, (BATCH, n - 1), generator=g)
        noisy = torch.rand(x.shape, generator=g) < NOISE
        y = torch.where(noisy, torch.randint(count, x.shape, generator=g), maps[key, x])
        return torch.cat([count + key, x], 1), y

    def loss(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out[:, 1:].float().flatten(0, 1), y.flatten())

    q, rest = 1 - NOISE + NOISE / count, NOISE / count
    floor = -q * math.log(q) - (count - 1) * rest * math.log(rest)
    return Task(f"one of {KEYS} permutations of {count} tokens, named by the first", floor, math.log(count), batch, answer, loss)


def _takes(answer: Callable[[nn.Module, Tensor], Tensor], model: nn.Module, ids: Tensor) -> bool:
    try:
        with torch.no_grad():
            answer(model, ids)
    except (IndexError, RuntimeError):
        return False
    return True


def _sequence(call: _Call, shape: torch.Size, seed: int) -> Task:
    _, n, d = call.leaves[call.main].shape
    g = _generator(seed, 0)
    carried = tuple(shape[1:]) == (n, d)
    keys = torch.randn(KEYS, d, generator=g)
    maps = torch.randn(KEYS, d, shape[-1], generator=g) / math.sqrt(d)

    def batch(g: torch.Generator) -> Batch:
        key = torch.randint(KEYS, (BATCH,), generator=g)
        x = torch.cat([keys[key][:, None], torch.randn(BATCH, n - 1, d, generator=g)], 1)
        y = torch.tanh(torch.einsum("bnd,bde->bne", x, maps[key]))
        y = y if len(shape) == 3 else y.mean(1) * math.sqrt(n)
        return x, torch.stack([y + x if carried else y, y])

    def loss(out: Tensor, y: Tensor) -> Tensor:
        return (out.float() - y[0]).square().mean() / y[1].square().mean()

    return Task(f"regression onto one of {KEYS} maps, named by the first token", 0.0, 1.0, batch, _answer(call, shape), loss)


def _image(call: _Call, shape: torch.Size, seed: int) -> Task:
    _, c, h, w = call.leaves[call.main].shape
    count = min(CLASSES, _width(shape))
    patterns = torch.randn(count, c, GRID, GRID, generator=_generator(seed, 0))

    def batch(g: torch.Generator) -> Batch:
        y = torch.randint(count, (BATCH,), generator=g)
        fields = patterns[y] + FIELD_NOISE * torch.randn(BATCH, c, GRID, GRID, generator=g)
        return F.interpolate(fields, (h, w)) + PIXEL_NOISE * torch.randn(BATCH, c, h, w, generator=g), y

    def loss(out: Tensor, y: Tensor) -> Tensor:
        pooled = out.mean(1) if out.dim() == 3 else out.flatten(2).mean(2) if out.dim() == 4 else out
        return F.cross_entropy(pooled.float(), y)

    return Task(f"{count} patterns on a {GRID} by {GRID} grid under noise", 0.0, math.log(count), batch, _answer(call, shape), loss)


def _width(shape: torch.Size) -> int:
    """Features of [b, C], [b, tokens, C] or [b, C, h, w]."""
    return shape[2] if len(shape) == 3 else shape[1]


def _generator(seed: int, place: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1009 + 7 + place)


__all__ = ["BATCH", "Task", "noise_of", "task_of"]
