"""The probe over a zoo of small models: `python -m tests.probe [architectures] [examples] [table] [labels] [NAME …] [--record FILE] [--write]`.

Without a group all but the labels are run. Prints one line for each model, then a table by experiment, every disagreement, and every reason why
something was not measured. Exits 1 when a prediction is refuted. With `--record FILE` each model is kept in it when it is done, and what FILE holds
already is not run again; `--write` puts the table into docs/probe.md, without names that of what FILE holds.
"""

from __future__ import annotations

import argparse
import sys

from tests.probe.zoo import GROUPS, Subject, kept, outcomes, run, table
from tests.probe.zoo_page import write


def main(words: list[str]) -> int:
    """Run, print, and judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.probe")
    parser.add_argument("names", nargs="*", help="groups and models")
    parser.add_argument("--record", metavar="FILE", help="results as JSON lines; what is there is not run again")
    parser.add_argument("--write", action="store_true", help="put the table into docs/probe.md")
    asked = parser.parse_args(words)
    before = kept(asked.record)
    results = list(before.values()) if asked.write and not asked.names else []
    for subject in () if results else subjects(asked.names):
        result = before.get(subject.name)
        if result is None:
            result = run(subject)
            if asked.record:
                with open(asked.record, "a", encoding="utf-8") as file:
                    file.write(result.line() + "\n")
            print(f"{subject.name} ({result.seconds:.1f} s): {result.error or outcomes(result)}", flush=True)
        results.append(result)
    print(f"\n{sum(bool(r.found) for r in results)} models\n", *table(results), sep="\n")
    if asked.write:
        write(results)
    return int(any(e["outcome"] == "refuted" for r in results for e in r.found))


def subjects(words: list[str]) -> list[Subject]:
    """The models of the groups named, or all but the labels; where models are named too, those of them."""
    groups = [w for w in words if w in GROUPS]
    names = {w for w in words if w not in GROUPS}
    found = [s for g in groups or [g for g in GROUPS if names or g != "labels"] for s in GROUPS[g]()]
    return [s for s in found if not names or s.name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
