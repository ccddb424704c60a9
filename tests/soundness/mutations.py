"""Rules of the calculus, broken on purpose: the harness must see each of them.

`python -m tests.soundness.mutations --write` copies the sources, changes one line of `screen/facts/bounds`, and attacks random designs in a
process of its own until a violation shows; the results stand in `mutations.json`, which the page of the run prints.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("mutations.json")


@dataclass(frozen=True)
class Mutation:
    """One line of `screen/facts/bounds` and what it becomes."""

    name: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """The file in this repository."""
        return ROOT / "screen" / "facts" / "bounds" / self.file


MUTATIONS: tuple[Mutation, ...] = ()


def trials_until_found(mutation: Mutation, limit: int) -> int | None:
    """Trials until the first violation in a copy of the sources with the mutation; None when there is none in `limit` structures."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("screen", "rules", "tests"):
            shutil.copytree(ROOT / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.json"))
        path = copy / "screen" / "facts" / "bounds" / mutation.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            raise ValueError(f"`{mutation.old}` stands {text.count(mutation.old)} times in {mutation.file}")
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        command = [sys.executable, "-m", "tests.soundness.mutations", "--hunt", str(limit)]
        said = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=900, check=True).stdout
    found: int | None = json.loads(said)
    return found


def hunt(limit: int) -> int | None:
    """Attack designs until a violation shows; the number of trials that it took."""
    import torch

    from tests.soundness.grammar import distinct
    from tests.soundness.shards import Plan, one_structure

    torch.set_num_threads(1)
    plan, trials = Plan(draws=6, steps=10, seed=7), 0
    for number, design in enumerate(distinct(limit, plan.seed)):
        record = one_structure(number, design, plan)
        trials += record.trials
        if record.violations:
            return trials
    return None


def table(results: Mapping[str, int | None]) -> str:
    """Markdown."""
    if not results:
        return ""
    lines = ["## Rules broken on purpose", "", "| mutation | first violation after so many trials |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {'not found' if n is None else n} |" for name, n in results.items()), ""])


def recorded() -> dict[str, int | None]:
    """The results that are written down."""
    found: dict[str, int | None] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return found


def main() -> int:
    """Hunt each mutation; exit with 1 when one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soundness.mutations", description="rules broken on purpose")
    parser.add_argument("--limit", type=int, default=150, help="structures to attack at most")
    parser.add_argument("--hunt", type=int, default=0, help="(in the copy) attack so many structures")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.hunt:
        print(json.dumps(hunt(given.hunt)))
        return 0
    results = {}
    for mutation in MUTATIONS:
        results[mutation.name] = trials_until_found(mutation, given.limit)
        print(mutation.name, results[mutation.name], flush=True)
    if given.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(None in results.values())


if __name__ == "__main__":
    sys.exit(main())
