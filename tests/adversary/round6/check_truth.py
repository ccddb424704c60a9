"""What the blocks of round 6 need of their own to be measured: `python -m tests.adversary.round6.check_truth [file] [Class ...]`."""

from pathlib import Path

import torch

from tests.adversary.rounds._measure import LATE, main

BRANCH = {}


def small_head(m, x):
    """One head is small, the others are not."""
    for lin in (m.to_q, m.to_k):
        lin.weight[:8] *= 1e-9
        lin.bias[:8] *= 1e-9


def opposite_tokens(m, x):
    """The keys sum to zero."""
    x[:, 8:] = -x[:, :8]
    m.to_k.bias.zero_()
    m.to_k.weight.mul_(1e4)


def minus_one(m, x):
    """The branch is close to minus one in front of its end."""
    m.body[2].weight.zero_()
    m.body[2].bias.fill_(-1 - 1e-12)


def loud_without_mean(m, x):
    """Large entries of mean zero."""
    m.body[2].weight.zero_()
    m.body[2].bias.copy_(1e5 * (-1.0) ** torch.arange(32))


WITNESS = {"NormalizePositional": small_head, "RowSumAbs": opposite_tokens, "SoftsignSlip": minus_one, "StdMeanOrder": loud_without_mean}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {"RawValues", "GatedSilu", "CatRaw", "SlicedSequential"}
DEPTHS = {"PaddedSkip": LATE, "SurvivalOfSum": LATE, "CellStep": LATE}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS)
