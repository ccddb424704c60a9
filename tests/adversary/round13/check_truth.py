"""What round 13 needs of its own to be measured: `python -m tests.adversary.round13.check_truth [file] [Class ...]`; QUICK=1 for fewer draws.

Models are measured on their stream: `features(x)` where a model has it, else the first block gets the input in the stream's place and the last block's output
is looked at.
"""

import importlib
import inspect
import os
import re
import sys
import types
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import hook_outputs, main, of_branch

FILES = ["blocks", "models", "more"]
HERE = str(Path(__file__).parent)
_measure.GAINS = re.compile(r"(^|\.)(gain\w*|tau|\w*(norm|ln)\w*\.(g|gamma|weight|scale|w))$")


_measure._note = lambda u: _measure.SEEN.append(torch.where(torch.isinf(u) | (u <= -1e300), torch.zeros_like(u), u))      # the lowest number is a mask


def find(m):
    for key in ("blocks", "layers", "h", "layer"):
        if hasattr(m, key):
            got = getattr(m, key)
            return list(got.values() if isinstance(got, nn.ModuleDict) else got)
    raise AttributeError(type(m))


def on_stream(name, cls):
    class Probe(nn.Module):
        def __init__(self, n=None):
            super().__init__()
            self.m = cls(4 if n is None else n)

        @property
        def blocks(self):
            return find(self.m)

        def forward(self, x):
            if hasattr(self.m, "features"):
                return self.m.features(x)
            got, blocks = {}, self.blocks
            hooks = [blocks[0].register_forward_pre_hook(lambda mod, a: (x, *a[1:])),
                     blocks[-1].register_forward_hook(lambda mod, a, o: got.__setitem__("y", o))]
            self.m(x)
            for h in hooks:
                h.remove()
            return got["y"]
    return Probe


def pair(x, *branches):
    """Each branch reads the sum with those before it."""
    out = []
    for f in branches:
        out.append(f(x))
        x = x + out[-1]
    return out


def last_input(*names):
    """What the maps give that end the branches, in order."""
    return hook_outputs(*names)


def difference(m, x):
    return [m(x) - x]


BRANCH = {
    "LucidLayer": hook_outputs("layers.0.fn", "layers.1.fn"), "CosineSimLayer": hook_outputs("attn", "ff"),
    "GemmaStyleLayer": hook_outputs("post_attention_layernorm", "post_feedforward_layernorm"), "ReorderedNormLayer": hook_outputs("attn_norm", "ff_norm"),
    "DecoderOnLearnedMemory": hook_outputs("layer.self_attn", "layer.multihead_attn", "layer.linear2"),
    "ConvNext1d": hook_outputs("pwconv2"), "MixerBlock": hook_outputs("token_mixing", "channel_mixing"), "SpatialGatingBlock": difference, "WaveNetLayer": hook_outputs("res"),
    "BasicBlock1d": hook_outputs("bn2"), "SqrtHalfResidual": lambda m, x: [F.glu(m.conv(m.norm(x).mT), dim=1)],
    "MacaronLayer": hook_outputs("ff1", "attn", "pw2", "ff2"), "NeoXParallel": hook_outputs("mlp", "attn"),
    **dict.fromkeys(("LongConvGates", "MinGruBlock", "TokenShiftChannelMix", "TalkingHeads", "AlibiQkNorm", "SqueezeExciteConv", "DifferentialAttention",
                     "UnitOverPlaces", "QueryNormOnly", "NormBeforeProjectionOfQk", "SoftmaxOverHeads", "OneSampleSoftmaxMix"), difference),
    "RegisterTokens": hook_outputs("mha", "ff"), "AxialBlock": hook_outputs("rows", "cols", "ff"), "SigmoidAttentionBlock": hook_outputs("out", "w2"),
    "BoundedStepTrunk": lambda m, x: [m.step(x)], "ReversiblePair": hook_outputs("f", "g"),
    **dict.fromkeys(("NormOverAllPlaces", "MeanOfThree", "SurvivalOnSkip", "InPlaceScaledSkip", "MinusResidual", "MultiplierOnSum", "RawSecondBranch"),
                    hook_outputs("attn", "ff")),
    **dict.fromkeys(("SkipGainFromOne", "SkipGainFromZero", "SkipGainFromTenth"), hook_outputs("conv", "ff")),
    **dict.fromkeys(("ZeroGammaBehind", "AveragedStates"), hook_outputs("norm_a", "norm_f")),
    "BatchAsSequence": hook_outputs("mha", "ff"), "PlacesAsChannels": hook_outputs("gru", "ff"), "AdditiveCoupling": hook_outputs("net"),
    "EyeStart": hook_outputs("lin", "ff"), "ShiftedStream": hook_outputs("ff"), "NormBehindThenMap": hook_outputs("out_a", "norm_f"),
}
# raw branches of the size of the stream: all parameters are put to zero
ZEROED = {"RawSecondBranch", "EyeStart"}
WITNESS = {}
_L = (24, 48, 96, 192)
DEPTHS = dict.fromkeys(("SqrtHalfResidual", "SigmoidAttentionBlock", "UnitOverPlaces", "QueryNormOnly", "AudioEncoder", "ElmoMixture", "MultiplierOnSum"), _L) | {"ClampedStream": _measure.LATE, "GatedXlLayer": _measure.LATE, "RunningMeanOfLayers": _measure.LATE, "EmbeddingScaleEachLayer": (12, 24, 48, 96)}
FAR = {"MeanOfThree", "AveragedStates", "SkipGainFromTenth"}      # gains below what a stream of 1e10 can show beside branches of size 1
LOGITS = {}


_space = dict(_measure.__dict__)
exec(inspect.getsource(_measure.identity_gain).replace("size = 1e10", "size = 1e30"), _space)
_near = _measure.identity_gain
_measure.identity_gain = lambda name, *a: (_space["identity_gain"] if name in FAR else _near)(name, *a)


def wrapped(name):
    """The file as a module in which every model is replaced by its stream."""
    real = importlib.import_module(f"tests.adversary.round13.{name}")
    shown = types.ModuleType(name)
    shown.TRUTH, shown.example_inputs = real.TRUTH, real.example_inputs
    for key, truth in real.TRUTH.items():
        cls = getattr(real, key)
        if truth["kind"] == "model" and (key in sys.argv or len(sys.argv) < 3):          # the model itself runs, eager
            torch.set_default_dtype(torch.float32)
            assert cls()(*real.example_inputs()).shape == (2, 16, 32), key
            torch.set_default_dtype(torch.float64)
        setattr(shown, key, on_stream(key, cls) if truth["kind"] == "model" else cls)
    return shown


if __name__ == "__main__":
    nn.Dropout.forward = lambda self, x: x       # truths are about what is trained, not about one draw
    wanted = [f for f in FILES if f in sys.argv] or FILES
    if os.environ.get("QUICK"):                  # a loaded machine: fewer seeds and steps, half the depths
        _measure.range = lambda n: range({60: 6, 40: 20, 3: 1, 2: 1}.get(n, n))
        for f in wanted:
            for key in importlib.import_module(f"tests.adversary.round13.{f}").TRUTH:
                DEPTHS.setdefault(key, (6, 12, 24, 48))
    for f in wanted:
        sys.modules[f] = wrapped(f)
    main(HERE, BRANCH, WITNESS, ZEROED, DEPTHS, wanted, logits=LOGITS)
