"""The probe over every type of `tests.test_replay.TYPES` at a small width, one line each; exits 1 when a prediction is refuted."""

from __future__ import annotations

import sys
from collections import Counter

from tests.probe.common import measured
from tests.probe.test_zoo import small
from tests.test_replay import TYPES


def main() -> int:
    """Print outcomes by experiment."""
    total: Counter[str] = Counter()
    for kind in sys.argv[1:] or TYPES:
        found = Counter(f"{e['name']} {e['outcome']}" for e in measured(f"hf:{kind}", **small(kind)))
        total += found
        print(kind, dict(sorted(found.items())))
    print("all", dict(sorted(total.items())))
    return int(any("refuted" in key for key in total))


if __name__ == "__main__":
    sys.exit(main())
