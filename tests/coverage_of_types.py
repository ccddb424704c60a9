"""Every model type of the installed transformers: does it give a complete report?

    python -m tests.coverage_of_types                  # all types, one process at a time; writes docs/coverage.md
    python -m tests.coverage_of_types --only bert,t5 -v
    python -m tests.coverage_of_types --sample 40      # every n-th type, nothing written
    python -m tests.coverage_of_types --again          # those that the page lists and counts; the others are kept as the page has them

A report is complete when every residual sublayer has a placement other than `unknown`, every op on a stream path has a row, and no guess
decided a branch on the stream. Types that need an optional package, or whose default config does not build, are not counted; neither are those whose
default config does not run whatever it is called with (`tests/default_configs.py`), and those that have no residual stream: nothing is added there
to what it was made from.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import itertools
import json
import operator
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tests.shared import ROOT

OUTPUT = ROOT / "docs" / "coverage.md"
TIMEOUT = 60.0
"""Seconds of processor time for one type."""
WALL = 6
"""So many times as long it may take by the clock, beside other work."""
BATCH = 40
"""Types in one process: what one of them leaves behind must not reach all others."""

NOT_COUNTED = ("plain", "default", "needs a package", "does not build")
STAGES = {
    "complete": "complete report",
    "incomplete": "report with an unknown placement, an op without a row on a stream, or a guess that decides",
    "no stream": "runs, and no residual stream is found",
    "forward": "the forward does not run on these inputs",
    "crash": "a fault of `screen`",
    "timeout": f"more than {TIMEOUT:.0f} s of processor time",
    "plain": "runs, and has no residual stream: nothing is added to what it was made from (not counted)",
    "default": "does not run from its default config, whatever it is called with (not counted)",
    "needs a package": "needs an optional package (not counted)",
    "does not build": "does not build from its default config (not counted)",
}


@dataclass
class Result:
    """What came of one type."""

    type: str
    stage: str
    reason: str = ""
    model_class: str = ""
    seconds: float = 0.0
    inputs: str = ""


def judge(name: str) -> Result:
    """One type: build, trace, derive, and say how far it came."""
    begin = time.perf_counter()
    result = _judge(name)
    result.seconds = round(time.perf_counter() - begin, 2)
    return result


def _judge(name: str) -> Result:
    from screen.capture.build.build import build
    from screen.capture.trace.tracer import trace
    from screen.graph.target import parse

    try:
        [built] = build(parse(f"hf:{name}"), set={}, inputs=(), depth=None)
    except Exception as error:  # every failure is a row of the table
        return _not_built(name, error)
    result = Result(name, "complete", model_class=built.info.model_class, inputs=_shapes(built.kwargs))
    try:
        graph = trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)
    except Exception as error:
        return _crash(result, "trace", error)
    if graph.failure is not None:
        from tests.default_configs import does_not_run

        result.stage, result.reason = "forward", f"{graph.failure.message} ({_short(graph.failure.file)}:{graph.failure.line})"
        if why := does_not_run(built.model, built.kwargs):
            result.stage, result.reason = "default", why
        return result
    try:
        from screen.facts import derive

        facts = derive(graph)
    except Exception as error:
        return _crash(result, "facts", error)
    result.stage, result.reason = verdict(facts)
    if result.stage == "no stream" and not adds_up(graph):
        result.stage = "plain"
    return result


ADDING = {"add", "sub", "lerp", "addcmul", "addcdiv", "addmm", "baddbmm", "addbmm", "addmv", "index_add", "scatter_add", "scatter_reduce",
          "logaddexp"}  # fmt: skip
"""Ops that add one operand to another."""
REDUCING = {"sum", "mean", "cumsum", "matmul", "bmm", "mm", "einsum", "mv"}
"""Ops without weights of their own that add up parts of one operand."""


def adds_up(graph: Any) -> bool:
    """Whether a sum has two operands that were made from one value, or a join with such parts (`cat`, a write) comes before what adds up parts.

    Without any there is no residual stream, however it is looked for. An op without a row that takes two values may be one."""
    from screen.structure.dataflow import Flow

    flow = Flow(graph)
    data = functools.reduce(operator.or_, (1 << i for i, d in enumerate(flow.data) if d), 0)
    reduced = [n.index for n in graph.nodes if n.op in REDUCING and flow.data[n.index]]
    for node, kind in zip(graph.nodes, flow.classes, strict=True):
        joins = kind in ("join", "write") and any(flow.depends(r, node.index) for r in reduced)
        if node.op in ADDING or kind == "unmodelled" or joins:
            pairs = itertools.combinations([i for i in dict.fromkeys(node.inputs) if flow.data[i]], 2)
            if any(flow.ancestors[a] & flow.ancestors[b] & data for a, b in pairs):
                return True
    return False


def verdict(facts: Any) -> tuple[str, str]:
    """Is the report complete, and if not, why."""
    if not facts.streams:
        return "no stream", ""
    reasons = []
    sublayers = [s for stream in facts.streams for kind in stream.kinds for s in kind.sublayers]
    unknown = [s for s in sublayers if s.placement == "unknown"]
    if unknown:
        why = unknown[0].unknown[0].reason if unknown[0].unknown else ""
        where = f"{unknown[0].name}, {_short(unknown[0].place.file)}:{unknown[0].place.line}"
        reasons.append(f"{len(unknown)} of {len(sublayers)} sublayers of unknown placement ({where}: {why})")
    ops = [u.op for u in facts.coverage.unmodelled if u.on_stream]
    if ops:
        reasons.append("no row for " + ", ".join(f"`{o}`" for o in ops))
    if facts.guessed_nodes & {n for stream in facts.streams for n in stream.states}:
        reasons.append("a guess decides a branch on a stream")
    return ("incomplete", "; ".join(reasons)) if reasons else ("complete", "")


def _not_built(name: str, error: Exception) -> Result:
    """Failures before the forward: a missing package and a config that does not build are not counted."""
    from screen.errors import ScreenError

    text = " ".join(str(error).split())
    needs = isinstance(error, ImportError) or "requires the" in text or "requires_backends" in text or "not installed" in text
    line = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{_short(line.filename)}:{line.lineno}"
    if needs:
        return Result(name, "needs a package", text[:160])
    theirs = any("transformers" in f.filename or "huggingface_hub" in f.filename for f in traceback.extract_tb(error.__traceback__))
    if isinstance(error, ScreenError) or theirs:
        return Result(name, "does not build", f"{type(error).__name__}: {text[:160]} ({where})")
    return Result(name, "crash", f"build: {type(error).__name__}: {text[:160]} ({where})")


def _crash(result: Result, where: str, error: Exception) -> Result:
    line = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).strip().splitlines() or [""])[0]
    result.stage, result.reason = "crash", f"{where}: {type(error).__name__}: {text[:160]} ({_short(line.filename)}:{line.lineno})"
    return result


def _short(file: str) -> str:
    return os.path.basename(file)


def _shapes(kwargs: dict[str, Any]) -> str:
    return ", ".join(f"{k}{list(v.shape)}" if hasattr(v, "shape") else f"{k}={v}" for k, v in kwargs.items())


# -- many types, in processes of their own -----------------------------------------------------------------------------------------


def types() -> list[str]:
    """All model types that the installed transformers knows."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return sorted(CONFIG_MAPPING_NAMES)


def worker() -> None:
    """Types from stdin, one JSON line for each on the real stdout; what the libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import warnings

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        print(json.dumps(asdict(judge(line.strip()))), file=out, flush=True)


def run(names: list[str]) -> Iterator[Result]:
    """Results in order; a type that takes too long or kills its process is a result too."""
    waiting = collections.deque(names)
    while waiting:
        batch = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
        done = yield from _batch(batch)
        waiting.extendleft(reversed(batch[done:]))


def _batch(batch: list[str]) -> Iterator[Result]:
    """One process; returns how many types it dealt with."""
    import selectors

    env = {**os.environ, "TRANSFORMERS_DISABLE_TORCH_CHECK": "1", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    command = [sys.executable, "-m", "tests.coverage_of_types", "--worker"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, env=env)
    assert child.stdin and child.stdout
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        for done, name in enumerate(batch):
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(name + "\n")
                child.stdin.flush()
            ready = _answer(selector, child.pid, TIMEOUT + (30 if done == 0 else 0))
            line = child.stdout.readline() if ready else ""
            if line:
                yield Result(**json.loads(line))
                continue
            child.kill()
            child.wait()
            yield Result(name, "crash" if ready else "timeout", f"the process ended ({child.returncode})" if ready else "")
            return done + 1
    child.stdin.close()
    child.wait()
    return len(batch)


def _answer(selector: Any, process: int, limit: float) -> Any:
    """What can be read before a process has worked so long."""
    begin, started = time.perf_counter(), _worked(process)
    while _worked(process) - started < limit and time.perf_counter() - begin < WALL * limit:
        if ready := selector.select(1.0):
            return ready
    return []


def _worked(process: int) -> float:
    """Seconds of processor time of a process; those of the clock where the system does not tell."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
    except OSError:
        return time.perf_counter()
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def counts(results: Iterable[Result]) -> collections.Counter[str]:
    """How many types came how far."""
    return collections.Counter(r.stage for r in results)


def share(results: Iterable[Result]) -> tuple[int, int]:
    """(complete, counted)."""
    found = counts(results)
    return found["complete"], sum(n for stage, n in found.items() if stage not in NOT_COUNTED)


def page(results: list[Result], version: str, kept: int = 0) -> str:
    """docs/coverage.md. `kept`: how many complete types stand as an earlier page had them."""
    complete, counted = share(results)
    found = counts(results)
    lines = [
        "# Model types of transformers",
        "",
        "Written by `python -m tests.coverage_of_types`; do not edit."
        + (f" ({kept} of the complete types were complete in an earlier run, and were not run again.)" if kept else ""),
        "",
        f"Of the {len(results)} model types of transformers {version}, {counted} build and run from their default config without optional "
        f"packages and have a residual stream. **{complete} of them ({complete / max(counted, 1):.1%}) give a complete report**: every residual "
        "sublayer has a placement other than `unknown`, every op on a stream path has a row, and no guess decided a branch on the stream.",
        "",
        "| outcome | types |",
        "|---|---|",
        *(f"| {text} | {found[stage]} |" for stage, text in STAGES.items() if found[stage]),
        "",
    ]
    for stage, text in STAGES.items():
        rows = [r for r in results if r.stage == stage]
        if stage == "complete" or not rows:
            continue
        lines += [f"## {text[0].upper()}{text[1:]}", "", "| type | class | reason |", "|---|---|---|"]
        lines += [f"| `{r.type}` | {f'`{r.model_class}`' if r.model_class else ''} | {_cell(r.reason)} |" for r in rows]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def read(text: str) -> list[Result]:
    """What a page says of all types: those that it does not list are complete."""
    headings = {f"## {t[0].upper()}{t[1:]}": stage for stage, t in STAGES.items()}
    listed, stage = [], ""
    for line in text.splitlines():
        stage = headings.get(line, stage)
        if row := re.match(r"\| `([^`]+)` \| (?:`([^`]*)`)? *\| (.*) \|$", line):
            listed.append(Result(row[1], stage, row[3].replace("\\|", "|").replace("&lt;", "<"), row[2] or ""))
    names = {r.type for r in listed}
    return listed + [Result(name, "complete") for name in types() if name not in names]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def main(argv: list[str] | None = None) -> int:
    """The command line; exit 0 when at least 90 % of the types that build give a complete report and none crashes."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.coverage_of_types", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="types, comma separated")
    parser.add_argument("--sample", type=int, default=0, help="only about so many types, spread evenly")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", default="", help="write all results to this file as well")
    parser.add_argument("--known", default="", help="a file of `--json`: keep its complete types, run the others, write the page")
    parser.add_argument("--again", action="store_true", help="run those that the page lists and counts, keep the others, write the page")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every type")
    options = parser.parse_args(argv)
    if options.worker:
        worker()
        return 0
    every = types()
    chosen = [n for n in options.only.split(",") if n] or (every[:: max(1, len(every) // options.sample)] if options.sample else every)
    results = []
    if options.known:
        with open(options.known, encoding="utf-8") as file:
            results = [r for r in (Result(**entry) for entry in json.load(file)) if r.stage in ("complete", *NOT_COUNTED) and r.type in chosen]
    if options.again:
        results = [r for r in read(OUTPUT.read_text(encoding="utf-8")) if r.stage in ("complete", "needs a package", "does not build")]
    known = {r.type for r in results}
    kept = sum(r.stage == "complete" for r in results)
    for result in run([n for n in chosen if n not in known]):
        results.append(result)
        if options.verbose or result.stage not in ("complete", *NOT_COUNTED):
            shown = result.inputs if options.verbose else ""
            print(f"{result.type:34} {result.seconds:6.2f} s  {result.stage:10} {result.model_class} {shown} {result.reason}", flush=True)
    results.sort(key=lambda r: r.type)
    complete, counted = share(results)
    print(f"{complete} of {counted} types that build give a complete report ({complete / max(counted, 1):.1%}); {dict(counts(results))}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([asdict(r) for r in results], file, indent=1)
    if chosen == every:
        from importlib.metadata import version

        OUTPUT.parent.mkdir(exist_ok=True)
        OUTPUT.write_text(page(results, version("transformers"), kept), encoding="utf-8")
    return int(complete < 0.9 * counted or counts(results)["crash"] > 0)


if __name__ == "__main__":
    sys.exit(main())
