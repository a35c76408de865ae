"""cosine_similarity, pairwise_distance and normalize: formulas over vector_norm."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import UnsupportedError, check
from repdl.ops.common import expand_to, normalize_dim
from repdl.ops.declare import broadcast_shape, check_broadcast, public
from repdl.ops.losses._element_loss import operands, scalar
from repdl.ops.reduction.norm import vector_norm as vector_norm  # which registers the op
from repdl.registry import (
    DECLARATIONS,
    FLOAT32_ON_CUDA,
    OPS,
    CaseSpec,
    Declaration,
    Lists,
    as_float,
    composite,
    functions as _ops,
)
from repdl.registry.declaration import item
from repdl.tensors.layout import broadcast_shapes

__all__ = ["cosine_similarity", "normalize", "pairwise_distance"]


def _dims(x: Tensor, dim: int) -> list[int]:
    return [dim] if x.dim() else []


def _unit(x: Tensor, p: float, dim: int, eps: float, c: str) -> Tensor:
    size = _ops.vector_norm(x, p, _dims(x, dim), True, c)
    return _ops.div(x, _ops.clamp(size, eps, math.inf), c)


def _cosine(x1: Tensor, x2: Tensor, dim: int, eps: float, c: str) -> Tensor:
    shape = broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = (expand_to(x, shape, c) for x in (x1, x2))
    products = _ops.mul(_unit(x1, 2.0, dim, eps, c), _unit(x2, 2.0, dim, eps, c), c)
    return _ops.sum(products, _dims(products, dim), False, c)


def _distance(x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool, c: str) -> Tensor:
    difference = _ops.sub(x1, x2, c)
    shifted = _ops.add(difference, scalar(eps, difference), c)
    return _ops.vector_norm(shifted, p, _dims(shifted, shifted.dim() - 1), keepdim, c)


def _check_dim(op: str, dim: int, ndim: int) -> None:
    check(op, 0 <= dim < max(ndim, 1), lambda: f"dim is {dim}, expected 0 to {max(ndim, 1) - 1}")


def _check_cosine(op: str, x1: Tensor, x2: Tensor, dim: int) -> None:
    _check_dim(op, dim, len(broadcast_shape(op, x1=x1, x2=x2)))


def _register(
    schema: str,
    formula: Callable[..., Tensor],
    calls: str,
    order: str,
    check: Callable[..., None],
    autocast: Lists | None = None,
) -> Callable[..., Tensor]:
    name, _, rest = schema.partition("(")
    names = [part.split()[-1] for part in rest.partition(")")[0].split(", ")]
    DECLARATIONS[name] = Declaration(item(f"{name}({', '.join(names)}) -> output", order), CaseSpec("written"))
    return composite(
        name,
        f"({rest}",
        formula,
        calls=(*calls.split(), *OPS["vector_norm"].calls),
        dtypes=Dtypes(),
        family="distance",
        check=check,
        autocast=autocast,
    )


_register(
    "normalize(Tensor input, float p, int dim, float eps, str contract) -> Tensor",
    _unit,
    "div clamp",
    "`x / maximum(vector_norm(x, p), eps)`, the norm along dim",
    check=lambda op, input, dim: _check_dim(op, dim, input.dim()),
)
_register(
    "cosine_similarity(Tensor x1, Tensor x2, int dim, float eps, str contract) -> Tensor",
    _cosine,
    "div clamp mul sum",
    "`sum(normalize(x1) * normalize(x2))` along dim, with p = 2 and eps, x1 and x2 broadcast first",
    check=_check_cosine,
    autocast=FLOAT32_ON_CUDA,
)
_register(
    "pairwise_distance(Tensor x1, Tensor x2, float p, float eps, bool keepdim, str contract) -> Tensor",
    _distance,
    "sub add",
    "`vector_norm((x1 - x2) + eps, p)` along the last dimension",
    check=lambda op, x1, x2: check_broadcast(op, x1=x1, x2=x2),
)


@public("distance")
def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None, *, contract: ContractLike = None
) -> Tensor:
    """`input / max(norm(input, p), eps)`, the norm along `dim`, same shape; the dtypes of `vector_norm`.

    Raises:
        UnsupportedError: if `out` is given.
    """
    op = "normalize"
    if out is not None:
        raise UnsupportedError(f"{op}: out is given, expected None: results are new tensors")
    at = normalize_dim(op, dim, input.dim())
    return _ops.normalize(input, as_float(op, "p", p), at, as_float(op, "eps", eps), contract)


@public("distance")
def cosine_similarity(
    x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8, *, contract: ContractLike = None
) -> Tensor:
    """Cosine of the angle between vectors along `dim`, broadcast, any floating-point dtype.

    A norm below `eps` counts as `eps`, and has no derivative.

    Raises:
        ShapeError: if the shapes do not broadcast or `dim` does not exist.
    """
    op = "cosine_similarity"
    x1, x2 = operands(op, x1=x1, x2=x2)
    at = normalize_dim(op, dim, len(broadcast_shape(op, x1=x1, x2=x2)))
    return _ops.cosine_similarity(x1, x2, at, as_float(op, "eps", eps), contract)


@public("distance", broadcasts=True)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False, *, contract: ContractLike = None
) -> Tensor:
    """`norm(x1 - x2 + eps, p)` along the last dimension, broadcast; the dtypes of `vector_norm`."""
    op = "pairwise_distance"
    x1, x2 = operands(op, x1=x1, x2=x2)
    return _ops.pairwise_distance(x1, x2, as_float(op, "p", p), as_float(op, "eps", eps), keepdim, contract)
