"""How an interpreter for the capture side is started: its environment, its `sys.path`, and whether it can fork."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from typing import IO

ENVIRONMENT = {
    "PYTHONHASHSEED": "0",  # the order of a set in the user's code must not depend on the run
    "PYTORCH_JIT": "0",  # scripted code as the Python that it is: `torch.jit` refuses what has a constant of its file, or a kernel that is not built
    "TRANSFORMERS_DISABLE_TORCH_CHECK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "USE_HUB_KERNELS": "NO",
    "TOKENIZERS_PARALLELISM": "false",
    "OPENBLAS_NUM_THREADS": "1",  # these libraries start threads when they are imported, and a process with threads must not fork
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""What the child's environment says besides the caller's."""
OFFLINE = tuple(name for name in ENVIRONMENT if name.endswith("_OFFLINE"))
"""Those that keep libraries from the network."""
SECRET = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE)(_|$)|(^|_)(API|ACCESS|PRIVATE|AUTH|ENCRYPTION)_?KEY(_|$)"
    r"|^(AWS|AZURE|GOOGLE|GCP|GITHUB|ACTIONS|CI_JOB|CI_REGISTRY|SSH|GPG|DOCKER|KUBECONFIG)(_|$)",
    re.IGNORECASE,
)
"""Names of variables that the user's code is not handed: what is secret, and the files of a runner of CI that it could write to."""
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of this package."""
BOOT = (
    "import importlib,importlib.util as u,json,sys;a=json.loads(sys.argv[2]);"
    "s=u.spec_from_file_location('screen',a['package']+'/__init__.py',submodule_search_locations=[a['package']]);"
    "sys.modules['screen']=m=u.module_from_spec(s);s.loader.exec_module(m);sys.path[:]=a['path'];importlib.import_module(sys.argv[1]).main(a)"
)
"""What a fresh interpreter runs: this very package, wherever another `screen` lies, and the caller's `sys.path` before anything else is imported."""


def can_fork() -> bool:
    """Whether targets can be forked from one process that has torch (else: a fresh interpreter for each)."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds") and hasattr(os, "waitid")


def environment(words: int = 0) -> dict[str, str]:
    """The child's environment: the caller's without secrets, and ours. `words`: which order words in a set have."""
    return {**{name: value for name, value in os.environ.items() if not SECRET.search(name)}, **ENVIRONMENT, "PYTHONHASHSEED": str(words)}


def overridden() -> dict[str, str | None]:
    """What the caller's environment says where the child's says something else; None where it says nothing."""
    return {name: os.environ.get(name) for name in (*ENVIRONMENT, "PYTHONHASHSEED")}


def interpreter(module: str, **settings: object) -> list[str]:
    """The command that runs `main(settings)` of a module of ours in an interpreter that looks for nothing in the working directory."""
    return [sys.executable, "-P", "-c", BOOT, module, json.dumps({**settings, "path": safe_path(), "package": PACKAGE})]


def told_on(file: IO[bytes], module: str, **settings: object) -> list[str]:
    """As `interpreter`, with what it runs in an open file that it inherits: its command line says nothing of us."""
    *_, program, name, text = interpreter(module, **settings)
    file.write(f"import sys;sys.argv=['-c',{name!r},{text!r}];{program}".encode("utf-8", "surrogatepass"))
    file.seek(0)
    return [sys.executable, "-P", "-c", f"exec(open({file.fileno()},'rb').read().decode('utf-8','surrogatepass'))"]


def safe_path() -> list[str]:
    """The caller's `sys.path` for the child, without the working directory that `python -m` and the prompt put first: a `random.py` that
    lies there must not shadow the standard library's. The folder that this package was imported from stays, at the end."""
    path = list(sys.path)
    if path and not sys.flags.safe_path and path[0] in ("", os.getcwd()):
        del path[0]
    root = os.path.dirname(PACKAGE)
    return path if root in path else [*path, root]


__all__ = ["ENVIRONMENT", "OFFLINE", "SECRET", "can_fork", "environment", "interpreter", "overridden", "safe_path", "told_on"]
