"""What a capture costs beside building the same model on meta, in whole processes of their own, over model types of transformers.

    python -m tests.capture_costs                   # every 12th of the types that docs/coverage.md counts as complete
    python -m tests.capture_costs --every 4 --rounds 3
    python -m tests.capture_costs --only bert,t5

Times are processor seconds of the process and its children. *Build*: Python, the imports of torch and of the class, and the model from its default
config on meta, by `AutoModel` (types that it does not build are left out). *Capture*: `screen graph hf:TYPE`, from the words to the drawn streams,
isolation and structure among it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from tests.coverage_of_types import types
from tests.shared import ROOT

BUILD = """
import sys, torch, transformers
from transformers import AutoConfig, AutoModel
with torch.device("meta"):
    AutoModel.from_config(AutoConfig.for_model(sys.argv[1]))
"""
LEAST = 2.0
"""Capture over build that most are to stay below."""


def seconds(words: list[str]) -> float | None:
    """Processor seconds of a command; None where it fails."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
    return used.ru_utime + used.ru_stime if status == 0 else None


def main(argv: list[str] | None = None) -> int:
    """The command line; exit 0 when 95 % stay below `LEAST`."""
    parser = argparse.ArgumentParser(prog="python -m tests.capture_costs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=12, help="one type of so many")
    parser.add_argument("--rounds", type=int, default=1, help="the least of so many runs of each")
    parser.add_argument("--only", default="", help="types, comma separated")
    options = parser.parse_args(argv)
    ratios: dict[str, float] = {}
    for name in [n for n in options.only.split(",") if n] or types()[:: options.every]:
        build, capture = (
            min((s for _ in range(options.rounds) if (s := seconds([sys.executable, *words])) is not None), default=None)
            for words in (["-c", BUILD, name], ["-m", "screen", "graph", f"hf:{name}"])
        )
        if build is None or capture is None:
            print(f"{name:32} {'is not built' if build is None else 'is not captured'}", flush=True)
            continue
        ratios[name] = capture / build
        print(f"{name:32} build {build:6.2f} s  capture {capture:6.2f} s  {ratios[name]:5.2f} x", flush=True)
    if not ratios:
        return 1
    low = sum(ratio <= LEAST for ratio in ratios.values())
    most = max(ratios, key=lambda name: ratios[name])
    print(f"{low} of {len(ratios)} within {LEAST:g} x, median {statistics.median(ratios.values()):.2f} x, largest {ratios[most]:.2f} x ({most})")
    return int(low < 0.95 * len(ratios))


if __name__ == "__main__":
    sys.exit(main())
