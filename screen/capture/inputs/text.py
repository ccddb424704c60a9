"""Rows of the table of inputs: tokens, masks, states, and what goes with them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from screen.capture.inputs.context import BATCH, Lookup
from screen.capture.inputs.registry import GRID, row
from screen.capture.inputs.vision import channels, flat_patch, gridded, sides

ENTITIES = 5
"""Entities named in the text."""


@row("input_ids", main=True)
def _input_ids(look: Lookup) -> Iterator[Tensor]:
    yield look.ids(_placed(look) if "image_embeds_position_mask" in look.parameters else look.tokens)
    books = look.get("num_codebooks", "n_codes_total", "num_channels") if "pixel_values" not in look.parameters else None
    if isinstance(books, int) and books > 1:  # one id for each code book
        yield look.ids(look.tokens * books).reshape(BATCH, look.tokens, books)
        yield look.ids(look.tokens * books).reshape(BATCH, books, look.tokens)
        yield look.ids(look.tokens, batch=BATCH * books)
        yield look.ids(look.tokens * (books + 1)).reshape(BATCH, look.tokens, books + 1)  # and one for the text
        yield look.ids(books)


def _placed(look: Lookup) -> int:
    """Tokens of a text with an image: places for the queries of the image, then the text."""
    return int(look.get("latent_query_num", default=0)) + look.tokens


@row("image_embeds_position_mask", goes_with=("pixel_values",))
def _image_places(look: Lookup) -> Iterator[Tensor]:
    mask = torch.ones(BATCH, _placed(look), dtype=torch.bool)
    mask[:, -look.tokens :] = False
    yield mask


@row("decoder_input_ids", main=True)
def _decoder_input_ids(look: Lookup) -> Iterator[Tensor]:
    if "input_ids" in look.parameters and not look.get("is_encoder_decoder", default=False):
        return
    yield look.ids(look.targets)
    books = look.get("num_channels", "num_codebooks", part=("decoder",))
    if isinstance(books, int):
        yield look.ids(look.targets * books).reshape(BATCH, look.targets, books)
        yield look.ids(look.targets, batch=BATCH * books)


@row("attention_mask", "protein_attention_mask", "classes_attention_mask", "tasks_attention_mask", "qformer_attention_mask", extra=True)
def _mask(look: Lookup) -> Iterator[Tensor]:
    yield torch.ones(BATCH, look.tokens, dtype=torch.long)


@row("decoder_attention_mask", extra=True)
def _decoder_mask(look: Lookup) -> Iterator[Tensor]:
    if look.get("is_encoder_decoder", default=False):
        yield torch.ones(BATCH, look.targets, dtype=torch.long)


@row("token_type_ids", "mm_token_type_ids", "task_type_ids", "moe_mm_token_type_ids", extra=True)
def _types(look: Lookup) -> Iterator[Tensor]:
    yield torch.zeros(BATCH, look.tokens, dtype=torch.long)


@row("position_ids", extra=True)
def _positions(look: Lookup) -> Iterator[Tensor]:
    yield torch.arange(look.tokens).repeat(BATCH, 1)


@row("qformer_input_ids", "protein_input_ids", "classes_input_ids", "tasks_input_ids", "input_shape_ids", "input_pronunciation_ids")
def _other_ids(look: Lookup) -> Iterator[Tensor]:
    yield look.ids(look.tokens, vocabulary=100)


@row("task_inputs")
def _task(look: Lookup) -> Iterator[Tensor]:
    yield look.ids(look.get("task_seq_len", default=look.tokens), vocabulary=100)


@row("encoder_hidden_states", "cross_attention_states", extra=True, when="add_cross_attention")
def _memory(look: Lookup) -> Iterator[Tensor]:
    width = look.get("cross_attention_hidden_size", "encoder_hidden_size", "cross_hidden_size")
    sizes = list(dict.fromkeys(w for w in [width, look.width, *look.widths[:8]] if isinstance(w, int)))
    for length in (look.targets, look.tokens):  # as long as the tokens, where one mask serves both
        yield from (look.floats(BATCH, length, size) for size in sizes)


@row("global_attention_mask", goes_with=("input_ids",))
def _global(look: Lookup) -> Iterator[Tensor]:
    """The first token attends everywhere: without any such token the maps of global attention do not run."""
    mask = torch.zeros(BATCH, look.tokens, dtype=torch.long)
    mask[:, 0] = 1
    yield mask


@row("query_embeds", "hidden_states", "inputs_embeds", "context_hidden_states", "context", "image_embeds")
def _states(look: Lookup) -> Iterator[Tensor]:
    if gridded(look) and not any(n in look.parameters for n in ("input_ids", "pixel_values")):  # patches under the name of states
        yield from (look.floats(sum(math.prod(g) for g in GRID), size) for size in flat_patch(look)[:3])
    widths = [look.get("cross_attention_hidden_size", "encoder_hidden_size"), look.get("hidden_size", "d_model", "embed_dim")]
    widths += [look.get("input_size", "input_dim", "nemo_conv_input_size", "mel_dim"), *look.widths[:8]]
    for width in dict.fromkeys(w for w in widths if isinstance(w, int)):
        yield look.floats(BATCH, look.tokens, width)
    conv = look.first(nn.Conv1d)
    if conv is not None and "input_ids" not in look.parameters:
        yield look.floats(BATCH, conv.in_channels, 3200 if conv.in_channels == 1 else look.tokens)
    if look.first(nn.Conv2d) is not None and "input_ids" not in look.parameters:
        yield from (look.floats(BATCH, channels(look), *side) for side in sides(look)[:2])


@row("bbox", goes_with=("input_ids",))
def _boxes(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor([1, 2, 3, 4]).repeat(BATCH, look.tokens, 1)
    yield look.floats(BATCH, look.tokens, 8)
    yield look.floats(BATCH, look.tokens, 4)


@row("visual_feats", "visual_embeds", goes_with=("input_ids",))
def _visual_features(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.targets, look.get("visual_feat_dim", "visual_embedding_dim", default=look.width))


@row("visual_pos", goes_with=("input_ids",))
def _visual_places(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.targets, look.get("visual_pos_dim", default=4))


@row("states", main=True)
def _observations(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.tokens, look.get("state_dim", default=look.width))


@row("actions", goes_with=("states",))
def _actions(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.tokens, look.get("act_dim", default=look.width))


@row("rewards", "returns_to_go", goes_with=("states",))
def _rewards(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.tokens, 1)


@row("timesteps", goes_with=("states",))
def _timesteps(look: Lookup) -> Iterator[Tensor]:
    yield torch.arange(look.tokens).repeat(BATCH, 1)


@row("num_patches")
def _patch_count(look: Lookup) -> Iterator[int | None]:
    yield None
    yield look.tokens


@row("patch_ids")
def _patches_of(look: Lookup) -> Iterator[Tensor]:
    """The patch that each token belongs to."""
    yield torch.arange(look.tokens).repeat(BATCH, 1)


@row("generation_steps")
def _step(look: Lookup) -> Iterator[int]:
    yield 1


@row("last_hidden_state", goes_with=("input_ids",))
def _last_state(look: Lookup) -> Iterator[Tensor]:
    """The state of another model at one place."""
    width = look.get("input_size", "hidden_size", "d_model")
    yield from (look.floats(BATCH, 1, size) for size in dict.fromkeys([width, *look.widths[:8]]) if isinstance(size, int))


# -- documents that were retrieved, questions with options -----------------------------------------------------------------------


@row("context_input_ids")
def _documents(look: Lookup) -> Iterator[Tensor]:
    """[batch * documents, tokens]"""
    yield look.ids(look.targets, batch=BATCH * look.get("n_docs", default=1))


@row("context_attention_mask")
def _documents_mask(look: Lookup) -> Iterator[Tensor]:
    yield torch.ones(BATCH * look.get("n_docs", default=1), look.targets, dtype=torch.long)


@row("doc_scores")
def _scores(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.get("n_docs", default=1))


@row("marks", "num_options")
def _marks(look: Lookup) -> Iterator[Tensor]:
    """The places of three questions in the text, and how many options they have."""
    yield torch.tensor([1, 2, 3]).repeat(BATCH, 1)


@row("question_type_ids")
def _question_types(look: Lookup) -> Iterator[Tensor]:
    yield torch.zeros(BATCH, 3, dtype=torch.long)


@row("langs", extra=True)
def _languages(look: Lookup) -> Iterator[Tensor]:
    yield torch.zeros(BATCH, look.tokens, dtype=torch.long)


@row("lang_ids", goes_with=("input_ids",))
def _language(look: Lookup) -> Iterator[Tensor]:
    """One language for each text, where the model has layers for each language."""
    if look.get("languages"):
        yield torch.zeros(BATCH, dtype=torch.long)


__all__: list[str] = []


@row("entity_ids", goes_with=("input_ids",))
def _entities(look: Lookup) -> Iterator[Tensor]:
    yield look.ids(ENTITIES, vocabulary=100)


@row("entity_position_ids", goes_with=("input_ids",))
def _entity_positions(look: Lookup) -> Iterator[Tensor]:
    """[batch, entities, tokens of a mention]"""
    yield torch.arange(ENTITIES)[None, :, None].repeat(BATCH, 1, 4)
