"""What convolutions of two and of three sides share: sizes, checks, padding by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from repdl.dtypes import Dtypes
from repdl.errors import UnsupportedError, check, check_dim, check_size
from repdl.registry import LOWER, Lists, as_int, as_ints, define, functions as _ops
from repdl.tensors import layout

Ints = Sequence[int]
Formula = tuple[Callable[..., Tensor] | None, Sequence[str]]
_KERNEL: Formula = None, ()
_EVERY = Dtypes()
_SIDES = ("depth", "height", "width")

DOC = """{n}-D convolution: `(N, C, {sides}), (O, C / groups, {kernel}) -> (N, O, {out})`, any floating-point dtype.

Of three sides the slices that each position in depth sees are laid side by side in memory: KD times that of the input.

Args:
    input: (N, C, {sides}) or (C, {sides}).
    weight: (O, C / groups, {kernel}).
    bias: (O) or None.
    stride, dilation: one integer or {option}.
    padding: zeros on each side, one integer or {option}; 'valid' is 0, 'same' keeps the size (stride 1), an odd zero
        going to the end of the side.

Raises:
    ShapeError: if channels, groups, bias or kernel do not fit the input.
"""


def named_sides(dims: int) -> tuple[str, ...]:
    """The names of the last dimensions."""
    return _SIDES[3 - dims :]


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Number of positions of a dilated kernel on a padded side of length `size`."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def as_sides(op: str, name: str, value: Any, dims: int) -> list[int]:
    """One integer, or a sequence of one or one a side."""
    if not isinstance(value, (list, tuple)):
        return [as_int(op, name, value)] * dims
    values = as_ints(op, name, value)
    if len(values) == 1:
        values = values * dims
    names = ", ".join(named_sides(dims))
    count = {2: "two", 3: "three"}[dims]
    check(op, len(values) == dims, lambda: f"{name} is {value}, expected one integer or {count} ({names})")
    return values


def check_options(
    op: str, dims: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> None:
    """Raise unless the options of a convolution are in range."""
    names = ", ".join(named_sides(dims))
    for name, values, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        check(op, len(values) == dims, lambda: f"{name} has {len(values)} values, expected {dims} ({names})")
        check(op, min(values) >= least, lambda: f"{name} is {tuple(values)}, expected at least {least}")
    check(op, groups >= 1, lambda: f"groups is {groups}, expected a positive integer")


def check_geometry(
    op: str,
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> list[int]:
    """Raise unless the shapes fit together; returns the output shape."""
    dims = len(weight_shape) - 2
    check_options(op, dims, stride, padding, dilation, groups)
    channels, out_channels = input_shape[1], weight_shape[0]
    if channels % groups or channels // groups != weight_shape[1]:
        check_size(op, "input.shape[1]", channels, weight_shape[1] * groups, "weight.shape[1] * groups")
    check(
        op,
        out_channels > 0 and out_channels % groups == 0,
        lambda: f"weight.shape[0] is {out_channels}, expected a positive multiple of groups = {groups}",
    )
    shape = [input_shape[0], out_channels]
    for axis, side in enumerate(named_sides(dims)):
        size, kernel = input_shape[2 + axis], weight_shape[2 + axis]
        check(op, kernel > 0, lambda: f"weight {side} is 0, expected a positive kernel size")
        check(op, size > 0, lambda: f"input {side} is 0, expected a positive size")
        n = output_size(size, kernel, stride[axis], padding[axis], dilation[axis])
        check(
            op,
            size + 2 * padding[axis] >= dilation[axis] * (kernel - 1) + 1,
            lambda: (
                f"the kernel is larger than the padded input: {side} {dilation[axis] * (kernel - 1) + 1} > "
                f"{size + 2 * padding[axis]}; expected a smaller kernel or dilation, or more padding"
            ),
        )
        shape.append(n)
    return shape


def named_padding(
    op: str, batch: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Any, dilation: Sequence[int]
) -> tuple[Tensor, list[int]]:
    """The input and the zeros on each side: 'same' keeps the size, an odd zero going to the end of the side."""
    dims = len(kernel)
    if padding == "valid":
        return batch, [0] * dims
    if padding == "same":
        if any(s != 1 for s in stride):
            raise UnsupportedError(f"{op}: padding is 'same' with stride {tuple(stride)}, expected stride 1")
        total = [d * (k - 1) for d, k in zip(dilation, kernel)]
        if any(t % 2 for t in total):
            ends = [n for t in reversed(total) for n in (0, t % 2)]
            batch = torch.nn.functional.pad(batch, ends)
        return batch, [t // 2 for t in total]
    if isinstance(padding, str):
        raise UnsupportedError(f"{op}: padding is {padding!r}, expected 'same', 'valid' or integers")
    return batch, as_sides(op, "padding", padding, dims)


class Convolution:
    """convND and its two gradients, of N sides: checks, outputs and derivatives.

    Options are stride, padding, dilation, groups and the contract.
    """

    def __init__(self, dims: int) -> None:
        self.dims, self.op = dims, f"conv{dims}d"

    def define(self, formulas: Sequence[Formula] = (_KERNEL,) * 3, dtypes: Dtypes = _EVERY) -> None:
        """Register the three ops, which backends have kernels of, or of these formulas and the ops that they call."""

        def one(gradient: str, tensors: str, formula: Formula, autocast: Lists | None = None, **rest: Any) -> None:
            schema = f"({tensors}, int[] stride, int[] padding, int[] dilation, int groups, str contract) -> Tensor"
            options: dict[str, Any] = {
                "formula": formula[0],
                "calls": formula[1],
                "dtypes": dtypes,
                "autocast": autocast,
            }
            rest["gradients"]["options"] = _options
            define(f"{self.op}{gradient}", schema, family=self.op, **options, **rest)

        one(
            *("", "Tensor input, Tensor weight, Tensor? bias", formulas[0], LOWER),
            check=self.check,
            fake=self.fake,
            gradients=self.gradients(),
        )
        one(
            *("_grad_input", "Tensor grad, Tensor weight, int[] input_size", formulas[1]),
            check=self.check_grad_input,
            fake=self.fake_grad_input,
            gradients=self.gradients_of_grad_input(),
        )
        one(
            *("_grad_weight", "Tensor grad, Tensor input, int[] kernel_size", formulas[2]),
            check=self.check_grad_weight,
            fake=self.fake_grad_weight,
            gradients=self.gradients_of_grad_weight(),
        )

    def _call(self, gradient: str, *args: Any) -> Tensor:
        return getattr(_ops, f"{self.op}{gradient}")(*args)

    def check(self, input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> None:
        check_dim(self.op, self.dims + 2, input=input, weight=weight)
        check_dim(self.op, 1, bias=bias)
        check_geometry(self.op, input.shape, weight.shape, *options[:4])
        if bias is not None:
            check_size(self.op, "bias.shape[0]", bias.shape[0], weight.shape[0], "weight.shape[0], out_channels")

    def fake(self, input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
        sides = [output_size(*of) for of in zip(input.shape[2:], weight.shape[2:], *options[:3])]
        return layout.images((input.shape[0], weight.shape[0], *sides), input, weight).empty(input)

    def gradients(self) -> dict[str, Any]:
        def made(gradient: str, g: Tensor, other: Tensor, shape: torch.Size, options: Any, format: Any) -> Tensor:
            return self._call(gradient, g, other, shape[2:], *options).contiguous(memory_format=format)

        return {
            "format": lambda input_format, weight_format: (
                weight_format if input_format is torch.contiguous_format else input_format
            ),
            "input": lambda g, weight, input_shape, options, format: made(
                "_grad_input", g, weight, input_shape, options, format
            ),
            "weight": lambda g, input, weight_shape, options, format: made(
                "_grad_weight", g, input, weight_shape, options, format
            ),
            "bias": lambda g, contract: _ops.sum(g, [0, *range(2, g.dim())], False, contract),
        }

    def check_grad_input(self, grad: Tensor, weight: Tensor, input_size: Ints, *options: Any) -> None:
        op = f"{self.op}_grad_input"
        check_dim(op, self.dims + 2, grad=grad, weight=weight)
        input_shape = [grad.shape[0], weight.shape[1] * options[3], *input_size]
        expected = check_geometry(op, input_shape, weight.shape, *options[:4])
        check_size(op, "grad.shape", list(grad.shape), expected, f"the output shape of {self.op}")

    def fake_grad_input(self, grad: Tensor, weight: Tensor, input_size: Ints, groups: int) -> Tensor:
        return grad.new_empty((grad.shape[0], weight.shape[1] * groups, *input_size))

    def gradients_of_grad_input(self) -> dict[str, Any]:
        return {
            "grad": lambda g, weight, options: self._call("", g, weight, None, *options),
            "weight": lambda g, grad, weight_shape, options: self._call(
                "_grad_weight", grad, g, weight_shape[2:], *options
            ),
        }

    def check_grad_weight(self, grad: Tensor, input: Tensor, kernel_size: Ints, *options: Any) -> None:
        op = f"{self.op}_grad_weight"
        check_dim(op, self.dims + 2, grad=grad, input=input)
        check_options(op, self.dims, *options[:4])
        weight_shape = [grad.shape[1], input.shape[1] // options[3], *kernel_size]
        expected = check_geometry(op, input.shape, weight_shape, *options[:4])
        check_size(op, "grad.shape", list(grad.shape), expected, f"the output shape of {self.op}")

    def fake_grad_weight(self, grad: Tensor, input: Tensor, kernel_size: Ints, groups: int) -> Tensor:
        return grad.new_empty((grad.shape[1], input.shape[1] // groups, *kernel_size))

    def gradients_of_grad_weight(self) -> dict[str, Any]:
        return {
            "grad": lambda g, input, options: self._call("", input, g, None, *options),
            "input": lambda g, grad, input_shape, options: self._call(
                "_grad_input", grad, g, input_shape[2:], *options
            ),
        }


def _options(stride: Ints, padding: Ints, dilation: Ints, groups: int, contract: str) -> tuple[Any, ...]:
    return stride, padding, dilation, groups, contract
