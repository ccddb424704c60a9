"""Targets of transformers: types, classes, config files, settings; built on meta with inputs that run, and what initialises their weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="targets of transformers need it")

from screen.capture.build.build import Built, build
from screen.capture.build.transformers import real
from screen.capture.trace.tracer import trace
from screen.errors import LoadError, ScreenError, UsageError
from screen.facts import derive
from screen.graph.target import parse
from screen.structure.initial.laws import deviation
from screen.structure.types import Unknown

SMALL = {"num_hidden_layers": 2}
CLIP = {"text_config.num_hidden_layers": 1, "vision_config.num_hidden_layers": 1}
WHISPER = {"encoder_layers": 1, "decoder_layers": 1}
VISION = "Qwen2VisionTransformerPretrainedModel"
NO_CACHE = {"use_cache": False}


def built(target: str, *, inputs: tuple[str, ...] = (), depth: int | None = None, **settings: Any) -> Built:
    [b] = build(parse(target), set=settings, inputs=inputs, depth=depth)
    return b


def shapes(b: Built) -> dict[str, Any]:
    return {k: tuple(v.shape) if isinstance(v, torch.Tensor) else v for k, v in b.kwargs.items()}


@pytest.mark.by_the_day
@pytest.mark.parametrize(
    ("target", "settings", "expected_class", "expected"),
    [
        ("hf:llama", SMALL, "LlamaForCausalLM", {"input_ids": (2, 16), **NO_CACHE}),
        ("hf:gpt2:GPT2Model", {"n_layer": 1}, "GPT2Model", {"input_ids": (2, 16), **NO_CACHE}),
        ("hf:xlm_roberta:XLMRobertaModel", SMALL, "XLMRobertaModel", {"input_ids": (2, 16), **NO_CACHE}),
        ("hf:gpt-neo", {"num_layers": 1, "attention_types": [[["global"], 1]]}, "GPTNeoForCausalLM", {"input_ids": (2, 16), **NO_CACHE}),
        ("hf:albert", SMALL, "AlbertForMaskedLM", {"input_ids": (2, 16)}),
        ("hf:t5", {"num_layers": 1}, "T5ForConditionalGeneration", {"input_ids": (2, 16), "decoder_input_ids": (2, 17), **NO_CACHE}),
        ("hf:vit", SMALL, "ViTModel", {"pixel_values": (2, 3, 224, 224)}),
        ("hf:clip", CLIP, "CLIPModel", {"input_ids": (2, 16), "pixel_values": (2, 3, 224, 224)}),
        ("hf:wav2vec2", SMALL, "Wav2Vec2Model", {"input_values": (2, 12800)}),
        ("hf:whisper:WhisperModel", WHISPER, "WhisperModel", {"input_features": (2, 80, 3000), "decoder_input_ids": (2, 17), **NO_CACHE}),
        ("hf:audio-spectrogram-transformer", SMALL, "ASTModel", {"input_values": (2, 1024, 128)}),
        (f"hf:qwen2_vl:{VISION}", {"vision_config.depth": 1}, VISION, {"hidden_states": (108, 1176), "grid_thw": (2, 3)}),
        ("hf:owlvit_text_model", SMALL, "OwlViTTextModel", {"input_ids": (2, 13)}),
    ],
)  # fmt: skip
def test_class_and_inputs_follow_from_the_config(target: str, settings: dict[str, Any], expected_class: str, expected: dict[str, Any]) -> None:
    b = built(target, **settings)
    assert b.info.model_class == expected_class and shapes(b) == expected
    assert trace(b.model, b.args, b.kwargs).failure is None


def test_models_are_on_meta_in_eval_and_of_any_size() -> None:
    b = built("hf:llama", hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128, num_key_value_heads=8)
    assert b.info.parameters > 400e9 and {p.device.type for p in b.model.parameters()} == {"meta"} and not b.model.training


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("hf:lama", "Did you mean `llama`"),
        ("hf:bert:BertModle", "Did you mean `BertModel`"),
        ("hf:bert:GPT2Model", "it takes a `GPT2Config` and the type has a `BertConfig`"),
    ],
)
def test_wrong_names_get_the_nearest(target: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        built(target)


def test_a_class_of_a_part_gets_the_part_of_the_config() -> None:
    b = built("hf:clip:CLIPVisionModel", **{"vision_config.num_hidden_layers": 3})
    assert (
        b.info.model_class == "CLIPVisionModel"
        and len(b.model.vision_model.encoder.layers if hasattr(b.model, "vision_model") else b.model.encoder.layers) == 3
    )


def test_a_layer_of_transformers_is_a_block() -> None:
    b = built("hf:bert:BertLayer", depth=24)
    assert b.info.block and b.info.depth == 24 and shapes(b) == {"hidden_states": (2, 16, 768)}


def test_a_whole_model_has_no_depth_option() -> None:
    with pytest.raises(UsageError, match="a whole model of depth 2"):
        built("hf:llama", depth=3, **SMALL)


# -- settings --------------------------------------------------------------------------------------------------------------------------


def test_settings_reach_into_parts_and_every_change_is_reported() -> None:
    b = built("hf:clip", **{"text_config.num_hidden_layers": 3})
    assert len(b.model.text_model.encoder.layers if hasattr(b.model.text_model, "encoder") else b.model.text_model.layers) == 3
    assert b.info.changed == {"text_config.num_hidden_layers": [12, 3]}


def test_what_follows_from_a_setting_follows() -> None:
    b = built("hf:gemma2", num_hidden_layers=3)
    assert len(b.model.config.layer_types) == 3 and b.info.changed["num_hidden_layers"] == [26, 3]


def test_other_names_of_a_field_are_known() -> None:
    assert len(built("hf:gpt2", num_hidden_layers=1).model.transformer.h) == 1


def test_an_unknown_setting_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean `num_hidden_layers`"):
        built("hf:llama", num_hiden_layers=1)
    with pytest.raises(UsageError, match="it has no `widht`"):
        built("hf:clip", **{"text_config.widht": 1})


# -- config files ----------------------------------------------------------------------------------------------------------------------


def write(folder: Path, **config: Any) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder / "config.json")


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def test_architectures_and_dtype_of_a_config_decide(tmp_path: Path) -> None:
    path = write(tmp_path, **LLAMA, architectures=["LlamaForSequenceClassification"], dtype="bfloat16")
    for target in (path, str(tmp_path)):
        b = built(target)
        assert b.info.model_class == "LlamaForSequenceClassification" and b.info.dtype == "bfloat16" and b.info.kind == "config"
    assert built(path + "::LlamaModel").info.model_class == "LlamaModel"


def test_settings_go_over_a_config_file(tmp_path: Path) -> None:
    b = built(write(tmp_path, **LLAMA), num_hidden_layers=1)
    assert b.info.changed == {"num_hidden_layers": [2, 1]} and b.model.config.hidden_size == 64


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"hidden_size": 3}, "has no `model_type`"),
        ({"model_type": "lama"}, "Did you mean `llama`"),
        ({"model_type": "of_my_own", "auto_map": {"AutoModel": "x.Y"}}, "asks for remote code, which is never run"),
    ],
)
def test_configs_that_cannot_be_used_are_refused(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        built(write(tmp_path, **config))


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ScreenError, match="cannot be read"):
        built(str(tmp_path))


# -- inputs of the user ----------------------------------------------------------------------------------------------------------------


def test_a_stated_input_replaces_one_and_keeps_the_others() -> None:
    b = built("hf:t5", inputs=("decoder_input_ids=int64[2,5]",), num_layers=1)
    assert shapes(b) == {"input_ids": (2, 16), "decoder_input_ids": (2, 5), "use_cache": False}


def test_ids_are_no_special_tokens() -> None:
    ids = built("hf:gpt2", n_layer=1, bos_token_id=5, eos_token_id=7).kwargs["input_ids"]
    assert not {5, 7} & set(ids.flatten().tolist())


# -- initialisers ----------------------------------------------------------------------------------------------------------------------


def law(b: Built, name: str) -> list[tuple[str, tuple[object, ...]]]:
    return [(step.op, step.args) for step in dict(b.initialisers)[name]]


def test_the_initialisation_of_transformers_is_recorded() -> None:
    b = built("hf:llama", initializer_range=0.03, **SMALL)
    for layer in range(2):
        assert law(b, f"model.layers.{layer}.self_attn.q_proj.weight")[-1] == ("normal_", (0.0, 0.03))
        assert set(law(b, f"model.layers.{layer}.input_layernorm.weight")) == {("fill_", (1.0,))}


def test_a_law_that_depends_on_the_depth_is_recorded() -> None:
    b = built("hf:gpt2", n_layer=8)
    history = law(b, "transformer.h.0.attn.c_proj.weight")
    assert [op for op, _ in history] == ["normal_"] * 3
    assert [args[1] for _, args in history] == [0.02, 0.02, pytest.approx(0.02 / 4)]  # what was overwritten stays in the record


def test_blocks_that_were_initialised_more_or_less_often_start_alike() -> None:
    """GPT-2's blocks differ in how often the same law was applied: the recursion takes the calls that count."""
    b = built("hf:gpt2", n_layer=3)
    facts = derive(trace(b.model, b.args, b.kwargs, initialisers=b.initialisers))
    found = facts.recursion(facts.streams[0])
    assert not isinstance(found, Unknown), found.reason


def test_a_twin_takes_no_more_than_its_own_call_did() -> None:
    """T5's attention writes to queries after the maps were filled: maps of the same shape in later layers were never scaled as queries are."""
    sizes = {"num_layers": 2, "d_model": 128, "num_heads": 4, "d_kv": 32, "d_ff": 256, "vocab_size": 64}
    record = dict(built("hf:t5", **sizes).initialisers)
    for stack in ("encoder", "decoder"):
        for layer in range(2):
            attention = f"{stack}.block.{layer}.layer.0.SelfAttention"
            assert [i.args[1] for i in record[f"{attention}.k.weight"] if i.op == "normal_"] == [1.0, 128**-0.5]
            assert [i.args[1] for i in record[f"{attention}.q.weight"] if i.op == "normal_"] == [1.0, (128 * 32) ** -0.5]


def test_a_head_that_becomes_the_embedding_leaves_the_embedding_as_it_was() -> None:
    """Transformers fills all weights and ties then. ModernBERT fills its head by the depth, from the model that holds it; the order of the two in
    time decides nothing."""
    sizes = {"num_hidden_layers": 8, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "vocab_size": 500, "pad_token_id": 0}
    for tied in (True, False):
        settings = {**sizes, "cls_token_id": 1, "sep_token_id": 2, "tie_word_embeddings": tied}
        b = built("hf:modernbert", **settings)
        torch.manual_seed(0)
        weights = dict(real(parse("hf:modernbert"), settings).named_parameters())
        heads = {"model.embeddings.tok_embeddings.weight", *(() if tied else ("decoder.weight",))}
        for name in heads:
            found = deviation(dict(b.initialisers)[name], *weights[name].shape)
            assert found == pytest.approx(float(weights[name].detach().std()), rel=0.05), (tied, name)
        assert b.model.decoder.weight is b.model.model.embeddings.tok_embeddings.weight or not tied


def test_kernels_are_those_of_transformers_and_code_of_a_hub_is_none() -> None:
    for asked in ("flash_attention_2", "kernels-community/flash-attn3@main:f"):
        b = built("hf:llama", **SMALL, _attn_implementation=asked)
        assert f"without the kernel `{asked}`" in b.info.notes[0]
    assert not built("hf:llama", **SMALL, _attn_implementation="eager").info.notes
    with pytest.raises(LoadError, match="code of a hub, which is never run"):
        built("hf:llama", **SMALL, _attn_implementation="somebody/attention")
