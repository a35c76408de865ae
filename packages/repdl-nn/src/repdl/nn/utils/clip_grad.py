"""Clipping of gradients: the functions of `torch.nn.utils`, as formulas over registered ops."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from types import GeneratorType

import torch

from repdl import ops
from repdl.contract import Contract, contract_name
from repdl.errors import check_bool, check_tensor
from repdl.registry.arguments import as_float
from repdl.tensors.overlap import check_apart

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensor = torch.Tensor


@torch.no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """The norm of all elements of the tensors, 0-D; without elements 0.

    `vector_norm(stack([vector_norm(t, p) for t in tensors]), p)`, the tensors in the order in which they are given,
    those without elements left out; norms of several dtypes are widened to the one that torch promotes them to, which
    is exact.

    Args:
        tensors: one or some, of any floating-point dtype, on any devices; the result is on the first one's.
        norm_type: p, any number or "inf".
        error_if_nonfinite: whether a norm that is no finite number is an error.
        foreach: chooses among torch's kernels; here no bit and no kernel depends on it.

    Raises:
        RuntimeError: for a norm that is not finite, if `error_if_nonfinite`.
        ArgumentError, DTypeError: for what is no tensor, or of no dtype of the contract.

    Contract: norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.get_total_norm.html
    """
    op, name, p = "get_total_norm", contract_name(contract), _order("get_total_norm", norm_type)
    _check_foreach(op, foreach)
    check_bool(op, error_if_nonfinite=error_if_nonfinite)
    given = _listed(tensors)
    check_tensor(op, **{f"tensors[{i}]": tensor for i, tensor in enumerate(given)})
    if not given:
        return torch.tensor(0.0)
    dtype, device = given[0].dtype, given[0].device
    for tensor in given:
        dtype = torch.promote_types(dtype, tensor.dtype)
    norms = [ops.vector_norm(tensor, p, contract=name).to(device) for tensor in given if tensor.numel()]
    if not norms:
        return torch.zeros((), dtype=dtype, device=device)
    total = ops.vector_norm(torch.stack([ops.cast(norm, dtype) for norm in norms]), p, contract=name)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"{op}: the norm of order {p} is {total.item()}, expected a finite number; "
            "error_if_nonfinite=False scales by it all the same"
        )
    return total


@torch.no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
    *,
    contract: Contract | str | None = None,
) -> None:
    """Scale the gradients of `parameters`, in place: `grad * minimum(max_norm / (total_norm + 1e-6), 1)`.

    Every operation is rounded once to the dtype of `total_norm`, the product to that of the gradient: a 16-bit float is
    multiplied in float32 and rounded once.

    Raises:
        ArgumentError, DTypeError: for what is no tensor, or of no dtype of the contract.

    Contract: elementwise v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grads_with_norm_.html
    """
    op, name = "clip_grads_with_norm_", contract_name(contract)
    _check_foreach(op, foreach)
    check_tensor(op, total_norm=total_norm)
    grads = _gradients(_listed(parameters))
    if not grads:
        return
    quotient = ops.div(as_float(op, "max_norm", max_norm), ops.add(total_norm, 1e-6, contract=name), contract=name)
    factor = ops.clamp(quotient, max=1.0, contract=name)
    for grad in grads:
        check_apart(op, grad=grad)
        grad.copy_(ops.cast(ops.mul(grad, factor.to(grad.device), contract=name), grad.dtype))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """Scale the gradients of `parameters`, in place, to a norm of at most `max_norm`; returns the norm that they had.

    `get_total_norm` of the gradients in the order of the parameters, those without one left out, then
    `clip_grads_with_norm_`.

    Raises:
        RuntimeError: for a norm that is not finite, if `error_if_nonfinite`; the gradients are left as they are.
        ArgumentError, DTypeError: for what is no tensor, or of no dtype of the contract.

    Contract: norm v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
    """
    given = _listed(parameters)
    if isinstance(parameters, GeneratorType) and not given:
        warnings.warn("clip_grad_norm_: parameters is an empty generator, nothing is clipped", stacklevel=2)
    as_float("clip_grad_norm_", "max_norm", max_norm)
    total = get_total_norm(_gradients(given), norm_type, error_if_nonfinite, foreach, contract=contract)
    clip_grads_with_norm_(given, max_norm, total, foreach, contract=contract)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    *,
    contract: Contract | str | None = None,
) -> Tensor:
    """`clip_grad_norm_`, under the name that torch gave it first."""
    warnings.warn("clip_grad_norm is deprecated, as in torch; call clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach, contract=contract)


@torch.no_grad()
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor],
    clip_value: float,
    foreach: bool | None = None,
    *,
    contract: Contract | str | None = None,
) -> None:
    """Limit each element of the gradients of `parameters`, in place: `clamp(grad, -clip_value, clip_value)`.

    Raises:
        ArgumentError, DTypeError: for what is no tensor, or of no dtype of the contract.

    Contract: elementwise v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_value_.html
    """
    op, name = "clip_grad_value_", contract_name(contract)
    _check_foreach(op, foreach)
    limit = as_float(op, "clip_value", clip_value)
    for grad in _gradients(_listed(parameters)):
        check_apart(op, grad=grad)
        grad.copy_(ops.clamp(grad, -limit, limit, contract=name))


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _order(op: str, norm_type: float | str) -> float:
    return math.inf if norm_type == "inf" else as_float(op, "norm_type", norm_type)


def _check_foreach(op: str, foreach: bool | None) -> None:
    if foreach is not None:
        check_bool(op, foreach=foreach)
