"""Whole architectures at a small width: not one prediction is refuted, and every exact or asymptotic degree is confirmed.

The same over the whole zoo: `python -m tests.probe`.
"""

from __future__ import annotations

import pytest

from tests.probe.common import measured
from tests.probe.zoo import small

FEW = ["gemma2", "olmo2", "t5", "vit"]
"""Norms at outputs with an ε that is felt; three norms; two streams with a memory; images."""


@pytest.mark.parametrize("kind", FEW)
def test_an_architecture(kind: str) -> None:
    pytest.importorskip("transformers")
    found = measured(f"hf:{kind}", **small(kind))
    assert not [e for e in found if e["outcome"] == "refuted"]
    degrees = [e for e in found if e["name"] == "invariance"]
    assert len(degrees) >= 6 and {e["outcome"] for e in degrees} == {"confirmed"}
    assert any(e["name"] == "bounds" and e["outcome"] == "confirmed" for e in found)
