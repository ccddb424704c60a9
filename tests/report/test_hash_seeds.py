"""Every format of eight targets (by day of four), judged and written by interpreters in which words in a set have another order: the same bytes.

What the process of the target sends is kept from one run (its own order of words is fixed, `screen.child.launch.ENVIRONMENT`): everything behind it
happens in the interpreter of the command.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest

from screen import plugins
from screen.child.host import Host
from screen.child.protocol import Request
from screen.child.results import Capture, Progress
from screen.pipeline.stages import Job, judge
from screen.report import render
from screen.settings import FORMATS
from tests.days import nightly, today
from tests.shared import ROOT

ALL = ("pre", "post", "none", "moe", "mix_ln", "parallel", "deepnorm", "slips/norm_of_the_sum")
TARGETS = ALL if nightly() else ALL[int(today()) % 2 :: 2]
SEEDS = range(0, 20, 1 if nightly() else 4)
SCRIPT = """
import sys
from tests.report.test_hash_seeds import again
sys.stdout.write(again(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every target with what its processes said, in order."""
    told: list[tuple[Job, list[Capture]]] = []
    with Host(preload=["torch._dynamo"]) as host:
        for name in TARGETS:
            found: list[Capture] = []

            def capture(request: Request, progress: Progress, found: list[Capture] = found) -> Capture:
                found.append(host.capture(request, progress))
                return found[-1]

            job = Job(Request(os.path.join("examples", f"{name}.py"), timeout=200.0, memory=0), spot=nightly())
            judge(job, capture)
            told.append((job, found))
    path = tmp_path_factory.mktemp("kept") / "told.pickle"
    path.write_bytes(pickle.dumps(told))
    return path


def again(path: str) -> str:
    """Digests of all reports, as JSON: target -> format -> digest."""
    out: dict[str, dict[str, str]] = {}
    for job, told in pickle.loads(Path(path).read_bytes()):
        left = iter(told)
        reports = [found.report for found in judge(job, lambda request, progress, left=left: next(left))]  # type: ignore[misc]
        texts = {name: "".join(render(report, name, verbose=True) for report in reports) for name in sorted(plugins.own(FORMATS))}
        out[job.request.target] = {name: blake2b(text.encode(), digest_size=8).hexdigest() for name, text in texts.items()}
    return json.dumps(out, sort_keys=True)


def _of(seed: int, kept: Path) -> dict[str, dict[str, str]]:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", SCRIPT, str(kept)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, dict[str, str]] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module")
def first(kept: Path) -> dict[str, dict[str, str]]:
    """Of one seed."""
    found = _of(4711, kept)
    assert len(found) == len(TARGETS) and all(len(formats) >= 9 for formats in found.values())
    assert len({formats["text"] for formats in found.values()}) == len(TARGETS)
    return found


@pytest.mark.by_the_day
@pytest.mark.parametrize("seed", SEEDS)
def test_no_report_depends_on_the_order_of_words(seed: int, kept: Path, first: dict[str, dict[str, str]]) -> None:
    assert _of(seed, kept) == first
