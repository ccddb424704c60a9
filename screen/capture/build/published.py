"""The sizes of published models whose names a file asks a hub for, `T5Config.from_pretrained("google/t5-v1_1-base")`: what it needs is a width.

T5: Raffel et al. 2020, section 3.7 (https://jmlr.org/papers/v21/20-074.html); 1.1: Shazeer 2020 and
https://github.com/google-research/text-to-text-transfer-transformer/blob/main/released_checkpoints.md. BERT: Devlin et al. 2019, section 3, and the
vocabularies of its released files. RoBERTa: Liu et al. 2019, table 9. GPT-2: Radford et al. 2019, table 2. Names are those that `transformers` lists.
Only a configuration is made of them: the weights of a published model are never stood in for.
"""

from __future__ import annotations

from typing import Any


def _t5(width: int, hidden: int, layers: int, heads: int, key: int = 64, **more: Any) -> tuple[str, dict[str, Any]]:
    sizes = {"d_model": width, "d_ff": hidden, "num_layers": layers, "num_decoder_layers": layers, "num_heads": heads, "d_kv": key}
    return "t5", {**sizes, "vocab_size": 32128, **more}


def _bert(kind: str, width: int, layers: int, vocabulary: int, **more: Any) -> tuple[str, dict[str, Any]]:
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers, "num_attention_heads": width // 64}
    return kind, {**sizes, "vocab_size": vocabulary, **more}


def _gpt2(width: int, layers: int) -> tuple[str, dict[str, Any]]:
    return "gpt2", {"n_embd": width, "n_layer": layers, "n_head": width // 64, "vocab_size": 50257, "n_positions": 1024}


_FIRST = {"small": _t5(512, 2048, 6, 8), "base": _t5(768, 3072, 12, 12), "large": _t5(1024, 4096, 24, 16), "3b": _t5(1024, 16384, 24, 32, 128),
          "11b": _t5(1024, 65536, 24, 128, 128)}  # fmt: skip
_GATED: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
_SECOND = {"small": _t5(512, 1024, 8, 6, **_GATED), "base": _t5(768, 2048, 12, 12, **_GATED), "large": _t5(1024, 2816, 24, 16, **_GATED),
           "xl": _t5(2048, 5120, 24, 32, **_GATED), "xxl": _t5(4096, 10240, 24, 64, **_GATED)}  # fmt: skip
_ROBERTA = {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"t5-{size}": config for size, config in _FIRST.items()},
    **{f"{family}-{size}": config for family in ("t5-v1_1", "flan-t5") for size, config in _SECOND.items()},
    "bert-base-uncased": _bert("bert", 768, 12, 30522),
    "bert-large-uncased": _bert("bert", 1024, 24, 30522),
    "bert-base-cased": _bert("bert", 768, 12, 28996),
    "bert-large-cased": _bert("bert", 1024, 24, 28996),
    "roberta-base": _bert("roberta", 768, 12, 50265, **_ROBERTA),
    "roberta-large": _bert("roberta", 1024, 24, 50265, **_ROBERTA),
    "gpt2": _gpt2(768, 12),
    "gpt2-medium": _gpt2(1024, 24),
    "gpt2-large": _gpt2(1280, 36),
    "gpt2-xl": _gpt2(1600, 48),
}
"""The name without its owner -> the type in `transformers`, and its sizes."""
OWNERS = ("", "google", "google-t5", "google-bert", "openai-community", "FacebookAI")
"""Who publishes them under these names: a model of somebody else's may have any sizes."""


def config_named(name: Any) -> tuple[str, dict[str, Any]] | None:
    """The type and the sizes of a published model; None for any other."""
    owner, _, own = name.rpartition("/") if isinstance(name, str) else ("?", "", "")
    return CONFIGS.get(own) if owner in OWNERS else None


__all__ = ["CONFIGS", "config_named"]
