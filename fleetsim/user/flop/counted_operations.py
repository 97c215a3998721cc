"""Operations of torch by their arithmetic: products that count, free ones, and unknown ones.

As for fleetsim's own networks, FLOP are those of matrix products and convolutions alone, 2 per
multiply-add (docs/models/learning.md). Torch's counter has their formulas. It takes every operation
that it does not know as free; here the free ones are listed, so that a product in an operation that
nobody has a formula for is an error instead of 0.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

_aten = torch.ops.aten

_FREE_TAGS = tuple(
    getattr(torch.Tag, name)
    for name in ("pointwise", "reduction", "view_copy")
    if hasattr(torch.Tag, name)  # older versions of torch have fewer
)
"""Torch's own marks of operations on one element at a time, of sums, and of copied views."""

_FREE_BY_SUBJECT = {
    "memory: making, copying and reading of tensors": """
        _assert_async _assert_tensor_metadata _local_scalar_dense _reshape_alias _reshape_copy
        _resize_output_ _to_copy _unsafe_index _unsafe_index_put _unsafe_view alias_copy arange
        as_strided as_strided_ as_strided_copy cat clone constant_pad_nd contiguous copy copy_
        detach diag_embed diagonal_copy empty empty_like empty_permuted empty_strided eye fill
        fill_ flip full full_like index index_add index_copy index_fill index_put index_put_
        index_select item lift lift_fresh lift_fresh_copy linspace logspace masked_fill
        masked_fill_ masked_scatter masked_scatter_ masked_select narrow_copy new_empty
        new_empty_strided new_full new_ones new_zeros nonzero nonzero_static ones ones_like pad
        reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave
        replication_pad1d replication_pad2d replication_pad3d resize_ roll rot90 scalar_tensor
        scatter scatter_ scatter_add scatter_add_ scatter_reduce select_scatter set_
        slice_scatter split_copy squeeze_ stack t_ take tensor_split to transpose_ tril tril_
        tril_indices triu triu_ triu_indices unbind_copy unfold_copy unsafe_chunk unsafe_split
        unsafe_split_with_sizes unsqueeze_ where zero zero_ zeros zeros_like
    """,
    "lookup": """
        _embedding_bag _embedding_bag_forward_only bucketize embedding embedding_bag
        embedding_renorm_ gather one_hot searchsorted
    """,
    "activations that are not marked as pointwise, and softmax": """
        _log_softmax _prelu_kernel _safe_softmax _softmax celu elu glu hardsigmoid hardsigmoid_
        hardswish hardswish_ hardtanh hardtanh_ leaky_relu leaky_relu_ log_sigmoid_forward logit
        prelu rrelu_with_noise rrelu_with_noise_functional selu softplus softshrink
    """,
    "normalisation": """
        _batch_norm_no_update _batch_norm_with_update _batch_norm_impl_index _fused_rms_norm
        _native_batch_norm_legit _native_batch_norm_legit_no_training
        _native_batch_norm_legit_functional _weight_norm_interface batch_norm_update_stats
        cudnn_batch_norm linalg_vector_norm native_batch_norm native_group_norm
        native_layer_norm norm renorm
    """,
    "pooling, resizing and moving of pixels": """
        _adaptive_avg_pool2d _adaptive_avg_pool3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa
        _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
        adaptive_avg_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d
        avg_pool3d channel_shuffle col2im fractional_max_pool2d fractional_max_pool3d im2col
        max_pool1d max_pool2d_with_indices max_pool3d_with_indices max_unpool2d max_unpool3d
        mkldnn_max_pool2d pixel_shuffle pixel_unshuffle upsample_bicubic2d upsample_bilinear2d
        upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
        upsample_trilinear3d
    """,
    "sums, extremes and order": """
        _is_all_true aminmax argmax argmin argsort bincount count_nonzero cummax cummin cumprod
        cumsum cumsum_ equal histc kthvalue logcumsumexp logsumexp max mean median min mode
        sort std std_mean sum topk trace unique_consecutive unique_dim var
        var_mean
    """,
    "random draws": """
        bernoulli bernoulli_ binomial cauchy_ dropout dropout_ exponential_ geometric_
        log_normal_ native_dropout multinomial normal normal_ poisson rand rand_like randint
        randint_like randn randn_like random_ randperm uniform_
    """,
    "losses": """
        binary_cross_entropy binary_cross_entropy_with_logits huber_loss mse_loss
        nll_loss_forward nll_loss2d_forward smooth_l1_loss
    """,
    "gates of a recurrent cell after its products": """
        _thnn_fused_gru_cell _thnn_fused_lstm_cell
    """,
}
"""Names of operations without a mark that multiply no matrices."""
_FREE = frozenset(name for names in _FREE_BY_SUBJECT.values() for name in names.split())

Formula = Callable[..., int]


def _vector_flop(matrix: Any, *_: Any, **__: Any) -> int:
    return 2 * int(matrix.numel())


def _added_vector_flop(_: Any, matrix: Any, *__: Any, **___: Any) -> int:
    return 2 * int(matrix.numel())


def _addbmm_flop(_: Any, left: Any, right: Any, **__: Any) -> int:
    return 2 * int(left.numel()) * int(right.shape[-1])


def _rnn_flop(inputs: Any, weights: Any, hidden_weights: Any, *_: Any, **__: Any) -> int:
    """Return the FLOP of a recurrent layer: all its weights at every step of every sample."""
    num_weights = int(weights.numel()) + int(hidden_weights.numel())
    return int(2 * prod(inputs.shape[:-1]) * num_weights)


def _attention_flop(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    return int(_flop_counter().sdpa_flop_count(q.shape, k.shape, v.shape))


def _attention_backward_flop(g: Any, q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    shapes = (g.shape, q.shape, k.shape, v.shape)
    return int(_flop_counter().sdpa_backward_flop_count(*shapes))


def _convolution_backward_flop(gradient: Any, inputs: Any, weight: Any, *rest: Any) -> int:
    """Return the FLOP of the gradients that are asked for; torch's formula knows no groups."""
    num_gradients = int(sum(rest[7][:2]))
    met = inputs if rest[4] else gradient
    return int(num_gradients * 2 * met.numel() * prod(weight.shape[1:]))


_MORE: dict[Any, tuple[str, Formula]] = {
    _aten.dot: ("gemm", _vector_flop),
    _aten.vdot: ("gemm", _vector_flop),
    _aten.mv: ("gemm", _vector_flop),
    _aten.addmv: ("gemm", _added_vector_flop),
    _aten.addmv_: ("gemm", _added_vector_flop),
    _aten.addbmm: ("gemm", _addbmm_flop),
    _aten.mkldnn_rnn_layer: ("rnn", _rnn_flop),
    _aten.mkldnn_rnn_layer_backward: ("rnn", lambda *args, **named: 2 * _rnn_flop(*args, **named)),
    _aten._scaled_dot_product_flash_attention_for_cpu: ("gemm", _attention_flop),
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: ("gemm", _attention_backward_flop),
}
"""Products that torch's counter has no formula for, with their class."""

_WITH_ADDEND = (
    _aten.addmm,
    _aten.addmm_,
    _aten.addmv,
    _aten.addmv_,
    _aten.baddbmm,
    _aten.baddbmm_,
    _aten.addbmm,
)
"""Products whose first argument is added to them."""
_CONVOLUTIONS = (_aten.convolution, _aten._convolution)


def is_free(operation: Any) -> bool:
    """Return whether an operation multiplies no matrices."""
    if operation.namespace == "prim":
        return True
    return operation.namespace == "aten" and (
        operation.is_view
        or any(tag in operation.tags for tag in _FREE_TAGS)
        or operation._schema.name.removeprefix("aten::") in _FREE
    )


def has_formula(operation: Any) -> bool:
    """Return whether the FLOP of an operation are known."""
    packet = operation._overloadpacket
    return packet in _MORE or packet in _flop_counter().flop_registry


def product(
    operation: Any, args: Sequence[Any], named: Mapping[str, Any], out: Any
) -> tuple[str, int] | None:
    """Return class and FLOP of a product; None if neither torch's counter nor this module knows it.

    A convolution is depthwise if every input channel is a group of its own.
    """
    packet = operation._overloadpacket
    if packet in _MORE:
        kind, formula = _MORE[packet]
        return kind, formula(*args, **named)
    if packet is _aten.convolution_backward:
        flop = _convolution_backward_flop(*args)
        return _convolution_class(args[2], groups=args[9], is_transposed=args[7]), flop
    formula = _flop_counter().flop_registry.get(packet)
    if formula is None:
        return None
    flop = int(formula(*args, **named, out_val=out))
    if packet in _CONVOLUTIONS:
        return _convolution_class(args[1], groups=args[8], is_transposed=args[6]), flop
    return "gemm", flop


def _convolution_class(weight: Any, *, groups: int, is_transposed: bool) -> str:
    channels = weight.shape[0] if is_transposed else weight.shape[1] * groups
    return "depthwise" if groups == channels > 1 else "conv"


def _flop_counter() -> Any:
    # Not at the top of the module: it takes time that networks of stock layers alone do not need.
    from torch.utils import flop_counter  # noqa: PLC0415

    return flop_counter


def num_gradients(operation: Any, args: Sequence[Any]) -> int:
    """Return how many factors of a product get a gradient: each takes as many FLOP as the product.

    Arguments are those of `product`.
    """
    first = 1 if operation._overloadpacket in _WITH_ADDEND else 0
    return sum(bool(factor.requires_grad) for factor in args[first : first + 2])
