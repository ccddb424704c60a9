"""Layers of model parallelism among one process: what the one member holds is the whole.

Source: facebookresearch/fairscale, fairscale/nn/model_parallel (layers.py, initialize.py, mappings.py), with groups of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_Fill = Callable[[Tensor], Any]


class _Linear(nn.Module):
    """x Wᵀ + b; the weight is filled by `init_method`, the bias with zeros."""

    bias: nn.Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool, init_method: _Fill) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.Tensor(out_features, in_features))
        self.register_parameter("bias", nn.Parameter(torch.zeros(out_features)) if bias else None)
        init_method(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class ColumnParallelLinear(_Linear):
    """One map, all of its outputs here."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, gather_output: bool = True,
        init_method: _Fill = nn.init.xavier_normal_, *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, init_method)


class RowParallelLinear(_Linear):
    """One map, all of its inputs here."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, input_is_parallel: bool = False,
        init_method: _Fill = nn.init.xavier_normal_, *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, init_method)


class ParallelEmbedding(nn.Module):
    """One table."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, sparse: bool = False, init_method: _Fill = nn.init.xavier_normal_, *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.options = (padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        self.weight = nn.Parameter(torch.Tensor(num_embeddings, embedding_dim))
        init_method(self.weight)

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight, *self.options)


def _one(*_: Any) -> int:
    return 1


def _zero(*_: Any) -> int:
    return 0


def _true(*_: Any) -> bool:
    return True


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _same(value: Any, *_: Any, **__: Any) -> Any:
    return value


LAYERS: dict[str, Any] = {
    "ColumnParallelLinear": ColumnParallelLinear,
    "RowParallelLinear": RowParallelLinear,
    "ParallelEmbedding": ParallelEmbedding,
    "VocabParallelEmbedding": ParallelEmbedding,
}
GROUPS: dict[str, Any] = {
    "get_model_parallel_world_size": _one,
    "get_data_parallel_world_size": _one,
    "get_model_parallel_rank": _zero,
    "get_data_parallel_rank": _zero,
    "get_model_parallel_group": _nothing,
    "get_data_parallel_group": _nothing,
    "model_parallel_is_initialized": _true,
    "initialize_model_parallel": _nothing,
    "destroy_model_parallel": _nothing,
}
MAPPINGS: dict[str, Any] = dict.fromkeys(
    (
        "copy_to_model_parallel_region",
        "reduce_from_model_parallel_region",
        "scatter_to_model_parallel_region",
        "gather_from_model_parallel_region",
    ),
    _same,
)
WRAPPERS: dict[str, Any] = {"checkpoint_wrapper": _same, "wrap": _same, "auto_wrap": _same}

__all__ = ["GROUPS", "LAYERS", "MAPPINGS", "WRAPPERS"]
