"""What the blocks of round 4 need of their own to be measured: `python -m tests.adversary.round4.check_truth [file] [Class ...]`."""

from pathlib import Path

from tests.adversary.rounds._measure import LATE, hook_outputs, main

BRANCH = {
    "BloomPostResidual": hook_outputs("dense", "mlp"), "BloomPreResidual": hook_outputs("dense", "mlp"),
    "ParallelForgot": lambda m, x: [m.branch(x), m.mlp(x)], "FNet": lambda m, x: [m.mix(x), m.mlp(m.n2(x + m.mix(x)))],
    "FairseqLayer": hook_outputs("self_attn", "fc2"), "FairseqLayerPost": hook_outputs("self_attn", "fc2"),
}


def loud_rest(m, x):
    """The first eight channels are silent, the others loud."""
    last = m.body[2]
    for p in (last.weight, last.bias):
        p.mul_(1e6)
        p[:8] = 0


def crossed(m, x):
    """Token 0 has next to no key, token 1 next to no query; all features of a head alike."""
    h = m.norm(x)[0]
    away = lambda a, b: a - (a @ b) / (b @ b) * b
    for lin, w in ((m.to_k, away(h[1], h[0])), (m.to_q, away(h[0], h[1]))):
        lin.bias.zero_()
        lin.weight.copy_(w.expand(32, 32))


WITNESS = {"PartialRms": loud_rest, "LengthOfOther": crossed}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {
    "ResidualInResidual", "ParallelForgot", "LipsFormerMlp", "ResMlp", "RunningStatistics", "NormOfWeights", "GatedNormSilu", "PlainModulated", "TrustRatio",
    "TanhInliers", "PolarRadius",
}
DEPTHS = {"UnsharpMask": (24, 48, 96, 192), "FirstTokenAnchor": LATE, "MagnitudePreserving": LATE, "MagnitudeAway": (96, 192, 384, 768),
          "LeakyIntegrator": LATE, "MemoryLayer": LATE,
          "MemoryLayerUnit": LATE, "DynamicTanh": LATE, "PartialRms": LATE, "SmoothSkip": LATE, "CausalCentring": LATE, "Smear": LATE, "ZipBypass": LATE}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS)
