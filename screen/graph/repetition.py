"""When do members in a row make a stack of blocks, and when are they the parts of one block?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

MANY = 3
"""Equal neighbours that are a stack whatever stands beside them."""


def stacked(members: Sequence[object], whole: Sequence[bool]) -> int:
    """How many blocks members in a row are; 0 where they are the parts of one. `whole`: a member that has several residual branches of its own.

    1. They repeat as a period: attention, FFN, attention, FFN are two blocks. 2. All stand in runs of equal ones: post × 3, pre × 9. 3. Some run of
    equal ones is long, whatever stands beside it, or a member with several branches comes back: dense, MoE, MoE; read, think, read, think, read.
    Else (attention, FFN; FFN, attention, conv, FFN; attention, FFN, FFN) they are parts."""
    count = len(members)
    period = next((p for p in range(1, count) if count % p == 0 and all(members[i] == members[i % p] for i in range(count))), count)
    if period < count:
        return count // period
    lengths = [len(list(group)) for _, group in itertools.groupby(range(count), key=lambda i: members[i])]
    several = any(whole[i] and members[i] in members[:i] for i in range(count))
    return count if lengths and (min(lengths) > 1 or max(lengths) >= MANY or several) else 0


__all__ = ["MANY", "stacked"]
