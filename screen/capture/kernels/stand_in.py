"""Packages of kernels that are not installed, as packages that can be imported.

`TABLE` says what stands in for which name, written with ops of PyTorch, so that a trace sees what the kernel computes. A name of such a package that
the table lacks can be imported too, and raises when it is called: then it is named.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from torch import nn

from screen.capture.kernels import attention, norms, scans
from screen.errors import chain

PACKAGES = frozenset({"flash_attn", "flash_attn_interface", "xformers", "apex", "mamba_ssm", "causal_conv1d", "triton", "fla", "liger_kernel"})
"""Packages whose import may be stood in for."""

TABLE: dict[str, dict[str, Any]] = {
    # https://github.com/Dao-AILab/flash-attention, flash_attn/flash_attn_interface.py
    "flash_attn": attention.FLASH,
    "flash_attn.flash_attn_interface": attention.FLASH,
    "flash_attn_interface": attention.FLASH,
    "flash_attn.bert_padding": attention.PADDING,
    "flash_attn.ops.rms_norm": norms.RMS,
    "flash_attn.ops.layer_norm": norms.LAYER,
    "flash_attn.ops.triton.layer_norm": {**norms.RMS, **norms.LAYER},
    # https://github.com/facebookresearch/xformers, xformers/ops/fmha and xformers/ops/swiglu_op.py
    "xformers.ops": attention.XFORMERS,
    "xformers.ops.fmha": attention.XFORMERS,
    # https://github.com/NVIDIA/apex, apex/normalization/fused_layer_norm.py
    "apex.normalization": norms.APEX,
    "apex.normalization.fused_layer_norm": norms.APEX,
    # https://github.com/state-spaces/mamba, mamba_ssm/ops/selective_scan_interface.py (`selective_scan_ref`) and ops/triton/layer_norm.py
    "mamba_ssm.ops.selective_scan_interface": scans.SELECTIVE,
    "mamba_ssm.ops.triton.layernorm": {**norms.RMS, **norms.LAYER},
    "mamba_ssm.ops.triton.layer_norm": {**norms.RMS, **norms.LAYER},
    "mamba_ssm.ops.triton.layernorm_gated": norms.GATED,
    # https://github.com/Dao-AILab/causal-conv1d, causal_conv1d/causal_conv1d_interface.py (`causal_conv1d_ref`)
    "causal_conv1d": scans.CONVOLUTION,
    "causal_conv1d.causal_conv1d_interface": scans.CONVOLUTION,
    # https://github.com/linkedin/Liger-Kernel, liger_kernel/transformers
    "liger_kernel.transformers": norms.LIGER,
    "triton": {},
}
"""Module to its names. Each row computes what the function of that name is documented to compute, dropout left out."""

_standing: set[str] = set()


class NotInstalled(ImportError):
    """A kernel was called that is not installed and that nothing stands in for."""


def stand_in(error: BaseException) -> bool:
    """Make the missing package of an import error importable; False where it is none of these, or already is."""
    names = ((e.name or "").partition(".")[0] for e in chain(error) if isinstance(e, ModuleNotFoundError))
    package = next((name for name in names if name in PACKAGES and name not in _standing), None)
    if package is None:
        return False
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
    _standing.add(package)
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        del sys.modules[name]
    return True


def notes() -> tuple[str, ...]:
    """What a report says of packages that were stood in for in this process."""
    return tuple(f"`{name}` is not installed: functions of the documented mathematics stand in for its own" for name in sorted(_standing))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module below the packages that are stood in for; after the others, so that what is installed wins."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in _standing:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(TABLE.get(module.__name__, {}))
        vars(module)["__version__"] = "0"
        vars(module)["__getattr__"] = _lacking(module.__name__)


def _lacking(module: str) -> Callable[[str], Any]:
    """What a module answers for a name that the table lacks: a decorator where kernels are compiled, else a class that cannot be made."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{module}.{name}"
        if module.partition(".")[0] == "triton":
            return _Compiler(full)

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise NotInstalled(f"`{full}` is not installed, and nothing stands in for it")

        return type(name, (nn.Module,), {"__init__": refuse, "__new__": refuse, "__module__": module})

    return get


class _Compiler:
    """`triton.jit`, `tl.constexpr` and the like: they keep the function that they are given, and refuse to launch it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **_: Any) -> Any:
        function = args[0] if len(args) == 1 and callable(args[0]) else None
        return _Compiler(getattr(function, "__name__", self.name)) if function is not None else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Compiler(f"{self.name}.{name}")

    def __getitem__(self, grid: Any) -> NoReturn:
        raise NotInstalled(f"the kernel `{self.name}` needs `triton`, which is not installed")


__all__ = ["PACKAGES", "TABLE", "NotInstalled", "notes", "stand_in"]
