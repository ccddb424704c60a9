"""`python -m screen`: always this package, whatever else is called `screen` on the PATH."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if sys.path and not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        sys.path.append(sys.path.pop(0))  # a `click.py` or `random.py` that lies here must not shadow a module of ours or of Python's
    from screen.command.cli import main

    sys.exit(main())
