"""Calls without a kernel for a type or a device, by the same arithmetic."""

from __future__ import annotations

import pytest
import torch

from screen.probe.kernels import called, grouped
from tests.probe.common import measured
from tests.probe.zoo import small


def test_counts_of_whole_numbers() -> None:
    ids = torch.tensor([0, 2, 2, 3, 0, 7], dtype=torch.int32)
    found = called(torch.histc, (ids,), {"bins": 4, "min": 0, "max": 3})
    assert found.dtype == torch.int32 and found.tolist() == [2, 0, 2, 1]


def test_a_grouped_product_is_that_of_torch() -> None:
    """With an empty group, and with rows behind the last one, which are 0; its derivative is one too."""
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(7, 16, generator=g), torch.randn(4, 16, 8, generator=g)
    offs = torch.tensor([2, 2, 5, 6], dtype=torch.int32)
    found = grouped(a.double(), b.double(), offs)
    assert torch.allclose(found[:6].float(), torch._grouped_mm(a, b, offs=offs)[:6], atol=1e-4)  # type: ignore[attr-defined]
    assert not found[6].any()
    assert torch.autograd.gradgradcheck(lambda x, w: grouped(x, w, offs), (a.double().requires_grad_(), b.double().requires_grad_()))


def test_experts_behind_one_grouped_product_are_measured() -> None:
    pytest.importorskip("transformers")
    found = measured("hf:mixtral", **small("mixtral"))
    degrees = [e for e in found if e["name"] == "invariance" and e["sublayer"] == "moe"]
    assert len(degrees) == 4 and {e["outcome"] for e in degrees} == {"confirmed"}
    assert any(e["name"] == "precision" and e["outcome"] == "confirmed" for e in found)
