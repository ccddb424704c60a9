"""`--width D`: the settings that give a config's model the hidden size D and leave its program as it is.

f = D / hidden size. Numbers of heads are multiplied by f (so that the size of a head and the ratio of heads to key-value heads stay), and so are
the sizes inside (feed-forward, experts, latent ranks, states' channels); everything else is kept. Which fields these are is decided in two steps:
their names make them candidates, and what they do decides. Of two traces, at both widths, the ops must be the same, and a size without any axis
that went from (a small multiple of) its old to its new value is left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from screen.capture.build.built import Built
from screen.capture.build.sizes import Sizes, each
from screen.errors import ScreenError, UsageError
from screen.graph import Graph
from screen.graph.target import TargetSpec

_MAIN = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim")
"""Names of the hidden size, after a config's own `attribute_map`."""
_SIZES = re.compile(
    r"(hidden_sizes?|intermediate_sizes?|d_model|n_embd|embed_dims?|emb_dim|^dim|hidden_dim|[dn]_inner|d_ff|dim_ff|ffn_dim|mlp_dim|dim_feedforward"
    r"|feedforward_dim|feed_forward_size|intermediate_size_mlp|intermediate_dim|lora_rank|lru_width|dt_rank|time_step_rank|^embedding_size"
    r"|word_embed_proj_dim|d_ssm|expert_dim|bottleneck_size|feature_size|hidden_size_per_layer_input)$"
)
_COUNTS = re.compile(
    r"((attention|key_value|kv|key|value|mamba|self|cross)_heads|^(n|num)_heads?|decoder_num_heads|mamba_n_heads)(_per_layer|_per_stage)?$"
)
MULTIPLES = range(1, 9)
"""An axis may hold a field's value so many times (q, k and v of one weight; an expansion by 4)."""

Make = Callable[[Mapping[str, Any]], Built]
"""A model with these settings beside the user's own."""


def sizes_of(spec: TargetSpec, settings: Mapping[str, Any]) -> Sizes:
    """What goes with the width in the config that a target's class takes. Raises `UsageError`."""
    config, taken = _configs(spec, settings)
    parts = [(prefix, part) for prefix, part in _parts(config) if taken is config or any(part is p for _, p in _parts(taken))]
    main = next((n for part in (taken, *_texts(taken), *(p for _, p in parts)) if (n := _main(part)) is not None), None)
    if main is None:
        raise UsageError("`--width` needs a config with one hidden size", f"`{type(taken).__name__}` has none", "Name the sizes with `--set`")
    sizes, counts = dict[str, Any](), dict[str, Any]()
    for prefix, part in parts:
        for name, value in part.to_dict().items():
            kind = counts if _COUNTS.search(name) else sizes if _SIZES.search(name) else None
            if kind is not None and each(value):
                kind[prefix + name] = value
    return Sizes(main, sizes, counts)


def _configs(spec: TargetSpec, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The config of a target, and the part of it that its class takes."""
    from screen.capture.build import transformers as hf, libraries

    libraries.transformers()
    if spec.kind == "hf":
        model_type = hf.known_type(spec.model_type or "")
        config, _ = hf.default_config(model_type, dict(settings))
    else:
        model_type, config, _ = hf.config_from_file(spec.path or "", dict(settings))
    cls = hf.class_of(model_type, config, spec.class_name)
    return config, hf.config_for(cls, config, model_type, asked=spec.class_name is not None)


def resized(label: str, found: Sizes, width: int, make: Make) -> dict[str, Any]:
    """The settings of the model at another width: same ops, and only fields changed that change an axis. Raises `UsageError`."""
    own = {**found.sizes, **found.counts}
    wanted = {k: v for k, v in found.settings(width).items() if v != own[k]}
    before = traced(make({}))
    after = _made(label, make, wanted, before, width)
    kept = {k: v for k, v in wanted.items() if k in found.counts or _moves(own[k], v, before, after)}
    if len(kept) < len(wanted):
        _made(label, make, kept, before, width)
    return kept


def _made(label: str, make: Make, wanted: Mapping[str, Any], before: Graph, width: int) -> Graph:
    """The graph of a model with these fields, whose program is the same."""
    found = _tried(make, wanted, before)
    if not isinstance(found, str):
        return found
    culprit = next((k for k in wanted if not isinstance(_tried(make, {n: v for n, v in wanted.items() if n != k}, before), str)), "")
    named = f"`{culprit}` could not be set to {wanted[culprit]}" if culprit else "no single field is the reason"
    advice = "Try a width nearer to its own, or name the sizes with `--set`"
    raise UsageError(f"`{label}` must run as the same program with hidden size {width}", f"{found}: {named}", advice)


def _tried(make: Make, wanted: Mapping[str, Any], before: Graph) -> Graph | str:
    """The graph of a model with these fields, or why there is none with the same program."""
    try:
        after = traced(make(wanted))
    except ScreenError as error:
        return error.found
    except Exception as error:  # the user's config class or forward says in its own way that sizes do not fit
        return f"it raised `{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}`"
    return after if same_ops(before, after) else "its forward calls other ops then"


def traced(built: Built) -> Graph:
    """The program of a model."""
    from screen.capture.trace.tracer import trace

    return trace(built.model, built.args, built.kwargs, initialisers=built.initialisers)


def same_ops(one: Graph, other: Graph) -> bool:
    """Whether two graphs call the same ops on the same values, whatever their sizes, and both to their end or to the same failure."""
    if len(one.nodes) != len(other.nodes) or (one.failure is None) != (other.failure is None):
        return False
    return all(a.op == b.op and a.inputs == b.inputs for a, b in zip(one.nodes, other.nodes, strict=True))


def _moves(old: Any, new: Any, before: Graph, after: Graph) -> bool:
    """Whether an axis went from a multiple of an old value to the same multiple of the new one."""
    pairs = {(k * a, k * b) for a, b in zip(each(old), each(new), strict=True) if a != b for k in MULTIPLES}
    return any(
        (a, b) in pairs for one, other in zip(before.nodes, after.nodes, strict=True) if one.shape and other.shape
        for a, b in zip(one.shape, other.shape, strict=False)
    )  # fmt: skip


def _parts(config: Any) -> Iterator[tuple[str, Any]]:
    """A config and all below it, each with the prefix of its fields in `--set`."""
    yield "", config
    for name, part in vars(config).items():
        if callable(getattr(part, "to_diff_dict", None)) and hasattr(part, "model_type"):
            for prefix, inner in _parts(part):
                yield f"{name}.{prefix}", inner


def _texts(config: Any) -> list[Any]:
    get = getattr(config, "get_text_config", None)
    return [get()] if callable(get) else []


def _main(config: Any) -> int | None:
    names = getattr(config, "attribute_map", {})
    found = (getattr(config, names.get(name, name), None) for name in _MAIN)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool)), None)


__all__ = ["resized", "same_ops", "sizes_of", "traced"]
