"""What round 16 needs of its own to be measured: `python -m tests.adversary.round16.check_truth [file] [Class ...]`; QUICK=1 for fewer draws.

Models are measured on their stream: `features(x)` where a model has it, else the first block gets the input in the stream's place and the last block's output
is looked at.
"""

import re
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import hook_outputs
from tests.adversary.rounds._streams import features, listed, lowest_is_mask, run, single

FILES = ["blocks_a", "blocks_b", "blocks_c", "blocks_d", "blocks_e", "blocks_f", "blocks_g", "models_a", "models_b", "models_c"]
HERE = str(Path(__file__).parent)
_measure.GAINS = re.compile(r"(^|\.)(gain\w*|tau|\w*(norm|ln)\w*\.(gamma|weight|scale|offset))$")
lowest_is_mask()



def scaled(m, x):
    block, alpha = m.blocks[0], m.m.alpha
    a = alpha * block.attn(x)
    return [a, alpha * block.mlp(x + a)]


def first_logits(m, x):
    m(x)
    return _measure.SEEN[0]


LOGITS = dict.fromkeys(("SkippedLayers", "EverySecondCalled"), first_logits)
BRANCH = {
    "PureFunction": single("attend", "dense"), "ModalityExperts": single("norm1:attn", "norm2:mlp"), "OneBitMaps": single("attn", "mlp"),
    "FoldedBranches": hook_outputs("bodies.0", "bodies.1"), "HookedSkip": hook_outputs("attn.1", "mlp.1"), "ParameterTokens": single("norm_1:attn", "norm_2:f"),
    "DualPathRecurrence": single("run_intra", "run_inter"), "SlicesOfTheField": single("ln_1:attn", "ln_2:mlp"), "TimeMixer": single("mix_time", "mix_channels"),
    "SkipBehindFirstNorm": hook_outputs("attn", "mlp"), "AlphaOnTheSkip": hook_outputs("attn", "mlp"), "AlphaOnTheBranch": hook_outputs("attn", "mlp"),
    "KeepSizeEncoder": lambda m, x: [m.branch(x / x.square().mean(-1, keepdim=True).sqrt())], "VocoderResidual": hook_outputs("convs2.0", "convs2.1"), "GalerkinRaw": hook_outputs("o", "ff"),
    "RecurrentStack": lambda m, x: [m.blocks[0].norm(m.blocks[0].rnn(x)[0])], "OneScalarForAll": scaled, "OneScalarFromOne": scaled,
}
# raw branches of the size of the stream: all parameters are put to zero
ZEROED = {"MixedByRawProducts", "TimesLength", "RawTimesSoftplus", "RawTimesSmall", "LeakyPeakBefore", "SmoothedByNeighbours", "BehindCumulativeLagged", "KeepSizeDecoder", "VarianceReset", "BehindRunningPower", "NormTimesStream", "CanonOnStream", "VocoderResidual", "GalerkinRaw", "SpectralOperator", "ScalarsAndVectors", "MovingPoints",
          "ConditionEveryLayer", "OneScalarFromOne", "ResidualInResidual", "ResidualGroup"}


def last_map(m, x):
    """A map that starts at zero, and then is large."""
    m.out_conv.weight += 1e6


def same_query(m, x):
    """All places of the first example ask the same: what they see of a key has no deviation."""
    h, a = m.norm(x)[0], m.attn
    a.q.weight.zero_()
    a.q.weight[0] = torch.linalg.lstsq(h, torch.ones(h.shape[0], 1)).solution[:, 0]


def at_the_vector(m, x):
    """The vector that the norm takes off is a query's own."""
    h, a = m.norm(x), m.attn
    a.q_norm.shift.copy_(a.q(h)[0, 3].view(H, -1)[0] + 1e-9)


def at_the_outputs_vector(m, x):
    m.norm.shift.copy_(m.net(x)[0, 3] + 1e-9)


def larger(pattern, c=1e6):
    """Only some weights grow."""
    return lambda m, x: _measure.scale_(m, c, pattern)


def one_channel(m, x):
    m.net[2].weight[0] *= 1e6


H = 4
def none_is_largest(m, x):
    """The first place asks for nothing but what it sees with a sign: its own logit is nearly zero, and the others are below it."""
    h = m.norm(x)[0]
    q, k = m.qkv.weight[:32], m.qkv.weight[32:64]
    q.zero_()
    k.zero_()
    wanted = -torch.ones(h.shape[0], 1)
    wanted[0] = -1e-9
    k[0] = torch.linalg.lstsq(h, wanted).solution[:, 0]
    q[0] = torch.linalg.lstsq(h, torch.ones(h.shape[0], 1)).solution[:, 0] * 1e2


def silent_first_key(m, x):
    h, w = m.norm(x)[0, 0], m.qkv.weight[32:64]
    w -= torch.outer(w @ h, h) / (h @ h)


def woken(m, x):
    """The number that shuts a branch opens it."""
    m.p.fill_(2.0)
    m.net[2].weight.mul_(1e6)


def one_row(m, x):
    m.w[3] *= 1e6


def with_a_zero(m, x):
    """The last map's bias puts one entry of a normed value at zero."""
    y = m.down(F.gelu(m.up(x)))[0, 0]
    rest = torch.cat([y[:3], y[4:]])
    m.down.bias[3] += rest.mean() - y[3]


def divisor_vanishes(m, x):
    m.floor.copy_(1e-9 - m.net(x)[0, 0].square().mean().sqrt())


WITNESS = {"PlusBias": lambda m, x: m.offset.fill_(1e6), "PastOneMapWrongAxis": one_row, "Inverse": with_a_zero, "RawTimesDeadRelu": woken, "RawTimesVersine": woken, "RawTimesTanh": woken, "RawTimesDifference": woken, "KeysOverFirst": silent_first_key, "OverLargestSigned": none_is_largest, "TrainedFloorOfAnySign": divisor_vanishes, "OneScalarForAll": lambda m, x: m.m.alpha.fill_(1e6), "BiasedQkNorm": at_the_vector, "BehindBiased": at_the_outputs_vector, "SharedLength": larger(r"k\.weight"), "StandardizedColumns": same_query, "BehindMedian": one_channel,
           "RawFromZero": lambda m, x: m.conv2.weight.add_(1e6), "ScaleShiftResBlock": last_map}
DRAWN = {"ScenarioGateOnce"}        # a half in every block: with all layers alike a draw is a draw
DEPTHS = dict.fromkeys(("PreallocatedHeads", "PositiveRandomFeatures", "ResidualLstm", "InvariantPoints", "UnitOnCopy", "RmsOverHeads", "HalfOfHeadNormed", "UnitByOneNorm", "UnitBySum", "SharedLength", "ClippedQkv", "StandardizedRows",
                        "StandardizedColumns", "TrainedPrefix", "BiasedQkNorm", "NeverLess", "CentredStream", "HalfDecays", "RelaxedSkip", "ScenarioGateOnce", "LastFourSummed", "SkippedLayers", "EverySecondCalled", "TrainedDecay", "KeptTanh", "KeptPower",
                        "SharesOut", "KeysUnitOverPlaces", "KeysClamped", "OverMeanSize", "CentredKeys", "CentredKeysOnly"), (48, 96, 192))
F._verify_batch_size = lambda size: None         # one example: what a batch norm gives is its bias
BY_HAND = {"PureFunction"}
_measure.FAR.update(KeptUnitLengthForgotten=1e26, AlphaOnTheSkip=1e24, ScenarioGateOnce=1e14, BypassLayer=1e14, LowRankResidualSandwich=1e12)


# what forgets its first layers: the last layers are then the same ones at every depth, so that draws are no noise
REVERSED = {"ScenarioGateOnce"}
DEPTHS["MirroredStream"] = (12, 24, 48, 96)
DEPTHS.update(dict.fromkeys(("ChannelGrowth", "KeptSlowGrowth", "MeanGrows", "FirstPlaceGrows", "RawTimesSmall", "TablesByLayer", "TablesByLayerToOne", "DecayByHead", "ClassTokenKept", "ClassTokenGrows", "OneLaneKept", "OneLaneGrows", "GramOfItself", "LessTheStream", "LongDirection", "LongDirectionKept", "LongDirectionShort", "SlowAndFastSlip", "SteepSkip", "KeptOnTwo", "KeptFromNothing"), (48, 96, 192, 384)))
DEPTHS["ScaledForDepthTwice"] = (12, 20, 40, 80)
_build = _measure.build


def build(cls, truth, n, seed=0):
    n = truth.get("gain_at", n) if n == 24 else n        # gains are measured at 24
    m = _build(cls, truth, n, seed)
    if cls.__name__ in REVERSED:
        m.blocks = nn.ModuleList(reversed(m.blocks))
    return m


_measure.build = build


if __name__ == "__main__":
    run(__package__, FILES, DEPTHS, listed, features, folder=HERE, branch=BRANCH, witness=WITNESS, zeroed=ZEROED, drawn=DRAWN, by_hand=BY_HAND, logits=LOGITS)
