"""What a launcher sets up for a script, as of one process: its variables, and a process group of one member.

`torchrun` documents the variables (https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables); the group is torch's own `fake` one,
whose collectives send nothing, which is what they do among one member.
"""

from __future__ import annotations

import os

VARIABLES = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "GROUP_RANK": "0",
    "ROLE_RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_WORLD_SIZE": "1",
    "GROUP_WORLD_SIZE": "1",
    "ROLE_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
_UNSET = ("Default process group has not been initialized", "Default process group not initialized")
"""What torch says where there is no group."""
_told: dict[str, None] = {}


def launched(error: BaseException) -> bool:
    """Set up what an error says is missing; False where it is none of this, or is there."""
    if isinstance(error, KeyError) and error.args and error.args[0] in VARIABLES and error.args[0] not in os.environ:
        os.environ.update({key: value for key, value in VARIABLES.items() if key not in os.environ})
        _told["no launcher started this: its variables (`RANK`, `WORLD_SIZE`, …) are those of one process"] = None
        return True
    if not isinstance(error, ValueError | RuntimeError) or not any(said in str(error) for said in _UNSET):
        return False
    try:
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        if dist.is_initialized():
            return False
        dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
    except Exception:  # a torch without it: the error stands
        return False
    _told["no process group was there: it has one member"] = None
    return True


def notes() -> tuple[str, ...]:
    """What a report says of what was set up in this process."""
    return tuple(_told)


__all__ = ["VARIABLES", "launched", "notes"]
