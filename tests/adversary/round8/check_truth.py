"""What the blocks of round 8 need of their own to be measured: `python -m tests.adversary.round8.check_truth [file] [Class ...]`."""

from pathlib import Path

import torch

from tests.adversary.rounds._measure import LATE, main


def two_of(first, second):
    """What two methods give, one after the other."""
    def probe(m, x):
        a = getattr(m, first)(x)
        return [a, getattr(m, second)(x + a)]
    return probe


def annotated(m, x):
    """Both sublayers."""
    a, b = m.sublayer
    y = a.norm(x)
    first = m.self_attn(y, y, y)
    return [first, m.feed_forward(b.norm(x + first))]


def sandwich(m, x):
    """Both, between their norms."""
    a = m.n2(m.sa(m.n1(x)))
    return [a, m.n4(m.net(m.n3(x + a)))]


BRANCH = {"HeadScale": two_of("attention", "mlp"), "AnnotatedLayer": annotated, "SandwichCogView": sandwich}


def capped(m, x):
    """Scores in front of the mask."""
    q, k, _ = m.qkv(m.norm(x)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    open_ = torch.zeros(16, 16, dtype=torch.bool)
    return m.weights(torch.matmul(q, k.transpose(2, 3)) * 8 ** -0.5, open_)


def open_gate(m):
    """The gate is at one."""
    m.gate.fill_(1.0)


WITNESS = {}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {"AnnotatedSlip", "QrnnInput", "Spectral", "CanonConv", "LaurelWeights"}
LATE_ONES = ("AnnotatedLayer", "OutPlusIdentity", "ViewOfStream", "FunctionalCalls", "TiedInPairs", "LigerBlock", "RevNet", "Reformer", "FakeQuant",
             "MambaBackbone", "Vit22b", "NullKeys", "Qrnn", "SliceUpdates")
DEPTHS = dict.fromkeys(LATE_ONES, LATE) | {"TrainedDecayRates": LATE, "DecayRates": LATE, "StateOfTwoAgo": LATE, "StateOfTwoAgoMore": LATE, "HalfOpenMix": LATE,
          "StreamGradient": LATE, "HaltingRemainder": LATE, "ReformerSum": LATE, "CanonConv": LATE, "ActivationScaledOpen": LATE,
          "QrnnInput": LATE, "Spectral": LATE, "CopyExpert": LATE}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS, drawn={"KeysOfAllLayers"},       # layers differ in their parameters
         logits={"CapThenMask": capped}, growth_witness={"FluxSingle": open_gate})
