"""Which compiled module runs, and how a user chooses it."""

from __future__ import annotations

import os
import subprocess
import warnings

import pytest

import repdl
import repdl_cpu
from repdl.errors import BackendError, SlowBackendWarning
from repdl.testing import processes
from repdl_cpu import isa


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter with these environment variables."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("REPDL_")}
    return processes.python("-c", code, environment={**clean, **environment})


def test_isa__supported_best_first() -> None:
    known = repdl_cpu.supported_isas()
    assert known[-1] == "baseline"
    assert known == [name for name in ("avx512", "avx2", "baseline") if name in known]


def test_isa__what_was_not_built_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isa, "find_spec", lambda name: name == "repdl_cpu._baseline" or None)
    assert isa.supported_isas() == ["baseline"]
    with pytest.raises(BackendError, match="'avx2' asked for.*supports baseline"):
        isa._load("avx2")
    monkeypatch.setattr(isa, "find_spec", lambda name: None)
    with pytest.raises(BackendError, match="and none was built.*REPDL_CPU_ISAS=all"):
        isa.supported_isas()


@pytest.mark.skipif(repdl_cpu.supported_isas() == ["baseline"], reason="this processor has no better one")
def test_isa__warns_if_the_best_was_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    best = repdl_cpu.supported_isas()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isa._best() == best
    monkeypatch.setattr(isa, "find_spec", lambda name: name == "repdl_cpu._baseline" or None)
    with pytest.warns(SlowBackendWarning, match=f"has {best}, and it was not built.*for baseline.*REPDL_CPU_ISAS=all"):
        assert isa._best() == "baseline"


def test_isa__each_supported_one_is_compiled_and_loads() -> None:
    modules = set()
    for name in repdl_cpu.supported_isas():
        with repdl_cpu.use_isa(name):
            assert repdl_cpu.get_isa() == name
            modules.add(isa.native().__name__)
    assert modules == {f"repdl_cpu._{name}" for name in repdl_cpu.supported_isas()}


def test_isa__use_isa_is_restored_after_an_error() -> None:
    before = repdl_cpu.get_isa(), isa.native()
    with pytest.raises(KeyError), repdl_cpu.use_isa("baseline"):
        raise KeyError
    assert (repdl_cpu.get_isa(), isa.native()) == before


def test_isa__use_isa_unknown() -> None:
    before = repdl_cpu.get_isa(), isa.native()
    with pytest.raises(BackendError, match="'sse9'.*supports.*baseline"), repdl_cpu.use_isa("sse9"):
        pass
    assert (repdl_cpu.get_isa(), isa.native()) == before


def test_isa__described_in_backends() -> None:
    with repdl_cpu.use_isa("baseline"):
        details = repdl.backends()["cpu"].details
    assert details["isa"] == "baseline"
    assert details["supported"].split() == repdl_cpu.supported_isas()


@pytest.mark.parametrize("name", repdl_cpu.supported_isas())
def test_isa__environment_variable(name: str) -> None:
    done = python("import repdl_cpu; print(repdl_cpu.get_isa())", REPDL_CPU_ISA=name)
    assert done.stdout.strip() == name, done.stderr


def test_isa__environment_variable_unknown() -> None:
    code = """
import repdl, torch
print(repdl.backends()["cpu"].error)
try:
    repdl.ops.mm(torch.ones(2, 2), torch.ones(2, 2))
except repdl.RepDLError as error:
    print(type(error).__name__, error)
with repdl.use_backend("reference"):
    print(repdl.ops.mm(torch.ones(2, 2), torch.ones(2, 2)).sum().item())
"""
    done = python(code, REPDL_CPU_ISA="sse9")
    assert done.returncode == 0, done.stderr
    listed, raised, reference = done.stdout.splitlines()
    for line in (listed, raised):
        assert "'sse9'" in line and "REPDL_CPU_ISA" in line and "baseline" in line
    assert raised.startswith("BackendError")
    assert reference == "8.0"
