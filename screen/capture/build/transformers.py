"""Targets of transformers: a model type or a config file, to a config, to a class, to a model on meta.

Class, in this order: the one asked for; `architectures[0]` of the config; the CausalLM, Seq2SeqLM, MaskedLM, base class that transformers
maps the type to; any other class it maps the type to; the last model in the modeling module that takes this config. Nothing is
downloaded and no remote code runs.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn

from screen.capture.build import libraries
from screen.capture.initial.buffers import Record
from screen.capture.initial.transformers import started
from screen.capture.initial.recorder import Recorder
from screen.capture.build.overrides import Whole, changes, nest, unknown
from screen.errors import LoadError, UsageError
from screen.graph.target import TargetSpec, did_you_mean


PREFERRED = ("MODEL_FOR_CAUSAL_LM", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM", "MODEL_FOR_MASKED_LM", "MODEL")
"""Auto mappings of transformers, in the order of the contract."""
KERNELS = {
    "_attn_implementation": re.compile(r"(paged\|)?(flash_attention_\d|kernels-community/[\w.@:-]*(flash|attn)[\w.@:-]*)"),
    "_experts_implementation": re.compile(r"deepgemm|sonicmoe|kernels-community/[\w.@:-]+"),
}
"""Field of a config -> values that name a kernel of what transformers itself computes."""


def build(spec: TargetSpec, settings: dict[str, Any]) -> tuple[nn.Module, Any, dict[str, list[Any]], Record, tuple[str, ...]]:
    """Model on meta, its config, what `settings` changed, its initialisers, and notes. Raises `UsageError` and `LoadError`."""
    cls, config, changed, notes = _chosen(spec, settings)
    recorder = Recorder()
    with torch.device("meta"), recorder, started(recorder):
        model = instantiate(cls, config)
    return model, config, changed, recorder.of(model), notes


def real(spec: TargetSpec, settings: dict[str, Any]) -> nn.Module:
    """The model with weights, as transformers starts it."""
    return instantiate(*_chosen(spec, settings)[:2])


def _chosen(spec: TargetSpec, settings: dict[str, Any]) -> tuple[type[nn.Module], Any, dict[str, list[Any]], tuple[str, ...]]:
    """The class of a target, the config that it takes, what `settings` changed, and notes."""
    config, changed, cls, model_type = _found(spec, settings)
    config = config_for(cls, config, model_type, asked=spec.class_name is not None)
    _no_cache(config)
    return cls, config, changed, _without_kernels(config)


def _found(spec: TargetSpec, settings: dict[str, Any]) -> tuple[Any, dict[str, list[Any]], type[nn.Module], str]:
    libraries.transformers()
    if spec.kind == "hf":
        model_type = known_type(spec.model_type or "")
        config, changed = default_config(model_type, settings)
    else:
        model_type, config, changed = config_from_file(spec.path or "", settings)
    return config, changed, class_of(model_type, config, spec.class_name), model_type


def known_type(text: str) -> str:
    """The model type as transformers spells it; `-` and `_` are the same."""
    names = _mappings("configuration_auto").CONFIG_MAPPING_NAMES
    if text in names:
        return text
    folded = {name.replace("-", "_").casefold(): name for name in names}
    found = folded.get(text.replace("-", "_").casefold())
    if found is None:
        raise UsageError("`hf:TYPE` must name a model type of the installed transformers", f"`{text}` is none", did_you_mean(text, names))
    return str(found)


def default_config(model_type: str, settings: dict[str, Any]) -> tuple[Any, dict[str, list[Any]]]:
    """The default config of a type with `settings` applied, and what they changed."""
    cls = _mappings("configuration_auto").CONFIG_MAPPING[model_type]
    base = cls()
    if not settings:
        return base, {}
    wanted = _merged(base, nest(settings), base.to_diff_dict, {})
    config = cls(**wanted)
    return config, _changed(base, config, settings)


def config_from_file(path: str, settings: dict[str, Any]) -> tuple[str, Any, dict[str, list[Any]]]:
    """Model type, config and changes of a JSON file. Raises `UsageError` and `LoadError`."""
    try:
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
    except (OSError, ValueError) as error:
        raise LoadError(f"`{path}` must be a JSON config of transformers", f"it cannot be read ({error})", file=path) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("model_type"), str):
        raise LoadError(f"`{path}` must be a config of transformers", "it has no `model_type`", 'Add `"model_type"`', file=path)
    names = _mappings("configuration_auto").CONFIG_MAPPING_NAMES
    if raw["model_type"] not in names:
        remote = " and asks for remote code, which is never run" if "auto_map" in raw else ""
        raise LoadError(
            f"`model_type` of `{path}` must be known to the installed transformers",
            f"`{raw['model_type']}` is not{remote}",
            did_you_mean(raw["model_type"], names) or "Give the modeling file itself: `path/modeling.py::Class`",
            file=path,
        )
    cls = _mappings("configuration_auto").CONFIG_MAPPING[raw["model_type"]]
    base = cls.from_dict(raw)
    if not settings:
        return raw["model_type"], base, {}
    config = cls.from_dict({**raw, **_merged(base, nest(settings), lambda: raw, raw)})
    return raw["model_type"], config, _changed(base, config, settings)


def _changed(base: Any, config: Any, settings: dict[str, Any]) -> dict[str, list[Any]]:
    """What the settings changed, the fields that follow from them (a list of layer types) included."""
    skip = {"transformers_version"}
    found = changes(base.to_dict(), config.to_dict())
    return {key: value for key, value in found.items() if key not in skip} if settings else {}


def _merged(base: Any, wanted: dict[str, Any], stated: Any, raw: dict[str, Any]) -> dict[str, Any]:
    """Arguments for a config class: `wanted` over what is `stated` in the sub-configs and dictionaries it reaches into.

    Only what differs from the defaults is repeated, so that derived fields (`layer_types`) follow the new values."""
    merged: dict[str, Any] = {}
    said = stated() if any(isinstance(v, dict) for v in wanted.values()) else {}
    for key, value in wanted.items():
        if not hasattr(base, key) and key not in raw and not isinstance(wanted, Whole):
            raise unknown(key, type(base).__name__, _fields(base))
        old: Any = getattr(base, key, None)
        if isinstance(value, dict) and _is_config(old):
            inner: Any = said.get(key) if isinstance(said.get(key), dict) else old.to_diff_dict()
            merged[key] = {**inner, "model_type": old.model_type, **_merged(old, value, old.to_diff_dict, inner)}
        elif isinstance(value, dict) and isinstance(old, dict):
            merged[key] = {**old, **value}
        else:
            merged[key] = value
    return merged


def _is_config(value: Any) -> bool:
    return callable(getattr(value, "to_diff_dict", None)) and hasattr(value, "model_type")


def _fields(config: Any) -> list[str]:
    return [*(k for k in config.to_dict() if not k.startswith("_")), *getattr(config, "attribute_map", {})]


def class_of(model_type: str, config: Any, wanted: str | None) -> type[nn.Module]:
    """The class to build. Raises `UsageError` and `LoadError`."""
    if wanted is not None:
        return _named(model_type, wanted)
    for name in (getattr(config, "architectures", None) or [])[:1]:
        found = _lookup(model_type, name)
        if found is not None:
            return found
    for name in _mapped(model_type):
        found = _lookup(model_type, name)
        if found is not None:
            return found
    models = [c for c in models_of(model_type) if _config_class(c) is type(config)]
    if not models:
        raise LoadError(
            f"Model type `{model_type}` must have a model that takes its config",
            f"transformers has none for `{type(config).__name__}`",
            f"Name a class: `hf:{model_type}:ClassName`",
        )
    return models[-1]


def _named(model_type: str, name: str) -> type[nn.Module]:
    found = _lookup(model_type, name)
    if found is None:
        known = [c.__name__ for m in modeling_modules(model_type) for c in _modules_in(m)]
        raise UsageError(f"`hf:{model_type}:ClassName` must name a model class of transformers", f"`{name}` is none", did_you_mean(name, known))
    return found


def _lookup(model_type: str, name: str) -> type[nn.Module] | None:
    """A class by name: from transformers, then from the modeling modules of the type."""
    owners: list[Any] = [libraries.transformers()]
    for owner in owners + modeling_modules(model_type):
        try:
            found = getattr(owner, name, None)
        except Exception:  # a class that needs a package that is not installed says so on access, in many ways
            continue
        if isinstance(found, type) and issubclass(found, nn.Module) and found.forward is not nn.Module.forward:
            return found
    return None


def _mapped(model_type: str) -> Iterator[str]:
    """Names of the classes that transformers maps a type to, preferred ones first."""
    auto = _mappings("modeling_auto")
    others = sorted(n for n in vars(auto) if n.startswith("MODEL_") and n.endswith("_MAPPING_NAMES"))
    for name in [*(f"{p}_MAPPING_NAMES" for p in PREFERRED), *others]:
        entry = getattr(auto, name, {}).get(model_type, ())
        yield from (entry,) if isinstance(entry, str) else entry


def models_of(model_type: str) -> list[type[nn.Module]]:
    """Models with a forward of their own in the modeling modules of a type, in the order of the source."""
    base = libraries.transformers().PreTrainedModel
    return [c for m in modeling_modules(model_type) for c in _modules_in(m) if issubclass(c, base) and c.forward is not nn.Module.forward]


def _modules_in(module: ModuleType) -> list[type[nn.Module]]:
    return [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, nn.Module) and c.__module__ == module.__name__]


def modeling_modules(model_type: str) -> list[ModuleType]:
    """The modules `modeling_*` beside the config class of a type; those that need a missing package are left out."""
    auto = _mappings("configuration_auto")
    package = f"transformers.models.{auto.model_type_to_module_name(model_type)}"
    try:
        folder = importlib.import_module(package)
    except ImportError:
        return []
    found = []
    for info in sorted(pkgutil.iter_modules(folder.__path__), key=lambda i: i.name):
        if info.name.startswith("modeling_"):
            try:
                found.append(importlib.import_module(f"{package}.{info.name}"))
            except Exception:  # an optional package is missing; the class asked for will then not be found
                continue
    return found


def config_for(cls: type[nn.Module], config: Any, model_type: str, asked: bool = True) -> Any:
    """The part of the config that `cls` takes. Raises `UsageError` when no part of it fits and the user `asked` for the class; transformers itself
    maps some types to the classes of others."""
    wanted = _config_class(cls)
    if wanted is None or isinstance(config, wanted):
        return config
    for part in sub_configs(config):
        if isinstance(part, wanted):
            return part
    if issubclass(wanted, type(config)):
        return wanted(**config.to_diff_dict())
    if not asked:
        return config
    raise UsageError(
        f"`{cls.__name__}` must take the config of `{model_type}` or a part of it",
        f"it takes a `{wanted.__name__}` and the type has a `{type(config).__name__}`",
    )


def sub_configs(config: Any) -> Iterator[Any]:
    """All configs below a config, breadth first."""
    level = [v for v in vars(config).values() if _is_config(v)]
    while level:
        yield from level
        level = [v for part in level for v in vars(part).values() if _is_config(v)]


def _config_class(cls: type[nn.Module]) -> type[Any] | None:
    found = getattr(cls, "config_class", None)
    return found if isinstance(found, type) else None


def _no_cache(config: Any) -> None:
    """Key-value caches are for generation: they are no part of the architecture."""
    for part in [config, *sub_configs(config)]:
        if hasattr(part, "use_cache"):
            part.use_cache = False


def _without_kernels(config: Any) -> tuple[str, ...]:
    """Where a config asks for a kernel of another package or of a hub, what transformers takes without one is taken: it computes the same. A note of
    each. Raises `LoadError` for what else a hub has: its code is never run."""
    notes: dict[str, None] = {}
    for part in [config, *sub_configs(config)]:
        for key, kernels in KERNELS.items():
            asked = getattr(part, key, None)
            if isinstance(asked, str) and kernels.fullmatch(asked):
                setattr(part, key, None)
                notes[f"`{key[1:]}` is taken without the kernel `{asked}`: what transformers has in its place computes the same"] = None
            elif isinstance(asked, str) and "/" in asked:
                required = f"`{key[1:]}` must be one of the installed transformers"
                raise LoadError(required, f"`{asked}` is code of a hub, which is never run", 'Take `"sdpa"` or `"eager"`')
    return tuple(notes)


def instantiate(cls: type[nn.Module], config: Any) -> nn.Module:
    """A model in the dtype of its config; a layer class gets index 0."""
    if hasattr(cls, "_from_config"):
        model: nn.Module = cls._from_config(config)
        return model
    if getattr(config, "_attn_implementation", "") is None:
        config._attn_implementation = "sdpa"  # what a whole model would choose
    extra = {
        p.name: 0
        for p in list(inspect.signature(cls).parameters.values())[1:]
        if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }
    return cls(config, **extra)


def _mappings(name: str) -> Any:
    return importlib.import_module(f"transformers.models.auto.{name}")


__all__ = [
    "build", "class_of", "config_for", "config_from_file", "default_config", "instantiate", "known_type", "modeling_modules", "models_of", "real",
    "sub_configs",
]  # fmt: skip
