"""SparseAdam: Adam of the rows that sparse gradients have."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import torch
from torch import Tensor

from repdl import ops
from repdl.contract import contract_name
from repdl.errors import UnsupportedError, check_dtype, check_size
from repdl.optim._common import Group, State, scalar
from repdl.optim.composed import ComposedOptimizer, Update
from repdl.optim.power import bias_correction
from repdl.registry import functions


@dataclass
class RowsUpdate(Update):
    """Writes some rows of tensors that are seen as matrices of `rows` rows."""

    places: Tensor
    rows: int

    def run(self) -> None:
        for tensor, value in self.writes:
            matrix = tensor.reshape(self.rows, -1)
            matrix.index_copy_(0, self.places, value)
            if matrix.data_ptr() != tensor.data_ptr():
                tensor.copy_(matrix.view(tensor.shape))


class SparseAdam(ComposedOptimizer, torch.optim.SparseAdam):
    """`torch.optim.SparseAdam` with reproducible bits: same arguments, same state dict.

    Parameters are float32 or float64, of any shape and strides; gradients are sparse tensors, such as those of
    `torch.nn.Embedding(sparse=True)`. Values of one index are added as `index_sum` does (`index_sum.md`), in the order
    in which the gradient has them. Then, of the rows that a gradient has, with g the sum of a row:
    `u = (g - m) * rounded(1 - beta1)`, `m = m + u`, `w = (g * g - v) * rounded(1 - beta2)`, `v = v + w`,
    `p = p + (m / (sqrt(v) + rounded(eps))) * rounded(-(lr * sqrt(1 - beta2**step) / (1 - beta1**step)))`.
    `repdl.enable()` refuses sparse tensors, and so torch's own SparseAdam. `lr` and the other numbers may be tensors
    of one element where torch takes them: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters and parameters that torch refuses.
        UnsupportedError: at the step for gradients that are not sparse, and for DTensors.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SparseAdam.html
    """

    def _check_grad(self, param: Tensor, grad: Tensor) -> None:
        if grad.layout is not torch.sparse_coo:
            raise UnsupportedError(
                f"SparseAdam: a gradient has layout {grad.layout}, expected torch.sparse_coo; use Adam for others"
            )
        check_dtype("SparseAdam", (param.dtype,), grad=grad)
        check_size("SparseAdam", "grad.shape", grad.shape, param.shape, "shape of its parameter")

    def _update(self, group: Group, param: Tensor, grad: Tensor) -> Update:
        state: State = self.state.get(param) or {
            "step": 0,
            **{n: torch.zeros_like(param, memory_format=torch.preserve_format) for n in ("exp_avg", "exp_avg_sq")},
        }
        entries = {**state, "step": state["step"] + 1}
        rows = prod(param.shape[: grad.sparse_dim()])
        places, values = _coalesced(grad)
        held = [tensor.detach() for tensor in (param, state["exp_avg"], state["exp_avg_sq"])]
        if values.numel() == 0:
            return Update("SparseAdam", values, [], [(param, entries)])
        old = [tensor.reshape(rows, -1).index_select(0, places) for tensor in held]
        new = _stepped(group, old, ops.neg(values) if group.get("maximize", False) else values, entries["step"])
        return RowsUpdate("SparseAdam", values, list(zip(held, new)), [(param, entries)], places, rows)


def _coalesced(grad: Tensor) -> tuple[Tensor, Tensor]:
    """The indices that a sparse gradient has, as places of rows, and the sums of their values."""
    indices, values = grad._indices(), grad._values()
    flat = torch.zeros(indices.shape[1], dtype=torch.int64, device=indices.device)
    for side, index in zip(grad.shape, indices):
        flat = flat * side + index
    places, inverse = ops.unique(flat, return_inverse=True)
    values = values.reshape(indices.shape[1], -1) if values.numel() else values.new_zeros((indices.shape[1], 0))
    return places, functions.index_sum(values, inverse, len(places), contract_name(None))


def _stepped(group: Group, old: list[Tensor], grad: Tensor, step: int) -> list[Tensor]:
    """Parameter and moments of the rows after a step."""
    param, mean, square = old
    beta1, beta2 = (scalar(beta) for beta in group["betas"])
    mean = ops.add(mean, ops.mul(ops.sub(grad, mean), 1 - beta1))
    square = ops.add(square, ops.mul(ops.sub(ops.square(grad), square), 1 - beta2))
    size = scalar(group["lr"]) * sqrt(bias_correction(beta2, step)) / bias_correction(beta1, step)
    quotient = ops.div(mean, ops.add(ops.sqrt(square), scalar(group["eps"])))
    return [ops.add(param, ops.mul(quotient, -size)), mean, square]


__all__ = ["SparseAdam"]
