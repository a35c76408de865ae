"""SyncBatchNorm: the statistics of the rows of all ranks."""

from __future__ import annotations

import pytest
import ranks
import sync_batchnorm_calls as calls
import torch

import repdl
from repdl.registry import functions
from repdl.testing import assert_same_bits, uniform

pytest.importorskip("repdl.nn")
pytestmark = pytest.mark.skipif(not ranks.AVAILABLE, reason=ranks.NEEDS)


@pytest.mark.parametrize("world", [2, 3])
def test_sync_batchnorm__is_near_batch_norm_of_all_rows(world: int) -> None:
    found = ranks.run(calls.normalized, world, None, False)
    inputs = torch.cat([calls.rows(r) for r in range(world)]).double().requires_grad_()
    model = torch.nn.BatchNorm1d(5).double()
    model.load_state_dict(calls.layer()[0].state_dict())
    grads = [uniform(50 + r, *calls.rows(r).shape).double() for r in range(world)]
    output = model(inputs)
    output.backward(torch.cat(grads))
    expected = output, inputs.grad, model.weight.grad, model.bias.grad, model.running_mean, model.running_var
    actual = [torch.cat([f[i] for f in found]) for i in (0, 1)]
    actual += [sum(f[i] for f in found) for i in (2, 3)] + [found[0][i] for i in (4, 5)]
    for a, e in zip(actual, expected):  # tens of roundings of numbers near 1
        torch.testing.assert_close(a.double(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("world", [2, 3])
def test_sync_batchnorm__has_one_result(world: int) -> None:
    first = ranks.run(calls.normalized, world, "gathered", False)
    for algorithm, enabled in (("sharded", False), (None, True)):
        for one, other in zip(first, ranks.run(calls.normalized, world, algorithm, enabled)):
            assert all(map(torch.equal, one, other))
    sums = torch.stack([repdl.ops.sum(calls.rows(r), (0, 2)) for r in range(world)])
    count = sum(calls.rows(r).numel() // 5 for r in range(world))
    mean = repdl.ops.div(functions.all_reduce(sums, "sum"), count)
    for found in first:
        assert_same_bits(found[4], repdl.ops.lerp(torch.zeros(5), mean, 0.1))


def test_sync_batchnorm__in_groups() -> None:
    """Each group has the results of ranks that are alone."""
    found = ranks.run(calls.normalized_in_groups, 3, [[0, 2], [1]])
    for one, other in zip((found[0], found[2]), ranks.run(calls.normalized, 2, None, False)):
        assert all(map(torch.equal, one, other))
    (alone,) = ranks.run(calls.normalized, 1, None, False)
    assert all(map(torch.equal, found[1], alone))


def test_sync_batchnorm__halves() -> None:
    for found in ranks.run(calls.normalized, 2, None, False, torch.bfloat16):
        assert found[0].dtype is found[1].dtype is torch.bfloat16 and found[0].isfinite().all()


def test_sync_batchnorm__of_one_process_is_batch_norm() -> None:
    x = calls.rows(3)
    single = repdl.nn.SyncBatchNorm.convert_sync_batchnorm(calls.layer())
    assert_same_bits(single(x), calls.layer()(x))
    assert_same_bits(single.eval()(x), single(x))
    converted = repdl.from_torch_module(torch.nn.Sequential(torch.nn.SyncBatchNorm(5)))
    assert type(converted[0]) is repdl.nn.SyncBatchNorm


OPTIONS = {"eps": 1e-3, "momentum": 0.25, "affine": False, "track_running_stats": False, "contract": "sequential"}


@pytest.mark.parametrize("option", OPTIONS)
def test_sync_batchnorm__conversion_keeps_every_option(option: str) -> None:
    """What a layer says, in the layer that it becomes, and what it computes; of a layer below another one too."""
    given = OPTIONS | {name: None for name in OPTIONS if name != option}
    options = {name: value for name, value in given.items() if value is not None}
    before = repdl.nn.BatchNorm1d(5, **options)
    before.training = option == "momentum"
    (after,) = repdl.nn.SyncBatchNorm.convert_sync_batchnorm(repdl.nn.Sequential(before))
    assert type(after) is repdl.nn.SyncBatchNorm and after.training is before.training
    assert all(getattr(after, name) == getattr(before, name) for name in OPTIONS)
    assert getattr(after, option) == OPTIONS[option]
    assert [*after.state_dict()] == [*before.state_dict()]
    assert_same_bits(after(calls.rows(300)), before(calls.rows(300)))
