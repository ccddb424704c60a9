"""The numbers of a recipe that a risk is made of, with what is usual in the place of what is not stated.

What is usual is never taken for stated: `Missing` says which items were filled in, and between which values they may lie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from screen.recipe import Recipe
from screen.verdict.risk.features import Features

RELATIVE = frozenset({"adafactor"})
"""Optimisers whose step is the learning rate times the rms of the weight (Shazeer and Stern 2018; PaLM, section 5), unless the recipe says that it is
not (Zhai et al. 2022, section 3.4; the Trainer of transformers)."""
NOT_ADAM = frozenset({"sgd", "muon", "lamb", "lars", "shampoo"})
"""Optimisers whose learning rate says nothing of how far an entry moves in one step of Adam."""
NORMAL = re.compile(r"(?:truncated_?)?normal\(([0-9.e-]+)\)")
"""How a recipe states one width for all maps."""
RECTIFIED = 1000
"""Steps of warm-up that RAdam's own rectification is worth at β₂ = 0.999 (Liu et al. 2020: the variance is intractable up to 1/(1 − β₂) steps)."""

USUAL_BETAS = (0.9, 0.95)
"""Of large language models since GPT-3 (Brown et al. 2020, appendix B), where a recipe states none."""
LION_BETAS = (0.9, 0.99)
"""Lion's own (Chen et al. 2023, program 1)."""

SQUARES = {"cosine": 3 / 8, "linear": 1 / 3, "exponential": 1 / 4, "wsd": 0.9, "constant": 1.0}
"""Mean of (rate/peak)² over a training, by schedule; of one that is not stated that of cosine."""
ROOT_FROM = 4000.0
"""Steps from which an inverse square root falls, T: its mean of squares is T/t·(1 + ln(t/T)) (Vaswani et al. 2017). Not the warm-up that is stated:
the longer it is the longer the rate stays high, which is no reason to shorten it."""


@cache
def burst(beta1: float, beta2: float, before: float) -> float:
    """Of Adam: after `before` steps gradients become so large that those before count for nothing, and stay so. k steps later the mean of gradients
    has grown to 1 − β₁^k of them and that of squares to 1 − β₂^k, both corrected for their start: the largest m/√v. 6.6 of (0.9, 0.999) after many
    steps, 1.6 of (0.9, 0.98), 1.1 of (0.9, 0.95); 1 at the first step."""

    def share(beta: float, k: int) -> float:
        return -math.expm1(k * math.log(beta)) / -math.expm1((before + k) * math.log(beta)) if beta > 0 else 1.0

    most = 5 if beta1 == 0 else math.ceil(5 / (1 - beta1))
    return max(share(beta1, k) / math.sqrt(share(beta2, k)) for k in range(1, most + 1))


@cache
def persistence(beta1: float, beta2: float) -> float:
    """Of Lion, whose step is η·sign(β₁·m + (1 − β₁)·g) with m ← β₂·m + (1 − β₂)·g (Chen et al. 2023): Σ over all lags of the correlation of two
    steps, for gradients that are noise. What the sign is taken of is Gaussian with the correlation ρ·β₂^(k−1) at lag k, and its signs have
    (2/π)·arcsin of that. The first step is Adam's; 46 of (0.9, 0.99), so that an entry wanders 6.8 times as far."""
    mean = (1 - beta2) / (1 + beta2)
    variance = beta1**2 * mean + (1 - beta1) ** 2
    first = (beta1**2 * mean * beta2 + beta1 * (1 - beta1) * (1 - beta2)) / variance
    lags = math.ceil(5 / (1 - beta2))
    return 1 + 2 * math.fsum(2 / math.pi * math.asin(first * beta2**k) for k in range(lags))


@dataclass(frozen=True)
class Setting:
    """What is trained with. Rates per step."""

    lr: float
    """Peak, of an optimiser that moves every entry by it."""
    relative: bool
    """Whether a step is that times the rms of the weight."""
    warmup: float
    """Steps."""
    decay: float
    """λ, per unit of learning rate."""
    decay_times_lr: bool
    steps: float
    schedule: str
    """"" where it is not stated."""
    precision: str
    """Of products."""
    params: str
    """Of weights, "" where it is that of the module."""
    attention: str
    """Of the attention's output, "" where it is that of products."""
    z_loss: float
    qk_clip: bool
    per_channel: bool
    """Whether FP8 inputs are scaled channel by channel."""
    init_std: float | None
    """Of all maps, where the recipe states one in the place of what the code does."""
    shrink: float
    """Factor on the embedding's gradient."""
    betas: tuple[float, float] | None = None
    """Of an optimiser of Adam's kind without a rule of its own for them; None where a step is never larger than the rate."""
    kept: float = 1.0
    """How many times as far an entry wanders as under steps of Adam, in mean square (`persistence`)."""

    @property
    def squares(self) -> float:
        """Mean of (rate/peak)² over the training."""
        if self.schedule.endswith("inverse_sqrt"):
            return min(1.0, ROOT_FROM / self.steps * (1 + math.log(max(self.steps / ROOT_FROM, 1.0))))
        return SQUARES.get(self.schedule, SQUARES["cosine"])

    @property
    def burst(self) -> float:
        """How many times the rate the largest step is that follows when gradients grow at once, a quarter of the way through the training, where a
        cosine still has 0.85 of its peak. Longer trainings have larger ones."""
        return 1.0 if self.betas is None else burst(*self.betas, self.steps / 4)


@dataclass(frozen=True)
class Item:
    """One thing that a recipe may leave open."""

    name: str
    """Field of `Setting` and of `Recipe`."""
    usual: Callable[[Features], object]
    kind: Callable[[Features], object]
    """The value in the usual range at which the risk is least."""
    harsh: Callable[[Features], object]
    """The value at which it is largest."""
    source: str


def usual_lr(features: Features) -> float:
    """Peak learning rate that models of this width are trained with: 6e-4 at 768, 0.6e-4 at 12,288 (Brown et al. 2020, table 2.1)."""
    return 6e-4 * math.exp(0.83 * math.log(768 / features.width))


ITEMS = (
    Item("lr", usual_lr, lambda f: usual_lr(f) / 3, lambda f: usual_lr(f) * 3, "Brown et al. 2020, table 2.1, and a factor of 3 to both sides"),
    Item("warmup_steps", lambda f: 2000.0, lambda f: 10_000.0, lambda f: 0.0, "LLaMA, nanoGPT: 2,000; BERT: 10,000"),
    Item("weight_decay", lambda f: 0.1, lambda f: 0.1, lambda f: 0.0, "GPT-3, LLaMA, nanoGPT: 0.1"),
    Item("total_steps", lambda f: 1e5, lambda f: 1e4, lambda f: 1e6, "nanoGPT 6e5, GPT-3 1.4e5 to 6e5, studies 1e4 to 1e5"),
    Item("precision", lambda f: "bfloat16", lambda f: "bfloat16", lambda f: "float16", "bfloat16 since 2021"),
    Item("z_loss", lambda f: 0.0, lambda f: 1e-4, lambda f: 0.0, "PaLM 1e-4, most others none"),
)
"""Items in the order in which a report names them."""
FIELD = {"warmup_steps": "warmup", "weight_decay": "decay", "total_steps": "steps"}
"""Item -> field of `Setting` where it has another name."""


def setting_of(recipe: Recipe, features: Features) -> tuple[Setting, tuple[Item, ...]]:
    """The setting, and the items that were filled in with what is usual."""
    stated: dict[str, object] = {}
    name = recipe.optimizer or ""
    if recipe.lr is not None and name not in NOT_ADAM:
        stated["lr"] = recipe.lr
    if recipe.total_steps is not None:
        stated["total_steps"] = float(recipe.total_steps)
    if recipe.warmup is not None:
        stated["warmup_steps"] = float(recipe.warmup)
    elif recipe.warmup_fraction is not None:
        stated["warmup_steps"] = recipe.warmup_fraction * 1e5
    if name == "radam":
        stated["warmup_steps"] = max(float(stated.get("warmup_steps", 0.0)), float(RECTIFIED))  # type: ignore[arg-type]
    if recipe.weight_decay is not None:
        stated["weight_decay"] = recipe.weight_decay
    elif recipe.weight_decay_on is not None:
        stated["weight_decay"] = 0.1 if recipe.weight_decay_on else 0.0
    if recipe.computes_in is not None:
        stated["precision"] = recipe.computes_in
    elif features.dtype in ("float16", "bfloat16"):
        stated["precision"] = features.dtype
    if recipe.z_loss is not None or features.words is None:
        stated["z_loss"] = recipe.z_loss or 0.0
    values = {item.name: stated.get(item.name, item.usual(features)) for item in ITEMS}
    setting = Setting(
        relative=name in RELATIVE and "lr" in stated and recipe.lr_times_rms is not False,
        decay_times_lr=recipe.decay_times_lr is not False,
        schedule=recipe.schedule or "",
        params=recipe.params_precision or "",
        attention=recipe.attention_output_precision or "",
        qk_clip=recipe.qk_clip is not None,
        per_channel=bool(recipe.fp8_per_channel),
        init_std=float(found[1]) if recipe.init and (found := NORMAL.match(recipe.init)) else None,
        betas=None if name in (*RELATIVE, *NOT_ADAM, "lion") else recipe.betas or USUAL_BETAS,
        kept=persistence(*(recipe.betas or LION_BETAS)) if name == "lion" else 1.0,
        shrink=1.0 if recipe.embedding_gradient_shrink is None else recipe.embedding_gradient_shrink,
        **{FIELD.get(name, name): value for name, value in values.items()},  # type: ignore[arg-type]
    )
    return setting, tuple(item for item in ITEMS if item.name not in stated)


def moved(setting: Setting, item: str, value: object) -> Setting:
    """The same with one item at another value."""
    return replace(setting, **{FIELD.get(item, item): value})  # type: ignore[arg-type]


__all__ = ["FIELD", "ITEMS", "Item", "NOT_ADAM", "Setting", "burst", "moved", "persistence", "setting_of", "usual_lr"]
