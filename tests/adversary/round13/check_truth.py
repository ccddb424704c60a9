"""What round 13 needs of its own to be measured: `python -m tests.adversary.round13.check_truth [file] [Class ...]`; QUICK=1 for fewer draws.

Models are measured on their stream: `features(x)` where a model has it, else the first block gets the input in the stream's place and the last block's output
is looked at.
"""

import re
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import LATE, hook_outputs
from tests.adversary.rounds._streams import difference, features, listed, lowest_is_mask, run

FILES = ["blocks", "models", "more"]
HERE = str(Path(__file__).parent)
_measure.GAINS = re.compile(r"(^|\.)(gain\w*|tau|\w*(norm|ln)\w*\.(g|gamma|weight|scale|w))$")
lowest_is_mask()


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
DEPTHS = dict.fromkeys(("SqrtHalfResidual", "SigmoidAttentionBlock", "UnitOverPlaces", "QueryNormOnly", "AudioEncoder", "ElmoMixture", "MultiplierOnSum"), _L) | {"ClampedStream": LATE, "GatedXlLayer": LATE, "RunningMeanOfLayers": LATE, "EmbeddingScaleEachLayer": (12, 24, 48, 96)}
_measure.FAR.update(dict.fromkeys(("MeanOfThree", "AveragedStates", "SkipGainFromTenth"), 1e30))


if __name__ == "__main__":
    run(__package__, FILES, DEPTHS, listed, features, folder=HERE, branch=BRANCH, witness=WITNESS, zeroed=ZEROED)
