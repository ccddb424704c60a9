"""Measures gains and growth of round 22 in float64: `python -m tests.adversary.round22.check_truth [file] [Class ...]`.

What is bounded over all weights is by the inequality that each truth names.
"""

from tests.adversary.rounds._truth import LATE, Round, main

FILES = ["openfiles", "recurrent", "areas", "whole"]
LATER = (48, 96, 192, 384)
AT = {
    "AffineMlp": (192, 384, 768, 1536),
    **dict.fromkeys(("Activated", "ShrinksGradientSign", "CellSwapped", "ServingModelDropsResidual", "TranslationStack"), LATER),
    **dict.fromkeys(("LstmAdded", "LstmProjectedAdded", "RotatedShort", "DecayedStateSign", "PolicyConvOnSum"), LATE),
}
BOUND = {"CellSwapped": 1.0, "ServingModelDropsResidual": 2.5}
FAR = {"Bypass": 1e14}
MAPS = {"RealGated": "out", "DecayedState": "net", "DecayedStateSign": "net"}

if __name__ == "__main__":
    main(Round(__package__, FILES, at=AT, bound=BOUND, far=FAR, maps=MAPS, summed=True, seeds=(0,), later=False, awake=False))
