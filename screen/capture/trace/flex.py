"""FlexAttention written out: neither its kernel nor its eager form (four nested `vmap`) can be watched on meta.

    scores = q kᵀ · scale,  scores = score_mod(scores, b, h, i, j),  −∞ where not mask_mod(b, h, i, j),  softmax over j, times v

as `torch._higher_order_ops.flex_attention.math_attention` has it. The indices b, h, i, j are tensors of shapes [B,1,1,1], [1,H,1,1], [1,1,L,1] and
[1,1,1,S] in place of the scalars of a `vmap`: functions of single scores that are made of entry-wise ops and of look-ups do the same to them.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor

_MODULE = "torch.nn.attention.flex_attention"


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """For the time of a run, where the user's code has imported it."""
    module = sys.modules.get(_MODULE)
    with contextlib.ExitStack() as patches:
        if module is not None:
            patches.enter_context(mock.patch.object(module, "flex_attention_hop", attention))
            patches.enter_context(mock.patch.object(module, "create_mask", mask))
            if hasattr(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"):  # torch compiles the call, which a mode that watches does not survive
                patches.enter_context(mock.patch.object(module, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True))
        yield


def attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Tensor], block_mask: tuple[Any, ...], scale: float, *_: Any, **__: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """The output [B, H, L, dv], the logarithm of the sum and the largest score [B, H, L]. `block_mask[-1]` is `mask_mod`."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(-2, -1) * scale
    places = _places(scores.shape)
    scores = score_mod(scores, *places)
    scores = torch.where(block_mask[-1](*places), scores, float("-inf"))
    return torch.softmax(scores, dim=-1) @ value, torch.logsumexp(scores, dim=-1), scores.amax(dim=-1)


def mask(mod: Callable[..., Tensor], batch: int | None, heads: int | None, queries: int, keys: int, *_: Any, **__: Any) -> Tensor:
    """What `create_mask` makes of a `mask_mod`, or of a `score_mod`: bool[B, H, L, S], true where a key is seen."""
    shape = batch or 1, heads or 1, queries, keys
    names = inspect.signature(mod).parameters
    seen = mod(*_places(shape)) if len(names) == len(shape) else ~torch.isneginf(mod(torch.zeros(shape), *_places(shape)))
    return seen.expand(shape)


def _places(shape: Sequence[int]) -> list[Tensor]:
    """The indices b, h, i, j, each along an axis of its own."""
    return [torch.arange(n).view([-1 if a == axis else 1 for a in range(len(shape))]) for axis, n in enumerate(shape)]


def causal() -> Any:
    """A `BlockMask` for an argument that is annotated as one, of any length: each token sees itself and those before it."""
    from torch.nn.attention.flex_attention import BlockMask

    with torch.device("cpu"):
        return BlockMask.from_kv_blocks(
            kv_num_blocks=torch.ones(1, 1, 1, dtype=torch.int32),
            kv_indices=torch.zeros(1, 1, 1, 1, dtype=torch.int32),
            BLOCK_SIZE=1 << 30,  # the size of torch's own empty mask, which fits every length
            mask_mod=lambda b, h, q, k: q >= k,
        )


def own(value: Any) -> Any:
    """A block mask of its own for one run of a forward, which may write to it; any other value as it is."""
    return copy.copy(value) if hasattr(value, "mask_mod") and hasattr(value, "kv_num_blocks") else value


__all__ = ["attention", "causal", "mask", "own", "written_out"]
