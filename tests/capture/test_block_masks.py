"""FlexAttention's masks are written out, nothing is compiled in a trial, and ids without a batch get the length that a forward insists on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from screen.capture.trace import flex
from tests.capture.first_try import built, runs, writing

write = pytest.fixture(writing)

PACKED = """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    create_block_mask = torch.compile(create_block_mask, dynamic=False)
    flex_attention = torch.compile(flex_attention, dynamic=False)

    @torch.compile
    def squashed(x):
        assert not torch.compiler.is_compiling()
        return x.tanh()

    class Packed(Base):
        def extra(self, x):
            return x

        def forward(self, ids, labels, window):
            assert len(ids) % 128 == 0
            assert ids.ndim == 1
            pieces = (ids == 7).cumsum(0)

            def seen(b, h, q, k):
                return (q >= k) & (pieces[q] == pieces[k]) & (q - k < window)

            mask = create_block_mask(seen, None, None, len(ids), len(ids), device="cuda", _compile=True)
            x = self.embed(ids[None])
            h = x.unflatten(-1, (-1, 8)).transpose(1, 2)
            x = squashed(x + flex_attention(h, h, h, block_mask=mask).transpose(1, 2).flatten(2))
            pairs = zip(x.flatten(0, 1).chunk(4), labels.chunk(4))
            return sum(nn.functional.cross_entropy(part, answer) for part, answer in pairs)
"""


def test_a_packed_sequence_with_a_block_mask_of_its_pieces(write: Any) -> None:
    (b,) = built(write(PACKED))
    assert runs(b) == "" and b.kwargs["ids"].shape == b.kwargs["labels"].shape and b.kwargs["ids"].numel() % 128 == 0


@pytest.mark.parametrize("batch", [None, 2])
def test_a_mask_written_out_is_the_one_that_torch_makes(batch: int | None) -> None:
    pieces = torch.tensor([0, 0, 0, 1, 1, 2, 2])

    def seen(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return (q >= k) & (pieces[q] == pieces[k]) & (h + b >= 0)

    def scored(score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.where(q - k < 3, score, float("-inf"))

    for mod in (seen, scored):
        torch.testing.assert_close(flex.mask(mod, batch, 3, 7, 7), create_mask(mod, batch, 3, 7, 7, "cpu"))
