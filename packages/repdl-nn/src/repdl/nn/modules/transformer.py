"""Transformer, its encoder and decoder, and their layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.nn import functional as F, init
from repdl.nn.modules.attention import MultiheadAttention
from repdl.nn.modules.dropout import Dropout
from repdl.nn.modules.layer import Layer
from repdl.nn.modules.linear import Linear
from repdl.nn.modules.normalization import LayerNorm

Tensor = torch.Tensor

_ACTIVATIONS: dict[Any, Callable[[Tensor], Tensor]] = {
    torch.nn.functional.relu: F.relu,
    torch.nn.functional.gelu: F.gelu,
    torch.relu: F.relu,
}


class _Made(Layer):
    """A layer whose parts torch's constructor makes: they become layers of RepDL."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for part in self.modules():
            counterpart = _PARTS.get(type(part))
            if counterpart is None:
                continue
            part.__class__ = counterpart
            assert isinstance(part, Layer)
            part.contract, part.generator = self.contract, self.generator
            reset = getattr(part, "_reset_parameters", None) or getattr(part, "reset_parameters", None)
            if self._draws() is not None and reset is not None:
                reset()


class _TransformerLayer(_Made):
    """Residual blocks, which torch's class has as methods."""

    activation: Any
    _last_dropout: str

    def _ff_block(self, x: Tensor) -> Tensor:
        """The feed-forward block; torch's functions relu and gelu stand for RepDL's."""
        activation: Any = _ACTIVATIONS.get(self.activation, self.activation)
        module = getattr(activation, "__module__", None) or ""
        if not isinstance(activation, torch.nn.Module) and not module.startswith("repdl."):
            raise UnsupportedError(
                f"{type(self).__name__}: activation is {self.activation!r}, expected relu, gelu, a function of "
                f"repdl.nn.functional or a module"
            )
        parts: Any = self
        last = getattr(self, self._last_dropout)
        return last(parts.linear2(parts.dropout(activation(parts.linear1(x)))))

    def _sum(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.add(x, y, contract=self.contract)


class TransformerEncoderLayer(_TransformerLayer, torch.nn.TransformerEncoderLayer):
    """Self-attention and a feed-forward block, each added to its input and normalised: `(L, N, E) -> (L, N, E)`.

    Arguments and initialisation are those of `torch.nn.TransformerEncoderLayer`, and keywords `contract` and
    `generator`, of its parts too. float32 or 16-bit floats.

    Raises:
        ShapeError: if sizes or masks do not fit together.
        UnsupportedError: for an activation that is neither relu, gelu, RepDL's nor a module.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: attention v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html
    """

    _last_dropout = "dropout2"

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Same shape as `src`; masks as in `MultiheadAttention`."""
        mask = src_mask, src_key_padding_mask, is_causal and src_mask is not None
        if self.norm_first:
            x = self._sum(src, self._sa_block(self.norm1(src), *mask))
            return self._sum(x, self._ff_block(self.norm2(x)))
        x = self.norm1(self._sum(src, self._sa_block(src, *mask)))
        return self.norm2(self._sum(x, self._ff_block(x)))


class TransformerDecoderLayer(_TransformerLayer, torch.nn.TransformerDecoderLayer):
    """Self-attention, attention to a memory and a feed-forward block: `(T, N, E), (S, N, E) -> (T, N, E)`.

    Arguments and initialisation are those of `torch.nn.TransformerDecoderLayer`, and keywords `contract` and
    `generator`, of its parts too. float32 or 16-bit floats.

    Raises:
        ShapeError: if sizes or masks do not fit together.
        UnsupportedError: for an activation that is neither relu, gelu, RepDL's nor a module.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: attention v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoderLayer.html
    """

    _last_dropout = "dropout3"

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Same shape as `tgt`; masks as in `MultiheadAttention`."""
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal and tgt_mask is not None
        other = memory, memory_mask, memory_key_padding_mask, memory_is_causal and memory_mask is not None
        if self.norm_first:
            x = self._sum(tgt, self._sa_block(self.norm1(tgt), *own))
            x = self._sum(x, self._mha_block(self.norm2(x), *other))
            return self._sum(x, self._ff_block(self.norm3(x)))
        x = self.norm1(self._sum(tgt, self._sa_block(tgt, *own)))
        x = self.norm2(self._sum(x, self._mha_block(x, *other)))
        return self.norm3(self._sum(x, self._ff_block(x)))


class TransformerEncoder(_Made, torch.nn.TransformerEncoder):
    """Encoder layers one after the other: `(L, N, E) -> (L, N, E)`, float32 or 16-bit floats.

    Arguments are those of `torch.nn.TransformerEncoder`, and keywords `contract` and `generator`, of its parts too.
    `enable_nested_tensor` and `mask_check` choose an implementation in torch; here they have no effect.

    Raises:
        ShapeError: if sizes or masks do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: attention v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoder.html
    """

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Same shape as `src`; masks as in `MultiheadAttention`."""
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(_Made, torch.nn.TransformerDecoder):
    """Decoder layers one after the other: `(T, N, E), (S, N, E) -> (T, N, E)`, float32 or 16-bit floats.

    Arguments are those of `torch.nn.TransformerDecoder`, and keywords `contract` and `generator`, of its parts too.

    Raises:
        ShapeError: if sizes or masks do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: attention v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerDecoder.html
    """

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Same shape as `tgt`; masks as in `MultiheadAttention`."""
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(_Made, torch.nn.Transformer):
    """An encoder, and a decoder that attends to what it gives: `(S, N, E), (T, N, E) -> (T, N, E)`.

    float32 or 16-bit floats.

    Arguments and initialisation are those of `torch.nn.Transformer`, and keywords `contract` and `generator`, of its
    parts too.

    Raises:
        ShapeError: if sizes or masks do not fit together.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: attention v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Transformer.html
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self._draws() is not None:  # torch's constructor drew before its parts did
            self._reset_parameters()

    def _reset_parameters(self) -> None:
        generator = self._draws()
        if generator is None:
            super()._reset_parameters()
            return
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter, generator=generator)


_PARTS: dict[type[torch.nn.Module], type[Layer]] = {
    torch.nn.Dropout: Dropout,
    torch.nn.LayerNorm: LayerNorm,
    torch.nn.Linear: Linear,
    torch.nn.modules.linear.NonDynamicallyQuantizableLinear: Linear,
    torch.nn.MultiheadAttention: MultiheadAttention,
    torch.nn.TransformerDecoder: TransformerDecoder,
    torch.nn.TransformerDecoderLayer: TransformerDecoderLayer,
    torch.nn.TransformerEncoder: TransformerEncoder,
    torch.nn.TransformerEncoderLayer: TransformerEncoderLayer,
}

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
