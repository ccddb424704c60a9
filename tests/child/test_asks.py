"""Which code may tell where it runs: what is not on the list may."""

from __future__ import annotations

from pathlib import Path

import pytest

from screen.child.asks import asks
from tests.shared import ROOT

PLAIN = (
    "import math\nfrom dataclasses import dataclass\nimport torch.nn.functional as F\nfrom torch import nn",
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self._cache = self.time = self.__class__.__name__",
    "if __name__ == '__main__':\n    print(1)",
    "if '__main__' == __name__:\n    print(1)",
    "y = getattr(x, 'weight', None) if hasattr(x, 'bias') else F.gelu(x, approximate='tanh')",
    "y = x.to(w.device).type(w.dtype)",
)
ASKING = (
    "import os", "import sys as s", "from torch import os", "from torch import *", "from . import neighbour", "import neighbour",
    "import torch.overrides", "torch.os.environ", "x = open", "eval('1')", "g = getattr", "getattr(x, 'o' + 's')",
    "getattr(x, '__globals__')", "print(__name__)", "__file__",
    "'{0.__class__.__init__.__globals__}'.format(x)", "match torch:\n    case object(os=o): pass", "x.is_meta", "x.device.type", "d = 'meta'",
    "x.grad_fn", "f.__code__", "self.__dict__", "torch._C", "().__class__.__base__.__subclasses__()", "torch.get_num_threads()", "vars(torch)", "(",
)  # fmt: skip


@pytest.mark.parametrize("text", PLAIN + ASKING)
def test_what_a_file_asks_is_read_off_its_source(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.py").write_text(text)
    assert asks([str(tmp_path / "model.py")]) == (text in ASKING)


def test_what_cannot_be_read_may_ask(tmp_path: Path) -> None:
    assert asks([str(tmp_path / "none.py")]) and not asks([])
    (tmp_path / "model.py").write_text("#" * (1 << 21))
    assert asks([str(tmp_path / "model.py")])


def test_ordinary_models_ask_nothing() -> None:
    files = [str(path) for path in (ROOT / "examples").glob("*.py")]
    assert len(files) > 8 and [file for file in files if asks([file])] == []
