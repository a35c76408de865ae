"""CrossEntropyLoss and NLLLoss."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class CrossEntropyLoss(Layer, torch.nn.CrossEntropyLoss):
    """Cross entropy of logits: `(C), ()`, `(N, C), (N)` or `(N, C, d1, ...), (N, d1, ...)`, float32 or halves.

    Arguments are those of `torch.nn.CrossEntropyLoss`, and keyword `contract`.

    Raises:
        ShapeError: if input, target and weight do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: cross_entropy v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the shape of the target."""
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            contract=self.contract,
        )


class NLLLoss(Layer, torch.nn.NLLLoss):
    """Negative log likelihood of log-probabilities, shapes as in `CrossEntropyLoss`, any floating-point dtype.

    Arguments are those of `torch.nn.NLLLoss`, and keyword `contract`.

    Raises:
        ShapeError: if input, target and weight do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: nll_loss v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the shape of the target."""
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            contract=self.contract,
        )


__all__ = ["CrossEntropyLoss", "NLLLoss"]
