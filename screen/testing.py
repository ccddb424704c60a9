"""Rule examples as tests: each one is written to a file and goes through the whole pipeline, from source to outcomes.

For a rule of your own: `@pytest.mark.parametrize(("rule", "group", "example"), cases(my_rules))` and `assert not fault(rule, group, example)`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from screen.capture.build.build import build
from screen.capture.trace.tracer import trace
from screen.facts import derive
from screen.facts.record import Facts
from screen.graph.target import parse
from screen.rule import Example, LoadedRule

Group = Literal["HOLDS", "VIOLATES", "CANNOT_TELL"]


@dataclass(frozen=True)
class Case:
    """One example of one rule, with what its group claims of it."""

    rule: LoadedRule
    group: Group
    example: Example

    @property
    def id(self) -> str:
        """A name for the test."""
        return f"{self.rule.rule.code}-{self.group.lower()}-{self.example.title.replace(' ', '_')}"


def cases(rules: Iterable[LoadedRule]) -> list[Case]:
    """All examples of the rules, in their order."""
    found: list[Case] = []
    for rule in rules:
        groups: dict[Group, tuple[Example, ...]] = {"HOLDS": rule.holds, "VIOLATES": rule.violates, "CANNOT_TELL": rule.cannot_tell}
        found += [Case(rule, group, example) for group, examples in groups.items() for example in examples]
    return found


def fault(case: Case) -> str:
    """What the example's outcomes contradict in the claim of its group, in words; empty when nothing.

    HOLDS: it holds somewhere, and is nowhere violated or untold. VIOLATES: violated somewhere. CANNOT_TELL: untold somewhere and
    violated nowhere."""
    outcomes = case.rule.check(facts_of(case.example))
    results = {o.result for o in outcomes}
    told = "; ".join(f"{o.result}: {o.message}" for o in outcomes) or "no outcome"
    wrong = {
        "HOLDS": "holds" not in results or bool(results & {"violated", "cannot_tell"}),
        "VIOLATES": "violated" not in results,
        "CANNOT_TELL": "cannot_tell" not in results or "violated" in results,
    }[case.group]
    return f"{case.id} says {told}" if wrong else ""


def facts_of(example: Example) -> Facts:
    """The facts of an example, through the same stages as a user's file, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "example.py"
        path.write_text(example.source, encoding="utf-8")
        built = build(parse(f"{path}::Model"), set={}, inputs=example.inputs, depth=None)[0]
        return derive(trace(built.model, built.args, built.kwargs, initialisers=built.initialisers))


__all__ = ["Case", "Group", "cases", "facts_of", "fault"]
