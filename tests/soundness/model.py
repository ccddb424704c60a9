"""From a design to a module in float64: branches with norms around them, multipliers, twists, and the stream that they are added to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tests.soundness import mixers
from tests.soundness.attention import Attention
from tests.soundness.grammar import ATTENTIONS, Design, Part
from tests.soundness.norms import Norm


def mixer_of(part: Part, width: int, tokens: int) -> nn.Module:
    """The mixer or feed-forward of a branch."""
    sub = (lambda n: Norm(part.sub_norm, n)) if part.sub_norm and part.sub_norm not in ("batch",) else None
    act, bias = part.act, part.bias
    if part.mixer in ATTENTIONS:
        return Attention(part.attend, width, bias)
    if part.mixer.startswith("moe"):
        return mixers.Experts(part.mixer, width, act, bias)
    found: dict[str, Any] = {
        "linear_attention": lambda: mixers.LinearAttention(width, act, bias, sub),
        "conv": lambda: mixers.Convolution(width, act, bias),
        "pool": lambda: mixers.Pool(act),
        "fourier": lambda: mixers.Fourier(act),
        "token_mlp": lambda: mixers.TokenMlp(tokens, act, bias),
        "scan": lambda: mixers.Scan(width, bias),
        "ssm": lambda: mixers.StateSpace(width, act, bias, sub),
        "gate": lambda: mixers.Gate(width, act, bias),
    }
    module: nn.Module = found.get(part.mixer, lambda: mixers.FeedForward(part.mixer, width, act, bias, sub))()
    return module


class UnitLinear(nn.Module):
    """A map whose rows are normalised in the forward: bounded whatever the weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, F.normalize(self.weight, dim=-1))


def _written(y: Tensor) -> Tensor:
    half = y.shape[-1] // 2
    out = torch.zeros_like(y)
    out[..., :half] = y[..., half : 2 * half]
    out[..., half:] = 2.0 * y[..., half:]
    return out


def _statistics(y: Tensor) -> Tensor:
    return y / (1.0 + y.std(-1, keepdim=True)) + y.var(-1, keepdim=True) + y.norm(dim=-1, keepdim=True) + y.amax(1, keepdim=True)


def _deviation_and_mean(y: Tensor) -> Tensor:
    deviation, mean = torch.std_mean(y, -1, keepdim=True)
    return (y - mean) / (1.0 + deviation) + mean


_REARRANGED = {
    "writes": _written,
    "shares": lambda y: y.abs() / (y.abs().sum(-1, keepdim=True) + 1e-3),
    "feature_shift": lambda y: F.pad(y, (1, -1)),
    "sorted": lambda y: y.sort(dim=-1).values,
    "roll": lambda y: y.roll(1, -1) - y.flip(1),
    "statistics": _statistics,
    "angle": lambda y: torch.atan2(y, y.roll(1, -1)),
    "remainder": lambda y: torch.remainder(y, 2.0),
    "copysign": lambda y: torch.copysign(y, y.roll(1, -1)),
    "clamp_table": lambda y: y.clamp(-1.0 - torch.arange(y.shape[-1], dtype=y.dtype), torch.linspace(-0.5, 3.0, y.shape[-1], dtype=y.dtype)),
    "std_mean": _deviation_and_mean,
}


class Branch(nn.Module):
    """One branch: what is added to the stream, multipliers included."""

    def __init__(self, part: Part, width: int, tokens: int) -> None:
        super().__init__()
        self.part = part
        self.before = Norm(part.input_norm, width) if part.input_norm else None
        self.after = Norm(part.output_norm, width) if part.output_norm else None
        self.mixer = mixer_of(part, width, tokens)
        learned = {"learned": (), "rezero": (), "layerscale": (width,), "tanh_gate": ()}
        self.factor = nn.Parameter(torch.ones(learned[part.scale])) if part.scale in learned else None
        self.vector = nn.Parameter(torch.zeros(width)) if part.twist in ("bias_before_norm", "gain_after_norm", "tanh_then_gain") else None
        self.places = nn.Parameter(torch.zeros(tokens, width)) if part.twist == "position" else None
        plain = part.twist in ("matrix_after_norm", "raw_gate", "data_gain", "weight_norm", "concat", "halves", "tied")
        self.map: nn.Module | None = nn.Linear(width * 2 if part.twist == "concat" else width, width, part.bias) if plain else None
        if part.twist == "weight_norm" and self.map is not None:
            self.map = parametrizations.weight_norm(self.map)
        if part.twist == "unit_weight":
            self.map = UnitLinear(width)
        self.second = Norm("hand_rms", width) if part.twist == "double_norm" else None

    def forward(self, x: Tensor) -> Tensor:
        h = x if self.before is None else self.before(x)
        if self.places is not None:
            h = h + self.places
        y = self.mixer(h)
        y = self.inside(x, h, y)
        if self.after is not None:
            y = self.after(y)
        return self.scaled(self.outside(x, h, y))

    def inside(self, x: Tensor, h: Tensor, y: Tensor) -> Tensor:
        """Twists before the output norm."""
        twist = self.part.twist
        if twist == "bias_before_norm":
            return y + self.vector
        if twist == "raw_gate" and self.map is not None:
            return y * torch.sigmoid(self.map(x))
        if twist == "bypass":
            return y + 0.5 * x
        if twist == "inner_skip":
            return y + h
        if twist == "self_product":
            return y * h
        if twist == "concat" and self.map is not None:
            return self.map(torch.cat([y, h], -1))
        if twist == "times_stream":
            return y * x
        if twist in _REARRANGED:
            return _REARRANGED[twist](y)
        if twist == "tied" and self.map is not None:
            return F.linear(torch.tanh(F.linear(y, self.map.weight)), self.map.weight.t())
        if twist == "mean_gate":
            return y * torch.sigmoid(h.mean(-1, keepdim=True)) + y.mean(1, keepdim=True)
        return y

    def outside(self, x: Tensor, h: Tensor, y: Tensor) -> Tensor:
        """Twists after the output norm."""
        twist = self.part.twist
        if twist == "gain_after_norm":
            return y * (1.0 + self.vector)
        if twist == "tanh_then_gain":
            return torch.tanh(y) * self.vector
        if twist in ("matrix_after_norm", "weight_norm", "unit_weight") and self.map is not None:
            return self.map(y)
        if twist == "data_gain" and self.map is not None:
            return y * (1.0 + self.map(h.mean(1, keepdim=True)))
        if twist == "double_norm" and self.second is not None:
            return self.second(y)
        if twist == "normed_times_stream":
            return y * x
        if twist == "clamp":
            return y.clamp(-3.0, 2.0)
        if twist == "halves" and self.map is not None:
            first, second = self.map(y).chunk(2, -1)
            return torch.cat([first * second, first - second], -1)
        return y

    def scaled(self, y: Tensor) -> Tensor:
        """The branch multiplier."""
        kind = self.part.scale
        if self.factor is not None:
            return y * (torch.tanh(self.factor) if kind == "tanh_gate" else self.factor)
        if kind.startswith("times "):
            return float(kind[6:]) * y
        return {"constant": 0.25 * y, "negative": -1.5 * y}.get(kind, y) if kind in ("constant", "negative") else y


def _halves_swapped(x: Tensor) -> Tensor:
    first, second = x.split(x.shape[-1] // 2, -1)
    return torch.cat([second, first], -1)


_CARRIED = {
    "doubled": lambda x: x + x,
    "sum_of_three": lambda x: sum([x, x.roll(1, -1), x]),
    "mean": lambda x: x + x.mean(1, keepdim=True),
    "roll": lambda x: x.roll(1, 1),
    "flip": lambda x: x.flip(-1),
    "swapped": lambda x: x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2),
    "cat_swapped": _halves_swapped,
    "alias": lambda x: x[:].view_as(x).contiguous(),
    "lerp": lambda x: torch.lerp(x, x.flip(1), 0.25),
    "clamp": lambda x: x.clamp(-1e3, 1e3),
    "token_mix": lambda x: torch.einsum("ij,bjd->bid", torch.eye(x.shape[1], dtype=x.dtype).roll(1, 0) * 0.5, x).contiguous(),
    "diagonal": lambda x: x * torch.linspace(0.5, 1.0, x.shape[-1], dtype=x.dtype),
}
_ENDED = {
    "halved": lambda x: 0.5 * x,
    "tanh": torch.tanh,
    "slices": lambda x: torch.cat([x[..., :1], x[..., 1:] - 0.5 * x[..., :-1]], -1),
    "centred": lambda x: x - x.mean(-1, keepdim=True),
}


class Block(nn.Module):
    """x ← E(C(α A x + F(x))), one after the other or side by side; A moves or mixes entries, E stands at the end of the block."""

    def __init__(self, design: Design, number: int) -> None:
        super().__init__()
        self.design = design
        parts = [design.part(place, number) for place in range(len(design.parts))]
        self.branches = nn.ModuleList(Branch(p, design.width, design.tokens) for p in parts)
        count = 1 if design.parallel else len(design.parts)
        self.norms = nn.ModuleList(Norm(design.stream_norm, design.width) for _ in range(count)) if design.stream_norm else None
        self.alpha = nn.Parameter(torch.ones(())) if design.alpha == "learned" else None
        self.carry = nn.Linear(design.width, design.width) if design.alpha in ("gate", "boost") else None
        self.gain = nn.Parameter(torch.ones(design.width)) if design.end == "gain" else None
        self.map = nn.Linear(design.width, design.width, bias=False) if design.end == "matrix" else None

    def forward(self, x: Tensor) -> Tensor:
        begin = x
        if self.design.parallel:
            return self.ended(self.normed(self.added(x, self.branches[0](x)) + self.branches[1](x), 0), begin)
        for number, branch in enumerate(self.branches):
            x = self.normed(self.added(x, branch(x)), number)
        return self.ended(x, begin)

    def added(self, x: Tensor, y: Tensor) -> Tensor:
        """What is carried of x, plus y."""
        carry, kept = self.design.carry, self.kept(x)
        if carry == "in_place":
            out = kept.clone()
            out += y
            return out
        if carry == "fused_add":
            return torch.add(kept, y, alpha=1)
        if carry == "by_where":
            return torch.where(torch.arange(kept.shape[1])[:, None] % 2 == 0, kept + y, kept)
        if carry == "stacked":
            return torch.stack([kept, y], 0).sum(0)
        return _CARRIED.get(carry, lambda t: t)(kept) + y

    def ended(self, x: Tensor, begin: Tensor) -> Tensor:
        """What stands behind the last add."""
        end = self.design.end
        if self.gain is not None:
            return x * self.gain
        if self.map is not None:
            return self.map(x)
        if end == "first_again":
            return x + begin
        return _ENDED.get(end, lambda t: t)(x)

    def kept(self, x: Tensor) -> Tensor:
        """α x."""
        if self.alpha is not None:
            return self.alpha * x
        if self.carry is not None:
            return x * (torch.sigmoid(self.carry(x)) if self.design.alpha == "gate" else 1.0 + torch.tanh(self.carry(x)))
        return 1.5 * x if self.design.alpha == "constant" else x

    def normed(self, x: Tensor, number: int) -> Tensor:
        """The norm on the stream."""
        return x if self.norms is None else self.norms[number](x)


class Model(nn.Module):
    """Blocks on a stream. x: [batch, tokens, width]."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(design, number) for number in range(design.depth))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@contextmanager
def bare(model: nn.Module) -> Iterator[None]:
    """A model in which branches add nothing."""
    hooks = [b.register_forward_hook(lambda *call: torch.zeros_like(call[2])) for b in model.modules() if isinstance(b, Branch)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


BATCH = 2


def build(design: Design, device: str = "cpu") -> nn.Module:
    """The model of a design, in float64 and in evaluation."""
    with torch.device(device):
        return Model(design).double().eval()


def example(design: Design, device: str = "cpu") -> Tensor:
    """An input of the right shape."""
    return torch.zeros(BATCH, design.tokens, design.width, dtype=torch.float64, device=device)
