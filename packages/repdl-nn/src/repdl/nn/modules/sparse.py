"""Embedding."""

from __future__ import annotations

import torch

from repdl.nn import functional as F
from repdl.nn.init import normal_
from repdl.nn.modules.layer import Layer


class Embedding(Layer, torch.nn.Embedding):
    """Rows of a table: `(...) -> (..., embedding_dim)`, any floating-point dtype, of int64 or int32 indices.

    Arguments and initialisation are those of `torch.nn.Embedding`, and keywords `contract` and `generator`.

    Raises:
        OutOfRangeError: if an index is none of the `num_embeddings` rows.
        UnsupportedError: for `max_norm` and `sparse`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """

    def reset_parameters(self) -> None:
        """Draw the table (see `Layer`); the row of `padding_idx` is zero."""
        generator = self._draws()
        if generator is None:
            super().reset_parameters()
        else:
            normal_(self.weight, generator=generator)
            self._fill_padding_idx_with_zero()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """`(...) -> (..., embedding_dim)`."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
            contract=self.contract,
        )


__all__ = ["Embedding"]
