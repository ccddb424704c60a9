"""Twenty-four further blocks of blocks.py, over and above the 64 of the round."""

from tests.adversary.round13.blocks import *  # noqa: F401,F403
from tests.adversary.round13.blocks import TRUTH_MORE as TRUTH  # noqa: F401
