"""Optimizers whose step is a formula over ops, because it needs sums and products of whole tensors: Adafactor, Muon.

What a step writes is computed before any of it is written, so that a step that raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.ops.declare.step import check_lists
from repdl.optim._common import Group, ReproducibleOptimizer, Span, State, scalar
from repdl.overrides.adafactor import Numbers, adapted
from repdl.tensors.overlap import check_apart


@dataclass
class Update:
    """What a step writes into a parameter and its state.

    Args:
        op: the optimizer, for messages.
        writes: tensors and their new values, the parameter first.
        state: the parameter with the entries that its state gets beside.
    """

    op: str
    grad: Tensor
    writes: list[tuple[Tensor, Tensor]]
    state: list[tuple[Tensor, State]]

    def check(self) -> None:
        """Raise if two elements of a tensor that is written are one."""
        for tensor, _ in self.writes:
            check_apart(self.op, params=tensor)

    def run(self) -> None:
        for tensor, value in self.writes:
            tensor.copy_(value)

    def spans(self) -> Iterator[Span]:
        """As of `Call`."""
        for tensor, written in [(self.grad, False), *((tensor, True) for tensor, _ in self.writes)]:
            if tensor.is_contiguous():
                yield tensor.device, (tensor.data_ptr(), tensor.nbytes, written)


class ComposedOptimizer(ReproducibleOptimizer):
    """An optimizer that updates each parameter by a formula."""

    def _check_grad(self, param: Tensor, grad: Tensor) -> None:
        check_lists(type(self).__name__, [param], grads=([grad], True))

    def _update(self, group: Group, param: Tensor, grad: Tensor) -> Update:
        """What a step writes for a parameter with this gradient."""
        raise NotImplementedError

    def _calls(self, group: Group) -> Iterable[Update]:
        name = type(self).__name__
        for number, param in enumerate(group["params"]):
            if param.grad is not None:
                if hasattr(param, "to_local"):
                    raise UnsupportedError(f"{name}: params[{number}] is a DTensor, expected a tensor that is whole")
                self._check_grad(param, param.grad)
                yield self._update(group, param, param.grad)


class Adafactor(ComposedOptimizer, torch.optim.Adafactor):
    """`torch.optim.Adafactor` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` chooses an
    implementation in torch; here it is accepted and has no effect: the bits are those of torch's step of
    single tensors under `repdl.enable()`. `lr` may be a tensor of one element: its value, as a double, is used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: at the step for sparse gradients and DTensors.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.
        ZeroDivisionError: at the step for a parameter without elements, as torch.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adafactor.html
    """

    def _update(self, group: Group, param: Tensor, grad: Tensor) -> Update:
        state = self.state.get(param) or self._initial(param)
        names = ("row_var", "col_var") if param.dim() > 1 else ("variance",)
        eps1, eps2 = group["eps"]
        decay, d, weight_decay = (scalar(group[name]) for name in ("beta2_decay", "d", "weight_decay"))
        eps1 = eps1 if eps1 is None else scalar(eps1)
        numbers = Numbers(scalar(group["lr"]), decay, eps1, scalar(eps2), d, weight_decay, group["maximize"])
        step, factors = state["step"] + 1, [state[name] for name in names]
        new = adapted(param.detach(), grad, factors, float(step), numbers)
        entries = {"step": step, **dict(zip(names, factors))}
        return Update("Adafactor", grad, [(param, new.param), *zip(factors, new.factors)], [(param, entries)])

    def _initial(self, param: Tensor) -> State:
        step = {"step": torch.tensor(0.0, dtype=torch.float32)}
        if param.dim() <= 1:
            return {**step, "variance": torch.zeros_like(param, memory_format=torch.preserve_format)}
        *outer, rows, columns = param.shape
        return {**step, "row_var": param.new_zeros((*outer, rows, 1)), "col_var": param.new_zeros((*outer, 1, columns))}


__all__ = ["Adafactor"]

if hasattr(torch.optim, "Muon"):  # since torch 2.9

    class Muon(ComposedOptimizer, torch.optim.Muon):
        """`torch.optim.Muon` with reproducible bits: same arguments, same state dict.

        Parameters and gradients are matrices of float32 or float64, of any strides. As in torch, products of the
        orthogonalization are of bfloat16, each element a float32 sum that is rounded once. `lr` may be a tensor of
        one element: its value, as a double, is used.

        Raises:
            ValueError: for hyperparameters and shapes that torch refuses.
            UnsupportedError: at the step for sparse gradients and DTensors.
            DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

        Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.Muon.html
        """

        def _update(self, group: Group, param: Tensor, grad: Tensor) -> Update:
            lr, decay, momentum = (scalar(group[name]) for name in ("lr", "weight_decay", "momentum"))
            buffer = self.state.get(param, {}).get("momentum_buffer")
            if buffer is None:
                buffer = torch.zeros_like(grad, memory_format=torch.preserve_format)
            mean = ops.lerp(buffer, grad, 1 - momentum)
            update = ops.lerp(grad, mean, momentum) if group["nesterov"] else mean
            update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], scalar(group["eps"]))
            moved = ops.mul(param.detach(), 1 - lr * decay)
            moved = ops.add(moved, update, alpha=-_adjusted(lr, group["adjust_lr_fn"], param))
            return Update("Muon", grad, [(param, moved), (buffer, mean)], [(param, {"momentum_buffer": buffer})])

    __all__ += ["Muon"]


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """The Newton-Schulz iteration of torch's Muon."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.bfloat16()
    is_tall = matrix.size(0) > matrix.size(1)
    x = x.T if is_tall else x
    x = ops.div(x, ops.clamp(ops.norm(x), min=eps))
    for _ in range(steps):
        gram = ops.mm(x, x.T)
        x = ops.addmm(x, ops.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


def _adjusted(lr: float, adjustment: str | None, param: Tensor) -> float:
    """The learning rate of a matrix."""
    rows, columns = param.shape
    if adjustment is None or adjustment == "original":
        return lr * sqrt(max(1, rows / columns))
    if adjustment == "spectral_unclamped":  # since torch 2.14
        return lr * sqrt(rows / columns)
    return lr * (0.2 * sqrt(max(rows, columns)))
