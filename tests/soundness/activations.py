"""Entry-wise functions of the grammar."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

ACT: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
    "silu": F.silu,
    "tanh": torch.tanh,
    "relu2": lambda t: F.relu(t).square(),
    "sigmoid": torch.sigmoid,
    "elu": F.elu,
    "softplus": F.softplus,
    "leaky": lambda t: F.leaky_relu(t, 0.2),
    "mish": F.mish,
    "hardswish": F.hardswish,
    "celu": lambda t: F.celu(t, 0.5),
    "selu": F.selu,
    "quick": lambda t: t * torch.sigmoid(1.702 * t),
    "exp": torch.exp,
    "square": lambda t: t * t,
    "sin": torch.sin,
    "softsign": F.softsign,
    "relu6": F.relu6,
    "logsigmoid": F.logsigmoid,
    "abs": torch.abs,
    "cube": lambda t: t.pow(3),
}
