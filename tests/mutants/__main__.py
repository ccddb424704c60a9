"""`python -m tests.mutants reach --reached FILE`, then `hunt --seed N --count N --reached FILE --results FILE` as often as it takes;
`places --reached FILE --only AREA` says which lines no subject of the record comes to."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.mutants.draw import AREAS, drawn
from tests.mutants.hunt import hunt, unreached
from tests.mutants.page import PAGE, page, recorded
from tests.mutants.reached import watch


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("what", choices=("reach", "places", "hunt", "page"))
    parser.add_argument("--reached", type=Path, help="which tests enter which functions (`reach` writes it)")
    parser.add_argument("--results", type=Path, help="results so far; those that stand there are not tried again")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", default=",".join(AREAS), help="areas, comma separated")
    parser.add_argument("--most", type=int, default=1000, help="changes to try in this run at most")
    parser.add_argument("--write", action="store_true", help="write the page")
    given = parser.parse_args()
    if given.what == "page":
        text = page(recorded())
        print(text) if not given.write else PAGE.write_text(text, encoding="utf-8")
        return 0
    if given.what == "reach":
        return watch(given.reached)
    reached = json.loads(given.reached.read_text(encoding="utf-8"))
    if given.what == "places":
        for change in (c for area in given.only.split(",") for c in unreached(area, reached)):
            print(f"{change.file}:{change.line} {change.place}")
        return 0
    hunt(drawn(given.seed, given.count, given.only.split(",")), reached, given.results, given.most)
    return 0


if __name__ == "__main__":
    sys.exit(main())
