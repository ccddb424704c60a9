"""Rules of the calculus, broken on purpose: the harness must see each of them.

`python -m tests.soundness.mutations --write` copies the sources, changes one line of `screen`, and attacks random designs in a
process of its own until a violation shows; the results stand in `mutations.json`, which the page of the run prints.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.copies import ROOT, copied, replaced

RESULTS = Path(__file__).with_name("mutations.json")


@dataclass(frozen=True)
class Mutation:
    """One line of `screen` and what it becomes."""

    name: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        """The file in this repository."""
        return ROOT / "screen" / self.file


MUTATIONS = (
    Mutation("a norm over more heads costs nothing", "calculi/bounds/mixed_norms.py",
             "cost *= 1.0 if a in fact.outer else math.sqrt(sizes[a])", "cost *= 1.0"),
    Mutation("a sum counts its first operand only", "calculi/bounds/mixed_norms.py",
             "add(query(left, sizes, *k), query(right, sizes, *k))", "query(left, sizes, *k)"),
    Mutation("a bias counts nothing", "calculi/bounds/value.py", "if magnitude and p.bias is not None:", "if magnitude and p.bias is None:"),
    Mutation("per-head norms are not split off the whole", "calculi/bounds/value.py",
             'roles.replace("h", "r")', 'roles.replace("h", "s").replace("r", "s")'),
    Mutation("a norm's output has norm 1, not √d", "calculi/bounds/rules/norm.py", "radius = 1.0 / divisor.c", "radius = 1.0"),
    Mutation("ε is four times as large", "calculi/bounds/rules/norm.py", "Divisor(1.0 / math.sqrt(norm.size), 1.0, math.sqrt(eps))",
             "Divisor(1.0 / math.sqrt(norm.size), 1.0, 2 * math.sqrt(eps))"),
    Mutation("GELU has slope 1", "ops/scalars.py", "GELU_LIPSCHITZ = 1.13", "GELU_LIPSCHITZ = 1.0"),
    Mutation("SiLU has slope 1", "ops/scalars.py", "SILU_LIPSCHITZ = 1.09984", "SILU_LIPSCHITZ = 1.0"),
    Mutation("φ(0) of a sigmoid counts nothing", "ops/scalars.py",
             '"sigmoid": Scalar(_sigmoid, Shape(0.25, 0.25, 0.5, 0.0, 1.0, rising=True)',
             '"sigmoid": Scalar(_sigmoid, Shape(0.25, 0.25, 0.0, 0.0, 1.0)'),
    Mutation("softmax is half as sensitive", "calculi/bounds/rules/reduce.py",
             "mul(sym(theta), query(u.der, u.flat))", "mul(num(0.5), query(u.der, u.flat))"),
    Mutation("a sum over n entries costs √n", "calculi/bounds/rules/reduce.py",
             "return math.sqrt(size) if atom in f.inner or atom in f.outer else float(size)", "return math.sqrt(size)"),
    Mutation("a map counts its largest row", "calculi/bounds/value.py",
             'cuts = [("r" * count, frozenset(p.atoms)', 'cuts = [("s" * count, frozenset(p.atoms)'),
    Mutation("weights of tokens count in ℓ2", "calculi/bounds/products.py", "weight = x.norm(k, p=1).bound", "weight = x.norm(k, p=2).bound"),
    Mutation("a product moves with its first factor only", "calculi/bounds/pointwise.py",
             "der = plus(times_(a.left.der, a.right.mag), times_(a.left.mag, a.right.der), a.flat)", "der = times_(a.left.der, a.right.mag)"),
    Mutation("1/b has slope 1/b", "calculi/bounds/rules/quotient.py", "steep = num(1.0 / least**2)", "steep = num(1.0 / least)"),
    Mutation("a filter counts its largest tap", "calculi/bounds/rules/convolution.py", '"src" + "t" * taps', '"src" + "s" * taps'),
    Mutation("a rotation keeps the largest entry", "calculi/bounds/rules/rotary.py",
             "entry = mul(num(size * math.sqrt(2.0))", "entry = mul(num(size)"),
    Mutation("parts side by side count as the largest", "calculi/bounds/rules/join.py",
             "return add(*found) if p == 1 else rss(*found)", "return largest(*found)"),
    Mutation("free weights are held fixed", "calculi/bounds/boundedness.py",
             'return not symbol.startswith(("sigma_", "theta_")) and not fixed(walk, symbol)', "return False"),
    Mutation("every norm centres", "calculi/bounds/rules/norm.py", "Normed(radius, slope, norm.centred)", "Normed(radius, slope, True)"),
    Mutation("a gain is not folded into the map after it", "calculi/bounds/pointwise.py", "replace(known, gain=flat)", "known"),
    Mutation("values move attention by half of their spread", "calculi/bounds/rules/linear.py",
             "sharp = Fact(sym(symbol),", "sharp = Fact(mul(num(0.5), sym(symbol)),"),
    Mutation("constants of queries and keys count nothing", "calculi/bounds/head_products.py",
             "mul(both, q.magnitude, k.magnitude), mul(left, q.magnitude), mul(right, k.magnitude), rest)", "mul(both, q.magnitude, k.magnitude))"),
    Mutation("logits do not move with queries", "calculi/bounds/head_products.py",
             "slope = add(mul(q.derivative, add(mul(both, k.magnitude), left)), ", "slope = add("),
    Mutation("any matrix of weights mixes values as a convex one does", "calculi/bounds/rules/linear.py",
             "if a.balanced and a.balanced == a.axis(-1) and a.low >= 0:", "if True:"),
    Mutation("the constant of the values does not reach the output", "calculi/bounds/head_products.py",
             "constant = bias if flat is None else vector_of(weight, flat, bias)", "constant = bias"),
    Mutation("what is scattered keeps norms of other axes", "calculi/bounds/rules/write.py",
             "if along and along <= f.inner and same", "if along and same"),
)


def trials_until_found(mutation: Mutation, limit: int) -> int | None:
    """Trials until the first violation in a copy of the sources with the mutation; None when there is none in `limit` structures."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder), ("__pycache__", "*.json"))
        replaced(copy / "screen" / mutation.file, mutation.old, mutation.new)
        command = [sys.executable, "-m", "tests.soundness.mutations", "--hunt", str(limit)]
        said = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=900, check=True).stdout
    found: int | None = json.loads(said)
    return found


def hunt(limit: int) -> int | None:
    """Attack designs until a violation shows; the number of trials that it took."""
    import torch

    from tests.soundness.grammar import distinct
    from tests.soundness.shards import Plan, one_structure

    torch.set_num_threads(1)
    plan, trials = Plan(draws=6, steps=10, seed=7), 0
    for number, design in enumerate(distinct(limit, plan.seed)):
        record = one_structure(number, design, plan)
        trials += record.trials
        if record.violations:
            return trials
    return None


def table(results: Mapping[str, int | None]) -> str:
    """Markdown."""
    if not results:
        return ""
    lines = ["## Rules broken on purpose", "", "| mutation | first violation after so many trials |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {'not found' if n is None else n} |" for name, n in results.items()), ""])


def recorded() -> dict[str, int | None]:
    """The results that are written down."""
    found: dict[str, int | None] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return found


def main() -> int:
    """Hunt each mutation; exit with 1 when one is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.soundness.mutations", description="rules broken on purpose")
    parser.add_argument("--limit", type=int, default=150, help="structures to attack at most")
    parser.add_argument("--hunt", type=int, default=0, help="(in the copy) attack so many structures")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="mutations with this in their name; the results of the others stay")
    given = parser.parse_args()
    if given.hunt:
        print(json.dumps(hunt(given.hunt)))
        return 0
    results = recorded() if given.only else {}
    for mutation in MUTATIONS:
        if given.only and given.only not in mutation.name:
            continue
        results[mutation.name] = trials_until_found(mutation, given.limit)
        print(mutation.name, results[mutation.name], flush=True)
    if given.write:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return int(None in results.values())


if __name__ == "__main__":
    sys.exit(main())
