"""Arguments of the `Trainer` of transformers, as `to_json_string()` writes them: every argument stands there, so what is off is stated too.

Of Adafactor the Trainer always makes one whose steps are the rate itself (`scale_parameter=False`).

The pickle beside a checkpoint (`training_args.bin`) is not read: to open it would run what it holds.
"""

from __future__ import annotations

from screen.errors import UsageError
from screen.recipe.document import Document
from screen.recipe.gather import gather
from screen.recipe.stated import Stated, Where, over, state

ORDER = 10
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle")
OF_TRAINER = ("output_dir", "per_device_train_batch_size", "adam_epsilon", "lr_scheduler_type")
"""Arguments that every saved table has, in versions 4 and 5."""
OF_STATE = ("global_step", "log_history")
"""Keys of `trainer_state.json`, the record of a run."""


def fits(document: Document) -> bool:
    """Also what must be refused in words of its own: the pickle, and the record of a run."""
    if document.suffix in PICKLES:
        return True
    table = document.table or {}
    return all(key in table for key in OF_TRAINER) or all(key in table for key in OF_STATE)


def read(document: Document) -> Stated:
    """Raises `UsageError`."""
    if document.suffix in PICKLES:
        required = "a recipe must be a text that can be read without running it"
        hint = 'Write the arguments as text: `open("training_args.json", "w").write(args.to_json_string())`'
        raise UsageError(required, f"{document.origin} is a pickle", hint, file=document.name)
    table = document.table or {}
    if all(key in table for key in OF_STATE):
        hint = 'Save the arguments: `open("training_args.json", "w").write(args.to_json_string())`'
        raise UsageError("a recipe must say how a model is trained", f"{document.origin} is the record of a run", hint, file=document.name)
    where = Where(document.origin, document.name, line=document.line)
    stated = gather(document.leaves, where, autocast=True)
    return over(stated, state({"lr_times_rms": False}, where)) if stated.recipe.optimizer == "adafactor" else stated


__all__ = ["ORDER", "fits", "read"]
