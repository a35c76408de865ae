"""Averages of parameters: the bits of torch's under `repdl.enable()`, torch's state dicts, SWALR."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
import torch

import repdl
from repdl.errors import UnsupportedError
from repdl.optim import SGD, swa_utils
from repdl.testing.compare import assert_same_bits
from repdl.testing.inputs import uniform

THEIRS = torch.optim.swa_utils
FUNCTIONS = (None, "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn")


def model(step: int, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    layers = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.BatchNorm1d(5)).to(dtype)
    for number, tensor in enumerate((*layers.parameters(), *list(layers.buffers())[:2])):
        tensor.data = uniform(10 * step + number, *tensor.shape).to(dtype)
    return layers


def averaged(module: Any, function: str | None, use_buffers: bool, dtype: torch.dtype, steps: int = 6) -> Any:
    given = {}
    if function is not None:
        given = {"multi_avg_fn" if "multi" in function else "avg_fn": getattr(module, function)()}
    average = module.AveragedModel(model(0, dtype), use_buffers=use_buffers, **given)
    for step in range(steps):
        average.update_parameters(model(step, dtype))
    return average


def test_averages__bits_of_torchs_while_enabled() -> None:
    for function, use_buffers, dtype in product(FUNCTIONS, (False, True), (torch.float32, torch.float64)):
        if function == "get_swa_multi_avg_fn" and use_buffers:
            continue  # which torch refuses for integers, such as the number of batches
        with repdl.enabled():
            expected = averaged(THEIRS, function, use_buffers, dtype).state_dict()
            again = averaged(swa_utils, function, use_buffers, dtype).state_dict()
        found = averaged(swa_utils, function, use_buffers, dtype).state_dict()
        for key, value in expected.items():
            assert torch.equal(found[key], value) and torch.equal(again[key], value), (function, key)


def test_averages__of_lists_by_the_functions_alone() -> None:
    old, new = [uniform(1, 300), uniform(2, 5)], [uniform(3, 300), uniform(4, 5)]
    kept = copy.deepcopy(old)
    swa_utils.get_ema_multi_avg_fn(0.9)(old, new, None)
    assert_same_bits(old, [repdl.ops.lerp(a, b, 1 - 0.9) for a, b in zip(kept, new)])
    single = swa_utils.get_ema_avg_fn(0.9)(kept[0], new[0], None)
    assert_same_bits(single, repdl.ops.add(repdl.ops.mul(kept[0], 0.9), repdl.ops.mul(new[0], 1 - 0.9)))
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)


def test_averages__state_dicts_to_and_from_torch() -> None:
    first = averaged(swa_utils, None, True, torch.float32)
    second = THEIRS.AveragedModel(model(9), use_buffers=True)
    second.load_state_dict(first.state_dict())
    third = swa_utils.AveragedModel(model(9), use_buffers=True)
    third.load_state_dict(second.state_dict())
    for average in (first, third):
        average.update_parameters(model(7))
    assert_same_bits(list(third.parameters()), list(first.parameters()))
    assert int(third.n_averaged) == 7


def test_averages__a_function_of_the_caller_that_is_not_reproducible() -> None:
    average = swa_utils.AveragedModel(model(0), avg_fn=lambda a, b, n: torch.special.airy_ai(a))
    average.update_parameters(model(1))
    with pytest.raises(UnsupportedError, match=r"repdl.optim's AveragedModel: .*airy_ai"):
        average.update_parameters(model(2))
    assert torch.special.airy_ai(torch.zeros(1)) > 0  # torch is torch's again


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swalr__rates_of_torchs_while_enabled(strategy: str) -> None:
    def rates(kind: Any) -> list[float]:
        stepped = SGD([torch.nn.Parameter(torch.zeros(2))], lr=0.3)
        schedule = kind(stepped, swa_lr=0.05, anneal_epochs=13, anneal_strategy=strategy)
        found = []
        for _ in range(20):
            stepped.step()
            schedule.step()
            found.append(stepped.param_groups[0]["lr"])
        return found

    ours = rates(swa_utils.SWALR)
    with repdl.enabled():
        assert rates(THEIRS.SWALR) == ours
    assert issubclass(swa_utils.SWALR, THEIRS.SWALR) and set(swa_utils.__all__) == set(THEIRS.__all__)
