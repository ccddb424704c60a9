"""All that is said of one model, piece by piece: its facts, what each rule says of them, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from screen.facts.record import Facts
from screen.recipe import Recipe
from screen.rule import RuleRun
from screen.verdict.channels import fold
from screen.verdict.discover import run_rules
from tests import handmade as h
from tests.said.plain import plain

DERIVED = (
    "streams", "norms", "doubled", "hollow", "coverage", "analyses", "recursions", "operators", "whole", "state_bounds", "growing", "softmax",
    "written_softmaxes",
)  # fmt: skip
RECIPES: dict[str, Recipe] = {
    "usual": Recipe(
        lr=6e-4, optimizer="adamw", warmup_steps=2000, weight_decay=0.1, total_steps=100_000, precision="bfloat16", z_loss=1e-4, schedule="cosine"
    ),
    "steep": Recipe(lr=6e-3, optimizer="adamw", weight_decay=0.0, total_steps=20_000, precision="float16"),
    "no rate": Recipe(warmup_steps=2000, weight_decay=0.1, precision="bfloat16", grad_clip=1.0),
    "sgd": Recipe(lr=0.1, optimizer="sgd", warmup_steps=0, total_steps=1000),
    "nothing": Recipe(),
}


def derived(facts: Facts) -> dict[str, str]:
    """What was derived before the claims."""
    return {name: plain(getattr(facts, name)) for name in DERIVED}


def judged(facts: Facts) -> dict[str, str]:
    """What is claimed, what rules say, rule by rule, and the verdict without a recipe."""
    run = run_rules(facts)
    found = {"claims": plain(facts.claims.all)}
    for finding in run.findings:
        code = finding.rule.code
        found[code] = "; ".join(filter(None, (found.get(code), f"{finding.severity} {plain(finding.outcome)}")))
    with patch("screen.verdict.channels.limits", lambda *_: ()):  # the learning rates of every channel take most of the time
        return found | folded(facts, run, None)


def under_recipes(facts: Facts) -> dict[str, str]:
    """The verdict under recipes, and the risk of every channel."""
    run = run_rules(facts)
    return {f"{name}: {piece}": text for name, recipe in RECIPES.items() for piece, text in folded(facts, run, recipe).items()}


def folded(facts: Facts, run: RuleRun, recipe: Recipe | None) -> dict[str, str]:
    """The verdict that follows from what rules said."""
    verdict = fold(facts, run, h.TargetInfo(), recipe)
    found = {channel.id: plain(replace(channel, codes=())) for channel in verdict.channels}  # a rule that is added adds its code
    found |= {"verdict": f"{verdict.verdict}: {verdict.summary}", "conditions": plain(verdict.conditions)}
    return found if recipe is None else found | {"sides": plain(verdict.sides), "risk": plain(verdict.assessment), "limits": plain(verdict.limits)}


__all__ = ["derived", "folded", "judged", "under_recipes"]
