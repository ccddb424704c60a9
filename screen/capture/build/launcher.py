"""What a launcher sets up for a script, as of one process: its variables, and a process group of one member; and what a script asks of its GPU.

`torchrun` documents the variables (https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables); the group is torch's own `fake` one,
whose collectives send nothing, which is what they do among one member.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator

import torch

from screen.capture.inputs.missing import frames
from screen.capture.makeshift import Makeshift

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
_CAPABILITY = 9, 0
"""The compute capability that is answered where no GPU is: that of an H100, for which kernels are chosen that are stood in for."""
_set_up = Makeshift()
notes = _set_up.notes


def launched(error: BaseException) -> bool:
    """Set up what an error says is missing; False where it is none of this, or is there."""
    if isinstance(error, KeyError) and error.args and error.args[0] in VARIABLES and error.args[0] not in os.environ:
        os.environ.update({key: value for key, value in VARIABLES.items() if key not in os.environ})
        _set_up.tell("no launcher started this: its variables (`RANK`, `WORLD_SIZE`, …) are those of one process")
        return True
    if _asks_capability(error):
        return True
    if isinstance(error, AssertionError):
        return _divided(error)
    if not isinstance(error, ValueError | RuntimeError) or not any(said in str(error) for said in _UNSET):
        return False
    return _group()


def _asks_capability(error: BaseException) -> bool:
    """Answer which kernels a GPU could run, where there is none and a script chooses among them."""
    asked = torch.cuda.get_device_capability
    if not any(frame.f_code is getattr(asked, "__code__", None) for frame, _ in frames(error)):
        return False
    torch.cuda.get_device_capability = lambda *_, **__: _CAPABILITY
    _set_up.undone_by(lambda: setattr(torch.cuda, "get_device_capability", asked))
    _set_up.tell(f"no GPU is here: a script that asks for its compute capability is told {_CAPABILITY[0]}.{_CAPABILITY[1]}")
    return True


def _divided(error: AssertionError) -> bool:
    """Where a library of model parallelism refuses because it was not set up, let its own function divide the model among one process."""
    place = next(reversed(list(frames(error))), None)
    library = place[0].f_globals if place is not None else {}
    begin, end = library.get("initialize_model_parallel"), library.get("destroy_model_parallel")
    if "is not initialized" not in str(error) or not callable(begin) or not callable(end):
        return False
    _group()
    try:
        with torch.device("cpu"), contextlib.redirect_stdout(io.StringIO()):
            begin(1)
    except Exception:  # it is set up, or asks for more: the error stands
        return False
    _set_up.undone_by(end)
    _set_up.tell(f"`{library.get('__name__', '')}` divides the model among one process")
    return True


def _group() -> bool:
    """Make a process group of one member; False where there is one."""
    try:
        import torch.distributed as dist
        from torch.testing._internal.distributed.fake_pg import FakeStore

        if dist.is_initialized():
            return False
        dist.init_process_group("fake", rank=0, world_size=1, store=FakeStore())
        _set_up.undone_by(dist.destroy_process_group)
    except Exception:  # a torch without it: the error stands
        return False
    _set_up.tell("no process group was there: it has one member")
    return True


@contextlib.contextmanager
def taken_back() -> Iterator[None]:
    """What is set up within is there no longer behind it, nor what a script itself set of these variables."""
    unset = VARIABLES.keys() - os.environ.keys()
    with _set_up.taken_back():
        try:
            yield
        finally:
            for name in unset:
                os.environ.pop(name, None)


__all__ = ["VARIABLES", "launched", "notes", "taken_back"]
