"""What the blocks of round 7 need of their own to be measured: `python -m tests.adversary.round7.check_truth [file] [Class ...]`."""

import math
from pathlib import Path

import torch

from tests.adversary.rounds._measure import LATE, hook_outputs, main


def delta(m, x):
    """The branch, where it is fused with the add."""
    return [m(x) - x]


BRANCH = {"AddcdivSoftsign": delta, "AddcdivMean": delta, "LibraryPostInside": hook_outputs("layer"), "GruWarmStart": hook_outputs("gru")}


def nothing_kept(m, x):
    """No token is open."""
    m.keep.weight.zero_()
    m.keep.bias.fill_(-1.0)


def mean_zero(m, x):
    """Large entries, the mean of which is next to zero."""
    m.body[2].weight.zero_()
    m.body[2].bias.copy_((-1.0) ** torch.arange(32)).add_(1e-9)


def top_near_zero(m, x):
    """The largest logit is next to zero, the others are not."""
    m.norm.weight.zero_()
    m.norm.bias.fill_(1.0)
    m.gate.weight.fill_(-1.0)
    m.gate.weight[0] = 1e-9


def no_warmth(m, x):
    """The temperature of the tokens is next to zero."""
    m.warm.weight.zero_()
    m.warm.bias.fill_(math.atanh(-1 / 9) + 1e-9)


def cancelling(m, x):
    """The second half of the keys is the first with the other sign, up to a millionth of one of them."""
    x[:, 8:] = -x[:, :8]
    x[:, 0, 0] += 1e-6
    m.to_k.bias.zero_()


WITNESS = {"KeptShare": nothing_kept, "AddcdivMean": mean_zero, "RouterMax": top_near_zero, "TanhTemperature": no_warmth, "TanhShares": cancelling}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {"BilinearRaw", "MhaRawValue"}
DEPTHS = {"AddcmulKeep": LATE, "RsubStream": LATE, "OneMoreOneLess": LATE, "QuaternionLong": LATE, "OpenBothGates": LATE, "WhisperedGradient": LATE,
          "ComplexDecay": LATE, "NesterovPair": LATE, "VelocityFromInput": LATE, "EulerField": LATE}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS)
