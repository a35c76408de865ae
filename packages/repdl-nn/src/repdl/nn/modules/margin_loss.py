"""Losses of margins and of distances."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from repdl.errors import UnsupportedError
from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class HingeEmbeddingLoss(Layer, torch.nn.HingeEmbeddingLoss):
    """`input` where `target` is 1, `max(0, margin - input)` where it is -1, any floating-point dtype.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.HingeEmbeddingLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.HingeEmbeddingLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.hinge_embedding_loss(
            input, target, margin=self.margin, reduction=self.reduction, contract=self.contract
        )


class MarginRankingLoss(Layer, torch.nn.MarginRankingLoss):
    """`max(0, -target * (input1 - input2) + margin)`, any floating-point dtype.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.MarginRankingLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MarginRankingLoss.html
    """

    def forward(self, input1: torch.Tensor, input2: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction, contract=self.contract
        )


class MultiLabelMarginLoss(Layer, torch.nn.MultiLabelMarginLoss):
    """`sum(max(0, 1 - (input[y] - input[j]))) / C`: `(N, C), (N, C)` or `(C), (C)`, any floating-point dtype.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.MultiLabelMarginLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not fit together.
        OutOfRangeError: if a target is no class.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelMarginLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each row."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction, contract=self.contract)


class MultiLabelSoftMarginLoss(Layer, torch.nn.MultiLabelSoftMarginLoss):
    """Binary cross entropy of `sigmoid(input)` and `target`, the mean over classes: `(..., C)`.

    float32 or 16-bit floats.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.MultiLabelSoftMarginLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelSoftMarginLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each row."""
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction, contract=self.contract
        )


class MultiMarginLoss(Layer, torch.nn.MultiMarginLoss):
    """`sum(max(0, margin - input[y] + input[j]) ** p) / C`: `(N, C), (N)` or `(C), ()`, any floating-point dtype.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.MultiMarginLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not fit together.
        OutOfRangeError: if a target is no class.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiMarginLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each row."""
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
            contract=self.contract,
        )


class SoftMarginLoss(Layer, torch.nn.SoftMarginLoss):
    """`log(1 + exp(-target * input))`, finite where torch's overflows, float32 or 16-bit floats.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.SoftMarginLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.SoftMarginLoss.html
    """

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each element."""
        return F.soft_margin_loss(input, target, reduction=self.reduction, contract=self.contract)


class CosineEmbeddingLoss(Layer, torch.nn.CosineEmbeddingLoss):
    """1 - cosine of rows where `target` is 1, `max(0, cosine - margin)` where it is -1, any floating-point dtype.

    `(N, D), (N, D), (N)` or `(D), (D), ()`; reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.CosineEmbeddingLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineEmbeddingLoss.html
    """

    def forward(self, input1: torch.Tensor, input2: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each row."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction, contract=self.contract
        )


class TripletMarginLoss(Layer, torch.nn.TripletMarginLoss):
    """`max(0, margin + d(anchor, positive) - d(anchor, negative))`, d the distance of `PairwiseDistance`.

    `(..., D)`, the dtypes of `vector_norm`; reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.TripletMarginLoss`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginLoss.html
    """

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each row."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
            contract=self.contract,
        )


class TripletMarginWithDistanceLoss(Layer, torch.nn.TripletMarginWithDistanceLoss):
    """`TripletMarginLoss` with a distance of one's own, a function of `repdl.ops` or a module.

    Reduced to its mean, sum, or not.

    Arguments are those of `torch.nn.TripletMarginWithDistanceLoss`, and keyword `contract`. Without a distance, or
    with torch's `pairwise_distance`, it is RepDL's.

    Raises:
        ShapeError: if the shapes do not fit together.
        UnsupportedError: for another distance of torch.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: losses v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TripletMarginWithDistanceLoss.html
    """

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        """A scalar, or with `reduction='none'` the loss of each row."""
        distance: Any = self.distance_function
        if type(distance) is torch.nn.PairwiseDistance:  # which torch's constructor makes
            given = distance.norm, distance.eps, distance.keepdim
            distance = partial(_distance, given=given, contract=self.contract)
        elif distance is torch.nn.functional.pairwise_distance:
            distance = None
        elif not isinstance(distance, Layer) and (getattr(distance, "__module__", None) or "").startswith("torch"):
            raise UnsupportedError(
                f"TripletMarginWithDistanceLoss: distance_function is torch's {distance!r}, expected a function of "
                f"repdl.ops or of your own"
            )
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=distance,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
            contract=self.contract,
        )


def _distance(x: torch.Tensor, y: torch.Tensor, *, given: tuple[Any, ...], contract: str | None) -> torch.Tensor:
    return F.pairwise_distance(x, y, *given, contract=contract)


__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]
