"""Commands that print what hangs on no target: rules, recipes, words, the schema, settings, the machine."""

from __future__ import annotations

import os
import sys

from screen import settings as configuration
from screen.command import console
from screen.errors import UsageError
from screen.graph.target import did_you_mean


def rule(code: str | None, everything: bool) -> int:
    """`screen rule`: one page, all pages, or the list."""
    from screen.report.page import render
    from screen.verdict.discover import catalogue, lookup

    found = catalogue()
    for fault in found.faults:
        console.line(f"warning: the rule `{fault.rule}` did not load: {fault.reason}")
    if everything:
        sys.stdout.write("\n".join(render(loaded) for loaded in found.rules))
    elif code is None:
        width = max((len(r.rule.name) for r in found.rules), default=0)
        sys.stdout.writelines(f"{r.rule.code}  {r.rule.name:<{width}}  {r.rule.severity}\n" for r in found.rules)
    else:
        loaded_rule = lookup(code)
        if loaded_rule is None:
            known = [*(r.rule.code for r in found.rules), *(r.rule.name for r in found.rules)]
            hint = did_you_mean(code, known) or "`screen rule` lists them"
            raise UsageError("`screen rule` must be given the code or the name of a rule", f"there is none called `{code}`", hint)
        sys.stdout.write(render(loaded_rule))
    return 0


def recipe(name: str | None, fields: bool) -> int:
    """`screen recipe`: the names, the fields, or one recipe as TOML."""
    from screen.recipe import presets
    from screen.recipe.read import recipe_of
    from screen.recipe.recipe import Recipe
    from screen.recipe.write import toml

    if fields:
        width = max(map(len, Recipe.model_fields))
        sys.stdout.writelines(f"{field:<{width}}  {said.description}\n" for field, said in Recipe.model_fields.items())
    elif name is None:
        width = max(map(len, presets.names()))
        sys.stdout.writelines(f"{known:<{width}}  {presets.about(known)[0]}\n" for known in presets.names())
    else:
        file = None if os.path.isfile(name) else presets.find(name)
        sys.stdout.write(toml(recipe_of(name, "`screen recipe`"), *(presets.about(file.stem) if file is not None else ())))
    return 0


def explain(word: str) -> int:
    """`screen explain`: an entry of the glossary, or the page of a rule; without a word all that there are."""
    from screen.report import glossary

    if not word:
        sys.stdout.writelines(f"{term.name}\n" for term in glossary.terms())
        return 0
    term = glossary.explain(word)
    if term is None:
        from screen.verdict.discover import lookup

        if lookup(word) is not None:
            return rule(word, False)
        hint = did_you_mean(word, glossary.words()) or "`screen explain` lists the words"
        raise UsageError("`screen explain` must be given a word of a report or the code of a rule", f"`{word}` is none", hint)
    sys.stdout.write(glossary.text(term))
    return 0


def schema() -> int:
    """`screen schema`: of one report; several stand in `Reports` of its definitions."""
    import json

    from screen.report.schema import Report

    sys.stdout.write(json.dumps(Report.model_json_schema(), indent=2, sort_keys=True) + "\n")
    return 0


def config() -> int:
    """`screen config`."""
    sys.stdout.write(configuration.show(configuration.load({})))
    return 0


def doctor() -> int:
    """`screen doctor`."""
    from screen.command.doctor import report

    sys.stdout.write(report())
    return 0


__all__ = ["config", "doctor", "explain", "recipe", "rule", "schema"]
