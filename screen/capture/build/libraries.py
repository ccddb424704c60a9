"""Other libraries, imported lazily and only when a target asks for them: transformers, timm, and a torchvision that does not load.

A torchvision from PyPI beside a CPU build of torch does not load its C++ part; then `import torchvision` raises that the operator
`torchvision::nms` does not exist, and with it every class of transformers. Defining the schema of the missing operators first makes the
import succeed; nothing here ever calls them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from types import ModuleType
from typing import Any

from screen.errors import LoadError, chain

SCHEMAS = ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""Operators that `import torchvision` registers meta kernels for, in the namespace `torchvision`."""

OFFLINE = {
    "TRANSFORMERS_DISABLE_TORCH_CHECK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "USE_HUB_KERNELS": "NO",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Read by transformers and huggingface_hub when they are imported: never the network, nor what a hub's cache has of kernels."""

_kept: list[Any] = []
"""The library object must live as long as the schemas are needed."""


def stub_torchvision() -> bool:
    """Make `import torchvision` succeed where only its C++ part is missing; True when a stub was needed.

    Costs nothing where torchvision is not installed or already imported."""
    import sys

    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return False
    import torch

    try:
        importlib.import_module("torchvision")
        return False
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        library.define(schema)
    _kept.append(library)
    importlib.import_module("torchvision")
    return True


def lacks_torchvision(error: Exception) -> bool:
    """Did an import fail for the C++ part of torchvision alone? Then it is worth another try."""
    return any(isinstance(e, RuntimeError) and "operator torchvision::" in str(e) for e in chain(error)) and stub_torchvision()


def transformers() -> ModuleType:
    """The installed transformers, offline. Raises `LoadError`."""
    return _library("transformers", "pip install 'archscreen[hf]'")


def timm() -> ModuleType:
    """The installed timm. Raises `LoadError`."""
    return _library("timm", "Install a timm whose torchvision fits your torch")


def _library(name: str, advice: str) -> ModuleType:
    """Import a library that is not a dependency."""
    os.environ.update({k: v for k, v in OFFLINE.items() if k not in os.environ})
    if importlib.util.find_spec(name) is None:
        raise LoadError(f"This target needs `{name}`", "it is not installed", advice)
    stub_torchvision()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception as error:
        raise LoadError(f"This target needs a `{name}` that imports", f"it raised `{type(error).__name__}: {error}`", advice) from error


__all__ = ["OFFLINE", "SCHEMAS", "lacks_torchvision", "stub_torchvision", "timm", "transformers"]
