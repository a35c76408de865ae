"""Second derivatives of the norms: those of their backward ops, in registered ops (layer_norm.md, *Backward*)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from repdl.dtypes import FLOATS_16_BIT
from repdl.ops.common import constant, narrowed
from repdl.ops.pointwise.cast import cast
from repdl.registry import functions as _ops

Optional = Tensor | None


class Rows:
    """The rows of a norm, in the dtype of the arithmetic: h = (x - mean) * rstd over the dimensions `dims`.

    mean and rstd broadcast to the shape of x; without mean it is 0 (rms_norm). Unless `fixed`,
    as in the evaluation of batch_norm, they are functions of x, in derivatives of any order.
    """

    def __init__(
        self, x: Tensor, mean: Optional, rstd: Tensor, dims: Sequence[int], contract: str, fixed: bool = False
    ) -> None:
        self.dims, self.contract, self.fixed = list(dims), contract, fixed
        self.n = constant(prod(x.shape[d] for d in dims), x.dtype, x.device)
        if not fixed and torch.is_grad_enabled() and x.requires_grad:
            mean, rstd = _Statistics.apply(x, mean, rstd, self.dims, contract)  # type: ignore[no-untyped-call]
        self.centred, self.rstd = mean is not None, rstd
        self.h = self.mul(x if mean is None else self.sub(x, mean), rstd)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return _ops.mul(a, b, self.contract)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return _ops.add(a, b, self.contract)

    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        return _ops.sub(a, b, self.contract)

    def mean(self, a: Tensor) -> Tensor:
        """sum(a) / n of each row."""
        return _ops.div(self.sum(a), self.n, self.contract)

    def sum(self, a: Tensor) -> Tensor:
        return _ops.sum(a, self.dims, True, self.contract)

    def back(self, u: Tensor) -> Tensor:
        """From the gradient of h to that of x."""
        if self.fixed:
            return self.mul(u, self.rstd)
        base = self.sub(u, self.mean(u)) if self.centred else u
        return self.mul(self.sub(base, self.mul(self.h, self.mean(self.mul(u, self.h)))), self.rstd)

    def back_twice(self, p: Tensor, to_p: Tensor, cotangent: Tensor, u: Tensor) -> Tensor:
        """The gradient of x where `back(p)` has `cotangent`, p then has `to_p`, and h beside it has u."""
        if self.fixed:
            return self.back(u)
        v, w = self.mean(self.mul(cotangent, self.h)), self.mean(self.mul(p, self.h))
        cross = self.mul(self.add(self.mul(p, v), self.mul(cotangent, w)), self.rstd)
        scale = self.mul(self.mean(self.mul(p, to_p)), self.rstd)
        return self.sub(self.back(self.sub(u, cross)), self.mul(scale, self.h))


def twice(
    rows: Rows, cotangents: Sequence[Optional], g: Tensor, weight: Optional, shared: Sequence[int]
) -> tuple[Tensor, Tensor, Optional]:
    """The gradients of grad, input and weight where the results of a norm's backward op have the `cotangents`.

    Those of grad_weight and grad_bias (None: there is none) broadcast to the shape of input,
    as weight does, whose gradient is summed over the dimensions `shared`.
    """
    of_input, of_weight, of_bias = cotangents
    assert of_input is not None and of_weight is not None
    to_p = rows.back(of_input)
    p, to_g = (g, to_p) if weight is None else (rows.mul(g, weight), rows.mul(to_p, weight))
    to_x = rows.back_twice(p, to_p, of_input, rows.mul(g, of_weight))
    to_g = rows.add(to_g, rows.mul(rows.h, of_weight))
    if of_bias is not None:
        to_g = rows.add(to_g, of_bias)
    if weight is None:
        return to_g, to_x, None
    return to_g, to_x, _ops.sum(rows.mul(g, to_p), list(shared), False, rows.contract)


class _Statistics(torch.autograd.Function):
    """mean and rstd of rows as functions of x: derivatives beyond the second need it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, mean: Optional, rstd: Tensor, dims: list[int], contract: str) -> Any:
        return None if mean is None else mean.clone(), rstd.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, mean, rstd, ctx.dims, ctx.contract = inputs
        ctx.save_for_backward(x, mean, rstd)

    @staticmethod
    def backward(ctx: Any, of_mean: Optional, of_rstd: Tensor) -> Any:
        x, mean, rstd = ctx.saved_tensors
        rows = Rows(x, mean, rstd, ctx.dims, ctx.contract)
        scale = rows.mul(rows.mul(of_rstd, rows.rstd), rows.rstd)
        moved = rows.mul(rows.h, scale)
        total = _ops.neg(moved) if of_mean is None or not rows.centred else rows.sub(of_mean, moved)
        return _ops.div(total, rows.n, ctx.contract), None, None, None, None


def wide(tensor: Any) -> Any:
    """In the dtype of the arithmetic; None for None."""
    return cast(tensor, torch.float32) if tensor is not None and tensor.dtype in FLOATS_16_BIT else tensor


def narrow(gradients: Sequence[Optional], operands: Sequence[Optional]) -> tuple[Optional, ...]:
    """Gradients in the dtypes of what they are of; None for None."""
    return tuple(
        None if gradient is None or like is None else narrowed(gradient, like.dtype)
        for gradient, like in zip(gradients, operands)
    )
