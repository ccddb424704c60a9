"""Whole models: an embedding, blocks, a last norm, a head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from screen.designs.blocks import make_blocks
from screen.designs.parts import Learned, Sinusoid, make_norm
from screen.designs.spec import Design, Stream

PATCH = 16
"""Pixels along the side of a patch of an image (Dosovitskiy et al. 2021)."""


class Stack(nn.Module):
    """Embedding (of tokens or patches), positions, blocks, last norm: ids or images to [batch, tokens, width]."""

    def __init__(self, design: Design, depth: int, stream: Stream | None, embed: nn.Module) -> None:
        super().__init__()
        width, norm = design.width, design.norm_type
        self.embed, self.scale = embed, design.embed_scale
        self.pos: nn.Module | None = None
        if design.position == "learned":
            self.pos = Learned(design.context, width)
        elif design.position == "sinusoidal":
            self.pos = Sinusoid(design.context, width)
        self.embed_norm = make_norm("layernorm" if norm in ("none", "dyt") else norm, width) if design.embed_norm else None
        self.blocks = make_blocks(design, depth, stream)
        self.two = design.pattern is not None and design.pattern.kind == "two_streams"
        last = design.of(stream)[-1].placement
        self.norm = make_norm(norm, width) if self.two or (design.final_norm and "C" not in last) else None

    def forward(self, ids: Tensor, memory: Tensor | None = None) -> Tensor:
        x: Tensor = self.embed(ids)
        if self.scale:
            x = x * self.scale
        if self.pos is not None:
            x = x + self.pos(x.shape[1])
        if self.embed_norm is not None:
            x = self.embed_norm(x)
        if self.two and self.norm is not None:
            y = x
            for block in self.blocks:
                x, y = block(x, y)
            out: Tensor = x + self.norm(y)
            return out
        for block in self.blocks:
            x = block(x, memory)
        return x if self.norm is None else self.norm(x)


class Decoder(nn.Module):
    """Language models of one stack: decoders, and encoders with the transform of BERT's head (Devlin et al. 2019) before their logits."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        width = design.width
        self.embedding = nn.Embedding(design.vocab, width)
        self.stack = Stack(design, design.depth, None, self.embedding)
        self.cap = design.output_logit_cap
        self.head = None if design.tied_embeddings else nn.Linear(width, design.vocab, bias=False)
        masked = design.family == "encoder"
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)) if masked else None

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.stack(ids)
        if self.transform is not None:
            x = self.transform(x)
        y: Tensor = x @ self.embedding.weight.T if self.head is None else self.head(x)
        return self.cap * torch.tanh(y / self.cap) if self.cap else y


class EncoderDecoder(nn.Module):
    """A decoder whose cross-attention reads an encoder's output; tied embeddings are shared by both and the head."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.embedding = nn.Embedding(design.vocab, design.width)
        self.encoder = Stack(design, design.encoder_depth, "encoder", self.embedding)
        target = self.embedding if design.tied_embeddings else nn.Embedding(design.vocab, design.width)
        self.decoder = Stack(design, design.decoder_depth, "decoder", target)
        self.head = None if design.tied_embeddings else nn.Linear(design.width, design.vocab, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x: Tensor = self.decoder(target, self.encoder(source))
        y: Tensor = x @ self.embedding.weight.T if self.head is None else self.head(x)
        return y


class Patches(nn.Module):
    """An image [batch, 3, side, side] as a row of embedded patches, after one class token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, PATCH, PATCH)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, image: Tensor) -> Tensor:
        x = self.conv(image).flatten(2).transpose(1, 2)
        return torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1)


class ViT(nn.Module):
    """A stack on patches; classes are read from the class token."""

    def __init__(self, design: Design) -> None:
        super().__init__()
        self.stack = Stack(design, design.depth, None, Patches(design.width))
        self.head = nn.Linear(design.width, design.vocab)

    def forward(self, image: Tensor) -> Tensor:
        y: Tensor = self.head(self.stack(image)[:, 0])
        return y


__all__ = ["Decoder", "EncoderDecoder", "PATCH", "Stack", "ViT"]
