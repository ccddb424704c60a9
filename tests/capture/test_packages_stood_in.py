"""Layers of packages that are not installed compute what those compute."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from screen.capture.kernels import mamba, norms, rotations, stand_in
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets what was stood in for."""
    monkeypatch.setattr(stand_in, "_standing", set())
    monkeypatch.setattr(stand_in, "_own", set())
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] in stand_in.PACKAGES]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "source",
    [
        "from mamba_ssm import Mamba\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n        self.mix = Mamba(24)\n\n"
        "    def extra(self, x):\n        return self.mix(x)\n",
        "from mamba_ssm.modules.mamba_simple import Block, Mamba\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
        "        self.mix = Block(24, Mamba, norm_cls=nn.RMSNorm)\n\n    def extra(self, x):\n        return self.mix(x, x)[0]\n",
        "from rotary_embedding_torch import RotaryEmbedding\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
        "        self.turn = RotaryEmbedding(dim=8)\n\n    def extra(self, x):\n"
        "        return self.turn.rotate_queries_or_keys(x.unflatten(-1, (3, 8)).transpose(1, 2)).transpose(1, 2).flatten(2)\n",
        "import dropout_layer_norm\n\nclass Net(Base):\n    def extra(self, x):\n        rows, gain = x.flatten(0, 1), torch.ones(24)\n"
        "        out = dropout_layer_norm.dropout_add_ln_fwd(rows, None, gain, None, None, None, None, None, 0.0, 1e-5, 1.0, 0, None, False, True)\n"
        "        return out[0].view_as(x)\n",
    ],
)
def test_a_layer_that_is_not_installed_runs(write: Any, standing: None, source: str) -> None:
    (net,) = built(write(source))
    assert runs(net) == "" and any("is not installed" in note for note in net.info.notes)


def test_pairs_of_neighbours_turn() -> None:
    """Against complex numbers; the table starts at `offset`."""
    turn, x = rotations.RotaryEmbedding(dim=6).double(), torch.randn(2, 3, 5, 8, dtype=torch.float64)
    angles = (torch.arange(5, dtype=torch.float64) + 2)[:, None] * turn.freqs
    made = torch.view_as_complex(x[..., :6].unflatten(-1, (3, 2))) * torch.polar(torch.ones_like(angles), angles)
    turned = turn.rotate_queries_or_keys(x, offset=2)
    assert torch.allclose(turned[..., :6], torch.view_as_real(made).flatten(-2), atol=1e-6) and torch.equal(turned[..., 6:], x[..., 6:])


def test_products_of_turned_values_depend_on_their_distance() -> None:
    turn, q, k = rotations.RotaryEmbedding(dim=8, use_xpos=True), torch.randn(8), torch.randn(8)
    one, two = turn.rotate_queries_and_keys(q.expand(1, 1, 9, 8), k.expand(1, 1, 9, 8))
    logits = (one @ two.mT)[0, 0]
    assert torch.allclose(logits[5, 3], logits[7, 5], rtol=1e-4, atol=1e-5) and not torch.allclose(logits[5, 3], logits[5, 4])


def test_axes_have_angles_of_their_own() -> None:
    turn = rotations.RotaryEmbedding(dim=4)
    angles = turn.get_axial_freqs(3, 5)
    assert angles.shape == (3, 5, 8)
    assert torch.equal(angles[:, 0, :4], turn(torch.arange(3))) and torch.equal(angles[0, :, 4:], turn(torch.arange(5)))


def test_a_scan_step_by_step() -> None:
    """The mixer of one channel after the other, written as its paper has it (Gu and Dao 2023, equations 1 and 2)."""
    torch.manual_seed(0)
    mix, x = mamba.Mamba(8, d_state=3, d_conv=2), torch.randn(2, 5, 8)
    flow, gate = mix.in_proj(x).chunk(2, -1)
    flow = F.silu(F.conv1d(F.pad(flow.transpose(1, 2), (1, 0)), mix.conv1d.weight, mix.conv1d.bias, groups=16)).transpose(1, 2)
    rank, b, c = mix.x_proj(flow).split([mix.dt_rank, 3, 3], -1)
    step, state, outs = F.softplus(mix.dt_proj(rank)), torch.zeros(2, 16, 3), []
    for t in range(5):
        state = torch.exp(step[:, t, :, None] * -torch.exp(mix.A_log)) * state + step[:, t, :, None] * b[:, t, None] * flow[:, t, :, None]
        outs.append((state * c[:, t, None]).sum(-1) + mix.D * flow[:, t])
    assert torch.allclose(mix(x), mix.out_proj(torch.stack(outs, 1) * F.silu(gate)), atol=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_a_block_hands_on_the_sum_that_it_norms(fused: bool) -> None:
    block = mamba.Block(8, mamba.Mamba, lambda dim: nn.Linear(dim, dim), norm_cls=norms.RMSNorm, fused_add_norm=fused)
    x, before = torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    out, total = block(x, before)
    middle = x + before + block.mixer(F.rms_norm(x + before, (8,), None, 1e-5))
    assert torch.allclose(total, middle, atol=1e-5)
    assert torch.allclose(out, block.mlp(F.rms_norm(middle, (8,), None, 1e-5)), atol=1e-5)  # type: ignore[misc]


@pytest.mark.parametrize("rms", [False, True])
def test_a_norm_with_a_residual(rms: bool) -> None:
    x, y, gain = torch.randn(6, 8), torch.randn(6, 8), torch.randn(8)
    out, total, mask, mean, inverse = norms.dropout_add_ln_fwd(x, y, gain, None, None, None, None, None, 0.0, 1e-5, is_rms_norm=rms)
    made = F.rms_norm(x + y, (8,), gain, 1e-5) if rms else F.layer_norm(x + y, (8,), gain, None, 1e-5)
    assert torch.allclose(out, made, atol=1e-6) and torch.equal(total, x + y) and mask is None
    assert torch.allclose((x + y - mean[:, None] * (not rms)) * inverse[:, None] * gain, made, atol=1e-5)


def test_kernels_of_a_package_that_is_read_in_pieces_run_on_no_meta_device(write: Any, standing: None, tmp_path: Path) -> None:
    """The package is in a folder of the project, and its own import fails behind the kernel's."""
    (tmp_path / "mamba_ssm/ops/triton").mkdir(parents=True)
    for folder in ("ops", "ops/triton"):
        (tmp_path / "mamba_ssm" / folder / "__init__.py").touch()
    (tmp_path / "mamba_ssm/__init__.py").write_text("from mamba_ssm.ops.triton.layer_norm import rms_norm_fn\nimport nowhere_to_be_had\n")
    (tmp_path / "mamba_ssm/ops/triton/layer_norm.py").write_text("def rms_norm_fn(*args, **more):\n    raise RuntimeError('no GPU')\n")
    (net,) = built(
        write(
            """
            from mamba_ssm.ops.triton.layer_norm import rms_norm_fn

            class Net(Base):
                def extra(self, x):
                    return rms_norm_fn(x, torch.ones(24))
            """
        )
    )
    assert runs(net) == ""
