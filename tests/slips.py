"""The slips of `examples/slips/`, which rule sees each, and the table of that folder.

    python -m tests.slips          # say whether the table is out of date
    python -m tests.slips --write  # make it again
"""

from __future__ import annotations

import argparse
import ast
import sys

from tests.shared import ROOT

FOLDER = ROOT / "examples" / "slips"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py")))

SEEN_BY: dict[str, str] = {
    "alpha_without_beta": "D102",
    "block_never_called": "G122",
    "branch_ignores_the_stream": "G106",
    "depth_scale_lost": "I102",
    "depth_scale_misplaced": "I102",
    "depth_scale_twice": "I102",
    "dropout_in_evaluation": "G127",
    "final_norm_doubled": "G121",
    "final_norm_missing": "G103",
    "float16_stream": "N101",
    "hollow_norm": "R101",
    "layer_scale_before_the_norm": "I101",
    "loop_without_assignment": "G123",
    "norm_gains_of_zero": "I204",
    "norm_never_called": "R201",
    "norm_of_the_sum": "G124",
    "norm_over_tokens": "G126",
    "norm_shared": "G125",
    "normed_skip": "G101",
    "qk_norm_before_projection": "G128",
    "qk_norm_on_one_side": "L101",
    "residual_forgotten": "G110",
    "residual_twice": "R301",
    "result_thrown_away": "G123",
    "softmax_over_queries": "G129",
    "softmax_without_scale": "I202",
    "tied_embedding_of_variance_one": "I201",
    "weights_never_filled": "I205",
    "weights_of_variance_one": "I203",
    "zero_branch_and_zero_gate": "I121",
}
"""Slip -> a rule that is violated by it."""


HEAD = """# Slips

Mistakes that people make, one per file: the class `Slip` has it, the class `Sound` beside it does not, and the docstring says what happens in
training and how people get there. `screen check` with its defaults (`--fail-on slip`) exits 1 for each `Slip` and 0 for each `Sound`:

```bash
screen check examples/slips/normed_skip.py::Slip
```

This table is made by `python -m tests.slips --write`; `tests/whole/test_slips.py` runs all of them.

| code | slip | seen by |
|---|---|---|
"""


def sentence(name: str) -> str:
    """The first sentence of a slip's docstring."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    return " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())


def table() -> str:
    """The README of the folder."""
    rows = (f"| [{name}.py]({name}.py) | {sentence(name)} | {SEEN_BY.get(name, 'not yet')} |\n" for name in NAMES)
    return HEAD + "".join(rows)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.slips", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    path = FOLDER / "README.md"
    if parser.parse_args().write:
        path.write_text(table(), encoding="utf-8")
        return 0
    return int(not path.exists() or path.read_text(encoding="utf-8") != table())


if __name__ == "__main__":
    sys.exit(main())
