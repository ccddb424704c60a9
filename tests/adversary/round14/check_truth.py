"""What round 14 needs of its own to be measured: `python -m tests.adversary.round14.check_truth [file] [Class ...]`; QUICK=1 for fewer draws.

Models are measured on their stream: `features(x)` where a model has it, else the first block gets the input in the stream's place and the last block's output
is looked at.
"""

import re
from pathlib import Path

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import LATE, hook_outputs
from tests.adversary.rounds._streams import difference, features, listed, lowest_is_mask, run, single

FILES = ["blocks_a", "blocks_b", "models_a", "models_b"]
HERE = str(Path(__file__).parent)
_measure.GAINS = re.compile(r"(^|\.)(gain\w*|tau|\w*(norm|ln)\w*(\.img|\.txt)?\.(g|gamma|weight|scale|w))$")
lowest_is_mask()


BRANCH = {
    **dict.fromkeys(("ResidualInFloat32", "GatedDeltaRule", "ResponseNormConv", "DetachedStatistics", "StraightThrough"), difference),
    "MultiScaleRetention": single("retention_layer_norm:retention", "final_layer_norm:ffn"), "EluFeatures": single("ln1:attn", "ln2:net"),
    "LatentAttentionWithSharedExpert": single("input_layernorm:self_attn", "post_attention_layernorm:moe"), "BucketBias": hook_outputs("o", "wo"),
    "ThreeExtraNorms": hook_outputs("ln_out", "fc2"), "ShortGatedConv": hook_outputs("out_proj", "feed_forward.down_proj"),
    "AlternatingWindows": hook_outputs("Wo.0", "Wf.0", "Wo.1", "Wf.1"), "HoulsbyInside": hook_outputs("adapter_a", "adapter_f"),
    **dict.fromkeys(("NineTenthsSkip", "SumOfThreeOverRootThree", "StaleSecondNorm", "ClippedSkip", "NormedAttentionRawFfn"), hook_outputs("attn", "mlp")),
    "FusedAddNorm": hook_outputs("self_attn", "mlp"), "InPlaceReluFirst": hook_outputs("bn2"), "CosineSineMix": hook_outputs("out_norm"),
    **dict.fromkeys(("LearnedDenominator", "TwiceSigmoidSkip", "ShrunkGradient", "NormAlongPlaces", "PaddedSkip"), hook_outputs("f")), "CappedPeri": hook_outputs("m.blocks.0.norm_out", "m.blocks.0.norm_post"), "DiracShortcut": hook_outputs("body"),
}
# raw branches of the size of the stream: all parameters are put to zero
ZEROED = {"NormedAttentionRawFfn", "OverflowPassesThrough", "AdaptersOnTheStream"}


def centred_queries(m, x):
    """The queries of each head have the mean zero."""
    q = m.qkv.weight[:32].view(4, 8, 32)
    q -= q.mean(1, keepdim=True)


WITNESS = {"MeanOfQk": centred_queries}
_L = (24, 48, 96, 192)
DRAWN = {"HybridStack", "OneCacheForTheUpperHalf"}
DEPTHS = dict.fromkeys(("LogLengthTemperature", "LearnedDenominator", "SumOfThreeOverRootThree", "MeanAbsOfQk", "PairBiasFromStream", "SigmoidTemperature",
                        "SoftplusTemperature", "RootHalfOnLastOnly", "Translator", "CheckpointedEncoder", "SharedWeightsWithSteps", "AdaptersOnTheStream"), _L) | dict.fromkeys(("SmoothedBranches", "NineTenthsAndTwo", "NineTenthsSkip", "CosineSineMix", "ClippedSkip"), LATE)
INEQUALITY = {"LargerOfBoth": max}


# what leaks forgets its first layers: the last layers are then the same ones at every depth, so that draws are no noise
REVERSED = {"NineTenthsSkip", "CosineSineMix", "ClippedSkip", "LearnedDenominator", "SumOfThreeOverRootThree", "RootHalfOnLastOnly"}
REVERSED_MODELS = [0.8 ** 24]          # by their gains
_build = _measure.build


def build(cls, truth, n, seed=0):
    m = _build(cls, truth, n, seed)
    if cls.__name__ in REVERSED:
        first, *rest = m.blocks
        m.blocks = nn.ModuleList([first, *reversed(rest)])
    elif truth.get("identity_gain") in REVERSED_MODELS:
        m.m.blocks = nn.ModuleList(reversed(m.m.blocks))
    return m


_measure.build = build
_measure.FAR.update(dict.fromkeys(("MultiplierOnTheWrongSide", "SumOfThreeOverRootThree"), 1e30))


if __name__ == "__main__":
    run(__package__, FILES, DEPTHS, listed, features, folder=HERE, branch=BRANCH, witness=WITNESS, zeroed=ZEROED, inequality=INEQUALITY, drawn=DRAWN)
