"""Which function of RepDL computes an op of torch while `repdl.enable()` holds.

A row stands for all overloads of a name, for its form in place and for the one that writes into given memory; one whose
name ends in an underscore for that form in place alone, and its function changes its arguments itself. The arguments of
torch's schema go to ours by their names; what differs is said in the row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from repdl import ops
from repdl.callcache import cache_calls
from repdl.contract import contract_name
from repdl.errors import UnsupportedError, check_dim, check_dtype, check_range, check_size
from repdl.ops.indexing._renorm import check_norm, renorm
from repdl.ops.pointwise.linspace import evenly_spaced
from repdl.overrides import complex_numbers
from repdl.overrides.backward_ops import BACKWARD, convolution
from repdl.overrides.draws import DRAWS
from repdl.overrides.scaling import unscale, update_scale

Tensor = torch.Tensor
Function = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """A function, and how torch's arguments become its.

    Attributes:
        function: of RepDL, with the names of arguments that torch's schema has, but for the first.
        ignored: arguments of torch's schema that say nothing of the result.
        integers: whether it computes integers and booleans too, though torch's own arithmetic is exact: the result has
            a fraction, or depends on an order.
        as_given: whether it takes what the dispatcher gives, by position and by name.
        of_complex: what computes complex numbers, with the arguments of torch's schema; else they raise.
    """

    function: Function
    ignored: tuple[str, ...] = ()
    integers: bool = False
    as_given: bool = False
    of_complex: Function | None = None


def _same(names: str) -> dict[str, Row]:
    return {name: Row(getattr(ops, name)) for name in names.split()}


def _elu(input: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    if input_scale != 1 or scale not in (1, 1.0507009873554805):
        raise UnsupportedError(f"elu: scale is {scale} and input_scale {input_scale}, expected 1, or those of selu")
    return ops.elu(input, alpha) if scale == 1 else ops.selu(input)


def _rsub(input: Tensor, other: Any, alpha: float = 1) -> Tensor:
    return ops.sub(other, input, alpha=alpha)


def _clamp_min(input: Tensor, min: Any) -> Tensor:
    return ops.clamp(input, min)


def _clamp_max(input: Tensor, max: Any) -> Tensor:
    return ops.clamp(input, None, max)


@cache_calls
def _embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    place = None if padding_idx == -1 else padding_idx
    return ops.embedding(indices, weight, place, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def _embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    norm, p = check_norm("embedding_renorm_", max_norm, norm_type)
    assert norm is not None
    renorm(weight, indices, norm, p, contract_name(None))
    return weight


_MODES = "sum", "mean", "max"


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    output = ops.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=_MODES[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    nothing = indices.new_empty(0)
    return output, nothing, nothing, nothing


def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    return ops.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def _ranged(op: str) -> Function:
    def made(
        start: float = 0,
        end: float = 0,
        step: float = 1,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        return evenly_spaced(op, start, end, step, dtype, device, False, contract_name(None))

    return made


def _grouped_mm(
    input: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    return ops.grouped_mm(input, mat2, offs=offs, bias=bias, out_dtype=out_dtype)  # type: ignore[arg-type]


def _unique(function: Function) -> Function:
    """With all that the ops of torch return: indices and counts too, empty where they were not asked for."""

    def unique(
        input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> tuple[Tensor, ...]:
        output, inverse, counts = function(input, return_inverse=True, return_counts=True, dim=dim)
        nothing = inverse.new_empty(0)
        return output, inverse if return_inverse else nothing, counts if return_counts else nothing

    return unique


def _unique_pair(input: Tensor, return_inverse: bool = False) -> tuple[Tensor, ...]:
    return _unique(ops.unique)(input, return_inverse)[:2]  # type: ignore[no-any-return]


def _max_pool_with_indices(function: Function) -> Function:
    def pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return function(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)  # type: ignore[no-any-return]

    return pool


def _adaptive_max_pool(function: Function) -> Function:
    def pool(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
        return function(input, output_size, return_indices=True)  # type: ignore[no-any-return]

    return pool


def _max_unpool(function: Function, dims: int) -> Function:
    def unpool(input: Tensor, indices: Tensor, output_size: Any, stride: Any = None, padding: Any = None) -> Tensor:
        windows = [size - n + 1 for size, n in zip(output_size, input.shape[-dims:])]  # which give that size
        return function(input, indices, windows, 1)  # type: ignore[no-any-return]

    return unpool


def _log_sigmoid_forward(input: Tensor) -> tuple[Tensor, Tensor]:
    return ops.logsigmoid(input), input.new_empty(0)


def _norm(
    input: Tensor, p: float | None = None, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    return ops.vector_norm(input, 2 if p is None else p, dim or None, keepdim, dtype=dtype)


def _upsample(mode: str, antialias: bool = False) -> Function:
    def upsample(
        input: Tensor,
        output_size: Any = None,
        align_corners: bool | None = None,
        scale_factors: Any = None,
        **scales: float | None,
    ) -> Tensor:
        factors = scale_factors or [s for s in scales.values() if s is not None] or None
        corners = align_corners if mode not in ("nearest", "nearest-exact") else None
        if factors is None:
            return ops.interpolate(input, output_size, None, mode, corners, antialias=antialias)
        if output_size is not None:  # torch's own functions give both where scale_factor was given
            made = [math.floor(n * factor) for n, factor in zip(input.shape[2:], factors)]
            if list(output_size) != made:
                raise UnsupportedError(
                    f"interpolate: output_size is {list(output_size)}, expected {made}, which scale factors {factors} "
                    f"give an input of shape {list(input.shape)}, or no factors"
                )
        return ops.interpolate(input, None, factors, mode, corners, antialias=antialias)

    return upsample


def _linalg_cross(input: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    if input.is_floating_point() or other.is_floating_point():
        return ops.cross(input, other, dim)
    return input.roll(-1, dim) * other.roll(-2, dim) - input.roll(-2, dim) * other.roll(-1, dim)


def _lstsq(input: Tensor, b: Tensor, rcond: float | None = None, driver: str | None = None) -> Any:
    return ops.lstsq(input, b, rcond, driver=driver)


def _times(factor: float) -> Function:
    def scaled(input: Tensor) -> Tensor:
        return ops.mul(input, factor)

    return scaled


def _grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    mode, padding = (
        ("bilinear", "nearest", "bicubic")[interpolation_mode],
        ("zeros", "border", "reflection")[padding_mode],
    )
    return ops.grid_sample(input, grid, mode, padding, align_corners)


def _pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    if mode == "constant" or not input.is_floating_point():
        return torch.ops.aten.pad.default.decompose(input, pad, mode, value)  # type: ignore[no-any-return]
    return ops.pad(input, pad, mode, value)


def _padded(mode: str) -> Function:
    def pad(input: Tensor, padding: Any) -> Tensor:
        return ops.pad(input, padding, mode)

    return pad


def _index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    return ops.index_put(input, indices, values, accumulate)


def _put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    return ops.index_put(input.reshape(-1), (index.reshape(-1),), source.reshape(-1), accumulate).view_as(input)


def _unfold_backward(grad_in: Tensor, input_sizes: Any, dim: int, size: int, step: int) -> Tensor:
    if not input_sizes:
        return grad_in.reshape(())
    dim = dim % len(input_sizes)
    places = torch.arange(grad_in.shape[dim]).unsqueeze(1) * step + torch.arange(size)  # of the elements of a window
    windows = grad_in.movedim(-1, dim + 1).flatten(dim, dim + 1)
    return ops.index_add(grad_in.new_zeros(input_sizes), dim, places.reshape(-1).to(grad_in.device), windows)


def _cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    return ops.cdist(x1, x2, p)


def _einsum(equation: str, tensors: Any) -> Tensor:
    return ops.einsum(equation, *tensors)


def _histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each bin, of x `floor(((x - min) * bins) / (max - min))`, each step rounded once, or the
    last one. Others, and NaN, are in none. `min = max` are the extremes of the input."""
    check_dtype("histc", (torch.float32, torch.float64), input=input)
    check_range("histc", bins > 0, lambda: f"bins is {bins}, expected 1 or more")
    values = input.detach().reshape(-1)
    if min == max and values.numel():
        low, high = (bound.item() for bound in values.aminmax())
        min, max = (low, high) if low < high else (low - 1, high + 1)
    finite = math.isfinite(min) and math.isfinite(max)
    check_range("histc", finite, lambda: f"the range is [{min}, {max}], expected finite numbers")
    check_range("histc", min < max or not values.numel(), lambda: f"max is {max}, expected one above min, {min}")
    values = values[(values >= min) & (values <= max)]
    places = ops.div(ops.mul(ops.sub(values, min), bins), max - min).to(torch.int64).clamp(max=bins - 1)
    return ops.bincount(places, minlength=bins).to(input.dtype)


_EXACT = 1024
"""How many products of two int8 a float32 sums without rounding: each is at most 2**14."""


def _int_mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of int8 matrices in int32. The libraries that torch calls may saturate sums of two in 16 bits."""
    check_dtype("_int_mm", (torch.int8,), input=input, mat2=mat2)
    check_dim("_int_mm", 2, input=input, mat2=mat2)
    check_size("_int_mm", "mat2.shape[0]", mat2.shape[0], input.shape[1], "input.shape[1]")
    parts = zip(input.split(_EXACT, 1), mat2.split(_EXACT, 0))
    products = [ops.mm(a.to(torch.float32), b.to(torch.float32)).to(torch.int32) for a, b in parts]
    return functools.reduce(torch.add, products)


def _col2im(input: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    return ops.fold(input, output_size, kernel_size, dilation, padding, stride)


def _batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    return ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


_CUDNN = ("cudnn_enabled", "cudnn_enable")
_CONVOLUTION = ("allow_tf32", "benchmark", "cudnn_enabled", "deterministic")

FUNCTIONS: dict[str, Row] = {
    **{name: Row(function, as_given=True) for name, function in (DRAWS | BACKWARD).items()},
    "_amp_foreach_non_finite_check_and_unscale_": Row(unscale, as_given=True),
    "_amp_update_scale_": Row(update_scale, as_given=True),
    **_same("""
        abs acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d addbmm addcdiv
        addcmul addmm addmv addr amax amin aminmax asin asinh atan atan2 atanh avg_pool1d avg_pool2d
        avg_pool3d baddbmm bilinear binary_cross_entropy binary_cross_entropy_with_logits bincount bmm celu
        chain_matmul clamp conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d corrcoef
        cos cosh cosine_embedding_loss cosine_similarity cov cross ctc_loss cummax cummin cumprod cumsum
        cumulative_trapezoid dist dot erf erfc erfinv exp exp2 expm1 floor_divide fmax fmin fmod gelu glu
        gru_cell hardshrink hardsigmoid hardswish hardtanh hinge_embedding_loss huber_loss hypot index_add
        index_reduce inner kl_div kthvalue l1_loss leaky_relu lerp linear log log10 log1p log2 log_softmax
        logaddexp logaddexp2 logcumsumexp logit logsumexp lstm_cell margin_ranking_loss matmul max
        max_pool1d max_pool2d max_pool3d maximum median min minimum mish mm mode mse_loss msort
        multi_margin_loss multilabel_margin_loss mv nanmean nanmedian nanquantile nansum nll_loss
        pairwise_distance poisson_nll_loss pow prelu prod quantile reciprocal relu relu6 remainder renorm
        rms_norm rnn_relu_cell rnn_tanh_cell rsqrt scatter_add scatter_reduce selu sigmoid silu sin sinc
        sinh smooth_l1_loss soft_margin_loss softmax softplus softshrink sqrt std std_mean
        take_along_dim tan tanh threshold topk trace trapezoid triplet_margin_loss var var_mean vdot xlogy
    """),
    **{
        name: Row(getattr(ops, name), of_complex=getattr(complex_numbers, name))
        for name in ("add", "mean", "mul", "neg", "sub", "sum")
    },
    "polar": Row(complex_numbers.polar),
    **{name: Row(getattr(ops, name), ignored=_CUDNN) for name in ("group_norm", "layer_norm")},
    "batch_norm": Row(_batch_norm, ignored=_CUDNN),
    "instance_norm": Row(ops.instance_norm, ignored=_CUDNN),
    **{name: Row(getattr(ops, name), integers=True) for name in ("diff", "div", "kron", "outer", "sort", "square")},
    "rsub": Row(_rsub, of_complex=complex_numbers.rsub),
    "clamp_min": Row(_clamp_min),
    "clamp_max": Row(_clamp_max),
    "linalg_cross": Row(_linalg_cross),
    "deg2rad": Row(_times(math.pi / 180)),
    "rad2deg": Row(_times(180 / math.pi)),
    "_grouped_mm": Row(_grouped_mm),
    "_unique": Row(_unique_pair, ignored=("sorted",)),
    **{name: Row(_unique(ops.unique), ignored=("sorted",)) for name in ("_unique2", "unique_dim")},
    **{name: Row(_unique(ops.unique_consecutive)) for name in ("unique_consecutive", "unique_dim_consecutive")},
    "convolution": Row(convolution),
    "_convolution": Row(convolution, ignored=_CONVOLUTION),
    "cdist": Row(_cdist, ignored=("compute_mode",)),
    "elu": Row(_elu),
    "embedding": Row(_embedding),
    "embedding_renorm_": Row(_embedding_renorm),
    "embedding_bag": Row(_embedding_bag),
    "cross_entropy_loss": Row(_cross_entropy),
    "nll_loss_nd": Row(ops.nll_loss),
    "nll_loss2d": Row(ops.nll_loss),
    "max_pool2d_with_indices": Row(_max_pool_with_indices(ops.max_pool2d)),
    "max_pool3d_with_indices": Row(_max_pool_with_indices(ops.max_pool3d)),
    "max_pool1d_with_indices": Row(_max_pool_with_indices(ops.max_pool1d)),
    "adaptive_max_pool1d": Row(_adaptive_max_pool(ops.adaptive_max_pool1d)),
    "adaptive_max_pool2d": Row(_adaptive_max_pool(ops.adaptive_max_pool2d)),
    "adaptive_max_pool3d": Row(_adaptive_max_pool(ops.adaptive_max_pool3d)),
    "max_unpool2d": Row(_max_unpool(ops.max_unpool2d, 2)),
    **{op: Row(_ranged(op), ignored=("layout", "pin_memory")) for op in ("arange", "range")},
    "linspace": Row(ops.linspace, ignored=("layout", "pin_memory")),
    "max_unpool3d": Row(_max_unpool(ops.max_unpool3d, 3)),
    "log_sigmoid_forward": Row(_log_sigmoid_forward),
    "log_sigmoid": Row(ops.logsigmoid),
    "norm": Row(_norm),
    "linalg_lstsq": Row(_lstsq),
    "linalg_qr": Row(ops.qr),
    "linalg_solve_triangular": Row(ops.solve_triangular),
    "linalg_vector_norm": Row(ops.vector_norm),
    "einsum": Row(_einsum, ignored=("path",)),
    "index_put": Row(_index_put, integers=True),
    "_unsafe_index_put": Row(_index_put, integers=True),
    "_index_put_impl": Row(_index_put, ignored=("unsafe",), integers=True),
    "put": Row(_put, integers=True),
    "unfold_backward": Row(_unfold_backward),
    "pad": Row(_pad),
    **{f"reflection_pad{n}d": Row(_padded("reflect")) for n in (1, 2, 3)},
    **{f"replication_pad{n}d": Row(_padded("replicate")) for n in (1, 2, 3)},
    "histc": Row(_histc),
    "_int_mm": Row(_int_mm),
    "im2col": Row(ops.unfold),
    "col2im": Row(_col2im),
    "grid_sampler": Row(_grid_sampler),
    "affine_grid_generator": Row(ops.affine_grid),
    "upsample_nearest1d": Row(_upsample("nearest")),
    "upsample_nearest2d": Row(_upsample("nearest")),
    "upsample_nearest3d": Row(_upsample("nearest")),
    "_upsample_nearest_exact1d": Row(_upsample("nearest-exact")),
    "_upsample_nearest_exact2d": Row(_upsample("nearest-exact")),
    "_upsample_nearest_exact3d": Row(_upsample("nearest-exact")),
    "upsample_linear1d": Row(_upsample("linear")),
    "upsample_bilinear2d": Row(_upsample("bilinear")),
    "upsample_bicubic2d": Row(_upsample("bicubic")),
    "upsample_trilinear3d": Row(_upsample("trilinear")),
    "_upsample_bilinear2d_aa": Row(_upsample("bilinear", antialias=True)),
    "_upsample_bicubic2d_aa": Row(_upsample("bicubic", antialias=True)),
}
"""By torch's name."""

__all__ = ["FUNCTIONS", "Row"]
