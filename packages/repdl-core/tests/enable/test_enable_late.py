"""`repdl.enable`: programs that are not edited, new processes, and ops that come later."""

from __future__ import annotations

import multiprocessing
import os
import re
import site
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from enabling import same, values

import repdl
from repdl import ops
from repdl.errors import UnsupportedError
from repdl.testing import processes

PROGRAM = """
import sys
import torch
torch.manual_seed(0)
print(sys.argv[1:], torch.randn(2).tolist())
torch.ones(2).lgamma()
"""


@pytest.mark.parametrize("way", ["run", "module", "environment"])
def test_enable__programs_that_are_not_edited(tmp_path: Path, way: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    first = repdl.random.randn(2, generator=repdl.random.Generator(0)).tolist()
    start = "from repdl.overrides.program import start; start(); import runpy; runpy.run_path('program.py')"
    command, variables = {
        "run": (["-m", "repdl", "run", "program.py", "--epochs", "3"], {}),
        "module": (["-m", "repdl", "run", "-m", "program", "--epochs", "3"], {}),
        "environment": (["-c", start, "--epochs", "3"], {"REPDL_ENABLE": "1"}),
    }[way]
    done = processes.python(*command, cwd=tmp_path, environment=os.environ | variables)
    assert done.stdout == f"['--epochs', '3'] {first}\n", done.stderr
    assert done.returncode == 1
    assert re.search(r"not reproducible: aten.lgamma.default, .*program.py:6 `torch.ones\(2\).lgamma\(\)`", done.stderr)


def test_enable__an_environment_that_is_not_understood_ends_the_process() -> None:
    start = "from repdl.overrides.program import start; start()"
    done = processes.python("-c", start, environment=os.environ | {"REPDL_ENABLE": "yes"})
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "repdl: REPDL_ENABLE is 'yes', expected 0, 1, raise or warn"


def test_enable__ops_that_python_registers_later_are_refused() -> None:
    x = values(3)
    with torch.library._scoped_library("repdl_tests", "FRAGMENT") as library, repdl.enabled():

        @torch.library.custom_op("repdl_tests::doubled", mutates_args=())
        def doubled(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        library.define("tripled(Tensor x) -> Tensor")
        library.impl("tripled", lambda x: x * 3, "CPU")
        library.define("composed(Tensor x) -> Tensor")
        library.impl("composed", lambda x: x * 4, "CompositeImplicitAutograd")
        for op in (torch.ops.repdl_tests.doubled, torch.ops.repdl_tests.tripled, doubled):
            with pytest.raises(UnsupportedError, match="repdl_tests"):
                op(x)
        library.impl("tripled", lambda x: x * 5, "CPU")  # again, on top of the refusal
        with pytest.raises(UnsupportedError, match="repdl_tests.tripled"):
            torch.ops.repdl_tests.tripled(x)
        assert same(torch.ops.repdl_tests.composed(x), ops.mul(x, 4))
        repdl.disable()
        with repdl.enabled(on_uncovered="warn"):
            library.impl("tripled", lambda x: x * 5, "CPU")
            with pytest.warns(UserWarning, match="repdl_tests.tripled"):
                assert same(torch.ops.repdl_tests.tripled(x), ops.mul(x, 5))
        assert torch.equal(torch.ops.repdl_tests.doubled(x), x * 2)
        assert torch.equal(torch.ops.repdl_tests.tripled(x), x * 5)


def test_enable__kernels_that_python_puts_over_ours_wait() -> None:
    x = values(1000)
    with torch.library._scoped_library("aten", "IMPL") as library:
        with repdl.enabled():
            library.impl("sum", lambda x, dtype=None: x.new_zeros(()), "CPU")
            assert same(x.sum(), ops.sum(x))
        assert x.sum() == 0


WORKERS = """
import sys
import torch
import repdl
from torch.utils.data import DataLoader, Dataset


class Sums(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        try:
            return torch.ones(2).lgamma()
        except repdl.errors.UnsupportedError:
            return repdl.get_contract(), torch.linspace(0, 1, 1000).sum()


if __name__ == "__main__":
    x = torch.linspace(0, 1, 1000)
    loader = DataLoader(Sums(), num_workers=1, batch_size=None, multiprocessing_context=sys.argv[1])
    with repdl.enabled(contract="sequential"):
        for expected in ("sequential", "v1"):
            repdl.set_contract(expected)  # the first is what the block began with
            ((contract, total),) = list(loader)
            assert str(contract) == expected
            assert torch.equal(total, torch.linspace(0, 1, 1000).sum())
    (found,) = list(loader)
    assert torch.is_tensor(found), found  # torch's lgamma
"""


@pytest.mark.parametrize("method", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.nightly)])
def test_enable__workers_are_enabled(tmp_path: Path, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this system")
    (tmp_path / "program.py").write_text(WORKERS)
    command = [sys.executable, "program.py", method]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


STARTS = """
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
import torch
torch.manual_seed(0)
DRAWN = torch.rand(1).item()
SUM = torch.linspace(0.1, 7, 99).softmax(0)[7].item()

def seen(_=None):
    return DRAWN, SUM, torch.linspace(0.1, 7, 99).softmax(0)[7].item()

def put(queue):
    queue.put(seen())

def check(rank, expected):
    assert seen() == expected

class Drawn(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.tensor(seen(), dtype=torch.float64)

if __name__ == "__main__":
    method = sys.argv[1]
    if method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=put, args=(queue,))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert queue.get() == seen()
        loader = torch.utils.data.DataLoader(Drawn(), num_workers=1, multiprocessing_context=method)
        assert [tuple(row[0].tolist()) for row in loader] == [seen(), seen()]
    elif method == "pool":
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            assert list(pool.map(seen, [0])) == [seen()]
    elif method == "torch":
        torch.multiprocessing.spawn(check, args=(seen(),), nprocs=1)
    elif method == "subprocess":
        done = subprocess.run([sys.executable, __file__, "child"], capture_output=True, text=True, check=True)
        assert eval(done.stdout) == seen(), done.stdout
    else:
        print(seen())
"""


def has_startup_file() -> bool:
    """Whether repdl-core is installed: a source tree on the path has no repdl_enable.pth that Python reads."""
    return any((Path(folder) / "repdl_enable.pth").exists() for folder in site.getsitepackages())


@pytest.mark.parametrize(
    "method",
    ["subprocess", *(pytest.param(w, marks=pytest.mark.nightly) for w in ("spawn", "forkserver", "pool", "torch"))],
)
def test_run__every_process_is_enabled_from_its_first_line_on(tmp_path: Path, method: str) -> None:
    if method == "subprocess" and not has_startup_file():
        pytest.skip("repdl-core is not installed")
    (tmp_path / "program.py").write_text(STARTS)
    command = [sys.executable, "-m", "repdl", "run", "program.py", method]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


LOADS = """
import sys
import torch
import repdl
x = torch.ones(2)
repdl.enable()
if sys.argv[1] == "torch":
    torch.ops.load_library(sys.argv[2])
elif sys.argv[1] == "ctypes":
    import ctypes
    ctypes.CDLL(sys.argv[2])
else:  # as a module of Python, whose code registers the ops before it is found to be none
    from importlib.machinery import ExtensionFileLoader, ModuleSpec
    loader = ExtensionFileLoader("libaoti_custom_ops", sys.argv[2])
    try:
        loader.create_module(ModuleSpec("libaoti_custom_ops", loader, origin=sys.argv[2]))
    except ImportError:
        pass
    loader.exec_module(sys)
try:
    torch.ops.aoti_custom_ops.custom_add(x, x)
except repdl.errors.UnsupportedError as error:
    assert "aoti_custom_ops.custom_add" in str(error)
    repdl.disable()
    print(torch.ops.aoti_custom_ops.custom_add(x, x).tolist())
"""


@pytest.mark.parametrize("way", ["torch", *(pytest.param(w, marks=pytest.mark.nightly) for w in ("ctypes", "module"))])
def test_enable__ops_of_libraries_that_are_loaded_later_are_refused(tmp_path: Path, way: str) -> None:
    library = Path(torch.__file__).parent / "lib/libaoti_custom_ops.so"
    if not library.exists():
        pytest.skip("this torch has no library of ops that it does not load")
    done = processes.python("-c", LOADS, way, str(library), cwd=tmp_path)
    assert done.stdout == "[2.0, 2.0]\n", done.stderr


def test_enable__kernels_of_others_that_come_and_go_between_sessions() -> None:
    """What an op on integers calls is what torch has at the time."""
    x = torch.tensor([3, 1, 2])
    expected = [3, 4, 6]
    for value in (7, 8):
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that torch's kernel is replaced, once
            library.impl("cumsum", lambda self, dim, value=value: torch.full_like(self, value), "CPU")
        with repdl.enabled():
            assert torch.cumsum(x, 0).tolist() == [value] * 3
        library._destroy()
        with repdl.enabled():
            assert torch.cumsum(x, 0).tolist() == expected
        assert torch.cumsum(x, 0).tolist() == expected


DYNAMO_LATER = """
import sys
import warnings
import torch
import repdl

x = torch.linspace(0, 1, 1000)
repdl.enable()
assert "torch._dynamo" not in sys.modules
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    total = torch.compile(lambda x: x.sum(), backend="inductor")(x)
assert torch.equal(total, repdl.ops.sum(x))
assert any("by the backend inductor runs uncompiled" in str(w.message) for w in caught), caught
run = torch._inductor.output_code.CompiledFxGraph.__call__
try:
    run(None)
except repdl.errors.UnsupportedError as error:
    assert "torch._inductor" in str(error)
else:
    raise AssertionError("not refused")
repdl.disable()
assert torch._dynamo.eval_frame._stance.stance == "default"
assert torch._inductor.output_code.CompiledFxGraph.__call__ is run.__wrapped__
assert not any("repdl" in type(finder).__module__ for finder in sys.meta_path)
with repdl.enabled():
    assert torch._dynamo.eval_frame._stance.stance == "force_eager"
"""


def test_enable__dynamo_that_is_imported_later() -> None:
    """`enable()` does not import it, which takes two seconds, and holds for it."""
    done = processes.python("-c", DYNAMO_LATER)
    assert done.returncode == 0, done.stderr
