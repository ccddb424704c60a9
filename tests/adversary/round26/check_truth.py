"""Measures gains and growth of round 26 in float64: `python -m tests.adversary.round26.check_truth [file] [Class ...]`."""

import torch.nn as nn

from tests.adversary.rounds._truth import Round, main

FILES = ["tokens", "planes", "tables", "lanes", "whole"]
BOUND = {"RepUnit": 3.1, "HalfSafeLayer": 50.0}

if __name__ == "__main__":
    main(Round(__package__, FILES, bound=BOUND, norms=(nn.BatchNorm2d,)))
