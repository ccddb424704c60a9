"""Arguments that are containers: a list of samples, a dictionary with the keys that the code reads."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.build.reads import entries_offered, entries_read
from screen.capture.inputs.context import BATCH, Lookup, forward_parameters

MOST_KEYS = 4
"""Of a dictionary whose entries are made."""
FORMS = 64
"""Forms of them that are tried."""


def keys_of(model: nn.Module, name: str, annotation: str) -> list[str]:
    """The keys that a forward reads of its argument; of one that is said to be a dictionary those, too, that parts and other methods of the model
    read of theirs of the same name, or else the names of its `ModuleDict`, without what all share (`self.embeds[f"{name}_embed"]`)."""
    keys = entries_read(getattr(model.forward, "__func__", model.forward), name)
    if keys or "dict" not in annotation.casefold():
        return keys
    methods = [m for m in vars(type(model)).values() if inspect.isfunction(m) and name in inspect.signature(m).parameters]
    parts = {type(m): getattr(m.forward, "__func__", m.forward) for m in model.modules() if name in forward_parameters(m)}
    found = list(dict.fromkeys(key for one in (*methods, *parts.values()) for key in entries_read(one, name)))
    return found or _own_names(list(next((m for m in model.modules() if isinstance(m, nn.ModuleDict)), ())))


def _own_names(names: list[str]) -> list[str]:
    """Names without the words that all of them share at an end: `note_embed` and `pitch_embed` are read for `note` and `pitch`."""
    for ordered in ((lambda words: words[::-1]), list):
        split = [ordered(name.split("_")) for name in names]
        while len(names) > 1 and min(map(len, split)) > 1 and len({words[0] for words in split}) == 1:
            split = [words[1:] for words in split]
        names = ["_".join(ordered(words)) for words in split]
    return names


def lists(kind: Callable[[], Iterator[Any]]) -> Iterator[list[Tensor]]:
    """The samples of a batch one by one, then two inputs."""
    for main in kind():
        if main.dim() > 1:
            yield list(main.unbind(0))
        yield [main, main]


def dictionaries(keys: list[str], kind: Callable[[], Iterator[Any]]) -> Iterator[dict[str, Any]]:
    """A dictionary with these keys: every entry the same input, masks of ones over its first two axes; or one of them a number per sample."""
    for main in kind():
        mask = torch.ones(main.shape[:2], dtype=torch.bool)
        whole = {key: mask if "mask" in key.casefold() else main for key in keys}
        yield whole
        for key in keys if 1 < len(keys) <= MOST_KEYS else ():
            yield {**whole, key: torch.arange(1, BATCH + 1)}


def tables(name: str, model: nn.Module, look: Lookup, widths: list[int]) -> Iterator[dict[str, Tensor]]:
    """Of an argument that is a dictionary: those with every key that the model, or a part that the argument is passed to, asks it for."""
    annotation = str(getattr(forward_parameters(model).get(name), "annotation", ""))
    if "dict" not in annotation.casefold():
        return
    parts = {type(m): m.forward for m in model.modules() if name in forward_parameters(m)}
    asked = [tuple(entries_offered(getattr(f, "__func__", f), name)) for f in parts.values()]
    forms = [(2,), (1,), (), *((w,) for w in widths[:2]), *((look.targets, w) for w in widths[:1])]
    for keys in dict.fromkeys(keys for keys in [*asked, tuple(dict.fromkeys(itertools.chain(*asked)))] if 0 < len(keys) <= MOST_KEYS):
        for chosen in itertools.islice(itertools.product(forms, repeat=len(keys)), FORMS):
            yield {key: look.floats(BATCH, *form) for key, form in zip(keys, chosen, strict=True)}


__all__ = ["dictionaries", "keys_of", "lists", "tables"]
