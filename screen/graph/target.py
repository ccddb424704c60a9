"""What the user asks to be screened, as text and as data. Imports neither torch nor transformers.

| text | kind |
|---|---|
| `path/to/model.py`, `path/to/model.py::Name`, `path/to/model.py:Name` | file |
| `package.module:attr` | module |
| `path/to/config.json`, a folder that holds one, either with `::ClassName` | config |
| `hf:TYPE`, `hf:TYPE:ClassName` | hf |
| `timm:NAME` | timm |
| `SCHEME:WORDS`, where a distribution registers SCHEME by the entry point group `screen.targets` | module: its `build(WORDS)` |

A live `nn.Module` (kind `object`) has no text to parse; `screen.capture.build.build.build_object` takes it.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from typing import Literal

from screen import plugins
from screen.errors import UsageError, did_you_mean

Kind = Literal["file", "module", "config", "hf", "timm", "object"]

FORMS = "Write `path/model.py`, `path/model.py::Name`, `package.module:attr`, `path/config.json`, `hf:TYPE`, `hf:TYPE:ClassName` or `timm:NAME`"
SCHEMES = "screen.targets"
"""Where schemes of targets of other distributions are found (`screen.plugins`)."""
NO_DOWNLOAD = "Models are never downloaded: save its `config.json` and name that file, or take `hf:TYPE`"
REQUIRED = "A target must name a model"

OPTIONAL = "?"
"""Before a key of the settings: it comes from a file that says other things too (`--config`), and is left out where nothing has such a name. Alone:
that file."""

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_ATTRIBUTE = re.compile(_DOTTED.pattern + r"(\[[^\[\]]+\])*")
"""What follows `::`: a dotted name, and keys of a table."""
_HUB_NAME = re.compile(r"[\w-]+/[\w.-]+")


@dataclass(frozen=True)
class TargetSpec:
    """One target. Which fields are set depends on `kind`."""

    text: str
    """As the user wrote it."""
    kind: Kind
    path: str | None = None
    """file: the Python file; config: the JSON file itself."""
    module: str | None = None
    """module: dotted name to import."""
    name: str | None = None
    """file, module: the attribute, dots allowed; timm: the name of the architecture. None: every model of the file."""
    model_type: str | None = None
    """hf: as transformers spells model types, but `-` and `_` not told apart yet."""
    class_name: str | None = None
    """hf, config: the class asked for."""
    argument: str | None = None
    """module: what the function is called with first, where the target is of another distribution's scheme."""


def parse(text: str) -> TargetSpec:
    """The target that `text` names. Raises `UsageError`. Looks at the file system, imports nothing."""
    stripped = text.strip()
    if not stripped:
        raise UsageError(REQUIRED, "an empty text was given", FORMS)
    scheme, _, rest = stripped.partition(":")
    if scheme == "hf":
        return _hf(stripped, rest)
    if scheme == "timm":
        if not rest:
            raise UsageError("`timm:NAME` must name an architecture", f"`{stripped}` was given", "For example `timm:vit_small_patch16_224`")
        return TargetSpec(stripped, "timm", name=rest)
    path, name = _split(stripped)
    if os.path.isdir(path) or path.endswith(".json"):
        return _config(stripped, path, name)
    if path.endswith(".py"):
        return _file(stripped, path, name)
    if name is not None and (module := plugins.foreign(SCHEMES).get(scheme)) is not None:
        return TargetSpec(stripped, "module", module=module, name="build", argument=rest)
    if name is not None and name.startswith("//"):
        raise UsageError(REQUIRED, f"`{stripped}` is an address", NO_DOWNLOAD)
    if name is not None and _DOTTED.fullmatch(path):
        if not _ATTRIBUTE.fullmatch(name):
            raise UsageError("`package.module:attr` must name an attribute", f"`{stripped}` was given", FORMS)
        return TargetSpec(stripped, "module", module=path, name=name)
    raise UsageError(REQUIRED, f"`{stripped}` is none of the known forms" + _nearby(path), _advice(stripped, path))


def from_folder(text: str, folder: str) -> str:
    """The target as it is called from the working directory, where `text` means a path from `folder`."""
    path, name = _split(text.strip(), folder)
    if not folder or not (path.endswith((".py", ".json")) or os.path.isdir(os.path.join(folder, path))):
        return text
    return os.path.join(folder, path) + ("" if name is None else f"::{name}")


def same(a: TargetSpec, b: TargetSpec) -> bool:
    """Whether two texts name one target: `./model.py:Net` is `model.py::Net`."""

    def key(spec: TargetSpec) -> tuple[object, ...]:
        path = None if spec.path is None else os.path.abspath(spec.path)
        return spec.kind, path, spec.module, spec.name, spec.model_type, spec.class_name, spec.argument

    return key(a) == key(b)


def _split(text: str, folder: str = "") -> tuple[str, str | None]:
    """Path and name: at the first `::` behind a file that exists, else at the first one, else at the last `:` that is not of a Windows drive.
    `folder`: where paths are meant from."""
    for end in [len(text), *(found.start() for found in re.finditer("::", text))]:
        if text[:end].endswith((".py", ".json")) and os.path.isfile(os.path.join(folder, text[:end])):
            return text[:end], text[end + 2 :] if end < len(text) else None
    if "::" in text:
        path, _, name = text.partition("::")
        return path, name
    if ":" in text and not re.match(r"[A-Za-z]:[\\/]", text):
        path, _, name = text.rpartition(":")
        return path, name
    return text, None


def _hf(text: str, rest: str) -> TargetSpec:
    model_type, *others = rest.split(":")
    class_name = others[0] if others else None
    if not model_type or len(others) > 1 or class_name == "":
        raise UsageError("`hf:TYPE` or `hf:TYPE:ClassName` must name a model type of transformers", f"`{text}` was given", "For example `hf:gemma2`")
    return TargetSpec(text, "hf", model_type=model_type, class_name=class_name)


def _config(text: str, path: str, name: str | None) -> TargetSpec:
    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    if not os.path.isfile(file):
        if os.path.isdir(path):
            advice = "Name a Python file or a config in it, or let `screen init` find the models of the repository"
            raise UsageError("A folder given as target must hold `config.json`", f"`{path}` does not", advice)
        raise UsageError("A config given as target must exist", _absent(path), FORMS)
    if name is not None and not _DOTTED.fullmatch(name):
        raise UsageError("What follows `::` must be a class name", f"`{text}` was given", FORMS)
    return TargetSpec(text, "config", path=file, class_name=name)


def _file(text: str, path: str, name: str | None) -> TargetSpec:
    if not os.path.isfile(path):
        raise UsageError("A Python file given as target must exist", _absent(path), FORMS)
    if name is not None and not _ATTRIBUTE.fullmatch(name):
        raise UsageError("What follows `::` must be the name of a class, an instance or a function", f"`{text}` was given", FORMS)
    return TargetSpec(text, "file", path=path, name=name)


def _absent(path: str) -> str:
    """Why there is no such file."""
    if os.path.islink(path) and not os.path.exists(path):
        return f"`{path}` is a link that leads to no file"
    return f"`{path}` is no regular file" if os.path.exists(path) else f"there is no file `{path}`" + _nearby(path)


def _nearby(path: str) -> str:
    """What stands in the same folder under a similar name, as the end of a sentence."""
    folder, base = os.path.split(path)
    try:
        present = os.listdir(folder or ".")
    except OSError:
        return ""
    near = difflib.get_close_matches(base, [p for p in present if p.endswith((".py", ".json"))], n=1, cutoff=0.6)
    return f"; `{os.path.join(folder, near[0])}` exists" if near else ""


def _advice(text: str, path: str) -> str:
    if os.path.exists(path):
        return "Only `.py` and `.json` files are read, and folders that hold `config.json`"
    if os.path.isfile(path + ".py"):
        return f"Did you mean `{path}.py`? {FORMS}"
    if _HUB_NAME.fullmatch(text):
        return NO_DOWNLOAD
    if ":" in text:
        return did_you_mean(text.partition(":")[0], ["hf", "timm"]) or FORMS
    if _DOTTED.fullmatch(text) and "." not in text:
        return f"Did you mean `hf:{text}`? {FORMS}"
    return FORMS


__all__ = ["FORMS", "OPTIONAL", "Kind", "TargetSpec", "did_you_mean", "from_folder", "parse", "same"]
