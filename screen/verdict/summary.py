"""One sentence that says what the model is, from facts alone: the first line of every report.

`12 blocks of [attention pre, FFN pre], LayerNorm, final norm`
"""

from __future__ import annotations

from collections import Counter

from screen.facts.record import Facts
from screen.structure.types import Kind, Stream, Sublayer, Unknown

ROLES = {
    "attention": "attention", "cross_attention": "cross-attention", "linear_attention": "linear attention", "ssm": "SSM", "rnn": "RNN",
    "conv": "conv", "fourier": "Fourier", "pooling": "pooling", "ffn": "FFN", "gated_ffn": "gated FFN", "moe": "MoE", "other": "branch",
}  # fmt: skip
NORMS = {
    "layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "l2": "L2 norm", "batchnorm": "BatchNorm", "groupnorm": "GroupNorm", "other": "other norm",
}  # fmt: skip
PLACEMENTS = {"output_only": "output-only", "pre_post": "pre+post", "none": "without norm", "unknown": "placement unknown"}
QK_NORMS = {"per_head": "QK-norm per head", "full": "QK-norm over the full width", "cosine": "cosine attention", "l2": "L2-normalised Q and K"}
ONE_SIDED = {
    "per_head": "{}-norm per head", "full": "{}-norm over the full width", "cosine": "L2-normalised {} alone", "l2": "L2-normalised {} alone",
}  # fmt: skip
KINDS_SHOWN = 3


def summarise(facts: Facts, name: str, *, block: bool = False) -> str:
    """The sentence, without a full stop. `name` is the label of the target; `block`: it is one block, so that nothing is said of its ends."""
    if not facts.streams:
        return f"{name}: no residual stream found"
    if len(facts.streams) == 1:
        return f"{name}: {_stream(facts.streams[0], block)}"
    return f"{name}: " + "; ".join(_together(same, block) for same in _alike(facts.streams))


def _alike(streams: tuple[Stream, ...]) -> list[list[Stream]]:
    """Neighbours of the same role and layout together: the stages of a pyramid."""
    groups: list[list[Stream]] = []
    for stream in streams:
        if groups and (stream.role, _gist(stream)) == (groups[-1][0].role, _gist(groups[-1][0])):
            groups[-1].append(stream)
        else:
            groups.append([stream])
    return groups


def _gist(stream: Stream) -> tuple[object, ...]:
    layouts = tuple(dict.fromkeys(layout(kind) for kind in stream.kinds))
    return layouts if len(layouts) == 1 else (stream.name,)


def _together(streams: list[Stream], block: bool) -> str:
    if len(streams) == 1:
        return f"{streams[0].name}: {_stream(streams[0], block)}"
    depths = " + ".join(map(_depth, streams))
    last = streams[-1]
    rest = [*_norm_types(last), *_qk(last), *_scales(last), *([] if block else _final(last))]
    return ", ".join([f"{streams[0].name} {'and' if len(streams) == 2 else 'to'} {last.name}: {depths} blocks of {layout(last.kinds[0])}", *rest])


def _stream(stream: Stream, block: bool) -> str:
    parts = [_blocks(stream), *_norm_types(stream), *_qk(stream)]
    if stream.embed_norm is True:
        parts.append("embedding norm")
    if stream.embed_scale is True:
        parts.append("scaled embedding")
    parts += _scales(stream)
    parts += [] if block else _final(stream)
    if stream.long_skips:
        parts.append(f"{len(stream.long_skips)} long skip{'s' if len(stream.long_skips) > 1 else ''}")
    return ", ".join(parts)


def _blocks(stream: Stream) -> str:
    plural = "block" if stream.depth == 1 else "blocks"
    layouts = Counter[str]()
    for kind in stream.kinds:
        layouts[layout(kind)] += kind.count
    if len(layouts) == 1:
        return f"{_depth(stream)} {plural} of {next(iter(layouts))}"
    shown = [f"{count}× {text}" for text, count in list(layouts.items())[:KINDS_SHOWN]]
    more = [f"{len(layouts) - KINDS_SHOWN} more layouts"] if len(layouts) > KINDS_SHOWN else []
    return f"{_depth(stream)} {plural}: " + " + ".join(shown + more)


def _depth(stream: Stream) -> str:
    """The blocks of a stream; `23 × 15` of an inner one that as many branches have."""
    return f"{stream.copies} × {stream.depth // stream.copies}" if stream.copies > 1 else str(stream.depth)


def layout(kind: Kind) -> str:
    """`[attention pre, FFN pre]`; branches of one parallel group are joined by `∥`."""
    items: list[str] = []
    previous: int | None = None
    for sublayer in kind.sublayers:
        inside = sublayer.placement == "none" and "S" in sublayer.positions
        text = f"{ROLES[sublayer.role]} {'sub-norm' if inside else PLACEMENTS.get(sublayer.placement, sublayer.placement)}"
        if sublayer.parallel_group is not None and sublayer.parallel_group == previous:
            items[-1] += f" ∥ {text}"
        else:
            items.append(text)
        previous = sublayer.parallel_group
    return f"[{', '.join(items)}]"


def _sublayers(stream: Stream) -> list[Sublayer]:
    return [s for k in stream.kinds for s in k.sublayers]


def _norm_types(stream: Stream) -> list[str]:
    return list(dict.fromkeys(NORMS[s.norm_type] for s in _sublayers(stream) if s.norm_type))


def _qk(stream: Stream) -> list[str]:
    with_logits = [s for s in _sublayers(stream) if s.role in ("attention", "cross_attention")]
    said = [_qk_of(s) for s in with_logits]
    return [f"{text} in some layers" if "" in said else text for text in dict.fromkeys(said) if text]


def _qk_of(sublayer: Sublayer) -> str | None:
    """The QK-norm of a sublayer, of one side where the other has none; empty where there is none, None where it is not known."""
    if isinstance(sublayer.qk_norm, Unknown):
        return None
    if sublayer.qk_norm != "none":
        return QK_NORMS[sublayer.qk_norm]
    normed = [(letter, side) for letter, side in (("Q", sublayer.q_norm), ("K", sublayer.k_norm)) if side != "none"]
    if any(isinstance(side, Unknown) for _, side in normed):
        return None
    return next((ONE_SIDED[side].format(letter) for letter, side in normed if not isinstance(side, Unknown)), "")


def _scales(stream: Stream) -> list[str]:
    found: list[str] = []
    for sublayer in _sublayers(stream):
        for scale, what in ((sublayer.alpha, "stream"), (sublayer.branch, "branch")):
            if scale.kind == "constant" and scale.value not in (1.0, None):
                found.append(f"{what} × {scale.value:.4g}")
            elif scale.kind == "learned":
                found.append(f"learned {what} scale")
            elif scale.kind == "data":
                found.append(f"{what} gated by the data")
    return list(dict.fromkeys(found))


def _final(stream: Stream) -> list[str]:
    if isinstance(stream.final_norm, Unknown):
        return ["final norm unknown"]
    if stream.final_norm:
        return ["final norm"]
    if stream.pooled_norm:
        return ["final norm on the mean over places"]
    last = stream.kinds[-1].sublayers[-1:] if stream.kinds else ()
    return [] if any("C" in s.positions for s in last) else ["no final norm"]


__all__ = ["NORMS", "PLACEMENTS", "QK_NORMS", "ROLES", "layout", "summarise"]
