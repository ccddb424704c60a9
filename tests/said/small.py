"""Small models drawn at random: two or three blocks whose branches are compositions of calls, with norms, scales and ends as they are written."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.graph import Initialiser
from tests.rows.block import SHAPE, flat
from tests.said.drawn import Drawn, composition
from tests.said.models import derived, judged
from tests.said.plain import plain

COUNT = 150
COMPOSITIONS = 300
WORDS = 11
WIDTH = SHAPE[-1]


class Written(nn.Module):
    """A norm as a call with a gain, by place or by name."""

    def __init__(self, rms: bool) -> None:
        super().__init__()
        self.rms, self.weight = rms, nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (WIDTH,), weight=self.weight) if self.rms else F.layer_norm(x, (WIDTH,), self.weight)


class Attention(nn.Module):
    """One head over the tokens."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.causal, self.by_hand, self.normed, self.axis = (rng.random() < p for p in (0.5, 0.6, 0.3, 0.1))
        self.temperature = nn.Parameter(torch.ones(())) if rng.random() < 0.2 else None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, o = self.maps
        a, b = q(x), k(x)
        if self.normed:
            a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        if not self.by_hand:
            return o(F.scaled_dot_product_attention(a, b, v(x), is_causal=self.causal))  # type: ignore[no-any-return]
        u = a @ b.mT * (WIDTH**-0.5 if self.temperature is None else self.temperature.exp())
        if self.causal:
            u = u.masked_fill(torch.ones(SHAPE[1], SHAPE[1], dtype=torch.bool).triu(1), float("-inf"))
        return o(u.softmax(-2 if self.axis else -1) @ v(x))  # type: ignore[no-any-return]


class Composed(nn.Module):
    """A composition of calls between two maps."""

    def __init__(self, call: Drawn) -> None:
        super().__init__()
        self.of, self.first = call.of, nn.Linear(WIDTH, WIDTH)
        self.weights = nn.ParameterList(nn.Parameter(torch.ones(shape)) for shape in call.weights)
        made = call.of(torch.ones(SHAPE), *(torch.ones(shape) for shape in call.weights))
        self.by_token = made.shape[:-1] == SHAPE[:-1]
        self.last = nn.Linear(made.shape[-1] if self.by_token else flat(made).numel(), WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = self.of(self.first(x), *self.weights)
        return self.last(y if self.by_token else flat(y))  # type: ignore[no-any-return]


def _norm(style: dict[str, Any]) -> nn.Module:
    if style["written"]:
        return Written(style["rms"])
    return nn.RMSNorm(WIDTH) if style["rms"] else nn.LayerNorm(WIDTH)


class Block(nn.Module):
    """Branches with norms before, behind and on the sum."""

    def __init__(self, rng: random.Random, calls: list[Drawn], style: dict[str, Any]) -> None:
        super().__init__()
        kinds = [Attention(rng) if kind == "attention" else Composed(calls[n]) for n, kind in enumerate(style["branches"])]
        self.branches, self.style = nn.ModuleList(kinds), style
        self.norms = nn.ModuleDict({f"{at}{n}": _norm(style) for n in range(len(kinds)) for at in style["places"]})
        if style["shared"] and len(kinds) == 2 and style["places"]:  # one norm for two places
            self.norms[f"{style['places'][0]}1"] = self.norms[f"{style['places'][0]}0"]
        self.scale = nn.Parameter(torch.ones(WIDTH if style["scale"] == "vector" else ())) if style["scale"] else None
        self.mix = nn.Linear(WIDTH, WIDTH) if style["gate"] else None

    def forward(self, x: Tensor) -> Tensor:
        for n, branch in enumerate(self.branches):
            y = branch(self.norms[f"A{n}"](x) if "A" in self.style["places"] else x)
            y = self.norms[f"B{n}"](y) if "B" in self.style["places"] else y
            y = y if self.scale is None else self.scale * y
            y = y if self.mix is None else y * self.mix(x).sigmoid()
            x = self.style["alpha"] * x + self.style["beta"] * y if self.style["weighed"] else x + y
            x = self.norms[f"C{n}"](x) if "C" in self.style["places"] else x
        return x


class Model(nn.Module):
    """From tokens or numbers to words or numbers."""

    def __init__(self, number: int) -> None:
        super().__init__()
        rng = random.Random(number)
        calls = [composition(rng.randrange(COMPOSITIONS)) for _ in range(2)]
        style: dict[str, Any] = {
            "branches": rng.choice((("attention", "call"), ("attention", "call"), ("call",), ("call", "attention"), ("call", "call"))),
            "places": rng.choice(("A", "A", "A", "B", "C", "AB", "AC", "", "ABC")), "rms": rng.random() < 0.4,
            "written": rng.random() < 0.25, "shared": rng.random() < 0.15,
            "scale": rng.choice((None, None, None, "number", "vector")), "gate": rng.random() < 0.1, "weighed": rng.random() < 0.25,
            "alpha": rng.choice((1.0, 1.5, 0.5)), "beta": rng.choice((1.0, 0.1, -1.0)),
        }  # fmt: skip
        self.table = nn.Embedding(WORDS, WIDTH) if rng.random() < 0.8 else nn.Linear(WIDTH, WIDTH)
        self.factor = rng.choice((None, None, 4.0))
        self.before = nn.LayerNorm(WIDTH) if rng.random() < 0.2 else nn.Identity()
        self.blocks = nn.ModuleList(Block(rng, calls, style) for _ in range(rng.choice((2, 2, 3))))
        self.norm = nn.LayerNorm(WIDTH) if rng.random() < 0.7 else nn.Identity()
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if isinstance(self.table, nn.Embedding) and rng.random() < 0.3:
            self.head.weight = self.table.weight
        self.deviations = [rng.choice((0.0, 0.02, 0.5, 0.5)), 0.02]

    def forward(self, x: Tensor) -> Tensor:
        x = self.table(x)
        x = self.before(x if self.factor is None else self.factor * x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def small(number: int) -> dict[str, str]:
    """What is derived and said of one."""
    model = Model(number)
    first, rest = model.deviations
    given = torch.zeros(SHAPE[:-1], dtype=torch.int64) if isinstance(model.table, nn.Embedding) else torch.zeros(SHAPE)
    starts = tuple(
        (name, (Initialiser("normal_", (0.0, first if "branches" in name and "last" in name else rest)),)
         if p.ndim > 1 else (Initialiser("fill_", (float(name.endswith("weight")),)),))
        for name, p in model.named_parameters()
    )  # fmt: skip
    facts = derive(trace(model.to("meta").eval(), (given.to("meta"),), {}, initialisers=starts))
    return {"derived": plain(derived(facts)), "said": plain(judged(facts))}


SUBJECTS: dict[str, Callable[[], dict[str, str]]] = {f"model {n}": lambda n=n: small(n) for n in range(COUNT)}  # type: ignore[misc]

__all__ = ["SUBJECTS"]
