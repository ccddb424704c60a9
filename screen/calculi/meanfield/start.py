"""The loss at the recorded start."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Start:
    """The cross-entropy of the first output with labels that are independent of it, at the recorded initialisation."""

    value: float
    """Nats per token, in the mean over random weights."""
    words: int
    """V; a model that knows nothing has ln V."""
    spread: float
    """Standard deviation s of the logits over the words."""
    own: float | None
    """Of a tied head, the mean logit of the word that stands at the input."""

    @property
    def uniform(self) -> float:
        """ln V."""
        return math.log(self.words)
