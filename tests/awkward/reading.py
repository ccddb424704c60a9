"""Facts in the notation of `table.py`."""

from __future__ import annotations

from screen.structure.types import Scale, Stream, Sublayer, Unknown


def _scale(mark: str, scale: Scale) -> str:
    if scale.kind == "none":
        return ""
    return f" {mark}={scale.value:g}" if scale.kind == "constant" and scale.value is not None else f" {mark}={scale.kind}"


def written(sublayer: Sublayer) -> str:
    """A sublayer as the table writes it."""
    qk = "unknown" if isinstance(sublayer.qk_norm, Unknown) else sublayer.qk_norm
    return (
        f"{sublayer.role}:{sublayer.placement}"
        + (f" qk={qk}" if qk != "none" else "")
        + _scale("α", sublayer.alpha)
        + _scale("s", sublayer.branch)
        + (" ∥" if sublayer.parallel_group is not None else "")
        + (" normed_skip" if sublayer.normed_skip else "")
    )


def in_order(stream: Stream) -> list[str]:
    """All sublayers of a stream in call order, each block's kind written out."""
    blocks = sorted((first + i, kind) for kind in stream.kinds for first, last in kind.layers for i in range(last - first + 1))
    return [written(s) for _, kind in blocks for s in kind.sublayers]
