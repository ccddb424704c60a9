"""Named recipes against the architectures that were trained with them: no production architecture is expected to fail under its own recipe.

An architecture is a `transformers` type with the sizes that the source of the recipe states; what these do not state is the type's default. Of
recipes without an architecture there that is theirs (Gopher, PaLM, GLM, …) nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from screen.child.protocol import Request
from screen.errors import UsageError
from screen.facts import derive
from screen.graph.target import did_you_mean
from screen.facts.record import Facts
from screen.outcomes.build import Info
from screen.outcomes.fit import Known
from screen.outcomes.rows import Row
from screen.recipe.read import recipe_of
from screen.verdict.channels import fold
from screen.verdict.discover import run_rules
from screen.verdict.risk import features_of
from screen.verdict.risk.setting import setting_of

MOST_CONDITIONAL = 0.35
"""Share of the architectures that may stay conditional."""


def _gpt(width: int, layers: int, heads: int, **more: object) -> tuple[str, dict[str, Any]]:
    return "hf:gpt2", {"n_embd": width, "n_layer": layers, "n_head": heads, **more}


def _llama(kind: str, width: int, layers: int, heads: int, hidden: int, **more: object) -> tuple[str, dict[str, Any]]:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": hidden}
    return f"hf:{kind}", {**sizes, **more}


ARCHITECTURES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "bert-base": ("hf:bert", {}),
    "bert-large": _llama("bert", 1024, 24, 16, 4096),
    "bloom-176b": ("hf:bloom", {"hidden_size": 14336, "n_layer": 70, "n_head": 112}),
    "cerebras-gpt-111m": _gpt(768, 10, 12, n_inner=3072, n_positions=2048),
    "deepseek-v2-lite": _llama(
        "deepseek_v2", 2048, 27, 16, 10944, num_key_value_heads=16, q_lora_rank=None, kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128,
        v_head_dim=128, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1,
    ),  # arXiv:2405.04434, appendix B.1; 10944 by its config.json. `num_experts_per_tok` has no default, and nothing runs without it
    "deepseek-v3": ("hf:deepseek_v3", {}),
    "deit-base": ("hf:deit", {}),
    "falcon-7b": ("hf:falcon", {}),
    "gpt-j-6b": ("hf:gptj", {}),
    "gpt-neox-20b": ("hf:gpt_neox", {}),
    "gpt1": ("hf:openai-gpt", {}),
    "gpt2-small": ("hf:gpt2", {}),
    "gpt2-xl": _gpt(1600, 48, 25),
    "gpt3-125m": _gpt(768, 12, 12, n_positions=2048),
    "gpt3-6.7b": _gpt(4096, 32, 32, n_positions=2048),
    "gpt3-175b": _gpt(12288, 96, 96, n_positions=2048),
    "llama-7b": ("hf:llama", {}),
    "llama-65b": _llama("llama", 8192, 80, 64, 22016),
    "llama-2-7b": ("hf:llama", {}),
    "llama-2-70b": _llama("llama", 8192, 80, 64, 28672, num_key_value_heads=8),
    "llama-3-8b": _llama("llama", 4096, 32, 32, 14336, num_key_value_heads=8, vocab_size=128256),
    "llama-3-405b": _llama("llama", 16384, 126, 128, 53248, num_key_value_heads=8, vocab_size=128256),
    "mamba-130m": ("hf:mamba", {"hidden_size": 768, "num_hidden_layers": 24}),
    "megatron-gpt2-8.3b": _gpt(3072, 72, 32),
    "mt-nlg-530b": _gpt(20480, 105, 128, n_positions=2048),
    "olmo-7b": ("hf:olmo", {}),
    "olmo-2-7b": ("hf:olmo2", {}),
    "opt-175b": (
        "hf:opt", {"hidden_size": 12288, "num_hidden_layers": 96, "num_attention_heads": 96, "ffn_dim": 49152, "word_embed_proj_dim": 12288}
    ),
    "pythia-160m": _llama("gpt_neox", 768, 12, 12, 3072),
    "pythia-6.9b": _llama("gpt_neox", 4096, 32, 32, 16384),
    "qwen-7b": _llama("qwen2", 4096, 32, 32, 11008),
    "roberta-base": ("hf:roberta", {}),
    "roberta-large": _llama("roberta", 1024, 24, 16, 4096),
    "smollm3-3b": ("hf:smollm3", {}),
    "t5-base": ("hf:t5", {"d_model": 768, "num_layers": 12, "num_heads": 12, "d_ff": 3072}),
    "tinyllama-1.1b": _llama("llama", 2048, 22, 32, 5632, num_key_value_heads=4),
    "vit-b16": ("hf:vit", {}),
    "whisper-small": (
        "hf:whisper",
        {"d_model": 768, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
         "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072},
    ),
}  # fmt: skip
"""Name of a recipe -> target and settings of the architecture that it trained."""


@dataclass(frozen=True)
class Said:
    """What is said of one architecture under its recipe."""

    name: str
    verdict: str
    """`not judged` where it could not be built."""
    risk: float | None = None
    lr: float | None = None
    """Of the recipe."""
    tolerated: float | None = None
    """Up to which the whole is expected to train."""
    why: str = ""
    """Of a verdict that is not stable: the channel that decides, and its reason."""


def judged(names: Iterable[str] = (), progress: Callable[[str], None] = lambda text: None) -> Iterator[Said]:
    """Each architecture under its own recipe. Raises `UsageError` without transformers, and for a name that is not there."""
    if find_spec("transformers") is None:
        raise UsageError("`transformers` must be installed, whose architectures are built", "it is not", "pip install transformers")
    wanted = tuple(names) or tuple(ARCHITECTURES)
    for name in wanted:
        if name not in ARCHITECTURES:
            raise UsageError("a name must be that of a recipe with an architecture", f"`{name}` is none", did_you_mean(name, list(ARCHITECTURES)))
    for name in wanted:
        progress(name)
        yield _judged(name)


def trained(progress: Callable[[str], None] = lambda text: None) -> tuple[list[Row], Known]:
    """The architectures in which a norm stands on every path of a stream, as runs that trained: published rows have few such trainings with a recipe
    that is stated as a whole."""
    rows, known = list[Row](), Known()
    for name in ARCHITECTURES:
        progress(name)
        facts = _facts(name)
        streams = features_of(facts) if isinstance(facts, Facts) else ()
        if any(f.identity is False for f in streams):
            recipe = recipe_of(name, "a preset").recipe
            known[name] = [(f, setting_of(recipe, f)[0]) for f in streams]
            rows.append(Row(name, "presets", "B", {}, False, None, ()))
    return rows, known


def _facts(name: str) -> Facts | str:
    """The facts of an architecture, or why there are none."""
    from screen.child.in_process import capture  # loads torch

    target, settings = ARCHITECTURES[name]
    captured = capture(Request(target, dict(settings)))
    graph = captured.models[0].graph if captured.models else None
    if graph is None:
        return captured.error.found if captured.error else "no graph came"
    return derive(graph)


def _judged(name: str) -> Said:
    facts, recipe = _facts(name), recipe_of(name, "a preset").recipe
    if isinstance(facts, str):
        return Said(name, "not judged", why=facts)
    verdict = fold(facts, run_rules(facts), Info(), recipe)
    state = {"unstable": "open", "unknown": "unknown", "conditional": "conditional"}.get(verdict.verdict)
    why = next((f"{c.id}: {c.reason}" for c in verdict.channels if c.state == state), "")
    seen = verdict.assessment
    return Said(name, verdict.verdict, None if seen is None else seen.risk, recipe.lr, None if seen is None else seen.lr, why)


__all__ = ["ARCHITECTURES", "MOST_CONDITIONAL", "Said", "judged", "trained"]
