"""What importing and enabling RepDL leaves as it is: everything of the process but what was imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("REPDL_")}
STATE = """\
import json, locale, os, random, signal, sys, threading, warnings
import numpy, torch, torch.utils.checkpoint

def hooks():
    return [getattr(sys, name).__qualname__ for name in ("excepthook", "displayhook", "unraisablehook")]

def state():
    flags = {f"{owner.__name__}.{name}": str(getattr(owner, name)) for owner in (
        torch.backends.cudnn, torch.backends.mkldnn, torch.backends.mha, torch._C._functorch
    ) for name in ("enabled", "deterministic", "benchmark", "get_fastpath_enabled") if hasattr(owner, name)}
    return {
        "environment": dict(os.environ), "path": list(sys.path), "cwd": os.getcwd(), "hooks": hooks(),
        "finders": [str(finder) for finder in sys.meta_path], "flags": flags,
        "signals": {str(s): str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)},
        "warnings": [str(f) for f in warnings.filters], "locale": locale.setlocale(locale.LC_ALL),
        "threads": [t.name for t in threading.enumerate()], "torch threads": torch.get_num_threads(),
        "random": str(random.getstate()), "numpy": str(numpy.random.get_state()), "recursion": sys.getrecursionlimit(),
        "torch": torch.get_rng_state().tolist(), "dtype": str(torch.get_default_dtype()),
        "deterministic": torch.are_deterministic_algorithms_enabled(), "grad": torch.is_grad_enabled(),
        "precision": torch.get_float32_matmul_precision(), "switch": sys.getswitchinterval(),
    }

before = state()
import repdl, repdl.nn, repdl.optim
after = state()
print(json.dumps([key for key in before if before[key] != after[key]]))
"""


def test_import__changes_nothing_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", STATE], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_enable__leaves_the_environment_as_it_is() -> None:
    """But for the contract. Dynamo, which it loads, puts the folder of its cache there: a program's own setdefault
    came too late."""
    code = """
import os
before = dict(os.environ)
import repdl
repdl.enable()
repdl.disable()
print(sorted({*before.items()} ^ {*os.environ.items()}))
"""
    done = subprocess.run([sys.executable, "-c", code], env=CLEAN, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('REPDL_CONTRACT', 'v1')]"
