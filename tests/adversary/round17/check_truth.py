"""What round 17 needs of its own to be measured: `python -m tests.adversary.round17.check_truth [file] [Class ...]`; QUICK=1 for fewer draws.

Models are measured on their stream: `features(x)` where a model has it, else the first block gets the input in the stream's place and the last block's output
is looked at.
"""

import re
from pathlib import Path

import torch
import torch.nn as nn

from tests.adversary.rounds import _measure
from tests.adversary.rounds._measure import hook_outputs
from tests.adversary.rounds._streams import features, listed, lowest_is_mask, run, single

FILES = ["blocks_a", "blocks_b", "models", "more"]
HERE = str(Path(__file__).parent)
_measure.GAINS = re.compile(r"(^|\.)(gain\w*|tau|norm_weight|logit_scale|\w*(norm|ln)\w*\.(gamma|weight|scale))$")
lowest_is_mask()


def modulated(m, x):
    """Gates of a condition stand behind the parts."""
    sa, ca, ga, sm, cm, gm = m.modulation(m.c).chunk(6, dim=-1)
    one = ga * m.attn(m.norm1(x) * (1 + ca) + sa)
    return [one, gm * m.mlp(m.norm2(x + one) * (1 + cm) + sm)]


def both(m, x):
    """All logits of a block as one."""
    _measure.SEEN.clear()
    m(x)
    return torch.cat([u.flatten() for u in _measure.SEEN])


BRANCH = {
    "CachedDecoderLayer": hook_outputs("o_proj", "mlp"), "HeadNormDecoder": single("ln1:attn", "ln2:mlp"),
    "ReorderedNormDecoder": hook_outputs("post_attention_norm", "post_ffn_norm"), "CappedSandwich": hook_outputs("post_norm", "post_ffn_norm"),
    "GatedAttentionLayer": hook_outputs("o_proj", "mlp"), "LearnedSinks": hook_outputs("out", "down"),
    "DifferentialHeads": hook_outputs("out_proj", "mlp"), "GatedRetention": hook_outputs("o", "ffn"),
    "SharedAndRoutedExperts": single("attn_norm:attn", "ffn_norm:moe"),
    "WindowedCosine": hook_outputs("norm1", "norm2"), "AdaptiveZeroLayer": modulated,
    "MixerOfSeries": single("norm_t:over_time", "norm_f:feat"),
    "GroupNormOverPlaces": lambda m, x: [m.mix(x.mT), m.mlp(m.norm2(x.mT + m.mix(x.mT)))],
    "LastNormMissing": hook_outputs("attn", "ff"), "SquashedInsteadOfNormed": single("s1:attn", "s2:ff"),
    "SecondNormUnused": lambda m, x: [m.attn(m.norm1(x)), m.ff(x)],
}
BRANCH.update(dict.fromkeys((
    "AlphaWithoutNorm", "MagnitudePreserving", "OneSidedCap", "CapWithoutDivision", "ShareOverQueries", "CosineOverTokens",
    "CosineByKeysAlone", "TemperatureFloor", "NormAgain"), single("norm1:attn", "norm2:ff")))
BRANCH.update({
    "BranchClamped": lambda m, x: [m.attn(m.norm1(x)).clamp(-10, 10), m.ff(m.norm2(x)).clamp(-10, 10)],
    "BranchClampedFromAbove": lambda m, x: [m.attn(m.norm1(x)).clamp(max=10), m.ff(m.norm2(x)).clamp(max=10)],
})
LOGITS = {"DifferentialHeads": both}
WITNESS = {"CosineByKeysAlone": lambda m, x: _measure.scale_(m, 1e6, "to_q")}
ZEROED, DRAWN = {"SecondNormUnused", "CrossNetwork", "IntoUnitBallWrongSide"}, set()
DEPTHS = dict.fromkeys(("MagnitudePreserving", "BothTermsGated", "SquashedInsteadOfNormed", "TimeConditioned", "ChannelsShuffled",
                        "LongSkipsOverRoot", "LongSkipsAveraged"), (24, 48, 96, 192))

# what forgets its first layers: the last layers are then the same ones at every depth, so that draws are no noise
REVERSED = {"BothTermsGated"}
_build = _measure.build


def build(cls, truth, n, seed=0):
    m = _build(cls, truth, n, seed)
    if cls.__name__ in REVERSED:
        first, *rest = m.blocks
        m.blocks = nn.ModuleList([first, *reversed(rest)])
    return m


_measure.build = build


if __name__ == "__main__":
    run(__package__, FILES, DEPTHS, listed, features, folder=HERE, branch=BRANCH, witness=WITNESS, zeroed=ZEROED, drawn=DRAWN, logits=LOGITS)
