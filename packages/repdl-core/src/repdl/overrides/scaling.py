"""The two ops of torch's GradScaler while `repdl.enable()` holds: each number is rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from repdl import ops

Tensor = torch.Tensor


def unscale(gradients: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiply gradients by `inv_scale` in place; `found_inf` becomes 1 if one of them is not finite."""
    for gradient in gradients:
        finite = torch.isfinite(gradient).all().to(found_inf.device)
        found_inf.copy_(torch.where(finite, found_inf, 1.0))
        gradient.copy_(ops.mul(gradient, inv_scale.to(gradient.device)))


def update_scale(
    scale: Tensor, tracker: Tensor, found_inf: Tensor, growth: float, backoff: float, interval: int
) -> Tensor:
    """The next scale: times `backoff` after an overflow, times `growth` after `interval` steps without one."""
    overflow, count = found_inf != 0, tracker + 1
    grown = ops.mul(scale, growth)
    grows = (count == interval) & torch.isfinite(grown)
    calm = torch.where(grows, grown, scale)
    scale.copy_(torch.where(overflow, ops.mul(scale, backoff), calm))
    tracker.copy_(torch.where(overflow | (count == interval), 0, count))
    return scale


__all__ = ["unscale", "update_scale"]
