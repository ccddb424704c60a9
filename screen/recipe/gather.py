"""The recipe of another program's table: what its words mean, put together where a field is made of several. What says nothing is listed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from screen.recipe.aliases import ALIASES, FOREIGN_SECTIONS, INSIDE, OPTIMIZERS, SAME, SCHEDULES, SECTIONS, TYPES
from screen.recipe.recipe import Recipe
from screen.recipe.stated import Stated, Where, state

WORDS = ("optimizer", "schedule", "params_precision", "@dtype", "@clip_by")
"""What is a word and not a number."""
FLAGS = ("fp8", "lr_times_rms", "@bfloat16", "@float16", "@tf32", "@decay_lr")
"""What is true or false."""


@dataclass
class Gathered:
    """What was read of one table so far."""

    values: dict[str, Any] = field(default_factory=dict)
    """Field or part -> value."""
    keys: dict[str, str] = field(default_factory=dict)
    """Field or part -> key as it is written there."""
    why: dict[str, str] = field(default_factory=dict)
    """Key -> why it was not used, where that is not plain."""
    torn: set[str] = field(default_factory=set)
    """Fields and parts of which something is said that is not known: two keys differ, or a value cannot be read."""

    def take(self, name: str) -> Any:
        """Takes a value out that is used elsewhere."""
        del self.keys[name]
        return self.values.pop(name)

    def drop(self, name: str, why: str) -> None:
        """Takes a value out, with the reason for which it says nothing."""
        self.why[self.keys[name]] = why
        self.take(name)

    def use(self, name: str, part: str, value: Any) -> None:
        """Makes a field of a part; a field that is stated itself wins."""
        key = self.keys[part]
        self.take(part)
        if name in self.values:
            self.why[key] = f"`{self.keys[name]}` says it"
        else:
            self.values[name], self.keys[name] = value, key


def meaning(key: str) -> str | None:
    """The field or part that a dotted key means; None where it means none."""
    *sections, word = (part.lower().replace("-", "_") for part in key.split("."))
    if FOREIGN_SECTIONS.intersection(sections):
        return None
    inside = next((SECTIONS[s] for s in reversed(sections) if s in SECTIONS), "")
    if word == "enabled" and sections:  # DeepSpeed: {"bf16": {"enabled": true}}
        word = sections[-1]
    return INSIDE[inside].get(word) or INSIDE[""].get(word) or ALIASES.get(word) or (word if word in SAME else None)


def gather(
    leaves: Mapping[str, Any], where: Where, *, devices: int | None = None, autocast: bool = False, unread: Mapping[str, str] | None = None
) -> Stated:
    """The recipe of a table. `devices`: over how many a pass is spread, None where it is not said. `autocast`: whether `bf16` and `fp16` mean it;
    else they may mean that the model itself is of that type. `unread`: keys without a value, and why.

    Raises `UsageError` for a value that its field cannot have."""
    found = Gathered(why=dict(unread or {}), torn={part for key in unread or {} if (part := meaning(key) or "").startswith("@")})
    plain: list[str] = []
    for key, value in leaves.items():
        name = meaning(key)
        if name is None:
            plain.append(key)
        elif value is not None:
            _take(found, name, key, value)
    for compose in COMPOSED:
        compose(found)
    _precision(found, autocast)
    _batch(found, devices)
    for name in [name for name in found.values if name.startswith("@")]:
        found.drop(name, "there is no field for it")
    reasons = [f"`{key}` of {where.origin} ({why})" for key, why in found.why.items()]
    return state(found.values, replace(where, keys=found.keys), [*reasons, *(f"`{key}` of {where.origin}" for key in plain)])


def _take(found: Gathered, name: str, key: str, value: Any) -> None:
    """One value under its field; two that differ say nothing."""
    value = _pair(value) if name == "betas" else value
    if name in found.torn:
        found.why[key] = "keys of the same meaning differ"
    elif not _can_be(name, value):
        found.why[key] = "no value that can be read stands there"
        if name not in WORDS:
            found.torn.add(name)
    elif name not in found.values:
        found.values[name], found.keys[name] = value, key
    elif found.values[name] != value:
        found.torn.add(name)
        found.why[key] = "keys of the same meaning differ"
        found.drop(name, "keys of the same meaning differ")


def _can_be(name: str, value: Any) -> bool:
    """Whether a value is of the kind that a field or part takes: `auto` and `${model.lr}` are no numbers."""
    if name == "@dtype":
        return _type(value) is not None
    if name in WORDS or name in FLAGS:
        return isinstance(value, str | bool | int)
    if name == "betas":
        return isinstance(value, list) and len(value) == 2 and all(_float(v) is not None for v in value)
    return _float(value) is not None


def _float(value: Any) -> float | None:
    """A number, also as text; infinite where it is too large for one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return math.inf


def _pair(value: Any) -> Any:
    """`(0.9, 0.98)` as text is two numbers."""
    return re.split(r"\s*,\s*", value.strip(" ()[]")) if isinstance(value, str) else list(value) if isinstance(value, tuple) else value


def _number(found: Gathered, name: str) -> float:
    """The value of a field or part that is there."""
    value = _float(found.values[name])
    assert value is not None, name
    return value


def _flag(value: Any) -> bool | None:
    """A truth value, also as text."""
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).strip().lower())


def _betas(found: Gathered) -> None:
    if "betas" not in found.values and {"@beta1", "@beta2"} <= set(found.values):
        second = found.take("@beta2")
        found.use("betas", "@beta1", [found.values["@beta1"], second])
    for part in ("@beta1", "@beta2"):
        if part in found.values:
            found.drop(part, "`betas` says it" if "betas" in found.values else "the other one of the two is not stated")


def _optimizer(found: Gathered) -> None:
    if "optimizer" in found.values:
        word = str(found.values["optimizer"]).lower().rpartition(".")[2]
        found.values["optimizer"] = next((name for name in OPTIMIZERS if name in word), word)


def _schedule(found: Gathered) -> None:
    if "schedule" in found.values:
        word = re.sub(r"[_-]", "", str(found.values["schedule"]).lower().rpartition(".")[2])
        word = re.sub(r"(lr|scheduler|schedule)+$", "", word)
        if word in SCHEDULES:
            found.values["schedule"] = SCHEDULES[word]
        else:
            found.drop("schedule", "no kind of schedule that is known here")
    if "@decay_lr" in found.values and _flag(found.values["@decay_lr"]) is False:
        found.use("schedule", "@decay_lr", "constant")
    elif "@decay_lr" in found.values:
        found.drop("@decay_lr", "it does not say how")


def _warm_up(found: Gathered) -> None:
    if "@warmup" in found.values:
        found.use("warmup_fraction" if 0 < _number(found, "@warmup") < 1 else "warmup_steps", "@warmup", found.values["@warmup"])
    steps = _number(found, "warmup_steps") if "warmup_steps" in found.values else None
    if steps is not None and 0 < steps < 1:  # transformers from version 5 on
        found.use("warmup_fraction", "warmup_steps", steps)
    elif steps is not None and "warmup_fraction" in found.values:
        name = "warmup_fraction" if steps > 0 else "warmup_steps"  # transformers up to version 4: steps above 0 win
        found.drop(name, f"`{found.keys['warmup_steps' if name == 'warmup_fraction' else 'warmup_fraction']}` says it")
    if "@epochs" in found.values:
        found.drop("@epochs", "it does not say how many steps")


def _length(found: Gathered) -> None:
    """0 and -1 are no number of steps in any of these programs."""
    if "total_steps" in found.values and _number(found, "total_steps") in (0, -1):
        found.drop("total_steps", "the number of steps is not set there")


def _clip(found: Gathered) -> None:
    by = str(found.values.get("@clip_by", "norm")).lower()
    if "grad_clip" in found.values and _number(found, "grad_clip") == 0:
        found.drop("grad_clip", "gradients are not clipped")
    elif "grad_clip" in found.values and by != "norm":
        found.drop("grad_clip", f"gradients are clipped by {by}, not by norm")


def _min_lr(found: Gathered) -> None:
    if "@min_lr_ratio" in found.values:
        if "lr" in found.values:
            found.use("min_lr", "@min_lr_ratio", float(f"{_number(found, '@min_lr_ratio') * _number(found, 'lr'):.12g}"))
        else:
            found.drop("@min_lr_ratio", "the peak is not stated")


def _precision(found: Gathered, autocast: bool) -> None:
    flags = {"@bfloat16": "bfloat16", "@float16": "float16", "@tf32": "tf32"}
    stated = {part: _flag(found.values[part]) for part in flags if part in found.values}
    on = [part for part, flag in stated.items() if flag]
    if on:
        if autocast and on[0] != "@tf32":
            found.values["autocast"], found.keys["autocast"] = True, found.keys[on[0]]
        found.use("precision", on[0], flags[on[0]])
    elif autocast and stated.get("@bfloat16") is False and stated.get("@float16") is False:
        found.values["autocast"], found.keys["autocast"] = False, found.keys["@bfloat16"]
    for part in flags:
        if part in found.values:
            found.take(part)
    if "@dtype" in found.values:
        _mixture(found)


def _type(word: Any) -> str | None:
    """The type in a word for one, however it is mixed."""
    return TYPES.get(str(word).lower().removeprefix("torch.").removeprefix("amp_").removesuffix("-mixed").removesuffix("-true"))


def _mixture(found: Gathered) -> None:
    """`bf16-mixed` and `amp_bf16` are autocast over weights in float32, `bf16-true` is none."""
    word, key = str(found.values["@dtype"]).lower(), found.keys["@dtype"]
    mixed, true, name = word.endswith("-mixed") or word.startswith("amp_"), word.endswith("-true"), _type(word)
    found.use("precision", "@dtype", name)
    for other, value in (("autocast", mixed), ("params_precision", "float32" if mixed else name)):
        if (mixed or true) and other not in found.values:
            found.values[other], found.keys[other] = value, key


def _batch(found: Gathered, devices: int | None) -> None:
    """Tokens per step, where all that they are made of is stated."""
    names = ("@sequences", "@micro", "@passes", "@length")
    numbers = {name: _count(found.values.get(name)) for name in names}
    sequences, length, micro = numbers["@sequences"], numbers["@length"], numbers["@micro"]
    passes = 1 if "@passes" not in found.values and "@passes" not in found.torn else numbers["@passes"]
    if sequences is None and devices is not None and micro is not None and passes is not None:
        sequences = micro * passes * devices
    parts = [name for name in names if name in found.values]
    if sequences is not None and length is not None and "batch_size" not in found.values:
        found.use("batch_size", "@length", sequences * length)
        parts.remove("@length")
        for part in parts:
            found.take(part)
        return
    missing = "the length of a sequence is not stated" if length is None else "the number of sequences in a step, of all devices, is not stated"
    for part in parts:
        found.drop(part, f"`{found.keys['batch_size']}` says it" if "batch_size" in found.values else missing)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**12 else None


COMPOSED: tuple[Callable[[Gathered], None], ...] = (_betas, _optimizer, _schedule, _warm_up, _length, _clip, _min_lr)
"""What is made of parts, in this order."""

assert set(SAME) <= set(Recipe.model_fields)

__all__ = ["gather", "meaning"]
