"""What only a GPU can show: streams, graphs, devices, memory, sizes that no emulation gets through."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import repdl
from repdl.errors import DeviceError, UnsupportedError
from repdl.testing import assert_same_bits, bits, uniform

_row = repdl.backends().get("cuda")
pytestmark = pytest.mark.skipif(
    _row is None or _row.error is not None, reason=f"needs a GPU: {_row.error if _row else 'no repdl-cuda'}"
)
SLEEP = 200_000_000
"""Cycles of the GPU, a tenth of a second: what waits for it is behind it in the queue."""
MANY = 2**31 + 64
"""More elements than an int counts."""
X, Y, TARGET = uniform(1, 40, 30), uniform(2, 30, 50), torch.arange(40) % 30


def needs_memory(gib: int) -> None:
    free, _ = torch.cuda.mem_get_info()
    if free < gib << 30:
        pytest.skip(f"needs {gib} GiB of memory on the GPU, {free >> 30} are free")


@pytest.fixture(autouse=True)
def memory_given_back() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    repdl.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def model() -> torch.nn.Module:
    """A small network with a convolution, a norm and pooling, the same each time."""
    nn = torch.nn
    made = repdl.from_torch_module(
        nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(8 * 6 * 6, 10)),
        )
    )
    for number, parameter in enumerate(made.parameters()):
        parameter.data = uniform(number, *parameter.shape) / 4
    return made


IMAGES, LABELS = uniform(9, 32, 1, 12, 12), torch.arange(32) % 10


# ---- streams, graphs, threads, devices


CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mm": lambda x, y, t: repdl.ops.mm(x, y),
    "sum": lambda x, y, t: repdl.ops.sum(x, 0),
    "exp": lambda x, y, t: repdl.ops.exp(x),
    "softmax": lambda x, y, t: repdl.ops.softmax(x, 1),
    "cross_entropy": lambda x, y, t: repdl.ops.cross_entropy(x, t),
    "embedding": lambda x, y, t: repdl.ops.embedding(t, x),
    "sort": lambda x, y, t: repdl.ops.sort(x, 1)[0],
    "avg_pool2d": lambda x, y, t: repdl.ops.avg_pool2d(x[None], 2),
    "interpolate": lambda x, y, t: repdl.ops.interpolate(x[None, None], scale_factor=2.0, mode="bilinear"),
    "embedding_bag": lambda x, y, t: repdl.ops.embedding_bag(t.view(8, 5), x, mode="max"),
}


@pytest.mark.parametrize("name", CALLS)
def test_gpu__stream_of_the_caller(name: str) -> None:
    """What a kernel reads is written late, on the stream that is current: on another one it would be too early."""
    expected = CALLS[name](X, Y, TARGET)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x, y, target = (torch.zeros_like(t, device="cuda") for t in (X, Y, TARGET))
        held = [t.pin_memory() for t in (X, Y, TARGET)]
        CALLS[name](x, y, target)
        torch.cuda._sleep(SLEEP)
        for to, value in zip((x, y, target), held):
            to.copy_(value, non_blocking=True)
        found = CALLS[name](x, y, target)
    stream.synchronize()
    assert_same_bits(found.cpu(), expected, name)


@pytest.mark.parametrize("name", CALLS)
def test_gpu__no_call_waits(name: str) -> None:
    """Calls of torch that wait raise; the queue still runs when ours are back."""
    given = [t.cuda() for t in (X, Y, TARGET)]
    for _ in range(4):  # recorded and replayed
        CALLS[name](*given)
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP)
    torch.cuda.set_sync_debug_mode("error")
    try:
        CALLS[name](*given)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not torch.cuda.current_stream().query()


@pytest.mark.parametrize("name", CALLS)
def test_gpu__replays_on_two_streams(name: str) -> None:
    """One recording, whose calls are in the queues of two streams at once: each reads what its own stream writes late,
    and its result and scratch memory are no other call's."""
    inputs = [(X, Y, TARGET), (X.flip(0), Y.flip(0), TARGET.flip(0))]
    expected = [CALLS[name](*each) for each in inputs]
    held = [[t.pin_memory() for t in each] for each in inputs]
    given = [[t.cuda() for t in (X, Y, TARGET)] for _ in inputs]
    for _ in range(4):  # recorded and replayed
        CALLS[name](*given[0])
    for each in given:
        for t in each:
            t.zero_()
    torch.cuda.synchronize()
    streams, found = [torch.cuda.Stream() for _ in inputs], []
    for stream, tensors, values in zip(streams, given, held):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SLEEP)
            for to, value in zip(tensors, values):
                to.copy_(value, non_blocking=True)
            found.append([CALLS[name](*tensors) for _ in range(3)])
    torch.cuda.synchronize()
    for results, wanted in zip(found, expected):
        for result in results:
            assert_same_bits(result.cpu(), wanted, name)


RECORDED = [name for name in CALLS if name not in ("avg_pool2d", "interpolate")]
"""Those of CALLS that copy no table from the host, which a capture refuses."""


@pytest.mark.parametrize("name", RECORDED)
def test_gpu__recorded_during_a_capture(name: str) -> None:
    """The second call of a signature, which is recorded, and its first replay are captured: the graph's replays read
    what is there then, and calls after the capture are right, though its memory is the graph's."""
    own = (uniform(3, 41, 30), uniform(4, 30, 51), torch.arange(40) % 41)  # sizes of no other test
    if name == "cross_entropy":
        own = (own[0], own[1], torch.arange(41) % 30)
    if name == "embedding_bag":
        own = (own[0], own[1], torch.arange(40) % 40)
    others = tuple(t.flip(0) for t in own)
    expected = [CALLS[name](*each) for each in (own, others)]
    given = [t.cuda() for t in own]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        CALLS[name](*given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = [CALLS[name](*given) for _ in range(2)]
    for values, wanted in zip((own, others), expected):
        for to, value in zip(given, values):
            to.copy_(value)
        graph.replay()
        torch.cuda.synchronize()
        for result in captured:
            assert_same_bits(result.cpu(), wanted, name)
    del graph, captured
    torch.cuda.empty_cache()
    for _ in range(3):
        assert_same_bits(CALLS[name](*given).cpu(), expected[1], name)


def test_gpu__generators() -> None:
    """Under `enable()` a generator on a GPU has the numbers of its seed, and goes on; the default one is the CPU's."""
    expected = repdl.random.randn(9, generator=repdl.random.Generator(3))
    with repdl.enabled():
        own = torch.Generator("cuda").manual_seed(3)
        first, state = torch.randn(2, device="cuda", generator=own), own.get_state()
        rest = [torch.randn(n, device="cuda", generator=own) for n in (3, 4)]
        own.set_state(state)
        again = torch.empty(7, device="cuda").normal_(generator=own)
        torch.manual_seed(3)
        default = torch.randn(9, device="cuda")
    assert_same_bits(torch.cat([first, *rest]).cpu(), expected)
    assert_same_bits(torch.cat([first, again]).cpu(), expected)
    assert_same_bits(default.cpu(), expected)


def test_gpu__a_draw_in_a_capture_raises() -> None:
    x, graph = X.cuda(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), pytest.raises(UnsupportedError, match="a draw while a CUDA graph is captured"):
        repdl.ops.dropout(x)
    assert_same_bits(repdl.ops.relu(x).cpu(), repdl.ops.relu(X))


def test_gpu__graph_of_a_training_step() -> None:
    """Replays of a captured step are steps: forward, backward and update."""
    eager, captured = model().cuda(), model().cuda()
    make: Callable[[Any], torch.optim.Optimizer] = lambda m: repdl.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    optimizers = [make(eager), make(captured)]
    x, y = IMAGES.cuda(), LABELS.cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(captured, optimizers[1], x, y)
    torch.cuda.current_stream().wait_stream(side)
    optimizers[1].zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(captured, optimizers[1], x, y)
    for _ in range(5):
        graph.replay()
    for _ in range(8):
        step(eager, optimizers[0], x, y)
    for a, b in zip(captured.state_dict().values(), eager.state_dict().values()):
        if a.is_floating_point():
            assert_same_bits(a.cpu(), b.cpu())


def test_gpu__backward_in_autograds_thread() -> None:
    """On another stream than the default one, and with the gradients that the reference has."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x, y = (t.cuda().requires_grad_() for t in (X, Y))
        torch.cuda._sleep(SLEEP)
        repdl.ops.sum(repdl.ops.softmax(repdl.ops.mm(x, y), 1) * 3).backward()
    stream.synchronize()
    with repdl.use_backend("reference"):
        a, b = (t.clone().requires_grad_() for t in (X, Y))
        repdl.ops.sum(repdl.ops.softmax(repdl.ops.mm(a, b), 1) * 3).backward()
    for mine, other in ((x, a), (y, b)):
        assert mine.grad is not None and other.grad is not None
        assert_same_bits(mine.grad.cpu(), other.grad)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs a second GPU")
def test_gpu__second_device() -> None:
    """Kernels run where their tensors are, whichever device is current; it stays so."""
    for name, call in CALLS.items():
        found = call(*(t.to("cuda:1") for t in (X, Y, TARGET)))
        assert found.device.index == 1 and torch.cuda.current_device() == 0
        assert_same_bits(found.cpu(), call(X, Y, TARGET), name)


def test_gpu__pinned_inputs() -> None:
    """Copies that the host does not wait for; a pinned tensor itself is one of the CPU."""
    x = X.pin_memory()
    assert_same_bits(repdl.ops.sum(x.to("cuda", non_blocking=True), 0).cpu(), repdl.ops.sum(X, 0))
    with pytest.raises(DeviceError, match="tensors on cpu and cuda:0, expected one device"):
        repdl.ops.mm(x, Y.cuda())


# ---- errors


BAD_INDEX = """
import torch, repdl
x, bad = torch.zeros(4, 5, device="cuda"), torch.tensor([0, 1, 5, 2], device="cuda")
{call}
print("called", flush=True)
torch.cuda.synchronize()
"""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("repdl.ops.cross_entropy(x, bad)", "a target is neither a class nor ignore_index"),
        ("repdl.ops.nll_loss(x, bad)", "a target is neither a class nor ignore_index"),
        ("repdl.ops.embedding(bad, x)", "an index is of no row"),
        ("repdl.ops.index_select(x, 1, bad)", "an index is of no row"),
        ("repdl.ops.binary_cross_entropy(x - 1, x)", "is no probability"),
    ],
)
def test_gpu__bad_value_raises_when_the_host_waits(call: str, says: str) -> None:
    """In a process of its own: no device works after an assertion. A later launch may find out, too."""
    child = subprocess.run(
        [sys.executable, "-c", BAD_INDEX.format(call=call)], capture_output=True, text=True, check=False
    )
    assert child.returncode == 1 and child.stdout in ("called\n", ""), child.stdout + child.stderr
    assert says in child.stderr and "device-side assert" in child.stderr


def test_gpu__out_of_memory() -> None:
    """torch's error, for an output and for workspace; the next call works."""
    x, y = X.cuda(), Y.cuda()
    free, total = torch.cuda.mem_get_info()
    tall = torch.zeros(1 << 20, 64, device="cuda")
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + (64 << 20)) / total)
    try:
        with pytest.raises(torch.cuda.OutOfMemoryError):
            repdl.ops.neg(tall)
        with pytest.raises(torch.cuda.OutOfMemoryError):
            index = torch.zeros(1 << 20, dtype=torch.int64, device="cuda")
            repdl.registry.functions.index_sum(tall, index, 1 << 19, "v1")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert free and bits(tall).count_nonzero() == 0
    assert_same_bits(repdl.ops.mm(x, y).cpu(), repdl.ops.mm(X, Y))


# ---- sizes


def random(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="cuda") - 0.5


def on_reference(call: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
    with repdl.use_backend("reference"):
        return call(*(t.cpu() for t in tensors))


@pytest.mark.parametrize(
    ("m", "k", "n"), [(8192, 8192, 8192), (4096, 4096, 64), (64, 802_816, 10), (10, 78_400, 64), (1, 16384, 50_000)]
)
def test_gpu__large_products(m: int, k: int, n: int) -> None:
    """Rows and columns of the output, among them the first and the last."""
    a, b = random(m, k), random(k, n)
    found = repdl.ops.mm(a, b)
    rows, columns = (sorted({0, size // 3, size // 2, size - 1}) for size in (m, n))
    expected = on_reference(repdl.ops.mm, a[rows], b[:, columns])
    assert_same_bits(found[rows][:, columns].cpu(), expected, f"{m} x {k} x {n}")


def test_gpu__large_convolution() -> None:
    """Images of a batch, and its weight gradient, whose k is the whole batch."""
    x, w = random(64, 16, 56, 56), random(32, 16, 3, 3).requires_grad_()
    y = repdl.ops.conv2d(x, w, padding=1)
    few = [0, 31, 63]
    expected = on_reference(lambda a, b: repdl.ops.conv2d(a, b, padding=1), x[few], w.detach())
    assert_same_bits(y.detach()[few].cpu(), expected)
    grad = random(*y.shape)
    y.backward(grad)
    own = w.detach()[:2, :2].cpu().requires_grad_()
    with repdl.use_backend("reference"):
        repdl.ops.conv2d(x[:, :2].cpu(), own, padding=1).backward(grad[:, :2].cpu())
    assert w.grad is not None and own.grad is not None
    assert_same_bits(w.grad[:2, :2].cpu(), own.grad)


@pytest.mark.parametrize("dim", [0, 1])
def test_gpu__large_sums(dim: int) -> None:
    x = random(20_000, 10_000)
    few = [0, 4_999, 9_999]
    part = x[:, few] if dim == 0 else x[few]
    assert_same_bits(repdl.ops.sum(x, dim)[few].cpu(), on_reference(lambda t: repdl.ops.sum(t, dim), part.contiguous()))


def test_gpu__elements_beyond_an_int() -> None:
    needs_memory(40)
    x = (torch.arange(MANY, device="cuda") % 1021).float()
    y = repdl.ops.neg(x)
    assert torch.equal(y[-100:].cpu(), -x[-100:].cpu()) and torch.equal(y[:100].cpu(), -x[:100].cpu())
    assert bool((x + y == 0).all())
    del y
    squares = repdl.ops.mul(x, x)
    assert bool((squares == x * x).all())


def test_gpu__sum_beyond_an_int() -> None:
    """Whole numbers whose partial sums are exact, but the last: 2**31 + 64 is 2**31 in float32."""
    needs_memory(20)
    ones = torch.ones(MANY, device="cuda")
    assert repdl.ops.sum(ones).item() == 2.0**31
    columns = ones.view(-1, 64)
    found = repdl.ops.sum(columns, 0).cpu()
    assert_same_bits(found, torch.full((64,), 33554433.0))
    assert bool((repdl.ops.sum(columns, 1) == 64).all())


def test_gpu__product_beyond_an_int() -> None:
    needs_memory(20)
    side = 46_352
    assert side * side > MANY
    a, b = random(side, 5), random(5, side)
    found = repdl.ops.mm(a, b)
    few = [0, 1, 20_000, side - 2, side - 1]
    assert_same_bits(found[few][:, few].cpu(), on_reference(repdl.ops.mm, a[few], b[:, few]))


def test_gpu__rows_beyond_an_int() -> None:
    """Softmax, and rows that are looked up, of outputs with more elements than an int counts."""
    needs_memory(40)
    x = random(1 << 16, 32_769)
    few = [0, 12_345, (1 << 16) - 1]
    found = repdl.ops.softmax(x, 1)[few].cpu()
    assert_same_bits(found, on_reference(lambda t: repdl.ops.softmax(t, 1), x[few]))
    index = torch.arange((1 << 16) - 1, -1, -1, device="cuda")
    assert torch.equal(repdl.ops.embedding(index, x)[few], x.flip(0)[few])
