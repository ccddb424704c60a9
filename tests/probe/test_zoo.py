"""Whole architectures at a small width: not one prediction is refuted, and every exact or asymptotic degree is confirmed.

The same over the whole zoo: `python -m tests.probe`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.expected import between
from tests.probe.common import measured
from tests.probe.zoo import Result, kept, small
from tests.probe.zoo_page import PAGE, page

pytestmark = pytest.mark.by_the_day

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


def test_a_record_is_gone_on_with_and_its_page_names_what_stands_out(tmp_path: Path) -> None:
    def part(outcome: str, **more: str) -> dict[str, Any]:
        empty = {"name": "invariance", "status": "exact", "what": "slope", "kind": "k0", "sublayer": "ffn", "group": "w"}
        return {**empty, "measured": 1, "predicted": 1, "outcome": outcome, "reason": "", **more}

    lost = part("not_measured", reason="no | kernel")
    results = [
        Result("fine", [part("confirmed")], seconds=3.0), Result("wrong", [part("refuted", reason="off by 2")], seconds=3.0),
        Result("lost", [lost, lost, part("confirmed")], seconds=3.0), Result("slow", [part("confirmed")], seconds=99.0), Result("none", error="no"),
    ]  # fmt: skip
    record = tmp_path / "record.jsonl"
    record.write_text("".join(r.line() + "\n" for r in results), encoding="utf-8")
    assert kept(str(record)) == {r.name: r for r in results} and kept(None) == {}
    made = page(results)
    assert "4 models" in made and "3 exact degrees confirmed, 1 refuted, 2 not measured" in made
    rows = [line for line in made.splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in rows] == ["wrong", "lost", "slow", "none"]
    assert "off by 2" in rows[0] and "2 of 3 not measured: no \\| kernel" in rows[1] and "| 2 | no \\| kernel |" in made


def test_the_page_is_in_the_docs() -> None:
    assert "models" in between(PAGE.read_text(encoding="utf-8"), "zoo")[1]
