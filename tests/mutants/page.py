"""`docs/mutations.md`, from `results.json`: {"runs": [{seed, fresh, found: {change: test or ""}}], "judged": {change: what a survivor is}}."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.copies import ROOT

RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "mutations.md"
HEAD = """# Random changes of the code, and whether tests find them

Made by `python -m tests.mutants page --write` from `tests/mutants/results.json`. A change is one place of `screen/calculi`, `rules`,
`screen/ops`, `screen/verdict` or (seed 3) of recipes, outcomes, changes and the text of others, or (from seed 11 on) of facts: a number
times 100 or halved, a comparison or a condition turned, a clause or an entry of a table left out, `and` for `or`, + for −, `None` for what
is returned. Lines are drawn at random with a seed, and of each one change. It is tried with the quick tests that enter the changed function (at
most 30, of at most 8 seconds), until one fails that passes without it; from seed 11 on first with those that compare what is said with the record
(`tests/said`), from seed 41 on those of them that come to the changed line; from seed 71 on asserts for the type checker are not changed. Seeds 113,
114 and 161 to 163 are of the rooms that decide an exit code: `screen/verdict`, `screen/report/gate.py`, `screen/settings.py` and
`screen/pipeline/known.py`.
"""


def page(results: Mapping[str, Any]) -> str:
    """Markdown."""
    lines = [HEAD]
    for run in results["runs"]:
        found: dict[str, str] = run["found"]
        left = [change for change, test in found.items() if not test]
        share = 1 - len(left) / len(found)
        lines += [f"## Seed {run['seed']}: {len(found) - len(left)} of {len(found)} found ({share:.0%})", "", run["note"], ""]
        files = Counter(test.partition("::")[0] for test in found.values() if test)
        lines += ["| found by | changes |", "|---|---|", *(f"| {name} | {count} |" for name, count in files.most_common()), ""]
        if left:
            lines += ["| survives | judgement |", "|---|---|"]
            lines += [f"| {change.replace('|', chr(92) + '|')} | {results['judged'].get(change, 'not looked at')} |" for change in left] + [""]
    return "\n".join(lines)


def recorded() -> dict[str, Any]:
    """What is written down."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


__all__ = ["PAGE", "RESULTS", "page", "recorded"]
