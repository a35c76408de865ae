"""CosineSimilarity and PairwiseDistance."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.modules.layer import Layer


class CosineSimilarity(Layer, torch.nn.CosineSimilarity):
    """Cosine of the angle between vectors along `dim`, broadcast, any floating-point dtype.

    Arguments are those of `torch.nn.CosineSimilarity`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast or `dim` does not exist.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: distance v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.CosineSimilarity.html
    """

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        """The shape of the inputs without `dim`."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps, contract=self.contract)


class PairwiseDistance(Layer, torch.nn.PairwiseDistance):
    """`norm(x1 - x2 + eps, p)` along the last dimension, broadcast; the dtypes of `repdl.ops.vector_norm`.

    Arguments are those of `torch.nn.PairwiseDistance`, and keyword `contract`.

    Raises:
        ShapeError: if the shapes do not broadcast.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: distance v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.PairwiseDistance.html
    """

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        """The shape of the inputs without the last dimension, which stays as 1 with `keepdim`."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim, contract=self.contract)


__all__ = ["CosineSimilarity", "PairwiseDistance"]
