"""Measures gains and growth of round 25 in float64: `python -m tests.adversary.round25.check_truth [file] [Class ...]`."""

import torch.nn as nn

from tests.adversary.rounds._truth import LATE, Round, main

FILES = ["reviews", "variants", "adapters", "fields", "features", "whole"]
AT = dict.fromkeys(("CoupledHalves", "BranchTemperature", "ClosedSweep"), LATE)
BOUND = {"DeterministicDepth": 6.0, "BothNormed": 2.0, "SkipOfRootTwo": 2.0, "StaticHighway": 1.0, "CrossStage": 1.0, "ClosedSweep": 20.0}
FAR = {"FastFusion": 1e14, "ScaledInputLayer": 1e14}

if __name__ == "__main__":
    main(Round(__package__, FILES, at=AT, bound=BOUND, far=FAR, norms=(nn.BatchNorm2d,)))
