"""Products larger than every block of a kernel: sampled outputs against the reference.

An output depends on its own row and column alone, so the reference computes a few of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch

import repdl
from repdl.testing import assert_same_bits
from repdl.testing.exact_arguments import MARGIN
from repdl.testing.inputs import uniform
from repdl_cpu import use_isa

ODD = "dot_chunk=100,sum_lanes=64,sum_block=1024"


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = repdl.get_num_threads()
    yield
    repdl.set_num_threads(before)


def sample(n: int) -> list[int]:
    """The ends, and some in between that no tile size divides."""
    return sorted({0, n - 1, *range(n // 7, n, max(1, n // 5))})


@pytest.mark.parametrize("contract", ["v1", pytest.param("sequential", marks=pytest.mark.nightly), ODD])
@pytest.mark.parametrize(("m", "k", "n"), [(500, 3000, 1100), (1300, 1030, 70), (5, 5000, 700), (2, 9000, 333)])
def test_matmul__large(m: int, k: int, n: int, contract: str) -> None:
    a, b = uniform(1, m, k), uniform(2, n, k)
    rows, columns = sample(m), sample(n)
    with repdl.use_backend("reference"):
        expected = repdl.ops.mm(a[rows], b[columns], transB=True, contract=contract)
    for isa, threads in product(repdl.backends()["cpu"].details["supported"].split(), (1, 3)):
        repdl.set_num_threads(threads)
        with use_isa(isa):
            for result in (
                repdl.ops.mm(a, b, transB=True, contract=contract),
                repdl.ops.mm(a.t().contiguous(), b.t().contiguous(), transA=True, contract=contract),
            ):
                assert_same_bits(result[rows][:, columns], expected, f"{isa}, {threads} threads")


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((5, 40, 23, 21), (33, 40, 3, 3), 1, 1),
        ((9, 70, 9, 7), (40, 70, 3, 2), 2, 1),
        ((3, 30, 40, 41), (50, 30, 1, 1), 1, 0),
    ],
)
def test_conv2d__large(shape: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int) -> None:
    x, w = uniform(1, *shape), uniform(2, *kernel)
    grad = uniform(3, *torch.nn.functional.conv2d(x, w, None, stride, padding).shape)
    options = ([stride] * 2, [padding] * 2, [1, 1], 1, "v1")
    filters = sample(kernel[0])
    with repdl.use_backend("reference"):
        forward = repdl.ops.conv2d(x, w[filters], None, stride, padding)
        weight = torch.ops.repdl.conv2d_grad_weight(grad[:, filters], x, kernel[2:], *options)
        channels = sample(shape[1])
        data = torch.ops.repdl.conv2d_grad_input(grad, w[:, channels], shape[2:], *options)
    for threads in (1, 2):
        repdl.set_num_threads(threads)
        assert_same_bits(repdl.ops.conv2d(x, w, None, stride, padding)[:, filters], forward, "forward")
        ours = torch.ops.repdl.conv2d_grad_weight(grad, x, kernel[2:], *options)
        assert_same_bits(ours[filters], weight, "grad_weight")
        ours = torch.ops.repdl.conv2d_grad_input(grad, w, shape[2:], *options)
        assert_same_bits(ours[:, channels], data, "grad_input")


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("channels", [1, 5])
def test_conv2d_grad_weight__chunk_beyond_all_terms(channels: int, threads: int) -> None:
    grad, x = uniform(1, 4, 3, 20, 20), uniform(2, 4, channels, 20, 20)
    options = ([3, 3], [1, 1], [1, 1], [1, 1], 1)
    repdl.set_num_threads(threads)
    huge = torch.ops.repdl.conv2d_grad_weight(grad, x, *options, f"dot_chunk={2**62},sum_lanes=64,sum_block=1024")
    assert_same_bits(huge, torch.ops.repdl.conv2d_grad_weight(grad, x, *options, "sequential"))


@pytest.mark.parametrize("name", MARGIN)
def test_pointwise__rows_with_many_undecided_elements(name: str) -> None:
    """In one long row they are more than the queue of the AVX-512 loop has room for, in rows of 500 they are not.

    On other levels, whose loops have no such queue, both are the same.
    """
    hard = torch.tensor(MARGIN[name]).to(torch.int32).view(torch.float32)
    x = hard.repeat(1 + 100_000 // len(hard))[:100_000].view(200, 500)
    in_rows = torch.empty(200, 501)[:, :500].copy_(x)
    repdl.set_num_threads(1)
    function = getattr(repdl.ops, name)
    for isa in repdl.backends()["cpu"].details["supported"].split():
        with use_isa(isa):
            assert_same_bits(function(x), function(in_rows).contiguous(), f"{name}, {isa}")
