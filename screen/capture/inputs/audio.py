"""Rows of the table of inputs: spectrograms, waves, time series."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from screen.capture.inputs.context import BATCH, Lookup
from screen.capture.inputs.registry import AUDIO, Like, row

WAVE = 40
"""Frames of a wave, for the product of the strides of its feature extractor."""


def bins(look: Lookup) -> list[int]:
    """Sizes of one frame of a spectrogram."""
    names = [
        "num_mel_bins", "input_size", "feature_projection_input_dim", "feature_size", "input_feat_per_channel", "n_mels", "input_dim", "num_mels",
        "mel_bins", "feature_dim",
    ]  # fmt: skip
    found = [v for n in names if isinstance(v := look.get(n, part=AUDIO), int)]
    return list(dict.fromkeys([*found, *look.widths[:2]] if found else [80, 128, *look.widths[:4]]))


def frame_counts(look: Lookup) -> list[int]:
    """Numbers of frames: as configured, then twice as many (a convolution halves them), then a small one."""
    found = look.get("max_length", "spec_size", "max_source_positions", "max_position_embeddings", part=AUDIO)
    stated = [2 * found, found] if isinstance(found, int) and 64 <= found <= 20_000 else []
    both = [WAVE] if "input_values" in look.parameters else []  # two views of one sound
    return list(dict.fromkeys([*both, *stated, 256, 1024, 3000, 8 * look.tokens]))


@row("input_features", "audio_mel", "audio_input_features", "spectrogram", main=True)
def _features(look: Lookup) -> Iterator[Tensor]:
    conv = look.first(nn.Conv1d)
    found: list[tuple[int, tuple[int, ...]]] = []
    for n, count in enumerate(frame_counts(look)):
        for m, size in enumerate(bins(look)):
            forms = [(BATCH, count, size), (BATCH, size, count), (BATCH, 1, count, size), (size, count)]
            forms = forms[1:2] + forms[:1] + forms[2:] if conv is not None and conv.in_channels == size else forms
            found += [(n + m + k, form) for k, form in enumerate(forms)]
    yield from (look.floats(*form) for _, form in sorted(found, key=lambda f: f[0]))  # what is likely in every respect first


@row("input_features_mask", "feature_attention_mask", "audio_mel_mask", "audio_attention_mask", goes_with=("input_features", "audio_mel"))
def _feature_mask(look: Lookup) -> Iterator[Like]:
    names = ("input_features", "audio_mel", "audio_input_features")
    yield Like(names, longest=True)
    yield Like(names, longest=False)


@row("input_values", "waveform", main=True)
def _wave(look: Lookup) -> Iterator[Tensor]:
    """Samples, long enough for the feature extractor; some models take a spectrogram under this name."""
    strides = look.get("conv_stride", "upsampling_ratios", "downsampling_ratios", "encoder_rates", part=AUDIO)
    step = look.get("samples_per_token", default=math.prod(strides) if isinstance(strides, list | tuple) else 320, part=AUDIO)
    samples = step * WAVE
    if "input_ids" in look.parameters and look.parameters["input_values"].default is None:
        return
    yield look.floats(BATCH, samples)
    yield look.floats(BATCH, 1, samples)
    yield look.floats(BATCH, look.tokens, look.width)
    for size in bins(look)[:2]:
        for count in frame_counts(look)[:3]:
            yield look.floats(BATCH, count, size)
    yield look.floats(BATCH, 2, samples)


@row("decoder_input_values", main=True)
def _decoder_wave(look: Lookup) -> Iterator[Tensor]:
    for size in dict.fromkeys([look.width, *bins(look)[:2]]):
        yield look.floats(BATCH, look.targets, size)


@row("feature_lens", "audio_feature_lengths", goes_with=("input_features",))
def _feature_lengths(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor([frame_counts(look)[0] // 2] * BATCH)


@row("chunk_sample_lengths", goes_with=("input_features",))
def _samples(look: Lookup) -> Iterator[Tensor]:
    yield torch.tensor([frame_counts(look)[0] * look.get("hop_length", default=160, part=AUDIO)] * BATCH)


# -- from codes to sound -------------------------------------------------------------------------------------------------------


@row("quantized_code", "code")
def _codes(look: Lookup) -> Iterator[Tensor]:
    """Each code stands for as many frames as it is repeated."""
    yield look.ids(look.tokens // look.get("repeats", default=1), vocabulary=look.get("num_embeds", default=100))


@row("time_step")
def _moment(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH)


@row("condition_vector", "reference_mel")
def _reference(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.targets, look.get("mel_dim", default=look.width))


@row("speaker_embedding")
def _speaker(look: Lookup) -> Iterator[Tensor]:
    for length in (look.tokens, 1):
        yield look.floats(BATCH, length, look.get("enc_emb_dim", default=look.width))


@row("conditioning")
def _condition(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.get("enc_emb_dim", default=look.width))


# -- time series ---------------------------------------------------------------------------------------------------------------


def _past(look: Lookup) -> int:
    length = look.get("context_length", default=look.tokens)
    lags = look.get("lags_sequence", default=[0])
    return int(length) + (max(lags) if isinstance(lags, list | tuple) and lags else 0)


@row("past_values", "past_observed_mask", "observed_mask", main=True)
def _past_values(look: Lookup) -> Iterator[Tensor]:
    size = look.get("num_input_channels", "input_size", default=1)
    if isinstance(look.get("lags_sequence"), list | tuple) and size == 1:
        yield look.floats(BATCH, _past(look))
    yield look.floats(BATCH, _past(look), size)
    yield look.floats(BATCH, _past(look))


@row("past_time_features")
def _past_times(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, _past(look), look.get("num_time_features", default=0))


@row("future_values", goes_with=("past_time_features",))
def _future(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.get("prediction_length", default=look.tokens))


@row("future_time_features", goes_with=("past_time_features",))
def _future_times(look: Lookup) -> Iterator[Tensor]:
    yield look.floats(BATCH, look.get("prediction_length", default=look.tokens), look.get("num_time_features", default=0))


@row("past_values_padding")
def _past_padding(look: Lookup) -> Iterator[Tensor]:
    yield torch.zeros(BATCH, _past(look), dtype=torch.long)


@row("freq")
def _frequency(look: Lookup) -> Iterator[Tensor]:
    yield torch.zeros(BATCH, 1, dtype=torch.long)


__all__: list[str] = []
