"""Replay: what was recorded on meta computes what eager computes, on the awkward blocks and on real architectures, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.awkward.table import CASES, Case
from tests.capture.replay import same

SMALL = {
    "hidden_size": 48, "d_model": 48, "n_embd": 48, "dim": 48, "embed_dim": 48, "emb_dim": 48, "hidden_dim": 96, "intermediate_size": 80,
    "ffn_dim": 80,
    "encoder_ffn_dim": 80, "decoder_ffn_dim": 80, "d_ff": 80, "d_kv": 12, "n_inner": 80, "ffn_hidden_size": 80, "num_hidden_layers": 2,
    "n_layer": 2, "n_layers": 2, "num_layers": 2, "num_decoder_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 131,
    "head_dim": 12,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "num_key_value_heads": 4, "moe_intermediate_size": 40, "num_local_experts": 4, "num_experts": 4, "embedding_size": 48,
    "max_position_embeddings": 64, "n_positions": 64, "rotary_dim": 12, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "sliding_window": 8, "image_size": 32, "patch_size": 8,
}
"""Config fields by their usual names, and a small value of each."""

TYPES = [
    "gpt2", "gpt_neox", "openai-gpt", "opt", "bloom", "gptj", "codegen", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2",
    "gemma3_text", "olmo", "olmo2", "phi", "phi3", "starcoder2", "granite", "cohere", "cohere2", "glm", "glm4", "smollm3", "arcee",
    "ernie4_5", "helium", "seed_oss", "mpt", "persimmon", "bert", "roberta", "electra", "distilbert", "albert", "roformer",
    "megatron-bert", "xlm-roberta", "bart", "mbart", "marian", "pegasus", "t5", "mt5", "m2m_100", "plbart", "vit", "deit", "beit",
    "dinov2", "ijepa", "biogpt", "xglm",
]


def _filled(model: nn.Module) -> nn.Module:
    """Weights of order one, by a seed; small enough that a chain of blocks stays finite."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return model.eval()


ROUNDED = {"addcmul", "length from mask", "built-in pre", "built-in post", "built-in both", "lstm", "bloom"}
"""Fused kernels on the CPU, their parts on meta: the same mathematics, summed in another order."""


def _settled(case: Case) -> bool:
    """No guess, no randomness, and no compiler to wait for."""
    return not case.tolerated and case.name not in ("dropped", "compiled")


@pytest.mark.by_the_day
@pytest.mark.parametrize("case", [c for c in CASES if _settled(c)], ids=lambda c: c.name)
def test_awkward(case: Case) -> None:
    """Every awkward block that needs no guess replays."""
    model = _filled(case.make())
    with torch.device("meta"):
        meta = case.make().eval()
    generator = torch.Generator().manual_seed(1)
    args = tuple(torch.randn(t.shape, generator=generator) if t.device.type == "meta" else t for t in case.arguments())
    assert all(isinstance(t, Tensor) for t in args)
    assert same(model, meta, args, {}, rounded=case.name in ROUNDED) == ""


@pytest.mark.by_the_day
@pytest.mark.parametrize("kind", TYPES)
def test_architecture(kind: str) -> None:
    """The graph of a small config of each type replays on real weights."""
    transformers = pytest.importorskip("transformers")
    from screen.capture.build.build import build
    from screen.graph.target import parse

    config = transformers.CONFIG_MAPPING[kind]()
    changes = {k: v for k, v in SMALL.items() if isinstance(getattr(config, k, None), int) and k not in getattr(config, "attribute_map", {})}
    built = build(parse(f"hf:{kind}"), set=changes, inputs=(), depth=None)[0]
    torch.manual_seed(0)
    real = type(built.model)(built.model.config).eval()
    generator = torch.Generator().manual_seed(1)

    def made(value: Any) -> Any:
        return torch.randn(value.shape, generator=generator) if isinstance(value, Tensor) and value.device.type == "meta" else value

    args, kwargs = torch.utils._pytree.tree_map(made, (built.args, built.kwargs))
    assert same(real, built.model, args, kwargs, rounded=kind in ROUNDED) == ""
