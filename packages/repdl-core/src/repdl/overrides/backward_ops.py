"""Ops of torch that are derivatives of others, where a program calls them itself.

Each is the derivative that RepDL has of the function: computed by it, or, where it takes the function's result, by the
op that RepDL's own derivative calls.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import _C

from repdl import ops, registry
from repdl.callcache import do_not_cache
from repdl.contract import contract_name
from repdl.dtypes import ALL
from repdl.errors import UnsupportedError, check_dtype
from repdl.ops.common import as_index
from repdl.ops.indexing.gather import at_least_1d
from repdl.ops.indexing.scatter import scatter_sum, select_sum
from repdl.ops.pointwise.elementwise import promoted

Tensor = torch.Tensor
Function = Callable[..., Any]
_KEYS = "AutogradCPU", "AutogradOther", "ADInplaceOrView"
_AUTOGRAD = functools.reduce(operator.or_, (_C.DispatchKeySet(_C._dispatch_key_parse(key)) for key in _KEYS))
_ops = registry.functions
_REDUCTIONS = "none", "mean", "sum"


def _derivative(function: Function) -> Function:
    """`backward(grad, input, ...)` of `function(input, ...)`, itself differentiable."""

    def backward(grad: Tensor, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        (result,) = _gradients(lambda x: function(x, *args, **kwargs), grad, [input])
        assert result is not None
        return result

    return backward


def _gradients(
    function: Function, grad: Tensor, inputs: Sequence[Tensor], wanted: Sequence[bool] | None = None
) -> list[Tensor | None]:
    """The gradients of those inputs that are wanted."""
    do_not_cache()
    twice = torch.is_grad_enabled() and any(t.requires_grad for t in (grad, *inputs))
    with torch.enable_grad(), _with_autograd():
        leaves = [t if twice and t.requires_grad else t.detach().requires_grad_() for t in inputs]
        output = function(*leaves)
        asked = [leaf for leaf, want in zip(leaves, wanted or [True] * len(leaves)) if want]
        found = iter(torch.autograd.grad(output, asked, grad, create_graph=twice))
    return [next(found) if want else None for want in wanted or [True] * len(leaves)]


@contextmanager
def _with_autograd() -> Iterator[None]:
    """Nodes are made where the dispatcher is below autograd, too, as in an op that a DTensor calls."""
    excluded = _C._dispatch_tls_local_exclude_set()
    if not excluded.has(_C.DispatchKey.AutogradOther):
        yield
        return
    with _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), excluded - _AUTOGRAD):
        yield


def _softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    _check_same("_softmax_backward_data", grad, input_dtype)
    return _ops.softmax_backward(grad, output, _dim(dim, output), contract_name(None))


def _log_softmax_backward(grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    _check_same("_log_softmax_backward_data", grad, input_dtype)
    return _ops.log_softmax_backward(grad, output, _dim(dim, output), contract_name(None))


def _dim(dim: int, tensor: Tensor) -> int:
    return dim % max(tensor.dim(), 1)


def _check_same(op: str, grad: Tensor, dtype: torch.dtype) -> None:
    if grad.dtype is not dtype:
        raise UnsupportedError(f"{op}: input_dtype is {dtype}, expected {grad.dtype} (= grad_output.dtype)")


def _softmax(function: Function) -> Function:
    def of(input: Tensor, dim: int, half_to_float: bool) -> Tensor:
        return function(input, dim, dtype=torch.float32 if half_to_float else None)

    return of


def _alike(op: str, grad: Tensor, output: Tensor) -> Sequence[Tensor]:
    """Both in one dtype and shape, as torch's kernels take them."""
    if grad.dtype is output.dtype and grad.shape == output.shape:
        return grad, output
    found = promoted(op, grad=grad, output=output)
    assert found is not None
    return torch.broadcast_tensors(*found)  # type: ignore[no-any-return]


def _sigmoid_backward(grad: Tensor, output: Tensor) -> Tensor:
    return _ops.sigmoid_backward(*_alike("sigmoid_backward", grad, output))


def _tanh_backward(grad: Tensor, output: Tensor) -> Tensor:
    return _ops.tanh_backward(*_alike("tanh_backward", grad, output))


def _elu_backward(
    grad: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, input: Tensor
) -> Tensor:
    if is_result or scale != 1 or input_scale != 1:
        raise UnsupportedError(
            f"elu_backward: scale is {scale}, input_scale {input_scale}, is_result {is_result}, expected 1, 1 and False"
        )
    return _derivative(ops.elu)(grad, input, alpha)


def _leaky_relu_backward(grad: Tensor, input: Tensor, negative_slope: float, self_is_result: bool) -> Tensor:
    if self_is_result and negative_slope < 0:
        raise UnsupportedError(
            f"leaky_relu_backward: negative_slope is {negative_slope}, expected 0 or more with self_is_result"
        )
    return _derivative(ops.leaky_relu)(grad, input, negative_slope)


def _log_sigmoid_backward(grad: Tensor, input: Tensor, buffer: Tensor) -> Tensor:
    return _derivative(ops.logsigmoid)(grad, input)


def _threshold(input: Tensor, threshold: float) -> Tensor:
    return ops.threshold(input, threshold, 0.0)


def _gelu(input: Tensor, approximate: str = "none") -> Tensor:
    return ops.gelu(input, approximate)


def _loss(function: Function, *options: str) -> Function:
    """A loss of torch's schema: target, reduction as a number, and options by position."""

    def loss(input: Tensor, target: Tensor, reduction: int, *values: Any) -> Tensor:
        named = dict(zip(options, values))
        return function(input, target, reduction=_REDUCTIONS[reduction], **named)

    return loss


def _binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1) -> Tensor:
    return ops.binary_cross_entropy(input, target, weight, reduction=_REDUCTIONS[reduction])


def _embedding_dense_backward(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    def table(weight: Tensor) -> Tensor:
        place = None if padding_idx < 0 else padding_idx
        return ops.embedding(indices, weight, place, scale_grad_by_freq=scale_grad_by_freq)

    (result,) = _gradients(table, grad, [grad.new_zeros(num_weights, grad.shape[-1])])
    assert result is not None
    return result


def _gather_backward(grad: Tensor, input: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    if sparse_grad:
        return torch.ops.aten.gather_backward.default.decompose(grad, input, dim, index, sparse_grad)
    return scatter_sum(input, dim, index, grad)


def _index_select_backward(grad: Tensor, shape: Sequence[int], dim: int, index: Tensor) -> Tensor:
    op, dim = "index_select_backward", dim % max(len(shape), 1)
    check_dtype(op, ALL, grad=grad)
    at = as_index(op, at_least_1d(index), [*shape, 1][dim])
    return select_sum(shape, dim, at, grad, contract_name(None))


def _adaptive(function: Function, dims: int) -> Function:
    def backward(grad: Tensor, input: Tensor) -> Tensor:
        return _derivative(function)(grad, input, grad.shape[-dims:])

    return backward


def _avg_pool(function: Function) -> Function:
    def pool(
        input: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool, divisor: int | None
    ) -> Tensor:
        return function(input, kernel, stride or None, padding, ceil_mode, include, divisor)

    return pool


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Each convolution by one name, as graphs that were traced have it."""
    dims = weight.dim() - 2
    function = getattr(ops, f"conv_transpose{dims}d" if transposed else f"conv{dims}d", None)
    if function is None:
        raise UnsupportedError(f"convolution: {dims} dimensions of an image, expected 1 to 3")
    if transposed:
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return function(input, weight, bias, stride, padding, dilation, groups)


def _convolution_backward(
    grad: Tensor, input: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    def call(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        return convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)

    bias = weight.new_zeros(weight.shape[1] * groups if transposed else weight.shape[0])
    return tuple(_gradients(call, grad, [input, weight, bias], output_mask))


_OF_INPUT = (
    *(ops.glu, ops.hardshrink, ops.hardsigmoid, ops.hardswish, ops.hardtanh, ops.logit, ops.mish, ops.silu),
    *(ops.softplus, ops.softshrink),
)
"""Functions whose derivative has their own arguments after the gradient."""

BACKWARD: dict[str, Function] = {
    **{f"{function.__name__}_backward": _derivative(function) for function in _OF_INPUT},
    "gelu_backward": _derivative(_gelu),
    "threshold_backward": _derivative(_threshold),
    "leaky_relu_backward": _leaky_relu_backward,
    "elu_backward": _elu_backward,
    "log_sigmoid_backward": _log_sigmoid_backward,
    "sigmoid_backward": _sigmoid_backward,
    "tanh_backward": _tanh_backward,
    "_softmax": _softmax(ops.softmax),
    "_log_softmax": _softmax(ops.log_softmax),
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
    "mse_loss_backward": _derivative(_loss(ops.mse_loss)),
    "smooth_l1_loss_backward": _derivative(_loss(ops.smooth_l1_loss, "beta")),
    "huber_loss_backward": _derivative(_loss(ops.huber_loss, "delta")),
    "soft_margin_loss_backward": _derivative(_loss(ops.soft_margin_loss)),
    "binary_cross_entropy_backward": _derivative(_binary_cross_entropy),
    "embedding_dense_backward": _embedding_dense_backward,
    "gather_backward": _gather_backward,
    "index_select_backward": _index_select_backward,
    "_adaptive_avg_pool2d_backward": _adaptive(ops.adaptive_avg_pool2d, 2),
    "_adaptive_avg_pool3d_backward": _adaptive(ops.adaptive_avg_pool3d, 3),
    "avg_pool2d_backward": _derivative(_avg_pool(ops.avg_pool2d)),
    "avg_pool3d_backward": _derivative(_avg_pool(ops.avg_pool3d)),
    **{
        f"{mode}_pad{n}d_backward": _derivative(
            lambda input, padding, mode=mode: ops.pad(
                input, padding, "reflect" if mode == "reflection" else "replicate"
            )
        )
        for mode in ("reflection", "replication")
        for n in (1, 2, 3)
    },
    "convolution_backward": _convolution_backward,
}
"""By torch's name; each takes what the dispatcher gives."""

__all__ = ["BACKWARD", "convolution"]
