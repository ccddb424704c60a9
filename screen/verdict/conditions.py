"""What has to hold in training for a conditional finding to do no harm: ids that rules name, and their texts in the report.

A recipe states such things; without one each is listed as not stated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from screen.recipe import Recipe

Met = Literal["met", "not_met", "not_stated"]

CONDITIONS = {
    "bounded-weights": "the weights stay bounded in training: decoupled weight decay on the maps of the branches, or small and few updates",
    "bounded-logits": "the attention logits stay bounded: a learning rate below the onset of logit growth, weight decay on Q and K, or σReparam",
    "bounded-router": "the router's logits stay bounded: a z-loss on them, or weight decay on the map that makes them",
    "bounded-pooling": "the logits of the softmax that pools stay bounded: weight decay on the map that makes them",
    "bounded-memory": "the logits over what is stored stay bounded: weight decay on the patterns that they are compared with",
    "small-stream": "what attention logits are made of stays small over its depth, and so do the weights that make them: few and small updates, "
    "weight decay on these weights, or a clip of queries and keys",
    "small-stream-of-router": "what the router's logits are made of stays small over its depth, and so does the map that makes them",
    "small-stream-of-memory": "what the logits over stored values are made of stays small over its depth, and so does the map that makes them",
    "small-stream-of-pooling": "what the pooling's logits are made of stays small over its depth, and so does the map that makes them",
    "warm-up": "learning-rate warm-up and a lower learning rate than an identity path allows",
    "initialisation": "training starts from the initialisation that was recorded",
    "other-start": "training starts from other values than those recorded, which leave weights that no gradient ever reaches",
    "run-time-scale": "the scale that is set when the model runs compensates for depth (2N(v² + w²)/α² at most about 1)",
    "stream-gain": "what the scales on the stream come to over its depth does no harm: a product near 1, a low learning rate on learned ones",
    "learned-scale": "the learned scales that start at zero stay small: a low learning rate or weight decay on them",
    "small-gain": "the gain of the branches, what they add and how steep they are beside the stream, stays small for this depth",
    "converged-iteration": "the vectors that a weight's norm is estimated with follow the weight: a power iteration in every step, and small steps",
    "float16-range": "activations stay inside the range of float16 (largest value 65504): loss scaling does not help the forward pass",
    "bounded-head": "the head's logits stay bounded: z-loss, or a small learning rate with weight decay",
    "not-stated": "what the recipe does not state is as the channel's reason needs it",
    "final-norm": "the head is fed a stream of bounded size by other means than a final norm",
    "rules-left-out": "what the rules that were left out by `--select` or `--ignore` would have found does no harm",
    "declared-structure": "what the rule found is meant: see its finding",
}
"""id -> text."""



@dataclass(frozen=True)
class Answer:
    """Whether a recipe meets a condition, and what it states of it; the sentence is empty where it states nothing."""

    recipe: Met = "not_stated"
    stated: str = ""


NOT_STATED = Answer()


def under(condition: str, recipe: Recipe) -> Answer:
    """Whether the recipe meets a condition. Most are about the model or the run and no recipe states them."""
    judge = JUDGES.get(condition)
    return judge(recipe) if judge else NOT_STATED


def _decay(recipe: Recipe) -> Answer:
    """Weights are bounded by decay of any strength: the bound grows as it falls."""
    if recipe.decays is None:
        return NOT_STATED
    if not recipe.decays:
        return Answer("not_met", "the recipe states that weights do not decay (`weight_decay` 0)")
    size = "on" if recipe.weight_decay is None else f"{recipe.weight_decay:g}"
    kind = {True: ", decoupled", False: ", as a part of the gradient (L2)", None: ""}[recipe.is_decoupled]
    step = "" if recipe.decay_per_step is None else f", {recipe.decay_per_step:.2g} of a weight per step at the peak"
    return Answer("met", f"the recipe states weight decay {size}{kind}{step}")


def _logits(recipe: Recipe) -> Answer:
    """A cap on the logits holds them; weight decay on Q and K bounds them."""
    if recipe.qk_clip is not None:
        return Answer("met", f"the recipe states QK-clip at {recipe.qk_clip:g}")
    return _decay(recipe)


def _warm_up(recipe: Recipe) -> Answer:
    if recipe.warms_up is None:
        return NOT_STATED
    if not recipe.warms_up:
        return Answer("not_met", f"the recipe states no warm-up ({recipe.warmup} steps)")
    if recipe.warmup is not None:
        steps = f"{recipe.warmup:,} steps"
    else:
        steps = f"{recipe.warmup_fraction:g} of all steps" if recipe.warmup_fraction is not None else f"{recipe.warmup_tokens:,} tokens"
    rate = "" if recipe.lr is None else f" to a peak of {recipe.lr:g}"
    return Answer("met", f"the recipe states a warm-up of {steps}{rate}")


def _range(recipe: Recipe) -> Answer:
    """float16 alone among the types that are trained in has a range that activations leave; FP8 is scaled."""
    if recipe.precision is None:
        return NOT_STATED
    return Answer("not_met" if recipe.precision == "float16" else "met", f"the recipe states activations in {recipe.precision}")


JUDGES: dict[str, Callable[[Recipe], Answer]] = {
    "bounded-weights": _decay,
    "bounded-logits": _logits,
    "small-stream": _logits,
    "small-stream-of-router": _decay,
    "small-stream-of-memory": _decay,
    "bounded-memory": _decay,
    "small-stream-of-pooling": _decay,
    "bounded-router": _decay,
    "bounded-pooling": _decay,
    "warm-up": _warm_up,
    "learned-scale": _decay,
    "float16-range": _range,
}
"""Condition -> what a recipe says of it. What is not here no recipe states: it is about the model or the run."""

__all__ = ["CONDITIONS", "JUDGES", "NOT_STATED", "Answer", "Met", "under"]
