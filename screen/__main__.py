"""`screen` and `python -m screen`: always this package, whatever else is called `screen` on the PATH.

Everything else is imported inside of `main`, so that a broken import, a module of somebody else's that ends the process, or Ctrl-C in the first
moments is no 0 and no 1, which only a report may be.
"""

from __future__ import annotations

import sys

NOT_JUDGED, INTERRUPTED = 2, 130


def main() -> int:
    """The whole command. Returns the exit code and raises nothing."""
    try:
        from screen.command.cli import main as command

        return command()
    except KeyboardInterrupt:
        said, code = "interrupted", INTERRUPTED
    except BaseException as error:
        said = f"error: `screen` must be able to import what it needs; it raised `{type(error).__name__}: {error}`. Install it again."
        code = NOT_JUDGED
    if sys.stderr is not None:
        sys.stderr.write(f"{said}\n")
    return code


def _not_here() -> None:
    """What lies in the working directory is neither a module of ours nor a package that a library looks for: no `click.py` and no `accelerate/` there
    is imported by this command."""
    import os

    try:
        here = os.getcwd()
    except OSError:  # it is gone, and nothing lies there
        here = ""
    if sys.path and not sys.flags.safe_path and sys.path[0] in ("", here):
        del sys.path[0]


if __name__ == "__main__":
    _not_here()
    sys.exit(main())
