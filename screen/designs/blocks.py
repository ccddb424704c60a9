"""Where norms and factors stand around the branches, and how blocks follow each other."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from screen.designs.branches import make_branch
from screen.designs.parts import Scaled, make_norm
from screen.designs.spec import Design, Residual, Stream, Sublayer


class Join(nn.Module):
    """One sublayer: x ← C(alpha·x + branch·B(F(A(x)))), any of the norms and factors being absent."""

    def __init__(self, design: Design, sub: Sublayer, layer: int, stream: Stream | None) -> None:
        super().__init__()
        self.fn = make_branch(design, sub, design.causal and stream != "encoder")
        before = make_norm(design.norm_type, design.width) if "A" in sub.placement else None
        scaled = design.pattern is not None and design.pattern.kind == "norm_scale"
        self.before = Scaled(before, 1 / math.sqrt(layer + 1)) if before is not None and scaled else before
        self.after = make_norm(design.norm_type, design.width, design.norm_affine) if "B" in sub.placement else None
        self.on_sum = make_norm(design.norm_type, design.width) if "C" in sub.placement else None
        self.alpha, self.branch = design.residual.skip(stream), design.residual.start
        self.gain, self.skip_gain = _learned(design.residual, design.width)
        if self.gain is not None or self.skip_gain is not None:
            self.branch = 1.0
        elif "1/sqrt(l+1)" in design.residual.rule and design.pattern is None:
            self.branch = 1 / math.sqrt(layer + 1)

    def step(self, x: Tensor, *memory: Tensor) -> Tensor:
        """What is added to the stream."""
        y: Tensor = self.fn(x if self.before is None else self.before(x), *memory)
        if self.after is not None:
            y = self.after(y)
        if self.gain is not None:
            y = self.gain * y
        return y if self.branch == 1.0 else self.branch * y

    def forward(self, x: Tensor, *memory: Tensor) -> Tensor:
        y = self.step(x, *memory)
        keep = x if self.skip_gain is None else x * self.skip_gain
        z = (keep if self.alpha == 1.0 else self.alpha * keep) + y
        return z if self.on_sum is None else self.on_sum(z)


def _learned(residual: Residual, width: int) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    """Learned factors of the branch and of the identity path: omega on the path (Admin), one per feature (LayerScale), or one (ReZero)."""
    if residual.kind != "learned":
        return None, None
    if "omega" in residual.rule:
        return None, nn.Parameter(torch.ones(width))
    return nn.Parameter(torch.full((width if "per feature" in residual.rule else 1,), residual.start)), None


class Block(nn.Module):
    """The sublayers of one layer, one after the other, or all of them on the same input."""

    def __init__(self, design: Design, subs: tuple[Sublayer, ...], layer: int, stream: Stream | None) -> None:
        super().__init__()
        self.parallel, self.crosses = design.parallel, [s.role == "cross_attention" for s in subs]
        self.subs = nn.ModuleList(Join(design, s, layer, stream) for s in subs)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        if self.parallel:
            return x + sum(join.step(x) for join in self.subs if isinstance(join, Join))
        for crosses, join in zip(self.crosses, self.subs, strict=True):
            x = join(x, memory) if crosses else join(x)
        return x


class TwoStreams(nn.Module):
    """X is normed after every sum, Y only adds; the branch reads X (ResiDual), or X + norm(Y) (SiameseNorm)."""

    def __init__(self, design: Design, layer: int) -> None:
        super().__init__()
        subs = [replace(s, placement="", qkv_norm=design.v_norm) for s in design.sublayers]
        self.fns = nn.ModuleList(make_branch(design, s, design.causal) for s in subs)
        norms = [nn.ModuleList(make_norm(design.norm_type, design.width) for _ in subs) for _ in range(3)]
        self.siamese = design.pattern is not None and design.pattern.rule.startswith("O = F(X + LN")
        self.on_x = norms[0]
        self.on_y: nn.ModuleList | None = norms[1] if self.siamese else None
        self.on_input: nn.ModuleList | None = norms[2] if self.siamese else None
        self.scale = 1 / math.sqrt(layer + 1) if self.siamese else 1.0

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        for i, fn in enumerate(self.fns):
            read = x if self.on_input is None or self.on_y is None else self.on_input[i](x + self.on_y[i](y))
            added = fn(read)
            x, y = self.on_x[i](x + self.scale * added), y + added
        return x, y


def make_blocks(design: Design, depth: int, stream: Stream | None) -> nn.ModuleList:
    """All blocks of a stream; the first ones may have a placement of their own."""
    pattern, subs = design.pattern, design.of(stream)
    if pattern is not None and pattern.kind == "two_streams":
        return nn.ModuleList(TwoStreams(design, i) for i in range(depth))
    kind = pattern.kind if pattern else ""
    first = round(pattern.fraction * depth) if pattern and kind == "first_fraction" else int(kind == "first_block")
    other = tuple(replace(s, placement=pattern.sublayers) for s in subs) if pattern else subs
    return nn.ModuleList(Block(design, other if i < first else subs, i, stream) for i in range(depth))


__all__ = ["Block", "Join", "TwoStreams", "make_blocks"]
