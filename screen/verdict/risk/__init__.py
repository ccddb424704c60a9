"""How likely a channel is to fail under a recipe: few numbers, monotone where theory says so, fitted on runs that were published."""

from __future__ import annotations

from screen.verdict.risk.assess import Assessment, Dependence, assess
from screen.verdict.risk.features import Features, features_of
from screen.verdict.risk.limits import Limit, limits

__all__ = ["Assessment", "Dependence", "Features", "Limit", "assess", "features_of", "limits"]
