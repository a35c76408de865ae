"""Whether a backend puts outputs where the fake kernels say, and reads operands wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses import FakeTensorMode

from repdl.errors import DTypeError
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing.cases import Case, cases
from repdl.testing.compare import assert_same_bits
from repdl.testing.run import placed


def assert_layouts(backend: str) -> None:
    """Raise unless the outputs of every case with an operand that is not row-major have the fake ones' strides."""
    chosen = get_backend(backend)
    functions = implementations(chosen)
    count = 0
    for case in cases():
        args = placed(case.op, case.args(), chosen.device)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if case.op not in functions or all(t.is_contiguous() for t in tensors):
            continue
        try:
            real = functions[case.op](*args)
        except DTypeError:  # float64, where the backend has no kernel for it
            continue
        with FakeTensorMode() as mode:
            fake = OPS[case.op].overload(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
        if real is not None:
            for one, other in zip(*(r if isinstance(r, (tuple, list)) else (r,) for r in (real, fake))):
                seen, expected = ((t.shape, t.stride(), t.dtype) for t in (one, other))
                assert seen == expected, f"{backend}: {case}: {seen}, expected {expected}"
        count += 1
    assert count > 100, f"{backend}: {count} cases with other layouts, expected more than 100"


def assert_operands(backend: str) -> None:
    """Raise unless calls have the same bits when one of their tensors lies in memory in another order, with gaps."""
    functions = get_backend(backend).ops
    count = 0
    for case in _one_of_each_form(backend):
        args = placed(case.op, case.args(), get_backend(backend).device)
        expected = functions[case.op](*args)
        for i, argument in enumerate(args):
            if isinstance(argument, torch.Tensor) and argument.numel() > 1:
                for name, other in {"scattered": scattered(argument), **sliced(argument)}.items():
                    given = [*args[:i], other, *args[i + 1 :]]
                    assert_same_bits(functions[case.op](*given), expected, f"{backend}: {case}, argument {i} {name}")
                    count += 1
    assert count > 200, f"{backend}: {count} operands, expected more than 200"


def scattered(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements with their dimensions in the reverse order in memory, and others between them."""
    strides, step = [], 2
    for size in tensor.shape:
        strides.append(step)
        step *= size
    memory = tensor.flatten().flip(0).repeat_interleave(2)
    return memory.as_strided(tensor.shape, strides).copy_(tensor)


def sliced(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same elements as every second one along each dimension, row-major and with the channels last."""
    found = {}
    for name, order in (("row-major", range(tensor.dim())), ("channels last", (0, *range(2, tensor.dim()), 1))):
        if name != "row-major" and tensor.dim() < 3:
            continue
        for d in range(tensor.dim()):
            shape = [2 * n if i == d else n for i, n in enumerate(tensor.shape)]
            memory = tensor.new_zeros([shape[i] for i in order]).permute([[*order].index(i) for i in range(len(shape))])
            found[f"{name}, every second along {d}"] = memory.unflatten(d, (-1, 2)).select(d + 1, 0).copy_(tensor)
    return found


def _one_of_each_form(backend: str) -> Iterator[Case]:
    """Of each op, and of each choice of the tensors that it is given, the smallest case that has some elements, and the
    smallest with no side of one."""
    found: dict[Any, tuple[int, Case]] = {}
    for case in cases():
        if case.derived or case.op not in get_backend(backend).ops or OPS[case.op].mutates:
            continue
        tensors = [a if isinstance(a, torch.Tensor) else None for a in case.make()]
        sizes = [t.numel() for t in tensors if t is not None]
        has_one = any(t is not None and 1 in t.shape for t in tensors)
        form = case.op, has_one, tuple(t is not None and t.dtype for t in tensors)
        if min(sizes) > 0 and max(sizes) >= 12 and (form not in found or sum(sizes) < found[form][0]):
            found[form] = sum(sizes), case
    return iter(case for _, case in found.values())
