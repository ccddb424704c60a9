"""Measures gains and growth of round 27 in float64: `python -m tests.adversary.round27.check_truth [file] [Class ...]`."""

import torch.nn as nn

from tests.adversary.rounds._truth import Round, main

FILES = ["words", "sights", "waves", "nets", "whole"]
BOUND = {"AveragedGateLayer": 4.0, "SandwichGateCompact": 4.0, "PrunableVit": 12.0}

if __name__ == "__main__":
    main(Round(__package__, FILES, bound=BOUND, norms=(nn.BatchNorm2d,)))
