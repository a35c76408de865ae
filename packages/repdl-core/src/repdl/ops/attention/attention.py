"""Attention: products, a softmax and a mask, in formulas over registered ops, or in one (_attention.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike, contract_name
from repdl.dtypes import ALL, Dtypes
from repdl.errors import UnsupportedError, check, check_dtype, check_range, check_size, check_tensor_or_none
from repdl.generators.generator import Generator, chosen
from repdl.ops.attention._attention import as_heads, fits, weights_of
from repdl.ops.common import constant
from repdl.ops.declare import POSITION, public
from repdl.registry import LOWER, as_float, composite, functions as _ops
from repdl.tensors.layout import broadcast_shapes

__all__ = ["scaled_dot_product_attention"]

_OP = "scaled_dot_product_attention"


def _groups(query: Tensor, key: Tensor, enable_gqa: bool) -> int:
    """How many heads of the query share one of the key."""
    return query.shape[-3] // key.shape[-3] if enable_gqa else 1


def _grouped(tensor: Tensor, groups: int) -> Tensor:
    """(..., H, L, E) -> (..., H / groups, groups * L, E): the rows of heads that share a key, one below the other."""
    if groups == 1:
        return tensor
    *batch, heads, rows, columns = tensor.shape
    return tensor.reshape(*batch, heads // groups, groups * rows, columns)


def _check(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    position: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    contract: str,
) -> None:
    for name, tensor in (("query", query), ("key", key)):
        check(_OP, tensor.dim() >= 2, lambda: f"{name}.dim() is {tensor.dim()}, expected 2 or more (..., length, size)")
    check_size(_OP, "key.shape[-1]", key.shape[-1], query.shape[-1], "query.shape[-1]")
    batch, keys = query.shape[:-2], key.shape[:-2]
    if enable_gqa:
        check(_OP, min(query.dim(), key.dim()) >= 3, "query or key is 2-D, expected 3-D or more with enable_gqa")
        check(
            _OP,
            key.shape[-3] > 0 and query.shape[-3] % key.shape[-3] == 0,
            lambda: f"query has {query.shape[-3]} heads, expected a multiple of the key's {key.shape[-3]}",
        )
        batch, keys = query.shape[:-3], key.shape[:-3]
    try:
        broadcast_shapes(batch, keys)
    except RuntimeError:
        check(_OP, False, f"query.shape is {tuple(query.shape)}, key.shape {tuple(key.shape)}: they do not broadcast")
    scores = (*query.shape[:-1], key.shape[-2])
    given = bias if mask is None else mask
    if given is not None:
        shape = tuple(given.shape)
        fits = len(shape) <= max(len(scores), key.dim()) and all(
            a in (1, b) for a, b in zip(reversed(shape), reversed(scores))
        )
        check(_OP, fits, lambda: f"attn_mask.shape is {shape}, expected a shape that broadcasts to {scores}")


def _factor(query: Tensor, scale: float | None) -> Tensor:
    """What scores are multiplied by."""
    if scale is None:
        return constant(query.shape[-1], query.dtype, query.device, _ops.rsqrt)
    return constant(scale, query.dtype, query.device)


def _weights(
    query: Tensor,
    key: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    position: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    c: str,
) -> Tensor:
    groups = _groups(query, key, enable_gqa)
    scores = _ops.matmul(_grouped(query, groups), key, False, True, c)
    if groups > 1:
        scores = scores.reshape(*scores.shape[:-3], query.shape[-3], query.shape[-2], key.shape[-2])
    weights = weights_of(scores, bias, mask, _factor(query, scale), is_causal, c)
    return weights if position is None else _ops.dropout(weights, position, dropout_p)


_CALLS = ("add", "dropout", "matmul", "mul", "rsqrt", "softmax", "where")  # attention's own too, where that is called
_OPTIONS = (
    "Tensor? bias, Tensor? mask, Tensor? position, float dropout_p, bool is_causal, float? scale, bool enable_gqa, "
    "str contract) -> Tensor"
)

composite(
    "attention_weights",
    f"(Tensor query, Tensor key, {_OPTIONS}",
    _weights,
    calls=_CALLS,
    check=_check,
    dtypes=Dtypes(integers=(POSITION,), bools=("mask",)),
    autocast=LOWER,
    host=(POSITION,),
    family="attention",
)


def _check_attention(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> None:
    _check(query, key, *options)
    check(_OP, value.dim() >= 2, lambda: f"value.dim() is {value.dim()}, expected 2 or more (..., length, size)")
    check_size(_OP, "value.shape[-2]", value.shape[-2], key.shape[-2], "key.shape[-2], the number of keys")
    if options[6]:  # enable_gqa
        check_size(_OP, "value.shape[-3]", value.shape[-3] if value.dim() > 2 else 0, key.shape[-3], "key.shape[-3]")


def _attention(query: Tensor, key: Tensor, value: Tensor, *options: Any) -> Tensor:
    bias, mask, position, dropout_p, is_causal, scale, enable_gqa, c = options
    groups = _groups(query, key, enable_gqa)
    if fits(query, key, value, bias, mask, is_causal, groups):
        operands: list[Any] = [as_heads(t) for t in (_grouped(query, groups), key, value, bias, mask)]
        factor, length = _factor(query, scale), query.shape[-2]
        rest = position, factor, dropout_p, is_causal, length, c
        output = _ops.attention(*operands, *rest)  # type: ignore[call-arg]
        shape = *query.shape[:-1], value.shape[-1]
        return output if output.shape == shape else output.reshape(shape)
    weights = _weights(query, key, *options)
    output = _ops.matmul(_grouped(weights, groups), value, False, False, c)
    if groups == 1:
        return output
    return output.reshape(*output.shape[:-3], query.shape[-3], query.shape[-2], value.shape[-1])


_scaled_dot_product_attention: Callable[..., Tensor] = composite(
    _OP,
    f"(Tensor query, Tensor key, Tensor value, {_OPTIONS}",
    _attention,
    calls=_CALLS,
    check=_check_attention,
    dtypes=Dtypes(integers=(POSITION,), bools=("mask",)),
    autocast=LOWER,
    host=(POSITION,),
    family="attention",
)


def checked_mask(op: str, attn_mask: Tensor | None, query: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """A mask as numbers that are added to the scores, and as what is seen: one of them, or neither."""
    check_tensor_or_none(op, attn_mask=attn_mask)
    if attn_mask is None:
        return None, None
    if attn_mask.dtype is torch.bool:
        return None, attn_mask
    check_dtype(op, (torch.bool, query.dtype), attn_mask=attn_mask)
    return attn_mask, None


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """What `scaled_dot_product_attention` multiplies the value by: `(..., L, E), (..., S, E) -> (..., L, S)`."""
    tensors, name = (query, key), contract_name(contract)
    return _run(_ops.attention_weights, _check, tensors, attn_mask, dropout_p, False, None, False, generator, name)


def _run(
    op: Callable[..., Tensor],
    check_arguments: Callable[..., None],
    tensors: tuple[Tensor, ...],
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    generator: Generator | None,
    contract: str,
) -> Tensor:
    query, key = tensors[:2]
    bias, mask = checked_mask(_OP, attn_mask, query)
    dropout_p = as_float(_OP, "dropout_p", dropout_p)
    check_range(_OP, 0 <= dropout_p <= 1, lambda: f"dropout_p is {dropout_p}, expected a probability, 0 to 1")
    options = dropout_p, is_causal, None if scale is None else as_float(_OP, "scale", scale), enable_gqa
    source, position = chosen(_OP, generator), None
    if dropout_p:  # all that can be wrong is found before the generator goes on
        check_dtype(_OP, ALL, query=query)
        check_arguments(*tensors, bias, mask, None, *options, contract)
        position = source.position(math.prod(query.shape[:-1]) * key.shape[-2])
    return op(*tensors, bias, mask, position, *options, contract)


@public("attention")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    generator: Generator | None = None,
    contract: ContractLike = None,
) -> Tensor:
    """`softmax(query @ key.T * scale + mask) @ value`: `(..., L, E), (..., S, E), (..., S, V) -> (..., L, V)`.

    Any floating-point dtype. A query whose keys are all masked gets zeros.

    Args:
        query, key, value: (..., H, length, size); leading dimensions broadcast.
        attn_mask: bools, True where a key is seen, or numbers that are added to the scores; broadcasts to (..., L, S).
        dropout_p: the probability with which a weight is dropped, always applied, as in torch.
        is_causal: query i sees the keys 0 to i; then `attn_mask` must be None.
        scale: a factor of the scores; None is `1 / sqrt(E)`.
        enable_gqa: key and value have fewer heads, each for several of the query in turn.

    Raises:
        ShapeError: if sizes, heads or the mask do not fit together.
        OutOfRangeError: if `dropout_p` is not in [0, 1]; nothing is drawn then.
        UnsupportedError: for `attn_mask` with `is_causal`.
    """
    if is_causal and attn_mask is not None:
        raise UnsupportedError(f"{_OP}: attn_mask is given with is_causal=True, expected one of them")
    options = dropout_p, is_causal, scale, enable_gqa, generator, contract
    return _run(_scaled_dot_product_attention, _check_attention, (query, key, value), attn_mask, *options)
