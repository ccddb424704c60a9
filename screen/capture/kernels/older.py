"""What another version of a library took or had, where leaving it out or giving it back changes nothing; a note says so.

A file that was written for another version of a library passes it settings that are gone (`Block(…, qk_scale=None)`), or takes fewer than the library
now passes (`forward_features(x)`, called with `attn_mask=None`). `None` and `False` ask for nothing, so the call without the keyword is the one that
was meant; any other value is an error as before. `numpy.float` and the like were other names of Python's own types until NumPy 1.24 took them away:
https://numpy.org/doc/stable/release/1.20.0-notes.html#using-the-aliases-of-builtin-types-like-np-int-is-deprecated
Second names of NumPy's own functions and numbers were taken away in NumPy 2.0: https://numpy.org/doc/stable/numpy_2_0_migration_guide.html
`torch._six` held names of Python's own types until torch 2.0: https://github.com/pytorch/pytorch/blob/v1.13.1/torch/_six.py
Constructors written for older versions of `transformers` end in `init_weights()`, and now in `post_init()`, which calls it (its docstring).
Names of tied weights are a list there before transformers 5, and now a table: a name of the output's weight is tied to the input's table.
What every configuration had before transformers 5 (`pad_token_id`, `is_decoder`) some classes lack since; it was `None`, false or zero by default:
https://github.com/huggingface/transformers/blob/v4.57.0/src/transformers/configuration_utils.py
`n_ctx` of GPT-2, "usually same as n_positions" and of the same default, is gone since:
https://github.com/huggingface/transformers/blob/v4.5.1/src/transformers/models/gpt2/configuration_gpt2.py
`rope_scaling` of a configuration is a table since transformers 5, of the kind `default` where nothing is scaled, and was `None` then.
Masks of bytes chose as those of booleans do until torch took no others: https://github.com/pytorch/pytorch/releases/tag/v1.2.0
Classes of torch that a project copied lack what torch's own code asks of them since: `batch_first` of attention (torch 1.9), off by default.
`timm.models.layers` became `timm.layers` in timm 0.9, which keeps the old name, but none of the modules in it:
https://github.com/huggingface/pytorch-image-models/blob/v0.9.0/timm/models/layers/__init__.py
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import importlib
import inspect
import math
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from screen.capture.makeshift import Makeshift
from screen.capture.trace.source_lines import TORCH

_UNKNOWN = re.compile(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'")
"""Python's own words."""

_BYTES = re.compile(r"expected predicate to be bool, got torch\.uint8|only supports boolean masks, but got dtype Byte|but got mask with dtype Byte")
_SIX = ModuleType("torch._six")
vars(_SIX).update(container_abcs=collections.abc, string_classes=(str, bytes), int_classes=int, inf=math.inf, nan=math.nan)
_LAYERS = "timm.models.layers."
_LEFT_OUT = "__screen_left_out__"
_ALIAS = re.compile(r"module 'numpy' has no attribute '(float|int|complex|object|str|bool)'")
_SECOND = {"cumproduct": "cumprod", "product": "prod", "sometrue": "any", "alltrue": "all", "row_stack": "vstack",
           "trapz": "trapezoid", "float_": "float64", "complex_": "complex128", "Inf": "inf", "infty": "inf", "NaN": "nan"}  # fmt: skip
_RENAMED = re.compile(rf"\b(?:module 'numpy' has no attribute '|`np\.)({'|'.join(_SECOND)})[`']")
_TIED = "has no attribute 'all_tied_weights_keys'"
_LISTED, _TIES = "'list' object has no attribute 'keys'", "get_expanded_tied_weights_keys"
_ASKED = re.compile(r"^'(\w+)' object has no attribute '(\w+)'")
_GONE = re.compile(r"object has no attribute '(\w+)'")
_DOCSTRINGS = "transformers.utils.doc"
_left_out: dict[tuple[str, str], None] = {}
_made = Makeshift()
notes, taken_back = _made.notes, _made.taken_back


def _named(name: str, value: Any, what: str) -> bool:
    """Give numpy a name back."""
    setattr(sys.modules["numpy"], name, value)
    _made.undone_by(functools.partial(delattr, sys.modules["numpy"], name))
    _made.tell(f"`numpy.{name}`, which this version of numpy lacks, is {what}")
    return True


def leave_out(error: BaseException) -> bool:
    """Make the callable of such an error take the keyword where it asks for nothing, or numpy have the name; False where there is nothing to make, or
    it was made before."""
    if isinstance(error, AttributeError) and (alias := _ALIAS.search(str(error))) is not None:
        return _named(alias[1], getattr(builtins, alias[1]), f"Python's `{alias[1]}`")
    if isinstance(error, AttributeError) and (alias := _RENAMED.search(str(error))) is not None:
        own = _SECOND[alias[1]]
        return _named(alias[1], getattr(sys.modules["numpy"], own), f"`numpy.{own}`")
    if isinstance(error, AttributeError) and _TIED in str(error):
        return _ends_by_init_weights(_class_of(error))
    if isinstance(error, AttributeError) and _LISTED in str(error):
        return _tied_by_table(error)
    if isinstance(error, KeyError) and error.args[:1] in (("type",), ("factor",)):
        return _scales_nothing(error)
    if isinstance(error, AttributeError) and error.name in _OF_CACHES and _cache_given_back(error):
        return True
    if isinstance(error, AttributeError) and error.name in _OF_SETTINGS and _setting_given_back(error):
        return True
    if isinstance(error, AttributeError) and (gone := _GONE.search(str(error))) is not None and gone[1] in _METHODS:
        return _given_back(_class_of(error), gone[1])
    if isinstance(error, AttributeError) and (asked := _ASKED.search(str(error))) is not None and _by_torch(error):
        return _copied(asked[1], asked[2])
    if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
        return _moved(error)
    if isinstance(error, RuntimeError) and _BYTES.search(str(error)) is not None:
        return _masks_of_bytes()
    if isinstance(error, ModuleNotFoundError) and error.name == _SIX.__name__ and error.name not in sys.modules:
        sys.modules[_SIX.__name__] = _SIX
        _made.undone_by(functools.partial(sys.modules.__delitem__, _SIX.__name__))
        _made.tell(f"`{_SIX.__name__}`, which this version of torch lacks, has Python's own types")
        return True
    if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(_LAYERS):
        name = str(error.name)
        try:
            sys.modules[name] = importlib.import_module(f"timm.layers.{name.removeprefix(_LAYERS)}")
        except ImportError:
            return False
        _made.undone_by(functools.partial(sys.modules.__delitem__, name))
        _made.tell(f"`{name}`, which this version of timm lacks, is its `timm.layers.{name.removeprefix(_LAYERS)}`")
        return True
    said = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
    if said is not None and _documents(error, said[1]):
        return True
    if said is None or "." not in said[1] or not _takes(said[1], said[2]):
        return False
    _left_out[said[1], said[2]] = None
    _made.undone_by(functools.partial(_left_out.pop, (said[1], said[2]), None))
    return True


def of_another_version(error: BaseException) -> tuple[str, str] | None:
    """The installed library that does not take a keyword which the author hands it, and the keyword; None elsewhere."""
    said = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
    calls = [f for f, _ in traceback.walk_tb(error.__traceback__) if f.f_code.co_filename != __file__]
    if said is None or not calls or "site-packages" in calls[-1].f_code.co_filename:
        return None
    name = said[1].partition(".")[0]
    seen = [*calls[-1].f_locals.values(), *calls[-1].f_globals.values()]
    module = next((sys.modules.get(value.__module__) for value in seen if isinstance(value, type) and value.__name__ == name), None)
    theirs = module is not None and "site-packages" in (getattr(module, "__file__", None) or "")
    return (module.__name__.partition(".")[0], said[2]) if module is not None and theirs else None


def _class_of(error: AttributeError) -> type[Any]:
    """The class of the module that lacks an attribute: torch raises without the object."""
    named = str(error).partition("'")[2].partition("'")[0]
    return next((cls for cls in _classes(nn.Module) if cls.__name__ == named and _is_pretrained(cls)), type(error.obj))


def _documents(error: BaseException, name: str) -> bool:
    """Take a decorator of transformers that writes a docstring and nothing else for one that leaves what it decorates as it is."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    names = tb.tb_frame.f_globals if tb is not None else {}
    function, plain = names.get(name), lambda *_, **__: lambda function: function
    if getattr(function, "__module__", "") != _DOCSTRINGS:
        return False
    library = [vars(m) for key, m in [*sys.modules.items()] if key.partition(".")[0] == _DOCSTRINGS.partition(".")[0]]
    for holder in (names, *(one for one in library if one.get(name) is function)):
        _made.undone_by(functools.partial(holder.__setitem__, name, function))
        holder[name] = plain
    _made.tell(f"`@{name}` writes docstrings, and takes other arguments in this version of transformers: it is left out")
    return True


def _masks_of_bytes() -> bool:
    """Let `masked_fill` take bytes as booleans."""
    own = {name: getattr(Tensor, name) for name in ("masked_fill", "masked_fill_")}
    if any(hasattr(method, _LEFT_OUT) for method in own.values()):
        return False
    for name, method in own.items():
        setattr(Tensor, name, _of_booleans(method))
        _made.undone_by(functools.partial(setattr, Tensor, name, method))
    _made.tell("a mask of bytes chooses where they are not zero, as in older versions of torch")
    return True


def _of_booleans(method: Any) -> Any:
    @functools.wraps(method)
    def filled(self: Tensor, mask: Tensor, value: Any) -> Any:
        return method(self, mask.bool() if mask.dtype is torch.uint8 else mask, value)

    setattr(filled, _LEFT_OUT, ())
    return filled


def _by_torch(error: BaseException) -> bool:
    """Does code of torch ask for what is missing?"""
    asking = [f for f, _ in traceback.walk_tb(error.__traceback__) if f.f_code.co_name != "__getattr__"]
    return bool(asking) and asking[-1].f_code.co_filename.startswith(TORCH)


def _copied(name: str, key: str) -> bool:
    """Give a copy of a class of torch, of its name, an attribute that torch has since and that is off by default: `batch_first` of attention."""
    theirs = getattr(nn, name, None)
    default = inspect.signature(theirs).parameters.get(key) if isinstance(theirs, type) else None
    if default is None or (default.default is not None and default.default is not False):
        return False
    found = [cls for cls in _classes(nn.Module) if cls.__name__ == name and not cls.__module__.startswith("torch.") and not hasattr(cls, key)]
    for cls in found:
        setattr(cls, key, default.default)
        _made.undone_by(functools.partial(delattr, cls, key))
        _made.tell(f"`{name}`, a copy of torch's, has no `{key}`: it is `{default.default}`, as by default there")
    return bool(found)


def _is_pretrained(cls: type[Any]) -> bool:
    return any(one.__name__ == "PreTrainedModel" and one.__module__.startswith("transformers.") for one in cls.__mro__)


def _ends_by_init_weights(model: type[Any]) -> bool:
    """Let `init_weights()`, the last line of constructors before transformers had `post_init()`, do what that does where it was not called."""
    base = next((cls for cls in model.__mro__ if cls.__name__ == "PreTrainedModel" and cls.__module__.startswith("transformers.")), None)
    own = vars(base).get("init_weights") if base is not None else None
    if base is None or own is None or hasattr(own, _LEFT_OUT):
        return False

    def init_weights(self: Any) -> Any:
        return own(self) if "all_tied_weights_keys" in vars(self) else self.post_init()

    setattr(init_weights, _LEFT_OUT, ())
    base.init_weights = init_weights  # type: ignore[attr-defined]
    _made.undone_by(functools.partial(setattr, base, "init_weights", own))
    _made.tell("`init_weights()` at the end of a constructor is `post_init()` in this version of transformers")
    return True


def _tied_by_table(error: AttributeError) -> bool:
    """Let models of transformers whose names of tied weights are a list have the table that is asked for now."""
    asking = [f for f, _ in traceback.walk_tb(error.__traceback__)][-1]
    base = next((cls for cls in type(asking.f_locals.get("self")).__mro__ if _TIES in vars(cls)), None)
    own = vars(base).get(_TIES) if base is not None and asking.f_code.co_name == _TIES else None
    if base is None or own is None or hasattr(own, _LEFT_OUT):
        return False

    def expanded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._tied_weights_keys, list):
            self._tied_weights_keys = _table_of(self)
        return own(self, *args, **kwargs)

    setattr(expanded, _LEFT_OUT, ())
    setattr(base, _TIES, expanded)
    _made.undone_by(functools.partial(setattr, base, _TIES, own))
    _made.tell("`_tied_weights_keys` is a list, as before transformers 5: the weight of its output is that of its input")
    return True


def _scales_nothing(error: KeyError) -> bool:
    """Let a configuration whose angles are not scaled say `None`, where the kind of scaling is read by its older name."""
    asking = [f for f, _ in traceback.walk_tb(error.__traceback__)][-1]
    held = (getattr(value, "config", value) for value in asking.f_locals.values())
    for config in held:
        table = getattr(config, "rope_parameters", None)
        if isinstance(table, dict) and table.get("rope_type") == "default" and error.args[0] not in table:
            config.rope_parameters = None
            _made.undone_by(functools.partial(setattr, config, "rope_parameters", table))
            _made.tell("`rope_scaling` is `None`, as before transformers 5: nothing is scaled")
            return True
    return False


def _table_of(model: Any) -> dict[str, str]:
    """The name of the weight of a model's output, where the list has it, and that of the table at its input."""
    names = {id(module): name for name, module in model.named_modules()}
    try:
        ends = [names[id(end)] for end in (model.get_output_embeddings(), model.get_input_embeddings())]
    except (AttributeError, KeyError, NotImplementedError):  # it has none, or not yet
        return {}
    return {f"{ends[0]}.weight": f"{ends[1]}.weight"} if f"{ends[0]}.weight" in model._tied_weights_keys else {}


def _head_mask(self: Any, head_mask: None, num_hidden_layers: int, *_: Any) -> list[None]:
    """`get_head_mask`: `None` for each layer where no head is masked."""
    if head_mask is not None:
        raise AttributeError("`get_head_mask` of masks is not in this version of transformers")
    return [None] * num_hidden_layers


def _inverted(self: Any, mask: Tensor) -> Tensor:
    """`invert_attention_mask`: 0 where a mask [B, S] or [B, L, S] is 1, and the lowest number where it is 0, with an axis of heads."""
    wide = mask[:, None] if mask.dim() == 3 else mask[:, None, None]
    return (1.0 - wide.to(self.dtype)) * torch.finfo(self.dtype).min


def _given_back(model: type[Any], name: str) -> bool:
    """Give models of transformers a method back that their base had."""
    base = next((cls for cls in model.__mro__ if cls.__name__ == "PreTrainedModel" and cls.__module__.startswith("transformers.")), None)
    if base is None or hasattr(base, name):
        return False
    setattr(base, name, _METHODS[name])
    _made.undone_by(functools.partial(delattr, base, name))
    _made.tell(f"`{name}`, which models of this version of transformers lack, is given back")
    return True


def _from_legacy(cls: type[Any], past_key_values: Any = None) -> Any:
    """`from_legacy_cache`: an empty cache where there is nothing yet."""
    if past_key_values is not None:
        raise AttributeError("`from_legacy_cache` of tuples is not in this version of transformers")
    return cls()


def _to_legacy(self: Any) -> tuple[tuple[Tensor, Tensor], ...]:
    """`to_legacy_cache`: keys and values of each layer."""
    return tuple((layer.keys, layer.values) for layer in self.layers)


def _usable_length(self: Any, new_seq_length: int, layer_idx: int = 0) -> int:
    """`get_usable_length`: of a cache without a limit, what it holds."""
    return int(self.get_seq_length(layer_idx))


def _cache_given_back(error: AttributeError) -> bool:
    """Give caches of transformers a method back that they had."""
    kind = error.obj if isinstance(error.obj, type) else type(error.obj)
    name = str(error.name)
    if kind.__module__ != "transformers.cache_utils" or hasattr(kind, name):
        return False
    setattr(kind, name, _OF_CACHES[name])
    _made.undone_by(functools.partial(delattr, kind, name))
    _made.tell(f"`{name}`, which caches of this version of transformers lack, is given back")
    return True


def _setting_given_back(error: AttributeError) -> bool:
    """Give configurations of transformers an entry back that all of them had."""
    base = next((c for c in type(error.obj).__mro__ if c.__module__ == "transformers.configuration_utils" and c.__name__.lower() == _BASE), None)
    name = str(error.name)
    if base is None or name in vars(base):
        return False
    setattr(base, name, _OF_SETTINGS[name])
    _made.undone_by(functools.partial(delattr, base, name))
    given = "its `n_positions`" if name == "n_ctx" else f"`{_OF_SETTINGS[name]}`"
    _made.tell(f"`{name}`, which configurations of this version of transformers may lack, is {given}, as by default before")
    return True


def _moved(error: ImportError) -> bool:
    """Give a module of transformers the names that another one of its modules has now."""
    said = _CANNOT.search(str(error))
    if said is None or error.name != "transformers.modeling_utils":
        return False
    there, here = importlib.import_module("transformers.pytorch_utils"), sys.modules[error.name]
    if not hasattr(there, said[1]) or hasattr(here, said[1]):
        return False
    setattr(here, said[1], getattr(there, said[1]))
    _made.undone_by(functools.partial(delattr, here, said[1]))
    _made.tell(f"`{said[1]}` of `{error.name}` is that of `transformers.pytorch_utils` in this version")
    return True


_METHODS = {"get_head_mask": _head_mask, "invert_attention_mask": _inverted}
_OF_CACHES = {"from_legacy_cache": classmethod(_from_legacy), "to_legacy_cache": _to_legacy, "get_usable_length": _usable_length}
_BASE = "pretrainedconfig"
_OF_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "decoder_start_token_id", "cross_attention_hidden_size")),
    **dict.fromkeys(("is_decoder", "add_cross_attention", "tie_encoder_decoder", "torchscript", "use_bfloat16"), False),
    "chunk_size_feed_forward": 0,
    "n_ctx": property(lambda self: self.n_positions),
}
_CANNOT = re.compile(r"cannot import name '(\w+)'")


def again() -> None:
    """The same for classes of the same names that were made since: a file was read once more."""
    for name, key in _left_out:
        _takes(name, key)


def _takes(name: str, key: str) -> bool:
    owner, method = name.rsplit(".", 1)
    found = [cls for cls in _classes(nn.Module) if cls.__qualname__ == owner and _lacks(vars(cls).get(method), key)]
    for cls in found:
        _made.undone_by(functools.partial(setattr, cls, method, vars(cls)[method]))
        setattr(cls, method, _without(vars(cls)[method], key))
    return bool(found)


def _classes(base: type[Any]) -> Iterator[type[Any]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _classes(cls)


def _lacks(function: Any, key: str) -> bool:
    """Is this a function without such a keyword?"""
    if not inspect.isfunction(function):
        return False
    known = inspect.signature(function).parameters.values()
    return key not in getattr(function, _LEFT_OUT, ()) and all(p.name != key and p.kind is not p.VAR_KEYWORD for p in known)


def _says_a_mask(key: str, given: Mapping[str, Any]) -> bool:
    """Is it only a hint of what the mask beside it is? https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html"""
    return key == "is_causal" and any(given.get(name) is not None for name in ("src_mask", "tgt_mask", "attn_mask", "mask"))


def _without(function: Any, key: str) -> Any:
    """The function, with a keyword left out that asks for nothing."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if key in kwargs and (kwargs[key] is None or kwargs[key] is False or _says_a_mask(key, kwargs)):
            _made.tell(f"`{function.__qualname__}` takes no `{key}`: it is `{kwargs.pop(key)}`, and left out")
        return function(*args, **kwargs)

    setattr(called, _LEFT_OUT, (key, *getattr(function, _LEFT_OUT, ())))
    return called


__all__ = ["again", "leave_out", "notes", "of_another_version", "taken_back"]
