"""What round 15 needs of its own to be measured: `python -m tests.adversary.round15.check_truth [file] [Class ...]`; QUICK=1 for fewer draws.

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

FILES = ["blocks_a", "blocks_b", "models"]
HERE = str(Path(__file__).parent)
_measure.GAINS = re.compile(r"(^|\.)(gain\w*|tau|\w*(norm|ln)\w*\.(gamma|weight|scale))$")
lowest_is_mask()


def channels_first(*parts):
    inner = single(*parts)
    return lambda m, x: inner(m, x.transpose(1, 2))


def modulated(m, x):
    got = []
    for f in m.sublayers():
        got.append(f(x))
        x = x + got[-1]
    return got


BRANCH = {
    "SandwichWithUnitQk": hook_outputs("post_attention_layernorm", "post_feedforward_layernorm"), "LightningPostNorm": hook_outputs("out_proj", "mlp"),
    "HymbaHeads": single("input_layernorm:mixer", "pre_ffn_layernorm:mlp"), "ProteinLayer": hook_outputs("out", "fc2"), "GenomeAttention": single("norm:attend", "ff_norm:ff"),
    "ConditionedDiffusionLayer": single("attention", "transition"), "RepMixerBlock": channels_first("tokens", "convffn"), "ScaledVitBlock": hook_outputs("proj", "mlp"),
    "RandomMixing": lambda m, x: [m.random_matrix @ m.norm1(x), m.mlp(m.norm2(x))], "WhisperGuard": hook_outputs("self_attn", "fc2"),
    "SingleModulation": hook_outputs("proj", "mlp"), "TanhGatedSandwich": modulated, "LinearDiffusionLayer": single("norm1:attn", "norm2:mlp"),
    "SharedExpertOnNormed": lambda m, x: [m.self_attn(m.input_layernorm(x)), m.mlp(x)], "SharedExpertOnRaw": lambda m, x: [m.self_attn(m.input_layernorm(x)), m.mlp(x)],
    "PaddingZeroed": hook_outputs("attn.o", "mlp"), "AddedInFloat32": hook_outputs("attn", "mlp"),
}
# raw branches of the size of the stream: all parameters are put to zero
ZEROED = {"ContinuousFilter", "SharedExpertOnRaw", "FirstNormIsIdentity"}


def louder(pattern, c=1e6):
    """Where larger weights shut a gate: only some of them grow."""
    return lambda m, x: _measure.scale_(m, c, pattern)


def silent_key(m, x):
    """The first place has no key."""
    h, w = m.norm(x)[0, 0], m.attn.qkv.weight[32:64]
    w -= torch.outer(w @ h, h) / (h @ h)


WITNESS = {"CosineWrongAxis": silent_key, "ConditionedDiffusionLayer": louder(r"^(o|b)\.")}
DRAWN = set()
DEPTHS = dict.fromkeys(("LoraBeforeQkNorm", "LoraBehindQkNorm", "ResidualHeads", "NamesInOrder", "NestedStages", "HalvesApart", "JointEmbedding", "TokenMergeLerp",
                        "TokenMergeLerpPlusSkip", "SelfConditioned"), (24, 48, 96, 192))


# what has no skip forgets its first layers: the last layers are then the same ones at every depth, so that draws are no noise
REVERSED = {"LayerAsPrinted", "MacaronWithoutLastAdd", "SimplicialLatent", "LightningPostNorm", "SequentialRecommender", "StandardizedInPlace"}
_build = _measure.build


def build(cls, truth, n, seed=0):
    m = _build(cls, truth, n, seed)
    if cls.__name__ in REVERSED:
        m.blocks = nn.ModuleList(reversed(m.blocks))
    return m


_measure.build = build


if __name__ == "__main__":
    run(__package__, FILES, DEPTHS, listed, features, folder=HERE, branch=BRANCH, witness=WITNESS, zeroed=ZEROED, drawn=DRAWN)
