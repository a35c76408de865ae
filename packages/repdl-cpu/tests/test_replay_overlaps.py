"""What is written and what is read share no element, one, or lie side by side: replayed calls are the function's.

The memory of two operands is moved together element by element, after calls without a common element were recorded: in
several layouts and dtypes, for methods of tensors while RepDL is enabled, lists of tensors and steps of optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.callcache import c_extension
from repdl.settings.generation import GENERATION
from repdl.testing.compare import assert_same_bits

pytestmark = pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API")

Tensor = torch.Tensor
View = Callable[[Tensor, int], Tensor]
COUNT, SPACE = 12, 80

LAYOUTS: dict[str, View] = {
    "a row": lambda memory, at: memory[at : at + COUNT],
    "every other one": lambda memory, at: memory[at : at + 2 * COUNT - 1 : 2],
    "a matrix": lambda memory, at: memory[at : at + COUNT].view(3, 4),
    "a transposed matrix": lambda memory, at: memory[at : at + COUNT].view(3, 4).t(),
    "rows with gaps": lambda memory, at: memory[at : at + 18].as_strided((3, 4), (6, 1)),
}
LISTS = [(torch._foreach_add_, ()), (torch._foreach_mul_, ()), (torch._foreach_lerp_, (0.3,))]
METHODS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    **{name: (lambda t, s, name=name: getattr(t, name)(s)) for name in ("add_", "sub_", "mul_", "div_", "__iadd__")},
    "add_ with alpha": lambda t, s: t.add_(s, alpha=0.3),
    "lerp_": lambda t, s: t.lerp_(s, 0.3),
    "addcmul_": lambda t, s: t.addcmul_(s, s, value=0.3),
    "addcdiv_ by itself": lambda t, s: t.addcdiv_(s, t, value=0.3),
    "clamp_": lambda t, s: t.clamp_(s),
    "mul_ by a part": lambda t, s: t.mul_(s.flatten()[-1]),
    **{f.__name__: (lambda t, s, f=f, more=more: f([t], [s], *more)) for f, more in LISTS},
}


def starts(extent: int) -> Iterator[tuple[int, int]]:
    """Where two operands begin: apart, twice to be recorded, and around all places where they begin to share."""
    apart = [(0, 2 * extent)] * 3
    yield from apart
    for gap in (extent + 1, extent, extent - 1, 1, 0):
        yield from ((0, gap), *apart[:1], (gap, 0))


def error_of(call: Callable[[Tensor, Tensor], Any], written: Tensor, read: Tensor) -> str:
    try:
        call(written, read)
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def compared(call: Callable[[Tensor, Tensor], Any], view: View, dtype: torch.dtype, what: str) -> None:
    """A call at all starts, replayed and not."""
    shape, stride = (t := view(torch.empty(SPACE), 0)).shape, t.stride()
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, stride))
    generator = torch.Generator().manual_seed(0)
    for first, second in starts(extent):
        memory = (torch.rand(SPACE, generator=generator) + 1).to(dtype)
        wanted = memory.clone()
        GENERATION.hold(1)
        try:
            expected = error_of(call, view(wanted, first), view(wanted, second))
        finally:
            GENERATION.hold(-1)
        seen = error_of(call, view(memory, first), view(memory, second))
        where = f"{what}, {dtype}, written from {first}, read from {second}"
        assert seen == expected, f"{where}: {seen!r}, expected {expected!r}"
        assert_same_bits(memory, wanted, where)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_overlaps__of_methods(dtype: torch.dtype) -> None:
    with repdl.enabled():
        for name, call in METHODS.items():
            for layout, view in LAYOUTS.items():
                GENERATION.advance()
                compared(call, view, dtype, f"{name} of {layout}")


def test_overlaps__of_three_operands() -> None:
    """Elements 20 to 53 belong to a long operand, 22 to 33 to a short one; the third lies before, among and behind."""
    row, apart = LAYOUTS["a row"], (0, 34, 46)
    starts_of_third = 0, 7, 8, 9, 21, 33, 34, 35, 44, 53, 54, 55, SPACE - COUNT

    def call(memory: Tensor, long: int, places: dict[int, int]) -> str:
        views = [memory[at : at + 3 * COUNT - 2 : 3] if i == long else row(memory, at) for i, at in places.items()]
        return error_of(lambda t, a: t.addcmul_(a, views[2], value=0.3), views[0], views[1])

    with repdl.enabled():
        for order in permutations(range(3)):
            GENERATION.advance()
            for at in (None, None, None, *starts_of_third):
                places = dict(sorted(zip(order, apart if at is None else (20, 22, at))))
                memory = torch.linspace(1, 2, SPACE)
                wanted = memory.clone()
                GENERATION.hold(1)
                try:
                    expected = call(wanted, order[0], places)
                finally:
                    GENERATION.hold(-1)
                assert call(memory, order[0], places) == expected, places
                assert_same_bits(memory, wanted, f"{order[0]} is long, operands at {places}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_overlaps__of_steps(dtype: torch.dtype) -> None:
    """A parameter and its gradient, or a parameter and its momentum."""
    apart = torch.ones(SPACE, dtype=dtype)
    for name, view in LAYOUTS.items():
        gradient = view(apart, 0)
        steps: dict[str, Callable[[Tensor, Tensor], Any]] = {
            "sgd": lambda t, s: ops.sgd_step([t], [s], lr=0.1),
            "sgd of momentum": lambda t, s, g=gradient: ops.sgd_step([t], [g], [s], lr=0.1, momentum=0.9),
        }
        for step, call in steps.items():
            GENERATION.advance()
            compared(call, view, dtype, f"{step} of {name}")
