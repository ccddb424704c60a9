"""Finds the rules and runs them.

Rules are the modules of the package `screen.rules` and whatever other distributions register as entry points of the group
`screen.rules` (each naming a module). Nothing lists them: adding a file adds a rule. A rule that does not load, that has another
rule's code, or whose check raises, is a result (`RuleRun.not_run`) that stands in every report. Codes from X900 to X999 of each letter are
reserved for other distributions, which have no others: no rule of ours will ever have them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType, ModuleType
from typing import get_args

from screen import plugins
from screen.errors import swallowed
from screen.facts.record import Facts
from screen.ops.foreign import same
from screen.rule import ChannelId, Example, Finding, LoadedRule, Outcome, Rule, RuleFault, RuleRun, Severity, Step

CODE = re.compile(r"[DRLOINSG]\d{3}")
RESERVED = re.compile(r"[DRLOINSG]9\d{2}")
"""Codes of rules of other distributions."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
GROUP = "screen.rules"
QUOTED, DIGITS = re.compile(r"`[\w.]*`|^[\w.]+$"), re.compile(r"(?<![^.`])\d+(?=[.`]|$)")
"""Names of modules, and the numbers that count members in them."""


@dataclass(frozen=True)
class Catalogue:
    """Rules by code, and those that did not load; tables of ops of other distributions (`screen.ops.foreign`) that did not are among these."""

    rules: tuple[LoadedRule, ...]
    faults: tuple[RuleFault, ...]


@cache
def catalogue() -> Catalogue:
    """All rules that this installation has; found once per process."""
    found = collect((*plugins.own(GROUP).values(), *dict.fromkeys(plugins.foreign(GROUP).values())), plugins.distributions(GROUP))
    return replace(found, faults=(*found.faults, *(RuleFault(module, why) for module, why in same()[1].items())))


def collect(modules: Iterable[str], foreign: Mapping[str, str] = MappingProxyType({})) -> Catalogue:
    """The catalogue of the named modules. `foreign`: those of other distributions, with these."""
    loaded: dict[str, LoadedRule] = {}
    faults: list[RuleFault] = []
    for module in modules:
        found = _load(module)
        if module in foreign and isinstance(found, LoadedRule) and not RESERVED.fullmatch(found.rule.code):
            found = RuleFault(found.rule.code, f"its code is not reserved for other distributions, as `{found.rule.code[0]}900` to `999` are")
        if isinstance(found, RuleFault):
            whose = f"of the distribution `{foreign[module]}`: " if foreign.get(module) else ""
            faults.append(replace(found, reason=f"{whose}{found.reason}"))
        elif found.rule.code in loaded:
            faults.append(RuleFault(found.rule.code, f"`{module}` has the code of the rule `{loaded[found.rule.code].rule.name}`"))
        else:
            loaded[found.rule.code] = found
    return Catalogue(tuple(loaded[code] for code in sorted(loaded)), tuple(faults))


def lookup(text: str) -> LoadedRule | None:
    """The rule with this code or name, in any case."""
    wanted = text.strip().lower()
    return next((r for r in catalogue().rules if wanted in (r.rule.code.lower(), r.rule.name)), None)


def run_rules(facts: Facts, rules: Catalogue | None = None) -> RuleRun:
    """Runs every rule on the facts; a check that raises is a fault of that rule and stops no other."""
    catalogue_ = rules if rules is not None else catalogue()
    findings: list[Finding] = []
    faults = list(catalogue_.faults)
    for loaded in catalogue_.rules:
        try:
            outcomes = loaded.check(facts)
        except MemoryError:
            raise
        except Exception as error:  # a rule is somebody else's code: whatever it raises is a result
            faults.append(RuleFault(loaded.rule.code, f"its check raised `{swallowed(loaded.rule.code, error)}`"))
        else:
            findings += [Finding(loaded.rule, outcome) for outcome in _once_each(outcomes)]
    return RuleRun(tuple(findings), tuple(faults))


def _once_each(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes that differ in nothing but the number of a layer, of one line of the user's code, are one that says how many more there are."""
    alike: dict[object, list[Outcome]] = {}
    for outcome in outcomes:
        place = outcome.site.place
        site = replace(outcome.site, place=None if place is None else replace(place, module=_numberless(place.module), node=0))
        alike.setdefault((_numberless(outcome.message), replace(outcome, message="", site=site)), []).append(outcome)
    return [first if not more else replace(first, message=f"{first.message} And {len(more)} more like it.") for first, *more in alike.values()]


def _numberless(text: str) -> str:
    """A message without the numbers in names of modules."""
    return QUOTED.sub(lambda found: DIGITS.sub("#", found[0]), text)


def _load(name: str) -> LoadedRule | RuleFault:
    short = name.rpartition(".")[2]
    try:
        module = importlib.import_module(name)
    except Exception as error:  # a broken plugin must not break the command
        return RuleFault(short, f"it does not load: `{type(error).__name__}: {error}`")
    fault = _fault(module)
    if fault:
        return RuleFault(short, fault)
    return LoadedRule(module.RULE, module.__doc__ or "", module.check, module.HOLDS, module.VIOLATES, module.CANNOT_TELL)


def _fault(module: ModuleType) -> str:
    """What a rule file lacks, in words; empty when nothing."""
    rule = getattr(module, "RULE", None)
    if not isinstance(rule, Rule):
        return "it has no `RULE = Rule(...)`"
    if not CODE.fullmatch(rule.code):
        return f"its code `{rule.code}` is not a channel letter or G and three digits"
    if not NAME.fullmatch(rule.name):
        return f"its name `{rule.name}` is not in kebab case"
    for field, kind in (("step", Step), ("severity", Severity), ("channel", ChannelId)):
        value, known = getattr(rule, field), get_args(kind)
        if value not in known and not (field == "channel" and value is None):
            return f"its {field} `{value}` is none of {', '.join(known)}"
    if not callable(getattr(module, "check", None)):
        return "it has no `check(facts)`"
    if not (module.__doc__ or "").strip():
        return "it has no docstring"
    for group in ("HOLDS", "VIOLATES", "CANNOT_TELL"):
        examples = getattr(module, group, ())
        if not isinstance(examples, tuple) or not examples or not all(isinstance(e, Example) for e in examples):
            return f"`{group}` is not a tuple of at least one `Example`"
    return ""


__all__ = ["Catalogue", "Outcome", "catalogue", "collect", "lookup", "run_rules"]
