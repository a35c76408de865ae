"""SGD: stochastic gradient descent, optionally with momentum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from repdl.optim._common import Call, Group, ReproducibleOptimizer, State, scalar


class SGD(ReproducibleOptimizer, torch.optim.SGD):
    """`torch.optim.SGD` with reproducible bits: same arguments, same state dict.

    Parameters and gradients are float32 or float64, of any shape and strides. `foreach` and `fused`
    choose an implementation in torch; here they are accepted and have no effect. `lr` and
    `weight_decay` may be tensors of one element: their values, as doubles, are used.

    Raises:
        ValueError: for hyperparameters that torch refuses.
        UnsupportedError: for `differentiable=True` and, at the step, sparse gradients.
        DTypeError: for a parameter that requires a gradient and is neither float32 nor float64.

    Contract: sgd_step v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html
    """

    def _calls(self, group: Group) -> Iterator[Call]:
        momentum = scalar(group["momentum"])

        members: dict[tuple[Any, ...], list[torch.Tensor]] = {}
        for param in group["params"]:
            if param.grad is not None:
                first = momentum == 0 or self.state.get(param, {}).get("momentum_buffer") is None
                members.setdefault((param.device, param.dtype, first), []).append(param)
        for (*_, first), params in members.items():
            buffers: list[torch.Tensor] = []
            state: list[tuple[torch.Tensor, State]] = []
            if momentum != 0 and first:
                buffers = [torch.empty_like(param) for param in params]  # the op fills them
                state = [(param, {"momentum_buffer": new}) for param, new in zip(params, buffers)]
            elif momentum != 0:
                buffers = [self.state[param]["momentum_buffer"] for param in params]
            yield Call(
                "sgd_step",
                (
                    params,
                    [param.grad for param in params],
                    buffers,
                    scalar(group["lr"]),
                    scalar(group["weight_decay"]),
                    momentum,
                    scalar(group["dampening"]),
                    group["nesterov"],
                    group["maximize"],
                    first,
                ),
                state,
            )


__all__ = ["SGD"]
