"""The CPU kernels on other processors: recorded calls, compiled for them and repeated under an emulator.

    python tools/targets/replay.py [aarch64 riscv64 s390x ppc64le musl windows ...] [--sample N]

Every call that the golden cases make to repdl-cpu's kernels is recorded here, with all bytes of the
tensors before and after. The sources, without Python or torch, are compiled by
`<target>-linux-gnu-g++` (by $CXX for `host`, by Zig for `musl` and `windows`: this processor with another
C library) without a warning, and repeat the calls under `qemu-<target>`, `windows` under Wine: in each rounding
mode of the caller, and with flush-to-zero where the target has it.
Fails where one byte differs. What runs here is compared with the golden bits first.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import torch

import repdl
from repdl.registry import implementations
from repdl.registry.backend import get_backend
from repdl.testing import Case, cases, check_golden, covers, run
from repdl_cpu import isa

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NATIVE = ROOT / "packages/repdl-cpu/native"
FLAGS = [
    *("-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", "-pthread", "-static"),
    "-Wno-pass-failed",  # clang: what it could not vectorise
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),  # those of repdl_contractConfig.cmake
    *(f"-I{HERE}", f"-I{NATIVE}", f"-I{ROOT / 'packages/repdl-cpu/contract/include'}", "-DREPDL_MODULE=_replayed"),
]
ZIG = {"musl": "linux-musl", "windows": "windows-gnu"}
"""Targets of this processor -> what Zig calls them."""
MODES = ["nearest", "down", "up", "zero", "flush"]
THREADS = 3


def _word(value: int) -> bytes:
    return struct.pack("<q", value)


DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64),
]
"""In the order of `DType` in repdl/backend.hpp."""


class _Call:
    """The arguments of one call: their encoding, and the memory that they lie in."""

    def __init__(self) -> None:
        self.storages: list[tuple[torch.UntypedStorage, int]] = []

    def _place(self, tensor: torch.Tensor) -> bytes:
        storage = tensor.untyped_storage()
        known = [index for index, (other, _) in enumerate(self.storages) if other.data_ptr() == storage.data_ptr()]
        if not known:
            known = [len(self.storages)]
            self.storages.append((storage, tensor.element_size()))
        return _word(known[0]) + _word(int(tensor.storage_offset()) * tensor.element_size())

    def encode(self, argument: Any) -> bytes:
        if argument is None:
            return b"n"
        if isinstance(argument, bool):
            return b"b" + _word(argument)
        if isinstance(argument, int):
            return b"i" + _word(argument)
        if isinstance(argument, float):
            return b"d" + struct.pack("<d", argument)
        if isinstance(argument, str):
            return b"s" + _word(len(argument)) + argument.encode()
        if isinstance(argument, torch.dtype):
            return b"y" + _word(DTYPES.index(argument))
        if isinstance(argument, tuple):  # a contract
            return b"c" + b"".join(map(_word, argument))
        if isinstance(argument, list):
            return b"l" + _word(len(argument)) + b"".join(map(self.encode, argument))
        shape = b"".join(map(_word, (*argument.shape, *argument.stride())))
        return b"t" + self._place(argument) + _word(DTYPES.index(argument.dtype)) + _word(argument.dim()) + shape

    def contents(self) -> list[bytes]:
        return [bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy()) for storage, _ in self.storages]


class _Recorded:
    """A kernel that writes down its calls."""

    def __init__(self, kernel: Any, name: str, file: BinaryIO) -> None:
        self.layout, self.arguments = kernel.layout, kernel.arguments
        self._kernel, self._name, self._file = kernel, name.encode(), file

    def __call__(
        self,
        arguments: tuple[Any, ...],
        outputs: tuple[torch.Tensor, ...],
        run: tuple[int, int, int],
        workspace: Callable[[int], torch.Tensor],
    ) -> None:
        call = _Call()
        encoded = b"".join(map(call.encode, (*arguments, *outputs)))
        before = call.contents()
        self._kernel(arguments, outputs, run, workspace)
        self._file.write(_word(len(self._name)) + self._name + _word(len(before)))
        for old, new, (_, size) in zip(before, call.contents(), call.storages):
            self._file.write(_word(size) + _word(len(old)) + old + _word(len(new)) + new)
        self._file.write(_word(run[0]) + _word(len(arguments) + len(outputs)) + _word(len(encoded)) + encoded)


@contextmanager
def _recorded(path: Path) -> Iterator[None]:
    module = isa.native()
    with path.open("wb") as file:
        kernels = {
            (op, dtype): _Recorded(kernel, f"{op} {dtype}", file) for (op, dtype), kernel in module.kernels.items()
        }
        isa._Current.module = SimpleNamespace(kernels=kernels)
        try:
            yield
        finally:
            isa._Current.module = module


def record(chosen: Iterable[Case], contracts: Iterable[str], path: Path) -> None:
    """Write the native calls that the cases make to a file."""
    table = implementations(get_backend("cpu"))
    repdl.set_num_threads(THREADS)
    with _recorded(path):
        for case in chosen:
            for contract in contracts:
                run(case, contract, table[case.op])


def build(target: str, folder: Path) -> Path:
    """Compile the kernels and replay.cpp as one program."""
    sources = sorted(path for path in NATIVE.glob("*/*.cpp") if path.name not in ("machine.cpp", "module.cpp"))
    kernels, program = folder / "kernels.inc", folder / target
    kernels.write_text("".join(f'#include "{source}"\n' for source in sources))
    if target in ZIG:
        compiler = [sys.executable, "-m", "ziglang", "c++", "-target", f"{platform.machine()}-{ZIG[target]}"]
    else:
        compiler = [os.environ.get("CXX", "c++") if target == "host" else f"{target}-linux-gnu-g++"]
    if not shutil.which(compiler[0]):
        raise SystemExit(f"replay: {compiler[0]} is not here, expected a compiler for {target}")
    definitions = f'-DREPDL_KERNELS="{kernels}"', "-DREPDL_WINDOWS_KERNELS"
    subprocess.run([*compiler, *FLAGS, *definitions, str(HERE / "replay.cpp"), "-o", str(program)], check=True)
    return program


def emulator(target: str) -> list[str]:
    """The command that runs programs of a target."""
    if target in ("host", "musl"):
        return []
    names = ["wine64", "wine"] if target == "windows" else [f"qemu-{target}-static", f"qemu-{target}"]
    for name in names:
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/lib/wine")  # where Debian has it
        if found:
            return [found]
    raise SystemExit(f"replay: none of {', '.join(names)} is here, expected an emulator")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("targets", nargs="*", default=["aarch64", "riscv64", "s390x"], metavar="target")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth case")
    options = parser.parse_args()
    chosen = [case for case in cases() if covers(case, "cpu")][:: options.sample]
    contracts = ("v1", "sequential")
    failed = False
    with tempfile.TemporaryDirectory() as name:
        calls = Path(name) / "calls"
        for case in chosen:
            for contract in contracts:
                check_golden(case, "cpu", contract)
        record(chosen, contracts, calls)
        for target in options.targets:
            runs = emulator(target)
            program = build(target, Path(name))
            print(f"{target}:", flush=True)
            failed |= subprocess.run([*runs, str(program), str(calls), *MODES], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
