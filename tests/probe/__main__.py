"""The probe over a zoo of small models: `python -m tests.probe [architectures] [examples] [table] [labels] [NAME …]`.

Without a group all but the labels are run. Prints one line for each model, then a table by experiment, every disagreement, and every reason why
something was not measured. Exits 1 when a prediction is refuted.
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from tests.probe.zoo import GROUPS, Result, run, table


def main(words: list[str]) -> int:
    """Run, print, and judge."""
    groups = [w for w in words if w in GROUPS]
    names = {w for w in words if w not in GROUPS}
    results = list[Result]()
    for group in groups or [g for g in GROUPS if names or g != "labels"]:
        for subject in GROUPS[group]():
            if names and subject.name not in names:
                continue
            begin = time.process_time()
            results.append(run(subject))
            counts = Counter(e["outcome"] for e in results[-1].found)
            said = results[-1].error or ", ".join(f"{n} {o.replace('_', ' ')}" for o, n in sorted(counts.items()))
            print(f"{subject.name} ({time.process_time() - begin:.1f} s): {said}", flush=True)
    measured = [r for r in results if r.found]
    print(f"\n{len(measured)} models\n", *table(results), sep="\n")
    return int(any(e["outcome"] == "refuted" for r in results for e in r.found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
