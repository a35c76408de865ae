"""Element types: which ones an op takes, and how it computes on 16-bit storage.

bfloat16 and float16 are storage (contract/v1/cast.md): operands are widened exactly to
float32, the float32 op runs, and each result is rounded once. That happens here, around
the implementation of any backend, with the backend's own `cast`: kernels are float32 or
float64 only, and autograd saves the 16-bit tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from repdl.errors import DTypeError, check_dtype, conversion

FLOATS_16_BIT = (torch.bfloat16, torch.float16)
SINGLE = (torch.float32, *FLOATS_16_BIT)
"""What autocast converts, and what ops without float64 take."""
ALL = (torch.float32, torch.float64, *FLOATS_16_BIT)
"""What an op takes."""


@dataclass(frozen=True)
class Dtypes:
    """The dtypes of an op's floating-point tensors; the storage dtype is that of the first.

    Args:
        supported: the storage dtypes. All tensors that are not named below have the same.
        outputs: for each output the name of the argument whose dtype it has, or "" for the
            dtype of the arithmetic: float32 with 16-bit storage. None: all have the storage dtype.
        statistics: arguments in the dtype of the arithmetic.
        parameters: groups of arguments that may be float32 beside 16-bit storage, as in
            torch's mixed mode; those of a group have one dtype, which is the storage dtype
            if the first is None.
        integers: arguments that are no floating-point tensors, which the op checks itself.
        bools: arguments that are tensors of bools.
        shape_only: arguments that give sizes, dtype and device; their elements are never read.
        keeps_16_bit: the implementation gets 16-bit tensors as they are: the op moves elements and computes nothing,
            or has a formula whose ops round, which then computes it in every backend.
    """

    supported: tuple[torch.dtype, ...] = ALL
    outputs: tuple[str, ...] | None = None
    statistics: tuple[str, ...] = ()
    parameters: tuple[tuple[str, ...], ...] = ()
    integers: tuple[str, ...] = ()
    bools: tuple[str, ...] = ()
    shape_only: tuple[str, ...] = ()
    keeps_16_bit: bool = False


class PrecisionRules:
    """`Dtypes` of one op, by position in its schema."""

    def __init__(self, op: str, schema: Any, dtypes: Dtypes) -> None:
        names = [argument.name for argument in schema.arguments]
        tensors = [
            i
            for i, argument in enumerate(schema.arguments)
            if str(argument.type) in ("Tensor", "Optional[Tensor]")
            and argument.name not in (*dtypes.integers, *dtypes.bools)
        ]
        self.op, self.dtypes, self.names = op, dtypes, names
        self.floats = tuple(tensors)
        self._outputs = None if dtypes.outputs is None else [names.index(n) if n else -1 for n in dtypes.outputs]
        self._statistics = [names.index(n) for n in dtypes.statistics]
        self._parameters = [[names.index(n) for n in group] for group in dtypes.parameters]
        apart = {*self._statistics, *(i for group in self._parameters for i in group)}
        self._data = [i for i in tensors if i not in apart]
        self.bools = [names.index(n) for n in dtypes.bools]
        self._shape_only = [names.index(n) for n in dtypes.shape_only]

    def check(self, args: Sequence[Any]) -> torch.dtype:
        """The storage dtype; raises DTypeError unless the dtypes are supported and fit together."""
        first, data = self.names[self._data[0]], args[self._data[0]]
        storage: torch.dtype = data.dtype
        check_dtype(self.op, self.dtypes.supported, **{first: data})
        for i in self._data:
            self._expect(args, i, (storage,), f"{first}.dtype")
        for i in self.bools:
            if args[i] is not None:
                check_dtype(self.op, (torch.bool,), **{self.names[i]: args[i]})
        wide = torch.float32 if storage in FLOATS_16_BIT else storage
        for i in self._statistics:
            self._expect(args, i, (wide,), f"that of the arithmetic on {_name(storage)}")
        for group in self._parameters:
            leader = args[group[0]]
            for i in group:
                if leader is None:
                    self._expect(args, i, (storage,), f"{first}.dtype, as {self.names[group[0]]} is None")
                elif i == group[0]:
                    self._expect(args, i, (storage, wide), f"for {first}.dtype {_name(storage)}")
                else:
                    self._expect(args, i, (leader.dtype,), f"{self.names[group[0]]}.dtype")
        return storage

    def _expect(self, args: Sequence[Any], i: int, allowed: tuple[torch.dtype, ...], source: str) -> None:
        tensor = args[i]
        if tensor is not None and tensor.dtype not in allowed:
            expected = " or ".join(dict.fromkeys(_name(dtype) for dtype in allowed))
            name = self.names[i]
            by = "repdl.ops.cast({}, {})" if tensor.dtype in ALL else "{}.to({})"
            raise DTypeError(
                f"{self.op}: {name}.dtype is {_name(tensor.dtype)}, expected {expected} (= {source})"
                f"{conversion(name, tensor.dtype, allowed, by)}"
            )

    def storage_dtype(self, args: Sequence[Any]) -> torch.dtype:
        """The storage dtype of arguments that `check` lets through."""
        return args[self._data[0]].dtype

    def output_dtype(self, args: Sequence[Any], number: int) -> torch.dtype:
        """The dtype of a floating-point output."""
        storage = self.storage_dtype(args)
        position = self._data[0] if self._outputs is None else self._outputs[number]
        if position < 0:
            return torch.float32 if storage in FLOATS_16_BIT else storage
        return storage if args[position] is None else args[position].dtype

    def run(self, implementation: Callable[..., Any], cast: Callable[..., torch.Tensor], args: Sequence[Any]) -> Any:
        """What `implementation` gives for 16-bit storage: widen, compute, round once."""
        if self.dtypes.keeps_16_bit:
            return implementation(*args)
        wide = list(args)
        for i in self.floats:
            if args[i] is not None and args[i].dtype in FLOATS_16_BIT:
                wide[i] = _unread(args[i]) if i in self._shape_only else _widen(args[i], cast)
        return self.outputs(args, implementation(*wide), cast)

    def outputs(self, args: Sequence[Any], result: Any, convert: Callable[..., torch.Tensor]) -> Any:
        """The outputs, each converted to the dtype that it has."""
        if isinstance(result, torch.Tensor):
            return self._output(args, 0, result, convert)
        return tuple(self._output(args, number, tensor, convert) for number, tensor in enumerate(result))

    def _output(
        self, args: Sequence[Any], number: int, tensor: torch.Tensor, convert: Callable[..., torch.Tensor]
    ) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        dtype = self.output_dtype(args, number)
        return tensor if tensor.dtype is dtype else convert(tensor, dtype)


def _widen(tensor: torch.Tensor, cast: Callable[..., torch.Tensor]) -> torch.Tensor:
    """In float32; what strides of 0 repeat stays repeated, as the layout of outputs depends on it."""
    if 0 not in tensor.stride() or tensor.numel() == 0:
        return cast(tensor, torch.float32)
    once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
    return cast(tensor[once], torch.float32).expand(tensor.shape)


def _unread(tensor: torch.Tensor) -> torch.Tensor:
    """The sizes of a tensor, as float32: one element of memory."""
    return tensor.new_empty((), dtype=torch.float32).expand(tensor.shape)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
