"""What the repository shows of `screen` is what `screen` says: the reports beside the examples, and the README's two parts."""

from __future__ import annotations

import pytest

from tests import expected
from tests.shared import ROOT


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # paths in a report are relative to the working directory


@pytest.mark.parametrize("name", expected.EXAMPLES)
def test_example_has_its_report(name: str) -> None:
    path = ROOT / "examples" / f"{name}.md"
    assert path.exists(), "run `python -m tests.expected --write`"
    assert expected.example(name) == path.read_text(encoding="utf-8"), "run `python -m tests.expected --write` and read the difference"


def test_readme_shows_its_example() -> None:
    assert expected.quickstart() == expected.readme_part("example")


@pytest.mark.parametrize("name", [name for name, _, _ in expected.FAMOUS])
def test_readme_lists_the_famous(name: str) -> None:
    [line] = [line for line in expected.readme_part("zoo").splitlines() if line.startswith(f"| {name} |")]
    assert expected.first_line(name) == line
