"""The call cache of this backend: by the emulated kernels, and as C sees it where tensors are on a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import repdl
from repdl import registry
from repdl.callcache import Trace, c_extension
from repdl.testing import uniform
from repdl.testing.call_cache import is_cached
from repdl.testing.compare import assert_same_bits

EMULATED = "cuda-emulated" in repdl.backends() and not repdl.backends()["cuda-emulated"].error
pytestmark = [
    pytest.mark.skipif(c_extension() is None, reason="torch < 2.10 has no DLPack exchange API"),
    pytest.mark.skipif(not EMULATED, reason="built without the emulated kernels"),
]
X, Y, TARGET = uniform(1, 6, 5), uniform(2, 5, 4), torch.arange(6) % 5
CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "add": (repdl.ops.add, (X, 0.5)),
    "conv2d": (repdl.ops.conv2d, (uniform(3, 1, 2, 5, 5), uniform(4, 3, 2, 3, 3))),
    "cross_entropy": (repdl.ops.cross_entropy, (X, TARGET)),
    "exp": (repdl.ops.exp, (X,)),
    "index_sum": (registry.functions.index_sum, (X, TARGET, 5, "v1")),  # with workspace
    "layer_norm": (repdl.ops.layer_norm, (X, (5,))),
    "linear": (repdl.ops.linear, (X, Y.t(), uniform(5, 4))),
    "mm": (repdl.ops.mm, (X, Y)),
    "softmax": (repdl.ops.softmax, (X, 1)),
    "sum": (repdl.ops.sum, (X,)),
}


@pytest.fixture
def emulated() -> Iterator[None]:
    """For all calls, where a `use_backend` block would have none of them replayed."""
    repdl.set_backend("cuda-emulated")
    yield
    repdl.set_backend(None)


@pytest.mark.parametrize("name", CALLS)
def test_replay__takes_no_python(emulated: None, name: str) -> None:
    function, args = CALLS[name]
    expected = function.__wrapped__(*args)
    assert is_cached(function, *args)
    called: list[str] = []

    def trace(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname") else frame.f_code.co_name)

    sys.setprofile(trace)
    try:
        found = function(*args)
    finally:
        sys.setprofile(None)
    assert not called
    assert_same_bits(found, expected, name)


def test_replay__errors_are_the_functions(emulated: None) -> None:
    assert is_cached(repdl.ops.mm, X, Y)
    for _ in range(3):
        with pytest.raises(repdl.RepDLError, match="matmul: mat2"):
            repdl.ops.mm(X, X)
        with pytest.raises(repdl.RepDLError, match="exp: "):
            repdl.ops.exp(TARGET.to(torch.complex64))


def test_replay__in_place(emulated: None) -> None:
    with repdl.enabled():
        for _ in range(5):
            given = X.clone()
            given.mul_(Y.sum()).add_(X)
            assert_same_bits(given, repdl.ops.add(repdl.ops.mul(X, Y.sum()), X), "in place")


@pytest.mark.parametrize(
    "name",
    [
        "stream_of_each_call",
        "tensor_of_the_host_comes_first",
        "constants_belong_to_a_stream",
        "running_statistics",
        "gradients",
    ],
)
def test_replay__seen_on_device(name: str) -> None:
    program = Path(__file__).with_name("seen_on_device.py")
    done = subprocess.run([sys.executable, program, name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_replay__constants_of_a_graph_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    constant: Any = SimpleNamespace(is_cuda=True)
    for captures in (False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", [captures].__iter__().__next__)
        trace = Trace()
        trace.add_constant(constant, 0.5)
        assert trace.is_cacheable == (not captures)
