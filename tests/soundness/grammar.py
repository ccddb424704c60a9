"""A grammar of residual blocks: `Design` says what a model is made of, `draw_design` draws one, `line` prints it.

The choices are ordered from plain to odd, so that hypothesis shrinks towards a plain block. What a letter or word means stands beside the code that
builds it (`norms.py`, `attention.py`, `mixers.py`, `model.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from hypothesis import strategies as st

Choose = Callable[[Sequence[Any]], Any]
"""Picks one of some options."""

NORMS = (
    "layer", "rms", "LayerNorm", "RMSNorm", "hand_rms", "hand_layer", "plus_one_rms", "no_gain", "l2", "hand_l2", "lp1", "lp3", "max",
    "std", "wide_eps", "rms_out_eps", "half_norm", "group",
)
TRAPS = ("partial", "over_mean", "over_tokens", "group_tokens", "dyt", "batch", "hollow")
"""What stands where a norm would and does not bound a token by its gain."""
ACTIVATIONS = (
    "relu", "gelu", "gelu_tanh", "silu", "tanh", "relu2", "sigmoid", "elu", "softplus", "leaky", "mish", "hardswish", "celu", "selu", "quick",
    "exp", "square", "sin", "softsign", "relu6", "logsigmoid", "abs", "cube", "gelu_by_hand", "gelu_tanh_by_hand", "silu_by_hand", "mish_by_hand",
    "glu_like", "larger", "smaller",
)
ATTENTIONS = ("sdpa", "hand", "einsum")
FEED_FORWARDS = ("mlp", "glu", "moe_soft", "moe_top", "linear")
OTHERS = ("linear_attention", "conv", "pool", "fourier", "token_mlp", "scan", "ssm", "gate")
LAYOUTS = ("apart", "chunk", "split", "three_first", "heads_first", "by_head", "kv_fused", "one_qk")
MASKS = ("none", "causal", "added", "filled", "bool", "finite", "window", "where")
SCALES = ("one", "constant", "learned", "layerscale", "rezero", "tanh_gate", "negative")
TWISTS = (
    "", "bias_before_norm", "gain_after_norm", "matrix_after_norm", "raw_gate", "bypass", "tanh_then_gain", "data_gain", "position",
    "inner_skip", "weight_norm", "unit_weight", "double_norm", "clamp", "self_product", "concat", "mean_gate", "halves",
    "writes", "shares", "feature_shift", "tied", "sorted", "roll", "statistics", "times_stream", "normed_times_stream",
    "angle", "remainder", "copysign", "clamp_table", "std_mean",
)
KEPT = ("one", "one", "one", "constant", "learned", "gate", "boost")
"""What multiplies the stream on its way past a branch."""
CARRIES = (
    "", "doubled", "sum_of_three", "mean", "roll", "flip", "swapped", "cat_swapped", "alias", "in_place", "lerp", "clamp", "token_mix", "diagonal",
    "fused_add", "by_where", "stacked",
)
"""What else happens to the stream on its way past a branch: repeated operands, aliases, ops that move or mix its entries."""
ENDS = ("", "halved", "gain", "matrix", "tanh", "slices", "centred", "first_again")
"""What stands behind the last add of a block."""
WEIGHINGS = ("", "by_hand", "log_exp", "talking", "two", "sigmoid", "negative_distance", "temperature_of_data", "bias_of_data", "squared")
"""What stands where a softmax of the logits would."""
DIFFERENT = ("", "factor", "activation", "eps", "mask")
"""How later blocks differ from the first: in nothing, or in something that is no module and no shape."""


@dataclass(frozen=True)
class Attend:
    """Choices of a softmax attention."""

    form: str = "sdpa"
    layout: str = "apart"
    mask: str = "none"
    heads: int = 1
    groups: int = 1
    """Query heads for each key head."""
    repeat: str = "interleave"
    qk: str = ""
    """Norm of q and k: a style, applied per head; or `full` + style before the split; `cosine`."""
    cap: bool = False
    sink: str = ""
    rope: str = ""
    scale: str = "root"
    gate: bool = False
    v_norm: bool = False
    weighing: str = ""


@dataclass(frozen=True)
class Part:
    """One branch: norms at its input, inside and at its output, a mixer, multipliers and a twist."""

    mixer: str = "mlp"
    input_norm: str = ""
    output_norm: str = ""
    sub_norm: str = ""
    act: str = "relu"
    bias: bool = False
    scale: str = "one"
    twist: str = ""
    attend: Attend = Attend()


@dataclass(frozen=True)
class Design:
    """A model: `depth` blocks of one or two branches, in sequence or in parallel."""

    parts: tuple[Part, ...] = (Part(),)
    parallel: bool = False
    stream_norm: str = ""
    alpha: str = "one"
    different: str = ""
    depth: int = 1
    width: int = 4
    tokens: int = 3
    carry: str = ""
    end: str = ""

    def part(self, place: int, block: int) -> Part:
        """The part at a place of a block, counted from 0."""
        plain = self.parts[place]
        if block == 0 or not self.different:
            return plain
        if self.different == "eps":
            return replace(plain, input_norm="wide_eps", output_norm=plain.output_norm and "wide_eps")
        if self.different == "mask":
            return replace(plain, attend=replace(plain.attend, mask="causal"))
        return replace(plain, act="square") if self.different == "activation" else replace(plain, scale=f"times {1.0 + block}")

    @property
    def line(self) -> str:
        """The design as one short line; what is plain is left out."""
        own = [f"{f.name}={getattr(self, f.name)}" for f in fields(self) if f.name != "parts" and getattr(self, f.name) != f.default]
        return " + ".join(_part_line(p) for p in self.parts) + (" | " + " ".join(own) if own else "")


def _part_line(part: Part) -> str:
    plain, words = Part(), [part.mixer]
    words += [f"{f.name}={getattr(part, f.name)}" for f in fields(part)[1:-1] if getattr(part, f.name) != getattr(plain, f.name)]
    if part.mixer in ATTENTIONS:
        words += [f"{f.name}={getattr(part.attend, f.name)}" for f in fields(Attend)[1:] if getattr(part.attend, f.name) != f.default]
    return " ".join(words)


def draw_design(choose: Choose) -> Design:
    """One design out of single choices."""
    width = choose((4, 8, 6, 12, 16))
    count = choose((1, 1, 2))
    placement = choose(("A", "AB", "B", "", "C", "AC", "BC"))
    parts = tuple(_draw_part(choose, width, placement) for _ in range(count))
    return Design(
        parts=parts,
        parallel=len(parts) == 2 and choose((False, False, True)),
        stream_norm=_norm(choose) if "C" in placement else "",
        alpha=choose(KEPT),
        different=_some(choose, DIFFERENT, 4),
        depth=choose((1, 1, 1, 2, 2, 3, 5, 8, 12)),
        width=width,
        tokens=choose((3, 4, 5, 7)),
        carry=_some(choose, CARRIES, 3),
        end=_some(choose, ENDS, 5),
    )


def _norm(choose: Choose) -> str:
    return str(choose(TRAPS) if choose((False,) * 9 + (True,)) else choose(NORMS))


def _some(choose: Choose, options: Sequence[str], rarity: int) -> str:
    """One of the options after the first, once in `rarity` times; else the first."""
    return str(choose(options[1:]) if choose((False,) * (rarity - 1) + (True,)) else options[0])


def _draw_part(choose: Choose, width: int, placement: str) -> Part:
    family = choose((FEED_FORWARDS, ATTENTIONS, ATTENTIONS, OTHERS))
    mixer = choose(family)
    return Part(
        mixer=mixer,
        input_norm=_norm(choose) if "A" in placement else "",
        output_norm=_norm(choose) if "B" in placement else "",
        sub_norm=_norm(choose) if choose((False,) * 5 + (True,)) else "",
        act=choose(ACTIVATIONS),
        bias=choose((False, True)),
        scale=_some(choose, SCALES, 4),
        twist=_some(choose, TWISTS, 3),
        attend=_draw_attend(choose, width) if mixer in ATTENTIONS else Attend(),
    )


def _draw_attend(choose: Choose, width: int) -> Attend:
    heads = choose([h for h in (1, 2, 3, 4) if width % h == 0 and (width // h) % 2 == 0])
    qk = choose(("", "", "head", "full", "cosine"))
    style = _norm(choose)
    return Attend(
        form=choose(ATTENTIONS),
        layout=choose(LAYOUTS),
        mask=choose(MASKS),
        heads=heads,
        groups=choose([g for g in (1, 2, 4) if heads % g == 0]),
        repeat=choose(("interleave", "expand", "enable_gqa")),
        qk=f"{qk} {style}" if qk in ("head", "full") else qk,
        cap=choose((False, False, True)),
        sink=_some(choose, ("", "learned", "zero", "token"), 5),
        rope=choose(("", "", "half", "pairs", "scaled", "shifted", "turned")),
        scale=_some(choose, ("root", "width", "learned", "none"), 4),
        gate=choose((False, False, False, True)),
        v_norm=choose((False,) * 7 + (True,)),
        weighing=_some(choose, WEIGHINGS, 3),
    )


def design_of(seed: str) -> Design:
    """The design of a seed."""
    return draw_design(random.Random(seed).choice)


def distinct(count: int, seed: int) -> list[Design]:
    """The first `count` different designs of a seed."""
    found: dict[Design, None] = {}
    number = 0
    while len(found) < count:
        found.setdefault(design_of(f"{seed}:{number}"))
        number += 1
    return list(found)


@st.composite
def designs(draw: st.DrawFn) -> Design:
    """Designs for hypothesis."""
    return draw_design(lambda options: draw(st.sampled_from(options)))
