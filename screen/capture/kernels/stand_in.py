"""Packages of kernels that are not installed, as packages that can be imported.

`TABLE` says what stands in for which name, written with ops of PyTorch, so that a trace sees what the kernel computes. A name of such a package that
the table lacks can be imported too, and raises when it is called: then it is named.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NoReturn

from torch import nn

from screen.capture.build.reads import tree_of
from screen.capture.kernels import attention, mamba, norms, parallel, rotary, rotations, scans
from screen.capture.trace.source_lines import HERE, TORCH
from screen.errors import chain

PACKAGES = frozenset(
    {"flash_attn", "flash_attn_interface", "xformers", "apex", "mamba_ssm", "causal_conv1d", "triton", "fla", "liger_kernel", "fairscale",
     "memory_efficient_attention_pytorch", "rotary_emb", "kernels", "accelerated_scan", "rotary_embedding_torch", "dropout_layer_norm"}
)
"""Packages whose import may be stood in for."""


class Fetched:
    """What `kernels.get_kernel(repository)` gives: functions under the names that they have in the packages of the table."""

    def __init__(self, *repository: Any, **_: Any) -> None:
        self._repository = repository[0] if repository else ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = {**attention.FLASH, **scans.CONVOLUTION}.get(name)
        return found if found is not None else Fetched(f"{self._repository}.{name}")

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotInstalled(f"the kernel `{self._repository}` is not fetched, and nothing stands in for it", name="kernels")


class Config:
    """`triton.Config`: what a kernel is compiled with."""

    def __init__(self, kwargs: dict[str, Any], num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1, **more: Any) -> None:
        self.kwargs, self.num_warps, self.num_stages, self.num_ctas = kwargs, num_warps, num_stages, num_ctas
        vars(self).update(more)


TABLE: dict[str, dict[str, Any]] = {
    # https://github.com/Dao-AILab/flash-attention, flash_attn/flash_attn_interface.py
    "flash_attn": attention.FLASH,
    "flash_attn.flash_attn_interface": attention.FLASH,
    "flash_attn_interface": attention.FLASH,
    "flash_attn.bert_padding": attention.PADDING,
    "flash_attn.layers.rotary": rotary.ROTARY,
    "rotary_emb": rotary.PAIRS,
    "dropout_layer_norm": norms.DROPOUT,
    "flash_attn.ops.rms_norm": norms.RMS,
    "flash_attn.ops.layer_norm": norms.LAYER,
    "flash_attn.ops.triton.layer_norm": {**norms.RMS, **norms.LAYER},
    # https://github.com/facebookresearch/xformers, xformers/ops/fmha and xformers/ops/swiglu_op.py
    "xformers.ops": attention.XFORMERS,
    "xformers.ops.fmha": attention.XFORMERS,
    # https://github.com/lucidrains/memory-efficient-attention-pytorch, memory_efficient_attention_pytorch/flash_attention.py
    "memory_efficient_attention_pytorch.flash_attention": attention.BUCKETS,
    # https://github.com/NVIDIA/apex, apex/normalization/fused_layer_norm.py
    "apex.normalization": norms.APEX,
    "apex.normalization.fused_layer_norm": norms.APEX,
    # https://github.com/state-spaces/mamba, mamba_ssm/ops/selective_scan_interface.py (`selective_scan_ref`) and ops/triton/layer_norm.py
    "mamba_ssm.ops.selective_scan_interface": scans.SELECTIVE,
    "mamba_ssm.ops.triton.layernorm": {**norms.RMS, **norms.LAYER},
    "mamba_ssm.ops.triton.layer_norm": {**norms.RMS, **norms.LAYER},
    "mamba_ssm.ops.triton.layernorm_gated": norms.GATED,
    "mamba_ssm.ops.triton.ssd_combined": scans.CHUNKED,
    # https://github.com/Dao-AILab/causal-conv1d, causal_conv1d/causal_conv1d_interface.py (`causal_conv1d_ref`)
    "causal_conv1d": scans.CONVOLUTION,
    "causal_conv1d.causal_conv1d_interface": scans.CONVOLUTION,
    # https://github.com/proger/accelerated-scan, accelerated_scan/ref.py
    **dict.fromkeys(("accelerated_scan.warp", "accelerated_scan.triton", "accelerated_scan.scalar", "accelerated_scan.ref"), scans.LINEAR),
    # https://github.com/linkedin/Liger-Kernel, liger_kernel/transformers and ops
    "liger_kernel.transformers": norms.LIGER,
    "liger_kernel.ops.rms_norm": norms.LIGER_RMS,
    "liger_kernel.ops.rope": rotary.LIGER,
    # https://github.com/facebookresearch/fairscale, fairscale/nn/model_parallel
    "fairscale.nn": parallel.WRAPPERS,
    "fairscale.nn.model_parallel": {**parallel.LAYERS, **parallel.GROUPS},
    "fairscale.nn.model_parallel.initialize": parallel.GROUPS,
    "fairscale.nn.model_parallel.layers": parallel.LAYERS,
    "fairscale.nn.model_parallel.mappings": parallel.MAPPINGS,
    # https://github.com/huggingface/kernels, src/kernels/utils.py
    "kernels": {"get_kernel": Fetched},
    # https://triton-lang.org/main/python-api/triton.html: what runs in Python
    "triton": {"next_power_of_2": lambda n: 1 << (n - 1).bit_length(), "cdiv": lambda x, y: -(-x // y), "Config": Config},
}
"""Module to its names. Each row computes what the function of that name is documented to compute, dropout left out."""

MODULES: dict[str, dict[str, Any]] = {
    # https://github.com/state-spaces/mamba, mamba_ssm/modules
    "mamba_ssm": {**scans.SELECTIVE, "Mamba": mamba.Mamba},
    "mamba_ssm.modules.mamba_simple": mamba.MIXER,
    "mamba_ssm.modules.block": mamba.BLOCK,
    # https://github.com/lucidrains/rotary-embedding-torch
    "rotary_embedding_torch": rotations.ROTATIONS,
    "rotary_embedding_torch.rotary_embedding_torch": rotations.ROTATIONS,
}
"""The same, of what runs on meta where it is installed: those stand in for nothing that is there."""
_standing: set[str] = set()
_own: set[str] = set()
"""Packages that are there, and of which rows of `TABLE` stand in for what needs a GPU."""


class NotInstalled(ImportError):
    """A kernel was called that is not installed and that nothing stands in for."""

    packages: tuple[str, ...] = ()
    """What to install, where that is not what its name begins with; a module's whole name, where its package is there and lacks it."""


def to_install(error: ImportError) -> list[str]:
    """What to install, in words: packages that are not there, or another version of one that is."""
    names = getattr(error, "packages", ()) or ((error.name or "") if is_of_library(error.name or "") else (error.name or "").partition(".")[0],)
    return [f"a version of `{n.partition('.')[0]}` that has `{n}`" if "." in n else f"`{n}`" for n in names]


def is_of_library(name: str) -> bool:
    """Whether a module that is not there would be of a package that is installed: the project was written for another version of it."""
    root, _, rest = name.partition(".")
    try:
        found = importlib.util.find_spec(root) if rest else None
    except (ImportError, ValueError):
        return False
    return found is not None and root not in PACKAGES and "site-packages" in (found.origin or "")


def stand_in(error: BaseException) -> bool:
    """Make the missing package of an import error importable; False where it is none of these, or already is."""
    names = ((e.name or "").partition(".")[0] for e in chain(error) if isinstance(e, ModuleNotFoundError))
    package = next((name for name in names if name in PACKAGES and name not in _standing), None) or _asked(error)
    if package is None:
        return False
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
    _standing.add(package)
    for name in [n for n in sys.modules if n.partition(".")[0] == package]:
        del sys.modules[name]
    _import_again(package)
    return True


def _asked(error: BaseException) -> str | None:
    """The package that code asks for itself (`raise ImportError("pip install flash-attn first")`), where it is not there."""
    said = [re.sub(r"[\s-]", "_", str(e)).casefold() for e in chain(error) if type(e) is ImportError and not e.name]
    wanted = (p for p in sorted(PACKAGES, key=len, reverse=True) if p not in _standing and any(p in text for text in said))
    return next((p for p in wanted if importlib.util.find_spec(p) is None), None)


def _import_again(package: str) -> None:
    """What modules tried to import from a package, and have not or as None, since it was not there: `except ImportError: flash_attn_func = None`."""
    for module in [m for m in sys.modules.values() if type(m) is ModuleType and not _is_library(m)]:
        tree = tree_of(module)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package and not node.level:
                for alias in node.names:
                    if vars(module).get(alias.asname or alias.name) is None:
                        setattr(module, alias.asname or alias.name, getattr(importlib.import_module(node.module or ""), alias.name))


def _is_library(module: ModuleType) -> bool:
    file = vars(module).get("__file__") or TORCH
    return not file.endswith(".py") or "site-packages" in file or file.startswith((TORCH, HERE, os.path.dirname(os.__file__)))


@contextlib.contextmanager
def on_meta() -> Iterator[None]:
    """Modules of kernels that are imported within have the rows of `TABLE` over their own names: no kernel runs on meta."""
    finder = _Over()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def notes() -> tuple[str, ...]:
    """What a report says of packages that were stood in for in this process."""
    own = (f"kernels of `{name}` need a GPU: functions of the documented mathematics stand in for them" for name in sorted(_own - _standing))
    return (*own, *(f"`{name}` is not installed: functions of the documented mathematics stand in for its own" for name in sorted(_standing)))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module below the packages that are stood in for; after the others, so that what is installed wins."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in _standing:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update({**TABLE.get(module.__name__, {}), **MODULES.get(module.__name__, {})})
        vars(module)["__version__"] = "0"
        vars(module)["__getattr__"] = _lacking(module.__name__)


def is_over(name: str) -> bool:
    """Do rows of `TABLE` stand over the names of a module, where it is there? Others of its package may be missing."""
    return "." in name and name in TABLE


class _Over(importlib.abc.MetaPathFinder):
    """Finds the modules of `TABLE` that are there."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if not is_over(fullname):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        _own.add(module.__name__.partition(".")[0])
        with contextlib.suppress(Exception):  # it needs a compiler or an extension: what it has defined until there stays
            super().exec_module(module)
        vars(module).update(TABLE[module.__name__])
        vars(module).setdefault("__getattr__", _lacking(module.__name__))


def _lacking(module: str) -> Callable[[str], Any]:
    """What a module answers for a name that the table lacks: a decorator where kernels are compiled, else a class that cannot be made."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{module}.{name}"
        if full in TABLE or full in MODULES:  # `import xformers.ops`, and then `xformers.ops.fmha.…`
            return importlib.import_module(full)
        if module.partition(".")[0] == "triton":
            return _Compiler(full)

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise NotInstalled(f"`{full}` is not installed, and nothing stands in for it", name=full.partition(".")[0])

        return _Lacking(type(name, (nn.Module,), {"__init__": refuse, "__new__": refuse, "__module__": module}))

    return get


class _Lacking:
    """A class that cannot be made: as a base it refuses what derives from it, and beside a base that is a module it is left out, as a mixin of
    methods would be."""

    def __init__(self, cls: type[nn.Module]) -> None:
        self.cls = cls
        self.__name__ = cls.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.cls(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type[Any], ...]:
        return () if any(isinstance(b, type) and issubclass(b, nn.Module) for b in bases) else (self.cls,)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self.cls)

    def __or__(self, other: Any) -> Any:
        return self.cls | other

    __ror__ = __or__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cls, name)


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

    def __instancecheck__(self, value: Any) -> bool:
        return False  # `isinstance(op, JITFunction)`, which torch asks of its own

    def __or__(self, other: Any) -> Any:
        return Any  # `Config | None`, in an annotation of torch's own

    __ror__ = __or__

    def __getitem__(self, grid: Any) -> NoReturn:
        raise NotInstalled(f"the kernel `{self.name}` needs `triton`, which is not installed")


__all__ = ["MODULES", "PACKAGES", "TABLE", "NotInstalled", "is_of_library", "is_over", "notes", "stand_in", "to_install"]
