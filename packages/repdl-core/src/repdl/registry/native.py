"""Implementations of ops by native kernels: what a backend in C++ needs of Python.

A native module is made of `repdl/backend.hpp` and `repdl/python.hpp`; its `kernels` say which
ops it has. Core allocates the outputs and brings the tensors into the layout that a kernel asks
for; the backend says where a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import torch

from repdl.callcache import THREAD, KernelCall
from repdl.contract import Contract
from repdl.registry import OPS, Op
from repdl.tensors import layout
from repdl.tensors.flat import flat_lists

Run = tuple[int, int, int]
"""Where a kernel runs: number of threads, index of the device, handle of the stream."""


class Kernel(Protocol):
    """A kernel of a native module."""

    layout: str
    arguments: int

    def __call__(
        self,
        arguments: tuple[Any, ...],
        outputs: tuple[torch.Tensor, ...],
        run: Run,
        like: torch.Tensor,
        /,
    ) -> None: ...


Kernels = Mapping[tuple[str, str], Kernel]
"""(op, dtype) -> kernel: the `kernels` of a native module."""


@dataclass(frozen=True)
class Native:
    """How a backend runs native kernels.

    Args:
        kernels: those that a call with this tensor uses; every module of a backend has the same ops.
        run: where such a call runs.
        fresh: what is done with the memory of an output before a kernel writes it.
    """

    kernels: Callable[[torch.Tensor], Kernels]
    run: Callable[[torch.Tensor], Run]
    fresh: Callable[[torch.Tensor], object] = lambda output: None

    def call(
        self, name: str, like: torch.Tensor, arguments: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]
    ) -> None:
        """Run the kernel of that name for the dtype and device of `like`; tensors as it wants them."""
        dtype = "float64" if like.dtype is torch.float64 else "float32"
        kernel = self.kernels(like)[name, dtype]
        kernel(arguments, outputs, self.run(like), like)

    def implement(self, kernels: Kernels) -> tuple[dict[str, Callable[..., Any]], list[str]]:
        """The implementations of the ops among these kernels, and which of them have one for float64."""
        ops = sorted({op for op, _ in kernels if op in OPS})
        made = {op: _implementation(self, OPS[op], kernels[op, "float32"]) for op in ops}
        return made, [op for op in ops if (op, "float64") in kernels]


def workspace(like: torch.Tensor, size: int) -> torch.Tensor:
    """Memory of that many bytes beside a tensor: what kernels call when they ask for some."""
    return torch.empty(size, dtype=torch.uint8, device=like.device)


def _implementation(native: Native, op: Op, example: Kernel) -> Callable[..., Any]:
    """An implementation of `op`, with the arguments of its schema, by kernels like this one."""
    arrange = _LAYOUTS[example.layout](op)
    single, double = (op.name, "float32"), (op.name, "float64")
    schema = op.overload._schema
    lists = [i for i, argument in enumerate(schema.arguments) if str(argument.type) == "List[Tensor]"]
    leader = op.storage.floats[0] if op.storage is not None else 0
    has_order = op.has_order
    # A kernel whose order no contract changes does not take it.
    unused = has_order and example.arguments < len(schema.arguments) + len(schema.returns)
    several, empty, plain = len(schema.returns) > 1, op.fake, example.layout in ("strided", "in_place")
    kernels, run, fresh, float64 = native.kernels, native.run, native.fresh, torch.float64

    def call(*args: Any) -> Any:
        like = args[leader]
        if lists:
            if not args[lists[0]]:
                return None
            like = args[lists[0]][0]
        kernel = kernels(like)[double if like.dtype is float64 else single]
        made = empty(*args)
        outputs = made if several else () if made is None else (made,)
        if plain:
            given, written, finish = args, outputs, None
        else:
            given, written, finish = arrange(args, outputs)
        for output in written:
            fresh(output)
        if has_order:
            given = given[:-1] if unused else (*given[:-1], _contract(given[-1]))
        at = run(like)
        kernel(given, written, at, like)
        if (trace := THREAD.trace) is not None:
            trace.kernel_calls.append(KernelCall(kernel, given, written, *at[:2]))
        if finish is None:
            return made
        result = finish()
        return result if several or made is None else result[0]

    return call


@cache
def _contract(name: str) -> tuple[int, int, int]:
    chosen = Contract.parse(name)
    return chosen.dot_chunk, chosen.sum_lanes, chosen.sum_block


Outputs = tuple[torch.Tensor, ...]
Arrange = Callable[[tuple[Any, ...], Outputs], tuple[tuple[Any, ...], Outputs, Callable[[], Any] | None]]
"""(arguments, outputs) -> what the kernel gets, and a function that makes the outputs of what it wrote, or None."""


def _strided(op: Op) -> Arrange:
    return lambda args, outputs: (args, outputs, None)


def _flat(op: Op) -> Arrange:
    def arrange(args: tuple[Any, ...], outputs: Outputs) -> Any:
        like = outputs[0]
        return tuple(layout.matching(a, like) if isinstance(a, torch.Tensor) else a for a in args), outputs, None

    return arrange


def _contiguous(op: Op) -> Arrange:
    def arrange(args: tuple[Any, ...], outputs: Outputs) -> Any:
        given = tuple(a.contiguous() if isinstance(a, torch.Tensor) else a for a in args)
        rows = tuple(layout.row_major(output) for output in outputs)
        if all(row is output for row, output in zip(rows, outputs)):
            return given, outputs, None
        return given, rows, lambda: tuple(layout.stored(*pair) for pair in zip(rows, outputs))

    return arrange


def _dim_last(op: Op) -> Arrange:
    """Move `dim`, or the classes of a loss, to the end of the tensors that have this dimension."""
    names = [argument.name for argument in op.overload._schema.arguments]
    along = names.index("dim") if "dim" in names else None
    contiguous = _contiguous(op)

    def arrange(args: tuple[Any, ...], outputs: Outputs) -> Any:
        dims = max(a.dim() for a in args if isinstance(a, torch.Tensor))
        dim = 1 if along is None else args[along]
        if dim >= dims - 1:
            return contiguous(args, outputs)

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.movedim(dim, -1) if tensor.dim() == dims else tensor

        given = tuple(moved(a).contiguous() if isinstance(a, torch.Tensor) else a for a in args)
        written = tuple(output.new_empty(moved(output).shape) for output in outputs)

        def finish() -> Outputs:
            back = (row.movedim(-1, dim) if row.dim() == dims else row for row in written)
            return tuple(layout.stored(*pair) for pair in zip(back, outputs))

        return given, written, finish

    return arrange


def _lists(op: Op) -> Arrange:
    arguments = op.overload._schema.arguments
    lists = [i for i, argument in enumerate(arguments) if str(argument.type) == "List[Tensor]"]
    infos = {i: arguments[i].alias_info for i in lists}
    changed = {i for i, info in infos.items() if info is not None and info.is_write}

    def arrange(args: tuple[Any, ...], outputs: Outputs) -> Any:
        used = [i for i in lists if args[i]]
        columns, back = flat_lists(op.name, [args[i] for i in used], [i in changed for i in used])
        given = list(args)
        for i, column in zip(used, columns):
            given[i] = column

        def finish() -> None:
            for tensor, copy in back:
                tensor.copy_(copy)

        return tuple(given), outputs, finish if back else None

    return arrange


_LAYOUTS: dict[str, Callable[[Op], Arrange]] = {
    "strided": _strided,
    "in_place": _strided,
    "flat": _flat,
    "rows": _contiguous,
    "last": _dim_last,
    "lists": _lists,
}
