"""Degrees against float64 Jacobians: exact ones within 0.02 (ε/(σ²+ε) apart), asymptotic ones at large scales."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from screen.facts.branches import Branch
from screen.facts.degrees import Degree, degrees_of
from tests.branches import Replay, parameters, replayed

SEED = 0


def rows(degree: Degree, size: int) -> Tensor:
    """The row numbers of a group."""
    if degree.rows is None:
        return torch.arange(size)
    span, _, period = degree.rows.partition(" of every ")
    first, last = (int(n) for n in span.split(":"))
    step = int(period) if period else size
    return torch.cat([torch.arange(first + k, last + k) for k in range(0, size, step) if first + k < size])


def scaled(replay: Replay, degree: Degree, c: float) -> dict[int, Tensor]:
    """Values of the group's parameters and of the biases that join it, multiplied by c to their powers."""
    nodes, given = parameters(replay), {}
    for name in degree.parameters:
        value = replay.env[nodes[name]].clone()
        chosen = rows(degree, value.shape[degree.axis])
        value.index_copy_(degree.axis, chosen, value.index_select(degree.axis, chosen) * c)
        given[nodes[name]] = value
    for name, power in degree.biases:
        value = replay.env[nodes[name]].clone()
        fused = degree.rows is not None and value.shape[0] == replay.env[nodes[degree.parameters[0]]].shape[degree.axis]
        chosen = rows(degree, value.shape[0]) if fused else torch.arange(value.shape[0])
        value.index_copy_(0, chosen, value.index_select(0, chosen) * c**power)
        given[nodes[name]] = value
    return given


def jacobian_size(replay: Replay, branch: Branch, given: dict[int, Tensor]) -> float:
    """‖Jᵀg‖ for one fixed random g: it scales as J does."""
    call, states = replay.function(branch)
    inputs = {i: t.clone().requires_grad_(True) for i, t in states.items()}
    with torch.enable_grad():
        output = call({**given, **inputs})
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(SEED), dtype=output.dtype)
    grads = torch.autograd.grad((output * probe).sum(), list(inputs.values()), allow_unused=True)
    return math.sqrt(sum(float((g**2).sum()) for g in grads if g is not None))


def slope(replay: Replay, branch: Branch, degree: Degree, low: float, high: float) -> float | None:
    """d log ‖J‖ / d log c; None where the Jacobian is zero."""
    a, b = (jacobian_size(replay, branch, scaled(replay, degree, c)) for c in (low, high))
    return None if a == 0 or b == 0 else math.log(b / a) / math.log(high / low)


def disagreements(replay: Replay) -> tuple[list[str], int]:
    """What the measured slopes contradict, and how many degrees were measured."""
    wrong, count = [], 0
    for reader in replay.readers():
        for _, branch in reader.branches:
            for degree in degrees_of(branch).groups:
                if degree.status == "bound":
                    continue
                low, high, slack = (1.0, 4.0, 0.02) if degree.status == "exact" else (256.0, 1024.0, 0.1)
                found = slope(replay, branch, degree, low, high)
                count += found is not None
                if found is not None and abs(found - degree.predicted) > slack:
                    wrong.append(f"{degree.group}: predicted {degree.predicted} ({degree.status}), measured {found:.3f}")
    return wrong, count


def real_model(target: str, changes: dict[str, Any]) -> Replay:
    """A small model of a type, with weights of order one."""
    from screen.capture.build import build
    from screen.target import parse

    built = build(parse(target), set=changes, inputs=(), depth=None)[0]
    torch.manual_seed(SEED)
    model: nn.Module = type(built.model)(built.model.config).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape) / math.sqrt(parameter.shape[-1]))
    args, kwargs = torch.utils._pytree.tree_map(
        lambda t: torch.randn(t.shape) if isinstance(t, Tensor) and t.device.type == "meta" else t, (built.args, built.kwargs)
    )
    return replayed(built.model, model, args, kwargs)


from tests.test_replay import SMALL, TYPES  # noqa: E402  # the small configs stand there


@pytest.mark.parametrize("kind", TYPES)
def test_degrees_of_an_architecture(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[kind]()
    changes = {k: v for k, v in SMALL.items() if isinstance(getattr(config, k, None), int) and k not in getattr(config, "attribute_map", {})}
    wrong, count = disagreements(real_model(f"hf:{kind}", changes))
    assert not wrong and count >= 4, wrong
