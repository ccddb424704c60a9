"""`screen init`: a repository's first settings, workflow and hook, from the models that reading finds. What is there already is left as it is.

A file is made, or lines are put at the end of one; nothing that stands somewhere is changed.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from screen import settings as configuration
from screen.command.models import Model, find
from screen.errors import UsageError
from screen.visible import clean, quoted

MOST = 20
"""Targets that are written down; of more, the others are listed as comments."""
WORKFLOW = ".github/workflows/screen.yml"
NOWHERE = "archscreen @ git+https://say-where-it-is.invalid/screen.git"
"""What pip is told to install where nobody knows an address: none that anybody could take, as a name on PyPI could be."""
HOOKS = ".pre-commit-config.yaml"
HOOK = """- repo: local
  hooks:
    - id: screen
      name: screen check
      entry: screen check
      language: system
      types: [python]
      pass_filenames: false
"""
JOB = """name: screen
on:
  push:
    branches: [main]
  pull_request: # never pull_request_target: the model's file is executed, and that event hands secrets to code of a fork
permissions:
  contents: read
jobs:
  screen:
    runs-on: ubuntu-latest
    permissions:
      contents: read
      security-events: write # for the upload of SARIF
    steps:
      - uses: actions/checkout@v4
        with:
          persist-credentials: false
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: python -m pip install torch --index-url https://download.pytorch.org/whl/cpu
      - run: python -m pip install {install} # it is not on PyPI
{own}      - run: screen check --format github --report sarif=screen.sarif
      - uses: github/codeql-action/upload-sarif@v3
        if: always() && hashFiles('screen.sarif') != '' && github.event.pull_request.head.repo.fork != true
        with:
          sarif_file: screen.sarif
"""


@dataclass(frozen=True)
class Change:
    """One file as it is and as it is to be."""

    path: str
    before: str | None
    """None: there is no such file."""
    after: str
    what: str

    @property
    def diff(self) -> str:
        """Unified."""
        old = (self.before or "").splitlines(keepends=True)
        origin = "/dev/null" if self.before is None else self.path
        lines = difflib.unified_diff(old, self.after.splitlines(keepends=True), origin, self.path)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)

    def write(self) -> None:
        """A new file, or one with lines at its end. Raises `OSError`."""
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x" if self.before is None else "a", encoding="utf-8", newline="") as file:
            file.write(self.after[len(self.before or "") :])


def init(dry_run: bool, install: str | None) -> int:
    """Looks below the working directory. 0, or 2 where there is no model. `install`: what pip installs in CI."""
    models, files = find(configuration.folder())
    if not models:
        found = f"{files} Python file{'s were' if files != 1 else ' was'} read, and no class of them leads to `torch.nn.Module`"
        raise UsageError("`screen init` must find a model below this folder", found, "Run it where your models are, or name one: `screen check FILE`")
    changes, remarks = [], []
    for made in (_settings(models), _workflow(install or _source()), _hook()):
        if isinstance(made, Change):
            changes.append(made)
        else:
            remarks.append(made)
    if dry_run:
        sys.stdout.write("".join(change.diff for change in changes))
    else:
        for change in changes:
            change.write()
    sys.stdout.write(_told(models, files, changes, remarks, dry_run=dry_run, given=install is not None))
    return 0


def _settings(models: Sequence[Model]) -> Change | str:
    """The table of settings: at the end of pyproject.toml where there is one, else in a screen.toml."""
    file, table = configuration.find(Path.cwd())
    if file:
        known = [entry.get("spec") for entry in table.get("targets", []) if isinstance(entry, dict)]
        new = [model.spec for model in models if model.spec not in known]
        missing = f"; it has no entry for {', '.join(f'`{clean(spec)}`' for spec in new)}" if new else ""
        return f"`{file}` has settings already: left as it is{missing}"
    path = Path("pyproject.toml")
    if path.is_file():
        before = _read(path)
        end = "" if before.endswith("\n") or not before else "\n"
        after = before + end + ("\n" if before else "") + _table(models, "tool.screen", "tool.screen.targets")
        try:
            tomllib.loads(after)
        except tomllib.TOMLDecodeError:
            pass  # `tool` is written in a way that no table can be added to: the other file is as good
        else:
            return Change("pyproject.toml", before, after, f"[tool.screen] with {_targets(models)}")
    return Change("screen.toml", None, _table(models, "", "targets"), _targets(models))


def _table(models: Sequence[Model], title: str, entries: str) -> str:
    lines = [f"[{title}]"] if title else []
    lines += ['fail-on = "slip"  # or unstable, conditional, never, codes of rules: `screen check --help`']
    for model in models[:MOST]:
        lines += ["", f"[[{entries}]]", f"spec = {_quoted(model.spec)}"]
        if model.needs:
            needed = ", ".join(f"{name} = …" for name in model.needs)
            field = "" if "." in needed else f"; `{model.needs[0]}.x = …` for a field of one: `screen check` says which it needs"
            lines += [f"# set = {{ {needed} }}  # no default{field}"]
    if models[MOST:]:
        lines += ["", "# Found too:", *(f"# {clean(model.spec)}" for model in models[MOST:])]
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """A string of TOML in which everything can be seen."""
    plain = json.dumps(text, ensure_ascii=False)
    return quoted("".join(c if clean(c) == c else f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}" for c in plain))


def _targets(models: Sequence[Model]) -> str:
    count = min(len(models), MOST)
    return f"{count} target{'s' if count != 1 else ''}"


def _workflow(install: str) -> Change | str:
    if os.path.exists(WORKFLOW):
        return f"`{WORKFLOW}` is there already: left as it is"
    if os.path.exists(".gitlab-ci.yml") and not os.path.isdir(".github"):
        return "`.gitlab-ci.yml` is there: no workflow of GitHub was made; `docs/gate.md` of screen has the job for GitLab"
    requirements = next((f"-r {name}" for name in ("requirements.txt", "requirements-dev.txt") if os.path.isfile(name)), None)
    own = requirements or ("." if _is_package() else None)
    step = f"      - run: python -m pip install {own} # what the models import\n" if own else ""
    return Change(WORKFLOW, None, JOB.format(install=shlex.quote(install), own=step), "a workflow of GitHub")


def _is_package() -> bool:
    path = Path("pyproject.toml")
    try:
        return os.path.isfile("setup.py") or (path.is_file() and "project" in tomllib.loads(_read(path)))
    except tomllib.TOMLDecodeError:
        return False


def _hook() -> Change | str:
    path = Path(HOOKS)
    if not path.exists():
        return Change(HOOKS, None, "repos:\n" + _indented(HOOK, "  "), "a hook for pre-commit")
    before = _read(path)
    if re.search(r"\bscreen check\b", before):
        return f"`{HOOKS}` has the hook already: left as it is"
    after = _with_hook(before)
    if after is None:
        return f"`{HOOKS}` is there, and not in a form that lines can be put at the end of. For its `repos`:\n" + _indented(HOOK, "    ").rstrip("\n")
    return Change(HOOKS, before, after, "a hook for pre-commit")


def _with_hook(text: str) -> str | None:
    """With the hook at its end, where `repos` is a list in lines of its own that goes to the end of the file."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if re.fullmatch(r"repos:\s*(#.*)?", line)]
    rest = lines[starts[0] + 1 :] if len(starts) == 1 else []
    item = next((found[1] for line in rest if (found := re.match(r"(\s*)-\s", line))), None)
    if item is None or any(line and not line.startswith((" ", "-", "#")) for line in rest) or "..." in rest:
        return None
    return text + ("" if text.endswith("\n") else "\n") + _indented(HOOK, item)


def _indented(text: str, by: str) -> str:
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def _read(path: Path) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        try:
            return file.read()
        except UnicodeDecodeError as error:
            raise UsageError(f"`{path}` must be text in UTF-8", str(error), "Mend it first") from None


def _source() -> str:
    """What pip installs to have this version: the address that it came from, where that is one for others too."""
    try:
        text = metadata.distribution("archscreen").read_text("direct_url.json")
        address = json.loads(text) if text else {}
    except (metadata.PackageNotFoundError, ValueError):
        address = {}
    control = address.get("vcs_info")
    return f"archscreen @ {control['vcs']}+{address['url']}@{control['commit_id']}" if control else NOWHERE


def _told(models: Sequence[Model], files: int, changes: Sequence[Change], remarks: Sequence[str], *, dry_run: bool, given: bool) -> str:
    """What was done and what comes next."""
    lines = ["", f"{_count(len(models), 'model')} in {_count(files, 'Python file')}, read and not executed:"]
    for model in models:
        lines.append(clean(f"  {model.spec}") + (f"  (needs {', '.join(model.needs)})" if model.needs else ""))
    verb = "would write" if dry_run else "wrote"
    lines += [f"{verb} {change.path}: {change.what}" for change in changes]
    lines += remarks
    if any(change.path == WORKFLOW for change in changes) and not given and _source() == NOWHERE:
        lines.append(f"archscreen is not on PyPI: its step in {WORKFLOW} fails until you say there where yours is, or run this with `--install 'git+https://…'`")
    following = [
        "screen check                    judge them here; take out what is no model, and say `set` or `input` where one does not build",
        "screen check --baseline screen-baseline.json --update-baseline",
        "                                where findings are to stay: only new ones fail, with `baseline = \"screen-baseline.json\"` in the settings",
        "git add, commit, push           the gate stands",
    ]
    lines += ["next:", *(f"  {line}" for line in following)]
    return "".join(f"{line}\n" for line in (lines if dry_run and changes else lines[1:]))


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' if n != 1 else ''}"


__all__ = ["init"]
