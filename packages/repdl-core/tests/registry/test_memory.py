"""Writing into memory that overlaps itself: which value stays depends on threads and on the processor."""

from __future__ import annotations

import random as python_random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import _C

import repdl
from repdl import ops, random
from repdl.errors import UnsupportedError
from repdl.overrides.torchs import overload
from repdl.tensors.overlap import overlaps_itself

Tensor = torch.Tensor


def overlapping(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(8, dtype=dtype).unfold(0, 2, 1)


APART = {
    "row-major": lambda: torch.ones(7, 2),
    "transposed": lambda: torch.ones(2, 7).t(),
    "a column": lambda: torch.ones(7, 4)[:, 1::2],
    "not nested": lambda: torch.ones(9).as_strided((3, 2), (2, 3)),
    "expanded, of size 1": lambda: torch.ones(1).expand(1, 1),
    "empty": lambda: torch.ones(1).expand(0, 3),
    "many dimensions": lambda: torch.ones(2**17).view([2] * 17).permute([*range(1, 17), 0]),
}


def test_overlaps_itself__is_exact() -> None:
    """Against all addresses, for random sizes and strides."""
    choose = python_random.Random(0)
    found = set()
    for _ in range(3000):
        dims = choose.randint(1, 4)
        size = [choose.choice((1, 2, 3, 4, 5, 0 if choose.random() < 0.1 else 2)) for _ in range(dims)]
        stride = [choose.randint(0, 12) for _ in range(dims)]
        reached = sum((n - 1) * step for n, step in zip(size, stride) if n)
        places = torch.arange(reached + 1).as_strided(size, stride)
        expected = places.unique().numel() < places.numel()
        assert overlaps_itself(places) == expected, (size, stride)
        found.add((expected, dims))
    assert len(found) == 8
    large = torch.empty(1, device="meta")
    assert not overlaps_itself(large.as_strided((1000, 1000), (999, 1001)))
    assert overlaps_itself(large.as_strided((1002, 1002), (999, 1001)))


ONE_VALUE = {"fill", "fill_diagonal", "zero", "full", "zeros", "ones", "_foreach_zero"}
"""Ops that write one value everywhere."""


def test_enable__every_op_that_writes_refuses_memory_that_overlaps_itself() -> None:
    repdl.enable()
    silent, reached = [], 0
    for name in sorted(_C._dispatch_get_all_op_names()):
        plain = name.partition("::")[2].partition(".")[0]
        if not name.startswith("aten::") or not _C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
            continue
        op = overload(name)
        written = [a for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if not written or torch.Tag.inplace_view in op.tags or plain.rstrip("_") in ONE_VALUE:
            continue
        composed = _C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
        for target in written:
            given = {a.name: _value(a, a is target) for a in op._schema.arguments}
            positional = [given[a.name] for a in op._schema.arguments if not a.kwarg_only]
            named = {a.name: given[a.name] for a in op._schema.arguments if a.kwarg_only}
            try:
                op(*positional, **named)
                if isinstance(given[target.name], Tensor) and not overlaps_itself(given[target.name]):
                    continue  # it has got other sizes
                silent.append(f"{name}, {target.name}")
            except UnsupportedError as error:
                reached += "share memory" in str(error)
            except Exception as error:
                if not composed:  # whose Python or C++ looks at its arguments before it calls what writes
                    silent.append(f"{name}, {target.name}: {type(error).__name__}")
    left = [text for text in silent if text.partition(",")[0] not in CHANGE_NO_ELEMENT]
    assert not left, "\n".join(left)
    assert reached > 1000


CHANGE_NO_ELEMENT = {"aten::empty.out", "aten::requires_grad_", "aten::retain_grad", "aten::set_data"}


def _value(argument: Any, overlaps: bool) -> Any:
    kind = str(argument.type).removeprefix("Optional[").removesuffix("]") if "Optional" in str(argument.type) else ""
    kind = kind or str(argument.type)
    if kind == "Tensor":
        return overlapping() if overlaps else torch.ones(7, 2)
    if kind.startswith(("List[Tensor", "List[Optional[Tensor")):
        return [overlapping() if overlaps else torch.ones(7, 2)]
    if argument.has_default_value():
        return argument.default_value
    if kind.startswith("List["):
        one = {"int": 1, "float": 1.0, "bool": False, "Scalar": 1, "number": 1}[kind[5:].rstrip("]")]
        return [one] * (argument.N or 1)
    if kind == "Storage":
        return torch.ones(4).untyped_storage()
    return {"str": "sum", "bool": False, "float": 1.0, "Generator": None, "Device": torch.device("cpu")}.get(kind, 0)


CALLS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "u[:] = v": lambda u, v: u.__setitem__(slice(None), v),
    "+=": lambda u, v: u.__iadd__(v),
    "add_ of a number": lambda u, v: u.add_(2.0),
    "copy_": lambda u, v: u.copy_(v),
    "copy_ of integers": lambda u, v: u.copy_(v.int()),
    "where": lambda u, v: torch.where(v > 0, v, v, out=u),
    "cat": lambda u, v: torch.cat([v[:3], v[3:]], out=u),
    "index_put_": lambda u, v: u.__setitem__(torch.tensor([0, 1]), v[:2]),
    "cumsum_": lambda u, v: u.cumsum_(0),
    "normal_": lambda u, v: u.normal_(),
    "random_": lambda u, v: u.random_(),
    "uniform_": lambda u, v: u.uniform_(),
    "_foreach_add_": lambda u, v: torch._foreach_add_([v, u], [v, v]),
    "_foreach_copy_": lambda u, v: torch._foreach_copy_([u], [v]),
    "SGD": lambda u, v: torch.optim.SGD([_parameter(u, v)], 0.1).step(),
    "SGD, fused": lambda u, v: torch.optim.SGD([_parameter(u, v)], 0.1, fused=True).step(),
    "Adam, lists": lambda u, v: torch.optim.Adam([_parameter(u, v)], foreach=True).step(),
}


def _parameter(memory: Tensor, grad: Tensor) -> Tensor:
    parameter = torch.nn.Parameter(memory)
    parameter.grad = grad.clone()
    return parameter


def test_enable__memory_that_overlaps_itself_also_where_calls_are_replayed() -> None:
    """Calls of one function with other memory between each other, more often than it takes to record one."""
    v = torch.ones(7, 2)
    repdl.enable()
    for name, call in CALLS.items():
        for turn in range(4):
            for layout in ("row-major", "transposed", "a column"):
                call(APART[layout](), v)
            for _ in range(2):
                with pytest.raises(UnsupportedError, match=r"test_memory.py:\d+ .*share memory"):
                    call(overlapping(), v)
                    pytest.fail(f"{name}, turn {turn}: written in silence")


def test_enable__what_does_not_overlap_is_written() -> None:
    repdl.enable()
    for name, make in APART.items():
        for _ in range(4):
            x = make()
            x.copy_(torch.full(x.shape, 3.0)).add_(1).mul_(2.0).masked_fill_(x > 9, 0.5)
            assert torch.equal(x, torch.full(x.shape, 8.0)), name
    x = torch.zeros(1).expand(3)
    assert x.fill_(2).tolist() == [2, 2, 2] and x.zero_().tolist() == [0, 0, 0]  # one value


def test_enable__a_warning_where_it_was_asked_for() -> None:
    repdl.enable(on_uncovered="warn")
    with pytest.warns(UserWarning, match=r"aten.copy_.*share memory"):
        overlapping().copy_(torch.ones(7, 2))


WRITING: dict[str, Callable[[Tensor], Any]] = {
    "uniform_": random.uniform_,
    "normal_": random.normal_,
    "random_": random.random_,
    "bernoulli_": random.bernoulli_,
    "exponential_": random.exponential_,
    "rand": lambda u: random.rand(7, 2, out=u),
    "relu": lambda u: ops.relu(u, inplace=True),
    "elu": lambda u: ops.elu(u, inplace=True),
    "dropout": lambda u: ops.dropout(u, inplace=True, generator=random.Generator(0)),
    "sgd_step": lambda u: ops.sgd_step([u], [torch.ones(7, 2)], [], lr=0.1),
    "batch_norm": lambda u: ops.batch_norm(torch.ones(3, 7), u[:, 0].expand(7), torch.ones(1).expand(7), training=True),
}


def test_ops__refuse_to_write_memory_that_overlaps_itself() -> None:
    for name, call in WRITING.items():
        for _ in range(3):
            with pytest.raises(UnsupportedError, match="share memory"):
                call(overlapping())
                pytest.fail(f"{name}: written in silence")
    with pytest.raises(UnsupportedError, match="share memory"):
        parameter = torch.nn.Parameter(torch.ones(7, 2))
        parameter.grad = overlapping()
        repdl.nn.utils.clip_grad_value_([parameter], 0.5)


def test_enable__inputs_that_overlap_the_output_by_an_element_or_none() -> None:
    """Of what is added in place, an element of the one lies where the last of the other does: -1, 0, 1 in common."""
    repdl.enable()
    for dtype in (torch.float32, torch.float64):
        for count in (1, 3, 40):
            for common in (-1, 0, 1):
                for before in (False, True):
                    for turn in range(5):
                        memory = torch.arange(1, 2.0 * count + 2, dtype=dtype)
                        low, high = memory[:count], memory[count - common : 2 * count - common]
                        target, other = (low, high) if before else (high, low)
                        expected = target + other.clone()
                        if count - common >= 0 and (count > 1 or common < 1):
                            target.add_(other)
                            assert torch.equal(target, expected), (dtype, count, common, before, turn)
