"""Transposed convolutions: the gradient of a convolution's input, taken forward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from repdl.contract import ContractLike
from repdl.dtypes import Dtypes
from repdl.errors import check, check_dim, check_size
from repdl.ops.conv._convolution import as_sides, named_sides, output_size
from repdl.ops.declare import of_sides, public
from repdl.registry import LOWER, as_int, as_row, composite, functions as _ops

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

Ints = int | Sequence[int]


def _check(
    op: str,
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> None:
    check_dim(op, 2 + dims, input=input, weight=weight)
    check_dim(op, 1, bias=bias)
    names = ", ".join(named_sides(dims))
    least = (
        ("stride", stride, 1),
        ("padding", padding, 0),
        ("output_padding", output_padding, 0),
        ("dilation", dilation, 1),
    )
    for name, values, at_least in least:
        check(op, len(values) == dims, lambda: f"{name} has {len(values)} values, expected {dims} ({names})")
        check(op, min(values) >= at_least, lambda: f"{name} is {tuple(values)}, expected at least {at_least}")
    check(op, groups >= 1, lambda: f"groups is {groups}, expected a positive integer")
    check_size(op, "input.shape[1]", input.shape[1], weight.shape[0], "weight.shape[0], in_channels")
    check(
        op,
        weight.shape[0] > 0 and weight.shape[0] % groups == 0 and weight.shape[1] > 0,
        lambda: f"weight.shape[:2] is {tuple(weight.shape[:2])}, expected channels, a multiple of groups = {groups}",
    )
    if bias is not None:
        check_size(op, "bias.shape[0]", bias.shape[0], weight.shape[1] * groups, "weight.shape[1] * groups")
    for axis, side in enumerate(named_sides(dims)):
        check(
            op,
            output_padding[axis] < max(stride[axis], dilation[axis]),
            lambda: (
                f"output_padding of the {side} is {output_padding[axis]}, expected less than stride = {stride[axis]} "
                f"or dilation = {dilation[axis]}"
            ),
        )
        check(op, weight.shape[2 + axis] > 0, lambda: f"weight {side} is 0, expected a positive kernel size")
        check(op, input.shape[2 + axis] > 0, lambda: f"input {side} is 0, expected a positive size")
    sizes = _sizes(input, weight, stride, padding, output_padding, dilation)
    check(op, min(sizes) > 0, lambda: f"the output would be of size {tuple(sizes)}, expected less padding")


def _sizes(
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """The sides of the output."""
    return [
        (input.shape[2 + i] - 1) * stride[i]
        - 2 * padding[i]
        + dilation[i] * (weight.shape[2 + i] - 1)
        + output_padding[i]
        + 1
        for i in range(len(stride))
    ]


def _formula(
    grad_input: str,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
    contract: str,
) -> Tensor:
    sizes = _sizes(input, weight, stride, padding, output_padding, dilation)
    # An output longer than a stride past the last element is that of one element more, which is 0.
    sides = zip(sizes, weight.shape[2:], stride, padding, dilation)
    more = [output_size(*side) - n for side, n in zip(sides, input.shape[2:])]
    if any(more):
        input = torch.nn.functional.pad(input, [n for m in reversed(more) for n in (0, m)])
    options = list(stride), list(padding), list(dilation), groups, contract
    output: Tensor = getattr(_ops, grad_input)(input, weight, sizes, *options)
    if bias is None:
        return output
    return _ops.add(output, bias.reshape(-1, *[1] * len(sizes)), contract)


def _transposed(dims: int) -> Callable[..., Any]:
    """Register `conv_transpose<dims>d`."""
    name, grad_input = f"conv_transpose{dims}d", f"conv{dims}d_grad_input"
    return composite(
        name,
        "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int groups, "
        "int[] dilation, str contract) -> Tensor",
        partial(_formula, grad_input),
        calls=(grad_input, "add"),
        check=partial(_check, name, dims),
        dtypes=Dtypes(),
        autocast=LOWER,
        family="conv_transpose",
    )


_OPS = {dims: _transposed(dims) for dims in (2, 3)}


def _conv_transpose(
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    *,
    contract: ContractLike = None,
) -> Tensor:
    """Transposed {n}-D convolution: `(N, C, {sides}), (C, O / groups, {kernel}) -> (N, O, {out})`, any dtype.

    A side of H elements has `(H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1` in the output.
    `conv_transpose1d` is `conv_transpose2d` of images of height 1.

    Args:
        input: (N, C, {sides}) or (C, {sides}).
        weight: (C, O / groups, {kernel}).
        bias: (O) or None.
        stride, padding, output_padding, dilation: one integer or {option}.

    Raises:
        ShapeError: if channels, groups, bias or kernel do not fit the input, or an option is out of range.
    """
    op = f"conv_transpose{dims}d"
    check_dim(op, (1 + dims, 2 + dims), input=input)
    check_dim(op, 2 + dims, weight=weight)
    options = {"stride": stride, "padding": padding, "output_padding": output_padding}
    first = [as_sides(op, name, value, dims) for name, value in options.items()]
    batched = input.dim() == 2 + dims
    batch = input if batched else input.unsqueeze(0)
    rest = as_int(op, "groups", groups), as_sides(op, "dilation", dilation, dims), contract
    output = _OPS[dims](batch, weight, bias, *first, *rest)
    return output if batched else output.squeeze(0)


conv_transpose2d, conv_transpose3d = of_sides(_conv_transpose, "conv_transpose", "conv_transpose", (2, 3))


@public("conv_transpose", sides=1, doc=_conv_transpose.__doc__ or "")
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    *,
    contract: ContractLike = None,
) -> Tensor:
    op = "conv_transpose1d"
    check_dim(op, (2, 3), input=input)
    check_dim(op, 3, weight=weight)
    return conv_transpose2d(
        input.unsqueeze(-2),
        weight.unsqueeze(-2),
        bias,
        as_row(op, "stride", stride, 1),
        as_row(op, "padding", padding, 0),
        as_row(op, "output_padding", output_padding, 0),
        groups,
        as_row(op, "dilation", dilation, 1),
        contract=contract,
    ).squeeze(-2)
