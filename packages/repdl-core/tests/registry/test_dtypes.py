"""Tensors in a dtype that an op does not take for them."""

from __future__ import annotations

import torch

from repdl.errors import DTypeError
from repdl.registry import OPS
from repdl.testing import cases


def masks(op: str) -> tuple[str, ...]:
    storage = OPS[op].storage
    return () if storage is None else storage.dtypes.bools


def test_dtypes__masks_are_of_bools() -> None:
    """Each argument that is a mask, in the first case that gives it, as numbers."""
    wanted = {(op, name) for op in OPS for name in masks(op)}
    found = set()
    for case in cases():
        names = [argument.name for argument in OPS[case.op].overload._schema.arguments]
        for name in masks(case.op):
            args = list(case.args())
            i = names.index(name)
            if case.derived or args[i] is None or (case.op, name) in found:
                continue
            for dtype in (torch.uint8, torch.float32):
                args[i] = args[i].to(dtype)
                try:
                    OPS[case.op].overload(*args)
                except DTypeError as error:
                    assert f"{name}.dtype is" in str(error), f"{case}: {error}"
                else:
                    raise AssertionError(f"{case}: {name} as {dtype} raised nothing")
            found.add((case.op, name))
    assert wanted - found <= {("attention_backward_bias", "mask")}, wanted - found  # which has a bias
