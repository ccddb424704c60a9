"""The risk of each channel, with one field of the recipe or of what is read off the model changed at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from screen.recipe import Recipe
from screen.verdict.conditions import CONDITIONS, under
from screen.verdict.risk.channels import channel_risks, overall
from screen.verdict.risk.constants import VALUES
from screen.verdict.risk.setting import setting_of
from tests.said.plain import plain
from tests.verdict.test_risk import DESIGNS

STATED: dict[str, Any] = {
    "lr": 2e-3, "optimizer": "adamw", "warmup_steps": 500, "weight_decay": 0.05, "total_steps": 50_000, "precision": "bfloat16", "z_loss": 0.0,
    "schedule": "cosine",
}  # fmt: skip
OF_RECIPE: dict[str, tuple[Any, ...]] = {
    "lr": (None, 1e-5, 0.1), "optimizer": (None, "sgd", "radam", "adafactor", "muon", "lion"), "warmup_steps": (None, 0, 20_000),
    "weight_decay": (None, 0.0, 1.0), "total_steps": (None, 1000, 1_000_000), "precision": (None, "float32", "float16", "fp8"),
    "z_loss": (None, 1e-4),
    "schedule": (None, "constant", "linear", "inverse_sqrt", "wsd"), "weight_decay_on": (True,), "decay_times_lr": (False,), "qk_clip": (100.0,),
    "params_precision": ("float16",), "attention_output_precision": ("float32",), "fp8_per_channel": (True,), "autocast": (True,), "fp8": (True,),
    "init": ("normal(0.02)", "normal(2)"), "embedding_gradient_shrink": (0.1,), "warmup_fraction": (0.1,), "warmup_tokens": (10_000_000,),
    "batch_size": (500_000,),
}  # fmt: skip
OF_FEATURES: dict[str, tuple[Any, ...]] = {
    "depth": (2, 200), "branches": (4, 400), "width": (64, 16384), "identity": (None, False, True), "crossed": (0, 5), "bounded": (None, True),
    "normed": (False, True), "raw_inputs": (False, True), "renewed": (False,), "scaled": (True,), "branch_scale": (0.0, 0.2), "alpha": (0.0, 3.0),
    "softmax": (False, None), "logits_bounded": (True, None), "gain": (None, 0.0, 30.0), "side": (None, 50.0), "mean_gain": (None, 0.1, 5.0),
    "mean_side": (None, 100.0), "rms_first": (None, 5.0, 1e-4), "rms_read": (None, 100.0, 0.0), "one_minus_cos": (None, 1e-6, 0.9),
    "gradient_ratio": (None, 1e-3, 1e4), "exponential": (True,), "update": (None, 0.3, 300.0), "logit_rms": (None, 20.0), "kappa": (None, 10.0, 1e5),
    "dtype": ("float16", "bfloat16"), "gated": (True,), "has_final_norm": (False,), "words": (None,),
}  # fmt: skip
UNSTATED = {"weight_decay_on": "weight_decay", "warmup_fraction": "warmup_steps", "warmup_tokens": "warmup_steps", "fp8": "precision"}
"""Fields that speak where another is not stated."""


def of_recipe(field: str, value: Any) -> dict[str, str]:
    """Every design under a recipe with one field changed."""
    recipe = Recipe(**{**STATED, UNSTATED.get(field, field): None, field: value})
    found = {}
    for name, features in DESIGNS.items():
        setting, missing = setting_of(recipe, features)
        risks = channel_risks(features, setting, VALUES)
        found[name] = plain((risks, overall(risks), setting.squares, setting, [item.name for item in missing]))
    found["conditions"] = plain({name: under(name, recipe) for name in CONDITIONS})
    return found


def of_features(field: str, value: Any) -> dict[str, str]:
    """Every design with one field changed, under four recipes."""
    found = {}
    for name, features in DESIGNS.items():
        changed, risks = replace(features, **{field: value}), []
        for lr, precision in ((6e-4, "bfloat16"), (1e-2, "float32"), (3e-3, "float16"), (1e-3, "fp8")):
            setting = setting_of(Recipe(**{**STATED, "lr": lr, "precision": precision}), changed)[0]
            risks.append(channel_risks(changed, setting, VALUES))
        found[name] = plain(risks)
    return found


__all__ = ["OF_FEATURES", "OF_RECIPE", "of_features", "of_recipe"]
