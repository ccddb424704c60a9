"""Whole architectures at a small width: not one prediction is refuted, and every exact or asymptotic degree is confirmed.

The same over all types of `tests.test_replay.TYPES`: `python -m tests.probe`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.probe.common import measured
from tests.test_replay import SMALL

FEW = ["gemma2", "olmo2", "t5", "vit"]
"""Norms at outputs with an ε that is felt; three norms; two streams with a memory; images."""


def small(kind: str) -> dict[str, Any]:
    """The settings that make a type small."""
    config = pytest.importorskip("transformers").CONFIG_MAPPING[kind]()
    return {k: v for k, v in SMALL.items() if isinstance(getattr(config, k, None), int) and k not in getattr(config, "attribute_map", {})}


@pytest.mark.parametrize("kind", FEW)
def test_an_architecture(kind: str) -> None:
    found = measured(f"hf:{kind}", **small(kind))
    assert not [e for e in found if e["outcome"] == "refuted"]
    degrees = [e for e in found if e["name"] == "invariance"]
    assert len(degrees) >= 6 and {e["outcome"] for e in degrees} == {"confirmed"}
    assert any(e["name"] == "bounds" and e["outcome"] == "confirmed" for e in found)
