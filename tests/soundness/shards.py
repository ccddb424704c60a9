"""The long run in resumable pieces: one JSON file for each shard of structures, added up into a page."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.soundness.grammar import Design, distinct
from tests.soundness.record import Record
from tests.soundness.trial import attack


@dataclass(frozen=True)
class Plan:
    """What a run does; two runs of the same plan give the same numbers."""

    structures: int = 3000
    draws: int = 10
    steps: int = 20
    shards: int = 60
    seed: int = 0

    def path(self, folder: Path, shard: int) -> Path:
        """File of a shard; its name holds the plan, so that a resumed run never joins two plans."""
        return folder / f"s{self.seed}-{self.structures}x{self.draws}x{self.steps}-{shard:03d}of{self.shards:03d}.json"

    def designs(self, shard: int) -> list[tuple[int, Design]]:
        """(number, design) of a shard's structures."""
        return list(enumerate(distinct(self.structures, self.seed)))[shard :: self.shards]


def one_structure(number: int, design: Design, plan: Plan) -> Record:
    """Attack one structure; an exception of the machine is an error of the run, with its structure."""
    try:
        return attack(design, plan.draws, plan.steps, f"{plan.seed}:{number}")
    except Exception as error:  # the run goes on, and the page says that it happened
        return Record(errors=[f"{design.line}: {type(error).__name__}: {error}"[:400]])


def run_shard(job: tuple[Plan, int, str]) -> str:
    """One shard in a process of its own; writes its file at the end, whole or not at all."""
    plan, shard, folder = job
    torch.set_num_threads(1)
    started, total = time.process_time(), Record()
    pieces = plan.designs(shard)
    for number, design in pieces:
        total.add(one_structure(number, design, plan))
    path = plan.path(Path(folder), shard)
    found = {**vars(total), "structures": len(pieces), "seconds": time.process_time() - started}
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(found, sort_keys=True), encoding="utf-8")
    temporary.replace(path)
    return f"shard {shard + 1}/{plan.shards}: {total.trials} trials, {len(total.violations)} violations, {len(total.errors)} errors"


def run_all(plan: Plan, folder: Path, jobs: int, *, resume: bool) -> list[Path]:
    """All shards that are not there yet; returns their files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [plan.path(folder, s) for s in range(plan.shards)]
    todo = [(plan, s, str(folder)) for s, p in enumerate(paths) if not (resume and p.exists())]
    if jobs == 1:
        for job in todo:
            print(run_shard(job), flush=True)
    else:
        with ProcessPoolExecutor(jobs) as pool:
            for said in pool.map(run_shard, todo):
                print(said, flush=True)
    return paths


def joined(paths: Sequence[Path]) -> tuple[Record, int, float]:
    """(sum of the shards that are there, structures, seconds of work)."""
    total, structures, seconds = Record(), 0, 0.0
    for path in filter(Path.exists, paths):
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        structures += found.pop("structures")
        seconds += found.pop("seconds")
        for name in ("checks", "unknown", "known"):
            found[name] = Counter(found[name])
        found["slack"] = {k: (float(v[0]), str(v[1])) for k, v in found["slack"].items()}
        total.add(Record(**found))
    return total, structures, seconds
