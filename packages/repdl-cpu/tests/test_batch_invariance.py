"""A row's bits do not depend on the other rows: the slice of a batch is the batch's slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import repdl
import repdl_cpu
from repdl import ops
from repdl.testing import ODD_CONTRACTS, assert_same_bits, uniform
from repdl.testing.dtypes import in_dtype
from repdl.testing.inputs import index

Function = Callable[[torch.Tensor], torch.Tensor]


def in_double(x: torch.Tensor) -> torch.Tensor:
    """The same rows in float64, with all of its bits."""
    return in_dtype(x, torch.float64)


def double(seed: int, *shape: int) -> torch.Tensor:
    return in_double(uniform(seed, *shape))


TARGET = index(9, 10, 37)
FUNCTIONS: dict[str, tuple[tuple[int, ...], Function]] = {
    "linear": ((37, 300), lambda x: ops.linear(x, uniform(2, 33, 300), uniform(3, 33))),
    "mm": ((37, 300), lambda x: ops.mm(x, uniform(2, 300, 33))),
    "conv2d": ((37, 3, 9, 8), lambda x: ops.conv2d(x, uniform(2, 5, 3, 3, 3), uniform(3, 5), 1, 1)),
    "conv2d_groups": ((37, 4, 9, 8), lambda x: ops.conv2d(x, uniform(2, 6, 2, 3, 2), None, 2, groups=2)),
    "linear_f64": ((37, 300), lambda x: ops.linear(in_double(x), double(2, 33, 300), double(3, 33))),
    "conv2d_f64": ((37, 4, 9, 8), lambda x: ops.conv2d(in_double(x), double(2, 6, 2, 3, 2), None, 2, groups=2)),
    "softmax": ((37, 130), lambda x: ops.softmax(x, 1)),
    "log_softmax": ((37, 130), lambda x: ops.log_softmax(x, 1)),
    "cross_entropy": (
        (37, 10),
        lambda x: ops.cross_entropy(x, TARGET[: len(x)], weight=uniform(4, 10).abs(), reduction="none"),
    ),
    "max_pool2d": ((37, 3, 9, 8), lambda x: ops.max_pool2d(x, 3, 2, 1)),
    "batch_norm_eval": (
        (37, 6, 5, 4),
        lambda x: ops.batch_norm(x, uniform(2, 6), uniform(3, 6).abs(), uniform(4, 6), uniform(5, 6), training=False),
    ),
    "layer_norm": ((37, 130), lambda x: ops.layer_norm(x, [130], uniform(2, 130), uniform(3, 130))),
    "rms_norm": ((37, 130), lambda x: ops.rms_norm(x, [130], uniform(2, 130))),
    "group_norm": ((37, 6, 5, 4), lambda x: ops.group_norm(x, 3, uniform(2, 6), uniform(3, 6))),
    "sum": ((37, 1500), lambda x: ops.sum(x, 1)),
}
by_function = pytest.mark.parametrize("name", FUNCTIONS)
by_isa = pytest.mark.parametrize("isa", repdl_cpu.supported_isas())


@pytest.fixture(autouse=True)
def _settings(isa: str) -> Iterator[None]:
    before = repdl.settings.threads.state.threads
    with repdl_cpu.use_isa(isa):
        yield
    repdl.settings.threads.state.threads = before


@by_isa
@by_function
@pytest.mark.parametrize("contract", ["v1", ODD_CONTRACTS[0]])
def test_batch_invariance__leading_slice(name: str, isa: str, contract: str) -> None:
    shape, function = FUNCTIONS[name]
    x = uniform(1, *shape)
    with repdl.use_contract(contract):
        repdl.set_num_threads(3)
        whole = function(x)
        for rows in (1, 2, 3, 7, 16, 17, 36):
            repdl.set_num_threads(1 + rows % 3)
            assert_same_bits(function(x[:rows]), whole[:rows], f"{name}: {rows} of {len(x)} rows")


@by_isa
@by_function
def test_batch_invariance__other_rows(name: str, isa: str) -> None:
    shape, function = FUNCTIONS[name]
    x = uniform(1, *shape)
    changed = uniform(7, *shape, special=True)
    kept = [0, 5, 16, 36]
    changed[kept] = x[kept]
    assert_same_bits(function(changed)[kept], function(x)[kept], f"{name} beside other rows")


@by_isa
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "cross_entropy"])
def test_batch_invariance__order_of_rows(name: str, isa: str) -> None:
    shape, function = FUNCTIONS[name]
    x = uniform(1, *shape)
    assert_same_bits(function(x.flip(0)), function(x).flip(0), f"{name} with its rows reversed")


@by_isa
def test_batch_invariance__large_layer_norm(isa: str) -> None:
    """Outputs of 2**21 elements and more are stored another way than the small ones."""
    x, grad = uniform(1, 2100, 1024), uniform(2, 2100, 1024)
    weight, bias = uniform(3, 1024), uniform(4, 1024)
    for threads in (1, 3):
        repdl.set_num_threads(threads)
        output, mean, rstd = torch.ops.repdl.layer_norm(x, [1024], weight, bias, 1e-5, "v1")
        gradient = torch.ops.repdl.layer_norm_backward(grad, x, [1024], mean, rstd, weight, "v1")[0]
        for k in range(0, 2100, 700):
            part = slice(k, k + 700)
            small = torch.ops.repdl.layer_norm(x[part], [1024], weight, bias, 1e-5, "v1")
            assert_same_bits(small, (output[part], mean[part], rstd[part]), f"rows from {k}")
            given = grad[part], x[part], [1024], mean[part], rstd[part], weight, "v1"
            assert_same_bits(torch.ops.repdl.layer_norm_backward(*given)[0], gradient[part], f"gradient from {k}")
