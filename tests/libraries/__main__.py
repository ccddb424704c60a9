"""Models of other libraries, as a user would screen them: how many are read?

    python -m tests.libraries x_transformers              # one library: makes its environment at the first call, prints a row
    python -m tests.libraries all --write                 # every library, and docs/libraries.md
    python -m tests.libraries vit_pytorch --only cait,xcit -v
    python -m tests.libraries files --checkouts FOLDER    # public files, from clones under FOLDER/OWNER/NAME

A table of this folder (`NAME.toml`) is plain data: the environment, and for each target either what `screen check` takes or the expression that
builds the model, which goes into a file of its own as `build_model`. A target is read when its report has no error and its forward ran to its end.
Needs the package registry for its first call, and is no part of CI.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.shared import ROOT

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "archscreen-libraries"
OUTPUT = ROOT / "docs" / "libraries.md"
KEPT = Path(os.environ["KEPT_REPORTS"]) if "KEPT_REPORTS" in os.environ else None
"""A folder for every report, to be read beside the source."""
TIMEOUT = 120
"""Seconds of capture for one target: what `screen check` gives by default."""


@dataclass(frozen=True)
class Target:
    """One row of a table."""

    library: str
    name: str
    text: str
    """What `screen check` takes."""
    options: tuple[str, ...] = ()
    """More words of the command line: a target with such words needed help."""
    folder: Path = ROOT
    """Where the command is run."""


@dataclass
class Result:
    """What came of one target."""

    library: str
    name: str
    read: bool
    reason: str = ""
    where: str = ""
    blocks: int = 0
    verdict: str = ""
    seconds: float = 0.0
    """Of processor time, the child's with it."""
    helped: bool = False
    told: bool = False
    """Not read, but with the command that its message names."""
    spot: dict[str, Any] = field(default_factory=dict)


# -- environments --------------------------------------------------------------------------------------------------------------------------


def environment(name: str) -> Path:
    """The interpreter of an environment, made at its first use and whenever its list changes."""
    wanted = tomllib.loads((HERE / "environments.toml").read_text(encoding="utf-8"))[name]
    folder = CACHE / name
    python, stamp = folder / "bin" / "python", folder / "made-of.json"
    if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*install, "torch", *_needs(), *wanted["packages"]], check=True)
    if wanted.get("bare"):
        subprocess.run([*install, "--no-deps", *wanted["bare"]], check=True)
    for path in wanted.get("remove", ()):
        for found in folder.glob(f"lib/python*/site-packages/{path}"):
            subprocess.run(["rm", "-r", str(found)], check=True)
    stamp.write_text(json.dumps(wanted), encoding="utf-8")
    return python


def _needs() -> list[str]:
    """What `screen` itself needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [str(requirement) for requirement in project["dependencies"]]


# -- targets -------------------------------------------------------------------------------------------------------------------------------


def libraries() -> list[str]:
    """The tables of this folder."""
    return sorted(path.stem for path in HERE.glob("*.toml") if path.stem != "environments")


def targets(library: str, work: Path, checkouts: Path | None) -> Iterator[Target]:
    """The rows of one table; builders are written into `work`."""
    table = tomllib.loads((HERE / f"{library}.toml").read_text(encoding="utf-8"))
    options = {name: tuple(words) for name, words in table.get("options", {}).items()}
    for name, text in table.get("targets", {}).items():
        yield Target(library, name, text, options.get(name, ()))
    for name, expression in table.get("builders", {}).items():
        path = work / f"{library}_{name.replace('-', '_')}.py"
        body = "\n".join(f"    {line}" for line in f"return {expression.strip()}".splitlines())
        path.write_text(f"{table['imports'].strip()}\n\n\ndef build_model():\n{body}\n", encoding="utf-8")
        yield Target(library, name, str(path), options.get(name, ()))
    for name, text in table.get("files", {}).items():
        owner, repository, path = text.split("/", 2)
        if checkouts is not None and (checkouts / owner / repository).is_dir():
            yield Target(library, name, path, options.get(name, ()), checkouts / owner / repository)


# -- one run -------------------------------------------------------------------------------------------------------------------------------


_NAMED = re.compile(r"`screen check ([^`]+)`")
"""A command in a message."""
_FOLLOWED = 2
"""Messages that are followed one after the other."""


def run(python: Path, target: Target) -> Result:
    """`screen check` on one target, as its command line, and where it is not read as the command that its message names."""
    words, first = [target.text, *target.options], None
    for _ in range(1 + _FOLLOWED):
        result, said = once(python, target, words)
        first = first or result
        named = _NAMED.search(said)
        if result.read or named is None or named[1].split()[0].partition("::")[0] != target.text.partition("::")[0]:
            break
        words = shlex.split(named[1])
    first.told = result.read and result is not first
    return first


def once(python: Path, target: Target, words: list[str]) -> tuple[Result, str]:
    """One command line, and what it said of an error."""
    command = [str(python), "-m", "screen", "check", *words, "--format", "json", "--no-spot-check", "--timeout", str(TIMEOUT)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    result = Result(target.library, target.name, False, helped=bool(target.options))
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=target.folder, env=environ)
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        result.seconds = round(used.ru_utime + used.ru_stime, 1)
        out.seek(0)
        err.seek(0)
        said, complained = out.read(), err.read()
    if KEPT is not None:
        (KEPT / f"{target.library}-{target.name}{'' if words == [target.text, *target.options] else '-told'}.json").write_text(said or complained)
    try:
        report = json.loads(said)
    except ValueError:
        last = (complained.strip().splitlines() or ["nothing was printed"])[-1]
        result.reason = last[:300]
        return result, last
    return result, _read(report, result)


def _read(report: dict[str, Any], result: Result) -> str:
    """The facts of one report; of several the first that failed, and the blocks of all. What it says of an error."""
    reports = report.get("reports", [report])
    failed = next((r for r in reports if r["error"]), None)
    result.blocks = sum(stream["depth"] or 0 for r in reports for stream in r["streams"])
    result.verdict = report["verdict"]
    result.read = failed is None
    if failed is not None:
        error = failed["error"]
        result.reason, result.where = error["message"], f"{Path(error['file'] or '').name}:{error['line']}" if error["file"] else ""
        notes = failed.get("target", {}).get("notes", ())
        return " ".join([result.reason, *(note for note in notes if "were tried" in note)])  # as stderr says it
    return result.reason


# -- the page ------------------------------------------------------------------------------------------------------------------------------


def row(library: str, results: list[Result]) -> str:
    """One line of the table."""
    read = [r for r in results if r.read]
    seconds = sorted(r.seconds for r in results) or [0.0]
    return (
        f"| {library} | {len(results)} | {len(read)} | {sum(r.told for r in results)} | {sum(r.helped for r in results)} | "
        f"{sum(r.blocks > 0 for r in read)} | {sum(r.blocks for r in read)} | {seconds[len(seconds) // 2]:.1f} | {seconds[-1]:.1f} |"
    )


@dataclass
class Page:
    """What docs/libraries.md says, by library."""

    rows: dict[str, str] = field(default_factory=dict)
    unread: dict[str, list[str]] = field(default_factory=dict)
    bare: dict[str, list[str]] = field(default_factory=dict)
    """Targets that are read and have no residual stream."""

    def add(self, library: str, results: list[Result]) -> None:
        """What was measured, in the place of what stood there."""
        self.rows[library] = row(library, results)
        missed = [r for r in results if not r.read]
        self.unread[library] = [f"| {r.library} | `{r.name}` | {_cell(r.reason)}{f' ({r.where})' if r.where else ''} |" for r in missed]
        self.bare[library] = [f"`{r.library}: {r.name}`" for r in results if r.read and not r.blocks]


def written(text: str) -> Page:
    """The page as it stands."""
    found = Page()
    rows, _, rest = text.partition("## What is not read")
    unread, _, bare = rest.partition("## Read, but")
    for line in rows.splitlines():
        if re.match(r"\| \w+ \| \d", line):
            found.rows[line.split(" | ")[0].removeprefix("| ")] = line
    for line in unread.splitlines():
        if re.match(r"\| \w+ \| `", line):
            found.unread.setdefault(line.split(" | ")[0].removeprefix("| "), []).append(line)
    for name in re.findall(r"`\w+: [^`]+`", bare):
        found.bare.setdefault(name[1:].partition(":")[0], []).append(name)
    return found


def page(found: Page) -> str:
    """docs/libraries.md."""
    counts = [[int(cell) for cell in line.split(" | ")[1:3]] for line in found.rows.values()]
    lines = [
        "# Models of other libraries",
        "",
        "Written by `python -m tests.libraries all --write`; do not edit. Each target is screened by a command of its own, as a new user would, in",
        "an environment with pinned versions (`tests/libraries/environments.toml`). *Read*: no error, and the forward ran to its end. *By its",
        "message*: not read, but read by the command that its message names, followed to the letter (`–`: not measured). *Helped*: the command has",
        "more words than the target. *With blocks*: a residual stream was found. Times are processor seconds of the whole command without the spot",
        "check, the imports of torch and of the library in them. Rows may be of different commits.",
        "",
        f"**{sum(read for _, read in counts)} of {sum(all_ for all_, _ in counts)} targets are read.**",
        "",
        "| library | targets | read | by its message | helped | with blocks | blocks | median s | largest s |",
        "|---|---|---|---|---|---|---|---|---|",
        *(found.rows[library] for library in sorted(found.rows)),
        "",
        *(f"{library}: {note}\n" for library in sorted(found.rows) if (note := _note(library))),
        "## What is not read",
        "",
        "| library | target | reason |",
        "|---|---|---|",
        *(line for library in sorted(found.rows) for line in found.unread.get(library, [])),
        "",
        "## Read, but no residual stream found",
        "",
        ", ".join(name for library in sorted(found.rows) for name in found.bare.get(library, [])) + ".",
    ]
    return "\n".join(lines) + "\n"


def _note(library: str) -> str:
    """What its table says of what was measured before."""
    return str(tomllib.loads((HERE / f"{library}.toml").read_text(encoding="utf-8")).get("note", "")).strip()


def _cell(text: str) -> str:
    """A reason, without the folder that builders were written into, and the home of whoever measured."""
    text = text.replace(str(Path.home()), "~")
    return re.sub(rf"{re.escape(tempfile.gettempdir())}/\w+/", "", text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")[:300]


def main(argv: list[str] | None = None) -> int:
    """The command line; exit 0 when every target is read."""
    parser = argparse.ArgumentParser(prog="python -m tests.libraries", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", nargs="+", help="tables of this folder, or `all`")
    parser.add_argument("--only", default="", help="targets, comma separated; nothing is written")
    parser.add_argument("--checkouts", type=Path, default=None, help="a folder of clones, OWNER/NAME, for the targets that are files")
    parser.add_argument("--python", type=Path, default=None, help="an interpreter in place of the environment")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--json", type=Path, default=None, help="write all results to this file as well; what it holds of other libraries stays")
    parser.add_argument("--write", action="store_true", help="write what was measured to docs/libraries.md; its other libraries stay")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every target, not only for those that are not read")
    options = parser.parse_args(argv)
    found: dict[str, list[Result]] = {}
    if options.json is not None and options.json.exists():
        found = {name: [Result(**r) for r in rows] for name, rows in json.loads(options.json.read_text(encoding="utf-8")).items()}
    chosen = libraries() if options.library == ["all"] else options.library
    only = {name for name in options.only.split(",") if name}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for library in chosen:
            table = tomllib.loads((HERE / f"{library}.toml").read_text(encoding="utf-8"))
            python = options.python or environment(table["environment"])
            rows = [t for t in targets(library, Path(folder), options.checkouts) if not only or t.name in only]
            results = []
            for result in pool.map(lambda target, python=python: run(python, target), rows):
                results.append(result)
                if options.verbose or not result.read:
                    told = "read by its message; " if result.told else ""
                    state = f"{result.blocks} blocks, {result.verdict}" if result.read else f"{told}{result.reason} ({result.where})"
                    print(f"{library:16} {result.name:28} {result.seconds:6.1f} s  {state}", flush=True)
            print(row(library, results), flush=True)
            found[library] = [r for r in found.get(library, []) if only and r.name not in only] + results
            if options.json is not None:  # after each: a long run may be cut
                options.json.write_text(json.dumps({name: [vars(r) for r in rows] for name, rows in found.items()}, indent=1), encoding="utf-8")
    if options.write:
        whole = written(OUTPUT.read_text(encoding="utf-8")) if OUTPUT.exists() else Page()
        for library, results in found.items():
            whole.add(library, results)
        OUTPUT.write_text(page(whole), encoding="utf-8")
    missed = [r for library in chosen for r in found[library] if not r.read]
    print(Counter(r.reason for r in missed).most_common(8) if missed else "all are read")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
