"""Ops that have no kernel on meta: their result's shape is found by running them once on small CPU tensors; and fused
attention, whose result is laid out otherwise there.

Only for "no kernel", never for a shape error: that one is the user's.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map

LARGEST = 1 << 26
"""Elements of all operands together up to which an op is run on the CPU."""

_NO_KERNEL = ("no kernel", "Meta' backend", "meta tensors", "fake impl", "not implemented for 'Meta'", "Meta backend", "FakeTensor")
NARROWER = "Expected inputs of BF16 type"
"""What the meta kernel of the grouped product says of dtypes that the real ones take."""


def fits(func: Any, error: RuntimeError) -> bool:
    """Whether an error says that a kernel is missing (or is one of the few meta kernels that are narrower than the real ones)."""
    return any(text in str(error) for text in _NO_KERNEL) or _name(func) == "_grouped_mm"


def _name(func: Any) -> str:
    return str(func.__name__).split(".")[0]


def run(func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
    """The result of `func` on meta, from its shape on the CPU; raises `error` when that cannot be had."""
    if _name(func) == "_grouped_mm":
        return _grouped_mm(*args, **kwargs)
    sizes = [t.numel() for t in _leaves((args, kwargs))]
    if sum(sizes) > LARGEST:
        raise error
    try:
        with torch.utils._python_dispatch._disable_current_modes():
            real_args, real_kwargs = tree_map(_zeros, (args, kwargs))
            result = func(*real_args, **real_kwargs)
            return tree_map(lambda v: v.to("meta") if isinstance(v, Tensor) else v, result)
    except Exception:
        raise error from None


def laid_out(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """The result of fused attention with the strides that its kernels give it, those of the query: on meta it is contiguous, and a `view` of it
    (`.transpose(1, 2).view(b, n, d)`) is refused that runs."""
    query = args[0] if args else kwargs.get("query")
    if func is not F.scaled_dot_product_attention or not isinstance(result, Tensor) or result.device.type != "meta" or result.shape != query.shape:
        return result
    with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
        laid = torch.empty_like(query, dtype=result.dtype)
        return result if laid.stride() == result.stride() else laid.requires_grad_(result.requires_grad)


def _leaves(value: Any) -> list[Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, Tensor)]


def _zeros(value: Any) -> Any:
    if isinstance(value, Tensor) and value.device.type == "meta":
        return torch.zeros(value.shape, dtype=value.dtype, device="cpu")
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value


def _grouped_mm(mat_a: Tensor, mat_b: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None, **_: Any) -> Tensor:
    """Shape rule of the grouped matrix product; its meta kernel takes bfloat16 only."""
    dtype = out_dtype or mat_a.dtype
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        groups = offs.shape[0] if offs is not None else 1
        return mat_a.new_empty((groups, mat_a.shape[0], mat_b.shape[1]), dtype=dtype)
    if mat_a.dim() == 2:
        return mat_a.new_empty((mat_a.shape[0], mat_b.shape[-1]), dtype=dtype)
    if mat_b.dim() == 2:
        return mat_a.new_empty((mat_a.shape[-2], mat_b.shape[-1]), dtype=dtype)
    return mat_a.new_empty((math.prod(mat_a.shape[:-2]), mat_a.shape[-2], mat_b.shape[-1]), dtype=dtype)
