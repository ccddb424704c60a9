"""How torch is set while the probe measures, and set back afterwards: the same command gives the same numbers, and none of them is in a type that
nobody asked for (TF32, bfloat16 inside of float32 products)."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator

import torch
from torch.backends import cudnn
from torch.nn.attention import SDPBackend, sdpa_kernel

from screen.capture.build.random_state import seeded
from screen.probe.budget.budget import THREADS

WORKSPACE, FIXED = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
"""What cuBLAS needs to add in one order; read when a process first multiplies on a GPU."""


@contextlib.contextmanager
def settled(device: str, seed: int) -> Iterator[None]:
    """A fixed number of threads, products in their own type, exact attention, no gradient unless asked for; what the program itself draws is drawn
    from the seed, and the global random states are as they were afterwards. On a GPU sums in one order, where a kernel has one."""
    threads, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(THREADS)
    torch.set_float32_matmul_precision("highest")
    try:
        with seeded(seed, device), _on_gpu() if device == "cuda" else contextlib.nullcontext(), sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(products)


@contextlib.contextmanager
def _on_gpu() -> Iterator[None]:
    """Deterministic kernels (with a warning, that is not shown, where there is none) and convolutions without TF32."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get(WORKSPACE)
    os.environ.setdefault(WORKSPACE, FIXED)
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with cudnn.flags(enabled=cudnn.enabled, deterministic=True, allow_tf32=False), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic.*")
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        if workspace is None:
            os.environ.pop(WORKSPACE, None)


__all__ = ["FIXED", "WORKSPACE", "settled"]
