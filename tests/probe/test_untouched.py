"""What the caller has is left as it was: the model, its parts, and every random state."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import screen


class Whole(nn.Module):
    """A block with all that a measurement could disturb: buffers, hooks, frozen weights, modes, gradients, counters."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(48, 16)
        self.drop = nn.Dropout(0.3)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 48))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.plain = {"steps": [1, 2]}
        self.calls = 0
        self.up.weight.requires_grad_(False)
        self.down.eval()
        self.down.bias.grad = torch.full((16,), 3.0)
        self.up.register_forward_pre_hook(lambda module, args: None)
        self.up.register_forward_hook(lambda module, args, out: out * 1.0)
        self.down.register_full_backward_hook(lambda module, before, after: None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.drop(self.down(torch.relu(self.up(self.norm(x))) * self.scale))


def of_model(model: Whole) -> dict[str, Any]:
    """Everything that a model holds, bit for bit."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks")
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        "bytes": {k: t.detach().contiguous().view(torch.uint8).numpy().tobytes() if t.dim() else t.item() for k, t in tensors.items()},
        "objects": {k: (id(t), t.data_ptr(), t._version, t.dtype, t.device.type) for k, t in tensors.items()},
        "leaves": {k: (p.requires_grad, p.is_leaf, None if p.grad is None else p.grad.tolist()) for k, p in model.named_parameters()},
        "modes": {k: m.training for k, m in model.named_modules()},
        "hooks": {k: {h: list(getattr(m, h)) for h in hooks} for k, m in model.named_modules()},
        "plain": (repr(model.plain), model.calls, sorted(vars(model))),
    }


def of_process() -> dict[str, Any]:
    """Every random state, and torch's settings."""
    name, keys, *rest = np.random.get_state()
    return {
        "torch": torch.random.get_rng_state().tolist(),
        "cuda": [t.tolist() for t in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else [],
        "numpy": (name, np.asarray(keys).tolist(), rest),
        "python": random.getstate(),
        "settings": (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        "attention": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled(), torch.backends.mha.get_fastpath_enabled()),
    }


@pytest.mark.by_the_day
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_live_model_is_left_alone(dtype: torch.dtype) -> None:
    """float64 is the type that is measured in: there the model's own memory is read, and not a copy."""
    torch.manual_seed(3)
    np.random.seed(3)
    model = Whole().to(dtype).train()
    model.down.eval()
    given = torch.ones(2, 5, 16, dtype=dtype)
    held = given.clone()
    before = {**of_model(model), **of_process()}
    report = screen.check(model, probe=True, example_inputs=given)
    assert report.probe is not None
    assert {"invariance", "bounds", "jacobian"} <= {e.name for e in report.probe.experiments if e.outcome != "not_measured"}
    after = {**of_model(model), **of_process()}
    assert not [key for key in before if before[key] != after[key]]
    assert torch.equal(given, held) and given.grad is None and given._version == 0
