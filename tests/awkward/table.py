"""The truth about every awkward block, worked out by hand: one row each.

A stream is written as its sublayers in order, each `role:placement` followed by what is not plain: ` qk=…` (QK-norm), ` α=…` and ` s=…` (scale on
the stream and on the branch: a number, `learned` or `data`), ` ∥` (one of several branches of one add). `*` stands for anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from tests.awkward import kernels, mixers, modules, norms, residuals, streams, values
from tests.awkward.parts import TOKENS, D, Pre, Stack

Sublayers = tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One model and what must be said of it."""

    name: str
    make: Callable[[], nn.Module]
    streams: tuple[Sublayers, ...]
    final: bool | None = True
    """Whether the last stream ends in a norm; None where two readings are right."""
    embed: bool | None = False
    tolerated: str = ""
    """Why `unknown` is a right answer too; empty where it is not."""
    others: bool = False
    """Further streams may be found."""
    alternative: Sublayers | None = None
    """A second right reading of a single stream."""
    maps: tuple[int, ...] = ()
    """Weight maps of the first sublayers, where counted by hand."""
    norm_type: str = ""
    inputs: tuple[tuple[int, ...], ...] = ((2, TOKENS, D),)
    mask: bool = False
    """A boolean mask of ones [batch, tokens] is passed behind the inputs."""

    def arguments(self, device: str = "meta") -> tuple[Tensor, ...]:
        """Inputs of the forward: floats on `device`, the mask on the CPU because its values count."""
        floats = tuple(torch.randn(shape, device=device) for shape in self.inputs)
        return (*floats, torch.ones(self.inputs[0][:2], dtype=torch.bool)) if self.mask else floats


def _blocks(make: Callable[[], nn.Module], count: int = 3, final: bool = True) -> Callable[[], nn.Module]:
    return partial(Stack, make, count, final)


PRE: Sublayers = ("attention:pre", "ffn:pre")
VALUE = "which way a branch on values goes cannot be told"
KERNEL = "the call has no kernel on meta"


def _pre(name: str, make: Callable[[], nn.Module], tolerated: str = "") -> Case:
    return Case(name, _blocks(make), (3 * PRE,), tolerated=tolerated)


def _ffn(name: str, make: Callable[[], nn.Module], text: str = "ffn:pre", tolerated: str = "", maps: tuple[int, ...] = (2,)) -> Case:
    return Case(name, _blocks(make), (3 * (text,),), tolerated=tolerated, maps=maps)


def _mix(name: str, mix: Callable[[], nn.Module], text: str, maps: tuple[int, ...] = (), tolerated: str = "") -> Case:
    return Case(name, _blocks(partial(mixers.PreMix, mix)), (3 * (text,),), maps=maps, tolerated=tolerated)


def _norm(body: norms.Body, norm_type: str = "", placement: str = "pre") -> Case:
    truth = 3 * (f"attention:{placement}", f"ffn:{placement}")
    return Case(f"norm {body.__name__}", _blocks(partial(norms.Handmade, body)), (truth,), norm_type=norm_type)


VALUES = (
    _ffn("sum decides", values.SumDecides, tolerated=VALUE),
    Case("item temperature", _blocks(values.ItemTemperature), (3 * ("attention:pre",),), maps=(4,), tolerated=VALUE),
    _ffn("expert loop", values.ExpertLoop, "moe:pre", maps=()),
    _ffn("unique experts", values.UniqueExperts, "moe:pre", tolerated=VALUE, maps=()),
    _pre("early exit", values.EarlyExit, VALUE),
    _pre("finite guard", values.FiniteGuard, VALUE),
    Case("length from mask", values.LengthFromMask, (("attention:pre",),), final=False, maps=(4,), mask=True),
    _ffn("mixture of depths", values.Depths, maps=()),
)

RESIDUALS = (
    _pre("augmented add", residuals.AugmentedAdd),
    _pre("add_", residuals.AddUnderscore),
    _pre("slice write", residuals.SliceWrite),
    _pre("out buffer", residuals.OutBuffer),
    _ffn("lerp", residuals.Lerp, "ffn:pre α=0.75 s=0.25"),
    _ffn("addcmul", residuals.Addcmul, "ffn:pre s=learned"),
    _ffn("addmm", residuals.Addmm),
    Case("baddbmm", _blocks(residuals.Baddbmm), (3 * ("attention:pre",),), maps=(3,)),
    Case("add alpha", _blocks(residuals.AddAlpha), (3 * ("attention:pre s=0.5", "ffn:pre s=0.5"),)),
    Case("stack sum", _blocks(residuals.StackSum), (3 * ("attention:pre ∥", "ffn:pre ∥"),)),
    Case("builtin sum", _blocks(residuals.BuiltinSum), (3 * ("attention:pre ∥", "ffn:pre ∥"),)),
    Case("minus", _blocks(residuals.Minus), (3 * ("attention:pre s=-1",),)),
    Case("macaron", _blocks(residuals.Macaron), (3 * ("ffn:pre s=0.5", "attention:pre", "ffn:pre s=0.5"),)),
    Case("carried residual", residuals.Carried, (3 * PRE,)),
    Case("dropped", _blocks(residuals.Dropped), (3 * ("attention:pre*", "ffn:pre*"),)),
)

MODULES = (
    Case("plain list", modules.PlainList, (3 * PRE,)),
    Case("shared block", modules.Shared, (4 * ("attention:post", "ffn:post"),), final=False, embed=True),
    Case("universal", modules.Universal, (4 * PRE,)),
    Case("bare weights", modules.BareWeights, (3 * ("ffn:pre",),), final=False, maps=(2,)),
    Case("stacked weights", modules.StackedWeights, (3 * ("ffn:pre",),), final=False, maps=(2,)),
    Case("hooked", _blocks(modules.Hooked), (3 * ("attention:peri", "ffn:peri"),)),
    _pre("pre-hooked", modules.PreHooked),
    _ffn("scripted", modules.Scripted, tolerated=KERNEL),
    _pre("compiled", modules.Compiled),
    Case("checkpointed", modules.Checkpointed, (4 * PRE,), final=False),
    _pre("functional call", modules.Functional),
    _ffn("vmapped", modules.Vmapped),
    _ffn("weight norm", modules.WeightNormed),
    Case("built-in pre", modules.Builtin, (3 * PRE,)),
    Case("built-in post", modules.BuiltinPost, (3 * ("attention:post", "ffn:post"),), final=False),
    Case(
        "built-in both",
        modules.BuiltinBoth,
        (3 * ("attention:post", "ffn:post"), 2 * ("attention:post", "cross_attention:post", "ffn:post")),
        inputs=((2, TOKENS, D), (2, 11, D)),
    ),
)

NORMS = (
    *(_norm(body, "rmsnorm") for body in (norms.rms_rsqrt, norms.rms_sqrt, norms.rms_vector_norm, norms.rms_cast, norms.rms_one_plus)),
    *(_norm(body) for body in (norms.rms_by_norm, norms.rms_normalize)),
    *(_norm(body, "rmsnorm") for body in (norms.rms_einsum, norms.rms_in_place, norms.rms_exp_log, norms.autograd_function)),
    *(_norm(body, "layernorm") for body in (norms.layer_var, norms.layer_var_mean, norms.layer_annotated)),
    *(_norm(body, "layernorm") for body in (norms.layer_centred, norms.layer_moments, norms.layer_functional)),
    *(_norm(body, "other") for body in (norms.max_abs, norms.l1, norms.fourth_powers)),
    *(_norm(body, placement="none") for body in (norms.partial_rms, norms.by_mean, norms.centred_only, norms.detached_constant)),
    Case("norm by name only", _blocks(partial(Pre, norms.LayerNorm)), (3 * ("attention:none", "ffn:none"),)),
    Case("batch norm", _blocks(partial(Pre, lambda d: norms.Channels(nn.BatchNorm1d(d)))), (3 * PRE,), norm_type="batchnorm"),
    Case("group norm", _blocks(partial(Pre, lambda d: norms.Channels(nn.GroupNorm(4, d)))), (3 * PRE,), norm_type="groupnorm"),
)

MIXERS = (
    _mix("interleaved heads", mixers.Interleaved, "attention:pre qk=per_head", (4,)),
    _mix("full qk-norm", mixers.FullQK, "attention:pre qk=full", (4,)),
    _mix("cosine", mixers.Cosine, "attention:pre qk=cosine", (4,)),
    _mix("one-sided qk-norm", mixers.OneSided, "attention:pre*", (4,)),
    _mix("einsum", mixers.Einsum, "attention:pre", (4,)),
    _mix("softmax by hand", mixers.HandSoftmax, "attention:pre", (4,)),
    _mix("linear attention", mixers.Linear, "linear_attention:pre", (4,)),
    _mix("flex attention", kernels.Flex, "attention:pre", (4,), KERNEL),
    _mix("softcapped", mixers.Softcapped, "attention:pre", (4,)),
    _mix("lstm", mixers.Recurrent, "rnn:pre"),
    _mix("fourier", mixers.Fourier, "fourier:pre", (0,)),
    _mix("pooling", mixers.Pool, "pooling:pre", (0,)),
    _mix("convolution", mixers.Convolution, "conv:pre"),
    _mix("scan loop", mixers.Scan, "ssm:pre"),
    _mix("latent keys and values", mixers.Latent, "attention:pre"),
    Case(
        "joint output", _blocks(partial(mixers.PreMix, mixers.JointOutput)), (3 * ("attention:pre*",),), alternative=3 * ("attention:pre ∥", "ffn:pre ∥")
    ),
    _mix("fused gate and up", mixers.Gated, "gated_ffn:pre", (3,)),
    _mix("nested tensor", kernels.Nested, "ffn:pre", (2,), KERNEL),
    _mix("custom activation", kernels.Custom, "ffn:pre", (2,), KERNEL),
    Case("opaque norm", _blocks(kernels.Opaque), (3 * ("ffn:unknown",),)),
)

STREAMS = (
    Case(
        "normalised sphere",
        _blocks(streams.NormalizedSphere, final=False),
        (3 * ("attention:BC qk=cosine α=learned s=learned", "ffn:BC α=learned s=learned"),),
        final=False,
    ),
    Case("reversible", streams.Reversible, (3 * ("*attention:pre",), 3 * ("ffn:pre",)), tolerated="each branch reads another stream"),
    Case("hyper-connections", streams.HyperModel, (3 * ("attention:pre*", "ffn:pre*"),), tolerated="matrices act on the stream index"),
    Case("long skips", streams.LongSkips, (6 * PRE,)),
    Case("two residuals", streams.ResiDual, (3 * ("attention:post", "ffn:post"),), final=None, others=True, tolerated="every branch is added twice"),
    Case("value residual", streams.ValueResidual, (3 * PRE,)),
    _ffn("highway", streams.Highway, "ffn:pre α=data s=data", maps=()),
    Case("modulated", streams.ModulatedStack, (3 * ("attention:pre s=data", "ffn:pre s=data"),), inputs=((2, TOKENS, D), (2, D))),
    Case(
        "normed skip",
        _blocks(streams.NormedSkip),
        (3 * ("attention:post normed_skip", "ffn:post normed_skip"),),
        final=None,
        alternative=(*(2 * ("attention:post normed_skip", "ffn:post normed_skip")), "attention:post normed_skip", "ffn:none"),
    ),
    Case("mixed by index", streams.Mixed, (2 * ("attention:post", "ffn:post") + 4 * PRE,)),
    Case("depth-weighted average", streams.Denser, (3 * ("attention:pre*", "ffn:pre*"),), tolerated="the average re-mixes earlier states"),
    Case("nested residual", _blocks(streams.NestedResidual), (3 * ("ffn:pre",),), maps=(3,)),
    _ffn("low rank", streams.LowRank, maps=()),
    Case("rotary", _blocks(streams.Rotary), (3 * ("attention:pre",),), maps=(4,)),
    Case("token mixing", _blocks(streams.Zigzag), (3 * ("*:pre", "ffn:pre"),)),
)

CASES: tuple[Case, ...] = (*VALUES, *RESIDUALS, *MODULES, *NORMS, *MIXERS, *STREAMS)
