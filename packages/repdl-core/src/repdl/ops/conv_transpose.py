"""Transposed convolutions: the gradient of conv2d's input, taken forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from repdl import registry
from repdl.autocast import LOWER
from repdl.contract import Contract, contract_name
from repdl.dtypes import Dtypes
from repdl.errors import as_int, as_pair, as_row, check, check_dim, check_size, check_tensor, check_tensor_or_none
from repdl.ops.conv2d import output_size
from repdl.replay import replayed

__all__ = ["conv_transpose1d", "conv_transpose2d"]

_ops = registry.functions
_OP = "conv_transpose2d"


def _check(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
    contract: str,
) -> None:
    check_dim(_OP, 4, input=input, weight=weight)
    check_dim(_OP, 1, bias=bias)
    least = (
        ("stride", stride, 1),
        ("padding", padding, 0),
        ("output_padding", output_padding, 0),
        ("dilation", dilation, 1),
    )
    for name, values, at_least in least:
        check(_OP, len(values) == 2, lambda: f"{name} has {len(values)} values, expected 2 (height, width)")
        check(_OP, min(values) >= at_least, lambda: f"{name} is {tuple(values)}, expected at least {at_least}")
    check(_OP, groups >= 1, lambda: f"groups is {groups}, expected a positive integer")
    check_size(_OP, "input.shape[1]", input.shape[1], weight.shape[0], "weight.shape[0], in_channels")
    check(
        _OP,
        weight.shape[0] > 0 and weight.shape[0] % groups == 0 and weight.shape[1] > 0,
        lambda: f"weight.shape[:2] is {tuple(weight.shape[:2])}, expected channels, a multiple of groups = {groups}",
    )
    if bias is not None:
        check_size(_OP, "bias.shape[0]", bias.shape[0], weight.shape[1] * groups, "weight.shape[1] * groups")
    for axis, side in ((0, "height"), (1, "width")):
        check(
            _OP,
            output_padding[axis] < max(stride[axis], dilation[axis]),
            lambda: (
                f"output_padding of the {side} is {output_padding[axis]}, expected less than stride = {stride[axis]} "
                f"or dilation = {dilation[axis]}"
            ),
        )
        check(_OP, weight.shape[2 + axis] > 0, lambda: f"weight {side} is 0, expected a positive kernel size")
        check(_OP, input.shape[2 + axis] > 0, lambda: f"input {side} is 0, expected a positive size")
    sizes = _sizes(input, weight, stride, padding, output_padding, dilation)
    check(_OP, min(sizes) > 0, lambda: f"the output would be of size {tuple(sizes)}, expected less padding")


def _sizes(
    input: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """Height and width of the output."""
    return [
        (input.shape[2 + i] - 1) * stride[i]
        - 2 * padding[i]
        + dilation[i] * (weight.shape[2 + i] - 1)
        + output_padding[i]
        + 1
        for i in (0, 1)
    ]


def _formula(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
    contract: str,
) -> torch.Tensor:
    sizes = _sizes(input, weight, stride, padding, output_padding, dilation)
    # An output longer than a stride past the last element is that of one element more, which is 0.
    positions = [output_size(sizes[i], weight.shape[2 + i], stride[i], padding[i], dilation[i]) for i in (0, 1)]
    more = [positions[i] - input.shape[2 + i] for i in (0, 1)]
    if more != [0, 0]:
        input = torch.nn.functional.pad(input, (0, more[1], 0, more[0]))
    options = list(stride), list(padding), list(dilation), groups, contract
    output: torch.Tensor = _ops.conv2d_grad_input(input, weight, sizes, *options)
    return output if bias is None else _ops.add(output, bias.reshape(-1, 1, 1), contract)  # type: ignore[no-any-return]


_op = registry.composite(
    _OP,
    "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int groups, "
    "int[] dilation, str contract) -> Tensor",
    _formula,
    calls=("conv2d_grad_input", "add"),
    check=_check,
    dtypes=Dtypes(),
    autocast=LOWER,
    family="conv_transpose",
)


@replayed
def conv_transpose2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    *,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """Transposed 2-D convolution: `(N, C, H, W), (C, O / groups, KH, KW) -> (N, O, OH, OW)`, any floating-point dtype.

    OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1, OW alike.

    Args:
        input: (N, C, H, W) or (C, H, W).
        weight: (C, O / groups, KH, KW).
        bias: (O) or None.
        stride, padding, output_padding, dilation: one integer or (height, width).

    Raises:
        ShapeError: if channels, groups, bias or kernel do not fit the input, or an option is out of range.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv_transpose v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose2d.html
    """
    check_tensor(_OP, input=input, weight=weight)
    check_tensor_or_none(_OP, bias=bias)
    check_dim(_OP, (3, 4), input=input)
    check_dim(_OP, 4, weight=weight)
    pairs: dict[str, Any] = {"stride": stride, "padding": padding, "output_padding": output_padding}
    first = [as_pair(_OP, name, value) for name, value in pairs.items()]
    batch = input if input.dim() == 4 else input.unsqueeze(0)
    dilations = as_pair(_OP, "dilation", dilation)
    output = _op(batch, weight, bias, *first, as_int(_OP, "groups", groups), dilations, contract_name(contract))
    return output if input.dim() == 4 else output.squeeze(0)  # type: ignore[no-any-return]


@replayed
def conv_transpose1d(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
    *,
    contract: Contract | str | None = None,
) -> torch.Tensor:
    """Transposed 1-D convolution: `(N, C, L), (C, O / groups, K) -> (N, O, OL)`, any floating-point dtype.

    It is `conv_transpose2d` of images of height 1; (C, L) is an input too.

    Raises:
        ShapeError: if channels, groups, bias or kernel do not fit the input, or an option is out of range.
        DTypeError, DeviceError: if dtypes or devices are not those of the contract.

    Contract: conv_transpose v1.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.conv_transpose1d.html
    """
    op = "conv_transpose1d"
    check_tensor(op, input=input, weight=weight)
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
