"""Implementations of ops by native kernels: what a backend in C++ needs of Python.

A native module is made of `repdl/backend.hpp` and `repdl/python.hpp`; its `kernels` say which
ops it has. Core allocates the outputs and brings the tensors into the form that a kernel asks
for; the backend says where a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

from repdl import layout
from repdl.contract import Contract
from repdl.ops._elements import flat_lists
from repdl.registry import OPS, Op

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
        workspace: Callable[[int], torch.Tensor],
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
    fresh: Callable[[torch.Tensor], torch.Tensor] = lambda output: output

    def call(
        self, name: str, like: torch.Tensor, arguments: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]
    ) -> None:
        """Run the kernel of that name for the dtype and device of `like`; tensors as it wants them."""
        dtype = "float64" if like.dtype is torch.float64 else "float32"
        kernel = self.kernels(like)[name, dtype]
        kernel(arguments, outputs, self.run(like), partial(_workspace, like.device))

    def implement(self, kernels: Kernels) -> tuple[dict[str, Callable[..., Any]], list[str]]:
        """The implementations of the ops among these kernels, and which of them have one for float64."""
        ops = sorted({op for op, _ in kernels if op in OPS})
        return {op: _implementation(self, OPS[op]) for op in ops}, [op for op in ops if (op, "float64") in kernels]


def _workspace(device: torch.device, size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def _implementation(native: Native, op: Op) -> Callable[..., Any]:
    """An implementation of `op`, with the arguments of its schema."""
    empty = op.fake
    schema = op.overload._schema.arguments
    kinds = [str(argument.type) for argument in schema]
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema]
    lists = [i for i, kind in enumerate(kinds) if kind == "List[Tensor]"]
    tensors = [i for i, kind in enumerate(kinds) if kind in ("Tensor", "Optional[Tensor]")]
    leader = op.storage.floats[0] if op.storage is not None else 0
    names = [argument.name for argument in schema]
    contract = len(kinds) - 1 if names[-1] == "contract" else None
    along = names.index("dim") if "dim" in names else None
    kernels, run, fresh, name = native.kernels, native.run, native.fresh, op.name

    def call(*args: Any) -> Any:
        like = args[leader]
        if lists:
            if not args[lists[0]]:
                return None
            like = args[lists[0]][0]
        kernel = kernels(like)[name, "float64" if like.dtype is torch.float64 else "float32"]
        made = empty(*args)
        outputs = made if isinstance(made, tuple) else () if made is None else (made,)
        if contract is not None:
            if kernel.arguments < len(args) + len(outputs):  # no contract changes its order
                args = args[:-1]
            else:
                chosen = Contract.parse(args[contract])
                args = (*args[:-1], (chosen.dot_chunk, chosen.sum_lanes, chosen.sum_block))
        where, workspace = run(like), partial(_workspace, like.device)
        form = kernel.layout
        if form == "strided":
            kernel(args, tuple(map(fresh, outputs)), where, workspace)
            return made
        changed = list(args)
        if form == "lists":
            used = [i for i in lists if args[i]]
            columns, back = flat_lists(name, [args[i] for i in used], [written[i] for i in used])
            for i, column in zip(used, columns):
                changed[i] = column
            kernel(tuple(changed), (), where, workspace)
            for tensor, copy in back:
                tensor.copy_(copy)
            return None
        if form == "flat":
            for i in tensors:
                if args[i] is not None:
                    changed[i] = layout.matching(args[i], outputs[0])
            kernel(tuple(changed), tuple(map(fresh, outputs)), where, workspace)
            return made
        if form == "last":
            dims = max(args[i].dim() for i in tensors if args[i] is not None)
            dim = 1 if along is None else args[along]  # of losses, that of the classes
            if dim < dims - 1:
                return _moved(kernel, changed, made, (dims, dim), fresh, (where, workspace))
        for i in tensors:
            if args[i] is not None:
                changed[i] = args[i].contiguous()
        rows = tuple(fresh(layout.row_major(output)) for output in outputs)
        kernel(tuple(changed), rows, where, workspace)
        result = tuple(layout.stored(*pair) for pair in zip(rows, outputs))
        return result if isinstance(made, tuple) else result[0]

    return call


def _moved(
    kernel: Kernel,
    args: list[Any],
    made: Any,
    which: tuple[int, int],
    fresh: Callable[[torch.Tensor], torch.Tensor],
    where: tuple[Run, Callable[[int], torch.Tensor]],
) -> Any:
    """Run a kernel on row-major tensors whose dimension `dim` is the last: those with `dims` dimensions."""
    dims, dim = which

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.movedim(dim, -1) if tensor.dim() == dims else tensor

    outputs = made if isinstance(made, tuple) else (made,)
    given = [moved(arg).contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args]
    rows = tuple(fresh(output.new_empty(moved(output).shape)) for output in outputs)
    kernel(tuple(given), rows, *where)
    back = tuple(row.movedim(-1, dim) if row.dim() == dims else row for row in rows)
    result = tuple(layout.stored(*pair) for pair in zip(back, outputs))
    return result if isinstance(made, tuple) else result[0]
