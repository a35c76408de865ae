"""Embedding and EmbeddingBag."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repdl.nn import functional as F
from repdl.nn.init import normal_
from repdl.nn.modules.layer import Layer


class _Table(Layer):
    weight: torch.Tensor
    _fill_padding_idx_with_zero: Callable[[], None]

    def reset_parameters(self) -> None:
        """Draw the table (see `Layer`); the row of `padding_idx` is zero."""
        generator = self._draws()
        if generator is None:
            super().reset_parameters()  # type: ignore[misc]
        else:
            normal_(self.weight, generator=generator)
            self._fill_padding_idx_with_zero()


class Embedding(_Table, torch.nn.Embedding):
    """Rows of a table: `(...) -> (..., embedding_dim)`, any floating-point dtype, of int64 or int32 indices.

    Arguments and initialisation are those of `torch.nn.Embedding`, and keywords `contract` and `generator`.

    Raises:
        OutOfRangeError: if an index is none of the `num_embeddings` rows.
        UnsupportedError: for `sparse`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """

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


class EmbeddingBag(_Table, torch.nn.EmbeddingBag):
    """Sums, means or maxima of bags of rows: `(B, L)`, or `(N)` and offsets, to `(B, embedding_dim)`.

    Arguments and initialisation are those of `torch.nn.EmbeddingBag`, and keywords `contract` and `generator`.

    Raises:
        OutOfRangeError: if an index is none of the `num_embeddings` rows.
        UnsupportedError: for `sparse`, and weights of samples in another mode than sum.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: index_sum v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.EmbeddingBag.html
    """

    def forward(
        self,
        input: torch.Tensor,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`(B, L) -> (B, embedding_dim)`."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
            contract=self.contract,
        )


__all__ = ["Embedding", "EmbeddingBag"]
