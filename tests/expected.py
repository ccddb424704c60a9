"""Texts of the repository that are made by running `screen`: reports beside the examples, two parts of the README, the pages of the rules,
and the record of `tests/said`.

    python -m tests.expected          # say which of them are out of date
    python -m tests.expected --write  # make them again

`tests/whole/test_expected.py` and `tests/whole/test_said.py` fail where one is out of date.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import screen
from screen.report import glossary, render
from screen.report.page import render as render_rule
from screen.verdict.discover import catalogue
from tests.contradictions import contradictions
from tests.said import record as said
from tests.shared import ROOT

RULES, GLOSSARY = Path("docs/rules.md"), Path("docs/glossary.md")
EXAMPLES = tuple(sorted(path.stem for path in (ROOT / "examples").glob("*.py")))

BERT_LARGE: dict[str, object] = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
FAMOUS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("GPT-2", "hf:gpt2", {}),
    ("BERT-base", "hf:bert:BertModel", {}),
    ("BERT-large", "hf:bert:BertModel", BERT_LARGE),
    ("Llama", "hf:llama", {}),
    ("Gemma 2", "hf:gemma2", {}),
    ("OLMo 2", "hf:olmo2", {}),
    ("Cohere", "hf:cohere", {}),
    ("Mixtral", "hf:mixtral", {}),
    ("Mamba", "hf:mamba", {}),
    ("ViT", "hf:vit:ViTModel", {}),
)
"""Name, target, settings: the default sizes of each model type, and BERT-large by four settings."""


def report_of(target: str, settings: dict[str, object] | None = None) -> screen.Report:
    """One report, captured in this process: torch is loaded once for all of them."""
    return screen.check(target, set=settings or {}, isolate=False)


def first_line(name: str, report: screen.Report | None = None) -> str:
    """The line of the README's table for one famous model. `report`: of it, where there is one."""
    target, settings = next((t, s) for n, t, s in FAMOUS if n == name)
    report = report or report_of(target, settings)
    line = f"{report.verdict}: {report.summary}"
    options = "".join(f" --set {key}={value}" for key, value in settings.items())
    return f"| {name} | `screen check {target}{options}` | {line.replace('|', chr(92) + '|')} |"


def famous() -> str:
    """The README's table."""
    return "\n".join(["| model | command | verdict and what it is |", "|---|---|---|", *(first_line(name) for name, _, _ in FAMOUS)])


def quickstart() -> str:
    """The report that the README shows."""
    return "```text\n" + render(report_of("examples/pre.py"), "text").rstrip() + "\n```"


def example(name: str, report: screen.Report | None = None) -> str:
    """The Markdown report that stands beside an example, without the versions that made it. `report`: on it, where there is one."""
    report = report or report_of(f"examples/{name}.py")
    if found := contradictions(report):
        raise ValueError(f"the report on `{name}` contradicts itself: {'; '.join(found)}")
    return re.sub(r"^Made by .*? (?=Reproduce:)", "", render(report, "markdown"), flags=re.MULTILINE)


def terms() -> str:
    """The glossary, as `docs/glossary.md` has it."""
    return glossary.page()


def rules() -> str:
    """The pages of all rules, as `docs/rules.md` has them."""
    return "\n".join(render_rule(rule) for rule in catalogue().rules)


def uncounted(text: str) -> str:
    """A report without the checks that held, and how many they are: a new rule that a model passes changes no other word of it."""
    text = re.sub(r"<summary>Checks that hold or do not apply</summary>.*?</details>", "", text, flags=re.DOTALL)
    return re.sub(r"\d+ checks? holds?(, \d+ (do|does) not apply)?", "checks hold", text)


CODE = r"\b[A-Z]\d{3}\b"


def is_stale(new: str, shown: str) -> bool:
    """Whether a report says something else than the one that is shown, but for what a rule that was added since says of a model that passes it."""
    for code in set(re.findall(CODE, new)) - set(re.findall(CODE, shown)):
        new = re.sub(rf"<br>{code}: [^|<]*|{code}: [^|<]*<br>|, {code}\b|\b{code}, ", "", new)
    return uncounted(new) != uncounted(shown)


def between(text: str, name: str) -> tuple[str, str, str]:
    """A text cut around the part between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    part, after = rest.split(end)
    return before + begin, part.strip("\n"), end + after


def readme_part(name: str) -> str:
    """What the README has in one of its made parts."""
    return between((ROOT / "README.md").read_text(encoding="utf-8"), name)[1]


def _readme(name: str, make: Callable[[], str], write: bool) -> bool:
    """Whether the part was out of date."""
    path = ROOT / "README.md"
    before, old, after = between(path.read_text(encoding="utf-8"), name)
    new = make()
    if write and new != old:
        path.write_text(f"{before}\n{new}\n\n{after}", encoding="utf-8")
    return is_stale(new, old)


def _file(path: Path, make: Callable[[], str], write: bool) -> bool:
    new = make()
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    if write and new != old:
        path.write_text(new, encoding="utf-8")
    return is_stale(new, old)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.expected", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write: bool = parser.parse_args().write
    os.chdir(ROOT)
    files: dict[Path, Callable[[], str]] = {Path("examples") / f"{name}.md": partial(example, name) for name in EXAMPLES}
    files |= {RULES: rules, GLOSSARY: terms}
    files |= {said.FOLDER.relative_to(ROOT) / f"{name}.json": partial(said.made, name) for name in said.SUBJECTS}
    stale = [str(path) for path, make in files.items() if _file(path, make, write)]
    stale += [f"README.md: {name}" for name, make in (("example", quickstart), ("zoo", famous)) if _readme(name, make, write)]
    print("\n".join(f"{'written' if write else 'out of date'}: {name}" for name in stale) or "all up to date")
    return 0 if write or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
