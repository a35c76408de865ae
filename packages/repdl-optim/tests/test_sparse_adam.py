"""SparseAdam: rows of sparse gradients, against torch in float64 and op by op; state dicts; what is refused."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest
import torch

import repdl
from repdl import ops
from repdl.errors import DTypeError, UnsupportedError
from repdl.optim import SparseAdam
from repdl.optim.testing import assert_same_state, snapshot
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

INDICES = torch.tensor([[5, 0, 5, 2, 5, 0]])


def gradient(step: int, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Three values of row 5, two of row 0."""
    values = uniform(step + 50, 6, *shape[1:]).to(dtype)
    return torch.sparse_coo_tensor((INDICES + step) % shape[0], values, shape, check_invariants=True)


def train(optimizer: torch.optim.Optimizer, params: list[torch.nn.Parameter], steps: range) -> None:
    for step in steps:
        for param in params:
            param.grad = gradient(step, tuple(param.shape), param.dtype)
        optimizer.step()


def parameters(dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    strided = torch.nn.Parameter(uniform(2, 4, 7).t().to(dtype))
    return [torch.nn.Parameter(uniform(1, 9, 4).to(dtype)), strided, torch.nn.Parameter(uniform(3, 6, 2, 3).to(dtype))]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.1, "betas": (0.5, 0.8)},
    {"maximize": True},
    {"lr": torch.tensor(0.25, dtype=torch.float64)},
]


def test_sparse_adam__near_torch() -> None:
    for options in OPTIONS:
        ours, theirs = parameters(torch.float64), parameters(torch.float64)
        train(SparseAdam(ours, **options), ours, range(5))
        train(torch.optim.SparseAdam(theirs, **options), theirs, range(5))
        for a, b in zip(ours, theirs):
            # Moves of at most 1.25 a step, with 20 roundings of numbers below 8, which the root of small squares
            # may make 2**10 as large.
            assert (a - b).abs().max() <= 5 * 20 * 8 * 2.0**10 * 2.0**-53, options


def test_sparse_adam__op_by_op() -> None:
    weight = torch.nn.Parameter(uniform(1, 9, 4))
    optimizer = SparseAdam([weight], lr=0.25, betas=(0.5, 0.75), eps=2.0**-20)
    rows = torch.tensor([0, 2, 5])
    p, m, v = weight.detach().clone(), torch.zeros(9, 4), torch.zeros(9, 4)
    for step in (1, 2):
        weight.grad = gradient(0, (9, 4))
        optimizer.step()
        g = ops.index_add(torch.zeros(9, 4), 0, INDICES[0], weight.grad._values())[rows]
        mean = ops.add(m[rows], ops.mul(ops.sub(g, m[rows]), 0.5))
        square = ops.add(v[rows], ops.mul(ops.sub(ops.mul(g, g), v[rows]), 0.25))
        size = 0.25 * (1 - 0.75**step) ** 0.5 / (1 - 0.5**step)
        p[rows] = ops.add(p[rows], ops.mul(ops.div(mean, ops.add(ops.sqrt(square), 2.0**-20)), -size))
        m[rows], v[rows] = mean, square
        state = optimizer.state[weight]
        assert_same_bits([weight, state["exp_avg"], state["exp_avg_sq"]], [p, m, v])
        assert state["step"] == step


def test_sparse_adam__backends_and_threads() -> None:
    results, before = [], repdl.get_num_threads()
    for backend, threads in (("reference", 1), *(("cpu", n) for n in (1, 3) if "cpu" in repdl.backends())):
        params = parameters()
        repdl.set_num_threads(threads)
        with repdl.use_backend(backend):
            train(SparseAdam(params, lr=0.1), params, range(4))
        repdl.set_num_threads(before)
        results.append(params)
        assert_same_bits(params, results[0], f"{backend}, {threads} threads")


def test_sparse_adam__strides_do_not_count() -> None:
    """Nor whether a parameter can be seen as a matrix of rows; its state has its strides."""
    shape = (6, 4, 3)
    plain = torch.nn.Parameter(uniform(1, *shape))
    train(SparseAdam([plain], lr=0.1), [plain], range(4))
    for order in permutations(range(3)):
        back = [order.index(dim) for dim in range(3)]
        param = torch.nn.Parameter(uniform(1, *shape).permute(order).contiguous().permute(back))
        optimizer = SparseAdam([param], lr=0.1)
        train(optimizer, [param], range(4))
        assert_same_bits(param, plain, f"strides {param.stride()}")
        assert optimizer.state[param]["exp_avg"].stride() == param.stride()


def test_sparse_adam__state_dicts_to_and_from_torch() -> None:
    whole, params = parameters(), parameters()
    uninterrupted = SparseAdam(whole, lr=0.1)
    train(uninterrupted, whole, range(4))
    first = SparseAdam(params, lr=0.1)
    train(first, params, range(2))
    second = torch.optim.SparseAdam(params)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    third = SparseAdam(params)
    third.load_state_dict(copy.deepcopy(second.state_dict()))
    train(third, params, range(2, 4))
    assert_same_bits(params, whole)
    for state, expected in zip(third.state.values(), uninterrupted.state.values()):
        assert_same_bits(state["exp_avg_sq"], expected["exp_avg_sq"])
        assert state["step"] == expected["step"] == 4


def test_sparse_adam__of_an_embedding() -> None:
    layer = torch.nn.Embedding(9, 4, sparse=True)
    before = layer.weight.detach().clone()
    layer(torch.tensor([1, 1, 3])).sum().backward()
    SparseAdam(layer.parameters()).step()
    changed = (layer.weight != before).any(1)
    assert changed.nonzero().flatten().tolist() == [1, 3]


def test_sparse_adam__a_gradient_without_values_counts_a_step() -> None:
    weight = torch.nn.Parameter(uniform(1, 3, 2))
    weight.grad = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (3, 2))
    optimizer = SparseAdam([weight])
    optimizer.step()
    assert optimizer.state[weight]["step"] == 1
    assert_same_bits(weight, uniform(1, 3, 2))


def test_sparse_adam__refuses() -> None:
    for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}):
        with pytest.raises(ValueError) as theirs:
            torch.optim.SparseAdam(parameters(), **options)
        with pytest.raises(ValueError) as ours:
            SparseAdam(parameters(), **options)
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(DTypeError, match="float16"):
        SparseAdam([torch.nn.Parameter(torch.ones(2, 2, dtype=torch.float16))])
    params = parameters()
    optimizer = SparseAdam(params)
    train(optimizer, params, range(1))
    params[1].grad = torch.ones(7, 4)
    before = snapshot(optimizer, params)
    with pytest.raises(UnsupportedError, match=r"torch.strided, expected torch.sparse_coo; use Adam"):
        optimizer.step()
    assert_same_bits([p.detach() for p in params], before[0])
    assert_same_state(optimizer.state_dict(), before[1])
