"""The disputes that say a label's settings do not run: they are run, small and on real tensors, without any of our code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from tests.zoo_score import disputes

DEEPSEEK = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "n_routed_experts": 4, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}  # fmt: skip
SMALL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "deepseek_v2": ("DeepseekV2Config", "DeepseekV2ForCausalLM", DEEPSEEK),
    "deepseek_v2#noqlora": ("DeepseekV2Config", "DeepseekV2ForCausalLM", {**DEEPSEEK, "q_lora_rank": None}),
    "dbrx": (
        "DbrxConfig",
        "DbrxForCausalLM",
        {"vocab_size": 60, "d_model": 32, "n_heads": 2, "n_layers": 2, "max_seq_len": 32, "attn_config": {"rope_theta": 10000.0}},
    ),
    "flaubert#pre_norm": ("FlaubertConfig", "FlaubertModel", {"vocab_size": 60, "emb_dim": 32, "n_layers": 2, "n_heads": 2, "pre_norm": True}),
}
"""Config class, model class, and the label's settings at small sizes."""


def test_every_such_dispute_is_run() -> None:
    assert {name for name, fields in disputes().items() if "forward" in fields} == set(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_it_does_not_run(name: str) -> None:
    config, model, settings = SMALL[name]
    built = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
    with pytest.raises((TypeError, RuntimeError)) as raised, torch.no_grad():
        built(torch.randint(0, 50, (2, 8)), use_cache=False)
    assert disputes()[name]["forward"]["found"] in str(raised.value)
