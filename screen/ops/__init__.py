"""The vocabulary of a captured graph: canonical op names and the class that each belongs to.

One row per op. Capture keeps a call as one node when its name stands here and writes down its aten children when not; facts read the
classes. An op in no row is *unmodelled*: never identity, never zero.

Classes
-------
view        every entry of the first operand, moved or copied (reshape, cast, dropout in evaluation, expand)
part        some entries of the first operand (slices, gathers, pooling of tokens by selection)
join        entries of several operands side by side (cat, stack)
linear      a sum or a product of operands, entry by entry (add, mul, lerp, where)
weighted    a linear map of features; weighted when an operand carries a parameter (linear, conv, embedding)
product     a contraction of two operands (matmul); weighted when one of them is a parameter, else mixing
mixing      mixes tokens by itself (attention, fft, scans, recurrent cells, pooling)
activation  an entry-wise function of one operand; those of which numbers are known stand in `screen.ops.scalars`
softmax     a row-stochastic map
norm        a norm in one call
statistic   a reduction (mean, var, amax, norm)
write       the first operand with some entries replaced or added to
choice      discrete: indices, comparisons, sorting, routing
factory     a tensor out of nothing
"""

from __future__ import annotations

from screen.ops.scalars import OPS

CLASSES: dict[str, str] = {}


def _rows(kind: str, names: str) -> None:
    for name in names.split():
        if name in CLASSES:
            raise ValueError(f"op `{name}` has two rows: {CLASSES[name]} and {kind}")
        CLASSES[name] = kind


_rows(
    "view",
    "view reshape view_as reshape_as transpose permute t T mT H mH contiguous clone to type float half bfloat16 double type_as expand "
    "expand_as squeeze unsqueeze flatten unflatten ravel movedim swapaxes swapdims moveaxis detach data alias dropout dropout1d "
    "dropout2d dropout3d alpha_dropout feature_dropout repeat repeat_interleave tile roll flip rot90 pixel_shuffle pixel_unshuffle "
    "broadcast_to atleast_2d adjoint cpu cuda requires_grad as_strided pad constant_pad_nd reflection_pad1d replication_pad1d "
    "view_as_complex view_as_real real resolve_conj positive lift_fresh fold col2im unfold im2col unfold_copy broadcast_tensors "
    "nan_to_num channel_shuffle int long imag",
)
_rows(
    "part",
    "getitem select narrow slice split split_with_sizes tensor_split chunk unbind index_select gather take_along_dim diagonal tril triu "
    "masked_select index diag dsplit hsplit vsplit take diag_embed block_diag diagonal_scatter",
)
_rows("join", "cat concat concatenate stack hstack vstack dstack column_stack meshgrid cartesian_prod")
_rows(
    "linear",
    "add sub rsub mul div neg lerp where masked_fill true_divide reciprocal outer ger square pow floor_divide remainder "
    "fmod cross mv rdiv complex conj hypot ldexp polar kron _weight_norm_interface _weight_norm",
)
_rows(
    "weighted",
    "linear bilinear embedding embedding_bag conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution "
    "grouped_mm conv_tbc",
)
_rows(
    "product",
    "matmul bmm mm addmm baddbmm dot inner tensordot vdot chain_matmul linalg_multi_dot vecdot linalg_solve_triangular "
    "linalg_solve",
)
_rows(
    "mixing",
    "scaled_dot_product_attention flex_attention fft rfft irfft ifft fft2 ifft2 rfft2 irfft2 fftn ifftn fft_fftn fft_fft fft_fft2 fft_rfft fft_ifftn "
    "fft_irfft fft_ifft fft_rfft2 fft_irfft2 fft_ifft2 cumsum cumprod logcumsumexp avg_pool1d avg_pool2d avg_pool3d max_pool1d "
    "max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "interpolate upsample grid_sample affine_grid stft istft cummax lstm_cell gru_cell rnn_tanh rnn_relu lp_pool1d lp_pool2d "
    "segment_reduce max_unpool2d",
)
_rows(
    "activation",
    "prelu rrelu exp2 expm1 log log2 log10 log1p sqrt rsqrt tan sign clamp clamp_min clamp_max clip asin acos sinh cosh threshold "
    "hardshrink glu floor ceil round trunc frac erfinv minimum maximum logit atan2 special_expm1 sgn arctan2 acosh atanh "
    "heaviside logaddexp special_erf special_expit special_i0 digamma lgamma copysign angle",
)
_rows("activation", " ".join(op for op in OPS if op not in CLASSES))
_rows("softmax", "softmax log_softmax softmin gumbel_softmax logsumexp sparsemax")
_rows(
    "norm",
    "layer_norm rms_norm group_norm batch_norm instance_norm normalize local_response_norm renorm",
)
_rows(
    "statistic",
    "mean sum var std var_mean std_mean norm vector_norm linalg_norm linalg_vector_norm amax amin max min prod median nanmean nansum aminmax "
    "count_nonzero quantile mode cosine_similarity pairwise_distance cdist dist linalg_matrix_norm matrix_norm nanmedian kthvalue",
)
_rows(
    "write",
    "setitem copy index_add index_copy index_fill index_put scatter scatter_add scatter_reduce masked_scatter slice_scatter select_scatter "
    "index_reduce put set fill zero fill_diagonal",
)
_rows(
    "choice",
    "eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor and or invert xor "
    "isnan isinf isfinite isin topk argmax argmin argsort sort searchsorted bucketize nonzero one_hot bincount histc histogram unique "
    "unique_consecutive all any is_nonzero item equal allclose isclose bool multinomial bernoulli cummin lshift rshift msort "
    "argwhere unravel_index not _is_all_true _is_any_true bitwise_left_shift bitwise_right_shift combinations",
)
_rows(
    "factory",
    "zeros ones full empty arange linspace logspace eye tensor as_tensor zeros_like ones_like full_like empty_like rand randn randint "
    "rand_like randn_like randint_like randperm normal uniform new_zeros new_ones new_full new_empty new_tensor scalar_tensor "
    "empty_strided tril_indices triu_indices hann_window hamming_window exponential from_numpy empty_permuted new_empty_strided "
    "log_normal cauchy geometric random bernoulli_p",
)

ALIASES: dict[str, str] = {
    # other spellings of the same call, aten names included
    "multiply": "mul", "subtract": "sub", "divide": "div", "truediv": "div", "negative": "neg", "absolute": "abs", "floordiv": "floor_divide",
    "mod": "remainder", "true_divide_": "div", "swapaxes_": "swapaxes", "concat": "cat", "concatenate": "cat",
    "native_layer_norm": "layer_norm", "_fused_rms_norm": "rms_norm", "native_group_norm": "group_norm", "native_batch_norm": "batch_norm",
    "_native_batch_norm_legit": "batch_norm", "_native_batch_norm_legit_no_training": "batch_norm", "cudnn_batch_norm": "batch_norm",
    "_batch_norm_impl_index": "batch_norm", "batch_norm_with_update": "batch_norm",
    "_softmax": "softmax", "_safe_softmax": "softmax", "_log_softmax": "log_softmax", "special_softmax": "softmax",
    "special_log_softmax": "log_softmax", "_unsafe_view": "view", "_reshape_alias": "view", "_to_copy": "to",
    "native_dropout": "dropout", "_grouped_mm": "grouped_mm", "_scaled_dot_product_flash_attention": "scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "_scaled_dot_product_efficient_attention": "scaled_dot_product_attention",
    "_scaled_dot_product_fused_attention_overrideable": "scaled_dot_product_attention",
    "_scaled_dot_product_cudnn_attention": "scaled_dot_product_attention", "_fused_sdp_choice": "item",
    "index_put_impl_": "index_put", "_index_put_impl_": "index_put", "matrix_transpose": "mT", "conj_physical": "conj",
    "_fft_c2c": "fft_fft", "_fft_r2c": "fft_rfft", "_fft_c2r": "fft_irfft", "upsample_bilinear2d": "interpolate",
    "upsample_nearest2d": "interpolate", "upsample_bicubic2d": "interpolate", "upsample_nearest1d": "interpolate",
    "upsample_linear1d": "interpolate", "_upsample_bilinear2d_aa": "interpolate", "_upsample_bicubic2d_aa": "interpolate",
    "upsample_trilinear3d": "interpolate", "_adaptive_avg_pool2d": "adaptive_avg_pool2d", "_adaptive_avg_pool3d": "adaptive_avg_pool3d",
    "mkldnn_convolution": "convolution", "_convolution": "convolution", "special_exp2": "exp2", "special_log1p": "log1p",
    "special_logsumexp": "logsumexp", "swish": "silu", "greater": "gt", "less": "lt", "greater_equal": "ge", "less_equal": "le",
    "not_equal": "ne", "invert": "bitwise_not", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "bitwise_and_": "bitwise_and",
    "clip": "clamp", "linalg_vector_norm": "vector_norm", "vector_norm": "vector_norm", "arctan2": "atan2", "arctan": "atan",
    "max_pool2d_with_indices": "max_pool2d", "linalg_matmul": "matmul", "linalg_vecdot": "vecdot", "special_expit": "sigmoid",
    "special_erf": "erf", "special_expm1": "expm1",
    "fix": "trunc", "moveaxis": "movedim", "is_floating_point": "item", "conv_depthwise2d": "conv2d", "lift_fresh_copy": "lift_fresh",
    "fft_n": "fft_fftn", "logical_and_": "logical_and", "slice_copy": "slice", "select_copy": "select", "threshold_backward": "threshold",
    "max_pool1d_with_indices": "max_pool1d", "unsafe_split": "split", "unsafe_chunk": "chunk", "unsafe_split_with_sizes": "split_with_sizes",
    "expand_copy": "expand", "permute_copy": "permute", "_conj": "conj", "masked_fill_": "masked_fill", "sum_to_size": "sum",
    "log_sigmoid": "logsigmoid", "rrelu_with_noise": "rrelu",
    "affine_grid_generator": "affine_grid", "grid_sampler_2d": "grid_sample", "_pdist_forward": "cdist", "_cdist_forward": "cdist",
    "_embedding_bag_forward_only": "embedding_bag", "_embedding_bag": "embedding_bag", "reshape_": "reshape", "special_sinc": "sinc",
    "_fill_mem_eff_dropout_mask": "dropout", "isposinf": "isinf", "isneginf": "isinf", "argpartition": "topk",
    "fmax": "maximum", "fmin": "minimum", "narrow_copy": "narrow", "linalg_cross": "cross",
}

SWAPPED = {"radd": "add", "rsub": "sub", "rmul": "mul", "rdiv": "div", "rtruediv": "div", "rpow": "pow", "rmatmul": "matmul",
           "rfloordiv": "floor_divide", "rmod": "remainder", "rand": "bitwise_and", "ror": "bitwise_or", "rxor": "bitwise_xor"}
"""Reflected operators: `__rsub__(a, b)` is b − a."""


def canonical(name: str) -> tuple[str, bool]:
    """The canonical name of a call, and whether its first two operands stand in reverse.

    `name` is the function's own name: `__radd__`, `add_`, `native_layer_norm`."""
    dunder = name.startswith("__") and name.endswith("__")
    bare = name[2:-2] if dunder else name
    if dunder and bare in SWAPPED:
        return SWAPPED[bare], True
    if dunder and bare.startswith("i") and (bare[1:] in CLASSES or bare[1:] in ALIASES):
        bare = bare[1:]
    if bare in ALIASES:
        return ALIASES[bare], False
    if bare.endswith("_") and not bare.startswith("_"):
        bare = bare[:-1]
    if bare == "rsub" or bare == "rdiv":
        return bare[1:], True
    return ALIASES.get(bare, bare), False


def has_row(op: str) -> bool:
    """Whether the vocabulary knows the op."""
    return op in CLASSES


OPAQUE = frozenset({"einsum", "multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu", "tensordot", "cosine_similarity", "addmm",
                    "baddbmm"})  # fmt: skip
"""Calls that are always written down as their aten children: one name, many programs. (Of fused adds, see `screen.capture.trace.fused`.)"""
