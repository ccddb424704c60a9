"""What the blocks of round 9 need of their own to be measured: `python -m tests.adversary.round9.check_truth [file] [Class ...]`."""

from pathlib import Path

from tests.adversary.rounds._measure import LATE, main

BRANCH = {}
WITNESS = {}
# where the branch is of the size of the stream at any size, all parameters are put to zero to see the weight-free paths
ZEROED = {"EncoderDecoderRaw", "Coordinates", "HalfResidual", "BottleneckBetween", "MatrixOfInit", "ReZero", "Fixup", "StackThenMean",
          "AlphaOfStream"}
DEPTHS = {"EmbedScale": LATE, "GainedStreamHigh": LATE, "ChannelFirst": LATE, "TorchDecoder": LATE}
# convex steps, or a share of the stream
INEQUALITY = {"StackThenMean": max, "LerpTrained": max, "AlphaOfStream": lambda size, top: size + 2 * top}


if __name__ == "__main__":
    main(str(Path(__file__).parent), BRANCH, WITNESS, ZEROED, DEPTHS, inequality=INEQUALITY)
