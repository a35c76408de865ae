"""attention and its derivative as ops of their own, which keep no weights; the formulas are what they compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from repdl import registry
from repdl.derivative import of_formula
from repdl.dtypes import SINGLE, Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops._number import constant

Tensor = torch.Tensor
_ops = registry.functions
_FEW = 8  # rows against which a product reads a matrix in place, so that nothing is gained by packing it


def weights_of(
    scores: Tensor, bias: Tensor | None, mask: Tensor | None, factor: Tensor, is_causal: bool, c: str
) -> Tensor:
    """The weights of scores that are products yet, (..., L, S)."""

    def number(value: float) -> Tensor:
        return constant(value, scores.dtype, scores.device)

    scores = _ops.mul(scores, factor, c)
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = _ops.where(mask, scores, number(-math.inf), c)
    if bias is not None:
        scores = _ops.add(scores, bias, c)
    if is_causal or (mask is None and bias is None):
        return _ops.softmax(scores, scores.dim() - 1, c)  # type: ignore[no-any-return]
    # A row that sees no key has no weights, and passes no gradient on.
    hidden, nothing = (scores.detach() == -math.inf).all(-1, keepdim=True), number(0.0)
    weights = _ops.softmax(_ops.where(hidden, nothing, scores, c), scores.dim() - 1, c)
    return _ops.where(hidden, nothing, weights, c)  # type: ignore[no-any-return]


def fits(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether attention is one op: for heads of the same batch, and enough queries."""
    return (
        query.dim() in (3, 4)
        and query.dim() == key.dim() == value.dim()
        and query.shape[:-3] == key.shape[:-3] == value.shape[:-3]
        and key.shape[-3] == value.shape[-3]
        and query.shape[-3] % max(key.shape[-3], 1) == 0
        and min(*query.shape, *key.shape, *value.shape) > 0
        and query.shape[-2] > _FEW
    )


def as_heads(tensor: Tensor | None) -> Tensor | None:
    """(..., rows, columns) -> (batch, heads, rows, columns)."""
    return tensor if tensor is None or tensor.dim() == 4 else tensor[(None,) * (4 - tensor.dim())]


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    factor: Tensor,
    is_causal: bool,
    length: int,
    contract: str,
) -> None:
    check_dim("attention", 4, query=query, key=key, value=value)
    check_dim("attention", 4, bias=bias, mask=mask)
    batch, _, rows, size = query.shape
    sizes = min(*query.shape[2:], *key.shape[2:], value.shape[3], length)
    check("attention", sizes > 0, "a size of query, key or value is 0, expected 1 or more of all but batch and heads")
    check_size("attention", "query.shape[2]", rows, rows // length * length, "a multiple of length")
    check_size("attention", "key.shape[0]", key.shape[0], batch, "query.shape[0]")
    check_size("attention", "key.shape[3]", key.shape[3], size, "query.shape[3]")
    check_size("attention", "key.shape[1]", key.shape[1], query.shape[1], "query.shape[1]")
    check_size("attention", "value.shape[:3]", tuple(value.shape[:3]), tuple(key.shape[:3]), "key.shape[:3]")
    scores = batch, query.shape[1] * (rows // length), length, key.shape[2]
    for name, tensor in (("bias", bias), ("mask", mask)):
        if tensor is not None:
            fits = all(n in (1, whole) for n, whole in zip(tensor.shape, scores))
            check("attention", fits, lambda: f"{name}.shape is {tuple(tensor.shape)}, expected {scores}, or 1 for all")


def _by_head(scores: Tensor, length: int) -> Tensor:
    """(B, G, H / G * L, S) -> (B, H, L, S)."""
    batch, heads, rows, keys = scores.shape
    return scores.reshape(batch, heads * rows // length, length, keys)


def _formula(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    factor: Tensor,
    is_causal: bool,
    length: int,
    c: str,
) -> Tensor:
    scores = _ops.matmul(query, key, False, True, c)
    weights = weights_of(_by_head(scores, length), bias, mask, factor, is_causal, c).reshape(scores.shape)
    return _ops.matmul(weights, value, False, False, c)  # type: ignore[no-any-return]


def _whole(op: str) -> Callable[..., Any]:
    """The formula of an op, for half storage too."""
    formula = registry.OPS[op].formula
    assert formula is not None
    return formula


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.is_causal, ctx.length, ctx.contract = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad: Tensor) -> Any:
    tensors, options = ctx.saved_tensors, (ctx.is_causal, ctx.length, ctx.contract)
    wanted = ctx.needs_input_grad
    if wanted[3] or wanted[5]:  # of the weights all at once
        return tuple(of_formula(_whole("attention"), (*tensors, *options), wanted, [grad]))
    return *_ops.attention_backward(grad, *tensors, *options), *[None] * 6


_OPTIONS = "Tensor? bias, Tensor? mask, Tensor factor, bool is_causal, int length, str contract)"
_CALLS = ("add", "matmul", "mul", "softmax", "where")
_DTYPES = Dtypes(SINGLE, statistics=("factor",), bools=("mask",))

attention: Callable[..., Tensor] = registry.define(
    "attention",
    f"(Tensor query, Tensor key, Tensor value, {_OPTIONS} -> Tensor",
    check=_check,
    fake=lambda query, key, value, *_: query.new_empty((*query.shape[:3], value.shape[3])),
    setup_context=_setup_context,
    backward=_backward,
    dtypes=_DTYPES,
    formula=_formula,
    calls=_CALLS,
)


def _check_backward(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *options: Any) -> None:
    _check(query, key, value, *options)
    expected = *query.shape[:3], value.shape[3]
    check_size("attention_backward", "grad.shape", tuple(grad.shape), expected, "the shape of the output")


def _formula_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    factor: Tensor,
    is_causal: bool,
    length: int,
    c: str,
) -> tuple[Tensor, Tensor, Tensor]:
    nothing = constant(0.0, query.dtype, query.device)
    products = _ops.matmul(query, key, False, True, c)
    scores = _by_head(products, length)
    weights = weights_of(scores, bias, mask, factor, is_causal, c)
    grad_weights = _ops.matmul(grad, value, False, True, c).reshape(weights.shape)
    grad_scores = _ops.softmax_backward(grad_weights, weights, weights.dim() - 1, c)
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        grad_scores = _ops.where(mask, grad_scores, nothing, c)
    grad_scores = _ops.mul(grad_scores, factor, c).reshape(products.shape)
    weights = weights.reshape(products.shape)
    return (
        _ops.matmul(grad_scores, key, False, False, c),
        _ops.matmul(grad_scores, query, True, False, c),
        _ops.matmul(weights, grad, True, False, c),
    )


def _twice(ctx: Any, *cotangents: Tensor) -> Any:
    args = *ctx.saved_tensors, ctx.is_causal, ctx.length, ctx.contract
    return tuple(of_formula(_whole("attention_backward"), args, ctx.needs_input_grad, cotangents))


attention_backward: Callable[..., tuple[Tensor, Tensor, Tensor]] = registry.define(
    "attention_backward",
    f"(Tensor grad, Tensor query, Tensor key, Tensor value, {_OPTIONS} -> (Tensor, Tensor, Tensor)",
    check=_check_backward,
    fake=lambda grad, query, key, value, *_: tuple(t.new_empty(t.shape) for t in (query, key, value)),
    setup_context=_setup_context,
    backward=_twice,
    dtypes=_DTYPES,
    formula=_formula_backward,
    calls=(*_CALLS, "softmax_backward"),
    family="attention",
)
