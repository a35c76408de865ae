"""Every op with other sizes and layouts than its golden cases have: the reference's bits."""

from __future__ import annotations

import pytest

import repdl
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing.resized import resized_calls

OF_CUDA = {
    name: [op for op in implementations(get_backend(name)) if op in OPS]
    for name, row in repdl.backends().items()
    if name.startswith("cuda") and not row.error
}
"""Backend -> its ops."""
pytestmark = pytest.mark.usefixtures("one_stream")


def check(backend: str, ops: list[str], seeds: range) -> int:
    found = 0
    for op in ops:
        for call in resized_calls(op, seeds):
            found += 1
            call.check(backend)
    return found


@pytest.mark.parametrize("first", range(8))
@pytest.mark.parametrize("backend", OF_CUDA)
def test_resized(backend: str, first: int) -> None:
    ops = OF_CUDA[backend][first::8]
    assert check(backend, ops, range(2)) > len(ops)


@pytest.mark.nightly
@pytest.mark.parametrize(("backend", "op"), [(backend, op) for backend, ops in OF_CUDA.items() for op in ops])
def test_resized__many(backend: str, op: str) -> None:
    assert check(backend, [op], range(100, 200))
