"""What every step of an optimizer does: layouts that change no bits, and errors that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch

from repdl import ops
from repdl.errors import UnsupportedError
from repdl.registry import OPS
from repdl.registry.declaration import DECLARATIONS
from repdl.testing import assert_same_bits, uniform
from repdl.testing.oracle import assert_rejected

STEPS = [op for op, declaration in DECLARATIONS.items() if declaration.cases.maker == "step"]
Lists = dict[str, list[torch.Tensor]]
by_op = pytest.mark.parametrize("op", STEPS)


def most(op: str) -> dict[str, Any]:
    """Options with which a step has all of its lists."""
    cases = DECLARATIONS[op].cases.values
    last = {p: values[-1] for p, values in cases.get("switches", {}).items()}
    return {**cases["options"], **last, **cases.get("most", {})}


def lists(op: str, *shapes: tuple[int, ...]) -> Lists:
    """Lists of two tensors, of no negative numbers."""
    names = [a.name for a in OPS[op].overload._schema.arguments if a.name not in most(op)]
    first, second = shapes or ((3,), (2, 2))
    return {n: [uniform(2 * i, *first).abs(), uniform(2 * i + 1, *second).abs()] for i, n in enumerate(names)}


def written(op: str) -> list[str]:
    return [a.name for a in OPS[op].overload._schema.arguments if a.alias_info is not None and a.alias_info.is_write]


def call(op: str, args: Lists, **options: Any) -> None:
    getattr(ops, op)(**args, **{**most(op), **options})


LAYOUTS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda t: t.t().contiguous().t(),
    lambda t: torch.stack([t, t], -1)[..., 0],
    lambda t: torch.cat([t, t])[t.shape[0] :],
)


def test_steps__are_all_there() -> None:
    assert {op.name for op in OPS.values() if op.mutates and op.takes_lists and op.distribution == "repdl-core"} == set(
        STEPS
    )


@by_op
def test_steps__layout_does_not_change_the_bits(op: str) -> None:
    expected = lists(op, (4, 6), (2, 2))
    call(op, expected)
    for kinds in product(LAYOUTS, repeat=3):
        actual = {n: [kinds[i % 3](t) for t in ts] for i, (n, ts) in enumerate(lists(op, (4, 6), (2, 2)).items())}
        call(op, actual)
        for name in actual:
            assert_same_bits(actual[name], expected[name], name)
    row, dense = lists(op, (4, 6), (4, 6)), lists(op, (4, 6), (4, 6))
    row["grads"] = [t[:1].expand(4, 6) for t in row["grads"]]
    dense["grads"] = [t.contiguous() for t in row["grads"]]
    call(op, row)
    call(op, dense)
    for name in dense:
        assert_same_bits(row[name], dense[name], name)


@by_op
def test_steps__parameters_that_require_grad_and_no_parameters(op: str) -> None:
    args, expected = lists(op), lists(op)
    args["params"] = [torch.nn.Parameter(t) for t in args["params"]]
    versions = [t._version for t in args["params"]]
    with torch.no_grad():
        call(op, args)
    call(op, expected)
    assert_same_bits([t.detach() for t in args["params"]], expected["params"])
    assert all(t.requires_grad and t._version > v for t, v in zip(args["params"], versions))
    call(op, {name: [] for name in args})


CHANGES: tuple[tuple[Callable[[torch.Tensor], torch.Tensor], type[Exception], str], ...] = (
    (lambda t: uniform(1, 4), ValueError, "shape"),
    (lambda t: t.double(), TypeError, "float64"),
    (lambda t: t.half(), TypeError, "float16"),
    (lambda t: t.to("meta"), ValueError, "meta"),
    (lambda t: t.to_sparse(), UnsupportedError, "layout"),
    (lambda t: t[:1], ValueError, "shape"),
)


@by_op
def test_steps__reject_and_change_nothing(op: str) -> None:
    def refused(args: Lists, kind: type[Exception], words: str, **options: Any) -> None:
        kept = [t for ts in args.values() for t in ts if t.layout is torch.strided and t.device.type == "cpu"]
        assert_rejected(lambda: call(op, args, **options), kind, f"{op}: ", words, tensors=kept)

    for which, (function, kind, words) in product(lists(op), CHANGES):
        args = lists(op)
        args[which][1] = function(args[which][1])
        refused(args, kind, words)
        call(op, lists(op))
    for which, whole in lists(op).items():
        for other in (whole[:1], [*whole, whole[0].clone()], []):
            refused({**lists(op), which: other}, ValueError, "len")
    for which in written(op):
        args = lists(op)
        args[which][0] = args[which][0][:1].expand(3)
        refused(args, UnsupportedError, which)
        for other in (name for name in lists(op) if name != which):
            args = lists(op)
            args[which][0] = args[other][0]
            refused(args, ValueError, "share")
        args = lists(op, (3,), (3,))
        args[which][1] = args[which][0]
        refused(args, ValueError, "share")
    args, long = lists(op), uniform(4, 4)
    args["params"][0], args["grads"][0] = long[:3], long[1:]
    refused(args, ValueError, "share")


@pytest.mark.parametrize("op", [op for op in STEPS if DECLARATIONS[op].cases.values["absent"]])
def test_steps__reject_a_list_without_its_option(op: str) -> None:
    absent, options = DECLARATIONS[op].cases.values["absent"], most(op)
    for which, leaves_out in absent.items():
        off = [p for p, value in options.items() if leaves_out({**options, p: type(value)()})]
        assert off, f"{which} is always there"
        for option in off:
            args = lists(op)
            kept = [t for tensors in args.values() for t in tensors]
            without = {option: type(options[option])()}
            assert_rejected(lambda: call(op, args, **without), ValueError, f"{op}: len({which})", tensors=kept)
