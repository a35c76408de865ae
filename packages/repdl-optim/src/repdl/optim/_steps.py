"""torch's steps of parameters while `repdl.enable()` holds: one op of RepDL, which has the bits of torch's ops.

It takes every parameter in one pass over its memory, where torch's ops make eight for Adam. A step that the op does not
take, or that is not the same for all parameters, is torch's, op by op.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _C

from repdl.errors import RepDLError
from repdl.optim._common import StepOptimizer, is_count, is_plain
from repdl.optim.adaptive import Adam, RMSprop
from repdl.optim.moments import Adamax, RAdam
from repdl.optim.rprop import Rprop
from repdl.optim.sums_of_squares import Adadelta, Adagrad
from repdl.overrides.optimizers import STEPS
from repdl.registry import functions

Function = Callable[..., None]
_COUNTED = 2.0**24
"""From here on torch's count of steps, a float, stays what it is."""
_NOT_COVERED = "capturable", "differentiable", "found_inf", "grad_scale", "has_complex", "has_sparse_grad"


def _of(optimizer: type[StepOptimizer]) -> Callable[[Function], Function]:
    """Of torch's function of a step: what calls the op of that optimizer."""

    def change(torchs: Function) -> Function:
        names = list(inspect.signature(torchs).parameters)
        lists = names[: names.index("state_steps")]

        @functools.wraps(torchs)
        def step(*args: Any, **options: Any) -> None:
            given = {**dict(zip(names, args)), **options}
            if not _taken(optimizer, [given.pop(name) for name in lists], given.pop("state_steps"), given):
                torchs(*args, **options)

        return _scripted_as(torchs, step)

    return change


def _taken(optimizer: type[StepOptimizer], lists: list[Any], steps: list[Any], options: dict[str, Any]) -> bool:
    """Whether the step has been taken and counted; else nothing has been done."""
    if not _is_covered(lists, options) or len({*map(id, steps)}) < len(lists[0]) or not all(map(is_count, steps)):
        return False
    counts = {*map(float, steps)}
    if len(counts) > 1 or not all(count.is_integer() and 0 <= count < _COUNTED for count in counts):
        return False
    group = {**options, "betas": (options.get("beta1"), options.get("beta2"))}
    if "etaminus" in options:
        group |= {"etas": (options["etaminus"], options["etaplus"])}
        group |= {"step_sizes": (options["step_size_min"], options["step_size_max"])}
    of_op = [column if there else [] for column, there in zip(lists[2:], optimizer._lists(group).values())]
    if not _run(optimizer._op, [*lists[:2], *of_op], optimizer._numbers(group, counts.pop() + 1)):
        return False
    torch._foreach_add_(steps, 1)
    return True


def _is_covered(lists: Sequence[Sequence[Any]], options: dict[str, Any]) -> bool:
    """Whether the tensors are plain ones of one dtype on one device, and the options numbers."""
    if not lists[0] or torch.is_grad_enabled() or _C._are_functorch_transforms_active():
        return False
    if any(map(options.get, _NOT_COVERED)) or any(isinstance(value, torch.Tensor) for value in options.values()):
        return False
    first = lists[0][0]
    return all(is_plain(t) and t.dtype is first.dtype and t.device == first.device for of in lists for t in of)


def _run(op: str, lists: list[Any], numbers: tuple[Any, ...]) -> bool:
    """Whether the op has taken the step; where it refuses, nothing has changed, and torch's ops do what they can."""
    try:
        getattr(functions, op)(*lists, *numbers)
    except RepDLError:
        return False
    return True


def _sgd(torchs: Function) -> Function:
    @functools.wraps(torchs)
    def step(
        params: Any, grads: Any, momentum_buffer_list: Any, grad_scale: Any, found_inf: Any, **options: Any
    ) -> None:
        buffers = [buffer for buffer in momentum_buffer_list if buffer is not None] if options["momentum"] else []
        given = {**options, "grad_scale": grad_scale, "found_inf": found_inf}
        first = not buffers
        if _is_covered([params, grads, buffers], given) and len(buffers) in (0, len(params)):
            if first and options["momentum"]:
                buffers = [torch.empty_like(grad) for grad in grads]  # the op fills them
            numbers = (options[name] for name in ("lr", "weight_decay", "momentum", "dampening"))
            flags = options["nesterov"], options["maximize"], first
            if _run("sgd_step", [params, grads, buffers], (*map(float, numbers), *flags)):
                momentum_buffer_list[: len(buffers)] = buffers
                return
        torchs(params, grads, momentum_buffer_list, grad_scale, found_inf, **options)

    return _scripted_as(torchs, step)


def _scripted_as(torchs: Function, step: Any) -> Function:
    """The step, in whose place TorchScript compiles torch's (`torch.distributed.optim` does when it is imported)."""
    step.__script_if_tracing_wrapper = True
    step.__original_fn = torchs
    result: Function = step
    return result


STEPS |= {
    "adadelta": _of(Adadelta),
    "adagrad": _of(Adagrad),
    "adam": _of(Adam),
    "adamax": _of(Adamax),
    "radam": _of(RAdam),
    "rmsprop": _of(RMSprop),
    "rprop": _of(Rprop),
    "sgd": _sgd,
}
