"""What rows of the input table may look at: the config by field name, the model by layer type, lengths that collide with nothing."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

BATCH = 2
LENGTHS = (16, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
"""Sequence lengths to try in turn: the first that equals no other size of the model is taken."""


SHORT = (13, 11, 7, 5)
"""Lengths for a table of positions that has no room for those."""


def parameters_of(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that have a size: those of a lazy module have none before its first call."""
    return [p for p in model.parameters() if not nn.parameter.is_lazy(p)]


def sizes_of(model: nn.Module) -> frozenset[int]:
    """Every size of every parameter and buffer."""
    found = {s for p in parameters_of(model) for s in p.shape}
    return frozenset(found | {s for b in model.buffers() if b.dim() > 1 for s in b.shape})


def widths_of(model: nn.Module) -> list[int]:
    """Sizes that the last axis of an input may have, in the order of the layers that take them."""
    found: list[int] = []
    for module in model.modules():
        for name in ("in_features", "embed_dim", "input_size", "d_model"):
            if (isinstance(size := getattr(module, name, None), int) and name != "embed_dim") or isinstance(module, nn.MultiheadAttention):
                found.append(size if isinstance(size, int) else module.embed_dim)  # type: ignore[arg-type]
        if isinstance(shape := getattr(module, "normalized_shape", None), tuple):
            found.append(int(shape[-1]))
    for parameter in parameters_of(model):
        if parameter.dim():
            found += [parameter.shape[-1], parameter.shape[0]]
    return [n for n in dict.fromkeys(found) if n > 1][:24] or [64]


def free_lengths(model: nn.Module, limit: int = LENGTHS[-1]) -> list[int]:
    """Lengths up to `limit` (a table of positions may be short) that equal no size of the model, at least two of them."""
    taken = sizes_of(model)
    found = [n for n in (*LENGTHS, *SHORT) if n not in taken and n <= limit]
    return found if len(found) > 1 else [*found, *LENGTHS]


@dataclass
class Lookup:
    """One model with its config, and the choices made for its inputs."""

    model: nn.Module
    config: Any = None
    lengths: list[int] = field(default_factory=list)
    dtype: torch.dtype = torch.float32
    states: dict[str, list[Any]] = field(default_factory=dict)
    """What methods of the model make of a size, by the argument that it is for."""

    def __post_init__(self) -> None:
        limit = self.get("max_position_embeddings", "n_positions", part=("text",))
        self.lengths = self.lengths or free_lengths(self.model, limit if isinstance(limit, int) and limit > 4 else LENGTHS[-1])
        self.dtype = next((p.dtype for p in self.model.parameters() if p.is_floating_point()), torch.float32)

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The named arguments of forward, `self` excluded."""
        return forward_parameters(self.model)

    @property
    def tokens(self) -> int:
        """Length of the main sequence."""
        return self.lengths[0]

    @property
    def targets(self) -> int:
        """Length of the second sequence (decoder)."""
        return self.lengths[1]

    # -- config --------------------------------------------------------------------------------------------------------

    def get(self, *names: str, default: Any = None, part: Iterable[str] = ()) -> Any:
        """The first of the fields `names` that is set, in the sub-configs whose key holds a word of `part`, then in the config,
        then in the other sub-configs, breadth first."""
        words = tuple(part)
        places = list(config_parts(self.config))
        favoured = [c for key, c in places if any(w in key for w in words)]
        for config in favoured + [c for _, c in places if all(c is not f for f in favoured)]:
            for name in names:
                value = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
                if value is not None:
                    return value
        return default

    # -- model ---------------------------------------------------------------------------------------------------------

    def first(self, *kinds: type[nn.Module], below: str = "") -> Any:
        """The first module of one of these types, in the order of registration."""
        return next((m for n, m in self.model.named_modules() if isinstance(m, kinds) and below in n), None)

    @cached_property
    def vocabulary(self) -> int:
        """Number of token ids that are safe everywhere."""
        embedding = None
        try:
            embedding = self.model.get_input_embeddings()  # type: ignore[operator]
        except (AttributeError, NotImplementedError, TypeError):
            embedding = self.first(nn.Embedding)
        rows = getattr(embedding, "num_embeddings", None) or self.get("vocab_size", default=100, part=("text", "decoder"))
        return int(rows if isinstance(rows, int) else 100)

    @cached_property
    def special(self) -> set[int]:
        """Token ids that mean something (padding, image place holders)."""
        found: set[int] = set()
        for _, config in config_parts(self.config):
            for key, value in entries_of(config).items():
                if "token" in key and ("id" in key or "index" in key):
                    found.update(v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, int))
        return found

    def ids(self, length: int, batch: int = BATCH, vocabulary: int | None = None) -> Tensor:
        """Token ids that are no special ones, different along the sequence and between rows. [batch, length] int64"""
        rows = min(vocabulary or self.vocabulary, 1000 + len(self.special))
        free = [i for i in range(3, rows) if i not in self.special] or list(range(max(rows, 1)))
        places = (7 * np.arange(batch)[:, None] + np.arange(length)) % len(free)
        return torch.tensor(np.array(free)[places])

    @staticmethod
    def coded(maps: Iterable[Tensor]) -> Iterator[Tensor]:
        """Each of some images as one of codes, 0 and 1, which the smallest table has, and then as it is."""
        for image in maps:
            yield (torch.arange(image.numel()) % 2).reshape(image.shape)
            yield image

    def floats(self, *shape: int) -> Tensor:
        """A float input on meta in the model's dtype."""
        return torch.empty(shape, dtype=self.dtype, device="meta")

    @cached_property
    def widths(self) -> list[int]:
        """Sizes that the last axis of an input may have."""
        return widths_of(self.model)

    @cached_property
    def width(self) -> int:
        """The hidden size."""
        found = self.get("hidden_size", "d_model", "dim", "n_embd", "embed_dim")
        return found if isinstance(found, int) else self.widths[0]


def entries_of(config: Any) -> dict[str, Any]:
    """The entries of a configuration of any kind: a dictionary, a named tuple, an object, or a class that nobody made an object of."""
    if isinstance(config, dict):
        return config
    if isinstance(config, type):
        return {key: value for key, value in vars(config).items() if not key.startswith("_") and not hasattr(value, "__get__")}
    return dict(config._asdict()) if hasattr(config, "_asdict") else dict(getattr(config, "__dict__", {}))


def config_parts(config: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(key, config) of a config and all configs below it, breadth first; plain dictionaries of fields count as configs."""
    level = [(key, config)] if config is not None else []
    while level:
        yield from level
        level = [
            (f"{above}.{name}", value)
            for above, part in level
            for name, value in entries_of(part).items()
            if hasattr(value, "to_diff_dict") or (isinstance(value, dict) and str(name).endswith("config"))
        ]


def forward_signature(model: nn.Module) -> list[inspect.Parameter]:
    """Everything that forward declares; a scripted one says it in a schema of its own."""
    schema = getattr(model.forward, "schema", None)
    if schema is None:
        with contextlib.suppress(TypeError, ValueError):
            return list(inspect.signature(model.forward).parameters.values())
    given = [a for a in getattr(schema, "arguments", []) if a.name != "self"]
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    return [inspect.Parameter(a.name, kind, default=a.default_value if a.has_default_value() else empty) for a in given]


def forward_parameters(model: nn.Module) -> dict[str, inspect.Parameter]:
    """The named arguments of forward that a caller may give, without `*args` and `**kwargs`."""
    return {p.name: p for p in forward_signature(model) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


__all__ = [
    "BATCH",
    "LENGTHS",
    "Lookup",
    "config_parts",
    "entries_of",
    "forward_parameters",
    "forward_signature",
    "free_lengths",
    "parameters_of",
    "sizes_of",
]
