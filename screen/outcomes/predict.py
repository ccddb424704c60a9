"""What is said of each row: its risk, a verdict, and why nothing is said where nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screen.outcomes.build import Design
from screen.outcomes.rows import Row, ValidationError
from screen.verdict.risk import assess
from screen.verdict.risk.constants import RISKY, VALUES


@dataclass(frozen=True)
class Prediction:
    """Of one row."""

    risk: float | None
    """None where the design could not be built or the recipe not be read."""
    low: float = 0.0
    high: float = 1.0
    main: str = ""
    """The channel with the largest risk."""
    depends: tuple[str, ...] = ()
    """Items that are not stated and would decide."""
    verdict: str = ""
    """Under the recipe."""
    without: str = ""
    """Without a recipe."""
    reason: str = ""

    def fails(self, threshold: float) -> bool | None:
        """Whether it is called unstable."""
        return None if self.risk is None else self.risk >= threshold


def predict(
    rows: Sequence[Row], designs: Mapping[str, Design], *, assumed: bool, constants: Mapping[str, float] = VALUES, threshold: float = RISKY,
    verdicts: bool = False,
) -> dict[str, Prediction]:  # fmt: skip
    """Row -> prediction. `verdicts`: the verdict under the recipe too, which takes longer."""
    found = {}
    for row in rows:
        design = designs[row.id]
        try:
            recipe = row.recipe(assumed=assumed)
        except ValidationError as error:
            found[row.id] = Prediction(None, reason=f"its recipe cannot be read: {error.errors()[0]['msg']}")
            continue
        seen = assess(design.streams, recipe, constants, threshold)
        if seen is None:
            found[row.id] = Prediction(None, reason=design.reason or "no residual stream was found")
            continue
        verdict = design.judge(recipe).verdict if verdicts and design.judge else ""
        found[row.id] = Prediction(
            seen.risk, seen.low, seen.high, seen.main, tuple(d.item for d in seen.depends), verdict, design.verdict
        )  # fmt: skip
    return found


__all__ = ["Prediction", "predict"]
