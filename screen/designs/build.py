"""From a spec to a model and inputs that it takes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from screen.designs.initialise import initialise
from screen.designs.models import PATCH, Decoder, EncoderDecoder, ViT
from screen.designs.spec import Spec

SIDES = (224, 256)
"""Pixels of an image: the first whose patches and class token fill the context, else the last."""


def build(spec: Spec) -> nn.Module:
    """The model, initialised, on whatever device is current (`with torch.device("meta")` for large ones).

    Parameters are made in the spec's type from the start: a cast afterwards would draw them in another one.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16 if spec.dtype == "float16" else torch.float32)
    try:
        kinds = {"encoder_decoder": EncoderDecoder, "vit": ViT}
        model: nn.Module = kinds.get(spec.design.family, Decoder)(spec.design)
        initialise(model, spec)
    finally:
        torch.set_default_dtype(before)
    return model


def inputs(spec: Spec) -> tuple[Tensor, ...]:
    """Small inputs of the right kind: ids [2, 16] (and [2, 17] for a decoder's side), or one image [1, 3, side, side]."""
    design = spec.design
    if design.family == "vit":
        side = next((s for s in SIDES if (s // PATCH) ** 2 == design.context - 1), SIDES[-1])
        return (torch.zeros(1, 3, side, side),)
    ids = torch.zeros(2, 16, dtype=torch.long)
    return (ids, torch.zeros(2, 17, dtype=torch.long)) if design.family == "encoder_decoder" else (ids,)


__all__ = ["build", "inputs"]
