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
    "gelu_by_hand": lambda t: 0.5 * t * (1.0 + torch.erf(t / 2**0.5)),
    "gelu_tanh_by_hand": lambda t: 0.5 * t * (1.0 + torch.tanh((2 / torch.pi) ** 0.5 * (t + 0.044715 * t**3))),
    "silu_by_hand": lambda t: t * torch.sigmoid(t),
    "mish_by_hand": lambda t: t * torch.tanh(F.softplus(t)),
    "glu_like": lambda t: t * torch.sigmoid(t.flip(-1)),
    "larger": lambda t: torch.maximum(t, 0.1 * t),
    "smaller": lambda t: torch.minimum(t, torch.sin(t) + 1.0),
}
