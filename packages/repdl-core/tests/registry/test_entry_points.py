"""Backends, ops and packages that are found at a start, or are broken: each in a process of its own."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

import repdl
from repdl.testing import processes


class Site:
    """A folder on PYTHONPATH with made-up distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, distribution: str, group: str, points: str, **modules: str) -> None:
        info = self.folder / f"{distribution.replace('-', '_')}-99.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 99\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{points}\n")
        for name, code in modules.items():
            (self.folder / f"{name}.py").write_text(textwrap.dedent(code))

    def python(self, code: str, **environment: str) -> list[str]:
        """The lines that the code prints."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("REPDL_")}
        clean["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.folder), clean.get("PYTHONPATH", "")]))
        done = processes.python("-c", PRELUDE + textwrap.dedent(code), environment={**clean, **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


PRELUDE = """
import repdl, torch
ones = torch.ones(2, 2)
def attempt(function):
    try:
        print(function())
    except Exception as error:
        print(f"{type(error).__name__}: {error} <- {type(error.__cause__).__name__}")
def product():
    return repdl.ops.mm(ones, ones).sum().item()
def chosen(name):
    with repdl.use_backend(name):
        return product()
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_plugin__broken_is_reported_and_harms_nobody(site: Site) -> None:
    site.add(
        "repdl-broken",
        "repdl.backends",
        "broken = broken_plugin:backend",
        broken_plugin="raise OSError('libfoo.so not found')",
    )
    listed, normal, asked, still = site.python("""
        print(repdl.backends()["broken"].error)
        attempt(product)
        attempt(lambda: chosen("broken"))
        attempt(lambda: chosen("reference"))
    """)
    assert listed == "OSError: libfoo.so not found"
    assert normal == still == "8.0"
    assert asked.startswith("BackendError: backend 'broken' is installed but failed to load: OSError: libfoo.so")
    assert asked.endswith("<- OSError")


def test_plugin__not_a_backend(site: Site) -> None:
    site.add("repdl-odd", "repdl.backends", "odd = odd_plugin:backend", odd_plugin="backend = 7")
    listed, asked = site.python("""
        print(repdl.backends()["odd"].error)
        attempt(lambda: chosen("odd"))
    """)
    assert listed == "TypeError: odd_plugin:backend is a int, expected repdl.Backend"
    assert "failed to load: TypeError" in asked


def test_plugin__broken_cpu_is_no_silent_fallback(site: Site) -> None:
    site.add("repdl-cpu", "repdl.backends", "cpu = broken_cpu:backend", broken_cpu="raise ImportError('bad ABI')")
    listed, automatic, asked, reference = site.python("""
        print(repdl.backends()["cpu"].error)
        attempt(product)
        attempt(lambda: chosen("cpu"))
        attempt(lambda: chosen("reference"))
    """)
    assert listed == "ImportError: bad ABI"
    for line in (automatic, asked):
        assert line.startswith("BackendError: backend 'cpu' is installed but failed to load: ImportError: bad ABI")
        assert line.endswith("<- ImportError")
    assert reference == "8.0"


def test_plugin__third_party_backend_by_priority(site: Site) -> None:
    site.add(
        "their-backend",
        "repdl.backends",
        "theirs = their_backend:backend",
        their_backend="""
        import torch
        from repdl import Backend

        def matmul(input, mat2, transA, transB, contract):
            return torch.full((input.shape[0], mat2.shape[1]), 25.0)

        backend = Backend("theirs", "cpu", {"matmul": matmul}, priority=1000)
    """,
    )
    code = """
        print(repdl.backends()["theirs"].ops, repdl.backends()["theirs"].priority)
        attempt(product)
        attempt(lambda: repdl.ops.add(ones, ones).sum().item())
        attempt(lambda: chosen("reference"))
    """
    assert site.python(code) == ["1 1000", "100.0", "8.0", "8.0"]
    assert site.python("attempt(product)", REPDL_BACKEND="reference") == ["8.0"]


def test_plugin__third_party_op(site: Site) -> None:
    site.add(
        "their-op",
        "repdl.ops",
        "thrice = their_op:thrice\nbroken_op = their_op:nothing",
        their_op="""
        import repdl
        from repdl import registry

        _op = registry.define(
            "thrice", "(Tensor input) -> Tensor", namespace="theirs", distribution="their-op",
            check=lambda input: None, fake=lambda input: input.new_empty(input.shape),
        )
        for name in repdl.backends():
            registry.implement("thrice", name, lambda input: input * 3)

        def thrice(input):
            return _op(input)
    """,
    )
    assert site.python("""
        print(repdl.ops.thrice(ones).sum().item(), torch.ops.theirs.thrice(ones).sum().item())
        try:
            repdl.ops.thrice(ones.requires_grad_()).sum().backward()
        except repdl.RepDLError as error:
            print(type(error).__name__, error)
        attempt(lambda: repdl.ops.broken_op)
        attempt(lambda: repdl.ops.nosuch)
    """) == [
        "12.0 12.0",
        "UnsupportedError thrice: is not differentiable; every other op is",
        "AttributeError: module 'their_op' has no attribute 'nothing' <- NoneType",
        "AttributeError: module 'repdl.ops' has no op 'nosuch' <- NoneType",
    ]


def test_environment__backend(site: Site) -> None:
    code = """
        from repdl.registry import lookup
        attempt(product)
        print(lookup("matmul", "cpu").__module__)
    """
    assert site.python(code, REPDL_BACKEND="reference") == ["8.0", "repdl.reference.linalg.matmul"]


def test_environment__backend_unknown(site: Site) -> None:
    (line,) = site.python("attempt(product)", REPDL_BACKEND="nosuch")
    assert line.startswith("BackendError: backend 'nosuch' is not installed")


@pytest.mark.parametrize(
    ("attribute", "module", "distribution"),
    [("nn", "nn", "repdl-nn"), ("from_torch_module", "nn", "repdl-nn"), ("optim", "optim", "repdl-optim")],
)
def test_optional__not_installed(site: Site, attribute: str, module: str, distribution: str) -> None:
    (line,) = site.python(f"""
        import sys

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name == "repdl.{module}":
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Blocker())
        attempt(lambda: repdl.{attribute})
    """)
    assert line.startswith(f"ModuleNotFoundError: repdl.{module} is not installed: pip install {distribution}")


def test_optional__an_error_inside_is_not_hidden(site: Site) -> None:
    (line,) = site.python("""
        import sys

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name == "repdl.nn":
                    raise ModuleNotFoundError("No module named 'something'", name="something")

        sys.meta_path.insert(0, Blocker())
        attempt(lambda: repdl.nn)
    """)
    assert line == "ModuleNotFoundError: No module named 'something' <- NoneType"


def test_optional__no_such_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'repdl' has no attribute 'nosuch'"):
        _ = repdl.nosuch


def test_backend__a_slow_one_warns_once(site: Site) -> None:
    """Of a process without a native backend; asked for by name, it computes without a word."""
    lines = site.python("""
        import warnings
        from repdl.registry.backend import BACKENDS, unregister_backend
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            repdl.backends()
            unregister_backend("cpu")
            chosen("reference")
            print(len(caught))
            product(), repdl.ops.add(ones, ones)
            print(len(caught), caught[0].category.__name__)
            print(caught[0].message)
    """)
    assert lines[:2] == ["0", "1 SlowBackendWarning"]
    assert "; install repdl-cpu, or choose it yourself" in lines[2]
