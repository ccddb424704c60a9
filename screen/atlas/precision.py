"""Half precision as autocast has it, emulated in float32: operands and results of matrix products are rounded, and so are their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from screen.atlas.cell import Precision

TYPES: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


class _Round(torch.autograd.Function):
    """x rounded to a type and back, forward and backward; what is too large for the type becomes infinite."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype) -> Tensor:
        return x.to(dtype).float()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.dtype = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        return grads[0].to(ctx.dtype).float(), None


class Watch(TorchFunctionMode):
    """Rounds what a precision rounds, and keeps the largest |logit| of each attention in `logits`."""

    def __init__(self, precision: Precision) -> None:
        super().__init__()
        self.dtype = TYPES.get(precision)
        self.logits: list[Tensor] = []

    def __torch_function__(self, func: Callable[..., Any], types: Iterable[Any], args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        if func is F.linear and self.dtype is not None:
            x, weight, *bias = args
            return self._round(func(self._round(x), self._round(weight), *bias, **kwargs))
        return func(*args, **kwargs)

    def _round(self, x: Tensor) -> Tensor:
        if self.dtype is None:
            return x
        rounded: Tensor = _Round.apply(x, self.dtype)
        return rounded

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
        """softmax(q·kᵀ/√d_h)·v, written out."""
        logits = self._round(self._round(q) @ self._round(k).transpose(-1, -2)) * q.shape[-1] ** -0.5
        self.logits.append(logits.detach().abs().amax())
        if is_causal:
            n = q.shape[-2]
            logits = logits + torch.full((n, n), float("-inf")).triu(1)
        return self._round(self._round(torch.softmax(logits, -1)) @ self._round(v))


__all__ = ["TYPES", "Watch"]
