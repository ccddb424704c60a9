"""Settings from outside of the tree that is judged: of a commit of its repository, or of a file (`--trusted-config`).

What ends in `.toml` is a file and everything else names a commit, so that no file of the tree can be taken for one. Of a commit only blobs are read,
by their hash and without filters; a repository that lies in the tree (`safe.bareRepository`) is none, and git runs with the working directory's.
"""

from __future__ import annotations

import posixpath
import subprocess
from dataclasses import dataclass
from pathlib import Path

from screen.errors import UsageError

GIT = ("git", "--no-replace-objects", "-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
PATIENCE = 60.0
"""Seconds that git may take for one answer; a partial clone asks its server."""


@dataclass(frozen=True)
class Trusted:
    """Where settings come from in place of the tree."""

    name: str
    """As it was given: a path that ends in `.toml`, or words for a commit."""
    start: Path
    """The working directory."""
    commit: str = ""
    """Its hash; empty where `name` is a file."""
    below: str = ""
    """The way from the top of the repository to the working directory."""

    def text(self, path: str) -> str | None:
        """A file of the commit, called as from the working directory; None where it holds no such file, or `name` is a file itself."""
        full = posixpath.normpath(posixpath.join(self.below, path))
        if not self.commit or full.startswith(("../", "/")):
            return None
        done = _git(self.start, "cat-file", "blob", f"{self.commit}:{full}")
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

    def label(self, file: str) -> str:
        """What a file of settings is called in a report."""
        return f"{self.name}:{file}" if self.commit else self.name


def trusted(name: str, start: Path) -> Trusted:
    """What `--trusted-config` names. Raises `UsageError`."""
    if name.endswith(".toml"):
        if not (start / name).is_file():
            raise UsageError("`--trusted-config` must name a file that exists, or a commit", f"there is no file `{name}`")
        return Trusted(name, start)
    found = _git(start, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    below = _git(start, "rev-parse", "--show-prefix")
    if found.returncode or below.returncode:
        said = below.stderr.decode("utf-8", "replace").strip().splitlines() if below.returncode else []
        why = said[0] if said else f"`{name}` is none that is here"
        advice = "A shallow checkout has no other branch: `git fetch --depth=1 origin BRANCH`, and then `--trusted-config FETCH_HEAD`"
        raise UsageError("`--trusted-config` must name a commit of this repository, or a file that ends in `.toml`", why, advice)
    return Trusted(name, start, found.stdout.decode().strip(), below.stdout.decode("utf-8", "surrogateescape").rstrip("\n"))


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run([*GIT, *words], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"git does not answer: {error.strerror if isinstance(error, OSError) else f'it took more than {PATIENCE:.0f} s'}"
        raise UsageError("`--trusted-config` must name a commit that git can read, or a file that ends in `.toml`", said) from None


__all__ = ["Trusted", "trusted"]
