"""Whatever the caller has set in the processor, the bits are the same and the setting stays."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import repdl
import repdl.testing
import repdl_cpu
from repdl.registry import OPS, implementation, implementations
from repdl.registry.backend import get_backend
from repdl.testing import Case, cases, covers, golden, hex_digest, processes, run
from repdl.testing.environment import DIRECTIONS, can_flush, flush_denormal, rounding

CASES = [
    case
    for case in cases()
    if case.name in ("special", "values", "subnormal", "fused_not_rounded_twice", "underflow_keeps_sign", "hard")
    or case.name.startswith(("k_", "special_"))
    or case.name.endswith("_ties")
]
BEST = repdl_cpu.get_isa()

needs_flushing = pytest.mark.skipif(not can_flush(), reason="this processor cannot flush subnormals")


def assert_recorded(actual: Any, case: Case, what: str) -> None:
    """The recorded bits: the reference's in the default environment."""
    expected = golden(OPS[case.op].family)[str(case)]["v1"]
    assert hex_digest(actual) == expected, f"{what}: digest {hex_digest(actual)}, recorded {expected}"


def subnormal_survives() -> bool:
    """Whether adding keeps a subnormal in the environment as it is now."""
    return bool(torch.tensor(2.0**-140).add(torch.tensor(0.0)).view(torch.int32) != 0)


@needs_flushing
def test_environment__flush_denormal_can_be_seen() -> None:
    assert subnormal_survives()
    with flush_denormal():
        assert not subnormal_survives()
    assert subnormal_survives()


@needs_flushing
@pytest.mark.parametrize("family", sorted({OPS[case.op].family for case in CASES}))
def test_environment__flush_denormal(family: str) -> None:
    """On every ISA, and in the reference."""
    for case in CASES:
        if OPS[case.op].family == family and covers(case, "cpu"):
            for backend, isa in (*(("cpu", isa) for isa in repdl_cpu.supported_isas()), ("reference", BEST)):
                args = case.make()  # made outside: flushing would change the arguments themselves
                same = replace(case, make=lambda args=args: args)
                with repdl_cpu.use_isa(isa), flush_denormal():
                    actual = run(same, "v1", implementation(get_backend(backend), case.op))
                    kept = not subnormal_survives()
                what = f"{case} on {backend}, {isa}, with flush-to-zero"
                assert_recorded(actual, case, what)
                assert kept, f"{what}: the caller's setting was not put back"


ON_ISAS = [
    pytest.param(isa, direction, marks=() if i == j % 3 else pytest.mark.nightly)
    for i, direction in enumerate(DIRECTIONS)
    for j, isa in enumerate(repdl_cpu.supported_isas())
]


@pytest.mark.skipif(not DIRECTIONS, reason="rounding modes of this processor's ABI are not written down here")
@pytest.mark.parametrize("threads", [3, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("isa", "direction"), ON_ISAS)
def test_environment__rounding_mode(isa: str, direction: str, threads: int) -> None:
    """Each of several threads sets the mode of its own; calls of little work have the caller alone."""
    before = repdl.settings.threads.state.threads
    prepared = [(case, case.make()) for case in cases() if covers(case, "cpu")]
    table = implementations(get_backend("cpu"))
    results: list[Any] = []
    try:
        with repdl_cpu.use_isa(isa), rounding(direction) as libm:
            repdl.set_num_threads(threads)
            for case, args in prepared:
                same = replace(case, make=lambda args=args: args)
                results.append((case, run(same, "v1", table[case.op])))
            kept = libm.fegetround() == DIRECTIONS[direction]
    finally:
        repdl.settings.threads.state.threads = before
    assert kept, "the caller's rounding mode was not put back"
    for case, actual in results:
        assert_recorded(actual, case, f"{case} rounding {direction} on {isa} with {threads} threads")


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_environment__elements_that_are_not_sorted(direction: str) -> None:
    """The thread that calls sums them alone; the first rows, of more terms than lanes take, a second time."""
    index = torch.arange(4096)
    index[:64] %= 8
    x, add = repdl.testing.uniform(1, 4096, 1).div(3), implementation(get_backend("cpu"), "index_sum")
    for rows in (4096, 40960):
        calls = [(x, index, rows, "v1"), (x[:2000], index[:2000] // 2, rows, "v1")]
        expected = [add(*args) for args in calls]
        with rounding(direction):
            actual = [add(*args) for args in calls]
        for a, b in zip(actual, expected):
            repdl.testing.assert_same_bits(a, b, f"{rows} rows rounding {direction}")


FIRST_CALL = """
import ctypes, ctypes.util, sys
import torch, repdl
from repdl.testing import uniform
how, threads, team = sys.argv[1], int(sys.argv[2]), sys.argv[3]
x, y = uniform(1, 300, 200, scale=2.0**-66), uniform(2, 200, 150, scale=2.0**-66)
steps = [[uniform(i, 90_000).abs() * 2.0**-120] for i in range(4)]
wide = uniform(3, 70_000, scale=2.0**-66)
bounded = uniform(4, 50_000) * 100 - 50
libm = ctypes.CDLL(ctypes.util.find_library("m"))
if how == "flush":
    assert torch.set_flush_denormal(True)
elif how != "default":
    assert libm.fesetround(int(how)) == 0
if team == "torchs":  # whose threads begin in this environment, and keep it
    torch.set_num_threads(threads)
    torch.ones(10**6).mul(2)
    torch.set_flush_denormal(False)
    libm.fesetround(0)
repdl.set_num_threads(threads)
results = [repdl.ops.mm(x, y), repdl.ops.mul(wide, wide), repdl.ops.exp(bounded), repdl.ops.sum(wide)]
torch.ops.repdl.adam_step(*steps, [], 0.01, 0.9, 0.999, 1e-8, 0.0, 0.3, 0.4, False, False, False)
torch.set_flush_denormal(False)
libm.fesetround(0)
print(repdl.digest({str(i): t for i, t in enumerate([*results, *(s[0] for s in steps)])}))
"""


@pytest.mark.parametrize(("how", "team"), [*((how, "ours") for how in ("flush", *DIRECTIONS)), ("flush", "torchs")])
def test_environment__first_call(how: str, team: str) -> None:
    """The threads of a team inherit the environment of the call that starts them: a process's first, or one of torch's
    before it."""
    if how == "flush" and not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush subnormals")
    digests = set()
    for mode, threads, whose in (("default", 1, "ours"), (str(DIRECTIONS.get(how, how)), 7, team)):
        digests.add(fresh_process(FIRST_CALL, mode, str(threads), whose))
    assert len(digests) == 1, digests


@cache
def fresh_process(code: str, *arguments: str) -> str:
    prepared = "import sys; sys.path.insert(0, sys.argv.pop()); import conftest\n" + code
    here = str(Path(__file__).parent)
    child = processes.python("-c", prepared, *arguments, here)
    assert child.returncode == 0, child.stderr[-2000:]
    return child.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_environment__pool_after_fork() -> None:
    before = repdl.settings.threads.state.threads
    try:
        repdl.set_num_threads(3)
        a, b = repdl.testing.uniform(1, 300, 200), repdl.testing.uniform(2, 200, 150)
        parent = repdl.digest(repdl.ops.mm(a, b))  # starts the parent's pool
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # no pytest machinery in the child: write, then leave at once
            status = 1
            try:
                os.write(writer, repdl.digest(repdl.ops.mm(a, b)).encode())
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            assert pipe.read() == parent
        assert os.waitpid(child, 0)[1] == 0
        assert repdl.digest(repdl.ops.mm(a, b)) == parent
    finally:
        repdl.settings.threads.state.threads = before
