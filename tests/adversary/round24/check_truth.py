"""Measures gains and growth of round 24 in float64: `python -m tests.adversary.round24.check_truth [file] [Class ...]`."""

from tests.adversary.rounds._truth import LATE, Round, main

FILES = ["published", "odd", "whole"]
AT = dict.fromkeys(("SpanOfMemories", "DualAveraging", "WeightDecayOverDepth", "DeltasSummedTwice", "VirtualNodeAdded"), LATE)
DRAWN = frozenset({"RegisterVit"})
BOUND = {"MaximumStream": 8.0, "GateAloneKeepsNormed": 6.0}
FAR = {"AuroraBlock": 1e6}

if __name__ == "__main__":
    main(Round(__package__, FILES, at=AT, drawn=DRAWN, bound=BOUND, far=FAR, seeds=(0,), later=False, awake=False))
