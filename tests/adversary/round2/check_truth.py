"""What the blocks of round 2 need of their own to be measured: `python -m tests.adversary.round2.check_truth [file] [Class ...]`."""

from pathlib import Path

import torch

from tests.adversary.rounds._measure import SEEN, hook_outputs, main

FILES = ["carried", "branches", "attention", "whole", "ordinary"]
BRANCH = {
    "AnchorAveraged": lambda m, x: [m.blocks[0](x)],
    "ParallelGQA": hook_outputs("attn", "ffn"), "SandwichQK": hook_outputs("n2", "n4"), "LayerScaleViT": hook_outputs("s1", "s2"),
    "DeepNormBlock": hook_outputs("attn", "fc2"), "TopTwoMoE": lambda m, x: [m.attn(m.n1(x)), m.moe(m.n2(x))],
    "SelectiveScan": lambda m, x: [m.mixer(m.norm(x))], "ConvNeXt1d": hook_outputs("scale"),
    "ConvPosition": lambda m, x: [m.pos(x.transpose(1, 2)).transpose(1, 2), m.ffn(m.norm(x))],
    "StreamAdapter": lambda m, x: [m.attn(m.norm(x)), m.adapter(x)],
    "HighwayTanh": lambda m, x: [torch.sigmoid(m.gate(m.norm(x)) - 1) * torch.tanh(m.body(m.norm(x)))],
    "ResPostCosine": hook_outputs("n1", "n2"),
    "OneBodyManyTimes": lambda m, x: [m.body(x)],
}


def by_hand(m, x):
    """The softmax is written out: the logits as they are made."""
    h = m.norm(x)
    return m.scores(m.split(h), h)


def first(m, x):
    """Of several softmaxes the first."""
    m(x)
    return SEEN[0]


def loudest(m, x):
    """Of several softmaxes the one with the largest entry."""
    m(x)
    return max(SEEN, key=lambda u: u.abs().max())


LOGITS = {"StreamingSoftmax": by_hand, "FeatureSoftmax": first, "HopfieldRetrieval": loudest}
BY_HAND = {"StreamingSoftmax"}
DRAWN = {"GlidingMomentum"}


def uniform_bias(m, x):
    m.body[-1].weight.mul_(1e-4)
    m.body[-1].bias.fill_(1e6)


def equal_channels(m, x):
    m.body[-1].weight.copy_(1e6 * torch.randn(1, m.body[-1].in_features).expand_as(m.body[-1].weight))
    m.body[-1].bias.zero_()


def one_channel(m, x):
    m.body[-1].weight[1:] *= 1e-9
    m.body[-1].bias[1:] *= 1e-9
    m.body[-1].weight[0] *= 1e6


def cancelling(m, x):
    m.router.weight.zero_()
    m.router.bias.copy_(torch.tensor([1e6, -1e6, 1e-3]))


WITNESS = {"UncentredStd": uniform_bias, "CrossStats": equal_channels, "MedianNorm": one_channel, "ShareOfSum": cancelling}
ZEROED = {"ShrunkTanh", "RampMismatch", "ShareOfSum", "ConvPosition", "StreamAdapter", "EveryThirdBare", "BareCoupling"}
DEPTHS = {}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS, FILES, logits=LOGITS, by_hand=BY_HAND, drawn=DRAWN)
