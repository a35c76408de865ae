"""MultiheadAttention."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch

from repdl import ops
from repdl.contract import Contract
from repdl.errors import ShapeError, UnsupportedError, check, check_dim, check_dtype, check_size
from repdl.generators.generator import chosen
from repdl.nn import functional as F, init
from repdl.nn.modules.layer import Layer, canonical
from repdl.ops.attention.attention import attention_weights
from repdl.random import Generator

Tensor = torch.Tensor


class MultiheadAttention(Layer, torch.nn.MultiheadAttention):
    """Attention of several heads: `(L, N, E), (S, N, K), (S, N, V)` to `(L, N, E)` and weights `(N, L, S)`.

    Arguments and initialisation are those of `torch.nn.MultiheadAttention`, and keywords `contract` and
    `generator`, which dropout draws from too. float32 or 16-bit floats. Where query, key and value are one tensor they
    are projected in one product, key and value likewise: its gradient then is one sum. The output is the same bits with
    `need_weights` and without, which that of torch's layer under `repdl.enable()` is not. A query that sees no key gets
    zeros and weights of zero, where torch gives NaN if `need_weights`.

    Raises:
        ShapeError: if sizes or masks do not fit together.
        UnsupportedError: for `is_causal` without `attn_mask`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: attention v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """

    def _reset_parameters(self) -> None:
        generator = self._draws()
        if generator is None:
            super()._reset_parameters()
            return
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight, generator=generator)
        init.reset_affine(self.out_proj.weight, None, generator)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for vector in (self.bias_k, self.bias_v):
            if vector is not None:
                init.xavier_normal_(vector, generator=generator)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the weights, `(N, L, S)` or of each head, or None.

        Args:
            query, key, value: (L, N, E), (S, N, K) and (S, N, V), with `batch_first` N before L and S, or without N.
            key_padding_mask: (N, S) or (S), True where a key is not seen, or numbers added to the scores.
            need_weights: return the weights too.
            attn_mask: (L, S) or (N * heads, L, S), as `key_padding_mask`.
            average_attn_weights: the weights are the means of those of the heads.
            is_causal: says that `attn_mask`, which must be given, is causal; no bit depends on it.
        """
        name = type(self).__name__
        check_dim(name, (2, 3), query=query)
        check_dim(name, query.dim(), key=key, value=value)
        if is_causal and attn_mask is None:
            raise UnsupportedError(f"{name}: is_causal is True without attn_mask, expected the mask, as in torch")
        single = query.dim() == 2
        if single:
            q, k, v = self._projected(query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1))
        elif self.batch_first:
            q, k, v = self._projected(*_shared(lambda t: t.transpose(0, 1), query, key, value))
        else:
            q, k, v = self._projected(query, key, value)
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        batch, keys = q.shape[0], k.shape[1]
        mask = self._mask(name, attn_mask, key_padding_mask, q, keys, single)
        k, v, mask = self._extended(k, v, mask)
        q, k, v = (t.reshape(batch, t.shape[1], self.num_heads, self.head_dim).transpose(1, 2) for t in (q, k, v))
        options = {
            "dropout_p": self.dropout if self.training else 0.0,
            "generator": self.generator,
            "contract": self.contract,
        }
        weights = None
        if need_weights:
            weights = attention_weights(q, k, mask, **options)  # type: ignore[arg-type]
            output = ops.matmul(weights, v, contract=self.contract)
            if average_attn_weights:
                weights = ops.mean(weights, 1, contract=self.contract)
            weights = weights.squeeze(0) if single else weights
        else:
            output = F.scaled_dot_product_attention(q, k, v, mask, **options)  # type: ignore[arg-type]
        output = output.permute(2, 0, 1, 3).reshape(-1, batch, self.embed_dim)
        output = F.linear(output, self.out_proj.weight, self.out_proj.bias, contract=self.contract)
        if single:
            return output.squeeze(1), weights
        return output.transpose(0, 1) if self.batch_first else output, weights

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, (L, N, E) and (S, N, E), as the heads see them: in this order their rows make the
        gradients of weights, whatever `batch_first` says."""
        check_size("MultiheadAttention", "key.shape", tuple(key.shape[:2]), tuple(value.shape[:2]), "value.shape")
        check_size("MultiheadAttention", "batch size of the query", query.shape[1], key.shape[1], "the key's")

        def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
            return F.linear(input, weight, bias, contract=self.contract)

        e, bias = self.embed_dim, self.in_proj_bias
        if not self._qkv_same_embed_dim:
            biases = (None,) * 3 if bias is None else bias.chunk(3)
            matrices = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
            return tuple(linear(*of) for of in zip((query, key, value), matrices, biases))  # type: ignore[arg-type,return-value]
        weight = self.in_proj_weight
        if query is key and key is value:
            q, k, v = linear(query, weight, bias).chunk(3, -1)
            return q, k, v
        parts = [e, 2 * e] if key is value else [e, e, e]
        biases = (None,) * len(parts) if bias is None else bias.split(parts)
        projected = [linear(*of) for of in zip((query, key, value), weight.split(parts), biases)]
        if key is value:
            k, v = projected[1].chunk(2, -1)
            return projected[0], k, v
        return projected[0], projected[1], projected[2]

    def _mask(
        self,
        name: str,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        query: Tensor,
        keys: int,
        single: bool,
    ) -> Tensor | None:
        """Both masks as one of `scaled_dot_product_attention`: True where a key is seen, or numbers to add."""
        batch, length = query.shape[:2]
        masks = []
        if attn_mask is not None:
            check_dtype(name, (torch.bool, query.dtype), attn_mask=attn_mask)
            shapes = (length, keys), (batch * self.num_heads, length, keys)
            if tuple(attn_mask.shape) not in shapes:
                raise ShapeError(f"{name}: attn_mask.shape is {tuple(attn_mask.shape)}, expected one of {shapes}")
            masks.append(attn_mask if attn_mask.dim() == 2 else attn_mask.view(batch, self.num_heads, length, keys))
        if key_padding_mask is not None:
            check_dtype(name, (torch.bool, query.dtype), key_padding_mask=key_padding_mask)
            expected = (keys,) if single else (batch, keys)
            check_size(name, "key_padding_mask.shape", tuple(key_padding_mask.shape), expected, "(N, S)")
            masks.append(key_padding_mask.reshape(batch, 1, 1, keys))
        if not masks:
            return None
        if all(mask.dtype is torch.bool for mask in masks):
            hidden = masks[0] if len(masks) == 1 else masks[0] | masks[1]
            return ~hidden
        numbers = [
            mask
            if mask.dtype is not torch.bool
            else torch.zeros_like(mask, dtype=query.dtype).masked_fill_(mask, -torch.inf)
            for mask in masks
        ]
        return numbers[0] if len(numbers) == 1 else ops.add(*numbers, contract=self.contract)

    def _extended(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values with those that `add_bias_kv` and `add_zero_attn` add, which every query sees."""
        batch, before = k.shape[0], k.shape[1]
        if self.bias_k is not None and self.bias_v is not None:
            zeros = k.new_zeros(batch, 1, self.embed_dim)
            k, v = (
                torch.cat([t, ops.add(zeros, more, contract=self.contract)], dim=1)
                for t, more in ((k, self.bias_k), (v, self.bias_v))
            )
        if self.add_zero_attn:
            k, v = (torch.cat([t, t.new_zeros(batch, 1, self.embed_dim)], dim=1) for t in (k, v))
        added = k.shape[1] - before
        if mask is not None and added:
            mask = torch.nn.functional.pad(mask, (0, added), value=mask.dtype is torch.bool)
        return k, v, mask


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    *,
    generator: Generator | None = None,
    contract: Contract | str | None = None,
) -> tuple[Tensor, Tensor | None]:
    """What a `MultiheadAttention` with these parameters computes: `(L, N, E), (S, N, K), (S, N, V)` to `(L, N, E)`.

    Raises:
        ShapeError: if sizes or masks do not fit together.
        UnsupportedError: for `static_k` or `static_v`, or `is_causal` without `attn_mask`.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: attention v1. Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """
    name = "multi_head_attention_forward"
    if static_k is not None or static_v is not None:
        raise UnsupportedError(f"{name}: static_k or static_v is given, expected None; project keys and values outside")
    check_size(name, "query.shape[-1]", query.shape[-1], embed_dim_to_check, "embed_dim_to_check")
    check(name, query.shape[-1] % num_heads == 0, lambda: f"num_heads is {num_heads}, expected a divisor of E")
    chosen(name, generator)
    layer = MultiheadAttention.__new__(MultiheadAttention)
    torch.nn.Module.__init__(layer)
    weights = {"q_proj_weight": q_proj_weight, "k_proj_weight": k_proj_weight, "v_proj_weight": v_proj_weight}
    layer.__dict__.update(
        weights,
        in_proj_weight=in_proj_weight,
        in_proj_bias=in_proj_bias,
        bias_k=bias_k,
        bias_v=bias_v,
        out_proj=SimpleNamespace(weight=out_proj_weight, bias=out_proj_bias),
        embed_dim=embed_dim_to_check,
        num_heads=num_heads,
        head_dim=embed_dim_to_check // num_heads,
        add_zero_attn=add_zero_attn,
        dropout=dropout_p,
        training=training,
        batch_first=False,
        _qkv_same_embed_dim=not use_separate_proj_weight,
        generator=generator,
        contract=canonical(contract),
    )
    options = key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
    return layer.forward(query, key, value, *options)


def _shared(move: Callable[[Tensor], Tensor], *tensors: Tensor) -> list[Tensor]:
    """The tensors moved, those that are one again one."""
    moved = {id(t): move(t) for t in tensors}
    return [moved[id(t)] for t in tensors]


__all__ = ["MultiheadAttention"]
