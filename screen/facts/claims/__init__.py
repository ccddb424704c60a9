"""Claims: every statement about a model as data, made in one place from facts (`derive`), read by rules and reports."""

from __future__ import annotations

from screen.facts.claims.claim import Claim, Claims, Measured
from screen.facts.claims.derive import claims_of

__all__ = ["Claim", "Claims", "Measured", "claims_of"]
