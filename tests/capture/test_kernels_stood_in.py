"""Kernels that are not installed, or that run on no meta device, are written out; what nothing stands in for is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from screen.capture.kernels import stand_in
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

KERNELS = {
    "flash_attn": "h = x.unflatten(-1, (3, 8))\n"
    "        return flash_attn_func(h, h[:, :, :1], h[:, :, :1], causal=True, window_size=(4, 0), softcap=5.0).flatten(2)",
    "flash_attn.bert_padding": "flat, where, starts, longest, _ = unpad_input(x, torch.ones(x.shape[:2], dtype=torch.bool))\n"
    "        h = flat.unflatten(-1, (3, 8))\n        from flash_attn import flash_attn_varlen_func\n"
    "        return pad_input(flash_attn_varlen_func(h, h, h, starts, starts, longest, longest).flatten(1), where, *x.shape[:2])",
    "xformers.ops": "h = x.unflatten(-1, (3, 8))\n        return memory_efficient_attention(h, h, h, attn_bias=LowerTriangularMask()).flatten(2)",
    "apex.normalization": "return FusedRMSNorm(24)(FusedLayerNorm(24)(x))",
    "mamba_ssm.ops.selective_scan_interface": "u = x.transpose(1, 2)\n        A, B = -torch.ones(24, 4), torch.ones(x.shape[0], 4, x.shape[1])\n"
    "        return selective_scan_fn(u, u, A, B, B, torch.ones(24), z=u, delta_softplus=True).transpose(1, 2)",
    "causal_conv1d": "return causal_conv1d_fn(x.transpose(1, 2), torch.ones(24, 4), activation='silu').transpose(1, 2)",
    "mamba_ssm.ops.triton.layer_norm": "y, r = layer_norm_fn(x, torch.ones(24), None, residual=x, prenorm=True, is_rms_norm=True)\n        return y",
}


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets what was stood in for."""
    monkeypatch.setattr(stand_in, "_standing", set())
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] in stand_in.PACKAGES]:
        del sys.modules[name]


@pytest.mark.parametrize("module", KERNELS)
def test_kernels_that_are_not_installed_are_written_out(write: Any, standing: None, module: str) -> None:
    names = ", ".join(stand_in.TABLE[module])
    (b,) = built(write(f"from {module} import {names}\n\nclass Net(Base):\n    def extra(self, x):\n        {KERNELS[module]}\n"))
    assert runs(b) == ""


def test_kernels_that_are_there_run_on_no_meta_device(write: Any, standing: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stand_in, "_own", set())
    for folder in ("mamba_ssm", "mamba_ssm/ops", "mamba_ssm/ops/triton"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "mamba_ssm/ops/triton/layer_norm.py").write_text("HERE = 1\ndef layer_norm_fn(*args, **more):\n    raise RuntimeError('no GPU')\n")
    line = KERNELS["mamba_ssm.ops.triton.layer_norm"]
    source = "from mamba_ssm.ops.triton.layer_norm import HERE, layer_norm_fn\n\nclass Net(Base):\n    def extra(self, x):\n"
    (b,) = built(write(f"{source}        {line}\n"))
    assert runs(b) == "" and "kernels of `mamba_ssm` need a GPU" in b.info.notes[0]


def test_what_a_compiler_of_kernels_computes_in_python(write: Any, standing: None) -> None:
    source = (
        "import triton\nSIZE = triton.next_power_of_2(17) + triton.cdiv(9, 4)\n"
        "CONFIGS = [c for c in (triton.Config({}, num_warps=n) for n in (4, 64)) if c.num_warps < 32]\n\n"
    )
    (b,) = built(write(source + "class Net(Base):\n    def __init__(self):\n        super().__init__(SIZE + len(CONFIGS))\n"))
    assert b.model.embed.embedding_dim == 32 + 3 + 1  # type: ignore[union-attr]


def test_a_kernel_that_nothing_stands_in_for_is_named(write: Any, standing: None) -> None:
    source = (
        "import triton\nimport triton.language as tl\nfrom flash_attn.odd import odd\n\n@triton.jit\n"
        "def kernel(x, N: tl.constexpr):\n    pass\n\n"
    )
    (b,) = built(write(source + "class Net(Base):\n    def extra(self, x):\n        kernel[(1,)](x, 2)\n        return x\n"))
    assert "the kernel `kernel` needs `triton`" in runs(b)
    (b,) = built(write(source + "class Net(Base):\n    def extra(self, x):\n        return odd(x)\n", "other.py"))
    assert "`flash_attn.odd.odd` is not installed" in runs(b)


def test_functions_that_are_fetched_are_those_of_the_package_that_they_are_built_from(write: Any, standing: None) -> None:
    source = "from kernels import get_kernel\n\nfetched = get_kernel('somebody/attention').flash_attn_interface\n\n"
    source += "class Net(Base):\n    def extra(self, x):\n"
    call = "        h = x.unflatten(-1, (3, 8))\n        return fetched.{}(h, h, h).flatten(2)\n"
    (b,) = built(write(source + call.format("flash_attn_func")))
    assert runs(b) == "" and "`kernels` is not installed" in b.info.notes[0]
    (b,) = built(write(source + call.format("odd"), "other.py"))
    assert "the kernel `somebody/attention.flash_attn_interface.odd` is not fetched" in runs(b)


def test_layers_of_model_parallelism_are_those_of_one_process(write: Any, standing: None) -> None:
    source = """
    import fairscale.nn.model_parallel.initialize as groups
    from fairscale.nn.model_parallel.layers import ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = VocabParallelEmbedding(50, 24, init_method=lambda w: w)
            self.up = ColumnParallelLinear(24, 96 // groups.get_model_parallel_world_size(), bias=False, gather_output=False)
            self.down = RowParallelLinear(96, 24, input_is_parallel=True)

        def forward(self, ids):
            x = self.embed(ids)
            return x + self.down(self.up(x).relu())
    """
    (b,) = built(write(source))
    assert runs(b) == "" and {n: tuple(p.shape) for n, p in b.model.named_parameters()} == {
        "embed.weight": (50, 24), "up.weight": (96, 24), "down.weight": (24, 96), "down.bias": (24,),
    }  # fmt: skip


def test_torch_may_ask_whether_its_own_ops_are_kernels(write: Any, standing: None) -> None:
    source = "import triton\nfrom triton.runtime.jit import JITFunction\n\nassert not isinstance(torch.ops.aten.mm, (JITFunction, str))\n\n"
    (b,) = built(write(source + "class Net(Base):\n    pass\n"))
    assert runs(b) == ""


def test_a_mixin_that_is_not_installed_is_left_out_beside_a_module(write: Any, standing: None) -> None:
    source = "from mamba_ssm.utils.generation import GenerationMixin\n\nclass Net(Base, GenerationMixin):\n    pass\n"
    (b,) = built(write(source))
    assert runs(b) == "" and "GenerationMixin" not in [c.__name__ for c in type(b.model).__mro__]


def test_rotary_embeddings_of_flash_attention_turn_queries_and_keys(write: Any, standing: None) -> None:
    import torch

    from screen.capture.kernels.rotary import ROTARY

    qkv, angles = torch.randn(2, 5, 3, 4, 8, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    for interleaved in (False, True):
        turned = ROTARY["apply_rotary_emb_qkv_"](qkv, angles.cos(), angles.sin(), interleaved=interleaved)
        assert torch.equal(turned[:, :, 2], qkv[:, :, 2]) and torch.equal(turned[..., 6:], qkv[..., 6:])
        first, second = (slice(0, 6, 2), slice(1, 6, 2)) if interleaved else (slice(0, 3), slice(3, 6))
        made = torch.complex(qkv[:, :, :2, :, first], qkv[:, :, :2, :, second]) * torch.polar(torch.ones_like(angles), angles)[:, None, None]
        assert torch.allclose(turned[:, :, :2, :, first], made.real) and torch.allclose(turned[:, :, :2, :, second], made.imag)


def test_what_code_asks_for_itself_is_imported_again(write: Any, standing: None, tmp_path: Path) -> None:
    """The import is tried beside the model and caught; the constructor says what to install."""
    (tmp_path / "layers_of_net.py").write_text(
        "from torch import nn\ntry:\n    from flash_attn import flash_attn_func\nexcept ImportError:\n    flash_attn_func = None\n\n\n"
        "class Mix(nn.Module):\n    def __init__(self):\n        super().__init__()\n        if flash_attn_func is None:\n"
        "            raise ImportError('Please install Flash-Attn first')\n\n"
        "    def forward(self, x):\n        h = x.unflatten(-1, (3, 8))\n        return flash_attn_func(h, h, h, causal=True).flatten(2)\n"
    )
    source = "from layers_of_net import Mix\n\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n        self.mix = Mix()\n\n"
    (b,) = built(write(source + "    def extra(self, x):\n        return x + self.mix(x)\n"))
    assert runs(b) == "" and "`flash_attn` is not installed" in b.info.notes[0]
