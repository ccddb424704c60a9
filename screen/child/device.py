"""What torch says of this machine, as JSON on stdout: run by `screen doctor` in a process of its own."""

from __future__ import annotations

import json
import time


def main(_: object) -> None:
    """Print pairs of name and value."""
    begin = time.perf_counter()
    import torch

    rows = [("torch", f"{torch.__version__}, imported in {time.perf_counter() - begin:.1f} s")]
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        rows.append(("cuda", ", ".join(names)))
    else:
        rows.append(("cuda", "none, and none is needed: capture runs on meta"))
    rows.append(("transformers", _transformers()))
    print(json.dumps(rows))


def _transformers() -> str:
    from screen.capture.build import libraries
    from screen.errors import LoadError

    try:
        stubbed = libraries.stub_torchvision()
        libraries.transformers()
    except LoadError as error:
        return error.found
    except Exception as error:
        return f"does not import: `{type(error).__name__}: {error}`"
    return "imports" + (" (the C++ part of torchvision does not load here; its two missing operators are declared for capture)" if stubbed else "")


__all__ = ["main"]
