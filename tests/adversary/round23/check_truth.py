"""Measures gains and growth of round 23 in float64: `python -m tests.adversary.round23.check_truth [file] [Class ...]`."""

from tests.adversary.rounds._truth import DEPTHS, LATE, Round, main

FILES = ["latents", "solvers", "learners", "whole"]
AT = {"GateBetween": LATE, "FlowUpdates": LATE, "SharedAttentionHybrid": DEPTHS, "LoopedSandwich": (16, 32, 64, 128), "UnrolledShrinkage": (400, 800, 1600, 3200)}

if __name__ == "__main__":
    main(Round(__package__, FILES, at=AT, seeds=(0,), later=False, awake=False))
