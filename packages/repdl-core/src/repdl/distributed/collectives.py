"""torch's collectives that reduce, with the arguments of its dispatcher's ops, in the order of the contract.

Each returns what the op of that name returns, but for the work, which is one of Python. Integers, whose reductions are
exact in any order, are reduced by torch's backend itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from repdl.distributed import algorithms
from repdl.distributed.handshake import greet
from repdl.distributed.reduction import Reduction, is_exact, kind_of, reduction_of
from repdl.distributed.transport import Transport
from repdl.distributed.works import start
from repdl.errors import UnsupportedError
from repdl.registry import functions

Tensor = torch.Tensor


def _group(boxed: Any) -> dist.ProcessGroup:
    group = dist.ProcessGroup.unbox(boxed) if isinstance(boxed, torch.ScriptObject) else boxed
    greet(group)
    return group


def _parts(tensor: Tensor) -> Tensor:
    """Complex numbers as real ones."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of tensors in one dimension: those of one contiguous tensor themselves, else a copy."""
    parts = [_parts(tensor.detach()) for tensor in tensors]
    if len(parts) == 1 and parts[0].is_contiguous():
        return parts[0].view(-1)
    return torch.cat([part.reshape(-1) for part in parts])


def _write(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """The reverse of `_flat`."""
    parts = [_parts(tensor.detach()) for tensor in tensors]
    for part, values in zip(parts, flat.split([part.numel() for part in parts])):
        if part.data_ptr() != values.data_ptr() or not part.is_contiguous():
            part.copy_(values.view(part.shape))


def _reduce_all(transport: Transport, tensors: Sequence[Tensor], reduction: Reduction) -> Tensor:
    """The reduction of all elements of the tensors, flat; over them, if they are contiguous and one."""
    flat = _flat(tensors)
    wide = reduction.multiplied(flat)
    algorithms.all_reduce(transport, wide, reduction.op)
    return wide if wide.dtype is flat.dtype else functions.cast(wide, flat.dtype)


def _scatter(transport: Transport, output: Tensor, inputs: Sequence[Tensor], reduction: Reduction) -> None:
    """`output` becomes part r of the reduction of `inputs`, which are its parts one after the other."""
    flat = reduction.multiplied(_flat(inputs))
    made = flat.new_empty(flat.numel() // transport.size)
    algorithms.reduce_scatter(transport, made, flat, reduction.op)
    parts = _parts(output.detach())
    if made.dtype is not parts.dtype:
        made = functions.cast(made, parts.dtype)
    parts.copy_(made.view(parts.shape))


def allreduce_(
    tensors: list[Tensor],
    group: Any,
    op: Any,
    sparse: Any = None,
    async_op: bool = True,
    *rest: Any,
    factor: Any = None,
) -> tuple[list[Tensor], Any]:
    group, (tensor,) = _group(group), _one("all_reduce", tensors)
    if is_exact(tensor.dtype):
        return tensors, _backend(group, tensor).allreduce(tensors, _options(dist.AllreduceOptions, op))
    return tensors, _all_reduce("all_reduce", tensors, group, op, async_op, factor)


def allreduce_coalesced_(
    tensors: list[Tensor], group: Any, op: Any, async_op: bool = True, *rest: Any, factor: Any = None
) -> Any:
    group = _group(group)
    if is_exact(tensors[0].dtype):
        options = _options(dist.AllreduceCoalescedOptions, op)
        return _backend(group, tensors[0]).allreduce_coalesced(tensors, options)
    return _all_reduce("all_reduce_coalesced", tensors, group, op, async_op, factor)


def _all_reduce(name: str, tensors: list[Tensor], group: Any, op: Any, async_op: bool, factor: Any) -> Any:
    reduction = reduction_of(name, op, tensors[0], factor)

    def run(transport: Transport) -> None:
        _write(_reduce_all(transport, tensors, reduction), tensors)

    return start(group, tensors[0].device, run, list(tensors), async_op)


def reduce_(
    tensors: list[Tensor], group: Any, op: Any, root: int, root_tensor: int = 0, async_op: bool = True, *rest: Any,
    factor: Any = None,
) -> Any:  # fmt: skip
    group, (tensor,) = _group(group), _one("reduce", tensors)
    if is_exact(tensor.dtype):
        options = _options(dist.ReduceOptions, op)
        options.rootRank, options.rootTensor = root, root_tensor
        return _backend(group, tensor).reduce(tensors, options)
    reduction = reduction_of("reduce", op, tensor, factor)

    def run(transport: Transport) -> None:
        reduced = _reduce_all(transport, [tensor.detach().clone()], reduction)
        if transport.rank == root:
            _write(reduced, [tensor])

    return start(group, tensor.device, run, [tensor], async_op)


def reduce_scatter_(
    outputs: list[Tensor], inputs: list[list[Tensor]], group: Any, op: Any, async_op: bool = True, *rest: Any,
    factor: Any = None,
) -> tuple[list[Tensor], Any]:  # fmt: skip
    group, (output,), (parts,) = _group(group), _one("reduce_scatter", outputs), inputs
    if is_exact(output.dtype):
        work = _backend(group, output).reduce_scatter(outputs, inputs, _options(dist.ReduceScatterOptions, op))
        return outputs, work
    _check_parts("reduce_scatter", group, output, parts)
    return outputs, _reduce_scatter("reduce_scatter", [(output, parts)], group, op, async_op, factor)


def _reduce_scatter_base_(
    output: Tensor, input: Tensor, group: Any, op: Any, async_op: bool = True, *rest: Any, factor: Any = None
) -> tuple[Tensor, Any]:
    group = _group(group)
    if is_exact(output.dtype):
        options = _options(dist.ReduceScatterOptions, op)
        return output, _backend(group, output)._reduce_scatter_base(output, input, options)
    _check_whole("reduce_scatter_tensor", group, output, input)
    return output, _reduce_scatter("reduce_scatter_tensor", [(output, [input])], group, op, async_op, factor)


def reduce_scatter_tensor_coalesced_(
    outputs: list[Tensor], inputs: list[Tensor], group: Any, op: Any, async_op: bool = True, *rest: Any,
    factor: Any = None,
) -> Any:  # fmt: skip
    group, name = _group(group), "reduce_scatter_tensor"
    if is_exact(outputs[0].dtype):
        options = _options(dist.ReduceScatterOptions, op)
        return _backend(group, outputs[0]).reduce_scatter_tensor_coalesced(outputs, inputs, options)
    for output, input in zip(outputs, inputs):
        _check_whole(name, group, output, input)
    return _reduce_scatter(name, [(o, [i]) for o, i in zip(outputs, inputs)], group, op, async_op, factor)


def _reduce_scatter(
    name: str, pairs: list[tuple[Tensor, list[Tensor]]], group: Any, op: Any, async_op: bool, factor: Any
) -> Any:
    reduction = reduction_of(name, op, pairs[0][0], factor)

    def run(transport: Transport) -> None:
        for output, inputs in pairs:
            _scatter(transport, output, inputs, reduction)

    outputs = [output for output, _ in pairs]
    return start(group, outputs[0].device, run, outputs, async_op)


def _one(name: str, tensors: list[Tensor]) -> list[Tensor]:
    if len(tensors) != 1:
        raise UnsupportedError(f"{name}: {len(tensors)} tensors of a rank, expected 1; call it for each")
    return tensors


def _check_whole(name: str, group: Any, output: Tensor, input: Tensor) -> None:
    if input.dtype is not output.dtype or input.numel() != output.numel() * group.size():
        raise ValueError(
            f"{name}: input has {input.numel()} elements of {input.dtype}, expected {group.size()} times the "
            f"{output.numel()} of output, of {output.dtype}"
        )


def _check_parts(name: str, group: Any, output: Tensor, parts: list[Tensor]) -> None:
    shapes = {(tuple(part.shape), part.dtype) for part in parts}
    if len(parts) != group.size() or shapes != {(tuple(output.shape), output.dtype)}:
        raise ValueError(
            f"{name}: input_list has {len(parts)} tensors of {sorted(map(str, shapes))}, expected {group.size()} of "
            f"output's shape and dtype, {tuple(output.shape)} and {output.dtype}"
        )


def _backend(group: Any, tensor: Tensor) -> Any:
    """By which integers are reduced: not by the dispatcher's kernel, which would hold Python's lock while a thread of
    gloo that has gloo's asks for it."""
    return group._get_backend(tensor.device)


def _options(kind: Callable[[], Any], op: Any) -> Any:
    options = kind()
    options.reduceOp = dist.ReduceOp(kind_of(op))
    return options


COLLECTIVES: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(allreduce_, allreduce_coalesced_, reduce_, reduce_scatter_, _reduce_scatter_base_),
        reduce_scatter_tensor_coalesced_,
    )
}
"""By the names of c10d's ops."""


def with_work(result: Any, change: Callable[[Any], Any]) -> Any:
    """What a collective returned, with its work changed."""
    return (result[0], change(result[1])) if isinstance(result, tuple) else change(result)


__all__ = ["COLLECTIVES", "with_work"]
