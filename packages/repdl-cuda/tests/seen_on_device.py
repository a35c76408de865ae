"""Recorded calls of the emulated kernels, whose call cache sees tensors on a GPU. Run by test_replay.py.

Everything lies in the memory of the host. What C asks torch's DLPack exchange API, it is told of CUDA device 0 and of
the streams in STREAM, but for the tensors in HOST.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import torch

HOST: set[int] = set()  # ids of tensors
STREAM = [0x100]
CUDA = 2  # DLPack's number


class Tensor(ctypes.Structure):
    """DLTensor, up to its device."""

    _fields_ = (("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


READ = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Tensor))
ASK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("others", ctypes.c_void_p * 4),
        ("tensor_from_object", READ),
        ("current_stream", ASK),
    )


def exchange() -> Any:
    """torch's, with other answers, as a capsule."""
    name = b"dlpack_exchange_api"
    pointer_of, capsule = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    given: Any = torch.Tensor.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    address = pointer_of(given, name)
    torchs = ctypes.cast(address, ctypes.POINTER(Exchange)).contents
    ours = Exchange.from_buffer_copy(torchs)

    def read(tensor: int, found: Any) -> int:
        result: int = torchs.tensor_from_object(tensor, found)
        if tensor not in HOST:
            found.contents.device_type, found.contents.device_id = CUDA, 0
        return result

    def ask(device_type: int, device_id: int, stream: Any) -> int:
        assert (device_type, device_id) == (CUDA, 0)
        stream[0] = STREAM[0]
        return 0

    ours.tensor_from_object, ours.current_stream = READ(read), ASK(ask)
    KEPT.append(ours)
    return capsule(ctypes.addressof(ours), name, None)


KEPT: list[Exchange] = []
torch.Tensor.__dlpack_c_exchange_api__ = exchange()  # type: ignore[attr-defined]

import repdl  # noqa: E402  (its C reads the exchange API when it is loaded)
import repdl.registry.native  # noqa: E402
import repdl_cuda.native  # noqa: E402
from repdl import callcache, registry  # noqa: E402
from repdl.callcache import spans  # noqa: E402
from repdl.testing import uniform  # noqa: E402
from repdl.testing.compare import assert_same_bits  # noqa: E402

repdl.set_backend("cuda-emulated")
spans.is_on_host = lambda tensor: id(tensor) in HOST
TAKE_STREAMS: Callable[[], list[int]] = repdl_cuda.native.load("_emulated").take_streams
X, Y = uniform(1, 6, 5), uniform(2, 5, 4)


def replayed(function: Any) -> tuple[Any, list[int]]:
    """Cached, and a list that grows by each call of the function itself."""
    calls: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return function(*args, **kwargs)

    return callcache.cache_calls(counted), calls


def stream_of_each_call() -> None:
    for function, args in ((registry.functions.exp, (X,)), (repdl.ops.mm, (X, Y))):
        call, calls = replayed(function)
        expected = function(*args)
        for stream in (0x100, 0x100, 0x200, 0x300, 0x200):
            STREAM[0] = stream
            TAKE_STREAMS()
            assert_same_bits(call(*args), expected, "replayed")
            if len(calls) == 2 and stream != 0x100:  # what Python calls asks the emulation itself, which has no streams
                assert {*TAKE_STREAMS()} == {stream}
        assert (call.recordings, len(calls)) == (1, 2)


def tensor_of_the_host_comes_first() -> None:
    position, index = torch.tensor([1, 2, 3]), torch.arange(6) % 3
    HOST.add(id(position))
    beside: list[int] = []
    before = repdl.registry.native.workspace

    def workspace(like: torch.Tensor, size: int) -> torch.Tensor:
        beside.append(id(like))
        return before(like, size)

    repdl.registry.native.workspace = workspace
    contract = "v1"
    call, _ = replayed(lambda position, x, index: registry.functions.index_sum(x, index, 3, contract))
    # The host's tensor is no argument of the kernel, so that Python takes all for tensors of one device.
    expected = registry.functions.index_sum(X, index, 3, contract)
    for stream in (0x100, 0x200, 0x300):
        STREAM[0] = stream
        beside.clear()
        TAKE_STREAMS()
        assert_same_bits(call(position, X, index), expected, "index_sum")
    assert call.recordings == 1
    assert {*TAKE_STREAMS()} == {0x300}
    assert beside
    assert set(beside) == {id(X)}
    repdl.registry.native.workspace = before


def constants_belong_to_a_stream() -> None:
    call, calls = replayed(lambda x: repdl.ops.add.__wrapped__(x, 0.5))  # type: ignore[attr-defined]
    STREAM[0] = 0x100
    for _ in range(3):
        expected = call(X)
    assert (call.recordings, len(calls)) == (1, 2)
    STREAM[0] = 0x200
    for _ in range(3):
        assert_same_bits(call(X), expected, "add")
    assert len(calls) == 5
    STREAM[0] = 0x100
    TAKE_STREAMS()
    assert_same_bits(call(X), expected, "add")
    assert len(calls) == 5
    assert {*TAKE_STREAMS()} == {0x100}


def running_statistics() -> None:
    statistics, again = ([torch.zeros(3), torch.ones(3)] for _ in range(2))
    call, calls = replayed(lambda x, mean, var: repdl.ops.batch_norm.__wrapped__(x, mean, var, training=True))  # type: ignore[attr-defined]
    for n in range(5):
        x = uniform(n, 2, 3, 4, 4)
        output = call(x, *statistics)
        expected = repdl.ops.batch_norm.__wrapped__(x, *again, training=True)  # type: ignore[attr-defined]
        for a, b in zip((output, *statistics), (expected, *again)):
            assert_same_bits(a, b, "batch_norm")
            assert a._version == b._version
    assert (call.recordings, len(calls)) == (1, 2)


def gradients() -> None:
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    for n in range(6):
        STREAM[0] = 0x100 + n
        products = repdl.ops.mm(x, y)
        for output, slope in (
            (repdl.ops.exp(products), repdl.ops.exp.__wrapped__(products.detach())),  # type: ignore[attr-defined]
            (repdl.ops.mul(products, 0.5), torch.full((6, 4), 0.5)),
        ):
            found = torch.autograd.grad(output, (x, y), torch.ones(6, 4), retain_graph=True)
            of_x, of_y = repdl.ops.mm.__wrapped__(slope, Y.t()), repdl.ops.mm.__wrapped__(X.t(), slope)  # type: ignore[attr-defined]
            assert_same_bits(found, (of_x, of_y), "gradients")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
