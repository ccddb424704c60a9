"""What the blocks of round 5 need of their own to be measured: `python -m tests.adversary.round5.check_truth [file] [Class ...]`."""

from pathlib import Path

import torch

from tests.adversary.rounds._measure import LATE, hook_outputs, main

BRANCH = {
    "TuneLayer": hook_outputs("attn", "mlp"), "TuneLayerNormed": hook_outputs("attn", "mlp"),
    "DecoderLayer": hook_outputs("layer.self_attn", "layer.multihead_attn", "layer.linear2"), "DecoderOfItself": hook_outputs("layer.self_attn", "layer.multihead_attn", "layer.linear2"),
    "DiTBlock": lambda m, x: list(m.parts(x)), "DiTPooled": lambda m, x: list(m.parts(x)),
    "NormFormer": lambda m, x: [m.attention(x), m.ffn(x + m.attention(x))],
}


def large_mean(m, x):
    """Queries and keys are large constants with a small rest."""
    for lin in (m.to_q, m.to_k):
        lin.weight.mul_(1e-3)
        lin.bias.fill_(1.0)


def zero_mean(m, x):
    """Queries and keys are large and of mean zero."""
    for lin in (m.to_q, m.to_k):
        lin.weight.zero_()
        lin.bias.copy_(1e3 * (-1.0) ** torch.arange(32))


def loud_negative(m, x):
    """The sum of the products of queries and keys is small against their sizes."""
    m.qkv.weight.mul_(1e4)


WITNESS = {"OverDeviation": large_mean, "MeanThenSquare": zero_mean, "LinearUnitsOneSide": loud_negative}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {
    "DecoderOfItself", "DiTPooled", "HyperMixerRaw", "LoraBeside", "ScaleNormWidth", "NfBlock", "RouterLogits", "QuantileClip",
    "ClipCoefficient",
}
DEPTHS = {"FusedAddmmNine": LATE, "MegaGate": LATE, "Perceiver": LATE}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS)
