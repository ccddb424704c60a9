"""What pyproject.toml cannot say: a wheel is built in a temporary folder. In the tree `build/` would stay, and rules in it that are gone from the
sources would be installed the next time."""

from __future__ import annotations

import tempfile

from setuptools import setup
from setuptools.command.build import build

FOLDER = tempfile.TemporaryDirectory()  # removed when this process ends


class Elsewhere(build):
    """Builds there."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = FOLDER.name


setup(cmdclass={"build": Elsewhere})
