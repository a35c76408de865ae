"""Losses of classes and of elements."""

from __future__ import annotations

import torch
from torch.nn.modules.loss import (
    _Loss as _Loss,  # from which programs derive losses of their own
    _WeightedLoss as _WeightedLoss,
)

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class CrossEntropyLoss(Layer, torch.nn.CrossEntropyLoss):
    """Cross entropy of logits: `(C), ()`, `(N, C), (N)` or `(N, C, d1, ...), (N, d1, ...)`, float32 or 16-bit floats.

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


class BCEWithLogitsLoss(Layer, torch.nn.BCEWithLogitsLoss):
    """Binary cross entropy of `sigmoid(input)` and `target`, any shape, float32 or 16-bit floats.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.BCEWithLogitsLoss`, and keyword `contract`.

    Raises:
        ShapeError: if shapes differ, or a weight does not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.binary_cross_entropy_with_logits(
            input,
            target,
            self.weight,
            pos_weight=self.pos_weight,
            reduction=self.reduction,
            contract=self.contract,
        )


class HuberLoss(Layer, torch.nn.HuberLoss):
    """`0.5 z ** 2` where z = `|input - target|` is below `delta`, else `delta (z - 0.5 delta)`.

    Any floating-point dtype; reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.HuberLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.HuberLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta, contract=self.contract)


class KLDivLoss(Layer, torch.nn.KLDivLoss):
    """Kullback-Leibler divergence of log-probabilities `input` from `target`, float32 or 16-bit floats.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.KLDivLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.KLDivLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target, contract=self.contract)


class L1Loss(Layer, torch.nn.L1Loss):
    """`|input - target|`, any floating-point dtype; reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.L1Loss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.L1Loss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.l1_loss(input, target, reduction=self.reduction, contract=self.contract)


class MSELoss(Layer, torch.nn.MSELoss):
    """`(input - target) ** 2`, any floating-point dtype; reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.MSELoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MSELoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.mse_loss(input, target, reduction=self.reduction, contract=self.contract)


class SmoothL1Loss(Layer, torch.nn.SmoothL1Loss):
    """`0.5 z ** 2 / beta` where z = `|input - target|` is below `beta`, else `z - 0.5 beta`, any floating-point dtype.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.SmoothL1Loss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SmoothL1Loss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta, contract=self.contract)


class BCELoss(Layer, torch.nn.BCELoss):
    """Binary cross entropy of probabilities `input` and `target`, any shape, float32 or 16-bit floats.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.BCELoss`, and keyword `contract`.

    Raises:
        ShapeError: if shapes differ, or the weight does not broadcast.
        OutOfRangeError: if an element of `input` is not from 0 to 1.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.BCELoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction, contract=self.contract)


class GaussianNLLLoss(Layer, torch.nn.GaussianNLLLoss):
    """Negative log likelihood of `target` from a normal distribution, float32 or 16-bit floats.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.GaussianNLLLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not fit together.
        OutOfRangeError: if an element of `var` is below 0.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.GaussianNLLLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor, var: torch.Tensor | float) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction, contract=self.contract
        )


class PoissonNLLLoss(Layer, torch.nn.PoissonNLLLoss):
    """Negative log likelihood of counts `target` from a Poisson distribution of the rate `input`.

    float32 or 16-bit floats.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.PoissonNLLLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.PoissonNLLLoss.html
    """

    def forward(self, log_input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
            contract=self.contract,
        )


class CTCLoss(Layer, torch.nn.CTCLoss):
    """Connectionist temporal classification: `(T, N, C), (N, S), (N), (N)`, float32 or 16-bit floats.

    Reduced to its mean, sum, or not; `F.ctc_loss` says what its derivative is.

    Arguments are those of `torch.nn.CTCLoss`, and keyword `contract`.

    Raises:
        ShapeError: if shapes or lengths do not fit together.
        OutOfRangeError: if a length is too large, or a target or the blank no class.
        DTypeError: if the dtype is not that of the contract.

    Contract: ctc_loss v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CTCLoss.html
    """

    def forward(
        self,
        log_probs: torch.Tensor,
        targets: torch.Tensor,
        input_lengths: torch.Tensor,
        target_lengths: torch.Tensor,
    ) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each example."""
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
            contract=self.contract,
        )


__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
]
