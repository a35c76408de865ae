"""Kernels read and write nothing before the start or past the end of a tensor.

guarded.py runs in a process of its own, which may die.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from repdl.registry import OPS
from repdl.registry.backend import get_backend
from repdl.testing import processes

GUARDED = Path(__file__).with_name("guarded.py")
ALONE = ("conv2d", "matmul", "sum", "softmax")  # those that test_planted.py asks for
OTHERS = sorted({op.family for op in OPS.values() if op.name in get_backend("cpu").ops} - set(ALONE))
GROUPS = [*((family,) for family in ALONE), *(tuple(OTHERS[i::2]) for i in (0, 1))]
"""Families of a process."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guard pages are made with Linux's mprotect")


@pytest.mark.parametrize("families", GROUPS, ids="-".join)
def test_bounds__nothing_outside_is_touched(families: tuple[str, ...]) -> None:
    child = processes.python(GUARDED, *families)
    last = "".join(child.stdout.splitlines()[-1:])
    assert child.returncode == 0 and last.endswith("cases"), f"{child.returncode} in {last}: {child.stderr[-2000:]}"


TOO_FAR = {
    "reads_past_the_end": "x = guarded(torch.ones(5)); read(x, 0, 20); print('inside', flush=True); read(x, 0, 24)",
    "writes_past_the_end": "x = guarded(torch.ones(5)); write(x, 0, 20); print('inside', flush=True); write(x, 0, 24)",
    "reads_before_the_start": (
        "x = guarded(torch.ones(5), True); read(x, 0, 20); print('inside', flush=True); read(x, -4, 4)"
    ),
    "writes_past_an_output": (
        "exec('with guarded_outputs(): x = torch.ones(5).new_empty(5)'); "
        "write(x, 0, 20); print('inside', flush=True); write(x, 0, 24)"
    ),
}


EACH_IN_A_CHILD = """
import ctypes, os, sys, torch
from repdl.testing.guarded import guarded, guarded_outputs

read = lambda x, at, n: ctypes.string_at(x.data_ptr() + at, n)
write = lambda x, at, n: ctypes.memset(x.data_ptr() + at, 0, n)
for code in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        exec(code)
        os._exit(0)
    print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
"""


def test_bounds__going_too_far_is_caught() -> None:
    done = processes.python("-c", EACH_IN_A_CHILD, *TOO_FAR.values())
    lines = done.stdout.splitlines()
    ends = dict(zip(TOO_FAR, zip(lines[::2], lines[1::2])))
    assert ends == dict.fromkeys(TOO_FAR, ("inside", str(int(signal.SIGSEGV)))), done.stderr
