"""Every op with other sizes and layouts than its golden cases have: the reference's bits."""

from __future__ import annotations

import pytest

import repdl
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing.resized import resized_calls

OF_CUDA = [
    (name, op)
    for name, row in repdl.backends().items()
    if name.startswith("cuda") and not row.error
    for op in implementations(get_backend(name))
    if op in OPS
]
pytestmark = pytest.mark.usefixtures("one_stream")


@pytest.mark.parametrize(("backend", "op"), OF_CUDA)
def test_resized(backend: str, op: str) -> None:
    for call in resized_calls(op, range(2)):
        call.check(backend)


@pytest.mark.nightly
@pytest.mark.parametrize(("backend", "op"), OF_CUDA)
def test_resized__many(backend: str, op: str) -> None:
    for call in resized_calls(op, range(100, 200)):
        call.check(backend)
