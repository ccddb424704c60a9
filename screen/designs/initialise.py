"""How weights start, through `torch.nn.init`, so that a capture can read it."""

from __future__ import annotations

import math
import re

from torch import nn

from screen.designs.parts import SigmaLinear
from screen.designs.spec import Design, Init, NotExpressible, Spec

CUT = 3.0
"""Where a truncated normal ends, in standard deviations."""
_LAYER = re.compile(r"blocks\.(\d+)\.")
_OUTPUTS = ("o", "down")
_FFN = ("up", "gate", "down")


def initialise(model: nn.Module, spec: Spec) -> None:
    """Draws every matrix and embedding of the model anew, in the order of its modules; biases become zero, norms stay as they are."""
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, SigmaLinear)):
            _matrix(name, module, spec.design, spec.init)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=_embedding_std(spec))


def _embedding_std(spec: Spec) -> float:
    init = spec.init
    if init.kind == "t_fixup":
        return float(spec.design.width**-0.5 * (init.gains or {}).get("decoder", 1.0))
    return init.embedding_std or (spec.design.width**-0.5 if init.std is None else init.std)


def _matrix(name: str, module: nn.Linear | SigmaLinear, design: Design, init: Init) -> None:
    gain, weight = _gain(name, init), module.weight
    if init.kind in ("xavier", "admin", "t_fixup"):
        nn.init.xavier_uniform_(weight, gain=gain)
    elif init.kind == "xavier_normal":
        nn.init.xavier_normal_(weight, gain=gain)
    else:
        std = _std(name, gain * _base(init, design, module.in_features), design, init)
        if init.kind == "truncated_normal":
            nn.init.trunc_normal_(weight, std=std, a=-CUT * std, b=CUT * std)
        else:
            nn.init.normal_(weight, std=std)


def _gain(name: str, init: Init) -> float:
    """What multiplies the initialisation of this matrix of a block."""
    leaf = name.rsplit(".", 1)[-1]
    if not init.gains or not _LAYER.search(name) or ("ffn" if leaf in _FFN else leaf) not in init.gains["on"]:
        return 1.0
    return float(init.gains.get("gain") or init.gains.get(name.split(".")[0]) or 1.0)


def _base(init: Init, design: Design, fan_in: int) -> float:
    """The standard deviation of a matrix before any scaling by depth."""
    if init.std is not None:
        return init.std
    width = design.width
    rules: dict[str, float] = {
        "1/sqrt(fan_in)": fan_in**-0.5, "1/sqrt(d)": width**-0.5, "sqrt(2/(5d))": math.sqrt(2 / (5 * width)), "sqrt(10/d)": math.sqrt(10 / width),
        "sqrt(2/d)": math.sqrt(2 / width), "sqrt(1/d)": math.sqrt(1 / width), "sqrt(1/(10d))": math.sqrt(1 / (10 * width)), "0.02": 0.02,
    }  # fmt: skip
    rule = init.std_rule or "1/sqrt(fan_in)"
    if rule not in rules:
        raise NotExpressible(f"initialisation {rule}")
    return rules[rule]


def _std(name: str, std: float, design: Design, init: Init) -> float:
    """Output maps of branches start smaller where the init is scaled by depth: by their layer's number, or all alike by 1/√(2N)."""
    layer = _LAYER.search(name)
    if not init.depth_scaled or init.gains or layer is None or not _is_output(name):
        return std
    if "layer" in init.depth_rule and "2·d" in init.depth_rule:
        return 1 / math.sqrt(2 * design.width * (int(layer[1]) + 1))
    return std / math.sqrt(2 * design.blocks)


def _is_output(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in _OUTPUTS


__all__ = ["initialise"]
