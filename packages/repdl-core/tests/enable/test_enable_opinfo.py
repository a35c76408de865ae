"""Every function of torch's own database of ops under `repdl.enable()`: what torch gives, or an error."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest
import torch

import repdl
from repdl.overrides import draws
from repdl.testing import opinfo

pytest.importorskip("expecttest", reason="torch's database of ops needs it")

UNWRITTEN = re.compile(r"(new_)?empty(_like|_strided|_permuted)?|as_strided")
"""Give memory in which anything may be."""
OF_VALUES = ("beyond the bound", "other integers", "other infinities", "other NaN")
"""Differences of values alone, which what is drawn or unwritten may have."""
WITHOUT_COMPARISON = {"chalf"}
"""torch does not compare halves of complex numbers."""
OF_INTEGERS = {"add", "cumsum", "diff", "div", "index_put", "kron", "outer", "put", "square", "sum"}
"""Some that agree: torch's own, and ours where results have fractions or equal indices an order."""
REASONS = {
    "kthvalue": "other integers",  # of equal elements torch takes any
    "batch_norm": "beyond the bound",  # two values a channel that are nearly equal: torch's own is as far off
}


def own(value: Any) -> Any:
    """A copy: the next sample may change the tensors of this one."""
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.detach()
    return (deepcopy(plain) if plain.layout is torch.strided else plain.clone()).requires_grad_(value.requires_grad)


def differences(dtype: torch.dtype, most: int | None) -> tuple[Counter[str], list[str], set[str]]:
    """How many samples agree, are refused or draw, which do anything else, and of which ops one agreed."""
    known: list[tuple[Any, Any, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about its samples
        for infos in opinfo.database().values():
            for info in infos:
                if dtype in info.supported_dtypes("cpu") and info.name not in WITHOUT_COMPARISON:
                    for sample in opinfo.samples(info, dtype, most):
                        known.append((info, sample.transform(own), opinfo.expected(info, sample)))
        counted, wrong, agreed = Counter[str](), [], set()
        torchs = draws.torch_generator
        with pytest.MonkeyPatch.context() as patch, repdl.enabled():
            patch.setattr(draws, "torch_generator", lambda given: (counted.update(["drew"]), torchs(given))[1])
            for info, sample, exact in known:
                if exact is None:
                    continue
                before = counted["drew"]
                bounds = dtype if dtype.is_floating_point else torch.float32
                found = opinfo.outcome(info.op, sample, exact, bounds)
                assert found is not None
                difference = found.result or (f"gradient: {found.gradient}" if found.gradient else "")
                if counted["drew"] > before or UNWRITTEN.fullmatch(info.name):
                    difference = "" if difference in OF_VALUES else difference
                kind = "refused" if re.match("refused|gradient: UnsupportedError", difference) else "differs"
                counted[kind if difference else "agreed"] += 1
                counted["gradients"] += found.has_gradient and not found.gradient
                name = info.name.rpartition(".")[2]
                if not difference:
                    agreed.add(name)
                excused = opinfo.reason(name, difference) or REASONS.get(name) == difference
                if difference and kind == "differs" and not excused:
                    wrong.append(f"{info.name}: {difference}")
    return counted, wrong, agreed


def test_enable__a_sample_of_every_op() -> None:
    counted, wrong, _ = differences(torch.float32, 1)
    assert not wrong
    assert counted["agreed"] > 480 and counted["gradients"] > 380 and counted["refused"] < 180, counted


def test_enable__integers_of_every_op() -> None:
    counted, wrong, agreed = differences(torch.int64, 1)
    assert not wrong
    assert counted["agreed"] > 200, counted
    assert agreed >= OF_INTEGERS, OF_INTEGERS - agreed


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_enable__all_samples_of_every_op(dtype: torch.dtype) -> None:
    assert not differences(dtype, None)[1]
