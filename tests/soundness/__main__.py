"""`python -m tests.soundness --structures 3000 --draws 10 --shards 60 --seed 0 --resume --write`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.soundness.page import page
from tests.soundness.shards import Plan, joined, run_all


def main() -> int:
    """Run, report, and exit with 1 on any violation or error."""
    parser = argparse.ArgumentParser(prog="python -m tests.soundness", description=__doc__)
    for name, default in (("structures", 3000), ("draws", 10), ("steps", 20), ("shards", 60), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("build/soundness"), help="where the shards' files stand (not committed)")
    parser.add_argument("--resume", action="store_true", help="keep shards that are done")
    parser.add_argument("--write", action="store_true", help="write docs/soundness.md")
    parser.add_argument("--page", action="store_true", help="attack nothing: report the shards that are done")
    given = parser.parse_args()
    plan = Plan(given.structures, given.draws, given.steps, given.shards, given.seed)
    if given.page:
        paths = [plan.path(given.folder, s) for s in range(plan.shards)]
    else:
        paths = run_all(plan, given.folder, given.jobs, resume=given.resume)
    total, structures, seconds = joined(paths)
    text = page(plan, total, structures, seconds)
    if given.write:
        Path("docs/soundness.md").write_text(text, encoding="utf-8")
    print(text)
    return int(bool(total.violations or total.errors))


if __name__ == "__main__":
    sys.exit(main())
