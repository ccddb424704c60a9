"""Arguments for the forward of a model of transformers, from its signature, its config, and one table (`screen.capture.inputs.rows`).

A plan says which arguments to give, the table how each may look. A model that takes token ids alone has one plan with one answer, which stands
unless another argument turns out to be missing. Otherwise plans are tried on meta, the likely forms first, until the forward runs:

1. what is required, the main inputs (`Row.main`), and what goes with them;
2. the same and masks, places and kinds of tokens (`Row.extra`);
3. tokens and what is required, without the images and sounds that may be left out;
4. the first of these with a batch of one sample.

Trials run on a model whose long stacks are cut to two layers; what runs there is tried on the whole model.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.meta_copy import on_meta
from screen.capture.inputs.context import BATCH, Lookup, widths_of
from screen.capture.inputs.explicit import Inputs
from screen.capture.inputs.idle import Idle
from screen.capture.inputs.rows import ROWS, Like, Row
from screen.capture.inputs.search import Held, mains, nothing, seconds
from screen.capture.inputs.trial import Outcome, outcome, short_twin

BUDGET = 120
TRACED, WHOLE = 4, 30
"""Trials for one plan; what a traced one and one of the whole model count for. No clock: the same model must always get the same inputs."""
REPEATED = 8
"""So often may one failure that does not speak of forms come back: then no other form helps (a part of the model is not there)."""
FURTHEST = 4
"""Choices that came furthest on the shortened model, to be tried on the whole one where none runs: what a layer in the middle of the stack gives to a
later part (features of several depths) is not there on two."""
SPARES, FORMS = 4, 16
"""Optional arguments that may make an idle part of the model run, and values of each."""
MAX_PLACES = 4096
_FORM = re.compile(r"shape|size|dim|unpack|broadcast|match|channel|divisible|multiple|expected|missing|specif", re.IGNORECASE)
"""What a failure says that comes from the form of the inputs."""
_COUNTED = re.compile(r"tokens:?\s*\S+?,?\s*features:?\s*(\d+)")
TOKENS = ("input_ids", "decoder_input_ids")

Plan = dict[str, list[Any]]
"""Argument -> its possible values, likely ones first."""


def arguments(look: Lookup, fixed: dict[str, Any] | None = None, held: Held = nothing) -> Inputs:
    """Arguments with which the forward runs; where none of the plans does, those of the model that holds it (`held`), else those of the first plan.
    `fixed` ones are kept."""
    fixed = fixed or {}
    constant = {"use_cache": False} if "use_cache" in look.parameters else {}
    found, trials = plans(look, fixed), _Trials(look.model)
    if len(found) == 1 and all(len(values) == 1 for values in found[0].values()):
        only = {**constant, **next(combinations(found[0])), **fixed}
        if not _named(look, trials.quick(only), set(only)):
            return (), only
    runs = _first_that_runs(look, trials, found, {**constant, **fixed})
    if runs is None and not fixed and (arrived := held()) is not None:
        return arrived
    if runs is not None:
        return (), _fuller(look, trials, runs)
    return (), {**constant, **next(combinations(found[0]), {}), **fixed}


def _first_that_runs(look: Lookup, trials: _Trials, found: list[Plan], constant: dict[str, Any]) -> dict[str, Any] | None:
    """The first choice with which the forward runs; every plan has its budget. One that runs only by guesses comes after the other plans.

    An argument that the message of a failure names, or that was `None` where it failed for that, is given from then on; one that turned out
    to be one too many is not given again."""
    second: dict[str, Any] | None = None
    furthest: list[dict[str, Any]] = []
    reached: tuple[int, ...] = ()
    for plan in [*found, *map(single, found[:1])]:
        waiting, spent = combinations(plan), 0
        spares: set[str] = set()
        told: Counter[str] = Counter()
        while spent < BUDGET and (values := next(waiting, None)) is not None:
            kwargs = {**values, **constant}
            result, cost = trials.run(kwargs)
            if result.error is None and not result.guessed:
                return kwargs
            if result.error is None:
                second = second or kwargs
                break
            spent += cost
            if cost < WHOLE and result.reached >= reached:
                furthest, reached = [*(furthest if result.reached == reached else []), kwargs][:FURTHEST], result.reached
            told[str(result.error)] += 1
            if told[str(result.error)] > REPEATED and _FORM.search(str(result.error)) is None:
                break
            if (spare := _spare(look, result.error, plan)) is not None:
                spares.add(spare)
                plan = {name: values for name, values in plan.items() if name != spare}
                waiting = combinations(plan)
            elif more := _places(look, result.error, values) or _named(look, result, {*plan, *constant, *spares}):
                plan = {**plan, **more}
                waiting = combinations(plan)
    if second is None and trials.shortened:
        second = next((kwargs for kwargs in furthest if _runs(trials.whole(kwargs))), None)
    return second


def _fuller(look: Lookup, trials: _Trials, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with optional tensors that no row makes and without which a part of the model never runs (a prompt, for cross-attention)."""
    spares = [n for n, p in look.parameters.items() if p.default is None and n not in kwargs and n not in ROWS and "Tensor" in str(p.annotation)]
    if not spares:
        return kwargs
    without = Idle(trials.short or on_meta(look.model)).parts
    idle = without(kwargs)
    for name in spares[:SPARES]:
        if not idle:
            break
        for value in itertools.islice((v for v in seconds(name, look.model, look, look.widths, None) if isinstance(v, Tensor)), FORMS):
            left = without({**kwargs, name: value})
            if left is not None and left < idle:
                kwargs, idle = {**kwargs, name: value}, left
                break
    return kwargs


class _Trials:
    """Copies of one model to try inputs on."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.short = short_twin(model)
        self._alike: set[str] = set()
        """Failures of the shortened model that were those of the whole one too."""

    def quick(self, kwargs: dict[str, Any]) -> Outcome:
        """What came of it on the shortened model, which is traced where it reads values; up to the first read, where there is none. Every model takes
        this, so it has to cost little."""
        if self.short is None:
            return outcome(on_meta(self.model), (), kwargs, tracing=False)
        return outcome(self.short, (), kwargs)

    @property
    def shortened(self) -> bool:
        """Whether the model has stacks that were cut."""
        return self.short is not None

    def whole(self, kwargs: dict[str, Any]) -> Outcome:
        """What comes of it on the whole model."""
        return outcome(on_meta(self.model), (), kwargs)

    def run(self, kwargs: dict[str, Any]) -> tuple[Outcome, int]:
        """What came of it, and the cost. A choice that fails on the shortened model for its form, or as both failed before, fails on the whole one;
        any other failure may come from a missing layer, and what runs on the shortened one has to run on the whole one."""
        if self.short is None:
            found = self.whole(kwargs)
            return found, TRACED if found.traced else 1
        found = outcome(self.short, (), kwargs)
        if found.error is not None and (str(found.error) in self._alike or _FORM.search(str(found.error)) is not None):
            return found, TRACED if found.traced else 1
        whole = self.whole(kwargs)
        if found.error is not None and str(whole.error) == str(found.error):
            self._alike.add(str(found.error))
        return whole, WHOLE


def _runs(found: Outcome) -> bool:
    """Whether a forward ran to its end, and by no guess."""
    return found.error is None and not found.guessed


def _spare(look: Lookup, error: BaseException, plan: Plan) -> str | None:
    """The second of two arguments that a failure says must not both be given."""
    found = re.search(r"both `?(\w+)`? and `?(\w+)`?", str(error))
    names = found.groups() if found else ()
    return names[1] if names and all(n in plan for n in names) and look.parameters[names[1]].default is None else None


def _places(look: Lookup, error: BaseException, values: dict[str, Any]) -> Plan:
    """Token ids with as many place holders as the message of a failure counts features: `tokens: 0, features: 576`."""
    found = _COUNTED.search(str(error))
    ids = values.get("input_ids")
    kind = next((k for k in ("image", "video", "audio") if k in str(error).casefold()), "")
    token = look.get(f"{kind}_token_id", f"{kind}_token_index") if kind else None
    if found is None or ids is None or not isinstance(token, int) or bool((ids == token).any()):
        return {}
    rows = ids.shape[0]
    count = -(-int(found[1]) // rows)
    return {"input_ids": [torch.cat([ids[:, :1], torch.full((rows, count), token), ids[:, 1:]], 1)]} if count <= MAX_PLACES else {}


def _named(look: Lookup, result: Outcome, given: set[str]) -> Plan:
    """The arguments that were missing and not given: those that were `None` where it failed, and those with a row that the message names."""
    if result.error is None:
        return {}
    words = set(re.findall(r"\w+", str(result.error)))
    wanted = [p for n, p in look.parameters.items() if n not in given and ((n in words and n in ROWS) or (n in result.missing and _makeable(p)))]
    found = {p.name: values for p in wanted if (values := alternatives(look, p, needed=True))}
    return found or {n: list(_handed_on(look)) for n in result.inner if n not in given}


def _handed_on(look: Lookup) -> Iterator[Tensor]:
    """A condition that parts of the model take: one vector for each text, or for each token."""
    for width in dict.fromkeys([look.width, *look.widths[:2]]):
        yield look.floats(BATCH, 1, width)
        yield look.floats(BATCH, width)
        yield look.floats(BATCH, look.tokens, width)


def _makeable(parameter: inspect.Parameter) -> bool:
    """Has it a row, or may it be a tensor, as far as its annotation goes?"""
    return parameter.name in ROWS or parameter.annotation is parameter.empty or "Tensor" in str(parameter.annotation)


def single(plan: Plan) -> Plan:
    """A plan with one sample for a batch."""

    def one(value: Any) -> Any:
        return value[:1] if isinstance(value, Tensor) and value.dim() and value.shape[0] == BATCH else value

    return {name: [one(v) for v in values] for name, values in plan.items() if not any(isinstance(v, Like) for v in values)}


def combinations(plan: Plan) -> Iterator[dict[str, Any]]:
    """Choices of one value for each argument, those nearest to the first ones first."""
    ranges = [range(len(values)) for values in plan.values()]
    total = 1
    for r in ranges:
        total *= len(r)
    numbers = itertools.product(*ranges) if total > 20_000 else iter(sorted(itertools.product(*ranges), key=sum))
    seen: set[Any] = set()
    for choice in itertools.islice(numbers, BUDGET):
        chosen = {name: values[n] for (name, values), n in zip(plan.items(), choice, strict=True)}
        made = {name: value.made(chosen) if isinstance(value, Like) else value for name, value in chosen.items()}
        key = tuple(getattr(made[name], "shape", None) if isinstance(value, Like) else id(value) for name, value in chosen.items())
        if key in seen:  # two rules for a mask, one mask
            continue
        seen.add(key)
        yield {name: value for name, value in made.items() if value is not None or not isinstance(chosen[name], Like)}


def plans(look: Lookup, fixed: dict[str, Any]) -> list[Plan]:
    """Which arguments to give, in the order of the module docstring; equal plans once."""
    free = {name: p for name, p in look.parameters.items() if name not in fixed}
    required = {name for name, p in free.items() if p.default is p.empty}
    main = {n for n in free if n in ROWS and ROWS[n].main}
    partners = {n for n in free if n in ROWS and (any(g in main | required for g in ROWS[n].goes_with) or look.get(ROWS[n].when) is True)}
    extra = {n for n in free if n in ROWS and ROWS[n].extra}
    tokens = {n for n in main if n in TOKENS}
    if not main | required:
        main = {n for n in list(free)[:1] if n in ROWS}
    chosen = [main | required | partners, main | required | partners | extra, *([tokens | required] if tokens and tokens != main else [])]
    found: list[Plan] = []
    names: list[set[str]] = []
    for wanted in chosen:
        plan = {n: values for n, p in free.items() if n in wanted and (values := alternatives(look, p))}
        if set(plan) not in names and (set(plan) != set() or not found):
            found.append(plan)
            names.append(set(plan))
        if not names or (set(plan) <= set(TOKENS) and all(len(values) == 1 for values in plan.values())):
            break
    return found


def alternatives(look: Lookup, parameter: inspect.Parameter, needed: bool = False) -> list[Any]:
    """The forms that an argument may have; none when this model does not need it. `needed`: it is, whatever its default says."""
    entry = ROWS.get(parameter.name)
    if entry is not None:
        return list(entry.make(look))
    if parameter.default is not parameter.empty and not needed:
        return []
    widths = widths_of(look.model)
    second, first = seconds(parameter.name, look.model, look, widths, None), mains(look.model, look, widths, parameter.name)
    maps = [look.floats(BATCH, 8, 12, widths[0]), look.floats(BATCH, widths[0], 8, 12)]
    kinds = [*itertools.islice(second, 8), *itertools.islice(first, 12), *maps]
    if "list[" in str(parameter.annotation).casefold():  # maps of several resolutions
        kinds = [[look.floats(BATCH, w, 16 // n, 4 // n) for n in (1, 2)] for w in widths[:4]] + kinds
    return kinds


__all__ = ["Plan", "Row", "alternatives", "arguments", "combinations", "plans"]
