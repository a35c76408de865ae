"""Python's numbers under `repdl.enable()`: powers of an optimizer's step, and `math` in schedules.

Arguments are some that glibc rounds in another direction than to nearest, found among the first 10,000 steps.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

import repdl
from repdl.overrides.python_numbers import FUNCTIONS, Number, NumberOfRatios, exact_math, power
from repdl.reference import exact
from repdl.reference.pointwise.pow import power as reference_power

STEPS = [(0.9, 3270.0), (0.99, 503.0), (0.999, 2904.0), (0.95, 482.0), (0.98, 688.0), (0.96, 246.0)]
NUMBERS = [0.7, float.fromhex("0x1.36db04f673c06p+0"), float.fromhex("0x1.6c3e5cp-3")]

TRAINED = """
import hashlib
import torch, repdl

def digest():
    bits = b""
    for epoch in (2202, 2637, 3673, 6266, 9829, 10565):
        weight = torch.nn.Parameter(torch.zeros(50, dtype=torch.float64))
        optimizer = torch.optim.Adam([weight], lr=1e-3, foreach=False)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 999)
        for schedule.last_epoch in (epoch - 1, epoch):
            weight.grad = torch.linspace(-1, 1, 50, dtype=torch.float64)
            optimizer.step()
            schedule.step()
        bits += weight.detach().numpy().tobytes()
    return hashlib.sha1(bits).hexdigest()

plain = digest()
with repdl.enabled():
    print(plain, digest())
"""


@pytest.mark.parametrize("base, exponent", STEPS)
def test_powers_are_correctly_rounded(base: float, exponent: float) -> None:
    expected = reference_power(np.array([base]), np.array([exponent])).item()
    assert base ** Number(exponent) == Number(base) ** exponent == power(base, exponent) == expected


def test_sums_differences_and_products_keep_it() -> None:
    step = Number(3.0)
    for value in (1 - step, step - 1, step + 1, 1 + step, 2.0 * step, step * 2.0, 0.9**step):
        assert type(value) is Number
    assert (1 - 0.9**step) ** 0.5 == math.sqrt(1 - 0.9**3.0)
    assert {type(x) for x in (1.0 / step, step / 2.0, -step, step**0.5)} == {float}
    assert step.__pow__("a") is NotImplemented and step.__rpow__(1j) is NotImplemented


def test_ratios_keep_it_for_radam() -> None:
    radam = import_module("torch.optim.radam")
    with repdl.enabled():
        step = radam._get_value(torch.tensor(7.0))
        length = 1999.0 - 2 * step * (0.999**step) / (1 - 0.999**step)
        root = ((length - 4) * (length - 2) / ((1999.0 - 4) * length)) ** 0.5
    assert type(step) is type(length) is NumberOfRatios and type(root) is float
    plain = float(length)
    assert root == math.sqrt((plain - 4) * (plain - 2) / ((1999.0 - 4) * plain))


def test_powers_raise_as_floats_do() -> None:
    with pytest.raises(ZeroDivisionError):
        0.0 ** Number(-1.0)
    with pytest.raises(OverflowError):
        10.0 ** Number(400.0)
    assert isinstance((-8.0) ** Number(0.5), complex)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if hasattr(math, name)])
def test_functions_of_math_are_correctly_rounded(name: str) -> None:
    numbers = (
        [1 + x for x in NUMBERS] if name == "acosh" else NUMBERS if name not in ("acos", "asin", "atanh") else [0.7]
    )
    for x in numbers:
        assert getattr(exact_math(), name)(x) == getattr(exact, name)(np.array([x])).item()


def test_functions_of_math_raise_as_python_does() -> None:
    ours = exact_math()
    for call in (lambda m: m.log(-1), lambda m: m.log(2, 0), lambda m: m.exp(1e6), lambda m: m.pow(0, -1)):
        with pytest.raises((ValueError, OverflowError, ZeroDivisionError)) as plain:
            call(math)
        with pytest.raises(type(plain.value)):
            call(ours)
    with pytest.raises(TypeError):
        ours.cos("1")
    assert (
        ours.log(8, 2) == ours.log(8) / ours.log(2)
        and ours.atan2(1, 2) == exact.atan2(*np.array([[1.0], [2.0]])).item()
    )
    assert ours.pi is math.pi and ours.floor is math.floor


def test_modules_see_it_while_enabled() -> None:
    adam, before = import_module("torch.optim.adam"), lr_scheduler.math
    with repdl.enabled():
        assert lr_scheduler.math is exact_math()
        assert type(adam._get_value(torch.tensor(3.0))) is Number
    assert lr_scheduler.math is before is math
    assert type(adam._get_value(torch.tensor(3.0))) is float


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc" or platform.machine() != "x86_64", reason="GLIBC_TUNABLES")
def test_one_digest_with_either_code_of_the_c_library() -> None:
    """glibc has its functions with and without FMA; the digest without `enable()` is the control."""
    hidden = "glibc.cpu.hwcaps=-FMA,-AVX2,-FMA4,-FMA_Usable,-AVX2_Usable"
    lines = [
        subprocess.run(
            [sys.executable, "-c", TRAINED],
            env={**os.environ, "GLIBC_TUNABLES": tunables},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for tunables in ("", hidden)
    ]
    if lines[0][0] == lines[1][0]:
        pytest.skip("this C library has the same bits with and without FMA here")
    assert lines[0][1] == lines[1][1]
