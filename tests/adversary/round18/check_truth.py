"""What round 18 needs of its own to be measured: `python -m tests.adversary.round18.check_truth [file] [Class ...]`; QUICK=1 for fewer draws.

Models are measured on their stream: `features(x)` is given the input in the stream's place. Those of `tokens` read ids, and are run with ids first.
"""

import importlib
import re
import sys
import types
from pathlib import Path

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure, _streams
from tests.adversary.rounds._measure import hook_outputs
from tests.adversary.rounds._streams import features, listed, lowest_is_mask, run, single

FILES = ["language", "fields", "stacks", "tokens", "kin"]
HERE = str(Path(__file__).parent)
_measure.GAINS = re.compile(r"(^|\.)(gain\w*|tau|logit_scale|\w*(norm|ln|n[12alf])\w*\.(gamma|weight|beta|bias)|lr_[am]|alpha)$")
lowest_is_mask()


def wrapped(package, name, blocks_of, stream_of):
    """As for other rounds; a model may give several values and read ids."""
    real = importlib.import_module(f"{package}.{name}")
    shown = types.ModuleType(name)
    shown.TRUTH, shown.example_inputs = real.TRUTH, lambda: (torch.randn(2, 16, 32),)
    for key, truth in real.TRUTH.items():
        cls = getattr(real, key)
        if truth["kind"] == "model":
            if key in sys.argv or len(sys.argv) < 3:
                torch.set_default_dtype(torch.float32)
                got = cls()(*real.example_inputs())
                assert all(torch.isfinite(y).all() for y in (got if isinstance(got, tuple) else (got,))), key
                torch.set_default_dtype(torch.float64)
            cls = _streams.on_stream(cls, lambda m, key=key: blocks_of(key, m), lambda m, key=key: stream_of(key, m))
            cls.small = name == "tokens" or key == "SmallOutputs"
        setattr(shown, key, cls)
    return shown


def blocks(name, m):
    """None where one layer is run at all depths."""
    m = getattr(m, "a", m)      # of two towers the first
    found = listed(name, m) if not isinstance(getattr(m, "layer", None), nn.Module) or hasattr(m, "layers") else []
    return found if isinstance(found, list) else []


_sizes, _inputs = _measure.sizes, _measure.inputs


def sizes(cls, *args, **kw):
    """Streams that start as embeddings of 0.02 are given such an input."""
    _measure.inputs = (lambda *a, **k: 0.02 * _inputs(*a, **k)) if getattr(cls, "small", False) else _inputs
    try:
        return _sizes(cls, *args, **kw)
    finally:
        _measure.inputs = _inputs


_measure.sizes = sizes


_streams.wrapped = wrapped


def norm_first(m, x):
    """A parallel block's one branch."""
    return [m(x) - x]


def pooled(m, x):
    """The two branches of a picture's block."""
    from tests.adversary.round18.fields import F, image
    x = image(x)
    h = m.norm1(x)
    one = m.gain_1.view(1, -1, 1, 1) * (m.pool(h) - h)
    return [one, m.gain_2.view(1, -1, 1, 1) * m.fc2(F.gelu(m.fc1(m.norm2(x + one))))]


def of_net(m, x):
    return [m.ff(m.norm(x))]


def on_scaled(m, x):
    return [m.mlp(m.norm(x * (1 + m.scale) + m.shift))]


def half(m, x):
    a = m.attn(m.n1(x))
    return [a, m.ff(m.n2((x + a) * m.scale))]


def half_branches(m, x):
    a = m.attn(m.n1(x)) * m.scale
    return [a, m.ff(m.n2(x + a)) * m.scale]


def raw_second(m, x):
    a = m.n1(m.attn(x))
    return [a, m.ff(x + a)]


BRANCH = {
    "ParallelFused": norm_first, "FourNorms": hook_outputs("post_attn", "post_ff"), "OutputNormUnused": raw_second,
    "HalfPowerSums": half, "HalfPowerBranches": half_branches, "HybridHeads": single("n1:mix", "n2:ff"),
    "CanonBeforeAttention": lambda m, x: [m.attn(m.canon(m.canon_a, m.n1(x))), m.ff(m.canon(m.canon_c, m.n2(x)))],
    "DepthRouter": norm_first, "DepthRouterRaw": norm_first, "PoolMixer": pooled, "AdaptiveShiftOnSkip": on_scaled,
    "ShiftedWindows": single("norm1:windows", "norm2:mlp"), "ShiftedWindowsStay": single("norm1:windows", "norm2:mlp"), "Propagation": of_net,
}
BRANCH.update(dict.fromkeys((
    "LatentKeys", "SigmoidWeights", "StickBreaking", "ForgetGateLogits", "TemperatureByPlace", "ClippedProjections", "ClippedCopyUnused", "ScaleForgotten",
    "NormOverPlaces", "SquashInPlaceOfNorm"), single("n1:attn", "n2:ff")))
BRANCH.update(dict.fromkeys(("ForgetSlowly", "ForgetFast"), hook_outputs("norm_b")))
BRANCH["LerpBySlip"] = hook_outputs("norm")
BRANCH.update(dict.fromkeys(("LargerBehindNorm", "SmallerBehindNorm"), hook_outputs("attn", "ff")))
BRANCH.update(dict.fromkeys(("AcrossChannels", "AcrossChannelsWrongAxis", "ReluAttention", "TokenMeanRemoved"), single("norm1:attn", "norm2:mlp")))
ZEROED = {"OutputNormUnused", "ChannelMixShiftedRaw", "SnakeUnit", "BackcastRaw", "CrossLayer", "TanhGates", "OneInFourRaw", "SecondHalfReadsRawMemory"}
_measure.FAR.update(dict.fromkeys(("HalfPowerSums", "RootOfTwoSums", "GateOnWholeSum", "PathsByHalves", "SkipScaleHalf", "LowRankBeside"), 1e16))
_measure.FAR["ScaledByLayerOnSum"] = 1e40
DEPTHS = dict.fromkeys(("GatesPastOne", "Propagation", "TowardsSphereStaysOff", "LowRankBeside", "RootOfDepthOnSkip", "AttentionOverDepth",
                        "HalvesByDepth", "RecurrentDepth",
                        "ClippedProjections", "ClippedCopyUnused", "NormOverPlaces", "PathsByShares", "SandwichShared", "MomentumSteps",
                        "OneInFour", "RootOfTwoSums"), (24, 48, 96, 192))
DEPTHS.update(dict.fromkeys(("TowardsSphereStaysOff", "SquashInPlaceOfNorm"), (48, 96, 192, 384)))

DEPTHS.update(dict.fromkeys(("ForgetSlowly", "LerpBySlip", "GatedPost"), (24, 48, 96, 192)))
DEPTHS.update(LowRankBeside=(24, 48, 96, 192), SecondSkipNormed=(48, 96, 192, 384), BottomToTop=(48, 96, 192, 384))
DEPTHS["GatesPastOne"] = (384, 768, 1536, 3072)
DEPTHS.update(dict.fromkeys(("SmallOutputs", "PlainTied", "NoFinalNorm", "TunedWidth", "ExitEverywhere", "TokenAhead", "TwoTowers"), (24, 48, 96, 192)))

if __name__ == "__main__":
    run(__package__, FILES, DEPTHS, blocks, features, folder=HERE, branch=BRANCH, witness={}, zeroed=ZEROED, by_hand={"OneInFour", "OneInFourRaw"})
