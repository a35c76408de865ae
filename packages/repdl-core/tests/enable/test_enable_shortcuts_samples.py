"""`repdl.enable`: methods that are replayed before torch sees them, on the samples and values of torch's own tests."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from enabling import same
from torch.utils._pytree import tree_map

import repdl
from repdl.callcache import c_extension
from repdl.overrides import shortcuts
from repdl.testing import opinfo

pytest.importorskip("expecttest", reason="torch's database of ops needs it")
pytestmark = pytest.mark.skipif(c_extension() is None, reason="no backend brings the call cache")

METHODS = {name: op for op, names in shortcuts._METHODS.items() for name in names.split()}
TURNS = (1, torch.no_grad), (0.5, torch.no_grad), (-0.75, torch.no_grad), (1.5, torch.inference_mode)
"""A factor of the values and a mode: calls are recorded in the second turn."""
DTYPES = torch.float32, torch.bfloat16, torch.int64
MOST = 12
"""Samples of an op and a dtype."""


def found(name: str) -> Any:
    return inspect.getattr_static(torch.Tensor, name)


def with_values(sample: Any, factor: float) -> Any:
    """The same tensors, with memory and values of their own."""

    def vary(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        spread = value.numel() > 1 and 0 in value.stride()
        own = value.clone() if spread else torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        own.copy_(value)
        return torch.Tensor.mul_(own, factor) if own.is_floating_point() else own

    return tree_map(vary, sample)


def outcome(call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)


def agree(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        signs = a.dtype is torch.bool or torch.equal(torch.signbit(a), torch.signbit(b))
        return signs and same(a, b) and a.stride() == b.stride()
    return bool(a is b or (type(a) is type(b) and a == b))


def test_shortcuts__samples_of_torch() -> None:
    compared, recorded = 0, set()
    infos = [info for every in opinfo.database().values() for info in every]
    with repdl.enabled():
        for name, op in METHODS.items():
            for info in infos:
                for dtype in DTYPES:
                    if info.name not in (op, name) or dtype not in info.supported_dtypes("cpu"):
                        continue
                    for sample in islice(info.sample_inputs("cpu", dtype, requires_grad=False), MOST):
                        for factor, mode in TURNS:
                            with mode():
                                made = [with_values((sample.input, *sample.args), factor) for _ in range(2)]
                                result = outcome(found(name), made[0], sample.kwargs)
                                expected = outcome(getattr(torch.Tensor, name), made[1], sample.kwargs)
                                assert agree(result, expected), (name, sample, factor)
                                assert all(map(agree, *made)), (name, sample, factor)
                                compared += 1
            if found(name).recordings:
                recorded.add(name)
    assert compared > 2000
    assert METHODS.keys() - recorded <= {"clamp", "clamp_", "relu", "relu_"}  # not among the samples, or two tensors
