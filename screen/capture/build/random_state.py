"""Random numbers from a seed, and the global states as they were afterwards."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """Random numbers from a seed, and the global states as they were afterwards."""
    theirs, numpy = random.getstate(), sys.modules.get("numpy.random")
    numbers = numpy.get_state() if numpy else None
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if device == "cuda" else []):
        torch.manual_seed(seed)
        random.seed(seed)
        if numpy:
            numpy.seed(seed)
        try:
            yield
        finally:
            random.setstate(theirs)
            if numpy:
                numpy.set_state(numbers)
