"""Launches of the emulated kernels: the stream of each, second rounds of loops, and numbers of blocks in 64 bits."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import repdl
import repdl_cuda.native
from repdl.registry import OPS, implementations
from repdl.registry.backend import get_backend
from repdl.testing import assert_same_bits, cases, uniform
from repdl.testing.draws import large_draws
from repdl.testing.planted import plant
from repdl.testing.steps import step_arguments

BACKENDS = repdl.backends()
pytestmark = pytest.mark.usefixtures("one_stream")
EMULATED = "cuda-emulated" in BACKENDS and not BACKENDS["cuda-emulated"].error
emulated = pytest.mark.skipif(not EMULATED, reason="built without the emulated kernels")
PACKAGE = Path(__file__).parents[1]


@emulated
def test_launches__are_on_the_stream_of_the_call(one_stream: int) -> None:
    """Of three small cases of each op, and a large one."""
    module = repdl_cuda.native.load("_emulated")
    functions = implementations(get_backend("cuda-emulated"))
    with_launches = set()
    for op, function in functions.items():
        of_op = [(case, case.args("v1")) for case in cases(OPS[op].family) if case.op == op and not case.derived]
        sizes = [sum(a.numel() for a in args if isinstance(a, torch.Tensor)) for _, args in of_op]
        by_size = sorted(range(len(of_op)), key=lambda i: (not sizes[i], sizes[i]))
        for i in (*by_size[:3], *[i for i in by_size if sizes[i] < 20_000][-1:]):
            module.take_streams()
            function(*of_op[i][1])
            streams = module.take_streams()
            with_launches |= {op} if streams else set()
            assert {*streams} <= {one_stream}, f"{of_op[i][0]}: launches on {streams}, expected all on {one_stream}"
    assert {op for op, _ in module.kernels} - with_launches == set()


def step(op: str, counts: list[int]) -> tuple[Any, ...]:
    return step_arguments(op, lambda i: [t.clone() for t in uniform(i, sum(counts)).abs().split(counts)])


V1 = "v1"
ROUNDS: dict[str, tuple[str, Callable[[], tuple[Any, ...]]]] = {
    "index_sum: blocks of a row": ("index_sum", lambda: (uniform(1, 1100, 2), torch.zeros(1100).long(), 2, V1)),
    "max: elements of a lane": ("max", lambda: (uniform(1, 1500),)),
    "max: segments of a lane": ("max", lambda: (torch.arange(35.0 * 4096).flip(0).roll(34 * 4096),)),
    "max_pool2d: inputs of a thread": (
        "max_pool2d_backward", lambda: (uniform(1, 1, 1, 30, 30), torch.arange(900).view(1, 1, 30, 30), [30, 30]),
    ),
    "max_pool2d: outputs of a block": (
        "max_pool2d_backward", lambda: (uniform(1, 1, 1, 30, 30), torch.arange(900).view(1, 1, 30, 30) // 3, [30, 30]),
    ),
    "products: tiles of a block": ("matmul", lambda: (uniform(1, 130, 3), uniform(2, 3, 600), False, False, V1)),
    "rows: packs of a thread": ("softmax", lambda: (uniform(1, 2, 40_001), 1, V1)),
    "step: elements of a thread": ("sgd_step", lambda: step("sgd_step", [9000, 20_000])),
    "step: lists of tensors": ("sgd_step", lambda: step("sgd_step", [3 + i % 7 for i in range(50)])),
    "sum: batches of a lane": ("sum", lambda: (uniform(1, 3, 1024), [1], False, V1)),
    "sum: batches of one of other lanes": (
        "sum", lambda: (uniform(1, 3, 1024), [1], False, "dot_chunk=256,sum_lanes=2,sum_block=512"),
    ),
    "sum: blocks of a warp": ("softmax", lambda: (uniform(1, 2, 40_000), 1, V1)),
    "sum: joins of joins": (
        "sum", lambda: (uniform(1, 2, 70_000), [1], False, "dot_chunk=256,sum_lanes=2,sum_block=4"),
    ),
    "sum: rows of a lane of columns": ("sum", lambda: (uniform(1, 200, 40), [0], False, V1)),
}  # fmt: skip
"""A round -> an op, and arguments that reach it on one multiprocessor."""


def tensors_of(args: tuple[Any, ...]) -> list[torch.Tensor]:
    """The tensors among arguments, and in lists among them."""
    return [t for a in args for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor)]


def put_nans(args: tuple[Any, ...]) -> None:
    """NaN with other bits than that of results, in the middle and at the end of each tensor."""
    for tensor in tensors_of(args):
        if tensor.is_floating_point():
            tensor.view(torch.int32).view(-1)[[tensor.numel() // 2, -1]] = 0x7FC12345


@emulated
@pytest.mark.parametrize("nans", [False, True])
def test_launches__second_rounds_have_the_bits_of_the_reference(nans: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NaN, of kernels that write elements of several rounds."""
    monkeypatch.setenv("REPDL_EMULATION_MULTIPROCESSORS", "1")
    rounds = repdl_cuda.native.load("_emulated").rounds
    assert ROUNDS.keys() == rounds().keys()
    for name, (op, make) in ROUNDS.items():
        if nans and not name.startswith(("max_pool2d", "step")):
            continue
        results = []
        before = rounds()[name]
        for backend in ("reference", "cuda-emulated"):
            args = make()
            if nans:
                put_nans(args)
            found = implementations(get_backend(backend))[op](*args)
            results.append(tensors_of(args) if found is None else found)
        assert rounds()[name] > before, f"not reached: {name}"
        assert_same_bits(results[1], results[0], name)


@emulated
@pytest.mark.parametrize("number", range(len(large_draws(0))), ids=lambda i: f"{i}_{large_draws(0)[i][0]}")
def test_launches__draws_begin_anywhere_in_a_block(number: int) -> None:
    """A thread has a block of four numbers, of which the first and the last of a draw may have some."""
    op = large_draws(0)[number][0]
    reference, ours = (implementations(get_backend(name))[op] for name in ("reference", "cuda-emulated"))
    for count in (1, 7, 1023, 1024, 1025):
        x, _, *options = large_draws(count)[number][1]
        for offset in (0, 1, 2, 3, 2**34 - 2):
            args = x, torch.tensor([5, 1, offset]), *options
            assert_same_bits(ours(*args), reference(*args), f"{op}: {count} numbers from {offset} on")


NARROW_TYPE = r"(?:int|unsigned|std::u?int32_t)"
OF_THREAD = r"(?:thread_index\(\)|blockIdx)"


def test_launches__no_index_is_cast_to_32_bits() -> None:
    """What the compiler takes for meant: a cast of the index of a thread, or of a variable that holds it."""
    found, seen = [], 0
    for path in sorted((PACKAGE / "native").rglob("*.[ch]*")):
        text = path.read_text()
        names = re.findall(rf"(?:std::int64_t|auto) (\w+) = [^;]*{OF_THREAD}[^;]*;", text)
        seen += len(names)
        index = "|".join([OF_THREAD, *(rf"{name}\)" for name in names)])
        casts = re.findall(rf"static_cast<{NARROW_TYPE}>\((?:{index})[^;]*;", text)
        found += [f"{path.name}: {narrow}" for narrow in casts]
    assert found == []
    assert seen > 20, "kernels call the number of a thread by other names"


INDEX = "const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads * each + threadIdx.x;"
NARROW = {
    "a product in 32 bits": "const std::int64_t first = blockIdx.x * threads * each + threadIdx.x;",
    "an index of 32 bits": "const int first = static_cast<std::int64_t>(blockIdx.x) * threads * each + threadIdx.x;",
    "a block of 32 bits": "const std::int64_t first = static_cast<int>(blockIdx.x) * threads * each + threadIdx.x;",
}


@pytest.mark.parametrize("what", ["", *(pytest.param(name, marks=pytest.mark.nightly) for name in NARROW)])
def test_launches__indices_have_64_bits(what: str, tmp_path: Path) -> None:
    """A grid of as many blocks needs more memory than a test has, so that the compiler sees to it."""
    options = (PACKAGE / "emulation/CMakeLists.txt").read_text()
    flags = "-Werror=conversion -Wno-sign-conversion -Wno-float-conversion"
    assert flags in options
    text = (PACKAGE / "native/pointwise/cast.cu").read_text()
    (tmp_path / "cast.cu").write_text(plant(text, {INDEX: NARROW.get(what, INDEX)}, "cast.cu"))
    includes = [f"-I{PACKAGE / name}" for name in ("emulation", "native", "contract/include")]
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-fsyntax-only", "-DREPDL_EMULATED", "-Wno-unknown-pragmas"]
    command += [*flags.split(), *includes, "-x", "c++", str(tmp_path / "cast.cu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (what == ""), done.stderr


class OnDevice:
    """What `native.stream` asks of a tensor of the second GPU."""

    is_cuda = True

    @staticmethod
    def get_device() -> int:
        return 1


def test_launches__run_on_the_device_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the current one, which is the first."""

    def current(device: Any = 0) -> Any:
        return SimpleNamespace(cuda_stream=raw(torch.device("cuda", device).index))

    def raw(index: int) -> int:
        return 0x100 + index

    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", raw, raising=False)
    monkeypatch.setattr(torch.cuda, "current_stream", current)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert repdl_cuda.native.stream(OnDevice()) == (1, 0x101)  # type: ignore[arg-type]
    assert repdl_cuda.native.NATIVE.run(OnDevice()) == (1, 1, 0x101)  # type: ignore[arg-type]
