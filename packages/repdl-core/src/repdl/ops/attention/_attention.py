"""attention and its derivative as ops of their own, which keep no weights; the formulas are what they compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repdl.callcache import NOT_READ, ValueRange
from repdl.dtypes import FLOATS_16_BIT, Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.common import constant, sum_to
from repdl.ops.declare import POSITION, check_place, check_position, check_probability
from repdl.registry import OPS, composite, define, functions as _ops
from repdl.registry.autograd import of_formula

_FEW = 8  # rows against which a product reads a matrix in place, so that nothing is gained by packing it


def weights_of(
    scores: Tensor, bias: Tensor | None, mask: Tensor | None, factor: Tensor, is_causal: bool, c: str
) -> Tensor:
    """The weights of scores that are products yet, (..., L, S)."""

    def scalar(value: float) -> Tensor:
        return constant(value, scores.dtype, scores.device)

    scores = _ops.mul(scores, factor, c)
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = _ops.where(mask, scores, scalar(-math.inf), c)
    if bias is not None:
        scores = _ops.add(scores, bias, c)
    if is_causal or (mask is None and bias is None):
        return _ops.softmax(scores, scores.dim() - 1, c)
    # A row that sees no key has no weights, and passes no gradient on.
    hidden, nothing = (scores.detach() == -math.inf).all(-1, keepdim=True), scalar(0.0)
    weights = _ops.softmax(_ops.where(hidden, nothing, scores, c), scores.dim() - 1, c)
    return _ops.where(hidden, nothing, weights, c)


def fits(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None, is_causal: bool, groups: int
) -> bool:
    """Whether attention is one op: for heads of the same batch, enough queries, and one kind of mask."""
    return (
        (bias is not None) + (mask is not None) + is_causal < 2
        and query.dim() in (3, 4)
        and query.dim() == key.dim() == value.dim()
        and query.shape[:-3] == key.shape[:-3] == value.shape[:-3]
        and key.shape[-3] == value.shape[-3]
        and query.shape[-3] == groups * key.shape[-3]
        and min(*query.shape, *key.shape, *value.shape) > 0
        and query.shape[-2] > _FEW
    )


def as_heads(tensor: Tensor | None) -> Tensor | None:
    """(..., rows, columns) -> (batch, heads, rows, columns)."""
    return tensor if tensor is None or tensor.dim() == 4 else tensor[(None,) * (4 - tensor.dim())]


class _Options(NamedTuple):
    """What the ops take behind query, key and value."""

    bias: Tensor | None
    mask: Tensor | None
    position: Tensor | None
    factor: Tensor
    dropout_p: float
    is_causal: bool
    length: int
    contract: str


def _check(query: Tensor, key: Tensor, value: Tensor, *given: Any) -> None:
    bias, mask, position, _, dropout_p, is_causal, length, _ = _Options(*given)
    check_dim("attention", 4, query=query, key=key, value=value)
    check_dim("attention", 4, bias=bias, mask=mask)
    batch, _, rows, size = query.shape
    sizes = min(*query.shape[2:], *key.shape[2:], value.shape[3], length)
    check("attention", sizes > 0, "a size of query, key or value is 0, expected 1 or more of all but batch and heads")
    check_size("attention", "query.shape[2]", rows, rows // length * length, "a multiple of length")
    check_size("attention", "key.shape[0]", key.shape[0], batch, "query.shape[0]")
    check_size("attention", "key.shape[3]", key.shape[3], size, "query.shape[3]")
    check_size("attention", "key.shape[1]", key.shape[1], query.shape[1], "query.shape[1]")
    check_size("attention", "value.shape[:3]", value.shape[:3], key.shape[:3], "key.shape[:3]")
    kinds = {"bias": bias is not None, "mask": mask is not None, "is_causal": is_causal}
    masks = [name for name, there in kinds.items() if there]
    check("attention", len(masks) < 2, lambda: f"{' and '.join(masks)} are given, expected one of them")
    scores = _scores(query, key, length)
    for name, tensor in (("bias", bias), ("mask", mask)):
        if tensor is not None:
            broadcasts = all(n in (1, whole) for n, whole in zip(tensor.shape, scores))
            check(
                "attention",
                broadcasts,
                lambda: f"{name}.shape is {tuple(tensor.shape)}, expected {scores}, or 1 for all",
            )
    if position is not None:
        check_position("attention", position)
        check_probability("attention", dropout_p)


def _scores(query: Tensor, key: Tensor, length: int) -> tuple[int, ...]:
    """The shape of the scores, (B, H, L, S)."""
    return query.shape[0], query.shape[1] * (query.shape[2] // length), length, key.shape[2]


def _check_values(query: Tensor, key: Tensor, value: Tensor, *given: Any) -> ValueRange | None:
    position = _Options(*given).position
    if position is None:
        return NOT_READ
    return check_place("attention", query.shape[:3].numel() * key.shape[2], position)


def _by_head(scores: Tensor, length: int) -> Tensor:
    """(B, G, H / G * L, S) -> (B, H, L, S)."""
    batch, heads, rows, keys = scores.shape
    return scores.reshape(batch, heads * rows // length, length, keys)


def _dropped(weights: Tensor, options: _Options) -> Tensor:
    if options.position is None:
        return weights
    return _ops.dropout(weights, options.position, options.dropout_p)


def _weights(products: Tensor, options: _Options) -> Tensor:
    """Of the products of queries and keys: the weights before dropout, (B, H, L, S)."""
    scores = _by_head(products, options.length)
    return weights_of(scores, options.bias, options.mask, options.factor, options.is_causal, options.contract)


def _formula(query: Tensor, key: Tensor, value: Tensor, *given: Any) -> Tensor:
    options = _Options(*given)
    products = _ops.matmul(query, key, False, True, options.contract)
    weights = _dropped(_weights(products, options), options).reshape(products.shape)
    return _ops.matmul(weights, value, False, False, options.contract)


_TENSORS, _BIAS, _FACTOR = 7, 3, 6
"""How many tensors the ops have, before the options, and which are these."""


def _setup_context(ctx: Any, inputs: Any, output: Any) -> None:
    *tensors, ctx.dropout_p, ctx.is_causal, ctx.length, ctx.contract = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, grad: Tensor) -> Any:
    tensors, options = ctx.saved_tensors, (ctx.dropout_p, ctx.is_causal, ctx.length, ctx.contract)
    wanted = ctx.needs_input_grad
    if wanted[_FACTOR]:  # of the weights all at once
        formula = OPS["attention"].formula
        assert formula is not None
        return tuple(of_formula(formula, (*tensors, *options), wanted, [grad]))
    grads: list[Any] = [None] * len(wanted)
    if any(wanted[:_BIAS]):
        grads[:_BIAS] = _ops.attention_backward(grad, *tensors, *options)  # type: ignore[call-arg]
    if wanted[_BIAS]:
        grads[_BIAS] = _grad_bias(grad, *tensors, *options)
    return tuple(grads)


def _grad_bias(grad: Tensor, *args: Any) -> Tensor:
    """Summed over the sizes that the bias does not have; of 16-bit floats rounded after that."""
    bias, dtype, contract = args[_BIAS], grad.dtype, args[-1]
    if dtype in FLOATS_16_BIT:
        tensors = (t if t is None or t.dtype is not dtype else _ops.cast(t, torch.float32) for t in args[:_TENSORS])
        grad, args = _ops.cast(grad, torch.float32), (*tensors, *args[_TENSORS:])
    total = sum_to(_ops.attention_backward_bias(grad, *args), bias.shape, contract)
    return _ops.cast(total, dtype) if dtype in FLOATS_16_BIT else total


_OPTIONS = (
    "Tensor? bias, Tensor? mask, Tensor? position, Tensor factor, float dropout_p, bool is_causal, int length, "
    "str contract)"
)
_CALLS = ("add", "dropout", "matmul", "mul", "softmax", "where")
_DTYPES = Dtypes(statistics=("factor",), integers=(POSITION,), bools=("mask",))

attention: Callable[..., Tensor] = define(
    "attention",
    f"(Tensor query, Tensor key, Tensor value, {_OPTIONS} -> Tensor",
    check=_check,
    check_values=_check_values,
    fake=lambda query, key, value, *_: query.new_empty((*query.shape[:3], value.shape[3])),
    setup_context=_setup_context,
    backward=_backward,
    dtypes=_DTYPES,
    host=(POSITION,),
    formula=_formula,
    calls=_CALLS,
)


def _check_backward(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *options: Any) -> None:
    _check(query, key, value, *options)
    expected = *query.shape[:3], value.shape[3]
    check_size("attention_backward", "grad.shape", grad.shape, expected, "the shape of the output")


def _gradients(grad: Tensor, products: Tensor, value: Tensor, options: _Options) -> tuple[Tensor, Tensor]:
    """Of the products of queries and keys: the weights, after dropout, and the gradient of the scores with their mask,
    +0 where the mask hides."""
    weights, c = _weights(products, options), options.contract
    grad_weights = _ops.matmul(grad, value, False, True, c).reshape(weights.shape)
    grad_scores = _ops.softmax_backward(_dropped(grad_weights, options), weights, weights.dim() - 1, c)
    nothing = constant(0.0, weights.dtype, weights.device)
    if options.is_causal:
        seen = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).tril()
        grad_scores = _ops.where(seen, grad_scores, nothing, c)
    elif options.mask is not None:
        grad_scores = _ops.where(options.mask, grad_scores, nothing, c)
    elif options.bias is not None:
        hidden = (weights.detach() == 0).all(-1, keepdim=True)
        grad_scores = _ops.where(hidden, nothing, grad_scores, c)
    return _dropped(weights, options), grad_scores


def _formula_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *given: Any
) -> tuple[Tensor, Tensor, Tensor]:
    options, c = _Options(*given), given[-1]
    products = _ops.matmul(query, key, False, True, c)
    weights, grad_scores = _gradients(grad, products, value, options)
    grad_scores = _ops.mul(grad_scores, options.factor, c).reshape(products.shape)
    weights = weights.reshape(products.shape)
    return (
        _ops.matmul(grad_scores, key, False, False, c),
        _ops.matmul(grad_scores, query, True, False, c),
        _ops.matmul(weights, grad, True, False, c),
    )


attention_backward: Callable[..., tuple[Tensor, Tensor, Tensor]] = composite(
    "attention_backward",
    f"(Tensor grad, Tensor query, Tensor key, Tensor value, {_OPTIONS} -> (Tensor, Tensor, Tensor)",
    _formula_backward,
    check=_check_backward,
    check_values=lambda grad, *args: _check_values(*args),
    fake=lambda grad, query, key, value, *_: tuple(t.new_empty(t.shape) for t in (query, key, value)),
    dtypes=_DTYPES,
    host=(POSITION,),
    calls=(*_CALLS, "softmax_backward"),
    family="attention",
)


def _check_backward_bias(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *options: Any) -> None:
    _check_backward(grad, query, key, value, *options)
    check("attention_backward_bias", options[0] is not None, "bias is None, expected a tensor")


def _formula_backward_bias(grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *given: Any) -> Tensor:
    return _gradients(grad, _ops.matmul(query, key, False, True, given[-1]), value, _Options(*given))[1]


attention_backward_bias: Callable[..., Tensor] = composite(
    "attention_backward_bias",
    f"(Tensor grad, Tensor query, Tensor key, Tensor value, {_OPTIONS} -> Tensor",
    _formula_backward_bias,
    check=_check_backward_bias,
    check_values=lambda grad, *args: _check_values(*args),
    fake=lambda grad, query, key, *options: query.new_empty(_scores(query, key, options[-2])),
    dtypes=_DTYPES,
    host=(POSITION,),
    calls=(*_CALLS, "softmax_backward"),
    family="attention",
)
