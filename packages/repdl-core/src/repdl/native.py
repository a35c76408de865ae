"""Implementations of ops by native kernels: what a backend in C++ needs of Python.

A native module is made of `repdl/backend.hpp` and `repdl/python.hpp`; its `kernels` say which
ops it has. Core allocates the outputs and brings the tensors into the form that a kernel asks
for; the backend says where a call runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from repdl import layout
from repdl.contract import Contract
from repdl.registry import OPS

Run = tuple[int, int, int]
"""Where a kernel runs: number of threads, index of the device, handle of the stream."""


class Kernel(Protocol):
    """A kernel of a native module."""

    layout: str
    arguments: int

    def __call__(self, arguments: tuple[Any, ...], outputs: tuple[torch.Tensor, ...], run: Run, /) -> None: ...


Kernels = Mapping[tuple[str, str], Kernel]
"""(op, dtype) -> kernel: the `kernels` of a native module."""

_DTYPES = {torch.float32: "float32", torch.float64: "float64"}


def implement_all(
    kernels: Kernels,
    of: Callable[[torch.Tensor], Kernels],
    run: Callable[[torch.Tensor], Run],
    fresh: Callable[[torch.Tensor], torch.Tensor] = lambda output: output,
) -> tuple[dict[str, Callable[..., Any]], list[str]]:
    """The implementations of all ops that a native module has kernels for, and which have one for float64.

    Args:
        kernels: those of a module; every module of the backend has the same.
        of: the kernels that a call with this tensor uses.
        run: where it runs.
        fresh: what is done with the memory of an output before a kernel writes it.
    """
    ops = sorted({op for op, _ in kernels if op in OPS})
    doubles = [op for op in ops if (op, "float64") in kernels]
    return {op: _implementation(op, of, run, fresh) for op in ops}, doubles


def _implementation(
    op: str,
    of: Callable[[torch.Tensor], Kernels],
    run: Callable[[torch.Tensor], Run],
    fresh: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[..., Any]:
    declared = OPS[op]
    empty = declared.fake
    first = declared.storage.floats[0] if declared.storage is not None else 0
    has_contract = declared.schema.rpartition(")")[0].partition("->")[0].rstrip(") ").endswith("str contract")
    tensors = [i for i, argument in enumerate(declared.overload._schema.arguments) if "Tensor" in str(argument.type)]

    def call(*args: Any) -> Any:
        made = empty(*args)
        outputs = made if isinstance(made, tuple) else (made,)
        leader = args[first]
        key = (op, "float64" if leader.dtype is torch.float64 else "float32")
        kernel = of(leader)[key]
        if has_contract:
            if kernel.arguments < len(args) + len(outputs):  # one whose order no contract changes
                args = args[:-1]
            else:
                chosen = Contract.parse(args[-1])
                args = (*args[:-1], (chosen.dot_chunk, chosen.sum_lanes, chosen.sum_block))
        form = kernel.layout
        if form == "strided":
            kernel(args, tuple(map(fresh, outputs)), run(leader))
            return made
        like = outputs[0]
        changed = list(args)
        for i in tensors:
            if args[i] is not None:
                changed[i] = args[i].contiguous() if form == "rows" else layout.matching(args[i], like)
        if form == "flat":
            kernel(tuple(changed), tuple(map(fresh, outputs)), run(leader))
            return made
        written = tuple(fresh(layout.row_major(output)) for output in outputs)
        kernel(tuple(changed), written, run(leader))
        result = tuple(layout.stored(*pair) for pair in zip(written, outputs))
        return result if isinstance(made, tuple) else result[0]

    return call


def kernel_of(of: Callable[[torch.Tensor], Kernels], name: str, tensor: torch.Tensor) -> Kernel:
    """The kernel of that name for the dtype of a tensor, of an op or of something that backends use themselves."""
    return of(tensor)[name, _DTYPES[tensor.dtype]]
